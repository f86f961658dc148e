"""Series that were mixed up or damaged in ways drawn by seeds, and what loading makes of each.

    python tests/series_mutations.py FIRST COUNT      # one line of JSON each, and the numbers of all

A small series of the linear field loses files, gets damaged ones, copies, and slices of another patient. Loading must
give the field in all its slices, or refuse, or tell what it left out. Only a file that is gone altogether from an end
of the stack leaves no trace, and one other value in the place or the rescaling of a single slice none either (`blind`).
"""

import json
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from pydicom.dataset import Dataset

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from linear_field import Slice, slices, write  # noqa: E402
from mutations import PLANTED, explained, pixels_start, wrong_planes  # noqa: E402

from pipeline.load import load  # noqa: E402
from pipeline.settings.images import LoadSettings  # noqa: E402
from solver.stage import StageError  # noqa: E402

COUNT = 6
STEP_MM = 0.8
STACK = slices(along_mm=np.arange(COUNT) * STEP_MM, matrix=(36, 32))
"""As in mutations.py, whose judge knows it."""
TAGS = (
    "SOPClassUID", "SOPInstanceUID", "StudyInstanceUID", "SeriesInstanceUID", "FrameOfReferenceUID", "Modality", "Rows",
    "Columns", "ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "PixelData", "RescaleSlope",
    "PatientID", "PatientName", "ImageType", "SeriesNumber", "BitsAllocated", "PhotometricInterpretation",
)  # fmt: skip

Rng = np.random.Generator


def place(rng: Rng) -> int:
    """A slice, every second time one at an end."""
    return int(rng.choice([0, COUNT - 1]) if rng.integers(2) else rng.integers(COUNT))


def file(folder: Path, k: int) -> Path:
    return folder / f"{k + 1:03d}.dcm"


def edit(path: Path, change: Callable[[Dataset], Any]) -> None:
    dataset = pydicom.dcmread(path)
    change(dataset)
    dataset.save_as(path)


def drop(folder: Path, rng: Rng) -> None:
    file(folder, place(rng)).unlink()


def header_bytes(folder: Path, rng: Rng) -> None:
    """Up to eight other bytes in a header."""
    path = file(folder, place(rng))
    data = bytearray(path.read_bytes())
    for position in rng.integers(0, pixels_start(bytes(data)), rng.integers(1, 9)):
        data[position] = rng.integers(256)
    path.write_bytes(bytes(data))


def block(folder: Path, rng: Rng) -> None:
    """A block of zeros or noise, as of a disk that cannot be read."""
    path = file(folder, place(rng))
    data = path.read_bytes()
    low = int(rng.integers(pixels_start(data)))
    length = int(min(rng.integers(16, 2000), len(data) - low))
    path.write_bytes(data[:low] + (bytes(length) if rng.integers(2) else rng.bytes(length)) + data[low + length :])


def cut(folder: Path, rng: Rng) -> None:
    path = file(folder, place(rng))
    data = path.read_bytes()
    path.write_bytes(data[: rng.integers(len(data))])


def without_tag(folder: Path, rng: Rng) -> None:
    path, keyword = file(folder, place(rng)), str(rng.choice(TAGS))
    edit(path, lambda dataset: dataset.pop(keyword))


def other_uid(folder: Path, rng: Rng) -> None:
    """Another UID in a run of slices from an end, or in one."""
    keyword = str(rng.choice([tag for tag in TAGS if tag.endswith("InstanceUID") or tag.startswith("Frame")]))
    first = place(rng)
    for k in range(first, min(first + int(rng.integers(1, 4)), COUNT)):
        edit(file(folder, k), lambda dataset: setattr(dataset, keyword, f"1.2.3.{rng.integers(2)}"))


def duplicate(folder: Path, rng: Rng) -> None:
    """A file again, as it is, as another instance, or with other pixels."""
    kind, k = rng.integers(3), place(rng)
    copy = folder / str(rng.choice(["copy.dcm", "PLANTED copy", "099.dcm"]))
    copy.write_bytes(file(folder, k).read_bytes())
    if kind == 1:
        edit(copy, lambda dataset: setattr(dataset, "SOPInstanceUID", "1.2.3.4"))
    if kind == 2:
        edit(copy, lambda dataset: setattr(dataset, "PixelData", rng.bytes(len(dataset.PixelData))))


def other_patient(folder: Path, rng: Rng) -> None:
    """Slices of another patient in place of the last ones, behind them, or of one in the middle."""
    kind, count = rng.integers(3), int(rng.integers(1, 4))
    numbers = {0: range(COUNT - count, COUNT), 1: range(COUNT, COUNT + count), 2: [place(rng)]}[int(kind)]
    keyword = str(rng.choice(["PatientID", "PatientName", "PatientBirthDate"]))
    for number in numbers:
        foreign: Slice = replace(STACK[0].moved(z=STEP_MM * number), intercept=STACK[0].intercept + 700)
        tags = {"PatientBirthDate": "19600101", keyword: "19400101" if "Date" in keyword else "PLANTED^OTHER"}
        write([foreign.tagged(SOPInstanceUID=f"1.2.9.{number}", **tags)], folder / "new")
        (folder / "new" / "001.dcm").rename(file(folder, number))
        (folder / "new").rmdir()


