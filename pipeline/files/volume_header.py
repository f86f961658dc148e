# SPDX-License-Identifier: Apache-2.0
"""Header of a volume file (NRRD, NIfTI, MHA): what it says of the bytes of its voxels, read strictly.

Libraries take numbers with letters behind them, pass over fields that they do not know, and fill in what is missing. A
damaged header is then read as another one. Here it is refused.
"""

import math
import re
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from pipeline.files.stored_voxels import AGAIN, GZIP, ZLIB_OR_GZIP, DamageError, Stored, unreadable

HEADER_BYTES = 2**20
"""Text headers are shorter."""

LONGEST_NAME = 255
"""Bytes of the name of a file; of a longer one file systems do not just say that there is none."""

OTHER_ENCODING = "save it again with encoding raw or gzip (text tells of no voxel where it stands)"

NIFTI_TYPES = {2: "u1", 4: "i2", 8: "i4", 16: "f4", 64: "f8", 256: "i1", 512: "u2", 768: "u4", 1024: "i8", 1280: "u8"}
NIFTI_REFUSED = {
    1: "bits",
    32: "complex numbers of 64 bits",
    128: "colours (RGB)",
    1536: "floats of 128 bits",
    1792: "complex numbers of 128 bits",
    2048: "complex numbers of 256 bits",
    2304: "colours (RGBA)",
}

NRRD_TYPES = {
    "i1": "signed char,int8,int8_t",
    "u1": "uchar,unsigned char,uint8,uint8_t",
    "i2": "short,short int,signed short,signed short int,int16,int16_t",
    "u2": "ushort,unsigned short,unsigned short int,uint16,uint16_t",
    "i4": "int,signed int,int32,int32_t",
    "u4": "uint,unsigned int,uint32,uint32_t",
    "i8": "longlong,long long,long long int,signed long long,signed long long int,int64,int64_t",
    "u8": "ulonglong,unsigned long long,unsigned long long int,uint64,uint64_t",
    "f4": "float",
    "f8": "double",
}
NRRD_ENCODINGS = {"raw": "raw", "gzip": "deflate", "gz": "deflate", "hex": "hex"}
NRRD_ORDERS = {"little": "<", "big": ">"}

MHA_TYPES = {
    "MET_CHAR": "i1",
    "MET_UCHAR": "u1",
    "MET_SHORT": "i2",
    "MET_USHORT": "u2",
    "MET_INT": "i4",
    "MET_UINT": "u4",
    "MET_LONG_LONG": "i8",
    "MET_ULONG_LONG": "u8",
    "MET_FLOAT": "f4",
    "MET_DOUBLE": "f8",
}
TRUTHS = {"true": True, "false": False, "1": True, "0": False}


def read_header(path: Path, kind: str) -> Stored:
    """What a header says of its voxels.

    Parameters
    ----------
    path : the file.
    kind : NIfTI, NRRD or MHA.

    Raises
    ------
    DamageError
        If it says it in no valid way, or the voxels are no real numbers.
    """
    if kind == "NIfTI":
        return _nifti(path)
    return _nrrd(path) if kind == "NRRD" else _mha(path)


def _beside(path: Path, name: str) -> Path:
    """A file of voxels in the folder of the header."""
    file = path.parent / name
    if name != Path(name).name or len(name.encode()) > LONGEST_NAME or not file.is_file():
        raise unreadable("the file of voxels that it names is not beside it")
    return file


def numbers(fields: dict[str, str], name: str, count: int) -> list[float]:
    """Finite numbers of a field, so many.

    Parameters
    ----------
    fields : text of the header's fields by name.
    name : of the field.
    count : how many numbers it must hold.
    """
    words = fields.get(name, "").split()
    if not words or len(words) != count:
        raise unreadable(f"its field {name} has {len(words)} numbers, not {count}")
    try:
        values = [float(word) for word in words if "_" not in word]
    except ValueError:
        values = []
    if len(values) != len(words) or not np.isfinite(values).all():
        raise unreadable(f"its field {name} holds what is no finite number")
    return values


def _whole(fields: dict[str, str], name: str, count: int) -> tuple[int, ...]:
    """Whole numbers of a field."""
    numbers(fields, name, count)
    words = fields[name].split()
    if not all(re.fullmatch(r"[+-]?\d{1,18}", word, re.ASCII) for word in words):
        raise unreadable(f"its field {name} holds what is no whole number")
    return tuple(int(word) for word in words)


def _sizes(fields: dict[str, str], name: str, count: int) -> tuple[int, ...]:
    found = _whole(fields, name, count)
    if min(found) < 1:
        raise unreadable(f"its field {name} holds {min(found)}, a size is at least 1")
    return found


# ---- NIfTI -----------------------------------------------------------------------------------------------------------


def _nifti(path: Path) -> Stored:
    head, packed = _first_bytes(path, 540)
    layouts = {(order, size) for order in "<>" for size in (348, 540) if head[:4] == struct.pack(f"{order}i", size)}
    if not layouts:
        raise unreadable("it does not begin as NIfTI does, with the length 348 or 540 of its header")
    ((order, length),) = layouts
    if len(head) < length:
        raise unreadable(f"it ends after {len(head)} of {length} bytes")
    if length == 348:
        magic, known = head[344:348], b"n+1\0"
        dim, (code, bits) = struct.unpack_from(f"{order}8h", head, 40), struct.unpack_from(f"{order}2h", head, 70)
        offset, *scale = struct.unpack_from(f"{order}3f", head, 108)
    else:
        magic, known = head[4:12], b"n+2\0\r\n\x1a\n"
        dim, (code, bits) = struct.unpack_from(f"{order}8q", head, 16), struct.unpack_from(f"{order}2h", head, 12)
        offset, *scale = struct.unpack_from(f"{order}q2d", head, 168)
    if magic != known:
        raise unreadable(f"its magic number is {magic.hex()}, that of one file with its voxels is {known.hex()}")
    if not 1 <= dim[0] <= 7 or min(dim[1 : dim[0] + 1]) < 1:
        raise unreadable(f"its dimensions are {list(dim)}: 1 to 7 sizes of at least 1 are possible")
    if not (length + 4 <= offset < 2**40 and offset == int(offset)):
        raise unreadable(f"its voxels begin at byte {offset:g}, behind the header is from {length + 4} on")
    if (components := math.prod(dim[5 : dim[0] + 1])) > 1:
        raise DamageError(f"its voxels are vectors, {components} values a voxel; save one component by itself")
    dtype = _nifti_type(code, bits, order)
    return Stored(
        path,
        0,
        int(offset),
        tuple(dim[1 : dim[0] + 1]),
        1,
        dtype,
        "deflate" if packed else "raw",
        straight=_unscaled(*scale),
    )


def _nifti_type(code: int, bits: int, order: str) -> np.dtype:
    if code in NIFTI_REFUSED:
        raise DamageError(
            f"its voxels are {NIFTI_REFUSED[code]} (type {code}); one real number a voxel is wanted, so save the"
            " magnitude, or the part that is meant, by itself"
        )
    if code not in NIFTI_TYPES:
        raise unreadable(f"its voxels have type {code}, which is none")
    dtype = np.dtype(order + NIFTI_TYPES[code])
    if bits != 8 * dtype.itemsize:
        raise unreadable(f"its voxels are {dtype.name} with {bits} bits, which is none")
    return dtype


def _unscaled(slope: float, intercept: float) -> bool:
    """Whether values stand for themselves. Both not a number: NiBabel's way not to say a scale."""
    if math.isnan(slope) and math.isnan(intercept):
        return True
    if not (math.isfinite(slope) and math.isfinite(intercept)):
        raise unreadable(f"its intensities have slope {slope:g} and intercept {intercept:g}, which must be finite")
    return slope == 0 or (slope, intercept) == (1, 0)


def _first_bytes(path: Path, count: int) -> tuple[bytes, bool]:
    """The first bytes, unpacked where a name that ends so says that they are packed, and whether they are."""
    with path.open("rb") as stream:
        head = stream.read(HEADER_BYTES)
    if not (path.name.lower().endswith(".gz") and head[:2] == b"\x1f\x8b"):
        return head[:count], False
    try:
        return zlib.decompressobj(GZIP).decompress(head, count), True
    except zlib.error:
        raise unreadable("it cannot be unpacked") from None


# ---- NRRD ------------------------------------------------------------------------------------------------------------


def nrrd_fields(path: Path) -> tuple[dict[str, str], int]:
    """Fields by name, in small letters without blanks, and the length of the header, bytes."""
    with path.open("rb") as stream:
        head = stream.read(HEADER_BYTES)
    end = re.search(rb"\r?\n\r?\n", head)
    text = (head[: end.start()] if end else head).decode("latin-1")
    first, *lines = re.split(r"\r?\n", text.removesuffix("\n").removesuffix("\r"))
    if not re.fullmatch(r"NRRD000[1-5]", first):
        raise unreadable("it does not begin as NRRD does, with NRRD0001 to NRRD0005")
    fields: dict[str, str] = {}
    for line in lines:
        name, separator, value = line.partition(": ")
        if line.startswith("#") or ":=" in line.partition(": ")[0]:
            continue  # a comment, or a pair of key and value, which are free text
        name = name.lower().replace(" ", "")
        if not separator or name in fields:
            raise unreadable(f"its line {lines.index(line) + 2} is no field, or one that it has already")
        fields[name] = value.strip()
    return fields, end.end() if end else len(head)


def _nrrd(path: Path) -> Stored:
    fields, end = nrrd_fields(path)
    kind = " ".join(fields.get("type", "").lower().split())
    code = next((code for code, names in NRRD_TYPES.items() if kind in names.split(",")), None)
    if code is None:
        raise unreadable("its field type is missing, or none of the types of numbers")
    encoding = NRRD_ENCODINGS.get(fields.get("encoding", "").lower())
    if encoding is None:
        raise DamageError(f"its field encoding is missing, or none that can be verified; {OTHER_ENCODING}")
    order = NRRD_ORDERS.get(fields.get("endian", "").lower())
    if order is None and ("endian" in fields or code[1] != "1"):
        raise unreadable("its field endian is missing, or neither little nor big")
    (dimension,) = _whole(fields, "dimension", 1)
    sizes = _sizes(fields, "sizes", dimension)
    apart = _nrrd_lists(fields, dimension)
    file, start = (_beside(path, fields["datafile"]), 0) if "datafile" in fields else (path, end)
    stored = Stored(
        file,
        start,
        0,
        tuple(size for axis, size in enumerate(sizes) if axis not in apart),
        math.prod(sizes[axis] for axis in apart),
        np.dtype((order or "<") + code),
        encoding,
        straight=apart in ([], [0]),
    )
    return _nrrd_skips(stored, fields)


def _nrrd_lists(fields: dict[str, str], dimension: int) -> list[int]:
    """Axes that are not of space, along which the values of a voxel lie."""
    if "complex" in fields.get("kinds", "").lower().split():
        raise DamageError(
            "its voxels are complex numbers; one real number a voxel is wanted, so save the magnitude, or the part that"
            " is meant, by itself"
        )
    axes = re.findall(r"none|\([^()]*\)", fields.get("spacedirections", ""))
    if "spacedirections" in fields and len(axes) != dimension:
        raise unreadable(f"its field space directions has {len(axes)} vectors, not {dimension}")
    return [axis for axis, vector in enumerate(axes) if vector == "none"]


def _nrrd_skips(stored: Stored, fields: dict[str, str]) -> Stored:
    """The same behind the lines and bytes that the header says to skip."""
    (lines,) = _whole(fields, "lineskip", 1) if "lineskip" in fields else (0,)
    (skip,) = _whole(fields, "byteskip", 1) if "byteskip" in fields else (0,)
    start = stored.start
    with stored.file.open("rb") as stream:
        stream.seek(start)
        for _ in range(min(lines, 1000)):
            start += len(stream.readline(HEADER_BYTES))
    if skip == -1 and stored.encoding == "raw":
        start, skip = max(start, stored.file.stat().st_size - stored.bytes), 0
    if lines < 0 or lines > 1000 or skip < 0 or (skip and stored.encoding == "hex"):
        raise unreadable(f"it skips {lines} lines and {skip} bytes, behind which no voxels can be verified")
    return replace(stored, start=start, skip=skip)


# ---- MHA -------------------------------------------------------------------------------------------------------------


def mha_fields(path: Path) -> tuple[dict[str, str], int]:
    """Fields by name, up to the one that tells where the voxels are, and the length of the header, bytes."""
    with path.open("rb") as stream:
        head = stream.read(HEADER_BYTES)
    fields: dict[str, str] = {}
    end = 0
    for line in head.splitlines(keepends=True):
        end += len(line)
        text = line.decode("latin-1").strip()
        separator = re.search("[=:]", text)
        name = text[: separator.start()].strip() if separator else ""
        if not separator or not name or name in fields:
            raise unreadable("it has a line that is no field, or the same field twice")
        fields[name] = text[separator.end() :].strip()
        if name == "ElementDataFile":
            break
    return fields, end


def one_of(fields: dict[str, str], *names: str) -> str | None:
    """Which of the names of one thing a header uses."""
    found = [name for name in names if name in fields]
    if len(found) > 1:
        raise unreadable(f"it says the same twice, in {' and '.join(found)}")
    return found[0] if found else None


def _mha(path: Path) -> Stored:
    fields, end = mha_fields(path)
    if fields.get("ObjectType", "Image") != "Image" or not {"NDims", "DimSize", "ElementDataFile"} <= fields.keys():
        raise unreadable("it is no MetaImage with NDims, DimSize and ElementDataFile")
    kind = fields.get("ElementType", "")
    if kind.removesuffix("_ARRAY") not in MHA_TYPES:
        raise unreadable("its ElementType is missing, or none of the types of numbers")
    if kind not in MHA_TYPES:
        raise DamageError(f"its voxels are vectors ({kind}); save one component by itself")
    (dimension,) = _whole(fields, "NDims", 1)
    sizes = _sizes(fields, "DimSize", dimension)
    (components,) = _sizes(fields, "ElementNumberOfChannels", 1) if "ElementNumberOfChannels" in fields else (1,)
    if not _truth(fields, "BinaryData", True):
        raise DamageError(f"its voxels are text; {OTHER_ENCODING}")
    packed = _truth(fields, "CompressedData", False)
    order = one_of(fields, "BinaryDataByteOrderMSB", "ElementByteOrderMSB")
    dtype = np.dtype((">" if order and _truth(fields, order, False) else "<") + MHA_TYPES[kind])
    if not order and dtype.itemsize > 1:
        raise unreadable("it does not say the order of bytes, in BinaryDataByteOrderMSB")
    local = fields["ElementDataFile"] == "LOCAL"
    file, start = (path, end) if local else (_beside(path, fields["ElementDataFile"]), 0)
    encoding = "deflate" if packed else "raw"
    stored = Stored(file, start, 0, sizes, components, dtype, encoding, ZLIB_OR_GZIP, members=False)
    return _mha_skips(stored, fields, local)


def _mha_skips(stored: Stored, fields: dict[str, str], local: bool) -> Stored:
    """The same behind the bytes that the header says to skip, if the packed ones are as many as it says."""
    held = stored.file.stat().st_size
    (skip,) = _whole(fields, "HeaderSize", 1) if "HeaderSize" in fields else (0,)
    if stored.encoding == "deflate":
        (packed,) = _whole(fields, "CompressedDataSize", 1)
        if packed != held - stored.start:
            raise DamageError(
                f"its header claims {packed} bytes of packed voxels, and its file holds {held - stored.start}; {AGAIN}"
            )
    if skip == -1 and stored.encoding == "raw":
        return replace(stored, start=max(stored.start, held - stored.bytes))
    if skip < 0 or (skip and (local or stored.encoding != "raw")):
        raise unreadable(f"its HeaderSize is {skip}, behind which no voxels can be verified")
    return replace(stored, skip=skip)


def _truth(fields: dict[str, str], name: str, default: bool) -> bool:
    value = fields.get(name, str(default)).lower()
    if value not in TRUTHS:
        raise unreadable(f"its field {name} is neither True nor False")
    return TRUTHS[value]
