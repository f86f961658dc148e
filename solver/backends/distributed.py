# SPDX-License-Identifier: Apache-2.0
"""A lattice divided among ranks, one subdomain each: see :mod:`solver.backends.subdomains` for its steps.

A step sends one message to each neighbour. It waits for one sum over all ranks, of the mass that walls added, where
walls are treated; the sum that pressures at outlets follow from is of the step before and is under way during the
collision. Only flows at inlets that follow from the pressure there wait for a second one.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.communicator import Communicator
from solver.backends.lattice import Lattice
from solver.backends.splitting import Subdomain
from solver.backends.subdomains import DividedDriver, Make
from solver.kernels.sums import Limbs


class DistributedDriver(DividedDriver):
    """Runs the subdomain of this rank.

    Parameters
    ----------
    whole : the lattice of the whole domain.
    subdomain : (N,) the rank that each node belongs to, the same on all ranks.
    make : makes the driver of a part.
    ranks : all of them.
    """

    def __init__(self, whole: Lattice, subdomain: NDArray[np.integer], make: Make, ranks: Communicator) -> None:
        super().__init__(whole, subdomain, make, {ranks.rank})
        self._ranks, (self._part,), (self._driver,) = ranks, self.subdomains, self.drivers
        self._slots = {
            True: (self._send_slots[0], self._part.halo),
            False: (self._part.halo, self._send_slots[0]),
        }
        kind = self._driver.read(slice(0, 0)).dtype
        self._received = {
            True: {peer: np.empty(_count(slots), kind) for peer, slots in self._part.halo.items()},
            False: {peer: np.empty(_count(slots), kind) for peer, slots in self._part.send_slots.items()},
        }
        self._all_places: dict[str, NDArray[np.int64]] = {}
        nodes, cut = ranks.join(np.array([self._part.lattice.count])), ranks.join(np.array([self._part.lattice.halo]))
        self.device = f"{self._driver.device}, {ranks.size} ranks"
        self.layout = (
            f"{nodes.min()} to {nodes.max()} nodes a rank, {cut.sum()} links between them; {self._driver.layout}"
        )

    def memory_bytes(self) -> int:
        """Memory that the run takes on all ranks, up to now."""
        return int(self._ranks.begin_sum(np.array([self._memory_bytes()]))()[0])

    def agreed(self, *numbers: int) -> tuple[int, ...]:
        """The largest of each number over all ranks."""
        return tuple(self._ranks.largest(np.array(numbers, np.int64)).tolist())

    def _exchange(self, even: bool) -> Callable[[], None]:
        (outgoing, into), received = self._slots[even], self._received[even]
        wait = self._ranks.swap({peer: self._driver.read(slots) for peer, slots in outgoing.items()}, received)

        def arrive() -> None:
            wait()
            for peer, slots in into.items():
                self._driver.write(slots, received[peer])

        return arrive

    def _fill_ghosts(self, name: str) -> None:
        array = getattr(self._driver, name)
        mine, part = self._driver.here(array), self._part
        sent = {peer: np.ascontiguousarray(mine[:, nodes]) for peer, nodes in part.send_nodes.items()}
        received = {peer: np.empty((len(mine), _count(rows)), mine.dtype) for peer, rows in part.ghosts.items()}
        self._ranks.swap(sent, received)()
        for peer, rows in part.ghosts.items():
            mine[:, rows] = received[peer]
        self._driver.store(array, mine)

    def _begin_sum(self, limbs: list[Limbs]) -> Callable[[], Limbs]:
        return self._ranks.begin_sum(np.sum(limbs, axis=0, dtype=np.int64))

    def _everywhere(self, numbers: NDArray[Any]) -> NDArray[Any]:
        return self._ranks.join(numbers.ravel()).reshape(-1, *numbers.shape[1:])

    def _join(self, whole: NDArray[Any], places: str, part: Subdomain, values: NDArray[Any]) -> None:
        """One component after another, so that nothing else of the size of the domain is held."""
        if places not in self._all_places:
            self._all_places[places] = self._ranks.join(getattr(part, places))
        for component in np.ndindex(values.shape[:-1]):
            whole[component][self._all_places[places]] = self._ranks.join(values[component])


def _count(slots: slice | NDArray[Any]) -> int:
    return slots.stop - slots.start if isinstance(slots, slice) else len(slots)
