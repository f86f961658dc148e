# SPDX-License-Identifier: Apache-2.0
"""A passive scalar on a CUDA device, with the same functions of one node as on the CPU."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.cuda.bundle import Bundle
from solver.backends.cuda.device import THREADS, Queue, blocks_of, cuda, require_device
from solver.backends.cuda.transport_pass import make_transport_pass
from solver.backends.scalar_lattice import ScalarLattice
from solver.backends.transport_driver import TransportDriver
from solver.domain.addresses import runs_by_group

MANY = 8
"""Pairs of steps that are launched at once."""


class CudaTransport(TransportDriver):
    """Runs on a CUDA device; see :class:`solver.backends.transport_driver.TransportDriver`."""

    def __init__(
        self,
        lattice: ScalarLattice,
        real: Any,
        diffusivity: float,
        source: float = 0.0,
        wall_amount: NDArray[np.float64] | None = None,
    ) -> None:
        self.device = require_device()
        super().__init__(lattice, real, diffusivity, source, wall_amount)
        send, ports = cuda.to_device, lattice.ports
        self.populations, self.passed = send(np.zeros(lattice.slots, real)), send(np.zeros((2, len(ports.slot))))
        self.at_openings = send(np.zeros((2, len(ports.node)), real))
        self.carried = send(np.zeros(len(ports.slot), real))
        self._runs = tuple(send(array) for array in (lattice.runs.offset, *runs_by_group(lattice.runs)))
        self._ports = tuple(send(array) for array in ports)
        self._slot, self._amount = send(self._wall_slot), send(self._wall_amount)
        self._faces, self._flux = send(np.zeros(6 * lattice.stride, real)), send(np.zeros(len(ports.slot), real))
        self._into = send(np.zeros(lattice.count, real))
        self._queue = Queue()
        self._even, self._odd, self._openings, self._walls, self._read = make_transport_pass(real)
        self._script = Bundle(self._queue.stream, np.array([-1]), np.zeros(0, real))

    def carry_by(self, faces: NDArray[np.floating]) -> None:
        """Take the flow of the next steps."""
        self._put(self._faces, self.lattice.rows(faces, self.real))
        self._put(self._flux, self.lattice.through_openings(faces).astype(self.real))

    def advance(self, inflow: NDArray[np.float64]) -> None:
        """Run an even number of steps, of which the device counts the number."""
        rows = np.ascontiguousarray(inflow, self.real).ravel()
        if self._script.arrays[1].size < rows.size:
            self._script = Bundle(self._queue.stream, np.array([-1]), rows)
            self._queue.forget("")
        else:
            self._script.replace(np.array([-1]), rows)
        many, rest = divmod(len(inflow) // 2, MANY)
        for name, count, times in (("pairs", MANY, many), ("pair", 1, rest)):
            for _ in range(times):
                self._queue.replay(name, self._pairs(count))

    def _pairs(self, count: int) -> Callable[[], None]:
        def work() -> None:
            for number in range(2 * count):
                self._step(number % 2 == 0)

        return work

    def _step(self, even: bool) -> None:
        lattice, (step_counter, inflow) = self.lattice, self._script.arrays
        these = self.populations, lattice.stride, step_counter
        if even:
            self._over(lattice.stride, self._even, *these, self._faces, self.numbers)
        else:
            self._over(lattice.stride, self._odd, *these, self._runs, self._faces, self.numbers)
        links = *self._ports, self._flux, step_counter, inflow, lattice.openings, self.numbers[0]
        held = self.at_openings, self.carried, self.passed
        self._over(len(lattice.ports.node), self._openings, self.populations, lattice.stride, even, *links, *held)
        self._over(len(self._wall_slot), self._walls, self.populations, self._slot, self._amount)

    def _over(self, count: int, kernel: Any, *arguments: Any) -> None:
        if count:
            kernel[blocks_of(count, THREADS), THREADS, self._queue.stream](*arguments)

    def concentration(self) -> NDArray[np.floating]:
        """That of all nodes."""
        self._over(
            self.lattice.count, self._read, self.populations, self.lattice.stride, self.lattice.count, self._into
        )
        return self._here(self._into)

    def _put(self, array: Any, values: NDArray[Any]) -> None:
        if array.size:
            array.copy_to_device(np.ascontiguousarray(values))

    def _here(self, array: Any) -> NDArray[Any]:
        copy: NDArray[Any] = array.copy_to_host() if array.size else np.empty(array.shape, array.dtype)
        return copy
