# SPDX-License-Identifier: Apache-2.0
"""Shape-based interpolation: an isotropic mask from one with thick slices, of the same volume.

The signed distance to the mask's surface, in mm, is interpolated between the slices instead of the mask itself (Raya
and Udupa 1990, doi:10.1109/42.52980; here with the distance in three dimensions, so that a vessel that runs within the
slices keeps its round section too). The level of the distance that encloses the mask's volume is the new surface.
"""

from dataclasses import dataclass

import numpy as np
import SimpleITK as sitk
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.files.cubes import that_fit
from pipeline.files.volume import Volume
from pipeline.segmentation.region_growing import bounding_box

Box = tuple[slice, slice, slice]

MARGIN = 2
"""Slices around the mask in which its surface may come to lie."""


@dataclass(frozen=True)
class Interpolated:
    """A mask on an isotropic grid.

    Attributes
    ----------
    lumen : (Z, Y, X) bool, on a grid that ends where the old one does; of the old volume to within a voxel.
    part : (Z, Y, X) float32, part of each voxel that the lumen fills, from the distance to its surface; at least 1/2
        where `lumen` is true, below elsewhere.
    volume_change : relative change of the volume that the level has undone: how far the slices are from resolving the
        shape.
    """

    lumen: Volume
    part: NDArray[np.float32]
    volume_change: float


def interpolate(mask: Volume) -> Interpolated:
    """Resample a mask to cubes of its finest voxel edge.

    Parameters
    ----------
    mask : (Z, Y, X) bool, not empty.
    """
    box = bounding_box(mask.voxels, margin=MARGIN)
    whole = _isotropic_grid(mask)
    near = _near(box, np.divide(mask.spacing_mm, whole.spacing_mm)[::-1], whole.voxels.shape)
    x, y, z = mask.to_mm([side.start for side in box[::-1]]).tolist()
    away = _signed_distance_mm(mask.voxels[box], mask.spacing_mm)
    distance = _resampled(Volume(away, mask.spacing_mm, (x, y, z), mask.direction), whole, near)
    count = np.count_nonzero(mask.voxels) * np.prod(np.divide(mask.spacing_mm, whole.spacing_mm))
    order = distance.size - int(np.clip(round(count), 1, distance.size - 1))
    level = np.partition(distance.ravel(), [order - 1, order])[order - 1 : order + 1].mean()
    field = (distance - level) / np.float32(min(mask.spacing_mm))
    half = np.float32(0.5)
    inner, outer = np.clip(half + field, half, 1), np.clip(half + field, 0, np.nextafter(half, np.float32(0)))
    lumen, part = np.zeros(whole.voxels.shape, bool), np.zeros(whole.voxels.shape, np.float32)
    lumen[near] = field > 0
    part[near] = np.where(field > 0, inner, outer)
    return Interpolated(whole.with_voxels(lumen), part, float(np.count_nonzero(distance > 0) / count - 1))


def _signed_distance_mm(mask: NDArray[np.bool_], spacing_mm: tuple[float, float, float]) -> NDArray[np.float32]:
    """Distance of the voxels' centres to the nearest centre on the other side, positive inside."""
    inside, outside = (ndimage.distance_transform_edt(part, spacing_mm[::-1]) for part in (mask, ~mask))
    return (inside - outside).astype(np.float32)


def _isotropic_grid(volume: Volume) -> Volume:
    """Grid of cubes of the finest voxel edge that ends where the volume does, without voxels."""
    old, extent = np.array(volume.spacing_mm), np.array(volume.voxels.shape[::-1])
    size, step = that_fit(extent, old.min() / old)
    x, y, z = volume.to_mm(-0.5 + (extent - size * step) / 2 + step / 2).tolist()
    width, height, depth = (step * old).tolist()
    return Volume(np.broadcast_to(False, size[::-1]), (width, height, depth), (x, y, z), volume.direction)


def _near(box: Box, ratio: NDArray[np.float64], shape: tuple[int, ...]) -> Box:
    """The box in voxels that are so many times finer along z, y, x."""
    z, y, x = (
        slice(int(side.start * times), min(int(np.ceil(side.stop * times)), size))
        for side, times, size in zip(box, ratio, shape, strict=True)
    )
    return z, y, x


def interpolate_parts(part: Volume) -> tuple[Volume, NDArray[np.float32]]:
    """Resample the part of each voxel that a lumen fills to cubes of the finest voxel edge.

    Parameters
    ----------
    part : (Z, Y, X) float32, 0 to 1.

    Returns
    -------
    What is at least half full, (Z, Y, X) bool, and the parts.
    """
    whole = _isotropic_grid(part)
    z, y, x = (slice(0, size) for size in whole.voxels.shape)
    found = np.clip(_resampled(part, whole, (z, y, x)), 0, 1)
    return whole.with_voxels(found >= np.float32(0.5)), found


def _resampled(field: Volume, grid: Volume, near: Box) -> NDArray[np.float32]:
    """A field by cubic B-splines in the voxels `near` of another grid."""
    size = [side.stop - side.start for side in near[::-1]]
    origin = grid.to_mm([side.start for side in near[::-1]]).tolist()
    sampled = sitk.Resample(
        field.to_sitk(),
        size,
        sitk.Transform(),
        sitk.sitkBSpline,
        origin,
        grid.spacing_mm,
        grid.direction.ravel(),
        0.0,
        sitk.sitkFloat32,
        True,
    )
    return np.asarray(sitk.GetArrayFromImage(sampled))
