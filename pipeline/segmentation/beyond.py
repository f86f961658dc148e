# SPDX-License-Identifier: Apache-2.0
"""Has a mask left the vessel inside the image? Chambers that a vessel opens into, and neighbours that it touches.

Blood comes and goes: a vessel that widens goes on as a vessel behind it, and a sac sits on a side of one. So this is
none of a vessel's:

- *An end in a chamber*: the vessel goes on nowhere but into bodies that are wider than it and closed.
- *Chambers behind a throat*: two or more bodies as wide as the vessel, no tubes, with hardly a vessel between them,
  behind a place that is narrower than the vessel, as those of the heart are behind a valve. Where vessels lead out of
  them, they may be the trunk that a branch with a narrow mouth was seeded in.
- *A touch*: a narrow place from which vessels go on to both sides, on both of its sides.

The first two are clear where the bodies are as wide as chambers of a heart; else, as of a touch, shape alone does not
tell: the circle of Willis has an artery that two others are joined by. Measured on vessels with sacs, aneurysms and
narrow places, and on hearts and veins, all drawn at random (docs/validation/segmentation.md).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.graph import MCP_Geometric

from pipeline.segmentation.region_growing import Index, Mask, bounding_box, deepest, fill_holes
from pipeline.segmentation.wide_bodies import THROAT, Bodies, Body, Throat, parts, sections

LEAST_VOXELS = 2.5
"""Least radius of the vessel, voxels, at which shape is seen."""

AS_WIDE = 0.95
"""Least radius of a chamber over that of the vessel at the seeds."""

WIDER = 1.15
"""Least radius of a chamber that a vessel ends in, over that of the vessel."""

ROUND = 5.5
"""Largest volume of a chamber over that of its largest ball; balls have 1, tubes of 8 radii 6."""

NEIGHBOURS = 0.8
"""Largest gap between two chambers that belong together, in radii of the narrower."""

NARROW = 0.6
"""Largest radius of a throat over that of the vessel, and of what is behind it."""

CHAMBER_MM, END_MM = 10.0, 12.0
"""Radius from which several bodies, or the one that a vessel ends in, are as wide as a chamber of a heart: those of
adults have 12 to 30 mm."""

AN_EXIT = 0.25
"""Least radius of a vessel that leads out of a chamber, over that of the vessel at the seeds."""

AN_ARM = 0.5
"""Least radius of a vessel that goes on, over that of the vessel."""

TOUCHING = 0.5
"""Least radius of what may be another vessel, over that of the vessel."""

FROM_CHAMBER, FROM_TOUCH = (2.0, 2.5, 3.0, 3.5, 4.0, 4.5), (2.0, 2.5, 3.0)
"""Distances within the vessel, in its radii, at which it is seen in how many directions it goes on."""

SHELL = 0.7
"""Thickness of what is looked at there, radii."""

FINE = 8.0
"""Voxels of a radius that are enough to see where a vessel goes on."""

MOST = 24
"""How many bodies are looked at, the widest first."""

CHAMBERS = {
    "throat": THROAT,
    "least_voxels": LEAST_VOXELS,
    "as_wide": AS_WIDE,
    "wider": WIDER,
    "round": ROUND,
    "neighbours": NEIGHBOURS,
    "narrow": NARROW,
    "chamber_mm": CHAMBER_MM,
    "end_mm": END_MM,
    "an_exit": AN_EXIT,
    "an_arm": AN_ARM,
    "from_chamber": FROM_CHAMBER,
    "shell": SHELL,
    "most": MOST,
}
"""What chambers are found by, for the page that shows what would grow (page.beyond.js)."""

_ALL = np.ones((3, 3, 3), bool)


@dataclass(frozen=True)
class Departure:
    """Where a mask may have left the vessel.

    Attributes
    ----------
    what : in words.
    clear : whether no vessel looks so.
    place : voxel z, y, x at the throat.
    radius : there, voxels.
    share : part of the mask's volume that lies beyond.
    """

    what: str
    clear: bool
    place: Index
    radius: float
    share: float


def departures(mask: Mask, seeds: Sequence[Index], spacing_mm: float) -> list[Departure]:
    """Where a mask may have left the vessel that its seeds lie in.

    Parameters
    ----------
    mask : (Z, Y, X) bool, one six-connected part.
    seeds : voxels x, y, z in it; a body with a seed is the vessel.
    spacing_mm : of the voxels.

    Returns
    -------
    The clear ones first; none of a vessel thinner than `LEAST_VOXELS`.
    """
    box = bounding_box(mask, margin=1)  # so that its faces are not taken for the border of the image
    low = [axis.start for axis in box]
    vessel = _Vessel(fill_holes(mask[box])[0], [(z - low[0], y - low[1], x - low[2]) for x, y, z in seeds], spacing_mm)
    if vessel.radius < LEAST_VOXELS:
        return []
    found = [*vessel.chambers(), *vessel.touches()]
    moved = [_moved(each, low) for each in found]
    return sorted(moved, key=lambda each: not each.clear)


def _moved(found: Departure, low: Sequence[int]) -> Departure:
    z, y, x = (n + start for n, start in zip(found.place, low, strict=True))
    return Departure(found.what, found.clear, (z, y, x), found.radius, found.share)


class _Vessel:
    """A mask, its bodies and the vessel at the seeds (z, y, x)."""

    def __init__(self, mask: Mask, seeds: Sequence[Index], spacing_mm: float) -> None:
        self.mask, self.spacing_mm = mask, spacing_mm
        self.bodies = Bodies(mask, seeds[0])
        middles = [deepest(self.bodies.depth, deepest(self.bodies.depth, seed)) for seed in seeds]
        self.middle = middles[0]
        self.middles = middles
        self.radius = max(float(self.bodies.depth[middle]) for middle in middles)
        self.own = {int(self.bodies.region[middle]) for middle in middles}

    def chambers(self) -> Iterator[Departure]:
        """Groups of wide bodies that are no vessel's."""
        for group in _groups([body for body in self._wide() if self._is_chamber(body)], self.mask.shape):
            found = self._judged(group)
            if found is not None:
                yield found

    def _wide(self) -> list[Body]:
        radii = self.bodies.radii
        order = np.argsort(-radii, kind="stable")[:MOST]
        return [self.bodies.body(int(n)) for n in order if radii[n] >= AS_WIDE * self.radius]

    def _is_chamber(self, body: Body) -> bool:
        if body.voxels > ROUND * 4 / 3 * np.pi * body.radius**3:
            return False
        return not any(body.holds(middle) for middle in self.middles)

    def _judged(self, group: list[Body]) -> Departure | None:
        """Whether a group of chambers is what no vessel has."""
        solid = np.any([body.on(self.mask.shape) for body in group], axis=0)
        *narrower, widest = sorted(body.radius for body in group)
        share = float(solid.sum() / self.mask.sum())
        size = self._size_of(group, share)
        throat = self._narrowest(group)
        behind = bool(narrower) and narrower[-1] * self.spacing_mm >= CHAMBER_MM
        rest, count = ndimage.label(self.mask & ~solid)
        vessel = (rest == rest[self.middle]) & (rest > 0)
        if behind and throat is not None and throat.radius <= NARROW * self.radius:
            what = f"behind a throat of radius {throat.radius * self.spacing_mm:.1f} mm {size}"
            return Departure(what, not self._leads_out(solid, rest, count), throat.place, throat.radius, share)
        rim = vessel & ndimage.binary_dilation(solid)
        if not rim.any():
            return None
        place = self._deepest(rim)
        ends = widest >= WIDER * self.radius and not self._leads_out(solid, rest, count)
        if ends and self._arms(vessel, rim, self.radius, FROM_CHAMBER) <= 1:  # on to nowhere but into the group
            clear = widest * self.spacing_mm >= END_MM
            return Departure(f"it ends there in {size}", clear, place, float(self.bodies.depth[place]), share)
        if behind:
            return Departure(f"there {size}", False, place, float(self.bodies.depth[place]), share)
        return None

    def _size_of(self, group: list[Body], share: float) -> str:
        volume_ml = share * self.mask.sum() * self.spacing_mm**3 / 1000
        widest = max(body.radius for body in group) * self.spacing_mm
        count = "a closed body" if len(group) == 1 else f"{len(group)} bodies side by side"
        return f"{count} of up to {widest:.0f} mm in radius, {volume_ml:.3g} mL"

    def _narrowest(self, group: list[Body]) -> Throat | None:
        """The narrowest throat that all ways to a group lead through, the first of them."""
        ways = [self.bodies.way(int(self.bodies.region[body.peak])) for body in group]
        common = [throat for throat in ways[0] if all(throat in way for way in ways[1:])]
        return min(common, key=lambda throat: throat.radius) if common else None

    def _deepest(self, rim: Mask) -> Index:
        """The middle of where the vessel meets a group, whose voxels there are not none."""
        z, y, x = np.unravel_index(int(np.where(rim, self.bodies.depth, -1).argmax()), rim.shape)
        return int(z), int(y), int(x)

    def _leads_out(self, solid: Mask, label: NDArray[np.int32], count: int) -> bool:
        """Whether a vessel leads out of a group, but for that of the seeds: away from it, or through the border.

        `label` numbers the connected parts of the rest of the mask from 1 to `count`.
        """
        outside = (label != label[self.middle]) & self.mask
        if sections(self.bodies.edge & outside, AN_EXIT * self.radius):
            return True
        numbers = np.arange(1, count + 1)
        deep = np.asarray(ndimage.maximum(self.bodies.depth, label, numbers))
        far = np.asarray(ndimage.maximum(ndimage.distance_transform_edt(~solid), label, numbers))
        leads = (deep >= max(AN_EXIT * self.radius, 1.5)) & (far >= 1.5 * deep + 1)
        leads[label[self.middle] - 1] = False
        return bool(leads.any())

    def touches(self) -> Iterator[Departure]:
        """Narrow places with vessels on both sides that pass by."""
        for throat in self.bodies.throats:
            least = min(self.radius, float(self.bodies.radii[throat.second]))
            if least < max(TOUCHING * self.radius, LEAST_VOXELS) or throat.radius > NARROW * least:
                continue
            behind = self.bodies.beyond(throat)
            if self.own.intersection(behind):
                continue
            beyond = np.isin(self.bodies.region, behind)
            here = self.mask & ~beyond
            rim = self._around(beyond & ndimage.binary_dilation(here), throat.place, least)
            if self._arms(beyond, rim, float(self.bodies.radii[throat.second]), FROM_TOUCH) < 2:
                continue
            if self._arms(here, here & ndimage.binary_dilation(rim), least, FROM_TOUCH) < 2:
                continue
            share = float(beyond.sum() / self.mask.sum())
            what = (
                f"two vessels that pass each other are joined by {throat.radius * self.spacing_mm:.2g} mm, a share of"
                f" {throat.radius / least:.2f} of the narrower one's radius"
            )
            yield Departure(what, False, throat.place, throat.radius, share)

    def _around(self, rim: Mask, place: Index, radius: float) -> Mask:
        """The part of a rim at a place."""
        reach = int(2 * radius) + 1
        near = tuple(slice(max(n - reach, 0), n + reach + 1) for n in place)
        label, _ = ndimage.label(rim[near], _ALL)
        found = np.zeros_like(rim)
        if label.any():
            apart = np.argwhere(label) - [n - axis.start for n, axis in zip(place, near, strict=True)]
            nearest = np.argwhere(label)[(apart**2).sum(axis=1).argmin()]
            found[near] = label == label[tuple(nearest)]
        return found

    def _arms(self, region: Mask, start: Mask, radius: float, distances: Sequence[float]) -> int:
        """In how many directions a region goes on from a start within it: the most at several distances.

        What leaves through the border of the image nearer than that goes on, too.
        """
        if not start.any():
            return 0
        reach = int((distances[-1] + SHELL) * radius) + 2
        near = tuple(slice(max(axis.start - reach, 0), axis.stop + reach) for axis in bounding_box(start))
        step = max(int(radius / FINE), 1)
        fine = tuple(slice(axis.start, axis.stop, step) for axis in near)
        inside, edge, depth = region[fine], self.bodies.edge[fine], self.bodies.depth[fine]
        starts = (
            ndimage.maximum_filter(start[near].astype(np.uint8), step)[::step, ::step, ::step] > 0
            if step > 1
            else start[fine]
        )
        if not (starts & inside).any():
            return 0
        way, _ = MCP_Geometric(np.where(inside, 1.0, -1.0)).find_costs(np.argwhere(starts & inside))
        way = way * step / radius
        most = 0
        for distance in distances:
            shell = inside & (way >= distance) & (way < distance + SHELL)
            gone = sections(edge & inside & (way < distance), AN_ARM * radius / step)
            most = max(most, parts(shell, depth, AN_ARM * radius) + gone)
        return most


def _groups(bodies: list[Body], shape: tuple[int, ...]) -> list[list[Body]]:
    """Bodies that lie side by side, together."""
    label = list(range(len(bodies)))
    for n, body in enumerate(bodies):
        if not bodies[:n]:
            continue
        away = ndimage.distance_transform_edt(~body.on(shape))
        for k, other in enumerate(bodies[:n]):
            gap = float(away[other.box][other.solid].min())
            if gap <= NEIGHBOURS * min(body.radius, other.radius):
                label = [label[k] if each == label[n] else each for each in label]
    return [[body for body, each in zip(bodies, label, strict=True) if each == n] for n in sorted(set(label))]
