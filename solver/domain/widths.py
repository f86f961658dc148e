# SPDX-License-Identifier: Apache-2.0
"""How wide a vessel is: the area of its wall, and the room between its walls."""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from solver.domain.border import Border
from solver.domain.link_graph import link_table
from solver.domain.nodes import Neighbours, Nodes
from solver.kernels.d3q19 import VELOCITIES, WEIGHTS, Q


def wall_areas(nodes: Nodes, holds: NDArray[np.bool_] | slice = slice(None)) -> NDArray[np.float64]:
    """Area of the wall next to each fluid node, (N,), in squared spacings.

    The sum of 6 w_i |c_i . n| over its wall links, of those that `holds` picks, n from the mean of these links.
    """
    node, direction = nodes.wall_link_node[holds], nodes.wall_link_direction[holds]
    velocity, weight = VELOCITIES[direction].astype(np.float64), WEIGHTS[direction]
    normal = np.stack([np.bincount(node, weight * velocity[:, k], nodes.count) for k in range(3)], axis=1)
    normal = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
    through = 6 * weight * np.abs((velocity * normal[node]).sum(axis=1))
    return np.bincount(node, through, nodes.count).astype(np.float64)


def wall_area(nodes: Nodes, holds: NDArray[np.bool_]) -> float:
    """Area of the wall next to all fluid nodes, in squared spacings; `holds` as of :func:`wall_areas`."""
    return nodes.sum_of_own(wall_areas(nodes, holds)[nodes.is_own])


def widest_radius_mm(nodes: Nodes) -> float:
    """Radius of about the largest sphere that has room in a vessel: the largest of :func:`half_chords_mm`."""
    halves = half_chords_mm(nodes)[nodes.is_own]
    return float(nodes.ranks.join(halves.max(keepdims=True)).max())


def half_chords_mm(nodes: Nodes) -> NDArray[np.float64]:
    """Half of the shortest chord through each own node, (N,), along the nine lines of the lattice.

    In a tube some line is across it to within 25 degrees, so that it is at most a tenth too large.
    """
    shortest = np.full(nodes.count, np.inf)
    neighbours, border = Neighbours(nodes), Border(nodes, link_table(nodes) if nodes.whole else NO_LINKS)
    for forward in range(1, Q, 2):
        length = nodes.spacing_mm * float(np.linalg.norm(VELOCITIES[forward]))
        ahead, behind = neighbours.along(forward), neighbours.along(forward + 1)
        to_end, to_start = _steps_to_end(ahead, behind, border), _steps_to_end(behind, ahead, border)
        chord = np.where((to_end > 0) & (to_start > 0), to_end + to_start - 1.0, np.inf)
        np.minimum(shortest, length * chord, out=shortest)
    return shortest / 2


NO_LINKS = np.zeros((0, 0), np.int32)
"""Of nodes that are all here."""


def _steps_to_end(ahead: NDArray[np.int32], behind: NDArray[np.int32], border: Border) -> NDArray[np.int32]:
    """Nodes from each own node to the end of its line, both counted, (N,); 0 where the line has no end.

    Lines that go on at other ranks are counted from there, as soon as these know.
    """
    known = np.zeros(len(ahead), np.int32)
    while True:
        found = _count(ahead, behind, border.own, known)
        if not border.any(found):
            return known
        border.swap(known)


@njit(parallel=True, cache=True)
def _count(
    ahead: NDArray[np.int32], behind: NDArray[np.int32], own: NDArray[np.bool_], known: NDArray[np.int32]
) -> int:
    """Count on from ends of lines, and from nodes of others that know it; how many lines these are."""
    lines = 0
    for start in prange(len(ahead)):
        there = ahead[start]
        if own[start] and known[start] == 0 and (there < 0 or (not own[there] and known[there] > 0)):
            count, n = (np.int32(0) if there < 0 else known[there]), np.int32(start)
            while n >= 0 and own[n]:
                count += np.int32(1)
                known[n], n = count, behind[n]
            lines += 1
    return lines
