# SPDX-License-Identifier: Apache-2.0
"""What to set about seeds, tried: what joins seeds that lie in separate parts, and a seed in what is left out or leaks.

A lumen that is dim between its seeds, as where an artery opens into a vein, is joined by a lower threshold, from which
the levels near each place find its wall; one that is too thin there to be seen, by a bridge.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from scipy import ndimage

from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.chosen_method import AUTO, OTHERS, THRESHOLD, reservations
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.refusals import SeedsApartError
from pipeline.segmentation.seeds import place_seeds, seed_places, with_points

BELOW = 0.1
"""How far below the level that just joins two seeds a threshold is tried, over the depth of that below the seeds: at
it, a single voxel joins them."""

ROUNDS = 12
"""Halvings of the range in which that level is looked for: to a four thousandth."""

IF_VESSEL = "if it is the vessel, "
"""What the advice about a part that is left out begins with."""

LEFT_OUT = ("parted", "dim_junction")
"""Parts of a record that tell of one, with a place in it."""

BESIDE_VOXELS = 2.0
"""Distance below which one more seed is at the place of a given one: thin vessels lie that far apart."""

ANOTHER = OTHERS | {"doubts"}
"""Reservations that a part of the mask may be another vessel or organ, or that it has left the vessel."""

Records = Callable[[SegmentSettings], Mapping[str, Any] | None]
"""The record of the lumen that settings make; None where it is refused."""


def joining(problem: Problem, settings: SegmentSettings, records: Records) -> str:
    """Settings, tried, by which seeds that lie in separate parts are in one lumen: the first that leave no doubt, else
    the first that pass; empty where none do.

    Parameters
    ----------
    problem : as posed, with its seeds.
    settings : by which they are apart.
    records : of the lumen by others.
    """
    first = ""
    for change in _changes(problem, settings):
        if (record := records(settings.model_copy(update=change))) is not None:
            words = " and ".join(f"segment.{key}: {value}" for key, value in change.items())
            if not reservations(record):
                return words
            first = first or words
    return first


def _changes(problem: Problem, settings: SegmentSettings) -> Iterator[dict[str, Any]]:
    """What is tried: a threshold that joins the seeds, by the method asked for and by `auto`; a bridge."""
    if (level := joining_level(problem)) is not None:
        seen = float(np.median([problem.filtered.voxels[place[::-1]] for place in problem.places]))
        lower = float(f"{min(level - BELOW * (seen - level), problem.lower):.4g}")
        yield {"lower": lower}
        if settings.method not in (AUTO, THRESHOLD):
            yield {"lower": lower, "method": AUTO}
    if settings.gaps == "keep":
        yield {"gaps": "bridge"}


def joining_level(problem: Problem) -> float | None:
    """The highest threshold at which all seeds are in one part; None where none does that.

    Parameters
    ----------
    problem : with its seeds.
    """
    voxels = np.where(problem.open_voxels <= problem.upper, problem.open_voxels, -np.inf)
    places = [place[::-1] for place in problem.places]
    high = float(min(voxels[place] for place in places))
    low = float(problem.filtered.voxels.min())

    def joins(level: float) -> bool:
        label, _ = ndimage.label(voxels >= level)
        return len({int(label[place]) for place in places} | {0}) == 2 and all(label[place] for place in places)

    if not joins(low):
        return None
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if joins(middle) else (low, middle)
    return low


def apart(error: SeedsApartError, problem: Problem, settings: SegmentSettings, records: Records) -> SeedsApartError:
    """The refusal of seeds that lie apart, with what joins them, tried.

    Parameters
    ----------
    error : of them.
    problem, settings, records : as in :func:`joining`.
    """
    joins = joining(problem, settings, records)
    found = f"tried, passes: {joins}" if joins else "no threshold and no bridge that was tried joins them"
    return SeedsApartError(error.words, error.reached, found)


def with_seed(settings: SegmentSettings, point_mm: Any, loaded: Volume) -> tuple[SegmentSettings, str]:
    """Settings with one more seed, and how they are told.

    Parameters
    ----------
    settings : of the case.
    point_mm : the seed, (x, y, z), LPS.
    loaded : the volume before the filter.
    """
    points = [*(place.point_mm for place in seed_places(settings, loaded)), tuple(round(float(x), 2) for x in point_mm)]
    given = {"seeds_mm": tuple(points), "seeds_voxel": (), "seeds_file": None}
    return settings.model_copy(update=given), with_points(points, settings)


def seed_in(point_mm: Any, problem: Problem, settings: SegmentSettings, loaded: Volume, records: Records) -> str:
    """One more seed, tried, with what joins it to the others where it lies apart; empty where it is refused, or beside
    one that is given, which it adds nothing to.

    Parameters
    ----------
    point_mm : the seed, (x, y, z), LPS.
    problem : as posed, without it.
    settings : by which it was posed.
    loaded : the volume before the filter.
    records : of the lumen by others.
    """
    if _given(point_mm, problem):
        return ""
    other, words = with_seed(settings, point_mm, loaded)
    if records(other) is not None:
        return words
    every = place_seeds(seed_places(other, loaded), problem.filtered, loaded)
    posed = Problem(problem.filtered, every, (), problem.barrier, other, problem.lower, problem.dark, problem.log)
    joins = joining(posed, other, records)
    return f"{words} and {joins}" if joins else ""


def _given(point_mm: Any, problem: Problem) -> bool:
    """Whether a point lies within so few voxels of a seed that both are one place."""
    away = problem.filtered.to_index(point_mm) - np.array(problem.places)
    return bool((np.linalg.norm(away, axis=1) < BESIDE_VOXELS).any())


def of_the_vessel(records: Records) -> Records:
    """The same, but None, too, for a lumen that may hold another vessel or organ: a seed in what leaked would take all
    of it in.

    Parameters
    ----------
    records : of the lumen by others.
    """

    def only(settings: SegmentSettings) -> Mapping[str, Any] | None:
        record = records(settings)
        return None if record is None or reservations(record) & ANOTHER else record

    return only


def with_tried_seeds(record: dict[str, Any], seed_at: Callable[[Any], str]) -> dict[str, Any]:
    """A record of a lumen in which checks of what is left out give seeds that were tried.

    Parameters
    ----------
    record : as in ``segmentation.json``.
    seed_at : of a point in it, (x, y, z), LPS, the setting, tried; empty: none passes, and the check says so.
    """
    for key in LEFT_OUT:
        if (part := record[key]) is None:
            continue
        seeds, before = seed_at(part["mm"]), part["words"]
        there = f"{IF_VESSEL}give a seed in it, tried: {seeds}, or " if seeds else ""
        words = before.replace(IF_VESSEL, there or f"a seed in it was refused; {IF_VESSEL}")
        warnings = [words if each == before else each for each in record["warnings"]]
        record = record | {key: part | {"words": words}, "warnings": warnings}
    return record
