# SPDX-License-Identifier: Apache-2.0
"""Planes across a vessel: nodes that are joined to a seed within a plane through it, and the area that they take.

Which nodes these are, ranks find together for some planes at a time, each through its own nodes and then on from what
came over the border. The first rank gets them, some planes after others, and adds them up in the order of their links,
so that the area has the bits of one process.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.domain.border import Border
from solver.domain.link_graph import Links, link_table
from solver.domain.nodes import Nodes, only_at
from solver.domain.whole import NOWHERE

HALF = 2.0
"""Half the thickness of a plane, in spacings; nodes count less towards its faces."""
TOGETHER, PART = 64, 8
"""Planes that are found at a time, as many as a word has bits, at most; and what part of a rank's share of the nodes
the sections around these planes have, at most, where there is more than one."""

Reals = NDArray[np.float64]


def plane_areas(
    nodes: Nodes, links: Links, border: Border, section: NDArray[np.int64], middle: Reals, ways: Reals
) -> tuple[Reals, NDArray[np.bool_]]:
    """Area, (S,), in squared spacings, of the plane across a way through the node next to the middle of each section:
    of the nodes that are joined to it within the plane, which count 1 - d/`HALF` at the distance d from it. And whether
    one of them is at an opening, which may cut off a part of the plane. On the first rank; nothing on others.

    Parameters
    ----------
    nodes, links, border : the geometry, the nodes at the ends of links, (N, 18), and the border of a part.
    section : (N,) of each node.
    middle, ways : (S, 3) middle of each section, and unit vectors along the way there.
    """
    count = len(middle)
    area, reaches = np.zeros(count), np.zeros(count, np.bool_)
    seed = _nearest(nodes, border, section, middle)
    if nodes.whole is None:
        visited, stack = np.full(nodes.count, -1, np.int32), np.empty(nodes.count, np.int32)
        at_opening = nodes.opening > 0
        for s in range(count):
            area[s], reaches[s] = _plane(links, nodes.position, at_opening, seed[s], ways[s], s, visited, stack)
        return area, reaches
    for planes in _some_together(nodes, border, section, count):
        found = _members(nodes, links, border, seed[planes], ways[planes])
        if found is None:
            continue
        rows, position, at_opening, bits = found
        for k, s in enumerate(range(planes.start, planes.stop)):
            mine = np.flatnonzero(bits >> np.uint64(k) & np.uint64(1))
            own_links = link_table(only_at(nodes, position[mine]))
            visited, stack = np.full(len(mine), -1, np.int32), np.empty(len(mine), np.int32)
            there = int(np.flatnonzero(rows[mine] == seed[s])[0])
            given = own_links, position[mine], at_opening[mine], there, ways[s], s, visited, stack
            area[s], reaches[s] = _plane(*given)
    return area, reaches


def _nearest(nodes: Nodes, border: Border, section: NDArray[np.int64], middle: Reals) -> NDArray[np.int64]:
    """Row among all of the node next to the middle of each section, (S,), the first one of equally near ones."""
    away, seed = _nearest_own(nodes.position, border.own, section, middle)
    rows = np.where(seed >= 0, nodes.rows[seed].astype(np.int64), NOWHERE)
    aways, seeds = (nodes.ranks.join(each).reshape(nodes.ranks.size, -1) for each in (away, rows))
    best = np.lexsort((seeds, aways), axis=0)[0]
    found: NDArray[np.int64] = seeds[best, np.arange(len(middle))]
    return found


@njit(cache=True)
def _nearest_own(
    position: NDArray[np.int32], own: NDArray[np.bool_], section: NDArray[np.int64], middle: Reals
) -> tuple[Reals, NDArray[np.int64]]:
    least, seed = np.full(len(middle), np.inf), np.full(len(middle), np.int64(-1))
    for n in range(len(position)):
        if own[n]:
            away = ((position[n] - middle[section[n]]) ** 2).sum()
            if away < least[section[n]]:
                least[section[n]], seed[section[n]] = away, n
    return least, seed


def _some_together(nodes: Nodes, border: Border, section: NDArray[np.int64], count: int) -> Iterator[slice]:
    """Planes that are found at a time."""
    volume = nodes.ranks.begin_sum(np.bincount(section[border.own], minlength=count))()
    most, first, held = nodes.total // (PART * nodes.ranks.size), 0, 0
    for s, more in enumerate(volume.tolist()):
        if s > first and (s - first == TOGETHER or held + more > most):
            yield slice(first, s)
            first, held = s, 0
        held += more
    yield slice(first, count)


def _members(
    nodes: Nodes, links: Links, border: Border, seed: NDArray[np.int64], ways: Reals
) -> tuple[Any, Any, Any, Any] | None:
    """Nodes of some planes: rows among all, positions, whether they are at an opening, and bits of their planes; on the
    first rank alone.
    """
    rows, reached = nodes.rows, np.zeros(nodes.count, np.uint64)
    place = np.minimum(np.searchsorted(rows, seed), len(rows) - 1)
    mine = np.flatnonzero((rows[place] == seed) & border.own[place])
    at_seed = np.zeros((len(seed), 3), np.int64)
    at_seed[mine] = nodes.position[place[mine]]
    at_seed = nodes.ranks.begin_sum(at_seed)()
    active, bits = place[mine], np.uint64(1) << mine.astype(np.uint64)
    known = reached.copy()
    while True:
        _spread(links, border.own, nodes.position, at_seed, ways, active, bits, reached)
        beyond = np.flatnonzero(~border.own & (reached != known))
        there = nodes.ranks.join(rows[beyond]), nodes.ranks.join(reached[beyond] & ~known[beyond])
        known[beyond] = reached[beyond]
        if not len(there[0]):
            break
        place = np.minimum(np.searchsorted(rows, there[0]), len(rows) - 1)
        here = np.flatnonzero((rows[place] == there[0]) & border.own[place])
        active, bits = place[here], there[1][here]
    kept = np.flatnonzero(border.own & (reached > 0))
    collect, at_opening = nodes.ranks.collect, nodes.opening[kept] > 0
    found = collect(rows[kept]), collect(nodes.position[kept]), collect(at_opening), collect(reached[kept])
    return found if found[0] is not None else None


# many parameters because compiled loops take arrays, not objects
@njit(cache=True)
def _spread(
    links: Links,
    own: NDArray[np.bool_],
    position: NDArray[np.int32],
    at_seed: NDArray[np.int64],
    ways: Reals,
    active: NDArray[np.int64],
    bits: NDArray[np.uint64],
    reached: NDArray[np.uint64],
) -> None:
    """Go on in some planes from nodes that belong to them; `reached` gets bits of the planes of each node."""
    stack = np.empty(len(own), np.int32)
    for s in range(len(at_seed)):
        bit, high = np.uint64(1) << np.uint64(s), 0
        for k in range(len(active)):
            if bits[k] & bit and not reached[active[k]] & bit:
                reached[active[k]] |= bit
                stack[high] = active[k]
                high += 1
        while high:
            high -= 1
            n = stack[high]
            for i in range(links.shape[1]):
                m = links[n, i]
                if m < 0 or reached[m] & bit or abs(_off(position[m], at_seed[s], ways[s])) >= HALF:
                    continue
                reached[m] |= bit
                if own[m]:
                    stack[high] = m
                    high += 1


@njit(cache=True)
def _off(position: NDArray[np.integer], at_seed: NDArray[np.integer], way: Reals) -> float:
    """Distance of a place from the plane."""
    far = 0.0
    for axis in range(3):
        far += (position[axis] - at_seed[axis]) * way[axis]
    return far


# many parameters because compiled loops take arrays, not objects
@njit(cache=True)
def _plane(
    links: Links,
    position: NDArray[np.int32],
    at_opening: NDArray[np.bool_],
    seed: int,
    way: Reals,
    number: int,
    visited: NDArray[np.int32],
    stack: NDArray[np.int32],
) -> tuple[float, bool]:
    """Area of the plane of a number, and whether it reaches an opening; `visited` has the last plane of each node."""
    stack[0], visited[seed], high = seed, number, 1
    area, reaches = 0.0, False
    while high:
        high -= 1
        n = stack[high]
        far = _off(position[n], position[seed], way)
        if abs(far) >= HALF:
            continue
        area += (1 - abs(far) / HALF) / HALF
        reaches = reaches or at_opening[n]
        for i in range(links.shape[1]):
            m = links[n, i]
            if m >= 0 and visited[m] != number:
                visited[m], stack[high] = number, m
                high += 1
    return area, reaches
