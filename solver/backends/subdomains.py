# SPDX-License-Identifier: Apache-2.0
"""Subdomains: a lattice split between several drivers, and when they exchange populations.

What stands in which slot is said in :mod:`solver.backends.splitting`. A slot that a link reaches across the border is
touched by its owner in even steps and by the link's node in odd steps:

* even: collide; owners send what they left in such slots to the halos;
* odd: collide, which reads and writes the halos; halos send what was left there back to the owners.

Wall links come after the exchange, because interpolation reads what arrives from other parts; openings do not, because
they read and write what stays in a part. Nodes at the border are the first rows of a part: once they have collided
the exchange may begin, while the others follow.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.driver import LatticeDriver, held_bytes
from solver.backends.fields import Fields, Held, Statistics
from solver.backends.lattice import Lattice
from solver.backends.observation import Observation, ObservationAccumulator
from solver.backends.splitting import split
from solver.kernels.sums import Limbs


class SubdomainsDriver:
    """Runs the subdomains one after another in one process; see :class:`solver.backends.driver.Driver`.

    What passes between subdomains goes through three methods, `_exchange`, `_fill_ghosts` and `_add_up`: messages
    between neighbours and a sum over all parts, which is all that a distributed run has to replace.

    Attributes
    ----------
    device, layout, on_host : what it runs on, and how.
    subdomains, drivers : the parts and who runs each.
    """

    def __init__(
        self, whole: Lattice, subdomain: NDArray[np.integer], make: Callable[[Lattice], LatticeDriver]
    ) -> None:
        self.subdomains = split(whole, subdomain)
        self.drivers = [make(subdomain.lattice) for subdomain in self.subdomains]
        self.device = f"{self.drivers[0].device}, {len(self.subdomains)} parts one after another"
        counts, cut = (
            [len(subdomain.rows) for subdomain in self.subdomains],
            sum(subdomain.lattice.halo for subdomain in self.subdomains),
        )
        self.layout = f"{min(counts)} to {max(counts)} nodes a part, {cut} links between them; {self.drivers[0].layout}"
        self.on_host = self.drivers[0].on_host
        self._count, self._real, self._probes = whole.count, whole.real, whole.probes()
        self._has_feedback = whole.has_feedback
        self._corrected, self._pairs, self._since = whole.corrected, whole.corrected_pairs, 0
        self._send_slots = [
            {peer: driver.place(slots) for peer, slots in subdomain.send_slots.items()}
            for subdomain, driver in zip(self.subdomains, self.drivers, strict=True)
        ]

    def memory_bytes(self) -> int:
        """Memory that the run takes where it runs, up to now."""
        return sum(driver.memory_bytes() for driver in self.drivers) + held_bytes(self._send_slots)

    def advance(self, boundary_values: NDArray[np.float64]) -> None:
        """Run an even number of steps, one a row of `boundary_values`."""
        for driver in self.drivers:
            driver.begin(boundary_values)
        for step in range(len(boundary_values)):
            even = step % 2 == 0
            for driver in self.drivers:
                driver.collide(even, 0, driver.lattice.border)
            self._exchange(even)
            for driver in self.drivers:
                driver.collide(even, driver.lattice.border, driver.lattice.count)
            if self._has_feedback:
                sums = self._add_up([np.asarray(driver.feedback_sums(even)) for driver in self.drivers])
                for driver in self.drivers:
                    driver.apply_feedback(step, sums)
            for driver in self.drivers:
                driver.treat_openings(step, even)
            walled = [driver for driver in self.drivers if len(driver.lattice.walls.slot)]
            added = self._add_up([np.asarray(driver.treat_walls(step, even)) for driver in walled])
            for driver in walled:
                driver.correct_mass(added)
            if self._corrected and not even:
                self._apply_corrections()

    def _apply_corrections(self) -> None:
        """Let the force of :mod:`solver.kernels.isotropy` act on a pair of steps, and find it and the velocity of walls
        again where that is due.
        """
        forced = [driver for driver in self.drivers if driver.lattice.isotropic]
        for driver in forced:
            driver.add_momentum()
        self._since += 1
        if self._since == self._pairs:
            for driver in self.drivers:
                driver.write_velocity()
            self._fill_ghosts("node_velocity")
            for driver in forced:
                driver.write_fluxes()
            if forced:
                self._fill_ghosts("fluxes")
            for driver in forced:
                driver.write_momentum()
            for driver in self.drivers:
                if driver.lattice.walls.varies:
                    driver.write_slip()
            self._since = 0

    def _fill_ghosts(self, name: str) -> None:
        """Numbers of nodes beside those of other parts, from owners to ghosts."""
        held = [driver.here(getattr(driver, name)) for driver in self.drivers]
        for driver, subdomain, mine in zip(self.drivers, self.subdomains, held, strict=True):
            for peer, ghosts in subdomain.ghosts.items():
                mine[:, ghosts] = held[peer][:, self.subdomains[peer].send_nodes[subdomain.number]]
            driver.store(getattr(driver, name), mine)

    def _exchange(self, even: bool) -> None:
        """From owners to halos after an even step's collision, back after an odd one's."""
        for driver, subdomain in zip(self.drivers, self.subdomains, strict=True):
            for peer, halo in subdomain.halo.items():
                owner, send_slots = self.drivers[peer], self._send_slots[peer][subdomain.number]
                if even:
                    driver.write(halo, owner.read(send_slots))
                else:
                    owner.write(send_slots, driver.read(halo))

    def _add_up(self, limbs: list[Limbs]) -> Limbs:
        """Limbs of a sum over all subdomains, from those of each."""
        return np.sum(limbs, axis=0, dtype=np.int64)

    def observe(self, keep: bool) -> None:
        """Begin to observe the flow."""
        for driver in self.drivers:
            driver.observe(keep)

    def observation(self) -> Observation:
        """The last observation."""
        accumulators = [driver.accumulator() for driver in self.drivers]
        for subdomain, accumulator in zip(self.subdomains, accumulators, strict=True):
            accumulator.extremes[:, 1::2] = subdomain.rows[accumulator.extremes[:, 1::2].astype(np.int64)]
        sums, extremes = (
            np.concatenate([getattr(accumulator, name) for accumulator in accumulators])
            for name in ("sums", "extremes")
        )
        return ObservationAccumulator(
            sums, extremes, self._add_up([accumulator.openings for accumulator in accumulators])
        ).observation(self._count, self._probes)

    def ask_volume(self) -> None:
        """Begin to read the volume that passed through openings with feedback, which all parts know."""
        self.drivers[0].ask_volume()

    def volume(self) -> NDArray[np.float64]:
        """What was read last."""
        return self.drivers[0].volume()

    def fields(self) -> Fields:
        """Fields of all nodes."""
        return self._gather(driver.fields() for driver in self.drivers)

    def average(self, number: int, restart: bool) -> None:
        """Take the present state into the running mean of that number, or begin it with it; `MEAN` has statistics."""
        for driver in self.drivers:
            driver.average(number, restart)

    def mean(self, number: int) -> Fields:
        """Mean of the fields that were taken into it."""
        return self._gather(driver.mean(number) for driver in self.drivers)

    def statistics(self) -> Statistics:
        """Statistics of the states that were taken into the mean over time."""
        return self._gather(driver.statistics() for driver in self.drivers)

    def _gather(self, each: Iterator[Held]) -> Held:
        """What is held of all nodes, from what is held of those of each part."""
        first = next(each)
        whole = type(first)(*map(self._room, first.arrays()))
        for subdomain, held in zip(self.subdomains, chain((first,), each), strict=True):
            for into, values in zip(whole.arrays(), held.arrays(), strict=True):
                into[..., subdomain.rows] = values
        return whole

    def _room(self, of_subdomain: NDArray[np.floating]) -> NDArray[np.floating]:
        """Empty arrays for all nodes, shaped like these of a subdomain."""
        return np.empty((*of_subdomain.shape[:-1], self._count), self._real)

    def at_bounds(self) -> NDArray[np.int64]:
        """Number of nodes whose tau is at its lower and its upper bound."""
        return self._add_up([driver.at_bounds() for driver in self.drivers])

    def begin_with(self, fields: Fields, pressures: NDArray[np.float64]) -> None:
        """Begin with a flow instead of fluid at rest."""
        for subdomain, driver in zip(self.subdomains, self.drivers, strict=True):
            driver.begin_with(Fields(*(array[..., subdomain.rows] for array in fields.arrays())), pressures)
        self._since = 0

    def shift(self, before: Fields, after: Fields) -> None:
        """Change the flow by what two sets of fields differ in."""
        for subdomain, driver in zip(self.subdomains, self.drivers, strict=True):
            driver.shift(
                *(Fields(*(array[..., subdomain.rows] for array in each.arrays())) for each in (before, after))
            )

    def pressures(self) -> NDArray[np.float64]:
        """Filtered flow and stored pressure of each outlet with feedback, which all parts know."""
        return self.drivers[0].pressures()

    def state(self) -> dict[str, NDArray[Any]]:
        """The states of all parts."""
        states = {
            f"part-{k}/{name}": array for k, driver in enumerate(self.drivers) for name, array in driver.state().items()
        }
        return states | {"since": np.array(self._since)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a state of a driver of the same parts."""
        self._since = int(state["since"])
        for k, driver in enumerate(self.drivers):
            own = f"part-{k}/"
            driver.restore({name.removeprefix(own): array for name, array in state.items() if name.startswith(own)})
