"""Header: what is taken from the headers of DICOM files, one record a slice.

Who the patient is, is not read.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pydicom

MODALITIES = ("CT", "MR", "XA")
"""Modalities whose images can be slices of a volume."""

ENHANCED = {
    "1.2.840.10008.5.1.4.1.1.2.1": "Enhanced CT",
    "1.2.840.10008.5.1.4.1.1.2.2": "Legacy Converted Enhanced CT",
    "1.2.840.10008.5.1.4.1.1.4.1": "Enhanced MR",
    "1.2.840.10008.5.1.4.1.1.4.4": "Legacy Converted Enhanced MR",
    "1.2.840.10008.5.1.4.1.1.12.1.1": "Enhanced XA",
    "1.2.840.10008.5.1.4.1.1.13.1.1": "X-Ray 3D Angiographic",
}
"""SOP classes that hold several frames in one file."""

OTHER_MODALITIES = ("CR", "DX", "MG", "NM", "OT", "PT", "RF", "RTDOSE", "SC", "SEG", "US")
"""Named in messages; anything else that a header holds could be free text."""

HEADER_TAGS = [
    "SOPClassUID", "SOPInstanceUID", "SeriesInstanceUID", "FrameOfReferenceUID", "SeriesNumber", "Modality",
    "ImageType", "Rows", "Columns", "NumberOfFrames", "SamplesPerPixel", "PhotometricInterpretation",
    "ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "RescaleSlope", "RescaleIntercept",
    "PixelRepresentation", "PixelPaddingValue", "PixelPaddingRangeLimit", "ContrastBolusAgent", "LossyImageCompression",
]  # fmt: skip
"""All that is read of a header: who the patient is, is not."""


@dataclass(frozen=True)
class SliceHeader:
    """What is taken from the header of one file; absent numbers are None.

    Attributes
    ----------
    path, number : the file, and its number among all files of the folder sorted by name, for messages.
    series, instance, frame_of_reference : UIDs.
    enhanced : name of the SOP class if it is a multi-frame one, else empty.
    position_mm, orientation, pixel_spacing_mm : ImagePositionPatient, ImageOrientationPatient, PixelSpacing.
    slope, intercept : rescaling of stored values.
    padding : smallest and largest stored value that means "not measured".
    """

    path: Path
    number: int
    series: str
    instance: str
    frame_of_reference: str
    series_number: int | None
    modality: str
    localizer: bool
    enhanced: str
    rows: int
    columns: int
    frames: int
    samples: int
    photometric: str
    position_mm: tuple[float, ...] | None
    orientation: tuple[float, ...] | None
    pixel_spacing_mm: tuple[float, ...] | None
    slope: float | None
    intercept: float | None
    padding: tuple[int, int] | None
    contrast_agent: bool
    lossy: bool
    transfer_syntax: str

    @property
    def place(self) -> tuple[tuple[float, ...] | None, ...]:
        """Where the slice lies."""
        return self.position_mm, self.orientation, self.pixel_spacing_mm


def read_header(path: Path, number: int) -> SliceHeader | str:
    """The header of a file, or why it is no slice."""
    dataset = pydicom.dcmread(path, stop_before_pixels=True, specific_tags=HEADER_TAGS)
    get = dataset.get
    if not (get("Rows") and get("Columns")):
        return "no image"
    if get("Modality") not in MODALITIES:
        return f"modality {get('Modality') if get('Modality') in OTHER_MODALITIES else 'other'}"
    if not (get("SeriesInstanceUID") and get("SOPInstanceUID")):
        return "no UID of series or image"
    return SliceHeader(
        path=path,
        number=number,
        series=str(get("SeriesInstanceUID")),
        instance=str(get("SOPInstanceUID")),
        frame_of_reference=str(get("FrameOfReferenceUID", "")),
        series_number=_whole(get("SeriesNumber")),
        modality=str(get("Modality")),
        localizer="LOCALIZER" in (get("ImageType") or ()),
        enhanced=ENHANCED.get(str(get("SOPClassUID")), ""),
        rows=int(get("Rows")),
        columns=int(get("Columns")),
        frames=int(get("NumberOfFrames") or 1),
        samples=int(get("SamplesPerPixel") or 1),
        photometric=str(get("PhotometricInterpretation") or ""),
        position_mm=_numbers(get("ImagePositionPatient"), 3),
        orientation=_numbers(get("ImageOrientationPatient"), 6),
        pixel_spacing_mm=_numbers(get("PixelSpacing"), 2),
        slope=_number(get("RescaleSlope")),
        intercept=_number(get("RescaleIntercept")),
        padding=_padding(
            _whole(get("PixelPaddingValue")), _whole(get("PixelPaddingRangeLimit")), get("PixelRepresentation") == 1
        ),
        contrast_agent=str(get("ContrastBolusAgent") or "").strip().upper() not in ("", "NO", "NONE"),
        lossy=get("LossyImageCompression") == "01",
        transfer_syntax=str(dataset.file_meta.get("TransferSyntaxUID", "")),
    )


def _numbers(values: Any, count: int) -> tuple[float, ...] | None:
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        return None
    return numbers if len(numbers) == count and np.isfinite(numbers).all() else None


def _number(value: Any) -> float | None:
    numbers = _numbers((value,), 1)
    return numbers[0] if numbers else None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _padding(value: int | None, limit: int | None, signed: bool) -> tuple[int, int] | None:
    """Range of stored values that are padding; written as unsigned where pixels are signed, it wraps."""
    if value is None:
        return None
    ends = [end - 65536 if signed and end >= 32768 else end for end in (value, value if limit is None else limit)]
    return min(ends), max(ends)
