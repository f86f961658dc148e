"""Pixels: stored values of the slices, decoded and rescaled to intensities.

Each transfer syntax has one decoder, so that the same file gives the same values on every machine. What a codestream
says of itself (size, precision, sign) must agree with the header.
"""

import filecmp
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydicom import uid
from pydicom.dataset import Dataset
from pydicom.encaps import get_frame
from pydicom.pixels import get_decoder

from pipeline.dicom import codecs
from pipeline.dicom.header import SliceHeader, read_dataset
from pipeline.dicom.series import Series
from solver.stage import Progress, StageError

PIXEL_TAGS = [
    "SOPClassUID", "NumberOfFrames", "Rows", "Columns", "SamplesPerPixel", "PhotometricInterpretation",
    "PlanarConfiguration", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation", "PixelData",
    "ExtendedOffsetTable", "ExtendedOffsetTableLengths",
]  # fmt: skip
OVERLAYS = 16
"""Groups 6000, 6002, ... of overlays, which used to lie in the unused bits of pixels."""


class _UndecodableError(Exception):
    """A frame that cannot be decoded, or whose values are not certain; with the reason."""


@contextmanager
def quiet() -> Iterator[None]:
    """Silence pydicom: its warnings and log lines quote header values."""
    logger = logging.getLogger("pydicom")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


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


def require_same(series: Series) -> None:
    """Make sure that further copies of a slice are copies: same place, same values.

    Raises
    ------
    StageError
        If two different images have one SOPInstanceUID.
    """
    same: set[tuple[Path, Path]] = set()
    for first, again in series.duplicates:
        pair = (first.path, again.path)
        if pair in same or (again.frame == 0 and _same_bytes(*pair)):
            same.add(pair)
        elif first.place != again.place or not _equal(first, again, series):
            raise StageError(
                f"{series.name}: {first.label}, and {again.label}, claim to be the same image but differ; take the"
                " wrong one out"
            )


def _same_bytes(one: Path, other: Path) -> bool:
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:  # its text would name the file; decoding it will say what is wrong
        return False


def _equal(first: SliceHeader, again: SliceHeader, series: Series) -> bool:
    one, other = (next(stored for _, stored in _stored([header], series)) for header in (first, again))
    return np.array_equal(one.values, other.values)


def decode(series: Series, log: logging.Logger) -> NDArray[Any]:
    """Rescaled intensities of sorted slices.

    Returns
    -------
    (Z, Y, X), int16 where all are integers that fit and none is padding, else float32 with NaN where one is.

    Raises
    ------
    StageError
        If pixels cannot be decoded, or it is not certain what they mean.
    """
    headers = series.headers
    progress = Progress(log, len(headers), "slices")
    place = {(header.path, header.frame): k for k, header in enumerate(headers)}
    voxels: NDArray[Any] = np.empty(0, np.int16)
    pads: list[float] = []
    by_file = sorted(headers, key=lambda header: (header.path, header.frame))
    for done, (header, stored) in enumerate(_stored(by_file, series), start=1):
        if done == 1:  # only now, as it takes a decoded slice to believe in its size
            voxels = np.empty((len(headers), *stored.values.shape), np.int16)
        slope, intercept = header.slope or 1.0, header.intercept or 0.0
        intensity = stored.values.astype(np.float64) * slope + intercept
        if stored.padded.any():
            intensity[stored.padded] = np.nan
            pads += [end * slope + intercept for end in stored.padding]
        if voxels.dtype == np.int16 and not _fits_int16(intensity):
            voxels = voxels.astype(np.float32)
        voxels[place[header.path, header.frame]] = intensity
        progress.update(done)
    if pads:
        _require_padding_apart(voxels, pads, series)
    return voxels


def _fits_int16(values: NDArray[np.float64]) -> bool:
    limits = np.iinfo(np.int16)
    inside = values.min() >= limits.min and values.max() <= limits.max  # never so with NaN
    return bool(inside) and np.array_equal(values, np.rint(values))


def _require_padding_apart(voxels: NDArray[np.float32], pads: list[float], series: Series) -> None:
    low, high = float(np.fmin.reduce(voxels, axis=None)), float(np.fmax.reduce(voxels, axis=None))
    if np.isnan(low):
        raise StageError(f"{series.name}: every pixel is padding; the series holds no image, take another one")
    if low < min(pads) and max(pads) < high:
        raise StageError(
            f"{series.name}: the padding value {min(pads):g} lies inside the range of measured intensities {low:g} to"
            f" {high:g}, so that padding and image cannot be told apart; export the series without padding"
        )


def fill(voxels: NDArray[Any]) -> int:
    """Give voxels that were not measured (NaN) the smallest measured intensity; returns how many there were."""
    if voxels.dtype.kind != "f":
        return 0
    lowest = np.fmin.reduce(voxels, axis=None)
    count = 0
    for plane in voxels:
        unmeasured = np.isnan(plane)
        plane[unmeasured] = lowest
        count += int(unmeasured.sum())
    return count


def compact(voxels: NDArray[Any]) -> NDArray[Any]:
    """As int16 where all values are integers that fit, else as float32."""
    if voxels.dtype == np.int16:
        return voxels
    return voxels.astype(np.int16 if all(_fits_int16(plane) for plane in voxels) else np.float32, copy=False)


@dataclass(frozen=True)
class _Stored:
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


def _stored(headers: list[SliceHeader], series: Series) -> Iterator[tuple[SliceHeader, _Stored]]:
    """Stored values of slices that are sorted by file; each file is read once."""
    for path, of_file in groupby(headers, key=lambda header: header.path):
        dataset = None
        for header in of_file:
            try:
                dataset = dataset or read_dataset(path, PIXEL_TAGS + _overlay_tags())
                yield header, _values(header, dataset)
            except _UndecodableError as reason:
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


def _values(header: SliceHeader, dataset: Dataset) -> _Stored:
    """Stored values of a slice: decoded, with the unused bits cleared."""
    if (dataset.Rows, dataset.Columns, dataset.BitsAllocated) != (header.rows, header.columns, header.bits_allocated):
        raise _UndecodableError("it changed while it was read")
    if not 1 <= header.bits_stored <= header.bits_allocated <= 32 or header.bits_allocated % 8:
        raise _UndecodableError(
            f"{header.bits_stored} bits stored of {header.bits_allocated} allocated are no pixels that can be read"
        )
    cells = DECODERS[header.transfer_syntax](header, dataset)
    if cells.raw.shape != (header.rows, header.columns):
        raise _UndecodableError("its pixels have another size than its header says")
    padding = _padding(header)
    padded = _within(_signed(cells.raw, cells.bits) if header.signed else cells.raw, padding)
    values = _without_unused_bits(cells, padded, header.signed, {*_overlay_bits(dataset)})
    return _Stored(values, padded | _within(values, padding), padding)


@dataclass(frozen=True)
class _Cells:
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


def _signed(unsigned: NDArray[Any], bits: int) -> NDArray[np.int64]:
    """Numbers of which the highest bit is the sign (two's complement)."""
    wide = unsigned.astype(np.int64)
    return wide - ((wide >> (bits - 1)) << bits)


def _without_unused_bits(
    cells: _Cells, padded: NDArray[np.bool_], signed: bool, overlays: set[int]
) -> NDArray[np.int64]:
    """Values of cells, of which BitsStored up to HighBit count (DICOM PS3.5, 8.1.1).

    The other bits must be 0, or repeat the sign, or be said to be overlays. Anything else means that BitsStored is too
    small, or that there is an overlay which nobody mentions; it is refused.
    """
    low = cells.high_bit + 1 - cells.stored
    if low < 0 or cells.high_bit >= cells.bits:
        raise _UndecodableError(
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
        raise _UndecodableError(
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


def _native(header: SliceHeader, dataset: Dataset) -> _Cells:
    """Uncompressed; a header whose size does not fit the length of the data would shear the image."""
    size = header.bits_allocated // 8
    expected = header.rows * header.columns * size * header.frames
    excess = len(dataset.PixelData) - expected
    if excess < 0:
        raise ValueError("truncated")
    if excess >= max(2, min(header.rows, header.columns) * size):
        raise _UndecodableError(f"its pixels have {len(dataset.PixelData)} bytes where its header asks for {expected}")
    return _by_pydicom(header, dataset)


def _by_pydicom(header: SliceHeader, dataset: Dataset, plugin: str = "") -> _Cells:
    decoder = get_decoder(uid.UID(header.transfer_syntax))
    options: dict[str, Any] = {"correct_unused_bits": False, "allow_excess_frames": False}
    cells, _ = decoder.as_array(dataset, index=header.frame, raw=True, decoding_plugin=plugin, **options)
    unsigned = cells.view(cells.dtype.str.replace("i", "u"))
    return _Cells(unsigned, header.bits_allocated, header.bits_stored, header.high_bit)


def _rle(header: SliceHeader, dataset: Dataset) -> _Cells:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that of more pixels than the header has room for
        return _by_pydicom(header, dataset, "pydicom")


def _frame(header: SliceHeader, dataset: Dataset) -> bytes:
    """Compressed bytes of a frame."""
    offsets = None
    if "ExtendedOffsetTable" in dataset and "ExtendedOffsetTableLengths" in dataset:
        offsets = (dataset.ExtendedOffsetTable, dataset.ExtendedOffsetTableLengths)
    return get_frame(dataset.PixelData, header.frame, number_of_frames=header.frames, extended_offsets=offsets)


@dataclass(frozen=True)
class _Codestream:
    """What a codestream says of itself."""

    rows: int
    columns: int
    components: int
    precision: int
    signed: bool = False


def _require_fit(codestream: _Codestream | None, header: SliceHeader) -> _Codestream:
    if codestream is None:
        raise _UndecodableError(f"its pixels are no {uid.UID(header.transfer_syntax).name}")
    size = (codestream.rows, codestream.columns, codestream.components)
    if size != (header.rows, header.columns, 1):
        raise _UndecodableError(
            f"its header says {header.columns}x{header.rows} pixels, its codestream"
            f" {codestream.columns}x{codestream.rows} of {codestream.components} colours"
        )
    if not 2 <= codestream.precision <= header.bits_allocated:
        raise _UndecodableError(
            f"its pixels have {codestream.precision} bits, its header allocates {header.bits_allocated}"
        )
    if codestream.precision < header.bits_stored and header.transfer_syntax == uid.JPEGBaseline8Bit:
        raise _UndecodableError(f"its header says {header.bits_stored} bits, its pixels have lost all but 8")
    if header.signed and codestream.precision < header.bits_stored and not codestream.signed:
        raise _UndecodableError(
            f"its header says signed values of {header.bits_stored} bits, its pixels are unsigned of"
            f" {codestream.precision} bits: it is not certain where the sign is"
        )
    return codestream


def _jpeg_header(frame: bytes) -> _Codestream | None:
    """From the start-of-frame segment of JPEG (ISO/IEC 10918-1, B.2.2) and JPEG-LS (ISO/IEC 14495-1, C.2.2)."""
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
            return _Codestream(rows, columns, components, precision)
        position += 2 + _shorts(frame, position + 2, 1)[0]
    return None


def _shorts(data: bytes, start: int, count: int) -> list[int]:
    return [int.from_bytes(data[k : k + 2], "big") for k in range(start, start + 2 * count, 2)]


def _j2k_header(frame: bytes) -> _Codestream | None:
    """From the SIZ segment of JPEG 2000 (ISO/IEC 15444-1, A.5.1), which may lie in a JP2 box."""
    start = 0 if frame[:4] == b"\xff\x4f\xff\x51" else frame.find(b"jp2c\xff\x4f\xff\x51") + 4
    size = frame[start + 4 : start + 43]
    if frame[start : start + 4] != b"\xff\x4f\xff\x51" or len(size) < 39:
        return None
    right, bottom, left, top = (int.from_bytes(size[k : k + 4], "big") for k in (4, 8, 12, 16))
    return _Codestream(
        bottom - top, right - left, _shorts(size, 36, 1)[0], (size[38] & 0x7F) + 1, bool(size[38] & 0x80)
    )


def _jpeg(header: SliceHeader, dataset: Dataset) -> _Cells:
    """JPEG, which knows no sign: the bits of a negative number are those of a large one."""
    frame = _frame(header, dataset)
    codestream = _require_fit(_jpeg_header(frame), header)
    return _cells(_decoded("jpeg", frame, codestream, header), codestream.precision, header)


def _jpeg_ls(header: SliceHeader, dataset: Dataset) -> _Cells:
    frame = _frame(header, dataset)
    codestream = _require_fit(_jpeg_header(frame), header)
    return _cells(_decoded("jpeg-ls", frame, codestream, header), codestream.precision, header)


def _j2k(header: SliceHeader, dataset: Dataset) -> _Cells:
    """JPEG 2000, which has a sign of its own."""
    frame = _frame(header, dataset)
    codestream = _require_fit(_j2k_header(frame), header)
    cells = _cells(_decoded("j2k", frame, codestream, header), codestream.precision, header)
    if codestream.signed != header.signed:
        _require_agreement(cells.raw, codestream, header)
    return cells


def _decoded(codec: str, frame: bytes, codestream: _Codestream, header: SliceHeader) -> bytes:
    """Decoded bytes of a frame; decoders make something up for what a frame without its end marker lacks."""
    if not frame.rstrip(b"\0\xff").endswith(b"\xff\xd9"):
        raise _UndecodableError("its pixels are truncated")
    return codecs.decode(
        codec, frame, header.transfer_syntax, codestream.columns, codestream.rows, codestream.precision
    )


def _require_agreement(cells: NDArray[Any], codestream: _Codestream, header: SliceHeader) -> None:
    """Header and codestream disagree on the sign: certain only where both mean the same, or one makes no image.

    The reading that is wrong wraps values around, so that neighbours jump by the whole range; which the header's must
    not.
    """
    half = 1 << (codestream.precision - 1)
    if not (cells >= half).any():
        return
    as_signed = cells.astype(np.int64) - (cells >= half) * (2 * half)
    header_says, other = (as_signed, cells) if header.signed else (cells, as_signed)
    if _roughness(header_says) * 2 > _roughness(other):
        kinds = ("signed", "unsigned") if header.signed else ("unsigned", "signed")
        raise _UndecodableError(
            f"its header says {kinds[0]} values, its pixels say {kinds[1]}: not certain which is right"
        )


def _roughness(values: NDArray[Any]) -> int:
    wide = values.astype(np.int64)
    return int(np.abs(np.diff(wide, axis=0)).sum() + np.abs(np.diff(wide, axis=1)).sum())


def _cells(pixels: bytes, bits: int, header: SliceHeader) -> _Cells:
    """Cells of a decoded codestream; whatever its container holds above its precision is none of them."""
    size = 1 if bits <= 8 else 2 if bits <= 16 else 4
    raw = np.frombuffer(pixels, f"<u{size}").reshape(header.rows, header.columns) & ((1 << bits) - 1)
    stored = min(header.bits_stored, bits)
    return _Cells(raw, bits, stored, stored - 1)


DECODERS: dict[str, Callable[[SliceHeader, Dataset], _Cells]] = {
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
    uid.JPEGBaseline8Bit, uid.JPEGExtended12Bit, "1.2.840.10008.1.2.4.53", "1.2.840.10008.1.2.4.55",
    uid.JPEGLSNearLossless,
}  # fmt: skip
"""Transfer syntaxes that have no lossless form."""

PERHAPS_LOSSY = {uid.JPEG2000, uid.HTJ2K}
"""Those that have one; they are taken for lossy unless the header says that they are not."""
