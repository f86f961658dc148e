# SPDX-License-Identifier: Apache-2.0
"""Where the surface crosses the lattice, and which nodes are inside.

A lattice line runs through nodes along one of nine pairs of opposite directions, or thirteen with corners. Seen along
it, every triangle is a triangle of the plane and every line a point of it, so that all crossings are found by
rasterising the triangles, once a pair. Corners are rounded to 1/65536 of a spacing, which makes the test exact in
integers; a line that meets an edge or a corner belongs to one side as if it were shifted by an infinitesimal amount
(Edelsbrunner and Mücke 1990, doi:10.1145/77635.77639). A closed surface thus has no gap and no double hit, and the
nodes inside and the links' crossings cannot disagree unless a node lies on the surface to within round-off.

Along axes on which the lattice repeats the surface reaches beyond it. There one layer of nodes stands around the
lattice that repeats those of its other side; crossings farther away are left out.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from pipeline.files.mesh import Mesh
from pipeline.geometry.lattice.frame import Frame
from solver.domain.nodes import STEPS
from solver.kernels.compilation import inner_function
from solver.kernels.d3q19 import Q
from solver.runtime.errors import StageError

SUBDIVISIONS = 1 << 16
"""Steps of the integer grid in a spacing."""

MAX_NODES = 1 << 13
"""Nodes along an axis, or beyond the lattice, for which products of two sheared integer lengths are at most 2^62."""

CHUNK = 1 << 12
"""Triangles that one thread takes at a time."""


@dataclass(frozen=True)
class Crossings:
    """Crossings of the surface with all lattice lines along one direction, (C,) each, in the order of the lines' nodes.

    Attributes
    ----------
    node : place in the flattened padded lattice of the last node before the crossing.
    fraction : distance from that node over the length of the link, in (0, 1].
    leaving : 1 where the line leaves the vessel, -1 where it enters.
    met : what is crossed: 0 for the wall, -p for its patch p, o for the cap of opening o.
    """

    node: NDArray[np.int64]
    fraction: NDArray[np.float64]
    leaving: NDArray[np.int8]
    met: NDArray[np.int8]


@dataclass(frozen=True)
class Raster:
    """A surface as the lattice sees it.

    Attributes
    ----------
    frame : where the lattice lies.
    winding : [z, y, x] of the padded lattice, see :func:`winding`.
    crossings : along the directions 1, 3, ... 17, or 25 with corners.
    """

    frame: Frame
    winding: NDArray[np.int8]
    crossings: dict[int, Crossings]

    @property
    def enclosed(self) -> NDArray[np.bool_]:
        """Nodes of the lattice that the surface encloses, [z, y, x]."""
        return np.ascontiguousarray(self.frame.core(self.winding) > 0)


def rasterise(mesh: Mesh, frame: Frame, q: int = Q) -> Raster:
    """Cross the surface with all lattice lines along the directions of D3Q19, or with `q` = 27 of D3Q27.

    Parameters
    ----------
    mesh : closed surface, mm, LPS.
    frame : where the lattice lies.
    q : 19 or 27 velocities.

    Raises
    ------
    StageError
        As :func:`crossings` and :func:`winding`.
    """
    return Raster(
        frame, _padded_winding(mesh, frame), {forward: crossings(mesh, frame, forward) for forward in range(1, q, 2)}
    )


def crossings(mesh: Mesh, frame: Frame, direction: int) -> Crossings:
    """Cross the surface with all lattice lines along a direction whose first component that is not 0 is 1.

    Parameters
    ----------
    mesh : closed surface, mm, LPS.
    frame : where the lattice lies.
    direction : of the lines, its number in D3Q27, which is odd.

    Raises
    ------
    StageError
        If the surface does not lie inside the lattice, or the lattice is too long for exact integers.
    """
    found = _scan(mesh, frame, direction, clamped=False)
    order = np.argsort(found.node, kind="stable")
    node, fraction, leaving, met = (array[order] for array in vars(found).values())
    _sort_within_links(node, fraction, leaving, met)
    return Crossings(node, fraction, leaving, met)


def inside(mesh: Mesh, frame: Frame) -> NDArray[np.bool_]:
    """Nodes that the surface encloses, [z, y, x]: those around which it winds."""
    return winding(mesh, frame) > 0


def winding(mesh: Mesh, frame: Frame) -> NDArray[np.int8]:
    """How often the surface winds around each node, [z, y, x]: 0 outside and 1 inside, unless it overlaps itself.

    Raises
    ------
    StageError
        As :func:`crossings`, and if the surface does not repeat where the lattice does.
    """
    return frame.core(_padded_winding(mesh, frame))


def _padded_winding(mesh: Mesh, frame: Frame) -> NDArray[np.int8]:
    found = _scan(mesh, frame, 1, clamped=True)
    times = np.zeros(frame.padded().shape, np.int8)
    np.subtract.at(times.reshape(-1), found.node + 1, found.leaving)
    _sum_along_x(times)
    if any(frame.periodic) and (wrong := int((frame.pad(frame.core(times)) != times).sum())):
        raise StageError(
            f"the surface does not repeat where the lattice does: {wrong} nodes beyond its borders differ from those on"
            " the other side; let it reach two spacings beyond low_mm and high_mm, or correct frame in openings.json"
        )
    return times


@njit(parallel=True, cache=True)
def _sum_along_x(times: NDArray[np.int8]) -> None:
    for z in prange(times.shape[0]):
        for y in range(times.shape[1]):
            row = times[z, y]
            for x in range(1, len(row)):
                row[x] += row[x - 1]


def _scan(mesh: Mesh, frame: Frame, direction: int, clamped: bool) -> Crossings:
    """Crossings in the order of the triangles; `clamped`: those before the padded lattice stand at its border."""
    velocity = STEPS[direction].astype(np.int64)
    along = int(np.flatnonzero(velocity)[0])
    across = (along + 1) % 3, (along + 2) % 3
    points = _integer_points(mesh, frame)
    sheared = np.stack([points[:, k] - velocity[k] * points[:, along] for k in across] + [points[:, along]], axis=1)
    padded = frame.padded()
    size, moves = np.array(padded.shape[::-1])[[*across, along]], velocity[[*across, along]]
    strides = np.array([*padded.strides[list(across)], padded.step(direction)])
    met = mesh.opening if mesh.patch is None else np.where(mesh.opening > 0, mesh.opening, -mesh.patch).astype(np.int8)

    given = (sheared, mesh.triangles, met, size, moves, strides, clamped)
    chunks = -(-len(mesh.triangles) // CHUNK)
    starts = np.zeros(chunks + 1, np.int64)
    _scan_chunks(*given, starts, *_room(0))
    starts = np.cumsum(starts)
    found = _room(int(starts[-1]))
    _scan_chunks(*given, starts, *found)
    return Crossings(*found)


def _room(count: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int8], NDArray[np.int8]]:
    return np.empty(count, np.int64), np.empty(count), np.empty(count, np.int8), np.empty(count, np.int8)


def _integer_points(mesh: Mesh, frame: Frame) -> NDArray[np.int64]:
    padded, repeats = frame.padded(), np.array(frame.periodic)
    if max(padded.shape) > MAX_NODES:
        raise StageError(f"lattice of {frame.shape} nodes along z, y, x: at most {MAX_NODES}; choose a larger spacing")
    index = (mesh.points_mm - padded.origin_mm) / frame.spacing_mm
    last = np.array(padded.shape[::-1]) - 2
    if not (np.isfinite(index).all() and ((index > 1) & (index < last) | repeats).all()):
        raise StageError("the surface reaches beyond the lattice: they are of different runs; run voxelize again")
    if (np.abs(index) > MAX_NODES).any():
        raise StageError(
            f"the surface reaches {np.abs(index).max():.0f} spacings beyond the lattice, which repeats: at most"
            f" {MAX_NODES}; cut the surface off nearer to the period"
        )
    return np.rint(index * SUBDIVISIONS).astype(np.int64)


# many parameters because compiled code takes the arrays of the surface, the lattice's lines and the results one by one
@njit(parallel=True, cache=True)
def _scan_chunks(
    points: NDArray[np.int64],
    triangles: NDArray[np.int64],
    triangle_met: NDArray[np.int8],
    size: NDArray[np.int64],
    moves: NDArray[np.int64],
    strides: NDArray[np.int64],
    clamped: bool,
    starts: NDArray[np.int64],
    node: NDArray[np.int64],
    fraction: NDArray[np.float64],
    leaving: NDArray[np.int8],
    met: NDArray[np.int8],
) -> None:
    """Without room, count the crossings of each chunk of triangles into `starts`, after its own place; else fill in."""
    for chunk in prange(len(starts) - 1):
        first, last = chunk * CHUNK, min(len(triangles), (chunk + 1) * CHUNK)
        room = node[starts[chunk] : starts[chunk + 1]] if len(node) else node
        begin = starts[chunk] if len(node) else 0
        count = _scan_triangles(
            points,
            triangles,
            triangle_met,
            size,
            moves,
            strides,
            clamped,
            first,
            last,
            room,
            fraction[begin:],
            leaving[begin:],
            met[begin:],
        )
        if not len(node):
            starts[chunk + 1] = count


# many parameters because compiled code takes the arrays of the surface, the lattice's lines and the results one by one
@inner_function()
def _scan_triangles(
    points: NDArray[np.int64],
    triangles: NDArray[np.int64],
    triangle_met: NDArray[np.int8],
    size: NDArray[np.int64],
    moves: NDArray[np.int64],
    strides: NDArray[np.int64],
    clamped: bool,
    first: int,
    last: int,
    node: NDArray[np.int64],
    fraction: NDArray[np.float64],
    leaving: NDArray[np.int8],
    met: NDArray[np.int8],
) -> int:
    """Count the crossings of some triangles, and keep as many of them as the last four arrays hold.

    `points` are (P, 3): coordinates u, v across the line and t along it.
    """
    count = 0
    for triangle in range(first, last):
        a, b, c = points[triangles[triangle, 0]], points[triangles[triangle, 1]], points[triangles[triangle, 2]]
        for i in _lines(a[0], b[0], c[0]):
            for j in _lines(a[1], b[1], c[1]):
                au, bu, cu = a[0] - i * SUBDIVISIONS, b[0] - i * SUBDIVISIONS, c[0] - i * SUBDIVISIONS
                av, bv, cv = a[1] - j * SUBDIVISIONS, b[1] - j * SUBDIVISIONS, c[1] - j * SUBDIVISIONS
                side = _side(au, av, bu, bv)
                if side == 0 or side != _side(bu, bv, cu, cv) or side != _side(cu, cv, au, av):
                    continue
                weight_a, weight_b, weight_c = bu * cv - bv * cu, cu * av - cv * au, au * bv - av * bu
                rise = weight_b * float(b[2] - a[2]) + weight_c * float(c[2] - a[2])
                place = (a[2] + rise / (weight_a + weight_b + weight_c)) / SUBDIVISIONS
                before = int(np.ceil(place)) - 1
                at = max(before, -1) if clamped else before
                if not (
                    _on_link(i, at, size[0], size[2], moves[0], clamped)
                    and _on_link(j, at, size[1], size[2], moves[1], clamped)
                ):
                    continue
                if count < len(node):
                    node[count] = i * strides[0] + j * strides[1] + at * strides[2]
                    fraction[count] = place - before
                    leaving[count] = side
                    met[count] = triangle_met[triangle]
                count += 1
    return count


@inner_function()
def _lines(a: int, b: int, c: int) -> range:
    """Lattice lines between the coordinates of three corners."""
    return range(-(-min(a, b, c) // SUBDIVISIONS), max(a, b, c) // SUBDIVISIONS + 1)


@inner_function()
def _on_link(line: int, before: int, across: int, along: int, move: int, clamped: bool) -> bool:
    """Whether both ends of a link lie in the lattice, along the line and one axis across; clamped: its far end."""
    start = line + move * before
    return (before >= 0 or clamped) and before + 1 < along and 0 <= start < across and 0 <= start + move < across


@inner_function()
def _side(au: int, av: int, bu: int, bv: int) -> int:
    """Side of the edge from a to b on which (0, 0) lies, as if that were (e, e^2) with an infinitesimal e.

    1 is left, -1 right; 0 if the edge has no length.
    """
    turn = au * bv - av * bu
    if turn == 0:
        turn = av - bv
    if turn == 0:
        turn = bu - au
    return (turn > 0) - (turn < 0)


@njit(cache=True)
def _sort_within_links(
    node: NDArray[np.int64], fraction: NDArray[np.float64], leaving: NDArray[np.int8], met: NDArray[np.int8]
) -> None:
    """Sort crossings of the same link by their place; where that is the same, those that enter come first."""
    for k in range(1, len(node)):
        n = k
        while (
            n > 0
            and node[n] == node[n - 1]
            and ((fraction[n], leaving[n], met[n]) < (fraction[n - 1], leaving[n - 1], met[n - 1]))
        ):
            fraction[n], fraction[n - 1] = fraction[n - 1], fraction[n]
            leaving[n], leaving[n - 1] = leaving[n - 1], leaving[n]
            met[n], met[n - 1] = met[n - 1], met[n]
            n -= 1
