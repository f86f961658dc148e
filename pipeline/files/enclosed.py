# SPDX-License-Identifier: Apache-2.0
"""The volume within the wall of a lumen that is known to parts of a voxel.

Voxels that are at least half full, counted, are the volume only on average over places of the vessel in the grid: a
tube of five voxels in radius along an axis of the grid has the same section in every slice, which counts up to 5 % more
or less than its area. The wall where a voxel is half full, between voxels, has the volume.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import ndimage

FULL = 0.5
"""The wall stands where so much of a voxel is filled."""

HELD = FULL - 1e-6
"""A voxel outside that is nearly half full is bright, but was left out, as beyond a plane: it is empty."""

MARGIN = 3
"""Voxels around the lumen in which the spline is made."""

LEAST_SLOPE = 1e-6
"""Change of the part over a voxel, below which there is no wall."""


def enclosed_voxels(part: NDArray[Any]) -> float:
    """Volume, in voxels, within the wall on which a field of parts of voxels is 1/2: the sum of :func:`filled`.

    Parameters
    ----------
    part : (Z, Y, X), 0 to 1; beyond the border of the array it goes on.
    """
    inside = part >= FULL
    sides = ndimage.find_objects(inside.astype(np.uint8))
    if not sides:
        return 0.0
    box = tuple(slice(max(side.start - MARGIN, 0), side.stop + MARGIN) for side in sides[0])
    return float(filled(part[box]).sum(dtype=np.float64))


def both_sides(inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Voxels of a mask and around it that touch its wall, if by a corner alone; beyond the border it goes on.

    Parameters
    ----------
    inside : (Z, Y, X).
    """
    sides = np.where(inside, np.uint8(1), np.uint8(2))
    for axis in range(sides.ndim):  # bits of the neighbours along one axis after the other
        along = np.moveaxis(sides, axis, 0)
        alone = along.copy()
        along[1:] |= alone[:-1]
        along[:-1] |= alone[1:]
    return sides == 3


def filled(part: NDArray[Any]) -> NDArray[np.float32]:
    """What of each voxel lies within the wall on which a field of parts of voxels is 1/2, (Z, Y, X).

    Between voxels the field is a cubic spline. Each voxel at the wall is halved along every axis, and each eighth is
    filled as a plane at its distance (value less 1/2, over the gradient) fills it. Of a mask of 0 and 1, which tells
    nothing between voxels, it is the mask.

    Parameters
    ----------
    part : (Z, Y, X), 0 to 1; beyond the border of the array it goes on.
    """
    inside = part >= FULL
    field = np.where(inside | (part < HELD), part, 0).astype(np.float32)
    found = inside.astype(np.float32)
    if not np.any((field > 0) & (field < 1)):
        return found
    wall = both_sides(inside)
    places = np.argwhere(wall)
    slope = np.zeros(len(places), np.float32)
    for axis, size in enumerate(field.shape):
        if size > 1:
            slope += np.abs(np.gradient(field, axis=axis)[wall])
    half_slope = np.maximum(slope / 2, LEAST_SLOPE)
    mean = field + ndimage.laplace(field, mode="nearest") / 96  # over an eighth: a wall is curved within it
    spline = ndimage.spline_filter(mean, order=3, output=np.float32, mode="nearest")
    share = np.zeros(len(places))
    for value in _in_eighths(spline, places, _WEIGHTS):
        share += np.clip(0.5 + (value - FULL) / half_slope, 0, 1) / 8
    found[wall] = share
    return found


def _weights(place: float) -> NDArray[np.float64]:
    """Of the four coefficients around a place, a part of the way from the second to the third, in a cubic spline."""
    left = 1 - place
    second = (place * place * (place - 2) * 3 + 4) / 6
    third = (left * left * (left - 2) * 3 + 4) / 6
    first = left * left * left / 6
    return np.array([first, second, third, 1 - first - second - third])


_WEIGHTS = np.array([_weights(0.75), _weights(0.25)])
"""In the lower and the upper half of a voxel: a quarter below the voxel's middle, and a quarter above."""


@njit(cache=True)
def _in_eighths(
    spline: NDArray[np.float32], places: NDArray[np.int64], weights: NDArray[np.float64]
) -> NDArray[np.float32]:
    """A spline in the eighths of voxels, (8, N), with the bits of SciPy's `map_coordinates`, which takes many times as
    long: it works the weights out for each place. Sums of several eighths go on side by side.

    Parameters
    ----------
    spline : (Z, Y, X) coefficients; beyond the border they go on as they are there.
    places : (N, 3) z, y, x of the voxels.
    weights : (2, 4) of the coefficients in the lower and the upper half of a voxel.
    """
    found, near = np.empty((8, len(places)), np.float32), np.empty((5, 5, 5))
    planes, rows, columns = spline.shape
    for n in range(len(places)):
        for i in range(5):
            z = min(max(places[n, 0] + i - 2, 0), planes - 1)
            for j in range(5):
                y = min(max(places[n, 1] + j - 2, 0), rows - 1)
                for k in range(5):
                    near[i, j, k] = spline[z, y, min(max(places[n, 2] + k - 2, 0), columns - 1)]
        for a in range(2):
            low_low, low_high, high_low, high_high = 0.0, 0.0, 0.0, 0.0
            for i in range(4):
                for j in range(4):
                    for k in range(4):
                        lower, upper = weights[0, k], weights[1, k]
                        low_low += near[a + i, j, k] * weights[a, i] * weights[0, j] * lower
                        low_high += near[a + i, j, k + 1] * weights[a, i] * weights[0, j] * upper
                        high_low += near[a + i, j + 1, k] * weights[a, i] * weights[1, j] * lower
                        high_high += near[a + i, j + 1, k + 1] * weights[a, i] * weights[1, j] * upper
            found[4 * a, n], found[4 * a + 1, n] = low_low, low_high
            found[4 * a + 2, n], found[4 * a + 3, n] = high_low, high_high
    return found
