# SPDX-License-Identifier: Apache-2.0
"""What ``segmentation.json`` holds of a lumen, and what in it is worth a warning."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.files.volume import Volume
from pipeline.segmentation.barrier import faults
from pipeline.segmentation.blur import blur, unbiased_lower, wall_slope
from pipeline.segmentation.blur_left_open import record_of_open_volume
from pipeline.segmentation.dark_sheet import dark_sheet, record_of_sheet
from pipeline.segmentation.dim_junction import junctions, record_of_junctions
from pipeline.segmentation.gap import gaps, record_of_gaps
from pipeline.segmentation.leak import Row, plain_growing, sensitivity
from pipeline.segmentation.left_vessel import Doubt
from pipeline.segmentation.levels import Levels
from pipeline.segmentation.limits import (
    BRIGHT_RIM,
    DARK_RIM,
    ELSEWHERE,
    LEFT_OPEN,
    OFF_THE_EDGE,
    TOUCHED,
    UNDECIDED,
    WRONG,
)
from pipeline.segmentation.local_edge import local_edge, record_of_bright_wall, record_of_edge
from pipeline.segmentation.methods import find_lumen
from pipeline.segmentation.other_brightness import other_brightness, record_of_other
from pipeline.segmentation.parted import record_of_parted
from pipeline.segmentation.pieces_beyond import searched
from pipeline.segmentation.point_text import BY_HAND
from pipeline.segmentation.problem import Lumen, Problem, reaches
from pipeline.segmentation.region_growing import Mask
from pipeline.segmentation.saturation import record_of_cut_off
from pipeline.segmentation.seam_planes import record_of_touches
from pipeline.segmentation.seeds import Seed
from pipeline.segmentation.undecided import record_of_undecided
from pipeline.segmentation.unlike_bodies import unlike_bodies
from pipeline.segmentation.wall_layer import wall_layer, with_layer
from pipeline.segmentation.wall_profile import record_of_dark_rim, record_of_dark_within, record_of_rim, wall_profile

THIN_VOXELS = 4
"""Diameter, in voxels, below which a vessel's size is uncertain."""

LOST = 0.25
"""Part of what grows between the thresholds alone that another method may leave out before it is worth a warning: the
wall of the two differs by less, a branch makes more."""

THIN_FRACTION = 0.1
"""Part of the centre line that may be thinner before it is worth a warning: ends always look thin."""

BETWEEN_MARKERS, WITHIN_VOXELS = ("random-walker", "watershed"), 0.2
"""Methods whose wall blur moves inwards, and by how much: in synthetic arteries by 0.08 to 0.35 voxels
(docs/validation/segmentation.md), beside veins and organs by 0.13 to 0.29 (docs/validation/first-try.md)."""

BRIGHTER = 1.5
"""The lumen's contrast over that of its seeds from which it is worth a warning: bone, calcium or metal in the mask."""


def against_plain_growing(problem: Problem, found: Lumen, intensity: Levels) -> Lumen:
    """The lumen of a method other than `threshold` with what it leaves out, or what cannot be checked, as a warning.

    Parameters
    ----------
    problem : what was to be found.
    found : the lumen of the method.
    intensity : levels in and around it.
    """
    settings, filtered = problem.settings, problem.filtered
    if settings.method == "threshold" or found.even is not None:  # its own levels tell of a leak
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


# long because each figure of the record is a line of it
def record_of(
    problem: Problem,
    found: Lumen,
    mask: Mask,
    holes: int,
    table: list[Row],
    intensity: Levels,
    radii: NDArray[np.floating],
    loaded: Volume,
) -> dict[str, Any]:
    """The record of a lumen beside that of its method.

    Parameters
    ----------
    problem : what was to be found.
    found : the lumen of the method.
    mask : [z, y, x], the lumen with its cavities filled.
    holes : number of these cavities.
    table : the lumen at neighbouring levels, from :func:`leak.growth`.
    intensity : levels in and around it.
    radii : along the centre line, in voxels.
    loaded : the volume before the filter, whose voxels seeds are told in.
    """
    filtered = problem.filtered
    voxel_ml, spacing_mm = float(np.prod(filtered.spacing_mm)) / 1000, filtered.spacing_mm[0]
    growth_per_percent = sensitivity(table, "voxels", intensity)
    slope = wall_slope(filtered.voxels, spacing_mm, mask, intensity)
    unbiased = unbiased_lower(intensity, slope, 100 * growth_per_percent / intensity.contrast, spacing_mm)
    blurred = blur(intensity, slope, spacing_mm) / spacing_mm
    wall, lost = _at_the_wall(problem, found, mask, intensity, radii, blurred), _lost_between_markers(problem, radii)
    places = _of_places(problem, found, mask, intensity, wall, blurred)
    other = _of_other(problem, mask, intensity, blurred, places["touching_lumens"])
    cut_off = record_of_cut_off(problem, mask, intensity, loaded)
    of_places = wall.get("local_edge") or {"change": 0.0}
    by_place = "layer" in of_places or abs(of_places["change"]) > WRONG  # then one level of all tells nothing else
    off = None if by_place else _off_the_edge(problem, found, unbiased, intensity, growth_per_percent)
    return {
        "seeds": [_seed_record(seed, filtered, loaded) for seed in problem.seeds],
        "background": [_seed_record(seed, filtered, loaded) for seed in problem.background],
        "voxels": int(mask.sum()),
        "mean_radius_mm": round(table[1].mean_radius * spacing_mm, 4),
        "spacing_mm": spacing_mm,
        "image_spacing_mm": list(loaded.spacing_mm),
        "holes_filled": holes,
        "voxels_filled": int(mask.sum()) - int(found.mask.sum()),
        **_levels(intensity),
        "controlled_by": found.control,
        "volume_by_threshold": [_row_record(row, voxel_ml, spacing_mm) for row in table],
        "volume_change_per_percent_of_contrast": round(growth_per_percent, 5),
        "radius_change_per_percent_of_contrast": round(sensitivity(table, "mean_radius", intensity), 5),
        "wall_slope_per_mm": round(slope, 4),
        "lower_without_blur_bias": round(unbiased, 4),
        "thin_fraction_of_centre_line": round(float(np.mean(2 * radii < THIN_VOXELS)), 4),
        "other_brightness": other,
        **wall,
        **places,
        "between_markers": lost,
        "cut_off": cut_off,
        "off_the_edge": off,
        "warnings": [
            *found.warnings,
            *(each["words"] for each in places.values() if each),
            *([lost["words"]] if lost and lost["share"] > WRONG else []),
            *([cut_off["words"]] if cut_off else []),
            *_of_brightness(problem, intensity, other, wall),
            *_thin(radii, filtered),
            *([off["words"]] if off and off["share"] > OFF_THE_EDGE else []),
            *_of_planes(problem, found, mask),
        ],
    }


def _lost_between_markers(problem: Problem, radii: NDArray[np.floating]) -> dict[str, Any] | None:
    """What a wall between markers loses of the volume, 2 d/r of a tube of radius r whose wall lies d within, with the
    words of the check; None of other methods.
    """
    method = problem.settings.method
    if method not in BETWEEN_MARKERS or not len(radii):
        return None
    radius = float(radii.mean())
    share = min(2 * WITHIN_VOXELS / radius, 1.0)
    words = (
        f"segment.method: {method} puts the wall where the image is steepest, within that of the vessel by about"
        f" {WITHIN_VOXELS:g} voxels: a vessel of {radius:.2g} voxels in radius comes out about {share:.0%} too small,"
        " drawn ones were so by 3 to 16 %. To have the wall where it is, correct lumen.nrrd (segmentation.html) and"
        " give it as input.mask, or give a finer image"
    )
    return {"share": round(share, 4), "words": words}


def _of_planes(problem: Problem, found: Lumen, mask: Mask) -> list[str]:
    planes = problem.settings.cut_planes
    return faults(planes, problem.filtered, mask, reaches(found, problem)) if planes else []


def _of_other(
    problem: Problem, mask: Mask, intensity: Levels, blurred: float, touch: dict[str, Any] | None
) -> dict[str, Any] | None:
    other = other_brightness(problem.filtered.voxels, mask, problem.places, intensity, blurred)
    return record_of_other(other, problem, intensity.surroundings, beside=bool(touch and touch["unlike"]))


def _of_places(
    problem: Problem, found: Lumen, mask: Mask, intensity: Levels, wall: dict[str, Any], blurred: float
) -> dict[str, dict[str, Any] | None]:
    """Places where the mask holds a second lumen, or lacks what is beyond an end.

    Where one threshold misses the volume, the mask's wall is none of the image's, beside which a faint sheet is seen.
    """
    edge = wall.get("local_edge") or {}
    misses = abs(edge.get("of_voxels", 0.0)) > ELSEWHERE
    sheet = dark_sheet(problem.filtered.voxels, mask, problem.places, intensity, faint=not misses)
    words, key = record_of_sheet(sheet, mask, problem), "one_sided_sheet" if sheet and sheet.one_sided else "dark_sheet"
    search, noise = searched(problem, found, mask, intensity), intensity.noise / intensity.contrast
    beyond = gaps(search)
    return {
        "touching_lumens": record_of_touches(
            mask,
            problem,
            unlike_bodies(problem, mask, intensity, blurred),
            problem.settings.leak_step * intensity.contrast,
        ),
        **{"dark_sheet": None, "one_sided_sheet": None, key: words},
        "beyond_ends": record_of_gaps(beyond, mask, problem, noise),
        "dim_junction": record_of_junctions(junctions(search, beyond, blurred, noise), mask, problem),
        "parted": record_of_parted(problem, found, mask, intensity),
    }


def _of_brightness(
    problem: Problem, intensity: Levels, other: dict[str, Any] | None, wall: dict[str, Any]
) -> list[str]:
    """Warnings of brightness: in the mask, and at its wall."""
    keys = ("local_edge", "bright_wall", "bright_rim", "dark_rim", "dark_within", "undecided", "left_open")
    edge, bright, rim, dark, within, chance, left = (wall.get(key) for key in keys)
    return [
        *_brighter(problem, intensity),
        *([other["words"]] if other else []),
        *([edge["words"]] if edge and abs(edge["change"]) > WRONG else []),
        *([more["words"]] if edge and (more := edge["beyond"]) and more["share"] > WRONG else []),
        *([bright["words"]] if bright and bright["share"] > TOUCHED else []),
        *([rim["words"]] if rim and rim["share"] > BRIGHT_RIM else []),
        *([dark["words"]] if dark and dark["share"] > DARK_RIM else []),
        *([within["words"]] if within else []),
        *([left["words"]] if left and left["share"] > LEFT_OPEN else []),
        *([chance["words"]] if chance and chance["share"] > UNDECIDED else []),
    ]


def _at_the_wall(
    problem: Problem, found: Lumen, mask: Mask, intensity: Levels, radii: NDArray[np.floating], blurred: float
) -> dict[str, Any]:
    """Where the wall would be by local levels, none of a wall at edges of the image; and what is bright at the wall."""
    if not len(radii):
        return {}
    radius = float(radii.mean())
    edge = local_edge(problem, found, mask, intensity, radii)
    misses = not found.edge_based and abs(edge.change) > ELSEWHERE  # a wall far from half way has no profile of its own
    profile = None if misses else wall_profile(edge, radius, problem, blurred)
    of_edge, layer = None if found.edge_based else record_of_edge(edge, problem), wall_layer(edge, radius)
    dark = profile and record_of_dark_rim(profile, intensity)
    return {
        "local_edge": with_layer(of_edge, edge, layer, mask, problem) if layer else of_edge,
        "bright_wall": record_of_bright_wall(edge, mask, problem, intensity),
        "bright_rim": profile and record_of_rim(profile, edge, problem, intensity),
        "dark_rim": dark,
        "dark_within": record_of_dark_within(profile) if profile and dark and dark["share"] <= DARK_RIM else None,
        "left_open": record_of_open_volume(edge, radius) if found.even is not None else None,
        "undecided": record_of_undecided(edge, found, mask, problem, intensity),
    }


def _row_record(row: Row, voxel_ml: float, spacing_mm: float) -> dict[str, float]:
    return {
        "lower": round(row.level, 4),
        "voxels": row.voxels,
        "volume_ml": round(row.voxels * voxel_ml, 5),
        "mean_radius_mm": round(row.mean_radius * spacing_mm, 4),
    }


def _levels(intensity: Levels) -> dict[str, float]:
    return {
        "lumen_level": round(intensity.lumen, 4),
        "mask_median": round(intensity.mask, 4),
        "surroundings_level": round(intensity.surroundings, 4),
        "contrast": round(intensity.contrast, 4),
        "noise": round(intensity.noise, 4),
        "spread": round(intensity.spread, 4),
        "contrast_to_noise": round(intensity.contrast_to_noise, 2),
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


def may_have_left(doubts: list[Doubt]) -> list[str]:
    """A warning of each doubtful place."""
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


def _off_the_edge(
    problem: Problem, found: Lumen, unbiased: float, intensity: Levels, growth_per_percent: float
) -> dict[str, Any] | None:
    """How far a threshold is from the edge of the vessel in the image, as a share of the volume, with the words of the
    check; None of a wall that stands at edges.
    """
    if found.edge_based:
        return None
    error = 100 * growth_per_percent * (unbiased - found.wall) / intensity.contrast
    words = (
        f"the wall stands at {found.wall:.4g}, {(found.wall - intensity.surroundings) / intensity.contrast:.0%} of the"
        f" contrast; at {unbiased:.4g}, the vessel's edge, the volume would differ by about {-error:+.0%}. "
    )
    if problem.settings.lower is not None:
        words += f"To have it there, set segment.lower: {unbiased:.4g}"
    else:
        words += (
            "A lower threshold leaks into what lies beside the vessel, as a vein or an organ with some contrast. Keep"
            f" that out by a disc (segment.cut_planes) or a closer region (filter.region_mm). {BY_HAND}"
        )
    return {"share": round(abs(error), 4), "words": words}


def _seed_record(seed: Seed, filtered: Volume, loaded: Volume) -> dict[str, Any]:
    return {
        "setting": seed.name,
        "mm": [round(x, 3) for x in seed.point_mm],
        "loaded_voxel": np.rint(loaded.to_index(seed.point_mm)).astype(int).tolist(),
        "filtered_voxel": list(seed.index),
        "intensity": round(float(filtered.voxels[seed.index[::-1]]), 3),
    }
