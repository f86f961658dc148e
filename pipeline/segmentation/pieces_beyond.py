# SPDX-License-Identifier: Apache-2.0
"""Ends of a mask, and ends of what lies beyond it as bright as the lumen, that face each other.

A vein or a bone that passes beyond an end turns its side to it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial import cKDTree
from skimage.graph import route_through_array

from pipeline.segmentation.barrier import barrier
from pipeline.segmentation.levels import Levels
from pipeline.segmentation.problem import Lumen, Problem
from pipeline.segmentation.region_growing import Box, Index, Mask, bounding_box, centre_line

LEAST_SHARE = 0.03
"""Volume of what lies beyond, over that of the mask, from which it is looked at: the accuracy of a volume."""

LEAST_PIECE = 0.015
"""The same of what of it is as bright as half way: behind a dim place up to a half is not."""

BALL_RADII = 3.0
"""Radius of the ball around an end whose part of the vessel tells its axis, in radii of the vessel there."""

REACH_RADII, REACH_VOXELS = 6.0, 3.0
"""How far beyond an end another is looked for, in radii and voxels more: the middle line ends a radius before it."""

WIDER = 2.0
"""The ball around the other end has at least so many radii of the end of the mask."""

CONE = 60.0
"""Angle to the axis of the end, degrees, within which it is looked for."""

BENDS = 30.0
"""Largest angle, degrees, between the axis of either end and the way from one to the other. Of vessels with an
occlusion, drawn at random, it was at most 21."""

LENGTHWISE, SLENDER = 0.8, 1.2
"""Least cosine between the way out of a ball's part of a vessel and its longest axis, and least length of that axis
over that of the next: a ball around a place on the side of a vessel has its longest axis across the way out."""

LEAST_WIDTH = 0.4
"""Radius of the thinner of the two ends over that of the other, at least."""

BRIGHTNESS = (0.5, 1.5)
"""Brightness of what lies beyond over that of the end, above the surroundings."""

CORE, NEAR_RADII = 0.7, 10.0
"""Radius of a core without signal that is taken for a part of the vessel, as a jet has it in MR, and how far from the
end, both in radii of the vessel."""

RIM = 2
"""Voxels around a mask by levels near each place that may be as bright as its wall elsewhere."""

_ALL = np.ones((3, 3, 3), bool)

Place = tuple[int, int, int]
"""A voxel z, y, x."""


@dataclass(frozen=True)
class End:
    """An end of a vessel.

    Attributes
    ----------
    place : voxel z, y, x.
    middle : (3,) centre of what of the vessel lies in the ball around it, voxels z, y, x.
    deepest : voxel z, y, x of it that is farthest from the wall.
    out : (3,) direction out of the vessel, z, y, x.
    radius : largest within the ball, voxels.
    brightness : median of the middle of the vessel there.
    """

    place: Place
    middle: NDArray[np.floating]
    deepest: NDArray[np.int64]
    out: NDArray[np.floating]
    radius: float
    brightness: float


@dataclass(frozen=True)
class Gap:
    """A gap between an end of a mask and what goes on beyond it.

    Attributes
    ----------
    end : voxel x, y, z of the mask's end.
    place : voxel x, y, z in the middle of the gap.
    length : voxels, along the way between both.
    least : brightness at the darkest place of the way, over the contrast.
    way : (n, 3) voxels z, y, x from within one end to within the other, each a neighbour of the next by a face.
    beyond : voxel x, y, z in the middle of what lies beyond, near its end.
    size : voxels of what lies beyond.
    """

    end: Index
    place: Index
    length: float
    least: float
    way: NDArray[np.int64]
    beyond: Index
    size: int


def searched(problem: Problem, lumen: Lumen, mask: Mask, found: Levels) -> "Search | None":
    """Ends of a mask and of the pieces beyond them; None where there is no such piece near it.

    Parameters
    ----------
    problem : with the image.
    lumen : as found.
    mask : (Z, Y, X) bool, the same with its cavities filled.
    found : levels in and around the mask.
    """
    pieces = _beyond(problem, lumen, mask, found)
    search = Search(problem, mask, pieces, found) if pieces.any() else None
    return search if search and search.pieces.any() else None


def _beyond(problem: Problem, lumen: Lumen, mask: Mask, found: Levels) -> NDArray[np.int32]:
    """Numbered pieces, (Z, Y, X), as bright as the lumen, that nothing as bright joins to the mask; or that the levels
    near each place have parted from it.
    """
    voxels = problem.filtered.voxels
    label, _ = ndimage.label((voxels >= lumen.wall) & (voxels <= problem.upper))
    if lumen.even is None:
        own = np.bincount(label[mask], minlength=int(label.max()) + 1) > 0
        own[0] = True
        apart = ~own[label] & ~mask
    else:  # the levels near each place may have parted what one threshold joins
        apart = (label > 0) & ~ndimage.binary_dilation(mask, iterations=RIM)
    half_way = (found.lumen + found.surroundings) / 2
    label, count = ndimage.label(apart & (voxels >= half_way))
    large = np.bincount(label.ravel(), minlength=count + 1) >= LEAST_PIECE * mask.sum()
    large[0] = False
    return np.where(large[label], label, 0).astype(np.int32)


class Search:
    """Ends of a mask and of the pieces beyond, in a box around the mask.

    Parameters
    ----------
    problem : with the image.
    mask : (Z, Y, X) bool without cavities.
    pieces : (Z, Y, X) numbers of what lies beyond, 0 elsewhere.
    found : levels in and around the mask.
    """

    def __init__(self, problem: Problem, mask: Mask, pieces: NDArray[np.int32], found: Levels) -> None:
        line, radii = centre_line(mask)
        box = bounding_box(mask, margin=int(2 * REACH_RADII * radii.max() + REACH_VOXELS))
        self.start = np.array([side.start for side in box])
        self.line, self.radius = line - self.start, float(radii.mean())
        self.mask, self.pieces, self.voxels = mask[box], pieces[box], int(mask.sum())
        self.share = (problem.filtered.voxels[box] - found.surroundings) / found.contrast
        depths = [np.pad(part, 1, mode="edge") for part in (self.mask, self.pieces > 0)]  # behind a border it goes on
        self.depth = sum(ndimage.distance_transform_edt(part)[1:-1, 1:-1, 1:-1] for part in depths)
        self.beyond = np.argwhere(self.pieces)
        self.numbers = self.pieces[tuple(self.beyond.T)]
        self.sizes = np.bincount(pieces.ravel())
        self._cut = barrier(problem.settings.cut_planes, problem.filtered)

    def share_of(self, number: int) -> float:
        """Voxels of a piece over those of the mask."""
        return float(self.sizes[number] / self.voxels)

    def number_at(self, voxel: Index) -> int:
        """The number of the piece that holds a voxel x, y, z of the image."""
        return int(self.pieces[tuple(np.array(voxel[::-1]) - self.start)])

    def is_cut(self, gap: Gap) -> bool:
        """Whether a disc of the user's cuts the way over a gap."""
        return self._cut is not None and bool(self._cut[tuple(gap.way.T)].any())

    def ends(self) -> Iterator[End]:
        """Ends of the mask, where its middle line ends, and what of the mask is nearest to a piece.

        Thinning may leave little of the line of a short vessel.
        """
        line, radius = self.line, self.radius
        on_line = np.zeros(self.mask.shape, np.uint8)
        on_line[tuple(line.T)] = 1
        neighbours = ndimage.convolve(on_line, _ALL.astype(np.uint8), mode="constant")
        for z, y, x in line[neighbours[tuple(line.T)] <= 2]:
            if (end := self.end_of(self.mask, (int(z), int(y), int(x)))) is not None:
                yield end
        for (z, y, x), _ in self.nearest:
            if (end := self.end_of(self.mask, (z, y, x), least=BALL_RADII * radius)) is not None:
                yield end

    @cached_property
    def nearest(self) -> list[tuple[Place, Place]]:
        """What of the mask is nearest to each piece within reach, voxels z, y, x, and what of the piece to that."""
        reach = REACH_RADII * self.radius + REACH_VOXELS
        walls = [np.argwhere(part & ~ndimage.binary_erosion(part)) for part in (self.mask, self.pieces > 0)]
        away, own = cKDTree(walls[0]).query(walls[1], distance_upper_bound=reach)
        numbers = self.pieces[tuple(walls[1].T)]
        least = ndimage.minimum_position(away, numbers, np.unique(numbers))
        near = [row for (row,) in least if np.isfinite(away[row])]
        return [(_place(walls[0][own[row]]), _place(walls[1][row])) for row in near]

    def across(self, end: End) -> Iterator[tuple[int, End]]:
        """Pieces whose ends face an end, with the number of each."""
        ways = self.beyond - np.array(end.place)
        away = np.linalg.norm(ways, axis=1)
        ahead = (ways @ end.out) > np.cos(np.radians(CONE)) * away
        near = ahead & (away <= REACH_RADII * end.radius + REACH_VOXELS)
        for number in np.unique(self.numbers[near]):
            own = np.flatnonzero(near & (self.numbers == number))
            z, y, x = (int(n) for n in self.beyond[own[away[own].argmin()]])
            part = self.pieces == number
            other = self.end_of(part, (z, y, x), least=WIDER * end.radius)
            if other is None or not _in_line(end, other):
                other = self._end_with_core(part, end)
            if other is not None and _in_line(end, other):
                yield int(number), other

    def _end_with_core(self, part: Mask, end: End) -> End | None:
        """The end of a piece that faces an end of the mask, with a core without signal in it; None where it has none.

        Around the core a jet leaves a ring of the vessel alone, whose nearest place lies beside the axis.
        """
        reach = CORE * end.radius
        margin, far = int(np.ceil(reach)) + 1, int(np.ceil(NEAR_RADII * end.radius))
        low = np.maximum(np.array(end.place) - far, 0)
        box = tuple(slice(int(a), n + far + 1) for a, n in zip(low, end.place, strict=True))
        inner = (slice(margin, -margin),) * 3
        near = np.pad(part[box], margin, mode="edge")
        grown = ndimage.distance_transform_edt(~near) <= reach
        core = (ndimage.distance_transform_edt(grown) > reach)[inner] & ~part[box] & ~self.mask[box]
        if not core.any():
            return None
        whole, depth = part.copy(), self.depth.copy()
        whole[box] |= core
        depth[box] = ndimage.distance_transform_edt(np.pad(whole[box], 1, mode="edge"))[1:-1, 1:-1, 1:-1]
        ways = np.argwhere(whole[box]) + low - np.array(end.place)
        ahead = ways[(ways @ end.out) > np.cos(np.radians(CONE)) * np.linalg.norm(ways, axis=1)]
        if not len(ahead):
            return None
        z, y, x = (int(n) for n in ahead[np.linalg.norm(ahead, axis=1).argmin()] + np.array(end.place))
        return self.end_of(whole, (z, y, x), WIDER * end.radius, depth, part)

    def end_of(
        self,
        part: Mask,
        place: Place,
        least: float = 0.0,
        depth: NDArray[np.floating] | None = None,
        bright: Mask | None = None,
    ) -> End | None:
        """What of a vessel lies around a place, as an end; None where it is none.

        The ball grows until its radius is so many times that of the vessel in it, which tapers towards a stenosis.

        Parameters
        ----------
        part : the vessel.
        place : voxel z, y, x in it.
        least : radius of the ball.
        depth : in the vessel; None: that in mask and pieces.
        bright : where the vessel has a signal; None: everywhere.
        """
        reach, radius = max(least, BALL_RADII), 0.0
        depth = self.depth if depth is None else depth
        while True:
            ball, low = self._ball(part, place, reach)
            radius = float(depth[tuple((ball + low).T)].max())
            if BALL_RADII * radius <= reach:
                break
            reach = BALL_RADII * radius
        points = ball + low
        if len(points) < len(part.shape) + 1:
            return None
        middle = points.mean(axis=0)
        lengths, axes = np.linalg.eigh(np.cov(points.T))
        out = np.array(place) - middle
        out /= max(float(np.linalg.norm(out)), np.finfo(float).tiny)
        if abs(axes[:, 2] @ out) < LENGTHWISE or lengths[2] < SLENDER**2 * lengths[1]:
            return None
        seen = points if bright is None else points[bright[tuple(points.T)]]
        deep = seen[depth[tuple(seen.T)] > radius / 2]
        deep = deep if len(deep) else seen
        deepest = seen[depth[tuple(seen.T)].argmax()]
        return End(place, middle, deepest, out, radius, float(np.median(self.share[tuple(deep.T)])))

    @staticmethod
    def _ball(part: Mask, place: Place, reach: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What of a mask is joined to a place within a ball, (n, 3) voxels z, y, x of a box, and the box's corner."""
        low = np.maximum(np.array(place) - int(reach), 0)
        near = part[tuple(slice(int(a), n + int(reach) + 1) for a, n in zip(low, place, strict=True))]
        away = np.moveaxis(np.indices(near.shape), 0, -1) + low - place
        label, _ = ndimage.label(near & ((away**2).sum(axis=-1) <= reach**2), _ALL)
        return np.argwhere(label == label[tuple(np.array(place) - low)]), low

    def gap(self, place: Place, radius: float, other: End, number: int) -> Gap:
        """The gap between the mask and the end of a piece, along the brightest way.

        Parameters
        ----------
        place : voxel z, y, x of the mask.
        radius : of the vessel there, voxels.
        other : end of the piece.
        number : of the piece.
        """
        margin = int(radius) + 1
        low = np.maximum(np.minimum(place, other.deepest) - margin, 0)
        high = np.maximum(place, other.deepest) + margin + 1
        box: Box = tuple(slice(int(a), int(b)) for a, b in zip(low, high, strict=True))  # type: ignore[assignment]
        dark = 1 - np.clip(self.share[box], 0, 1)
        way, _ = route_through_array(
            (0.05 + dark) ** 2, np.array(place) - low, other.deepest - low, fully_connected=False
        )
        places = np.array(way) + low
        between = places[~self.mask[tuple(places.T)] & (self.pieces[tuple(places.T)] != number)]
        between = between if len(between) else places[:1]

        def index(place: NDArray[np.int64]) -> Index:
            z, y, x = _place(place + self.start)
            return x, y, z

        return Gap(
            end=index(np.array(place)),
            place=index(between[len(between) // 2]),
            length=float(np.linalg.norm(between[-1] - between[0])) + 1,
            least=float(self.share[tuple(between.T)].min()),
            way=places + self.start,
            beyond=index(other.deepest),
            size=int(self.sizes[number]),
        )


def _place(voxel: NDArray[np.int64]) -> Place:
    z, y, x = (int(n) for n in voxel)
    return z, y, x


def _in_line(end: End, other: End) -> bool:
    """Whether what begins at another end may be the same vessel."""
    way = other.middle - end.middle
    way /= np.linalg.norm(way)
    straight = min(end.out @ way, -other.out @ way) > np.cos(np.radians(BENDS))
    wide = LEAST_WIDTH < other.radius / end.radius < 1 / LEAST_WIDTH
    return bool(straight and wide and BRIGHTNESS[0] < other.brightness / end.brightness < BRIGHTNESS[1])
