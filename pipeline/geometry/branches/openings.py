# SPDX-License-Identifier: Apache-2.0
"""Openings: where the vessel's ends are cut.

At each end of the centreline, cross-sections of the lumen are taken from the tip inwards. The end is cut at the first
section, some way from the tip, that is as large and as round as those of the tube behind it; the plane's normal is
the tangent of the line through the sections' centroids.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.files.volume import Volume
from pipeline.geometry.branches.centreline import Branch, Centreline
from pipeline.geometry.surface.clip import axes_of_plane

STEP_RADII = 0.2
"""Distance of neighbouring sections."""
REACH_RADII = 3.0
"""Sections start this far outside the free end of the skeleton."""
MOST_EXTENSIONS = 2
"""Times that they start so much farther outside where the lumen goes on there: it frays over 4 radii, not more."""
DEPTH_RADII = 8.0
"""Sections end this far inside it, or where the branch ends."""
TUBE_SECTIONS = 8
"""A section is compared with so many behind it."""
CHOICE = 3
"""So many sections from the outermost full one on are compared: the very first may still feel the tip."""
CHOICE_RADII = 1.0
"""A cut behind a flat face lies within so many radii of where it may lie first."""
TANGENT_RADII = 3.0
"""Length over which the tangent is fitted."""
FULL_AREA = 0.95
LEAST_FULL_AREA = 0.75
"""A section is full from the first fraction of the tube's area; from the second where none reaches the first."""
USUAL_ROUNDNESS = 0.75
"""A quarter of the sections of a vessel are rounder than is usual in it."""
MOST_FULL_AREA = 1.25
"""A cut is refused as skew where its section is larger than this many times the tube's."""
SKEW_AREA = 1.05
"""Of two tangents the straight line's is taken where the parabola's section is this many times larger than its."""
MERGED_AREA = 2.0
"""A section larger than this many times the cut's has merged with another vessel and says nothing of the axis."""
FRAYED_RADII = 4.0
"""Loops of the centreline within so many radii of an end are those of a frayed lumen, not of vessels."""
TAPERED = 1.5
"""Where the vessel is so many times wider than its end, it fades along its length; sections are then also as wide."""
PIXELS_PER_RADIUS = 10.0
HALF_WIDTH_RADII = 3.0
"""Resolution and extent of the picture in which a section is measured."""


def without_frayed_ends(centreline: Centreline) -> tuple[Centreline, frozenset[int]]:
    """The centreline without the loops in which a vessel ends where the image fades and the lumen frays.

    A part that hangs on the rest by one link, holds loops and reaches no farther than some radii of the vessel before
    it is such an end; the vessel then ends where that part began.

    Returns
    -------
    The centreline, and the rows at which it ends so.
    """
    links, tips = list(centreline.links), set()
    for start, part in _hanging_loops(centreline):
        reach = np.linalg.norm(centreline.points_mm[part] - centreline.points_mm[start], axis=1).max()
        if reach <= FRAYED_RADII * _radius_behind(centreline, start, set(part)):
            gone = set(part)
            links = [frozenset() if row in gone else near - gone for row, near in enumerate(links)]
            tips.add(start)
    return Centreline(centreline.points_mm, centreline.radius_mm, tuple(links)), frozenset(tips)


def _hanging_loops(centreline: Centreline) -> list[tuple[int, list[int]]]:
    """Parts with loops that hang on the rest by one link, and no smaller ones do within: the row before and the rows.

    Links whose removal divides the graph are those that no way back leads around, from the order of a search in depth
    (Tarjan 1974, doi:10.1016/0020-0190(74)90003-9). The search begins where the vessel is thickest.
    """
    rows = centreline.rows()
    if not len(rows):
        return []
    root = int(rows[np.argmax(centreline.radius_mm[rows])])
    order, before, number = [root], {root: -1}, {root: 0}
    stack = [(root, iter(sorted(centreline.links[root])))]
    while stack:
        here, near = stack[-1]
        row = next((row for row in near if row not in number), None)
        if row is None:
            stack.pop()
            continue
        before[row], number[row] = here, len(order)
        order.append(row)
        stack.append((row, iter(sorted(centreline.links[row]))))
    lowest, size, extra, found = dict(number), dict.fromkeys(order, 1), dict.fromkeys(order, 0), []
    for here in reversed(order):
        back = [number[row] for row in centreline.links[here] if row != before[here] and number[row] < number[here]]
        lowest[here], extra[here] = min([lowest[here], *back]), extra[here] + len(back)
        up = before[here]
        if up < 0:
            break
        if lowest[here] == number[here] and extra[here] > 0:
            found.append((up, order[number[here] : number[here] + size[here]]))
            extra[here] = 0
            size[up], lowest[up] = size[up] + size[here], min(lowest[up], lowest[here])
            continue
        size[up], extra[up], lowest[up] = size[up] + size[here], extra[up] + extra[here], min(lowest[up], lowest[here])
    return found


def _radius_behind(centreline: Centreline, start: int, gone: set[int]) -> float:
    """Largest radius of the vessel that ends at a row, within some radii of it."""
    rows = np.array([row for row in centreline.rows().tolist() if row not in gone])
    way = np.linalg.norm(centreline.points_mm[rows] - centreline.points_mm[start], axis=1)
    return float(centreline.radius_mm[rows[way <= FRAYED_RADII * centreline.radius_mm[start]]].max())


@dataclass(frozen=True)
class Cut:
    """A plane that cuts off an end: a point in the middle of the section, (3,), LPS, mm, and the outward normal."""

    centre_mm: NDArray[np.float64]
    normal: NDArray[np.float64]


@dataclass(frozen=True)
class _Section:
    """Cross-section of the lumen.

    Attributes
    ----------
    area_mm2 : 0 where there is no lumen.
    centroid_mm : (3,).
    roundness : ratio of the principal axes, in (0, 1].
    whole : whether the section lies in the picture entirely.
    """

    area_mm2: float
    centroid_mm: NDArray[np.float64]
    roundness: float
    whole: bool


@dataclass(frozen=True)
class _Limits:
    """What a section must be to be cut at: distance from the tip, in radii, roundness over the vessel's, and area."""

    cut_radii: float
    roundness: float
    least_mm2: float


def place_cut(
    field: Volume,
    centreline: Centreline,
    branch: Branch,
    cut_radii: float,
    least_radius_mm: float,
    cut_roundness: float,
) -> Cut | None:
    """Plane that cuts the end of a branch, or None where no section is as large and round as the tube behind it.

    Parameters
    ----------
    field : positive in the lumen.
    centreline : pruned.
    branch : one of its terminal branches.
    cut_radii : distance of the cut from the tip, in radii of the end, at least.
    least_radius_mm : equivalent radius of the section, at least.
    cut_roundness : ratio of the section's axes over that of the vessel behind, at least.
    """
    limits = _Limits(cut_radii, cut_roundness, np.pi * least_radius_mm**2)
    for radius in _scales_mm(branch):
        axis = _to_the_tip(field, _axis_of_branch(centreline, branch, radius, STEP_RADII * radius), radius)
        rough, axis = _first_cut(field, axis, radius, limits)
        if rough and (cut := _first_cut(field, axis, radius, limits)[0]):  # along the axis that the rough one repaired
            return cut
    return None


def cut_behind(field: Volume, face: Cut, radius_mm: float, cut_radii: float) -> Cut | None:
    """Plane parallel to a flat face, behind its rounded rim: the outermost whose section is as large as the vessel.

    Parameters
    ----------
    field : positive in the lumen.
    face : a point in the middle of the face, and its outward normal.
    radius_mm : of the vessel that ends there.
    cut_radii : distance of the cut from the face, in radii, at least.

    Returns
    -------
    None where none is, as where a sac or a branch leaves within a radius and a half of the face.
    """
    for radii in np.arange(cut_radii, cut_radii + CHOICE_RADII, STEP_RADII):
        place = face.centre_mm - radii * radius_mm * face.normal
        section = _section(field, place, face.normal, radius_mm)
        if section.whole and FULL_AREA <= section.area_mm2 / (np.pi * radius_mm**2) <= MOST_FULL_AREA:
            return Cut(section.centroid_mm, face.normal)
    return None


def _scales_mm(branch: Branch) -> list[float]:
    """Radii by which sections are placed: that of the end, and that of the vessel where it narrows all the way."""
    wide = widest_mm(branch)
    return [branch.end_radius_mm] + ([wide] if wide > TAPERED * branch.end_radius_mm else [])


def widest_mm(branch: Branch) -> float:
    """Largest radius of what belongs to a branch."""
    return float(branch.radius_mm[branch.way_mm <= branch.own_length_mm].max(initial=0.0))


def _first_cut(
    field: Volume, axis: NDArray[np.float64], radius: float, limits: _Limits
) -> tuple[Cut | None, NDArray[np.float64]]:
    """The outermost good cut along an axis, and a better axis: through the centroids, outwards along its normal."""
    tangents = np.gradient(axis, axis=0)
    sections = [_section(field, *place, radius) for place in zip(axis, tangents, strict=True)]
    for first in _full_sections(sections, limits):
        if cut := _cut_at(field, sections, first, radius, limits):
            centroids = _centroids_behind(sections, first)
            smooth = ndimage.gaussian_filter1d(centroids, 0.3 / STEP_RADII, axis=0, mode="nearest")
            smooth[0] = cut.centre_mm
            return cut, _extended(smooth, cut.normal, first + 1, STEP_RADII * radius)
    return None, axis


def _axis_of_branch(centreline: Centreline, branch: Branch, radius: float, step: float) -> NDArray[np.float64]:
    """Evenly spaced points along a branch, smoothed, extended beyond its free end in a straight line, (n, 3)."""
    way = branch.way_mm - branch.way_mm[0]
    points = centreline.points_mm[list(branch.rows)]
    depth = min(branch.own_length_mm, DEPTH_RADII * radius)
    even = np.arange(0.0, max(depth, 2 * radius), step)
    inner = np.stack([np.interp(even, way, points[:, k]) for k in range(3)], axis=1)
    inner = ndimage.gaussian_filter1d(inner, 0.5 / STEP_RADII, axis=0, mode="nearest")
    start = int(min(1.5 / STEP_RADII, len(inner) // 3))  # the skeleton's free end may turn to a corner of the lumen
    ahead = min(start + int(1.0 / STEP_RADII), len(inner) - 1)
    return _extended(inner[start:], inner[start] - inner[ahead], int(REACH_RADII / STEP_RADII) + start, step)


def _to_the_tip(field: Volume, axis: NDArray[np.float64], radius: float) -> NDArray[np.float64]:
    """An axis that begins outside the lumen: where this frays the skeleton may end far inside."""
    step = np.linalg.norm(axis[1] - axis[0])
    for _ in range(MOST_EXTENSIONS):
        if not _section(field, axis[0], axis[1] - axis[0], radius).area_mm2:
            break
        axis = _extended(axis, axis[0] - axis[1], int(REACH_RADII / STEP_RADII), float(step))
    return axis


def _extended(
    points: NDArray[np.float64], direction: NDArray[np.float64], count: int, step: float
) -> NDArray[np.float64]:
    unit = direction / np.linalg.norm(direction)
    return np.concatenate([points[0] + np.arange(count, 0, -1)[:, None] * step * unit, points])


def _section(field: Volume, centre: NDArray[np.float64], tangent: NDArray[np.float64], radius: float) -> _Section:
    """Measure the part of the lumen around a point in the plane perpendicular to a tangent."""
    pixel = radius / PIXELS_PER_RADIUS
    count = int(HALF_WIDTH_RADII * PIXELS_PER_RADIUS)
    v, u = np.mgrid[-count : count + 1, -count : count + 1] * pixel
    plane = axes_of_plane(tangent / np.linalg.norm(tangent))
    middle = field.to_index(centre)
    right, up = field.to_index(centre + plane.T) - middle
    index = (middle + u[..., None] * right + v[..., None] * up)[..., ::-1]
    values = ndimage.map_coordinates(
        field.voxels, np.moveaxis(index, -1, 0), order=1, mode="constant", cval=-0.5, output=np.float64
    )
    region = _region_at_centre(values > 0, count, within=PIXELS_PER_RADIUS)
    if not region.any():
        return _Section(0.0, centre, 1.0, True)
    flat = np.stack([u[region], v[region]])
    small, large = np.linalg.eigvalsh(np.cov(flat, bias=True) + np.eye(2) * pixel**2 / 12)
    whole = not (region[[0, -1]].any() or region[:, [0, -1]].any())
    return _Section(region.sum() * pixel**2, centre + plane @ flat.mean(axis=1), float(np.sqrt(small / large)), whole)


def _region_at_centre(lumen: NDArray[np.bool_], centre: int, within: float) -> NDArray[np.bool_]:
    """The connected part of a section that comes nearest to the centre of the picture, within some pixels."""
    row, column = np.nonzero(lumen)
    distance = np.hypot(row - centre, column - centre)
    if not len(row) or distance.min() > within:
        return np.zeros_like(lumen)
    nearest = int(np.argmin(distance))
    label, _ = ndimage.label(lumen)
    return label == label[row[nearest], column[nearest]]


def _full_sections(sections: list[_Section], limits: _Limits) -> list[int]:
    """Sections, far enough from the tip, that are as large and as round as the vessel behind them, best first.

    The outermost are the best, and of the outermost few the one whose area is nearest to the tube's. At the end come
    those that are less full, the fullest first: a vessel may narrow all the way to its end.
    """
    empty = [k for k, section in enumerate(sections) if section.area_mm2 == 0]
    tip = empty[-1] + 1 if empty else 0
    fullness: dict[int, float] = {}
    for k in range(tip + int(np.ceil(limits.cut_radii / STEP_RADII)), len(sections) - TUBE_SECTIONS):
        whole = all(section.whole for section in sections[k : k + TUBE_SECTIONS + 1])
        thick = sections[k].area_mm2 >= limits.least_mm2
        if thick and whole and _fits(sections[k], sections[k:], limits.roundness, LEAST_FULL_AREA, np.inf):
            fullness[k] = sections[k].area_mm2 / _tube_area(sections[k:])
    full = [k for k in fullness if fullness[k] >= FULL_AREA]
    others = [k for k in fullness if fullness[k] < FULL_AREA]
    outermost = [k for k in full if k < full[0] + CHOICE]
    return (
        sorted(outermost, key=lambda k: abs(fullness[k] - 1))
        + full[len(outermost) :]
        + sorted(others, key=lambda k: -fullness[k])
    )


def _tube_area(behind: list[_Section]) -> float:
    """Area of the vessel just behind its first section."""
    return float(np.median([section.area_mm2 for section in behind[: TUBE_SECTIONS + 1]]))


def _fits(section: _Section, behind: list[_Section], roundness: float, least: float, most: float) -> bool:
    """Whether a section is so round as the vessel behind usually is, and its area lies between two multiples of that
    just behind: a vessel may be flat over some length of its end, but its width changes all the way.
    """
    usual = np.quantile([other.roundness for other in _alone(behind)], USUAL_ROUNDNESS)
    return bool(section.roundness >= roundness * usual and least <= section.area_mm2 / _tube_area(behind) <= most)


def _cut_at(field: Volume, sections: list[_Section], first: int, radius: float, limits: _Limits) -> Cut | None:
    """Cut at a section, perpendicular to the line through the centroids behind it; None where it would be skew.

    The tangent is that of a parabola over a long way, or of a straight line over a short one where the section across
    the parabola is notably larger: the section across the vessel is the smallest.
    """
    centroids = _centroids_behind(sections, first)
    cuts = []
    for length, degree in ((TANGENT_RADII, 2), (TANGENT_RADII / 2, 1)):
        part = centroids[: int(length / STEP_RADII) + 1]
        coefficients = np.polynomial.polynomial.polyfit(np.arange(len(part)), part, degree)
        tangent = coefficients[1] / np.linalg.norm(coefficients[1])
        cuts.append((_section(field, coefficients[0], tangent, radius), Cut(coefficients[0], -tangent)))
    (curved, _), (straight, _) = cuts
    section, cut = cuts[1 if curved.area_mm2 > SKEW_AREA * straight.area_mm2 else 0]
    fits = _fits(section, sections[first:], limits.roundness, LEAST_FULL_AREA, MOST_FULL_AREA)
    return cut if section.whole and fits else None


def _centroids_behind(sections: list[_Section], first: int) -> NDArray[np.float64]:
    """Centroids from a section inwards, (n, 3)."""
    return np.array([section.centroid_mm for section in _alone(sections[first:])])


def _alone(behind: list[_Section]) -> list[_Section]:
    """Sections until the vessel merges with another; the first counts in any case."""
    most = MERGED_AREA * behind[0].area_mm2
    other = (k for k, section in enumerate(behind) if k and (not section.whole or section.area_mm2 > most))
    return behind[: next(other, None)]
