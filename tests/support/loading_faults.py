# SPDX-License-Identifier: Apache-2.0
"""Faults of DICOM series, each made into a series of the linear field: what becomes of it by default, and treated."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydicom.dataset import FileDataset
from pydicom.uid import MRImageStorage

from pipeline.case.settings.images import LoadSettings
from tests.support.dicom_writer import save
from tests.support.linear_field import Slice, enhanced, slices, tilted, write

Build = Callable[[Path], list[Slice]]
"""Writes a series to a folder and returns the slices that the volume must agree with."""

RIGHT = "right"

SAGITTAL, CORONAL, OBLIQUE = (90, 0, 90), (-90, 0, 0), (14, -9, 21)


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes
    ----------
    build : writes the series.
    default : `RIGHT`, or a pattern of the message that refuses it, with the default settings.
    policies : those that are set to resample ...
    phase : ... and the part that is asked for, in a second attempt; without any there is none.
    treated : the same as `default`, for the second attempt.
    offset : of the intensities from the field.
    """

    build: Build
    default: str = RIGHT
    policies: tuple[str, ...] = ()
    phase: int | None = None
    treated: str = RIGHT
    offset: float = 0.0

    @property
    def settings(self) -> LoadSettings | None:
        """Settings of the second attempt."""
        if not (self.policies or self.phase):
            return None
        return LoadSettings(phase=self.phase, **dict.fromkeys(self.policies, "resample"))


def series(stack: list[Slice], change: Callable[[FileDataset], Any] | None = None) -> Build:
    def build(folder: Path) -> list[Slice]:
        write(stack, folder, change)
        return stack

    return build


def without(stack: list[Slice], *numbers: int) -> list[Slice]:
    return [each for k, each in enumerate(stack) if k not in numbers]


def numbered_wrongly(folder: Path) -> list[Slice]:
    """File names, instance numbers, slice locations, acquisition numbers and times in no order."""
    stack = slices()
    order = np.random.default_rng(3).permutation(len(stack))
    write([each.tagged(InstanceNumber=int(7 * k % 9), SliceLocation=str(-k)) for k, each in enumerate(stack)], folder)
    paths = sorted(folder.iterdir())
    for path in paths:
        path.rename(path.with_suffix(".old"))
    for k, path in zip(order, sorted(folder.iterdir()), strict=True):
        path.rename(folder / f"IM{k}")
    return stack


def copied(folder: Path) -> list[Slice]:
    write(slices(), folder)
    for path in sorted(folder.iterdir())[::2]:
        shutil.copy(path, path.with_suffix(".copy"))
    return slices()


def with_localizer(folder: Path) -> list[Slice]:
    """Localizers of other orientation and matrix in the same series."""
    write([each.tagged(ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"]) for each in slices([0, 1], CORONAL)], folder)
    for path in sorted(folder.iterdir()):
        path.rename(path.with_suffix(".localizer"))
    return series([each.tagged(SOPInstanceUID=f"1.2.3.{k}") for k, each in enumerate(slices())])(folder)


def rescaled(folder: Path) -> list[Slice]:
    """Another rescaling in each slice, as of PET and of some MR."""
    stack = [replace(each, slope=0.25 + 0.1 * k, intercept=-3000.0 - 50 * k) for k, each in enumerate(slices())]
    return series(stack)(folder)


def two_phases(folder: Path) -> list[Slice]:
    """Each place twice, in the second phase 300 HU brighter."""
    stack = slices()
    late = [each.tagged(TemporalPositionIdentifier=2, RescaleIntercept="-3796") for each in stack]
    return series([*(each.tagged(TemporalPositionIdentifier=1) for each in stack), *late])(folder) and stack


def two_orientations(folder: Path) -> list[Slice]:
    """Slices of another orientation that do not say that they are localizers."""
    series([*slices(), *slices([0, 1], CORONAL)])(folder)
    return slices()


def frames(stack: list[Slice]) -> Build:
    """The slices as frames of one file, in no order."""

    def build(folder: Path) -> list[Slice]:
        order = np.random.default_rng(4).permutation(len(stack))
        save(enhanced([stack[k] for k in order]), folder / "frames")
        return stack

    return build


def as_mr(made: FileDataset) -> None:
    """MR, which has no rescaling."""
    made.Modality, made.SOPClassUID = "MR", MRImageStorage
    del made.RescaleSlope, made.RescaleIntercept, made.RescaleType


def as_signed(made: FileDataset) -> None:
    made.PixelRepresentation = 1


TILT, GAPS, UNEVEN, SQUARE = "gantry_tilt", "missing_slices", "irregular_spacing", "anisotropic_pixels"
TILTED, MISSING = r"as by a gantry tilted by .*load\.gantry_tilt: resample", r"missing.*load\.missing_slices: resample"
STEPS = r"slice positions step .*load\.irregular_spacing: resample"
STEP_MM = [0, 0.8, 1.9, 2.9, 4.4, 5.2, 7.0]

FAULTS: dict[str, Fault] = {
    "none, axial": Fault(series(slices(rotation_deg=(0, 0, 0)))),
    "none, oblique": Fault(series(slices())),
    "none, sagittal": Fault(series(slices(rotation_deg=SAGITTAL))),
    "none, coronal": Fault(series(slices(rotation_deg=CORONAL))),
    "slices from head to foot": Fault(series(slices()[::-1])),
    "names and numbers in no order": Fault(numbered_wrongly),
    "slice thickness and location lie": Fault(
        series([each.tagged(SliceThickness="9.9", SpacingBetweenSlices="0.1", SliceLocation="7") for each in slices()])
    ),
    "overlapping slices": Fault(series([each.tagged(SliceThickness="2") for each in slices()])),
    "each file twice": Fault(copied),
    "localizers in the series": Fault(with_localizer),
    "rescaling of each slice": Fault(rescaled),
    "two phases in one series": Fault(two_phases, r"holds 2 parts .* load\.phase", phase=2, offset=300),
    "two orientations in one series": Fault(two_orientations, r"holds 2 parts .* load\.phase", phase=1),
    "MR without rescaling": Fault(series(slices(), as_mr), offset=4096),
    "signed pixels": Fault(series([replace(each, intercept=1000) for each in slices()], as_signed)),
    "frames of one file in no order": Fault(frames(slices())),
    "frames of one file, tilted, two missing": Fault(
        frames(without(tilted(slices(), 5, -14), 2, 6)), rf"{TILTED}.*{MISSING}", (TILT, GAPS)
    ),
    "oblong pixels": Fault(series(slices(pixel_mm=(0.4, 0.7))), policies=(SQUARE,)),
    "oblong pixels, the other way": Fault(series(slices(pixel_mm=(0.7, 0.4))), policies=(SQUARE,)),
    "uneven steps": Fault(series(slices(STEP_MM)), STEPS, (UNEVEN,)),
    "growing steps": Fault(series(slices(0.8 * np.arange(9) + 0.01 * np.arange(9) ** 2)), STEPS, (UNEVEN,)),
    "thin slices, then thick ones": Fault(series(slices([0, 1, 2, 3, 4, 6.5, 9, 11.5])), STEPS, (UNEVEN,)),
    "one slice missing": Fault(series(without(slices(), 4)), MISSING, (GAPS,)),
    "two slices missing in a row": Fault(series(without(slices(), 4, 5)), MISSING, (GAPS,)),
    "slices missing at three places": Fault(series(without(slices(), 1, 4, 6)), MISSING, (GAPS,)),
    "three slices missing in a row": Fault(
        series(without(slices(), 3, 4, 5)), "3 missing in a row", (GAPS,), treated="3 missing in a row are too many"
    ),
    "tilt of 14 degrees about x": Fault(series(tilted(slices(), 0, 14)), TILTED, (TILT,)),
    "tilt of -25 degrees about x": Fault(series(tilted(slices(), 0, -25)), TILTED, (TILT,)),
    "tilt of 14 degrees about y": Fault(series(tilted(slices(), 14, 0)), TILTED, (TILT,)),
    "tilt of -25 degrees about y": Fault(series(tilted(slices(), -25, 0)), TILTED, (TILT,)),
    "tilt about both": Fault(series(tilted(slices(rotation_deg=(0, 0, 0)), 10, -20)), TILTED, (TILT,)),
    "tilt of 50 degrees": Fault(
        series(tilted(slices(), 0, 50)), "which no gantry is", (TILT,), treated="which no gantry is"
    ),
    "one slice moved in its plane": Fault(
        series([*slices()[:4], slices()[4].moved(x=1), *slices()[5:]]),
        "not along a straight line",
        (TILT,),
        treated="not along a straight line",
    ),
    "tilt, slices missing": Fault(
        series(without(tilted(slices(), 0, -14), 2, 6)), rf"{TILTED}.*{MISSING}", (TILT, GAPS)
    ),
    "tilt, slices missing, only the tilt treated": Fault(
        series(without(tilted(slices(), 0, -14), 2, 6)), TILTED, (TILT,), treated=MISSING
    ),
    "tilt, uneven steps": Fault(series(tilted(slices(STEP_MM), 12, 9)), rf"{TILTED}.*{STEPS}", (TILT, UNEVEN)),
    "uneven steps, oblong pixels": Fault(series(slices(STEP_MM, pixel_mm=(0.7, 0.4))), STEPS, (UNEVEN, SQUARE)),
    "tilt, uneven steps, oblong pixels": Fault(
        series(tilted(slices(STEP_MM, pixel_mm=(0.4, 0.9)), -7, 21)), rf"{TILTED}.*{STEPS}", (TILT, UNEVEN, SQUARE)
    ),
    "steps that differ fourfold": Fault(
        series(slices([0, 1, 2.5, 3.5, 7.6])), "more than a factor of 3", (UNEVEN,), treated="more than a factor of 3"
    ),
    "two slices at one place": Fault(
        series([*slices(), slices()[4]]),
        "10 slices lie at 9 places",
        (UNEVEN, GAPS),
        treated="10 slices lie at 9 places",
    ),
    "one slice of another pixel spacing": Fault(
        series([*slices()[:8], slices(pixel_mm=(0.41, 0.41))[8]]), r"pixel spacing from 0\.4 to 0\.41 mm"
    ),
    "two slices alone": Fault(series(slices([0, 1])), "only 2 slices", (UNEVEN, GAPS), treated="only 2 slices"),
}
