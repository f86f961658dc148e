"""Blurred, noisy tubes with a known lumen, for the tests of the filter and the segmentation."""

import numpy as np
from scipy import ndimage
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from pipeline.volume import Volume

LUMEN, TISSUE, HALF_WAY = 350.0, 40.0, 195.0
FINE_MM = 0.1
EXTENT_MM = (17.0, 26.0, 14.0)


def oblique(angles_deg: tuple[float, float, float] = (14.0, -9.0, 21.0)) -> np.ndarray:
    return Rotation.from_euler("xyz", angles_deg, degrees=True).as_matrix()


def centre_line_mm() -> np.ndarray:
    """An S in three dimensions, in the frame of the image, that leaves it at both ends of y."""
    s = np.linspace(-0.2, 1.2, 2000)
    return np.stack([6 + 3 * np.sin(np.pi * s), 4 + 22 * s, 6.5 + 2.5 * np.cos(2 * np.pi * s)], axis=1)


def _distance_mm(shape: tuple[int, ...], spacing_mm: tuple[float, ...]) -> np.ndarray:
    """Distance of each voxel [z, y, x] to the centre line."""
    z, y, x = np.indices(shape)
    places = np.stack([x, y, z], axis=-1).reshape(-1, 3) * spacing_mm
    return cKDTree(centre_line_mm()).query(places)[0].reshape(shape)


def tube_volume(
    radius_mm: float = 2.0,
    blur_mm: float = 0.4,
    noise: float = 25.0,
    spacing_mm: tuple[float, float, float] = (0.4, 0.4, 0.5),
    bone: bool = False,
    direction: np.ndarray | None = None,
) -> Volume:
    """A bent tube of 350 HU in 40 HU: drawn at 0.1 mm, blurred, sampled, with noise."""
    shape = tuple(round(length / (2 * FINE_MM)) for length in EXTENT_MM[::-1])
    coarse = _distance_mm(shape, (2 * FINE_MM,) * 3)  # smooth: interpolated to the fine grid
    distance = ndimage.zoom(coarse, 2, order=1, mode="nearest", grid_mode=False)
    scale = [(a - 1) / (b - 1) * 2 * FINE_MM for a, b in zip(coarse.shape, distance.shape, strict=True)]
    image = TISSUE + (LUMEN - TISSUE) * np.clip(0.5 - (distance - radius_mm) / FINE_MM, 0, 1)
    if bone:
        image[:, :, np.arange(image.shape[2]) * scale[2] > 13.5] = 1000
    image = ndimage.gaussian_filter(image, [blur_mm / h for h in scale], mode="nearest")
    size = [int((n - 1) * h / s) + 1 for n, h, s in zip(image.shape[::-1], scale[::-1], spacing_mm, strict=True)]
    places = np.meshgrid(
        *[np.arange(n) * s / h for n, s, h in zip(size[::-1], spacing_mm[::-1], scale, strict=True)], indexing="ij"
    )
    voxels = ndimage.map_coordinates(image, places, order=1, mode="nearest")
    voxels += np.random.default_rng(5).normal(0, noise, voxels.shape)
    return Volume(voxels.astype(np.float32), spacing_mm, (0.0, 0.0, 0.0), np.eye(3) if direction is None else direction)


def true_lumen(volume: Volume, radius_mm: float = 2.0) -> np.ndarray:
    """Voxels [z, y, x] of a volume in the tube's frame, whatever its direction, whose centres lie in the tube."""
    frame = volume.to_index([0.0, 0.0, 0.0]) * volume.spacing_mm  # the grid may start elsewhere
    z, y, x = np.indices(volume.voxels.shape)
    places = np.stack([x, y, z], axis=-1).reshape(-1, 3) * volume.spacing_mm - frame
    return (cKDTree(centre_line_mm()).query(places)[0] <= radius_mm).reshape(volume.voxels.shape)
