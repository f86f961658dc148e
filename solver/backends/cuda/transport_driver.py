# SPDX-License-Identifier: Apache-2.0
"""A passive scalar on a CUDA device, with the same functions of one node as on the CPU."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.cuda.bundle import Bundle
from solver.backends.cuda.device import Queue, cuda, require_device
from solver.backends.cuda.device_arrays import here, launch_over, store
from solver.backends.cuda.transport_pass import make_port_pass, make_transport_pass
from solver.backends.scalar_driver import TransportDriver
from solver.backends.scalar_lattice import ScalarLattice
from solver.domain.addresses import bit_words, runs_by_group

MANY = 8
"""Pairs of steps that are launched at once."""
NONE_YET = np.array([-1, -1])
"""Number of the last even and the last odd step, by themselves."""


class CudaTransport(TransportDriver):
    """Runs on a CUDA device; see :class:`solver.backends.scalar_driver.TransportDriver`."""

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
        marks = np.zeros(lattice.stride, np.bool_)
        marks[ports.node] = True
        self._ports, self._marks = tuple(send(array) for array in ports), send(bit_words(marks))
        self._slot, self._amount = send(self._wall_slot), send(self._wall_amount)
        self._faces, self._flux = send(np.zeros(3 * lattice.stride, real)), send(np.zeros(len(ports.slot), real))
        self._port_faces = send(np.zeros(6 * len(ports.node), real))
        self._into = send(np.zeros(lattice.count, real))
        self._queue = Queue()
        even, odd, self._walls, self._read = make_transport_pass(real)
        even_at_ports, odd_at_ports, self._openings = make_port_pass(real)
        self._steps, self._port_steps = (odd, even), (odd_at_ports, even_at_ports)
        self._script = Bundle(self._queue.stream, NONE_YET, np.zeros(0, real))

    def carry_by(self, faces: NDArray[np.floating]) -> None:
        """Take the flow of the next steps."""
        self._put(self._faces, self.lattice.rows(faces[::2], self.real))
        self._put(self._port_faces, faces[:, self.lattice.ports.node].astype(self.real).ravel())
        self._put(self._flux, self.lattice.through_openings(faces).astype(self.real))

    def advance(self, inflow: NDArray[np.float64]) -> None:
        """Run an even number of steps, of which the device counts the number."""
        rows = np.ascontiguousarray(inflow, self.real).ravel()
        if self._script.arrays[1].size < rows.size:
            self._script = Bundle(self._queue.stream, NONE_YET, rows)
            self._queue.forget("")
        else:
            self._script.replace(NONE_YET, rows)
        many, rest = divmod(len(inflow) // 2, MANY)
        for name, count, times in (("pairs", MANY, many), ("pair", 1, rest)):
            for _ in range(times):
                self._queue.replay(name, self._pairs(count))

    def _pairs(self, count: int) -> Callable[[], None]:
        waits = not len(self._wall_slot)  # what comes through walls is added when that has passed openings

        def work() -> None:
            for number in range(2 * count):
                even = number % 2 == 0
                self._step(even, waits and number > 0)
                if not waits or number == 2 * count - 1:
                    self._after_step(even)

        return work

    def _step(self, even: bool, waits: bool) -> None:
        lattice, (counts, _) = self.lattice, self._script.arrays
        join = self._queue.beside(partial(self._port_step, even, waits)) if len(lattice.ports.node) else None
        these = self.populations, lattice.stride, counts, self._runs, self._marks, self._faces, self.numbers
        self._over(lattice.stride, self._steps[even], *these)
        if join:
            join()

    def _port_step(self, even: bool, waits: bool) -> None:
        stated, held = self._at_ports()
        these = self.populations, self.lattice.stride, waits, self._ports, self._port_faces, self._flux
        counts = self._script.arrays[0]
        self._over(len(self.lattice.ports.node), self._port_steps[even], *these, counts, stated, held, self.numbers)

    def _after_step(self, even: bool) -> None:
        stated, held = self._at_ports()
        these = self.populations, self.lattice.stride, even, self._ports, self._flux, self._script.arrays[0]
        self._over(len(self.lattice.ports.node), self._openings, *these, stated, held, self.numbers[0])
        self._over(len(self._wall_slot), self._walls, self.populations, self._slot, self._amount)

    def _at_ports(self) -> tuple[Any, Any]:
        return (self._script.arrays[1], self.lattice.openings), (self.at_openings, self.carried, self.passed)

    def _over(self, count: int, kernel: Any, *arguments: Any) -> None:
        launch_over(self._queue, count, kernel, *arguments)

    def concentration(self) -> NDArray[np.floating]:
        """That of all nodes."""
        self._over(
            self.lattice.count, self._read, self.populations, self.lattice.stride, self.lattice.count, self._into
        )
        return self._here(self._into)

    def _put(self, array: Any, values: NDArray[Any]) -> None:
        store(array, values)

    def _here(self, array: Any) -> NDArray[Any]:
        return here(array)
