# SPDX-License-Identifier: Apache-2.0
"""How far a number may go before figures that rest on it are used with reservation, or not at all."""

from dataclasses import dataclass

from solver.run.resolution import State, grade


@dataclass(frozen=True)
class Limit:
    """How far a number may go.

    Attributes
    ----------
    good, usable : up to which figures are good, and usable with reservation; from which, where `at_least`.
    source : where both come from.
    """

    good: float
    usable: float
    source: str
    at_least: bool = False

    def state(self, value: float) -> State:
        """What a value is worth; where it counts nodes, to whole ones."""
        return grade(value, self.good, self.usable, self.at_least)
