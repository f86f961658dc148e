"""Centreline: the tree of the vessel, with lengths, radii, tortuosity and bifurcations, as lines and as a table.

It is found from the closed surface alone, and so in the same way whether that was segmented or given. Lines run from
the centre of one cap to that of another, over bifurcations; radii are those of the largest balls in the vessel.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkIOXML import vtkXMLPolyDataReader

from pipeline.case.settings.base import parse
from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.files.lines import write_lines as write_vtp
from pipeline.files.mesh import Mesh, read_openings
from pipeline.files.table import write_table
from pipeline.geometry.branches.tree import Branch, Tree, trace_tree
from solver.runtime.stage import Job, StageError, run_stage


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


def summary(tree: Tree) -> dict[str, Any]:
    """Everything that is known of a tree but its lines: what ``centreline.json`` holds."""
    narrowest = tree.narrowest
    k = narrowest.narrowest
    return {
        "narrowest_radius_mm": float(narrowest.radius_mm[k]),
        "narrowest_place_mm": narrowest.points_mm[k].tolist(),
        "narrowest_branch": narrowest.id,
        "total_length_mm": sum(branch.length_mm for branch in tree.branches),
        "loops": tree.loops,
        "spacing_mm": tree.spacing_mm,
        "warnings": list(tree.warnings),
        "branches": [row(branch) for branch in tree.branches],
        "bifurcations": [
            {
                "name": joint.name,
                "place_mm": joint.place_mm.tolist(),
                "radius_mm": joint.radius_mm,
                "branches": [branch.id for branch in tree.at(joint.name)],
                "angles": [
                    {"branches": [one, other], "angle_deg": angle} for one, other, angle in tree.angles_deg(joint.name)
                ],
            }
            for joint in tree.joints.values()
            if joint.kind == "bifurcation"
        ],
        "ends": [
            {"name": joint.name, "kind": joint.kind, "place_mm": joint.place_mm.tolist(), "radius_mm": joint.radius_mm}
            for joint in tree.joints.values()
            if joint.kind != "bifurcation"
        ],
    }


def write_lines(tree: Tree, path: Path) -> None:
    """Write ``centreline.vtp``: one polyline a branch.

    Point arrays ``radius_mm``, ``way_mm`` (from the start of the branch) and ``own`` (1 outside bifurcations and blind
    ends); cell arrays with the columns of the table.
    """
    arrays: dict[str, list[NDArray[Any]]] = {
        "radius_mm": [branch.radius_mm for branch in tree.branches],
        "way_mm": [branch.way_mm for branch in tree.branches],
        "own": [branch.own.astype(np.int8) for branch in tree.branches],
    }
    write_polylines(path, [branch.points_mm for branch in tree.branches], arrays, [row(each) for each in tree.branches])


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
    reader = vtkXMLPolyDataReader()
    reader.SetFileName(str(path))
    reader.Update()
    polydata = reader.GetOutput()
    if not polydata.GetNumberOfLines():
        raise StageError(f"{path}: no lines in this file; run centreline again")
    order = vtk_to_numpy(polydata.GetLines().GetConnectivityArray())
    offsets = vtk_to_numpy(polydata.GetLines().GetOffsetsArray())[1:-1]
    points = np.split(vtk_to_numpy(polydata.GetPoints().GetData()).astype(np.float64)[order], offsets)
    radius, own = (
        np.split(vtk_to_numpy(polydata.GetPointData().GetArray(name))[order], offsets) for name in ("radius_mm", "own")
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


def _compute(job: Job) -> None:
    settings = parse(SurfaceSettings, job.settings, "--settings")
    openings = read_openings(job.inputs["openings"])
    tree = trace_tree(Mesh.read(job.inputs["surface"]), openings, settings.min_branch_radii, job.log)
    found = summary(tree)
    for each in found["branches"]:
        job.log.info("branch %(branch)d: %(from)s to %(to)s, %(length_mm).1f mm, radius %(min_radius_mm).2f to"
                     " %(max_radius_mm).2f mm", each)  # fmt: skip
    for warning in tree.warnings:
        job.log.warning("warning: %s", warning)
    job.log.info("narrowest: radius %(narrowest_radius_mm).3f mm in branch %(narrowest_branch)d", found)
    write_lines(tree, job.outputs["centreline"])
    write_table(job.outputs["branches"], tuple(found["branches"][0]), found["branches"])
    job.outputs["summary"].write_text(json.dumps(found, indent=2) + "\n")
    job.facts |= {key: found[key] for key in ("narrowest_radius_mm", "total_length_mm", "loops", "spacing_mm")}
    job.facts["branches"] = len(tree.branches)


if __name__ == "__main__":
    run_stage(
        "centreline",
        __doc__,
        inputs={"surface": "closed surface (VTP)", "openings": "openings (JSON)"},
        outputs={
            "centreline": "lines of the branches, with radii (VTP)",
            "branches": "table of the branches (CSV)",
            "summary": "branches, bifurcations, the narrowest place (JSON)",
        },
        compute=_compute,
    )
