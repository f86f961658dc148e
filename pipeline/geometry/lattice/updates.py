# SPDX-License-Identifier: Apache-2.0
"""The finest spacing whose run is expected to take no more node updates than are wanted.

Updates are counted, not hours: they follow from the case alone, so that every machine chooses the same lattice.
"""

from dataclasses import dataclass
from math import ceil, floor, log10

from pipeline.geometry.lattice.spacing import Spacing
from solver.runtime.errors import StageError


@dataclass(frozen=True)
class Updates:
    """Node updates that the run of a vessel takes, proportional to 1/dx^4 at the same lattice speed.

    Attributes
    ----------
    spacing_mm : of a lattice on which the run was planned.
    count : updates of fluid nodes that it is expected to take there.
    """

    spacing_mm: float
    count: float

    def at(self, spacing_mm: float) -> float:
        """Expected with a spacing."""
        return self.count * (self.spacing_mm / spacing_mm) ** 4

    def finest_mm(self, most: float) -> float:
        """The finest spacing that takes no more."""
        return float(self.spacing_mm * (self.count / most) ** 0.25)

    def within(self, most: float, chosen: Spacing, coarsest: Spacing) -> Spacing:
        """A spacing, or one that is as much coarser as it must be.

        Parameters
        ----------
        most : updates that are wanted at most.
        chosen : by vessel and flow.
        coarsest : that is fit for use.

        Raises
        ------
        StageError
            If that takes more.
        """
        fitting_mm = self.finest_mm(most)
        if fitting_mm <= chosen.spacing_mm:
            return chosen
        if fitting_mm > max(coarsest.spacing_mm, chosen.spacing_mm):
            least = max(coarsest, chosen, key=lambda each: each.spacing_mm)
            need = _rounded_up(self.at(least.spacing_mm))
            raise StageError(
                f"voxelize.most_updates: {most:.3g} node updates allow a spacing of {fitting_mm:.3g} mm, and the"
                f" coarsest that is fit for use is {least.spacing_mm:.4g} mm ({least.reason}). Set"
                f" voxelize.most_updates: {need:.2g}, which that takes; or set voxelize.spacing_mm:"
                f" {_rounded_up(fitting_mm):.2g}, whose figures the report marks"
            )
        return Spacing(
            fitting_mm,
            f"{chosen.spacing_mm:.4g} mm ({chosen.reason}) would take about {self.at(chosen.spacing_mm):.2g} node"
            f" updates, voxelize.most_updates is {most:.2g}",
        )


def _rounded_up(value: float) -> float:
    """To two digits, and never less."""
    digit = 10.0 ** (floor(log10(value)) - 1)
    return ceil(value / digit) * digit
