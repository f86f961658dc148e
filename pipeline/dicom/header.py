# SPDX-License-Identifier: Apache-2.0
"""Header: what is taken from the headers of DICOM files, one record a slice.

A slice is a single-frame file, or one frame of an enhanced multi-frame file (CT, MR, X-ray 3-D, and what is converted
from older files), whose place and rescaling stand in its functional groups (DICOM PS3.3, C.7.6.16).
Who the patient is, is kept only as checksums, which tell two patients apart and are never written.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydicom._uid_dict import UID_dictionary
from pydicom.dataset import Dataset
from pydicom.uid import UID, MediaStorageDirectoryStorage

from pipeline.dicom.dataset import Finder, read_header, value
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

SINGLE_FRAME = ("1.2.840.10008.5.1.4.1.1.2", "1.2.840.10008.5.1.4.1.1.4", "1.2.840.10008.5.1.4.1.1.12.1")
"""SOP classes that hold one slice in a file: CT, MR, XA."""

STANDARD_ROOT = "1.2.840.10008."
"""How the UIDs of the standard begin."""

UIDS = ("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID")
"""What every image should have."""

PATIENT_TAGS = ("PatientID", "PatientName", "PatientBirthDate")
"""What tells two patients apart."""

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
    "SOPClassUID",
    "SOPInstanceUID",
    "SeriesInstanceUID",
    "FrameOfReferenceUID",
    "SeriesNumber",
    "SeriesDescription",
    "Modality",
    "Rows",
    "Columns",
    "NumberOfFrames",
    "SamplesPerPixel",
    "PhotometricInterpretation",
    "ImagePositionPatient",
    "ImageOrientationPatient",
    "PixelSpacing",
    "RescaleSlope",
    "RescaleIntercept",
    "RescaleType",
    "ModalityLUTSequence",
    "BitsAllocated",
    "BitsStored",
    "HighBit",
    "PixelRepresentation",
    "PixelPaddingValue",
    "PixelPaddingRangeLimit",
    "ContrastBolusAgent",
    "ContrastBolusAgentSequence",
    "LossyImageCompression",
    "SharedFunctionalGroupsSequence",
    "PerFrameFunctionalGroupsSequence",
    *_MARKS,
    *TYPE_TAGS,
    "StudyInstanceUID",
    *PATIENT_TAGS,
]
"""All that is read of a header."""


@dataclass(frozen=True)
class SliceHeader:
    """What is taken from the header of one slice; absent numbers are None.

    Attributes
    ----------
    path, label : the file, and how messages call it.
    frame, frames : index in its file, from 0, and how many the file has.
    groups : number of frames that the functional groups describe; None without any.
    series, instance, frame_of_reference : UIDs; where the first two are missing, texts of our own in their place.
    missing : the UIDs of `UIDS` that it lacks.
    patient : checksums of `PATIENT_TAGS`, to be compared; empty where one is absent.
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
    pixels : whether there are any behind the header.
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
    missing: tuple[str, ...]
    patient: tuple[str, ...]
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
    pixels: bool

    @property
    def place(self) -> tuple[tuple[float, ...] | None, ...]:
        """Where the slice lies."""
        return self.position_mm, self.orientation, self.pixel_spacing_mm


@dataclass(frozen=True)
class NoSlice:
    """Why a file holds no slice; whether it could be one all the same, damaged or without what a slice needs; and the
    SeriesInstanceUID that it names, if it can be read.
    """

    why: str
    doubtful: bool = False
    series: str = ""


def read_headers(path: Path, label: str, modalities: Sequence[str] = MODALITIES) -> list[SliceHeader] | NoSlice:
    """Headers of the slices in a file, or why it holds none.

    A multi-frame file whose frames are not described one by one is one record.

    Parameters
    ----------
    path : of the file.
    label : what it is called in messages.
    modalities : that are taken.

    Raises
    ------
    pydicom.errors.InvalidDicomError
        If it is no DICOM file.
    Exception
        Almost any, if it is a damaged one.
    """
    dataset, pixels = read_header(path, HEADER_TAGS)
    if dataset.file_meta.get("MediaStorageSOPClassUID") == MediaStorageDirectoryStorage:
        return NoSlice("directory of a medium")
    top = Finder([dataset])
    if not (top.whole("Rows") and top.whole("Columns")):
        return _no_slice("no image", top)
    modality = top.text("Modality")
    if modality not in modalities:
        return _no_slice(f"modality {modality if modality in OTHER_MODALITIES else 'other'}", top)
    file = _File(path, label, str(dataset.file_meta.get("TransferSyntaxUID", "")), pixels)
    groups = top("PerFrameFunctionalGroupsSequence")
    frames = top.whole("NumberOfFrames") or 1
    described = None if groups is None else len(groups)
    if described != frames:
        return [_slice(top, file, 0, frames, described)]
    shared = _flat((top("SharedFunctionalGroupsSequence") or [Dataset()])[0])
    own = [tag for tags in FRAME_TAGS.values() for tag in tags]
    return [
        _slice(Finder([_flat(group), shared, dataset], own), file, frame, frames, described)
        for frame, group in enumerate(groups)
    ]


def may_hold_slice(storage: str, series: str = "") -> bool:
    """Whether a file of a SOP class could hold a slice, as it is or damaged.

    A class that is none of the standard's is private if it is well-formed and the file names its series; else damaged.
    """
    if storage in MULTI_FRAME or storage in SINGLE_FRAME:
        return True
    private = UID(storage).is_valid and not storage.startswith(STANDARD_ROOT) and series
    return not (storage in UID_dictionary or private)


def _no_slice(why: str, find: Finder) -> NoSlice:
    series = find.text("SeriesInstanceUID")
    return NoSlice(why, may_hold_slice(find.text("SOPClassUID"), series), series)


@dataclass(frozen=True)
class _File:
    """What the slices of one file have in common."""

    path: Path
    label: str
    syntax: str
    pixels: bool


def _flat(group: Dataset) -> dict[str, Any]:
    """What is read of one frame's functional groups, or of the shared ones."""
    found: dict[str, Any] = {}
    for sequence, keywords in GROUP_TAGS.items():
        for item in (value(group, sequence) or [])[:1]:
            found |= {keyword: each for keyword in keywords if (each := value(item, keyword)) is not None}
    return found


def _slice(find: Finder, file: _File, frame: int, frames: int, groups: int | None) -> SliceHeader:
    modality = find.text("Modality")
    bits = find.whole("BitsAllocated") or 0
    stored = find.whole("BitsStored") or 0
    high = find.whole("HighBit")
    return SliceHeader(
        path=file.path,
        label=file.label + (f", frame {frame + 1}" if groups is not None and frames > 1 else ""),
        frame=frame,
        frames=frames,
        groups=groups,
        series=find.text("SeriesInstanceUID") or _series_without_uid(find),
        instance=find.text("SOPInstanceUID") or f"none, {file.path}",
        frame_of_reference=find.text("FrameOfReferenceUID"),
        missing=tuple(keyword for keyword in UIDS if not find.text(keyword)),
        patient=tuple(_checksum(find.text(keyword)) for keyword in PATIENT_TAGS),
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
        transfer_syntax=file.syntax,
        pixels=file.pixels,
    )


def _series_without_uid(find: Finder) -> str:
    """What else tells one series from another."""
    tags = ("StudyInstanceUID", "SeriesNumber", "Modality", "SeriesDescription")
    return "none, " + "|".join(find.text(keyword) for keyword in tags)


def _checksum(text: str) -> str:
    """Of a text but for its case, and for spaces and carets that only fill it up; empty for an empty one."""
    plain = " ".join(text.replace("^", " ").casefold().split())
    return hashlib.sha256(plain.encode(errors="replace")).hexdigest() if plain else ""


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
