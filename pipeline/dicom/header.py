"""Header: what is taken from the headers of DICOM files, one record a slice.

A slice is a single-frame file, or one frame of an enhanced multi-frame file (CT, MR, X-ray 3-D, and what is converted
from older files), whose place and rescaling stand in its functional groups (DICOM PS3.3, C.7.6.16).
Who the patient is, is not read.
"""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from pydicom.dataset import Dataset
from pydicom.filereader import read_file_meta_info
from pydicom.uid import DeflatedExplicitVRLittleEndian, MediaStorageDirectoryStorage

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

MARK_TAGS = {
    "temporal position": ["TemporalPositionIdentifier", "TemporalPositionIndex"],
    "cardiac phase": ["NominalPercentageOfCardiacPhase"],
    "echo": ["EchoNumbers"],
    "echo time": ["EffectiveEchoTime", "EchoTime"],
    "b value": ["DiffusionBValue"],
    "trigger delay": ["NominalCardiacTriggerDelayTime", "TriggerTime"],
    "time offset": ["TemporalPositionTimeOffset"],
    "inversion time": ["InversionTimes", "InversionTime"],
    "flip angle": ["FlipAngle"],
    "tube voltage": ["KVP"],
    "stack": ["StackID"],
    "image type": ["FrameType", "ImageType"],
    "acquisition": ["FrameAcquisitionNumber", "AcquisitionNumber"],
    "kernel": ["ConvolutionKernel"],
    "time": ["FrameReferenceDateTime", "FrameAcquisitionDateTime", "AcquisitionDateTime", "AcquisitionTime"],
}
"""What can tell apart two slices at one place, the first tag that is there counts."""

TYPE_TAGS = ["FrameType", "ImageType", "ComplexImageComponent", "VolumetricProperties"]

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

MAX_INFLATED_BYTES = 2**30
DEFLATE_RATIO = 1032
"""Most bytes that deflate makes of one."""
META_START = 144
"""Preamble, DICM, and the element that tells the length of the rest of the file meta information."""

LOCALIZERS = {"LOCALIZER", "LOCALISER", "SCOUT", "TOPOGRAM", "SURVIEW"}
RENDERED = {
    "MIP", "MAX_IP", "MAXIP", "MINIP", "MIN_IP", "MNIP", "PROJECTION IMAGE", "CSA MIP", "RADIAL MIP", "VOLUME_RENDER",
    "VOLUME RENDER", "VOLREN", "VRT", "SURFACE_RENDER", "SSD", "SCREEN SAVE", "SCREENSHOT", "CURVED_MPR", "CURVED",
    "CPR",
}  # fmt: skip
"""Words of ImageType: pictures made of a volume, in which a voxel is no intensity at its place."""
MAPS = {
    "PERFUSION", "RCBF", "RCBV", "RMTT", "CBF", "CBV", "MTT", "TTP", "TMAX", "PERMEABILITY", "ADC", "EADC", "TRACEW",
    "FA", "TENSOR", "T1 MAP", "T2 MAP", "T2_STAR MAP", "FIELD MAP", "PROB",
}  # fmt: skip
"""Words of ImageType: quantities that are calculated, no intensities."""
COMPONENTS = {
    "M": "magnitude", "MAGNITUDE": "magnitude", "P": "phase", "PHASE": "phase", "PHASE MAP": "phase",
    "VELOCITY": "velocity", "VELOCITY MAP": "velocity", "R": "real", "REAL": "real",
    "I": "imaginary", "IMAGINARY": "imaginary",
}  # fmt: skip
"""Words of ImageType and ComplexImageComponent of MR."""


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


def read_dataset(path: Path, tags: list[str], **options: Any) -> Dataset:
    """Some tags of a file; a deflated one is not allowed to blow up.

    Raises
    ------
    ValueError
        If it would inflate to more than `MAX_INFLATED_BYTES`.
    Exception
        Almost any, if it is no proper DICOM file.
    """
    if path.stat().st_size * DEFLATE_RATIO > MAX_INFLATED_BYTES:
        _require_small_when_inflated(path)
    return pydicom.dcmread(path, specific_tags=list(tags), **options)


def _require_small_when_inflated(path: Path) -> None:
    meta = read_file_meta_info(path)
    if meta.get("TransferSyntaxUID") != DeflatedExplicitVRLittleEndian:
        return
    inflate, size = zlib.decompressobj(-zlib.MAX_WBITS), 0
    with path.open("rb") as stream:
        stream.seek(META_START + meta.FileMetaInformationGroupLength)
        while packed := stream.read(2**16):
            size += len(inflate.decompress(packed))
            if size > MAX_INFLATED_BYTES:
                raise ValueError("inflates without end")


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
    top = _Finder([dataset])
    if not (_whole(top("Rows")) and _whole(top("Columns"))):
        return "no image"
    modality = _text(top("Modality"))
    if modality not in MODALITIES:
        return f"modality {modality if modality in OTHER_MODALITIES else 'other'}"
    if not (_text(top("SeriesInstanceUID")) and _text(top("SOPInstanceUID"))):
        return "no UID of series or image"
    syntax = str(dataset.file_meta.get("TransferSyntaxUID", ""))
    groups = top("PerFrameFunctionalGroupsSequence")
    frames = _whole(top("NumberOfFrames")) or 1
    described = None if groups is None else len(groups)
    if described != frames:
        return [_slice(top, path, label, 0, frames, described, syntax)]
    shared = _flat((top("SharedFunctionalGroupsSequence") or [Dataset()])[0])
    own = [tag for tags in FRAME_TAGS.values() for tag in tags]
    return [
        _slice(_Finder([_flat(group), shared, dataset], own), path, label, frame, frames, described, syntax)
        for frame, group in enumerate(groups)
    ]


class _Finder:
    """Values by keyword from the first of several layers that has one; what cannot be read counts as absent.

    Parameters
    ----------
    layers : from the most special to the most general.
    without : keywords that the last layer does not answer for.
    """

    def __init__(self, layers: list[Any], without: list[str] | None = None) -> None:
        self.layers, self.without = layers, without or []

    def __call__(self, keyword: str) -> Any:
        """The value, or None."""
        for layer in self.layers[:-1] if keyword in self.without else self.layers:
            value = _value(layer, keyword)
            if value is not None:
                return value
        return None


def _value(layer: Any, keyword: str) -> Any:
    try:
        value = layer.get(keyword)
    except Exception:  # pydicom raises almost anything for a value that breaks its rules
        return None
    return None if value is None or (hasattr(value, "__len__") and len(value) == 0) else value


def _flat(group: Dataset) -> dict[str, Any]:
    """What is read of one frame's functional groups, or of the shared ones."""
    found: dict[str, Any] = {}
    for sequence, keywords in GROUP_TAGS.items():
        for item in (_value(group, sequence) or [])[:1]:
            found |= {keyword: value for keyword in keywords if (value := _value(item, keyword)) is not None}
    return found


def _slice(
    find: _Finder, path: Path, label: str, frame: int, frames: int, groups: int | None, syntax: str
) -> SliceHeader:
    modality = _text(find("Modality"))
    words = _words(find)
    bits = _whole(find("BitsAllocated")) or 0
    stored = _whole(find("BitsStored")) or 0
    high = _whole(find("HighBit"))
    return SliceHeader(
        path=path,
        label=label + (f", frame {frame + 1}" if groups is not None and frames > 1 else ""),
        frame=frame,
        frames=frames,
        groups=groups,
        series=_text(find("SeriesInstanceUID")),
        instance=_text(find("SOPInstanceUID")),
        frame_of_reference=_text(find("FrameOfReferenceUID")),
        series_number=_whole(find("SeriesNumber")),
        description=plain_words(_text(find("SeriesDescription"))),
        modality=modality,
        multi_frame=MULTI_FRAME.get(_text(find("SOPClassUID")), ""),
        kind=_kind(words, _text(find("VolumetricProperties"))),
        component=_component(words, _text(find("ComplexImageComponent"))) if modality == "MR" else "",
        marks=_marks(find),
        rows=_whole(find("Rows")) or 0,
        columns=_whole(find("Columns")) or 0,
        samples=_whole(find("SamplesPerPixel")) or 1,
        photometric=_text(find("PhotometricInterpretation")),
        position_mm=_numbers(find("ImagePositionPatient"), 3),
        orientation=_numbers(find("ImageOrientationPatient"), 6),
        pixel_spacing_mm=_numbers(find("PixelSpacing"), 2),
        slope=_number(find("RescaleSlope")),
        intercept=_number(find("RescaleIntercept")),
        unit=_unit(_text(find("RescaleType")).upper()),
        table=bool(find("ModalityLUTSequence")),
        bits_allocated=bits,
        bits_stored=stored,
        high_bit=stored - 1 if high is None else high,
        signed=_whole(find("PixelRepresentation")) == 1,
        padding=_padding(_whole(find("PixelPaddingValue")), _whole(find("PixelPaddingRangeLimit"))),
        contrast_agent=_contrast_agent(find),
        lossy={"00": False, "01": True}.get(_text(find("LossyImageCompression"))),
        transfer_syntax=syntax,
    )


def _words(find: _Finder) -> list[str]:
    """ImageType or FrameType in capitals."""
    given = find("FrameType") or find("ImageType") or ()
    return [str(word).strip().upper() for word in ([given] if isinstance(given, str) else given)]


def _kind(words: list[str], volumetric: str) -> str:
    given = set(words)
    if given & LOCALIZERS:
        return "localizer"
    if given & RENDERED or volumetric in ("SAMPLED", "DISTORTED"):
        return "rendered"
    if "DERIVED" in words[:1] and given & MAPS:
        return "map"
    return "derived" if "DERIVED" in words[:1] or "SECONDARY" in words[1:2] else "original"


def _component(words: list[str], component: str) -> str:
    found = [COMPONENTS[word] for word in [component.upper(), *words[2:]] if word in COMPONENTS]
    return found[0] if found else ""


def _marks(find: _Finder) -> dict[str, Any]:
    marks: dict[str, Any] = {}
    for name, tags in MARK_TAGS.items():
        value = next((value for tag in tags if (value := find(tag)) is not None), None)
        if name == "time":
            marks[name] = _seconds(str(value)) if value is not None else None
        elif name in ("image type", "stack", "kernel"):
            marks[name] = None if value is None else tuple([value] if isinstance(value, str) else map(str, value))
        else:
            marks[name] = _number(value if value is None or np.isscalar(value) or isinstance(value, str) else value[0])
    return marks


def _seconds(text: str) -> float | None:
    """Seconds of a time of day (TM), or of a date and time (DT), from any zero of its own."""
    found = re.fullmatch(r"(\d{8})?(\d\d)(\d\d)(\d\d)(\.\d+)?(?:[+-]\d{4})?", text.strip(), re.ASCII)
    if not found:
        return None
    date, *time, fraction = found.groups()
    try:
        days = datetime.strptime(date, "%Y%m%d").toordinal() if date else 0
    except ValueError:
        return None
    hours, minutes, seconds = map(int, time)
    return days * 86400.0 + hours * 3600 + minutes * 60 + seconds + float(fraction or 0)


def _contrast_agent(find: _Finder) -> bool:
    administered = _text(find("ContrastBolusAgentAdministered"))
    named = _text(find("ContrastBolusAgent")).upper() not in ("", "NO", "NONE")
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


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


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


def _padding(value: int | None, limit: int | None) -> tuple[int, int] | None:
    return None if value is None else (value, value if limit is None else limit)
