# SPDX-License-Identifier: Apache-2.0
"""Random vessels with places that an image hardly resolves: twigs, threads with a bulb behind them, flaps and slits."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.files.volume import Volume
from pipeline.segmentation.region_growing import occupancy
from tests.support.tubes import grid_around, rotation, voxel_places

HALF_LENGTH = 24.0
MARGIN = 6.0


@dataclass(frozen=True)
class ThinVessel:
    """A trunk with two ends, and what is thin on it; voxels of 1 mm.

    Attributes
    ----------
    lumen : (Z, Y, X) occupancy, of one piece.
    axes : (N, 4) places in the middle of twigs, outside the trunk, and of slits, with radii or half widths there, mm,
        where the voxel is the lumen's.
    """

    lumen: Volume
    axes: NDArray[np.float64]


def twigs(seed: int) -> ThinVessel:
    """Three to six twigs, 0.8 to 2 voxels in radius, in random directions; some fork, some end in a bulb."""
    rng = np.random.default_rng(seed)
    trunk = line_of(np.array([-HALF_LENGTH, 0, 0]), np.array([HALF_LENGTH, 0, 0]), rng.uniform(3.2, 4.5))
    lines, bulbs = [], []
    for _ in range(rng.integers(3, 7)):
        radius, way = rng.uniform(0.8, 2.0), _unit(rng)
        begin = np.array([rng.uniform(-0.35, 0.35) * HALF_LENGTH, 0, 0])
        way[0] *= 0.5
        lines.append(line_of(begin, begin + rng.uniform(9, 17) * way / np.linalg.norm(way), radius))
        if rng.random() < 0.4:
            middle = lines[-1][len(lines[-1]) // 2, :3]
            lines.append(line_of(middle, middle + rng.uniform(4, 8) * _unit(rng), rng.uniform(0.8, 1.0) * radius))
        elif rng.random() < 0.5:
            bulbs.append(np.append(lines[-1][-1, :3], rng.uniform(2, 3.5)))
    axes = np.concatenate(lines)
    axes = axes[np.hypot(axes[:, 1], axes[:, 2]) > trunk[0, 3] + 1]
    return _imaged(seed, rng, [trunk, *lines, *(bulb[None] for bulb in bulbs)], axes)


def flap(seed: int) -> ThinVessel:
    """A wide tube parted by a flap of 0.8 to 2 voxels, which leaves a slit of 1 to 2.5 voxels beside it."""
    rng = np.random.default_rng(seed)
    radius, thick, slit = rng.uniform(4, 5), rng.uniform(0.8, 2.0), rng.uniform(1, 2.5)
    trunk = line_of(np.array([-6 * radius, 0, 0]), np.array([6 * radius, 0, 0]), radius)
    turn, bend, long = rng.uniform(0, 2 * np.pi), rng.uniform(-0.02, 0.02), rng.uniform(0.5, 1.5) * radius

    def tissue(places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Distance to the flap, negative in it."""
        u = places[..., 1] * np.cos(turn) + places[..., 2] * np.sin(turn)
        v = places[..., 2] * np.cos(turn) - places[..., 1] * np.sin(turn)
        across = np.abs(u - (radius - slit - thick / 2) - bend * v**2) - thick / 2
        return np.maximum(across, np.abs(places[..., 0]) - long)

    along, middle = np.arange(-long, long), radius - slit / 2
    still = np.ones(len(along))
    axes = np.column_stack([along, middle * np.cos(turn) * still, middle * np.sin(turn) * still, slit / 2 * still])
    return _imaged(seed, rng, [trunk], axes, tissue)


def line_of(first: NDArray[np.float64], last: NDArray[np.float64], radius: float) -> NDArray[np.float64]:
    """Balls along a straight line, (N, 4): places and radius."""
    count = int(np.linalg.norm(last - first) / 0.4) + 2
    return np.column_stack([np.linspace(first, last, count), np.full(count, radius)])


def _unit(rng: np.random.Generator) -> NDArray[np.float64]:
    vector = rng.normal(size=3)
    return vector / np.linalg.norm(vector)


def _imaged(
    seed: int,
    rng: np.random.Generator,
    balls: list[NDArray[np.float64]],
    axes: NDArray[np.float64],
    tissue: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
) -> ThinVessel:
    """The vessel as an image shows it and a threshold finds it, turned at random."""
    turn = rotation(seed + 1000)
    all_balls = np.concatenate(balls)
    image = grid_around(all_balls[:, :3] @ turn.T, float(all_balls[:, 3].max()) + MARGIN, 1.0, seed)
    places = voxel_places(image) @ turn
    distance = np.full(places.shape[:3], np.inf)
    for *centre, radius in all_balls:
        np.minimum(distance, np.linalg.norm(places - centre, axis=-1) - radius, out=distance)
    if tissue:
        distance = np.maximum(distance, -tissue(places))
    filled = ndimage.gaussian_filter(np.clip(0.5 - distance, 0, 1), rng.uniform(0.3, 0.8))
    lower = rng.uniform(0.35, 0.55)
    label, _ = ndimage.label(filled >= lower)
    mask = ndimage.binary_fill_holes(label == 1 + np.argmax(np.bincount(label.ravel())[1:]))
    lumen = image.with_voxels(occupancy(filled.astype(np.float32), mask, lower, 1.0))
    turned = np.column_stack([axes[:, :3] @ turn.T, axes[:, 3]])
    index = np.rint(image.to_index(turned[:, :3])).astype(int)[:, ::-1]
    return ThinVessel(lumen, turned[mask[tuple(index.T)]])
