# SPDX-License-Identifier: Apache-2.0
"""DICOM segmentation: one segment of a SEG object as a mask on the regular grid of its frames."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import highdicom as hd
import numpy as np
import pydicom
from numpy.typing import NDArray
from pydicom.sr._snomed_dict import mapping as snomed
from pydicom.sr.codedict import CONCEPTS
from pydicom.uid import (
    UID,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    RTStructureSetStorage,
    SegmentationStorage,
)

from pipeline.dicom.dataset import number, quiet, read_dataset, require_small_when_inflated, value
from pipeline.files.graded_mask import LEAST_PART
from pipeline.files.mask_file import (
    GivenMask,
    Segment,
    Wanted,
    check_geometry,
    choose,
    choose_in,
    numbers_of,
)
from pipeline.files.volume import Volume
from pipeline.files.volume_bytes import DEFLATE_RATIO
from solver.runtime.errors import StageError
from solver.runtime.memory import available_bytes

LABEL_MAP_STORAGE = UID("1.2.840.10008.5.1.4.1.1.66.7")
"""Segmentations as label maps (DICOM 2024d)."""

PLAIN = {ImplicitVRLittleEndian, ExplicitVRLittleEndian, ExplicitVRBigEndian, DeflatedExplicitVRLittleEndian}
"""Transfer syntaxes of frames that need no decoder; those of others may crash over damaged frames."""


def is_dicom(path: Path) -> bool:
    """Whether a file has the mark of DICOM at its 128th byte."""
    with path.open("rb") as file:
        return file.read(132)[128:] == b"DICM"


def find_segmentation(folder: Path) -> Path | None:
    """The one DICOM segmentation below a folder; None where there is none.

    Raises
    ------
    StageError
        If there is more than one.
    """
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and is_dicom(path)]
    with quiet():
        found = [path for path in files if _kind(path) in (SegmentationStorage, LABEL_MAP_STORAGE)]
    if len(found) > 1:
        raise StageError(
            f"input.mask: {len(found)} DICOM segmentations among {len(files)} DICOM files of the folder; give the file"
            " itself"
        )
    return found[0] if found else None


def _kind(path: Path) -> str | None:
    try:
        return read_dataset(path, ["SOPClassUID"], stop_before_pixels=True).get("SOPClassUID")
    except Exception:  # pydicom raises almost anything for a damaged file
        return None


def read_segmentation(path: Path, wanted: Wanted) -> GivenMask:
    """Read the wanted segment of a DICOM segmentation: binary, fractional or label map.

    Positions at which no frame is stored are empty. A fractional segment is lumen where it is at least `LEAST_PART`.

    Parameters
    ----------
    path : the file.
    wanted : number or label of the segment, or several that are taken together; None: the only one.

    Raises
    ------
    StageError
        If it is no such file or damaged, its frames form no regular grid in the patient, or there is no such segment.
    """
    with quiet():
        segmentation = _open(path)
        segments = [_segment(segmentation, number) for number in segmentation.segment_numbers]
        fractional = segmentation.segmentation_type == hd.seg.SegmentationTypeValues.FRACTIONAL
        chosen, further = _choose(segmentation, segments, wanted, fractional)
        grid = _grid(segmentation, [each.number for each in chosen])
    found = np.asarray(grid.array)
    part = np.minimum(found.sum(axis=-1, dtype=np.float32), 1) if fractional else found.max(axis=-1)
    record: dict[str, Any] = {"file": "DICOM segmentation", "segment": numbers_of(chosen, wanted)}
    record |= {"segments": len(segments)} | ({} if fractional else {"goes_on_in": further})
    if kinds := sorted({each.facts for each in chosen if each.facts}):
        record["segment_kind"] = ", ".join(kinds)
    lumen = _upright(grid, part >= LEAST_PART)
    if not fractional:
        return GivenMask(lumen, ends_known=False, record=record)
    of_voxels = segmentation.segmentation_fractional_type == hd.seg.SegmentationFractionalTypeValues.OCCUPANCY
    record |= {"fractional": "occupancy" if of_voxels else "probability", "least_fraction": LEAST_PART}
    return GivenMask(lumen, _upright(grid, part).voxels if of_voxels else None, ends_known=False, record=record)


def _choose(
    segmentation: hd.seg.Segmentation, segments: Sequence[Segment], wanted: Wanted, fractional: bool
) -> tuple[list[Segment], list[int]]:
    """The wanted segments, and numbers of those in which their vessel goes on; of fractions that is not looked for."""
    if fractional or len(segments) < 2:
        several = wanted if isinstance(wanted, tuple) else (wanted,)
        return [choose(segments, each) for each in several], []
    grid = _grid(segmentation, [each.number for each in segments], together=True)
    return choose_in([np.asarray(grid.array)], segments, wanted, grid.spacing[::-1])


def _open(path: Path) -> hd.seg.Segmentation:
    try:
        require_small_when_inflated(path)
        dataset = pydicom.dcmread(path)
    except Exception:  # pydicom raises almost anything for a damaged file
        raise StageError("input.mask: the DICOM file is damaged; export it again") from None
    kind = value(dataset, "SOPClassUID")
    if kind not in (SegmentationStorage, LABEL_MAP_STORAGE):
        contours = kind == RTStructureSetStorage
        what = "contours (RTSTRUCT), which have to be made a mask first" if contours else "no segmentation but an image"
        raise StageError(
            f"input.mask: the DICOM file holds {what}; give a DICOM segmentation (SEG), a label map, or the folder of a"
            " series whose images are the mask"
        )
    _require_what_can_be(dataset, path.stat().st_size)
    _require_agreement(dataset)
    try:
        return hd.seg.Segmentation.from_dataset(dataset, copy=False)
    except Exception as error:  # of any kind, with values of the header in its text
        raise StageError(
            f"input.mask: the DICOM segmentation lacks a required part ({type(error).__name__}); export it again"
        ) from None


def _require_what_can_be(dataset: pydicom.Dataset, stored: int) -> None:
    """Frames that a file of so many bytes can hold and this machine can take, and that need no decoder."""
    if value(dataset.file_meta, "TransferSyntaxUID") not in PLAIN:
        raise StageError(
            "input.mask: the frames of the DICOM segmentation are stored as images with compression; decompress it (for"
            " instance gdcmconv --raw), or export it again"
        )
    sizes = [number(value(dataset, key)) or 0 for key in ("Rows", "Columns", "NumberOfFrames")]
    claimed = math.prod(sizes)
    if not 0 < claimed <= min(8 * DEFLATE_RATIO * stored, available_bytes()):
        raise StageError(
            f"input.mask: the DICOM segmentation claims {sizes[2]:g} frames of {sizes[0]:g} x {sizes[1]:g} voxels,"
            f" which its {stored} bytes cannot hold or this machine cannot take; export it again"
        )


def _require_agreement(dataset: pydicom.Dataset) -> None:
    """Refuse a file whose numbers of frames disagree: a slice without a frame would be taken as empty."""
    claimed = int(number(value(dataset, "NumberOfFrames")) or 0)
    described = len(value(dataset, "PerFrameFunctionalGroupsSequence") or [])
    size = [int(number(value(dataset, key)) or 0) for key in ("Rows", "Columns", "BitsAllocated")]
    needed, stored = math.ceil(claimed * math.prod(size) / 8), len(value(dataset, "PixelData") or b"")
    if claimed != described or stored not in (needed, needed + needed % 2):
        raise StageError(
            f"input.mask: the DICOM segmentation claims {claimed} frames and describes {described}, and its pixels have"
            f" {stored} bytes where its frames take {needed}: some are missing or too many; copy or export it again"
        )


def _segment(segmentation: hd.seg.Segmentation, number: int) -> Segment:
    described = segmentation.get_segment_description(number)
    return Segment(int(number), str(described.get("SegmentLabel", "")), facts=_coded(described))


def _coded(described: Any) -> str:
    """What a segment is, in the words of the SNOMED CT concepts that pydicom knows; the file's are free text."""
    codes = described.get("SegmentedPropertyTypeCodeSequence") or [{}]
    scheme, value = str(codes[0].get("CodingSchemeDesignator", "")), str(codes[0].get("CodeValue", ""))
    value = snomed["SRT"].get(value, "") if scheme in ("SRT", "SNM3", "99SDM") else value if scheme == "SCT" else ""
    concepts: Any = CONCEPTS["SCT"]
    return next((found[value][0] for found in concepts.values() if value in found), "")


def _grid(segmentation: hd.seg.Segmentation, numbers: Sequence[int], together: bool = False) -> hd.Volume:
    """Segments by themselves, one a channel, or as a label map, in which the last of those that overlap is seen."""
    if segmentation.coordinate_system != hd.CoordinateSystemNames.PATIENT or segmentation.is_tiled:
        raise StageError("input.mask: the DICOM segmentation does not lie in a patient; give that of a CT or MR series")
    try:
        return segmentation.get_volume(segment_numbers=numbers, combine_segments=together, skip_overlap_checks=together)
    except Exception as error:  # of any kind, with values of the header in its text
        raise StageError(
            "input.mask: the frames of the DICOM segmentation form no regular grid of parallel slices, or cannot be"
            f" decoded ({type(error).__name__}); export the mask on a regular grid, for instance as NRRD"
        ) from None


def _upright(grid: hd.Volume, voxels: NDArray[Any]) -> Volume:
    """Voxels [slice, row, column] as [z, y, x] with z along the slices' normal x cross y."""
    z, y, x = np.asarray(grid.direction).T
    z_mm, y_mm, x_mm = grid.spacing
    origin = np.asarray(grid.position, float)
    if np.cross(x, y) @ z < 0:
        voxels, z, origin = voxels[::-1], -z, origin + z * z_mm * (len(voxels) - 1)
    check_geometry((x_mm, y_mm, z_mm), np.stack([x, y, z], axis=1))
    a, b, c = origin.tolist()
    return Volume(np.ascontiguousarray(voxels), (x_mm, y_mm, z_mm), (a, b, c), np.stack([x, y, z], axis=1))
