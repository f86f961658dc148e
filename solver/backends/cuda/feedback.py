# SPDX-License-Identifier: Apache-2.0
"""Openings with feedback on the device: what they are, what is found at them, and the volumes that passed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.cuda.bundle import Bundle
from solver.backends.cuda.device import SUM_THREADS, THREADS, Queue, blocks_of, cuda
from solver.backends.cuda.feedback_pass import make_feedback_pass
from solver.backends.lattice import Lattice
from solver.kernels.sums import LIMBS

TERMS, MOST_PARTS = 4, 32
"""Terms of a sum that a thread adds up, about, and blocks that share an opening at most: a thread waits for the memory
for each term, so that one block alone took a fifth of a step of 1 million nodes for an outlet 64 nodes across."""


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
    """

    def __init__(self, lattice: Lattice, storage: str, queue: Queue) -> None:
        send, self._queue, self._width = cuda.to_device, queue, lattice.width
        self._add_up, into_pressure, self._density, into_flow, self._keep = make_feedback_pass(
            storage, lattice.real, lattice.q
        )
        node, opening = lattice.nodes_of_inlet_feedback
        self._node, self._drho = send(node), send(np.zeros(len(node), lattice.real))
        self._arrays, self._members, self._sums = [], [], []
        for found_at, each in ((lattice.outlets.opening, lattice.outlet_feedback), (opening, lattice.inlet_feedback)):
            count, order = len(each.opening), np.argsort(found_at, kind="stable")
            self._arrays.append([send(array) for array in (each.column, each.rule, each.start, np.zeros(count))])
            ends = [np.searchsorted(found_at[order], each.opening, side) for side in ("left", "right")]
            mine = [order[a:b] for a, b in zip(*ends, strict=True)]
            first = np.append(0, np.cumsum(ends[1] - ends[0]))
            self._members.append([send(np.concatenate(mine or [order[:0]])), send(first)])
            parts = min(MOST_PARTS, max(1, blocks_of(max(map(len, mine), default=0), SUM_THREADS * TERMS)))
            self._sums.append(send(np.zeros((count, parts, LIMBS), np.int64)))
        self._rules = into_pressure, into_flow
        (*_, self.outlet_state, _), (*_, self.admitted, _) = self._arrays
        self.volumes = [arrays[-1] for arrays in self._arrays]
        self._asked = Bundle(queue.stream, *(np.zeros(volume.shape[0]) for volume in self.volumes))

    def add_up(self, populations: Any, runs: Any, stride: int, even: bool, outlet_flux: Any) -> list[Any]:
        """Limbs of what entered through each outlet in the step before, and of drho over the nodes of each inlet; in
        parts, (M, parts, 3) each.

        Parameters
        ----------
        populations, runs, stride : of the driver.
        even : whether the step that has collided is an even one.
        outlet_flux : what entered through each link at outlets.
        """
        if count := self._node.shape[0]:
            density = self._density[blocks_of(count, THREADS), THREADS, self._queue.stream]
            density(populations, runs, stride, even, self._node, self._drho)
        for members, each, sums in zip(self._members, (outlet_flux, self._drho), self._sums, strict=True):
            if sums.shape[0]:
                blocks = sums.shape[0] * sums.shape[1]
                self._add_up[blocks, SUM_THREADS, self._queue.stream](each, *members, sums)
        return self._sums

    def apply(self, sums: list[Any] | NDArray[np.int64], rows: Any, step_counter: Any) -> None:
        """Write what follows from such limbs, or from those of all parts of the domain, (M, 3), into the boundary
        values of the step that the device counts.
        """
        if isinstance(sums, np.ndarray):
            outlets = self._sums[0].shape[0]
            sums = [cuda.to_device(sums[:outlets, None]), cuda.to_device(sums[outlets:, None])]
        for rule, each, arrays in zip(self._rules, sums, self._arrays, strict=True):
            if count := each.shape[0]:
                launch = rule[blocks_of(count, THREADS), THREADS, self._queue.stream]
                launch(each, *arrays, rows, step_counter, self._width)

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
