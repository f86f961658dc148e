# SPDX-License-Identifier: Apache-2.0
"""Small DICOM series of a volume, changes to them, and loading them."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from scipy.spatial.transform import Rotation

from pipeline.case.settings.images import LoadSettings
from pipeline.files.volume import Volume
from pipeline.stages.load import SeriesFacts, load
from pipeline.stages.phantom import SeriesHeader, write_series

SLICES = 6


def read(
    source: Path | Sequence[Path], series: str | None = None, phase: int | str | None = None
) -> tuple[Volume, SeriesFacts]:
    return load(source, LoadSettings(series=series, phase=phase), logging.getLogger("test"))


def oblique(voxels: np.ndarray, rotation_deg: tuple[float, ...] = (14, -9, 21)) -> Volume:
    direction = Rotation.from_euler("xyz", rotation_deg, degrees=True).as_matrix()
    return Volume(voxels, (0.35, 0.5, 0.8), (-31.4, 27.2, 618.6), direction)


def noise(shape: tuple[int, int, int] = (SLICES, 11, 17)) -> np.ndarray:
    return np.random.default_rng(1).integers(-1024, 3071, shape, dtype=np.int16)


def write(volume: Volume, folder: Path, number: int = 2, kind: str = "AXIAL") -> None:
    write_series(volume, folder, SeriesHeader("study", number, "series", kind, 1.0))


def edit(folder: Path, change: Callable[[pydicom.Dataset, int], Any]) -> None:
    """Change each slice; called with its number along the normal, from 0. A slice for which it returns False goes."""
    found = [(pydicom.dcmread(path), path) for path in folder.rglob("*") if path.is_file()]
    found.sort(key=lambda pair: -pair[0].InstanceNumber)
    for k, (dataset, path) in enumerate(found):
        if change(dataset, k) is False:
            path.unlink()
        else:
            dataset.save_as(path)


def shift(dataset: pydicom.Dataset, *, normal: float = 0, row: float = 0) -> None:
    x, y = np.array(dataset.ImageOrientationPatient, float).reshape(2, 3)
    moved = np.array(dataset.ImagePositionPatient, float) + normal * np.cross(x, y) + row * x
    dataset.ImagePositionPatient = [f"{value:.10g}" for value in moved]


def files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def put(only: int | None = None, **values: Any) -> Callable[[pydicom.Dataset, int], Any]:
    def change(dataset: pydicom.Dataset, k: int) -> None:
        for keyword, value in values.items():
            if only in (None, k):
                setattr(dataset, keyword, value)

    return change


def truncate(dataset: pydicom.Dataset, k: int) -> None:
    if k == 3:
        dataset.PixelData = dataset.PixelData[:100]
