# SPDX-License-Identifier: Apache-2.0
"""Transfer syntax: the one decoder of each, so that the same file gives the same values on every machine."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydicom import uid
from pydicom.dataset import Dataset
from pydicom.encaps import get_frame
from pydicom.pixels import get_decoder

from pipeline.dicom import codecs
from pipeline.dicom.codestream import (
    Codestream,
    UndecodableError,
    read_jpeg,
    read_jpeg_2000,
    require_complete,
    require_fit,
    require_one_sign,
)
from pipeline.dicom.header import SliceHeader
from pipeline.dicom.series import Series
from solver.runtime.errors import StageError


def require_decoder(series: Series) -> None:
    """Refuse a series whose pixels are stored in a way that cannot be read.

    Raises
    ------
    StageError
        Naming the transfer syntax.
    """
    for syntax in sorted({header.transfer_syntax for header in series.headers} - set(DECODERS)):
        raise StageError(
            f"{series.name}: transfer syntax {syntax_name(syntax)}: there is no decoder for it; decompress the series"
            " (for instance gdcmconv --raw) and load it again"
        )


def syntax_name(syntax: str) -> str:
    """Name and UID of a transfer syntax of the standard; any other could be text."""
    known = uid.UID(syntax)
    return f"{known.name} ({syntax})" if known.is_transfer_syntax and not known.is_private else "unknown"


def is_lossy(header: SliceHeader) -> bool:
    """Whether the values of a slice were ever compressed with loss, by its header or its transfer syntax."""
    unsaid = header.lossy is None and header.transfer_syntax in PERHAPS_LOSSY
    return bool(header.lossy) or unsaid or header.transfer_syntax in LOSSY


@dataclass(frozen=True)
class Cells:
    """Decoded numbers in which stored values lie.

    Attributes
    ----------
    raw : (Y, X), unsigned.
    bits : of a cell.
    stored, high_bit : how many of them count, and the number of the highest that does.
    """

    raw: NDArray[Any]
    bits: int
    stored: int
    high_bit: int


def _native(header: SliceHeader, dataset: Dataset) -> Cells:
    """Uncompressed; a header whose size does not fit the length of the data would shear the image."""
    size = header.bits_allocated // 8
    expected = header.rows * header.columns * size * header.frames
    excess = len(dataset.PixelData) - expected
    if excess < 0:
        raise ValueError("truncated")
    if excess >= max(2, min(header.rows, header.columns) * size):
        raise UndecodableError(f"its pixels have {len(dataset.PixelData)} bytes where its header asks for {expected}")
    return _by_pydicom(header, dataset)


def _by_pydicom(header: SliceHeader, dataset: Dataset, plugin: str = "") -> Cells:
    decoder = get_decoder(uid.UID(header.transfer_syntax))
    options: dict[str, Any] = {"correct_unused_bits": False, "allow_excess_frames": False}
    cells, _ = decoder.as_array(dataset, index=header.frame, raw=True, decoding_plugin=plugin, **options)
    unsigned = cells.view(cells.dtype.str.replace("i", "u"))
    return Cells(unsigned, header.bits_allocated, header.bits_stored, header.high_bit)


def _rle(header: SliceHeader, dataset: Dataset) -> Cells:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that of more pixels than the header has room for
        return _by_pydicom(header, dataset, "pydicom")


def _frame(header: SliceHeader, dataset: Dataset) -> bytes:
    """Compressed bytes of a frame."""
    offsets = None
    if "ExtendedOffsetTable" in dataset and "ExtendedOffsetTableLengths" in dataset:
        offsets = (dataset.ExtendedOffsetTable, dataset.ExtendedOffsetTableLengths)
    return get_frame(dataset.PixelData, header.frame, number_of_frames=header.frames, extended_offsets=offsets)


def _jpeg(header: SliceHeader, dataset: Dataset) -> Cells:
    """JPEG, which knows no sign: the bits of a negative number are those of a large one."""
    return _by_codec("jpeg", read_jpeg, header, dataset)[0]


def _jpeg_ls(header: SliceHeader, dataset: Dataset) -> Cells:
    return _by_codec("jpeg-ls", read_jpeg, header, dataset)[0]


def _j2k(header: SliceHeader, dataset: Dataset) -> Cells:
    """JPEG 2000, which has a sign of its own."""
    cells, codestream = _by_codec("j2k", read_jpeg_2000, header, dataset)
    if codestream.signed != header.signed:
        require_one_sign(cells.raw, codestream, header)
    return cells


def _by_codec(
    codec: str, read: Callable[[bytes], Codestream | None], header: SliceHeader, dataset: Dataset
) -> tuple[Cells, Codestream]:
    frame = _frame(header, dataset)
    codestream = require_fit(read(frame), header)
    require_complete(frame)
    size, bits = (codestream.columns, codestream.rows), codestream.precision
    return _cells(codecs.decode(codec, frame, header.transfer_syntax, *size, bits), bits, header), codestream


def _cells(pixels: bytes, bits: int, header: SliceHeader) -> Cells:
    """Cells of a decoded codestream; whatever its container holds above its precision is none of them."""
    size = 1 if bits <= 8 else 2 if bits <= 16 else 4
    raw = np.frombuffer(pixels, f"<u{size}").reshape(header.rows, header.columns) & ((1 << bits) - 1)
    stored = min(header.bits_stored, bits)
    return Cells(raw, bits, stored, stored - 1)


DECODERS: dict[str, Callable[[SliceHeader, Dataset], Cells]] = {
    uid.ImplicitVRLittleEndian: _native,
    uid.ExplicitVRLittleEndian: _native,
    uid.DeflatedExplicitVRLittleEndian: _native,
    uid.ExplicitVRBigEndian: _native,
    uid.RLELossless: _rle,
    uid.JPEGBaseline8Bit: _jpeg,
    uid.JPEGExtended12Bit: _jpeg,
    "1.2.840.10008.1.2.4.53": _jpeg,  # two retired kinds of JPEG, which archives still hold
    "1.2.840.10008.1.2.4.55": _jpeg,
    uid.JPEGLossless: _jpeg,
    uid.JPEGLosslessSV1: _jpeg,
    uid.JPEGLSLossless: _jpeg_ls,
    uid.JPEGLSNearLossless: _jpeg_ls,
    uid.JPEG2000Lossless: _j2k,
    uid.JPEG2000: _j2k,
    uid.HTJ2KLossless: _j2k,
    uid.HTJ2KLosslessRPCL: _j2k,
    uid.HTJ2K: _j2k,
}
"""By transfer syntax; PixelRepresentation, BitsStored and HighBit are applied to what they give."""

LOSSY = {
    uid.JPEGBaseline8Bit,
    uid.JPEGExtended12Bit,
    "1.2.840.10008.1.2.4.53",
    "1.2.840.10008.1.2.4.55",
    uid.JPEGLSNearLossless,
}
"""Transfer syntaxes that have no lossless form."""

PERHAPS_LOSSY = {uid.JPEG2000, uid.HTJ2K}
"""Those that have one; they are taken for lossy unless the header says that they are not."""
