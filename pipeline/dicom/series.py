"""Series: what the headers of a DICOM folder say, which series is meant, and whether its slices form a volume.

Knows no file format and no pixels. A series is named by a short hash of its UID, its modality and its number, because
its description and its UID lead to the patient.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass

import numpy as np

from pipeline.case import LoadSettings
from pipeline.dicom.header import SliceHeader
from pipeline.dicom.stack import Grid, stack
from solver.stage import StageError


@dataclass(frozen=True)
class Series:
    """The slices of one series."""

    headers: list[SliceHeader]

    @property
    def hash(self) -> str:
        """Short hash of the SeriesInstanceUID."""
        return short_hash(self.headers[0].series)

    @property
    def name(self) -> str:
        """How messages name it."""
        first = self.headers[0]
        number = "no number" if first.series_number is None else f"number {first.series_number}"
        return f"series {self.hash} ({first.modality}, {number})"

    @property
    def summary(self) -> str:
        """Its name and what it holds, for messages."""
        first = self.headers[0]
        what = ", localizer" if first.localizer else ""
        return f"{self.name}: {len(self.headers)} files of {first.columns}x{first.rows}{what}"

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """Order in which series are preferred: no localizer, a known place, the most voxels."""
        voxels = {header.instance: header.rows * header.columns * header.frames for header in self.headers}
        placed = any(header.position_mm or header.enhanced for header in self.headers)
        return not self.headers[0].localizer, placed, sum(voxels.values())


def short_hash(uid: str) -> str:
    """The first 8 hexadecimal digits of the SHA-256 of a UID."""
    return hashlib.sha256(uid.encode()).hexdigest()[:8]


def group(headers: list[SliceHeader]) -> list[Series]:
    """Series in the order of their hashes; localizers that share a series with other slices are one of their own."""
    groups: dict[tuple[str, bool], list[SliceHeader]] = {}
    for header in headers:
        groups.setdefault((header.series, header.localizer), []).append(header)
    return sorted((Series(each) for each in groups.values()), key=lambda series: (series.hash, series.rank))


def choose(every: list[Series], wanted: str | None) -> Series:
    """The series with the UID or short hash that is wanted, or else the one with the most voxels.

    Raises
    ------
    StageError
        If there is none, or several are equally large.
    """
    found = [series for series in every if wanted is None or wanted in (series.headers[0].series, series.hash)]
    if not found:
        listing = "; ".join(series.summary for series in every)
        raise StageError(f"load.series: no series with the UID or hash that is given; there are: {listing}")
    best = max(found, key=lambda series: series.rank)
    equal = [series for series in found if series.rank == best.rank]
    if len(equal) > 1:
        raise StageError(
            f"{len(equal)} series have the most voxels ({best.rank[-1]}), it is not certain which is meant; name one in"
            f" load.series: {'; '.join(series.summary for series in equal)}"
        )
    return best


def require_supported(series: Series) -> None:
    """Refuse images that are no slices of intensities, or whose intensities are uncertain.

    Raises
    ------
    StageError
        With the reason and the remedy.
    """
    for header in series.headers:
        reason = _not_a_slice(header) or _uncertain_intensity(header)
        if reason:
            raise StageError(f"{series.name}: {reason}")


def _not_a_slice(header: SliceHeader) -> str | None:
    if header.enhanced or header.frames > 1:
        return (
            f"{header.enhanced or 'a'} multi-frame image of {header.frames} frames, which this version does not read;"
            " convert it to one file a slice, or to NRRD or NIfTI"
        )
    if header.localizer:
        return "localizer images only; give the folder of the series itself"
    if header.modality == "XA" and not header.position_mm:
        return "an X-ray projection (XA without slice positions), not a volume; take the 3-D reconstruction"
    return None


def _uncertain_intensity(header: SliceHeader) -> str | None:
    if header.samples != 1:
        return f"{header.samples} samples a pixel: a colour picture, not measured intensities; take the original series"
    if header.photometric != "MONOCHROME2":
        known = header.photometric if header.photometric == "MONOCHROME1" else "that is no plain grey scale"
        return (
            f"photometric interpretation {known}: it is not certain that large values are bright; convert the series to"
            " MONOCHROME2"
        )
    if header.modality == "CT" and (header.slope is None or header.intercept is None):
        return (
            f"RescaleSlope or RescaleIntercept is missing in file {header.number} of the folder, by name, so that HU"
            " are unknown; export the series again"
        )
    if header.slope == 0 or (header.slope is None) != (header.intercept is None):
        return f"rescale slope {header.slope}, intercept {header.intercept}: not usable; export the series again"
    return None


def grid(series: Series, settings: LoadSettings) -> Grid:
    """The regular grid that the slices form.

    Parameters
    ----------
    series : its slices, one at a place.
    settings : what becomes of slices that form none.

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
        raise StageError(
            f"{series.name}: missing geometry: {what}; without it the place of a voxel is unknown, export the series"
            " again or leave these slices out"
        )
    sizes = Counter((header.columns, header.rows) for header in headers)
    if len(sizes) > 1:
        listing = ", ".join(f"{count} of {columns}x{rows}" for (columns, rows), count in sizes.most_common(6))
        raise StageError(f"{series.name}: slices of several sizes: {listing}; leave out those that do not belong")
    return stack(
        np.array([header.position_mm for header in headers]),
        np.array([header.orientation for header in headers]),
        np.array([header.pixel_spacing_mm for header in headers]),
        series.name,
        settings,
    )
