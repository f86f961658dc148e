# SPDX-License-Identifier: Apache-2.0
"""Data set: tags of a DICOM file, read with the care that a file from anywhere needs.

Whatever breaks the rules of its tag counts as absent; nothing is said of it, as it may tell who the patient is.
"""

import logging
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from pydicom.dataset import Dataset
from pydicom.filereader import read_file_meta_info, read_partial
from pydicom.tag import BaseTag, Tag
from pydicom.uid import DeflatedExplicitVRLittleEndian

from pipeline.files.volume_bytes import DEFLATE_RATIO

MAX_INFLATED_BYTES = 2**30
PIXEL_DATA = (0x7FE00008, 0x7FE00009, 0x7FE00010)
"""FloatPixelData, DoubleFloatPixelData, PixelData."""
META_START = 144
"""Preamble, DICM, and the element that tells the length of the rest of the file meta information."""


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


def read_dataset(path: Path, tags: list[str], **options: Any) -> Dataset:
    """Some tags of a file; a deflated one is not allowed to blow up.

    Parameters
    ----------
    path : of the file.
    tags : keywords of what is read.
    **options : of :func:`pydicom.dcmread`.

    Raises
    ------
    ValueError
        If it would inflate to more than `MAX_INFLATED_BYTES`.
    Exception
        Almost any, if it is no proper DICOM file.
    """
    require_small_when_inflated(path)
    return pydicom.dcmread(path, specific_tags=list(tags), **options)


def read_header(path: Path, tags: list[str]) -> tuple[Dataset, bool]:
    """Some tags of a file in front of its pixels, and whether it has any pixels.

    Raises
    ------
    pydicom.errors.InvalidDicomError
        If it is no DICOM file.
    Exception
        Almost any, if it is a damaged one, or inflates to more than `MAX_INFLATED_BYTES`.
    """
    lengths: list[int] = []

    def at_pixels(tag: BaseTag, _: str | None, length: int) -> bool:
        if int(tag) in PIXEL_DATA:
            lengths.append(length)
        return bool(lengths)

    require_small_when_inflated(path)
    with path.open("rb") as stream:
        dataset = read_partial(stream, at_pixels, specific_tags=[Tag(tag) for tag in tags])
    return dataset, bool(lengths and lengths[0])


def require_small_when_inflated(path: Path) -> None:
    """Refuse a deflated file that blows up, before it does.

    Raises
    ------
    ValueError
        If it would inflate to more than `MAX_INFLATED_BYTES`.
    """
    if path.stat().st_size * DEFLATE_RATIO <= MAX_INFLATED_BYTES:
        return
    meta = read_file_meta_info(path)
    if meta.get("TransferSyntaxUID") != DeflatedExplicitVRLittleEndian:
        return
    inflate, size = zlib.decompressobj(-zlib.MAX_WBITS), 0
    with path.open("rb") as stream:
        stream.seek(META_START + meta.FileMetaInformationGroupLength)
        while packed := stream.read(2**16):
            size += len(inflate.decompress(packed))
            if size > MAX_INFLATED_BYTES:
                raise ValueError("inflates without end")


class Finder:
    """Values by keyword from the first of several layers that has one; what cannot be read counts as absent.

    Parameters
    ----------
    layers : from the most special to the most general.
    without : keywords that the last layer does not answer for.
    """

    def __init__(self, layers: list[Any], without: list[str] | None = None) -> None:
        self.layers, self.without = layers, without or []

    def __call__(self, keyword: str) -> Any:
        """The value, or None."""
        for layer in self.layers[:-1] if keyword in self.without else self.layers:
            found = value(layer, keyword)
            if found is not None:
                return found
        return None

    def text(self, keyword: str) -> str:
        """The value as text, empty where there is none."""
        found = self(keyword)
        return "" if found is None else str(found).strip()

    def numbers(self, keyword: str, count: int) -> tuple[float, ...] | None:
        """So many finite numbers, or None."""
        return _numbers(self(keyword), count)

    def number(self, keyword: str) -> float | None:
        """A finite number, or None."""
        return number(self(keyword))

    def whole(self, keyword: str) -> int | None:
        """A finite number without what is behind its point, or None."""
        found = self.number(keyword)
        return None if found is None else int(found)


def value(layer: Any, keyword: str) -> Any:
    """Value of a data set or a dict by keyword; None for one that is absent, empty or cannot be read."""
    try:
        found = layer.get(keyword)
    except Exception:  # pydicom raises almost anything for a value that breaks its rules
        return None
    return None if found is None or (hasattr(found, "__len__") and len(found) == 0) else found


def number(given: Any) -> float | None:
    """A finite number, or None where it is none."""
    found = _numbers((given,), 1)
    return found[0] if found else None


def _numbers(values: Any, count: int) -> tuple[float, ...] | None:
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        return None
    return numbers if len(numbers) == count and np.isfinite(numbers).all() else None
