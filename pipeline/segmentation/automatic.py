"""What the user did not give, found from the image: the threshold from the seeds, the seeds from the image."""

from dataclasses import dataclass, replace

import numpy as np

from pipeline.segmentation.leak import Levels, find_leak, growth, levels, sensitivity
from pipeline.segmentation.methods import threshold
from pipeline.segmentation.problem import Lumen, Problem
from pipeline.segmentation.region_growing import Box, centre_line, centres, occupancy
from pipeline.segmentation.wall import unbiased_lower, wall_slope
from pipeline.volume import Volume
from solver.stage import StageError

REACH_MM = 60.0
"""How far from the seeds the threshold is looked for: the intensities of one stretch of the vessel decide."""

BACKGROUND_PERCENTILE = 25
"""Percentile of the intensities around the seeds from which the search for the surroundings' level starts."""

STEPS, TOLERANCE = 20, 0.005
"""Most steps of the search for the half-way threshold, and the part of the contrast by which the last may differ."""


@dataclass(frozen=True)
class Threshold:
    """A threshold and, in words, how it was found."""

    lower: float
    how: str


def find_lower(problem: Problem) -> Threshold:
    """The threshold half way between the lumen and its surroundings, corrected for blur, clear of a leak.

    Half way is where t = (lumen(t) + surroundings(t))/2, with the levels of the mask that t makes; it is found by
    repetition, as Ridler and Calvard (1978) do for a whole image, but within `REACH_MM` of the seeds. Then follows the
    correction of :func:`pipeline.segmentation.wall.unbiased_lower`, and, where the leak guard would refuse the result,
    the lowest threshold that is clear of the leak.

    Parameters
    ----------
    problem : seeds and intensities; its `lower` does not count.

    Raises
    ------
    StageError
        If the seeds are not brighter than what is around them, or no threshold up to the lumen's level is clear.
    """
    near = _near_the_seeds(problem)
    voxels = near.open_voxels[np.isfinite(near.open_voxels)]
    lower = (_seed_level(near) + float(np.percentile(voxels, BACKGROUND_PERCENTILE))) / 2
    lumen, found = _at(near, lower)
    for _ in range(STEPS):
        half_way = (found.lumen + found.surroundings) / 2
        if abs(half_way - lower) <= TOLERANCE * abs(found.contrast):
            break
        lower = min((half_way + lower) / 2, _seed_level(near))  # half the step: the levels answer to the threshold
        lumen, found = _at(near, lower)
    if found.contrast <= 0:
        raise StageError(
            "no contrast-filled vessel at the seed: no threshold makes the seeds brighter than their surroundings:"
            " correct the seed, choose a series with contrast agent, or give segment.lower"
        )
    how = "half way between lumen and surroundings, less the correction for blur"
    lower = _corrected(near, lumen, found, lower)
    lumen, found = _at(near, lower)
    leak = find_leak(_table(near, lumen, found), lumen, found, near.settings)
    if leak:
        if leak.clear is None:
            raise StageError(
                f"segment.lower: none is given, and what grows from the seed half way to its surroundings, at"
                f" {lower:.4g}, leaks, as it does at every higher threshold up to the lumen's level: give"
                " segment.lower, narrow the region to the vessel, or part it from what it touches (segment.cut_planes)"
            )
        lower, how = leak.clear, f"lowest threshold clear of a leak; half way is at {lower:.4g}"
    digits = int(np.ceil(-np.log10(abs(found.contrast)))) + 4
    return Threshold(round(lower, digits), how)


def _at(problem: Problem, lower: float) -> tuple[Lumen, Levels]:
    """Mask and levels of a threshold."""
    lumen = threshold(replace(problem, lower=lower))
    return lumen, levels(problem.filtered.voxels, lumen.mask, problem.places, lower)


def _table(problem: Problem, lumen: Lumen, found: Levels) -> list:
    line, radii = centre_line(lumen.mask)
    filled = occupancy(problem.filtered.voxels, lumen.mask, lumen.wall, found.contrast)
    return growth(lumen, problem.filtered.voxels, centres(line, radii, filled), found, problem.settings)


def _corrected(problem: Problem, lumen: Lumen, found: Levels, lower: float) -> float:
    """Half way, less what blur takes from the wall of a tube."""
    spacing_mm = problem.filtered.spacing_mm[0]
    slope = wall_slope(problem.filtered.voxels, spacing_mm, lumen.mask, found)
    growth_per_percent = sensitivity(_table(problem, lumen, found), "voxels", found)
    return min(lower, unbiased_lower(found, slope, max(100 * growth_per_percent / found.contrast, 0.0), spacing_mm))


def _seed_level(problem: Problem) -> float:
    """Median intensity of the voxels around the seeds."""
    voxels = problem.filtered.voxels
    around = [voxels[tuple(slice(max(n - 1, 0), n + 2) for n in seed[::-1])].ravel() for seed in problem.places]
    return float(np.median(np.concatenate(around)))


def _near_the_seeds(problem: Problem) -> Problem:
    """The part of the problem within `REACH_MM` of the seeds."""
    filtered = problem.filtered
    reach = int(np.ceil(REACH_MM / filtered.spacing_mm[0]))
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
    return replace(problem, filtered=part, seeds=seeds, barrier=cut)
