# SPDX-License-Identifier: Apache-2.0
"""Masks of vessels with known shape: unions of balls along curves, on grids in any orientation."""

import numpy as np
from scipy.spatial import cKDTree

from pipeline.files.volume import Volume


def rotation(seed: int):
    """A random proper rotation, (3, 3)."""
    q, r = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    q *= np.sign(np.diag(r))
    return q * [np.sign(np.linalg.det(q)), 1, 1]


def grid_around(points_mm, margin_mm, spacing_mm=1.0, seed=0) -> Volume:
    """Empty volume, rotated by `seed`, that holds points with a margin."""
    direction = rotation(seed)
    own = np.asarray(points_mm) @ direction
    low, high = own.min(axis=0) - margin_mm, own.max(axis=0) + margin_mm
    size = np.ceil((high - low) / spacing_mm).astype(int) + 1
    return Volume(np.zeros(size[::-1], np.uint8), (spacing_mm,) * 3, tuple(direction @ low), direction)


def voxel_places(volume: Volume):
    """Places of all voxels, (Z, Y, X, 3), LPS mm."""
    index = np.stack(np.meshgrid(*(np.arange(n) for n in volume.voxels.shape), indexing="ij"), axis=-1)
    return volume.to_mm(index[..., ::-1])


def near_curve(volume: Volume, points_mm, radius_mm):
    """Voxels nearer to a polygon than its (linearly varying) radius, (Z, Y, X) bool."""
    points_mm = np.asarray(points_mm, float)
    radius_mm = np.broadcast_to(radius_mm, len(points_mm))
    place = np.linspace(0, len(points_mm) - 1, 20 * len(points_mm))
    fine = np.stack([np.interp(place, np.arange(len(points_mm)), points_mm[:, k]) for k in range(3)], axis=1)
    radii = np.interp(place, np.arange(len(points_mm)), radius_mm)
    # what is farther than the largest radius is in no case within; to find what is nearest to it takes longest
    distance, row = cKDTree(fine).query(voxel_places(volume), distance_upper_bound=radii.max())
    return distance < np.append(radii, 0)[row]


def tube(points_mm, radius_mm, spacing_mm=1.0, seed=0) -> Volume:
    """Mask of one tube with round ends."""
    volume = grid_around(points_mm, np.max(radius_mm) + 4 * spacing_mm, spacing_mm, seed)
    return volume.with_voxels(near_curve(volume, points_mm, radius_mm).astype(np.uint8))


def line(length_mm, seed=0):
    """Points along a straight line in a random direction, (50, 3)."""
    return np.linspace(0, length_mm, 50)[:, None] * rotation(seed)[:, 0]


def arc(radius_mm, angle, seed=0, beyond=0.0):
    """Points along an arc of a circle in a random plane, (120, 3), also beyond its ends by an angle."""
    t = np.linspace(-beyond, angle + beyond, 120)
    return np.stack([radius_mm * np.cos(t), radius_mm * np.sin(t), 0 * t], axis=1) @ rotation(seed).T


FORK = {
    "parent": (np.array([[-24.0, 0, 0], [-12, 0, 1], [0, 0, 0]]), 4.0),
    "large": (np.array([[0.0, 0, 0], [10, 7, 1], [22, 13, 4]]), 3.2),
    "small": (np.array([[0.0, 0, 0], [10, -7, -1], [22, -13, -3]]), 2.7),
}
"""A bifurcation: points and radius of each branch, mm; the parent begins, the others end with a free end."""

SAC_MM, SAC_RADIUS_MM = np.array([-8.0, 1.0, 9.2]), 6.5
"""A sac on the parent, wider than the parent."""


def fork(seed=0, sac=False) -> Volume:
    """Mask of the bifurcation, with or without a sac."""
    volume = grid_around(np.concatenate([points for points, _ in FORK.values()] + [SAC_MM[None]]), 12, 1.0, seed)
    lumen = np.any([near_curve(volume, *branch) for branch in FORK.values()], axis=0)
    if sac:
        lumen |= np.linalg.norm(voxel_places(volume) - SAC_MM, axis=-1) < SAC_RADIUS_MM
    return volume.with_voxels(lumen.astype(np.uint8))


def crossing(tilt_deg, radius_mm=4.0) -> Volume:
    """Mask of a straight tube through the middle of a volume and out of it on both sides, tilted from its z axis."""
    volume = Volume(np.zeros((50, 40, 40), np.uint8), (1.0, 1.0, 1.0), (10.0, -20.0, 5.0), rotation(1))
    middle = volume.to_mm([19.5, 19.5, 24.5])
    away = voxel_places(volume) - middle
    axis = crossing_axis(tilt_deg)
    across = away - (away @ axis)[..., None] * axis
    return volume.with_voxels((np.linalg.norm(across, axis=-1) < radius_mm).astype(np.uint8))


def crossing_axis(tilt_deg):
    """Axis of that tube, LPS."""
    tilt = np.radians(tilt_deg)
    return rotation(1) @ [np.sin(tilt), 0, np.cos(tilt)]
