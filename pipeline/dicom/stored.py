# SPDX-License-Identifier: Apache-2.0
"""Stored values: the numbers in the pixels of a slice, without unused bits and overlays, and where they are padding."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset

from pipeline.dicom.codestream import UndecodableError
from pipeline.dicom.dataset import read_dataset
from pipeline.dicom.header import SliceHeader
from pipeline.dicom.series import Series
from pipeline.dicom.transfer_syntax import DECODERS, Cells
from solver.runtime.errors import StageError

PIXEL_TAGS = [
    "SOPClassUID",
    "NumberOfFrames",
    "Rows",
    "Columns",
    "SamplesPerPixel",
    "PhotometricInterpretation",
    "PlanarConfiguration",
    "BitsAllocated",
    "BitsStored",
    "HighBit",
    "PixelRepresentation",
    "PixelData",
    "ExtendedOffsetTable",
    "ExtendedOffsetTableLengths",
]
OVERLAYS = 16
"""Groups 6000, 6002, ... of overlays, which used to lie in the unused bits of pixels."""


@dataclass(frozen=True)
class Stored:
    """Stored values of a slice.

    Attributes
    ----------
    values : (Y, X), integers.
    padded : (Y, X), where they mean "not measured".
    padding : smallest and largest value that means so.
    """

    values: NDArray[Any]
    padded: NDArray[np.bool_]
    padding: tuple[int, ...]


def read_stored(headers: list[SliceHeader], series: Series) -> Iterator[tuple[SliceHeader, Stored]]:
    """Stored values of slices that are sorted by file; each file is read once.

    Raises
    ------
    StageError
        If pixels cannot be decoded, or it is not certain what they are.
    """
    for path, of_file in groupby(headers, key=lambda header: header.path):
        dataset = None
        for header in of_file:
            try:
                dataset = dataset or read_dataset(path, PIXEL_TAGS + _overlay_tags())
                yield header, _values(header, dataset)
            except UndecodableError as reason:
                raise StageError(f"{series.name}: {header.label}: {reason}; export the series again") from None
            except StageError:
                raise
            except Exception:  # pydicom and the decoders raise almost anything; their texts quote the header
                raise StageError(
                    f"{series.name}: the pixels of {header.label} are missing, truncated or cannot be decoded; copy or"
                    " export the series again"
                ) from None


def _overlay_tags() -> list[Any]:
    return [
        (group << 16) + element for group in range(0x6000, 0x6000 + 2 * OVERLAYS, 2) for element in (0x0100, 0x0102)
    ]


def _values(header: SliceHeader, dataset: Dataset) -> Stored:
    """Stored values of a slice: decoded, with the unused bits cleared."""
    if (dataset.Rows, dataset.Columns, dataset.BitsAllocated) != (header.rows, header.columns, header.bits_allocated):
        raise UndecodableError("it changed while it was read")
    if not 1 <= header.bits_stored <= header.bits_allocated <= 32 or header.bits_allocated % 8:
        raise UndecodableError(
            f"{header.bits_stored} bits stored of {header.bits_allocated} allocated are no pixels that can be read"
        )
    cells = DECODERS[header.transfer_syntax](header, dataset)
    if cells.raw.shape != (header.rows, header.columns):
        raise UndecodableError("its pixels have another size than its header says")
    padding = _padding(header)
    padded = _within(_signed(cells.raw, cells.bits) if header.signed else cells.raw, padding)
    values = _without_unused_bits(cells, padded, header.signed, {*_overlay_bits(dataset)})
    return Stored(values, padded | _within(values, padding), padding)


def _signed(unsigned: NDArray[Any], bits: int) -> NDArray[np.int64]:
    """Numbers of which the highest bit is the sign (two's complement)."""
    wide = unsigned.astype(np.int64)
    return wide - ((wide >> (bits - 1)) << bits)


def _without_unused_bits(
    cells: Cells, padded: NDArray[np.bool_], signed: bool, overlays: set[int]
) -> NDArray[np.int64]:
    """Values of cells, of which BitsStored up to HighBit count (DICOM PS3.5, 8.1.1).

    The other bits must be 0, or repeat the sign, or be said to be overlays. Anything else means that BitsStored is too
    small, or that there is an overlay which nobody mentions; it is refused.
    """
    low = cells.high_bit + 1 - cells.stored
    if low < 0 or cells.high_bit >= cells.bits:
        raise UndecodableError(
            f"HighBit {cells.high_bit} does not agree with {cells.stored} of {cells.bits} bits stored"
        )
    wide = cells.raw.astype(np.int64)
    mask = ((1 << cells.stored) - 1) << low
    values = (wide & mask) >> low
    if signed:
        values = _signed(values, cells.stored)
    beside = ((1 << cells.bits) - 1) & ~mask & ~sum(1 << bit for bit in overlays)
    unused, sign = wide & beside, (values << low) & beside
    if beside and (unused * ~padded).any() and not (signed and ((unused == sign) | padded).all()):
        raise UndecodableError(
            f"bits beside the {cells.stored} stored ones are set, and nothing says why: values could be larger than"
            " BitsStored allows"
        )
    return values


def _overlay_bits(dataset: Dataset) -> Iterator[int]:
    """Bits of the pixels that are said to hold overlays (retired: OverlayBitPosition with OverlayBitsAllocated)."""
    for group in range(0x6000, 0x6000 + 2 * OVERLAYS, 2):
        allocated, position = dataset.get((group, 0x0100)), dataset.get((group, 0x0102))
        if allocated is not None and position is not None and allocated.value == dataset.BitsAllocated:
            yield int(position.value)


def _padding(header: SliceHeader) -> tuple[int, ...]:
    """Ends of the range of padding; a value written without its sign, or with one too many, is wrapped."""
    if header.padding is None:
        return ()
    span = 1 << header.bits_allocated
    ends = [end % span for end in header.padding]
    return tuple(sorted(end - span if header.signed and end >= span // 2 else end for end in ends))


def _within(values: NDArray[Any], padding: tuple[int, ...]) -> NDArray[np.bool_]:
    if not padding:
        return np.zeros(values.shape, bool)
    return (values >= padding[0]) & (values <= padding[-1])
