# SPDX-License-Identifier: Apache-2.0
"""Fields between the nodes of a coarse lattice: from every second lattice point to all, to second order in space.

A node half-way between two coarse ones, along an axis or a diagonal of the lattice, gets their mean; then one in the
middle of eight gets that of its six neighbours, which have theirs: trilinear interpolation inside the vessel. Where the
link to one side crosses the wall at the distance q instead, a velocity is that on the line from the node on the other
side, u, to the wall's, u_w,

    (q u + u_w)/(1 + q),

and what has no value there goes on as from the two nodes behind it, (3 v_1 - v_2)/2. What is reached from both sides,
or by a wall, counts alone where there is any.
"""

from itertools import product

import numpy as np
from numpy.typing import NDArray

from solver.domain.border import Surroundings
from solver.domain.nodes import Neighbours, Nodes
from solver.kernels.d3q19 import OPPOSITE, VELOCITIES, Q

SURE, STRAIGHT, BESIDE = 1.0, 1e-3, 1e-6
"""Weights of values between two sides, of such as go on from one side, and of that of the one neighbour there is."""

Reals = NDArray[np.float64]


class Prolongation:
    """From every second lattice point to all.

    Parameters
    ----------
    nodes : the fine lattice; of a rank its part and what is around it, where all ranks interpolate together.
    rows : (M,) where among them the own nodes with known values are, as :func:`solver.domain.halving.halved` tells.
    """

    def __init__(self, nodes: Nodes, rows: NDArray[np.integer]) -> None:
        self._nodes, self._rows, neighbours = nodes, rows, Neighbours(nodes)
        self._own, self._around = nodes.is_own, Surroundings(nodes)
        self._ends = {i: neighbours.along(i) for i in range(1, Q)}
        layer = np.array(nodes.shape[::-1]) == 1
        odd = (nodes.position - nodes.position[rows[0]]) % 2 * ~layer
        self._stages = []
        for halves in sorted(product((0, 1), repeat=3), key=sum)[1:]:
            if not layer[np.flatnonzero(halves)].any():
                members = np.flatnonzero((odd == halves).all(axis=1) & self._own)
                self._stages.append((members, _across(np.array(halves))))

    def __call__(self, values: Reals, at_walls: Reals | None = None) -> Reals:
        """Values at the own nodes, (C, n); those of nodes that no line leads to are means of what is next to them.

        Parameters
        ----------
        values : (C, M) known ones.
        at_walls : (C, L) values where each wall link meets the wall; none where nothing is known of them there.
        """
        found = np.zeros((len(values), self._nodes.count))
        known = np.zeros(self._nodes.count, np.bool_)
        found[:, self._rows], known[self._rows] = values, True
        self._take_in(found, known)
        for members, directions in self._stages:
            self._fill(directions, members, found, known, at_walls)
            self._take_in(found, known)
        self._spread(found, known)
        return found[:, self._own]

    def _take_in(self, found: Reals, known: NDArray[np.bool_]) -> None:
        """Take in what other ranks know of their nodes around here."""
        for values in (*found, known):
            self._around.swap(values)

    def _fill(
        self,
        directions: list[int],
        members: NDArray[np.integer],
        found: Reals,
        known: NDArray[np.bool_],
        at_walls: Reals | None,
    ) -> None:
        """Values of the members from what lies along the directions."""
        total, weights = np.zeros((len(found), len(members))), np.zeros(len(members))

        def add(which: NDArray[np.bool_], values: Reals, weight: float) -> None:
            total[:, which] += weight * values
            weights[which] += weight

        for forward in directions:
            sides = forward, int(OPPOSITE[forward])
            beside = {i: self._ends[i][members] for i in sides}
            there = {i: (beside[i] >= 0) & known[beside[i]] for i in sides}
            both = there[sides[0]] & there[sides[1]]
            add(both, (found[:, beside[sides[0]][both]] + found[:, beside[sides[1]][both]]) / 2, SURE)
            for i, other in (sides, sides[::-1]):
                one, near = there[i] & ~there[other], found[:, beside[i]]
                q, wall = self._walls(other, members, at_walls, len(found))
                held = one & (q > 0)
                add(held, (q[held] * near[:, held] + wall[:, held]) / (1 + q[held]), SURE)
                next_one = self._ends[i][beside[i]]
                behind = self._ends[i][next_one]
                on_line = one & ~held & (next_one >= 0) & (behind >= 0) & known[behind]
                add(on_line, (3 * near[:, on_line] - found[:, behind[on_line]]) / 2, STRAIGHT)
                alone = one & ~held & ~on_line
                add(alone, near[:, alone], BESIDE)
        defined = weights > 0
        found[:, members[defined]], known[members[defined]] = total[:, defined] / weights[defined], True

    def _walls(
        self, direction: int, members: NDArray[np.integer], at_walls: Reals | None, components: int
    ) -> tuple[Reals, Reals]:
        """Distance q of members to the wall and the values there; 0 where no wall is met or nothing is known of it."""
        q, values = np.zeros(self._nodes.count), np.zeros((components, self._nodes.count))
        if at_walls is not None:
            mine = np.flatnonzero(self._nodes.wall_link_direction == direction)
            node = self._nodes.wall_link_node[mine]
            q[node], values[:, node] = self._nodes.wall_link_q[mine], at_walls[:, mine]
        return q[members], values[:, members]

    def _spread(self, found: Reals, known: NDArray[np.bool_]) -> None:
        """Give nodes without a value the mean of those next to them, from the known ones outwards."""
        while self._around.any(len(left := np.flatnonzero(~known & self._own))):
            total, count = np.zeros((len(found), len(left))), np.zeros(len(left))
            for ends in self._ends.values():
                there = ends[left]
                defined = (there >= 0) & known[there]
                total[:, defined] += found[:, there[defined]]
                count += defined
            defined = count > 0
            if not self._around.any(int(np.count_nonzero(defined))):
                return  # of a piece without any known node: at rest
            found[:, left[defined]], known[left[defined]] = total[:, defined] / count[defined], True
            self._take_in(found, known)


def _across(halves: NDArray[np.integer]) -> list[int]:
    """Directions, one of each pair, along which nodes off by these halves have nodes that are known before."""
    forward = range(1, Q, 2)
    if halves.sum() == 3:
        return [i for i in forward if np.abs(VELOCITIES[i]).sum() == 1]
    return [i for i in forward if np.array_equal(np.abs(VELOCITIES[i]), halves)]
