# SPDX-License-Identifier: Apache-2.0
"""What to set where a lumen leaks, tried: another threshold, or a smaller region around the seeds."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np

from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.automatic import find_lower
from pipeline.segmentation.leak import LeakError
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.region_growing import bounding_box, grow
from solver.runtime.errors import StageError

REACHES = (0.7, 0.5, 0.35, 0.25)
"""Reaches of smaller regions that are tried, over that of what grows from the seeds."""

MARGIN_MM = 5.0
"""Kept around what grows within reach, as ``filter.region_grown`` keeps."""

LEAST_REACH_MM = 5.0
"""A smaller region holds no stretch of a vessel that flow can be computed in."""

Passes = Callable[[SegmentSettings, Volume], bool]
"""Whether the stage takes the lumen that settings make in an image."""


def clear_of_leak(error: LeakError, problem: Problem, loaded: Volume, passes: Passes) -> str:
    """What is clear of a leak, tried: a threshold in place of a given one, or else a smaller region.

    Where none passes, what was tried.

    Parameters
    ----------
    error : with the lowest level that may be clear of the leak.
    problem : as posed.
    loaded : the volume before the filter, whose voxels a region is told in.
    passes : tries settings.
    """
    levels = _levels(error, problem)
    for level in levels:
        if passes(problem.settings.model_copy(update={"lower": level}), problem.filtered):
            return f"tried, passes: {'raise' if level > problem.lower else 'lower'} segment.lower to {level:g}"
    tried = []
    for part, setting, reach_mm in smaller_regions(problem, loaded):
        if passes(problem.settings, part):
            return (
                f"tried, passes: a smaller region, what grows within {reach_mm:.0f} mm of the seeds,"
                f" filter: {{region_mm: null, region_grown: null, region_voxels: {setting}}}"
            )
        tried.append(f"{reach_mm:.0f}")
    thresholds = f"no threshold that was tried ({', '.join(f'{level:g}' for level in levels)}) passes" if levels else ""
    regions = f"no smaller region that was tried, within {', '.join(tried)} mm of the seeds, passes" if tried else ""
    none = " and ".join(each for each in (thresholds, regions) if each)
    return f"{none or error.advice}: correct the seed" if levels else ", ".join(filter(None, (none, error.advice)))


def _levels(error: LeakError, problem: Problem) -> list[float]:
    """Thresholds to try in place of a given one: the one that is found, and one that is clear of the leak.

    Where brightness falls along a vessel, each threshold above its dim end cuts more off: a lower one is right then.
    """
    if problem.settings.lower is None:
        return []
    levels = [] if error.clear is None else [error.clear]
    with suppress(StageError):
        levels.insert(0, float(f"{find_lower(problem).lower:.4g}"))
    return list(dict.fromkeys(levels))


def smaller_regions(problem: Problem, loaded: Volume) -> Iterator[tuple[Volume, str, float]]:
    """Ever smaller boxes around what grows from the seeds within reach of them.

    Parameters
    ----------
    problem : as posed.
    loaded : the volume before the filter.

    Yields
    ------
    part, setting, reach_mm : the image in the box; the box as ``filter.region_voxels``; how far growth goes.
    """
    filtered, spacing_mm = problem.filtered, problem.filtered.spacing_mm[0]
    away = np.full(filtered.voxels.shape, np.inf)
    axes = [np.arange(n) for n in filtered.voxels.shape]
    for place in problem.places:
        z, y, x = np.meshgrid(
            *(axis - n for axis, n in zip(axes, place[::-1], strict=True)), indexing="ij", sparse=True
        )
        away = np.minimum(away, spacing_mm * np.sqrt(x**2 + y**2 + z**2))
    grown = grow(problem.open_voxels, problem.places, problem.lower, problem.upper)
    if not grown.any():
        return
    farthest, before = float(away[grown].max()), filtered.voxels.shape
    for share in REACHES:
        reach_mm = share * farthest
        if reach_mm < LEAST_REACH_MM:
            return
        near = grow(np.where((away <= reach_mm) & grown, 1.0, 0.0), problem.places, 1.0)
        box = bounding_box(near, margin=int(np.ceil(MARGIN_MM / spacing_mm)))
        first = [side.start for side in box[::-1]]
        voxels = filtered.voxels[box]
        if voxels.shape == before:
            continue
        before = voxels.shape
        part = Volume(voxels, filtered.spacing_mm, tuple(filtered.to_mm(first).tolist()), filtered.direction)
        yield part, _as_voxels(part, loaded), reach_mm


def _as_voxels(part: Volume, loaded: Volume) -> str:
    """The box of a part of the filtered image in voxels of the loaded one, the last ones excluded."""
    ends = np.array([[-0.5] * 3, [n - 0.5 for n in part.voxels.shape[::-1]]])
    low, high = np.sort(loaded.to_index(part.to_mm(ends)), axis=0) + 0.5
    size = np.array(loaded.voxels.shape[::-1])
    first = np.clip(np.rint(low), 0, size - 1).astype(int)
    last = np.clip(np.rint(high), first + 1, size).astype(int)
    return f"{{low: {first.tolist()}, high: {last.tolist()}}}"
