# SPDX-License-Identifier: Apache-2.0
"""Regrid: slices that form no regular grid (tilted, uneven, missing, with oblong pixels), resampled to one.

Interpolation is linear, within each slice and from slice to slice: exact where intensity is linear in space, never
above or below the neighbours that it lies between, and it assumes nothing of what lies in a gap. A smoother one would
ring beside bone and contrast agent, and its ringing could open or close a lumen at a threshold.
"""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.files.regular_grid import Grid, Measured
from pipeline.files.volume import Volume
from solver.runtime.errors import StageError
from solver.runtime.progress import Progress

SNAP = 1e-3
"""Of a pixel or a slice: so near to a measured place, it is that place. Positions are written with a few decimals."""

MAX_GROWTH = 8.0
"""Most voxels of the grid for one measured pixel; beyond, nearly all of it would be invented or empty."""


def regrid(voxels: NDArray[Any], grid: Grid, log: logging.Logger) -> tuple[Volume, int]:
    """Resample slices to their regular grid.

    Parameters
    ----------
    voxels : (N, Y, X), sorted slices as measured; NaN where nothing was measured (padding).
    grid : where they lie and what they become, of `pipeline.dicom.stack.stack`.
    log : for progress.

    Returns
    -------
    The volume, float32 where anything was resampled, and the number of its voxels that lie outside of the measured
    slices: at the borders of a tilted stack, and less than a pixel beyond the last row or column. These voxels, and
    those that would be interpolated from padding, are NaN. No measured pixel is left out of the grid.

    Raises
    ------
    StageError
        If the grid would be far larger than what was measured.
    """
    if grid.measured is None:
        return Volume(voxels, grid.spacing_mm, grid.origin_mm, grid.direction), 0
    shape = _shape(voxels, grid, grid.measured)
    if math.prod(shape) > MAX_GROWTH * voxels.size:
        raise StageError(
            f"{'x'.join(map(str, reversed(voxels.shape)))} voxels measured would be resampled to"
            f" {'x'.join(map(str, reversed(shape)))}, more than {MAX_GROWTH:g} times as many; take a series with less"
            " tilt or a shorter part of it"
        )
    resampled = np.empty(shape, np.float32)
    upright = _upright_slices(voxels, grid, grid.measured, shape)
    between = _Between.of(np.arange(shape[0]) * grid.spacing_mm[2], grid.measured.places_mm[:, 2])
    outside = 0
    progress = Progress(log, shape[0], "slices resampled")
    for k, (low, high, part) in enumerate(zip(between.low, between.high, between.part, strict=True)):
        (below, covered), (above, covered_too) = upright(low), upright(high)
        resampled[k] = below if low == high else (1 - part) * below + part * above
        outside += int((~(covered & covered_too)).sum())
        progress.update(k + 1)
    return Volume(resampled, grid.spacing_mm, grid.origin_mm, grid.direction), outside


def _shape(voxels: NDArray[Any], grid: Grid, measured: Measured) -> tuple[int, int, int]:
    """Size (Z, Y, X) of the smallest grid from the origin that holds the centres of all pixels."""
    rows, columns = voxels.shape[1:]
    far = measured.places_mm[:, :2].max(axis=0) + (np.array([columns, rows]) - 1) * measured.pixel_mm
    width, height = np.ceil(far / grid.spacing_mm[:2] - SNAP).astype(int) + 1
    return measured.depth, int(height), int(width)


@dataclass(frozen=True)
class _Between:
    """For each target the two neighbours it lies between, and how far it is on the way from the lower to the higher.

    On a neighbour both are the same, so that nothing of the next one, which may be padding, gets in.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    part: NDArray[np.float32]
    inside: NDArray[np.bool_]

    @staticmethod
    def of(targets_mm: NDArray[Any], places_mm: NDArray[np.float64]) -> "_Between":
        """Neighbours of targets among places, both ascending."""
        index = np.interp(targets_mm, places_mm, np.arange(len(places_mm)))
        nearest = np.rint(index)
        index = np.where(np.abs(index - nearest) <= SNAP, nearest, index)
        low = np.floor(index)
        beyond = SNAP * (places_mm[-1] - places_mm[0]) / max(len(places_mm) - 1, 1)
        inside = (targets_mm >= places_mm[0] - beyond) & (targets_mm <= places_mm[-1] + beyond)
        return _Between(low.astype(int), np.ceil(index).astype(int), (index - low).astype(np.float32), inside)


def _upright_slices(
    voxels: NDArray[Any], grid: Grid, measured: Measured, shape: tuple[int, int, int]
) -> Callable[[int], tuple[NDArray[np.float32], NDArray[np.bool_]]]:
    """Each measured slice brought to the rows and columns of the grid, and which of its pixels were measured there."""
    x_mm, y_mm = (np.arange(count) * spacing for count, spacing in zip(shape[:0:-1], grid.spacing_mm[:2], strict=True))
    columns_mm, rows_mm = (
        np.arange(count) * pixel for count, pixel in zip(voxels.shape[:0:-1], measured.pixel_mm, strict=True)
    )

    @lru_cache(maxsize=2)  # the two between which the slices of the grid lie
    def upright(k: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        shift_x, shift_y, _ = measured.places_mm[k]
        x, y = _Between.of(x_mm, columns_mm + shift_x), _Between.of(y_mm, rows_mm + shift_y)
        plane = voxels[k].astype(np.float32)
        plane = plane[y.low] * (1 - y.part)[:, None] + plane[y.high] * y.part[:, None]
        plane = plane[:, x.low] * (1 - x.part) + plane[:, x.high] * x.part
        covered = y.inside[:, None] & x.inside
        plane[~covered] = np.nan
        return plane, covered

    return upright
