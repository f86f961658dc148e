# SPDX-License-Identifier: Apache-2.0
"""A neighbour of hardly another brightness that hangs on the lumen by a neck, as the sac of an aneurysm does.

Bone of a few per cent more than blood, or a vein of a few per cent less, is no other brightness of single voxels, since
noise is as large. Averaged over a few voxels away from the wall, a lumen has one level, or one that changes steadily,
and a neighbour its own. The blood of a sac is that of its parent. A step without a neck may be the border of two slabs
of the images, or blood that mixes where vessels meet, and is left alone.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.filters import threshold_otsu
from skimage.segmentation import watershed

from pipeline.segmentation.levels import Levels
from pipeline.segmentation.other_brightness import LEAST_VOXELS, REACH
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.region_growing import Mask, bounding_box
from pipeline.segmentation.side_by_side import BRIDGED, Seam, seam_of
from pipeline.segmentation.wide_bodies import THROAT

AVERAGED = 1.5
"""Standard deviation, voxels, of the Gaussian over which brightness is averaged: a voxel's noise falls to a tenth."""

APART, PART = 6.0, 0.06
"""Distance of the means of two classes of averaged brightness, in their common standard deviation and in the contrast,
from which there are two levels. Steady changes make 3.5 deviations, noise 2.4 to 3.7 in vessels drawn at random, bone
of 1.16 to 2.4 times the contrast 22 to 320."""

BRIGHT = 0.5
"""What is brighter than the lumen by so much of the contrast counts as so bright."""

AROUND, AROUND_VOXELS = 3.0, 3
"""How far around a neck both are looked at for their radius: so many of its depths, and voxels more."""

RADII_FOUND = 6
"""How often the radius near a neck is found in the ball that the last one makes: a throat widens to the vessel."""

LINE_RADII, BESIDE_RADII = 2.5, 1.5
"""How far from a neck both are looked at for whether they are in line, in radii of each, and the distance from that
line that a tenth of each exceeds at most. Of vessels with a stenosis it is 0.97 to 1.03, of a vessel that a bone or a
vein touches from the side 2.0 to 2.1."""

_ALL = np.ones((3, 3, 3), bool)


def unlike_bodies(problem: Problem, mask: Mask, found: Levels, blur_voxels: float) -> list[Seam]:
    """Necks between the lumen at the seeds and a body of another level; none where seeds lie in both.

    Parameters
    ----------
    problem : as posed.
    mask : (Z, Y, X) bool without cavities.
    found : levels in and around the mask.
    blur_voxels : standard deviation of the Gaussian that blurs the wall.
    """
    box = bounding_box(mask, margin=1)
    part = mask[box]
    depth = ndimage.distance_transform_edt(np.pad(part, 1, mode="edge"))[1:-1, 1:-1, 1:-1]  # a border is no wall
    deep = depth > REACH * max(1.0, blur_voxels)
    if deep.sum() < LEAST_VOXELS:
        return []
    share = np.minimum((problem.filtered.voxels[box] - found.surroundings) / found.contrast, 1 + BRIGHT)
    level = _averaged(share, deep)
    if (split := _two_levels(level[deep])) is None:
        return []
    middle, gap = split
    _, nearest = ndimage.distance_transform_edt(~deep, return_indices=True)
    start = [side.start for side in box]
    inside = [np.clip(np.array(each[::-1]) - start, 0, np.array(deep.shape) - 1) for each in problem.places]
    seeds = [tuple(nearest[(slice(None), *place)]) for place in inside]
    sides = {bool(level[seed] > middle) for seed in seeds}
    if len(sides) > 1:
        return []
    theirs = deep & ((level > middle) != sides.pop())
    label, _ = ndimage.label(theirs, _ALL)
    body = label == np.bincount(label[theirs]).argmax()
    return [replace(seam, unlike=gap) for seam in _necks(part, depth, deep & ~theirs, body, np.array(start))]


def _averaged(share: NDArray[np.floating], deep: Mask) -> NDArray[np.floating]:
    """Averages over what lies away from the wall."""
    weight, summed = (
        ndimage.gaussian_filter(each.astype(np.float32), AVERAGED, mode="nearest")
        for each in (deep, np.where(deep, share, 0))
    )
    return np.asarray(summed / np.maximum(weight, np.finfo(np.float32).eps))


def _two_levels(values: NDArray[np.floating]) -> tuple[float, float] | None:
    """The middle and the distance of two levels; None where there are none."""
    if np.ptp(values) < PART:
        return None
    above = values > float(threshold_otsu(values))
    high, low = values[above], values[~above]
    gap = float(high.mean() - low.mean())
    within = np.sqrt((high.var() * high.size + low.var() * low.size) / values.size)
    if gap < PART or gap < APART * within:
        return None
    return float(high.mean() + low.mean()) / 2, gap


def _necks(part: Mask, depth: NDArray[np.floating], own: Mask, body: Mask, start: NDArray[np.int64]) -> list[Seam]:
    """Seams between the lumen and a body, if all of them are necks.

    Parameters
    ----------
    part : (z, y, x) bool of a box, the mask.
    depth : distance to the wall, voxels.
    own, body : what lies away from the wall in the one and in the other.
    start : corner of the box.
    """
    side = watershed(-depth, own + 2 * body.astype(np.int32), mask=part)
    faces = _faces(side)
    marked = np.zeros(part.shape, bool)
    marked[tuple(faces.reshape(-1, 3).T)] = True
    label, _ = ndimage.label(ndimage.binary_dilation(marked, _ALL, iterations=BRIDGED), _ALL)
    of_face = label[tuple(faces[:, 0].T)]
    cores = [ndimage.distance_transform_edt(~each, return_indices=True)[1] for each in (own, body)]
    found = []
    for number in np.unique(of_face):
        group = faces[of_face == number]
        across = float(depth[tuple(group.reshape(-1, 3).T)].max())
        reach = int(AROUND * across) + AROUND_VOXELS
        near = tuple(
            slice(max(int(n) - reach, 0), int(n) + reach + 1) for n in group.reshape(-1, 3).mean(axis=0).round()
        )
        radius = min(float(depth[near][side[near] == each].max()) for each in (1, 2))
        if across > THROAT * radius:
            return []
        ends = np.stack([cores[n][(slice(None), *group[:, n].T)].T for n in (0, 1)], axis=1)
        seam = seam_of(group.mean(axis=1) + start, ends + start, radius, across)
        found.append(replace(seam, in_line=_in_line(group, ends, side, depth)))
    return found


def _in_line(
    group: NDArray[np.int64], ends: NDArray[np.int64], side: NDArray[np.int32], depth: NDArray[np.floating]
) -> bool:
    """Whether both begin at a neck and go on in line with each other.

    Parameters
    ----------
    group : (n, 2, 3) z, y, x, voxels on both sides of each of its faces.
    ends : the same, the nearest ones of both cores.
    side : (z, y, x), 1 in the lumen and 2 in the body.
    depth : distance to the wall, voxels.
    """
    middle, way = group.reshape(-1, 3).mean(axis=0), (ends[:, 1] - ends[:, 0]).mean(axis=0)
    way = way / max(float(np.linalg.norm(way)), np.finfo(float).tiny)
    for number in (1, 2):
        places = np.argwhere(side == number)
        away, of_place = places - middle, depth[tuple(places.T)]
        distance, radius = np.linalg.norm(away, axis=1), 1.0
        for _ in range(RADII_FOUND):
            near = distance <= LINE_RADII * radius
            radius = max(float(of_place[near].max(initial=0.0)), radius)
        beside = np.linalg.norm(away[near] - np.outer(away[near] @ way, way), axis=1)
        if np.percentile(beside, 90) > BESIDE_RADII * radius:
            return False
    return True


def _faces(side: NDArray[np.int32]) -> NDArray[np.int64]:
    """Neighbours of which the first is of the lumen and the second of the body, (n, 2, 3) voxels z, y, x."""
    found = []
    for axis, step in enumerate(np.eye(3, dtype=np.int64)):
        for way in (step, -step):
            lumen = np.argwhere(side == 1)
            other = lumen + way
            inside = (other[:, axis] >= 0) & (other[:, axis] < side.shape[axis])
            lumen, other = lumen[inside], other[inside]
            meets = side[tuple(other.T)] == 2
            found.append(np.stack([lumen[meets], other[meets]], axis=1))
    return np.concatenate(found)
