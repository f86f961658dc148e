"""Pixels: stored values of the slices, decoded and rescaled to intensities."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pydicom
from numpy.typing import NDArray
from pydicom.pixels import get_decoder
from pydicom.uid import UID

from pipeline.dicom.header import HEADER_TAGS, SliceHeader
from pipeline.dicom.series import Series
from solver.stage import Progress, StageError

PIXEL_TAGS = [
    *HEADER_TAGS, "BitsAllocated", "BitsStored", "HighBit", "PlanarConfiguration", "PixelData", "ExtendedOffsetTable",
    "ExtendedOffsetTableLengths",
]  # fmt: skip


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
    for syntax in sorted({header.transfer_syntax for header in series.headers}):
        if not _decodable(UID(syntax)):
            name = f"{UID(syntax).name} ({syntax})" if UID(syntax).is_transfer_syntax else "unknown"
            raise StageError(
                f"{series.name}: transfer syntax {name}: no decoder for it is installed; decompress the series (for"
                " instance gdcmconv --raw) and load it again"
            )


def _decodable(syntax: UID) -> bool:
    try:
        return get_decoder(syntax).is_available
    except NotImplementedError:
        return False


def without_duplicates(series: Series) -> Series:
    """Drop further copies of an image. Two different images with one SOPInstanceUID are refused."""
    kept: dict[str, SliceHeader] = {}
    for header in series.headers:
        first = kept.setdefault(header.instance, header)
        if first is header:
            continue
        if first.place != header.place or not np.array_equal(_stored(first, series), _stored(header, series)):
            raise StageError(
                f"{series.name}: files {first.number} and {header.number} of the folder, by name, claim to be the same"
                " image but differ; take the wrong one out"
            )
    return Series(list(kept.values()))


def decode(series: Series, log: logging.Logger) -> NDArray[np.float32]:
    """Rescaled intensities (Z, Y, X) of sorted slices; NaN where a pixel is padding."""
    headers = series.headers
    voxels = np.empty((len(headers), headers[0].rows, headers[0].columns), np.float32)
    progress = Progress(log, len(headers), "slices")
    pads: list[float] = []
    for k, header in enumerate(headers):
        stored = _stored(header, series)
        slope, intercept = header.slope or 1.0, header.intercept or 0.0
        voxels[k] = stored.astype(np.float64) * slope + intercept
        if header.padding:
            low, high = header.padding
            padded = (stored >= low) & (stored <= high)
            voxels[k][padded] = np.nan
            pads += [low * slope + intercept, high * slope + intercept] if padded.any() else []
        progress.update(k + 1)
    if pads:
        _require_padding_apart(voxels, pads, series)
    return voxels


def _require_padding_apart(voxels: NDArray[np.float32], pads: list[float], series: Series) -> None:
    low, high = float(np.fmin.reduce(voxels, axis=None)), float(np.fmax.reduce(voxels, axis=None))
    if np.isnan(low):
        raise StageError(f"{series.name}: every pixel is padding; the series holds no image, take another one")
    if low < min(pads) and max(pads) < high:
        raise StageError(
            f"{series.name}: the padding value {min(pads):g} lies inside the range of measured intensities {low:g} to"
            f" {high:g}, so that padding and image cannot be told apart; export the series without padding"
        )


def fill(voxels: NDArray[np.float32]) -> int:
    """Give voxels that were not measured (NaN) the smallest measured intensity; returns how many there were."""
    unmeasured = np.isnan(voxels)
    if unmeasured.any():
        voxels[unmeasured] = np.fmin.reduce(voxels, axis=None)
    return int(unmeasured.sum())


def _stored(header: SliceHeader, series: Series) -> NDArray[Any]:
    """Stored values of a slice, (Y, X)."""
    try:
        stored = pydicom.dcmread(header.path, specific_tags=PIXEL_TAGS).pixel_array
    except Exception:  # pydicom and its decoders raise almost anything; their texts quote the header
        stored = np.empty(0)
    if stored.shape != (header.rows, header.columns):
        raise StageError(
            f"{series.name}: the pixels of file {header.number} of the folder, by name, are missing, truncated or"
            " cannot be decoded; copy or export the series again"
        )
    return stored


def compact(voxels: NDArray[Any]) -> NDArray[Any]:
    """As int16 where all values are integers that fit, else as float32."""
    limits = np.iinfo(np.int16)
    fits = voxels.min() >= limits.min and voxels.max() <= limits.max
    whole = fits and all(np.array_equal(plane, np.rint(plane)) for plane in voxels)
    return voxels.astype(np.int16 if whole else np.float32)
