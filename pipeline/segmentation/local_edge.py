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

from pipeline.files.enclosed import enclosed_voxels, filled
from pipeline.segmentation.blur import unbiased_share
from pipeline.segmentation.following import (
    EVERYWHERE,
    FADED,
    REACH_VOXELS,
    SEEN,
    Followed,
    Near,
    followed,
    least_contrast,
    levels_near,
)
from pipeline.segmentation.levels import SHELL_VOXELS, Levels, levels
from pipeline.segmentation.point_text import text_mm
from pipeline.segmentation.problem import Lumen, Problem
from pipeline.segmentation.region_growing import (
    Box,
    Mask,
    bounding_box,
    centre_line,
    fill_holes,
    grow,
    grow_family,
    occupancy,
)
from solver.runtime.errors import StageError

LOCAL = "local"
"""Name of the method that puts the wall there."""

FAINT, LEAST_FAINT = 1.4, 0.003
"""Contrast over the least that is followed up to which a vessel fades away, the 35 % to which vessels were drawn that
are followed to their ends; and the part of the mask from which it is worth a reservation."""

MOST_WALLS, SETTLED, SHRINKS = 5, 0.003, 0.4
"""How often the wall is looked for with the levels of the last one, the change of the volume at which it stays, and the
most of a change over the one before. Where a mask fades away it ends in a cone, whose level is that of its wide part at
first; changes fall to a fourth each time then. Vessels of a voxel in radius go on growing for ever: theirs do not."""

HALF_WAY, ROUNDS, NEAR = 0.5, 4, 0.03
"""Share of the contrast at which the wall is sought first, how often, and how near to the last one it is found."""

DIMMEST = 0.5
"""Share of its contrast that blur leaves a lumen at least: of thinner tatters no level is known at which they keep
their volume."""

EXTREMES = (5, 95)
"""Percentiles of the contrast along the vessel that are told."""

EVEN = 0.8
"""Least of the contrast along a vessel over the most, at which it is even: noise and blur change it by less."""

BRIGHTER, DEVIATIONS = 0.4, 5.0
"""How far, in the contrast of the place and in standard deviations of the noise, calcium or metal is brighter than the
blood beside it at least."""

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
    edge : (z, y, x) in the box, share of the contrast of the place at which the wall stands.
    blurred : standard deviation of the Gaussian that blurs the wall, voxels; 0 where it is not known.
    inside : (z, y, x) bool in the box, the mask with its wall there.
    change : relative change of the volume, with what lies beyond its ends.
    of_wall : the same without that.
    of_voxels : the latter by voxels counted, of which few change where a part of the mask is at the threshold.
    brighter : (z, y, x) bool in the box, what of the mask, or beside it above `upper`, is brighter than blood.
    brightest : intensity of blood where it is brightest along the vessel, but for extremes.
    even : whether contrast is even along the vessel.
    beyond : the mask with what the vessel goes on with beyond its ends.
    """

    box: Box
    share: NDArray[np.floating]
    contrast: NDArray[np.floating]
    edge: NDArray[np.floating]
    blurred: float
    inside: Mask
    change: float
    of_wall: float
    of_voxels: float
    brighter: Mask
    brightest: float
    even: bool
    beyond: Followed

    @property
    def mean(self) -> float:
        """The share of the contrast at which the wall stands, on average along it."""
        return float(self.edge[self.inside].mean()) if self.inside.any() else HALF_WAY

    def above_all_blood(self, found: Levels) -> float:
        """The level that ``segment.upper`` is reckoned from: that of the lumen, or of its brightest part.

        Parameters
        ----------
        found : levels in and around the mask.
        """
        return found.lumen if self.even else max(found.lumen, self.brightest)


def local_edge(problem: Problem, lumen: Lumen, mask: Mask, found: Levels, radii: NDArray[np.floating]) -> LocalEdge:
    """Where the wall of a lumen would be, by the levels near each place.

    The levels of lumen and soft tissue are averages over a Gaussian, weighted in the lumen by the cube of the depth, so
    that blur at the wall hardly counts. The wall stands at the share of the contrast at which a vessel of this
    blur has its true volume (:func:`pipeline.segmentation.blur.unbiased_share`).

    Parameters
    ----------
    problem : with the image and what is no soft tissue in it.
    lumen : by one threshold.
    mask : (Z, Y, X) bool, the same with its cavities filled.
    found : levels in and around the mask.
    radii : along its centre line, voxels.
    """
    beyond = followed(problem, mask, found, lumen.wall, radii)
    box = bounding_box(beyond.mask, margin=SHELL_VOXELS[1] + 2)
    near, part = problem.filtered.voxels[box], beyond.mask[box]
    last = np.inf
    for _ in range(MOST_WALLS):
        here = levels_near(problem, box, part, found, lumen.wall, float(radii.mean()))
        contrast = np.maximum(here.blood - here.tissue, least_contrast(found))
        share = (near - here.tissue) / contrast
        room = part | (near < lumen.wall)
        if problem.barrier is not None:
            room &= ~problem.barrier[box]
        level, blurred = _edge(share, part, room, here)
        share = share - level
        grown = _from_level(share, part, room)
        moved = abs(float(grown.sum() / part.sum() - 1))
        if moved > SHRINKS * last:
            grown = part
        if not grown.any() or moved <= SETTLED or grown is part:
            break
        part, last = grown, moved
    bloom = part | ((here.away <= BLOOM_VOXELS) & (near > problem.upper))
    least = here.blood + np.maximum(BRIGHTER * contrast, DEVIATIONS * found.noise)
    low, high = along(contrast[grown]) if grown.any() else (1.0, 1.0)
    brightest, even = float(np.percentile(here.blood[part], EXTREMES[1])), low >= EVEN * high
    if not even:  # what is brighter than blood near a dim place may be blood of a bright one
        least = np.maximum(least, brightest + DEVIATIONS * found.noise)
    brighter = bloom & (near > least)
    at_wall = grown & (ndimage.distance_transform_edt(~mask[box]) <= REACH_VOXELS)
    filled_now = lumen.occupancy
    if filled_now is None:
        filled_now = occupancy(problem.filtered.voxels, mask, lumen.wall, found.contrast)
    whole = enclosed_voxels(filled_now)
    change, of_wall = (_volume(share, each) / whole - 1 for each in (grown, at_wall))
    of_voxels = float(at_wall.sum() / mask.sum() - 1)
    return LocalEdge(
        box, share, contrast, level, blurred, grown, change, of_wall, of_voxels, brighter, brightest, even, beyond
    )


def _edge(share: NDArray[np.floating], part: Mask, room: Mask, here: Near) -> tuple[NDArray[np.floating], float]:
    """Share of the contrast at which the wall stands near each place, (z, y, x), and the wall's blur in voxels.

    Where that is far from half way, as in thin vessels, the vessel that is blurred once more to find it is another one,
    so that it is found again with the wall there.

    Parameters
    ----------
    share : (z, y, x) intensity above the tissue over the contrast of the place.
    part, room : (z, y, x) bool, the mask, and where the lumen may reach.
    here : the mean over which levels are averaged.
    """
    level, blurred = np.full(share.shape, HALF_WAY), 0.0
    for _ in range(ROUNDS):
        inside = _from_level(share - level, part, room)
        if not inside.any():
            break
        found = unbiased_share(share, filled(occupancy(share - level, inside, 0.0, 1.0)), here.by_depth)
        wall = inside & ~ndimage.binary_erosion(inside, border_value=1)
        if not wall.any() or float(np.median(found.seen[wall])) < DIMMEST:
            break
        moved = float(np.abs(found.level - level)[wall].mean())
        level, blurred = found.level, found.blur
        if moved < NEAR:
            break
    return level, blurred


def _from_level(above: NDArray[np.floating], part: Mask, room: Mask) -> Mask:
    """What of a mask and around it is at least as bright as its wall, `above` which brightness is positive."""
    allowed = room & (above >= 0)
    return np.asarray(ndimage.binary_dilation(part & allowed, iterations=REACH_VOXELS, mask=allowed))


def _volume(share: NDArray[np.floating], inside: Mask) -> float:
    """Voxels within a wall where a share passes 0, of a mask that it makes."""
    return enclosed_voxels(occupancy(share, inside, 0.0, 1.0)) if inside.any() else 0.0


def record_of_edge(edge: LocalEdge, problem: Problem) -> dict[str, Any]:
    """What ``segmentation.json`` holds of it, with the words of the check.

    Parameters
    ----------
    edge : as found.
    problem : as posed.
    """
    words = (
        f"half way between lumen and tissue at every place along the vessel the volume is {edge.of_wall:+.1%} off: the"
        " threshold is not half way, or the brightness changes along the vessel. To put the wall there, set"
        f" segment.method: {LOCAL}"
    )
    low, high = along(edge.contrast[edge.inside]) if edge.inside.any() else (1.0, 1.0)
    record: dict[str, Any] = {"change": round(edge.of_wall, 4), "words": words, "contrast_along": [low, high]}
    record |= {"of_voxels": round(edge.of_voxels, 4), "fades": "", "beyond": _beyond(edge, problem)}
    if low < EVEN * high:
        record["fades"] = (
            f". But the contrast of the vessel changes from {high:.4g} to {low:.4g} along it, which may be the reason:"
            f" to go by the levels near each place, set segment.method: {LOCAL}"
        )
    return record


def _beyond(edge: LocalEdge, problem: Problem) -> dict[str, Any] | None:
    """What the vessel goes on with beyond the ends of its mask, with the words of the check; None if it does not."""
    if edge.beyond.place is None:
        return None
    added_ml = edge.beyond.added * float(np.prod(problem.filtered.spacing_mm)) / 1000
    place = [round(float(x), 1) for x in problem.filtered.to_mm(edge.beyond.place)]
    words = (
        f"at {text_mm(place)} mm the vessel goes on more dimly beyond an end of the mask, in all by {added_ml:.3g} mL;"
        f" by the levels near each place the volume is {edge.change:+.1%} off. To follow it there, set"
        f" segment.method: {LOCAL}"
    )
    return {"share": abs(round(edge.change, 4)), "ml": round(added_ml, 5), "mm": place, "words": words}


def along(contrast: NDArray[np.floating]) -> tuple[float, float]:
    """The least and the most contrast along a vessel, but for extremes, of its voxels."""
    low, high = np.percentile(contrast, EXTREMES)
    return round(float(low), 4), round(float(high), 4)


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
        return {"share": 0.0, "upper": None, "words": ""}
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
    upper = None
    if problem.settings.upper is None:
        upper = float(f"{edge.above_all_blood(found) + BRIGHTER * found.contrast:.4g}")
        words += f"To leave it out, set segment.upper: {upper:g}"
    else:
        words += "segment.upper leaves it out; where the wall is behind it, no image of this resolution tells"
    return {"share": round(share, 4), "upper": upper, "words": words}


def at_the_local_edge(lumen: Lumen, problem: Problem) -> Lumen:
    """A lumen with its wall half way between lumen and tissue at every place, and what it goes on with beyond its ends.

    Parameters
    ----------
    lumen : what grows between the thresholds.
    problem : as posed.
    """
    voxels = problem.filtered.voxels
    found = levels(voxels, lumen.mask, problem.places, lumen.wall, problem.dark)
    radii = centre_line(lumen.mask)[1]
    edge = local_edge(problem, lumen, lumen.mask, found, radii)
    inside = np.full(voxels.shape, -1.0)
    inside[edge.box] = np.where(edge.inside, 1.0, -1.0)
    mask = grow(inside, problem.places[:1], 0.0)
    if not mask[problem.places[0][::-1]]:
        raise StageError(
            f"{problem.seeds[0].name}: it lies beyond the vessel's edge in the image: move the seed into the middle of"
            " the vessel"
        )
    if problem.settings.fill_holes:
        filled, _ = fill_holes(mask)
        mask = filled if problem.barrier is None else filled & ~(problem.barrier & ~mask)
    whole = levels(voxels, mask, problem.places, lumen.wall, problem.dark)
    even, contrast = _even(problem, mask, whole, lumen.wall, float(radii.mean()), edge)
    level = whole.surroundings + edge.mean * whole.contrast
    open_even = np.where((voxels <= problem.upper) & np.isfinite(problem.open_voxels), even, -np.inf)
    faint = record_of_faint(problem, mask, contrast, whole)
    return replace(
        lumen,
        mask=mask,
        edge_based=True,
        control="level of the wall, by levels near each place,",
        level=level,
        family=lambda at: grow_family(open_even, problem.places, at),
        occupancy=occupancy(even, mask, level, whole.contrast),
        record=lumen.record
        | {
            "method": "region growing, its wall half way between local levels, followed beyond its ends",
            "contrast_along": list(along(contrast[mask])),
            "voxels_followed": edge.beyond.added,
            "faint_ends": faint,
        },
        even=even,
        warnings=(*lumen.warnings, *([faint["words"]] if faint else [])),
    )


def record_of_faint(
    problem: Problem, mask: Mask, contrast: NDArray[np.floating], found: Levels
) -> dict[str, Any] | None:
    """What ``segmentation.json`` holds of a vessel that fades away, with the words of the check; None of another.

    Parameters
    ----------
    problem : as posed.
    mask : (Z, Y, X) bool.
    contrast : (Z, Y, X) of each place.
    found : levels in and around the mask.
    """
    least = least_contrast(found)
    faint = mask & (contrast < FAINT * least)
    share = float(faint.sum() / mask.sum())
    if share < LEAST_FAINT:
        return None
    z, y, x = np.unravel_index(int(np.where(faint, contrast, np.inf).argmin()), mask.shape)
    place = [round(float(n), 1) for n in problem.filtered.to_mm((int(x), int(y), int(z)))]
    words = (
        f"the vessel fades away at {text_mm(place)} mm: its contrast falls to {float(contrast[faint].min()):.4g},"
        f" where {least:.4g}, {FADED:.0%} of that of the whole or {SEEN:g} times the noise, is the least at which it is"
        " followed. It may go on unseen. Cut its end off (segment.cut_planes), smooth more (filter.smoothing: nonlocal)"
        " or give a later series"
    )
    return {"share": round(share, 4), "mm": place, "words": words}


def _even(
    problem: Problem, mask: Mask, found: Levels, wall: float, radius: float, edge: LocalEdge
) -> tuple[NDArray[np.float32], NDArray[np.floating]]:
    """The image with the contrast of each place, and the share of it at the wall, as those of the whole; and the
    contrast of each place.
    """
    near = levels_near(problem, EVERYWHERE, mask, found, wall, radius)
    contrast = np.maximum(near.blood - near.tissue, least_contrast(found))
    share = (problem.filtered.voxels - near.tissue) / contrast
    share[edge.box] -= edge.edge - edge.mean
    return (found.surroundings + share * found.contrast).astype(np.float32), contrast
