# SPDX-License-Identifier: Apache-2.0
"""Codestream: what a frame of JPEG, JPEG-LS or JPEG 2000 says of itself, which must agree with the header."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydicom import uid

from pipeline.dicom.header import SliceHeader


class UndecodableError(Exception):
    """A frame that cannot be decoded, or whose values are not certain; with the reason."""


@dataclass(frozen=True)
class Codestream:
    """What a codestream says of itself: size, number of colours, bits of a value, whether they have a sign."""

    rows: int
    columns: int
    components: int
    precision: int
    signed: bool = False


def read_jpeg(frame: bytes) -> Codestream | None:
    """From the start-of-frame segment of JPEG (ISO/IEC 10918-1, B.2.2) or JPEG-LS (14495-1, C.2.2), if there is one."""
    position = 2
    while frame[:2] == b"\xff\xd8" and position + 9 < len(frame) and frame[position] == 0xFF:
        marker = frame[position + 1]
        if marker == 0xFF:  # fill bytes
            position += 1
            continue
        if marker == 0xF7 or (0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC)):
            precision, rows, columns, components = (
                frame[position + 4],
                *_shorts(frame, position + 5, 2),
                frame[position + 9],
            )
            return Codestream(rows, columns, components, precision)
        position += 2 + _shorts(frame, position + 2, 1)[0]
    return None


def read_jpeg_2000(frame: bytes) -> Codestream | None:
    """From the SIZ segment of JPEG 2000 (ISO/IEC 15444-1, A.5.1), which may lie in a JP2 box, if there is one."""
    start = 0 if frame[:4] == b"\xff\x4f\xff\x51" else frame.find(b"jp2c\xff\x4f\xff\x51") + 4
    size = frame[start + 4 : start + 43]
    if frame[start : start + 4] != b"\xff\x4f\xff\x51" or len(size) < 39:
        return None
    right, bottom, left, top = (int.from_bytes(size[k : k + 4], "big") for k in (4, 8, 12, 16))
    return Codestream(bottom - top, right - left, _shorts(size, 36, 1)[0], (size[38] & 0x7F) + 1, bool(size[38] & 0x80))


def _shorts(data: bytes, start: int, count: int) -> list[int]:
    return [int.from_bytes(data[k : k + 2], "big") for k in range(start, start + 2 * count, 2)]


def require_fit(codestream: Codestream | None, header: SliceHeader) -> Codestream:
    """The codestream, if its size, precision and sign fit the header.

    Parameters
    ----------
    codestream : what the frame says of itself; None if it is none.
    header : of the slice.

    Raises
    ------
    UndecodableError
        If they do not, so that it is not certain what the values are.
    """
    if codestream is None:
        raise UndecodableError(f"its pixels are no {uid.UID(header.transfer_syntax).name}")
    size = (codestream.rows, codestream.columns, codestream.components)
    if size != (header.rows, header.columns, 1):
        raise UndecodableError(
            f"its header says {header.columns}x{header.rows} pixels, its codestream"
            f" {codestream.columns}x{codestream.rows} of {codestream.components} colours"
        )
    if not 2 <= codestream.precision <= header.bits_allocated:
        raise UndecodableError(
            f"its pixels have {codestream.precision} bits, its header allocates {header.bits_allocated}"
        )
    if codestream.precision < header.bits_stored and header.transfer_syntax == uid.JPEGBaseline8Bit:
        raise UndecodableError(f"its header says {header.bits_stored} bits, its pixels have lost all but 8")
    if header.signed and codestream.precision < header.bits_stored and not codestream.signed:
        raise UndecodableError(
            f"its header says signed values of {header.bits_stored} bits, its pixels are unsigned of"
            f" {codestream.precision} bits: it is not certain where the sign is"
        )
    return codestream


def require_complete(frame: bytes) -> None:
    """Make sure that a frame has its end marker; decoders make something up for what one without it lacks.

    Raises
    ------
    UndecodableError
        If it has none.
    """
    if not frame.rstrip(b"\0\xff").endswith(b"\xff\xd9"):
        raise UndecodableError("its pixels are truncated")


def require_one_sign(cells: NDArray[Any], codestream: Codestream, header: SliceHeader) -> None:
    """Header and codestream disagree on the sign: certain only where both mean the same, or one makes no image.

    The reading that is wrong wraps values around, so that neighbours jump by the whole range; which the header's must
    not.

    Parameters
    ----------
    cells : (Y, X), unsigned, decoded.
    codestream, header : of which one says signed.

    Raises
    ------
    UndecodableError
        If it is not certain which of them is right.
    """
    half = 1 << (codestream.precision - 1)
    if not (cells >= half).any():
        return
    as_signed = cells.astype(np.int64) - (cells >= half) * (2 * half)
    header_says, other = (as_signed, cells) if header.signed else (cells, as_signed)
    if _roughness(header_says) * 2 > _roughness(other):
        kinds = ("signed", "unsigned") if header.signed else ("unsigned", "signed")
        raise UndecodableError(
            f"its header says {kinds[0]} values, its pixels say {kinds[1]}: not certain which is right"
        )


def _roughness(values: NDArray[Any]) -> int:
    wide = values.astype(np.int64)
    return int(np.abs(np.diff(wide, axis=0)).sum() + np.abs(np.diff(wide, axis=1)).sum())
