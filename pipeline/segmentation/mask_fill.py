# SPDX-License-Identifier: Apache-2.0
"""Given masks that do not hold the lumen as it is: contours on some slices alone, and the wall around the lumen."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.segmentation.region_growing import Mask, bounding_box

HOLLOW = 0.2
"""Least volume of what a wall encloses over that of the wall: a wall is at most 1.4 radii of its lumen thick."""

ENCLOSED = 0.8
"""Of the surface of a hollow, the part that touches the wall: a lumen is open at its ends alone, what lies in a loop of
vessels to both sides."""


def between_slices(mask: Mask, spacing_mm: tuple[float, float, float]) -> tuple[Mask, int]:
    """Fill empty slices between drawn ones by the shape of those beside, and count them.

    The distance to the outline changes evenly from one drawn slice to the next (Raya and Udupa 1990,
    doi:10.1109/42.52980), around a middle that moves evenly where each has one outline alone.

    Parameters
    ----------
    mask : (Z, Y, X), contours across one of its axes.
    spacing_mm : x, y, z.
    """
    axis = int(np.argmax([_empty_between(mask, axis) for axis in range(3)]))
    filled = np.moveaxis(mask.copy(), axis, 0)
    steps, count = np.delete(spacing_mm[::-1], axis), 0
    drawn = np.flatnonzero(filled.any(axis=(1, 2)))
    for low, high in pairwise(drawn):
        first, last = filled[low].copy(), filled[high].copy()
        if high - low < 2 or not _go_on(first, last, (high - low) * spacing_mm[2 - axis], steps):
            continue
        for ends in _groups(first, last):
            away, way = [_outline(end, steps) for end in ends], _way(*ends)
            for n in range(low + 1, high):
                filled[n] |= _between(ends, away, way, (n - low) / (high - low))
        count += int(high - low) - 1
    return np.moveaxis(filled, 0, axis), count


def _go_on(first: Mask, last: Mask, apart_mm: float, steps_mm: NDArray[np.floating]) -> bool:
    """Whether outlines are those of one vessel: they overlap, and lie no further apart than the smaller one is wide."""
    least_mm2 = min(np.count_nonzero(plane) for plane in (first, last)) * float(np.prod(steps_mm))
    return bool((first & last).any() and apart_mm <= 2 * np.sqrt(least_mm2 / np.pi))


def _groups(first: Mask, last: Mask) -> list[tuple[Mask, Mask]]:
    """Outlines of two slices that go on in each other: those that overlap, with all that these overlap."""
    ahead, _ = ndimage.label(first | last)
    found = []
    for number in range(1, int(ahead.max()) + 1):
        ends = (first & (ahead == number), last & (ahead == number))
        if all(end.any() for end in ends):
            found.append(ends)
    return found


def _between(ends: tuple[Mask, Mask], away: list[NDArray[np.floating]], way: NDArray[np.floating], part: float) -> Mask:
    """The outline at a part of the way from one to another; its width changes evenly, too."""
    moved = [
        ndimage.shift(each, far * way, order=1, mode="nearest") if way.any() else each
        for each, far in zip(away, (part, part - 1), strict=True)
    ]
    blend = (1 - part) * moved[0] + part * moved[1]
    wide = [np.sqrt(np.count_nonzero(end)) for end in ends]
    wanted = ((1 - part) * wide[0] + part * wide[1]) ** 2
    order = blend.size - round(float(wanted))
    level = np.partition(blend.ravel(), order)[order]
    within, more = blend > level, blend >= level  # of many pixels at the same distance all or none
    closer = abs(np.count_nonzero(within) - wanted) < abs(np.count_nonzero(more) - wanted)
    return within if closer else more


def _empty_between(mask: Mask, axis: int) -> int:
    """How many slices across an axis are empty between others that are not."""
    drawn = np.flatnonzero(mask.any(axis=tuple({0, 1, 2} - {axis})))
    return int(drawn[-1] - drawn[0] + 1 - len(drawn))


def _outline(plane: Mask, steps_mm: NDArray[np.floating]) -> NDArray[np.floating]:
    """Distance to the outline of a slice, mm, above 0 within; outlines at the border go on beyond it."""
    edged = np.pad(plane, 1, mode="edge")
    away = ndimage.distance_transform_edt(edged, steps_mm) - ndimage.distance_transform_edt(~edged, steps_mm)
    return np.asarray(away[1:-1, 1:-1])


def _way(low: Mask, high: Mask) -> NDArray[np.floating]:
    """How far the middle moves from one slice to another, voxels; none where either has several outlines."""
    if max(ndimage.label(plane)[1] for plane in (low, high)) > 1:
        return np.zeros(2)
    return np.subtract(ndimage.center_of_mass(high), ndimage.center_of_mass(low))


def hollow(mask: Mask) -> Mask | None:
    """What a mask encloses like the wall of a vessel; None where it is no wall.

    Parameters
    ----------
    mask : (Z, Y, X) bool, one component.
    """
    box = bounding_box(mask)
    part = mask[box]
    inner = np.logical_or.reduce([_enclosed(part, axis) for axis in range(3)])
    label, count = ndimage.label(inner)
    if not count:
        return None
    inner = label == 1 + int(np.bincount(label.ravel())[1:].argmax())
    if np.count_nonzero(inner) < HOLLOW * np.count_nonzero(part):
        return None
    found = np.zeros_like(mask)
    found[box] = inner
    inner, part = np.pad(inner, 1), np.pad(part, 1)  # what reaches the end of the mask is open there
    wall = open_faces = 0
    for axis in range(3):
        low, high = (
            tuple(slice(*ends) if k == axis else slice(None) for k in range(3)) for ends in ((0, -1), (1, None))
        )
        for here, there in ((low, high), (high, low)):
            faces = inner[here] & ~inner[there]
            wall += int(np.count_nonzero(faces & part[there]))
            open_faces += int(np.count_nonzero(faces & ~part[there]))
    return found if wall >= ENCLOSED * (wall + open_faces) else None


def _enclosed(part: Mask, axis: int) -> Mask:
    """What a mask encloses in the slices across an axis."""
    room = [(0, 0) if k == axis else (1, 1) for k in range(3)]
    structure = ndimage.generate_binary_structure(3, 1)
    structure[tuple(slice(None) if k == axis else 1 for k in range(3))] = False
    structure[1, 1, 1] = True
    free = np.pad(~part, room, constant_values=True)
    label, _ = ndimage.label(free, structure)
    first = np.take(label, 0, axis=(axis + 1) % 3)  # of the room around each slice, which is outside
    inner = free & ~np.isin(label, np.unique(first[first > 0]))
    return inner[tuple(slice(low, size - high) for (low, high), size in zip(room, inner.shape, strict=True))]
