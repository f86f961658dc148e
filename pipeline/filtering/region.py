# SPDX-License-Identifier: Apache-2.0
"""Region of interest: a box in mm or voxels, or around what grows from the seeds."""

import logging
from dataclasses import dataclass, field
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.case.settings.images import FilterSettings, GrownRegion
from pipeline.files.volume import Volume
from pipeline.filtering.smoothing import noise_level
from pipeline.segmentation.point_text import text_mm
from pipeline.segmentation.region_growing import Mask, bounding_box, grow
from pipeline.segmentation.seeds import WITHOUT_REGION, Seed, place_seeds, seed_places
from solver.runtime.errors import StageError

ESTIMATED_LEVEL = 0.4
"""Where an estimated threshold lies between surroundings (0) and seeds (1): a little below the half-way of a
segmentation, since a box that is too large costs time, one that is too small costs a branch."""

LEAST_CONTRAST = 2.0
"""Contrast of the smoothed seeds, in standard deviations of the noise before smoothing, which leaves less than half of
it, below which no threshold is estimated."""

LEAKED_FRACTION = 0.2
"""Part of what lies within reach that a vessel tree does not fill."""


@dataclass(frozen=True)
class Region:
    """A box of voxels.

    Attributes
    ----------
    low, high : (3,) first voxel index x, y, z, and the one after the last.
    record : how it was found, for the provenance.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    record: dict[str, Any] = field(default_factory=dict)


def find_region(volume: Volume, settings: FilterSettings, log: logging.Logger) -> Region:
    """The region of interest that the settings ask for; without one, the whole volume.

    Parameters
    ----------
    volume : voxels (Z, Y, X); may be oblique and anisotropic.
    settings : ``region_mm``, ``region_voxels`` or ``region_grown``.
    log : where it is said what has grown.

    Raises
    ------
    StageError
        If the region lies outside the volume, or nothing can grow.
    """
    if settings.region_grown:
        return grown_region(volume, settings.region_grown, log)
    return Region(*region_box(volume, settings))


def region_box(volume: Volume, settings: FilterSettings) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The smallest box of voxels that covers the box of the settings, as far as the volume reaches.

    Returns
    -------
    low, high : (3,) first voxel index x, y, z, and the one after the last.

    Raises
    ------
    StageError
        If the region and the volume do not overlap.
    """
    size = np.array(volume.voxels.shape[::-1])
    if settings.region_voxels:
        low, high = np.array(settings.region_voxels.low), np.array(settings.region_voxels.high)
        lies = f"region_voxels {low.tolist()} to {high.tolist()} lies outside the volume of {size.tolist()} voxels"
    elif settings.region_mm:
        box = np.array([settings.region_mm.low_mm, settings.region_mm.high_mm])
        index = volume.to_index(_corners(box))
        low = np.floor(index.min(axis=0) + 1e-6).astype(int)
        high = np.ceil(index.max(axis=0) - 1e-6).astype(int) + 1
        volume_box = volume.to_mm(_corners(np.array([[0, 0, 0], size - 1])))
        lies = (
            f"region_mm {box[0].tolist()} to {box[1].tolist()} lies outside the volume, which reaches from"
            f" {volume_box.min(axis=0).round(1).tolist()} to {volume_box.max(axis=0).round(1).tolist()} mm (LPS)"
        )
    else:
        return np.zeros(3, int), size
    low, high = np.maximum(low, 0), np.minimum(high, size)
    if np.any(low >= high):
        raise StageError(f"filter.{lies}; choose a region inside it, or leave it out: {WITHOUT_REGION}")
    return low, high


def _corners(box: NDArray[np.floating]) -> NDArray[np.floating]:
    """The (8, 3) corners of a box [low, high] (2, 3)."""
    return np.stack(np.meshgrid(*box.T, indexing="ij"), axis=-1).reshape(-1, 3)


def crop(volume: Volume, low: NDArray[np.int64], high: NDArray[np.int64]) -> Volume:
    """The voxels from index `low` (x, y, z) up to, without, `high`, as float32, where they were in the patient.

    Parameters
    ----------
    volume : voxels (Z, Y, X).
    low, high : (3,) indices x, y, z within the volume.
    """
    (x, y, z), (x_end, y_end, z_end) = low, high
    voxels = volume.voxels[z:z_end, y:y_end, x:x_end].astype(np.float32)
    return Volume(voxels, volume.spacing_mm, tuple(volume.to_mm(low).tolist()), volume.direction)


def grown_region(volume: Volume, region: GrownRegion, log: logging.Logger) -> Region:
    """A box around what is six-connected to the seeds above a threshold within reach, and a margin around it.

    A voxel counts if it is above the threshold itself or after a Gaussian as wide as the finest spacing: noise then
    breaks no vessel, and thin vessels, which the Gaussian darkens, are not lost. What grows may be more than the
    vessel (bone that it touches), never less: it only sets the size of the box.

    Parameters
    ----------
    volume : as loaded, voxels (Z, Y, X); may be noisy, oblique and anisotropic.
    region : seeds, threshold (estimated from the seeds and what is within reach where it is None), reach and margin.
    log : where it is said what has grown.

    Raises
    ------
    StageError
        If there is no seed, one lies outside the volume or below the threshold, or no threshold can be estimated.
    """
    seeds = place_seeds(seed_places(region, volume, "filter.region_grown"), volume, volume)
    if not seeds:
        raise StageError(
            "filter.region_grown: nothing to grow from, there is no seed here or in the section segment: give"
            " seeds_mm, seeds_voxel or seeds_file, or a box (filter.region_mm) in its place, or no region:"
            f" {WITHOUT_REGION}"
        )
    spacing, size = np.array(volume.spacing_mm), np.array(volume.voxels.shape[::-1])
    places = np.array([seed.index for seed in seeds])
    reach = np.ceil(region.reach_mm / spacing).astype(int)
    low = np.maximum(places.min(axis=0) - reach, 0)
    part = crop(volume, low, np.minimum(places.max(axis=0) + reach + 1, size))
    near = _within_reach(part, places - low, region.reach_mm)
    smoothed = ndimage.gaussian_filter(part.voxels, (spacing.min() / spacing)[::-1])
    inside = [(int(x), int(y), int(z)) for x, y, z in places - low]
    level = float(np.median([smoothed[index[::-1]] for index in inside]))
    lower = _estimate(part.voxels[near], noise_level(part), level) if region.lower is None else region.lower
    brightest = np.maximum(part.voxels, smoothed, out=smoothed)
    for seed, index in zip(seeds, inside, strict=True):
        _require_bright(seed, float(brightest[index[::-1]]), lower)
    brightest[~near] = -np.inf
    grown = grow(brightest, inside, lower)
    fraction = float(grown.sum() / near.sum())
    volume_ml = float(grown.sum() * np.prod(spacing) / 1000)
    estimated = ", estimated" if region.lower is None else ""
    log.info("%.4g ml grown from %d seed(s) at lower = %.4g%s", volume_ml, len(seeds), lower, estimated)
    if fraction > LEAKED_FRACTION:
        log.warning(
            "warning: what has grown fills %.0f %% of all that lies within filter.region_grown.reach_mm = %g, more than"
            " vessels do: raise lower, or lower reach_mm, for a smaller region",
            100 * fraction,
            region.reach_mm,
        )
    record = {
        "grown_ml": round(volume_ml, 4),
        "lower": round(lower, 4),
        "lower_estimated": region.lower is None,
        "fraction_of_reach": round(fraction, 4),
        "seeds": len(seeds),
    }
    return Region(*_around(grown, low, volume, region.margin_mm), record)


def _around(
    grown: Mask, low: NDArray[np.int64], volume: Volume, margin_mm: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The box, indices x, y, z, of what has grown in the part that begins at `low`, with a margin, in the volume."""
    box = bounding_box(grown)[::-1]
    margin = np.ceil(margin_mm / np.array(volume.spacing_mm)).astype(int)
    first = np.maximum(low + [axis.start for axis in box] - margin, 0)
    last = np.minimum(low + [axis.stop for axis in box] + margin, np.array(volume.voxels.shape[::-1]))
    return first, last


def _within_reach(part: Volume, seeds: NDArray[np.int64], reach_mm: float) -> Mask:
    """Voxels (Z, Y, X) within a distance of a seed; `seeds` (N, 3) are indices x, y, z."""
    near = np.zeros(part.voxels.shape, bool)
    axes = [np.arange(n, dtype=np.float32) for n in part.voxels.shape[::-1]]
    for seed in seeds:
        x, y, z = (((axis - k) * step) ** 2 for axis, k, step in zip(axes, seed, part.spacing_mm, strict=True))
        near |= z[:, None, None] + y[:, None] + x <= reach_mm**2
    return near


def _estimate(within_reach: NDArray[np.float32], noise: float, level: float) -> float:
    """A threshold between the median of all within reach, which vessels hardly change, and the level of the seeds."""
    surroundings = float(np.median(within_reach))
    if level - surroundings < LEAST_CONTRAST * noise:
        raise StageError(
            f"filter.region_grown.lower: none is given (nor segment.lower), and none can be estimated: the level at the"
            f" seeds {level:.4g} is not {LEAST_CONTRAST:g} times the noise ({noise:.3g}) above the surroundings"
            f" {surroundings:.4g}: give it, correct the seeds, or give a box (filter.region_mm) in its place, or none:"
            f" {WITHOUT_REGION}"
        )
    return surroundings + ESTIMATED_LEVEL * (level - surroundings)


def _require_bright(seed: Seed, intensity: float, lower: float) -> None:
    if intensity < lower:
        raise StageError(
            f"{seed.name}: at {text_mm(seed.point_mm)} mm the intensity is {intensity:.4g}, below"
            f" filter.region_grown.lower = {lower:.4g}, so nothing grows from it: move the seed into the vessel, or"
            f" lower the threshold: filter.region_grown.lower: {floor(intensity)}"
        )
