# SPDX-License-Identifier: Apache-2.0
"""What holds at the openings while the lattice runs: values that are known beforehand, or what a network around the
vessel answers (:mod:`solver.coupling`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from solver.backends.driver import Driver
from solver.run.boundary_schedule import BoundarySchedule

Reals = NDArray[np.float64]
Arrays = Mapping[str, NDArray[np.generic]]


class Exchange(Protocol):
    """Runs the lattice with what holds at its openings."""

    def advance(self, driver: Driver, first: int, last: int) -> None:
        """Run the steps after `first` up to `last`, both even.

        Parameters
        ----------
        driver : of the lattice.
        first, last : steps, the last among those that are run.
        """

    def state(self, driver: Driver) -> dict[str, NDArray[np.generic]]:
        """All that the next steps depend on beside the lattice, by name."""

    def restore(self, arrays: Arrays) -> None:
        """Go on from a state."""

    def differences(self, back: int = 0) -> dict[str, float]:
        """How far the last whole cycle of what lies around, or one so many cycles back, differs from the one before, by
        what differs, relative.
        """

    def summary(self, driver: Driver, time_s: Reals, flow_ml_s: Reals, pressure_pa: Reals) -> dict[str, Any] | None:
        """What the summary says of the last cycles.

        Parameters
        ----------
        driver : of the lattice.
        time_s : (cycles, T) when the openings were monitored in them.
        flow_ml_s, pressure_pa : (cycles, T, openings), of the lattice; see :class:`solver.run.monitor.Row`.
        """


@dataclass(frozen=True)
class Given:
    """Values that are known beforehand.

    Attributes
    ----------
    boundary_schedule : that they follow from.
    """

    boundary_schedule: BoundarySchedule

    def advance(self, driver: Driver, first: int, last: int) -> None:
        """See :class:`Exchange`."""
        driver.advance(self.boundary_schedule.at(first, last))

    def state(self, driver: Driver) -> dict[str, NDArray[np.generic]]:
        """Nothing."""
        return {}

    def restore(self, arrays: Arrays) -> None:
        """Nothing."""

    def differences(self, back: int = 0) -> dict[str, float]:
        """Nothing."""
        return {}

    def summary(self, driver: Driver, time_s: Reals, flow_ml_s: Reals, pressure_pa: Reals) -> None:
        """Nothing; see :meth:`Exchange.summary`."""


class Surroundings(Protocol):
    """A network around a vessel, before the run.

    Attributes
    ----------
    impedance_mmhg_s_ml : of the network at the openings that are coupled to it, by name.
    samples : of which a cycle of the lattice has a multiple.
    """

    @property
    def impedance_mmhg_s_ml(self) -> Mapping[str, float]:
        """R of each coupled opening."""

    @property
    def samples(self) -> int:
        """Of a cycle of the network."""

    def couple(self, boundary_schedule: BoundarySchedule, cycle: int) -> Exchange:
        """Both, at the beginning of a run with so many steps a cycle."""
