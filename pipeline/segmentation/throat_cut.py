# SPDX-License-Identifier: Apache-2.0
"""A cut plane across a narrow place of a mask: the disc of least area there."""

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.case.settings.images import CutPlane
from pipeline.files.volume import Volume
from pipeline.segmentation.region_growing import Index, Mask

DIRECTIONS = 150
"""Normals that are tried, over half of the sphere: neighbours are 12 degrees apart, which adds 2 % to an area."""

REACH, MARGIN = 2.5, 2.0
"""Largest radius of a disc: so many radii of the throat and so many voxels. What goes on beyond is another throat's."""

_ALL = np.ones((3, 3, 3), bool)


def least_cut(mask: Mask, place: Index, radius: float, volume: Volume) -> CutPlane:
    """The disc of least area that parts a mask at a place.

    Parameters
    ----------
    mask : (Z, Y, X) bool.
    place : voxel z, y, x in the mask, near its throat.
    radius : of the throat, voxels; the disc lies within so much of the place along its normal.
    volume : the grid, isotropic.
    """
    reach = int(REACH * radius + MARGIN) + int(np.ceil(radius))
    low = [max(n - reach, 0) for n in place]
    part = mask[tuple(slice(start, n + reach + 1) for start, n in zip(low, place, strict=True))]
    at = np.array(place, np.int64) - low
    most = REACH * radius + MARGIN
    normals = _directions()
    normal = normals[int(np.argmin([_area(part, at, each, most) for each in normals]))]
    steps = np.arange(-int(np.ceil(radius)), int(np.ceil(radius)) + 1)
    places = [np.rint(at + step * normal).astype(int) for step in sorted(steps, key=abs)]
    best = places[int(np.argmin([_area(part, each, normal, most) for each in places]))]
    away = (np.argwhere(_disc(part, best, normal, most)) - best) @ (np.eye(3) - np.outer(normal, normal))
    centre = volume.to_mm((best + low)[::-1])
    outward = volume.direction @ normal[::-1]
    disc_mm = (float(np.linalg.norm(away, axis=1).max()) + 1.5) * volume.spacing_mm[0]
    return CutPlane(point_mm=_rounded(centre, 1), normal=_rounded(outward, 3), radius_mm=round(disc_mm, 1))


def _rounded(vector: NDArray[np.floating], digits: int) -> tuple[float, float, float]:
    x, y, z = (round(float(each), digits) + 0.0 for each in vector)
    return x, y, z


def _directions() -> NDArray[np.floating]:
    """Unit vectors z, y, x over half of the sphere, as even as a spiral's points are."""
    rank = np.arange(DIRECTIONS) + 0.5
    height, turn = rank / DIRECTIONS, np.pi * (1 + np.sqrt(5)) * rank
    across = np.sqrt(1 - height**2)
    return np.stack([height, across * np.cos(turn), across * np.sin(turn)], axis=1)


def _disc(part: Mask, at: NDArray[np.int64], normal: NDArray[np.floating], most: float) -> Mask:
    """What of a mask lies in the plane through a voxel, within a radius and joined to it; empty outside the mask."""
    if not (np.all((at >= 0) & (at < part.shape)) and part[tuple(at)]):
        return np.zeros_like(part)
    away = np.moveaxis(np.indices(part.shape), 0, -1) - at
    along = away @ normal
    thin = np.abs(along) <= np.abs(normal).max() / 2 * (1 + 1e-9)
    near = (away**2).sum(axis=-1) - along**2 <= most**2
    label, _ = ndimage.label(part & thin & near, _ALL)
    return np.asarray(label == label[tuple(at)])


def _area(part: Mask, at: NDArray[np.int64], normal: NDArray[np.floating], most: float) -> float:
    """Of the disc, voxels; infinite without one."""
    count = int(_disc(part, at, normal, most).sum())
    return count / float(np.abs(normal).max()) if count else np.inf
