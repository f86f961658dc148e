# SPDX-License-Identifier: Apache-2.0
"""Goals: numbers that are to be reached, with their bounds, as tests, records and pages have them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

Cell = str | int | float


def order(nodes_across: Iterable[float], errors: Iterable[float]) -> float:
    """Order of convergence: the slope of log(error) against log(spacing), by linear regression."""
    size, error = np.array([*nodes_across], float), np.array([*errors], float)
    return float(-np.polyfit(np.log(size), np.log(error), 1)[0])


@dataclass(frozen=True)
class Goal:
    """A number that was to be reached: `sign` +1 where it is an upper bound, -1 where a lower one.

    `held` is the bound that the test holds where `wanted` is out of reach, for which `why` gives the reason; `stood`
    tells whether what was held was reached before, too.
    """

    what: str
    reached: float
    wanted: float
    sign: int
    held: float
    why: str = ""
    stood: bool = False

    @property
    def met(self) -> bool:
        """Whether the number was reached."""
        return self.sign * self.reached <= self.sign * self.wanted

    @property
    def stands(self) -> bool:
        """Whether what is held was reached; not by NaN."""
        return self.sign * self.reached <= self.sign * self.held

    @property
    def lost(self) -> bool:
        """Whether what is held was reached before, but not now."""
        return self.stood and not self.stands

    @property
    def fault(self) -> str:
        """What is wrong; empty if nothing is."""
        if not self.stands:
            return f"{self.what}: {self.reached:.4g}, where {bound(self.sign, self.held)} is held"
        if self.why and self.met:
            return f"{self.what}: {self.reached:.4g} reaches {bound(self.sign, self.wanted)}; ask no less of it"
        return ""


def number(value: Cell) -> str:
    """A number as tables show it: four digits, powers of ten where it is very small or large."""
    if isinstance(value, str | int):
        return str(value)
    if value != 0 and not 1e-3 <= abs(value) < 1e4:
        return f"{value:.2e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:.4g}"


def bound(sign: int, value: float) -> str:
    """A bound as tables show it."""
    return f"{'≤' if sign > 0 else '≥'} {number(value)}"
