"""Volume file: an NRRD, NIfTI or MHA file, read with the care that a DICOM series gets.

Nothing names the file, whose name may hold a patient's.
"""

import gzip
import math
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import numpy as np
import SimpleITK as sitk
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from pipeline.dicom.dataset import DEFLATE_RATIO
from pipeline.dicom.grid import MIN_SLICES, ORTHONORMAL_TOLERANCE, SPACING_RANGE_MM, Check, orthonormal_error
from pipeline.volume import Volume
from solver.memory import available_bytes, gigabytes
from solver.stage import StageError

SUFFIXES = (".nrrd", ".nhdr", ".nii", ".nii.gz", ".mha", ".mhd")

NIFTI_UNIT_MM = {0: 1.0, 1: 1000.0, 2: 1.0, 3: 0.001}
"""By the lowest bits of xyzt_units: not said, which is mm by custom; m; mm; micrometre."""

PLACE_TOLERANCE_VOXELS = 0.1
"""Largest distance, anywhere in the volume, between the places that two descriptions in one file give a voxel."""

HEADER_BYTES = 2**16
"""Text headers are shorter."""

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
    with silent():
        require_known_place(path)
        volume = _read(path)
    checks = _checks(volume)
    for check in checks:
        if not (check.value >= check.limit if check.name.startswith("smallest") else check.value <= check.limit):
            raise StageError(
                f"volume file: {check.name}: {check.value:g} {check.unit} (limit {check.limit:g}); correct the file"
            )
    return volume, checks


def require_known_place(path: Path, what: str = "volume file") -> None:
    """Make sure that a file says where its voxels lie, in which unit, and does not say it twice in two ways.

    Parameters
    ----------
    path : an NRRD, NIfTI or MHA file.
    what : how messages call it.

    Raises
    ------
    StageError
        If it does not. A file that cannot be read at all passes: whoever reads its voxels says so.
    """
    name = path.name.lower()
    kind = "NIfTI" if name.endswith((".nii", ".nii.gz")) else "NRRD" if name.endswith((".nrrd", ".nhdr")) else "MHA"
    fault = _voxels_fault(path, kind) or {"NIfTI": _nifti_fault, "NRRD": _nrrd_fault, "MHA": _mha_fault}[kind](path)
    if fault:
        raise StageError(f"{what}: {kind}: {fault}")


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


def _voxels_fault(path: Path, kind: str) -> str | None:
    """What a header says of its voxels against what can be, before anything is unpacked."""
    names = [name.strip() for name in _voxels_beside(path, kind)]
    if any(name != Path(name).name or name[:1] in ".%" or "%" in name or name[:4].upper() == "LIST" for name in names):
        return "its header names several files of voxels, or one in another folder; save it again as one file"
    files = [path, *(path.parent / name for name in names)]
    if not all(file.is_file() and file.resolve().parent == path.resolve().parent for file in files):
        return "the file of voxels that its header names is not beside it; save it again as one file"
    reader = sitk.ImageFileReader()
    reader.SetFileName(str(path))
    try:
        reader.ReadImageInformation()
        item = sitk.Image((1, 1), reader.GetPixelID(), 1).GetSizeOfPixelComponent()
    except RuntimeError:
        return None
    claimed = math.prod(reader.GetSize()) * reader.GetNumberOfComponents() * item
    packed = sum(file.stat().st_size for file in files)
    if claimed > DEFLATE_RATIO * packed:
        return f"its header claims {gigabytes(claimed)}, which its {packed} bytes cannot hold; export it again"
    if claimed > (free := available_bytes()):
        return (
            f"its voxels take {gigabytes(claimed)}, and {gigabytes(free)} of memory are free; cut out the"
            " region that is wanted and save that"
        )
    return None


def _nifti_fault(path: Path) -> str | None:
    """Both ways in which NIfTI tells the place of voxels, qform and sform, against the one that is read."""
    reader = sitk.ImageFileReader()
    reader.SetFileName(str(path))
    try:
        reader.ReadImageInformation()
        said = {key: reader.GetMetaData(key) for key in reader.GetMetaDataKeys()}
        unit = NIFTI_UNIT_MM.get(int(said["xyzt_units"]) & 7)
        size = np.array(reader.GetSize()[:3])
        told = [
            affine
            for code, affine in (("qform_code", _qform(said, _hand(path))), ("sform_code", _sform(said)))
            if int(said[code]) > 0
        ]
    except (RuntimeError, KeyError, ValueError, OSError, EOFError, struct.error, zlib.error):
        return None
    if unit is None:
        return f"unit of length number {int(said['xyzt_units']) & 7}, which is none; save it again in mm"
    if not told:
        return (
            "neither qform nor sform is set, so that it is not known where its axes point in the patient; save it again"
            " with its orientation (3D Slicer does)"
        )
    spacing = np.array(reader.GetSpacing()[:3])
    dimension = reader.GetDimension()
    direction = np.array(reader.GetDirection()).reshape(dimension, dimension)[:3, :3]
    read = np.column_stack([direction * spacing, reader.GetOrigin()[:3]])
    corners = np.array([[x, y, z, 1] for x in (0, 1) for y in (0, 1) for z in (0, 1)]) * [*(size - 1), 1]
    for affine in told:
        off = np.linalg.norm(corners @ (unit * np.diag([-1, -1, 1]) @ affine - read).T, axis=1).max()
        if not off <= PLACE_TOLERANCE_VOXELS * spacing.min():
            return (
                f"qform and sform, or the spacing beside them, disagree by up to {off:.3g} mm on where voxels lie"
                f" (limit {PLACE_TOLERANCE_VOXELS:g} voxels); save it again with one of them"
            )
    return None


def _hand(path: Path) -> int:
    """The sign qfac of the third axis, which ITK does not hand over: pixdim[0] of a NIfTI-1 or NIfTI-2 header."""
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    with gzip.open(path) if packed else path.open("rb") as stream:
        head = stream.read(112)
    order = "<" if head[:2] in (b"\x5c\x01", b"\x1c\x02") else ">"  # 348 and 540 bytes
    first = struct.unpack(f"{order}i", head[:4])[0] == 348
    (sign,) = struct.unpack(f"{order}f", head[76:80]) if first else struct.unpack(f"{order}d", head[104:112])
    return -1 if sign < 0 else 1


def _qform(said: dict[str, str], hand: int) -> NDArray[np.float64]:
    """(3, 4), from voxel indices to RAS: a rotation by a quaternion (NIfTI-1, method 2)."""
    b, c, d = (float(said[f"quatern_{letter}"]) for letter in "bcd")
    a = np.sqrt(max(0.0, 1 - b * b - c * c - d * d))
    spacing = [float(said[f"pixdim[{k}]"]) for k in (1, 2, 3)]
    rotation = Rotation.from_quat([b, c, d, a]).as_matrix() * [1, 1, hand]
    return np.column_stack([rotation * spacing, [float(said[f"qoffset_{axis}"]) for axis in "xyz"]])


def _sform(said: dict[str, str]) -> NDArray[np.float64]:
    """(3, 4), from voxel indices to RAS: the rows of the file (NIfTI-1, method 3)."""
    return np.array([said[f"srow_{axis}"].split() for axis in "xyz"], float)


def _fields(path: Path, separator: str) -> dict[str, str]:
    """Fields of a text header, by name in small letters."""
    with path.open("rb") as stream:
        head = stream.read(HEADER_BYTES)
    text = head.split(b"\n\n")[0].split(b"\r\n\r\n")[0].decode("latin-1")
    pairs = (line.partition(separator) for line in text.splitlines() if separator in line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _nrrd_fault(path: Path) -> str | None:
    fields = _fields(path, ":")
    if "type" not in fields:
        return None
    if not {"space", "space dimension"} & fields.keys():
        return (
            "it has no field space, so that it is not known where its axes point in the patient; save it again with it"
        )
    units = set(fields.get("space units", "").replace('"', "").split()) - {
        "mm",
        "millimeter",
        "millimetre",
        "none",
        "???",
    }
    if units:
        return "its space units are not mm; save it again in mm"
    return None if "space directions" in fields else "it has no space directions, so that its spacing is not known"


def _mha_fault(path: Path) -> str | None:
    fields = _fields(path, "=")
    if "dimsize" not in fields:
        return None
    if not {"elementspacing", "elementsize"} & fields.keys():
        return "it has no ElementSpacing; save it again with its spacing"
    unit = fields.get("distanceunits", "mm").lower()
    return None if unit in ("mm", "?") else "its DistanceUnits are not mm; save it again in mm"


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
