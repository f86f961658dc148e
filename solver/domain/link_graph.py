# SPDX-License-Identifier: Apache-2.0
"""The fluid nodes and the links between them as a graph, and coarser graphs of blocks of nodes.

A vertex is a node, or a block of two vertices along each axis of the graph before. It has at most 18 neighbours, one in
each direction: links of 19 velocities never change all three coordinates, nor do those between blocks. Each counts how
many links of nodes it stands for.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from solver.domain.node_costs import node_costs
from solver.domain.nodes import Neighbours, Nodes
from solver.kernels.d3q19 import VELOCITIES, Q

AXIS_LENGTH, DIAGONAL_LENGTH = 5, 7
"""Lengths of links in ways through the vessel, nearly 1 : sqrt 2."""
LENGTHS = np.where(np.abs(VELOCITIES[1:]).sum(axis=1) == 1, AXIS_LENGTH, DIAGONAL_LENGTH).astype(np.int32)
UNSEEN = -1
STEPS = VELOCITIES[1:].astype(np.int32)
SLOTS = np.full((3, 3, 3), -1, np.int32)
"""Column of a neighbour by its place (x, y, z) beside a vertex, -1 to 1."""
SLOTS[tuple(STEPS.T)] = np.arange(Q - 1)

Links = NDArray[np.int32]
Part = NDArray[np.int16]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class LinkGraph:
    """Vertices and the links between them.

    Attributes
    ----------
    links : (V, 18) vertex at the end of each link; -1 where there is none.
    strength : (V, 18) links of nodes that each stands for.
    cost : (V,) of a step, see :mod:`solver.domain.node_costs`.
    position : (V, 3) place on the lattice, or on that of blocks, (x, y, z).
    size : (3,) of that lattice, (x, y, z).
    """

    links: Links
    strength: NDArray[np.int32]
    cost: NDArray[np.int64]
    position: NDArray[np.int32]
    size: NDArray[np.int64]

    @classmethod
    def of_nodes(cls, nodes: Nodes) -> "LinkGraph":
        """Of node arrays, each node a vertex."""
        links = link_table(nodes)
        once = np.broadcast_to(np.int32(1), links.shape)
        return cls(links, once, node_costs(nodes), nodes.position, np.array(nodes.shape[::-1], np.int64))

    @property
    def count(self) -> int:
        """Number of vertices."""
        return len(self.links)

    def coarser(self) -> tuple["LinkGraph", NDArray[np.int32]]:
        """The graph of blocks of two vertices along each axis, and the block of each vertex, (V,)."""
        size = -(-self.size // 2)
        block, position = _blocks(self.position, size)
        begin, order = _members(block, len(position))
        links, strength = np.full((len(position), Q - 1), -1, np.int32), np.zeros((len(position), Q - 1), np.int32)
        cost = np.zeros(len(position), np.int64)
        members = self.links, self.strength, self.cost, self.position, self.size
        _join(*members, block, order, begin, STEPS, SLOTS, links, strength, cost)
        return LinkGraph(links, strength, cost, position, size), block


def link_table(nodes: Nodes) -> Links:
    """Rows of the nodes at the ends of the 18 links of each, (N, 18); -1 where that is no other fluid node.

    Where a lattice repeats after one node, links join a node to itself: no border ever crosses them.
    """
    table = Neighbours(nodes).table(range(1, Q))
    if any(repeats and size == 1 for repeats, size in zip(nodes.periodic, nodes.shape[::-1], strict=True)):
        table[table == np.arange(nodes.count)[:, None]] = -1
    return table


def pieces(links: Links, part: Part) -> NDArray[np.int64]:
    """Number of connected pieces of each part."""
    return np.array(
        [seed_pieces(links, part, np.flatnonzero(part == k))[1] for k in range(int(part.max(initial=0)) + 1)]
    )


def seed_pieces(links: Links, part: Part, members: Rows) -> tuple[int, int]:
    """The last vertex that ways through the members, all of one part, reach; and the number of pieces they are in.

    Parameters
    ----------
    links : of the graph.
    part : of each vertex.
    members : vertices, all of one part.
    """
    return ways(links, part, members, LENGTHS, np.full(len(part), UNSEEN, np.int32))


@njit(cache=True)
def ways(
    links: Links, part: Part, members: Rows, lengths: NDArray[np.int32], distance: NDArray[np.int32]
) -> tuple[int, int]:
    """Lengths of shortest ways from the first member, in other pieces from their first, beyond the last.

    A queue of vertices whose distance has become less: nearly in order of distance, so that few come twice.

    Parameters
    ----------
    links : (V, 18) vertex at the end of each link.
    part : (V,) ways stay in the part of their first vertex.
    members : vertices that are asked for.
    lengths : (18,) of links.
    distance : (V,) that is written; `UNSEEN` at first.

    Returns
    -------
    The vertex that is farthest away, and the number of pieces.
    """
    queue, queued = np.empty(len(members) + 1, np.int32), np.zeros(len(part), np.bool_)
    found, far, begin, longest = 0, members[0], 0, 0
    for k in range(len(members)):
        if distance[members[k]] != UNSEEN:
            continue
        found += 1
        head = 0
        distance[members[k]], queue[0], tail = begin, members[k], 1
        while head != tail:
            n = queue[head]
            head = head + 1 if head < len(members) else 0
            queued[n] = False
            far, longest = n, max(longest, distance[n])
            for i in range(links.shape[1]):
                m = links[n, i]
                if m < 0 or part[m] != part[n]:
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


@njit(cache=True)
def _blocks(position: NDArray[np.int32], size: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Block of each vertex, (V,), in the order of the lattice of blocks, and the place of each block on it."""
    number = np.zeros(size[0] * size[1] * size[2], np.int32)
    for n in range(len(position)):
        x, y, z = position[n, 0] // 2, position[n, 1] // 2, position[n, 2] // 2
        number[(z * size[1] + y) * size[0] + x] = 1
    count = 0
    for place in range(len(number)):
        if number[place]:
            number[place] = count
            count += 1
    block, places = np.empty(len(position), np.int32), np.empty((count, 3), np.int32)
    for n in range(len(position)):
        x, y, z = position[n, 0] // 2, position[n, 1] // 2, position[n, 2] // 2
        b = number[(z * size[1] + y) * size[0] + x]
        block[n], places[b, 0], places[b, 1], places[b, 2] = b, x, y, z
    return block, places


@njit(cache=True)
def _members(block: NDArray[np.int32], count: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Where the vertices of each block begin, (count + 1,), in the list of all by their block, (V,)."""
    begin = np.zeros(count + 1, np.int64)
    for b in block:
        begin[b + 1] += 1
    begin = np.cumsum(begin)
    free, order = begin.copy(), np.empty(len(block), np.int32)
    for n in range(len(block)):
        order[free[block[n]]] = n
        free[block[n]] += 1
    return begin, order


# many parameters because compiled loops take arrays, not objects
@njit(parallel=True, cache=True)
def _join(
    links: Links,
    strength: NDArray[np.int32],
    cost: NDArray[np.int64],
    position: NDArray[np.int32],
    size: NDArray[np.int64],
    block: NDArray[np.int32],
    order: NDArray[np.int32],
    begin: NDArray[np.int64],
    steps: NDArray[np.int32],
    slots: NDArray[np.int32],
    coarse_links: Links,
    coarse_strength: NDArray[np.int32],
    coarse_cost: NDArray[np.int64],
) -> None:
    """Add up costs of the vertices of each block, and links to those of others."""
    for b in prange(len(coarse_links)):
        for n in order[begin[b] : begin[b + 1]]:
            coarse_cost[b] += cost[n]
            for i in range(links.shape[1]):
                m = links[n, i]
                if m < 0 or block[m] == b:
                    continue
                x = _across(position[n, 0], steps[i, 0], size[0])
                y = _across(position[n, 1], steps[i, 1], size[1])
                z = _across(position[n, 2], steps[i, 2], size[2])
                coarse_links[b, slots[x, y, z]] = block[m]
                coarse_strength[b, slots[x, y, z]] += strength[n, i]


@njit(cache=True)
def _across(place: int, step: int, size: int) -> int:
    """Where a link goes along an axis, in blocks; where the lattice repeats, in the direction of the link."""
    there = place + step
    return step if there < 0 or there >= size else there // 2 - place // 2
