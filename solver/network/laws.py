# SPDX-License-Identifier: Apache-2.0
"""Laws of the wall for compiled loops: pressure by stretch, its slope, and stretch by pressure.

A law is that of :mod:`solver.network.arterial_walls`. Networks whose walls are all linear get the law of these alone,
which needs no iteration and lets loops over cells be made of vectors; others get the whole law.
"""

from functools import cache
from math import exp, log1p
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.kernels.node_physics import node_function
from solver.network.arterial_walls import (
    COEFFICIENTS,
    COLLAGEN,
    ELASTIC,
    ELASTIN,
    HYPERBOLIC,
    RECRUITED_AT,
    RECRUITED_OVER,
)

Reals = NDArray[np.float64]

AT_REST, RECIPROCAL = COEFFICIENTS, COEFFICIENTS + 1
"""Rows of a table beside the coefficients: collagen's part at the stretch 1, and 1/b0."""
ROWS = COEFFICIENTS + 2
"""Rows of a table."""
SATURATED = 30.0
"""Argument from which on ln(1 + exp(z)) is z, to double precision."""
MOST_ITERATIONS, CLOSE = 30, 1e-8
"""Of Newton's method for the stretch, and its last step: what that leaves is its square, which is round-off."""
LEAST_STRETCH = 0.05
"""Below it no iterate of Newton's method goes; a lumen of this stretch has collapsed."""


class Law(NamedTuple):
    """Functions of a stretch, a table and a column of it.

    Attributes
    ----------
    pressure : (stretch, table, i) -> pressure beyond that at the stretch 1, Pa.
    slope : (stretch, table, i) -> its derivative by the stretch, Pa.
    stretch : (pressure, guess, table, i) -> stretch at which it is so.
    """

    pressure: Any
    slope: Any
    stretch: Any


def table_of(coefficients: Reals) -> Reals:
    """Table for compiled loops, (8, K), of the coefficients of walls, (6, K)."""
    table = np.zeros((ROWS, coefficients.shape[1]))
    table[:COEFFICIENTS] = coefficients
    over = coefficients[RECRUITED_OVER]
    table[AT_REST] = coefficients[COLLAGEN] * over * np.log1p(np.exp(-coefficients[RECRUITED_AT] / over))
    stiff = coefficients[ELASTIC] != 0.0
    table[RECIPROCAL, stiff] = 1.0 / coefficients[ELASTIC, stiff]
    return table


def is_linear(coefficients: Reals) -> bool:
    """Whether walls of these coefficients are all linear in their stretch."""
    return not coefficients[[HYPERBOLIC, ELASTIN, COLLAGEN]].any()


@cache
def make_law(linear: bool) -> Law:
    """The law of linear walls alone, or the whole one."""
    return LINEAR if linear else WHOLE


@node_function
def _linear_pressure(stretch: Any, table: Any, i: Any) -> Any:
    return table[ELASTIC, i] * (stretch - 1.0)


@node_function
def _linear_slope(stretch: Any, table: Any, i: Any) -> Any:
    return table[ELASTIC, i]


@node_function
def _linear_stretch(pressure: Any, guess: Any, table: Any, i: Any) -> Any:
    return 1.0 + pressure * table[RECIPROCAL, i]


@node_function
def _recruited(strain: Any, table: Any, i: Any) -> tuple[Any, Any]:
    """Stretch of the collagen that is recruited, e_r ln(1 + exp(z)), and its derivative by the strain."""
    over = table[RECRUITED_OVER, i]
    z = (strain - table[RECRUITED_AT, i]) / over
    if z > SATURATED:
        return over * z, 1.0
    grown = exp(z)
    return over * log1p(grown), grown / (1.0 + grown)


@node_function
def _both(stretch: Any, table: Any, i: Any) -> tuple[Any, Any]:
    """Pressure and slope."""
    strain, inverse = stretch - 1.0, 1.0 / stretch
    square = inverse * inverse
    fibres, rise = table[ELASTIN, i] * strain, table[ELASTIN, i]
    if table[COLLAGEN, i] != 0.0:
        taut, share = _recruited(strain, table, i)
        fibres, rise = fibres + table[COLLAGEN, i] * taut, rise + table[COLLAGEN, i] * share
    elastic, hyperbolic = table[ELASTIC, i], table[HYPERBOLIC, i]
    pressure = elastic * strain + hyperbolic * strain * inverse + fibres * square - table[AT_REST, i]
    return pressure, elastic + (hyperbolic + rise - 2.0 * fibres * inverse) * square


@node_function
def _pressure(stretch: Any, table: Any, i: Any) -> Any:
    return _both(stretch, table, i)[0]


@node_function
def _slope(stretch: Any, table: Any, i: Any) -> Any:
    return _both(stretch, table, i)[1]


@node_function
def _stretch(pressure: Any, guess: Any, table: Any, i: Any) -> Any:
    """By Newton's method."""
    stretch = guess
    for _ in range(MOST_ITERATIONS):
        found, slope = _both(stretch, table, i)
        step = (pressure - found) / slope
        stretch = max(stretch + step, LEAST_STRETCH)
        if abs(step) <= CLOSE:
            break
    return stretch


LINEAR = Law(_linear_pressure, _linear_slope, _linear_stretch)
WHOLE = Law(_pressure, _slope, _stretch)
