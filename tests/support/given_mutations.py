# SPDX-License-Identifier: Apache-2.0
"""Damaged masks and surfaces by seeds, each held against the sound one.

Nothing of a damaged file may be wrong beyond what its own damaged bytes say: bits of a segmentation's frames, one slice
of a series, corners and triangles of a surface. Another valid number in a header is another header: nobody can tell.
"""

import io
import logging
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pydicom
from scipy.spatial.transform import Rotation

from pipeline.files.surface_file import SurfaceFile, read_surface_file
from pipeline.files.volume import Volume
from pipeline.geometry.closed_surface import Surface
from pipeline.geometry.given_surface import GivenSurface
from pipeline.stages.import_mask import read_mask
from pipeline.stages.import_surface import import_surface
from pipeline.stages.phantom import SeriesHeader, write_series
from solver.runtime.errors import StageError
from tests.pipeline.stages.test_import_mask import ball, write_segmentation
from tests.pipeline.stages.test_import_surface import write as write_surface
from tests.support.file_mutations import CYLINDER, DAMAGES
from tests.support.series_mutations import KINDS as SERIES_KINDS
from tests.support.series_mutations import other_patient

SURFACES = ("stl", "stl text", "vtp", "obj", "ply")
SLICES = 6
PLACE_TAGS = {
    "ImagePositionPatient",
    "ImageOrientationPatient",
    "PixelSpacing",
    "SpacingBetweenSlices",
    "SliceThickness",
    "Rows",
    "Columns",
    "NumberOfFrames",
    "ReferencedSegmentNumber",
    "SegmentNumber",
    "DimensionIndexValues",
}
"""What places the frames of a segmentation, or says which segment they are of."""


def refusal(error: StageError) -> str:
    return "refused" if len(str(error).splitlines()) == 1 else "several lines"


# ---- DICOM segmentations ---------------------------------------------------------------------------------------------


@cache
def segmentation() -> tuple[bytes, Volume]:
    """A sound file, and its mask."""
    with tempfile.TemporaryDirectory() as folder:
        mask = ball()
        path = write_segmentation(Path(folder), mask, {"a": mask.voxels})
        return path.read_bytes(), read_mask(path, None).lumen


def judge_segmentation(number: int, folder: Path) -> tuple[str, str]:
    """Damage and outcome of a DICOM segmentation."""
    before, right = segmentation()
    rng = np.random.default_rng([3, number])
    damage = DAMAGES[number % len(DAMAGES)]
    after = bytes(damage(bytearray(before), rng))
    path = folder / "mask.dcm"
    path.write_bytes(after)
    try:
        found = read_mask(path, None).lumen
    except StageError as error:
        return damage.__name__, refusal(error)
    return damage.__name__, _against(right, found, before, after)


def _against(right: Volume, found: Volume, before: bytes, after: bytes) -> str:
    same_place = np.array_equal(found.direction, right.direction) and found.origin_mm == right.origin_mm
    same_place &= found.spacing_mm == right.spacing_mm and found.voxels.shape == right.voxels.shape
    if same_place and np.array_equal(found.voxels, right.voxels):
        return "the same"
    start = before.find(b"\xe0\x7f\x10\x00") + 12
    changed = [k for k, (one, other) in enumerate(zip(before, after, strict=False)) if one != other]
    flipped = sum((before[k] ^ after[k]).bit_count() for k in changed if k >= start)
    if same_place and np.count_nonzero(found.voxels != right.voxels) <= flipped:
        return "damaged values"
    tags = {_element_at(before, k) for k in changed if k < start}
    return "another header" if tags & PLACE_TAGS else "wrong"


def _element_at(data: bytes, place: int) -> str:
    """Keyword of the innermost element of a file whose bytes hold a place: the last tag of `PLACE_TAGS` before it."""
    found, at = "", -1
    for keyword in PLACE_TAGS:
        tag = pydicom.datadict.tag_for_keyword(keyword)
        assert tag is not None
        code = (tag >> 16).to_bytes(2, "little") + (tag & 0xFFFF).to_bytes(2, "little")
        start = data.rfind(code, 0, place + 1)
        length = int.from_bytes(data[start + 6 : start + 8], "little")
        if start > at and place < start + 8 + length:
            found, at = keyword, start
    return found


# ---- masks stored as series ------------------------------------------------------------------------------------------


@cache
def tube() -> Volume:
    """A tube of which each slice is another: it leans."""
    z, y, x = np.indices((SLICES, 22, 24))
    inside = (x - 9 - z) ** 2 + (y - 12 + 0.7 * z) ** 2 < (4 + 0.3 * z) ** 2
    axes = Rotation.from_euler("xyz", (14, -9, 21), degrees=True).as_matrix()
    return Volume(inside.astype(np.int16), (0.5, 0.5, 0.8), (-31.4, 27.2, 618.6), axes)


@cache
def series_files() -> tuple[bytes, ...]:
    """The slices along the normal."""
    with tempfile.TemporaryDirectory() as folder:
        write_series(tube(), Path(folder), SeriesHeader("study", 2, "series", "AXIAL", 1.0))
        normal = tube().direction[:, 2]
        paths = [path for path in Path(folder).rglob("*") if path.is_file()]
        paths.sort(key=lambda path: float(normal @ np.array(pydicom.dcmread(path).ImagePositionPatient, float)))
        return tuple(path.read_bytes() for path in paths)


def judge_mask_series(number: int, folder: Path) -> tuple[str, str]:
    """Damage and outcome of a mask that is stored as an ordinary series."""
    kinds = [name for name, kind in SERIES_KINDS.items() if kind.change is not other_patient]  # its slices are images
    name = kinds[number % len(kinds)]
    for old in folder.glob("*"):
        old.unlink()
    for k, content in enumerate(series_files()):
        (folder / f"{k + 1:03d}.dcm").write_bytes(content)
    SERIES_KINDS[name].change(folder, np.random.default_rng([4, number]))
    try:
        found = read_mask(folder, None).lumen
    except StageError as error:
        return name, refusal(error)
    return name, _slices_against(found, SERIES_KINDS[name].traceless, SERIES_KINDS[name].blind)


def _slices_against(found: Volume, traceless: bool, blind: bool) -> str:
    """The sound mask, the same but for slices at its ends, or one slice that is otherwise."""
    right = tube()
    if found.voxels.shape[1:] != right.voxels.shape[1:] or not np.allclose(found.direction, right.direction, atol=1e-4):
        return "wrong place"
    first = (np.array(found.origin_mm) - right.origin_mm) @ right.direction[:, 2] / right.spacing_mm[2]
    offset = round(first)
    expected = right.voxels[offset : offset + len(found.voxels)]
    if abs(first - offset) > 0.01 or expected.shape != found.voxels.shape:
        return "wrong place"
    wrong = sum(bool(np.any((one > 0) != (other > 0))) for one, other in zip(expected, found.voxels, strict=True))
    short = len(found.voxels) < SLICES
    if short and not traceless:
        return "wrong: short"
    if wrong:
        return "damaged values" if blind and wrong == 1 else f"wrong in {wrong} slices"
    return "short" if short else "the same"


# ---- surfaces --------------------------------------------------------------------------------------------------------


@cache
def surface(kind: str) -> tuple[bytes, SurfaceFile]:
    with tempfile.TemporaryDirectory() as folder:
        path = write_surface(CYLINDER, Path(folder) / "vessel", kind, "mm", "LPS", said=True)
        return path.read_bytes(), read_surface_file(path)


def judge_surface(number: int, folder: Path) -> tuple[str, str, str]:
    """Kind, damage and outcome of a surface: of the file, and of the stage that brings it in."""
    kind = SURFACES[number % len(SURFACES)]
    before, right = surface(kind)
    damage = DAMAGES[number // len(SURFACES) % len(DAMAGES)]
    after = bytes(damage(bytearray(before), np.random.default_rng([5, number])))
    path = folder / f"vessel.{kind.split()[0]}"
    path.write_bytes(after)
    try:
        found = read_surface_file(path)
        outcome = _numbers_against(right, found, before, after)
        if outcome == "wrong" and _repaired(found, kind):  # what the stage refuses goes no further
            outcome = "mended"
    except StageError as error:
        outcome = refusal(error)
    return kind, damage.__name__, outcome


def _taken(given: SurfaceFile) -> tuple[Surface, str]:
    """What the stage makes of a surface, and its log."""
    reported = io.StringIO()
    log = logging.Logger("mutations")
    log.addHandler(logging.StreamHandler(reported))
    return import_surface(given, GivenSurface(unit="mm"), log), reported.getvalue()


@cache
def _sound(kind: str) -> Surface:
    return _taken(surface(kind)[1])[0]


def _repaired(given: SurfaceFile, kind: str) -> bool:
    """Whether a hole was closed, and told, so that the vessel is the same but for a triangle or two."""
    right, (found, reported) = _sound(kind), _taken(given)
    volume = found.mesh.volume_mm3() / right.mesh.volume_mm3()
    same = len(found.openings) == len(right.openings) and abs(volume - 1) < 1e-3
    return same and "warning: hole" in reported


def _numbers_against(right: SurfaceFile, found: SurfaceFile, before: bytes, after: bytes) -> str:
    """The same, or other in no more corners than bytes were damaged."""
    one, other = (np.round(each.points[each.triangles], 6) for each in (right, found))
    if one.shape == other.shape and np.array_equal(one, other):
        return "the same"
    damaged = sum(a != b for a, b in zip(before, after, strict=False)) + abs(len(before) - len(after))
    if one.shape != other.shape:
        return "wrong"
    places = np.unique(one[(one != other).any(axis=-1)], axis=0)  # a corner is shared by several triangles
    return "damaged values" if len(places) <= damaged else "wrong"


@dataclass(frozen=True)
class Format:
    """How a format is judged: kind of damage and outcome of a case, and the outcomes that it may have."""

    judge: Callable[[int, Path], tuple[str, ...]]
    may_be: frozenset[str]


SOUND = frozenset({"refused", "the same", "damaged values"})
FORMATS = {
    "DICOM segmentation": Format(judge_segmentation, SOUND | {"another header"}),
    "mask as a DICOM series": Format(judge_mask_series, SOUND | {"short"}),
    "surface": Format(judge_surface, SOUND | {"mended"}),
}


def outcome(name: str, number: int, folder: Path) -> tuple[str, ...]:
    """What becomes of a case, whatever happens."""
    try:
        return FORMATS[name].judge(number, folder)
    except Exception as error:  # the very thing that must not happen
        return "", f"{type(error).__name__}: {error}"[:300]
