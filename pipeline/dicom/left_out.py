# SPDX-License-Identifier: Apache-2.0
"""Left out: files that are no slices of the chosen series as they are, but could be lost ones of it.

A slice whose header is damaged, or whose SeriesInstanceUID is, leaves no gap where it is at the end of the stack. So
whatever cannot be excluded from being a slice is reported, and refused unless the case says that it may be left out.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.images import LoadSettings
from pipeline.dicom.deviations import POSITION_FLOOR_MM, POSITION_TOLERANCE, SHEAR_TOLERANCE
from pipeline.dicom.files import NOT_DICOM, Doubtful, Scan
from pipeline.dicom.header import SliceHeader, may_hold_slice
from pipeline.dicom.parts import SAME_ORIENTATION
from pipeline.dicom.series import LISTED, Series
from pipeline.dicom.uids import short_hash
from pipeline.files.regular_grid import MIN_SLICES
from solver.runtime.errors import StageError

STEPS_BEYOND = 3
"""How many steps beyond the stack a slice may lie that could belong to it."""


@dataclass(frozen=True)
class LeftOut:
    """A file that could be a slice of the series, by the words of messages, and why it is none as it is."""

    file: str
    why: str


def left_out(chosen: Series, part: Series, every: list[Series], scan: Scan) -> list[LeftOut]:
    """Files that cannot be excluded from being slices of a part of a series.

    Parameters
    ----------
    chosen, part : the series, and the part of it that is meant.
    every, scan : all series, and all that was found beside them.
    """
    damaged = [each for each in scan.doubtful if _could_belong(each, chosen, every, scan)]
    known = {header.instance for header in chosen.headers}
    uids = {header.series for header in chosen.headers}
    own = [header for header in scan.unnamed if header.series in uids]
    return [
        *(LeftOut(each.file.label, each.reason.why) for each in damaged),
        *(LeftOut(header.label, _why_apart(header)) for header in _strays(part, every, scan)),
        *(LeftOut(header.label, "not named by the DICOMDIR") for header in own if header.instance not in known),
    ]


def require_complete_series(part: Series, lost: list[LeftOut], settings: LoadSettings, log: logging.Logger) -> None:
    """Refuse a series of which slices may be lost, unless the case says that they may be.

    Parameters
    ----------
    part : the series.
    lost : files that are left out and may be slices of it.
    settings : the section ``load``; `doubtful_files` says what becomes of these.
    log : where it is said that they are left out.

    Raises
    ------
    StageError
        Naming the files by their numbers.
    """
    if lost and settings.doubtful_files == "refuse":
        raise StageError(f"{message(part, lost)}, or load without them by load.doubtful_files: leave_out")
    if lost:
        log.warning("warning: %s; load.doubtful_files leaves them out", message(part, lost))


def message(part: Series, lost: list[LeftOut]) -> str:
    """Which files could be slices of a part, and what can be done about it."""
    shown = ", ".join(f"{each.file}: {each.why}" for each in lost[:LISTED])
    more = f" and {len(lost) - LISTED} more" if len(lost) > LISTED else ""
    return (
        f"{part.name}: {len(lost)} file{'s' if len(lost) > 1 else ''} could be slices of it ({shown}{more}); copy or"
        " export them again, take them out if they do not belong"
    )


def record(lost: list[LeftOut]) -> list[dict[str, str]]:
    """The same for ``series.json``."""
    return [asdict(each) for each in lost]


def _could_belong(doubtful: Doubtful, chosen: Series, every: list[Series], scan: Scan) -> bool:
    """By the series that it names or whose UID stands in its bytes, or else by the folder and the name of the file."""
    if doubtful.reason.series in {series.headers[0].series for series in every}:
        return doubtful.reason.series in {header.series for header in chosen.headers}
    own = {scan.names[header.path] for header in chosen.headers}
    alike = doubtful.file.pattern in {file.pattern for file in own}
    head = scan.heads[doubtful.file]
    if doubtful.reason.why == NOT_DICOM and not head.tagged:
        return alike  # a text or a database may name the series, too
    named = {series.hash for series in every if series.headers[0].series in head.uids}
    if named:
        return bool(named & {short_hash(header.series) for header in chosen.headers})
    classes = [uid for uid in head.uids if uid.startswith("1.2.840.10008.5.1.4.1.1.")]  # the first is the file's own
    may_be_slice = may_hold_slice(classes[0]) if classes else True
    return may_be_slice and (alike or doubtful.file.name.parent in {file.name.parent for file in own})


def _why_apart(stray: SliceHeader) -> str:
    missing = "SeriesInstanceUID" in stray.missing
    return f"{'no' if missing else 'another'} SeriesInstanceUID, but else as one of the stack"


def _strays(part: Series, every: list[Series], scan: Scan) -> Iterator[SliceHeader]:
    """Slices of series too small for a volume that have a place on the grid of a part, or its number and folder."""
    first = part.headers[0]
    folders = {scan.names[header.path].name.parent for header in part.headers}
    taken, free = {header.place for header in part.headers}, _free_places(part.headers)
    for series in every:
        if series.headers[0].series == first.series or len(series.headers) >= MIN_SLICES:
            continue
        for header in series.headers:
            of_number = first.series_number is not None and header.series_number in (None, first.series_number)
            beside = header.modality == first.modality and scan.names[header.path].name.parent in folders
            lost = free(header) or (of_number and beside and header.place not in taken)
            if lost and header.kind != "localizer":
                yield header


def _free_places(headers: list[SliceHeader]) -> Callable[[SliceHeader], bool]:
    """Whether a slice lies on the regular grid of a stack, between its slices or near its ends, where it has none."""
    first = headers[0]
    if len(headers) < 2 or any(None in header.place for header in headers):
        return lambda header: False
    axes = _axes(first)
    places = np.array([header.position_mm for header in headers]) @ axes
    places = places[np.argsort(places[:, 2], kind="stable")]
    steps = np.diff(places[:, 2])
    if not (steps >= POSITION_FLOOR_MM).any():
        return lambda header: False
    count = round(float(np.ptp(places[:, 2]) / np.median(steps[steps >= POSITION_FLOOR_MM])))
    step = (places[-1] - places[0]) / count
    taken = {round(float(place)) for place in (places[:, 2] - places[0, 2]) / step[2]}
    limit = np.full(3, SHEAR_TOLERANCE * min(first.pixel_spacing_mm or (0.0,)))
    limit[2] = max(POSITION_TOLERANCE * step[2], POSITION_FLOOR_MM)

    def free(header: SliceHeader) -> bool:
        if not _alike(header, first):
            return False
        off = np.array(header.position_mm) @ axes - places[0]
        number = round(float(off[2] / step[2]))
        near = -STEPS_BEYOND <= number <= count + STEPS_BEYOND and number not in taken
        return near and bool((np.abs(off - number * step) <= limit).all())

    return free


def _axes(header: SliceHeader) -> NDArray[np.float64]:
    """Directions of rows, columns and normal, as columns."""
    x, y = np.array(header.orientation, float).reshape(2, 3)
    return np.column_stack([x, y, np.cross(x, y)])


def _alike(header: SliceHeader, other: SliceHeader) -> bool:
    """Whether two slices could belong to one stack."""
    if None in header.place:
        return False
    same = ("modality", "rows", "columns", "pixel_spacing_mm")
    turned = np.abs(np.array(header.orientation, float) - np.array(other.orientation, float)).max()
    return turned <= SAME_ORIENTATION and all(getattr(header, name) == getattr(other, name) for name in same)
