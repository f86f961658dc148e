# SPDX-License-Identifier: Apache-2.0
"""The velocity that carries the scalar: that of the flow, without the divergence that the scalar's lattice sees in it.

Through the face between two nodes n and m, D3Q7 carries (u_n + u_m)/2; through a wall nothing, through an opening what
is stated. The flow has no divergence of its own, but on D3Q19, whose links along diagonals carry a part of it, and at
walls that lie anywhere between nodes. Here, at walls that are stairs, what is left of it is as large as the velocity
there, and C = 1 everywhere does not stay: at a grid Peclet number of 1000 it comes to lie between -7 and 10 in an
oblique pipe. So the least change of the velocity is taken, in the sum of its squares, after which

    div(n) = sum_a [(u_a(n) + u_a(n + a)) - (u_a(n) + u_a(n - a))]/2 + (flow out through openings) = 0

at all nodes, each bracket without faces that are walls. It is A^T l with A A^T l = -div, where div = A u, by conjugate
gradients. The change is of the size of the velocity next to the wall, and at walls alone.
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
CHUNK = 4096
"""Nodes of which each adds up its own sum, whatever the number of threads."""

threaded = cached_njit(parallel=True)


@dataclass(frozen=True)
class Carrier:
    """Finds such velocities on one geometry.

    Attributes
    ----------
    lattice : of the scalar.
    beside : (N, 6) row of the node along each axis, to and fro; -1 for none.
    reached : (N,) nodes that an opening reaches along the axes; others, next to walls, have links along diagonals
        alone, and the scalar has none to them.
    """

    lattice: ScalarLattice
    beside: NDArray[np.int32]
    reached: NDArray[np.bool_]

    @classmethod
    def of(cls, nodes: Nodes, lattice: ScalarLattice) -> "Carrier":
        """On a geometry with its lattice."""
        beside = Neighbours(nodes).table(range(1, SCALAR_Q))
        reached = np.zeros(nodes.count, np.bool_)
        _spread(beside, lattice.ports.node if nodes.openings else np.zeros(1, np.int64), reached)
        return cls(lattice, beside, reached)

    @property
    def port_node(self) -> NDArray[np.int64]:
        """(K,) node of each link through an opening."""
        ports = self.lattice.ports
        return np.repeat(ports.node, np.diff(ports.first))

    def flux(self, velocity: Reals, flows: Reals) -> Reals:
        """Flow out through each link of an opening, (K,), whose sums over openings are those that are given.

        It is that of the node's velocity, and what is missing from the given flow in proportion to its size.

        Parameters
        ----------
        velocity : (3, N).
        flows : (openings,) flow out through each, which sum to 0.
        """
        lattice = self.lattice
        direction = VELOCITIES[lattice.direction].astype(np.float64)
        through = (direction * velocity[:, self.port_node].T).sum(axis=1)
        opening, count = lattice.ports.opening, lattice.openings
        size = np.bincount(opening, np.abs(through), count)[opening]
        share = np.where(size > 0, np.abs(through), 1.0) / np.where(
            size > 0, size, np.bincount(opening, None, count)[opening]
        )
        missing = flows - np.bincount(opening, through, count)
        flux: Reals = through + share * missing[opening]
        return flux

    def without_divergence(self, velocity: Reals, flows: Reals) -> tuple[Reals, Reals]:
        """The velocity (3, N) that carries the scalar, and the flow out through each link of an opening, (K,).

        Parameters
        ----------
        velocity : (3, N) of the flow, any unit.
        flows : (openings,) flow out through each, in that unit and squares of the spacing. What they do not sum to 0 is
            taken off in proportion to their size.

        Raises
        ------
        StageError
            If an opening has no link along an axis, or the velocity has a divergence that does not go away.
        """
        flows = balanced(flows)
        links = np.bincount(self.lattice.ports.opening, None, len(flows))
        if len(missing := np.flatnonzero((links == 0) & (flows != 0))):
            raise StageError(
                f"opening {missing[0] + 1}: none of its links lies along an axis, so no scalar gets through it; choose"
                " a finer voxelize.spacing_mm"
            )
        carried = np.where(self.reached, velocity, 0.0)
        flux = self.flux(carried, flows)
        wanted = -np.bincount(self.port_node, flux, self.lattice.count)
        least = TOLERANCE * np.abs(velocity).max(initial=0.0)
        change = self._change(wanted - _divergence(self.beside, carried), least)
        return carried + change, flux

    def divergence(self, velocity: Reals, flux: Reals) -> Reals:
        """What is left of it, (N,).

        Parameters
        ----------
        velocity : (3, N).
        flux : (K,) out through each link of an opening.
        """
        return _divergence(self.beside, velocity) + np.bincount(self.port_node, flux, self.lattice.count)

    def _change(self, wanted: Reals, least: float) -> Reals:
        """The least change of a velocity whose divergence is `wanted`, (N,), up to `least`."""
        scale = 1 / np.maximum(_diagonal(self.beside), 0.25)
        rest, solution = wanted.copy(), np.zeros_like(wanted)
        weighted = scale * rest
        along, size = weighted.copy(), _dot(rest, weighted)
        for _ in range(MOST_ROUNDS):
            if np.abs(rest).max(initial=0.0) <= least:
                return _change_of(self.beside, solution)
            image = _divergence(self.beside, _change_of(self.beside, along))
            step = size / _dot(along, image)
            solution += step * along
            rest -= step * image
            weighted = scale * rest
            before, size = size, _dot(rest, weighted)
            along = weighted + size / before * along
        raise StageError(
            f"transport: the divergence of the flow comes to {np.abs(rest).max():.2g} in {MOST_ROUNDS} rounds, above"
            f" {least:.2g}; look at the openings in the report, or choose a finer voxelize.spacing_mm"
        )


def balanced(flows: Reals) -> Reals:
    """Flows that sum to 0, from such as nearly do."""
    size = np.abs(flows).sum()
    return flows - flows.sum() * np.abs(flows) / size if size else flows


@threaded
def _divergence(beside: Any, velocity: Any) -> Any:
    """A u of the module, (N,)."""
    found = np.empty(len(beside))
    for n in prange(len(beside)):
        total = 0.0
        for i in range(6):
            m = beside[n, i]
            if m >= 0:
                through = (velocity[i // 2, n] + velocity[i // 2, m]) / 2
                total += through if i % 2 == 0 else -through
        found[n] = total
    return found


@threaded
def _change_of(beside: Any, potential: Any) -> Any:
    """A^T l of the module, (3, N)."""
    found = np.empty((3, len(beside)))
    for n in prange(len(beside)):
        for a in range(3):
            up, down = beside[n, 2 * a], beside[n, 2 * a + 1]
            total = 0.0
            if up >= 0:
                total += (potential[n] - potential[up]) / 2
            if down >= 0:
                total -= (potential[n] - potential[down]) / 2
            found[a, n] = total
    return found


@threaded
def _diagonal(beside: Any) -> Any:
    """Diagonal of A A^T, (N,)."""
    found = np.empty(len(beside))
    for n in prange(len(beside)):
        total = 0.0
        for a in range(3):
            ends = int(beside[n, 2 * a] >= 0) + int(beside[n, 2 * a + 1] >= 0)
            total += 0.25 * ends + (0.25 if ends == 1 else 0.0)
        found[n] = total
    return found


@threaded
def _dot(a: Any, b: Any) -> Any:
    """Scalar product whose bits do not depend on threads."""
    partial = np.zeros((len(a) + CHUNK - 1) // CHUNK)
    for chunk in prange(len(partial)):
        for n in range(chunk * CHUNK, min(len(a), (chunk + 1) * CHUNK)):
            partial[chunk] += a[n] * b[n]
    return partial.sum()


@cached_njit()
def _spread(beside: Any, start: Any, reached: Any) -> None:
    """Mark all nodes that are reached from some."""
    waiting = np.empty(len(beside), np.int64)
    count = 0
    for n in start:
        if not reached[n]:
            reached[n] = True
            waiting[count] = n
            count += 1
    while count > 0:
        count -= 1
        n = waiting[count]
        for i in range(6):
            m = beside[n, i]
            if m >= 0 and not reached[m]:
                reached[m] = True
                waiting[count] = m
                count += 1
