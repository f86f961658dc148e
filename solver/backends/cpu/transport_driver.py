# SPDX-License-Identifier: Apache-2.0
"""A passive scalar on the cores of this machine. Its bits do not depend on threads."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.cpu.transport_pass import make_transport_pass
from solver.backends.scalar_driver import TransportDriver
from solver.backends.scalar_lattice import ScalarLattice
from solver.kernels.transport import concentration


class CpuTransport(TransportDriver):
    """Runs on the cores of this machine; see :class:`solver.backends.scalar_driver.TransportDriver`."""

    device = "CPU"

    def __init__(
        self,
        lattice: ScalarLattice,
        real: Any,
        diffusivity: float,
        source: float = 0.0,
        wall_amount: NDArray[np.float64] | None = None,
    ) -> None:
        super().__init__(lattice, real, diffusivity, source, wall_amount)
        self.populations = np.zeros(lattice.slots, real)
        self.at_openings = np.zeros((2, len(lattice.ports.node)), real)
        self.carried = np.zeros(len(lattice.ports.slot), real)
        self.passed = np.zeros((2, len(lattice.ports.slot)))
        self._faces = np.zeros(6 * lattice.stride, real)
        self._flux = np.zeros(len(lattice.ports.slot), real)
        self._even, self._odd, self._openings, self._walls = make_transport_pass(real)

    def carry_by(self, faces: NDArray[np.floating]) -> None:
        """Take the flow of the next steps."""
        self._faces[:] = self.lattice.rows(faces, self.real)
        self._flux[:] = self.lattice.through_openings(faces)

    def advance(self, inflow: NDArray[np.float64]) -> None:
        """Run an even number of steps."""
        s, stride, rows = self.populations, self.lattice.stride, inflow.astype(self.real)
        for number, row in enumerate(rows):
            even = number % 2 == 0
            if even:
                self._even(s, stride, self._faces, self.numbers)
            else:
                self._odd(s, stride, self.lattice.runs, self._faces, self.numbers)
            if len(self._flux):
                held = self.at_openings, self.carried, self.passed
                self._openings(s, stride, even, self.lattice.ports, self._flux, row, self.numbers[0], *held)
            if len(self._wall_slot):
                self._walls(s, self._wall_slot, self._wall_amount)

    def concentration(self) -> NDArray[np.floating]:
        """That of all nodes."""
        found: NDArray[np.floating] = concentration(tuple(self.populations.reshape(-1, self.lattice.stride)))
        return found[: self.lattice.count].copy()

    def _put(self, array: NDArray[Any], values: NDArray[Any]) -> None:
        array[...] = values

    def _here(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.copy()
