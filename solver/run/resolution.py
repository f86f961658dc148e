# SPDX-License-Identifier: Apache-2.0
"""What figures are worth at a spacing, as far as it decides that: by nodes across the narrowest place and the error of
pressure drops. The report judges by the same limits, among others.
"""

from dataclasses import dataclass
from typing import Literal

State = Literal["good", "reservation", "unusable"]
STATES: tuple[State, ...] = ("good", "reservation", "unusable")
"""From the best to the worst."""

WALL_ACROSS = (20.0, 10.0)
"""Nodes across from which wall shear stress is good, and usable (docs/validation/ladder.md, wall shear stress of the
solver: 95 % of the wall within 2.1 % at 21 nodes across, 4.1 % at 10, 5.6 % at 8)."""
STREAM_ACROSS = (10.0, 6.0)
"""The same of figures that need no gradient at the wall (docs/validation/ladder.md, periodic pipes: the velocity is off
by 0.6 to 1.1 % (L2) at 10 nodes across)."""
DROP_ERRORS = (0.05, 0.3)
"""By how much pressure drops may be too large where they are good, and usable (docs/validation/stability.md, stability
of the defaults; own choice)."""

STABLE_GRID_REYNOLDS = 300
"""The largest in docs/validation/stability.md. None of those flows diverged."""


def grade(value: float, good: float, usable: float, at_least: bool = False) -> State:
    """What a value is worth by two limits, up to which figures are good, and usable with reservation.

    Parameters
    ----------
    value : of a check.
    good, usable : the limits.
    at_least : whether the value counts nodes, to whole ones, of which so many are wanted at least.
    """
    if at_least:
        value, good, usable = -round(value), -good, -usable
    else:
        value = abs(value)
    return "good" if value <= good else "reservation" if value <= usable else "unusable"


@dataclass(frozen=True)
class Resolution:
    """Of a flow by a lattice.

    Attributes
    ----------
    across : nodes across the narrowest place.
    drop_error : by how much pressure drops may be too large at most; none where that is little.
    """

    across: float
    drop_error: float | None

    @property
    def states(self) -> dict[str, State]:
        """What each kind of figures is worth, by words for it."""
        stream = grade(self.across, *STREAM_ACROSS, at_least=True)
        drops = grade(self.drop_error or 0.0, *DROP_ERRORS)
        return {
            "wall shear stress": grade(self.across, *WALL_ACROSS, at_least=True),
            "pressures": max(stream, drops, key=STATES.index),
            "speeds": stream,
        }

    @property
    def words(self) -> str:
        """For the log."""
        found = [f"{self.across:.3g} nodes across the narrowest place"]
        if self.drop_error:
            found.append(f"pressure drops up to {100 * self.drop_error:.2g} % too large")
        for state, said in (("reservation", "with reservation"), ("unusable", "not usable")):
            if names := [name for name, each in self.states.items() if each == state]:
                found.append(f"{said} {' and '.join(names)}")
        return ", ".join(found)
