# SPDX-License-Identifier: Apache-2.0
"""The tree of a vessel: branches between openings, bifurcations and blind ends, found from the closed surface alone.

The inside is rastered, thinned to curves that run from the middle of every cap (and from the tips of blind ends), and
pruned. This tells which branches there are and how they meet; each is then moved into the middle
(:mod:`refined_centreline`).
"""

import heapq
import logging
from dataclasses import dataclass
from itertools import combinations, count, product
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.files.mesh import Mesh
from pipeline.files.volume import Volume
from pipeline.geometry.branches.centreline import Centreline, join, largest_near_tip
from pipeline.geometry.branches.centreline_refinement import arc_length, refined_centreline, resampled
from pipeline.geometry.branches.thinning import thin, tips
from pipeline.geometry.lattice.crossings import inside
from pipeline.geometry.lattice.frame import Frame
from pipeline.geometry.surface.distance import Surface
from solver.domain.nodes import Opening
from solver.runtime.errors import StageError

VOXELS_IN_RADIUS = 4.5
"""Of the thinnest opening."""
MAX_VOXELS, MAX_FINE_VOXELS = 16_000_000, 40_000_000
"""Voxels of the box, and where these do not show the vessel's connections."""
REFINEMENT = 1.4
MARGIN_VOXELS = 2.5
CAP_VOXELS = 3.0
"""A tip this near a cap belongs to its rim."""
SAME_FORK = 0.5
"""Forks nearer to each other than this part of their ball are one."""
END_RADII = 2.0
"""The ball in a blind end is the largest with its centre within so many of its radii of the tip."""
TIP_GAP = 0.01
"""The tip of a line is at most so far from the wall, in radii of that ball."""
DIRECTION_RADII = 2.0
"""Length over which the direction of a branch at a fork is taken, in radii of the fork, from its ball outwards."""

Floats = NDArray[np.float64]
Kind = Literal["opening", "bifurcation", "end", "loop"]


@dataclass(frozen=True)
class Joint:
    """Where branches end or meet.

    Attributes
    ----------
    name : of the opening; otherwise its kind with a number, in the order of the distance from the root.
    kind : what it is; a ring without fork and end is cut at a ``loop``.
    place_mm : centre of the cap or of the bifurcation's ball, or the tip of a blind end, (x, y, z), LPS, mm.
    radius_mm : of the largest ball in the section there; in a blind end, of the ball that touches the tip.
    """

    name: str
    kind: Kind
    place_mm: Floats
    radius_mm: float


@dataclass(frozen=True)
class Branch:
    """A piece of vessel between two joints, away from the root.

    Attributes
    ----------
    id : 1, 2, ... in the order of the distance from the root, the thicker first.
    start, stop : names of its joints.
    parent : id of the branch over which its start is reached, 0 at the root.
    points_mm : (n, 3), LPS, mm, from joint to joint.
    radius_mm : (n,) radius of the largest ball in the section at each point, mm; the wall counts, caps do not.
    own : (n,) points that are this branch's alone: outside the balls of bifurcations and before that of a blind end.
    leads : whether flow can pass: not so in branches behind which there are blind ends alone.
    """

    id: int
    start: str
    stop: str
    parent: int
    points_mm: Floats
    radius_mm: Floats
    own: NDArray[np.bool_]
    leads: bool

    @property
    def way_mm(self) -> Floats:
        """Distance from the start along the line, (n,), mm."""
        return arc_length(self.points_mm)

    @property
    def length_mm(self) -> float:
        """Length of the line, mm."""
        return float(self.way_mm[-1])

    @property
    def chord_mm(self) -> float:
        """Straight distance of the ends, mm."""
        return float(np.linalg.norm(self.points_mm[-1] - self.points_mm[0]))

    @property
    def tortuosity(self) -> float | None:
        """Length over chord (distance metric, Bullitt et al. 2003, doi:10.1109/TMI.2003.816964); none of a loop."""
        return None if self.start == self.stop else self.length_mm / self.chord_mm

    @property
    def narrowest(self) -> int:
        """Row of the smallest radius that is the branch's own."""
        return int(np.argmin(np.where(self.own, self.radius_mm, np.inf)))

    @property
    def mean_radius_mm(self) -> float:
        """Mean of its own radii, mm; points stand at equal distances."""
        return float(self.radius_mm[self.own].mean())

    @property
    def max_radius_mm(self) -> float:
        """Largest of its own radii, mm."""
        return float(self.radius_mm[self.own].max())


@dataclass(frozen=True)
class Tree:
    """Branches and joints of a vessel.

    Attributes
    ----------
    branches : in the order of their ids.
    joints : by name, in the order of the distance from the root.
    spacing_mm : of the lattice in which the branches were found, mm.
    warnings : what may be wrong.
    """

    branches: tuple[Branch, ...]
    joints: dict[str, Joint]
    spacing_mm: float
    warnings: tuple[str, ...]

    def at(self, joint: str) -> list[Branch]:
        """Branches that meet at a joint; a loop that begins and ends there stands once."""
        return [branch for branch in self.branches if joint in (branch.start, branch.stop)]

    def angles_deg(self, joint: str) -> list[tuple[int, int, float]]:
        """Angle between each two branches at a joint, with their ids: 180 where one goes straight on in the other."""
        ways = [(branch.id, way) for branch in self.at(joint) for way in self._ways(branch, joint)]
        return [
            (one, other, float(np.degrees(np.arccos(np.clip(a @ b, -1, 1)))))
            for (one, a), (other, b) in combinations(ways, 2)
        ]

    def _ways(self, branch: Branch, joint: str) -> list[Floats]:
        """Unit directions out of a joint in which a branch leaves it: two of a loop."""
        forward = [branch.points_mm] if branch.start == joint else []
        backward = [branch.points_mm[::-1]] if branch.stop == joint else []
        return [_direction(points, self.joints[joint].radius_mm) for points in forward + backward]

    @property
    def narrowest(self) -> Branch:
        """The branch with the narrowest place of all through which flow passes, or of all."""
        candidates = [branch for branch in self.branches if branch.leads] or list(self.branches)
        return min(candidates, key=lambda branch: float(branch.radius_mm[branch.narrowest]))

    @property
    def loops(self) -> int:
        """Number of independent loops."""
        return len(self.branches) - len(self.joints) + 1


def _direction(points: Floats, radius_mm: float) -> Floats:
    """Unit direction of a line that begins in the middle of a ball, from where it leaves the ball."""
    way = arc_length(points)
    outside = np.flatnonzero(np.linalg.norm(points - points[0], axis=1) > radius_mm)
    first = int(outside[0]) if len(outside) and outside[0] < len(points) - 1 else 0
    last = int(np.searchsorted(way, way[first] + DIRECTION_RADII * radius_mm).clip(first + 1, len(way) - 1))
    step = points[last] - points[first]
    return np.asarray(step / np.linalg.norm(step))


def trace_tree(mesh: Mesh, openings: tuple[Opening, ...], min_branch_radii: float, log: logging.Logger) -> Tree:
    """Trace the tree of a vessel.

    Parameters
    ----------
    mesh : closed surface, outward normals, caps tagged with the openings' ids.
    openings : the openings; there may be none.
    min_branch_radii : a branch that ends blind and is shorter, in radii of the vessel that it leaves, is a spur.
    log : for what was found.

    Raises
    ------
    StageError
        If an opening is cut off from the rest of the vessel, or two openings cannot be distinguished.
    """
    mask, warnings = _raster(mesh, openings)
    log.info("%d x %d x %d voxels of %.3g mm", *mask.voxels.shape[::-1], mask.spacing_mm[0])
    wall = Surface(mesh)
    caps = _cap_voxels(mask, openings)
    blind = tips(mask.voxels)
    if openings:
        to_caps = Surface(mesh, tuple(opening.id for opening in openings)).distance_mm(mask.to_mm(blind[:, ::-1]))
        blind = blind[to_caps > CAP_VOXELS * mask.spacing_mm[0]]
    skeleton = mask.with_voxels(thin(mask.voxels, np.concatenate([caps, blind])))
    graph = join(skeleton, wall.nearest)
    row_of = {tuple(voxel): row for row, voxel in enumerate(np.argwhere(skeleton.voxels).tolist())}
    cap_rows = {row_of[tuple(voxel)]: opening for voxel, opening in zip(caps.tolist(), openings, strict=True)}
    graph = graph.without_spurs(min_branch_radii, frozenset(cap_rows))
    sketch = _Sketch(graph, cap_rows)
    sketch.merge_forks()
    return Tree(*sketch.finished(wall, mask.spacing_mm[0]), mask.spacing_mm[0], tuple(warnings))


def _raster(mesh: Mesh, openings: tuple[Opening, ...]) -> tuple[Volume, list[str]]:
    """The inside of a surface, in one piece, on a lattice that shows its loops and no others where one does."""
    size = np.ptp(mesh.points_mm, axis=0)
    area = float(np.linalg.norm(mesh.area_vectors_mm2(), axis=1).sum())
    thin_mm = min((opening.radius_mm for opening in openings), default=2 * mesh.volume_mm3() / area)
    spacing = max(thin_mm / VOXELS_IN_RADIUS, _finest(size, MAX_VOXELS))
    wanted = _euler_number_of_solid(mesh)
    while True:
        voxels, frame = _largest_inside(mesh, spacing)
        found = _euler_number(voxels)
        if found == wanted or spacing / REFINEMENT < _finest(size, MAX_FINE_VOXELS):
            break
        spacing /= REFINEMENT
    mask = Volume(voxels, (spacing,) * 3, frame.origin_mm, np.eye(3))
    if found == wanted:
        return mask, []
    return mask, [
        f"the surface has {1 - wanted} loops, but {1 - found} at {spacing:.3g} mm, the smallest spacing in which the"
        " centreline is looked for: vessels that nearly touch may be joined in it, or a thin one parted"
    ]


def _finest(size_mm: Floats, voxels: int) -> float:
    """Spacing at which a box has so many voxels, mm."""
    low, high = 0.0, float(size_mm.max())
    for _ in range(50):
        middle = (low + high) / 2
        fits = np.prod(size_mm / max(middle, 1e-12) + 2 * MARGIN_VOXELS) <= voxels
        low, high = (low, middle) if fits else (middle, high)
    return high


def _euler_number_of_solid(mesh: Mesh) -> int:
    """Within a closed surface: pieces less loops plus cavities, half the number of the surface itself."""
    return (len(np.unique(mesh.triangles)) - len(mesh.triangles) // 2) // 2


def _euler_number(voxels: NDArray[np.bool_]) -> int:
    """Of voxels that are joined over corners: corners less edges plus faces less voxels; the border is empty."""
    number = 0
    for spans in product((False, True), repeat=3):
        cells = voxels
        for axis, along in enumerate(spans):
            if not along:
                ahead, behind = (
                    tuple(slice(*ends) if k == axis else slice(None) for k in range(3)) for ends in ((1, None), (-1,))
                )
                cells = cells[ahead] | cells[behind]
        number += (-1) ** sum(spans) * int(np.count_nonzero(cells))
    return number


def _largest_inside(mesh: Mesh, spacing_mm: float) -> tuple[NDArray[np.bool_], Frame]:
    low, high = mesh.points_mm.min(axis=0), mesh.points_mm.max(axis=0)
    x, y, z = (low - MARGIN_VOXELS * spacing_mm).tolist()
    width, height, depth = (np.ceil((high - low) / spacing_mm + 2 * MARGIN_VOXELS).astype(int) + 1).tolist()
    frame = Frame(spacing_mm, (x, y, z), (depth, height, width))
    label, pieces = ndimage.label(inside(mesh, frame), np.ones((3, 3, 3)))
    if not pieces:
        raise StageError(f"the surface encloses no voxel of {spacing_mm:.3g} mm; its normals may point inward")
    return label == 1 + np.bincount(label.ravel())[1:].argmax(), frame


def _cap_voxels(mask: Volume, openings: tuple[Opening, ...]) -> NDArray[np.int64]:
    """The voxel in the vessel that is nearest to the centre of each cap, (n, 3), (z, y, x)."""
    found = []
    for opening in openings:
        reach = int(np.ceil(opening.radius_mm / mask.spacing_mm[0])) + 1
        middle = np.rint(mask.to_index(opening.centre_mm)).astype(int)[::-1]
        low = np.maximum(middle - reach, 0)
        window = tuple(slice(first, last) for first, last in zip(low, middle + reach + 1, strict=True))
        voxels = np.argwhere(mask.voxels[window]) + low
        if not len(voxels):
            raise StageError(
                f"opening {opening.name} is cut off from the rest of the vessel: between them it is narrower than"
                f" {mask.spacing_mm[0]:.3g} mm; close this end with surface.closed_mm, or segment a wider lumen"
            )
        away = np.linalg.norm(mask.to_mm(voxels[:, ::-1]) - opening.centre_mm, axis=1)
        found.append(voxels[int(np.argmin(away))])
    voxels = np.array(found, dtype=np.int64).reshape(-1, 3)
    if len(np.unique(voxels, axis=0)) < len(voxels):
        raise StageError(f"two openings lie within {mask.spacing_mm[0]:.3g} mm of each other; close one of them")
    return voxels


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


class _Sketch:
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

    def kind(self, node: int) -> Kind:
        """What a node is."""
        if node in self.openings:
            return "opening"
        degree = sum((piece.start == node) + (piece.stop == node) for piece in self.pieces)
        return "end" if degree == 1 else "loop" if degree == 2 else "bifurcation"

    def merge_forks(self) -> None:
        """Make forks that all but coincide one: more than two vessels that leave in one place."""
        while short := next((piece for piece in self.pieces if self._within_a_fork(piece)), None):
            kept, gone = sorted((short.start, short.stop), key=lambda node: -self.ball[node])
            self.pieces.remove(short)
            for piece in self.pieces:
                if piece.start == gone:
                    piece.start, piece.points[0] = kept, self.place[kept]
                if piece.stop == gone:
                    piece.stop, piece.points[-1] = kept, self.place[kept]

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
        waiting = [(0.0, self._root(), -1)]
        while waiting:
            way, node, last = heapq.heappop(waiting)
            if node in far:
                continue
            far[node] = way
            if last >= 0:
                over[node] = last
            for k, piece in enumerate(self.pieces):
                if node in (piece.start, piece.stop):
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
        left = set(range(len(self.pieces)))
        ends = [(piece.start, piece.stop) for piece in self.pieces]
        while True:
            nodes = [node for k in left for node in ends[k]]
            dead = {k for k in left if any(nodes.count(node) == 1 and node not in self.openings for node in ends[k])}
            if not dead:
                return left
            left -= dead


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

    A line that is no more than its tip goes to the nearest place of the wall.
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
    return resampled(np.stack([points[-1], tip]), step_mm)[1:]
