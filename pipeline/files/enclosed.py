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
    full = inside.view(np.uint8)  # filters go along one axis after the other, which an erosion does not
    most, least = (find(full, 3, mode="nearest") for find in (ndimage.maximum_filter, ndimage.minimum_filter))
    return np.asarray(most > least)


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
    inner = np.all((places >= 2) & (places < np.array(part.shape) - 2), axis=1)
    middle, rim = places[inner], places[~inner]
    share = np.zeros(len(places))
    for eighth in np.ndindex(2, 2, 2):
        at = (rim + (np.array(eighth) - 0.5) / 2).T
        value = np.empty(len(places), np.float32)
        value[~inner] = ndimage.map_coordinates(spline, at, order=3, prefilter=False, mode="nearest")
        value[inner] = _within(spline, middle, *eighth, _WEIGHTS)
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
def _within(
    spline: NDArray[np.float32], places: NDArray[np.int64], a: int, b: int, c: int, weights: NDArray[np.float64]
) -> NDArray[np.float32]:
    """A spline in one eighth of voxels two or more from the border, with the bits of SciPy's `map_coordinates`, which
    takes several times as long: it works the weights out for each place.

    Parameters
    ----------
    spline : (Z, Y, X) coefficients.
    places : (N, 3) z, y, x of the voxels.
    a, b, c : 0 or 1, the eighth's half of the voxel along z, y and x.
    weights : (2, 4) of the coefficients in either half.
    """
    found = np.empty(len(places), np.float32)
    for n in range(len(places)):
        z, y, x = places[n, 0] + a - 2, places[n, 1] + b - 2, places[n, 2] + c - 2
        total = 0.0
        for i in range(4):
            for j in range(4):
                for k in range(4):
                    total += spline[z + i, y + j, x + k] * weights[a, i] * weights[b, j] * weights[c, k]
        found[n] = total
    return found
