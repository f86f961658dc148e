# SPDX-License-Identifier: Apache-2.0
"""What a mask covers of the region's faces: vessels that the border cuts, or a leak that has reached it.

The part of a face that is covered tells little: a small image around a large vessel has much of its faces covered. So
each section, a connected part of a face, is looked at: its shape, its intensity, what lies behind it, and the way to it
from the seeds. A vessel has a round section, as bright as at the seeds, that hardly changes for a while behind the
face; it is not much wider than at the seed nearest in width, and nowhere much narrower on the way. A leak spreads to
the edges of the face, is ragged, darker or brighter, or hangs on the vessel by a neck.

Measured on vessels of radius 6 to 22 mm in tight crops and on leaks, both drawn at random
(docs/validation/segmentation.md).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.morphology import convex_hull_image

from pipeline.segmentation.region_growing import Index, Mask, deepest, fill_holes

SOLID = 0.85
"""Least area of a section over that of its convex hull; of vessels 0.93, of two that touch 0.88."""

SLENDER = 3.0
"""Largest area of a section over that of the largest circle in it: an ellipse of a vessel 70 degrees askew."""

ON_EDGES = 0.5
"""Largest part of a section's rim at the edges of the face; of vessels that leave through a corner up to 0.46."""

DARK, BRIGHT = 0.65, 1.5
"""Least intensity of a section's core (a fifth may be darker), and largest of its median, from 0, the threshold, to 1,
the seeds. Vessels have 0.84 and 1.08; coils of MR and inflow take and give more."""

LEAST_BEHIND, MOST_BEHIND = 0.55, 2.5
"""Least and largest area of what lies behind a section over its own; of vessels 0.71 and 1.95, of a ball more or less.
"""

BEHIND_RADII = 2.5
"""How far behind the face that is examined, in radii."""

FREE_OF_EDGES = 0.05
"""Part of the rim on edges up to which a section is whole: one that an edge cuts grows behind the face."""

WIDER = 2.0
"""Largest radius of a section over that at a seed: an aorta has 1.7 times that of its iliac arteries."""

WAY = 0.65
"""Least radius on the way from a seed, over the smaller one at its ends; of vessels 0.8."""

SMALL, SMALL_TOGETHER = 0.05, 0.1
"""Sections below this part of what is covered are passed over, as long as they are no more than the second together."""

SMALLEST = 3.0
"""Least radius of a section, pixels, whose brightness and surroundings can be judged."""

CORE = 2
"""Pixels from the wall at which blur is no longer seen."""

NEIGHBOURS = np.ones((3, 3), bool)
"""Pixels that touch, by an edge or a corner."""

Measure = tuple[str, float, float, float]
"""Name of a measure of a section, its value, and between which values that of a vessel lies."""


@dataclass(frozen=True)
class Grown:
    """A mask in its image.

    Attributes
    ----------
    mask : (Z, Y, X) bool.
    voxels : intensities, (Z, Y, X).
    seeds : voxels x, y, z.
    wall : intensity at the wall.
    """

    mask: Mask
    voxels: NDArray[np.floating]
    seeds: Sequence[Index]
    wall: float

    @cached_property
    def level(self) -> float:
        """Median intensity around the seeds."""
        around = [tuple(slice(max(n - 1, 0), n + 2) for n in seed[::-1]) for seed in self.seeds]
        return float(np.median(np.concatenate([self.voxels[near].ravel() for near in around])))

    @cached_property
    def depth(self) -> NDArray[np.floating]:
        """Distance of each voxel to the wall, in voxels; behind the border the vessel goes on."""
        return np.asarray(ndimage.distance_transform_edt(fill_holes(self.mask)[0])) - 0.5

    @cached_property
    def middles(self) -> list[Index]:
        """The middle of the vessel at each seed, indices z, y, x."""
        return [deepest(self.depth, deepest(self.depth, (z, y, x))) for x, y, z in self.seeds]


@dataclass(frozen=True)
class Section:
    """One connected part of a face that a mask covers.

    Attributes
    ----------
    grown : the mask.
    axis, last : axis of the array that the face is perpendicular to, and whether it is the face at that axis's end.
    pixels : (a, b) bool over the face.
    """

    grown: Grown
    axis: int
    last: bool
    pixels: Mask

    @property
    def index(self) -> list[float]:
        """Its middle on the face, continuous index x, y, z."""
        place = np.argwhere(self.pixels).mean(axis=0).tolist()
        place.insert(self.axis, self.grown.mask.shape[self.axis] - 0.5 if self.last else -0.5)
        return place[::-1]

    @cached_property
    def filled(self) -> Mask:
        """Without holes."""
        return np.asarray(ndimage.binary_fill_holes(self.pixels))

    @cached_property
    def radius(self) -> float:
        """Of the largest circle on the face, in pixels; the edges of the face are wall."""
        return float(ndimage.distance_transform_edt(np.pad(self.filled, 1)).max()) - 0.5

    @cached_property
    def ball(self) -> tuple[float, Index]:
        """Radius of the largest ball right behind the section, and its middle z, y, x."""
        depth = self.inwards(self.grown.depth)
        near = np.where(self.pixels, depth[: int(np.ceil(self.radius)) + 1], -1)
        n, *place = (int(k) for k in np.unravel_index(int(near.argmax()), near.shape))
        place.insert(self.axis, len(depth) - 1 - n if self.last else n)
        return float(near.max()), (place[0], place[1], place[2])

    def inwards(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """The layers of an array from the face on, (n, a, b)."""
        layers = np.moveaxis(values, self.axis, 0)
        return layers[::-1] if self.last else layers

    def measures(self) -> Iterator[Measure]:
        """What tells a vessel from a leak, the quickest first."""
        on_edges = self._on_edges()
        yield from self._outline(on_edges)
        yield from self._brightness()
        yield from self._behind_it(on_edges)
        yield from self._of_the_seeds()

    def sure_measures(self, fades: bool) -> Iterator[Measure]:
        """Those that hold for a section that a face cuts out of a vessel's side, a fork or a tree's other end, too.

        Where the signal fades with the distance to the coils of MR or with slow flow, a vessel may be dark.
        """
        yield from (each for each in self._brightness() if not (fades and each[0].startswith("intensity")))
        yield from (each for each in self._behind_it(self._on_edges()) if each[0].startswith("least"))
        yield self._width()

    def _outline(self, on_edges: float) -> Iterator[Measure]:
        yield "part of its rim at the edges of the face", on_edges, 0, ON_EDGES
        yield "area over that of its convex hull", self.pixels.sum() / convex_hull_image(self.pixels).sum(), SOLID, 1
        slenderness = self.filled.sum() / (np.pi * self.radius**2)
        yield "area over that of the largest circle in it", slenderness, 0, SLENDER

    def _brightness(self) -> Iterator[Measure]:
        dark, middle = self._intensities()
        yield "intensity of its darkest fifth (0 the threshold, 1 the seed)", dark, DARK, np.inf
        yield "median intensity (0 the threshold, 1 the seed)", middle, 0, BRIGHT

    def _behind_it(self, on_edges: float) -> Iterator[Measure]:
        if on_edges <= FREE_OF_EDGES:
            behind = self._behind()
            yield "least area behind it over its own", behind.min(), LEAST_BEHIND, 1
            yield "largest area behind it over its own", behind.max(), 1, MOST_BEHIND

    def _width(self) -> Measure:
        wider = [self.ball[0] / float(self.grown.depth[middle]) for middle in self.grown.middles]
        return "radius over that at the seed", min(wider), 0, WIDER

    def _of_the_seeds(self) -> Iterator[Measure]:
        yield self._width()
        yield "radius on the way from the seed over that at its ends", self._way(), WAY, 1

    def _on_edges(self) -> float:
        rim = sum(int(np.diff(np.pad(self.filled, 1), axis=axis).sum()) for axis in (0, 1))
        sides = (self.filled[0], self.filled[-1], self.filled[:, 0], self.filled[:, -1])
        return sum(int(side.sum()) for side in sides) / rim

    def _intensities(self) -> tuple[float, float]:
        """A fifth of the core is darker than the first, half of it than the second; 0: the threshold, 1: the seeds."""
        inside = ndimage.distance_transform_edt(np.pad(self.filled, 1, mode="edge"))[1:-1, 1:-1]
        core = self.pixels & (inside > min(CORE, float(inside[self.pixels].max()) / 2))
        part = (self.inwards(self.grown.voxels)[0][core] - self.grown.wall) / (self.grown.level - self.grown.wall)
        dark, middle = np.percentile(part, [20, 50])
        return float(dark), float(middle)

    def _behind(self) -> NDArray[np.floating]:
        """Areas of what goes on behind the section, layer by layer, over that of the section."""
        layers = self.inwards(self.grown.mask)[: int(np.ceil(BEHIND_RADII * self.radius)) + 1]
        label, _ = ndimage.label(layers)
        own = label == label[0][self.pixels][0]
        return np.asarray(own.sum(axis=(1, 2)) / own[0].sum())

    def _way(self) -> float:
        """1 where one of the seeds is joined to the section by a way that is wide enough; else the widest there is."""
        radius, place = self.ball
        widest = 0.0
        for middle in self.grown.middles:
            least = min(radius, float(self.grown.depth[middle]))
            for part in (WAY, WAY / 2, WAY / 4):
                label, _ = ndimage.label(self.grown.depth >= part * least)
                if label[middle] == label[place]:
                    widest = max(widest, 1.0 if part == WAY else part)
                    break
        return widest


def fault(grown: Grown, axis: int, last: bool) -> tuple[str, list[float]] | None:
    """Why what a mask covers of a face is no vessel that the border cuts.

    Parameters
    ----------
    grown : the mask.
    axis, last : axis (0, 1, 2 for z, y, x) of the array that the face is perpendicular to, and which of the two.

    Returns
    -------
    Quantity, value and what vessels have, in words, and where, as a continuous index x, y, z. None: it is vessels.
    """
    face = np.take(grown.mask, -1 if last else 0, axis=axis)
    label, _ = ndimage.label(face, NEIGHBOURS)
    sizes = np.bincount(label.ravel())[1:] / face.sum()
    order = np.argsort(-sizes, kind="stable")
    largest = [Section(grown, axis, last, label == n + 1) for n in order if sizes[n] >= SMALL]
    small = float(sizes[sizes < SMALL].sum())
    if small > SMALL_TOGETHER:
        rest = Section(grown, axis, last, face)
        return f"{small:.0%} of it lies in pieces of less than {SMALL:.0%} each, of vessels at most 10%", rest.index
    return next((found for section in largest if (found := _not_a_vessel(section, section.measures()))), None)


def small_fault(grown: Grown, axis: int, last: bool, fades: bool) -> tuple[str, list[float]] | None:
    """The same for a face of which little is covered, as by the side of a vessel, or a fork.

    There only sections of at least `SMALLEST` are judged, by what holds for these, too.

    Parameters
    ----------
    grown : what has grown in the region.
    axis, last : which face: the first or last layer along an axis of the array (0, 1, 2 for z, y, x).
    fades : as for :meth:`Section.sure_measures`.

    Returns
    -------
    Quantity, value and what vessels have, in words, and where, as an index x, y, z; none where all are a vessel's.
    """
    label, count = ndimage.label(np.take(grown.mask, -1 if last else 0, axis=axis), NEIGHBOURS)
    parts = [Section(grown, axis, last, label == n + 1) for n in range(count)]
    large = [section for section in parts if section.radius >= SMALLEST]
    return next((found for section in large if (found := _not_a_vessel(section, section.sure_measures(fades)))), None)


def _not_a_vessel(section: Section, measures: Iterable[Measure]) -> tuple[str, list[float]] | None:
    """The first measure that no vessel has, in words, and where; none where all are a vessel's."""
    for name, value, least, most in measures:
        if not least <= value <= most:
            limit = f"at most {most:g}" if value > most else f"at least {least:g}"
            return f"{name} is {value:.2f}, that of a vessel {limit}", section.index
    return None
