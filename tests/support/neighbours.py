# SPDX-License-Identifier: Apache-2.0
"""Vessels at random beside lung, bone, calcium, veins and thrombus: phantoms for the threshold that is found."""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from pipeline.files.volume import Volume
from tests.support.vessels import oblique

LUNG_HU, THROMBUS_HU, CALCIUM_HU = -850.0, 40.0, 800.0


@dataclass(frozen=True)
class Phantom:
    """An image, a seed in its vessel and the true levels."""

    image: Volume
    seed: tuple[int, int, int]
    lumen: float
    tissue: float

    @property
    def half_way(self) -> float:
        return (self.lumen + self.tissue) / 2


@dataclass(frozen=True)
class Around:
    """Distance from a vessel's wall, mm, and angle about its axis, degrees, of every voxel [z, y, x]."""

    wall_mm: np.ndarray
    angle_deg: np.ndarray
    along_mm: np.ndarray

    def sector(self, start: float, width: float) -> np.ndarray:
        return (self.angle_deg - start) % 360 < width


def straight(
    size: tuple[int, int, int], spacing_mm: tuple[float, float, float], radius_mm: float, tilt: np.ndarray
) -> Around:
    """Around a straight vessel through the middle, along z but for its slopes `tilt` along x and y."""
    z, y, x = (
        (np.arange(n) - n // 2).reshape(shape) * step
        for n, step, shape in zip(size[::-1], spacing_mm[::-1], ((-1, 1, 1), (1, -1, 1), (1, 1, -1)), strict=True)
    )
    axis = np.array([*tilt, 1.0]) / np.sqrt(1 + np.square(tilt).sum())
    along = x * axis[0] + y * axis[1] + z * axis[2]
    distance = np.sqrt(np.maximum(x**2 + y**2 + z**2 - along**2, 0))
    return Around(distance - radius_mm, np.degrees(np.arctan2(y - tilt[1] * z, x - tilt[0] * z)), along)


def imaged(
    voxels: np.ndarray,
    spacing_mm: tuple[float, float, float],
    blur_mm: tuple[float, float, float],
    noise: float,
    rng: np.random.Generator,
    magnitude: bool = False,
) -> Volume:
    """Blurred by the imaging, with noise, in a random pose; magnitudes have no negative noise."""
    blurred = ndimage.gaussian_filter(voxels, np.divide(blur_mm, spacing_mm)[::-1])
    noisy = rng.normal(blurred, noise)
    noisy = np.hypot(noisy, rng.normal(0, noise, noisy.shape)) if magnitude else noisy
    direction = oblique(tuple(rng.uniform(-40, 40, 3)))
    return Volume(noisy.astype(np.float32), spacing_mm, tuple(rng.uniform(-99, 99, 3)), direction)


def aortic_slab(seed: int) -> Phantom:
    """An aorta of 254 HU in 29 slices of 3 mm: a crescent of thrombus, plaques, and lung that touches it."""
    rng = np.random.default_rng(seed)
    spacing_mm, size = (0.9, 0.9, 3.0), (104, 104, 29)
    around = straight(size, spacing_mm, rng.uniform(14, 22), rng.uniform(-0.15, 0.15, 2))
    tissue = rng.uniform(30, 60)
    voxels = np.full(size[::-1], tissue)
    outside = around.wall_mm + rng.uniform(0, 1.5)
    voxels[(outside > 0) & around.sector(rng.uniform(0, 360), rng.uniform(60, 240))] = LUNG_HU
    thick = rng.uniform(0, 6)
    voxels[(around.wall_mm < thick) & around.sector(rng.uniform(0, 360), rng.uniform(90, 200))] = THROMBUS_HU
    voxels[around.wall_mm < 0] = 254
    for _ in range(4):
        part = around.sector(rng.uniform(0, 360), 15) & (np.abs(around.along_mm - rng.uniform(-30, 30)) < 4)
        voxels[part & (np.abs(around.wall_mm - 1) < 1)] = CALCIUM_HU
    image = imaged(voxels, spacing_mm, (0.7, 0.7, 1.3), 26, rng)
    return Phantom(image, (size[0] // 2, size[1] // 2, size[2] // 2), 254, tissue)


def neighboured(seed: int, ct: bool = True) -> Phantom:
    """A vessel of 3 to 8 mm in CT or MR; lung or air, bone or fat and a vein are near, in CT plaques on its wall."""
    rng = np.random.default_rng(seed)
    spacing_mm = (0.8, 0.8, float(rng.choice([0.8, 1.0, 1.5])))
    size = (72, 72, int(40 / spacing_mm[2]))
    around = straight(size, spacing_mm, rng.uniform(3, 8), rng.uniform(-0.3, 0.3, 2))
    scale = 1.0 if ct else rng.uniform(0.2, 5)  # MR has no unit
    tissue = rng.uniform(20, 80) if ct else scale * rng.uniform(60, 160)
    lumen = tissue + (rng.uniform(150, 450) if ct else scale * rng.uniform(250, 500))
    dark, bright = (LUNG_HU, rng.uniform(400, 1000)) if ct else (0.0, lumen * rng.uniform(0.9, 1.3))
    gap, start = around.wall_mm, rng.uniform(0, 360)
    voxels = np.full(size[::-1], tissue)
    voxels[(gap > rng.uniform(0.5, 4)) & around.sector(start, rng.uniform(40, 200))] = dark
    voxels[(gap > rng.uniform(3, 6)) & around.sector(start + 210, rng.uniform(20, 60))] = bright
    vein = lumen if rng.random() < 0.5 else (lumen + 2 * tissue) / 3
    voxels[(gap > 3) & (gap < rng.uniform(6, 12)) & around.sector(start + 300, rng.uniform(20, 45))] = vein
    voxels[gap < 0] = lumen
    if ct:
        part = around.sector(rng.uniform(0, 360), 25) & (np.abs(around.along_mm - rng.uniform(-12, 12)) < 3)
        voxels[part & (np.abs(gap - 0.5) < 0.7)] = CALCIUM_HU
    noise = (lumen - tissue) / rng.uniform(8, 25)
    image = imaged(voxels, spacing_mm, (0.6, 0.6, 0.6), noise, rng, magnitude=not ct)
    return Phantom(image, (size[0] // 2, size[1] // 2, size[2] // 2), lumen, tissue)
