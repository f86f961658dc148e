# SPDX-License-Identifier: Apache-2.0
"""Openings with feedback on the device: what they are, what is found at them, and the volumes that passed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.cuda.bundle import Bundle
from solver.backends.cuda.device import SUM_THREADS, THREADS, Queue, blocks_of, cuda
from solver.backends.cuda.feedback_pass import make_feedback_pass
from solver.backends.lattice import Lattice
from solver.boundary.openings import InletFeedback, OutletFeedback
from solver.kernels.sums import LIMBS, Limbs

TERMS, MOST_PARTS = 4, 32
"""Terms of a sum that a thread adds up, about, and blocks that share an opening at most: a thread waits for the memory
for each term, so that one block alone took a fifth of a step of 1 million nodes for an outlet 64 nodes across."""


@dataclass(frozen=True)
class Kind:
    """Outlets, number 0, or inlets, number 1, with feedback.

    Attributes
    ----------
    rule : kernel that writes what follows.
    members : links of each outlet, or nodes of each inlet, and where those of each begin.
    found, given : limbs of the own sums in parts, and of those of the whole domain.
    """

    number: int
    rule: Any
    members: tuple[Any, Any]
    found: Bundle
    given: Bundle

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self.found.arrays[0].shape[0])


class Feedback:
    """Outlets whose pressure follows from their flow, and inlets whose flow follows from their pressure.

    Parameters
    ----------
    lattice : of the domain or of a part of it.
    storage : of the populations, see :mod:`solver.kernels`.
    queue : the order in which the device works.

    Attributes
    ----------
    outlet_state, admitted : what the rules of both keep from step to step.
    volumes : that passed through each outlet, and each inlet.
    kinds : outlets, and inlets, as far as there are some.
    """

    def __init__(self, lattice: Lattice, storage: str, queue: Queue) -> None:
        send, self._queue, self._width = cuda.to_device, queue, lattice.width
        self._add_up, into_pressure, self._density, into_flow, self._keep = make_feedback_pass(
            storage, lattice.real, lattice.q
        )
        node, opening = lattice.nodes_of_inlet_feedback
        self._node, self._drho = send(node), send(np.zeros(len(node), lattice.real))
        self._arrays, self.kinds = [], list[Kind]()
        both: tuple[tuple[NDArray[Any], OutletFeedback | InletFeedback, Any], ...] = (
            (lattice.outlets.opening, lattice.outlet_feedback, into_pressure),
            (opening, lattice.inlet_feedback, into_flow),
        )
        for number, (found_at, each, rule) in enumerate(both):
            count, order = len(each.opening), np.argsort(found_at, kind="stable")
            self._arrays.append([send(array) for array in (each.column, each.rule, each.start, np.zeros(count))])
            if not count:
                continue
            ends = [np.searchsorted(found_at[order], each.opening, side) for side in ("left", "right")]
            mine = [order[a:b] for a, b in zip(*ends, strict=True)]
            members = send(np.concatenate(mine)), send(np.append(0, np.cumsum(ends[1] - ends[0])))
            parts = min(MOST_PARTS, max(1, blocks_of(max(map(len, mine)), SUM_THREADS * TERMS)))
            found, given = (Bundle(queue.stream, np.zeros((count, k, LIMBS), np.int64)) for k in (parts, 1))
            self.kinds.append(Kind(number, rule, members, found, given))
        (*_, self.outlet_state, _), (*_, self.admitted, _) = self._arrays
        self.volumes = [arrays[-1] for arrays in self._arrays]
        self._asked = Bundle(queue.stream, *(np.zeros(volume.shape[0]) for volume in self.volumes))

    def add_up(self, populations: Any, runs: Any, stride: int, even: bool, outlet_flux: Any) -> None:
        """Add up what entered through each outlet in the step before, and drho over the nodes of each inlet.

        Parameters
        ----------
        populations, runs, stride : of the driver.
        even : whether the step that has collided is an even one.
        outlet_flux : what entered through each link at outlets.
        """
        if count := self._node.shape[0]:
            density = self._density[blocks_of(count, THREADS), THREADS, self._queue.stream]
            density(populations, runs, stride, even, self._node, self._drho)
        for kind in self.kinds:
            sums = kind.found.arrays[0]
            launch = self._add_up[sums.shape[0] * sums.shape[1], SUM_THREADS, self._queue.stream]
            launch((outlet_flux, self._drho)[kind.number], *kind.members, sums)

    def fetch(self) -> Callable[[], Limbs]:
        """Begin to bring limbs of what was added up here; what waits for them, (M, 3)."""
        for kind in self.kinds:
            kind.found.fetch()
        return lambda: np.concatenate([kind.found.here()[0].sum(axis=1) for kind in self.kinds])

    def take(self, sums: Limbs) -> None:
        """Take such limbs of all parts of the domain in."""
        first = 0
        for kind in self.kinds:
            count = kind.given.arrays[0].shape[0]
            kind.given.replace(sums[first : first + count])
            first += count

    def apply(self, rows: Any, step_counter: Any, of_all: bool = False) -> None:
        """Write what follows from what was added up here, or was taken in `of_all` parts, into the boundary values of
        the step that the device counts.

        Parameters
        ----------
        rows : boundary values of the steps, on the device.
        step_counter : of the device, which tells the row.
        of_all : whether the sums are those of all parts, which were taken in; else those found here.
        """
        for kind in self.kinds:
            sums, arrays = (kind.given if of_all else kind.found).arrays[0], self._arrays[kind.number]
            launch = kind.rule[blocks_of(sums.shape[0], THREADS), THREADS, self._queue.stream]
            launch(sums, *arrays, rows, step_counter, self._width)

    def ask_volume(self) -> None:
        """Begin to read the volumes."""
        if any(volume.size for volume in self.volumes):
            self._queue.replay("keep volumes", self._keep_volumes)
        self._asked.fetch()

    def _keep_volumes(self) -> None:
        """Keep the volumes as they are now, in one launch, whatever following steps add."""
        count = sum(volume.shape[0] for volume in self.volumes)
        keep = self._keep[blocks_of(count, THREADS), THREADS, self._queue.stream]
        keep(*self.volumes, *self._asked.arrays)

    def volume(self) -> NDArray[np.float64]:
        """What was read last."""
        return np.concatenate(self._asked.here())
