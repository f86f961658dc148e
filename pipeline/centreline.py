"""Centreline of a vessel: a graph of points with radii, its branches, and which of its ends are ends of a tube.

The skeleton is thinned from the mask (Lee, Kashyap and Chu 1994, doi:10.1006/cgip.1994.1042), its voxels are joined
into a graph that keeps true loops and no others, and branches that are too short for their parent are pruned. A
dead end that bulges, such as the sac of an aneurysm, is told from the end of a tube by the radii along its branch.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from skimage.morphology import skeletonize

from pipeline.volume import Volume

SHORTCUT_STEPS = 8
"""Voxels of the skeleton that are joined by a way of at most so many steps need no link of their own."""
BULGE = 0.75
"""An end bulges if the vessel behind it narrows below this fraction of the largest ball in the end."""
TUBE_RADII = 1.5
"""Length behind that ball, in its radii, over which the vessel is compared with it."""
END_RADII = 2.0
"""An end of a tube stands out of the vessel that it leaves by at least so many of its own radii."""


@dataclass(frozen=True)
class Branch:
    """A terminal branch, from the free end inwards.

    Attributes
    ----------
    rows : rows of the centreline's points, from the free end to the node where the branch leaves its parent.
    way_mm : (n,) distance from the tip of the vessel (where the largest ball at the free end touches it), mm.
    radius_mm : (n,) radius at the rows, mm.
    forked : whether the last row is a node of three or more links; otherwise it is another free end.
    """

    rows: tuple[int, ...]
    way_mm: NDArray[np.float64]
    radius_mm: NDArray[np.float64]
    forked: bool

    @property
    def relative_length(self) -> float:
        """Length from the node to the tip in radii of the parent at the node."""
        return float(self.way_mm[-1] / self.radius_mm[-1])

    @property
    def own_length_mm(self) -> float:
        """Length that belongs to this branch: outside the parent, or half the way to the other free end."""
        if self.forked:
            return float(self.way_mm[-1] - self.radius_mm[-1])
        return float(self.way_mm[-1] + self.radius_mm[-1]) / 2

    def tip_ball(self) -> tuple[int, float]:
        """Position in `rows` just behind the largest ball that lies in the free end, and the ball's radius."""
        radius = float(self.radius_mm[0])
        for k, (way, r) in enumerate(zip(self.way_mm, self.radius_mm, strict=True)):
            if way > 1.5 * radius:
                return k, radius
            radius = max(radius, float(r))
        return len(self.rows) - 1, radius

    def why_closed(self, at_border: bool) -> str | None:
        """Why this is no end of a tube, or None where it is one. At the border of the image no roundness is asked."""
        behind, ball = self.tip_ball()
        if not at_border:
            near = self.way_mm[behind:] <= self.way_mm[behind] + TUBE_RADII * ball
            narrowest = float(self.radius_mm[behind:][near].min(initial=np.inf))
            if narrowest < BULGE * ball:
                return f"it bulges: radius {ball:.2f} mm, {narrowest:.2f} mm behind it"
            if self.own_length_mm < END_RADII * ball:
                return f"it stands out {self.own_length_mm:.2f} mm only, its radius is {ball:.2f} mm"
        return None


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
    links: tuple[frozenset[int], ...]

    def rows(self) -> NDArray[np.int64]:
        """Rows that belong to the graph."""
        return np.array([row for row, near in enumerate(self.links) if near], dtype=np.int64)

    def terminal_branches(self) -> list[Branch]:
        """Branches from each free end to the next fork, or to another free end."""
        return [self._branch_from(row) for row, near in enumerate(self.links) if len(near) == 1]

    def _branch_from(self, free_end: int) -> Branch:
        rows, before = [free_end], -1
        while len(rows) == 1 or len(self.links[rows[-1]]) == 2:
            here = rows[-1]
            rows.append(next(row for row in sorted(self.links[here]) if row != before))
            before = here
        steps = np.linalg.norm(np.diff(self.points_mm[rows], axis=0), axis=1)
        radius = self.radius_mm[rows]
        way = radius[0] + np.concatenate([[0.0], np.cumsum(steps)])
        return Branch(tuple(rows), way, radius, forked=len(self.links[rows[-1]]) > 2)

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
    voxels = np.argwhere(skeletonize(mask.voxels))[:, ::-1]
    points = mask.to_mm(voxels)
    radius = cKDTree(surface_points_mm).query(points)[0]
    return Centreline(points, radius, _links(voxels))


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


def prune(
    centreline: Centreline, min_branch_radii: float, min_border_radii: float, border_rows: Iterable[int]
) -> tuple[Centreline, list[tuple[int, str]]]:
    """Remove branches that are spurs or dead ends, the relatively shortest first, and say which dead ends went.

    Parameters
    ----------
    centreline : from :func:`trace_centreline`.
    min_branch_radii : a shorter branch, in radii of its parent, is a spur.
    min_border_radii : the same for branches that end at the border of the image.
    border_rows : rows of points whose ball reaches the border of the image.

    Returns
    -------
    The pruned centreline, and row of the free end and reason for each dead end that is more than a spur.
    """
    border, dead_ends = set(border_rows), []

    def needed(branch: Branch) -> float:
        return min_border_radii if branch.rows[0] in border else min_branch_radii

    while branches := [branch for branch in centreline.terminal_branches() if branch.forked]:
        shortest = min(branches, key=lambda branch: (branch.relative_length / needed(branch), branch.rows))
        if shortest.relative_length < needed(shortest):
            centreline = centreline.without(shortest)
            continue
        closed = ((branch, branch.why_closed(branch.rows[0] in border)) for branch in branches)
        branch, why = next(((branch, why) for branch, why in closed if why), (None, None))
        if branch is None or why is None:
            break
        dead_ends.append((branch.rows[0], why))
        centreline = centreline.without(branch)
    return centreline, dead_ends
