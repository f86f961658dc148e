# SPDX-License-Identifier: Apache-2.0
"""Labels of a map that are parts of one vessel: where one goes on in another across its whole section.

An atlas of arteries gives each segment a label of its own. One of them taken for the vessel would end, with no end of a
vessel, where the next begins.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

MOST_OF_SURFACE = 0.5
"""A label that touches more of another's surface is a wall around it, or what it lies in."""
DEEP = 0.7
"""Where a vessel goes on, the middle of the face between both labels is about as deep in both together as the middle of
the thinner one; where two vessels touch, or a plaque lies on a lumen, it is at the surface."""
COMPACT = 3.0
"""A section has at most so many times the area of the circle that is as deep: steps of voxels and a section aslant make
it twice as large; a sheet along a lumen is longer."""
TRIED = 12
"""Labels from which others are looked for, at most."""
ENDS, LONG, LONGER = 0.5, 3.0, 1.25
"""A part ends at a face where so much more of it lies on one side of the face's middle than on the other, along the
longest axis of what of it is within `LONG` depths; that axis is longer than the next one by this factor of variances. A
vessel passes an organ that touches its side, and an organ is no longer than wide."""
LEAST_FACES = 4
"""Faces of voxels that two labels share, at least: as a section of two voxels across has."""


def continuations(labels: NDArray[np.integer], numbers: Sequence[int], spacing_mm: Sequence[float]) -> list[int]:
    """Labels in which one, or several that are taken together, go on, as a vessel does across its section.

    Parameters
    ----------
    labels : (Z, Y, X), 0 outside.
    numbers : of the label or labels.
    spacing_mm : of the voxels, x, y, z.
    """
    if not (labels > 0).any():
        return []
    labels = labels[_around(labels > 0, 1)]
    own = np.isin(labels, numbers)
    if not own.any():
        return []
    box = _around(own, 2)
    others, faces = _neighbours(labels[box], own[box], spacing_mm)
    outer_mm2 = sum(faces.values())
    return [
        other
        for other in others
        if faces[other] < MOST_OF_SURFACE * outer_mm2 and _goes_on(own, labels == other, faces[other], spacing_mm)
    ]


def chain(labels: NDArray[np.integer], numbers: Sequence[int], spacing_mm: Sequence[float]) -> list[int]:
    """Labels that are parts of one vessel, in their order: those with the largest one that goes on in another.

    Looked at are the largest `TRIED`, as a wall or an organ may be larger than a part of the vessel. None where each of
    them is by itself.

    Parameters
    ----------
    labels : (Z, Y, X), 0 outside.
    numbers : of all labels, the largest first.
    spacing_mm : of the voxels, x, y, z.
    """
    seen: set[int] = set()
    for first in numbers[:TRIED]:
        if first in seen:
            continue
        found, waiting = {first}, [first]
        while waiting:
            for other in continuations(labels, [waiting.pop()], spacing_mm):
                if other not in found:
                    found.add(other)
                    waiting.append(other)
        if len(found) > 1:
            return sorted(found)
        seen |= found
    return []


def _around(part: NDArray[np.bool_], room: int) -> tuple[slice, ...]:
    """The box of a part with some voxels around it, as far as there are."""
    (box,) = ndimage.find_objects(part.astype(np.uint8))
    return tuple(slice(max(side.start - room, 0), side.stop + room) for side in box)


def _neighbours(
    labels: NDArray[np.integer], own: NDArray[np.bool_], spacing_mm: Sequence[float]
) -> tuple[list[int], dict[int, float]]:
    """Labels that share `LEAST_FACES` with one, and the area of the faces that it has with each, 0 among them, mm2."""
    area: dict[int, float] = {}
    count: dict[int, int] = {}
    for axis in range(3):
        face_mm2 = float(np.prod(spacing_mm)) / spacing_mm[2 - axis]
        low, high = (
            tuple(slice(*ends) if k == axis else slice(None) for k in range(3)) for ends in ((0, -1), (1, None))
        )
        for here, there in ((low, high), (high, low)):
            values, times = np.unique(labels[there][own[here] & ~own[there]], return_counts=True)
            for value, n in zip(values.tolist(), times.tolist(), strict=True):
                area[value] = area.get(value, 0.0) + n * face_mm2
                count[value] = count.get(value, 0) + n
    return [value for value in sorted(area) if value and count[value] >= LEAST_FACES], area


def _goes_on(own: NDArray[np.bool_], its: NDArray[np.bool_], faces_mm2: float, spacing_mm: Sequence[float]) -> bool:
    """Whether a face between two parts is a section of both together; an arch that is cut level has two such faces."""
    widest = max(_depth_mm(part[_around(part, 1)], 1, spacing_mm).max() for part in (own, its))
    meeting = (own & ndimage.binary_dilation(its)) | (its & ndimage.binary_dilation(own))
    label, _ = ndimage.label(meeting, np.ones((3, 3, 3), bool))
    sizes = np.bincount(label.ravel())[1:]
    return any(
        _is_section((own, its), label == number, faces_mm2 * size / sizes.sum(), widest, spacing_mm)
        for number, size in enumerate(sizes, start=1)
        if size >= LEAST_FACES
    )


def _is_section(
    parts: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    meeting: NDArray[np.bool_],
    faces_mm2: float,
    widest: float,
    spacing_mm: Sequence[float],
) -> bool:
    """Whether one face between two parts is a section of both together; `widest` is the larger depth of the parts."""
    if faces_mm2 > COMPACT * np.pi * widest**2:
        return False
    own, its = parts
    reach = int(np.ceil(1.5 * widest / min(spacing_mm))) + 1
    box = _around(meeting, reach)
    deep = float(_depth_mm(own[box] | its[box], reach, spacing_mm)[meeting[box]].max())
    thinner = min(_depth_mm(part[box], 1, spacing_mm).max() for part in (own, its))
    if deep < DEEP * thinner or faces_mm2 > COMPACT * np.pi * deep**2:
        return False
    box = _around(meeting, int(np.ceil(LONG * deep / min(spacing_mm))) + 1)
    middle_mm = np.argwhere(meeting[box]).mean(axis=0) * spacing_mm[::-1]
    return any(_ends_at(part[box], middle_mm, LONG * deep, spacing_mm) for part in (own, its))


def _ends_at(
    part: NDArray[np.bool_], middle_mm: NDArray[np.floating], reach_mm: float, spacing_mm: Sequence[float]
) -> bool:
    """Whether what of a part lies within reach of a place is longer than wide and lies to one side of it."""
    away = np.argwhere(part) * spacing_mm[::-1] - middle_mm
    near = away[np.linalg.norm(away, axis=1) < reach_mm]
    if len(near) < LEAST_FACES:
        return False
    variances, axes = np.linalg.eigh(np.cov(near.T))
    side = abs(float(np.sign(near @ axes[:, -1]).mean()))
    return bool(side > ENDS and variances[-1] > LONGER * variances[-2])


def _depth_mm(part: NDArray[np.bool_], room: int, spacing_mm: Sequence[float]) -> NDArray[np.float64]:
    """Depth of each voxel in a part, which goes on for some voxels beyond the border of its box."""
    inner = (slice(room, -room),) * 3
    return np.asarray(
        ndimage.distance_transform_edt(np.pad(part, room, mode="edge"), sampling=spacing_mm[::-1])[inner], np.float64
    )
