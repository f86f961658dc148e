# SPDX-License-Identifier: Apache-2.0
"""An artery with a darker vein that touches it all along, drawn at random."""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from pipeline.files.volume import Volume

TISSUE, BLOOD, VOXELS = 45.0, 380.0, 48


@dataclass(frozen=True)
class BesideVein:
    """An image of both.

    Attributes
    ----------
    image : (Z, Y, X), isotropic.
    artery_voxels : true volume of the artery in voxels.
    seed : voxel x, y, z in it.
    """

    image: Volume
    artery_voxels: float
    seed: tuple[int, int, int]


def beside_vein(seed: int) -> BesideVein:
    """Radius 3.5 to 7 voxels, a vein 0.6 to 1.3 times as wide with 55 to 80 % of the contrast, any pose.

    They overlap by up to a tenth of their distance. Blur 0.7 to 1.2 voxels, noise of 2 to 6 % of the contrast.
    """
    rng = np.random.default_rng(seed)
    radius = rng.uniform(3.5, 7)
    other, touching, level = radius * rng.uniform(0.6, 1.3), rng.uniform(0.9, 1.0), rng.uniform(0.55, 0.8)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    apart = (radius + other) * touching
    z, y, x = np.indices((VOXELS,) * 3) - VOXELS / 2
    artery, vein = np.zeros((VOXELS,) * 3), np.zeros((VOXELS,) * 3)
    for shift in np.stack(np.meshgrid(*[(-0.25, 0.25)] * 3), axis=-1).reshape(-1, 3):
        across, aside, _ = np.moveaxis((np.stack([x, y, z], axis=-1) + shift) @ turn.T, -1, 0)
        inside = np.hypot(across + 0.4 * apart, aside) < radius
        artery += inside / 8
        vein += ((np.hypot(across - 0.6 * apart, aside) < other) & ~inside) / 8
    voxels = TISSUE + (BLOOD - TISSUE) * (artery + level * vein)
    voxels = ndimage.gaussian_filter(voxels, rng.uniform(0.7, 1.2)) + rng.normal(0, rng.uniform(8, 20), voxels.shape)
    middle = np.array([-0.4 * apart, 0, 0]) @ turn + VOXELS / 2
    place = tuple(round(float(n)) for n in middle)
    image = Volume(voxels.astype(np.float32), (rng.uniform(0.35, 0.7),) * 3, (0.0, 0.0, 0.0), np.eye(3))
    return BesideVein(image, float(artery.sum()), place)
