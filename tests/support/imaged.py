# SPDX-License-Identifier: Apache-2.0
"""Images of shapes with known volume, area and radius: the part of each voxel that the shape fills, or a mask of it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.case.vessel import Distance, coverage
from pipeline.files.volume import Volume
from tests.support.tubes import rotation


@dataclass(frozen=True)
class Solid:
    """A shape of thickness 1 around the origin; everything in mm.

    Attributes
    ----------
    distance : of points (N, 3) to it, negative inside.
    extent : half of the box that holds it.
    volume, area : of the closed shape; None for the pipe, whose ends are cut off.
    radius : mean over points (N, 3) of the wall, 1 for a right one.
    """

    distance: Distance
    extent: float
    volume: float | None
    area: float | None
    radius: Callable[[NDArray[np.float64]], float]


RING, LENGTH = 3.0, 10.0
"""Of the torus's circle, and of the pipe with its round ends, in radii."""


def pipe_distance(points: NDArray[np.float64]) -> NDArray[np.float64]:
    along = np.clip(points[:, 2], -LENGTH / 2, LENGTH / 2)
    return np.hypot(np.hypot(points[:, 0], points[:, 1]), points[:, 2] - along) - 1


def ring_distance(points: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.hypot(np.hypot(points[:, 0], points[:, 1]) - RING, points[:, 2]) - 1


SOLIDS = {
    "pipe": Solid(
        pipe_distance, LENGTH / 2 + 1, None, None, lambda points: float(np.hypot(points[:, 0], points[:, 1]).mean())
    ),
    "sphere": Solid(
        lambda points: np.linalg.norm(points, axis=1) - 1,
        1.0,
        4 / 3 * np.pi,
        4 * np.pi,
        lambda points: float(np.linalg.norm(points, axis=1).mean()),
    ),
    "torus": Solid(
        ring_distance,
        RING + 1,
        2 * np.pi**2 * RING,
        4 * np.pi**2 * RING,
        lambda points: float(ring_distance(points).mean()) + 1,
    ),
}


def imaged(solid: Solid, voxels: float, seed: int, mask: bool = False) -> Volume:
    """Occupancy (or mask) of a solid with so many voxels on its radius, turned and shifted by `seed`.

    The volume's frame is the solid's own: what is made of it can be measured there.
    """
    spacing = 1 / voxels
    direction = rotation(seed)
    shift = np.random.default_rng(seed).uniform(-0.5, 0.5, 3) * spacing
    own = np.abs(direction).sum(axis=0).max() * solid.extent if solid.extent > 2 else solid.extent
    count = 2 * int(np.ceil(min(own, np.sqrt(3) * solid.extent) * voxels + 4)) + 1

    def distance(points: NDArray[np.float64]) -> NDArray[np.float64]:
        return solid.distance((points + shift) @ direction.T)

    part = coverage(distance, (count,) * 3, (spacing,) * 3)
    origin = (shift - (count - 1) / 2 * spacing) @ direction.T
    volume = Volume(part, (spacing,) * 3, tuple(origin), direction)
    return volume.with_voxels((part >= 0.5).astype(np.uint8)) if mask else volume
