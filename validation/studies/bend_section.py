# SPDX-License-Identifier: Apache-2.0
"""A section of a bend: nodes of the part that stands for it, and polynomials that are fitted to their flow.

Lengths are in radii of the pipe and speeds in mean speeds; x points away from the centre of the bend, y across its
plane.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Velocity = Callable[[Array, Array], Array]
"""(u, v, w), (3, N), at points x, y, (N,) each, of a section."""

DEGREE = 10
"""Of the polynomials in x and y that are fitted to the flow in a section."""
RASTER = 100
"""Points on a radius among which a peak is looked for."""


@dataclass(frozen=True)
class Part:
    """Nodes of a part of the bend.

    Attributes
    ----------
    x, y : (K,) places in the section.
    along : (K,) places along the centreline from the middle of the part.
    velocity : (3, K): u, v, w.
    pressure_pa : (K,).
    """

    x: Array
    y: Array
    along: Array
    velocity: Array
    pressure_pa: Array

    def fit(self) -> Velocity:
        """Velocity as polynomials in x and y that are 0 on the wall, by least squares."""
        weights = np.linalg.lstsq(_polynomials(self.x, self.y, wall=True), self.velocity.T, rcond=None)[0]
        return lambda x, y: (_polynomials(x, y, wall=True) @ weights).T

    def gradient_pa(self) -> float:
        """Fall of the pressure along the centreline, by radius.

        The pressure is fitted by a line along the centreline with a polynomial in the section on top.
        """
        terms = np.column_stack((_polynomials(self.x, self.y), self.along))
        return -float(np.linalg.lstsq(terms, self.pressure_pa, rcond=None)[0][-1])

    def error(self, wanted: Velocity, rows: slice) -> float:
        """L2 norm of the difference of some components at the nodes, over that of the wanted ones."""
        there = wanted(self.x, self.y)[rows]
        return float(np.linalg.norm(self.velocity[rows] - there) / np.linalg.norm(there))


ACROSS, AXIAL = slice(0, 2), slice(2, 3)
"""Components of the velocity."""


def _polynomials(x: Array, y: Array, wall: bool = False) -> Array:
    """Products of Chebyshev's polynomials up to a degree, (N, terms); `wall`: times 1 - r^2."""
    terms: Array = np.polynomial.chebyshev.chebvander2d(x, y, [DEGREE, DEGREE]).astype(np.float64)
    along_x, along_y = np.indices((DEGREE + 1, DEGREE + 1)).reshape(2, -1)
    return terms[:, along_x + along_y <= DEGREE] * ((1 - x**2 - y**2)[:, None] if wall else 1.0)


def raster() -> tuple[Array, Array]:
    """Points x, y inside a section, evenly spaced, (N,) each."""
    line = np.arange(1 - RASTER, RASTER) / RASTER
    x, y = (values.ravel() for values in np.meshgrid(line, line))
    inside = x**2 + y**2 < 1
    return x[inside], y[inside]
