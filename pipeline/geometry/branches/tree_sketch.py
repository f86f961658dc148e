# SPDX-License-Identifier: Apache-2.0
"""The rough tree of a vessel: pieces between numbered nodes, and how these get a direction and a name."""

import heapq
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.geometry.branches.centreline_graph import Centreline, largest_near_tip
from pipeline.geometry.branches.centreline_refinement import arc_length, refined_centreline, resampled
from pipeline.geometry.branches.vessel_tree import Branch, Floats, Joint, Kind
from pipeline.geometry.surface.distance import Surface
from solver.domain.nodes import Opening

SAME_FORK = 0.5
"""Forks nearer to each other than this part of their ball are one."""

END_RADII = 2.0
"""The ball in a blind end is the largest with its centre within so many of its radii of the tip."""

TIP_GAP = 0.01
"""The tip of a line is at most so far from the wall, in radii of that ball."""


class _Line(NamedTuple):
    """A line in the middle of the vessel: points (n, 3), radii (n,), and which are of this branch alone."""

    points: Floats
    radius: Floats
    own: NDArray[np.bool_]

    @property
    def length(self) -> float:
        return float(arc_length(self.points)[-1])

    @property
    def mean_radius(self) -> float:
        return float(self.radius[self.own].mean())

    def turned(self) -> "_Line":
        return _Line(self.points[::-1], self.radius[::-1], self.own[::-1])


@dataclass(eq=False)
class _Piece:
    """A rough line between two nodes, and the radii of its points; equal to itself alone."""

    start: int
    stop: int
    points: Floats
    radius: Floats


class Sketch:
    """The rough tree: pieces between numbered nodes, not yet directed and named."""

    def __init__(self, graph: Centreline, openings: dict[int, Opening]) -> None:
        """From a graph of voxels with the rows at the openings; these are moved to the centres of the caps."""
        self.openings, self.pieces = openings, []
        self.place: dict[int, Floats] = {}
        self.ball: dict[int, float] = {}
        for rows in graph.chains(frozenset(openings)):
            points = graph.points_mm[rows]
            for node, end in ((rows[0], 0), (rows[-1], -1)):
                if node in openings:
                    points[end] = openings[node].centre_mm
                self.place[node], self.ball[node] = points[end].copy(), float(graph.radius_mm[node])
            self.pieces.append(_Piece(rows[0], rows[-1], points, graph.radius_mm[rows]))
        self._degree = Counter(node for piece in self.pieces for node in (piece.start, piece.stop))

    def kind(self, node: int) -> Kind:
        """What a node is."""
        if node in self.openings:
            return "opening"
        degree = self._degree[node]
        return "end" if degree == 1 else "loop" if degree == 2 else "bifurcation"

    def merge_forks(self) -> None:
        """Make forks that all but coincide one: more than two vessels that leave in one place."""
        waiting, at = list(range(len(self.pieces))), self._pieces_at()
        merged = set[int]()
        while waiting:  # the first piece that may be within a fork
            number = heapq.heappop(waiting)
            short = self.pieces[number]
            if number in merged or not self._within_a_fork(short):
                continue
            kept, gone = sorted((short.start, short.stop), key=lambda node: -self.ball[node])
            merged.add(number)
            self._degree.subtract((short.start, short.stop))
            for moved in at.pop(gone) - merged if gone != kept else ():
                piece = self.pieces[moved]
                if piece.start == gone:
                    piece.start, piece.points[0] = kept, self.place[kept]
                if piece.stop == gone:
                    piece.stop, piece.points[-1] = kept, self.place[kept]
                at[kept].add(moved)
                heapq.heappush(waiting, moved)
            self._degree[kept] += self._degree.pop(gone) if gone != kept else 0
        self.pieces = [piece for number, piece in enumerate(self.pieces) if number not in merged]

    def _pieces_at(self) -> dict[int, set[int]]:
        """Numbers of the pieces that begin or end at each node."""
        at = defaultdict[int, set[int]](set)
        for number, piece in enumerate(self.pieces):
            at[piece.start].add(number)
            at[piece.stop].add(number)
        return at

    def _within_a_fork(self, piece: _Piece) -> bool:
        reach = SAME_FORK * max(self.ball[piece.start], self.ball[piece.stop])
        forks = self.kind(piece.start) == self.kind(piece.stop) == "bifurcation"
        return forks and arc_length(piece.points)[-1] < reach * (2 if piece.start == piece.stop else 1)

    def finished(self, wall: Surface, step_mm: float) -> tuple[tuple[Branch, ...], dict[str, Joint]]:
        """Branches and joints: every piece in the middle, directed away from the root, and named."""
        lines = [self._line(piece, wall, step_mm) for piece in self.pieces]
        far, over = self._ways([line.length for line in lines])
        names, leading = self._names(far), self._leading()
        near = [min(far[piece.start], far[piece.stop]) for piece in self.pieces]
        order = sorted(range(len(lines)), key=lambda k: (near[k], -lines[k].mean_radius))
        number = {k: position for position, k in enumerate(order, 1)}
        branches = []
        for k in order:
            piece, line = self.pieces[k], lines[k]
            start, stop = piece.start, piece.stop
            if far[stop] < far[start]:
                start, stop, line = stop, start, line.turned()
            parent = number[over[start]] if start in over else 0
            branches.append(Branch(number[k], names[start], names[stop], parent, *line, k in leading))
        joints = {name: Joint(name, self.kind(node), self.place[node], self.ball[node]) for node, name in names.items()}
        return tuple(branches), joints

    def _line(self, piece: _Piece, wall: Surface, step_mm: float) -> _Line:
        """A piece in the middle, from joint to joint; a blind end is where the vessel's tip is, ahead of its ball."""
        nodes = (piece.start, piece.stop)
        blind = [self.kind(node) == "end" for node in nodes]
        forks = [(self.place[node], self.ball[node]) for node in nodes if self.kind(node) == "bifurcation"]
        points = _between_balls(piece, blind)
        radius = wall.distance_mm(points)
        if len(points) > 1:
            points, radius = refined_centreline(points, (not blind[0], not blind[1]), forks, wall, step_mm)
        for node, end in ((nodes[0], 0), (nodes[1], -1)):
            if node in self.openings:
                self.ball[node] = float(radius[end])
        own = np.ones(len(points), bool)
        for place, ball in forks:
            own &= np.linalg.norm(points - place, axis=1) > ball
        own |= not own.any()
        before, after = np.empty((0, 3)), np.empty((0, 3))
        if blind[0]:
            before = _ahead(points[::-1], radius[0], piece.points[0], wall, step_mm)[::-1]
            self.place[nodes[0]], self.ball[nodes[0]] = before[0], float(radius[0])
        if blind[1]:
            after = _ahead(points, radius[-1], piece.points[-1], wall, step_mm)
            self.place[nodes[1]], self.ball[nodes[1]] = after[-1], float(radius[-1])
        parts = wall.distance_mm(before), radius, wall.distance_mm(after)
        return _Line(
            np.concatenate([before, points, after]), np.concatenate(parts), np.pad(own, (len(before), len(after)))
        )

    def _ways(self, lengths: list[float]) -> tuple[dict[int, float], dict[int, int]]:
        """Distance of each node from the root, mm, and the piece over which it is reached (Dijkstra 1959)."""
        far: dict[int, float] = {}
        over: dict[int, int] = {}
        waiting, at = [(0.0, self._root(), -1)], self._pieces_at()
        while waiting:
            way, node, last = heapq.heappop(waiting)
            if node in far:
                continue
            far[node] = way
            if last >= 0:
                over[node] = last
            for k in at[node]:
                piece = self.pieces[k]
                other = piece.stop if node == piece.start else piece.start
                heapq.heappush(waiting, (way + lengths[k], other, k))
        return far, over

    def _root(self) -> int:
        """The largest inlet, or else the largest opening, or else the end or node with the largest ball."""

        def rank(node: int) -> tuple[bool, bool, float]:
            opening = self.openings.get(node)
            return (
                opening is not None and opening.role == "inlet",
                opening is not None,
                opening.radius_mm if opening else self.ball[node] * (self.kind(node) == "end"),
            )

        return max(sorted({node for piece in self.pieces for node in (piece.start, piece.stop)}), key=rank)

    def _names(self, far: dict[int, float]) -> dict[int, str]:
        """Name of each node, in the order of the distance from the root."""
        taken = {opening.name for opening in self.openings.values()}
        names = {}
        for node in sorted(far, key=lambda node: far[node]):
            kind = self.kind(node)
            free = (f"{kind}_{k}" for k in count(1) if f"{kind}_{k}" not in taken)
            names[node] = self.openings[node].name if kind == "opening" else next(free)
            taken.add(names[node])
        return names

    def _leading(self) -> set[int]:
        """Pieces that are left when blind ends are taken away, and what becomes a blind end thereby."""
        at, left, degree = self._pieces_at(), set(range(len(self.pieces))), self._degree.copy()
        blind = [node for node in at if degree[node] == 1 and node not in self.openings]
        while blind:
            for k in at[blind.pop()] & left:
                left.remove(k)
                for node in (self.pieces[k].start, self.pieces[k].stop):
                    degree[node] -= 1
                    if degree[node] == 1 and node not in self.openings:
                        blind.append(node)
        return left


def _between_balls(piece: _Piece, blind: list[bool]) -> Floats:
    """The points of a piece without those nearer to a blind end than the middle of the ball in it."""
    way, radius = arc_length(piece.points), piece.radius
    first, last = 0, len(way) - 1
    if blind[0]:
        first = largest_near_tip(way + radius[0], radius, END_RADII)
    if blind[1]:
        last -= largest_near_tip((way[-1] - way + radius[-1])[::-1], radius[::-1], END_RADII)
    if first >= last:
        first = last = int(np.argmax(radius))
    return piece.points[first : last + 1]


def _ahead(points: Floats, radius_mm: float, tip_mm: Floats, wall: Surface, step_mm: float) -> Floats:
    """Points from the last of a line, without it, straight on to the wall; `tip_mm` is there where there is no line.

    A line that is no more than its tip goes to the nearest place of the wall, as does one that meets none on its way,
    which leads out through an opening.
    """
    behind = np.flatnonzero(np.linalg.norm(points - points[-1], axis=1) > radius_mm)
    way = points[-1] - points[behind[-1]] if len(behind) else tip_mm - points[-1]
    if not way.any():
        way = wall.nearest(points[-1:])[1][0] - points[-1]
    way = way / max(float(np.linalg.norm(way)), 1e-30)
    tip, gap = points[-1], float(wall.distance_mm(points[-1:])[0])  # a radius along a line may be a little more
    while gap > TIP_GAP * radius_mm:  # a step as long as the distance to the wall does not cross it
        tip = tip + gap * way
        gap = float(wall.distance_mm(tip[None])[0])
        if np.linalg.norm(tip - points[-1]) > wall.extent_mm:
            tip = wall.nearest(points[-1:])[1][0]
            break
    return resampled(np.stack([points[-1], tip]), step_mm)[1:]
