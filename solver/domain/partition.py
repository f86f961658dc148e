# SPDX-License-Identifier: Apache-2.0
"""Partition of the fluid nodes: parts of equal cost with few links between them.

The domain is halved again and again. Each time several *heights* are tried: a height is a number of each vertex of the
graph of links, and vertices up to a level of it become one half. That level is taken, among those which leave the
halves balanced, which the fewest links cross; and that height, whose best level the fewest cross. Heights are the place
along each axis of the lattice (recursive coordinate bisection; Berger and Bokhari 1987, doi:10.1109/TC.1987.1676942),
the place along the principal axis of the vertices (Simon 1991, doi:10.1016/0956-0521(91)90014-V), and the way through
the vessel from one of its ends, which cuts branches and bends across. At last vertices change sides while that takes
links away, the greedy part of Fiduccia and Mattheyses (1982), doi:10.1109/DAC.1982.1585498.

Of many nodes the vertices are blocks of nodes. The borders that are found between blocks are refined between smaller
ones, and at last between nodes (Hendrickson and Leland 1995, doi:10.1145/224170.224228).
"""

from collections.abc import Callable, Iterable
from math import ceil, log2

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from solver.domain.link_graph import LENGTHS, UNSEEN, LinkGraph, Links, Part, Rows, seed_pieces, ways
from solver.domain.nodes import Nodes
from solver.runtime.errors import StageError

BALANCE = 0.01
"""Largest deviation of a part's cost from the mean, as a part of it, where one node does not cost more."""
PASSES = 10
"""Most rounds of vertices that change sides."""
MOST_VERTICES, LEAST_OF_PART = 1 << 20, 1 << 12
"""Vertices above which blocks of them are divided, if these will be at least so many a part: then a block, which is all
in one part, is a small part of the balance."""


def partition(nodes: Nodes, count: int, heights: Iterable[str] | None = None) -> Part:
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
    require_nodes(nodes, count)
    if count == 1:
        return np.zeros(nodes.count, np.int16)
    return partition_graph(LinkGraph.of_nodes(nodes), count, heights)


def require_nodes(nodes: Nodes, count: int) -> None:
    """Check that there is a node for each part."""
    if not 1 <= count <= min(nodes.count, np.iinfo(np.int16).max):
        raise StageError(f"decompose.parts {count}: there are {nodes.count} nodes, each part needs one; choose fewer")


def partition_graph(graph: LinkGraph, count: int, heights: Iterable[str] | None = None) -> Part:
    """The same of a graph of links.

    Parameters
    ----------
    graph : of at least as many vertices as there are parts.
    count, heights : as of :func:`partition`.
    """
    finer: list[tuple[LinkGraph, NDArray[np.int32]]] = []
    while graph.count > max(MOST_VERTICES, 8 * LEAST_OF_PART * count):
        coarse, block = graph.coarser()
        finer.append((graph, block))
        graph = coarse
    part = _halved(graph, count, list(heights or HEIGHTS))
    _refine(graph, part, count)
    for graph, block in reversed(finer):
        part = part[block]
        _refine(graph, part, count)
    return part


def cut_links(links: Links, part: Part) -> NDArray[np.int64]:
    """Links of each part to nodes of others, which is the number of populations that it receives in a step."""
    across = _crossing(links, part)
    return np.bincount(part, weights=across, minlength=int(part.max()) + 1).astype(np.int64)


def _halved(graph: LinkGraph, count: int, names: list[str]) -> Part:
    """Part of each vertex, by halving again and again."""
    part, waiting = np.zeros(graph.count, np.int16), [(0, count)] if count > 1 else []
    while waiting:
        first, parts = waiting.pop()
        members, low = np.flatnonzero(part == first), parts // 2
        part[members[_upper_half(graph, part, members, (low, parts), BALANCE / ceil(log2(count)), names)]] = first + low
        waiting += [half for half in ((first, low), (first + low, parts - low)) if half[1] > 1]
    return part


def _upper_half(
    graph: LinkGraph, part: Part, members: Rows, share: tuple[int, int], tolerance: float, names: list[str]
) -> NDArray[np.bool_]:
    """Which of the members, of one part, belong to the upper half; `share`: parts of the lower half, and of both."""
    best, fewest = np.zeros(0, np.bool_), np.iinfo(np.int64).max
    for name in names:
        height = HEIGHTS[name](graph, part, members)
        upper, crossing = _cut_level(graph, part, members, height - height.min(), share, tolerance)
        if crossing < fewest:
            best, fewest = upper, crossing
    return best


def _cut_level(
    graph: LinkGraph, part: Part, members: Rows, height: NDArray[np.int32], share: tuple[int, int], tolerance: float
) -> tuple[NDArray[np.bool_], int]:
    """Members above the level that the fewest links cross within the tolerance, and how many do.

    If there is no such level, one is divided in the order of the vertices. Each half has a vertex for each of its
    parts.
    """
    cost, (low, parts) = graph.cost[members], share
    below, number = np.cumsum(np.bincount(height, weights=cost)), np.cumsum(np.bincount(height))
    wanted = float(below[-1]) * low / parts
    slack = tolerance * min(wanted, below[-1] - wanted)
    fits = np.flatnonzero((np.abs(below - wanted) <= slack) & (number >= low) & (len(members) - number >= parts - low))
    if len(fits):
        crossing = _profile(graph.links, graph.strength, part, members, height, len(below))[fits]
        return height > fits[np.argmin(crossing)], int(crossing.min())
    order = np.argsort(height, kind="stable")
    first = int(np.searchsorted(np.cumsum(cost[order]) - cost[order] / 2, wanted))
    upper = np.ones(len(members), np.bool_)
    upper[order[: min(max(first, low), len(members) - (parts - low))]] = False
    crossed = _profile(graph.links, graph.strength, part, members, upper.astype(np.int32), 2)
    return upper, int(crossed[0])


def _along_axis(axis: int) -> Callable[[LinkGraph, Part, Rows], NDArray[np.int32]]:
    def height(graph: LinkGraph, part: Part, members: Rows) -> NDArray[np.int32]:
        return graph.position[members, axis]

    return height


def _along_principal_axis(graph: LinkGraph, part: Part, members: Rows) -> NDArray[np.int32]:
    """Place along the direction in which the vertices spread the most, in half spacings."""
    points = graph.position[members].astype(np.float64)
    points -= points.mean(axis=0)
    _, vectors = np.linalg.eigh(points.T @ points)
    return np.floor(2 * points @ vectors[:, -1]).astype(np.int32)


def _along_vessel(graph: LinkGraph, part: Part, members: Rows) -> NDArray[np.int32]:
    """Length of the shortest way from the vertex that is farthest from some vertex."""
    far, _ = seed_pieces(graph.links, part, members)
    distance = np.full(graph.count, UNSEEN, np.int32)
    ways(graph.links, part, np.concatenate(([far], members)), LENGTHS, distance)
    return distance[members]


HEIGHTS: dict[str, Callable[[LinkGraph, Part, Rows], NDArray[np.int32]]] = {
    "x": _along_axis(0),
    "y": _along_axis(1),
    "z": _along_axis(2),
    "principal axis": _along_principal_axis,
    "vessel": _along_vessel,
}
"""Functions ``(graph, part, members) -> (len(members),)`` that give heights, by name."""


@njit(parallel=True, cache=True)
def _crossing(links: Links, part: Part) -> NDArray[np.int64]:
    """Links of each vertex to vertices of other parts, (V,)."""
    across = np.zeros(len(part), np.int64)
    for n in prange(len(part)):
        for i in range(links.shape[1]):
            m = links[n, i]
            if m >= 0 and part[m] != part[n]:
                across[n] += 1
    return across


@njit(cache=True)
def _profile(
    links: Links, strength: NDArray[np.int32], part: Part, members: Rows, height: NDArray[np.int32], levels: int
) -> NDArray[np.int64]:
    """Links that cross each level upwards, out of the vertices up to it, (levels,)."""
    of_vertex = np.empty(len(part), np.int32)
    for k in range(len(members)):
        of_vertex[members[k]] = height[k]
    begin = np.zeros(levels + 1, np.int64)
    for n in members:
        for i in range(links.shape[1]):
            m = links[n, i]
            if m >= 0 and part[m] == part[n] and of_vertex[n] < of_vertex[m]:
                begin[of_vertex[n]] += strength[n, i]
                begin[of_vertex[m]] -= strength[n, i]
    return np.cumsum(begin)[:levels]


def _refine(graph: LinkGraph, part: Part, count: int) -> None:
    """Let vertices change sides while that takes links away and the parts stay balanced."""
    costs, sizes = np.zeros(count, np.int64), np.bincount(part, minlength=count)
    np.add.at(costs, part, graph.cost)
    mean = costs.sum() / count
    slack = max(BALANCE * mean, float(graph.cost.max()))
    limits = ceil(mean - slack), int(mean + slack)
    near = _crossing(graph.links, part) > 0  # all that may be at a border: those that were, and ends of what moved
    border = np.flatnonzero(near)
    for _ in range(PASSES):
        moved = _change_sides(graph.links, graph.strength, graph.cost, part, border, costs, sizes, limits)
        if not len(moved):
            break
        _mark_ends(graph.links, moved, near)
        candidates = np.flatnonzero(near)
        border = candidates[_at_border(graph.links, part, candidates)]


@njit(cache=True)
def _mark_ends(links: Links, rows: Rows, mark: NDArray[np.bool_]) -> None:
    """Mark the vertices that some have links to."""
    for n in rows:
        for m in links[n]:
            if m >= 0:
                mark[m] = True


@njit(cache=True)
def _at_border(links: Links, part: Part, rows: Rows) -> NDArray[np.bool_]:
    """Which of some vertices have links to vertices of other parts."""
    found = np.zeros(len(rows), np.bool_)
    for k in range(len(rows)):
        for m in links[rows[k]]:
            if m >= 0 and part[m] != part[rows[k]]:
                found[k] = True
    return found


# many parameters because compiled loops take arrays, not objects
@njit(cache=True)
def _change_sides(
    links: Links,
    strength: NDArray[np.int32],
    cost: NDArray[np.int64],
    part: Part,
    border: Rows,
    costs: NDArray[np.int64],
    sizes: NDArray[np.int64],
    limits: tuple[int, int],
) -> Rows:
    """One round: each vertex goes where most of its links do, if that takes any away; those that went."""
    moved, count, linked = np.empty(len(border), np.int64), 0, np.zeros(len(costs), np.int64)
    least, most = limits
    for n in border:
        for i in range(links.shape[1]):
            if links[n, i] >= 0:
                linked[part[links[n, i]]] += strength[n, i]
        own, best = part[n], part[n]
        for i in range(links.shape[1]):
            if links[n, i] >= 0:
                other = part[links[n, i]]
                if linked[other] > linked[best] and costs[other] + cost[n] <= most:
                    best = other
        for i in range(links.shape[1]):
            if links[n, i] >= 0:
                linked[part[links[n, i]]] = 0
        if best != own and costs[own] - cost[n] >= least and sizes[own] > 1:
            part[n] = best
            costs[own] -= cost[n]
            costs[best] += cost[n]
            sizes[own] -= 1
            sizes[best] += 1
            moved[count] = n
            count += 1
    return moved[:count]
