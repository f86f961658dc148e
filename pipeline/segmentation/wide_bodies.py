# SPDX-License-Identifier: Apache-2.0
"""Wide bodies of a mask: where it is widest, and the narrow places between.

The distance to the wall has a peak in the middle of each body. From the deepest voxel on, the mask is flooded: bodies
meet at their throats, and a peak that lies less than a quarter above the throat to a higher one is no body of its own
(a watershed with merging by relative height: Vincent and Soille 1991, doi:10.1109/34.87344; Najman and Schmitt 1996,
doi:10.1109/34.546254). The bodies and their throats form a tree, in which the way between two of them is the widest
that there is.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.segmentation.region_growing import Box, Index, Mask, bounding_box, holds
from solver.kernels.compilation import inner_function

THROAT = 0.75
"""Radius of a throat over that of the narrower body, from which the two are one; the core of a body is as deep."""

_STEPS = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])
_ALL = np.ones((3, 3, 3), bool)


@dataclass(frozen=True)
class Body:
    """A place at which a mask is wider than around.

    Attributes
    ----------
    peak : its deepest voxel, z, y, x.
    radius : of the largest ball, voxels.
    box : where it lies.
    solid : (z, y, x) bool in the box: what a ball of `THROAT` times the radius reaches from the peak (an opening).
    """

    peak: Index
    radius: float
    box: Box
    solid: Mask

    @property
    def voxels(self) -> int:
        """Its volume."""
        return int(self.solid.sum())

    def holds(self, place: Index) -> bool:
        """Whether a voxel z, y, x is one of it."""
        z, y, x = (n - axis.start for n, axis in zip(place, self.box, strict=True))
        return holds(self.solid, (z, y, x))

    def on(self, shape: tuple[int, ...]) -> Mask:
        """Itself on the whole grid."""
        whole = np.zeros(shape, bool)
        whole[self.box] = self.solid
        return whole


@dataclass(frozen=True)
class Throat:
    """A narrow place between two bodies, numbers of both; `first` is the one that lies nearer to the seed."""

    first: int
    second: int
    radius: float
    place: Index


class Bodies:
    """The bodies of a mask and the tree that they form.

    Parameters
    ----------
    mask : (Z, Y, X) bool without cavities, one six-connected part.
    seed : voxel z, y, x in the mask, from which the tree is looked at.

    Attributes
    ----------
    depth : (Z, Y, X) distance to the wall, voxels; behind the border the vessel goes on.
    region : (Z, Y, X) int32, number of the body that each voxel belongs to, -1 outside the mask.
    peaks : (n, 3) voxels z, y, x.
    throats : of the tree, each behind those on its way from the seed.
    """

    def __init__(self, mask: Mask, seed: Index) -> None:
        self.mask = mask
        box = bounding_box(mask, margin=1)
        part = mask[box]
        start = np.array([axis.start for axis in box])
        self.depth = np.zeros(mask.shape)
        self.depth[box] = np.where(part, ndimage.distance_transform_edt(part) - 0.5, 0)
        places = np.argwhere(part)
        depths = self.depth[box][part]
        order = np.argsort(-depths, kind="stable")
        places, depths = places[order], depths[order]
        number = np.full(part.shape, -1, np.int32)
        number[tuple(places.T)] = np.arange(len(places), dtype=np.int32)
        owner, joins = _flood(places, depths, number, _STEPS, THROAT)
        kept, region = np.unique(owner, return_inverse=True)
        self.peaks = places[kept] + start
        self.region = np.full(mask.shape, -1, np.int32)
        self.region[box][tuple(places.T)] = region
        rank = {int(peak): n for n, peak in enumerate(kept)}
        edges = [(rank[a], rank[b], float(depths[at]), tuple(places[at] + start)) for a, b, at in joins.tolist()]
        self.throats = _from_the_seed(edges, int(self.region[seed]))

    @cached_property
    def radii(self) -> NDArray[np.floating]:
        """Of the largest ball in each body, voxels."""
        return self.depth[tuple(self.peaks.T)]

    @cached_property
    def edge(self) -> Mask:
        """What of the mask lies in the outermost layers of the grid."""
        layers = self.mask.copy()
        layers[1:-1, 1:-1, 1:-1] = False
        return layers

    def way(self, body: int) -> list[Throat]:
        """The throats between the seed and a body, from the seed on."""
        found: list[Throat] = []
        for throat in reversed(self.throats):
            if throat.second == body:
                found.append(throat)
                body = throat.first
        return found[::-1]

    def beyond(self, throat: Throat) -> list[int]:
        """The bodies behind a throat."""
        found = {throat.second}
        for other in self.throats[self.throats.index(throat) + 1 :]:
            if other.first in found:
                found.add(other.second)
        return sorted(found)

    def body(self, number: int) -> Body:
        """The solid of one of them."""
        z, y, x = (int(n) for n in self.peaks[number])
        reach = THROAT * float(self.radii[number])
        where = np.argwhere((self.region == number) & (self.depth >= reach))
        low, high = where.min(axis=0) - int(reach) - 1, where.max(axis=0) + int(reach) + 2
        low, high = np.maximum(low, 0), np.minimum(high, self.mask.shape)
        box = (slice(low[0], high[0]), slice(low[1], high[1]), slice(low[2], high[2]))
        core = (self.region[box] == number) & (self.depth[box] >= reach)
        solid = (ndimage.distance_transform_edt(~core) <= reach) & self.mask[box]
        return Body((z, y, x), float(self.radii[number]), box, solid)


def _from_the_seed(edges: list[tuple[int, int, float, Index]], root: int) -> list[Throat]:
    """The edges of a tree, turned away from its root and sorted by the distance to it."""
    around: dict[int, list[tuple[int, float, Index]]] = {}
    for a, b, radius, place in edges:
        around.setdefault(a, []).append((b, radius, place))
        around.setdefault(b, []).append((a, radius, place))
    found: list[Throat] = []
    seen, ends = {root}, [root]
    while ends:
        first = ends.pop(0)
        for second, radius, place in around.get(first, []):
            if second not in seen:
                seen.add(second)
                ends.append(second)
                found.append(Throat(first, second, radius, (int(place[0]), int(place[1]), int(place[2]))))
    return found


@inner_function()
def _root(parent: NDArray[np.int64], n: int) -> int:
    while parent[n] != n:
        parent[n] = parent[parent[n]]
        n = parent[n]
    return n


@njit(cache=True)
def _flood(
    places: NDArray[np.int64],
    depths: NDArray[np.float64],
    number: NDArray[np.int32],
    steps: NDArray[np.int64],
    throat: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The peak that each voxel belongs to, and where peaks meet: rows of peak, higher peak, voxel of their throat."""
    count = len(places)
    parent = np.arange(count)
    top = np.arange(count)  # of each root: the highest voxel of its part
    into = np.full(count, -1, np.int64)  # the higher peak that a lower one belongs to
    first = np.zeros(count, np.int64)
    joins = []
    for n in range(count):
        best = -1
        for step in steps:
            z, y, x = places[n, 0] + step[0], places[n, 1] + step[1], places[n, 2] + step[2]
            if not (0 <= z < number.shape[0] and 0 <= y < number.shape[1] and 0 <= x < number.shape[2]):
                continue
            other = number[z, y, x]
            if other < 0 or other >= n:
                continue
            root = _root(parent, other)
            if best < 0:
                best = root
                continue
            if root == best:
                continue
            high, low = (best, root) if top[best] < top[root] else (root, best)
            if depths[n] >= throat * depths[top[low]]:
                into[top[low]] = top[high]
            else:
                joins.append((top[low], top[high], n))
            parent[low] = high
            best = high
        if best >= 0:
            parent[n] = best
            first[n] = top[best]
        else:
            first[n] = n
    for n in range(count):
        peak = first[n]
        while into[peak] >= 0:
            peak = into[peak]
        first[n] = peak
    rows = np.zeros((len(joins), 3), np.int64)
    for k in range(len(joins)):
        for side in range(2):
            peak = joins[k][side]
            while into[peak] >= 0:
                peak = into[peak]
            rows[k, side] = peak
        rows[k, 2] = joins[k][2]
    return first, rows


def parts(region: Mask, depth: NDArray[np.floating], least: float) -> int:
    """How many connected parts of a region are at least so deep.

    Parameters
    ----------
    region : [z, y, x] mask.
    depth : [z, y, x], of each voxel.
    least : depth that counts, in its unit.
    """
    label, count = ndimage.label(region, _ALL)
    if not count:
        return 0
    return int((np.asarray(ndimage.maximum(depth, label, np.arange(1, count + 1))) >= least).sum())


def sections(edge: Mask, least: float) -> int:
    """How many connected parts of the border are as large as a disc of such a radius."""
    label, count = ndimage.label(edge, _ALL)
    return int((np.bincount(label.ravel())[1:] >= np.pi * least**2).sum()) if count else 0
