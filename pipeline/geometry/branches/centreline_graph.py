# SPDX-License-Identifier: Apache-2.0
"""Centreline of a vessel: a graph of points with radii, its branches, and which of its ends are ends of a tube.

The mask is thinned to a skeleton, its voxels are joined into a graph that keeps true loops and no others, and a
dead end that bulges, such as the sac of an aneurysm, is distinguished from the end of a tube by the radii along its
branch.
"""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from pipeline.files.volume import Volume
from pipeline.geometry.branches.thinning import thin

Nearest = Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Of points (N, 3), mm, to the vessel's surface: distance (N,) and nearest place (N, 3)."""

PARENT_RADII = 3.0
"""The parent's radius is the largest within so many radii of a fork: the fork may lie in a narrow end of it."""
TAIL_RADII = 4.0
"""A tail ends where the vessel stays thick enough over at least so many radii."""
SHORTCUT_STEPS = 8
"""Voxels of the skeleton that are joined by a way of at most so many steps need no link of their own."""
CENTRING_STEPS = 8
BULGE = 0.75
"""An end bulges if the vessel behind it narrows below this fraction of the largest ball in the end."""
TUBE_RADII = 1.5
"""Length behind that ball, in its radii, over which the vessel is compared with it."""
END_RADII = 2.5
"""An end of a tube stands out of the vessel that it leaves by at least so many of its own radii."""


def largest_near_tip(
    way_mm: NDArray[np.float64], radius_mm: NDArray[np.float64], within_radii: float, within_mm: float = np.inf
) -> int:
    """Position of the largest ball whose centre is at most so many of its radii, and so far, from the tip.

    Parameters
    ----------
    way_mm, radius_mm : (n,), distance from the tip and radius, from the free end inwards.
    within_radii, within_mm : how far the ball may be from the tip; the first always may.
    """
    near = (way_mm <= within_radii * radius_mm) & (way_mm <= within_mm)
    near[0] = True
    return int(np.argmax(np.where(near, radius_mm, 0.0)))


@dataclass(frozen=True)
class Branch:
    """A terminal branch, from the free end inwards.

    Attributes
    ----------
    rows : rows of the centreline's points, from the free end to the node where the branch leaves its parent.
    way_mm : (n,) distance from the tip of the vessel (where the largest ball at the free end touches it), mm.
    radius_mm : (n,) radius at the rows, mm.
    forked : whether the last row is a node of three or more links; otherwise it is another free end.
    parent_radius_mm : largest radius of the vessel around that node, outside the branch, mm.
    parent_row : row of that radius.
    """

    rows: tuple[int, ...]
    way_mm: NDArray[np.float64]
    radius_mm: NDArray[np.float64]
    forked: bool
    parent_radius_mm: float
    parent_row: int

    @property
    def relative_length(self) -> float:
        """Length from the node to the tip in radii of the parent."""
        return float(self.way_mm[-1] / self.parent_radius_mm)

    @property
    def own_length_mm(self) -> float:
        """Length that belongs to this branch: outside the parent, or half the way to the other free end."""
        if self.forked:
            return float(self.way_mm[-1] - self.radius_mm[-1])
        return float(self.way_mm[-1] + self.radius_mm[-1]) / 2

    @property
    def end_radius_mm(self) -> float:
        """Radius of the vessel near the end, behind a taper."""
        return float(self.radius_mm[self.largest(within_radii=4.0)])

    @property
    def tip_radius_mm(self) -> float:
        """Radius of the vessel that ends there, however short it is before it widens to another one or a sac."""
        return float(self.radius_mm[self.largest(within_radii=1.5)])

    def largest(self, within_radii: float) -> int:
        """Position of the branch's largest ball whose centre is at most so many of its radii from the tip."""
        return largest_near_tip(self.way_mm, self.radius_mm, within_radii, self.own_length_mm)

    def resolved(self, least_radius_mm: float) -> "Branch | None":
        """The branch without its thin tail: from where it stays thick enough for some radii. None: it nowhere does."""
        thick = self.radius_mm >= least_radius_mm
        for k in np.flatnonzero(thick & (self.way_mm <= max(self.own_length_mm, self.way_mm[0]))):
            if thick[
                (self.way_mm >= self.way_mm[k]) & (self.way_mm <= self.way_mm[k] + TAIL_RADII * self.radius_mm[k])
            ].all():
                way = self.way_mm[k:] - self.way_mm[k] + self.radius_mm[k]
                return replace(self, rows=self.rows[k:], way_mm=way, radius_mm=self.radius_mm[k:])
        return None

    def why_closed(self, flat: Callable[[], bool]) -> str:
        """Why this is no end of a tube, empty where it is one. An end that a plane cuts may stand out little."""
        k = self.largest(within_radii=2.0)
        ball = float(self.radius_mm[k])
        behind = (self.way_mm > self.way_mm[k]) & (self.way_mm <= self.way_mm[k] + TUBE_RADII * ball)
        narrowest = float(self.radius_mm[behind].min(initial=np.inf))
        if narrowest < BULGE * ball:
            return f"it bulges: radius {ball:.2f} mm, {narrowest:.2f} mm behind it"
        if self.own_length_mm < END_RADII * ball and not flat():
            return f"it stands out {self.own_length_mm:.2f} mm only, its radius is {ball:.2f} mm"
        return ""


@dataclass(frozen=True)
class Centreline:
    """Points with radii, joined into a graph.

    Attributes
    ----------
    points_mm : (N, 3) float64, (x, y, z), LPS, mm.
    radius_mm : (N,) float64, distance to the vessel's surface, mm.
    links : rows of the neighbours of each row; a pruned row has none.
    """

    points_mm: NDArray[np.float64]
    radius_mm: NDArray[np.float64]
    links: Sequence[frozenset[int]]

    def rows(self) -> NDArray[np.int64]:
        """Rows that belong to the graph."""
        return np.array([row for row, near in enumerate(self.links) if near], dtype=np.int64)

    def free_ends(self) -> list[int]:
        """Rows with one neighbour."""
        return [row for row, near in enumerate(self.links) if len(near) == 1]

    def terminal_branches(self) -> list[Branch]:
        """Branches from each free end to the next fork, or to another free end."""
        return [self.branch_from(row) for row in self.free_ends()]

    def chains(self, stops: frozenset[int] = frozenset()) -> list[list[int]]:
        """Rows of the pieces between free ends, forks and the rows `stops`; a ring without any is one piece."""
        nodes = [row for row, near in enumerate(self.links) if near and (len(near) != 2 or row in stops)]
        if not nodes:
            nodes = [int(self.rows()[0])]
            stops = frozenset(nodes)
        both_ways = [self._chain(node, row, stops) for node in nodes for row in sorted(self.links[node])]
        return [rows for rows in both_ways if rows[:2] <= rows[:-3:-1]]

    def _chain(self, first: int, second: int, stops: frozenset[int] = frozenset()) -> list[int]:
        """Rows from one node, over its neighbour, to the next free end, fork or stop."""
        rows = [first, second]
        while len(self.links[rows[-1]]) == 2 and rows[-1] not in stops:
            rows.append(next(row for row in self.links[rows[-1]] if row != rows[-2]))
        return rows

    def branch_from(self, free_end: int) -> Branch:
        """The branch from a free end to the next fork, or to another free end."""
        rows = self._chain(free_end, next(iter(self.links[free_end])))
        steps = np.linalg.norm(np.diff(self.points_mm[rows], axis=0), axis=1)
        radius = self.radius_mm[rows]
        way = radius[0] + np.concatenate([[0.0], np.cumsum(steps)])
        forked, parent = len(self.links[rows[-1]]) > 2, self._largest_around(rows[-1], without=rows[-2])
        return Branch(tuple(rows), way, radius, forked, float(self.radius_mm[parent]), parent)

    def _largest_around(self, node: int, without: int) -> int:
        """Row of the largest radius within some radii of a node along the graph, but not over one of its neighbours."""
        reach = PARENT_RADII * self.radius_mm[node]
        way, waiting = {node: 0.0}, [(0.0, node)]
        while waiting:  # the nearest first (Dijkstra 1959)
            gone, here = heapq.heappop(waiting)
            if gone > way[here]:
                continue
            for row in self.links[here]:
                there = gone + float(np.linalg.norm(self.points_mm[row] - self.points_mm[here]))
                if there < min(reach, way.get(row, np.inf)) and row != without:
                    way[row] = there
                    heapq.heappush(waiting, (there, row))
        return max(way, key=lambda row: (self.radius_mm[row], row))

    def without(self, branch: Branch) -> "Centreline":
        """The graph without a forked branch; its fork stays."""
        gone = set(branch.rows[:-1])
        links = tuple(frozenset() if row in gone else near - gone for row, near in enumerate(self.links))
        return Centreline(self.points_mm, self.radius_mm, links)


def trace_centreline(mask: Volume, surface_points_mm: NDArray[np.float64]) -> Centreline:
    """Centreline of a mask, not yet pruned.

    Parameters
    ----------
    mask : (Z, Y, X) bool, True in the lumen.
    surface_points_mm : (P, 3) points that cover the vessel's surface densely, for the radii.
    """
    surface = cKDTree(surface_points_mm)

    def nearest(points_mm: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        distance, row = surface.query(points_mm)
        return distance, surface.data[row]

    return join(mask.with_voxels(thin(mask.voxels)), nearest)


def join(skeleton: Volume, nearest: Nearest) -> Centreline:
    """Join the voxels of a skeleton, in the order of the array, into a graph, and move them into the middle.

    Parameters
    ----------
    skeleton : (Z, Y, X) bool, curves of one voxel's width.
    nearest : the vessel's surface.
    """
    voxels = np.argwhere(skeleton.voxels)[:, ::-1]
    points, radius = _centred(skeleton.to_mm(voxels), nearest, max(skeleton.spacing_mm))
    return Centreline(points, radius, _links(voxels))


def _centred(
    points: NDArray[np.float64], nearest: Nearest, voxel_mm: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points moved away from the nearest wall by up to a voxel, while their distance to it grows, and that distance.

    Thinning stops up to a voxel off the middle, which for a thin vessel is a good part of its radius.
    """
    radius, foot = nearest(points)
    points, rows = points.copy(), np.arange(len(points))
    for _ in range(CENTRING_STEPS):
        away = (points[rows] - foot[rows]) / np.maximum(radius[rows], 1e-9)[:, None]
        moved = points[rows] + away * voxel_mm / CENTRING_STEPS
        larger, other = nearest(moved)
        better = larger > radius[rows]
        rows = rows[better]
        points[rows], radius[rows], foot[rows] = moved[better], larger[better], other[better]
    return points, radius


def _links(voxels: NDArray[np.int64]) -> tuple[frozenset[int], ...]:
    """Join neighbouring voxels, the closest first, unless a short way joins them already (a greedy spanner)."""
    pairs = cKDTree(voxels).query_pairs(1.8, output_type="ndarray")  # 1.8 > sqrt(3): the 26 neighbours
    squares = ((voxels[pairs[:, 0]] - voxels[pairs[:, 1]]) ** 2).sum(axis=1)
    links: list[set[int]] = [set() for _ in voxels]
    for a, b in pairs[np.lexsort((pairs[:, 1], pairs[:, 0], squares))].tolist():
        if not _joined(links, a, b):
            links[a].add(b)
            links[b].add(a)
    return tuple(frozenset(near) for near in links)


def _joined(links: list[set[int]], start: int, goal: int) -> bool:
    steps, queue = {start: 0}, deque([start])
    while queue:
        here = queue.popleft()
        if here == goal:
            return True
        if steps[here] < SHORTCUT_STEPS:
            for row in links[here]:
                if row not in steps:
                    steps[row] = steps[here] + 1
                    queue.append(row)
    return False
