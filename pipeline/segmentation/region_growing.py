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


def occupancy(voxels: NDArray[np.floating], mask: Mask, lower: float, contrast: float) -> NDArray[np.float32]:
    """Part of each voxel that the lumen fills, from the intensity at its wall: a mask without steps.

    In the layers of voxels on both sides of the mask's boundary 1/2 + (intensity - lower) / contrast, between 0 and 1,
    so that the wall stands at 1/2, where the intensity passes the threshold; 1 further inside, 0 further outside. A
    voxel of the mask keeps at least 1/2, one outside stays below: rounding gives the mask back.

    Parameters
    ----------
    voxels : (Z, Y, X) intensities.
    mask : (Z, Y, X) bool.
    lower : threshold.
    contrast : intensity of the lumen less that of its surroundings.

    Returns
    -------
    (Z, Y, X) float32.
    """
    filled = mask.astype(np.float32)
    box = bounding_box(mask, margin=2)
    inside = mask[box]
    neighbours = np.ones((3, 3, 3), bool)
    edge = ndimage.binary_dilation(inside, neighbours)
    edge &= ~ndimage.binary_erosion(inside, neighbours, border_value=1)
    part = 0.5 + (voxels[box] - lower) / contrast
    part = np.where(inside, np.clip(part, 0.5, 1), np.clip(part, 0, np.nextafter(np.float32(0.5), np.float32(0))))
    filled[box][edge] = part[edge]
    return filled


def centre_line_radii(mask: Mask) -> NDArray[np.floating]:
    """Radius, in voxels, at each voxel of the centre line: the distance to the nearest voxel outside, less a half."""
    part = np.pad(mask[bounding_box(mask)], 1)
    distance, line = ndimage.distance_transform_edt(part), skeletonize(part) > 0
    if not line.any():  # thinning leaves nothing of a box with even sides
        line = distance == distance.max()
    return distance[line] - 0.5
