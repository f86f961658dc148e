# SPDX-License-Identifier: Apache-2.0
"""The line in the middle of a piece of vessel, to a small part of a voxel, with the largest balls around it.

A point of the line is the centre of the largest ball in the section of the vessel across the line. These centres are
as rough as the wall; between two rounds of centring the line is smoothed by local quadratic fits (Cleveland 1979,
doi:10.1080/01621459.1979.10481038), which do not shorten bends as averages do.
"""

import numpy as np
from numpy.typing import NDArray

from pipeline.geometry.surface.distance import Surface

SMOOTHING_RADII = 1.5
"""Reach of the local fits to both sides, in radii of the vessel."""
LEAST_POINTS = 9
"""Points of a line, at least."""
ROUNDS = 2
DIRECTIONS = 6
"""Directions in a section in which a larger ball is looked for."""
FIRST_STEP, LAST_STEP = 1 / 4, 1 / 128
"""Steps of this search, in radii; the last is the error of the centre, and bounds that of the radius."""
REACH = 1 / 2
"""Distance from the line within which it looks, in radii."""
PIN = 1e4
"""Weight of an end that the line must meet."""

Floats = NDArray[np.float64]


def refined_centreline(
    points_mm: Floats, pinned: tuple[bool, bool], balls: list[tuple[Floats, float]], wall: Surface, step_mm: float
) -> tuple[Floats, Floats]:
    """The line in the middle of a piece of vessel.

    Parameters
    ----------
    points_mm : (n, 3), a rough line, such as voxels of a skeleton.
    pinned : whether the first and the last point stay where they are.
    balls : centres and radii, within which no section of this piece can be distinguished from that of another.
    wall : of the vessel.
    step_mm : distance of the points of the line, about.

    Returns
    -------
    Points (N, 3), and the radii of the largest balls in the sections, (N,), mm.
    """
    points = resampled(points_mm, step_mm)
    radius = wall.distance_mm(points)
    for _ in range(ROUNDS):
        points = resampled(_smoothed(points, radius, pinned, step_mm), step_mm)
        points, radius = _centred(points, wall, pinned, balls)
    points = resampled(_smoothed(points, radius, pinned, step_mm), step_mm)
    return points, _centred(points, wall, (False, False), balls)[1]


def arc_length(points_mm: Floats) -> Floats:
    """Length of a line from its first point to each, (n,), mm."""
    return np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points_mm, axis=0), axis=1))])


def resampled(points_mm: Floats, step_mm: float) -> Floats:
    """Points at equal distances along a line, both ends among them."""
    way = arc_length(points_mm)
    places = np.linspace(0, way[-1], max(round(way[-1] / step_mm) + 1, LEAST_POINTS))
    return np.stack([np.interp(places, way, points_mm[:, k]) for k in range(3)], axis=1)


def _smoothed(points: Floats, radius: Floats, pinned: tuple[bool, bool], step_mm: float) -> Floats:
    """Local quadratic fits along the line, with tricube weights; pinned ends stay."""
    way = arc_length(points)
    reach = np.maximum(SMOOTHING_RADII * radius, 3.5 * min(step_mm, way[-1] / (LEAST_POINTS - 1)))
    weight = np.ones(len(points))
    weight[[0, -1]] = np.where(pinned, PIN, 1.0)
    result = points.copy()
    for k in range(int(pinned[0]), len(points) - int(pinned[1])):
        near = slice(*np.searchsorted(way, [way[k] - reach[k], way[k] + reach[k]], side="right"))
        u = (way[near] - way[k]) / reach[k]
        root = np.sqrt(weight[near] * np.maximum(1 - np.abs(u) ** 3, 0.0) ** 3)
        powers = np.stack([np.ones_like(u), u, u**2], axis=1)
        result[k] = np.linalg.lstsq(powers * root[:, None], points[near] * root[:, None])[0][0]
    return result


def _centred(
    points: Floats, wall: Surface, pinned: tuple[bool, bool], balls: list[tuple[Floats, float]]
) -> tuple[Floats, Floats]:
    """Centres and radii of the largest balls in the sections across a line, by a pattern search.

    A step is shorter than the ball that it starts from, so that no point leaves the vessel.
    """
    across = _frames(points)
    centre, radius = points.copy(), wall.distance_mm(points)
    start, step = radius.copy(), FIRST_STEP * radius
    free = ~np.any([np.linalg.norm(points - place, axis=1) < ball for place, ball in balls], axis=0)
    free = np.broadcast_to(free, len(points)).copy()
    free[[0, -1]] &= ~np.array(pinned)
    turn = 0.0
    while len(rows := np.flatnonzero(free & (step >= LAST_STEP * start))):
        angle = turn + 2 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS
        turn += 1.0  # radian: a ridge between two directions lies along one later
        star = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ across[rows]
        tried = centre[rows, None] + step[rows, None, None] * star
        least = np.repeat(radius[rows], DIRECTIONS)
        found = wall.distance_mm(tried.reshape(-1, 3), least).reshape(len(rows), DIRECTIONS)
        found[np.linalg.norm(tried - points[rows, None], axis=2) > REACH * start[rows, None]] = 0.0
        best = found.argmax(axis=1)
        largest = found[np.arange(len(rows)), best]
        better = largest > radius[rows]
        centre[rows[better]], radius[rows[better]] = tried[better, best[better]], largest[better]
        step[rows[~better]] /= 2
    return centre, radius


def _frames(points: Floats) -> Floats:
    """Two unit vectors across the line at each point, (n, 2, 3)."""
    along = np.gradient(points, axis=0)
    along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-30)
    first = np.cross(along, np.eye(3)[np.abs(along).argmin(axis=1)])
    first /= np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-30)
    return np.stack([first, np.cross(along, first)], axis=1)
