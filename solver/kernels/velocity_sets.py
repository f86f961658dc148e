# SPDX-License-Identifier: Apache-2.0
"""Velocity sets as data. The drivers run both; geometry is described by the directions of :mod:`solver.kernels.d3q19`
alone.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from solver.kernels import d3q19


@dataclass(frozen=True, eq=False)
class VelocitySet:
    """Velocities c_i, the first at rest, the others in opposite pairs, and weights w_i; c_s^2 = 1/3.

    Attributes
    ----------
    name : as published.
    velocities : (Q, 3), components (x, y, z), lattice units.
    weights : (Q,); they sum to 1, and sum(w c c) is I/3.
    """

    name: str
    velocities: NDArray[np.float64]
    weights: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.weights)

    @cached_property
    def opposite(self) -> NDArray[np.int64]:
        """``velocities[opposite[i]] == -velocities[i]``, (Q,)."""
        return np.array([self.direction(-velocity) for velocity in self.velocities])

    def flux(self, direction: NDArray[np.integer], normal: NDArray[np.float64]) -> NDArray[np.float64]:
        """What links along some directions, (L,), carry of a uniform flow along a normal: 6 w_i |c_i.n|, (L,)."""
        flux: NDArray[np.float64] = 6 * self.weights[direction] * np.abs(self.velocities[direction] @ normal)
        return flux

    @cached_property
    def products(self) -> NDArray[np.float64]:
        """c_i c_i, (Q, 3, 3)."""
        return np.einsum("ia,ib->iab", self.velocities, self.velocities)

    @cached_property
    def third_order(self) -> NDArray[np.float64]:
        """Polynomials that give a set of populations the moments a_abc, (Q, 3, 3, 3), and none of lower order.

        The Hermite polynomials H_abc = c_a c_b c_c - (c_a d_bc + c_b d_ac + c_c d_ab)/3, without those of one axis
        alone, which no set of speeds -1, 0, 1 carries, over the scalar products that they have with each other.
        """
        c, delta = self.velocities, np.eye(3)
        traces = [np.einsum(f"i{a},{b}{d}->iabd", c, delta) for a, b, d in ("abd", "bad", "dab")]
        hermite = np.einsum("ia,ibd->iabd", c, self.products) - sum(traces) / 3
        hermite[:, range(3), range(3), range(3)] = 0
        rows = hermite.reshape(len(self), 27)
        return (rows @ np.linalg.pinv(rows.T @ (self.weights[:, None] * rows))).reshape(hermite.shape)

    def direction(self, velocity: NDArray[np.floating]) -> int:
        """Number of a velocity."""
        return int(np.flatnonzero((velocity == self.velocities).all(axis=1))[0])


D3Q19 = VelocitySet("D3Q19", d3q19.VELOCITIES.astype(np.float64), d3q19.WEIGHTS)
"""The set of the fewest velocities that gives the right stress; its moments of fourth order are not all isotropic."""

_CORNERS = np.array([sign * np.array((1.0, *rest)) for rest in product((1, -1), repeat=2) for sign in (1, -1)])

D3Q27 = VelocitySet(
    "D3Q27",
    np.concatenate((D3Q19.velocities, _CORNERS)),
    np.array([8 / 27] + [2 / 27] * 6 + [1 / 54] * 12 + [1 / 216] * 8),
)
"""All of {-1, 0, 1}^3, those of D3Q19 first (He and Luo 1997b, doi:10.1103/PhysRevE.56.6811)."""

VELOCITY_SETS = {stencil.name: stencil for stencil in (D3Q19, D3Q27)}


def velocity_set(q: int) -> VelocitySet:
    """The set of so many velocities."""
    return next(stencil for stencil in VELOCITY_SETS.values() if len(stencil) == q)
