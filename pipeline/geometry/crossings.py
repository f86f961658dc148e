"""Where the surface crosses the lattice: which nodes are inside, and what each link out of the fluid meets first.

A lattice line runs through nodes along one of the nine pairs of opposite directions. Seen along it, every triangle is
a triangle of the plane and every line a point of it, so that all crossings are found by rasterising the triangles,
once a pair. Corners are rounded to 1/65536 of a spacing, which makes the test exact in integers; a line that meets an
edge or a corner belongs to one side as if it were shifted by an infinitesimal amount (Edelsbrunner and Mücke 1990,
doi:10.1145/77635.77639). A closed surface thus has no gap and no double hit, and the nodes inside and the links'
crossings cannot disagree unless a node lies on the surface to within round-off.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipeline.mesh import Mesh
from solver.d3q19 import VELOCITIES, Q
from solver.stage import StageError

SUBDIVISIONS = 1 << 16
"""Steps of the integer grid in a spacing."""

MAX_NODES = 1 << 13
"""Nodes along an axis for which products of two sheared integer lengths stay below 2^61."""

SMALLEST_Q = 1e-4
"""Smallest link distance given out; the surface is not known any better."""

ROUND_OFF = 1e-6
"""A crossing this near a node, in lengths of the link, may belong to the links on both sides of the node."""

MAX_ON_SURFACE = 1e-3
"""Largest fraction of links that may end on the surface."""


@dataclass(frozen=True)
class Frame:
    """Where a lattice lies.

    Attributes
    ----------
    spacing_mm : distance of neighbouring nodes along an axis, mm.
    origin_mm : place of index (0, 0, 0), (x, y, z), LPS, mm.
    shape : nodes along (z, y, x).
    """

    spacing_mm: float
    origin_mm: tuple[float, float, float]
    shape: tuple[int, int, int]

    @property
    def strides(self) -> NDArray[np.int64]:
        """Steps in the flattened lattice to the next node along (x, y, z)."""
        return np.array((1, self.shape[2], self.shape[1] * self.shape[2]))

    def step(self, direction: int) -> int:
        """Step in the flattened lattice to the node at the end of a link."""
        return int(VELOCITIES[direction].astype(np.int64) @ self.strides)

    def position(self, node: NDArray[np.integer]) -> NDArray[np.int32]:
        """Lattice index (x, y, z), (N, 3), of nodes given by their place in the flattened lattice."""
        return np.array(np.unravel_index(node, self.shape)[::-1], np.int32).T.copy()


@dataclass(frozen=True)
class Crossings:
    """Crossings of the surface with all lattice lines along one direction, (C,) each.

    Attributes
    ----------
    node : place in the flattened lattice of the last node before the crossing.
    fraction : distance from that node over the length of the link, in (0, 1].
    leaving : 1 where the line leaves the vessel, -1 where it enters.
    opening : 0 for the wall, else the id of the opening whose cap is crossed.
    """

    node: NDArray[np.int64]
    fraction: NDArray[np.float64]
    leaving: NDArray[np.int8]
    opening: NDArray[np.int8]


@dataclass(frozen=True)
class Links:
    """Links from fluid nodes to nodes that are none, (L,) each, in the order of directions and nodes.

    Attributes
    ----------
    node, end : places in the flattened lattice of the fluid node and of the node at the link's far end.
    direction : 1..18, from the fluid node to the end.
    opening : 0 where the link meets the wall first, else the id of the opening whose cap it meets first.
    q : distance to that place over the length of the link, in (0, 1].
    removed : number of links whose end lies inside but was taken out of the fluid; the wall is put there, q = 1.
    on_surface : number of links whose crossing is missing because one of the nodes lies on the surface to within
        round-off; they take the crossing at that node, q = `SMALLEST_Q` or 1, and q = 1 where the line only touches.
    double : number of links between fluid nodes that leave the vessel and come back.
    """

    node: NDArray[np.int64]
    end: NDArray[np.int64]
    direction: NDArray[np.uint8]
    opening: NDArray[np.int8]
    q: NDArray[np.float32]
    removed: int
    on_surface: int
    double: int


def crossings(mesh: Mesh, frame: Frame, direction: int) -> Crossings:
    """Cross the surface with all lattice lines along a direction whose first component that is not 0 is 1.

    Raises
    ------
    StageError
        If the surface does not lie inside the lattice, or the lattice is too long for exact integers.
    """
    velocity = VELOCITIES[direction].astype(np.int64)
    along = int(np.flatnonzero(velocity)[0])
    across = (along + 1) % 3, (along + 2) % 3
    points = _integer_points(mesh, frame)
    sheared = np.stack([points[:, k] - velocity[k] * points[:, along] for k in across] + [points[:, along]], axis=1)
    corners = sheared[mesh.triangles]
    strides = np.array([*frame.strides[list(across)], frame.step(direction)])

    count = _scan(corners, mesh.opening, strides, *_room(0))
    found = _room(count)
    _scan(corners, mesh.opening, strides, *found)
    return Crossings(*found)


def _room(count: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int8], NDArray[np.int8]]:
    return np.empty(count, np.int64), np.empty(count), np.empty(count, np.int8), np.empty(count, np.int8)


def _integer_points(mesh: Mesh, frame: Frame) -> NDArray[np.int64]:
    if max(frame.shape) > MAX_NODES:
        raise StageError(f"lattice of {frame.shape} nodes along z, y, x: at most {MAX_NODES}; choose a larger spacing")
    index = (mesh.points_mm - frame.origin_mm) / frame.spacing_mm
    last = np.array(frame.shape[::-1]) - 2
    if not (np.isfinite(index).all() and (index > 1).all() and (index < last).all()):
        raise StageError("the surface reaches beyond the lattice: they are of different runs; run voxelize again")
    return np.rint(index * SUBDIVISIONS).astype(np.int64)


@njit(cache=True)
def _scan(
    corners: NDArray[np.int64],
    triangle_opening: NDArray[np.int8],
    strides: NDArray[np.int64],
    node: NDArray[np.int64],
    fraction: NDArray[np.float64],
    leaving: NDArray[np.int8],
    opening: NDArray[np.int8],
) -> int:
    """Count the crossings, and keep as many of them as the last four arrays hold.

    `corners` is (T, 3, 3): corners a, b, c with coordinates u, v across the line and t along it.
    """
    count = 0
    for triangle in range(len(corners)):
        u, v, t = corners[triangle].T
        for i in _lines(u):
            for j in _lines(v):
                au, bu, cu = u[0] - i * SUBDIVISIONS, u[1] - i * SUBDIVISIONS, u[2] - i * SUBDIVISIONS
                av, bv, cv = v[0] - j * SUBDIVISIONS, v[1] - j * SUBDIVISIONS, v[2] - j * SUBDIVISIONS
                side = _side(au, av, bu, bv)
                if side == 0 or side != _side(bu, bv, cu, cv) or side != _side(cu, cv, au, av):
                    continue
                if count < len(node):
                    weight_a, weight_b, weight_c = bu * cv - bv * cu, cu * av - cv * au, au * bv - av * bu
                    rise = weight_b * float(t[1] - t[0]) + weight_c * float(t[2] - t[0])
                    place = (t[0] + rise / (weight_a + weight_b + weight_c)) / SUBDIVISIONS
                    before = int(np.ceil(place)) - 1
                    node[count] = i * strides[0] + j * strides[1] + before * strides[2]
                    fraction[count] = place - before
                    leaving[count] = side
                    opening[count] = triangle_opening[triangle]
                count += 1
    return count


@njit
def _lines(corners: NDArray[np.int64]) -> range:
    """Lattice lines between the coordinates of three corners."""
    first, last = min(corners[0], corners[1], corners[2]), max(corners[0], corners[1], corners[2])
    return range(-(-first // SUBDIVISIONS), last // SUBDIVISIONS + 1)


@njit
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


def inside(mesh: Mesh, frame: Frame) -> NDArray[np.bool_]:
    """Nodes that the surface encloses, [z, y, x]: those around which it winds."""
    return winding(mesh, frame) > 0


def winding(mesh: Mesh, frame: Frame) -> NDArray[np.int8]:
    """How often the surface winds around each node, [z, y, x]: 0 outside and 1 inside, unless it overlaps itself."""
    found = crossings(mesh, frame, 1)
    times = np.zeros(frame.shape, np.int8)
    np.subtract.at(times.reshape(-1), found.node + 1, found.leaving)
    return np.cumsum(times, axis=2, dtype=np.int8, out=times)


def links(mesh: Mesh, frame: Frame, fluid: NDArray[np.bool_]) -> Links:
    """Find what every link from a fluid node to another kind of node meets first.

    Parameters
    ----------
    mesh : closed surface.
    frame : where the lattice lies.
    fluid : [z, y, x], the fluid nodes, all of them inside the surface.

    Raises
    ------
    StageError
        If the crossing is missing for too many links.
    """
    is_fluid = fluid.reshape(-1)
    nodes = np.flatnonzero(is_fluid)
    parts: dict[int, _Met] = {}
    double = 0
    for forward in range(1, Q, 2):
        found, step = crossings(mesh, frame, forward), frame.step(forward)
        double += len(np.unique(found.node[is_fluid[found.node] & is_fluid[found.node + step]]))
        opposite = Crossings(found.node + step, 1 - found.fraction, -found.leaving, found.opening)
        parts[forward] = _first_met(nodes[~is_fluid[nodes + step]], found, step)
        parts[forward + 1] = _first_met(nodes[~is_fluid[nodes - step]], opposite, -step)
    met = _Met(*(np.concatenate([getattr(parts[i], name) for i in range(1, Q)]) for name in _Met._fields))
    direction = np.repeat(np.arange(1, Q), [len(parts[i].node) for i in range(1, Q)])
    end = met.node + np.array([frame.step(i) for i in range(Q)])[direction]
    nowhere = np.isinf(met.distance)
    removed = nowhere & inside(mesh, frame).reshape(-1)[end]
    on_surface = int((met.borrowed | (nowhere & ~removed)).sum())
    if on_surface > MAX_ON_SURFACE * len(end):
        raise StageError(
            f"{on_surface} of {len(end)} links out of the fluid do not cross the surface: lattice and surface are of"
            " different runs, or nodes lie on the surface; run voxelize again, or change voxelize.spacing_mm a little"
        )
    q = np.clip(met.distance, SMALLEST_Q, 1).astype(np.float32)
    return Links(met.node, end, direction.astype(np.uint8), met.opening, q, int(removed.sum()), on_surface, double)


class _Met(NamedTuple):
    """What links meet first: distance infinite where nothing, `borrowed` from the next link of the line."""

    node: NDArray[np.int64]
    distance: NDArray[np.float64]
    opening: NDArray[np.int8]
    borrowed: NDArray[np.bool_]


def _first_met(wanted: NDArray[np.int64], found: Crossings, step: int) -> _Met:
    """Nearest crossing on the link of each of the nodes `wanted`."""
    behind, ahead = found.fraction >= 1 - ROUND_OFF, found.fraction <= ROUND_OFF
    node = np.concatenate((found.node, found.node[behind] + step, found.node[ahead] - step))
    distance = np.concatenate((found.fraction, found.fraction[behind] - 1, found.fraction[ahead] + 1))
    opening = np.concatenate((found.opening, found.opening[behind], found.opening[ahead]))
    borrowed = np.arange(len(node)) >= len(found.node)
    order = np.lexsort((opening, distance, borrowed, node))
    keys, first = np.unique(node[order], return_index=True)
    nearest = order[first]
    row = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    met, nearest = keys[row] == wanted, nearest[row]
    return _Met(
        wanted, np.where(met, distance[nearest], np.inf), np.where(met, opening[nearest], 0), met & borrowed[nearest]
    )
