# SPDX-License-Identifier: Apache-2.0
"""The parent of a sac: lines through which flow can pass, with the radius that the vessel has without the sac.

The radius along a line is that of the largest ball in the vessel, but where the line or the ball leans into a sac,
which it does over a few diameters at most, and where a branch that ends blind draws the line aside: there line and
radius are carried on from both sides. Where a sac swallows a bifurcation, the lines are carried on from outside it to
where they would meet.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline
from scipy.ndimage import grey_opening, label
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from pipeline.geometry.branches.centreline_refinement import arc_length
from solver.domain.nodes import Opening

Floats = NDArray[np.float64]

STEP = 0.1
"""Distance of the points of the parent's line, in its radii."""
LEAN = 1.1
"""A line leans into a sac where its ball is wider than its surroundings by this factor."""
SURROUNDINGS = 8.0
"""A sac makes balls wider over less than this length, in the parent's radii."""
TOWARDS_MEAN = 0.05
"""Weight of the mean of the lines' ends in the place where they would meet, against their directions: without it, lines
that run almost in one direction would meet anywhere."""


class Way(NamedTuple):
    """A line through which flow can pass, from opening or bifurcation to the next.

    Attributes
    ----------
    line : (n, 4): x, y, z and radius of the largest ball, mm.
    left_at : (m, 3), where branches that end blind leave it.
    """

    line: Floats
    left_at: Floats


def ways_through(lines: Sequence[Floats], openings: Sequence[Opening]) -> list[Way]:
    """The lines through which flow can pass: without those that end blind, and joined where only such leave them.

    Parameters
    ----------
    lines : one a branch, (n, 4): x, y, z and radius, mm; branches that meet share their last point.
    openings : of the vessel.
    """
    lines = [np.asarray(line, float) for line in lines]
    tips = np.array([line[k, :3] for line in lines for k in (0, -1)]).reshape(-1, 3)
    if not len(tips):
        return []
    pairs = cKDTree(tips).query_pairs(1e-4, output_type="ndarray")
    graph = coo_array((np.ones(len(pairs), np.int8), pairs.T), shape=(len(tips),) * 2)
    ends = connected_components(graph, directed=False)[1].reshape(-1, 2)
    open_ends = {
        int(end)
        for end, tip in zip(ends.ravel(), tips, strict=True)
        if any(np.linalg.norm(tip - np.asarray(o.centre_mm)) < o.radius_mm / 2 for o in openings)
    }
    kept = dict(enumerate(ends.tolist()))
    while blind := [
        k for k, pair in kept.items() if any(_meeting(kept, end) == 1 and end not in open_ends for end in pair)
    ]:
        for k in blind:
            del kept[k]
    ways = {k: Way(lines[k], np.empty((0, 3))) for k in kept}
    for joint in sorted({end for pair in kept.values() for end in pair} - open_ends):
        at = [k for k, pair in kept.items() if joint in pair]
        if len(at) == 2 and all(kept[k][0] != kept[k][1] for k in at):
            first, second = at
            one = ways[first].line[:: 1 if kept[first][1] == joint else -1]
            other = ways[second].line[:: 1 if kept[second][0] == joint else -1]
            left_at = np.concatenate([ways[first].left_at, ways[second].left_at, one[-1:, :3]])
            ways[first] = Way(np.concatenate([one, other[1:]]), left_at)
            kept[first] = [sum(kept[first]) - joint, sum(kept[second]) - joint]
            del kept[second], ways[second]
    return list(ways.values())


def _meeting(kept: dict[int, list[int]], end: int) -> int:
    return sum(pair.count(end) for pair in kept.values())


def parent_lines(ways: Sequence[Way]) -> list[Floats]:
    """The parent's lines with their radii, one a way, each (n, 4), points `STEP` radii apart.

    A radius is opened, as in mathematical morphology: the largest function below it without a peak that is shorter
    than `SURROUNDINGS`. Where the ball is wider than that by `LEAN`, or a blind branch leaves within a radius, places
    lie on a cubic, and radii on a straight line, between both sides; at a bifurcation, between the way outside the sac
    and where the ways would meet if they went on as they do there.
    """
    meeting = _meeting_ends(ways)
    at_fork = {place for places in meeting for place in places}
    cleaned = [_cleaned(way, ((k, 0) in at_fork, (k, 1) in at_fork)) for k, way in enumerate(ways)]
    lines = [line for line, _ in cleaned]
    for places in meeting:
        if any(cleaned[k][1][end] for k, end in places):
            _meet_again(lines, {(k, end): cleaned[k][1][end] for k, end in places})
    return lines


def forks(ways: Sequence[Way]) -> Floats:
    """Places and radii of bifurcations, (m, 4)."""
    found = [ways[k].line[-end] for (k, end), *_ in _meeting_ends(ways)]
    return np.array(found).reshape(-1, 4)


def radius_near(place: Floats, parents: Sequence[Floats]) -> float:
    """Radius of the parent, of its lines by :func:`parent_lines`, at the point that is nearest to a place, mm."""
    line = min(parents, key=lambda line: float(np.linalg.norm(line[:, :3] - place, axis=1).min()))
    return float(line[np.linalg.norm(line[:, :3] - place, axis=1).argmin(), 3])


def _meeting_ends(ways: Sequence[Way]) -> list[list[tuple[int, int]]]:
    """Ends, as numbers of the way and of its end, that lie at one place with others; a list for each place."""
    ends = [(k, end) for k in range(len(ways)) for end in (0, 1)]
    if not ends:
        return []
    tips = np.array([ways[k].line[-end, :3] for k, end in ends])
    pairs = cKDTree(tips).query_pairs(1e-4, output_type="ndarray")
    graph = coo_array((np.ones(len(pairs), np.int8), pairs.T), shape=(len(tips),) * 2)
    count, place = connected_components(graph, directed=False)
    groups = [[end for end, at in zip(ends, place, strict=True) if at == k] for k in range(count)]
    return [group for group in groups if len(group) > 1]


def _cleaned(way: Way, at_fork: tuple[bool, bool]) -> tuple[Floats, tuple[int, int]]:
    """The line of a way without what leans into sacs; and how many of its points at both ends lean at a bifurcation."""
    arc, typical = arc_length(way.line[:, :3]), float(np.median(way.line[:, 3]))
    fine = np.linspace(0, arc[-1], max(int(arc[-1] / (STEP * typical)), 8) + 1)
    line = np.column_stack([np.interp(fine, arc, way.line[:, k]) for k in range(4)])
    opened = _opened(line[:, 3], at_fork)
    leans = line[:, 3] > LEAN * opened
    for place in way.left_at:
        at = arc[int(np.linalg.norm(way.line[:, :3] - place, axis=1).argmin())]
        leans |= np.abs(fine - at) < typical
    bumps, count = label(leans)
    beside, at_ends = int(1 / STEP), [0, 0]
    for k in range(1, count + 1):
        rows = np.flatnonzero(bumps == k)
        first, last = max(rows[0] - beside, 0), min(rows[-1] + beside, len(fine) - 1)
        if at_fork[0] and rows[0] == 0:
            at_ends[0] = last + 1
        elif at_fork[1] and rows[-1] == len(fine) - 1:
            at_ends[1] = len(fine) - first
        else:
            line[first : last + 1] = _carried_on(fine, line, first, last)
    line[:, 3] = np.minimum(line[:, 3], LEAN * opened)
    return line, (at_ends[0], at_ends[1])


def _opened(radius: Floats, at_fork: tuple[bool, bool]) -> Floats:
    """The opened radius. A line goes on as wide as at its end; at a bifurcation, as narrow as near by."""
    window = min(2 * int(SURROUNDINGS / STEP / 2) + 1, 2 * (len(radius) // 3) + 1)
    before = radius[:window].min() if at_fork[0] else radius[0]
    after = radius[-window:].min() if at_fork[1] else radius[-1]
    padded = np.concatenate([np.full(window, before), radius, np.full(window, after)])
    return np.asarray(grey_opening(padded, window, mode="nearest")[window:-window])


def _carried_on(fine: Floats, line: Floats, first: int, last: int) -> Floats:
    """Points and radii between two rows of a line, from the places and slopes beside them; straight from its end."""
    reach = int(1 / STEP)
    outer = [max(first - reach, 0), min(last + reach, len(line) - 1)]
    slopes = np.stack(
        [
            (line[row, :3] - line[far, :3]) / (fine[row] - fine[far]) if row != far else np.zeros(3)
            for row, far in zip((first, last), outer, strict=True)
        ]
    )
    chord = (line[last, :3] - line[first, :3]) / (fine[last] - fine[first])
    slopes = np.where(np.any(slopes, axis=1, keepdims=True), slopes, chord)
    ends = fine[[first, last]]
    place = CubicHermiteSpline(ends, line[[first, last], :3], slopes)(fine[first : last + 1])
    return np.column_stack([place, np.interp(fine[first : last + 1], ends, line[[first, last], 3])])


def _meet_again(lines: list[Floats], leaning: dict[tuple[int, int], int]) -> None:
    """Carry lines on to where they would meet, from before the points that lean, as many as given at each end."""
    outside = {place: _outside(lines[place[0]], place[1], count) for place, count in leaning.items()}
    tips = np.array([line[-1, :3] for line in outside.values()])
    slopes = np.array([_slope(line) for line in outside.values()])
    across = np.eye(3) - slopes[:, :, None] * slopes[:, None, :]
    near = TOWARDS_MEAN * len(tips) * np.eye(3)
    joint = np.linalg.solve(
        across.sum(axis=0) + near, (across @ tips[:, :, None]).sum(axis=0)[:, 0] + near @ tips.mean(axis=0)
    )
    for ((k, end), line), slope in zip(outside.items(), slopes, strict=True):
        chord = joint - line[-1, :3]
        length = float(np.linalg.norm(chord))
        count = max(int(length / (STEP * line[-1, 3])), 1)
        way = CubicHermiteSpline([0, length], [line[-1, :3], joint], [slope, chord / max(length, 1e-9)])
        added = way(length * np.arange(1, count + 1) / count) if length > 0 else np.empty((0, 3))
        whole = np.concatenate([line, np.column_stack([added, np.full(len(added), line[-1, 3])])])
        lines[k] = whole if end else whole[::-1]


def _outside(line: Floats, end: int, leaning: int) -> Floats:
    """A line that runs to one of its ends, without the points there that lean; of one that only leans, its far end."""
    towards = line if end else line[::-1]
    return towards[: max(len(line) - leaning, 2)]


def _slope(line: Floats) -> Floats:
    """Unit vector of a line at its end, over the last radius."""
    way = line[-1, :3] - line[max(len(line) - 1 - int(1 / STEP), 0), :3]
    return np.asarray(way / np.linalg.norm(way))
