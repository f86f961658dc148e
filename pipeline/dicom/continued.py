# SPDX-License-Identifier: Apache-2.0
"""Series that go on where another one ends, as scanners store one scan in two: told, and taken together on request."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.dicom.deviations import SHEAR_TOLERANCE
from pipeline.dicom.header import SliceHeader
from pipeline.dicom.parts import SAME_ORIENTATION
from pipeline.dicom.series import Series, choose
from pipeline.files.regular_grid import MIN_SLICES
from solver.runtime.errors import StageError

SAME_STEP = 0.02
"""Of a step, by which those of two series may differ."""
APART = 1.5
"""Steps between the ends of two series that adjoin: one, and what positions are rounded by."""


@dataclass(frozen=True)
class _Stack:
    """Slices at even steps along their normal.

    Attributes
    ----------
    first : one of them.
    axes : (2, 3), directions of its rows and columns.
    along_mm : places along the normal, rising.
    step_mm : between them.
    """

    first: SliceHeader
    axes: NDArray[np.float64]
    along_mm: NDArray[np.float64]
    step_mm: float


def chosen_series(every: list[Series], wanted: str | Sequence[str] | None) -> Series:
    """The series that is wanted, those that are wanted as one, or the one with the largest part.

    Raises
    ------
    StageError
        If none or several could be meant, or none is named and another one goes on where the largest ends.
    """
    if isinstance(wanted, str):
        return choose(every, wanted)
    if wanted is not None:
        return _together([choose(every, each) for each in wanted])
    series = max(every, key=lambda each: each.rank)
    if others := [other for other in every if other is not series and _goes_on(series, other)]:
        names = [each.hash for each in (series, *others)]
        raise StageError(
            f"{series.name}, {len(series.headers)} slices: {' and '.join(each.summary for each in others)}"
            f" {'go' if len(others) > 1 else 'goes'} on where it ends, on the same grid, and a vessel would be cut off"
            f" between them: to take them as one, set load.series: {names}; to take the first alone, set"
            f" load.series: '{names[0]}'"
        )
    return choose(every, None)  # which refuses several that are as large


def _together(several: Sequence[Series]) -> Series:
    """One series of several; of slices at one place that of the first is taken."""
    headers, taken = list[SliceHeader](), list[NDArray[np.float64]]()
    for series in several:
        stack = _stack(series)
        near = 0.0 if stack is None else 0.5 * stack.step_mm
        places = [None if each.position_mm is None else np.array(each.position_mm) for each in series.headers]
        headers += [
            header
            for header, place in zip(series.headers, places, strict=True)
            if place is None or all(np.linalg.norm(place - other) > near for other in taken)
        ]
        taken += [place for place in places if place is not None]
    kept = {id(header) for header in headers}
    pairs = [pair for series in several for pair in series.duplicates if id(pair[0]) in kept]
    return Series(headers, pairs)


def _goes_on(series: Series, other: Series) -> bool:
    """Whether another series lies on the grid of a series, adjoins or overlaps it, and goes beyond one of its ends."""
    one, two = _stack(series), _stack(other)
    if one is None or two is None or not _of_one_scan(one.first, two.first):
        return False
    if abs(two.step_mm / one.step_mm - 1) > SAME_STEP or not _in_line(one, two):
        return False
    low, high = one.along_mm[[0, -1]] + np.array([-0.5, 0.5]) * one.step_mm
    beyond = two.along_mm[0] < low or two.along_mm[-1] > high
    gap = max(two.along_mm[0] - one.along_mm[-1], one.along_mm[0] - two.along_mm[-1])
    return bool(beyond and gap < APART * one.step_mm)


def _stack(series: Series) -> _Stack | None:
    """The slices of the part of a series that is likely meant; none where they form no even stack."""
    headers = series.parts[0].headers
    if len(headers) < MIN_SLICES or any(h.position_mm is None or h.orientation is None for h in headers):
        return None
    first = headers[0]
    axes = np.array(first.orientation, float).reshape(2, 3)
    along = np.sort([np.array(header.position_mm, float) @ np.cross(*axes) for header in headers])
    steps = np.diff(along)
    middle = float(np.median(steps))
    return _Stack(first, axes, along, middle) if middle > 0 and np.ptp(steps) < 0.5 * middle else None


def _of_one_scan(one: SliceHeader, two: SliceHeader) -> bool:
    """Whether two slices are of one patient, place, kind and matrix."""
    same = ("modality", "kind", "frame_of_reference", "rows", "columns", "pixel_spacing_mm", "component")
    if any(getattr(one, name) != getattr(two, name) for name in same):
        return False
    if any(a != b for a, b in zip(one.patient, two.patient, strict=True) if a and b):
        return False
    turned = np.abs(np.array(one.orientation, float) - np.array(two.orientation, float)).max()
    return bool(turned <= SAME_ORIENTATION)


def _in_line(one: _Stack, two: _Stack) -> bool:
    """Whether the slices of two stacks lie at one place within their planes."""
    apart = one.axes @ (np.array(two.first.position_mm, float) - np.array(one.first.position_mm, float))
    return bool(np.abs(apart).max() <= SHEAR_TOLERANCE * min(one.first.pixel_spacing_mm or (0.0,)))
