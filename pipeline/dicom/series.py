# SPDX-License-Identifier: Apache-2.0
"""Series: which series of those that were found is meant, which part of it, and whether its slices form a volume.

Knows no file format and no pixels. A series is named by a short hash of its UID, its modality and its number, because
its description and its UID lead to the patient.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pipeline.case.settings.images import LoadSettings
from pipeline.dicom.header import PATIENT_TAGS, SliceHeader
from pipeline.dicom.parts import KINDS, Part, goes_on, split
from pipeline.dicom.stack import stack
from pipeline.dicom.uids import short_hash
from pipeline.files.regular_grid import Grid
from solver.runtime.errors import StageError

LISTED = 12
"""Most parts or series that a message names."""

NO_VOLUME = {
    "localizer": "localizer images only; give the folder of the series itself",
    "rendered": "projections or renderings of a volume (by ImageType), not the volume; take the original series",
    "map": "a map of a calculated quantity (by ImageType), not measured intensities; take the original series",
}


@dataclass(frozen=True)
class Series:
    """The slices of one series, or of one part of it.

    Attributes
    ----------
    headers : one a slice; further copies of a slice are apart.
    duplicates : pairs of a slice and a further copy of it.
    part : name of the part, empty where the series has only one.
    """

    headers: list[SliceHeader]
    duplicates: list[tuple[SliceHeader, SliceHeader]] = field(default_factory=list)
    part: str = ""

    @property
    def hash(self) -> str:
        """Short hash of the SeriesInstanceUID."""
        return short_hash(self.headers[0].series)

    @property
    def name(self) -> str:
        """How messages name it."""
        first = self.headers[0]
        number = "no number" if first.series_number is None else f"number {first.series_number}"
        without = ", without SeriesInstanceUID" if "SeriesInstanceUID" in first.missing else ""
        part = f", part: {self.part}" if self.part else ""
        return f"series {self.hash} ({first.modality}, {number}{without}{part})"

    @property
    def summary(self) -> str:
        """Its name and what it holds, for messages."""
        first = self.headers[0]
        what = f", {self.parts[0].kind}" if self.parts[0].kind not in ("original", "derived") else ""
        parts = f" in {len(self.parts)} parts" if len(self.parts) > 1 else ""
        return f"{self.name}: {len(self.headers)} slices of {first.columns}x{first.rows}{parts}{what}"

    @cached_property
    def parts(self) -> list[Part]:
        """Stacks of slices that may each form a volume."""
        return split(self.headers)

    @cached_property
    def candidates(self) -> list[Part]:
        """The parts of the most wanted kind, and any that goes on where one of them ends; the others are set apart."""
        wanted = [part for part in self.parts if part.kind == self.parts[0].kind]
        others = [part for part in self.parts if part.kind != self.parts[0].kind]
        return wanted + [part for part in others if any(goes_on(one, part) for one in wanted)]

    @property
    def rank(self) -> tuple[int, bool, int]:
        """Order in which series are preferred: by kind, with a known place, with the most voxels in one part."""
        sizes = [sum(header.rows * header.columns for header in part.headers) for part in self.candidates]
        placed = any(header.position_mm for header in self.headers)
        return -list(KINDS).index(self.parts[0].kind), placed, max(sizes)


def group(headers: list[SliceHeader]) -> list[Series]:
    """Series in the order of their hashes, with further copies of a slice (the same SOP instance) set apart."""
    found: dict[str, Series] = {}
    first: dict[tuple[str, int], SliceHeader] = {}
    for header in headers:
        series = found.setdefault(header.series, Series([]))
        known = first.setdefault((header.instance, header.frame), header)
        if known is header:
            series.headers.append(header)
        else:
            found[known.series].duplicates.append((known, header))
    return sorted((series for series in found.values() if series.headers), key=lambda series: series.hash)


def choose(every: list[Series], wanted: str | None) -> Series:
    """The series with the UID or short hash that is wanted, or else the one with the largest part.

    Raises
    ------
    StageError
        If there is none, or several are equally large.
    """
    found = [series for series in every if wanted is None or wanted in (series.headers[0].series, series.hash)]
    if not found:
        likely = max(every, key=lambda series: series.rank)
        raise StageError(
            f"load.series: no series with the UID or hash that is given; name one that is there (for instance"
            f" load.series: '{likely.hash}'): {_listed(every)}"
        )
    best = max(found, key=lambda series: series.rank)
    equal = [series for series in found if series.rank == best.rank]
    if len(equal) > 1:
        raise StageError(
            f"{len(equal)} series have the most voxels ({best.rank[-1]}), it is not certain which is meant; name one in"
            f" load.series (for instance load.series: '{equal[0].hash}'): {_listed(equal)}"
        )
    return best


def _listed(every: list[Series]) -> str:
    more = f"; and {len(every) - LISTED} more" if len(every) > LISTED else ""
    return "; ".join(series.summary for series in every[:LISTED]) + more


def choose_part(series: Series, settings: LoadSettings) -> Series:
    """The part that is wanted, by number or name, or else the only one that is not set apart.

    Raises
    ------
    StageError
        If there is none, or several are as likely; names those that form a volume, and why the others form none.
    """
    parts = series.parts
    if settings.phase is None:
        if len(series.candidates) > 1:
            raise StageError(_several(series, settings))
        return take(series, parts[0])
    text = str(settings.phase).strip().casefold()
    found = [part for k, part in enumerate(parts, start=1) if text in (str(k), part.name.casefold())]
    if not found:
        raise StageError(
            f"{series.name}: load.phase: no part with the number or name that is given; name one that is there (for"
            f" instance load.phase: 1): {_listing(parts)}"
        )
    return take(series, found[0])


def take(series: Series, part: Part) -> Series:
    """A part of a series as a series."""
    own = {id(header) for header in part.headers}
    return Series(part.headers, [pair for pair in series.duplicates if id(pair[0]) in own], part.name)


def _several(series: Series, settings: LoadSettings) -> str:
    """Why a series of several parts is refused: which of them can be chosen, and what is wrong with the others."""
    faults = [_fault(take(series, part), settings) for part in series.parts]
    listed = {True: "", False: ""}
    for usable in listed:
        numbered = [k for k, fault in enumerate(faults, start=1) if bool(fault) != usable]
        shown = [f"{_numbered(k, series.parts[k - 1])}{faults[k - 1] and f': {faults[k - 1]}'}" for k in numbered]
        listed[usable] = "; ".join(shown[:LISTED]) + (
            f"; and {len(shown) - LISTED} more" if len(shown) > LISTED else ""
        )
    persons = [len({header.patient[k] for header in series.headers} - {""}) for k in range(len(PATIENT_TAGS))]
    mixed = f", slices of {max(persons)} patients (by {' or '.join(PATIENT_TAGS)})" if max(persons) > 1 else ""
    count = f"{series.name} holds {len(series.candidates)} parts that could be meant{mixed}"
    if not listed[True]:
        return f"{count}, and none of them forms a volume: {listed[False]}"
    first = next(k for k, fault in enumerate(faults, start=1) if not fault)
    choice = f"{count}; name one in load.phase (for instance load.phase: {first}), by number or name: {listed[True]}"
    return f"{choice}; these form no volume: {listed[False]}" if listed[False] else choice


def _fault(part: Series, settings: LoadSettings) -> str:
    """Why the headers of a part form no volume; empty where they do."""
    try:
        require_supported(part, turned_round=settings.invert)
        grid(part, settings)
    except StageError as refusal:
        return str(refusal).removeprefix(f"{part.name}: ")
    return ""


def _listing(parts: list[Part]) -> str:
    """Numbers and names of parts, for messages."""
    shown = [_numbered(k, part) for k, part in enumerate(parts[:LISTED], start=1)]
    return "; ".join(shown) + (f"; and {len(parts) - LISTED} more" if len(parts) > LISTED else "")


def _numbered(number: int, part: Part) -> str:
    count = len(part.headers)
    return f"{number}: {part.name or 'the whole series'} ({count} slice{'s' if count > 1 else ''})"


def require_supported(series: Series, turned_round: bool = False) -> None:
    """Refuse images that are no slices of intensities, or whose intensities are uncertain.

    Parameters
    ----------
    series : its slices.
    turned_round : whether the user says that small values are the bright ones (load.invert).

    Raises
    ------
    StageError
        With the reason and the remedy.
    """
    reasons = (
        *(_not_a_slice(header) for header in series.headers),
        _without_pixels(series.headers),
        *(_uncertain_intensity(header, turned_round) for header in series.headers),
    )
    for reason in filter(None, reasons):
        raise StageError(f"{series.name}: {reason}")
    if len({header.photometric for header in series.headers}) > 1:
        raise StageError(
            f"{series.name}: MONOCHROME1 in some slices and MONOCHROME2 in others, so that intensities cannot be"
            " compared; export the series again"
        )
    lacking = sum(header.slope is None for header in series.headers)
    units = {header.unit for header in series.headers}
    if 0 < lacking < len(series.headers) or (series.headers[0].modality == "CT" and len(units) > 1):
        what = f"{lacking} of {len(series.headers)} slices lack RescaleSlope" if lacking else "RescaleType differs"
        raise StageError(f"{series.name}: {what}, so that intensities cannot be compared; export the series again")


def _not_a_slice(header: SliceHeader) -> str | None:
    many = header.multi_frame or header.frames > 1 or header.groups is not None
    if header.kind in NO_VOLUME:
        return NO_VOLUME[header.kind]
    if header.multi_frame == "Enhanced XA" or (header.modality == "XA" and not header.position_mm):
        return "an X-ray projection (XA without slice positions), not a volume; take the 3-D reconstruction"
    if many and header.groups != header.frames:
        described = (
            "without functional groups" if header.groups is None else f"with functional groups for {header.groups}"
        )
        return (
            f"{header.label} is {_article(header.multi_frame)} multi-frame image of {header.frames} frames {described},"
            " so that the places of the frames are unknown; export it again, or as one file a slice"
        )
    return None


def _without_pixels(headers: list[SliceHeader]) -> str | None:
    bare = [header for header in headers if not header.pixels]
    if not bare:
        return None
    if len(bare) == len(headers):
        return "no pixel data (PixelData) in any of its files, only headers; export the series with its images"
    return (
        f"{len(bare)} of {len(headers)} slices have no pixel data (PixelData): {_labels(bare)}; copy or export the"
        " series again"
    )


def _labels(headers: list[SliceHeader]) -> str:
    """Files of slices, for messages."""
    shown = ", ".join(header.label for header in headers[:LISTED])
    return shown + (f" and {len(headers) - LISTED} more" if len(headers) > LISTED else "")


def _article(name: str) -> str:
    return f"an {name}" if name[:1] in ("E", "X") else f"a {name}".rstrip()


def small_is_bright(header: SliceHeader) -> bool:
    """Whether viewers show small values of a slice bright; not of HU, which say themselves what is bright."""
    return header.photometric == "MONOCHROME1" and header.modality != "CT"


def _uncertain_intensity(header: SliceHeader, turned_round: bool) -> str | None:
    if header.samples != 1:
        return f"{header.samples} samples a pixel: a colour picture, not measured intensities; take the original series"
    if small_is_bright(header):
        if not turned_round:
            return (
                "photometric interpretation MONOCHROME1: viewers show its small values bright; if blood is bright in a"
                " viewer, set load.invert: true; else convert the series to MONOCHROME2"
            )
    elif header.photometric != "MONOCHROME2":
        known = header.photometric if header.photometric == "MONOCHROME1" else "that is no plain grey scale"
        return (
            f"photometric interpretation {known}: it is not certain that large values are bright; convert the series to"
            " MONOCHROME2"
        )
    if header.table:
        return (
            "intensities go through a lookup table (ModalityLUTSequence), which is not applied; export the series again"
        )
    if header.modality == "CT" and (header.slope is None or header.intercept is None):
        return (
            f"RescaleSlope or RescaleIntercept is missing in {header.label}, so that HU are unknown; export the series"
            " again"
        )
    if header.slope == 0 or (header.slope is None) != (header.intercept is None):
        return f"rescale slope {header.slope}, intercept {header.intercept}: not usable; export the series again"
    return None


def grid(series: Series, settings: LoadSettings | None) -> Grid:
    """The regular grid that the slices form.

    Parameters
    ----------
    series : its slices, one at a place.
    settings : what becomes of slices that form none; without any they are refused.

    Raises
    ------
    StageError
        If the place of a slice is unknown, slices differ in size, or they form no regular grid.
    """
    headers = series.headers
    missing = {
        "ImagePositionPatient": sum(header.position_mm is None for header in headers),
        "ImageOrientationPatient": sum(header.orientation is None for header in headers),
        "PixelSpacing": sum(header.pixel_spacing_mm is None for header in headers),
    }
    if any(missing.values()):
        what = ", ".join(f"{count} of {len(headers)} slices lack {name}" for name, count in missing.items() if count)
        lacking = [header for header in headers if None in header.place]
        remedy = f" or take these slices out: {_labels(lacking)}" if len(lacking) < len(headers) else ""
        raise StageError(
            f"{series.name}: missing geometry: {what}; without it the place of a voxel is unknown, export the series"
            f" again{remedy}"
        )
    sizes = Counter((header.columns, header.rows) for header in headers)
    if len(sizes) > 1:
        listing = ", ".join(f"{count} of {columns}x{rows}" for (columns, rows), count in sizes.most_common(6))
        common = sizes.most_common(1)[0][0]
        others = [header for header in headers if (header.columns, header.rows) != common]
        raise StageError(
            f"{series.name}: slices of several sizes: {listing}; take out those that do not belong: {_labels(others)}"
        )
    return stack(
        np.array([header.position_mm for header in headers]),
        np.array([header.orientation for header in headers]),
        np.array([header.pixel_spacing_mm for header in headers]),
        series.name,
        settings,
    )
