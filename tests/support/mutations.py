# SPDX-License-Identifier: Apache-2.0
"""Damaged DICOM files, made from sound ones by seeds, and what loading makes of them.

    python tests/support/mutations.py FIRST STEP COUNT   # judges cases FIRST, FIRST + STEP, ...; one line of JSON each

The sound series is the linear field. Whatever is made of its files, loading must refuse them with a StageError, or give
a volume in which every voxel holds the field at its place. One thing cannot be seen by anybody: other, possible, values
in the pixels, the rescaling or the position of a single file. For the kinds of damage that do this (`blind`), planes
may be wrong where the damaged slice lies: between two neighbouring undamaged slices, or beyond the last one, and
nowhere else. No slice may be lost at an end of the stack.
"""

import faulthandler
import io
import json
import logging
import re
import resource
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from pydicom import uid
from pydicom.fileset import FileSet

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from pipeline.case.settings.images import LoadSettings  # noqa: E402
from pipeline.dicom import codecs  # noqa: E402
from pipeline.files.volume import Volume  # noqa: E402
from pipeline.stages.load import load  # noqa: E402
from solver.runtime.errors import StageError  # noqa: E402
from tests.support.dicom_writer import LOSSLESS, encode  # noqa: E402
from tests.support.linear_field import TOLERANCE, dataset, enhanced, intensity_range, places_mm, slices, value  # noqa: E402

STACK = slices(along_mm=np.arange(6) * 0.8, matrix=(36, 32))
PLANTED = re.compile(r"PLANTED|1\.2\.826\.0\.1\.3680043", re.IGNORECASE)
"""Names, texts and UIDs of the header, and names of files, none of which may be seen."""
SECONDS = 60
"""A case that takes longer hangs."""
SYNTAXES = tuple(LOSSLESS.values())
COMPRESSED = tuple(syntax for syntax in SYNTAXES if syntax.is_compressed and "Deflated" not in syntax.name)
RESAMPLE = LoadSettings(irregular_spacing="resample", missing_slices="resample", gantry_tilt="resample")

Rng = np.random.Generator
Files = dict[str, bytes]


@cache
def sound(syntax: str) -> Files:
    """The series in a transfer syntax, a file a slice."""
    return {f"PLANTED-{k}.dcm": _bytes(encode(dataset(each, k + 1), syntax)) for k, each in enumerate(STACK)}


@cache
def multiframe() -> Files:
    order = np.random.default_rng(5).permutation(len(STACK))
    return {"PLANTED-ENHANCED": _bytes(encode(enhanced([STACK[k] for k in order]), uid.ExplicitVRLittleEndian))}


@cache
def media() -> Files:
    """The series with its DICOMDIR."""
    with tempfile.TemporaryDirectory() as folder:
        files = FileSet()
        for k, each in enumerate(STACK):
            made = dataset(each, k + 1)
            made.StudyDate, made.StudyTime, made.StudyID = "20200101", "120000", "PLANTED"
            files.add(made)
        files.write(folder)
        return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


@cache
def archive() -> Files:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in sound(uid.ExplicitVRLittleEndian).items():
            packed.writestr(f"PLANTED-FOLDER/{name}", content)
    return {"PLANTED.zip": target.getvalue()}


def _bytes(made: pydicom.Dataset) -> bytes:
    target = io.BytesIO()
    made.save_as(target, enforce_file_format=True)
    return target.getvalue()


@dataclass(frozen=True)
class Element:
    """Where an element of an explicit little-endian file lies: tag, VR and length from `start`, then its value."""

    start: int
    value: int
    end: int
    keyword: str


@cache
def elements(data: bytes) -> list[Element]:
    """Elements of the data set of a file that is explicit little endian, but for its pixels."""
    found, position = [], 132
    while position < len(data):
        tag, vr = np.frombuffer(data, "<u2", 2, position), data[position + 4 : position + 6]
        wide = vr in (b"OB", b"OW", b"SQ", b"UN", b"UT")
        length = int.from_bytes(
            data[position + 8 : position + 12] if wide else data[position + 6 : position + 8], "little"
        )
        start, position = position, position + (12 if wide else 8)
        keyword = pydicom.datadict.keyword_for_tag((int(tag[0]) << 16) + int(tag[1]))
        if keyword == "PixelData":
            break
        found.append(Element(start, position, position + length, keyword))
        position += length
    return found


def pixels_start(data: bytes) -> int:
    """Where the pixels begin: behind the last appearance of their tag in front of them, in any encoding."""
    return max(data.find(b"\xe0\x7f\x10\x00"), data.find(b"\x7f\xe0\x00\x10")) + 12


GEOMETRY = ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing")
SIZES = ("Rows", "Columns", "SamplesPerPixel", "NumberOfFrames", "BitsAllocated", "PlanarConfiguration")


def _any_syntax(rng: Rng) -> tuple[Files, str]:
    files = dict(sound(SYNTAXES[rng.integers(len(SYNTAXES))]))
    return files, str(rng.choice(list(files)))


def _explicit(rng: Rng) -> tuple[Files, str]:
    files = dict(sound(uid.ExplicitVRLittleEndian))
    return files, str(rng.choice(list(files)))


def _flip(data: bytes, rng: Rng, low: int, high: int) -> bytes:
    changed = bytearray(data)
    for position in rng.integers(low, high, rng.integers(1, 5)):
        changed[position] = rng.integers(256)
    return bytes(changed)


def header_bytes(rng: Rng) -> Files:
    """One to four bytes of a header."""
    files, name = _any_syntax(rng)
    files[name] = _flip(files[name], rng, 0, pixels_start(files[name]) if rng.integers(5) else 400)
    return files


def pixel_bytes(rng: Rng) -> Files:
    """One to four bytes of the pixels."""
    files, name = _any_syntax(rng)
    files[name] = _flip(files[name], rng, pixels_start(files[name]), len(files[name]))
    return files


def codestream(rng: Rng) -> Files:
    """Bytes changed, put in or taken out of a compressed frame."""
    files = dict(sound(COMPRESSED[rng.integers(len(COMPRESSED))]))
    name = str(rng.choice(list(files)))
    data, kind = files[name], rng.integers(4)
    low = pixels_start(data)
    place, length = int(rng.integers(low, len(data))), int(rng.integers(1, 40))
    if kind == 0:
        data = _flip(data, rng, low, len(data))
    elif kind == 1:
        data = _flip(data, rng, low, min(low + 100, len(data)))  # its own headers
    elif kind == 2:
        data = data[:place] + rng.bytes(length) + data[place:]
    else:
        data = data[:place] + data[place + length :]
    files[name] = data
    return files


def truncation(rng: Rng) -> Files:
    """The end of a file missing."""
    files, name = _any_syntax(rng)
    files[name] = files[name][: rng.integers(len(files[name]))]
    return files


def junk_behind(rng: Rng) -> Files:
    """Something behind the end of a file."""
    files, name = _any_syntax(rng)
    files[name] += [rng.bytes(int(rng.integers(1, 3000))), bytes(100), files[name]][rng.integers(3)]
    return files


def elements_moved(rng: Rng) -> Files:
    """An element of the geometry or the image's size doubled, taken out, put elsewhere, or swapped with another."""
    files, name = _explicit(rng)
    data = files[name]
    every = elements(data)
    candidates = [each for each in every if each.keyword in GEOMETRY + SIZES]
    one = candidates[rng.integers(len(candidates))]
    part, kind = data[one.start : one.end], rng.integers(4)
    if kind == 0:
        data = data[: one.end] + part + data[one.end :]
    elif kind == 1:
        data = data[: one.start] + data[one.end :]
    else:
        other = every[rng.integers(len(every))]
        low, high = sorted((one, other), key=lambda each: each.start)
        if kind == 2 or low is high:
            data = data[: one.start] + data[one.end :]
            place = other.start if other.start < one.start else max(other.start - len(part), one.start)
            data = data[:place] + part + data[place:]
        else:
            middle = data[low.end : high.start]
            data = (
                data[: low.start] + data[high.start : high.end] + middle + data[low.start : low.end] + data[high.end :]
            )
    files[name] = data
    return files


def element_heads(rng: Rng) -> Files:
    """The tag, the VR or the length of any element, or its value set to zero bytes."""
    files, name = _explicit(rng)
    data = bytearray(files[name])
    every = elements(files[name])
    one, kind = every[rng.integers(len(every))], rng.integers(5)
    if kind == 0:
        data[one.start : one.start + 4] = rng.bytes(4)
    elif kind == 1:
        data[one.start + 4 : one.start + 6] = rng.choice([b"UN", b"SQ", b"OB", b"US", b"DS", b"XX", b"\0\0"])
    elif kind == 2:
        data[one.start + 6 : one.start + 8] = rng.choice([b"\xff\xff", b"\0\0", rng.bytes(2)])
    elif kind == 3:
        data[one.value : one.end] = bytes(one.end - one.value)
    else:
        data[one.value - 2 : one.value] = int(one.end - one.value + rng.integers(-4, 5)).to_bytes(
            2, "little", signed=True
        )
    files[name] = bytes(data)
    return files


def transfer_syntax(rng: Rng) -> Files:
    """Another transfer syntax than the file's, or none."""
    files, name = _any_syntax(rng)
    others = [*SYNTAXES, "1.2.840.10008.1.2.4.51", "1.2.840.10008.1.2.4.100", "1.2.3", "", "PLANTED"]
    for each in files if rng.integers(2) else (name,):
        made = pydicom.dcmread(io.BytesIO(files[each]))
        old, new = made.file_meta.TransferSyntaxUID.encode(), others[rng.integers(len(others))].encode()
        files[each] = files[each].replace(_ui(old), _ui(new), 1)
    return files


def _ui(text: bytes) -> bytes:
    padded = text + b"\0" * (len(text) % 2)
    return b"UI" + len(padded).to_bytes(2, "little") + padded


def geometry(rng: Rng) -> Files:
    """Values of the geometry that are none, in one file or in all."""
    files, name = _explicit(rng)
    keyword = GEOMETRY[rng.integers(len(GEOMETRY))]
    count = {"ImagePositionPatient": 3, "ImageOrientationPatient": 6, "PixelSpacing": 2}[keyword]
    single = [b"nan", b"inf", b"-inf", b"1e308", b"-1e308", b"0", b"", b"1e-308", b"abc", b"1,5", b"0x10", b"9" * 40]

    names = [*files] if rng.integers(4) == 0 and keyword != GEOMETRY[0] else [name]

    def values(old: list[bytes]) -> bytes:
        kind = rng.integers(
            5 if len(names) == 1 else 4
        )  # one other number in all files is no damage that could be seen
        new = list(old)
        if kind == 0:
            new[rng.integers(count)] = single[rng.integers(len(single))]
        elif kind == 1:
            new = [single[rng.integers(len(single))]] * count
        elif kind == 2:
            new = new[: rng.integers(count)]
        elif kind == 3:
            new = [*new, *new[: rng.integers(1, count + 1)]]
        else:
            new[rng.integers(count)] = b"%.6g" % (rng.normal() * 10.0 ** rng.integers(1, 9))
        return b"\\".join(new)

    return _edited(files, names, keyword, values)


def geometry_nearly(rng: Rng) -> Files:
    """A number of the geometry of one file off by a little or a lot."""
    files, name = _explicit(rng)
    keyword = GEOMETRY[rng.integers(len(GEOMETRY))]

    def values(old: list[bytes]) -> bytes:
        k = rng.integers(len(old))
        old[k] = b"%.9g" % (float(old[k]) + rng.normal() * 10.0 ** rng.uniform(-4, 1))
        return b"\\".join(old)

    return _edited(files, [name], keyword, values)


def _edited(files: Files, names: list[str], keyword: str, change: Callable[[list[bytes]], bytes]) -> Files:
    new: bytes | None = None
    for name in names:
        data = files[name]
        one = next(each for each in elements(data) if each.keyword == keyword)
        if new is None:
            new = change(data[one.value : one.end].strip(b" \0").split(b"\\"))
            new += b" " * (len(new) % 2)
        head = data[one.start : one.value - 2] + len(new).to_bytes(2, "little")
        files[name] = data[: one.start] + head + new + data[one.end :]
    return files


def sizes(rng: Rng) -> Files:
    """Another size of the image, its pixels or its frames, often a huge one, in one file or in all."""
    files, name = _explicit(rng)
    keyword = SIZES[rng.integers(len(SIZES))]
    huge = [0, 1, 2, 3, 5, 7, 31, 33, 512, 1000, 4096, 30000, 65535]
    number = int(rng.choice(huge))
    names = [*files] if rng.integers(2) else [name]
    for each in names:
        made = pydicom.dcmread(io.BytesIO(files[each]))
        setattr(made, keyword, min(number * 30000, 2**31 - 1) if keyword == "NumberOfFrames" and number > 9 else number)
        files[each] = _bytes(made)
    return files


def meaning(rng: Rng) -> Files:
    """What stored values mean (bits, sign, rescaling, padding, colours) or which series this is, in one file."""
    files, name = _explicit(rng)
    made = pydicom.dcmread(io.BytesIO(files[name]))
    numbers = ["nan", "inf", "1e308", "-1e308", "0", "", "abc", "-1", "1e-300", "7"]
    changes: dict[str, Any] = {
        "BitsStored": int(rng.integers(0, 40)),
        "HighBit": int(rng.integers(0, 40)),
        "PixelRepresentation": 1,
        "RescaleSlope": rng.choice(numbers),
        "RescaleIntercept": rng.choice(numbers),
        "PixelPaddingValue": int(rng.integers(65536)),
        "PixelPaddingRangeLimit": int(rng.integers(65536)),
        "PhotometricInterpretation": rng.choice(["RGB", "PALETTE COLOR", "MONOCHROME1", "", "PLANTED"]),
        "Modality": rng.choice(["MR", "US", "PLANTED", ""]),
        "ImageType": rng.choice(["PLANTED", "LOCALIZER", ""]),
        "SeriesInstanceUID": rng.choice(["1.2.3", "", "PLANTED"]),
        "SOPInstanceUID": rng.choice(["", "PLANTED"]),
        "FrameOfReferenceUID": rng.choice(["1.2.3", ""]),
        "SOPClassUID": uid.EnhancedCTImageStorage,
        "AcquisitionNumber": int(rng.integers(9)),
        "TemporalPositionIdentifier": int(rng.integers(9)),
    }
    keyword = str(rng.choice(list(changes)))
    with pydicom.config.disable_value_validation():
        content = changes[keyword]
        if keyword in ("RescaleSlope", "RescaleIntercept"):
            return _edited(files, [name], keyword, lambda _: str(content).encode())
        vr = "US" if keyword.startswith("PixelPadding") else pydicom.datadict.dictionary_VR(keyword)
        made.add_new(keyword, vr, str(content) if isinstance(content, str) else content)
        files[name] = _bytes(made)
    return files


def frames(rng: Rng) -> Files:
    """Functional groups and number of frames of a multi-frame file, one place damaged."""
    files = dict(multiframe())
    (name,) = files
    made = pydicom.dcmread(io.BytesIO(files[name]))
    groups = made.PerFrameFunctionalGroupsSequence
    shared = made.SharedFunctionalGroupsSequence[0]
    one, other = (int(k) for k in rng.choice(len(groups), 2, replace=False))
    kind = rng.integers(12)
    if kind == 0:
        del groups[one]
    elif kind == 1:
        groups.insert(one, groups[other])
    elif kind == 2:
        groups[one] = pydicom.Dataset()
    elif kind == 3:
        del groups[one].PlanePositionSequence
    elif kind == 4:
        groups[one].PlanePositionSequence[0].ImagePositionPatient = (
            groups[other].PlanePositionSequence[0].ImagePositionPatient
        )
    elif kind == 5:
        groups[one].PlanePositionSequence[0].ImagePositionPatient = None
    elif kind == 6:
        groups[one].PlaneOrientationSequence = [pydicom.Dataset()]
        groups[one].PlaneOrientationSequence[0].ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    elif kind == 7:
        made.NumberOfFrames = int(rng.choice([1, 2, 5, 7, 60, 10**6, 2**31 - 1]))
    elif kind == 8:
        delattr(shared, str(rng.choice(["PixelMeasuresSequence", "PlaneOrientationSequence"])))
    elif kind == 9:
        delattr(made, str(rng.choice(["PerFrameFunctionalGroupsSequence", "SharedFunctionalGroupsSequence"])))
    elif kind == 10:
        shared.PixelMeasuresSequence[0].PixelSpacing = [[0, 0.4], [0.4, -1], [1e300, 1e300], 0.4][rng.integers(4)]
    else:
        made.PixelData = made.PixelData[: rng.integers(0, len(made.PixelData) // 2) * 2]
    files[name] = _bytes(made)
    return files


def frames_cut(rng: Rng) -> Files:
    """A multi-frame file cut, or with something behind its end."""
    files = dict(multiframe())
    (name,) = files
    data = files[name]
    files[name] = data[: rng.integers(len(data))] if rng.integers(4) else data + rng.bytes(int(rng.integers(1, 5000)))
    return files


def positions_of_frames(rng: Rng) -> Files:
    """One byte of the position of a frame."""
    files = dict(multiframe())
    (name,) = files
    data = bytearray(files[name])
    places = [found.start() for found in re.finditer(rb"\x20\x00\x32\x00DS", bytes(data))]
    start = places[rng.integers(len(places))]
    data[start + int(rng.integers(8, 40))] = rng.choice(np.frombuffer(b"0123456789.-eE \\\0", np.uint8))
    files[name] = bytes(data)
    return files


def dicomdir(rng: Rng) -> Files:
    """A DICOMDIR: bytes, length, or one of its records."""
    files = dict(media())
    data = files["DICOMDIR"]
    kind = rng.integers(3)
    if kind == 0:
        data = _flip(data, rng, 0, len(data))
    elif kind == 1:
        data = data[: rng.integers(len(data))]
    else:
        made = pydicom.dcmread(io.BytesIO(data))
        records = made.DirectoryRecordSequence
        record = records[rng.integers(len(records))]
        names = [["..", "..", "etc", "passwd"], "PLANTED", ["IM", ""], None, ["/", "etc", "hosts"]]
        if rng.integers(2):
            record.ReferencedFileID = names[rng.integers(len(names))]
        else:
            records.remove(record)
        data = _bytes(made)
    files["DICOMDIR"] = data
    return files


def zip_file(rng: Rng) -> Files:
    """A ZIP file: bytes, length."""
    files = dict(archive())
    (name,) = files
    data = files[name]
    directory = data.index(b"PK\x01\x02")
    kind = rng.integers(4)
    if kind == 0:
        data = _flip(data, rng, 0, len(data))
    elif kind == 1:
        data = _flip(data, rng, directory, len(data))
    elif kind == 2:
        data = data[: rng.integers(len(data))]
    else:
        data = rng.bytes(int(rng.integers(1, 99))) + data
    files[name] = data
    return files


@dataclass(frozen=True)
class Kind:
    """A kind of damage: how many cases of it there are, and whether one slice may be wrong unnoticed: by default, and
    where uneven slices are to be resampled.
    """

    make: Callable[[Rng], Files]
    count: int
    blind: bool = False
    blind_resampled: bool = False

    def may_be(self, number: int) -> set[str]:
        """Outcomes that a case may have."""
        blind = self.blind or (self.blind_resampled and resampled(number))
        return {"right", "refused", "blind"} if blind else {"right", "refused"}


KINDS = {
    "bytes of a header": Kind(header_bytes, 500, blind=True),
    "bytes of the pixels": Kind(pixel_bytes, 150, blind=True),
    "compressed frames": Kind(codestream, 400, blind=True),
    "truncation": Kind(truncation, 250),
    "junk behind the end": Kind(junk_behind, 80),
    "elements moved": Kind(elements_moved, 150),
    "tag, VR, length": Kind(element_heads, 250, blind=True),
    "transfer syntax": Kind(transfer_syntax, 100),
    "geometry": Kind(geometry, 300),
    "geometry nearly right": Kind(geometry_nearly, 300, blind_resampled=True),
    "sizes": Kind(sizes, 200),
    "meaning of values": Kind(meaning, 200, blind=True),
    "frames of one file": Kind(frames, 150),
    "multi-frame file cut": Kind(frames_cut, 80),
    "positions of frames": Kind(positions_of_frames, 120, blind=True),
    "DICOMDIR": Kind(dicomdir, 150),
    "ZIP file": Kind(zip_file, 150),
}


def resampled(number: int) -> bool:
    """Whether a case is loaded with the policies that resample."""
    return number % 2 == 1


CASES = [(name, number) for name, kind in KINDS.items() for number in range(kind.count)]


def wrong_planes(volume: Volume) -> list[float]:
    """Places along the normal, in slices of the stack, of the planes in which a voxel is not the field's value.

    But for two pixels at the borders: a position that is off by a fraction of a pixel, as by a small tilt, is sheared
    back if the case asks for it, which leaves voxels of the border outside.
    """
    first, second = STACK[0].position_mm, STACK[1].position_mm
    normal = (second - first) / np.linalg.norm(second - first)
    points = places_mm(volume)
    error = np.abs(volume.voxels - value(points))[:, 2:-2, 2:-2].max(axis=(1, 2)) / intensity_range(STACK)
    along = (points[:, 0, 0] - first) @ normal / np.linalg.norm(second - first)
    return [float(place) for place in along[~(error < TOLERANCE)]]


def explained(planes: list[float]) -> bool:
    """Whether one slice may be the reason of all wrong planes: none is an undamaged one, no undamaged one between."""
    if not planes:
        return True
    low, high = min(planes), max(planes)
    inside = [k for k in range(len(STACK)) if low - 0.02 <= k <= high + 0.02]
    return len(inside) <= 1 and high - low < 2


def judge(name: str, number: int, folder: Path) -> dict[str, Any]:
    """What becomes of a case."""
    kind = KINDS[name]
    seed = [list(KINDS).index(name), number]
    shutil.rmtree(folder, ignore_errors=True)
    for path, content in kind.make(np.random.default_rng(seed)).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    source = {"DICOMDIR": folder / "DICOMDIR", "ZIP file": folder / "PLANTED.zip"}.get(name, folder)
    record = io.StringIO()
    log = logging.Logger("fuzz")
    log.addHandler(logging.StreamHandler(record))
    start = time.monotonic()
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    try:
        volume, facts = load(source, RESAMPLE if resampled(number) else LoadSettings(), log)
    except StageError as error:
        outcome, seen = "refused", str(error)
        if "\n" in seen or not seen:
            outcome = f"message of {len(seen.splitlines())} lines"
    except Exception as error:  # the very thing that must not happen
        outcome, seen = f"{type(error).__name__}: {error}"[:300], ""
    else:
        planes = wrong_planes(volume)
        outcome = "right" if not planes else "blind" if explained(planes) else "wrong"
        if (len(volume.voxels) - 0.5) * volume.spacing_mm[2] < 0.8 * (len(STACK) - 1):
            outcome = "a slice at an end is lost"
        if outcome not in kind.may_be(number):
            outcome = f"wrong at {planes}"
        seen = repr(facts)
    finally:
        faulthandler.cancel_dump_traceback_later()
    if PLANTED.search(seen + record.getvalue()):
        outcome = f"identity seen: {seen}"[:300]
    return {"kind": name, "number": number, "outcome": outcome, "seconds": round(time.monotonic() - start, 3)}


def main() -> None:
    first, step, count = map(int, sys.argv[1:])
    codecs.SECONDS = 2.0  # a sound frame of this size takes a thousandth of it
    with tempfile.TemporaryDirectory() as folder:
        for name, number in CASES[first::step][:count]:
            print(json.dumps({"kind": name, "number": number}), flush=True)
            print(json.dumps(judge(name, number, Path(folder) / "PLANTED")), flush=True)
    if process := codecs.PROCESS.process:  # so that its memory counts as a child's
        process.kill()
        process.wait()
    # of this program alone: what getrusage says of it counts the one that started it, too
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    own = int(status["VmHWM"].split()[0]) / 1024
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps({"peak_memory_mb": round(own, 1), "peak_memory_of_codecs_mb": round(children, 1)}))


if __name__ == "__main__":
    main()
