"""Stack: the places of single slices, and the one regular grid that they form or do not form."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.stage import StageError

MIN_SLICES = 3
ORTHONORMAL_TOLERANCE = 1e-3
"""Row and column directions are often written with four decimals."""
SAME_DIRECTION_TOLERANCE = 2e-4
"""Largest difference of a direction cosine within a series: 0.01 degrees, two units of the fourth decimal."""
SAME_SPACING_TOLERANCE = 1e-4
"""Relative: a twentieth of a pixel over 512 pixels."""
POSITION_TOLERANCE = 0.01
"""Of the slice spacing, and never less than `POSITION_FLOOR_MM`."""
POSITION_FLOOR_MM = 0.01
SHEAR_TOLERANCE = 0.1
"""Of the pixel spacing, over the whole stack."""


@dataclass(frozen=True)
class Check:
    """One thing that was checked: the worst value found and the largest that is accepted (smallest for counts)."""

    name: str
    value: float
    limit: float
    unit: str


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
    """

    order: NDArray[np.int64]
    spacing_mm: tuple[float, float, float]
    origin_mm: tuple[float, float, float]
    direction: NDArray[np.float64]
    checks: list[Check]


def stack(
    positions_mm: NDArray[np.float64],
    orientations: NDArray[np.float64],
    pixel_spacings_mm: NDArray[np.float64],
    where: str,
) -> Grid:
    """Sort slices along their normal and make sure that they lie on one regular grid.

    Only ImagePositionPatient, ImageOrientationPatient and PixelSpacing count (DICOM PS3.3, C.7.6.2); slice thickness,
    slice location, instance numbers and the order of files do not.

    Parameters
    ----------
    positions_mm : (N, 3), centre of each slice's first pixel, LPS.
    orientations : (N, 6), unit vectors along a row and along a column.
    pixel_spacings_mm : (N, 2), distance between rows, distance between columns.
    where : the series, for messages.

    Raises
    ------
    StageError
        If the slices do not form a regular grid; names everything that is wrong with them.
    """
    checks: list[Check] = []
    direction = _direction(orientations, where, checks)
    rows_mm, columns_mm = _pixel_spacing(pixel_spacings_mm, where, checks)
    along = (positions_mm - positions_mm[0]) @ direction[:, 2]
    order = np.argsort(along, kind="stable")
    sorted_mm, along = positions_mm[order], along[order]
    faults = [
        *_too_few(along, checks),
        *_shear(sorted_mm, direction, min(rows_mm, columns_mm), checks),
        *_uneven(along, checks),
    ]
    if faults:
        raise StageError(f"{where}: " + "; ".join(faults))
    slices_mm = float(along[-1] - along[0]) / (len(along) - 1)
    origin = sorted_mm[0]
    return Grid(
        order,
        (columns_mm, rows_mm, slices_mm),
        (float(origin[0]), float(origin[1]), float(origin[2])),
        direction,
        checks,
    )


def orthonormal_error(direction: NDArray[np.float64]) -> float:
    """Largest entry of ``|D^T D - 1|`` for the direction vectors in the columns of D."""
    return float(np.abs(direction.T @ direction - np.eye(direction.shape[1])).max())


def _direction(orientations: NDArray[np.float64], where: str, checks: list[Check]) -> NDArray[np.float64]:
    """The one direction matrix of all slices, made orthonormal."""
    difference = float(np.abs(orientations - orientations[0]).max())
    if difference > SAME_DIRECTION_TOLERANCE:
        groups, counts = np.unique(orientations.round(3), axis=0, return_counts=True)
        raise StageError(
            f"{where}: {len(groups)} orientations in one series (slices of each: {_listed(counts)}; direction cosines"
            f" differ by up to {difference:.3g}, limit {SAME_DIRECTION_TOLERANCE:g}); leave out the slices of the other"
            " orientations (a localizer?) and load again"
        )
    pair = orientations[0].reshape(2, 3).T
    error = orthonormal_error(pair)
    if error > ORTHONORMAL_TOLERANCE:
        raise StageError(
            f"{where}: the directions of rows and columns are not orthonormal (error {error:.3g}, limit"
            f" {ORTHONORMAL_TOLERANCE:g}); the geometry of this export is damaged, export the series again"
        )
    checks += [
        Check("one orientation: largest difference of direction cosines", difference, SAME_DIRECTION_TOLERANCE, "1"),
        Check("orthonormal orientation: error", error, ORTHONORMAL_TOLERANCE, "1"),
    ]
    row = pair[:, 0] / np.linalg.norm(pair[:, 0])
    column = pair[:, 1] - (pair[:, 1] @ row) * row
    column /= np.linalg.norm(column)
    return np.column_stack([row, column, np.cross(row, column)])


def _pixel_spacing(spacings_mm: NDArray[np.float64], where: str, checks: list[Check]) -> tuple[float, float]:
    if spacings_mm.min() <= 0:
        raise StageError(
            f"{where}: pixel spacing {spacings_mm.min():g} mm; it must be positive, export the series again"
        )
    difference = float(np.abs(spacings_mm / spacings_mm[0] - 1).max())
    if difference > SAME_SPACING_TOLERANCE:
        raise StageError(
            f"{where}: pixel spacing from {spacings_mm.min():g} to {spacings_mm.max():g} mm in one series; leave out"
            " the slices of the other spacing and load again"
        )
    checks.append(Check("one pixel spacing: largest relative difference", difference, SAME_SPACING_TOLERANCE, "1"))
    return float(spacings_mm[0, 0]), float(spacings_mm[0, 1])


def _too_few(along_mm: NDArray[np.float64], checks: list[Check]) -> list[str]:
    count = len(along_mm)
    checks.append(Check("number of slices", count, MIN_SLICES, "slices"))
    if count >= MIN_SLICES:
        return []
    return [
        f"only {count} slice{'s' if count > 1 else ''}; at least {MIN_SLICES} are needed, because with fewer no two"
        " steps between slices can be compared; give the whole series"
    ]


def _shear(
    sorted_mm: NDArray[np.float64], direction: NDArray[np.float64], pixel_mm: float, checks: list[Check]
) -> list[str]:
    """Shift of the slices within their own plane: a tilted gantry."""
    moved = sorted_mm - sorted_mm[0]
    in_plane = np.linalg.norm(moved @ direction[:, :2], axis=1)
    worst, limit = float(in_plane.max()), SHEAR_TOLERANCE * pixel_mm
    checks.append(Check("no tilt: largest shift of a slice within its plane", worst, limit, "mm"))
    if worst <= limit:
        return []
    far = int(in_plane.argmax())
    tilt_deg = np.degrees(np.arctan2(in_plane[far], abs(moved[far] @ direction[:, 2])))
    return [
        f"the slices are shifted within their plane by up to {worst:.3g} mm (limit {limit:.2g} mm), as by a gantry"
        f" tilted by {tilt_deg:.1f} degrees; resample the series to an upright grid, or take an untilted one"
    ]


def _uneven(along_mm: NDArray[np.float64], checks: list[Check]) -> list[str]:
    """Positions along the normal (sorted) that are not evenly spaced, with the reason as far as it can be told."""
    steps = np.diff(along_mm)
    places = 1 + int((steps >= POSITION_FLOOR_MM).sum())
    if places < len(along_mm):
        each = len(along_mm) / places
        several = f" ({each:g} at each: several phases or echoes?)" if each.is_integer() else ""
        return [
            f"{len(along_mm)} slices lie at {places} place{'s' if places > 1 else ''} along the normal{several}, less"
            f" than {POSITION_FLOOR_MM:g} mm apart; keep one slice at each position"
        ]
    if len(steps) < 2:
        return []
    even = np.linspace(along_mm[0], along_mm[-1], len(along_mm))
    worst = float(np.abs(along_mm - even).max())
    usual = float(steps.min())  # not the median: of every second slice missing it knows nothing
    limit = max(POSITION_TOLERANCE * usual, POSITION_FLOOR_MM)
    checks.append(Check("uniform spacing: largest deviation from an even position", worst, limit, "mm"))
    if worst <= limit:
        return []
    multiples = steps / usual
    whole = np.abs(multiples - multiples.round()) * usual <= 2 * limit
    gaps = np.flatnonzero(multiples.round() > 1)
    if whole.all() and len(gaps):
        missing = int((multiples.round()[gaps] - 1).sum())
        return [
            f"{missing} slice{'s are' if missing > 1 else ' is'} missing: the step from slice {gaps[0] + 1} to slice"
            f" {gaps[0] + 2} (of {len(along_mm)}, sorted along the normal) is {steps[gaps[0]]:.4g} mm where the spacing"
            f" is {usual:.4g} mm; add the missing slices or take a complete series"
        ]
    return [
        f"slice positions step {steps.min():.4g} to {steps.max():.4g} mm, up to {worst:.3g} mm off an even spacing"
        f" (limit {limit:.3g} mm); resample the series to one spacing, or take the part that has one"
    ]


def _listed(counts: NDArray[np.int64]) -> str:
    return ", ".join(str(count) for count in sorted(counts.tolist(), reverse=True)[:6])
