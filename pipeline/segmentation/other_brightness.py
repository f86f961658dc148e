# SPDX-License-Identifier: Apache-2.0
"""Two brightnesses within one mask: calcium or metal that touches the lumen, or a neighbour with less contrast.

No threshold from below parts what is brighter than blood from it, and half way to the soft tissue takes in a vein that
touches. Away from the wall, where blur does not reach, such a mask has two brightnesses that are far apart and each
even. Contrast that fades along a vessel has all brightnesses between its ends, and noise has one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.filters import threshold_otsu

from pipeline.segmentation.levels import Levels
from pipeline.segmentation.methods import watershed
from pipeline.segmentation.point_text import text_mm
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.region_growing import Index, Mask, bounding_box, fill_holes, grow
from pipeline.segmentation.seeds import Seed, with_points
from solver.runtime.errors import StageError

REACH = 2.0
"""Least distance from the wall, in voxels and in standard deviations of the blur, of the voxels that are compared."""

LEAST_VOXELS = 200
"""With fewer voxels away from the wall nothing can be said."""

APART, PART = 5.0, 0.2
"""Distance of the means of two classes, in their common standard deviation and in the contrast, from which there are
two brightnesses. Otsu's classes of a normal distribution are 2.65 deviations apart, those of a uniform one 3.46."""

CLEAR = 0.4
"""Part of the way from the darker vessel to the brighter one at which the marker of the brighter one ends; that is half
way between ``lower`` and the seeds. A threshold that is raised further makes the lumen thin."""

COST = "the vessel then comes out about 4 % too small, one of 4 voxels on the radius up to 14 %"
"""What the watershed costs, which puts the wall at the steepest edge (docs/validation/segmentation.md)."""

MOSTLY, BLOOD = 0.5, 2.5
"""Share from which what is brighter than at the seeds may be the vessel itself, and the contrast over that at the seeds
up to which: blood is rarely dimmer than a half, a coil or a plaque is brighter than 1000 HU where blood has 300."""

BY_HAND_INSTEAD = (
    "part it by discs marked on pick.html (segment.cut_planes), or correct lumen.nrrd in a program for masks, and give"
    " it as input.mask"
)
"""Where no setting leaves it out."""

HALO_VOXELS = 2
"""How far blur carries what is above ``upper`` into the tissue beside it."""


@dataclass(frozen=True)
class Other:
    """A part of the mask that has not the brightness at the seeds.

    Attributes
    ----------
    share : of the voxels away from the wall.
    level, rest : mean intensity of it, and of what lies away from the wall beside it.
    brighter : than the rest.
    place : voxel x, y, z in its middle.
    """

    share: float
    level: float
    rest: float
    brighter: bool
    place: Index


def other_brightness(
    voxels: NDArray[np.floating], mask: Mask, seeds: Sequence[Index], found: Levels, blur_voxels: float
) -> Other | None:
    """What of a mask has another brightness than the seeds; None where it has one, or seeds lie in both.

    The voxels away from the wall are parted in two classes (Otsu 1979, doi:10.1109/TSMC.1979.4310076), after those that
    are brighter than the lumen by half of its contrast are made that bright.

    Parameters
    ----------
    voxels, mask : (Z, Y, X).
    seeds : voxels x, y, z.
    found : levels in and around the mask.
    blur_voxels : standard deviation of the Gaussian that blurs the wall.
    """
    box = bounding_box(mask, margin=1)
    near = voxels[box]
    depth = ndimage.distance_transform_edt(np.pad(mask[box], 1, mode="edge"))[1:-1, 1:-1, 1:-1]  # a border is no wall
    deep = depth > REACH * max(1.0, blur_voxels)
    values = np.minimum(near[deep], found.lumen + found.contrast / 2)
    if values.size < LEAST_VOXELS or np.ptp(values) < PART * found.contrast:
        return None
    limit = float(threshold_otsu(values))
    above = values > limit
    high, low = values[above], values[~above]
    gap = float(high.mean() - low.mean())
    within = np.sqrt((high.var() * high.size + low.var() * low.size) / values.size)
    if gap < PART * found.contrast or gap < APART * within:
        return None
    middle = float(high.mean() + low.mean()) / 2
    sides = {bool(voxels[seed[::-1]] > middle) for seed in seeds}
    if len(sides) > 1:
        return None
    brighter = not sides.pop()
    theirs = deep & ((near > middle) == brighter)
    inner = ndimage.distance_transform_edt(np.pad(theirs, 1, mode="edge"))[1:-1, 1:-1, 1:-1]
    z, y, x = (int(n) + side.start for n, side in zip(np.unravel_index(inner.argmax(), inner.shape), box, strict=True))
    level, rest = float(near[theirs].mean()), float((low if brighter else high).mean())
    return Other(float(theirs.sum() / deep.sum()), level, rest, brighter, (x, y, z))


def record_of_other(
    other: Other | None, problem: Problem, tissue: float, beside: bool = False
) -> dict[str, Any] | None:
    """What ``segmentation.json`` holds of it, with the words of the check.

    Parameters
    ----------
    other : as found.
    problem : with its lower threshold.
    tissue : level of the soft tissue around the mask.
    beside : whether a neck parts two brightnesses that lie beside each other, as blood that mixes has none.
    """
    if other is None:
        return None
    place = [round(float(x), 1) for x in problem.filtered.to_mm(other.place)]
    both = with_points([*(seed.point_mm for seed in problem.seeds), place], problem.settings)
    upper = None
    if other.brighter:
        than, what, cost = "brighter", "calcium, metal, bone or a vessel with more contrast", ""
        upper = float(f"{(other.level + other.rest) / 2:.4g}")
        setting = f"segment.upper: {upper:g}"
    else:
        than, what, cost = "darker", "a vein or another vessel with less contrast", f" ({COST})"
        setting = _between_markers(other, problem, place)
    words = (
        f"{other.share:.1%} of the mask away from its wall is {than} than at the seeds, with a mean of"
        f" {other.level:.4g}, most at {text_mm(place)} mm: it may be {what}. Look at segmentation.html there: "
    )
    mostly = other.share > MOSTLY and other.level - tissue < BLOOD * (other.rest - tissue)
    if other.brighter and mostly and not beside:
        upper = None
        words += (
            "most of the mask is as bright, so that the seeds seem to lie in a dim part, as where blood is slow or"
            f" mixed: if it is the vessel, give a seed there, too: {both}; if it is none, set {setting}"
        )
    elif setting:
        words += f"to leave it out, set {setting}{cost}; if it is the vessel, give a seed there, too"
    else:
        words += f"if it is the vessel, give a seed there, too: {both}; if it is none, {BY_HAND_INSTEAD}"
    level = {"share": round(other.share, 4), "level": round(other.level, 4)}
    return level | {"mm": place, "upper": upper, "words": words}


def _between_markers(other: Other, problem: Problem, place: list[float]) -> str:
    """The setting that puts a wall before what is darker, tried; empty where the lumen holds that all the same."""
    intensity = float(np.median([problem.filtered.voxels[seed[::-1]] for seed in problem.places]))
    least = 2 * (other.level + CLEAR * (other.rest - other.level)) - min(other.rest, intensity)
    lower = max(problem.lower, float(f"{least:.4g}"))
    if lower >= intensity:
        return ""
    background = (*problem.background, Seed("segment.background_mm", (place[0], place[1], place[2]), other.place))
    settings = problem.settings.model_copy(update={"method": "watershed"})
    tried = replace(problem, lower=lower, background=background, settings=settings)
    try:
        held = fill_holes(watershed(tried).mask)[0][other.place[::-1]]
    except StageError:
        return ""
    if held:
        return ""
    raised = f", lower: {lower:.4g}" if lower > problem.lower else ""
    return f"segment: {{method: watershed{raised}, background_mm: [{place}]}}"


def blooming(problem: Problem) -> Mask | None:
    """What is above ``upper``, and the rim that its blur makes in the tissue beyond; None where no upper is set.

    Calcium is surrounded by voxels between the thresholds. Those towards the lumen are lumen, those on its other side
    are tissue: they lie farther from the rest of the lumen than the rim is wide.

    Parameters
    ----------
    problem : with its lower threshold.
    """
    if problem.settings.upper is None:
        return None
    bright = problem.filtered.voxels > problem.upper
    if not bright.any():
        return None
    ball = ndimage.generate_binary_structure(3, 1)
    rim = ndimage.binary_dilation(bright, ball, iterations=HALO_VOXELS)
    core = grow(np.where(rim, -np.inf, problem.open_voxels), problem.places, problem.lower, problem.upper)
    return bright | (rim & ~ndimage.binary_dilation(core, ball, iterations=HALO_VOXELS + 1))
