# SPDX-License-Identifier: Apache-2.0
"""Cut planes along a seam of two lumens, how much of a mask lies behind it, and the words for both."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.case.settings.images import CutPlane
from pipeline.files.volume import Volume
from pipeline.segmentation.barrier import barrier, planes_text
from pipeline.segmentation.point_text import text_mm
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.region_growing import Mask
from pipeline.segmentation.seeds import with_points
from pipeline.segmentation.side_by_side import Seam, is_near, principal_axes, seams
from pipeline.segmentation.throat_cut import least_cut

MOST_PLANES = 8
"""So many discs, one behind the other along a seam, are tried at most."""

RIM_VOXELS = 1.5
"""How far a disc reaches beyond its part of the seam, at first; up to `WIDER` voxels more are tried."""

WIDER = (0.0, 1.5, 3.0)

PARTED = 0.95
"""Least part of the faces of a seam whose sides no longer hang together nearby, where discs part it."""

FREE = 0.5
"""Least part of them whose sides, which lie in the cores, the discs do not touch."""

AROUND = 2.0
"""How far around a seam both sides must not hang together, in radii."""


@dataclass(frozen=True, eq=False)  # as of seams
class Touch:
    """Where lumens touch.

    Attributes
    ----------
    seam : of both.
    planes : cut planes that part them, tried; none where none was found.
    tried : (Z, Y, X) bool, the mask on which they were.
    """

    seam: Seam
    planes: tuple[CutPlane, ...]
    tried: Mask


def touches(mask: Mask, volume: Volume, unlike: Sequence[Seam], wider: Mask) -> list[Touch]:
    """Where lumens of a mask touch, with what parts them.

    Parameters
    ----------
    mask : (Z, Y, X) bool without cavities.
    volume : its grid, isotropic.
    unlike : necks that brightness tells of; those that shape tells of, too, come once.
    wider : the mask at a threshold a step lower, whose necks are to be parted.
    """
    found = seams(mask)
    found += [each for each in unlike if not any(is_near(each, other) for other in found)]
    tried = [(seam, wider if seam.unlike else mask) for seam in found]
    return [Touch(seam, _planes(seam, each, volume), each) for seam, each in tried]


def _planes(seam: Seam, mask: Mask, volume: Volume) -> tuple[CutPlane, ...]:
    """The fewest discs that part a seam, or the least across a short one; none where none does."""
    for count in range(1, MOST_PLANES + 1):
        for wider in WIDER:
            planes = _discs(seam, count, RIM_VOXELS + wider, volume)
            if _part(planes, seam, mask, volume):
                return planes
    z, y, x = (int(n) for n in seam.points[np.linalg.norm(seam.points - seam.points.mean(axis=0), axis=1).argmin()])
    least = least_cut(mask, (z, y, x), max(seam.depth, 1.0), volume)  # few faces of voxels tell no direction
    for wider in WIDER:
        radius_mm = round((least.radius_mm or 0.0) + wider * volume.spacing_mm[0], 2)
        if _part(planes := (least.model_copy(update={"radius_mm": radius_mm}),), seam, mask, volume):
            return planes
    return ()


def _part(planes: tuple[CutPlane, ...], seam: Seam, mask: Mask, volume: Volume) -> bool:
    """Whether discs part both sides of a seam from each other near it."""
    low = np.maximum(seam.points.min(axis=0).astype(int) - int(AROUND * seam.radius) - 2, 0)
    high = np.minimum(seam.points.max(axis=0).astype(int) + int(AROUND * seam.radius) + 3, mask.shape)
    near = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
    x, y, z = (float(each) for each in volume.to_mm(low[::-1]))
    part = Volume(mask[near], volume.spacing_mm, (x, y, z), volume.direction)
    sides = np.clip(seam.sides - low, 0, high - low - 1)
    cut = barrier(planes, part)
    label, _ = ndimage.label(part.voxels if cut is None else part.voxels & ~cut)
    one, other = label[tuple(np.moveaxis(sides, -1, 0))].T
    free = (one > 0) & (other > 0)  # of the discs themselves
    return bool(free.mean() >= FREE and np.mean((one != other)[free]) >= PARTED)


def _on_the_other_side(touch: Touch, own: int, volume: Volume) -> Touch:
    """The same with discs whose layer of voxels lies behind the seam, as far as they part it there: it is no lumen."""
    seam = touch.seam
    way = volume.direction @ (seam.sides[:, 1 - own] - seam.sides[:, own]).mean(axis=0)[::-1]
    for share, wider in product((1.0, 0.5), WIDER):
        planes = tuple(_moved(plane, share, wider, way, volume) for plane in touch.planes)
        if _part(planes, seam, touch.tried, volume):
            return replace(touch, planes=planes)
    return touch


def _moved(plane: CutPlane, share: float, wider: float, way: NDArray[np.floating], volume: Volume) -> CutPlane:
    """A disc moved along its normal by a share of half of its layer, and wider by some voxels."""
    normal = np.array(plane.normal) / np.linalg.norm(plane.normal)
    half = float(np.max(np.abs(normal @ volume.direction) * volume.spacing_mm)) / 2
    x, y, z = np.round(plane.point_mm + share * half * np.sign(normal @ way) * normal, 2).tolist()
    radius_mm = round((plane.radius_mm or 0.0) + wider * volume.spacing_mm[0], 2)
    return CutPlane(point_mm=(x, y, z), normal=plane.normal, radius_mm=radius_mm)


def _discs(seam: Seam, count: int, rim: float, volume: Volume) -> tuple[CutPlane, ...]:
    """Discs through equal parts of a seam along its length."""
    along = seam.points @ principal_axes(seam.points)[:, 0]
    bounds = np.linspace(along.min(), along.max(), count + 1)[1:-1]
    parts = [seam.points[np.searchsorted(bounds, along) == k] for k in range(count)]
    return tuple(_disc(points, rim, volume) for points in parts if len(points) >= 3)


def _disc(points: NDArray[np.floating], rim: float, volume: Volume) -> CutPlane:
    normal = principal_axes(points)[:, 2]
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    middle = middle + ((points.mean(axis=0) - middle) @ normal) * normal
    away = points - middle
    reach = np.linalg.norm(away - np.outer(away @ normal, normal), axis=1).max() + rim
    px, py, pz = (round(float(each), 2) for each in volume.to_mm(middle[::-1]))
    nx, ny, nz = (round(float(each), 3) + 0.0 for each in volume.direction @ normal[::-1])
    return CutPlane(point_mm=(px, py, pz), normal=(nx, ny, nz), radius_mm=round(reach * volume.spacing_mm[0], 2))


def record_of_touches(
    mask: Mask, problem: Problem, unlike: Sequence[Seam] = (), step: float = 0.0
) -> dict[str, Any] | None:
    """What ``segmentation.json`` holds of lumens that touch, with the words of the check, and whether discs that were
    tried part them; None where none touch.

    Where seeds lie on both sides, both are meant.

    Parameters
    ----------
    mask : (Z, Y, X) bool without cavities.
    problem : as posed.
    unlike : necks that brightness tells of.
    step : of the threshold, by which the guard of leaks lowers it.
    """
    filtered, found = problem.filtered, list[tuple[Touch, Mask]]()
    wider = mask | (filtered.voxels >= problem.lower - step) & (filtered.voxels <= problem.upper)
    for touch in touches(mask, filtered, unlike, wider):
        behind = _behind_it(touch, mask, problem)
        if behind is not None:
            found.append(behind)
    if not found:
        return None
    planes = tuple(plane for touch, _ in found for plane in touch.planes)
    behind = np.any([each for _, each in found], axis=0)
    seam_voxels = sum(len(touch.seam.points) for touch, _ in found)
    share = max(int(behind.sum()), seam_voxels) / int(mask.sum())
    volume_ml = float(behind.sum() * np.prod(filtered.spacing_mm)) / 1000
    (first, _), spacing_mm = found[0], filtered.spacing_mm[0]
    middle = first.seam.points[np.linalg.norm(first.seam.points - first.seam.points.mean(axis=0), axis=1).argmin()]
    place = [round(float(each), 1) for each in filtered.to_mm(middle[::-1])]
    words = (
        f"two lumens touch at {text_mm(place)} mm over {first.seam.length * spacing_mm:.2g} mm, joined by"
        f" {2 * first.seam.depth * spacing_mm:.2g} mm where the narrower is {2 * first.seam.radius * spacing_mm:.2g} mm"
        f" wide{_unlike(first.seam)}: {_behind(volume_ml, share)}. Look at segmentation.html there: "
    )
    parted = all(touch.planes for touch, _ in found)
    words += _one_vessel(first.seam, problem) if all(touch.seam.in_line for touch, _ in found) else ""
    words += _remedy(planes, parted, problem)
    beside = max(0.0 if touch.seam.in_line else touch.seam.unlike for touch, _ in found)
    record = {"share": round(share, 4), "volume_ml": round(volume_ml, 5), "mm": place, "parted": parted}
    return record | {"unlike": round(beside, 4), "words": words}


def _unlike(seam: Seam) -> str:
    return f", and their brightness differs by {seam.unlike:.0%} of the contrast" if seam.unlike else ""


def _behind(volume_ml: float, share: float) -> str:
    if not volume_ml:
        return "the vessel touches itself, and blood would take a short cut there"
    return f"{volume_ml:.3g} mL, a share of {share:.1%} of the mask, lie behind, perhaps a vein, a false lumen or bone"


def _one_vessel(seam: Seam, problem: Problem) -> str:
    """The seed that says that both are one vessel, as it is beyond a stenosis."""
    z, y, x = seam.sides[np.linalg.norm(seam.sides[:, 1] - seam.sides[:, 1].mean(axis=0), axis=1).argmin(), 1].tolist()
    beyond: list[float] = problem.filtered.to_mm((x, y, z)).tolist()
    seeds = with_points([*(list(seed.point_mm) for seed in problem.seeds), beyond], problem.settings)
    return f"both are in line, as a vessel is with what goes on beyond a stenosis: if it is one, set {seeds}; else "


def _remedy(planes: tuple[CutPlane, ...], parted: bool, problem: Problem) -> str:
    if parted:
        every = planes_text((*problem.settings.cut_planes, *planes))
        part = f"to part them by discs, tried on this mask, set segment.cut_planes: {every}"
    else:
        part = "part them by discs marked on pick.html (segment.cut_planes), or narrow the region (filter.region_mm)"
    return f"{part}; if both are one vessel, give a seed in each of them"


def _behind_it(touch: Touch, mask: Mask, problem: Problem) -> tuple[Touch, Mask] | None:
    """What of a mask lies behind a seam, seen from the seeds; nothing where the vessel touches itself, and None where
    seeds lie on both sides.
    """
    label = _parts(touch, mask, problem.filtered)
    one, other = (_most(label[tuple(side.T)]) for side in np.moveaxis(touch.seam.sides, 1, 0))
    if one == other:
        return touch, np.zeros_like(mask)
    seeds = [place[::-1] for place in problem.places]
    own = {int(label[seed]) for seed in seeds} - {0}
    if {one, other} <= own:
        return None
    if touch.planes and own & {one, other}:
        touch = _on_the_other_side(touch, 0 if one in own else 1, problem.filtered)
    cut = barrier(touch.planes, problem.filtered)
    if cut is not None and any(cut[seed] for seed in seeds):
        touch = replace(touch, planes=())  # the disc would be refused
    if touch.planes or cut is not None:
        label = _parts(touch, mask, problem.filtered)
        own = {int(label[seed]) for seed in seeds} - {0}
    return touch, np.asarray((label > 0) & ~np.isin(label, sorted(own)))


def _parts(touch: Touch, mask: Mask, volume: Volume) -> NDArray[np.int32]:
    """The mask without the discs of a seam, or without the seam itself where there are none; its parts by number."""
    cut = barrier(touch.planes, volume)
    if cut is None:
        cut = np.zeros_like(mask)
        for step in (np.floor, np.ceil):
            cut[tuple(step(touch.seam.points).astype(int).T)] = True
        cut = ndimage.binary_dilation(cut)
    label, _ = ndimage.label(mask & ~cut)
    return np.asarray(label)


def _most(labels: NDArray[np.integer]) -> int:
    """The label that most have, but for 0."""
    return int(np.bincount(labels[labels > 0], minlength=1).argmax())
