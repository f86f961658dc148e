# SPDX-License-Identifier: Apache-2.0
"""Two lumens that touch: where a mask is as narrow between them as no single vessel is, over a length.

Of each vessel the core is what is nearly as deep as the largest ball that reaches there (local thickness: Hildebrand
and Rüegsegger 1997, doi:10.1046/j.1365-2818.1997.1340694.x). From each voxel the steepest way into the depth ends in a
core. Where neighbours end in cores that are not joined nearby lies a seam. The branches of a fork have one core where
they meet, however small their angle, and so has a bend; the neck of a sac and a stenosis have a seam that is about as
long as it is wide. Two vessels beside each other have one that is longer, or go on to both sides of it, each of them;
where they have grown together, so that it is as deep as a vessel, it is far longer, or both go straight on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial import cKDTree

from pipeline.segmentation.beyond import AN_ARM, FROM_TOUCH, SHELL
from pipeline.segmentation.region_growing import Mask, bounding_box

CORE = 0.8
"""Depth over that of the largest ball that reaches there, from which a voxel is of the core."""

LEAST_VOXELS = 2.5
"""Least radius of a vessel, voxels, at which shape is seen."""

APART = 1.0
"""Distance of the cores of neighbours, in radii of the narrower vessel, from which a seam may lie between."""

NEARBY = 2.0
"""How far around a seam cores may be joined, radii."""

LONG, SLENDER, THIN = 2.7, 2.2, 0.8
"""Least length of a seam of vessels side by side, in radii of the narrower and in its own widths, and its largest depth
in such radii. Necks of sacs and stenoses, drawn at random, were up to 2.4 radii and 1.9 widths long where they were as
thin (tests/support/left_vessels.py, seeds 0 to 11)."""

WHOLE_WAY, THREAD = 8.0, 5.0
"""Length of a seam, in radii of the narrower and in its own widths, from which on its depth does not count: lumens that
have grown together over more than the width of the narrower."""

CROSSING, CROSSING_STRAIGHT = 0.8, 1.0
"""The largest depth, radii, of the seam of two vessels that pass each other, and of two that both go straight on."""

STRAIGHT = -0.7
"""Cosine of the angle between the ways of a vessel to both sides, up to which it goes straight on: of crossing vessels
it was at most -0.81, where a sac stands on a fork at least -0.62 on one of the sides."""

LEAST_FACES = 6
"""A seam of fewer faces of voxels is chance."""

BRIDGED = 1
"""Parts of a seam that are no farther than twice so many voxels from each other are one."""

TOGETHER = 3.0
"""Seams that are no farther from each other are one, radii: between them the lumens have grown together."""

_ALL = np.ones((3, 3, 3), bool)


@dataclass(frozen=True, eq=False)  # arrays have no one truth of equality: a seam is the same only as itself
class Seam:
    """Where two lumens touch; lengths in voxels.

    Attributes
    ----------
    points : (n, 3) z, y, x, middles of the faces between them.
    sides : (n, 2, 3) voxels z, y, x, in the cores of the one and of the other lumen.
    radius : of the narrower lumen.
    length, width : of the seam, by the principal axes of its faces.
    depth : largest distance to the wall in it.
    unlike : by how much the brightness of both differs, in the contrast; 0 where nobody looked.
    in_line : whether both begin there and go on in line with each other, as a vessel does beyond a stenosis.
    """

    points: NDArray[np.floating]
    sides: NDArray[np.int64]
    radius: float
    length: float
    width: float
    depth: float
    unlike: float = 0.0
    in_line: bool = False

    @property
    def long(self) -> bool:
        """Whether it is the seam of two vessels that lie beside each other."""
        if self.length >= max(WHOLE_WAY * self.radius, THREAD * max(self.width, 1.0)):
            return True
        slender = self.length >= SLENDER * max(self.width, 1.0)
        return slender and self.length >= LONG * self.radius and self.depth <= THIN * self.radius


class _Cores:
    """The core of a mask, and into which of its voxels each voxel leads."""

    def __init__(self, mask: Mask) -> None:
        self.box = bounding_box(mask, margin=1)
        part = mask[self.box]
        self.depth = np.where(part, ndimage.distance_transform_edt(part) - 0.5, 0)
        places = np.argwhere(part)
        self.places = places[np.argsort(-self.depth[part], kind="stable")]
        self.reach = _largest_balls(self.places, self.depth)
        self.core = part & (self.depth >= CORE * self.reach)
        self.number = np.full(part.shape, -1, np.int64)
        self.number[tuple(self.places.T)] = np.arange(len(places))
        self.top = _ascend(self.places, self.depth, self.core, self.number)
        self.edge = part.copy()
        self.edge[1:-1, 1:-1, 1:-1] = False

    def faces(self) -> NDArray[np.int64]:
        """Rows of two neighbours whose cores are far apart, and of these cores: numbers of places."""
        found = []
        for axis in range(3):
            low, high = ([slice(None)] * 3 for _ in range(2))
            low[axis], high[axis] = slice(None, -1), slice(1, None)
            here, there = self.number[tuple(low)], self.number[tuple(high)]
            inside = (here >= 0) & (there >= 0)
            pairs = np.stack([here[inside], there[inside]], axis=1)
            tops = self.top[pairs]
            apart = np.linalg.norm(self.places[tops[:, 0]] - self.places[tops[:, 1]], axis=1)
            radius = self.of(self.reach, tops).min(axis=1)
            far = (radius >= LEAST_VOXELS) & (apart >= APART * radius)
            found.append(np.concatenate([pairs[far], tops[far]], axis=1))
        return np.concatenate(found)

    def of(self, field: NDArray[Any], numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Values of a field at places."""
        return np.asarray(field[tuple(np.moveaxis(self.places[numbers], -1, 0))])

    def apart(self, faces: NDArray[np.int64], radius: float) -> NDArray[np.int64]:
        """Those of the faces whose cores are not joined nearby, turned so that each side has the same cores first."""
        reach = int(NEARBY * radius) + 1
        low, high = self._around(faces[:, :2], reach + 3)
        near = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
        seam, own = (np.zeros([b - a for a, b in zip(low, high, strict=True)], bool) for _ in range(2))
        seam[tuple((self.places[faces[:, :2].ravel()] - low).T)] = True
        tops = np.moveaxis(self.places[faces[:, 2:]], -1, 0) - low[:, None, None]
        within = np.all((tops >= 0) & (tops < (high - low)[:, None, None]), axis=(0, 2))
        own[tuple(tops[:, within])] = True
        label, _ = ndimage.label((self.core[near] & (ndimage.distance_transform_edt(~seam) <= reach)) | own, _ALL)
        sides = label[tuple(tops[:, within])]
        turned = np.where((sides[:, 0] < sides[:, 1])[:, None], faces[within], faces[within][:, [1, 0, 3, 2]])
        return np.asarray(turned[sides[:, 0] != sides[:, 1]])

    def _around(self, numbers: NDArray[np.int64], margin: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        places = self.places[numbers.ravel()]
        low, high = places.min(axis=0) - margin, places.max(axis=0) + margin + 1
        return np.maximum(low, 0), np.minimum(high, self.core.shape)

    def ways(self, faces: NDArray[np.int64], side: int) -> list[list[NDArray[np.floating]]]:
        """Directions in which the vessel on one side of a round seam goes on, or meets the border, at each distance of
        `FROM_TOUCH`.
        """
        tops = faces[:, 2 + side]
        radius = float(np.median(self.of(self.reach, tops)))
        middle = np.rint(self.places[tops].mean(axis=0)).astype(np.int64)
        margin = int((FROM_TOUCH[-1] + SHELL) * radius) + 1
        low, high = np.maximum(middle - margin, 0), np.minimum(middle + margin + 1, self.core.shape)
        near = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
        away = _away(middle, low, high)
        own = np.zeros(away.shape, bool)
        starts = self.places[tops] - low
        starts = starts[np.all((starts >= 0) & (starts < high - low), axis=1)]
        own[tuple(starts.T)] = True
        label, _ = ndimage.label((self.core[near] & (away <= margin)) | own, _ALL)
        joined = np.isin(label, np.setdiff1d(label[own], [0]))
        found = []
        for distance in FROM_TOUCH:
            shell = joined & (away >= distance * radius) & (away < (distance + SHELL) * radius)
            ends = joined & self.edge[near] & (away < distance * radius)
            found.append(
                [way for each in (shell, ends) for way in self._wide(each, near, AN_ARM * radius, middle - low)]
            )
        return found

    def _wide(
        self, part: Mask, near: tuple[slice, ...], least: float, middle: NDArray[np.int64]
    ) -> list[NDArray[np.floating]]:
        """Directions from a place to the middles of what is wide enough in a part of a box."""
        label, count = ndimage.label(part, _ALL)
        numbers = np.arange(1, count + 1)
        deep = np.asarray(ndimage.maximum(self.depth[near], label, numbers)) if count else np.zeros(0)
        middles = ndimage.center_of_mass(part, label, numbers[deep >= least])
        return [(np.array(each) - middle) / max(float(np.linalg.norm(each - middle)), 1e-9) for each in middles]


def _passes(ways: list[list[NDArray[np.floating]]]) -> bool:
    """Whether a vessel goes on in two directions at one of the distances."""
    return max(len(each) for each in ways) >= 2


def _goes_through(ways: list[list[NDArray[np.floating]]]) -> bool:
    """Whether it goes on straight at all distances."""
    return all(any(one @ other <= STRAIGHT for one, other in combinations(each, 2)) for each in ways)


def _away(middle: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.floating]:
    """Distances of the voxels of a box from a place."""
    z, y, x = np.ogrid[tuple(slice(a, b) for a, b in zip(low, high, strict=True))]
    return np.asarray(np.sqrt((z - middle[0]) ** 2 + (y - middle[1]) ** 2 + (x - middle[2]) ** 2))


def seams(mask: Mask) -> list[Seam]:
    """Where two lumens of a mask touch, the longest first.

    Parameters
    ----------
    mask : (Z, Y, X) bool without cavities.
    """
    cores = _Cores(mask)
    faces = cores.faces()
    if len(faces) < LEAST_FACES:
        return []
    marked = np.zeros(cores.core.shape, bool)
    marked[tuple(cores.places[faces[:, :2].ravel()].T)] = True
    label, count = ndimage.label(ndimage.binary_dilation(marked, _ALL, iterations=BRIDGED), _ALL)
    of_face = cores.of(label, faces[:, 0])
    order = np.argsort(of_face, kind="stable")
    groups = np.split(faces[order], np.searchsorted(of_face[order], np.arange(2, count + 1)))
    found = [seam for group in groups if len(group) >= LEAST_FACES for seam in _judged(cores, group)]
    return sorted(_together(found), key=lambda seam: -seam.length)


def _together(found: list[Seam]) -> list[Seam]:
    """Seams with those near them."""
    done: list[Seam] = []
    for seam in found:
        for other in [each for each in done if is_near(each, seam)]:
            done.remove(other)
            points, sides = np.concatenate([other.points, seam.points]), np.concatenate([other.sides, seam.sides])
            seam = seam_of(points, sides, min(other.radius, seam.radius), max(other.depth, seam.depth))
        done.append(seam)
    return done


def is_near(one: Seam, other: Seam) -> bool:
    """Whether two seams are so near each other that they are one.

    Parameters
    ----------
    one, other : of one mask.
    """
    gap = float(cKDTree(one.points).query(other.points)[0].min())
    return gap <= TOGETHER * min(one.radius, other.radius)


def seam_of(points: NDArray[np.floating], sides: NDArray[np.int64], radius: float, depth: float) -> Seam:
    """A seam with its length and width.

    Parameters
    ----------
    points, sides, radius, depth : as of :class:`Seam`.
    """
    length, width, _ = (float(each) for each in np.ptp(points @ principal_axes(points), axis=0))
    return Seam(points, sides, radius, length, width, depth)


def _judged(cores: _Cores, group: NDArray[np.int64]) -> Iterator[Seam]:
    """The seam of faces that are joined, if it is that of two vessels."""
    start = np.array([axis.start for axis in cores.box])
    radius = float(np.median(cores.of(cores.reach, group[:, 2:]).min(axis=1)))
    faces = cores.apart(group, radius)
    if len(faces) < LEAST_FACES:
        return
    points = cores.places[faces[:, :2]].mean(axis=1) + start
    depth = float(cores.of(cores.depth, faces[:, :2]).max())
    seam = seam_of(points, cores.places[faces[:, 2:]] + start, radius, depth)
    if seam.long or (depth <= CROSSING_STRAIGHT * radius and _passing(cores, faces, depth <= CROSSING * radius)):
        yield seam


def _passing(cores: _Cores, faces: NDArray[np.int64], thin: bool) -> bool:
    """Whether vessels on both sides of a seam pass each other; where it is not thin, straight."""
    ways = [cores.ways(faces, side) for side in (0, 1)]
    return all(map(_passes if thin else _goes_through, ways))


def principal_axes(points: NDArray[np.floating]) -> NDArray[np.floating]:
    """Principal axes of points as columns, the longest first."""
    away = points - points.mean(axis=0)
    return np.asarray(np.linalg.eigh(away.T @ away)[1][:, ::-1])


@njit(cache=True)
def _largest_balls(places: NDArray[np.int64], depth: NDArray[np.floating]) -> NDArray[np.floating]:
    """The radius of the largest ball over each voxel, of balls around places from the deepest on.

    A ball within a larger one, but for half a voxel, is passed over.
    """
    reach = depth.copy()
    within = np.zeros(depth.shape, np.bool_)
    for n in range(len(places)):
        z0, y0, x0 = places[n]
        if within[z0, y0, x0]:
            continue
        radius = depth[z0, y0, x0]
        far = int(radius) + 1
        for z in range(max(z0 - far, 0), min(z0 + far + 1, reach.shape[0])):
            for y in range(max(y0 - far, 0), min(y0 + far + 1, reach.shape[1])):
                for x in range(max(x0 - far, 0), min(x0 + far + 1, reach.shape[2])):
                    away = np.sqrt((z - z0) ** 2 + (y - y0) ** 2 + (x - x0) ** 2)
                    if away <= radius:
                        reach[z, y, x] = max(reach[z, y, x], radius)
                        within[z, y, x] |= depth[z, y, x] + away <= radius + 0.5
    return reach


@njit(cache=True)
def _ascend(
    places: NDArray[np.int64], depth: NDArray[np.floating], core: Mask, number: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Where the steepest way into the depth meets the core, for places from the deepest on."""
    top = np.arange(len(places))
    for n in range(len(places)):
        z0, y0, x0 = places[n]
        if core[z0, y0, x0]:
            continue
        best, steepest = n, -1.0
        for z in range(max(z0 - 1, 0), min(z0 + 2, number.shape[0])):
            for y in range(max(y0 - 1, 0), min(y0 + 2, number.shape[1])):
                for x in range(max(x0 - 1, 0), min(x0 + 2, number.shape[2])):
                    other = number[z, y, x]
                    if other < 0 or other >= n:
                        continue
                    rise = (depth[z, y, x] - depth[z0, y0, x0]) / np.sqrt((z - z0) ** 2 + (y - y0) ** 2 + (x - x0) ** 2)
                    if rise > steepest:
                        best, steepest = other, rise
        top[n] = top[best]
    return top
