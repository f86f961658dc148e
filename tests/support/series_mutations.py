# SPDX-License-Identifier: Apache-2.0
"""Series that were mixed up or damaged in ways drawn by seeds, and what loading makes of each.

    python tests/support/series_mutations.py FIRST COUNT      # one line of JSON each, and the numbers of all

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from pydicom.dataset import Dataset

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from pipeline.case.settings.images import LoadSettings  # noqa: E402
from pipeline.stages.load import load  # noqa: E402
from solver.runtime.errors import StageError  # noqa: E402
from tests.support.linear_field import slices, write  # noqa: E402
from tests.support.mutations import PLANTED, explained, pixels_start, wrong_planes  # noqa: E402

COUNT = 6
STEP_MM = 0.8
STACK = slices(along_mm=np.arange(COUNT) * STEP_MM, matrix=(36, 32))
"""The stack of mutations.py, whose judge knows it."""
FOREIGN = 700
"""By how much the intensities of another patient are off the field."""
BORN = {"PatientBirthDate": "19600101"}
TAGS = (
    "SOPClassUID",
    "SOPInstanceUID",
    "StudyInstanceUID",
    "SeriesInstanceUID",
    "FrameOfReferenceUID",
    "Modality",
    "Rows",
    "Columns",
    "ImagePositionPatient",
    "ImageOrientationPatient",
    "PixelSpacing",
    "PixelData",
    "RescaleSlope",
    "PatientID",
    "PatientName",
    "ImageType",
    "SeriesNumber",
    "BitsAllocated",
    "PhotometricInterpretation",
)

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
        tags = BORN | {
            keyword: "19400101" if "Date" in keyword else "PLANTED^OTHER",
            "RescaleIntercept": f"{FOREIGN - 4096}",
        }
        foreign = STACK[0].moved(z=STEP_MM * number).tagged(SOPInstanceUID=f"1.2.9.{number}", **tags)
        write([foreign], folder / "new")
        (folder / "new" / "001.dcm").rename(file(folder, number))
        (folder / "new").rmdir()


@dataclass(frozen=True)
class Kind:
    """A way to change a series; whether it may leave no trace, and whether values of one slice may be wrong unseen."""

    change: Callable[[Path, Rng], None]
    traceless: bool = False
    blind: bool = False


KINDS = {
    "a file gone": Kind(drop, traceless=True),
    "bytes of a header": Kind(header_bytes, blind=True),
    "a block of a file": Kind(block, blind=True),
    "a file cut": Kind(cut),
    "a tag gone": Kind(without_tag),
    "another UID": Kind(other_uid),
    "a file twice": Kind(duplicate),
    "another patient": Kind(other_patient),
}


def outcome(folder: Path, settings: LoadSettings) -> tuple[str, str]:
    """What loading makes of a series, and all that it tells."""
    try:
        volume, facts = load(folder, settings, logging.Logger("silent"))
    except StageError as error:
        return ("refused" if str(error).count("\n") == 0 else "several lines"), str(error)
    except Exception as error:  # the very thing that must not happen
        return f"{type(error).__name__}: {error}"[:300], ""
    reported = str(facts.files.get("could_belong", ""))
    planes = wrong_planes(volume)
    if planes and not wrong_planes(volume.with_voxels(volume.voxels - FOREIGN)):
        return "the other patient", repr(facts)
    if planes:
        return ("blind" if explained(planes) else f"wrong at {planes}"), repr(facts)
    short = (len(volume.voxels) - 0.5) * volume.spacing_mm[2] < STEP_MM * (COUNT - 1)
    return ("told" if reported else "short") if short else "right", repr(facts)


ADVICE = {
    "load.doubtful_files: leave_out": {"doubtful_files": "leave_out"},
    "name one in load.phase (for instance load.phase: 1)": {"phase": 1},
    "load.missing_slices: resample": {"missing_slices": "resample"},
}
"""What a refusal may advise, by its words."""


def judge(number: int) -> dict[str, Any]:
    """A case by its number: one change, or two in every fourth case, and what becomes of it, advice being followed."""
    rng = np.random.default_rng([20261125, number])
    kinds = [list(KINDS)[number % len(KINDS)]]
    if number % 4 == 3:
        kinds.append(str(rng.choice(list(KINDS))))
    chosen: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "PLANTED"
        write([each.tagged(**BORN) for each in STACK], source)
        for kind in kinds:
            try:
                KINDS[kind].change(source, rng)
            except Exception:  # the second change needs what the first has damaged
                continue
        first, text = outcome(source, LoadSettings())
        seen, found = text, first
        while found == "refused":
            more = next(
                (key for words, key in ADVICE.items() if words in text and not key.keys() <= chosen.keys()), None
            )
            if more is None:
                break
            chosen |= more
            before = text
            found, text = outcome(source, LoadSettings(**chosen))
            seen += text
            if text == before:
                found = f"the advice does not help: {text}"
    allowed = {"right", "refused"}
    allowed |= {"short"} if any(KINDS[kind].traceless for kind in kinds) else set()
    allowed |= {"blind"} if any(KINDS[kind].blind for kind in kinds) else set()
    later = allowed | {"told"} | ({"short", "the other patient"} if "phase" in chosen else set())
    sound = first in allowed and found in later and not PLANTED.search(seen)
    return {
        "number": number,
        "kinds": kinds,
        "first": first,
        "then": found if chosen else "",
        "sound": sound,
        "said": seen,
    }


def main() -> None:
    first, count = map(int, sys.argv[1:])
    judged = [judge(number) for number in range(first, first + count)]
    for case in judged:
        print(
            json.dumps(case if not case["sound"] else {key: case[key] for key in ("number", "kinds", "first", "then")})
        )
    for (kinds, *outcomes), times in sorted(Counter((str(c["kinds"]), c["first"], c["then"]) for c in judged).items()):
        print(times, kinds, *outcomes, file=sys.stderr)


if __name__ == "__main__":
    main()
