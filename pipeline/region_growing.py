"""Masks grown from seeds: connected components, cavities, thickness. Arrays are [z, y, x], indices (x, y, z)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.morphology import skeletonize

Mask = NDArray[np.bool_]
Index = tuple[int, int, int]


def grow(voxels: NDArray[np.floating], seeds: Sequence[Index], lower: float, upper: float = np.inf) -> Mask:
    """All voxels between the thresholds (both included) that are six-connected to a seed.

    Parameters
    ----------
    voxels : (Z, Y, X).
    seeds : indices x, y, z. Seeds that are not between the thresholds themselves are passed over; where none is left,
        the largest component counts.
    lower, upper : thresholds.

    Returns
    -------
    (Z, Y, X) bool.
    """
    labels, count = ndimage.label((voxels >= lower) & (voxels <= upper))
    if not count:
        return labels > 0
    chosen = sorted({int(labels[seed[::-1]]) for seed in seeds} - {0})
    if not chosen:
        chosen = [1 + int(np.argmax(np.bincount(labels.ravel())[1:]))]
    return np.isin(labels, chosen) if len(chosen) > 1 else labels == chosen[0]


def bounding_box(mask: Mask, margin: int = 0) -> tuple[slice, slice, slice]:
    """Slices z, y, x of the box of a mask, widened by `margin` voxels as far as the array goes."""
    slices = []
    for axis, size in enumerate(mask.shape):
        filled = np.flatnonzero(mask.any(axis=tuple({0, 1, 2} - {axis})))
        slices.append(slice(max(int(filled[0]) - margin, 0), min(int(filled[-1]) + 1 + margin, size)))
    return slices[0], slices[1], slices[2]


def fill_holes(mask: Mask) -> tuple[Mask, int]:
    """Fill what the mask encloses in three dimensions, and count the cavities.

    A cavity counts as enclosed when no six-connected path leads out of it, so that no pinhole over a diagonal remains.
    """
    box = bounding_box(mask)
    filled = mask.copy()
    filled[box] = ndimage.binary_fill_holes(mask[box])
    return filled, int(ndimage.label(filled[box] & ~mask[box])[1])


def centre_line_radii(mask: Mask) -> NDArray[np.floating]:
    """Radius, in voxels, at each voxel of the centre line: the distance to the nearest voxel outside, less a half."""
    part = np.pad(mask[bounding_box(mask)], 1)
    return ndimage.distance_transform_edt(part)[skeletonize(part) > 0] - 0.5
