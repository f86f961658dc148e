# SPDX-License-Identifier: Apache-2.0
"""Blurred, noisy tubes with a known lumen, for the tests of the filter and the segmentation."""

from functools import cache

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation
from scipy.special import chndtr, ndtr

from pipeline.files.volume import Volume

LUMEN, TISSUE, BONE, HALF_WAY = 350.0, 40.0, 1000.0, 195.0
EXTENT_MM = (17.0, 26.0, 14.0)
BONE_MM = 13.5
"""Where, along x, bone begins; the tube's wall comes as near as 2.5 mm."""


def oblique(angles_deg: tuple[float, float, float] = (14.0, -9.0, 21.0)) -> np.ndarray:
    return Rotation.from_euler("xyz", angles_deg, degrees=True).as_matrix()


def centre_line_mm() -> np.ndarray:
    """An S in three dimensions, in the frame of the image, that leaves it at both ends of y."""
    s = np.linspace(-0.2, 1.2, 2000)
    return np.stack([6 + 3 * np.sin(np.pi * s), 4 + 22 * s, 6.5 + 2.5 * np.cos(2 * np.pi * s)], axis=1)


def distance_mm(volume: Volume) -> np.ndarray:
    """Distance of the voxels [z, y, x] to the centre line, in the frame of the image, whatever its direction."""
    first = np.asarray(volume.origin_mm) @ volume.direction
    return _distance_mm(volume.voxels.shape, tuple(volume.spacing_mm), tuple(first.tolist()))


@cache
def _distance_mm(shape: tuple[int, ...], spacing_mm: tuple[float, ...], first_mm: tuple[float, ...]) -> np.ndarray:
    """On a grid along the axes of the frame; kept, since most tubes of a test file have the same voxels."""
    z, y, x = np.indices(shape)
    places = np.stack([x, y, z], axis=-1) * spacing_mm + first_mm
    away = cKDTree(centre_line_mm()).query(places.reshape(-1, 3))[0].reshape(shape)
    away.setflags(write=False)
    return away


def tube_volume(
    radius_mm: float = 2.0,
    blur_mm: float = 0.4,
    noise: float = 25.0,
    spacing_mm: tuple[float, float, float] = (0.4, 0.4, 0.5),
    bone: bool = False,
    direction: np.ndarray | None = None,
) -> Volume:
    """A bent tube of 350 HU in 40 HU.

    A disc of radius r blurred by a Gaussian s has at distance d the part P(chi'^2(2, d^2/s^2) < r^2/s^2), a non-central
    chi-squared distribution; so has the tube, but for its bend, which is gentle.
    """
    size = [int(length / s) for length, s in zip(EXTENT_MM, spacing_mm, strict=True)]
    grid = Volume(np.zeros(size[::-1]), spacing_mm, (0.0, 0.0, 0.0), np.eye(3) if direction is None else direction)
    steps = np.linspace(0, radius_mm + 6 * blur_mm, 400)
    profile = chndtr((radius_mm / blur_mm) ** 2, 2, np.maximum(steps / blur_mm, 1e-6) ** 2)
    voxels = TISSUE + (LUMEN - TISSUE) * np.interp(distance_mm(grid), steps, profile)
    if bone:
        voxels += (BONE - TISSUE) * ndtr((np.arange(size[0]) * spacing_mm[0] - BONE_MM) / blur_mm)
    voxels += np.random.default_rng(5).normal(0, noise, voxels.shape)
    return grid.with_voxels(voxels.astype(np.float32))


def true_lumen(volume: Volume, radius_mm: float = 2.0) -> np.ndarray:
    """The voxels [z, y, x] whose centres lie in the tube."""
    return distance_mm(volume) <= radius_mm
