# SPDX-License-Identifier: Apache-2.0
"""The flow that carries the scalar: what the velocity sends through the faces of nodes, without any divergence.

Through the face between two nodes n and m the flow is the mean of both velocities, c_i.(u_n + u_m)/2; through a wall
nothing, through an opening what is stated. The flow has no divergence of its own, but on D3Q19, whose links along
diagonals carry a part of it, and at walls that lie anywhere between nodes. Here, at walls that are stairs, what is left
of it is as large as the velocity there, and C = 1 everywhere does not stay: at a grid Peclet number of 1000 it comes to
lie between -7 and 10 in an oblique pipe. So the least change is made, in the sum of its squares, after which

    div(n) = sum_i f_i(n) = 0

at all nodes: f_i(n) = c_i.(u_n + u_m)/2 + l_n - l_m, with the potential l of a Poisson equation on the nodes, solved by
conjugate gradients. The change is of the size of the velocity next to the wall, and at walls alone.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from solver.backends.scalar_lattice import ScalarLattice
from solver.domain.nodes import Neighbours, Nodes
from solver.kernels.compilation import cached_njit
from solver.kernels.d3q19 import VELOCITIES
from solver.kernels.transport import SCALAR_Q
from solver.runtime.errors import StageError

Reals = NDArray[np.float64]

TOLERANCE = 1e-8
"""Largest divergence that is left, over the largest velocity: round-off of single precision, in which it is stored."""
MOST_ROUNDS = 5000


@dataclass(frozen=True)
class Carrier:
    """Finds such a flow on one geometry.

    Attributes
    ----------
    lattice : of the scalar.
    beside : (N, 6) row of the node along each axis, to and fro; -1 for none.
    reached : (N,) nodes of pieces that hang together along the axes and that something flows through; others, at rims
        and walls, have links along diagonals alone to them, and the scalar has none.
    piece : (openings,) number of the piece that each opening leads into; -1 for none.
    """

    lattice: ScalarLattice
    beside: NDArray[np.int32]
    reached: NDArray[np.bool_]
    piece: NDArray[np.int64]

    @classmethod
    def of(cls, nodes: Nodes, lattice: ScalarLattice) -> "Carrier":
        """On a geometry with its lattice."""
        beside = Neighbours(nodes).table(range(1, SCALAR_Q))
        if not nodes.openings:
            return cls(lattice, beside, np.ones(nodes.count, np.bool_), np.zeros(0, np.int64))
        piece, leads_into = np.full(nodes.count, -1), np.full(lattice.openings, -1)
        _spread(beside, lattice.ports.node, piece)
        for number in np.argsort(-np.bincount(piece[piece >= 0]), kind="stable"):  # an opening belongs to the largest
            openings = np.unique(lattice.ports.opening[piece[lattice.port_node] == number])
            if len(openings) > 1 and (leads_into[openings] < 0).all():
                leads_into[openings] = number
        return cls(lattice, beside, np.isin(piece, leads_into[leads_into >= 0]), leads_into)

    @property
    def _open(self) -> Reals:
        """(K,) 1 of links of nodes that are reached, 0 of others."""
        return self.reached[self.lattice.port_node].astype(np.float64)

    def through_openings(self, velocity: Reals, flows: Reals) -> Reals:
        """Flow out through each link of an opening, (K,), whose sums over openings are those that are given.

        It is that of the node's velocity, and what is missing from the given flow in proportion to its size.

        Parameters
        ----------
        velocity : (3, N).
        flows : (openings,) flow out through each, which sum to 0.
        """
        lattice = self.lattice
        direction = VELOCITIES[lattice.direction].astype(np.float64)
        through = (direction * velocity[:, lattice.port_node].T).sum(axis=1)
        opening, count, open_here = lattice.ports.opening, lattice.openings, self._open
        size, links = (np.bincount(opening, of, count)[opening] for of in (np.abs(through), open_here))
        share = np.where(size > 0, np.abs(through), open_here) / np.where(size > 0, size, np.maximum(links, 1))
        missing = flows - np.bincount(opening, through, count)
        flux: Reals = through + share * missing[opening]
        return flux

    def faces(self, velocity: Reals, flows: Reals) -> Reals:
        """Flow out through the faces of the nodes, (6, N), in the order of the directions, which has no divergence.

        Parameters
        ----------
        velocity : (3, N) of the flow, any unit.
        flows : (openings,) flow out through each, in that unit and squares of the spacing. What they do not sum to 0 is
            taken off in proportion to their size.

        Raises
        ------
        StageError
            If an opening has no link along an axis, or the flow has a divergence that does not go away.
        """
        lattice = self.lattice
        if len(missing := np.flatnonzero((self.piece < 0) & (flows != 0))):
            raise StageError(
                f"opening {missing[0] + 1}: no way along axes of the lattice leads from it to another opening, so no"
                " scalar gets through it; choose a finer voxelize.spacing_mm"
            )
        flows = flows.copy()
        for number in np.unique(self.piece):
            flows[self.piece == number] = balanced(flows[self.piece == number])
        carried = np.where(self.reached, velocity, 0.0)
        faces = between_nodes(self.beside, carried)
        faces[lattice.direction - 1, lattice.port_node] = self.through_openings(carried, flows)
        _add_differences(self.beside, self._potential(-faces.sum(axis=0), np.abs(velocity).max(initial=0.0)), faces)
        return faces

    def _potential(self, wanted: Reals, fastest: float) -> Reals:
        """The potential whose differences have the divergence `wanted`, (N,)."""
        least = TOLERANCE * fastest
        links = np.maximum((self.beside >= 0).sum(axis=1), 1)
        rest, potential = wanted.copy(), np.zeros_like(wanted)
        along, size = rest / links, (rest * rest / links).sum()
        for _ in range(MOST_ROUNDS):
            if np.abs(rest).max(initial=0.0) <= least:
                return potential
            image = _divergence_of(self.beside, along)
            step = size / (along * image).sum()
            potential += step * along
            rest -= step * image
            before, size = size, (rest * rest / links).sum()
            along = rest / links + size / before * along
        raise StageError(
            f"transport: the divergence of the flow comes to {np.abs(rest).max():.2g} in {MOST_ROUNDS} rounds, above"
            f" {least:.2g}; look at the openings in the report, or choose a finer voxelize.spacing_mm"
        )


def balanced(flows: Reals) -> Reals:
    """Flows that sum to 0, from such as nearly do."""
    size = np.abs(flows).sum()
    return flows - flows.sum() * np.abs(flows) / size if size else flows


def between_nodes(beside: NDArray[np.int32], velocity: Reals) -> Reals:
    """Mean of both nodes' velocities out through the face to each neighbour, (6, N)."""
    faces = np.zeros((6, len(beside)))
    for i, face in enumerate(faces):
        here = np.flatnonzero(beside[:, i] >= 0)
        along = velocity[i // 2]
        face[here] = (1 - 2 * (i % 2)) * (along[here] + along[beside[here, i]]) / 2
    return faces


def _add_differences(beside: NDArray[np.int32], potential: Reals, faces: Reals) -> None:
    for i, face in enumerate(faces):
        here = np.flatnonzero(beside[:, i] >= 0)
        face[here] += potential[here] - potential[beside[here, i]]


@cached_njit(parallel=True)
def _divergence_of(beside: Any, potential: Any) -> Any:
    """Divergence of the differences of a potential, (N,)."""
    found = np.empty(len(beside))
    for n in prange(len(beside)):
        total = 0.0
        for i in range(6):
            m = beside[n, i]
            if m >= 0:
                total += potential[n] - potential[m]
        found[n] = total
    return found


@cached_njit()
def _spread(beside: Any, start: Any, piece: Any) -> None:
    """Number the pieces in which some nodes lie, (N,), that hang together along the axes; -1 where none of them is."""
    waiting = np.empty(len(beside), np.int64)
    number = 0
    for first in start:
        if piece[first] >= 0:
            continue
        piece[first], waiting[0], count = number, first, 1
        while count > 0:
            count -= 1
            n = waiting[count]
            for i in range(6):
                m = beside[n, i]
                if m >= 0 and piece[m] < 0:
                    piece[m], waiting[count] = number, m
                    count += 1
        number += 1
