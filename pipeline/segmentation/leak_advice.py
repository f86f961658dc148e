# SPDX-License-Identifier: Apache-2.0
"""What to set where a lumen leaks, tried: another threshold, or a smaller region around the seeds."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.automatic import find_lower
from pipeline.segmentation.beyond_region import keeps_whole
from pipeline.segmentation.judged import Judged
from pipeline.segmentation.leak import LeakError
from pipeline.segmentation.point_text import text_mm
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.region_growing import Box, bounding_box, grow
from solver.runtime.errors import StageError

MARGINS = (4, 3, 2, 1)
"""Margins, voxels, of boxes around what is clear of the leak that are tried: they keep the vessel whole."""

REACHES = (0.7, 0.5, 0.35, 0.25)
"""Reaches of smaller regions that are tried, over that of what grows from the seeds."""

MARGIN_MM = 5.0
"""Kept around what grows within reach, as ``filter.region_grown`` keeps."""

LEAST_REACH_MM = 5.0
"""A smaller region holds no stretch of a vessel that flow can be computed in."""

Tries = Callable[[SegmentSettings, Volume], Judged | None]
"""The lumen that settings make in an image; None where the stage refuses it."""


def clear_of_leak(error: LeakError, problem: Problem, loaded: Volume, tries: Tries) -> str:
    """What is clear of a leak, tried: a threshold in place of a given one, or else a smaller region.

    Where none passes, what was tried. Regions that keep the vessel whole come first, best one with no warning; of one
    that ends it, it is said by how much, and the setting that goes with it makes that a failed check.

    Parameters
    ----------
    error : with the lowest level that may be clear of the leak.
    problem : as posed.
    loaded : the volume before the filter, whose voxels a region is told in.
    tries : settings.
    """
    whole, levels, tight = keeping_whole(error, problem, loaded, tries)
    if whole:
        return whole
    asking, near = problem.settings.model_copy(update={"beyond_region": "tell"}), list[str]()
    for part, reach_mm in smaller_regions(problem):
        if (judged := tries(asking, part)) is not None:
            how = f"what grows within {reach_mm:.0f} mm of the seeds"
            return f"tried, passes: {_setting(part, how, loaded)}{_ends(judged.record()['beyond_region'])}"
        near.append(f"{reach_mm:.0f}")
    thresholds = f"no threshold that was tried ({', '.join(f'{level:g}' for level in levels)}) passes" if levels else ""
    kinds = (
        f"{', '.join(tight)} voxels around what is clear of the leak" if tight else "",
        f"within {', '.join(near)} mm of the seeds" if near else "",
    )
    tried = "; ".join(filter(None, kinds))
    regions = f"no smaller region that was tried ({tried}) passes" if tried else ""
    none = " and ".join(each for each in (thresholds, regions) if each)
    return f"{none or error.advice}: correct the seed" if levels else ", ".join(filter(None, (none, error.advice)))


def keeping_whole(
    error: LeakError, problem: Problem, loaded: Volume, tries: Tries
) -> tuple[str, list[float], list[str]]:
    """What is clear of a leak and ends no vessel, tried; empty where nothing passes.

    Parameters
    ----------
    error, problem, loaded, tries : as in :func:`clear_of_leak`.

    Returns
    -------
    str
        The setting.
    list
        Thresholds that were tried.
    list
        Margins that were tried, voxels, of regions that are refused or end the vessel.
    """
    levels = _levels(error, problem)
    for level in levels:
        if tries(problem.settings.model_copy(update={"lower": level}), problem.filtered) is not None:
            way = "raise" if level > problem.lower else "lower"
            return f"tried, passes: {way} segment.lower to {level:g}", levels, []
    asking = problem.settings.model_copy(update={"beyond_region": "tell"})
    tight, whole = list[str](), ""
    for part, margin in whole_regions(error, problem):
        judged = tries(asking, part)
        record = judged.record() if judged else None
        if record is None or not keeps_whole(record["beyond_region"]):
            tight.append(f"{margin}")
            continue
        if not whole or not record["warnings"]:
            how = f"{margin} voxels around what is clear of the leak"
            whole = f"tried, passes: {_setting(part, how, loaded)}, in which the vessel is whole"
        if not record["warnings"]:
            break
    return whole, levels, tight


def _setting(part: Volume, how: str, loaded: Volume) -> str:
    return (
        f"a smaller region, {how}, filter: {{region_mm: null, region_grown: null, region_voxels:"
        f" {_as_voxels(part, loaded)}}} and segment.beyond_region: tell"
    )


def _ends(beyond: dict[str, Any] | None) -> str:
    """That a region ends the vessel, by what goes on beyond; empty where it keeps it."""
    if beyond is None or keeps_whole(beyond):
        return ""
    return (
        f", which ends the vessel: at least {beyond['volume_ml']:.3g} mL of it go on about {text_mm(beyond['mm'])} mm,"
        " and a check of the report fails"
    )


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


def whole_regions(error: LeakError, problem: Problem) -> Iterator[tuple[Volume, int]]:
    """Ever tighter boxes around what is clear of the leak: they leave out most of what lies beside the vessel, and none
    of its length.

    Parameters
    ----------
    error : with the mask at a level that is clear of the leak.
    problem : as posed.

    Yields
    ------
    part, margin : the image in the box; voxels around what is clear.
    """
    if error.core is None or not error.core.any():
        return
    for margin in MARGINS:
        part = _part(problem.filtered, bounding_box(error.core, margin=margin))
        if part.voxels.shape != problem.filtered.voxels.shape:
            yield part, margin


def smaller_regions(problem: Problem) -> Iterator[tuple[Volume, float]]:
    """Ever smaller boxes around what grows from the seeds within reach of them.

    Parameters
    ----------
    problem : as posed.

    Yields
    ------
    part, reach_mm : the image in the box; how far growth goes.
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
        part = _part(filtered, box)
        if part.voxels.shape == before:
            continue
        before = part.voxels.shape
        yield part, reach_mm


def _part(volume: Volume, box: Box) -> Volume:
    x, y, z = volume.to_mm([side.start for side in box[::-1]]).tolist()
    return Volume(volume.voxels[box], volume.spacing_mm, (x, y, z), volume.direction)


def _as_voxels(part: Volume, loaded: Volume) -> str:
    """The box of a part of the filtered image in voxels of the loaded one, the last ones excluded."""
    ends = np.array([[-0.5] * 3, [n - 0.5 for n in part.voxels.shape[::-1]]])
    low, high = np.sort(loaded.to_index(part.to_mm(ends)), axis=0) + 0.5
    size = np.array(loaded.voxels.shape[::-1])
    first = np.clip(np.rint(low), 0, size - 1).astype(int)
    last = np.clip(np.rint(high), first + 1, size).astype(int)
    return f"{{low: {first.tolist()}, high: {last.tolist()}}}"
