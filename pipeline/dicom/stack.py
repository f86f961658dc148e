# SPDX-License-Identifier: Apache-2.0
"""Stack: the places of single slices, and the one regular grid that they form, can be resampled to, or do not form."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.images import LoadSettings
from pipeline.dicom.deviations import SAME_SPACING_TOLERANCE, TREATMENTS, Finding, anisotropy, tilt, too_few, uneven
from pipeline.files.regular_grid import (
    ORTHONORMAL_TOLERANCE,
    SPACING_RANGE_MM,
    Check,
    Grid,
    Measured,
    orthonormal_error,
)
from solver.runtime.errors import StageError

SAME_DIRECTION_TOLERANCE = 2e-4
"""Largest difference of a direction cosine within a series: 0.01 degrees, two units of the fourth decimal."""
MAX_POSITION_MM = 1e5


def stack(
    positions_mm: NDArray[np.float64],
    orientations: NDArray[np.float64],
    pixel_spacings_mm: NDArray[np.float64],
    where: str,
    settings: LoadSettings | None,
) -> Grid:
    """Sort slices along their normal and find the regular grid on which they lie, or which they are resampled to.

    Only ImagePositionPatient, ImageOrientationPatient and PixelSpacing count (DICOM PS3.3, C.7.6.2); slice thickness,
    slice location, instance numbers and the order of files do not.

    Parameters
    ----------
    positions_mm : (N, 3), centre of each slice's first pixel, LPS.
    orientations : (N, 6), unit vectors along a row and along a column.
    pixel_spacings_mm : (N, 2), distance between rows, distance between columns.
    where : the series, for messages.
    settings : what becomes of slices that form no regular grid; without any they are refused.

    Returns
    -------
    The grid. Resampled, it keeps the axes of the slices, its z axis is their normal, and it begins and ends with the
    first and the last slice. Missing slices come back at their places; uneven ones are brought to a spacing that is
    not above their finest step.

    Raises
    ------
    StageError
        If the slices do not form a regular grid and the settings do not say that they are to be resampled, or if that
        would be a guess; names everything that is wrong with them.
    """
    checks: list[Check] = []
    direction = _direction(orientations, where, checks)
    rows_mm, columns_mm = _pixel_spacing(pixel_spacings_mm, where, checks)
    _require_plausible(positions_mm, where)
    moved = (positions_mm - positions_mm[0]) @ direction
    order = np.argsort(moved[:, 2], kind="stable")
    places = moved[order] - moved[order[0]]
    findings = [
        *too_few(places[:, 2], checks),
        *tilt(places, min(rows_mm, columns_mm), checks),
        *uneven(places[:, 2], checks),
        *(anisotropy(rows_mm, columns_mm) if settings else []),
    ]
    _require_regular(findings, settings, where)
    resampled = {
        finding.policy: finding.numbers for finding in findings if getattr(settings, finding.policy, "") == "resample"
    }
    origin, spacing, measured = _target(places, (columns_mm, rows_mm), resampled)
    x, y, z = positions_mm[order[0]] + direction @ origin
    return Grid(
        order,
        spacing,
        (float(x), float(y), float(z)),
        direction,
        checks,
        _record(findings, settings) if settings else {},
        measured if resampled else None,
    )


def _require_regular(findings: list[Finding], settings: LoadSettings | None, where: str) -> None:
    """Refuse what no setting asks to be resampled."""
    # what resampling cannot make right is not offered resampling of its other faults, which would end here again
    offered = None if any(finding.final for finding in findings) else settings
    faults = [finding.refusal(offered) for finding in findings if finding.refusal(settings)]
    if faults:
        raise StageError(f"{where}: " + "; ".join(faults))


def _target(
    places: NDArray[np.float64], pixel_mm: tuple[float, float], resampled: dict[str, dict[str, Any]]
) -> tuple[NDArray[np.float64], tuple[float, float, float], Measured]:
    """Origin (from the first slice, in the axes of the grid) and spacing of the grid, and the slices' places in it."""
    along = places[:, 2]
    uneven = resampled.get("irregular_spacing") or resampled.get("missing_slices")
    depth = uneven["slices"] if uneven else len(along)
    spacing = float(along[-1]) / (depth - 1)
    if "irregular_spacing" not in resampled:  # where a place is even but for the rounding of the header, it is even
        along = np.rint(along / spacing) * spacing
    shifts = places[:, :2] if "gantry_tilt" in resampled else np.zeros((len(along), 2))
    low = shifts.min(axis=0)
    x, y = (min(pixel_mm),) * 2 if "anisotropic_pixels" in resampled else pixel_mm
    measured = Measured(pixel_mm, np.column_stack([shifts - low, along]), depth)
    return np.array([*low, 0.0]), (x, y, spacing), measured


def _record(findings: list[Finding], settings: LoadSettings) -> dict[str, dict[str, Any]]:
    found = {finding.policy: finding.numbers for finding in findings}
    return {
        key: {"policy": getattr(settings, key), "needed": key in found} | found.get(key, {})
        for key in sorted(TREATMENTS)
    }


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
    low, high = SPACING_RANGE_MM
    if spacings_mm.min() < low or spacings_mm.max() > high:
        worst = spacings_mm.min() if spacings_mm.min() < low else spacings_mm.max()
        raise StageError(
            f"{where}: pixel spacing {worst:g} mm; it must lie between {low:g} and {high:g} mm, export the series again"
        )
    difference = float(np.abs(spacings_mm / spacings_mm[0] - 1).max())
    if difference > SAME_SPACING_TOLERANCE:
        raise StageError(
            f"{where}: pixel spacing from {spacings_mm.min():g} to {spacings_mm.max():g} mm in one series; leave out"
            " the slices of the other spacing and load again"
        )
    checks.append(Check("one pixel spacing: largest relative difference", difference, SAME_SPACING_TOLERANCE, "1"))
    return float(spacings_mm[0, 0]), float(spacings_mm[0, 1])


def _require_plausible(positions_mm: NDArray[np.float64], where: str) -> None:
    farthest = float(np.abs(positions_mm).max())
    if farthest > MAX_POSITION_MM:
        raise StageError(
            f"{where}: a slice lies {farthest:.3g} mm from the origin of the patient (limit {MAX_POSITION_MM:g} mm);"
            " the geometry of this export is damaged, export the series again"
        )


def _listed(counts: NDArray[np.int64]) -> str:
    return ", ".join(str(count) for count in sorted(counts.tolist(), reverse=True)[:6])
