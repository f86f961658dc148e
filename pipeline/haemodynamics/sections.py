# SPDX-License-Identifier: Apache-2.0
"""Sections across the branches of a vessel, and the operator that carries a field from the fluid nodes to them.

A section is where a plane across the line cuts the surface: the one closed loop around the line's point. Flow and
pressure through it come from the fluid nodes in a thin slab about the plane, as at the openings, and so are linear in
the values at the nodes: an operator that is found once serves all times.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from pipeline.files.mesh import Mesh
from pipeline.haemodynamics.accumulator import SLAB_CENTRE, SLAB_HALF_WIDTH, hann
from pipeline.haemodynamics.blocks import Blocks
from pipeline.haemodynamics.wall_shear_stress import Wall, place_at
from solver.domain.nodes import Nodes

if TYPE_CHECKING:  # thinning and its libraries, which those who read numbers do not need
    from pipeline.geometry.branches.vessel_tree import Branch

STEP_RADII, STEP_SPACINGS = 0.5, 2.0
"""Distance of neighbouring stations along a branch, in radii of the vessel, but at least so many spacings."""

MAX_AREA_DIFFERENCE = 0.1
"""Where the slab's nodes stand for an area that differs from the loop's by more, the slab holds other lumen than that
about the loop. The area of the nodes of a round tube 8 nodes across is within 3 % of the true one."""

MAX_TILT = 0.3
"""Largest spread around a section of the cosine between the wall's normal and the line. A plane that is tilted by an
angle t against a tube has sin(t)/sqrt(2), so that 25 degrees and an area 10 % too large are let pass; a plane through a
bifurcation or through a sac beside the vessel has more, a plane straight through a cone none."""

NEARLY_LEAST, MOST_LOOKED_AT = 1.5, 60
"""Where the least section of a branch is looked for: up to so many times its least radius, in so many places."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Loop:
    """The closed curve in which a plane cuts the wall around a point.

    Attributes
    ----------
    place_mm, direction : the point, and the plane's unit normal, (3,).
    start_mm, stop_mm : (K, 3), ends of the curve's pieces, one a triangle; counter-clockwise about the direction.
    area_mm2 : what it encloses.
    tilt : spread around the curve of the cosine between the wall's normal and the direction.
    """

    place_mm: Floats
    direction: Floats
    start_mm: Floats
    stop_mm: Floats
    area_mm2: float
    tilt: float

    @property
    def reach_mm(self) -> float:
        """Largest distance of the curve from the point, mm."""
        return float(np.linalg.norm(self.start_mm - self.place_mm, axis=1).max())

    def holds(self, points_mm: Floats) -> NDArray[np.bool_]:
        """Which points of the plane, (N, 3), the curve goes around, (N,)."""
        angle = _angles(self.start_mm - points_mm[:, None], self.stop_mm - points_mm[:, None], self.direction)
        return np.abs(angle.sum(axis=1)) > np.pi


def _angles(first: Floats, second: Floats, about: Floats) -> Floats:
    """Signed angles between vectors, (..., 3), about a direction; radian."""
    return np.asarray(np.arctan2(np.cross(first, second) @ about, np.einsum("...i,...i->...", first, second)))


def loop_around(blocks: Blocks, place_mm: Floats, direction: Floats) -> Loop | None:
    """The section of a closed surface by the plane through a point, as far as it is the wall around that point.

    The plane cuts a triangle in a straight piece; pieces that meet on an edge belong to the same curve. Of the curves
    that go once around the point with the lumen inside, it is the smallest. What lies free in the lumen is not taken
    off its area.

    Parameters
    ----------
    blocks : of a surface that is closed, outward.
    place_mm : in the lumen, (x, y, z), LPS.
    direction : unit normal of the plane.

    Returns
    -------
    None where no curve goes around the point, or a cap has a part in it.
    """
    surface, near = blocks.mesh, blocks.met_by(place_mm, direction)
    height, corners = np.empty(len(surface.points_mm)), surface.triangles[near]
    height[corners.ravel()] = (surface.points_mm[corners.ravel()] - place_mm) @ direction
    above = height[corners] >= 0
    crossed = above.any(axis=1) & ~above.all(axis=1)
    cut, above = near[crossed], above[crossed]
    if not len(cut):
        return None
    upper = above.sum(axis=1) == 1
    alone = np.where(upper, above.argmax(axis=1), (~above).argmax(axis=1))
    apex, left, right = (surface.triangles[cut, (alone + k) % 3] for k in range(3))
    edges = [np.where(upper, left, right), np.where(upper, right, left)]
    keys = [np.minimum(apex, end) * len(height) + np.maximum(apex, end) for end in edges]
    ends = [
        surface.points_mm[apex]
        + (height[apex] / (height[apex] - height[end]))[:, None] * (surface.points_mm[end] - surface.points_mm[apex])
        for end in edges
    ]
    label = _curves(*keys)
    start, stop = ends[0] - place_mm, ends[1] - place_mm
    turns = np.bincount(label, _angles(start, stop, direction)) / (2 * np.pi)
    areas = np.bincount(label, np.cross(start, stop) @ direction / 2)
    around = np.flatnonzero(turns > 0.5)
    if not len(around):
        return None
    chosen = around[np.argmin(areas[around])]
    mine = label == chosen
    if surface.opening[cut[mine]].any():
        return None
    tilt = _tilt(surface.points_mm[surface.triangles[cut[mine]]], direction, (stop - start)[mine])
    return Loop(place_mm, direction, ends[0][mine], ends[1][mine], float(areas[chosen]), tilt)


def least_section(blocks: Blocks, branch: "Branch") -> Loop | None:
    """The section of least area of a branch, looked for where its largest balls are the smallest.

    A lumen that is flat where it is narrow lets through more than its largest ball. Planes that lie askew, or through a
    bifurcation, have too large areas: they count where there are no others.

    Parameters
    ----------
    blocks : of a surface that is closed, outward.
    branch : whose line is walked along.

    Returns
    -------
    None where no plane cuts the wall alone.
    """
    rows = np.flatnonzero(branch.own) if branch.own.any() else np.arange(len(branch.points_mm))
    least_mm = float(branch.radius_mm[rows].min())
    near = rows[branch.radius_mm[rows] <= NEARLY_LEAST * least_mm]
    near = near[np.unique(np.linspace(0, len(near) - 1, MOST_LOOKED_AT).astype(int))]
    found = []
    for row in near:
        start, stop = np.searchsorted(branch.way_mm, branch.way_mm[row] + least_mm * np.array([-1.0, 1.0]))
        ahead = branch.points_mm[min(stop, len(branch.points_mm) - 1)] - branch.points_mm[max(start - 1, 0)]
        loop = loop_around(blocks, branch.points_mm[row], ahead / max(float(np.linalg.norm(ahead)), 1e-12))
        if loop is not None:
            found.append(loop)
    return min(found, key=lambda loop: (loop.tilt > MAX_TILT, loop.area_mm2), default=None)


def _tilt(corners: Floats, direction: Floats, pieces: Floats) -> float:
    """Standard deviation of the cosine between triangles' normals and a direction, weighted by pieces' lengths."""
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    cosine = normals @ direction / np.maximum(np.linalg.norm(normals, axis=1), 1e-30)
    length = np.linalg.norm(pieces, axis=1)
    mean = length @ cosine / length.sum()
    return float(np.sqrt(length @ (cosine - mean) ** 2 / length.sum()))


def _curves(start: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of the curve to which each piece belongs, from the edges on which it begins and ends."""
    edges, rows = np.unique(np.concatenate([start, stop]), return_inverse=True)
    links = csr_array((np.ones(len(start)), (rows[: len(start)], rows[len(start) :])), shape=(len(edges),) * 2)
    return np.asarray(connected_components(links, directed=False)[1][rows[: len(start)]], np.int64)


@dataclass(frozen=True)
class Stations:
    """Places along the branches, S of them, by branch and way, and the operator from the N fluid nodes to them.

    Attributes
    ----------
    branch, row : (S,), row of the branch, and of the point of its line.
    points_mm, directions : (S, 3), LPS, and unit vectors along the lines, away from the root.
    way_mm, radius_mm : (S,), from the start of the branch; of the largest ball.
    area_mm2 : (S,) section of the surface; NaN where it is not that of this branch alone, or the lattice differs.
    areas_mm2 : (S, N) sparse, what each node of the slab stands for: with the speed along the line, the flow.
    shares : (S, N) sparse, mean over the section; exact for what is linear along the line.
    middle : (S, N) sparse, nodes within one spacing of the section.
    """

    branch: NDArray[np.int64]
    row: NDArray[np.int64]
    points_mm: Floats
    directions: Floats
    way_mm: Floats
    radius_mm: Floats
    area_mm2: Floats
    areas_mm2: csr_array
    shares: csr_array
    middle: csr_array

    @property
    def count(self) -> int:
        """Number of stations."""
        return len(self.row)

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Which stations have a section, (S,)."""
        return np.isfinite(self.area_mm2)

    def on_their_nodes(self) -> tuple[NDArray[np.int64], "Stations"]:
        """The nodes that operators take, (M,) ascending rows, and the stations with operators from these, (S, M)."""
        operators = self.areas_mm2, self.shares, self.middle
        taken = np.unique(np.concatenate([each.indices for each in operators])).astype(np.int64)
        shape = self.count, len(taken)
        parts = [
            csr_array((each.data, np.searchsorted(taken, each.indices), each.indptr), shape=shape) for each in operators
        ]
        return taken, replace(self, areas_mm2=parts[0], shares=parts[1], middle=parts[2])


def find_stations(branches: Sequence["Branch"], surface: Mesh, nodes: Nodes) -> Stations:
    """Places along the branches and their sections.

    A station stands every half radius, but not nearer to the last than two spacings, and at the narrowest place; not in
    the balls of bifurcations, not in blind ends, and not where its slab would reach the layer of nodes at a cap. Its
    section is that of this branch alone if the lines of all branches pass through the loop once, if the wall runs along
    the line all around it, and if the slab's nodes fill it.

    Parameters
    ----------
    branches : of the tree of the vessel.
    surface : closed, outward, the caps tagged.
    nodes : the lattice.
    """
    picked = [(k, row) for k, branch in enumerate(branches) for row in _station_rows(branch, nodes)]
    branch, row = (np.array(each, np.int64) for each in (zip(*picked, strict=True) if picked else ((), ())))
    tangents = [np.gradient(each.points_mm, axis=0) for each in branches]
    tangents = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in tangents]
    points = np.array([branches[k].points_mm[j] for k, j in picked]).reshape(-1, 3)
    directions = np.array([tangents[k][j] for k, j in picked]).reshape(-1, 3)
    places, lattice, blocks = nodes.points_mm(), cKDTree(nodes.points_mm()), Blocks.of(surface)
    area = np.full(len(picked), np.nan)
    entries: list[tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats]] = []
    for k in range(len(picked)):
        loop = loop_around(blocks, points[k], directions[k])
        slab = _slab_about(loop, nodes, places, lattice) if loop and _is_of_one(loop, branches) else None
        if loop and slab:
            area[k] = loop.area_mm2
            entries.append((np.full(len(slab[0]), k, np.int64), *slab))
    numbers, rows, areas, heights = (np.concatenate(each) for each in zip(*entries, strict=True)) if entries else _NONE
    shape = len(picked), nodes.count
    near = np.abs(heights) <= nodes.spacing_mm
    return Stations(
        branch,
        row,
        points,
        directions,
        np.array([branches[k].way_mm[j] for k, j in picked]),
        np.array([branches[k].radius_mm[j] for k, j in picked]),
        area,
        csr_array((areas, (numbers, rows)), shape=shape),
        csr_array((_at_section(numbers, areas, heights, len(picked)), (numbers, rows)), shape=shape),
        csr_array((np.ones(near.sum()), (numbers[near], rows[near])), shape=shape),
    )


_NONE = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0))


def _station_rows(branch: "Branch", nodes: Nodes) -> list[int]:
    """Points of a branch's line at which stations stand."""
    way, free = branch.way_mm, branch.own & ~_near_caps(branch.points_mm, nodes)
    rows: list[int] = []
    for row in np.flatnonzero(free).tolist():
        step = max(STEP_RADII * branch.radius_mm[row], STEP_SPACINGS * nodes.spacing_mm)
        if not rows or way[row] - way[rows[-1]] >= step:
            rows.append(row)
    return sorted({*rows, branch.narrowest}) if free[branch.narrowest] else rows


def _near_caps(points_mm: Floats, nodes: Nodes) -> NDArray[np.bool_]:
    """Which points, (N,), lie so near to a cap that a slab about them would touch it or the layer of nodes there."""
    near = np.zeros(len(points_mm), bool)
    for opening in nodes.openings:
        depth, beside = place_at(opening, points_mm)
        near |= (depth < SLAB_CENTRE * nodes.spacing_mm) & (depth > -opening.radius_mm) & (beside < opening.radius_mm)
    return near


def _is_of_one(loop: Loop, branches: Sequence["Branch"]) -> bool:
    """Whether a section lies across one branch: the lines of all branches pass through it once, as does the wall."""
    if loop.tilt > MAX_TILT:
        return False
    crossings = []
    for branch in branches:
        height = (branch.points_mm - loop.place_mm) @ loop.direction
        before = np.flatnonzero((height[:-1] >= 0) != (height[1:] >= 0))
        part = (height[before] / (height[before] - height[before + 1]))[:, None]
        crossings.append((1 - part) * branch.points_mm[before] + part * branch.points_mm[before + 1])
    return int(loop.holds(np.concatenate(crossings)).sum()) == 1


def _slab_about(
    loop: Loop, nodes: Nodes, places_mm: Floats, lattice: cKDTree
) -> tuple[NDArray[np.int64], Floats, Floats] | None:
    """Nodes of the lumen about a section, what area each stands for, and their heights over it, (K,) each.

    The flow is averaged over parallel sections with a Hann window, as at the openings; the nodes are the connected
    piece of the slab around the point. None if the area that they stand for is not the loop's.
    """
    dx, half = nodes.spacing_mm, SLAB_HALF_WIDTH * nodes.spacing_mm
    reach = loop.reach_mm + dx
    rows = np.array(lattice.query_ball_point(loop.place_mm, float(np.hypot(reach, half)), return_sorted=True), np.int64)
    height = (places_mm[rows] - loop.place_mm) @ loop.direction
    rows, height = rows[np.abs(height) < half], height[np.abs(height) < half]
    if not len(rows):
        return None
    corner = nodes.position[rows].min(axis=0)
    box = np.zeros(nodes.position[rows].max(axis=0) - corner + 1, np.int8)
    at = tuple((nodes.position[rows] - corner).T)
    box[at] = 1
    piece = ndimage.label(box, np.ones((3, 3, 3)))[0][at]
    mine = piece == piece[np.linalg.norm(places_mm[rows] - loop.place_mm, axis=1).argmin()]
    areas = hann(height[mine], half) * dx**3
    if abs(areas.sum() / loop.area_mm2 - 1) > MAX_AREA_DIFFERENCE:
        return None
    return rows[mine], areas, height[mine]


def _at_section(numbers: NDArray[np.int64], areas: Floats, heights: Floats, count: int) -> Floats:
    """Weights of the nodes in the mean over each section: the value at height 0 of a straight line through the slab."""

    def summed(values: Floats) -> Floats:
        return np.bincount(numbers, values, count).astype(np.float64)[numbers]

    share = areas / summed(areas)
    height = summed(share * heights)
    spread = summed(share * (heights - height) ** 2)
    return share * (1 - height * (heights - height) / spread)


def wall_of_stations(
    stations: Stations, branches: Sequence["Branch"], wall: Wall, counted: NDArray[np.bool_]
) -> csr_array:
    """Area of the wall at each vertex that belongs to each station, (S, V) sparse, mm2.

    A vertex x belongs to that point of all lines whose ball, of centre c and radius r, touches the wall nearest to it:
    the power distance |x - c|^2 - r^2 is least, and never negative, since no vertex lies within a ball. Of a branch's
    own points it belongs to the nearest station along the line, no further than half-way to the station behind.

    Parameters
    ----------
    stations, branches : the places along the lines.
    wall : of the vessel.
    counted : (V,), vertices that belong to a station at all.

    Source of the distance: Aurenhammer (1987), doi:10.1137/0216006.
    """
    radius = np.concatenate([branch.radius_mm for branch in branches])
    points = np.concatenate([branch.points_mm for branch in branches])
    lifted = np.column_stack([points, np.sqrt(np.maximum(radius.max() ** 2 - radius**2, 0))])
    flat = np.column_stack([wall.mesh.points_mm, np.zeros(len(wall.normals))])
    nearest = cKDTree(lifted).query(flat)[1]
    first = np.cumsum([0, *(len(branch.radius_mm) for branch in branches)])
    station = np.full(len(points), -1)
    for k, branch in enumerate(branches):
        mine = np.flatnonzero(stations.branch == k)
        if not len(mine):
            continue
        away = np.abs(branch.way_mm[:, None] - stations.way_mm[mine])
        steps = np.diff(stations.way_mm[mine])
        reach = np.maximum(np.append(steps, 0), np.insert(steps, 0, 0)) / 2 if len(mine) > 1 else branch.radius_mm[:1]
        near = away.argmin(axis=1)
        own = branch.own & (away.min(axis=1) <= reach[near] * (1 + 1e-9))
        station[first[k] : first[k + 1]][own] = mine[near[own]]
    found = station[nearest]
    belongs = np.flatnonzero((found >= 0) & counted)
    return csr_array((wall.areas_mm2[belongs], (found[belongs], belongs)), shape=(stations.count, len(flat)))
