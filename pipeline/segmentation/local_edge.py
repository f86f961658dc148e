# SPDX-License-Identifier: Apache-2.0
"""The volume that a lumen would have if its wall stood half way between lumen and tissue at every place.

One threshold is half way at one brightness. Where contrast fades along the vessel, or the coil's signal does, it puts
the wall too far out at the bright end and too far in at the dim one; a threshold that was given may be off everywhere.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.segmentation.blur import unbiased_lower, wall_slope
from pipeline.segmentation.levels import MAD_TO_SIGMA, SHELL_VOXELS, Levels, levels, soft_tissue
from pipeline.segmentation.problem import Lumen, Problem
from pipeline.segmentation.region_growing import Box, Mask, bounding_box, centre_line, fill_holes, grow, occupancy
from pipeline.segmentation.seeds import text_mm
from solver.runtime.errors import StageError

LOCAL = "local"
"""Name of the method that puts the wall there."""

LENGTH = 1.5
"""Standard deviation, in radii of the vessel, of the Gaussian over which levels are averaged."""

LEAST_VOXELS = 3.0
"""The least of it, voxels."""

FADED = 0.25
"""Least contrast of a place over that of the whole: what is fainter is noise, or the vessel has ended."""

REACH_VOXELS = 3
"""How far the wall is followed outwards: half way lies within the blur of the wall."""

WRONG = 0.03
"""Change of the volume that is worth a reservation. A threshold half way that a user gives makes a thin vessel 3 to 5 %
too small by its blur."""

BRIGHTER, DEVIATIONS = 0.4, 5.0
"""How far, in the contrast of the place and in standard deviations of the noise, calcium or metal is brighter than the
blood beside it at least."""

TOUCHED = 0.01
"""Part of the mask that is so bright from which it is worth a reservation: its blur takes in about twice as much."""

BLOOM_VOXELS = 3
"""How far from the mask lies what `upper` has left out: its rim is two voxels wide."""


@dataclass(frozen=True)
class LocalEdge:
    """Where the wall would be.

    Attributes
    ----------
    box : of the volume that holds it.
    share : (z, y, x) in the box, intensity above the edge over the contrast of the place; 0 at the wall.
    contrast : (z, y, x) in the box, of the place: lumen above soft tissue.
    edge : share of the contrast at which the wall stands.
    inside : (z, y, x) bool in the box, the mask with its wall there.
    change : relative change of the volume.
    brighter : (z, y, x) bool in the box, what of the mask, or beside it above `upper`, is brighter than blood.
    """

    box: Box
    share: NDArray[np.floating]
    contrast: NDArray[np.floating]
    edge: float
    inside: Mask
    change: float
    brighter: Mask


def local_edge(problem: Problem, lumen: Lumen, mask: Mask, found: Levels, radius: float) -> LocalEdge:
    """Where the wall of a lumen would be, by the levels near each place.

    The levels of lumen and soft tissue are averages over a Gaussian, weighted in the lumen by the cube of the depth, so
    that blur at the wall hardly counts. The wall stands at the share of the contrast at which a tube of this blur has
    its true volume (:func:`pipeline.segmentation.blur.unbiased_lower`).

    Parameters
    ----------
    problem : with the image and what is no soft tissue in it.
    lumen : by one threshold.
    mask : (Z, Y, X) bool, the same with its cavities filled.
    found : levels in and around the mask.
    radius : mean of the vessel's, voxels.
    """
    box = bounding_box(mask, margin=SHELL_VOXELS[1] + 2)
    near, part = problem.filtered.voxels[box], mask[box]
    edged = np.pad(part, 1, mode="edge")  # behind the border the vessel goes on
    depth = ndimage.distance_transform_edt(edged)[1:-1, 1:-1, 1:-1]
    away = ndimage.distance_transform_edt(~edged)[1:-1, 1:-1, 1:-1]
    length = max(LENGTH * radius, LEAST_VOXELS)
    shell = (away > SHELL_VOXELS[0]) & (away <= SHELL_VOXELS[1] + 1)
    tissue = soft_tissue(near, shell, lumen.wall, problem.dark)
    blood = average_near(np.minimum(near, found.lumen + found.contrast / 2), np.where(part, depth**3, 0.0), length)
    around = np.full(near.shape, found.surroundings)
    if tissue.any():
        around = average_near(near, tissue.astype(float), length)
    contrast = np.maximum(blood - around, FADED * found.contrast)
    level = _edge(problem, lumen, mask, found)
    share = (near - around) / contrast - level
    bright = share >= 0
    if problem.barrier is not None:
        bright &= ~problem.barrier[box]
    grown = ndimage.binary_dilation(part & bright, iterations=REACH_VOXELS, mask=bright & (part | (near < lumen.wall)))
    bloom = part | ((away <= BLOOM_VOXELS) & (near > problem.upper))
    brighter = bloom & (near > blood + np.maximum(BRIGHTER * contrast, DEVIATIONS * found.noise))
    return LocalEdge(box, share, contrast, level, grown, float(grown.sum() / part.sum() - 1), brighter)


def _edge(problem: Problem, lumen: Lumen, mask: Mask, found: Levels) -> float:
    """Share of the contrast at which the wall stands."""
    spacing_mm = problem.filtered.spacing_mm[0]
    slope = wall_slope(problem.filtered.voxels, spacing_mm, mask, found)
    step = problem.settings.leak_step * found.contrast
    larger, smaller = (int(part.sum()) for _, part in lumen.family([lumen.level - step, lumen.level + step]))
    growth = max(larger - smaller, 0) / (2 * step * int(mask.sum()))
    return (unbiased_lower(found, slope, growth, spacing_mm) - found.surroundings) / found.contrast


def average_near(values: NDArray[np.floating], weight: NDArray[np.floating], length: float) -> NDArray[np.floating]:
    """Weighted mean over a Gaussian; that of all where no weight is near.

    Parameters
    ----------
    values, weight : (z, y, x).
    length : standard deviation of the Gaussian, voxels.
    """
    total = ndimage.gaussian_filter(weight, length, mode="nearest")
    mean = ndimage.gaussian_filter(values * weight, length, mode="nearest")
    whole = float((values * weight).sum() / weight.sum())
    floor = 1e-6 * float(weight.mean())
    return np.asarray((mean + floor * whole) / (total + floor))


def record_of_edge(edge: LocalEdge) -> dict[str, Any]:
    """What ``segmentation.json`` holds of it, with the words of the check.

    Parameters
    ----------
    edge : as found.
    """
    words = (
        f"half way between lumen and tissue at every place along the vessel the volume is {edge.change:+.1%} off: the"
        " threshold is not half way, or the brightness changes along the vessel. To put the wall there, set"
        f" segment.method: {LOCAL}"
    )
    return {"change": round(edge.change, 4), "words": words}


def record_of_bright_wall(edge: LocalEdge, mask: Mask, problem: Problem, found: Levels) -> dict[str, Any]:
    """What ``segmentation.json`` holds of calcium or metal at the wall, with the words of the check.

    Parameters
    ----------
    edge : as found.
    mask : (Z, Y, X) bool.
    problem : as posed.
    found : levels in and around the mask.
    """
    share = float(edge.brighter.sum() / mask.sum())
    if not share:
        return {"share": 0.0, "words": ""}
    depth = ndimage.distance_transform_edt(np.pad(edge.brighter, 1))[1:-1, 1:-1, 1:-1]
    z, y, x = (
        int(n) + side.start for n, side in zip(np.unravel_index(depth.argmax(), depth.shape), edge.box, strict=True)
    )
    place = text_mm(problem.filtered.to_mm((x, y, z)))
    words = (
        f"calcium, metal or bone is at the vessel's wall, most at {place} mm: a share of {share:.1%} of the mask is"
        f" brighter than the blood beside it by {BRIGHTER:.0%} of the contrast, and its blur makes the vessel wider"
        " there. "
    )
    if problem.settings.upper is None:
        words += f"To leave it out, set segment.upper: {found.lumen + BRIGHTER * found.contrast:.4g}"
    else:
        words += "segment.upper leaves it out; where the wall is behind it, no image of this resolution tells"
    return {"share": round(share, 4), "words": words}


def at_the_local_edge(lumen: Lumen, problem: Problem) -> Lumen:
    """A lumen with its wall half way between lumen and tissue at every place.

    Parameters
    ----------
    lumen : what grows between the thresholds.
    problem : as posed.
    """
    voxels = problem.filtered.voxels
    found = levels(voxels, lumen.mask, problem.places, lumen.wall, problem.dark)
    edge = local_edge(problem, lumen, lumen.mask, found, float(centre_line(lumen.mask)[1].mean()))
    inside = np.full(voxels.shape, -1.0)
    inside[edge.box] = np.where(edge.inside, 1.0, -1.0)
    mask = grow(inside, problem.places[:1], 0.0)
    if not mask.any():
        raise StageError(
            f"{problem.seeds[0].name}: it lies beyond the vessel's edge in the image: move the seed into the middle of"
            " the vessel"
        )
    if problem.settings.fill_holes:
        filled, _ = fill_holes(mask)
        mask = filled if problem.barrier is None else filled & ~(problem.barrier & ~mask)
    share = np.full(voxels.shape, -1.0)
    share[edge.box] = edge.share
    return replace(
        lumen,
        mask=mask,
        edge_based=True,
        occupancy=occupancy(share, mask, 0.0, 1.0),
        record=lumen.record | {"method": "region growing, its wall half way between local levels"},
    )


def spread_at_a_place(voxels: NDArray[np.floating], mask: Mask) -> float:
    """Standard deviation, robust, of the intensities of a mask about their average near each place.

    Parameters
    ----------
    voxels, mask : (Z, Y, X).
    """
    box = bounding_box(mask)
    near, part = voxels[box], mask[box]
    depth = ndimage.distance_transform_edt(np.pad(part, 1, mode="edge"))[1:-1, 1:-1, 1:-1]
    radius = float(depth.max())
    mean = average_near(near, np.where(part, depth**3, 0.0), max(LENGTH * radius, LEAST_VOXELS))
    core = part & (depth > radius / 2)
    return float(MAD_TO_SIGMA * np.median(np.abs(near - mean)[core]))
