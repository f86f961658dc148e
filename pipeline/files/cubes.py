# SPDX-License-Identifier: Apache-2.0
"""Voxels that are cubes, on a grid that ends where another one does."""

import numpy as np
from numpy.typing import NDArray

MOST_STRETCH = 0.01
"""Part by which voxels are longer or shorter along an axis than asked for, at most, so that their grid fits. Any 50 do,
and fewer by chance; more of it would be seen in distances by voxels."""

CUBIC = (1 + MOST_STRETCH) / (1 - MOST_STRETCH)
"""Longest over shortest edge of voxels that are taken for cubes, at most."""

ROUNDING = 1e-6
"""Part of a voxel by which decimals of a header may be off."""


def that_fit(extent: NDArray[np.integer], step: NDArray[np.floating]) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
    """Whole numbers of new voxels that come nearest to so many old ones, and their lengths, stretched so as to fit.

    Half a voxel of a vessel that the border cuts is up to 1 % of its volume. Where `MOST_STRETCH` does not do, voxels
    keep their length: each end then lies within a quarter of a new voxel of the old one if both grids have one middle.

    Parameters
    ----------
    extent : (3,) old voxels along the axes.
    step : (3,) length of a new voxel, in old ones.
    """
    step = np.where(np.isclose(step, 1, rtol=ROUNDING, atol=0), 1.0, step)
    size = np.maximum(np.floor(extent / step + 0.5 + ROUNDING), 1).astype(np.int64)
    fits = np.abs(extent / size / step - 1) <= MOST_STRETCH
    return size, np.where(fits, extent / size, step)
