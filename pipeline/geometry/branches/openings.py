# SPDX-License-Identifier: Apache-2.0
"""Openings: where the vessel's ends are cut.

At each end of the centreline, cross-sections of the lumen are taken from the tip inwards. The end is cut at the first
section, some way from the tip, that is as large and as round as those of the tube behind it; the plane's normal is
the tangent of the line through the sections' centroids. From there the cut may be moved outwards along the vessel as
long as its section stays so.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.files.volume import Volume
from pipeline.geometry.branches.centreline_graph import Branch, Centreline
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
STRAIGHTER = 2.0
"""And where the parabola lies so many times farther from the middles of the short way, to which the line is fitted: of
172 ends of trees the axis lies nearer to the parabola below that as a rule, above it to the line."""
NEARER_STEP = 0.1
"""Step in which a cut is moved outwards, in radii."""
BENT_RADII, LEAST_SECTIONS = 2.0, 6
"""The axis goes on there as a parabola through what lies so far behind; a cut stays where there are fewer sections."""
ASIDE_RADII = 0.25
"""And no farther than where a section's middle lies so far aside of the vessel's axis: the tip is none of a tube."""
MOST_NEARER_RADII, LEAST_NEARER_AREA, MOST_NEARER_AREA = 2.0, 0.97, 1.1
"""It is moved so far at most; not to where its section is smaller than that part of the vessel's, as in the tip; nor to
where it is so many times as large as the vessel's if that goes on to widen as behind: something else begins there."""
WIDENING_RADII, MOST_WIDENING = 1.0, 0.1
"""How the vessel widens follows from what lies so far behind: by so much of its radius over a radius at most."""
MERGED_AREA = 2.0
"""A section larger than this many times the cut's has merged with another vessel and says nothing of the axis."""
TAPERED = 1.5
"""Where the vessel is so many times wider than its end, it fades along its length; sections are then also as wide."""
PIXELS_PER_RADIUS = 10.0
HALF_WIDTH_RADII = 3.0
"""Resolution and extent of the picture in which a section is measured."""


@dataclass(frozen=True)
class Cut:
    """A plane that cuts off an end: a point in the middle of the section, (3,), LPS, mm, and the outward normal; and
    how the vessel is bent there, (3,), towards the middle of the bend, one over its radius, 1/mm.
    """

    centre_mm: NDArray[np.float64]
    normal: NDArray[np.float64]
    bend_per_mm: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))


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
    nearest: bool = False,
    short: bool = False,
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
    nearest : from there on as near to the tip as the section stays as large and round.
    short : whether the branch may be a short vessel that leaves a wide one.
    """
    limits = _Limits(cut_radii, cut_roundness, np.pi * least_radius_mm**2)
    for radius in _scales_mm(branch, short):
        axis = _to_the_tip(field, _axis_of_branch(centreline, branch, radius, STEP_RADII * radius), radius)
        rough, axis, _ = _first_cut(field, axis, radius, limits)
        if rough is None:
            continue
        cut, _, behind = _first_cut(field, axis, radius, limits)  # along the axis that the rough one repaired
        if cut:
            return _moved_outwards(field, cut, behind, radius, limits.roundness) if nearest else cut
    return None


def _moved_outwards(field: Volume, cut: Cut, behind: list[_Section], radius: float, roundness: float) -> Cut:
    """A cut moved along the vessel as near to the tip as the section is as large and round as where it was placed.

    The axis goes on as a parabola through the centroids of the sections behind, the new ones among them.
    """
    round_enough = roundness * _section(field, cut.centre_mm, -cut.normal, radius).roundness
    tube_mm2, alone = _tube_area(behind), _alone(behind, MOST_FULL_AREA)[: int(BENT_RADII / STEP_RADII) + 1][::-1]
    if len(alone) < LEAST_SECTIONS:
        return cut
    way = STEP_RADII * np.arange(1 - len(alone), 1.0)
    middles = np.array([section.centroid_mm for section in alone])
    areas = np.array([section.area_mm2 for section in alone])
    known = len(way)
    cut = replace(cut, bend_per_mm=_axis_at(way, middles, 0.0).bend_per_mm)
    while way[-1] < MOST_NEARER_RADII:
        here = way[-1] + NEARER_STEP
        ahead = _axis_at(way, middles, here)
        section = _section(field, ahead.centre_mm, ahead.normal, radius)
        usual_mm2, _ = _areas_at(way, areas, here)
        _, widest_mm2 = _areas_at(way[:known], areas[:known], here)
        large = (
            LEAST_NEARER_AREA * max(usual_mm2, tube_mm2)
            <= section.area_mm2
            <= MOST_NEARER_AREA * max(widest_mm2, tube_mm2)
        )
        aside_mm = np.linalg.norm(section.centroid_mm - ahead.centre_mm)
        if not (section.whole and large and section.roundness >= round_enough and aside_mm <= ASIDE_RADII * radius):
            break
        way, middles = np.append(way, here), np.concatenate([middles, [section.centroid_mm]])
        areas = np.append(areas, section.area_mm2)
        cut = replace(ahead, centre_mm=section.centroid_mm)
    return cut


def _axis_at(way: NDArray[np.float64], middles: NDArray[np.float64], here: float) -> Cut:
    """The section, at some way, across a parabola through the last of some middles, (n, 3), and how that is bent."""
    near = way >= way[-1] - BENT_RADII
    curve = np.polynomial.polynomial.polyfit(way[near] - here, middles[near], 2)
    speed = float(np.linalg.norm(curve[1]))
    normal = curve[1] / speed
    return Cut(curve[0], normal, 2 * (curve[2] - curve[2] @ normal * normal) / speed**2)


def _areas_at(way: NDArray[np.float64], areas: NDArray[np.float64], here: float) -> tuple[float, float]:
    """Area of the vessel over its last radius, and at some way beyond if it goes on to widen as it does there."""
    near = way >= way[-1] - WIDENING_RADII
    radii, aside = np.sqrt(areas[near]), way[near] - way[near].mean()
    widening = float((radii * aside).sum() / (aside**2).sum() / radii.mean())
    wider = 1 + np.clip(widening, 0.0, MOST_WIDENING) * (here - way[near].mean())
    return float(radii.mean() ** 2), float((radii.mean() * wider) ** 2)


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


def _scales_mm(branch: Branch, short: bool) -> list[float]:
    """Radii by which sections are placed: that of the end, that of the vessel where it narrows all the way, and that
    at the tip, where what lies a few radii behind it is another vessel or a sac.
    """
    wide, thin = widest_mm(branch), branch.tip_radius_mm
    scales = [branch.end_radius_mm] + ([wide] if wide > TAPERED * branch.end_radius_mm else [])
    return scales + ([thin] if short and thin < branch.end_radius_mm else [])


def widest_mm(branch: Branch) -> float:
    """Largest radius of what belongs to a branch."""
    return float(branch.radius_mm[branch.way_mm <= branch.own_length_mm].max(initial=0.0))


def _first_cut(
    field: Volume, axis: NDArray[np.float64], radius: float, limits: _Limits
) -> tuple[Cut | None, NDArray[np.float64], list[_Section]]:
    """The outermost good cut along an axis; a better axis, through the centroids and outwards along its normal; and the
    sections from the cut inwards.
    """
    tangents = np.gradient(axis, axis=0)
    sections = [_section(field, *place, radius) for place in zip(axis, tangents, strict=True)]
    for first in _full_sections(sections, limits):
        if cut := _cut_at(field, sections, first, radius, limits):
            centroids = _centroids_behind(sections, first)
            smooth = ndimage.gaussian_filter1d(centroids, 0.3 / STEP_RADII, axis=0, mode="nearest")
            smooth[0] = cut.centre_mm
            return cut, _extended(smooth, cut.normal, first + 1, STEP_RADII * radius), sections[first:]
    return None, axis, []


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

    The tangent is that of a parabola over a long way, or of a straight line over a short one where that describes this
    short way far better, as after a wiggle farther behind, or where the section across the parabola is notably larger:
    the section across the vessel is the smallest; or where the section across the parabola does not fit. None, too,
    where the vessel merges with another right behind, so that it has no line.
    """
    centroids = _centroids_behind(sections, first)
    if len(centroids) < 2:
        return None
    near = centroids[: int(TANGENT_RADII / 2 / STEP_RADII) + 1]
    cuts, away = [], []
    for length, degree in ((TANGENT_RADII, 2), (TANGENT_RADII / 2, 1)):
        part = centroids[: int(length / STEP_RADII) + 1]
        coefficients = np.polynomial.polynomial.polyfit(np.arange(len(part)), part, min(degree, len(part) - 1))
        away.append(np.linalg.norm(np.polynomial.polynomial.polyval(np.arange(len(near)), coefficients).T - near))
        tangent = coefficients[1] / np.linalg.norm(coefficients[1])
        cuts.append((_section(field, coefficients[0], tangent, radius), Cut(coefficients[0], -tangent)))
    (curved, _), (straight, _) = cuts
    skew = curved.area_mm2 > SKEW_AREA * straight.area_mm2 or away[0] > STRAIGHTER * away[1]
    for section, cut in cuts[1:] if skew else cuts:
        if section.whole and _fits(section, sections[first:], limits.roundness, LEAST_FULL_AREA, MOST_FULL_AREA):
            return cut
    return None


def _centroids_behind(sections: list[_Section], first: int) -> NDArray[np.float64]:
    """Centroids from a section inwards, (n, 3)."""
    return np.array([section.centroid_mm for section in _alone(sections[first:])])


def _alone(behind: list[_Section], merged: float = MERGED_AREA) -> list[_Section]:
    """Sections until the vessel merges with another; the first counts in any case."""
    most = merged * behind[0].area_mm2
    other = (k for k, section in enumerate(behind) if k and (not section.whole or section.area_mm2 > most))
    return behind[: next(other, None)]
