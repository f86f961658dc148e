# SPDX-License-Identifier: Apache-2.0
"""What the user did not give, found from the image: the threshold from the seeds, the seeds from the image."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.files.volume import Volume
from pipeline.segmentation.blur import unbiased_lower, wall_slope
from pipeline.segmentation.contrast import CONTRAST_HU, check_contrast
from pipeline.segmentation.leak import (
    Leak,
    Row,
    check_border,
    find_leak,
    growth,
    sensitivity,
)
from pipeline.segmentation.levels import AIR_HU, TISSUE_PART, Levels, levels, looks_like_ct, no_signal
from pipeline.segmentation.methods import find_lumen, scales
from pipeline.segmentation.problem import Lumen, NoVesselError, Problem
from pipeline.segmentation.region_growing import Box, Index, bounding_box, centre_line, centres, occupancy
from pipeline.segmentation.seeds import AUTOMATIC, Seed
from pipeline.segmentation.vesselness import vesselness
from solver.runtime.errors import StageError

REACH_MM = 60.0
"""How far from the seeds the threshold is looked for: the intensities of one stretch of the vessel decide."""

START_STEPS = 5
"""Steps of the search for a first threshold, without a mask: each leaves out what lies above the last."""

STEPS, TOLERANCE = 20, 0.005
"""Most steps of the search for the half-way threshold, and the part of the contrast by which the last may differ."""

BONE_HU = 700.0
"""Level in CT that no contrast-filled lumen reaches: bone."""

TUBE_MIDDLE = 0.5
"""Vesselness of the middle of a tube: 0.7 in a straight one, 0.6 in a sac or a fork."""

LARGEST_RADIUS_MM = 9.0
"""Radius of the aorta; wider vessels still answer."""

SEARCH_VOXELS = 3e7
"""Voxels above which tubes are looked for on a coarser grid."""

CANDIDATES = 12
"""How many tubes, from the largest on, are looked at."""

CORE_VOXELS, CORE_DEPTH = 20, 1.5
"""A vessel four voxels across has a middle two voxels deep; so many voxels must be deeper than the second number."""

UNEVEN_CT, UNEVEN_OTHER = 0.2, 0.3
"""Largest standard deviation of the middle of a tube over its contrast: vessels have 0.03 to 0.15, ribs 0.35 and more.
Coils of MR fade along a vessel."""


REACHES_MM = (REACH_MM, 30.0, 15.0, 7.5)
"""The same for a vessel whose brightness changes: the largest within which one threshold holds."""

BELOW_SEED = 0.3
"""How far such a threshold lies below the seed's level at least, in the contrast there; half way is 0.5."""


@dataclass(frozen=True)
class Threshold:
    """A threshold, in words how it was found, and the box of the volume that it holds in; None: all of it."""

    lower: float
    how: str
    box: Box | None = None


def find_start(problem: Problem) -> Threshold:
    """The threshold for a vessel that is followed from the seeds, whose brightness changes along it.

    That of :func:`find_lower`, from the largest box around the first seed within which it is half way between the
    seed's own level and the soft tissue there and nothing leaks: farther off the vessel may be far brighter or dimmer.

    Parameters
    ----------
    problem : seeds and intensities; its `lower` does not count.

    Raises
    ------
    StageError
        As :func:`find_lower`, where it holds in no box.
    """
    refusal = None
    for n, reach_mm in enumerate(REACHES_MM):
        near, box = _near_the_seeds(problem if n == 0 else replace(problem, seeds=problem.seeds[:1]), reach_mm)
        try:
            lower, found, leak = _beside_tissue(near)
        except StageError as error:
            refusal = refusal or error
            continue
        level = seed_level(near, near.places[:1])
        if leak is None and level - lower >= BELOW_SEED * (level - found.surroundings):
            how = f"half way between lumen and surroundings within {reach_mm:g} mm, less the correction for blur"
            return Threshold(_rounded(lower, found), how, None if n == 0 else box)
    if refusal is not None:
        raise refusal
    return find_lower(problem)


def find_lower(problem: Problem) -> Threshold:
    """The threshold half way between the lumen and the soft tissue around it, corrected for blur, clear of a leak.

    Half way is where t = (lumen(t) + surroundings(t))/2, with the levels of the mask that t makes
    (:func:`pipeline.segmentation.levels.levels`); it is found by repetition, as Ridler and Calvard (1978) do for a
    whole image, but within `REACH_MM` of the seeds, and from a threshold that parts the seeds from the soft tissue
    there: from a lower one the mask would fill the body, and its surroundings be the lung. Then follows the correction
    of :func:`pipeline.segmentation.blur.unbiased_lower`, and, where the leak guard would refuse the result, the lowest
    threshold that is clear of the leak.

    Parameters
    ----------
    problem : seeds and intensities; its `lower` does not count.

    Raises
    ------
    StageError
        If the seeds are not brighter than what is around them, or no threshold up to the lumen's level is clear.
    """
    near, _ = _near_the_seeds(problem, REACH_MM)
    lower, found, leak = _beside_tissue(near)
    how = "half way between lumen and surroundings, less the correction for blur"
    if leak:
        if leak.clear is None:
            raise StageError(
                f"segment.lower: none is given, and what grows from the seed half way to its surroundings, at"
                f" {lower:.4g}, leaks, as it does at every higher threshold up to the lumen's level: narrow the region"
                " to the vessel, part it from what it touches (segment.cut_planes), give a seed in each branch, or give"
                " segment.lower"
            )
        how = (
            f"lowest threshold clear of a leak; half way is at {lower:.4g}: if what joins below are branches of the"
            " vessel, give a seed in each"
        )
        lower = leak.clear
    return Threshold(_rounded(lower, found), how)


def _beside_tissue(near: Problem) -> tuple[float, Levels, Leak | None]:
    """The threshold half way between lumen and soft tissue, corrected for blur, with its levels and its leak."""
    lower, lumen, found = _half_way(near)
    lower = _corrected(near, lumen, found, lower)
    lumen, found = _at(near, lower)
    return lower, found, find_leak(_table(near, lumen, found), lumen, found, near.settings)


def _rounded(lower: float, found: Levels) -> float:
    """A threshold to a ten-thousandth of the contrast."""
    return round(lower, int(np.ceil(-np.log10(abs(found.contrast)))) + 4)


def _half_way(problem: Problem) -> tuple[float, Lumen, Levels]:
    """The threshold half way between the lumen and the soft tissue around it, with its mask and levels."""
    highest = float(min(problem.filtered.voxels[place[::-1]] for place in problem.places))  # seeds stay in
    lower = min(_first_lower(problem), highest)
    lumen, found = _at(problem, lower)
    for _ in range(STEPS):
        half_way = (found.lumen + found.surroundings) / 2
        if abs(half_way - lower) <= TOLERANCE * abs(found.contrast):
            break
        lower = min((half_way + lower) / 2, highest)  # half the step: the levels answer to the threshold
        lumen, found = _at(problem, lower)
    if found.contrast <= 0:
        raise NoVesselError(
            "no contrast-filled vessel at the seed: no threshold makes the seeds brighter than their surroundings"
            f" (seeds {found.lumen:.4g}, surroundings {found.surroundings:.4g} at the last, {lower:.4g}):"
            " correct the seed, choose a series with contrast agent, or give segment.lower"
        )
    return lower, lumen, found


def _first_lower(problem: Problem) -> float:
    """Half way between the seeds' level and the median of what is soft tissue below it, whatever its place.

    The search comes from below: so a lumen that fills most of the region is not taken for its own surroundings.
    """
    level = seed_level(problem, problem.places)
    voxels = problem.open_voxels
    values = voxels[np.isfinite(voxels) & (voxels < level)]
    dark = problem.dark if np.isfinite(problem.dark) else no_signal(values, level)
    tissue = values[values >= dark]
    if tissue.size < TISSUE_PART * values.size:
        tissue = values
    if not tissue.size:
        return level
    lower = (level + float(tissue.min())) / 2
    for _ in range(START_STEPS):
        lower = (level + float(np.median(tissue[tissue <= lower]))) / 2
    return lower


def _at(problem: Problem, lower: float) -> tuple[Lumen, Levels]:
    """Mask and levels of a threshold."""
    lumen = find_lumen(replace(problem, lower=lower))
    if not lumen.mask.any():
        raise NoVesselError(
            f"no voxel lies between {lower:.4g} and segment.upper = {problem.upper:g}: correct the latter"
        )
    return lumen, levels(problem.filtered.voxels, lumen.mask, problem.places, lower, problem.dark)


def _table(problem: Problem, lumen: Lumen, found: Levels) -> list[Row]:
    line, radii = centre_line(lumen.mask)
    filled = occupancy(problem.filtered.voxels, lumen.mask, lumen.wall, found.contrast)
    return growth(lumen, problem.filtered.voxels, centres(line, radii, filled), found, problem.settings)


def _corrected(problem: Problem, lumen: Lumen, found: Levels, lower: float) -> float:
    """Half way, less what blur takes from the wall of a tube.

    The slope over two voxels is flatter than the wall, so that this is about half of what blur takes; for the rest
    makes up that the core's level, which blur dims, too, is 1 to 7 % of the contrast too low
    (docs/validation/first-try.md, Strangers).
    """
    spacing_mm = problem.filtered.spacing_mm[0]
    slope = wall_slope(problem.filtered.voxels, spacing_mm, lumen.mask, found)
    growth_per_percent = sensitivity(_table(problem, lumen, found), "voxels", found)
    return min(lower, unbiased_lower(found, slope, max(100 * growth_per_percent / found.contrast, 0.0), spacing_mm))


def seed_level(problem: Problem, places: Sequence[Index]) -> float:
    """Median intensity of the voxels around some places."""
    voxels = problem.filtered.voxels
    around = [voxels[tuple(slice(max(n - 1, 0), n + 2) for n in place[::-1])].ravel() for place in places]
    return float(np.median(np.concatenate(around)))


def _near_the_seeds(problem: Problem, reach_mm: float) -> tuple[Problem, Box]:
    """The part of the problem so near to the seeds, and its box."""
    filtered = problem.filtered
    reach = int(np.ceil(reach_mm / filtered.spacing_mm[0]))
    places = np.array(problem.places)
    low = np.maximum(places.min(axis=0) - reach, 0)
    high = np.minimum(places.max(axis=0) + reach + 1, filtered.voxels.shape[::-1])
    z, y, x = (slice(int(a), int(b)) for a, b in zip(low[::-1], high[::-1], strict=True))
    box: Box = (z, y, x)
    part = Volume(filtered.voxels[box], filtered.spacing_mm, tuple(filtered.to_mm(low).tolist()), filtered.direction)
    seeds = tuple(
        replace(seed, index=(seed.index[0] - x.start, seed.index[1] - y.start, seed.index[2] - z.start))
        for seed in problem.seeds
    )
    cut = None if problem.barrier is None else problem.barrier[box]
    return replace(problem, filtered=part, seeds=seeds, barrier=cut), box


@dataclass(frozen=True)
class Candidate:
    """A tube in the image: the voxel x, y, z that looks most like its middle, and how many voxels are as its core."""

    place: Index
    voxels: int


def find_seed(problem: Problem, modality: str | None) -> tuple[Seed, str]:
    """A seed in the largest tube that is a contrast-filled vessel, and in words how it was found.

    Tubes are connected voxels of high vesselness, brighter than most of the image (in CT from
    `CONTRAST_HU` to `BONE_HU`). From the largest on, each is taken for a vessel if its intensities are even, as blood
    is and bone is not, it is no thinner than four voxels, lies in the body, and what grows from it by the automatic
    threshold passes the guards of the user's own seeds. When in doubt there is no vessel.

    Parameters
    ----------
    problem : its seeds and `lower` do not count.
    modality : ``CT``: intensities are HU; None: unknown, and taken for CT where they reach down to air's.

    Raises
    ------
    StageError
        If there is none.
    """
    if modality is None and looks_like_ct(problem.filtered.voxels):
        modality = "CT"
    found = candidates(problem, modality)
    for n, candidate in enumerate(found):
        x, y, z = candidate.place
        point = tuple(problem.filtered.to_mm(candidate.place).tolist())
        seed = Seed(AUTOMATIC, (point[0], point[1], point[2]), (x, y, z))
        problem.log.info("automatic seed: tube %d of %d, at voxel %s", n + 1, len(found), list(candidate.place))
        try:
            check_vessel(replace(problem, seeds=(seed,)), modality)
        except StageError as error:
            problem.log.info("automatic seed: no vessel: %s", error)
            continue
        return seed, "middle of the largest contrast-filled tube" + (f"; {n} larger ones are no vessels" if n else "")
    raise NoVesselError(
        f"no contrast-filled vessel was found: of the bright tubes of the region {len(found)} are large and even"
        " enough, and none of these looks like one: choose a series with contrast agent, or give a seed in the vessel"
        " (segment.seeds_mm, seeds_voxel)"
    )


def candidates(problem: Problem, modality: str | None) -> list[Candidate]:
    """The largest bright, even tubes, the largest first; looked for on a coarser grid where the volume is large."""
    voxels = problem.filtered.voxels
    factor = int(np.ceil((voxels.size / SEARCH_VOXELS) ** (1 / 3)))
    coarse = _block_means(voxels, factor)
    if modality == "CT":
        dark, low, high = 0.0, CONTRAST_HU, BONE_HU
    else:
        dark, high = (float(level) for level in np.percentile(coarse, [50, 99.9]))
        low = (dark + high) / 2
    radii_mm = (problem.settings.radii_mm[0], max(problem.settings.radii_mm[1], LARGEST_RADIUS_MM))
    clipped = np.clip(coarse, dark, high).astype(np.float32)
    tubes = vesselness(clipped, factor * problem.filtered.spacing_mm[0], scales(radii_mm), problem.log)
    labels, count = ndimage.label((tubes >= TUBE_MIDDLE) & (coarse >= low) & (coarse <= high), np.ones((3, 3, 3)))
    if not count:
        return []
    sizes, numbers = np.bincount(labels.ravel())[1:], np.arange(1, count + 1)
    spreads, means = ndimage.standard_deviation(coarse, labels, numbers), ndimage.mean(coarse, labels, numbers)
    even = spreads <= uneven_limit(modality) * (means - dark)
    by_size = np.argsort(-sizes, kind="stable")
    largest = [n for n in by_size if sizes[n] >= CORE_VOXELS and even[n]][:CANDIDATES]
    places = ndimage.maximum_position(tubes, labels, numbers[largest])
    found = []
    for n, place in zip(largest, places, strict=True):
        z, y, x = (min(int(k * factor + factor // 2), size - 1) for k, size in zip(place, voxels.shape, strict=True))
        found.append(Candidate((x, y, z), int(sizes[n])))
    return found


def uneven_limit(modality: str | None) -> float:
    """Largest standard deviation of a lumen's middle over its contrast."""
    return UNEVEN_CT if modality == "CT" else UNEVEN_OTHER


def _block_means(voxels: NDArray[np.floating], factor: int) -> NDArray[np.floating]:
    """Means of blocks of `factor` voxels a side; what is left over at the far ends is cut off."""
    if factor == 1:
        return voxels
    z, y, x = (size // factor for size in voxels.shape)
    blocks = voxels[: z * factor, : y * factor, : x * factor].reshape(z, factor, y, factor, x, factor)
    return blocks.mean(axis=(1, 3, 5))


def check_vessel(problem: Problem, modality: str | None) -> None:
    """Refuse what grows from a seed by the automatic threshold, unless it surely is a contrast-filled vessel.

    Raises
    ------
    StageError
        With the reason.
    """
    near = replace(problem, lower=find_lower(problem).lower)
    lumen = find_lumen(near)
    voxels = near.filtered.voxels
    check_border(lumen, near.filtered, near.places, near.settings)
    found = levels(voxels, lumen.mask, near.places, near.lower, near.dark)
    check_contrast(found, lumen, modality, voxels)
    box = bounding_box(lumen.mask)
    inside = voxels[box][lumen.mask[box]]
    depth = ndimage.distance_transform_edt(np.pad(lumen.mask[box], 1))[1:-1, 1:-1, 1:-1][lumen.mask[box]]
    core = inside[depth > CORE_DEPTH]
    if len(core) < CORE_VOXELS:
        raise StageError(
            f"fewer than {CORE_VOXELS} voxels are deeper than {CORE_DEPTH:g}: it is too thin to be sure of"
        )
    uneven = float(core.std()) / found.contrast
    if uneven > uneven_limit(modality):
        raise StageError(f"its intensities vary by {uneven:.0%} of the contrast: too much for blood")
    if modality == "CT" and not (found.lumen <= BONE_HU and found.surroundings >= AIR_HU):
        raise StageError(
            f"{found.lumen:.0f} HU within {found.surroundings:.0f} HU: bone, or something outside the body"
        )
