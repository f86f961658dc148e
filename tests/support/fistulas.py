# SPDX-License-Identifier: Apache-2.0
"""Arteries that open into wider veins, dimmer where blood mixes, drawn at random in any pose."""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage
from scipy.spatial.transform import Rotation

from pipeline.files.volume import Volume
from tests.support.crops import Line, _away

TISSUE, CONTRAST, SPACING_MM, SIZE = 50.0, 400.0, 0.7, 84


@dataclass(frozen=True)
class Fistula:
    """An image of one.

    Attributes
    ----------
    image : intensities.
    volume_ml : of both vessels.
    artery, vein : seeds, voxels x, y, z.
    words : how it was drawn.
    """

    image: Volume
    volume_ml: float
    artery: tuple[int, int, int]
    vein: tuple[int, int, int]
    words: str


def fistula(seed: int) -> Fistula:
    """An artery of 2.5 to 4.5 voxels in radius, bent, that opens end to end or into the side of a vein 1.8 to 4 times
    as wide; its brightness falls to 0.25 to 0.48 over 5 to 9 voxels where it enters. Blur 0.6 to 1.2 voxels, noise 1 to
    4 % of the contrast.
    """
    rng = np.random.default_rng([seed, 2411])
    radius, wider, mixed = rng.uniform(2.5, 4.5), rng.uniform(1.8, 4.0), rng.uniform(0.25, 0.48)
    to_side, wide = bool(rng.random() < 0.5), radius * wider
    angle = np.radians(rng.uniform(40, 90) if to_side else rng.uniform(0, 30))
    away = np.linspace(0, 70, 71)
    bend = rng.uniform(-0.004, 0.004) * away**2
    artery = np.stack([-away * np.sin(angle) - bend * np.cos(angle), bend * np.sin(angle), -away * np.cos(angle)], 1)
    start = -70 if to_side else 0
    along = np.linspace(start, 70, 141)
    funnel = np.ones(141) if to_side else np.minimum(1, 1 / wider + (1 - 1 / wider) * along / wide)
    vein = np.stack([np.zeros(141), np.zeros(141), along], 1)
    turn = Rotation.random(random_state=int(rng.integers(1 << 30)))
    lines: list[Line] = [(turn.apply(artery), np.full(71, radius)), (turn.apply(vein), wide * funnel)]
    places = np.moveaxis(np.indices((SIZE, SIZE, SIZE))[::-1], 0, -1) - (SIZE - 1) / 2
    to_wall = _away(lines, places.reshape(-1, 3), 2.0).reshape((SIZE,) * 3)
    part = np.clip(0.5 - to_wall, 0, 1)
    middle = turn.apply(artery[int(min(wide if to_side else 0.3 * wide, 30)) + 3])
    dim = np.exp(-((np.linalg.norm(places - middle, axis=-1) / rng.uniform(5, 9)) ** 2))
    level = CONTRAST * (1 - (1 - mixed) * dim)
    blurred = ndimage.gaussian_filter(TISSUE + part * level, rng.uniform(0.6, 1.2), mode="nearest")
    voxels = blurred + rng.normal(0, CONTRAST * rng.uniform(0.01, 0.04), part.shape)
    image = Volume(voxels.astype(np.float32), (SPACING_MM,) * 3, (0.0, 0.0, 0.0), np.eye(3))
    words = f"{'side' if to_side else 'end'}, artery {radius:.1f}, vein {wider:.1f} times, mixed {mixed:.2f}"
    seeds = [_seed(points) for points in (lines[0][0][away > 30], lines[1][0][along > 12])]
    return Fistula(image, SPACING_MM**3 * float(part.sum()) / 1000, seeds[0], seeds[1], words)


def _seed(points: np.ndarray) -> tuple[int, int, int]:
    """The voxel x, y, z of the tenth of some points that lie in the image; the last where fewer do."""
    voxels = np.rint(points + (SIZE - 1) / 2).astype(int)
    inside = voxels[((voxels > 3) & (voxels < SIZE - 4)).all(axis=1)]
    x, y, z = (int(n) for n in inside[min(10, len(inside) - 1)])
    return x, y, z
