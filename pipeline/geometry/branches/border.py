# SPDX-License-Identifier: Apache-2.0
"""Border: where the border of the image cuts a vessel, and the vessel that is made to go on beyond it.

There the border is the opening. The lumen's section at the border is continued outwards as a straight tube with a round
end, so that surface and centreline cross the border as they would in a larger image, and is cut off again in the plane
of the border. Where the border shaves off a vessel's side there is no opening: the border is wall.

A section that the image hardly resolves is the opening of a vessel that is resolved farther inside and goes on to it.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.files.mesh import Mesh, words_mm
from pipeline.files.volume import Volume
from pipeline.geometry.branches.centreline_graph import Branch, Centreline
from pipeline.geometry.branches.free_ends import Ends
from pipeline.geometry.branches.openings import Cut
from pipeline.geometry.branches.pruning import without_spurs
from pipeline.geometry.surface.clip import ClipError, section_mm2

TUBE_RADII = 3.0
"""Length of the tube beyond the border, in radii of the largest circle in the section: the skeleton must reach it, and
the surface must have forgotten its end at the border."""
SLENDER_SECTION = 1.5
"""Ratio of a section's axes: more is a strip from a vessel's side, or a vessel that leaves obliquely."""
LEAST_SHIFT = 0.5
"""A vessel that leaves obliquely goes aside with depth, at least so much of what its slenderness asks for."""
STRIP_DEPTH = 2.2
"""A vessel whose side is shaved off ends within this depth, in radii of the largest circle in the strip."""
NARROW_SECTION = 0.8
"""A strip from a vessel's side is narrower than the vessel: largest circle over largest ball."""
LEAST_LEFT = 0.5
"""Part of a section of few pixels that smoothing leaves, at least."""
PIXELS_AROUND = 2
"""Pixels around a section that may be filled in part."""
NEIGHBOURS = np.ones((3, 3), bool)
"""Pixels that touch, by an edge or a corner."""


@dataclass(frozen=True, eq=False)
class Section:
    """Where the border of the image cuts the lumen: one connected part of one of the six faces.

    Attributes
    ----------
    axis, last : axis (0, 1, 2 for z, y, x) of the array that the face is perpendicular to, and whether it is the face
        at that axis's end.
    pixels : (a, b) bool over the face, the other two axes of the array.
    cut : the plane of the border, a point in the middle of the section, the normal out of the image.
    radius_mm : of the largest circle in the section.
    area_mm2 : of the section.
    slenderness : ratio of its principal axes, at least 1.
    """

    axis: int
    last: bool
    pixels: NDArray[np.bool_]
    cut: Cut
    radius_mm: float
    area_mm2: float
    slenderness: float

    @property
    def words(self) -> str:
        """Which section, for messages."""
        return f"border of the image at {words_mm(self.cut.centre_mm)}, {self.area_mm2:.1f} mm2"

    @property
    def half_width_mm(self) -> float:
        """Of an ellipse of the section's area and slenderness: of few pixels the largest circle says less."""
        return float(np.sqrt(self.area_mm2 / (np.pi * self.slenderness)))

    def cuts(self, surface: Mesh) -> bool:
        """Whether the section is one of a surface, too: smoothing may take a thin vessel away there."""
        try:
            return section_mm2(surface, self.cut.centre_mm, self.cut.normal) > LEAST_LEFT * self.area_mm2
        except ClipError:
            return False

    def beyond_mm(self, points_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far points (n, 3) lie beyond the border, (n,)."""
        return np.asarray((points_mm - self.cut.centre_mm) @ self.cut.normal)

    def aside_mm(self, points_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        """Distances of points (n, 3) from the line through the middle of the section along its normal, (n,)."""
        away = points_mm - self.cut.centre_mm
        return np.asarray(np.linalg.norm(away - np.outer(away @ self.cut.normal, self.cut.normal), axis=1))


def border_sections(lumen: Volume, least_mm: float) -> tuple[list[Section], list[Section]]:
    """Sections of the lumen in the faces of the image, the largest first: those of ends, and those of shaved sides.

    Of a vessel that leaves through an edge of the image, two faces have a section; the larger one counts.

    Parameters
    ----------
    lumen : (Z, Y, X), part of each voxel that the lumen fills, or a mask.
    least_mm : radius of the largest circle in a section, at least.
    """
    mask = lumen.voxels >= 0.5
    ends, sides = list[Section](), list[Section]()
    wide = [section for section in _all_sections(lumen, mask) if section.radius_mm >= least_mm]
    for section in _apart(mask, wide):
        (sides if _is_strip(lumen, mask, section) else ends).append(section)
    return ends, sides


def thin_sections(lumen: Volume, least_mm: float, others: Sequence[Section]) -> list[Section]:
    """Sections of ends apart from others, the largest first.

    Parameters
    ----------
    lumen : (Z, Y, X), part of each voxel that the lumen fills, or a mask.
    least_mm : half of a section's width, at least.
    others : sections that count already.
    """
    mask = lumen.voxels >= 0.5
    wide = [section for section in _all_sections(lumen, mask) if section.half_width_mm >= least_mm]
    return [section for section in _apart(mask, wide, others) if not _is_strip(lumen, mask, section)]


def _all_sections(lumen: Volume, mask: NDArray[np.bool_]) -> list[Section]:
    return [
        section
        for axis in range(3)
        for last in (False, True)
        for section in _sections_of(lumen, np.take(mask, -1 if last else 0, axis=axis), axis, last)
    ]


def _apart(mask: NDArray[np.bool_], sections: Sequence[Section], others: Sequence[Section] = ()) -> Iterator[Section]:
    """Sections that share no voxel with others or with a larger one."""
    taken = np.zeros(mask.shape, bool)
    for section in [*others, *sorted(sections, key=lambda each: -each.area_mm2)]:
        voxels = np.moveaxis(taken, section.axis, 0)[-1 if section.last else 0]
        if (voxels & section.pixels).any():
            continue
        voxels |= section.pixels
        if section not in others:
            yield section


def _is_strip(lumen: Volume, mask: NDArray[np.bool_], section: Section) -> bool:
    """Whether a slender section is a strip from a vessel's side: the vessel lies right below it, and ends there.

    A round vessel at an angle a to the normal leaves an ellipse of slenderness s = 1 / cos a, and its section at a
    depth d is shifted by d tan a = d sqrt(s^2 - 1).
    """
    if section.slenderness <= SLENDER_SECTION:
        return False
    step_mm, across_mm = _sizes_mm(lumen, section.axis)
    layers = np.moveaxis(mask, section.axis, 0)
    layers = (layers[::-1] if section.last else layers)[: int(np.ceil(STRIP_DEPTH * section.radius_mm / step_mm)) + 1]
    label, _ = ndimage.label(layers)
    own = label == label[0][section.pixels][0]
    if own[-1].any():
        return False
    depth = int(np.ceil(section.radius_mm / step_mm))
    if depth >= len(own) or not own[depth].any():
        return True
    shift_mm = (np.argwhere(own[depth]).mean(axis=0) - np.argwhere(section.pixels).mean(axis=0)) * across_mm
    wanted_mm = depth * step_mm * np.sqrt(section.slenderness**2 - 1)
    return bool(np.linalg.norm(shift_mm) < LEAST_SHIFT * wanted_mm)


def _sizes_mm(lumen: Volume, axis: int) -> tuple[float, NDArray[np.float64]]:
    """Sizes of a voxel along an axis of the array, and along the other two, (2,)."""
    sizes_mm = np.array(lumen.spacing_mm[::-1])
    return float(sizes_mm[axis]), np.delete(sizes_mm, axis)


def _sections_of(lumen: Volume, face: NDArray[np.bool_], axis: int, last: bool) -> list[Section]:
    label, count = ndimage.label(face, NEIGHBOURS)
    _, sizes_mm = _sizes_mm(lumen, axis)
    normal = lumen.direction[:, 2 - axis] * (1 if last else -1)
    sections = []
    for number in range(1, count + 1):
        pixels = label == number
        inside_mm = ndimage.distance_transform_edt(np.pad(pixels, 1), sampling=sizes_mm)[1:-1, 1:-1]
        place = np.unravel_index(int(np.argmax(inside_mm)), face.shape)
        index = np.insert(np.array(place, float), axis, lumen.voxels.shape[axis] - 0.5 if last else -0.5)
        cut = Cut(lumen.to_mm(index[::-1]), normal)
        radius_mm = float(inside_mm.max() - sizes_mm.min() / 2)  # distances are to the middle of pixels outside
        area_mm2 = float(pixels.sum() * sizes_mm.prod())
        sections.append(Section(axis, last, pixels, cut, radius_mm, area_mm2, _slenderness(pixels, sizes_mm)))
    return sections


def _slenderness(pixels: NDArray[np.bool_], sizes_mm: NDArray[np.float64]) -> float:
    places_mm = np.argwhere(pixels) * sizes_mm
    small, large = np.linalg.eigvalsh(np.cov(places_mm.T, bias=True) + np.diag(sizes_mm**2) / 12)
    return float(np.sqrt(large / small))


def beyond_border(lumen: Volume, sections: list[Section]) -> Volume:
    """The lumen in a larger image, with a straight tube beyond the border at each section."""
    pads = np.zeros((3, 2), int)
    for section in sections:
        layers = int(np.ceil(TUBE_RADII * section.radius_mm / _sizes_mm(lumen, section.axis)[0])) + 1
        pads[section.axis, int(section.last)] = max(pads[section.axis, int(section.last)], layers)
    voxels = np.pad(lumen.voxels, pads.tolist())
    for section in sections:
        tube = _tube(lumen, section)
        room = np.moveaxis(voxels, section.axis, 0)
        room = room[-pads[section.axis, 1] :] if section.last else room[: pads[section.axis, 0]][::-1]
        across = [slice(pads[axis, 0], pads[axis, 0] + lumen.voxels.shape[axis]) for axis in range(3)]
        del across[section.axis]
        part = room[(slice(len(tube)), *across)]
        np.maximum(part, tube, out=part)
    x, y, z = lumen.to_mm(-pads[::-1, 0]).tolist()
    return Volume(voxels, lumen.spacing_mm, (x, y, z), lumen.direction)


def _tube(lumen: Volume, section: Section) -> NDArray[np.generic]:
    """Layers of the tube beyond a section, (n, a, b), from the border outwards."""
    step_mm, across_mm = _sizes_mm(lumen, section.axis)
    face = np.take(lumen.voxels, -1 if section.last else 0, axis=section.axis)
    around = ndimage.binary_dilation(section.pixels, NEIGHBOURS, iterations=PIXELS_AROUND)
    inside_mm = ndimage.distance_transform_edt(section.pixels, sampling=across_mm)
    radius = section.radius_mm
    height = (np.arange(int(np.ceil(TUBE_RADII * radius / step_mm))) + 0.5) * step_mm
    rounding = np.clip(height - (TUBE_RADII - 1) * radius, 0, radius)
    shrunk_mm = radius - np.sqrt(radius**2 - rounding**2)
    kept = np.where(shrunk_mm[:, None, None] > 0, inside_mm > shrunk_mm[:, None, None], around)
    return np.where(kept, face, 0).astype(lumen.voxels.dtype)


def ends_at_border(
    centreline: Centreline, sections: list[Section], min_branch_radii: float
) -> tuple[Centreline, dict[int, Section], list[Section]]:
    """Which end of a centreline lies beyond which section.

    Parameters
    ----------
    centreline : of the lumen with the tubes of the sections.
    sections : the border's.
    min_branch_radii : a shorter branch, in radii of its parent, is a spur.

    Returns
    -------
    The centreline with one end in each tube at most; its rows by section; the sections that shave off a vessel's side,
    where no branch ends in the tube, or one that leaves a vessel that goes on along the border.
    """
    tips: dict[int, Section] = {}
    sides = []
    for section in sections:
        own = [each for each in centreline.terminal_branches() if section_beyond(centreline, each, sections) is section]
        own.sort(key=lambda branch: -float(section.beyond_mm(centreline.points_mm[[branch.rows[0]]])[0]))
        for spur in own[1:]:
            if spur.forked and len(centreline.links[spur.rows[0]]) == 1:
                centreline = centreline.without(spur)
        if own:
            tips[own[0].rows[0]] = section
        else:
            sides.append(section)
    pruned = without_spurs(centreline, min_branch_radii, frozenset(tips))
    for branch in pruned.terminal_branches():
        if branch.rows[0] in tips and _leaves_along(pruned, branch, tips[branch.rows[0]]):
            sides.append(tips[branch.rows[0]])
    return centreline, {row: each for row, each in tips.items() if each not in sides}, sides


def section_beyond(centreline: Centreline, branch: Branch, sections: Sequence[Section]) -> Section | None:
    """The section in whose tube a branch ends, the nearest of several; None if it ends in the image.

    Parameters
    ----------
    centreline : whose rows the branch counts.
    branch : its first row is its tip.
    sections : of the image's border.
    """
    tip = centreline.points_mm[[branch.rows[0]]]
    beyond = [section for section in sections if section.beyond_mm(tip)[0] > 0]
    return min(beyond, key=lambda each: float(each.aside_mm(tip)[0]) / each.radius_mm, default=None)


def near_border(lumen: Volume, centreline: Centreline) -> NDArray[np.bool_]:
    """Points whose ball reaches the border of the image, to a voxel and half a radius."""
    index = lumen.to_index(centreline.points_mm)
    size = np.array(lumen.voxels.shape[::-1])
    distance = np.minimum(index + 0.5, size - 0.5 - index) * lumen.spacing_mm
    return np.asarray(distance.min(axis=1) < 1.5 * centreline.radius_mm + max(lumen.spacing_mm))


def reached_by_tails(found: Ends, border: Collection[Section], sections: Sequence[Section]) -> list[Section]:
    """Sections that may be the end of the thin tail of an open end.

    Parameters
    ----------
    found : ends, whose open ones have lost their thin tails.
    border : sections whose ends are open without that.
    sections : others.
    """
    tips = [found.centreline.points_mm[whole.rows[0]] for whole, _ in _with_tails(found)]
    return [
        section
        for section in sections
        if section not in border
        and any(
            np.linalg.norm(tip - section.cut.centre_mm) < (section.slenderness + 1) * section.half_width_mm
            for tip in tips
        )
    ]


def open_to_border(found: Ends, rows: Collection[int]) -> Ends:
    """Ends of which those in the tubes beyond sections are open there, however thin their tails are.

    A vessel without forks that is open at its other end is resolved, though not in the half that ends here.

    Parameters
    ----------
    found : ends.
    rows : of the centreline, the ends in the tubes.
    """
    whole = {end.rows: branch for branch, end in _with_tails(found) if branch.rows[0] in rows}
    ends, closed = [whole.get(end.rows, end) for end in found.open], dict(found.closed)
    for branch in found.centreline.terminal_branches() if ends else ():
        if branch.rows[0] in found.too_thin.intersection(rows, closed) and not branch.forked:
            ends.append(branch)
            del closed[branch.rows[0]]
    return replace(found, open=sorted(ends, key=lambda end: end.rows), closed=closed)


def _with_tails(found: Ends) -> list[tuple[Branch, Branch]]:
    """Branches with their thin tails, and without, of the open ends."""
    branches = found.centreline.terminal_branches()
    return [(branch, end) for end in found.open for branch in branches if branch.rows[-len(end.rows) :] == end.rows]


def _leaves_along(centreline: Centreline, branch: Branch, section: Section) -> bool:
    """Whether a branch to the border leaves a vessel that runs along the border, whose side the border shaves off."""
    if not branch.forked:
        return False
    fork = branch.rows[-1]
    ball_mm = float(centreline.radius_mm[fork])
    near = -float(section.beyond_mm(centreline.points_mm[[fork]])[0]) < ball_mm
    return near and (section.slenderness > SLENDER_SECTION or section.radius_mm < NARROW_SECTION * ball_mm)


def border_record(border: Sequence[Section], shaved: Sequence[Section]) -> list[dict[str, Any]]:
    """Where the border of the image cuts the vessel, and where it shaves off a side."""
    return [
        {"place_mm": each.cut.centre_mm.tolist(), "area_mm2": each.area_mm2, "opening": not side}
        for side, sections in ((False, border), (True, shaved))
        for each in sections
    ]
