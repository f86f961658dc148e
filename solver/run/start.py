# SPDX-License-Identifier: Apache-2.0
"""What a run began with."""

from dataclasses import astuple, dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

KINDS = ("rest", "coarse", "given")


@dataclass(frozen=True)
class Start:
    """What a run began with, and what it took to make it.

    Attributes
    ----------
    kind : ``rest``, ``coarse``: the flow on a lattice of twice the spacing, or ``given``: a flow much like its own.
    corrections : that this lattice gave on the way.
    steps, node_updates : of the coarser lattices, for the start and the corrections.
    seconds : that the start took.
    unsteady : whether the flow there was seen to fluctuate, so that this one will.
    """

    kind: str = "rest"
    corrections: int = 0
    steps: int = 0
    node_updates: int = 0
    seconds: float = 0.0
    unsteady: bool = False

    def corrected(self, steps: int, nodes: int) -> "Start":
        """The same after one more correction, of so many steps of a lattice of so many nodes."""
        updates = self.node_updates + steps * nodes
        return replace(self, corrections=self.corrections + 1, steps=self.steps + steps, node_updates=updates)

    def array(self) -> NDArray[np.float64]:
        """As numbers, for a checkpoint."""
        return np.array([KINDS.index(self.kind), *astuple(self)[1:]], np.float64)

    @classmethod
    def of_array(cls, numbers: NDArray[np.generic]) -> Self:
        """From these numbers."""
        kind, corrections, steps, updates, seconds, unsteady = numbers.tolist()
        return cls(KINDS[int(kind)], int(corrections), int(steps), int(updates), seconds, bool(unsteady))
