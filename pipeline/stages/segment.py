# SPDX-License-Identifier: Apache-2.0
"""Stage 3: the lumen, found from seeds by a named method, and the evidence that it has not leaked.

Whatever the method (:mod:`pipeline.segmentation.methods`), the lumen is one six-connected component, so that neither
noise nor a thin wall is crossed over a diagonal, ends at the cut planes, and has no cavities. A result that cannot be
trusted is refused: no contrast at the seed, a volume that jumps between neighbouring thresholds, a mask that covers
much of a face of the region and is no vessel there, that opens into chambers.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.base import parse
from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation import chosen_method
from pipeline.segmentation.asked_lumen import Asked
from pipeline.segmentation.contrast import check_contrast
from pipeline.segmentation.dark_blood import read_inverted, record_of_inverted
from pipeline.segmentation.judged import Judged
from pipeline.segmentation.leak import (
    LeakError,
    border_contact,
    check_border,
    check_growth,
    check_width,
    growth,
)
from pipeline.segmentation.leak_advice import clear_of_leak, keeping_whole
from pipeline.segmentation.left_vessel import LeftVesselError, left_vessel, remedies
from pipeline.segmentation.levels import Levels, levels
from pipeline.segmentation.lumen_record import against_plain_growing
from pipeline.segmentation.mask_picture import draw, draw_departure
from pipeline.segmentation.mask_whole import given_back_layers, without_cavities
from pipeline.segmentation.methods import find_lumen
from pipeline.segmentation.page import render
from pipeline.segmentation.problem import NoVesselError, Problem, made_even
from pipeline.segmentation.refusals import (
    SeedsApartError,
    advising,
    border_remedy,
    check_background,
    check_intensity,
    check_seeds,
    other_series,
    without_metal,
)
from pipeline.segmentation.region_growing import centre_line, centres, occupancy
from pipeline.segmentation.seed_advice import LEFT_OUT, apart, of_the_vessel, seed_in, with_tried_seeds
from pipeline.segmentation.seeds import WITHOUT_SEEDS, Seed, place_seeds, seed_places
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job


@dataclass(frozen=True)
class Segmentation:
    """The lumen and how it was found.

    Attributes
    ----------
    filtered : the volume in which it was found.
    lumen : voxels (Z, Y, X) uint8, 0 or 1, on its grid; one six-connected component.
    occupancy : voxels (Z, Y, X) float32, the part of each voxel that the lumen fills; rounds to `lumen`.
    seeds : as used.
    levels : intensity inside and around.
    record : what ``segmentation.json`` holds.
    """

    filtered: Volume
    lumen: Volume
    occupancy: Volume
    seeds: tuple[Seed, ...]
    levels: Levels
    record: dict[str, Any]


def segment(
    filtered: Volume,
    settings: SegmentSettings,
    loaded: Volume,
    modality: str | None = None,
    log: logging.Logger | None = None,
) -> Segmentation:
    """Find the lumen.

    Parameters
    ----------
    filtered : isotropic volume, voxels (Z, Y, X) float32.
    settings : method, seeds (LPS mm, voxels of `loaded`, markups), thresholds, cut planes, limits of the leak guard.
    loaded : the volume before the filter; its voxels tell what lies beyond the region.
    modality : ``CT``: intensities are HU, which tell contrast-filled blood from other tissue; None: unknown.
    log : where progress goes.

    Raises
    ------
    StageError
        If a seed lies outside or is not between the thresholds, two seeds are not connected, or the result fails the
        leak guard (:mod:`pipeline.segmentation.leak`, :mod:`pipeline.segmentation.left_vessel`).
    """
    log = log or logging.getLogger("segment")
    asked = Asked(filtered, settings, loaded, modality, log)
    one = asked.at_one_level

    def tried(other: SegmentSettings, part: Volume = filtered) -> Judged | None:
        return _tried(replace(one, filtered=part, settings=other))

    def passes(other: SegmentSettings) -> bool:
        return tried(other) is not None

    try:
        return _with_tried_seeds(_chosen(_with_record(_judged(one)), asked), asked)
    except LeftVesselError as error:
        log.info("%s: looking for what parts it from the vessel", error)
        raise _left_vessel(error, one.posed[0], passes) from None
    except StageError as error:
        log.info("%s: looking whether brightness changes along the vessel", error)
        if along := _along(one, error):
            if asked.chooses:
                reasons = chosen_method.record_of_choice(along.record, None)
                return _with_tried_seeds(_with(along, reasons, log), asked)
            words = chosen_method.changes_along(along.record)
            kind = NoVesselError if isinstance(error, NoVesselError) else StageError
            raise kind(f"{words}: {error}") from None
        _refuse_brightness(error, one, passes)
        if isinstance(error, SeedsApartError):
            log.info("%s: looking for what joins them", error)
            raise apart(error, one.posed[0], asked.settings, partial(_record, asked)) from None
        if not isinstance(error, LeakError):
            raise
        log.info("%s: looking for a threshold or a region that is clear of it", error)
        clear = clear_of_leak(error, one.posed[0], loaded, tried)
        raise LeakError(error.words, clear, None, seeds=_seed_in_leak(error, asked)) from None


def _chosen(found: Segmentation, asked: Asked) -> Segmentation:
    """What is taken where the lumen at one level is this one."""
    if not asked.chooses:
        return found
    one = asked.at_one_level

    def recorded(other: SegmentSettings) -> Segmentation:
        return _with_record(_judged(replace(one, settings=other)))

    def leads_on(other: SegmentSettings, error: StageError) -> bool:
        return _leads_on(replace(one, settings=other), error)

    return _with(*chosen_method.chosen(found, one.settings, recorded, asked.modality, leads_on), asked.log)


def _leads_on(asked: Asked, error: StageError) -> bool:
    """Whether a refusal gives a way that was tried and ends no vessel: of one seed another one, or a smaller region."""
    if len(asked.posed[0].seeds) > 1:
        return False
    if not isinstance(error, LeakError):
        return True

    def tried(other: SegmentSettings, part: Volume) -> Judged | None:
        return _tried(replace(asked, filtered=part, settings=other))

    # regions are small, and so tried first
    return bool(keeping_whole(error, asked.posed[0], asked.loaded, tried)[0] or _seed_in_leak(error, asked))


def _along(one: Asked, error: StageError) -> Segmentation | None:
    """The lumen by the levels near each place alone, where contrast changes along it, which no one level follows."""
    alone = chosen_method.by_place(one.settings, alone=True)
    judged = _tried(replace(one, settings=alone)) if alone != one.settings else None
    if not judged or not chosen_method.changes_along(judged.found.record):
        return None
    found = _with_record(judged)
    return None if isinstance(error, LeakError) and chosen_method.holds_leak(found.record) else found


def _record(asked: Asked, other: SegmentSettings) -> dict[str, Any] | None:
    """The record of the lumen that other settings make in the end; None where they are refused."""
    again = replace(asked, settings=other)
    try:
        return _chosen(_with_record(_judged(again.at_one_level)), again).record
    except StageError as error:
        along = _along(again.at_one_level, error) if again.chooses else None
        return along.record if along else None


def _seed_in(point_mm: NDArray[np.floating], asked: Asked) -> str:
    """One more seed, tried; empty where it is refused."""
    return seed_in(point_mm, asked.at_one_level.posed[0], asked.settings, asked.loaded, partial(_record, asked))


def _seed_in_leak(error: LeakError, asked: Asked) -> str:
    """A seed in what leaked, tried; empty where it is refused, or takes in what may be another vessel or organ."""
    problem, records = asked.at_one_level.posed[0], of_the_vessel(partial(_record, asked))
    if error.joins is None or not error.holds_blood(problem.filtered.voxels):
        return ""
    return seed_in(problem.filtered.to_mm(error.joins), problem, asked.settings, asked.loaded, records)


def _with_tried_seeds(found: Segmentation, asked: Asked) -> Segmentation:
    """A lumen whose checks of what is left out, where they fail, give a seed that was tried."""
    for part in (found.record[key] for key in LEFT_OUT if found.record[key]):
        asked.log.info("%s: looking for a seed in it", part["words"])
    return replace(found, record=with_tried_seeds(found.record, lambda point_mm: _seed_in(np.array(point_mm), asked)))


def _with(found: Segmentation, reasons: dict[str, Any], log: logging.Logger) -> Segmentation:
    """A lumen with why it was taken in its record."""
    for said in (reasons[key] for key in ("upper_chosen", "method_chosen") if key in reasons):
        log.info("segment.method: auto takes %s", said)
    return replace(found, record=found.record | reasons)


def _left_vessel(error: LeftVesselError, problem: Problem, passes: Callable[[SegmentSettings], bool]) -> StageError:
    """The refusal of a mask that has left its vessel: what parts it from there, tried, and a picture of the place."""
    refusal = StageError(f"{error}; {remedies(error, problem, passes)}")
    refusal.picture = partial(_pictured, error, problem)
    return refusal


def _refuse_brightness(error: StageError, asked: Asked, passes: Callable[[SegmentSettings], bool]) -> None:
    """Refuse in other words what metal in the mask, or dark blood, explains, with the setting that was tried."""
    if words := without_metal(lambda: asked.posed[0], passes):
        raise StageError(f"{words}: {error}") from None
    if words := _dark_blood(asked):
        raise NoVesselError(words) from None


def _dark_blood(asked: Asked) -> str:
    """That blood is dark at the seeds, with the setting that reads it; empty where it is not."""
    filtered, settings, loaded = asked.filtered, asked.settings, asked.loaded
    if not settings.seeded:
        return ""
    seeds = place_seeds(seed_places(settings, loaded), filtered, loaded)
    problem = Problem(filtered, seeds, (), None, settings, settings.lower or 0.0, -np.inf, asked.log)

    def tries(other: Volume, by_itself: SegmentSettings, whole: Volume) -> bool:
        return _tried(replace(asked, filtered=other, settings=by_itself, loaded=whole)) is not None

    return read_inverted(problem, loaded, asked.modality, tries)


def _pictured(error: LeftVesselError, problem: Problem) -> bytes:
    """The mask in the image, and where it has left the vessel."""
    found, filtered = error.lumen, problem.filtered
    intensity = levels(filtered.voxels, found.mask, problem.places, found.wall, problem.dark)
    z, y, x = error.departure.place
    mask = filtered.with_voxels(found.mask.astype(np.uint8))
    return draw_departure(filtered, mask, (x, y, z), problem.places[0], intensity)


def _tried(asked: Asked) -> Judged | None:
    """The lumen; none where it is refused."""
    try:
        return _judged(asked)
    except StageError:
        return None


def _judged(asked: Asked) -> Judged:
    """The lumen, or a refusal that may lack advice which takes time to find."""
    settings, loaded, modality = asked.settings, asked.loaded, asked.modality
    problem, facts = asked.posed
    filtered = problem.filtered  # with what joins gaps
    for seed in problem.seeds:
        check_intensity(seed, problem, loaded)
    found = find_lumen(problem, settings.method)
    check_seeds(problem, found)
    contact = border_contact(found.mask, filtered.direction)
    judged, seen = made_even(found, problem)
    voxels = seen.filtered.voxels
    with advising(lambda: border_remedy(problem, found.mask, contact)):
        check_border(judged, seen.filtered, problem.places, settings)
    intensity = levels(voxels, found.mask, problem.places, judged.wall, problem.dark)
    search = f"or let the largest vessel be looked for: {WITHOUT_SEEDS}"
    with advising("" if facts["seeds_are_automatic"] else search):
        check_contrast(intensity, judged, modality, voxels)
    mask, holes = without_cavities(found.mask, problem)
    mask, given_back = given_back_layers(mask, found, problem)
    check_background(problem, found, mask)
    filled = found.occupancy
    if filled is None or given_back.any():
        by_brightness = occupancy(voxels, mask, judged.wall, intensity.contrast)
        filled = by_brightness if filled is None else np.where(given_back, by_brightness, filled)
    line, radii = centre_line(mask)
    table = growth(judged, voxels, centres(line, radii, filled), intensity, settings)
    check_growth(table, judged, intensity, settings)
    check_width(table, judged, filtered.spacing_mm[0])
    doubts = left_vessel(judged, seen)
    found = against_plain_growing(problem, found, intensity)
    if found.even is not None:  # what is told of a lumen is of the image
        intensity = levels(filtered.voxels, found.mask, problem.places, found.wall, problem.dark)
    back = int(given_back.sum())
    of_mask = mask, filled, holes, back, contact, table, intensity, radii, doubts
    return Judged(problem, loaded, modality, facts, found, *of_mask)


def _with_record(judged: Judged) -> Segmentation:
    filtered, problem = judged.problem.filtered, judged.problem
    lumen, filled = filtered.with_voxels(judged.mask.astype(np.uint8)), filtered.with_voxels(judged.filled)
    return Segmentation(filtered, lumen, filled, problem.seeds, judged.intensity, judged.record())


def _compute(job: Job) -> None:
    settings = parse(SegmentSettings, job.settings, "--settings")
    filtered, loaded = Volume.read(job.inputs["filtered"]), Volume.read(job.inputs["volume"])
    facts = json.loads(job.inputs["series"].read_text(encoding="utf-8"))
    modality = facts["modality"]
    try:
        result = segment(filtered, settings, loaded, modality, job.log)
    except NoVesselError as error:
        raise StageError(f"{error}{other_series(facts)}") from None
    record = result.record
    if facts.get("inverted"):  # files of an earlier version do not say
        record["dark_blood"] = dark = record_of_inverted()
        record["warnings"].append(dark["words"])
    job.log.info(
        "lumen: %d voxels, %.4g ml, mean radius %.3g mm; %d cavities filled; contrast %.4g, %.1f times the noise;"
        " volume %+.2g %%, radius %+.2g %% for 1 %% of contrast less; a tube as wide and as blurred has its true volume"
        " at lower = %.4g",
        record["voxels"],
        record["volume_ml"],
        record["mean_radius_mm"],
        record["holes_filled"],
        record["contrast"],
        record["contrast_to_noise"],
        100 * record["volume_change_per_percent_of_contrast"],
        100 * record["radius_change_per_percent_of_contrast"],
        record["lower_without_blur_bias"],
    )
    for warning in record["warnings"]:
        job.log.warning("warning: %s", warning)
    result.lumen.write(job.outputs["lumen"])
    result.occupancy.write(job.outputs["occupancy"])
    job.outputs["segmentation"].write_text(json.dumps(record, indent=2) + "\n")
    picture = job.outputs["picture"]
    draw(filtered, result.lumen, record["volume_ml"], result.seeds[0].index, result.levels, picture)
    page = render(filtered, {"loaded image": loaded, "filtered image": filtered}, result.lumen, record, modality)
    job.outputs["page"].write_text(page, encoding="utf-8")


if __name__ == "__main__":
    run_stage(
        "segment",
        __doc__,
        {
            "filtered": "filtered.nrrd of the filter stage",
            "volume": "volume.nrrd of the load stage: seeds_voxel count its voxels",
            "series": "series.json of the load stage: its modality tells what intensities mean",
        },
        {
            "lumen": "lumen.nrrd, uint8 0/1, on the grid of --filtered",
            "occupancy": "occupancy.nrrd, float32, part of each voxel that the lumen fills: a mask without steps",
            "segmentation": "segmentation.json: thresholds, seeds, volume, evidence against a leak",
            "picture": "segmentation.png",
            "page": "segmentation.html, to check the mask slice by slice and to pick other seeds",
        },
        _compute,
    )
