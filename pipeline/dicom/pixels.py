# SPDX-License-Identifier: Apache-2.0
"""Pixels: the slices of a series as intensities: decoded, rescaled, with padding apart from what was measured."""

import filecmp
import logging
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.dicom.header import SliceHeader
from pipeline.dicom.series import Series
from pipeline.dicom.stored import read_stored
from solver.runtime.errors import StageError
from solver.runtime.progress import Progress


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
    one, other = (next(stored for _, stored in read_stored([header], series)) for header in (first, again))
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
    for done, (header, stored) in enumerate(read_stored(by_file, series), start=1):
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
            f" {high:g}, so that padding cannot be distinguished from image; export the series without padding"
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
