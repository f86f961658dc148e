# SPDX-License-Identifier: Apache-2.0
"""Image type: what kind of image a slice is, and by what it differs from another one at the same place."""

import re
from datetime import datetime
from typing import Any

import numpy as np

from pipeline.dicom.dataset import Finder, number

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

LOCALIZERS = {"LOCALIZER", "LOCALISER", "SCOUT", "TOPOGRAM", "SURVIEW"}

RENDERED = {
    "MIP",
    "MAX_IP",
    "MAXIP",
    "MINIP",
    "MIN_IP",
    "MNIP",
    "PROJECTION IMAGE",
    "CSA MIP",
    "RADIAL MIP",
    "VOLUME_RENDER",
    "VOLUME RENDER",
    "VOLREN",
    "VRT",
    "SURFACE_RENDER",
    "SSD",
    "SCREEN SAVE",
    "SCREENSHOT",
    "CURVED_MPR",
    "CURVED",
    "CPR",
}
"""Words of ImageType: pictures made of a volume, in which a voxel is no intensity at its place."""

MAPS = {
    "PERFUSION",
    "RCBF",
    "RCBV",
    "RMTT",
    "CBF",
    "CBV",
    "MTT",
    "TTP",
    "TMAX",
    "PERMEABILITY",
    "ADC",
    "EADC",
    "TRACEW",
    "FA",
    "TENSOR",
    "T1 MAP",
    "T2 MAP",
    "T2_STAR MAP",
    "FIELD MAP",
    "PROB",
}
"""Words of ImageType: quantities that are calculated, no intensities."""

COMPONENTS = {
    "M": "magnitude",
    "MAGNITUDE": "magnitude",
    "P": "phase",
    "PHASE": "phase",
    "PHASE MAP": "phase",
    "VELOCITY": "velocity",
    "VELOCITY MAP": "velocity",
    "R": "real",
    "REAL": "real",
    "I": "imaginary",
    "IMAGINARY": "imaginary",
}
"""Words of ImageType and ComplexImageComponent of MR."""


def kind(find: Finder) -> str:
    """What a slice is: "original", "derived", "map", "rendered" or "localizer"."""
    words = _words(find)
    given = set(words)
    if given & LOCALIZERS:
        return "localizer"
    if given & RENDERED or find.text("VolumetricProperties") in ("SAMPLED", "DISTORTED"):
        return "rendered"
    if "DERIVED" in words[:1] and given & MAPS:
        return "map"
    return "derived" if "DERIVED" in words[:1] or "SECONDARY" in words[1:2] else "original"


def component(find: Finder) -> str:
    """Component of a complex MR image, such as "magnitude"; empty where none is named."""
    words = [find.text("ComplexImageComponent").upper(), *_words(find)[2:]]
    found = [COMPONENTS[word] for word in words if word in COMPONENTS]
    return found[0] if found else ""


def marks(find: Finder) -> dict[str, Any]:
    """What can tell apart slices at one place, by the names of `MARK_TAGS`; None where nothing is said."""
    found: dict[str, Any] = {}
    for name, tags in MARK_TAGS.items():
        value = next((value for tag in tags if (value := find(tag)) is not None), None)
        if name == "time":
            found[name] = _seconds(str(value)) if value is not None else None
        elif name in ("image type", "stack", "kernel"):
            found[name] = None if value is None else tuple([value] if isinstance(value, str) else map(str, value))
        else:
            found[name] = number(value if value is None or np.isscalar(value) or isinstance(value, str) else value[0])
    return found


def _words(find: Finder) -> list[str]:
    """ImageType or FrameType in capitals."""
    given = find("FrameType") or find("ImageType") or ()
    return [str(word).strip().upper() for word in ([given] if isinstance(given, str) else given)]


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
