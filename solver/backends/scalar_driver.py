# SPDX-License-Identifier: Apache-2.0
"""TransportDriver: moves a passive scalar in a given flow, in pairs of steps, on whatever it runs."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.scalar_lattice import ScalarLattice
from solver.kernels.transport import at_uniform, scalar_numbers


class TransportDriver(ABC):
    """Drives the scalar of :mod:`solver.kernels.transport`.

    A step moves the populations of all nodes; then what the flow carries through openings is taken off, or added, and
    what comes through walls is added.

    Attributes
    ----------
    device : what it runs on.
    lattice : the geometry.
    real : NumPy type that is computed with.
    numbers : of the diffusivity and the source.
    populations : (7 stride,) where it runs; between pairs of steps slot (i, n) holds s_i arriving at node n.
    at_openings : (2, M) where it runs: concentration of the nodes at openings, now and a step before.
    carried : (K,) where it runs: what each link through an opening carried away in the last step.
    passed : (2, K) where it runs: of each link through an opening what left of the scalar and of fluid, summed over the
        steps.

    Parameters
    ----------
    lattice, real : as above.
    diffusivity : lattice units.
    source : what each node gains in a step.
    wall_amount : (L,) what comes in through each link to a wall in a step; none if walls let nothing through.
    """

    device: str
    populations: Any
    at_openings: Any
    carried: Any
    passed: Any

    def __init__(
        self,
        lattice: ScalarLattice,
        real: Any,
        diffusivity: float,
        source: float = 0.0,
        wall_amount: NDArray[np.float64] | None = None,
    ) -> None:
        self.lattice, self.real = lattice, real
        self.numbers = scalar_numbers(real, diffusivity, source)
        given = np.zeros(len(lattice.wall_slot)) if wall_amount is None else wall_amount
        kept = np.flatnonzero(given)
        self._wall_slot, self._wall_amount = lattice.wall_slot[kept], given[kept].astype(real)

    @property
    def wall_inflow(self) -> float:
        """What comes in through walls in a step."""
        return float(self._wall_amount.astype(np.float64).sum())

    def begin(
        self,
        concentration: NDArray[np.floating],
        faces: NDArray[np.floating],
        inflow: NDArray[np.float64],
    ) -> None:
        """Begin with a concentration, in the equilibrium of a flow; nothing has passed.

        Parameters
        ----------
        concentration : (N,).
        faces : flow of the first steps, as :meth:`carry_by` takes it.
        inflow : (openings,) concentration of what has come in so far.
        """
        self.carry_by(faces)
        ports, flux = self.lattice.ports, self.lattice.through_openings(faces)
        at_openings = np.asarray(concentration)[ports.node]
        leaving = np.repeat(at_openings, np.diff(ports.first))
        self._put(self.populations, self.lattice.rows(at_uniform(concentration, faces), self.real))
        self._put(self.at_openings, np.tile(at_openings, (2, 1)).astype(self.real))
        self._put(self.carried, (flux * np.where(flux > 0, leaving, inflow[ports.opening])).astype(self.real))
        self._put(self.passed, np.zeros(self.passed.shape))

    def state(self) -> dict[str, NDArray[Any]]:
        """All that the next steps depend on beside flow and inflow, between pairs of steps: copies, by name."""
        return {name: self._here(array) for name, array in self._held().items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of a driver of the same lattice."""
        for name, array in self._held().items():
            self._put(array, np.asarray(state[name]))

    def left(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What left through each opening since the beginning, of the scalar and of fluid, (openings,) each."""
        left = np.zeros((2, self.lattice.openings))
        for row, passed in zip(left, self._here(self.passed), strict=True):
            np.add.at(row, self.lattice.ports.opening, passed)
        return left[0], left[1]

    def _held(self) -> dict[str, Any]:
        return {
            "scalar": self.populations,
            "at_openings": self.at_openings,
            "carried": self.carried,
            "passed": self.passed,
        }

    @abstractmethod
    def carry_by(self, faces: NDArray[np.floating]) -> None:
        """Take the flow of the next steps out through the faces of nodes, (6, N), in the order of the directions."""

    @abstractmethod
    def advance(self, inflow: NDArray[np.float64]) -> None:
        """Run an even number of steps.

        Parameters
        ----------
        inflow : (steps, openings), concentration of what comes in through each opening.
        """

    @abstractmethod
    def concentration(self) -> NDArray[np.floating]:
        """That of all nodes, (N,), between pairs of steps."""

    @abstractmethod
    def _put(self, array: Any, values: NDArray[Any]) -> None:
        """Put numbers into an array of the driver."""

    @abstractmethod
    def _here(self, array: Any) -> NDArray[Any]:
        """A copy of an array of the driver, here."""
