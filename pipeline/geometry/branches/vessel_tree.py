# SPDX-License-Identifier: Apache-2.0
"""The tree of a vessel: branches between openings, bifurcations and blind ends."""

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.geometry.branches.centreline_refinement import arc_length

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
    if not step.any():  # a loop that is short for its fork: the way to its far side
        step = points[int(np.argmax(np.linalg.norm(points - points[0], axis=1)))] - points[0]
    return np.asarray(step / np.linalg.norm(step))
