"""Stack: the places of single slices, and the one regular grid that they form, can be resampled to, or do not form."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case import LoadSettings
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
MAX_STEP_RATIO = 3
"""Largest step between slices that is interpolated over, in multiples of the smallest: two missing slices in a row.
Beyond it a vessel that runs aslant has moved by more than a few slices, and what lies between is a guess."""
MAX_TILT_DEG = 45.0
"""Gantries tilt by 30 degrees at most; what is sheared by more is no gantry tilt."""
SPACING_RANGE_MM = (0.001, 100.0)
"""Distances of pixels and of slices outside of it are no lengths in mm."""
MAX_POSITION_MM = 1e5


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


@dataclass(frozen=True)
class _Finding:
    """What keeps slices from being a regular grid.

    Attributes
    ----------
    policy : key of `LoadSettings` that decides on it; empty where nothing makes it right.
    fault : what is wrong, for a refusal.
    remedy : what else than resampling the user can do.
    numbers : for the record.
    doubt : why resampling it would be a guess; empty where it would not.
    """

    policy: str
    fault: str
    remedy: str
    numbers: dict[str, Any] = field(default_factory=dict)
    doubt: str = ""

    def refusal(self, settings: LoadSettings) -> str:
        """Why the slices are refused; empty where they are to be resampled."""
        if self.doubt or not self.policy:
            return f"{self.fault}{self.doubt}; {self.remedy}"
        if getattr(settings, self.policy) == "refuse":
            return f"{self.fault}; load.{self.policy}: resample {_DOES[self.policy]}, or {self.remedy}"
        return ""


_DOES = {
    "irregular_spacing": "interpolates them to one spacing",
    "missing_slices": "interpolates over the gap",
    "gantry_tilt": "shears them back",
    "anisotropic_pixels": "brings both to the finer distance",
}
"""What the policies do, for messages."""


def stack(
    positions_mm: NDArray[np.float64],
    orientations: NDArray[np.float64],
    pixel_spacings_mm: NDArray[np.float64],
    where: str,
    settings: LoadSettings,
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
    settings : what becomes of slices that form no regular grid.

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
        *_too_few(places[:, 2], checks),
        *_tilt(places, min(rows_mm, columns_mm), checks),
        *_uneven(places[:, 2], checks),
        *_anisotropy(rows_mm, columns_mm),
    ]
    faults = [refusal for finding in findings if (refusal := finding.refusal(settings))]
    if faults:
        raise StageError(f"{where}: " + "; ".join(faults))
    resampled = {
        finding.policy: finding.numbers for finding in findings if getattr(settings, finding.policy) == "resample"
    }
    origin, spacing, measured = _target(places, (columns_mm, rows_mm), resampled)
    x, y, z = positions_mm[order[0]] + direction @ origin
    return Grid(
        order,
        spacing,
        (float(x), float(y), float(z)),
        direction,
        checks,
        _record(findings, settings),
        measured if resampled else None,
    )


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


def _record(findings: list[_Finding], settings: LoadSettings) -> dict[str, dict[str, Any]]:
    found = {finding.policy: finding.numbers for finding in findings}
    return {
        key: {"policy": getattr(settings, key), "needed": key in found} | found.get(key, {}) for key in sorted(_DOES)
    }


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


def _too_few(along_mm: NDArray[np.float64], checks: list[Check]) -> list[_Finding]:
    count = len(along_mm)
    checks.append(Check("number of slices", count, MIN_SLICES, "slices"))
    if count >= MIN_SLICES:
        return []
    fault = (
        f"only {count} slice{'s' if count > 1 else ''}; at least {MIN_SLICES} are needed, because with fewer no two"
        " steps between slices can be compared"
    )
    return [_Finding("", fault, "give the whole series")]


def _tilt(places_mm: NDArray[np.float64], pixel_mm: float, checks: list[Check]) -> list[_Finding]:
    """Shift of the slices within their own plane, in proportion to the way along the normal: a tilted gantry."""
    shifts, along = places_mm[:, :2], places_mm[:, 2]
    in_plane = np.linalg.norm(shifts, axis=1)
    worst, limit = float(in_plane.max()), SHEAR_TOLERANCE * pixel_mm
    if worst <= limit:
        checks.append(Check("no tilt: largest shift of a slice within its plane", worst, limit, "mm"))
        return []
    far = int(in_plane.argmax())
    tilt_deg = float(np.degrees(np.arctan2(in_plane[far], along[far])))
    line = np.column_stack([along, np.ones_like(along)])
    slopes, *_ = np.linalg.lstsq(line, shifts, rcond=None)
    bent = float(np.linalg.norm(shifts - line @ slopes, axis=1).max())
    fault = (
        f"the slices are shifted within their plane by up to {worst:.3g} mm (limit {limit:.2g} mm), as by a gantry"
        f" tilted by {tilt_deg:.1f} degrees"
    )
    doubt = ""
    if bent > limit:
        doubt = f", but not along a straight line (up to {bent:.3g} mm off it), as a gantry would shift them"
    elif tilt_deg > MAX_TILT_DEG:
        doubt = f", which no gantry is (limit {MAX_TILT_DEG:g} degrees)"
    checks.append(Check("tilt is a plain shear: largest shift off a straight line", bent, limit, "mm"))
    numbers = {
        "tilt_deg": tilt_deg,
        "tilt_along_rows_deg": float(np.degrees(np.arctan(slopes[0, 0]))),
        "tilt_along_columns_deg": float(np.degrees(np.arctan(slopes[0, 1]))),
        "largest_shift_mm": worst,
    }
    return [_Finding("gantry_tilt", fault, "take an untilted series", numbers, doubt)]


def _uneven(along_mm: NDArray[np.float64], checks: list[Check]) -> list[_Finding]:
    """Positions along the normal (sorted, from 0) that are not evenly spaced, with the reason as far as one can tell.

    Steps that are whole multiples of one spacing are gaps in an even stack; all others are uneven. The spacing is that
    of the whole stack, not its smallest step, whose rounding a gap would multiply.
    """
    steps = np.diff(along_mm)
    places = 1 + int((steps >= POSITION_FLOOR_MM).sum())
    if places < len(along_mm):
        each = len(along_mm) / places
        several = f" ({each:g} at each: several phases or echoes?)" if each.is_integer() else ""
        fault = (
            f"{len(along_mm)} slices lie at {places} place{'s' if places > 1 else ''} along the normal{several}, less"
            f" than {POSITION_FLOOR_MM:g} mm apart"
        )
        return [_Finding("", fault, "keep one slice at each position")]
    if len(steps) < 2:
        return []
    if steps.max() > SPACING_RANGE_MM[1]:
        fault = f"two neighbouring slices are {steps.max():.4g} mm apart (limit {SPACING_RANGE_MM[1]:g} mm)"
        return [_Finding("", fault, "give the slices of one volume alone")]
    index = np.concatenate([[0], np.rint(steps / steps.min()).cumsum()])  # not the median: it may hide gaps
    spacing = float(along_mm[-1] / index[-1])
    worst = float(np.abs(along_mm - index * spacing).max())
    limit = max(POSITION_TOLERANCE * spacing, POSITION_FLOOR_MM)
    if worst <= limit:
        checks.append(Check("uniform spacing: largest deviation from an even position", worst, limit, "mm"))
        return _gaps(np.diff(index).astype(int), steps, spacing)
    return [_irregular(along_mm, steps)]


def _gaps(multiples: NDArray[np.int64], steps: NDArray[np.float64], spacing: float) -> list[_Finding]:
    """Steps that are whole multiples of the spacing."""
    gaps = np.flatnonzero(multiples > 1)
    if not len(gaps):
        return []
    missing = int((multiples - 1).sum())
    first = int(gaps[0])
    fault = (
        f"{missing} slice{'s are' if missing > 1 else ' is'} missing: the step from slice {first + 1} to slice"
        f" {first + 2} (of {len(steps) + 1}, sorted along the normal) is {steps[first]:.4g} mm where the spacing is"
        f" {spacing:.4g} mm"
    )
    longest = int(multiples.max()) - 1
    doubt = ""
    if longest >= MAX_STEP_RATIO:
        doubt = (
            f", and {longest} missing in a row are too many to be interpolated over (limit {MAX_STEP_RATIO - 1}): a"
            " vessel could be lost"
        )
    numbers = {
        "missing": missing,
        "gaps": [{"after_slice": int(gap) + 1, "missing": int(multiples[gap]) - 1} for gap in gaps],
        "worst_gap_mm": float(steps.max()),
        "spacing_mm": spacing,
        "slices_measured": len(steps) + 1,
        "slices": len(steps) + 1 + missing,
    }
    return [_Finding("missing_slices", fault, "add the missing slices or take a complete series", numbers, doubt)]


def _irregular(along_mm: NDArray[np.float64], steps: NDArray[np.float64]) -> _Finding:
    """Steps that are no multiples of one spacing."""
    even = np.linspace(0, along_mm[-1], len(along_mm))
    worst = float(np.abs(along_mm - even).max())
    finest, coarsest = float(steps.min()), float(steps.max())
    fault = (
        f"slice positions step {finest:.4g} to {coarsest:.4g} mm, up to {worst:.3g} mm off an even spacing (limit"
        f" {max(POSITION_TOLERANCE * finest, POSITION_FLOOR_MM):.3g} mm)"
    )
    doubt = ""
    if coarsest > MAX_STEP_RATIO * finest:
        doubt = (
            f", and steps that differ by more than a factor of {MAX_STEP_RATIO} are not resampled: over the largest a"
            " vessel could be lost"
        )
    slices = int(np.ceil(along_mm[-1] / finest - POSITION_TOLERANCE)) + 1
    numbers = {
        "smallest_step_mm": finest,
        "largest_step_mm": coarsest,
        "largest_deviation_mm": worst,
        "spacing_mm": float(along_mm[-1]) / (slices - 1),
        "slices_measured": len(along_mm),
        "slices": slices,
    }
    return _Finding("irregular_spacing", fault, "take the part that has one spacing", numbers, doubt)


def _anisotropy(rows_mm: float, columns_mm: float) -> list[_Finding]:
    """Rows and columns at different distances; the geometry of a volume tells it exactly."""
    low, high = sorted((rows_mm, columns_mm))
    if high / low - 1 <= SAME_SPACING_TOLERANCE:
        return []
    fault = f"rows are {rows_mm:.4g} mm apart and columns {columns_mm:.4g} mm"
    doubt = ""
    numbers = {"rows_mm": rows_mm, "columns_mm": columns_mm}
    return [
        _Finding("anisotropic_pixels", fault, "load.anisotropic_pixels: keep takes them as they are", numbers, doubt)
    ]


def _listed(counts: NDArray[np.int64]) -> str:
    return ", ".join(str(count) for count in sorted(counts.tolist(), reverse=True)[:6])
