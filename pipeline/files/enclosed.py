# SPDX-License-Identifier: Apache-2.0
"""The volume within the wall of a lumen that is known to parts of a voxel.

Voxels that are at least half full, counted, are the volume only on average over places of the vessel in the grid: a
tube of five voxels in radius along an axis of the grid has the same section in every slice, which counts up to 5 % more
or less than its area. The wall where a voxel is half full, between voxels, has the volume.
"""

from typing import Any

import numpy as np
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
    around = np.ones((3, 3, 3), bool)
    wall = ndimage.binary_dilation(inside, around) & ~ndimage.binary_erosion(inside, around, border_value=1)
    places = np.argwhere(wall)
    slope = np.zeros(len(places), np.float32)
    for axis, size in enumerate(field.shape):
        if size > 1:
            slope += np.abs(np.gradient(field, axis=axis)[wall])
    half_slope = np.maximum(slope / 2, LEAST_SLOPE)
    mean = field + ndimage.laplace(field, mode="nearest") / 96  # over an eighth: a wall is curved within it
    spline = ndimage.spline_filter(mean, order=3, output=np.float32, mode="nearest")
    share = np.zeros(len(places))
    for eighth in np.ndindex(2, 2, 2):
        at = places + (np.array(eighth) - 0.5) / 2
        value = ndimage.map_coordinates(spline, at.T, order=3, prefilter=False, mode="nearest")
        share += np.clip(0.5 + (value - FULL) / half_slope, 0, 1) / 8
    found[wall] = share
    return found
