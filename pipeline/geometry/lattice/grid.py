# SPDX-License-Identifier: Apache-2.0
"""The choice of a lattice: around a surface, or for a canonical geometry on a grid whose cells its flat walls fill."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.case.settings.geometry import VoxelizeSettings
from pipeline.files.mesh import Mesh
from pipeline.geometry.lattice.frame import MARGIN_NODES, Frame, around
from pipeline.geometry.lattice.spacing import NODES_ACROSS, Extent, Spacing
from solver.run.forecast import MIN_NODES_ACROSS
from solver.runtime.errors import StageError

NEARLY = 1e-6
"""Round-off of a length in spacings."""

BYTES_PER_NODE, BYTES_PER_FLUID_NODE = 10, 100
"""Peak memory of voxelize and decompose."""


@dataclass(frozen=True)
class Grid:
    """Nodes lie half a spacing beside the planes through the anchor, so that walls on these planes are half-way.

    Attributes
    ----------
    reference_mm : length that voxelize.nodes_across counts.
    anchor_mm : a corner of the grid's cells, (x, y, z), LPS, mm.
    periodic : whether the geometry repeats along (x, y, z).
    low_mm, high_mm : ends of the period along the axes on which it does, (x, y, z), LPS, mm.
    """

    reference_mm: float
    anchor_mm: tuple[float, float, float]
    periodic: tuple[bool, bool, bool]
    low_mm: tuple[float, float, float]
    high_mm: tuple[float, float, float]

    def spacing(self, settings: VoxelizeSettings, coarser: float = 1.0) -> Spacing:
        """The spacing of the settings, or the one that puts the wanted nodes on the reference length.

        Parameters
        ----------
        settings : what the user wants.
        coarser : factor on it. Where whole spacings fill the reference length they do so again, so that walls that
            were half-way between nodes remain so: the factor is then the nearest that does it.

        Raises
        ------
        StageError
            If the coarser lattice has fewer than `MIN_NODES_ACROSS` nodes on the reference length.
        """
        across = settings.nodes_across or NODES_ACROSS
        chosen = Spacing(self.reference_mm / across, f"{across:g} nodes on the geometry's {self.reference_mm:g} mm")
        if settings.spacing_mm != "auto":
            chosen = Spacing(settings.spacing_mm, "as voxelize.spacing_mm says")
        if coarser == 1:
            return chosen
        count = self.reference_mm / chosen.spacing_mm
        fewer = count / coarser if abs(count - round(count)) > NEARLY * count else round(count / coarser)
        if fewer < MIN_NODES_ACROSS:
            raise StageError(
                f"{fewer:.3g} nodes on the geometry's {self.reference_mm:g} mm, where the case has {count:.4g}; at"
                f" least {MIN_NODES_ACROSS:g} are wanted"
            )
        return chosen.coarsened(self.reference_mm / fewer)

    def extent(self, mesh: Mesh) -> Extent:
        """What the surface encloses within the period, on whose planes edges of its triangles lie.

        Along an axis b without a period, the flux of x_b e_b through the wall is the volume: the planes of the others
        carry none. Where all axes repeat, the wall within the period surrounds what its box lacks.
        """
        repeats, low, high = np.array(self.periodic), np.array(self.low_mm), np.array(self.high_mm)
        middle = mesh.centroids_mm()
        within = (~repeats | ((middle > low) & (middle < high))).all(axis=1)
        vectors, axis = mesh.area_vectors_mm2()[within], int(np.argmin(repeats))
        volume = (middle[within, axis] - low[axis]) @ vectors[:, axis] + repeats.all() * np.prod(high - low)
        area, wall = np.linalg.norm(vectors, axis=1), mesh.opening[within] == 0
        return Extent(float(volume), float(area[wall].sum()), float(area[~wall].sum()))

    def frame(self, mesh: Mesh, spacing_mm: float) -> Frame:
        """The lattice: the period along the axes on which it repeats, else what the surface needs.

        Raises
        ------
        StageError
            If a period is no whole number of spacings.
        """
        anchor, repeats = np.array(self.anchor_mm), np.array(self.periodic)
        low = np.where(repeats, self.low_mm, mesh.points_mm.min(axis=0))
        high = np.where(repeats, self.high_mm, mesh.points_mm.max(axis=0))
        count = np.rint((high - low) / spacing_mm)
        for axis in np.flatnonzero(repeats):
            length = (high[axis] - low[axis]) / spacing_mm
            reach = min(low[axis] - mesh.points_mm[:, axis].min(), mesh.points_mm[:, axis].max() - high[axis])
            if 0 <= reach < MARGIN_NODES * spacing_mm:
                raise StageError(
                    f"the geometry repeats along {'xyz'[axis]}, but its surface reaches only {reach:g} mm beyond the"
                    f" period: at least {MARGIN_NODES} spacings of {spacing_mm:.6g} mm are wanted; let it reach farther"
                )
            if abs(length - count[axis]) > NEARLY * max(1, count[axis]) or count[axis] < 1:
                raise StageError(
                    f"the geometry repeats along {'xyz'[axis]} after {high[axis] - low[axis]:g} mm, that is"
                    f" {length:.6g} spacings of {spacing_mm:.6g} mm: a whole number is wanted; change"
                    " voxelize.nodes_across or voxelize.spacing_mm, or the length of the geometry"
                )
        first = np.ceil((low - anchor) / spacing_mm - 0.5 - NEARLY)
        last = np.floor((high - anchor) / spacing_mm - 0.5 + NEARLY)
        first, last = np.where(repeats, first, first - MARGIN_NODES), np.where(repeats, 0, last + MARGIN_NODES)
        width, height, depth = np.where(repeats, count, last - first + 1).astype(int).tolist()
        x, y, z = (anchor + (first + 0.5) * spacing_mm).tolist()
        return Frame(spacing_mm, (x, y, z), (depth, height, width), self.periodic)


def choose_frame(mesh: Mesh, spacing_mm: float, grid: Grid | None = None) -> Frame:
    """Put a lattice around the surface, off its planes or on a grid, however large it is.

    Parameters
    ----------
    mesh : closed surface, mm, LPS.
    spacing_mm : of the nodes, along all axes.
    grid : of a canonical geometry; none: the lattice is put around the surface.
    """
    return grid.frame(mesh, spacing_mm) if grid else around(mesh, spacing_mm)


def extent_of(mesh: Mesh, grid: Grid | None) -> Extent:
    """What is filled with nodes: all that the surface encloses, or one period of it."""
    return grid.extent(mesh) if grid else Extent.of(mesh)


def memory_bytes(shape: tuple[int, int, int], fluid_nodes: float) -> float:
    """Peak memory of voxelize and decompose for a lattice of nodes along (z, y, x)."""
    return BYTES_PER_NODE * float(np.prod(shape)) + BYTES_PER_FLUID_NODE * fluid_nodes


def read_grid(path: Path) -> Grid | None:
    """The key ``frame`` of the openings' file, where a canonical geometry was made; else none.

    Raises
    ------
    StageError
        If it is not such an entry.
    """
    try:
        entry = _read(path).get("frame")
        if entry is None:
            return None
        anchor, low, high = (_place(entry[name]) for name in ("anchor_mm", "low_mm", "high_mm"))
        along_x, along_y, along_z = map(bool, entry["periodic"])
        grid = Grid(float(entry["reference_mm"]), anchor, (along_x, along_y, along_z), low, high)
        if not (grid.reference_mm > 0 and np.isfinite((anchor, low, high)).all()):
            raise ValueError("a positive length and finite places are wanted")
    except (KeyError, TypeError, ValueError) as error:
        raise StageError(f"{path}: cannot be read as a geometry's frame ({error!r}); make the surface again") from None
    return grid


def read_patches(path: Path) -> tuple[str, ...]:
    """The key ``patches`` of the openings' file: names of the surface's patches 1, 2, ... in their order.

    Raises
    ------
    StageError
        If it is no list of different names.
    """
    try:
        names = _read(path).get("patches", [])
    except ValueError as error:
        raise StageError(f"{path}: cannot be read ({error}); make the surface again") from None
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names) and len({*names}) == len(names)):
        raise StageError(f"{path}: patches {names!r}; a list of different names is wanted, make the surface again")
    return tuple(names)


def _place(values: Any) -> tuple[float, float, float]:
    x, y, z = map(float, values)
    return x, y, z


def _read(path: Path) -> dict[str, Any]:
    entries = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(entries, dict):
        raise ValueError("no object")
    return entries
