# SPDX-License-Identifier: Apache-2.0
"""Refusals of seeds and of a lumen that cannot be trusted, each with what can be set."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import ndimage

from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.automatic import BONE_HU, find_lower, seed_level
from pipeline.segmentation.contrast import CONTRAST_HU
from pipeline.segmentation.leak import check_border
from pipeline.segmentation.methods import find_lumen
from pipeline.segmentation.point_text import text_mm
from pipeline.segmentation.problem import Lumen, NoVesselError, Problem
from pipeline.segmentation.region_growing import Index, Mask, fill_holes, grow
from pipeline.segmentation.seam_planes import record_of_touches
from pipeline.segmentation.seeds import WITHOUT_SEEDS, Seed, moved, with_points
from solver.runtime.errors import StageError

MINIMUM_VOXELS = 100
"""A smaller mask is noise: a vessel 4 voxels across and twice as long has as many."""

WIDEST = 0.5
"""Part of a face that a vessel may fill where the region is cut close; that a mask fills more is not to be accepted."""

BRIGHT_PART = 0.01
"""Part of what grows that is far brighter than the seeds, from which it is tried to leave that out: more than noise."""

NEAREST_MM = 10.0
"""How far from a seed a better one is looked for."""

MOST_SERIES = 3
"""So many other series are named in a refusal."""


class SeedsApartError(StageError):
    """Seeds that lie in separate parts, with what to do about it.

    Attributes
    ----------
    words : which, and where.
    reached : the setting that gives only those that are reached.
    """

    def __init__(self, words: str, reached: str, joins: str = "lower the threshold") -> None:
        super().__init__(f"{words}: {joins}, smooth more (filter), or leave one of the seeds out: {reached}")
        self.words, self.reached = words, reached


@contextmanager
def advising(remedy: str | Callable[[], str]) -> Iterator[None]:
    """Say behind a refusal what can be set, with its value; nothing where nothing can. What takes time to find is
    looked for only then.
    """
    try:
        yield
    except StageError as error:
        words = remedy if isinstance(remedy, str) else remedy()
        kind = NoVesselError if isinstance(error, NoVesselError) else StageError
        raise kind(f"{error}; {words}" if words else str(error)) from None


def check_filled(problem: Problem, modality: str | None) -> None:
    """Refuse seeds in CT that are as dark as blood without contrast agent, whatever the threshold.

    Pulmonary vessels stand out from air without contrast agent, and a threshold may part the heart from fat; neither is
    what blood flow can be computed in.
    """
    if modality != "CT":
        return
    for seed in problem.seeds:
        level = seed_level(problem, [seed.index])
        if level < CONTRAST_HU:
            raise NoVesselError(
                f"no contrast-filled vessel at the seed: {seed.name}: around {text_mm(seed.point_mm)} mm the median is"
                f" {level:.0f} HU; blood without contrast agent has 30 to 70 HU, with it at least {CONTRAST_HU:g} HU"
                f" are needed: {_bright_remedy(seed, problem)}, or choose a series with contrast agent"
            )


def _bright_remedy(seed: Seed, problem: Problem) -> str:
    """The nearest place that may be contrast-filled blood, or the search for a vessel, with the setting."""
    nearest = _nearest_in_range(seed.index, problem.filtered, max(CONTRAST_HU, problem.lower), BONE_HU, around=True)
    if nearest is None:
        return f"let the largest vessel be looked for: {WITHOUT_SEEDS}"
    to = moved(problem.seeds, seed, problem.filtered.to_mm(nearest), problem.settings)
    return f"move the seed into the vessel (the nearest place that is as bright, unless it is bone: {to})"


def check_intensity(seed: Seed, problem: Problem, loaded: Volume) -> None:
    """Refuse a seed that is not between the thresholds, and say where the nearest voxel that is lies.

    Parameters
    ----------
    seed : that is checked.
    problem : thresholds and the filtered volume.
    loaded : the volume before the filter, whose voxels the message counts.
    """
    intensity = problem.filtered.voxels[seed.index[::-1]]
    if problem.lower <= intensity <= problem.upper:
        return
    nearest = _nearest_in_range(seed.index, problem.filtered, problem.lower, problem.upper)
    if nearest is None:
        remedy = (
            f"no voxel within {NEAREST_MM:g} mm is in range, but for specks: change the thresholds, or let both be"
            f" found: segment: {{lower: null, upper: null, {WITHOUT_SEEDS.partition('{')[2]}"
        )
    else:
        point = problem.filtered.to_mm(nearest)
        remedy = (
            f"change the thresholds, or move the seed to the nearest voxel in range (seeds_voxel"
            f" {np.rint(loaded.to_index(point)).astype(int).tolist()}):"
            f" {moved(problem.seeds, seed, point, problem.settings)}"
        )
    limits = f"at least segment.lower = {problem.lower:g}"
    if problem.settings.upper is not None:
        limits += f" and at most segment.upper = {problem.upper:g}"
    raise (NoVesselError if nearest is None else StageError)(
        f"{seed.name}: at {text_mm(seed.point_mm)} mm the filtered intensity is {intensity:.1f}, it must be {limits};"
        f" {remedy}"
    )


def check_seeds(problem: Problem, found: Lumen) -> None:
    """Refuse a speckle, and seeds that are not connected."""
    if (count := int(found.mask.sum())) < MINIMUM_VOXELS:
        raise StageError(
            f"{found}: only {count} voxels at the seed are in range, a vessel has at least"
            f" {MINIMUM_VOXELS}: lower the threshold, or move the seed from a speckle of noise into the vessel"
            + _vessel_near(problem)
        )
    first = problem.seeds[0]
    if not found.mask[first.index[::-1]]:
        raise StageError(f"{first.name}: at {found} it lies {_left_out(problem)}")
    reached = [seed.point_mm for seed in problem.seeds if found.mask[seed.index[::-1]]]
    for seed in problem.seeds[1:]:
        if not found.mask[seed.index[::-1]]:
            raise SeedsApartError(
                f"{seed.name}: at {found} no path of voxels in range leads to it from"
                f" {problem.seeds[0].name}, whose component has {count} voxels, and the lumen must be one component",
                with_points(reached, problem.settings),
            )


def _left_out(problem: Problem) -> str:
    """What a seed lies in that the settings leave out, with what to do."""
    middle = "move the seed into the middle of the vessel"
    if problem.settings.upper is None and problem.settings.dark_sheets == "part":
        return (
            f"in a dark sheet, or behind one, which segment.dark_sheets: part leaves out: {middle}, or set"
            " segment.dark_sheets: keep"
        )
    return f"in the rim of something bright that segment.upper leaves out: {middle}, or raise segment.upper"


def check_background(problem: Problem, found: Lumen, mask: Mask) -> None:
    """Refuse background seeds in the lumen, or in what would be a cavity of it.

    Parameters
    ----------
    problem : with its background seeds.
    found : the lumen, for the message.
    mask : [z, y, x], the lumen with its cavities filled.
    """
    for seed in problem.background:
        if mask[seed.index[::-1]]:
            raise StageError(
                f"{seed.name}: at {found} the lumen holds this point, which is said to lie outside: raise the"
                " threshold, part the two with segment.cut_planes, or take a method that starts from background seeds:"
                " segment.method: random-walker, or watershed"
            )


def border_remedy(problem: Problem, mask: Mask, contact: dict[str, float]) -> str:
    """What parts two lumens that touch, a threshold that was tried and passes; or to accept it, where a vessel may be
    as wide.

    Parameters
    ----------
    problem : what was segmented, and how.
    mask : that was found.
    contact : part of each face of the image that it fills, by the name of the face.
    """
    touch = record_of_touches(fill_holes(mask)[0], problem)
    summary = [touch["words"]] if touch and touch["parted"] else []  # the shape of a leak may have seams as well
    try:
        if (lower := find_lower(problem).lower) > problem.lower:
            tried = find_lumen(replace(problem, lower=lower))
            check_border(tried, problem.filtered, problem.places, problem.settings)
            summary.append(f"clear of it is segment.lower: {lower:g}")
    except StageError:
        pass
    most = np.ceil(100 * max(contact.values())) / 100
    if most <= WIDEST:
        summary.append(f"to take it as it is, segment.border_fraction: {most:g}")
    return ", ".join(summary) or "part the vessel from what it touches by segment.cut_planes, marked on pick.html"


def without_bright_part(problem: Problem) -> tuple[float, float] | None:
    """An upper threshold that leaves out metal, calcium or bone, and the part of what grows that is above it.

    It lies as far above the level at the seeds as ``lower`` lies below; None where one is set, or hardly anything is
    brighter.

    Parameters
    ----------
    problem : with its lower threshold.
    """
    if problem.settings.upper is not None:
        return None
    upper = 2 * seed_level(problem, problem.places) - problem.lower
    grown = problem.filtered.voxels[grow(problem.open_voxels, problem.places, problem.lower)]
    share = float((grown > upper).mean()) if grown.size else 0.0
    return (float(f"{upper:.4g}"), share) if share > BRIGHT_PART else None


def without_metal(pose: Callable[[], Problem], passes: Callable[[SegmentSettings], bool]) -> str:
    """An upper threshold that leaves out what is far brighter than the seeds, tried; empty where none passes.

    Parameters
    ----------
    pose : the problem, or a refusal.
    passes : whether the stage takes the lumen with other settings.
    """
    try:
        problem = pose()
    except StageError:
        return ""
    if (found := without_bright_part(problem)) is None:
        return ""
    upper, share = found
    if not passes(problem.settings.model_copy(update={"upper": upper})):
        return ""
    return (
        f"{share:.0%} of what grows from the seed is far brighter than the seed, as metal, calcium and bone are. Tried,"
        f" passes: to leave it out, segment.upper: {upper:g}. As it is"
    )


def _vessel_near(problem: Problem) -> str:
    """The nearest place in what is large enough, with the setting; empty without any."""
    if len(problem.seeds) != 1:
        return ""
    (seed,) = problem.seeds
    nearest = _nearest_in_range(seed.index, problem.filtered, problem.lower, problem.upper)
    if nearest is None:
        return ""
    return f", the nearest by {moved(problem.seeds, seed, problem.filtered.to_mm(nearest), problem.settings)}"


def _nearest_in_range(index: Index, volume: Volume, lower: float, upper: float, around: bool = False) -> Index | None:
    """Index x, y, z of the nearest voxel between the thresholds, within `NEAREST_MM`, of a part that is no speckle; the
    median around it too, where that is asked for.
    """
    reach = np.ceil(NEAREST_MM / np.array(volume.spacing_mm)).astype(int)
    start, stop = np.maximum(np.array(index) - reach, 0), np.array(index) + reach + 1
    part = volume.voxels[start[2] : stop[2], start[1] : stop[1], start[0] : stop[0]]
    label, count = ndimage.label((part >= lower) & (part <= upper))
    large = np.bincount(label.ravel(), minlength=count + 1) >= MINIMUM_VOXELS
    large[0] = False
    usable = large[label]
    if around:
        usable &= ndimage.median_filter(part, 3) >= lower
    candidates = np.argwhere(usable)[:, ::-1] + start
    distance_mm = np.linalg.norm((candidates - index) * volume.spacing_mm, axis=1)
    if not distance_mm.size or distance_mm.min() > NEAREST_MM:
        return None
    x, y, z = candidates[np.argmin(distance_mm)].tolist()
    return x, y, z


def other_series(facts: Mapping[str, Any]) -> str:
    """Series of the same modality beside the one that was loaded, for a refusal; those with contrast agent first."""
    others = [
        each
        for each in facts.get("series_seen") or ()
        if each["series"] != facts["series"] and each["modality"] == facts["modality"] and not each["localizer"]
    ]
    if not others:
        return ""
    others.sort(key=lambda each: (not each.get("contrast_agent_recorded"), -each["files"]))
    named = "; ".join(
        f"load.series: '{each['series']}' (number {each['number']}, {each['files']} files"
        f"{', contrast agent recorded' if each.get('contrast_agent_recorded') else ''})"
        for each in others[:MOST_SERIES]
    )
    return f". Or another series of the images is meant: {named}"
