# SPDX-License-Identifier: Apache-2.0
"""Vessels that tight crops cut, and leaks of their segmentation, drawn at random."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from pipeline.files.volume import Volume

LUMEN, TISSUE = 350.0, 40.0
HALF_WAY = 195.0

Line = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Points (n, 3) of a centre line, mm, and the radius at each."""


@dataclass(frozen=True)
class Crop:
    """An image of a vessel.

    Attributes
    ----------
    image : intensities.
    truth : (Z, Y, X) bool.
    seed : voxel x, y, z on the centre line.
    radius_mm : of the vessel.
    """

    image: Volume
    truth: NDArray[np.bool_]
    seed: tuple[int, int, int]
    radius_mm: float


def line(points: list[list[float]], radii: list[float], scale: float) -> Line:
    """A smooth centre line past some points, and the radius along it."""
    places, knots = np.linspace(0, 1, 60), np.linspace(0, 1, len(points))
    axes = [np.interp(places, knots, axis) for axis in np.transpose(points)]
    smooth = np.stack([ndimage.gaussian_filter1d(axis, 3, mode="nearest") for axis in axes], axis=1)
    return scale * smooth, scale * np.interp(places, knots, radii)


def slab(random: np.random.Generator, radius_mm: float) -> list[Line]:
    """An aorta, in part with an aneurysm, longer than its image."""
    z = np.linspace(-8, 8, 60)
    bend = random.uniform(0, 0.25)
    points = np.stack([bend * np.cos(z), bend * np.sin(z), z], axis=1) * radius_mm
    swell = random.uniform(0, 0.5) * np.exp(-((z / random.uniform(0.8, 2)) ** 2))
    return [(points, radius_mm * (1 + swell))]


def arch(random: np.random.Generator, radius_mm: float) -> list[Line]:
    """An aortic arch with its three branches."""
    scale = radius_mm / 12.5
    legs = [
        [-22, -8, -90],
        [-22, -8, -60],
        [-23, -6, -10],
        [-10, 0, 21],
        [12, 8, 20],
        [23, 12, -10],
        [24, 13, -60],
        [24, 13, -90],
    ]
    return [
        line(legs, [13, 13, 13, 12.5, 11.5, 11, 10.5, 10.5], scale),
        line([[-10, 0, 22], [-12, -1, 38], [-16, -2, 90]], [5.5, 5.2, 5], scale),
        line([[1, 4, 24], [1, 4, 40], [2, 3, 90]], [3.6, 3.4, 3.2], scale),
        line([[11, 8, 22], [14, 9, 38], [20, 11, 90]], [4.4, 4.2, 4], scale),
    ]


def iliacs(random: np.random.Generator, radius_mm: float) -> list[Line]:
    """The end of an aorta and both iliac arteries."""
    scale = radius_mm / 8
    return [
        line([[0, -2, 90], [1, 0, 20], [0, 0, 0]], [8.2, 8, 7.8], scale),
        line([[0, 0, 0], [-12, 3, -22], [-24, 12, -60], [-36, 20, -100]], [5.2, 5, 4.8, 4.8], scale),
        line([[0, 0, 0], [11, 4, -20], [22, 14, -60], [33, 24, -100]], [5, 4.8, 4.6, 4.6], scale),
    ]


SHAPES = {"slab": slab, "arch": arch, "iliacs": iliacs}
HALF_LENGTH = {"slab": (0.8, 3.0), "arch": (2.6, 4.0), "iliacs": (2.5, 5.0)}
"""Half of the length of the vessel that is in the image, in radii, from ... to."""


def _away(lines: list[Line], points: NDArray[np.float64], reach: float = np.inf) -> NDArray[np.float64]:
    """Distance to the wall, negative inside; `reach` where it is more, since to look for what is far takes longest."""
    nearest = np.full(len(points), reach)
    for centres, radii in lines:
        fine = np.linspace(0, len(radii) - 1, 4 * len(radii))
        centres = np.stack([np.interp(fine, np.arange(len(radii)), axis) for axis in centres.T], axis=1)
        radii = np.interp(fine, np.arange(len(radii)), radii)
        distance, which = cKDTree(centres).query(points, k=6, distance_upper_bound=reach + radii.max())
        nearest = np.minimum(nearest, (distance - np.append(radii, 0.0)[which]).min(axis=1))  # last: of none so near
    return nearest


def drawn(kind: str, seed: int, room: float = 0.0) -> tuple[Crop, np.random.Generator]:
    """A vessel in a tight crop: radius 6 to 22 mm, margin 0.5 to 4 mm, in any pose; `room` more radii around."""
    random = np.random.default_rng([seed, sorted(SHAPES).index(kind)])
    radius_mm, margin_mm = random.uniform(6, 22), random.uniform(0.5, 4)
    voxel_mm = radius_mm / random.uniform(6, 12)
    lines = SHAPES[kind](random, radius_mm)
    tilt = Rotation.from_euler("xyz", [*random.uniform(-45, 45, 2), random.uniform(-180, 180)], degrees=True)
    lines = [(tilt.apply(points), radii) for points, radii in lines]
    reach = random.uniform(*HALF_LENGTH[kind]) * radius_mm
    kept = [np.abs(tilt.inv().apply(points)[:, 2]) <= reach for points, _ in lines]
    low = np.min([(p[k] - r[k, None]).min(axis=0) for (p, r), k in zip(lines, kept, strict=True) if k.any()], axis=0)
    high = np.max([(p[k] + r[k, None]).max(axis=0) for (p, r), k in zip(lines, kept, strict=True) if k.any()], axis=0)
    shortest = int(np.argmax(np.abs(tilt.apply([0, 0, 1]))))  # the crop ends the vessel, not its round end
    low[shortest], high[shortest] = low[shortest] + radius_mm, high[shortest] - radius_mm
    around = margin_mm + room * radius_mm
    low, high = low - around * (np.arange(3) != shortest), high + around * (np.arange(3) != shortest)
    shape = np.maximum(((high - low) / voxel_mm).astype(int), 6)
    index = np.moveaxis(np.indices(shape[::-1])[::-1], 0, -1)
    places = low + (index + 0.5) * voxel_mm
    away = _away(lines, places.reshape(-1, 3), voxel_mm).reshape(shape[::-1])
    part = np.clip(0.5 - away / voxel_mm, 0, 1)
    blurred = ndimage.gaussian_filter(TISSUE + (LUMEN - TISSUE) * part, random.uniform(0.3, 0.8), mode="nearest")
    noisy = blurred + ndimage.gaussian_filter(random.normal(0, 30, part.shape), 0.5)
    centres, _ = lines[0]
    inside = np.all((centres > low + voxel_mm) & (centres < high - voxel_mm), axis=1)
    chosen = centres[inside][random.integers(int(inside.sum()))]
    x, y, z = ((chosen - low) / voxel_mm).astype(int)
    direction = Rotation.random(random_state=seed).as_matrix()
    image = Volume(noisy.astype(np.float32), (voxel_mm,) * 3, (9.0, -40.0, 200.0), direction)
    return Crop(image, part >= 0.5, (int(x), int(y), int(z)), radius_mm), random


LEAKS = ("organ", "bone", "blobs", "flood", "tissue")


def leaked(kind: str, leak: str, seed: int) -> tuple[Crop, float]:
    """A vessel whose segmentation leaks at the returned threshold, and reaches the border of the image."""
    room = float(np.random.default_rng(seed).uniform(0, 3))
    crop, random = drawn(kind, seed, room)
    voxels, size = crop.image.voxels.copy(), np.array(crop.image.voxels.shape)
    voxel_mm = crop.image.spacing_mm[0]
    radius = crop.radius_mm / voxel_mm
    if leak == "flood":
        return crop, TISSUE - random.uniform(60, 200)
    if leak == "tissue":
        return crop, TISSUE - random.uniform(-10, 40)
    level = {"organ": (0.55, 0.95), "bone": (1.1, 3.0), "blobs": (0.6, 2.0)}[leak]
    value = TISSUE + random.uniform(*level) * (LUMEN - TISSUE)
    index = np.moveaxis(np.indices(voxels.shape), 0, -1)
    wall = ndimage.distance_transform_edt(~crop.truth)
    blob = np.zeros(voxels.shape, bool)
    for _ in range(int(random.integers(3, 8)) if leak == "blobs" else 1):
        radii = random.uniform(1.0, 3.0, 3) * radius * (0.6 if leak == "blobs" else 1)
        turn = Rotation.random(random_state=int(random.integers(1 << 30))).as_matrix()
        face = random.integers(3)
        centre = random.uniform(0, 1, 3) * size
        centre[face] = random.choice([0, size[face] - 1])
        away = np.linalg.norm((index - centre) @ turn / radii, axis=-1)
        blob |= away < 1
    blob &= ~crop.truth
    gap = random.uniform(0, 2) if random.random() < 0.5 else 0
    apart = blob & (wall > gap)
    voxels[apart] = value + random.normal(0, 30, int(apart.sum()))
    if gap:  # joined by a bridge, where the blob is nearest
        near = np.argwhere(blob & (wall <= wall[blob].min() + 1)) if blob.any() else np.zeros((0, 3), int)
        if len(near):
            place = near[random.integers(len(near))]
            bridge = np.linalg.norm(index - place, axis=-1) < random.uniform(1.5, 0.5 * radius)
            voxels[bridge & ~crop.truth] = value
    lower = HALF_WAY if value > 260 else (TISSUE + value) / 2
    return Crop(crop.image.with_voxels(voxels.astype(np.float32)), crop.truth, crop.seed, crop.radius_mm), lower
