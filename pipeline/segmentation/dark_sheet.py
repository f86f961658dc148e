# SPDX-License-Identifier: Apache-2.0
"""A dark sheet within a lumen: the flap of a dissection, or the walls of two vessels, thinner than the blur.

A flap of less than a voxel or two is not as dark as tissue, so that a threshold takes it for blood and one mask holds
both lumens. Across it the brightness has a valley: the second derivative is large in one direction and small in the
others (the eigenvalues of the Hessian matrix: Sato et al. 1998, doi:10.1016/S1361-8415(98)80009-1). Below the wall of
a lumen brightness bends the other way, and noise, contrast that mixes and a void make no sheet that is as wide as the
vessel.

In a narrow vessel brightness falls towards the wall within the width of the valley, which does not show then. What one
even lumen with the same wall would lack there is known from the image's blur; beside it the valley is seen.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.segmentation.blur import blur, wall_slope
from pipeline.segmentation.following import LEAST_VOXELS, average_near
from pipeline.segmentation.levels import Levels, levels
from pipeline.segmentation.point_text import BY_HAND, text_mm
from pipeline.segmentation.problem import Lumen, Problem
from pipeline.segmentation.region_growing import Box, Index, Mask, bounding_box, fill_holes, grow

DEPTH = 1.0
"""Distance from the wall, voxels, beyond which a valley is looked for."""

BORDER = 2
"""Layers of the image's border where none is looked for: brightness bends there only as it is gone on with."""

LEAST_VALLEY = 0.05
"""Least second derivative across a sheet at the scale of a voxel, in the contrast; not below the noise either. A
dark layer of one voxel, blurred by one, has 0.14."""

FLAT = 0.5
"""The largest part of it that the second derivative along the sheet may have."""

WIDE = 1.1
"""Voxels of a sheet over the square of the largest depth of the mask, from which on it counts. In vessels without a
flap, drawn at random, it was at most 0.3, where branches of a fork leave side by side, in real images at most 1.0,
across flaps mostly more than 1.2 (docs/validation/first-try.md)."""

LEAST_FAINT = 0.04
"""Least second derivative across a faint sheet, which is seen beside the brightness of one lumen with the mask's wall:
in a narrow vessel brightness falls so fast towards the wall that a valley near it does not show. Not below half of the
noise either; white noise has an eighth of itself."""

ALONG_WALL = 0.7
"""Cosine of the angle between the directions across a faint sheet and towards the wall, from which it lies along the
wall: there brightness differs from that of one lumen wherever the wall is another than the blur makes it."""

MIDDLE = 0.7
"""Depth over the largest, beyond which a faint sheet is followed in any direction: towards no wall in particular."""

FAINT_WIDE, FAINT_LONG = 1.5, 3.5
"""Voxels of a faint sheet over the square of the largest depth of the mask, and its length over that depth, from which
on it counts."""

ASIDE, BLURRED = 3.0, 1.2
"""Brightness rises so many voxels to both sides of a faint sheet over that one voxel aside, at most as beside a sheet
without thickness whose blur is so many times that of the wall: in 14 masks of seven drawn flaps the rise was 0.76 to
0.97 of that by the blur itself. Streaks are broader."""

SIDES, EVEN = 2.0, 0.5
"""The rise of brightness so many voxels to the one side of a faint sheet over that to the other, below which the sheet
is one-sided. Beside false lumens as bright as the true one it was 0.77 at least, beside dimmer ones 0.29, and 0.25 in a
real artery without a flap that is brightest beside its middle: below it nothing tells which."""

OTHER_SIDE = 0.02
"""Least part of the mask that is a side of its own."""

BESIDE, RIM_VOXELS = 0.5, 4
"""A sheet of which so much lies within so many voxels of what ``segment.upper`` leaves out is the gap between that and
the lumen."""

ACROSS = 4.0
"""How far from its middle the brightness beside a sheet is reached, voxels."""

MOST_SHEETS = 4
"""So many sheets part a lumen at most."""

_ALL = np.ones((3, 3, 3), bool)


@dataclass(frozen=True)
class DarkSheet:
    """A dark sheet in a mask.

    Attributes
    ----------
    area : voxels of its middle layer.
    place : voxel x, y, z in its middle.
    sheet : (Z, Y, X) bool, the mask within half of its thickness.
    behind : (Z, Y, X) bool, what of the mask is on its other side, seen from the seeds; nothing where it parts nothing.
    one_sided : whether brightness rises to one side alone, as it also does where blood in one lumen is uneven.
    """

    area: int
    place: Index
    sheet: Mask
    behind: Mask
    one_sided: bool


def dark_sheet(
    voxels: NDArray[np.floating], mask: Mask, seeds: Sequence[Index], found: Levels, faint: bool = True
) -> DarkSheet | None:
    """The widest dark sheet within a mask; None where there is none.

    Parameters
    ----------
    voxels, mask : (Z, Y, X); the mask without cavities.
    seeds : voxels x, y, z.
    found : levels in and around the mask.
    faint : whether one counts that is seen only beside the brightness of one lumen with the mask's wall: no wall that
        was cut is blurred.
    """
    box = bounding_box(mask, margin=2)
    part = mask[box]
    depth = ndimage.distance_transform_edt(np.pad(part, 1, mode="edge"))[1:-1, 1:-1, 1:-1]  # a border is no wall
    clear = np.zeros_like(mask)
    clear[BORDER:-BORDER, BORDER:-BORDER, BORDER:-BORDER] = True
    inside = part & clear[box] & (depth > DEPTH)
    bright = np.minimum(voxels[box], found.lumen + found.contrast / 2) / found.contrast
    smooth = ndimage.gaussian_filter(bright.astype(np.float32), 1.0, mode="nearest")
    sheet, one_sided = _clear_sheet(smooth, inside, depth, found), False
    if sheet is None and faint:
        blurred = blur(found, wall_slope(voxels, 1.0, mask, found), 1.0)
        above = bright.astype(np.float32) - np.float32(found.surroundings / found.contrast)
        excess = smooth - _of_one_lumen(part, above, depth, blurred)
        if sheet := _faint_sheet(excess, inside, depth, found, blurred):
            rises = _rises(excess, *sheet, SIDES)
            one_sided = min(rises) < EVEN * max(rises)
    if sheet is None:
        return None
    places, normals = sheet
    of_box = [tuple(n - side.start for n, side in zip(place[::-1], box, strict=True)) for place in seeds]
    seeds_inside = [seed for seed in of_box if all(0 <= n < most for n, most in zip(seed, part.shape, strict=True))]
    middle = places[np.linalg.norm(places - places.mean(axis=0), axis=1).argmin()]
    z, y, x = (int(n) + side.start for n, side in zip(middle, box, strict=True))
    within, behind = np.zeros_like(mask), np.zeros_like(mask)
    share = smooth - np.float32(found.surroundings / found.contrast)
    within[box], behind[box] = _parted(part, share, places, normals, seeds_inside)
    return DarkSheet(len(places), (x, y, z), within, behind, one_sided)


Sheet = tuple[NDArray[np.int64], NDArray[np.floating]]
"""Places z, y, x of the middle layer of a sheet, and directions across it."""


def _clear_sheet(smooth: NDArray[np.float32], inside: Mask, depth: NDArray[np.floating], found: Levels) -> Sheet | None:
    """The widest sheet across which brightness itself has a valley."""
    least = max(LEAST_VALLEY, found.noise / found.contrast)
    places, normals, floor, deep = _valleys(smooth, inside, least)
    joined, area = _largest(places, floor & deep, inside.shape)
    own = floor & joined
    return None if area < WIDE * float(depth.max()) ** 2 else (places[own], normals[own])


def _faint_sheet(
    excess: NDArray[np.float32], inside: Mask, depth: NDArray[np.floating], found: Levels, blurred: float
) -> Sheet | None:
    """The widest sheet across which brightness has a valley beside that of one lumen, and that leaves the wall steeply.

    Parameters
    ----------
    excess : smoothed brightness above that of one lumen, in the contrast.
    inside : (z, y, x) bool, where it is looked for.
    depth : distance to the wall, voxels.
    found : levels in and around the mask.
    blurred : standard deviation of the image's blur, voxels.
    """
    least, widest = max(LEAST_FAINT, found.noise / found.contrast / 2), float(depth.max())
    places, normals, floor, deep = _valleys(excess, inside, least)
    if not len(places):
        return None
    rise = np.stack(
        [part[tuple(places.T)] for part in np.gradient(ndimage.gaussian_filter(depth.astype(np.float32), 1.0))], axis=1
    )
    steep = np.abs(np.sum(rise * normals, axis=1)) < ALONG_WALL * np.linalg.norm(rise, axis=1)
    kept = steep | (depth[tuple(places.T)] > MIDDLE * widest)
    places, normals, counts, floor = places[kept], normals[kept], (floor & deep & steep)[kept], floor[kept]
    joined, area = _largest(places, counts, inside.shape)
    own = floor & joined
    if area < FAINT_WIDE * widest**2:
        return None
    counted = places[counts & own]
    long = float(np.ptp(counted @ np.linalg.eigh(np.cov(counted.T))[1][:, -1]))
    places, normals = places[own], _to_one_side(places[own], normals[own])
    near, far = (sum(_rises(excess, places, normals, aside)) for aside in (1.0, ASIDE))
    return (places, normals) if long >= FAINT_LONG * widest and far <= _narrow(blurred) * near else None


def _narrow(blurred: float) -> float:
    """The rise of brightness `ASIDE` of a sheet without thickness over that one voxel aside, in the smoothed image."""
    square = 1 + (BLURRED * blurred) ** 2
    return float(np.expm1(-(ASIDE**2) / 2 / square) / np.expm1(-1 / 2 / square))


def _rises(
    values: NDArray[np.floating], places: NDArray[np.int64], normals: NDArray[np.floating], aside: float
) -> tuple[float, float]:
    """How much larger values are at a distance to each side of a sheet than in its middle, on average."""
    middle = values[tuple(places.T)].mean()
    sides = ((places + way * aside * normals).T for way in (1, -1))
    ahead, back = (ndimage.map_coordinates(values, at, order=1, mode="nearest").mean() - middle for at in sides)
    return float(ahead), float(back)


def _to_one_side(places: NDArray[np.int64], normals: NDArray[np.floating]) -> NDArray[np.floating]:
    """Directions across a sheet, all to the same side of it."""
    away = places - places.mean(axis=0)
    across = np.linalg.eigh(away.T @ away)[1][:, 0]
    return np.asarray(normals * np.where(normals @ across < 0, -1.0, 1.0)[:, None])


def _of_one_lumen(
    part: Mask, above: NDArray[np.float32], depth: NDArray[np.floating], blurred: float
) -> NDArray[np.floating]:
    """Brightness that a mask would have as one lumen of the contrast near each place, smoothed as the image is.

    Parameters
    ----------
    part : (z, y, x) bool, the mask.
    above : (z, y, x), brightness above that of tissue.
    depth : distance to the wall, voxels.
    blurred : standard deviation of the image's blur, voxels.
    """
    contrast = average_near(above, np.where(part, depth**3, 0.0), max(float(depth.max()), LEAST_VOXELS))
    filled = ndimage.gaussian_filter(part.astype(np.float32), np.hypot(1.0, blurred), mode="nearest")
    return np.asarray(contrast * filled)


def _largest(
    places: NDArray[np.int64], counts: NDArray[np.bool_], shape: tuple[int, ...]
) -> tuple[NDArray[np.bool_], int]:
    """Which of the places are of the group of joined ones of which most count, and how many of it do."""
    sheets = np.zeros(shape, bool)
    sheets[tuple(places.T)] = True
    label, _ = ndimage.label(sheets, _ALL)
    numbers = label[tuple(places.T)]
    sizes = np.bincount(numbers[counts], minlength=2)
    largest = int(sizes.argmax())
    return numbers == largest, int(sizes[largest])


def _valleys(
    smooth: NDArray[np.float32], inside: Mask, least: float
) -> tuple[NDArray[np.int64], NDArray[np.floating], NDArray[np.bool_], NDArray[np.bool_]]:
    """Valleys of brightness across one direction with none along the others: places z, y, x, directions across, whether
    brightness bends most there, in a layer of about a voxel, and whether as much as `least`; half of it the rest.
    """
    padded = np.pad(smooth, 1, mode="edge")
    places = np.argwhere(ndimage.binary_dilation(inside))
    steps = np.eye(3, dtype=np.int64)

    def at(offset: NDArray[np.int64]) -> NDArray[np.floating]:
        return np.asarray(padded[tuple((places + 1 + offset).T)])

    bent = np.empty((len(places), 3, 3), np.float32)
    for i in range(3):
        bent[:, i, i] = at(steps[i]) - 2 * at(0 * steps[i]) + at(-steps[i])
        for j in range(i):
            both, across = steps[i] + steps[j], steps[i] - steps[j]
            bent[:, i, j] = bent[:, j, i] = (at(both) + at(-both) - at(across) - at(-across)) / 4
    some = np.linalg.norm(bent, axis=(1, 2)) >= least / 2
    values, vectors = np.linalg.eigh(bent[some])
    low, middle, high = values.T
    valley = (high >= least / 2) & (np.maximum(np.abs(middle), np.abs(low)) <= FLAT * high)
    bend = np.zeros(smooth.shape, np.float32)
    bend[tuple(places[some].T)] = high
    valley &= inside[tuple(places[some].T)]
    places, normals, high = places[some][valley], vectors[valley][:, :, 2], high[valley]
    most = np.array(smooth.shape) - 1
    beside = [bend[tuple(np.clip(np.rint(places + way).astype(int), 0, most).T)] for way in (normals, -normals)]
    return places, normals, high >= np.maximum(*beside), high >= least


def _parted(
    part: Mask,
    share: NDArray[np.float32],
    places: NDArray[np.int64],
    normals: NDArray[np.floating],
    seeds: Sequence[tuple[int, ...]],
) -> tuple[Mask, Mask]:
    """A sheet with its thickness, and what lies on its other side, seen from the seeds; none where they lie on both, or
    all beyond the part.

    Sides are told by the direction across the sheet where it is nearest, so that it goes on straight to the wall, near
    which it is not seen.
    """
    normals = _to_one_side(places, normals)
    outward = np.zeros((3, *part.shape), np.float32)
    outward[:, *places.T] = normals.T
    nearest = ndimage.distance_transform_edt(~outward.any(axis=0), return_distances=False, return_indices=True)
    ahead = np.sum((np.indices(part.shape) - nearest) * outward[:, *nearest], axis=0)
    sides = {bool(ahead[seed] > 0) for seed in seeds}
    own = 1.0 if sides == {True} else -1.0
    half = _half_thickness(share, places, own * normals)
    sheet = part & (np.abs(ahead) < half)
    behind = part & (own * ahead <= -half)
    return sheet, behind if len(sides) == 1 and behind.sum() >= OTHER_SIDE * part.sum() else np.zeros_like(part)


def _half_thickness(share: NDArray[np.float32], places: NDArray[np.int64], ways: NDArray[np.floating]) -> float:
    """Half of the thickness of a sheet, voxels: blur keeps the brightness that is missing on one of its sides."""
    steps = np.arange(0, ACROSS + 0.1, 0.5)
    along = (places[:, None] + steps[:, None] * ways[:, None]).reshape(-1, 3)
    values = ndimage.map_coordinates(share, along.T, order=1, mode="nearest").reshape(len(places), -1)
    before = steps < steps[values.argmax(axis=1)][:, None]
    missing = 1 - values / values.max(axis=1, keepdims=True)
    weights = np.where(steps == 0, 0.25, 0.5)
    return float(np.mean(np.sum(missing * weights * before, axis=1)))


def without_dark_sheets(lumen: Lumen, problem: Problem) -> Lumen:
    """The lumen on the seeds' side of dark sheets, at each level; as it is unless ``segment.dark_sheets`` says so."""
    if problem.settings.dark_sheets == "keep" or not lumen.mask.any():
        return lumen
    voxels, off = problem.filtered.voxels, np.zeros_like(lumen.mask)
    mask = whole = fill_holes(lumen.mask)[0]  # a flap that is dark in places makes cavities
    for _ in range(MOST_SHEETS):
        found = levels(voxels, mask, problem.places, lumen.wall, problem.dark)
        sheet = dark_sheet(voxels, mask, problem.places, found, faint=not off.any())
        if sheet is None or not sheet.behind.any():
            break
        off |= sheet.sheet | sheet.behind
        mask = grow(np.where(off, -1.0, whole), problem.places[:1], 0.5)
    if not off.any():
        return lumen
    mask = grow(np.where(off | ~lumen.mask, -1.0, 1.0), problem.places[:1], 0.5)

    def family(at: Sequence[float]) -> Iterator[tuple[Box, Mask]]:
        for box, part in lumen.family(at):
            yield box, part & ~off[box]

    filled = None if lumen.occupancy is None else np.where(mask, lumen.occupancy, np.float32(0))
    record = lumen.record | {"voxels_behind_sheets": int(lumen.mask.sum() - mask.sum())}
    return replace(lumen, mask=mask, family=family, occupancy=filled, record=record)


def record_of_sheet(sheet: DarkSheet | None, mask: Mask, problem: Problem) -> dict[str, Any] | None:
    """What ``segmentation.json`` holds of it, with the words of the check.

    Parameters
    ----------
    sheet : as found.
    mask : (Z, Y, X) bool.
    problem : as posed.
    """
    if sheet is None:
        return None
    volume, size = problem.filtered, int(mask.sum())
    behind = int(sheet.behind.sum())
    share, volume_ml = max(behind, int(sheet.sheet.sum())) / size, behind * float(np.prod(volume.spacing_mm)) / 1000
    place = [round(float(x), 1) for x in volume.to_mm(sheet.place)]
    words = (
        f"a dark sheet of about {sheet.area * volume.spacing_mm[0] ** 2:.2g} mm2, thinner than the blur, lies within"
        f" the mask, its middle at {text_mm(place)} mm: it may be the flap of a dissection, or the walls of two vessels"
    )
    if (beside := _beside_cut(sheet, problem)) >= BESIDE:
        words = (
            f"a dark sheet lies within the mask, its middle at {text_mm(place)} mm, along what segment.upper leaves out"
            f" ({beside:.0%} of it are beside that): metal, calcium or bone blurs across a gap to the lumen, and a mask"
            f" holds its rim, {volume_ml:.3g} mL or a part of that. No setting is known that finds the wall there."
            f" {BY_HAND}"
        )
        return {"share": round(share, 4), "volume_ml": round(volume_ml, 5), "mm": place, "words": words}
    if sheet.one_sided:
        words += "; but brightness rises on one side of it alone, as it does where blood in one lumen is uneven, too"
    if behind:
        words += (
            f"; {volume_ml:.3g} mL, a share of {behind / size:.1%} of the mask, lie on its other side. Look at"
            " segmentation.html there: to leave them and the sheet out, set segment.dark_sheets: part"
        )
    else:
        words += (
            ", and parts nothing. Look at segmentation.html there: if it is one, raise segment.lower until it shows"
        )
    return {"share": round(share, 4), "volume_ml": round(volume_ml, 5), "mm": place, "words": words}


def _beside_cut(sheet: DarkSheet, problem: Problem) -> float:
    """Part of a sheet that lies beside voxels above ``segment.upper``; 0 where none is set."""
    if problem.settings.upper is None:
        return 0.0
    cut = problem.filtered.voxels > problem.upper
    near = ndimage.binary_dilation(cut, iterations=RIM_VOXELS)
    return float(near[sheet.sheet].mean()) if sheet.sheet.any() else 0.0
