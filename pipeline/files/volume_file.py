# SPDX-License-Identifier: Apache-2.0
"""Volume file: an NRRD, NIfTI or MHA file, read with the care that a DICOM series gets.

Nothing names the file, whose name may hold a patient's.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import numpy as np
import SimpleITK as sitk

from pipeline.files.regular_grid import MIN_SLICES, ORTHONORMAL_TOLERANCE, SPACING_RANGE_MM, Check, orthonormal_error
from pipeline.files.stored_voxels import DamageError, Stored
from pipeline.files.volume import Volume
from pipeline.files.volume_bytes import DEFLATE_RATIO, require_as_stored, verify
from pipeline.files.volume_header import HEADER_BYTES, LONGEST_NAME, read_header
from pipeline.files.volume_place import place_fault
from solver.runtime.errors import StageError
from solver.runtime.memory import available_bytes, gigabytes

SUFFIXES = (".nrrd", ".nhdr", ".nii", ".nii.gz", ".mha", ".mhd")

VOXELS_BESIDE = {"NRRD": r"^data ?file: *(.*)$", "MHA": r"^ *ElementDataFile *[=:](.*)$"}
"""Where a text header names the files of its voxels."""


def read_volume_file(path: Path) -> tuple[Volume, list[Check]]:
    """Read a three-dimensional image whose geometry and intensities can be trusted.

    Parameters
    ----------
    path : an NRRD, NIfTI or MHA file.

    Returns
    -------
    The volume, with the directions that the file gives it, left-handed ones too; and what was checked.

    Raises
    ------
    StageError
        If it is no such file, or anything about it is doubtful.
    """
    if not path.name.lower().endswith(SUFFIXES):
        raise StageError(
            "the source is no folder, no DICOM, DICOMDIR or ZIP file, and no file of the kinds"
            f" {', '.join(SUFFIXES)}; give one of these"
        )
    with silent(), as_refusal(path, "volume file"):
        stored, checksum = require_sound(path)
        volume = _read(path)
        require_as_stored(stored, checksum, volume.voxels)
    checks = _checks(volume)
    for check in checks:
        if not (check.value >= check.limit if check.name.startswith("smallest") else check.value <= check.limit):
            raise StageError(
                f"volume file: {check.name}: {check.value:g} {check.unit} (limit {check.limit:g}); correct the file"
            )
    return volume, checks


def require_sound(path: Path) -> tuple[Stored, int]:
    """Make sure, before a library reads a file, that it is whole and says where its voxels lie, once and in mm.

    Parameters
    ----------
    path : an NRRD, NIfTI or MHA file.

    Returns
    -------
    What its header says of its voxels, and their checksum, for `require_as_stored`.

    Raises
    ------
    DamageError
        If it is not whole, or its place is doubtful.
    """
    kind = _kind(path)
    _require_files(path, kind)
    stored = read_header(path, kind)
    _require_room(path, stored)
    checksum = verify(stored)
    if fault := place_fault(path, kind, stored):
        raise DamageError(fault)
    return stored, checksum


@contextmanager
def as_refusal(path: Path, what: str) -> Iterator[None]:
    """Turn what is wrong with a file into a refusal that says what it was given for, and not its name.

    Raises
    ------
    StageError
        If the bytes of the file cannot be trusted.
    """
    try:
        yield
    except DamageError as error:
        raise StageError(f"{what}: {_kind(path)}: {error}") from None


@contextmanager
def silent() -> Iterator[None]:
    """Keep ITK from writing warnings, which name the file."""
    shown = sitk.ProcessObject.GetGlobalWarningDisplay()
    sitk.ProcessObject.SetGlobalWarningDisplay(False)
    try:
        yield
    finally:
        sitk.ProcessObject.SetGlobalWarningDisplay(shown)


def _read(path: Path) -> Volume:
    try:
        return Volume.read(path)
    except StageError as error:
        raise StageError(str(error).replace(str(path), "volume file")) from None


def _kind(path: Path) -> str:
    name = path.name.lower()
    return "NIfTI" if name.endswith((".nii", ".nii.gz")) else "NRRD" if name.endswith((".nrrd", ".nhdr")) else "MHA"


def _voxels_beside(path: Path, kind: str) -> list[str]:
    """Names of files of voxels that a text header gives, as its readers find them, in small letters or not."""
    if kind == "NIfTI":
        return []
    with path.open("rb") as stream:
        head = stream.read(HEADER_BYTES)
    if kind == "NRRD":
        head = head.split(b"\n\n")[0].split(b"\r\n\r\n")[0]
    names = re.findall(VOXELS_BESIDE[kind], head.decode("latin-1"), re.IGNORECASE | re.MULTILINE)
    return [*takewhile(lambda name: name.strip() != "LOCAL", names)]


def _require_files(path: Path, kind: str) -> None:
    """Refuse a header that names voxels elsewhere than beside it, and one whose voxels a library finds elsewhere."""
    if path.name.lower().endswith(".nii.gz") and path.with_name(path.name[:-3]).exists():
        raise DamageError(
            "a file of the same name without .gz lies beside it, and libraries read the voxels of that one; move either"
            " to another folder"
        )
    names = [name.strip() for name in _voxels_beside(path, kind)]
    if not all(_plain(name) for name in names):
        raise DamageError(
            "its header names several files of voxels, or one in another folder; save it again as one file"
        )
    files = [path, *(path.parent / name for name in names)]
    if not all(file.is_file() and file.resolve().parent == path.resolve().parent for file in files):
        raise DamageError("the file of voxels that its header names is not beside it; save it again as one file")


def _plain(name: str) -> bool:
    """Whether it is the name of one file in the header's folder, and no pattern or list."""
    special = name[:1] in ".%" or "%" in name or name[:4].upper() == "LIST"
    return name == Path(name).name and len(name.encode()) <= LONGEST_NAME and not special


def _require_room(path: Path, stored: Stored) -> None:
    """Refuse what a file cannot hold, or there is no memory for, before anything is unpacked."""
    packed = sum(file.stat().st_size for file in {path, stored.file})
    if stored.bytes > DEFLATE_RATIO * packed:
        raise DamageError(
            f"its header claims {gigabytes(stored.bytes)}, which its {packed} bytes cannot hold; export it again"
        )
    if stored.bytes > (free := available_bytes()):
        raise DamageError(
            f"its voxels take {gigabytes(stored.bytes)}, and {gigabytes(free)} of memory are free; cut out the"
            " region that is wanted and save that"
        )


def _checks(volume: Volume) -> list[Check]:
    infinite = sum(int((~np.isfinite(plane)).sum()) for plane in volume.voxels)
    low, high = SPACING_RANGE_MM
    return [
        Check("smallest extent", min(volume.voxels.shape), MIN_SLICES, "voxels"),
        Check("intensities that are not finite", infinite, 0, "voxels"),
        Check("orthonormal direction: error", orthonormal_error(volume.direction), ORTHONORMAL_TOLERANCE, "1"),
        Check("smallest spacing", min(volume.spacing_mm), low, "mm"),
        Check("largest spacing", max(volume.spacing_mm), high, "mm"),
    ]
