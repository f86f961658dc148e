# SPDX-License-Identifier: Apache-2.0
"""Intensities in and around a mask: the lumen's level, that of the soft tissue around it, noise and spread."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.filters import threshold_otsu

from pipeline.segmentation.region_growing import Index, Mask, bounding_box, grow, shift
from solver.runtime.errors import StageError

AIR_HU = -200.0
"""Level in CT below which there is no soft tissue: fat has -100 HU, lung -900 to -500, the air outside -1000."""

DARK_PERCENTILE = 1
"""A file without a modality whose percentile lies below `AIR_HU` is taken for CT: magnitudes of MR are not negative."""

SHELL_VOXELS = (2, 4)
"""The surroundings are so far from the mask: beyond the blur of the wall, before the next organ."""

TISSUE_PART = 0.05
"""Part of the shell from which soft tissue counts: less is the rim of something else."""

NO_SIGNAL, FLOOR_PERCENTILE, SIGNAL_PART = 0.25, 1, 0.2
"""Without a unit: the darker of two classes of what is darker than the lumen is air or lung if it lies in so small a
part of the range between the floor (0, or a percentile below 0) and the brighter class, and if so large a part of all
is brighter. Muscle in fat lies higher; a few bright spots on nothing are no tissue."""

SAMPLES = 100_000
"""About how many voxels of the image tell the two classes."""

NOISE_LAG = 3
"""Distance in voxels of the pairs that measure noise: beyond the reach of the smoothing, within one tissue."""

MAD_TO_SIGMA = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


@dataclass(frozen=True)
class Levels:
    """Intensities in and around the mask.

    Attributes
    ----------
    lumen : median of the core: what grows from the seeds half way between the lower threshold and the seeds'
        intensity. A leak hardly changes it.
    mask : median of the whole mask.
    surroundings, bright_surroundings : median and upper quartile of the soft tissue in a shell around the mask; of the
        whole shell where there is none (:func:`soft_tissue`).
    noise : standard deviation, from differences of voxels `NOISE_LAG` apart in that tissue; at least the last digit.
    spread : standard deviation, robust, within the core; at least the noise.
    """

    lumen: float
    mask: float
    surroundings: float
    bright_surroundings: float
    noise: float
    spread: float

    @property
    def contrast(self) -> float:
        """Lumen above surroundings."""
        return self.lumen - self.surroundings

    @property
    def contrast_to_noise(self) -> float:
        """How far, in standard deviations of the noise, the mask is above its brighter surroundings."""
        return (self.mask - self.bright_surroundings) / self.noise


def levels(
    voxels: NDArray[np.floating], mask: Mask, seeds: Sequence[Index], lower: float, dark: float = -np.inf
) -> Levels:
    """Measure the intensities in and around a mask grown at `lower`.

    Parameters
    ----------
    voxels : (Z, Y, X).
    mask : (Z, Y, X).
    seeds : indices x, y, z.
    lower : threshold.
    dark : below it there is no soft tissue (:func:`dark_limit`); -inf: looked for in the image (:func:`no_signal`).

    Raises
    ------
    StageError
        If the mask leaves no surroundings in the region.
    """
    inner, outer = SHELL_VOXELS
    box = bounding_box(mask, margin=outer)
    part, near = mask[box], voxels[box]
    shell = ndimage.binary_dilation(part, iterations=outer) & ~ndimage.binary_dilation(part, iterations=inner)
    if not np.isfinite(dark):
        dark = no_signal(voxels, lower)
    tissue = soft_tissue(near, shell, lower, dark)
    differences = _differences(near, tissue)
    if not differences.size:
        differences = _differences(near, shell)
    if not differences.size:
        raise StageError(
            f"segment.lower = {lower:g}: the mask of {int(mask.sum())} voxels leaves no surroundings in the region:"
            " raise the threshold (segment.lower: null lets it be found), or widen the region (filter)"
        )
    half_way = (lower + float(np.median([voxels[seed[::-1]] for seed in seeds]))) / 2
    held = [shift(seed, box) for seed in seeds if mask[seed[::-1]]]
    core = grow(np.where(part, near, -np.inf), held, half_way)
    core = core if core.any() else part
    median, quartile = np.percentile(near[tissue], [50, 75])
    last_digit = np.spacing(np.abs(near).max())
    noise = max(float(MAD_TO_SIGMA * np.median(differences) / np.sqrt(2)), float(last_digit))
    lumen = np.median(near[core])
    return Levels(
        lumen=float(lumen),
        mask=float(np.median(near[part])),
        surroundings=float(median),
        bright_surroundings=float(quartile),
        noise=noise,
        spread=max(float(MAD_TO_SIGMA * np.median(np.abs(near[core] - lumen))), noise),
    )


def _differences(voxels: NDArray[np.floating], mask: Mask) -> NDArray[np.floating]:
    """Absolute differences of the voxels of a mask that are `NOISE_LAG` apart along an axis of the three."""
    found = []
    for axis in range(3):
        along, inside = np.moveaxis(voxels, axis, 0), np.moveaxis(mask, axis, 0)
        both = inside[NOISE_LAG:] & inside[:-NOISE_LAG]
        found.append(np.abs(along[NOISE_LAG:][both] - along[:-NOISE_LAG][both]))
    return np.concatenate(found)


def soft_tissue(voxels: NDArray[np.floating], shell: Mask, lower: float, dark: float) -> Mask:
    """The part of a shell around the lumen that is soft tissue.

    What is as bright as the lumen (bone, calcium, veins) and what is as dark as lung or air is no soft tissue, nor are
    the voxels next to either, which hold a part of it. Where less than `TISSUE_PART` of the shell is left, as around a
    vessel in the lung, the dark part counts, too; where still nothing is left, all of the shell.

    Parameters
    ----------
    voxels : (Z, Y, X).
    shell : (Z, Y, X) bool.
    lower : the lumen's threshold.
    dark : below it there is no soft tissue.
    """
    bright = voxels >= lower
    for other in (bright | (voxels < dark), bright):
        tissue = shell & ~ndimage.binary_dilation(other)
        if tissue.sum() >= TISSUE_PART * shell.sum():
            return tissue
    return shell


def no_signal(voxels: NDArray[np.floating], lower: float) -> float:
    """Intensity below which there is air or lung, in an image without a unit; -inf where there is none.

    What is darker than the lumen is parted in two classes (Otsu 1979). The darker is no tissue where it lies near the
    floor (`NO_SIGNAL`) and the brighter is more than spots.

    Parameters
    ----------
    voxels : (Z, Y, X); those of cut planes may be -inf.
    lower : the lumen's threshold.
    """
    sample = voxels.ravel()[:: max(voxels.size // SAMPLES, 1)]
    values = sample[np.isfinite(sample) & (sample < lower)]
    if values.size < 2 or np.ptp(values) <= 0:
        return -np.inf
    limit = float(threshold_otsu(values))
    brighter = values[values > limit]
    floor = min(float(np.percentile(values, FLOOR_PERCENTILE)), 0.0)
    dark, bright = float(np.median(values[values <= limit])), float(np.median(brighter))
    near_the_floor = dark - floor <= NO_SIGNAL * (bright - floor)
    return limit if near_the_floor and brighter.size >= SIGNAL_PART * values.size else -np.inf


def dark_limit(voxels: NDArray[np.floating], modality: str | None) -> float:
    """Intensity below which there is no soft tissue: `AIR_HU` in CT, -inf in what has no unit.

    Parameters
    ----------
    voxels : (Z, Y, X).
    modality : ``CT``, another, or None: unknown.
    """
    return AIR_HU if modality == "CT" or (modality is None and looks_like_ct(voxels)) else -np.inf


def looks_like_ct(voxels: NDArray[np.floating]) -> bool:
    """Whether intensities reach down to those of air in HU."""
    return bool(np.percentile(voxels, DARK_PERCENTILE) < AIR_HU)
