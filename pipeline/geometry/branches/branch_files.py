# SPDX-License-Identifier: Apache-2.0
"""Branches of a vessel as files: lines with radii (VTP), and the rows of their table."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from vtkmodules.util.numpy_support import vtk_to_numpy

from pipeline.files import vtk_file
from pipeline.files.lines import write_lines as write_vtp
from pipeline.geometry.branches.vessel_tree import Branch, Tree
from solver.runtime.errors import StageError

RADIUS = "radius (mm)"
"""Array of the radii along the lines."""


def row(branch: Branch) -> dict[str, Any]:
    """What the table says of a branch: one value a column, none where there is no such thing."""
    k = branch.narrowest
    x, y, z = branch.points_mm[k].tolist()
    return {
        "branch": branch.id,
        "parent": branch.parent or None,
        "from": branch.start,
        "to": branch.stop,
        "leads_to_opening": branch.leads,
        "length_mm": branch.length_mm,
        "chord_mm": branch.chord_mm,
        "tortuosity": branch.tortuosity,
        "min_radius_mm": float(branch.radius_mm[k]),
        "mean_radius_mm": branch.mean_radius_mm,
        "max_radius_mm": branch.max_radius_mm,
        "min_at_mm": float(branch.way_mm[k]),
        "min_x_mm": x,
        "min_y_mm": y,
        "min_z_mm": z,
    }


def write_lines(tree: Tree, path: Path) -> None:
    """Write ``centreline.vtp``: one polyline a branch.

    Point arrays ``radius (mm)``, ``way (mm)`` (from the start of the branch) and ``own`` (1 outside bifurcations and
    blind ends); cell arrays with the columns of the table, ``length (mm)`` for ``length_mm``.
    """
    arrays: dict[str, list[NDArray[Any]]] = {
        RADIUS: [branch.radius_mm for branch in tree.branches],
        "way (mm)": [branch.way_mm for branch in tree.branches],
        "own": [branch.own.astype(np.int8) for branch in tree.branches],
    }
    rows = [{_in_words(name): value for name, value in row(each).items()} for each in tree.branches]
    write_polylines(path, [branch.points_mm for branch in tree.branches], arrays, rows)


def _in_words(column: str) -> str:
    """Name of the array of a column with a unit, as ParaView's other arrays have it."""
    return f"{column.removesuffix('_mm').replace('_', ' ')} (mm)" if column.endswith("_mm") else column


def write_polylines(
    path: Path,
    lines_mm: Sequence[NDArray[np.float64]],
    arrays: Mapping[str, Sequence[NDArray[Any]]],
    rows: Sequence[Mapping[str, Any]],
) -> None:
    """Write lines as VTP; a file without points where there are no lines.

    Parameters
    ----------
    path : file to write.
    lines_mm : points of each line, (n, 3), LPS, mm.
    arrays : values at the points of each line by name, each (n,).
    rows : what is said of each line; becomes the cell arrays.

    Raises
    ------
    StageError
        If the file cannot be written.
    """
    offsets = np.concatenate([[0], np.cumsum([len(points) for points in lines_mm])]).astype(np.int64)
    at_points = {name: np.concatenate(parts) if len(parts) else np.empty(0) for name, parts in arrays.items()}
    columns = {name: _column(name, [each[name] for each in rows]) for name in (rows[0] if rows else ())}
    write_vtp(path, np.concatenate([np.empty((0, 3)), *lines_mm]), offsets, at_points, columns)


def _column(name: str, values: list[Any]) -> NDArray[Any]:
    """A cell array: words, whole numbers (0 for none), or numbers (NaN for none)."""
    if isinstance(values[0], str):
        return np.array(values)
    if name in ("branch", "parent", "leads_to_opening"):
        return np.array([value or 0 for value in values], np.int32)
    return np.array([np.nan if value is None else value for value in values])


def read_lines(path: Path) -> list[NDArray[np.float64]]:
    """Lines of a file written by :func:`write_lines`: one array a branch, (n, 4): x, y, z and radius, mm."""
    return [np.column_stack([branch.points_mm, branch.radius_mm]) for branch in read_branches(path)]


def read_branches(path: Path) -> tuple[Branch, ...]:
    """Branches of a file written by :func:`write_lines`.

    Raises
    ------
    StageError
        If the file holds no lines.
    """
    polydata = vtk_file.read_polydata(path)
    if not polydata.GetNumberOfLines():
        raise StageError(f"{path}: no lines in this file; run centreline again")
    order = vtk_to_numpy(polydata.GetLines().GetConnectivityArray())
    offsets = vtk_to_numpy(polydata.GetLines().GetOffsetsArray())[1:-1]
    points = np.split(vtk_to_numpy(polydata.GetPoints().GetData()).astype(np.float64)[order], offsets)
    radius, own = (
        np.split(vtk_to_numpy(polydata.GetPointData().GetArray(name))[order], offsets) for name in (RADIUS, "own")
    )
    of_branch = polydata.GetCellData()
    return tuple(
        Branch(
            id=of_branch.GetArray("branch").GetValue(k),
            start=of_branch.GetAbstractArray("from").GetValue(k),
            stop=of_branch.GetAbstractArray("to").GetValue(k),
            parent=of_branch.GetArray("parent").GetValue(k),
            points_mm=points[k],
            radius_mm=radius[k],
            own=own[k] > 0,
            leads=bool(of_branch.GetArray("leads_to_opening").GetValue(k)),
        )
        for k in range(polydata.GetNumberOfLines())
    )


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of the branches in ``centreline.json``.

    Raises
    ------
    StageError
        If the file holds none.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["branches"]
        if not rows:
            raise ValueError("no branches")
    except (ValueError, TypeError, KeyError) as error:
        raise StageError(f"{path}: no table of branches ({error!r}); run centreline again") from None
    return list(rows)
