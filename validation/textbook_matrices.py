# SPDX-License-Identifier: Apache-2.0
"""Collisions of the textbook solver as matrices, for its long runs.

With a fixed density in the momentum, and rates and a force that are the same everywhere, most collisions are
polynomials of second degree in the populations g, (Q, N):

    g' = s + M g + W p,    p = (v_x v_x, v_y v_y, v_z v_z, v_x v_y, v_x v_z, v_y v_z),    v = sum c_i g_i.

s (Q,), M (Q, Q) and W (Q, 6) are what the textbook's own function says where one population is 1, or -1, and the others
are 0, so that nothing is written twice.
"""

from collections.abc import Callable
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from solver.kernels.velocity_sets import VelocitySet

Array = NDArray[np.float64]

PAIRS = tuple(zip(*combinations_with_replacement(range(3), 2), strict=True))
"""Components of the products, (2, 6)."""
TOGETHER = 256
"""Nodes that collide at once: they stay in the processor's cache, and their product with M is so small that BLAS shares
it with no other thread, which for a lattice's takes ten times as long as the product."""


class Quadratic:
    """A collision that is a polynomial of second degree.

    Parameters
    ----------
    stencil : the velocity set.
    collide : from populations before it, (Q, N), to those after it.
    """

    def __init__(self, stencil: VelocitySet, collide: Callable[[Array], Array]) -> None:
        self.momentum = stencil.velocities.T.astype(np.float64)
        unit = np.eye(len(stencil))
        still, up, down = collide(np.zeros((len(stencil), 1))), collide(unit), collide(-unit)
        even = (up + down) / 2 - still
        self.still, self.linear = still, (up - down) / 2
        self.products = np.linalg.lstsq(self._products(unit).T, even.T, rcond=None)[0].T

    def _products(self, g: Array) -> Array:
        v = self.momentum @ g
        one, other = PAIRS
        return np.asarray(v[list(one)] * v[list(other)])

    def __call__(self, g: Array) -> Array:
        """Populations after collision, (Q, N)."""
        out = np.empty_like(g)
        for first in range(0, g.shape[1], TOGETHER):
            some = g[:, first : first + TOGETHER]
            after = np.matmul(self.linear, some, out=out[:, first : first + TOGETHER])
            after += self.products @ self._products(some)
            after += self.still
        return out
