# SPDX-License-Identifier: Apache-2.0
"""Partition of the fluid nodes: parts of equal size with few links between them.

The domain is halved again and again. Each time several *heights* are tried: a height is a number of each node, and
nodes up to a level of it become one half. That level is taken, among those which leave the halves balanced, which the
fewest links cross; and that height, whose best level the fewest cross. Heights are the place along each axis of the
lattice (recursive coordinate bisection; Berger and Bokhari 1987, doi:10.1109/TC.1987.1676942), the place along the
principal axis of the nodes (Simon 1991, doi:10.1016/0956-0521(91)90014-V), and the way through the vessel from one of
its ends, which cuts branches and bends across. At last nodes change sides while that takes links away, the greedy part
of Fiduccia and Mattheyses (1982), doi:10.1109/DAC.1982.1585498.
"""

from collections.abc import Callable, Iterable
from math import ceil, log2

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from solver.domain.nodes import Neighbours, Nodes
from solver.kernels.d3q19 import VELOCITIES, Q
from solver.runtime.errors import StageError

BALANCE = 0.01
"""Largest deviation of a part from the mean, as a part of it, where one node is not more."""
PASSES = 10
"""Most rounds of nodes that change sides."""
AXIS_LENGTH, DIAGONAL_LENGTH = 5, 7
"""Lengths of links in ways through the vessel, nearly 1 : sqrt 2."""
UNSEEN = -1

Links = NDArray[np.int32]
Rows = NDArray[np.int64]


def partition(nodes: Nodes, count: int, heights: Iterable[str] | None = None) -> NDArray[np.int16]:
    """Part of each node, (N,), from 0.

    Parameters
    ----------
    nodes : the geometry.
    count : number of parts.
    heights : names of those in `HEIGHTS` to try; all if not given.

    Raises
    ------
    StageError
        If there are more parts than nodes.
    """
    if not 1 <= count <= min(nodes.count, np.iinfo(np.int16).max):
        raise StageError(f"decompose.parts {count}: there are {nodes.count} nodes, each part needs one; choose fewer")
    subdomain = np.zeros(nodes.count, np.int16)
    if count == 1:
        return subdomain
    links, names = link_table(nodes), list(heights or HEIGHTS)
    waiting = [(0, count)]
    while waiting:
        first, subdomains = waiting.pop()
        members, low = np.flatnonzero(subdomain == first), subdomains // 2
        subdomain[
            members[_upper_half(nodes, links, subdomain, members, low, subdomains, BALANCE / ceil(log2(count)), names)]
        ] = first + low
        waiting += [half for half in ((first, low), (first + low, subdomains - low)) if half[1] > 1]
    _refine(links, subdomain, count)
    return subdomain


def link_table(nodes: Nodes) -> Links:
    """Rows of the nodes at the ends of the 18 links of each, (N, 18); -1 where that is no other fluid node.

    Where a lattice repeats after one node, links join a node to itself: no border ever crosses them.
    """
    neighbours, table = Neighbours(nodes), np.empty((nodes.count, Q - 1), np.int32)
    for i in range(1, Q):
        ends = neighbours.along(i)
        table[:, i - 1] = np.where(ends == np.arange(nodes.count), -1, ends)
    return table


def distances(links: Links, seeds: Rows) -> NDArray[np.int32]:
    """Lengths of the shortest ways from some nodes to all, (N,), in fifths of a spacing; other pieces follow beyond."""
    distance, subdomain = np.full(len(links), UNSEEN, np.int32), np.zeros(len(links), np.int16)
    _ways(links, subdomain, np.concatenate((seeds, np.arange(len(links)))), LENGTHS, distance, len(seeds))
    return distance


def cut_links(links: Links, subdomain: NDArray[np.int16]) -> NDArray[np.int64]:
    """Links of each part to nodes of others, which is the number of populations that it receives in a step."""
    across = _crossing(links, subdomain)
    return np.bincount(subdomain, weights=across, minlength=int(subdomain.max()) + 1).astype(np.int64)


def pieces(links: Links, subdomain: NDArray[np.int16]) -> NDArray[np.int64]:
    """Number of connected pieces of each part."""
    return np.array(
        [_seed_pieces(links, subdomain, np.flatnonzero(subdomain == k))[1] for k in range(int(subdomain.max()) + 1)]
    )


def _upper_half(
    nodes: Nodes,
    links: Links,
    subdomain: NDArray[np.int16],
    members: Rows,
    low: int,
    subdomains: int,
    tolerance: float,
    names: list[str],
) -> NDArray[np.bool_]:
    """Which of the members belong to the upper half, that of ``subdomains - low`` parts."""
    wanted = len(members) * low / subdomains
    slack = tolerance * min(wanted, len(members) - wanted)
    best, fewest = np.zeros(0, np.bool_), np.iinfo(np.int64).max
    for name in names:
        height = HEIGHTS[name](nodes, links, subdomain, members)
        upper, crossing = _cut_level(links, subdomain, members, height - height.min(), wanted, slack)
        if crossing < fewest:
            best, fewest = upper, crossing
    return best


def _cut_level(
    links: Links, subdomain: NDArray[np.int16], members: Rows, height: NDArray[np.int32], wanted: float, slack: float
) -> tuple[NDArray[np.bool_], int]:
    """Members above the level that the fewest links cross within the slack, and how many do.

    If there is no such level, one is divided in the order of the nodes.
    """
    below = np.cumsum(np.bincount(height))
    first, last = np.searchsorted(below, (wanted - slack, wanted + slack), side="left")
    if first < len(below) and below[first] <= wanted + slack:
        last = last if last < len(below) and below[last] <= wanted + slack else last - 1
        crossing = _profile(links, subdomain, members, height, len(below))[first : last + 1]
        return height > first + np.argmin(crossing), int(crossing.min())
    level = np.searchsorted(below, round(wanted))
    upper: NDArray[np.bool_] = height >= level
    rest = round(wanted) - (int(below[level - 1]) if level else 0)
    upper[np.flatnonzero(height == level)[:rest]] = False
    return upper, int(_profile(links, subdomain, members, upper.astype(np.int32), 2)[0])


def _along_axis(axis: int) -> Callable[[Nodes, Links, NDArray[np.int16], Rows], NDArray[np.int32]]:
    def height(nodes: Nodes, links: Links, subdomain: NDArray[np.int16], members: Rows) -> NDArray[np.int32]:
        return nodes.position[members, axis]

    return height


def _along_principal_axis(nodes: Nodes, links: Links, subdomain: NDArray[np.int16], members: Rows) -> NDArray[np.int32]:
    """Place along the direction in which the nodes spread the most, in half spacings."""
    points = nodes.position[members].astype(np.float64)
    points -= points.mean(axis=0)
    _, vectors = np.linalg.eigh(points.T @ points)
    return np.floor(2 * points @ vectors[:, -1]).astype(np.int32)


def _along_vessel(nodes: Nodes, links: Links, subdomain: NDArray[np.int16], members: Rows) -> NDArray[np.int32]:
    """Length of the shortest way from the node that is farthest from some node."""
    far, _ = _seed_pieces(links, subdomain, members)
    distance = np.full(nodes.count, UNSEEN, np.int32)
    _ways(links, subdomain, np.concatenate(([far], members)), LENGTHS, distance)
    return distance[members]


HEIGHTS: dict[str, Callable[[Nodes, Links, NDArray[np.int16], Rows], NDArray[np.int32]]] = {
    "x": _along_axis(0),
    "y": _along_axis(1),
    "z": _along_axis(2),
    "principal axis": _along_principal_axis,
    "vessel": _along_vessel,
}
"""Functions ``(nodes, links, subdomain, members) -> (len(members),)`` that give heights, by name."""

LENGTHS = np.where(np.abs(VELOCITIES[1:]).sum(axis=1) == 1, AXIS_LENGTH, DIAGONAL_LENGTH).astype(np.int32)


def _seed_pieces(links: Links, subdomain: NDArray[np.int16], members: Rows) -> tuple[int, int]:
    """The last node that ways through the members, all of one part, reach; and the number of pieces they are in."""
    return _ways(links, subdomain, members, LENGTHS, np.full(len(subdomain), UNSEEN, np.int32))


@njit(cache=True)
def _ways(
    links: Links,
    subdomain: NDArray[np.int16],
    members: Rows,
    lengths: NDArray[np.int32],
    distance: NDArray[np.int32],
    together: int = 1,
) -> tuple[int, int]:
    """Lengths of shortest ways from the first members, so many, in other pieces from their first, beyond the last.

    A queue of nodes whose distance has become less: nearly in order of distance, so that few come twice.
    """
    queue, queued = np.empty(len(members) + 1, np.int32), np.zeros(len(subdomain), np.bool_)
    found, far, begin, longest = 0, members[0], 0, 0
    for k in range(len(members)):
        if distance[members[k]] != UNSEEN:
            continue
        found += 1
        head, tail = 0, 0
        for seed in members[k : k + (together if k == 0 else 1)]:
            distance[seed], queue[tail] = begin, seed
            tail += 1
        while head != tail:
            n = queue[head]
            head = head + 1 if head < len(members) else 0
            queued[n] = False
            far, longest = n, max(longest, distance[n])
            for i in range(links.shape[1]):
                m = links[n, i]
                if m < 0 or subdomain[m] != subdomain[n]:
                    continue
                there = distance[n] + lengths[i]
                if distance[m] == UNSEEN or there < distance[m]:
                    distance[m] = there
                    if not queued[m]:
                        queued[m] = True
                        queue[tail] = m
                        tail = tail + 1 if tail < len(members) else 0
        begin = longest + 1
    return far, found


@njit(parallel=True, cache=True)
def _crossing(links: Links, subdomain: NDArray[np.int16]) -> NDArray[np.int64]:
    """Links of each node to nodes of other parts, (N,)."""
    across = np.zeros(len(subdomain), np.int64)
    for n in prange(len(subdomain)):
        for i in range(links.shape[1]):
            m = links[n, i]
            if m >= 0 and subdomain[m] != subdomain[n]:
                across[n] += 1
    return across


@njit(cache=True)
def _profile(
    links: Links, subdomain: NDArray[np.int16], members: Rows, height: NDArray[np.int32], levels: int
) -> NDArray[np.int64]:
    """Links that cross each level upwards, out of the nodes up to it, (levels,)."""
    of_node = np.empty(len(subdomain), np.int32)
    for k in range(len(members)):
        of_node[members[k]] = height[k]
    begin = np.zeros(levels + 1, np.int64)
    for n in members:
        for i in range(links.shape[1]):
            m = links[n, i]
            if m >= 0 and subdomain[m] == subdomain[n] and of_node[n] < of_node[m]:
                begin[of_node[n]] += 1
                begin[of_node[m]] -= 1
    return np.cumsum(begin)[:levels]


def _refine(links: Links, subdomain: NDArray[np.int16], count: int) -> None:
    """Let nodes change sides while that takes links away and the parts stay balanced."""
    mean = len(subdomain) / count
    least, most = int(np.ceil((1 - BALANCE) * mean)), int((1 + BALANCE) * mean)
    sizes = np.bincount(subdomain, minlength=count)
    for _ in range(PASSES):
        border = np.flatnonzero(_crossing(links, subdomain))
        if not _change_sides(links, subdomain, border, sizes, min(least, int(mean)), max(most, ceil(mean))):
            break


@njit(cache=True)
def _change_sides(
    links: Links, subdomain: NDArray[np.int16], border: Rows, sizes: NDArray[np.int64], least: int, most: int
) -> int:
    """One round: each node goes where most of its links do, if that takes any away; the number that went."""
    moved, linked = 0, np.zeros(len(sizes), np.int64)
    for n in border:
        for i in range(links.shape[1]):
            if links[n, i] >= 0:
                linked[subdomain[links[n, i]]] += 1
        own, best = subdomain[n], subdomain[n]
        for i in range(links.shape[1]):
            if links[n, i] >= 0:
                other = subdomain[links[n, i]]
                if linked[other] > linked[best] and sizes[other] < most:
                    best = other
        for i in range(links.shape[1]):
            if links[n, i] >= 0:
                linked[subdomain[links[n, i]]] = 0
        if best != own and sizes[own] > least:
            subdomain[n] = best
            sizes[own] -= 1
            sizes[best] += 1
            moved += 1
    return moved
