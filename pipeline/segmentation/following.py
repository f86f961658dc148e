# SPDX-License-Identifier: Apache-2.0
"""A vessel followed beyond the ends of a mask, by the levels of lumen and tissue near each place.

Growth at one threshold ends where the lumen's level falls under it: where contrast fades along a vessel, blood flows
slowly through a slab of time of flight, or a coil's signal falls off. The next piece of a vessel is hardly dimmer than
the last one, though, and stands as clearly above the tissue beside it. So a mask goes on from its ends, about a radius
at a time, where the image is brighter than half way between the levels of the last piece and of the tissue near it. A
piece belongs to the vessel if it is about as wide: veins, organs and bone that a vessel leaks into are wider, noise is
thinner. Where the contrast sinks into the noise, it ends.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.files.volume import Volume
from pipeline.segmentation.levels import MAD_TO_SIGMA, SHELL_VOXELS, Levels, soft_tissue
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.region_growing import Box, Index, Mask, bounding_box

LENGTH = 1.5
"""Standard deviation, in radii of the vessel, of the Gaussian over which levels are averaged."""

LEAST_VOXELS = 3.0
"""The least of it, voxels."""

FADED = 0.25
"""Least contrast of a place over that of the whole: what is fainter is noise, or the vessel has ended."""

SEEN = 4.0
"""Least contrast of a place, in standard deviations of the noise, at which a vessel is followed."""

REACH_VOXELS = 3
"""How far the wall is followed outwards: half way lies within the blur of the wall."""

STEP_VOXELS = 3
"""Least length of a piece, voxels beyond those of the wall."""

THINNER, WIDER = 0.4, 1.4
"""Radius of a piece over the largest of the vessel behind it."""

BEHIND = 2.0
"""How far behind a piece the vessel's radius is looked for, in radii: a mask that fades away ends in a cone."""

BROAD = 90
"""Percentile of the radii along a mask that stands for the vessel: spurs to a rough wall are thin."""

CORE, BRIGHT_PERCENTILE = 0.5, 90
"""Part of the largest depth from which voxels are a mask's core, and the percentile of these that blood reaches."""

MOST = 200
"""Pieces in a row; a vessel is hardly ever as long."""

EVERYWHERE: Box = (slice(None), slice(None), slice(None))

_ALL = np.ones((3, 3, 3), bool)


@dataclass(frozen=True)
class Near:
    """Levels near each place of a box.

    Attributes
    ----------
    blood, tissue : (z, y, x) intensities.
    depth, away : (z, y, x) distance from the mask's wall within it and outside, voxels.
    by_depth : mean by the cube of the depth.
    """

    blood: NDArray[np.floating]
    tissue: NDArray[np.floating]
    depth: NDArray[np.floating]
    away: NDArray[np.floating]
    by_depth: "NearMean"


@dataclass(frozen=True)
class Followed:
    """A mask and what a vessel goes on with beyond its ends.

    Attributes
    ----------
    mask : (Z, Y, X) bool, with it.
    place : voxel x, y, z in the middle of the first piece of the longest; None where nothing goes on.
    added : voxels beyond the ends.
    """

    mask: Mask
    place: Index | None
    added: int


def length_of(radius: float) -> float:
    """Standard deviation of the Gaussian for levels near a place, voxels; `radius` is the vessel's mean."""
    return max(LENGTH * radius, LEAST_VOXELS)


def levels_near(
    problem: Problem, box: Box, part: Mask, found: Levels, wall: float, radius: float, reach: int | None = None
) -> Near:
    """Levels of lumen and soft tissue near each place: averages over a Gaussian, in the lumen by the cube of the depth.

    Parameters
    ----------
    problem : with the image and what is no soft tissue in it.
    box : of the volume, around the mask with the reach of the shell.
    part : (z, y, x) bool, the mask in the box.
    found : levels in and around the mask.
    wall : intensity from which nothing is soft tissue.
    radius : mean of the vessel's, voxels.
    reach : how far from the mask they are asked for, voxels; farther away they are those of all, and nothing is near.
    """
    near, length = problem.filtered.voxels[box], length_of(radius)
    within = EVERYWHERE if reach is None else bounding_box(part, margin=max(reach, SHELL_VOXELS[1] + 1) + 1)
    edged = np.pad(part[within], 1, mode="edge")  # behind the border the vessel goes on
    depth, away = np.zeros(part.shape), np.full(part.shape, np.inf)
    depth[within] = ndimage.distance_transform_edt(edged)[1:-1, 1:-1, 1:-1]
    away[within] = ndimage.distance_transform_edt(~edged)[1:-1, 1:-1, 1:-1]
    shell = (away > SHELL_VOXELS[0]) & (away <= SHELL_VOXELS[1] + 1)
    tissue = soft_tissue(near, shell, wall, problem.dark)
    core = near[part & (depth > CORE * depth.max())]
    brightest = max(found.lumen, float(np.percentile(core, BRIGHT_PERCENTILE))) + found.contrast / 2
    by_depth = NearMean(depth**3, length, within)
    blood = by_depth(np.minimum(near, brightest))
    around = np.full(near.shape, found.surroundings)
    if tissue.any():
        around = average_near(near, tissue.astype(float), length, within)
    return Near(blood, around, depth, away, by_depth)


class NearMean:
    """Weighted means over a Gaussian, of several values by the same weight; that of all where no weight is near.

    Parameters
    ----------
    weight : (z, y, x), positive somewhere.
    length : standard deviation of the Gaussian, voxels.
    within : where means are asked for, with all that has a weight; elsewhere they are that of all.

    Attributes
    ----------
    length : the same.
    """

    def __init__(self, weight: NDArray[np.floating], length: float, within: Box = EVERYWHERE) -> None:
        self.length, self._weight, self._within = length, weight, within
        weighed = weight[within] != 0
        self._weighed = bounding_box(weighed) if weighed.any() else EVERYWHERE
        self._total = self._smooth(weight)
        self._floor = 1e-6 * float(weight.mean())

    def __call__(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """Mean of values, (z, y, x), near each place."""
        weighted = values * self._weight
        whole = float(weighted.sum() / self._weight.sum())
        near = (self._smooth(weighted) + self._floor * whole) / (self._total + self._floor)
        mean = np.full(values.shape, whole, near.dtype)
        mean[self._within] = near
        return mean

    def _smooth(self, weighted: NDArray[np.floating]) -> NDArray[np.floating]:
        """What is 0 where nothing has a weight, averaged over the Gaussian: along one axis after the other, as SciPy
        does, but for lines through nothing, which are half of all and more.
        """
        own, (_, rows, columns) = weighted[self._within], self._weighed
        smooth = ndimage.gaussian_filter1d(own[:, rows, columns], self.length, 0, mode="nearest")
        wide = np.zeros((*own.shape[:2], smooth.shape[2]), smooth.dtype)
        wide[:, rows] = smooth
        smooth = ndimage.gaussian_filter1d(wide, self.length, 1, mode="nearest")
        wide = np.zeros(own.shape, smooth.dtype)
        wide[:, :, columns] = smooth
        return np.asarray(ndimage.gaussian_filter1d(wide, self.length, 2, mode="nearest"))


def average_near(
    values: NDArray[np.floating], weight: NDArray[np.floating], length: float, within: Box = EVERYWHERE
) -> NDArray[np.floating]:
    """One such mean.

    Parameters
    ----------
    values, weight : (z, y, x).
    length : standard deviation of the Gaussian, voxels.
    within : as for :class:`NearMean`.
    """
    return NearMean(weight, length, within)(values)


def least_contrast(found: Levels) -> float:
    """Contrast under which a place shows no vessel."""
    return max(FADED * found.contrast, SEEN * found.noise)


def followed(problem: Problem, mask: Mask, found: Levels, wall: float, radii: NDArray[np.floating]) -> Followed:
    """Follow a vessel beyond the ends of a mask.

    Parameters
    ----------
    problem : with the image.
    mask : (Z, Y, X) bool.
    found : levels in and around it.
    wall : intensity at its wall; from there on nothing is soft tissue.
    radii : along the vessel, voxels.
    """
    radius, wide = float(radii.mean()), float(np.percentile(radii, BROAD))
    step = REACH_VOXELS + max(STEP_VOXELS, round(wide))
    problem, mask, inside = _widened(problem, mask, step)
    closed, recent = np.zeros_like(mask), mask
    place: Index | None = None
    before = int(mask[inside].sum())
    margin = step + SHELL_VOXELS[1] + round(2 * length_of(radius))
    for _ in range(MOST):
        box = bounding_box(recent, margin=margin)
        part = mask[box]
        near = levels_near(problem, box, part, found, wall, radius, step)
        grown = _grown(problem, box, part, closed[box], near, found, step)
        fits, others = _pieces(grown & (near.away > REACH_VOXELS), near, grown, step, step + BEHIND * wide)
        closed[box] |= others
        if not fits.any():
            break
        added = grown & ~part & ~others & (ndimage.distance_transform_edt(~fits) <= step)
        label, _ = ndimage.label(part | added)
        added &= np.isin(label, np.unique(label[part]))
        if not added.any():  # what fits hangs on the mask by what does not
            break
        if place is None:
            z, y, x = (
                min(max(int(n) + side.start - step, 0), size.stop - step - 1)
                for n, side, size in zip(_middle(fits), box, inside, strict=True)
            )
            place = (x, y, z)
        mask[box] |= added
        recent = np.zeros_like(mask)
        recent[box] = added
    found_mask = mask[inside].copy()
    added_voxels = int(found_mask.sum()) - before
    return Followed(found_mask, place if added_voxels else None, added_voxels)


def _widened(problem: Problem, mask: Mask, width: int) -> tuple[Problem, Mask, Box]:
    """An image that goes on beyond its border as it is there, so that a vessel's last piece is a whole one, with its
    mask; where the image lies in it.
    """
    filtered, barrier = problem.filtered, problem.barrier
    x, y, z = filtered.to_mm([-width] * 3).tolist()
    voxels = np.pad(filtered.voxels, width, mode="edge")
    wide = replace(
        problem,
        filtered=Volume(voxels, filtered.spacing_mm, (x, y, z), filtered.direction),
        barrier=None if barrier is None else np.pad(barrier, width, mode="edge"),
    )
    rows, columns, planes = (slice(width, width + n) for n in mask.shape[::-1])
    return wide, np.pad(mask, width, mode="edge"), (planes, columns, rows)


def _grown(
    problem: Problem,
    box: Box,
    part: Mask,
    closed: Mask,
    near: Near,
    found: Levels,
    step: int,
) -> Mask:
    """A mask with what is bright beside it, up to a step away."""
    voxels = problem.filtered.voxels[box]
    contrast = np.maximum(near.blood - near.tissue, least_contrast(found))
    bright = (voxels >= near.tissue + contrast / 2) & (voxels <= problem.upper) & (near.away <= step) & ~closed
    if problem.barrier is not None:
        bright &= ~problem.barrier[box]
    label, _ = ndimage.label(part | bright)
    return np.isin(label, np.unique(label[part]))


def _pieces(front: Mask, near: Near, grown: Mask, step: int, behind_voxels: float) -> tuple[Mask, Mask]:
    """Pieces beyond the wall that are about as wide as the vessel behind them, and the others."""
    label, _ = ndimage.label(front, _ALL)
    fits, others = np.zeros_like(front), np.zeros_like(front)
    reach = int(np.ceil(behind_voxels))
    for number, box in enumerate(ndimage.find_objects(label), start=1):
        around = tuple(slice(max(axis.start - reach, 0), axis.stop + reach) for axis in box)
        piece = label[around] == number
        within = ndimage.distance_transform_edt(~piece) <= reach
        behind = float(near.depth[around][within].max())
        width = float(np.sqrt(piece.sum() / (step - REACH_VOXELS) / np.pi))
        deep = float(
            ndimage.distance_transform_edt(np.pad(grown[around], 1, mode="edge"))[1:-1, 1:-1, 1:-1][piece].max()
        )
        wide = WIDER * behind + 1
        good = THINNER * behind <= width <= wide and deep <= wide
        (fits if good else others)[around] |= piece
    return fits, others


def _middle(mask: Mask) -> tuple[int, ...]:
    """The deepest voxel z, y, x of a mask."""
    depth = ndimage.distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1, 1:-1]
    return tuple(int(n) for n in np.unravel_index(int(depth.argmax()), depth.shape))


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
    mean = average_near(near, np.where(part, depth**3, 0.0), length_of(radius))
    core = part & (depth > radius / 2)
    return float(MAD_TO_SIGMA * np.median(np.abs(near - mean)[core]))
