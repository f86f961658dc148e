# SPDX-License-Identifier: Apache-2.0
"""Deviations: what keeps slices from being a regular grid, and whether resampling them would be a guess.

Each function looks for one deviation, adds what it checked to `checks`, and returns what it found. Slices are sorted
along their normal: `places_mm` (N, 3) are the places of their first pixels along their rows, their columns and their
normal, from that of the first slice; `along_mm` (N,) are those along the normal alone.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.images import LoadSettings
from pipeline.files.regular_grid import MIN_SLICES, SPACING_RANGE_MM, Check

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

TREATMENTS = {
    "irregular_spacing": "interpolates them to one spacing",
    "missing_slices": "interpolates over the gap",
    "gantry_tilt": "shears them back",
    "anisotropic_pixels": "brings both to the finer distance",
}
"""What the policies do, for messages."""


@dataclass(frozen=True)
class Finding:
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

    @property
    def final(self) -> bool:
        """Whether no setting makes it right."""
        return bool(self.doubt) or not self.policy

    def refusal(self, settings: LoadSettings | None) -> str:
        """Why the slices are refused; empty where they are to be resampled, which nothing is without settings."""
        if self.final or settings is None:
            return f"{self.fault}{self.doubt}; {self.remedy}"
        if getattr(settings, self.policy) == "refuse":
            return f"{self.fault}; load.{self.policy}: resample {TREATMENTS[self.policy]}, or {self.remedy}"
        return ""


def too_few(along_mm: NDArray[np.float64], checks: list[Check]) -> list[Finding]:
    """Fewer slices than can be compared."""
    count = len(along_mm)
    checks.append(Check("number of slices", count, MIN_SLICES, "slices"))
    if count >= MIN_SLICES:
        return []
    fault = (
        f"only {count} slice{'s' if count > 1 else ''}; at least {MIN_SLICES} are needed, because with fewer no two"
        " steps between slices can be compared"
    )
    return [Finding("", fault, "give the whole series")]


def tilt(places_mm: NDArray[np.float64], pixel_mm: float, checks: list[Check]) -> list[Finding]:
    """Shift of the slices within their own plane, in proportion to the way along the normal: a tilted gantry.

    Parameters
    ----------
    places_mm : (N, 3), of each slice's first pixel from that of the first slice, along rows, columns and the normal.
    pixel_mm : the smaller distance of pixels.
    checks : gets what was checked.

    Returns
    -------
    No finding, or one.
    """
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
    return [Finding("gantry_tilt", fault, "take an untilted series", numbers, doubt)]


def uneven(along_mm: NDArray[np.float64], checks: list[Check]) -> list[Finding]:
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
        return [Finding("", fault, "keep one slice at each position")]
    if len(steps) < 2:
        return []
    if steps.max() > SPACING_RANGE_MM[1]:
        fault = f"two neighbouring slices are {steps.max():.4g} mm apart (limit {SPACING_RANGE_MM[1]:g} mm)"
        return [Finding("", fault, "give the slices of one volume alone")]
    index = np.concatenate([[0], np.rint(steps / steps.min()).cumsum()])  # not the median: it may hide gaps
    spacing = float(along_mm[-1] / index[-1])
    worst = float(np.abs(along_mm - index * spacing).max())
    limit = max(POSITION_TOLERANCE * spacing, POSITION_FLOOR_MM)
    if worst <= limit:
        checks.append(Check("uniform spacing: largest deviation from an even position", worst, limit, "mm"))
        return _gaps(np.diff(index).astype(int), steps, spacing)
    return [_irregular(along_mm, steps)]


def _gaps(multiples: NDArray[np.int64], steps: NDArray[np.float64], spacing: float) -> list[Finding]:
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
    return [Finding("missing_slices", fault, "add the missing slices or take a complete series", numbers, doubt)]


def _irregular(along_mm: NDArray[np.float64], steps: NDArray[np.float64]) -> Finding:
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
    return Finding("irregular_spacing", fault, "take the part that has one spacing", numbers, doubt)


def anisotropy(rows_mm: float, columns_mm: float) -> list[Finding]:
    """Rows and columns at different distances; the geometry of a volume tells it exactly."""
    low, high = sorted((rows_mm, columns_mm))
    if high / low - 1 <= SAME_SPACING_TOLERANCE:
        return []
    fault = f"rows are {rows_mm:.4g} mm apart and columns {columns_mm:.4g} mm"
    numbers = {"rows_mm": rows_mm, "columns_mm": columns_mm}
    return [Finding("anisotropic_pixels", fault, "load.anisotropic_pixels: keep takes them as they are", numbers)]
