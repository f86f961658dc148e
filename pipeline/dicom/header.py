"""Header: what is taken from the headers of DICOM files, one record a slice.

A slice is a single-frame file, or one frame of an enhanced multi-frame file (CT, MR, X-ray 3-D, and what is converted
from older files), whose place and rescaling stand in its functional groups (DICOM PS3.3, C.7.6.16).
Who the patient is, is not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydicom.dataset import Dataset
from pydicom.uid import MediaStorageDirectoryStorage

from pipeline.dicom.dataset import Finder, read_dataset, value
from pipeline.dicom.image_type import MARK_TAGS, TYPE_TAGS, component, kind, marks
from pipeline.dicom.words import plain_words

MODALITIES = ("CT", "MR", "XA")
"""Modalities whose images can be slices of a volume."""

OTHER_MODALITIES = ("CR", "DX", "MG", "NM", "OT", "PT", "RF", "RTDOSE", "SC", "SEG", "US")
"""Named in messages; anything else that a header holds could be free text."""

MULTI_FRAME = {
    "1.2.840.10008.5.1.4.1.1.2.1": "Enhanced CT",
    "1.2.840.10008.5.1.4.1.1.2.2": "Legacy Converted Enhanced CT",
    "1.2.840.10008.5.1.4.1.1.4.1": "Enhanced MR",
    "1.2.840.10008.5.1.4.1.1.4.3": "Enhanced MR colour",
    "1.2.840.10008.5.1.4.1.1.4.4": "Legacy Converted Enhanced MR",
    "1.2.840.10008.5.1.4.1.1.12.1.1": "Enhanced XA",
    "1.2.840.10008.5.1.4.1.1.13.1.1": "X-Ray 3D Angiographic",
}
"""SOP classes that hold several frames in one file."""

FRAME_TAGS = {
    "PlanePositionSequence": ["ImagePositionPatient"],
    "PlaneOrientationSequence": ["ImageOrientationPatient"],
    "PixelMeasuresSequence": ["PixelSpacing"],
    "PixelValueTransformationSequence": ["RescaleSlope", "RescaleIntercept", "RescaleType"],
}
"""Functional groups that say where a frame lies and what its values mean; nothing else in the file may say it."""

_MARKS = [tag for tags in MARK_TAGS.values() for tag in tags]

GROUP_TAGS = FRAME_TAGS | {
    "FrameContentSequence": _MARKS,
    "CardiacSynchronizationSequence": _MARKS,
    "TemporalPositionSequence": _MARKS,
    "MREchoSequence": _MARKS,
    "MRDiffusionSequence": _MARKS,
    "MRModifierSequence": _MARKS,
    "MRTimingAndRelatedParametersSequence": _MARKS,
    "CTXRayDetailsSequence": _MARKS,
    "CTReconstructionSequence": _MARKS,
    "CTImageFrameTypeSequence": TYPE_TAGS,
    "MRImageFrameTypeSequence": TYPE_TAGS,
    "XRay3DFrameTypeSequence": TYPE_TAGS,
    "XAXRFFrameCharacteristicsSequence": TYPE_TAGS,
    "ContrastBolusUsageSequence": ["ContrastBolusAgentAdministered"],
    "UnassignedSharedConvertedAttributesSequence": [*_MARKS, *TYPE_TAGS],
    "UnassignedPerFrameConvertedAttributesSequence": [*_MARKS, *TYPE_TAGS],
}
"""What is read of the functional groups."""

HEADER_TAGS = [
    "SOPClassUID", "SOPInstanceUID", "SeriesInstanceUID", "FrameOfReferenceUID", "SeriesNumber", "SeriesDescription",
    "Modality", "Rows", "Columns", "NumberOfFrames", "SamplesPerPixel", "PhotometricInterpretation",
    "ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "RescaleSlope", "RescaleIntercept",
    "RescaleType", "ModalityLUTSequence", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation",
    "PixelPaddingValue", "PixelPaddingRangeLimit", "ContrastBolusAgent", "ContrastBolusAgentSequence",
    "LossyImageCompression", "SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence", *_MARKS, *TYPE_TAGS,
]  # fmt: skip
"""All that is read of a header: who the patient is, is not."""


@dataclass(frozen=True)
class SliceHeader:
    """What is taken from the header of one slice; absent numbers are None.

    Attributes
    ----------
    path, label : the file, and how messages call it.
    frame, frames : index in its file, from 0, and how many the file has.
    groups : number of frames that the functional groups describe; None without any.
    series, instance, frame_of_reference : UIDs.
    description : of the series, only its plain words.
    multi_frame : name of the SOP class if it is a multi-frame one, else empty.
    kind : "original", "derived", "map", "rendered" or "localizer".
    component : of a complex MR image, such as "magnitude"; empty where none is named.
    marks : what can tell slices at one place apart, by the names of `MARK_TAGS`.
    position_mm, orientation, pixel_spacing_mm : ImagePositionPatient, ImageOrientationPatient, PixelSpacing.
    slope, intercept : rescaling of stored values.
    unit : of rescaled CT intensities: "HU" where nothing else is said.
    table : whether intensities go through a lookup table instead.
    bits_allocated, bits_stored, high_bit, signed : how a value is stored.
    lossy : whether it was ever compressed with loss, as far as the header says so.
    padding : ends of the range of stored values that means "not measured", as written.
    """

    path: Path
    label: str
    frame: int
    frames: int
    groups: int | None
    series: str
    instance: str
    frame_of_reference: str
    series_number: int | None
    description: str
    modality: str
    multi_frame: str
    kind: str
    component: str
    marks: Mapping[str, Any]
    rows: int
    columns: int
    samples: int
    photometric: str
    position_mm: tuple[float, ...] | None
    orientation: tuple[float, ...] | None
    pixel_spacing_mm: tuple[float, ...] | None
    slope: float | None
    intercept: float | None
    unit: str
    table: bool
    bits_allocated: int
    bits_stored: int
    high_bit: int
    signed: bool
    padding: tuple[int, int] | None
    contrast_agent: bool
    lossy: bool | None
    transfer_syntax: str

    @property
    def place(self) -> tuple[tuple[float, ...] | None, ...]:
        """Where the slice lies."""
        return self.position_mm, self.orientation, self.pixel_spacing_mm


def read_headers(path: Path, label: str) -> list[SliceHeader] | str:
    """Headers of the slices in a file, or why it holds none.

    A multi-frame file whose frames are not described one by one is one record.

    Raises
    ------
    pydicom.errors.InvalidDicomError
        If it is no DICOM file.
    Exception
        Almost any, if it is a damaged one.
    """
    dataset = read_dataset(path, HEADER_TAGS, stop_before_pixels=True)
    if dataset.file_meta.get("MediaStorageSOPClassUID") == MediaStorageDirectoryStorage:
        return "directory of a medium"
    top = Finder([dataset])
    if not (top.whole("Rows") and top.whole("Columns")):
        return "no image"
    modality = top.text("Modality")
    if modality not in MODALITIES:
        return f"modality {modality if modality in OTHER_MODALITIES else 'other'}"
    if not (top.text("SeriesInstanceUID") and top.text("SOPInstanceUID")):
        return "no UID of series or image"
    syntax = str(dataset.file_meta.get("TransferSyntaxUID", ""))
    groups = top("PerFrameFunctionalGroupsSequence")
    frames = top.whole("NumberOfFrames") or 1
    described = None if groups is None else len(groups)
    if described != frames:
        return [_slice(top, path, label, 0, frames, described, syntax)]
    shared = _flat((top("SharedFunctionalGroupsSequence") or [Dataset()])[0])
    own = [tag for tags in FRAME_TAGS.values() for tag in tags]
    return [
        _slice(Finder([_flat(group), shared, dataset], own), path, label, frame, frames, described, syntax)
        for frame, group in enumerate(groups)
    ]


def _flat(group: Dataset) -> dict[str, Any]:
    """What is read of one frame's functional groups, or of the shared ones."""
    found: dict[str, Any] = {}
    for sequence, keywords in GROUP_TAGS.items():
        for item in (value(group, sequence) or [])[:1]:
            found |= {keyword: each for keyword in keywords if (each := value(item, keyword)) is not None}
    return found


def _slice(
    find: Finder, path: Path, label: str, frame: int, frames: int, groups: int | None, syntax: str
) -> SliceHeader:
    modality = find.text("Modality")
    bits = find.whole("BitsAllocated") or 0
    stored = find.whole("BitsStored") or 0
    high = find.whole("HighBit")
    return SliceHeader(
        path=path,
        label=label + (f", frame {frame + 1}" if groups is not None and frames > 1 else ""),
        frame=frame,
        frames=frames,
        groups=groups,
        series=find.text("SeriesInstanceUID"),
        instance=find.text("SOPInstanceUID"),
        frame_of_reference=find.text("FrameOfReferenceUID"),
        series_number=find.whole("SeriesNumber"),
        description=plain_words(find.text("SeriesDescription")),
        modality=modality,
        multi_frame=MULTI_FRAME.get(find.text("SOPClassUID"), ""),
        kind=kind(find),
        component=component(find) if modality == "MR" else "",
        marks=marks(find),
        rows=find.whole("Rows") or 0,
        columns=find.whole("Columns") or 0,
        samples=find.whole("SamplesPerPixel") or 1,
        photometric=find.text("PhotometricInterpretation"),
        position_mm=find.numbers("ImagePositionPatient", 3),
        orientation=find.numbers("ImageOrientationPatient", 6),
        pixel_spacing_mm=find.numbers("PixelSpacing", 2),
        slope=find.number("RescaleSlope"),
        intercept=find.number("RescaleIntercept"),
        unit=_unit(find.text("RescaleType").upper()),
        table=bool(find("ModalityLUTSequence")),
        bits_allocated=bits,
        bits_stored=stored,
        high_bit=stored - 1 if high is None else high,
        signed=find.whole("PixelRepresentation") == 1,
        padding=_padding(find.whole("PixelPaddingValue"), find.whole("PixelPaddingRangeLimit")),
        contrast_agent=_contrast_agent(find),
        lossy={"00": False, "01": True}.get(find.text("LossyImageCompression")),
        transfer_syntax=syntax,
    )


def _contrast_agent(find: Finder) -> bool:
    administered = find.text("ContrastBolusAgentAdministered")
    named = find.text("ContrastBolusAgent").upper() not in ("", "NO", "NONE")
    return administered == "YES" or (administered != "NO" and (named or bool(find("ContrastBolusAgentSequence"))))


def _unit(text: str) -> str:
    """RescaleType as far as it is a word of the standard."""
    return (
        text
        if text in ("HU", "HU_MOD", "US", "OD", "MGML", "Z_EFF", "ED", "EDW", "PCT")
        else "HU"
        if not text
        else "other"
    )


def _padding(value: int | None, limit: int | None) -> tuple[int, int] | None:
    return None if value is None else (value, value if limit is None else limit)
