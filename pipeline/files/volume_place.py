# SPDX-License-Identifier: Apache-2.0
"""Place of a volume file's voxels: what an NRRD, NIfTI or MHA file says of it, once or twice, against what is read."""

import gzip
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import SimpleITK as sitk
from numpy.typing import NDArray

from pipeline.files.stored_voxels import Stored, unreadable
from pipeline.files.volume_header import mha_fields, nrrd_fields, numbers, one_of

NIFTI_UNIT_MM = {0: 1.0, 1: 1000.0, 2: 1.0, 3: 0.001}
"""By the lowest bits of xyzt_units: not said, which is mm by custom; m; mm; micrometre."""

PLACE_TOLERANCE_VOXELS = 0.1
"""Largest distance, anywhere in the volume, between the places that two descriptions in one file give a voxel."""

READ_TOLERANCE = 1e-6
"""Relative difference between numbers of a text header and what a library makes of them."""

FLIPPED = {"right-anterior-superior": (0, 1), "ras": (0, 1), "left-anterior-superior": (1,), "las": (1,)}
"""Axes of NRRD's spaces that point the other way in LPS."""


def place_fault(path: Path, kind: str, stored: Stored) -> str | None:
    """What is doubtful about the place, the size or the type of the voxels that a library will read.

    Parameters
    ----------
    path, kind : the file, and which of NIfTI, NRRD and MHA it is.
    stored : what its header says of its voxels.

    Raises
    ------
    DamageError
        If its header is not as its format says.
    """
    fault = {"NIfTI": _nifti_fault, "NRRD": _nrrd_fault, "MHA": _mha_fault}[kind](path)
    if fault:
        return fault
    reader = sitk.ImageFileReader()
    reader.SetFileName(str(path))
    try:
        reader.ReadImageInformation()
    except RuntimeError:
        return None
    affine = {"NIfTI": lambda _: None, "NRRD": _nrrd_affine, "MHA": _mha_affine}[kind](path)
    return _reading_fault(reader, stored, affine)


def _reading_fault(reader: sitk.ImageFileReader, stored: Stored, affine: NDArray[np.float64] | None) -> str | None:
    """What a library reads in a header against what it says."""
    declared = "x".join(map(str, _squeezed(stored.sizes))), stored.components
    read = "x".join(map(str, _squeezed(reader.GetSize()))), reader.GetNumberOfComponents()
    if declared != read:
        return (
            f"its header says {declared[0]} voxels of {declared[1]} values and is read as {read[0]} of"
            f" {read[1]}; save it again"
        )
    if affine is None:
        return None
    dimension = reader.GetDimension()
    direction = np.array(reader.GetDirection()).reshape(dimension, dimension)
    found = np.column_stack([direction * reader.GetSpacing(), reader.GetOrigin()])
    if found.shape != affine.shape or not np.allclose(found, affine, READ_TOLERANCE, READ_TOLERANCE):
        return "its voxels are read as lying elsewhere than its header says; save it again"
    return None


def _squeezed(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes without those of 1 at the end."""
    return sizes[: max((axis + 1 for axis, size in enumerate(sizes) if size > 1), default=0)]


# ---- NIfTI -----------------------------------------------------------------------------------------------------------


def _nifti_fault(path: Path) -> str | None:
    """Both ways in which NIfTI tells the place of voxels, qform and sform, against the one that is read."""
    reader = sitk.ImageFileReader()
    reader.SetFileName(str(path))
    try:
        reader.ReadImageInformation()
        said = {key: reader.GetMetaData(key) for key in reader.GetMetaDataKeys()}
        unit = NIFTI_UNIT_MM.get(int(said["xyzt_units"]) & 7)
        size = np.array(reader.GetSize()[:3])
        declared = [
            affine
            for code, affine in (("qform_code", _qform(said, _hand(path))), ("sform_code", _sform(said)))
            if int(said[code]) > 0
        ]
    except (RuntimeError, KeyError, ValueError, OSError, EOFError, struct.error, zlib.error):
        return None
    if unit is None:
        return f"unit of length number {int(said['xyzt_units']) & 7}, which is none; save it again in mm"
    if not declared:
        return (
            "neither qform nor sform is set, so that it is not known where its axes point in the patient; save it again"
            " with its orientation (3D Slicer does)"
        )
    spacing = np.array(reader.GetSpacing()[:3])
    dimension = reader.GetDimension()
    direction = np.array(reader.GetDirection()).reshape(dimension, dimension)[:3, :3]
    read = np.column_stack([direction * spacing, reader.GetOrigin()[:3]])
    corners = np.array([[x, y, z, 1] for x in (0, 1) for y in (0, 1) for z in (0, 1)]) * [*(size - 1), 1]
    for affine in declared:
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
    from scipy.spatial.transform import Rotation  # only now: it takes half a second, and few files have such a form

    b, c, d = (float(said[f"quatern_{letter}"]) for letter in "bcd")
    a = np.sqrt(max(0.0, 1 - b * b - c * c - d * d))
    spacing = [float(said[f"pixdim[{k}]"]) for k in (1, 2, 3)]
    rotation = Rotation.from_quat([b, c, d, a]).as_matrix() * [1, 1, hand]
    return np.column_stack([rotation * spacing, [float(said[f"qoffset_{axis}"]) for axis in "xyz"]])


def _sform(said: dict[str, str]) -> NDArray[np.float64]:
    """(3, 4), from voxel indices to RAS: the rows of the file (NIfTI-1, method 3)."""
    return np.array([said[f"srow_{axis}"].split() for axis in "xyz"], float)


# ---- NRRD and MHA ----------------------------------------------------------------------------------------------------


def _nrrd_fault(path: Path) -> str | None:
    fields, _ = nrrd_fields(path)
    if not {"space", "spacedimension"} & fields.keys():
        return (
            "it has no field space, so that it is not known where its axes point in the patient; save it again with it"
        )
    units = set(fields.get("spaceunits", "").replace('"', "").split()) - {
        "mm",
        "millimeter",
        "millimetre",
        "none",
        "???",
    }
    if units:
        return "its space units are not mm; save it again in mm"
    if "spacedirections" not in fields:
        return "it has no space directions, so that its spacing is not known; save it again with them (3D Slicer does)"
    if "spaceorigin" not in fields:
        return "it has no space origin, so that it is not known where it lies; save it again with it (3D Slicer does)"
    return None


def _nrrd_affine(path: Path) -> NDArray[np.float64]:
    """(N, N + 1), from voxel indices to LPS: space directions and space origin."""
    fields, _ = nrrd_fields(path)
    vector = r"\([^()]*\)"
    if not re.fullmatch(rf"((none|{vector})\s*)+", fields["spacedirections"]):
        raise unreadable("its field space directions is no list of vectors")
    if not re.fullmatch(vector, fields["spaceorigin"]):
        raise unreadable("its field space origin is no vector")
    texts = re.findall(vector, fields["spacedirections"] + fields["spaceorigin"])
    vectors = {f"space vector {k}": text[1:-1].replace(",", " ") for k, text in enumerate(texts)}
    affine = np.array([numbers(vectors, name, len(texts) - 1) for name in vectors]).T
    affine[list(FLIPPED.get(fields.get("space", "").lower(), ()))] *= -1
    return affine


def _mha_fault(path: Path) -> str | None:
    fields, _ = mha_fields(path)
    if not {"ElementSpacing", "ElementSize"} & fields.keys():
        return "it has no ElementSpacing; save it again with its spacing"
    if not one_of(fields, "Offset", "Position", "Origin"):
        return "it has no Offset, so that it is not known where it lies; save it again with it"
    if not one_of(fields, "TransformMatrix", "Rotation", "Orientation"):
        return (
            "it has no TransformMatrix, so that it is not known where its axes point in the patient; save it again"
            " with it"
        )
    unit = fields.get("DistanceUnits", "mm").lower()
    return None if unit in ("mm", "?") else "its DistanceUnits are not mm; save it again in mm"


def _mha_affine(path: Path) -> NDArray[np.float64]:
    """(N, N + 1), from voxel indices to LPS: one row of the matrix an axis of the array."""
    fields, _ = mha_fields(path)
    (count,) = (int(value) for value in numbers(fields, "NDims", 1))
    spacing = numbers(fields, "ElementSpacing" if "ElementSpacing" in fields else "ElementSize", count)
    origin = numbers(fields, one_of(fields, "Offset", "Position", "Origin") or "", count)
    axes = numbers(fields, one_of(fields, "TransformMatrix", "Rotation", "Orientation") or "", count**2)
    return np.column_stack([np.reshape(axes, (count, count)).T * spacing, origin])
