# SPDX-License-Identifier: Apache-2.0
"""What a run hands over to another one: to the next attempt, and to and from the lattice of twice the spacing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from solver.domain.nodes import Nodes
from solver.run.monitor import Monitor
from solver.run.start import Start


@dataclass(frozen=True)
class Carried:
    """What a run hands over to the one that goes on with other models.

    Attributes
    ----------
    step, seconds : how far it came, and what that took.
    state : of its driver, without means.
    exchange : state of what holds at its openings.
    monitor : its rows, and from where on changes are counted.
    start : what it began with.
    """

    step: int
    seconds: float
    state: Mapping[str, NDArray[Any]]
    exchange: Mapping[str, NDArray[Any]]
    monitor: Monitor
    start: Start


class StaleError(Exception):
    """A checkpoint recorded an attempt, but its state is of no use: the run begins as any other."""


class OutgrownError(Exception):
    """Raised by a run whose flow is faster than its models are for.

    Attributes
    ----------
    carried : what goes on.
    grid_reynolds : that the flow had reached.
    """

    def __init__(self, carried: Carried, grid_reynolds: float) -> None:
        super().__init__()
        self.carried, self.grid_reynolds = carried, grid_reynolds


class CoarseLattice(Protocol):
    """The lattice of twice the spacing, as far as a run needs it: see :mod:`solver.run.coarse_start`."""

    nodes: Nodes

    def correct(self, step: int, residual: float) -> int:
        """Correct the fine flow where that is due; steps that the coarse lattice took."""

    def state(self) -> dict[str, Any]:
        """What the next corrections depend on."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
