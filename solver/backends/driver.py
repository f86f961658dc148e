# SPDX-License-Identifier: Apache-2.0
"""What the time loop asks of who drives a lattice."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from solver.backends.fields import Fields, Statistics
from solver.backends.observation import Observation
from solver.backends.share import Share
from solver.domain.division import Division


class Driver(Protocol):
    """What the time loop asks of a backend. Steps come in pairs; all reading is between pairs.

    Attributes
    ----------
    device : what it runs on.
    layout : how the work is shared out there, for the log.
    division : how the lattice is divided; none where it is not.
    on_host : whether fields lie in the memory of the processor, where they are at hand.
    share : nodes whose fields, means and statistics it gives: all, but of a rank.
    """

    device: str
    layout: str
    division: Division | None
    on_host: bool
    share: Share

    def memory_bytes(self) -> int:
        """Memory that the run takes where it runs, up to now."""

    def advance(self, boundary_values: NDArray[np.float64]) -> None:
        """Run an even number of steps under `boundary_values`, (steps, width): see
        :meth:`solver.backends.lattice.Lattice.script`.
        """

    def observe(self, keep: bool) -> None:
        """Begin to observe the flow; `keep`: changes are counted from this state on."""

    def observation(self) -> Observation:
        """The last observation. A device may have been asked for the next steps meanwhile: they wait for it."""

    def ask_volume(self) -> None:
        """Begin to read the volume that passed through openings with feedback."""

    def volume(self) -> NDArray[np.float64]:
        """What was read last, (M,), since the beginning, lattice units: the filtered flow out of each outlet, less that
        which belongs to its pressure, and then what came into each inlet. As with an observation, a device may go on
        meanwhile.
        """

    def fields(self) -> Fields:
        """Fields of the nodes of this process."""

    def transient_fields(self) -> Fields:
        """The same, in memory that the next ones may take which are asked for so."""

    def average(self, number: int, restart: bool) -> None:
        """Take the present state into the running mean of that number, or begin it with it; `MEAN` has statistics."""

    def mean(self, number: int) -> Fields:
        """Mean of the fields that were taken into it."""

    def statistics(self) -> Statistics:
        """Statistics of the states that were taken into the mean over time."""

    def at_bounds(self) -> NDArray[np.int64]:
        """Number of nodes whose tau is at its lower and its upper bound, (2,); 0 where the viscosity does not vary."""

    def begin_with(self, fields: Fields, pressures: NDArray[np.float64]) -> None:
        """Begin with a flow instead of fluid at rest; where the viscosity varies it follows from the flow.

        Parameters
        ----------
        fields : of the nodes that `fields` tells of, whose viscosity is not used.
        pressures : (M, 2) filtered excess of the flow and stored pressure of each outlet with feedback, see
            `OutletFeedback`.
        """

    def shift(self, before: Fields, after: Fields, pressures: NDArray[np.float64] | None = None) -> None:
        """Change the flow by what two sets of fields differ in; what fields do not tell of it stays as it is.

        Parameters
        ----------
        before, after : the present fields, and others.
        pressures : what :meth:`pressures` is to give; none: what it gives stays.
        """

    def pressures(self) -> NDArray[np.float64]:
        """Filtered excess of the flow and stored pressure of each outlet with feedback, (M, 2)."""

    def state(self) -> dict[str, Any]:
        """All that the next steps, observations and means depend on, between pairs of steps: copies, by name."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of a driver of the same lattice."""

    def agreed(self, *numbers: int) -> tuple[int, ...]:
        """The largest of each number over all processes that run the lattice together."""
