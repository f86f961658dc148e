# SPDX-License-Identifier: Apache-2.0
"""Is a grown mask the lumen? Contrast, border and growth of the volume with a falling threshold."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.faces import Grown, fault
from pipeline.segmentation.levels import Levels
from pipeline.segmentation.point_text import text_mm
from pipeline.segmentation.problem import Lumen
from pipeline.segmentation.region_growing import Box, Index, Mask, bounding_box, mean_radius, occupancy, seeds_within
from solver.runtime.errors import StageError

LIKE = 0.85
"""Part of the lumen's contrast from which on what joins is as bright as its blood. The veins of a real fistula have
1.05 to 1.07, drawn organs of 0.7 times the contrast 0.70 to 0.73."""


def border_contact(mask: Mask, direction: NDArray[np.floating]) -> dict[str, float]:
    """The part of each face of the region that the mask covers.

    Parameters
    ----------
    mask : (Z, Y, X).
    direction : (3, 3); columns are the unit vectors of the array axes x, y, z in LPS.

    Returns
    -------
    dict
        By the side of the patient that the face looks to (the nearest, where the region is oblique).
    """
    faces = itertools.product((2, 1, 0), (False, True))
    return {side_of(axis, last, direction): covered(mask, axis, last) for axis, last in faces}


def covered(mask: Mask, axis: int, last: bool) -> float:
    """The part of the first or last layer along an axis of the array that a mask covers.

    Parameters
    ----------
    mask : [z, y, x].
    axis : 0, 1, 2 for z, y, x.
    last : whether the last layer is meant.
    """
    return float(np.take(mask, -1 if last else 0, axis=axis).mean())


def side_of(axis: int, last: bool, direction: NDArray[np.floating]) -> str:
    """The side of the patient that such a layer looks to.

    Parameters
    ----------
    axis : of the array, 0, 1, 2 for z, y, x.
    last : whether the last layer is meant.
    direction : (3, 3), columns are the axes x, y, z of the voxels in LPS.
    """
    return side((1 if last else -1) * direction[:, 2 - axis])


def side(vector: NDArray[np.floating]) -> str:
    """The side of the patient that an LPS vector points to: left, right, posterior, anterior, head or feet."""
    axis = int(np.argmax(np.abs(vector)))
    return (("left", "right"), ("posterior", "anterior"), ("head", "feet"))[axis][int(vector[axis] < 0)]


def check_border(lumen: Lumen, filtered: Volume, places: Sequence[Index], settings: SegmentSettings) -> None:
    """Refuse a mask that covers much of a face of the region, unless vessels that the border cuts do.

    Parameters
    ----------
    lumen : what was found.
    filtered : the image.
    places : voxels x, y, z of the seeds.
    settings : ``border_fraction``, the part of a face up to which it is not looked at.

    Raises
    ------
    StageError
        With the face, the quantity that is not a vessel's, and where (:mod:`pipeline.segmentation.faces`).
    """
    grown = Grown(lumen.mask, filtered.voxels, seeds_within(lumen.mask, places), lumen.wall)
    for axis, last in itertools.product(range(3), (False, True)):
        part = covered(lumen.mask, axis, last)
        if part <= settings.border_fraction or (found := fault(grown, axis, last)) is None:
            continue
        words, index = found
        raise StageError(
            f"{lumen}: the mask covers {part:.0%} of the {side_of(axis, last, filtered.direction)} face of the"
            f" region, more than segment.border_fraction = {settings.border_fraction:.0%}, and around"
            f" {text_mm(filtered.to_mm(index))} mm this is no vessel that the border cuts: its {words}. The mask has"
            " leaked into the surroundings: raise the threshold; if it is a vessel, give a seed in it, widen the region"
            " (filter) or raise segment.border_fraction"
        )


@dataclass(frozen=True)
class Row:
    """The lumen at one controlling level: voxels of its mask, and its mean radius along the centre line, in voxels."""

    level: float
    voxels: int
    mean_radius: float


def growth(
    lumen: Lumen,
    voxels: NDArray[np.floating],
    centre: NDArray[np.floating] | None,
    found: Levels,
    settings: SegmentSettings,
) -> list[Row]:
    """The lumen against its controlling level, from one step below the chosen one up to the lumen's intensity.

    Where each level is a segmentation of its own, the method says which there are.

    Parameters
    ----------
    lumen : what was found, and how it depends on the level.
    voxels : intensities (Z, Y, X).
    centre : points of its centre line, (N, 3) continuous indices z, y, x; None: no radii are needed.
    found : intensities.
    settings : ``leak_step``, the step as a fraction of the contrast.

    Returns
    -------
    list
        At least three rows; the second is that of the chosen level.
    """
    step = settings.leak_step * found.contrast
    last = max(int((found.lumen - lumen.level) / step), 1)
    chosen = [lumen.level + n * step for n in lumen.steps or range(-1, last + 1)]
    table = []
    for level, (box, mask) in zip(chosen, lumen.family(chosen), strict=False):
        wall = lumen.wall if lumen.edge_based else level
        radius = np.nan if centre is None else _mean_radius(centre, voxels[box], box, mask, wall, found.contrast)
        table.append(Row(level, int(mask.sum()), radius))
    return table


def _mean_radius(
    centre: NDArray[np.floating], voxels: NDArray[np.floating], box: Box, mask: Mask, wall: float, contrast: float
) -> float:
    if not mask.any():
        return 0.0
    return mean_radius(centre - [axis.start for axis in box], occupancy(voxels, mask, wall, contrast))


def sensitivity(table: list[Row], quantity: str, found: Levels) -> float:
    """Relative change of a quantity q when the level falls by 1 % of the contrast: -(dq/q) / (dt/contrast) / 100.

    Parameters
    ----------
    table : the lumen at a level below the threshold, at it, and above it; what follows is not used.
    quantity : ``voxels`` or ``mean_radius``.
    found : levels in and around the mask; their contrast counts.
    """
    below, at, above = (getattr(row, quantity) for row in table[:3])
    return float((below - above) / at * found.contrast / (table[2].level - table[0].level) / 100)


def check_width(table: list[Row], lumen: Lumen, spacing_mm: float) -> None:
    """Refuse a vessel whose middle is nowhere inside its wall, as of one voxel.

    Parameters
    ----------
    table : the lumen at a level below the threshold, at it, and above it.
    lumen : as found.
    spacing_mm : of the voxels.
    """
    if not table[1].mean_radius:
        raise StageError(
            f"{lumen}: the vessel at the seed is hardly a voxel of {spacing_mm:.3g} mm wide, so that no image of this"
            " resolution tells where its wall is: choose another series with finer voxels, or move the seed into a"
            " wider vessel"
        )


def check_growth(table: list[Row], lumen: Lumen, found: Levels, settings: SegmentSettings) -> None:
    """Refuse a mask whose volume hangs on the controlling level, or jumps between it and the middle of its range.

    From one step above the chosen level to one below, the volume may grow by ``leak_growth``: more means the edge
    of a leak, or a leak that fills up gradually. Higher up, a step may add ``leak_growth`` squared, since it may join
    a true branch; more means that the chosen level is past a leak.

    Parameters
    ----------
    table : from :func:`growth`.
    lumen : what was found.
    found : intensities.
    settings : ``leak_growth``.

    Raises
    ------
    LeakError
        With the two levels, their volumes, and the lowest level that is clear of the leak.
    """
    if (leak := find_leak(table, lumen, found, settings)) is None:
        return
    below, above = table[leak.low], table[leak.high]
    words = (
        f"{lumen} {leak.fault}: between the thresholds {above.level:.4g} and"
        f" {below.level:.4g} the mask grows from {above.voxels} to {below.voxels} voxels,"
        f" {below.voxels / max(above.voxels, 1):.1f} times (limit {leak.limit:.3g}, from segment.leak_growth; lumen"
        f" {found.lumen:.4g}, surroundings {found.surroundings:.4g})"
    )
    core = None
    if leak.clear is not None:
        core = np.zeros(lumen.mask.shape, bool)
        box, part = next(iter(lumen.family([leak.clear])))
        core[box] = part
    place = _middle_of_joined(lumen, below.level, above.level)
    clear = leak.clear if lumen.control == "segment.lower" else None
    raise LeakError(words, _advice(leak, lumen), clear, core, place, found)


def _middle_of_joined(lumen: Lumen, below: float, above: float) -> Index | None:
    """The voxel x, y, z that is deepest in what joins a lumen from one level to a lower one."""
    (box, wide), *rest = lumen.family([below, above])
    joined = np.zeros(lumen.mask.shape, bool)
    joined[box] = wide
    for inner, narrow in rest:
        joined[inner] &= ~narrow
    if not joined.any():
        return None
    part = bounding_box(joined, margin=1)
    depth = ndimage.distance_transform_edt(np.pad(joined[part], 1, mode="edge"))[1:-1, 1:-1, 1:-1]
    z, y, x = (int(n) + side.start for n, side in zip(np.unravel_index(depth.argmax(), depth.shape), part, strict=True))
    return x, y, z


class LeakError(StageError):
    """A leak, with what may be done about it.

    Attributes
    ----------
    words, advice : what leaks, and what to set.
    clear : the lowest level that may be clear of it.
    core : (Z, Y, X) bool, the mask at one, where it was found.
    joins : voxel x, y, z in the middle of what joins, where that is known.
    found : intensities in and around the mask.
    """

    def __init__(
        self,
        words: str,
        advice: str,
        clear: float | None,
        core: Mask | None = None,
        joins: Index | None = None,
        found: Levels | None = None,
        seeds: str = "",
    ) -> None:
        super().__init__(
            f"{words}: {advice}, narrow the region to the vessel, part it from what it touches (segment.cut_planes), or"
            " smooth more (filter); if what joins is a branch of the vessel, give a seed in it"
            + (f", tried: {seeds}" if seeds else "")
        )
        self.words, self.advice, self.clear, self.core, self.joins = words, advice, clear, core, joins
        self.found = found

    def holds_blood(self, voxels: NDArray[np.floating]) -> bool:
        """Whether what joins has the brightness of the lumen in its middle, over the voxels next to it.

        Parameters
        ----------
        voxels : (Z, Y, X), in which the mask was found.
        """
        if self.joins is None or self.found is None:
            return False
        near = tuple(slice(max(n - 1, 0), n + 2) for n in reversed(self.joins))
        return float(voxels[near].mean()) - self.found.surroundings > LIKE * self.found.contrast


@dataclass(frozen=True)
class Leak:
    """Where the volume jumps: rows of the table below and above it, and the lowest level that is clear of it."""

    fault: str
    limit: float
    low: int
    high: int
    clear: float | None


def find_leak(table: list[Row], lumen: Lumen, found: Levels, settings: SegmentSettings) -> Leak | None:
    """The leak that :func:`check_growth` refuses, if there is one.

    Parameters
    ----------
    table : the lumen at ascending levels, from :func:`growth`.
    lumen : as it was found.
    found : levels in and around the mask.
    settings : limit of the growth in `leak_growth`.
    """
    growth_limit, jump_limit = settings.leak_growth, settings.leak_growth**2
    middle = (lumen.level + found.lumen) / 2

    def ratio(low: int, high: int) -> float:
        return table[low].voxels / max(table[high].voxels, 1)

    jumps = [n for n in range(1, len(table) - 1) if table[n].level <= middle and ratio(n, n + 1) > jump_limit]
    if jumps:
        fault, limit, low, high = "leaks", jump_limit, jumps[-1], jumps[-1] + 1
    elif ratio(0, 2) > growth_limit:
        fault, limit, low, high = "leaks, or nearly", growth_limit, 0, 2
    else:
        return None
    clear = next((n for n in range(high, len(table) - 1) if ratio(n - 1, n + 1) <= growth_limit), None)
    return Leak(fault, limit, low, high, None if clear is None else float(np.ceil(table[clear].level)))


@dataclass(frozen=True)
class Plain:
    """What grows from the seeds between the thresholds alone, to hold the lumen of another method against.

    Attributes
    ----------
    lower : segment.lower, or, where that leaks, the lowest threshold that is clear of the leak.
    voxels : at `lower`.
    leaks : at segment.lower.
    """

    lower: float
    voxels: int
    leaks: bool


def plain_growing(
    lumen: Lumen, plain: Lumen, voxels: NDArray[np.floating], found: Levels, settings: SegmentSettings
) -> Plain | None:
    """Hold the lumen of a method against what grows between the thresholds alone, and refuse a leak that it follows.

    A method that shuns edges or keeps to tubes may follow a leak in part, and grow so evenly with a falling threshold
    that its own growth tells nothing. So its volume may be at most ``leak_growth`` times that at the lowest
    threshold, from the chosen one on, at which plain growing is clear of a leak.

    Parameters
    ----------
    lumen : what the method found.
    plain : what the method `threshold` finds.
    voxels : intensities (Z, Y, X).
    found : intensities in and around `lumen`.
    settings : ``method``, ``leak_growth``, ``leak_step``.

    Returns
    -------
    Plain or None
        None where plain growing leaks at every threshold, as into bone that is brighter than the lumen.

    Raises
    ------
    StageError
        With both volumes.
    """
    table = growth(plain, voxels, None, found, settings)
    leak = find_leak(table, plain, found, settings)
    if leak is not None and leak.clear is None:
        return None
    row = table[1] if leak is None else next(row for row in table if np.ceil(row.level) == leak.clear)
    limit, size = settings.leak_growth, int(lumen.mask.sum())
    if size > limit * row.voxels:
        clear = "" if leak is None else ", the lowest that is clear of a leak"
        remedy = (
            "lower segment.lower if the lumen is right" if leak is None else f"raise segment.lower to {leak.clear:g}"
        )
        words = (
            f"{lumen}: segment.method = {settings.method} leaks: it finds {size} voxels, {size / row.voxels:.1f} times"
            f" the {row.voxels} that grow between the thresholds alone at {row.level:.4g}{clear} (limit {limit:.3g},"
            " from segment.leak_growth)"
        )
        raise LeakError(words, remedy, None if leak is None else leak.clear)
    return Plain(row.level, row.voxels, leak is not None)


def _advice(leak: Leak, lumen: Lumen) -> str:
    if lumen.even is not None:
        return "no threshold follows the vessel here"
    if lumen.edge_based:
        return "raise segment.lower, give background seeds where it leaks (random-walker, watershed)"
    if lumen.control != "segment.lower":
        return "take another segment.method"
    if leak.clear is None:
        return "no higher threshold up to the lumen's level is clear of it, so try a lower one or correct the seed"
    return f"raise segment.lower to {leak.clear:g}"
