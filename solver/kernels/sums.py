# SPDX-License-Identifier: Apache-2.0
"""Sums whose bits do not depend on the order of their terms, and so not on threads, blocks or parts of the domain.

Each term is split into three limbs of fixed point,

    x = w_0 2^-30 + w_1 2^-60 + w_2 2^-90 + rest,    |rest| < 2^-90,

and limbs are added as 64-bit integers, which is exact in any order for up to 2^32 terms. A term of at least 2^-38 is
split without a rest, so that the sum is the true one of such terms, and rounded once. Terms beyond 1, or not finite,
are left out: in lattice units the flow has diverged by then, which the extremes of an observation show. Source of the
idea: Demmel and Nguyen (2015), doi:10.1109/TC.2014.2345391.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.kernels.node_physics import node_function

LIMBS = 3
"""Limbs of a sum."""
UP, DOWN = 2.0**30, 2.0**-30

Limbs = NDArray[np.int64]


@node_function
def split(x: Any) -> tuple[Any, Any, Any]:
    """The three limbs of a number in double precision."""
    scaled = x * UP if abs(x) <= 1.0 else 0.0
    first = np.int64(scaled)
    scaled = (scaled - first) * UP
    second = np.int64(scaled)
    return first, second, np.int64((scaled - second) * UP)


def joined(first: Any, second: Any, third: Any) -> Any:
    """The number that limbs stand for.

    Parameters
    ----------
    first, second, third : limbs, numbers or arrays of one shape, the first the most significant.
    """
    return ((third * DOWN + second) * DOWN + first) * DOWN


join = node_function(joined)


def total(limbs: Limbs) -> NDArray[np.float64]:
    """The numbers that the limbs along the last axis stand for."""
    values: NDArray[np.float64] = joined(*np.moveaxis(limbs, -1, 0))
    return values


@njit(cache=True)
def limbs_by_group(values: NDArray[np.floating], group: NDArray[np.integer], groups: int) -> Limbs:
    """Limbs of the sum of the values of each group, (groups, 3).

    Parameters
    ----------
    values : (K,) numbers.
    group : (K,) group of each, 0 to groups - 1.
    groups : number of groups.
    """
    limbs = np.zeros((groups, LIMBS), np.int64)
    for k in range(len(values)):
        first, second, third = split(np.float64(values[k]))
        limbs[group[k], 0] += first
        limbs[group[k], 1] += second
        limbs[group[k], 2] += third
    return limbs
