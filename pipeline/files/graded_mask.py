# SPDX-License-Identifier: Apache-2.0
"""Masks whose values pass from outside to the lumen by degrees: parts of voxels, probabilities, signed distances.

Programs save a smoothed mask as 8 bits from 0 to 255, in percent, or resampled so that it overshoots; a level set ends
with a distance to the wall, below 0 within. Taken for labels, the lumen's wall would be many labels, and the volume a
tenth too large.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

ROUND_OFF = 1e-5
"""How far sums of parts may be beyond 0 and 1."""

LEAST_PART = 0.5
"""A voxel of a map of fractions belongs to the lumen from this part (or probability) on."""

WHOLES = (1.0, 100.0, 255.0)
"""What a full voxel has: of parts, of percent, of 8 bits."""

OVERSHOOT = 0.5
"""How far cubic splines and windowed sinc overshoot, over a full voxel: up to 0.37 of a hard mask along three axes."""

BEYOND = 0.1
"""Part from which a voxel is full, or up to which empty, beyond noise."""

LEAST_FULL, LEAST_EMPTY = 0.2, 0.5
"""Of what is at least half full, the part that is full: 0.25 in a tube of two voxels in radius; and of all voxels the
part that is empty. An image has many values everywhere."""

WALL_VOXELS, AT_WALL = 3, 0.95
"""A mask's wall is no thicker; so much of what lies between full and empty is wall. Seams between labels are as thin,
but labels are no wall themselves."""

LEAST_VALUES = 10
"""Different values between full and empty: a label map with fewer may hold a label of 255."""

STEEP = 3.0
"""Steepest over least slope (95th and 5th percentile) at the wall of a signed distance: 1.3 of a distance to whole
voxels, 1.9 of a level set of a real aorta; of images it is more than 10."""


@dataclass(frozen=True)
class Graded:
    """How much of each voxel the lumen fills.

    Attributes
    ----------
    part : (Z, Y, X) float32, 0 to 1.
    kind : in words.
    """

    part: NDArray[np.float32]
    kind: str


def graded(voxels: NDArray[Any], spacing_mm: tuple[float, float, float]) -> Graded | None:
    """What a file says of each voxel by degrees; None where it holds labels, or an image.

    Parameters
    ----------
    voxels : (Z, Y, X) as the file has them.
    spacing_mm : x, y, z.
    """
    if _are_parts(voxels):
        return Graded(np.clip(voxels, 0, 1).astype(np.float32), "map of fractions")
    for whole in WHOLES:
        if _fill(voxels, whole):
            part = np.clip(voxels.astype(np.float32) / np.float32(whole), 0, 1)
            return Graded(part, f"map of fractions, {whole:g} where it is full")
    if (part := _from_distance(voxels, spacing_mm)) is not None:
        return Graded(part, "signed distances to the wall")
    return None


def _are_parts(voxels: NDArray[Any]) -> bool:
    """Whether values are parts of voxels that something fills, or probabilities: 0 to 1, 0 and values between there."""
    if not np.issubdtype(voxels.dtype, np.floating) or voxels.min() < -ROUND_OFF or voxels.max() > 1 + ROUND_OFF:
        return False
    between = (voxels > ROUND_OFF) & (voxels < 1 - ROUND_OFF)
    return bool(between.any() and (voxels <= ROUND_OFF).any() and (voxels >= LEAST_PART).any())


def _fill(voxels: NDArray[Any], whole: float) -> bool:
    """Whether values are such parts of a full voxel: full within, empty outside, and between only at the wall."""
    if not -OVERSHOOT * whole <= voxels.min() <= voxels.max() <= (1 + OVERSHOOT) * whole:
        return False
    full, empty = voxels >= (1 - BEYOND) * whole, voxels <= BEYOND * whole
    between = ~full & ~empty
    if empty.mean() < LEAST_EMPTY or not between.any() or len(np.unique(voxels[between])) < LEAST_VALUES:
        return False
    if np.count_nonzero(full) < LEAST_FULL * np.count_nonzero(voxels >= LEAST_PART * whole):
        return False
    wall = ndimage.binary_dilation(empty, iterations=WALL_VOXELS) & ndimage.binary_dilation(
        full, iterations=WALL_VOXELS
    )
    return bool(wall[between].mean() >= AT_WALL)


def _from_distance(voxels: NDArray[Any], spacing_mm: tuple[float, float, float]) -> NDArray[np.float32] | None:
    """Parts from distances to the wall, of whatever unit, below 0 within or above; None where they are none."""
    if not np.issubdtype(voxels.dtype, np.floating) or min(voxels.shape) < 2 or not voxels.min() < 0 < voxels.max():
        return None
    outside = np.sign(voxels[np.ix_(*([0, -1] for _ in range(3)))])
    if abs(outside.sum()) < outside.size:
        return None
    inwards = np.float32(-outside.flat[0]) * voxels.astype(np.float32)
    inside = inwards > 0
    if inside.mean() > 1 - LEAST_EMPTY:
        return None
    at_wall = ndimage.binary_dilation(inside) & ~ndimage.binary_erosion(inside, border_value=1)
    slope = np.sqrt(sum(np.square(each) for each in np.gradient(inwards, *spacing_mm[::-1])))[at_wall]
    least, usual, most = np.percentile(slope, [5, 50, 95])
    if not 0 < most <= STEEP * least:
        return None
    step = float(usual) * float(np.prod(spacing_mm)) ** (1 / 3)
    return np.clip(np.float32(0.5) + inwards / np.float32(step), 0, 1)
