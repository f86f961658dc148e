# SPDX-License-Identifier: Apache-2.0
"""Grid: the regular grid on which voxels lie, and the limits that hold for every one."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MIN_SLICES = 3
ORTHONORMAL_TOLERANCE = 1e-3
"""Row and column directions are often written with four decimals."""
SPACING_RANGE_MM = (0.001, 100.0)
"""Distances of pixels and of slices outside of it are no lengths in mm."""


@dataclass(frozen=True)
class Check:
    """One thing that was checked: the worst value found and the largest that is accepted (smallest for counts)."""

    name: str
    value: float
    limit: float
    unit: str


@dataclass(frozen=True)
class Measured:
    """Where slices that are no regular grid lie in the one that they are resampled to.

    Attributes
    ----------
    pixel_mm : distance of their pixels along x and y.
    places_mm : (N, 3), first pixel of each sorted slice along the grid's x, y, z axes, from the grid's origin.
    depth : number of slices of the grid.
    """

    pixel_mm: tuple[float, float]
    places_mm: NDArray[np.float64]
    depth: int


@dataclass(frozen=True)
class Grid:
    """The regular grid of a stack of slices.

    Attributes
    ----------
    order : (N,) int, the slices sorted along the normal.
    spacing_mm : along the rows (x), along the columns (y), from slice to slice (z).
    origin_mm : centre of the first pixel of the first slice, (x, y, z), LPS.
    direction : (3, 3), columns are the unit vectors of x, y, z in LPS; right-handed.
    checks : what was checked, with values.
    policies : for each policy of `LoadSettings`, by its key: what is chosen, whether there was need, what was found.
    measured : None where the slices are the grid as they are, else what has to be resampled.
    """

    order: NDArray[np.int64]
    spacing_mm: tuple[float, float, float]
    origin_mm: tuple[float, float, float]
    direction: NDArray[np.float64]
    checks: list[Check]
    policies: dict[str, dict[str, Any]]
    measured: Measured | None


def orthonormal_error(direction: NDArray[np.float64]) -> float:
    """Largest entry of ``|D^T D - 1|`` for the direction vectors in the columns of D."""
    return float(np.abs(direction.T @ direction - np.eye(direction.shape[1])).max())
