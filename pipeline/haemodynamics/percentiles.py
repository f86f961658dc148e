# SPDX-License-Identifier: Apache-2.0
"""Percentiles of values that stand for unequal parts of a whole."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


def weighted_percentiles(
    values: NDArray[np.float64], weights: NDArray[np.float64], percents: Iterable[float]
) -> tuple[float, ...]:
    """Smallest values at or below which the given percentages of the weight lie.

    Parameters
    ----------
    values, weights : (N,); weights are not negative.
    percents : from 0 to 100.
    """
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum() * 100
    rows = np.minimum(np.searchsorted(share, list(percents)), len(values) - 1)
    return tuple(float(value) for value in values[order][rows])
