# SPDX-License-Identifier: Apache-2.0
"""What each link out of the fluid meets first, and which links between fluid nodes leave the vessel on their way."""

from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from pipeline.geometry.lattice.crossings import Crossings, Raster
from pipeline.geometry.lattice.frame import Frame
from solver.domain.nodes import STEPS
from solver.kernels.d3q19 import Q
from solver.runtime.errors import StageError

SMALLEST_Q = 1e-4
"""Smallest link distance given out; the surface is not known any better. A link that leaves the vessel over no longer
a part of its length only touches the surface."""

PARTNER = (STEPS[:, None, None] == STEPS[:, None] + STEPS).all(axis=-1) @ np.arange(len(STEPS))
"""Direction of the link that leads, after one along the second index, to where one along the first does; 0 for none."""

ROUND_OFF = 1e-6
"""A crossing this near a node, in lengths of the link, may belong to the links on both sides of the node."""

MAX_ON_SURFACE = 1e-3
"""Largest fraction of links that may end on the surface."""


@dataclass(frozen=True)
class Links:
    """Links from fluid nodes to nodes that are none, (L,) each, in the order of directions and nodes.

    Among links along corners there are also some between two fluid nodes, see :func:`corner_links`.

    Attributes
    ----------
    node, end : places in the flattened lattice of the fluid node and of the node at the link's far end.
    direction : 1..18, or 19..26, from the fluid node to the end.
    opening : 0 where the link meets the wall first, else the id of the opening whose cap it meets first.
    patch : the patch of the wall that it meets first, else 0.
    q : distance to that place over the length of the link, in (0, 1].
    removed : whether the end lies inside, but was taken out of the fluid, and the link does not leave the vessel on its
        way there; the wall is put there, q = 1.
    on_surface : number of links whose crossing is missing because one of the nodes lies on the surface to within
        round-off; they take the crossing at that node, q = `SMALLEST_Q` or 1, and q = 1 where the line only touches.
    """

    node: NDArray[np.int64]
    end: NDArray[np.int64]
    direction: NDArray[np.uint8]
    opening: NDArray[np.int8]
    patch: NDArray[np.int8]
    q: NDArray[np.float32]
    removed: NDArray[np.bool_]
    on_surface: int


PER_LINK = tuple(field.name for field in fields(Links) if field.name != "on_surface")
"""Names of the arrays of :class:`Links`."""


def links(raster: Raster, fluid: NDArray[np.bool_]) -> Links:
    """Find what every link from a fluid node to another kind of node meets first, along the directions 1..18.

    Parameters
    ----------
    raster : the surface.
    fluid : [z, y, x], the fluid nodes, all of them inside the surface.

    Raises
    ------
    StageError
        If the crossing is missing for too many links.
    """
    found = _first_met(raster, fluid, range(1, Q))
    if found.on_surface > MAX_ON_SURFACE * len(found.end):
        raise StageError(
            f"{found.on_surface} of {len(found.end)} links out of the fluid do not cross the surface: lattice and"
            " surface are of different runs, or nodes lie on the surface: run voxelize again, or change"
            " voxelize.spacing_mm a bit"
        )
    return found


def corner_links(raster: Raster, fluid: NDArray[np.bool_]) -> Links:
    """Find what links from fluid nodes along the directions 19..26 meet first, on a raster that has these.

    There are those that end on another kind of node, and, listed from both ends, those between two fluid nodes which
    leave the vessel on their way and whose ends are not joined by two links inside it. Fluid must not pass through the
    wall along them, and unlike :func:`short_cuts` they are no reason to take out a node: :func:`links` do not know
    them.
    """
    out, cut = _first_met(raster, fluid, range(Q, len(STEPS))), _cut_corners(raster, fluid)
    node, direction = np.concatenate((out.node, cut.node)), np.concatenate((out.direction, cut.direction))
    order = np.lexsort((node, direction))
    both = {name: np.concatenate((getattr(out, name), getattr(cut, name)))[order] for name in PER_LINK}
    return Links(**both, on_surface=out.on_surface)


def _first_met(raster: Raster, fluid: NDArray[np.bool_], directions: range) -> Links:
    """What links out of the fluid along some directions meet first."""
    frame = raster.frame
    padded = frame.padded()
    steps = np.array([padded.step(i) for i in directions])
    node, starts = _links_out(np.ascontiguousarray(frame.pad(fluid)), steps)
    direction = np.repeat(np.array(directions, np.uint8), np.diff(starts))
    q, met = np.full(len(node), np.inf), np.zeros(len(node), np.int8)
    winding = raster.winding.reshape(-1)
    for i, step, (start, stop) in zip(directions, steps.tolist(), pairwise(starts), strict=True):
        rows = slice(start, stop)
        found = raster.crossings[i if i % 2 else i - 1]
        _first_exits(node[rows], *vars(found).values(), winding, step, i % 2 == 0, q[rows], met[rows])
    end = node + steps[direction - directions.start]
    missing = np.isinf(q)
    removed = missing & (winding[end] > 0)
    on_surface = np.flatnonzero(missing & ~removed)
    for row in on_surface:
        i = int(direction[row])
        found = raster.crossings[i if i % 2 else i - 1]
        q[row], met[row] = _borrowed(int(node[row]), padded.step(i), found, i % 2 == 0)
    return Links(
        node=frame.core_node(node),
        end=frame.core_node(end),
        direction=direction,
        opening=np.maximum(met, 0),
        patch=np.maximum(-met, 0),
        q=np.clip(q, SMALLEST_Q, 1).astype(np.float32),
        removed=removed,
        on_surface=len(on_surface),
    )


def _links_out(fluid: NDArray[np.bool_], steps: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Nodes of the links out of the fluid along some steps, sorted by step and node, and where those of each start.

    The outermost nodes of the padded lattice are left out: they lie outside, or repeat others.
    """
    counts = np.zeros((len(steps), fluid.shape[0]), np.int64)
    _visit_links_out(fluid, steps, counts, np.empty(0, np.int64))
    starts = np.concatenate(([0], np.cumsum(counts.reshape(-1))))
    node = np.empty(starts[-1], np.int64)
    _visit_links_out(fluid, steps, starts[:-1].reshape(counts.shape).copy(), node)
    return node, starts[:: fluid.shape[0]]


@njit(parallel=True, cache=True)
def _visit_links_out(
    fluid: NDArray[np.bool_], steps: NDArray[np.int64], places: NDArray[np.int64], node: NDArray[np.int64]
) -> None:
    """Count the links out of the fluid by direction and layer into `places`; with room, write them there instead."""
    depth, height, width = fluid.shape
    flat = fluid.reshape(-1)
    for z in prange(1, depth - 1):
        for y in range(1, height - 1):
            first = (z * height + y) * width
            for n in range(first + 1, first + width - 1):
                if flat[n]:
                    for i in range(len(steps)):
                        if not flat[n + steps[i]]:
                            if len(node):
                                node[places[i, z]] = n
                            places[i, z] += 1


# many parameters because compiled code takes the arrays of the crossings and the results one by one
@njit(cache=True)
def _first_exits(
    wanted: NDArray[np.int64],
    node: NDArray[np.int64],
    fraction: NDArray[np.float64],
    leaving: NDArray[np.int8],
    met: NDArray[np.int8],
    winding: NDArray[np.int8],
    step: int,
    backward: bool,
    q: NDArray[np.float64],
    first_met: NDArray[np.int8],
) -> None:
    """Distance to the place where each link leaves the vessel, and what it meets there; infinite where it does not.

    Walks along the links `wanted` and the crossings of their lines together, both sorted by nodes.
    """
    begin = 0
    for row in range(len(wanted)):
        key = wanted[row] + step if backward else wanted[row]
        while begin < len(node) and node[begin] < key:
            begin += 1
        end = begin
        while end < len(node) and node[end] == key:
            end += 1
        times = winding[wanted[row]]
        for k in range(begin, end):
            at = end - 1 - (k - begin) if backward else k
            times += leaving[at] if backward else -leaving[at]
            if times <= 0:
                q[row], first_met[row] = 1 - fraction[at] if backward else fraction[at], met[at]
                break


def _borrowed(node: int, step: int, found: Crossings, backward: bool) -> tuple[float, int]:
    """What a link meets that should cross the surface and does not: the crossing of the next link at a common node.

    The line takes the node for one outside, or the node at its far end for one inside.
    """
    for start, distance in ((node - step, 0.0), (node, 0.0), (node, 1.0), (node + step, 1.0)):
        key = start + step if backward else start
        for k in range(np.searchsorted(found.node, key), np.searchsorted(found.node, key, "right")):
            place = 1 - found.fraction[k] if backward else found.fraction[k]
            if abs(start + step * place - (node + step * distance)) <= ROUND_OFF * abs(step):
                return distance, int(found.met[k])
    return 1.0, 0


def short_cuts(raster: Raster, fluid: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Nodes that end a link between two fluid nodes which leaves the vessel on its way: the one nearer to the surface.

    Where vessels nearly touch fluid would flow through the wall along such a link. One that cuts off an edge of the
    wall, as at the end of a nozzle, joins what two links inside the vessel join as well: fluid flows past there anyway,
    and the link stays. Without its end the wall would have a dent, of the shape of the lattice.

    Returns
    -------
    Places in the flattened lattice, sorted, each once.
    """
    mask, taken = fluid.reshape(-1).copy(), [np.empty(0, np.int64)]
    leaving = _leaving_links(raster, fluid, range(1, Q))
    node, direction = leaving.node, leaving.direction
    keys = node * len(STEPS) + direction
    while True:
        end = _beyond(raster.frame, node, direction)
        wrong = mask[node] & mask[end] & ~_joined_within(raster.frame, mask, node, direction, keys, Q)
        if not wrong.any():
            return np.unique(np.concatenate(taken))
        taken.append(leaving.nearer[wrong])
        mask[taken[-1]] = False


def _cut_corners(raster: Raster, fluid: NDArray[np.bool_]) -> Links:
    """Links along corners between two fluid nodes that leave the vessel and are to be treated like links out of it."""
    frame, leaving = raster.frame, _leaving_links(raster, fluid, range(1, len(STEPS)))
    keys = leaving.node * len(STEPS) + leaving.direction
    keys, first = np.unique(keys, return_index=True)  # a link across a border is found at both ends of the lattice
    first = first[leaving.direction[first] >= Q]
    node, direction = leaving.node[first], leaving.direction[first]
    cut = first[~_joined_within(frame, fluid.reshape(-1), node, direction, keys, len(STEPS))]
    met = leaving.met[cut]
    return Links(
        node=leaving.node[cut],
        end=_beyond(frame, leaving.node[cut], leaving.direction[cut]),
        direction=leaving.direction[cut].astype(np.uint8),
        opening=np.maximum(met, 0),
        patch=np.maximum(-met, 0),
        q=np.clip(leaving.q[cut], SMALLEST_Q, 1).astype(np.float32),
        removed=np.zeros(len(cut), np.bool_),
        on_surface=0,
    )


@dataclass(frozen=True)
class _Leaving:
    """Links between two fluid nodes that leave the vessel on their way, from both ends, (L,) each.

    Attributes
    ----------
    node, direction : the fluid node, as a place in the flattened lattice, and the direction from it.
    nearer : the end that is nearer to the surface, a place as well.
    q, met : distance to the first exit over the length of the link, and what is met there as in :class:`Crossings`.
    """

    node: NDArray[np.int64]
    direction: NDArray[np.int64]
    nearer: NDArray[np.int64]
    q: NDArray[np.float64]
    met: NDArray[np.int8]


def _leaving_links(raster: Raster, fluid: NDArray[np.bool_], directions: range) -> _Leaving:
    """Links between two fluid nodes along some directions and their opposites that leave the vessel on their way."""
    frame = raster.frame
    padded, mask = frame.padded(), np.ascontiguousarray(frame.pad(fluid)).reshape(-1)
    found: list[tuple[int, int, int]] = []
    exits: list[tuple[float, int]] = []
    for forward in directions[::2]:
        crossed, step = raster.crossings[forward], padded.step(forward)
        rows = np.flatnonzero(mask[crossed.node] & mask[crossed.node + step])
        for start in np.unique(crossed.node[rows]):
            on_link = slice(*np.searchsorted(crossed.node, (start, start + 1)).tolist())
            times = int(raster.winding.reshape(-1)[start]) - np.cumsum(crossed.leaving[on_link], dtype=int)
            place, met, outside = crossed.fraction[on_link], crossed.met[on_link], times[:-1] <= 0
            if (np.diff(place)[outside] > SMALLEST_Q).any():
                left, back = place[:-1][outside][0], place[1:][outside][-1]
                first, last = frame.core_node(np.array((start, start + step))).tolist()
                nearer = first if (left, -first) < (1 - back, -last) else last
                found += [(first, forward, nearer), (last, forward + 1, nearer)]
                exits += [(left, met[:-1][outside][0]), (1 - back, met[1:][outside][-1])]
    node, direction, nearest = np.array(found, np.int64).reshape(-1, 3).T
    q, first_met = np.array(exits, np.float64).reshape(-1, 2).T
    return _Leaving(node, direction, nearest, q, first_met.astype(np.int8))


def _beyond(frame: Frame, node: NDArray[np.int64], direction: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places in the flattened lattice of the nodes at the ends of links."""
    ends = frame.position(node) + STEPS[direction]
    return frame.node(np.where(frame.periodic, ends % frame.shape[::-1], ends).astype(np.int32))


def _joined_within(
    frame: Frame,
    mask: NDArray[np.bool_],
    node: NDArray[np.int64],
    direction: NDArray[np.int64],
    leaving: NDArray[np.int64],
    count: int,
) -> NDArray[np.bool_]:
    """Whether the ends of the links that leave the vessel, (L,), are also joined by two links that do not.

    The two are of the first `count` directions; `leaving` are the keys, 27 node + direction, of all links that leave.
    """
    joined = np.zeros(len(node), np.bool_)
    for first in range(1, count):
        second = PARTNER[direction, first]
        between = _beyond(frame, node, np.full(len(node), first))
        inside = (second > 0) & (second < count) & mask[between] & ~np.isin(node * len(STEPS) + first, leaving)
        joined |= inside & ~np.isin(between * len(STEPS) + second, leaving)
    return joined
