# SPDX-License-Identifier: Apache-2.0
"""Gaussians of volumes in less time than SciPy's ``gaussian_filter``, with the same bits."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

TRUNCATE = 4.0
"""Standard deviations at which the Gaussian ends."""

TOGETHER = 512
"""Voxels that lie one after the other in memory and are summed together, so that they stay in the fastest cache."""


def gaussian(values: NDArray[np.floating], deviation: float) -> NDArray[np.floating]:
    """Mean over a Gaussian, (Z, Y, X); beyond the border values go on as they are there.

    Along each axis the sums are those of voxels side by side, which a processor forms four at a time; SciPy takes one
    after the other. Each is of the same terms in the same order, and rounded to the type of the values.

    Parameters
    ----------
    values : (Z, Y, X).
    deviation : standard deviation, voxels.
    """
    away = np.arange(-int(TRUNCATE * deviation + 0.5), 1)
    weights = np.exp(-0.5 / (deviation * deviation) * away**2)
    weights = weights / np.concatenate([weights, weights[-2::-1]]).sum()
    planes, rows, columns = values.shape

    def summed(given: NDArray[np.floating], shape: tuple[int, int, int]) -> NDArray[np.floating]:
        found = np.empty(shape)
        _along_middle(np.ascontiguousarray(given, float).reshape(shape), weights, found)
        return found.astype(values.dtype, copy=False)

    found = summed(summed(values, (1, planes, rows * columns)), values.shape)
    across = summed(found.reshape(-1, columns).T, (1, columns, planes * rows))
    return np.ascontiguousarray(across[0].T).reshape(values.shape)


@njit(cache=True)
def _along_middle(values: NDArray[np.float64], weights: NDArray[np.float64], found: NDArray[np.float64]) -> None:
    """Sums along the middle axis.

    Parameters
    ----------
    values, found : (A, N, B).
    weights : from the farthest to that of the voxel itself.
    """
    first, size, last = values.shape
    reach = len(weights) - 1
    for a in range(first):
        for begin in range(0, last, TOGETHER):
            end = min(begin + TOGETHER, last)
            for n in range(size):
                into, here = found[a, n, begin:end], values[a, n, begin:end]
                for k in range(end - begin):
                    into[k] = here[k] * weights[reach]
                for each in range(reach):
                    below = values[a, max(n - reach + each, 0), begin:end]
                    above = values[a, min(n + reach - each, size - 1), begin:end]
                    weight = weights[each]
                    for k in range(end - begin):
                        into[k] += (below[k] + above[k]) * weight
