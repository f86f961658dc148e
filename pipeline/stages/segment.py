"""Stage 3: the lumen, found from seeds by a named method, and the evidence that it has not leaked.

Whatever the method (:mod:`pipeline.segmentation.methods`), the lumen is one six-connected component, so that neither
noise nor a thin wall is crossed over a diagonal, ends at the cut planes, and has no cavities. A result that cannot be
trusted is refused: no contrast at the seed, a volume that jumps between neighbouring thresholds, a mask that covers
much of a face of the region and is no vessel there, that opens into chambers.
"""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.case.settings.base import parse
from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.automatic import BONE_HU, find_lower, find_seed, seed_level
from pipeline.segmentation.barrier import barrier, faults
from pipeline.segmentation.blur import unbiased_lower, wall_slope
from pipeline.segmentation.leak import (
    CONTRAST_HU,
    Row,
    border_contact,
    check_border,
    check_contrast,
    check_growth,
    growth,
    plain_growing,
    sensitivity,
)
from pipeline.segmentation.left_vessel import Doubt, LeftVesselError, left_vessel, remedies
from pipeline.segmentation.levels import Levels, dark_limit, levels
from pipeline.segmentation.methods import find_lumen
from pipeline.segmentation.page import render
from pipeline.segmentation.picture import draw
from pipeline.segmentation.problem import Lumen, Problem
from pipeline.segmentation.region_growing import (
    Index,
    Mask,
    centre_line,
    centres,
    fill_holes,
    occupancy,
)
from pipeline.segmentation.seeds import (
    WITHOUT_SEEDS,
    Seed,
    background_places,
    moved,
    place_seeds,
    seed_places,
    text_mm,
    with_points,
)
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job

MINIMUM_VOXELS = 100
"""A smaller mask is noise: a vessel 4 voxels across and twice as long has as many."""

THIN_VOXELS = 4
"""Diameter, in voxels, below which a vessel's size is uncertain."""

VOLUME_ERROR = 0.1
"""Relative error of the volume, foretold from the threshold, that is worth a warning."""

LOST = 0.25
"""Part of what grows between the thresholds alone that another method may leave out before it is worth a warning: the
wall of the two differs by less, a branch makes more."""

THIN_FRACTION = 0.1
"""Part of the centre line that may be thinner before it is worth a warning: ends always look thin."""

BRIGHTER = 1.5
"""The lumen's contrast over that of its seeds from which it is worth a warning: bone, calcium or metal in the mask."""

WIDEST = 0.5
"""Part of a face that a vessel may fill where the region is cut close; that a mask fills more is not to be accepted."""

NEAREST_MM = 10.0
"""How far from a seed a better one is looked for."""


@dataclass(frozen=True)
class Segmentation:
    """The lumen and how it was found.

    Attributes
    ----------
    lumen : voxels (Z, Y, X) uint8, 0 or 1, on the grid of the filtered volume; one six-connected component.
    occupancy : voxels (Z, Y, X) float32, the part of each voxel that the lumen fills; rounds to `lumen`.
    seeds : as used.
    levels : intensity inside and around.
    record : what ``segmentation.json`` holds.
    """

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
    loaded : the volume before the filter; only its geometry is used.
    modality : ``CT``: intensities are HU, which tell contrast-filled blood from other tissue; None: unknown.
    log : where progress goes.

    Raises
    ------
    StageError
        If a seed lies outside or is not between the thresholds, two seeds are not connected, or the result fails the
        leak guard (:mod:`pipeline.segmentation.leak`, :mod:`pipeline.segmentation.left_vessel`).
    """
    log = log or logging.getLogger("segment")
    try:
        return _found(filtered, settings, loaded, modality, log)
    except LeftVesselError as error:
        log.info("%s: looking for what parts it from the vessel", error)
        problem, _ = _pose(filtered, settings, loaded, modality, log)

        def passes(tried: SegmentSettings) -> bool:
            try:
                _found(filtered, tried, loaded, modality, log)
            except StageError:
                return False
            return True

        raise StageError(f"{error}; {remedies(error, problem, passes)}") from None


def _found(
    filtered: Volume, settings: SegmentSettings, loaded: Volume, modality: str | None, log: logging.Logger
) -> Segmentation:
    """The lumen, or a refusal that may lack advice which takes time to find."""
    problem, facts = _pose(filtered, settings, loaded, modality, log)
    for seed in problem.seeds:
        _check_intensity(seed, problem, loaded)
    found = find_lumen(problem, settings.method)
    _check_seeds(problem, found)
    contact = border_contact(found.mask, filtered.direction)
    with advising(lambda: _border_remedy(problem, contact)):
        check_border(found, filtered, problem.places, settings)
    intensity = levels(filtered.voxels, found.mask, problem.places, found.wall, problem.dark)
    search = f"or let the largest vessel be looked for: {WITHOUT_SEEDS}"
    with advising("" if facts["seeds_are_automatic"] else search):
        check_contrast(intensity, found, modality)
    mask, holes = _without_cavities(found.mask, problem)
    _check_background(problem, found, mask)
    filled = found.occupancy
    if filled is None:
        filled = occupancy(filtered.voxels, mask, found.wall, intensity.contrast)
    line, radii = centre_line(mask)
    table = growth(found, filtered.voxels, centres(line, radii, filled), intensity, settings)
    check_growth(table, found, intensity, settings)
    doubts = left_vessel(found, problem)
    found = _against_plain_growing(problem, found, intensity)
    record = found.record | _record(problem, found, mask, holes, table, intensity, radii, loaded)
    record["doubts"] = [doubt.record for doubt in doubts]
    record["warnings"] += _may_have_left(doubts)
    record |= facts | {"border_contact": {face: round(fraction, 5) for face, fraction in contact.items()}}
    return Segmentation(
        filtered.with_voxels(mask.astype(np.uint8)), filtered.with_voxels(filled), problem.seeds, intensity, record
    )


@contextmanager
def advising(remedy: str | Callable[[], str]) -> Iterator[None]:
    """Say behind a refusal what can be set, with its value; nothing where nothing can. What takes time to find is
    looked for only then.
    """
    try:
        yield
    except StageError as error:
        words = remedy if isinstance(remedy, str) else remedy()
        raise StageError(f"{error}; {words}" if words else str(error)) from None


def _pose(
    filtered: Volume, settings: SegmentSettings, loaded: Volume, modality: str | None, log: logging.Logger
) -> tuple[Problem, dict[str, Any]]:
    """Seeds, cut planes and threshold on the grid of the filtered volume, and what was found instead of given."""
    seeds = place_seeds(seed_places(settings, loaded), filtered, loaded)
    background = place_seeds(background_places(settings, loaded), filtered, loaded)
    cut = barrier(settings.cut_planes, filtered)
    dark = dark_limit(filtered.voxels, modality)
    problem = Problem(filtered, seeds, background, cut, settings, settings.lower or 0.0, dark, log)
    summary: dict[str, Any] = {"seeds_are_automatic": not seeds, "lower_is_automatic": settings.lower is None}
    if not seeds:
        seed, summary["seeds_found_as"] = find_seed(problem, modality)
        problem = replace(problem, seeds=(seed,))
    _check_filled(problem, modality)
    if cut is not None and (blocked := [seed.name for seed in seeds if cut[seed.index[::-1]]]):
        raise StageError(f"{blocked[0]} lies on a cut plane (segment.cut_planes): move one of the two")
    if settings.lower is None:
        found = find_lower(problem)
        summary["lower_found_as"] = found.how
        log.info("segment.lower: none is given; %.4g, %s", found.lower, found.how)
        problem = replace(problem, lower=found.lower)
    return problem, summary


def _check_filled(problem: Problem, modality: str | None) -> None:
    """Refuse seeds in CT that are as dark as blood without contrast agent, whatever the threshold.

    Pulmonary vessels stand out from air without contrast agent, and a threshold may part the heart from fat; neither is
    what blood flow can be computed in.
    """
    if modality != "CT":
        return
    for seed in problem.seeds:
        level = seed_level(problem, [seed.index])
        if level < CONTRAST_HU:
            raise StageError(
                f"no contrast-filled vessel at the seed: {seed.name}: around {text_mm(seed.point_mm)} mm the median is"
                f" {level:.0f} HU; blood without contrast agent has 30 to 70 HU, with it at least {CONTRAST_HU:g} HU"
                f" are needed: {_bright_remedy(seed, problem)}, or choose a series with contrast agent"
            )


def _bright_remedy(seed: Seed, problem: Problem) -> str:
    """The nearest place that may be contrast-filled blood, or the search for a vessel, with the setting."""
    nearest = _nearest_in_range(seed.index, problem.filtered, max(CONTRAST_HU, problem.lower), BONE_HU)
    if nearest is None:
        return f"let the largest vessel be looked for: {WITHOUT_SEEDS}"
    to = moved(problem.seeds, seed, problem.filtered.to_mm(nearest), problem.settings)
    return f"move the seed into the vessel (the nearest place that is as bright, unless it is bone: {to})"


def _against_plain_growing(problem: Problem, found: Lumen, intensity: Levels) -> Lumen:
    """The lumen of a method other than `threshold` with what it leaves out, or what cannot be checked, as a warning."""
    settings, filtered = problem.settings, problem.filtered
    if settings.method == "threshold":
        return found
    plain = plain_growing(found, find_lumen(problem), filtered.voxels, intensity, settings)
    if plain is None:
        doubt = (
            "what grows between the thresholds alone leaks at every threshold from segment.lower on, so that no volume"
            " tells whether this method has kept out of the leak: check the mask slice by slice"
        )
        return replace(found, warnings=(*found.warnings, doubt))
    size, voxel_ml = int(found.mask.sum()), float(np.prod(filtered.spacing_mm)) / 1000
    summary = {"lower": round(plain.lower, 4), "volume_ml": round(plain.voxels * voxel_ml, 5), "leaks": plain.leaks}
    found = replace(found, record=found.record | {"plain_growing": summary})
    if size >= (1 - LOST) * plain.voxels:
        return found
    lost = (
        f"the lumen has {size * voxel_ml:.3g} ml, what grows between the thresholds alone at {plain.lower:.4g} has"
        f" {plain.voxels * voxel_ml:.3g} ml: this method leaves out thin or dim branches, or the threshold leaks into"
        " what is as bright: check the mask, and give a seed in each branch that is missing"
    )
    return replace(found, warnings=(*found.warnings, lost))


def _without_cavities(mask: Mask, problem: Problem) -> tuple[Mask, int]:
    """The mask with its cavities filled, and their number; a cut plane is no cavity."""
    if not problem.settings.fill_holes:
        return mask, 0
    filled, holes = fill_holes(mask)
    return (filled if problem.barrier is None else filled & ~(problem.barrier & ~mask)), holes


def _record(
    problem: Problem,
    found: Lumen,
    mask: Mask,
    holes: int,
    table: list[Row],
    intensity: Levels,
    radii: NDArray[np.floating],
    loaded: Volume,
) -> dict[str, Any]:
    """The record of a lumen beside that of its method."""
    filtered, settings = problem.filtered, problem.settings
    voxel_ml, spacing_mm = float(np.prod(filtered.spacing_mm)) / 1000, filtered.spacing_mm[0]
    growth_per_percent = sensitivity(table, "voxels", intensity)
    radius_per_percent = sensitivity(table, "mean_radius", intensity)
    slope = wall_slope(filtered.voxels, spacing_mm, mask, intensity)
    unbiased = unbiased_lower(intensity, slope, 100 * growth_per_percent / intensity.contrast, spacing_mm)
    return {
        "seeds": [_seed_record(seed, filtered, loaded) for seed in problem.seeds],
        "background": [_seed_record(seed, filtered, loaded) for seed in problem.background],
        "voxels": int(mask.sum()),
        "volume_ml": round(int(mask.sum()) * voxel_ml, 5),
        "mean_radius_mm": round(table[1].mean_radius * spacing_mm, 4),
        "spacing_mm": spacing_mm,
        "holes_filled": holes,
        "voxels_filled": int(mask.sum()) - int(found.mask.sum()),
        "lumen_level": round(intensity.lumen, 4),
        "mask_median": round(intensity.mask, 4),
        "surroundings_level": round(intensity.surroundings, 4),
        "contrast": round(intensity.contrast, 4),
        "noise": round(intensity.noise, 4),
        "spread": round(intensity.spread, 4),
        "contrast_to_noise": round(intensity.contrast_to_noise, 2),
        "controlled_by": found.control,
        "volume_by_threshold": [
            {
                "lower": round(row.level, 4),
                "voxels": row.voxels,
                "volume_ml": round(row.voxels * voxel_ml, 5),
                "mean_radius_mm": round(row.mean_radius * spacing_mm, 4),
            }
            for row in table
        ],
        "volume_change_per_percent_of_contrast": round(growth_per_percent, 5),
        "radius_change_per_percent_of_contrast": round(radius_per_percent, 5),
        "wall_slope_per_mm": round(slope, 4),
        "lower_without_blur_bias": round(unbiased, 4),
        "thin_fraction_of_centre_line": round(float(np.mean(2 * radii < THIN_VOXELS)), 4),
        "warnings": [
            *found.warnings,
            *_brighter(problem, intensity),
            *_thin(radii, filtered),
            *_off_the_edge(found, unbiased, intensity, growth_per_percent),
            *faults(settings.cut_planes, filtered, mask),
        ],
    }


def _brighter(problem: Problem, intensity: Levels) -> list[str]:
    """A warning of a mask that is far brighter than the seeds: no threshold from below parts bone from blood."""
    around = [tuple(slice(max(n - 1, 0), n + 2) for n in place[::-1]) for place in problem.places]
    level = max(float(problem.filtered.voxels[near].max()) for near in around)
    if intensity.contrast <= BRIGHTER * (level - intensity.surroundings):
        return []
    return [
        f"most of the lumen is as bright as {intensity.lumen:.4g}, the seeds at most {level:.4g}: the mask may hold"
        " bone, calcium or another brighter structure: check it, set segment.upper or segment.cut_planes"
    ]


def _may_have_left(doubts: list[Doubt]) -> list[str]:
    return [f"the mask may have left the vessel {doubt.words}: look at segmentation.html there" for doubt in doubts]


def _thin(radii: NDArray[np.floating], filtered: Volume) -> list[str]:
    thin = float(np.mean(2 * radii < THIN_VOXELS))
    if thin <= THIN_FRACTION:
        return []
    return [
        f"{thin:.0%} of the centre line is thinner than {THIN_VOXELS} voxels"
        f" ({THIN_VOXELS * filtered.spacing_mm[0]:.2g} mm): diameters and wall shear stress there are uncertain;"
        " a finer filter.spacing_mm smooths the surface but"
        " adds no detail"
    ]


def _off_the_edge(found: Lumen, unbiased: float, intensity: Levels, growth_per_percent: float) -> list[str]:
    """A warning of a threshold that is far from the edge of the vessel in the image."""
    error = 100 * growth_per_percent * (unbiased - found.wall) / intensity.contrast
    if found.edge_based or abs(error) <= VOLUME_ERROR:
        return []
    return [
        f"the wall stands at {found.wall:.4g}, {(found.wall - intensity.surroundings) / intensity.contrast:.0%} of the"
        f" contrast; at {unbiased:.4g}, the vessel's edge, the volume would differ by about {-error:+.0%}"
    ]


def _seed_record(seed: Seed, filtered: Volume, loaded: Volume) -> dict[str, Any]:
    return {
        "setting": seed.name,
        "mm": [round(x, 3) for x in seed.point_mm],
        "loaded_voxel": np.rint(loaded.to_index(seed.point_mm)).astype(int).tolist(),
        "filtered_voxel": list(seed.index),
        "intensity": round(float(filtered.voxels[seed.index[::-1]]), 3),
    }


def _check_intensity(seed: Seed, problem: Problem, loaded: Volume) -> None:
    """Refuse a seed that is not between the thresholds, and say where the nearest voxel that is lies."""
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
    raise StageError(
        f"{seed.name}: at {text_mm(seed.point_mm)} mm the filtered intensity is {intensity:.1f}, it must be {limits};"
        f" {remedy}"
    )


def _check_seeds(problem: Problem, found: Lumen) -> None:
    """Refuse a speckle, and seeds that are not connected."""
    if (count := int(found.mask.sum())) < MINIMUM_VOXELS:
        raise StageError(
            f"{found}: only {count} voxels at the seed are in range, a vessel has at least"
            f" {MINIMUM_VOXELS}: lower the threshold, or move the seed from a speckle of noise into the vessel"
            + _vessel_near(problem)
        )
    reached = [seed.point_mm for seed in problem.seeds if found.mask[seed.index[::-1]]]
    for seed in problem.seeds[1:]:
        if not found.mask[seed.index[::-1]]:
            raise StageError(
                f"{seed.name}: at {found} no path of voxels in range leads to it from"
                f" {problem.seeds[0].name}, whose component has {count} voxels, and the lumen must be one component:"
                " lower the threshold, smooth more (filter), or leave one of the seeds out:"
                f" {with_points(reached, problem.settings)}"
            )


def _check_background(problem: Problem, found: Lumen, mask: Mask) -> None:
    """Refuse background seeds in the lumen, or in what would be a cavity of it."""
    for seed in problem.background:
        if mask[seed.index[::-1]]:
            raise StageError(
                f"{seed.name}: at {found} the lumen holds this point, which is said to lie outside: raise the"
                " threshold, part the two with segment.cut_planes, or take a method that starts from background seeds:"
                " segment.method: random-walker, or watershed"
            )


def _border_remedy(problem: Problem, contact: dict[str, float]) -> str:
    """A threshold that was tried and passes; or to accept it, where a vessel may be as wide."""
    summary = []
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


def _vessel_near(problem: Problem) -> str:
    """The nearest place in what is large enough, with the setting; empty without any."""
    if len(problem.seeds) != 1:
        return ""
    (seed,) = problem.seeds
    nearest = _nearest_in_range(seed.index, problem.filtered, problem.lower, problem.upper)
    if nearest is None:
        return ""
    return f", the nearest by {moved(problem.seeds, seed, problem.filtered.to_mm(nearest), problem.settings)}"


def _nearest_in_range(index: Index, volume: Volume, lower: float, upper: float) -> Index | None:
    """Index x, y, z of the nearest voxel between the thresholds, within `NEAREST_MM`, of a part that is no speckle."""
    reach = np.ceil(NEAREST_MM / np.array(volume.spacing_mm)).astype(int)
    start, stop = np.maximum(np.array(index) - reach, 0), np.array(index) + reach + 1
    part = volume.voxels[start[2] : stop[2], start[1] : stop[1], start[0] : stop[0]]
    label, count = ndimage.label((part >= lower) & (part <= upper))
    large = np.bincount(label.ravel(), minlength=count + 1) >= MINIMUM_VOXELS
    large[0] = False
    candidates = np.argwhere(large[label])[:, ::-1] + start
    distance_mm = np.linalg.norm((candidates - index) * volume.spacing_mm, axis=1)
    if not distance_mm.size or distance_mm.min() > NEAREST_MM:
        return None
    x, y, z = candidates[np.argmin(distance_mm)].tolist()
    return x, y, z


def _compute(job: Job) -> None:
    settings = parse(SegmentSettings, job.settings, "--settings")
    filtered, loaded = Volume.read(job.inputs["filtered"]), Volume.read(job.inputs["volume"])
    modality = json.loads(job.inputs["series"].read_text(encoding="utf-8"))["modality"]
    result = segment(filtered, settings, loaded, modality, job.log)
    record = result.record
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
    draw(filtered, result.lumen, result.seeds[0].index, result.levels, job.outputs["picture"])
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
