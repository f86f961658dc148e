# SPDX-License-Identifier: Apache-2.0
"""Subdomains: a lattice split between several drivers, and when they exchange populations.

What stands in which slot is said in :mod:`solver.backends.splitting`. A slot that a link reaches across the border is
touched by its owner in even steps and by the link's node in odd steps:

* even: collide; owners send what they left in such slots to the halos;
* odd: collide, which reads and writes the halos; halos send what was left there back to the owners.

Wall links come after the exchange, because interpolation reads what arrives from other parts; openings do not, because
they read and write what stays in a part, and on the CPU are treated before it has come. Nodes at the border are the
first rows of a part: once they have collided the exchange begins, and the others, which touch nothing of what is
exchanged, collide while it is under way. The last rows touch nothing of what openings and walls do, either: they
collide while the mass that walls added is added up over all parts. What pressures at outlets follow from is of the step
before and goes with that sum; what flows at inlets follow from is found at nodes that collide first, too, and is added
up while others collide.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.buffers import Buffers, HostBuffers, Places
from solver.backends.fields import Fields, Held, Statistics, held_bytes
from solver.backends.lattice import Lattice
from solver.backends.lattice_driver import LatticeDriver, stretches
from solver.backends.observation import Observation, ObservationAccumulator
from solver.backends.share import Share
from solver.backends.splitting import Subdomain, split
from solver.backends.whole_state import WholeState
from solver.domain.division import Division
from solver.domain.node_costs import weighed
from solver.kernels.sums import LIMBS, Limbs

Make = Callable[[Lattice], LatticeDriver]
GHOSTS: dict[str, Callable[[Lattice], int]] = {
    "node_velocity": lambda lattice: lattice.corrected_rows,
    "fluxes": lambda lattice: lattice.flux_rows,
}
"""Rows of the arrays, (3, rows), of which parts need numbers of other parts' nodes, by name."""


class DividedDriver(ABC):
    """Runs subdomains of a lattice; see :class:`solver.backends.driver.Driver`.

    Its own subdomains are all of them, or those of one process of several. What passes between subdomains goes through
    methods that those who derive from it have: messages between neighbours, sums and numbers of all parts.

    Attributes
    ----------
    device, layout, on_host : what it runs on, and how.
    division : what its parts have to do, and what they exchange.
    share : nodes whose fields it gives.
    subdomains, drivers : its own parts and who runs each.

    Parameters
    ----------
    whole : the lattice of the whole domain; its links need not be all there.
    subdomains : the own parts.
    make : makes the driver of a part.
    walls, moving : number of wall links in the whole domain, and whether walls move there.
    """

    device: str
    layout: str
    division: Division | None
    share: Share = Share()

    def __init__(self, whole: Lattice, subdomains: list[Subdomain], make: Make, walls: int, moving: bool) -> None:
        self.drivers = [make(part.lattice) for part in subdomains]
        self.subdomains = [  # without the tables that drivers do not need any more
            replace(part, lattice=driver.lattice) for part, driver in zip(subdomains, self.drivers, strict=True)
        ]
        self.on_host = self.drivers[0].on_host
        self._count, self._real, self._probes = whole.count, whole.real, whole.probes()
        self._has_feedback, self._walled = whole.has_feedback, walls > 0
        self._feedback_of_step = len(whole.inlet_feedback.opening) > 0
        self._follows_last = self._has_feedback and not self._feedback_of_step  # openings the step before alone
        self._ahead: Limbs | None = None
        self._corrected, self._period, self._since = whole.corrected, whole.corrected_pairs, 0
        self._state = WholeState(whole, walls if moving else 0)
        make_buffers = self._make_buffers
        even = [make_buffers(driver, "populations", part.send_slots, part.halo) for part, driver in self._parts()]
        odd = [self._back(there, *each) for there, each in zip(even, self._parts(), strict=True)]
        self._buffers = {True: even, False: odd}
        self._ghost_buffers = {
            name: [make_buffers(each, name, *part.ghost_places(rows(each.lattice))) for part, each in self._parts()]
            for name, rows in GHOSTS.items()
            if rows(whole)
        }

    def _parts(self) -> list[tuple[Subdomain, LatticeDriver]]:
        return list(zip(self.subdomains, self.drivers, strict=True))

    def _divided(self) -> Division:
        """What all parts have to do, and what they exchange."""
        rows = self._everywhere(np.array([_work(part) for part in self.subdomains], np.int64))
        return Division(*rows.T)

    def _make_buffers(
        self, driver: LatticeDriver, name: str, outgoing: Mapping[int, Places], incoming: Mapping[int, Places]
    ) -> Buffers:
        """Buffers of an array of a part."""
        return driver.buffers(name, outgoing, incoming)

    def _back(self, there: Buffers, part: Subdomain, driver: LatticeDriver) -> Buffers:
        """Buffers of odd steps, in which all passes the way back: on the host in the memory of those of even ones."""
        if isinstance(there, HostBuffers):
            return there.back()
        return self._make_buffers(driver, "populations", part.halo, part.send_slots)

    def advance(self, boundary_values: NDArray[np.float64]) -> None:
        """Run an even number of steps, one a row of `boundary_values`."""
        for driver in self.drivers:
            driver.begin(boundary_values)
        period = self._period if self._corrected else 0
        for first, count in stretches(len(boundary_values) // 2, self._since, period):
            self._run_pairs(first, count)
            self._since += count
            if self._since == period:
                self._renew_corrections()
                self._since = 0

    def _run_pairs(self, first: int, count: int) -> None:
        """Run so many pairs of an even and an odd step, the first of this number."""
        for step in range(2 * first, 2 * (first + count)):
            self._step(step, step % 2 == 0)

    def _step(self, step: int, even: bool) -> None:
        """Run a step, counted from the first of those that were asked for."""
        sums = self._feedback_ahead(even)
        for driver in self.drivers:
            driver.collide(even, 0, driver.lattice.border)
        arrive = self._exchange(self._buffers[even])
        if self._feedback_of_step:
            sums = self._feedback(even)
        for driver in self.drivers:
            driver.collide(even, driver.lattice.border, self._first_of_last(driver))
        if not self.on_host:  # a device treats the wall links of an opening's nodes with the opening
            arrive()
        if sums:
            found = sums()
            for driver in self.drivers:
                driver.apply_feedback(step, found)
        for driver in self.drivers:
            driver.treat_openings(step, even)
        if self.on_host:
            arrive()
        if self._walled:
            self._treat_walls(step, even)
        if not even:
            self._add_momentum()

    def _first_of_last(self, driver: LatticeDriver) -> int:
        """First row of the nodes of a part that collide after walls; the end of all where none are treated."""
        lattice = driver.lattice
        return lattice.count - (lattice.last if self._walled else 0)

    def _feedback_ahead(self, even: bool) -> Callable[[], Limbs] | None:
        """Sums that pressures at outlets follow from, where nothing else follows: at hand if they came with the mass of
        walls, as in all steps but the first, or begun before the step does.
        """
        if not self._follows_last:
            return None
        ahead, self._ahead = self._ahead, None
        return self._feedback(even) if ahead is None else lambda: ahead

    def _feedback(self, even: bool) -> Callable[[], Limbs]:
        """Begin the sums that pressures and flows follow from, of flows through outlets in the step before and of
        densities at inlets that have collided. A device is waited for when it has been asked to collide other nodes.
        """
        begun = [driver.feedback_sums(even) for driver in self.drivers]
        if self.on_host:
            return self._begin_sum([found() for found in begun])
        return lambda: self._begin_sum([found() for found in begun])()

    def _treat_walls(self, step: int, even: bool) -> None:
        """Treat the wall links, and take what they added in the whole domain off again; it is added up while the last
        nodes collide, together with what the pressures of the next step follow from.
        """
        walled = [driver for driver in self.drivers if len(driver.lattice.walls.slot)]
        for driver in walled:
            driver.treat_walls(step, even)
        wait = self._begin_sum([self._added(driver, even) for driver in self.drivers])  # of openings without walls, too
        for driver in self.drivers:
            if driver.lattice.last:
                driver.collide(even, self._first_of_last(driver), driver.lattice.count)
        (added,), ahead = np.split(wait(), [1])
        self._ahead = ahead if self._follows_last else None
        for driver in walled:
            driver.correct_mass(even, added)

    def _added(self, driver: LatticeDriver, even: bool) -> Limbs:
        """Limbs of the mass that walls of a part added, and of flows that the next step follows from, (1 + M, 3)."""
        left = driver.feedback_sums(even) if self._follows_last else None
        added = driver.mass_added(even)[None]
        return np.concatenate((added, left())) if left else added

    def _add_momentum(self) -> None:
        """Let the force of :mod:`solver.kernels.isotropy` act on a pair of steps."""
        for driver in self.drivers:
            if driver.lattice.isotropic:
                driver.add_momentum()

    def _renew_corrections(self) -> None:
        """Find that force and the velocity of walls again."""
        forced = [driver for driver in self.drivers if driver.lattice.isotropic]
        for driver in self.drivers:
            driver.write_velocity()
        self._exchange(self._ghost_buffers["node_velocity"])()
        for driver in forced:
            driver.write_fluxes()
        if forced:
            self._exchange(self._ghost_buffers["fluxes"])()
        for driver in forced:
            driver.write_momentum()
        for driver in self.drivers:
            if driver.lattice.walls.varies:
                driver.write_slip()

    @abstractmethod
    def memory_bytes(self) -> int:
        """Memory that the run takes where it runs, up to now."""

    @abstractmethod
    def _exchange(self, buffers: Sequence[Buffers]) -> Callable[[], None]:
        """Begin to send what each own part has for others, as it is now; what waits until all have it."""

    @abstractmethod
    def _begin_sum(self, limbs: list[Limbs]) -> Callable[[], Limbs]:
        """Begin to add up limbs over all subdomains, from those of each own one; what waits for the sum."""

    @abstractmethod
    def _everywhere(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Rows of all subdomains, from the rows of the own ones."""

    def _memory_bytes(self) -> int:
        """Memory of the own subdomains."""
        return sum(driver.memory_bytes() for driver in self.drivers) + held_bytes((self._buffers, self._ghost_buffers))

    def observe(self, keep: bool) -> None:
        """Begin to observe the flow."""
        for driver in self.drivers:
            driver.observe(keep)

    def observation(self) -> Observation:
        """The last observation."""
        accumulators = [driver.accumulator() for driver in self.drivers]
        for part, accumulator in zip(self.subdomains, accumulators, strict=True):
            accumulator.extremes[:, 1::2] = part.rows[accumulator.extremes[:, 1::2].astype(np.int64)]
        own = [accumulator.condensed() for accumulator in accumulators]
        limbs = self._begin_sum([np.concatenate([each.sums[0], each.openings.reshape(-1, LIMBS)]) for each in own])
        extremes = self._everywhere(np.concatenate([each.extremes for each in own]))
        sums, openings = np.split(limbs(), [len(own[0].sums[0])])
        accumulator = ObservationAccumulator(sums[None], extremes, openings.reshape(own[0].openings.shape))
        return accumulator.observation(self._count, self._probes)

    def ask_volume(self) -> None:
        """Begin to read the volume that passed through openings with feedback, which all parts know."""
        self.drivers[0].ask_volume()

    def volume(self) -> NDArray[np.float64]:
        """What was read last."""
        return self.drivers[0].volume()

    @abstractmethod
    def _gather(self, read: Callable[[LatticeDriver], Held]) -> Held:
        """What is held of the nodes of this process, from what is read of those of each own part."""

    def fields(self) -> Fields:
        """Fields of the nodes of this process."""
        return self._gather(lambda driver: driver.fields())

    def transient_fields(self) -> Fields:
        """Fields of the nodes of this process."""
        return self.fields()

    def average(self, number: int, restart: bool) -> None:
        """Take the present state into the running mean of that number, or begin it with it; `MEAN` has statistics."""
        for driver in self.drivers:
            driver.average(number, restart)

    def mean(self, number: int) -> Fields:
        """Mean of the fields that were taken into it."""
        return self._gather(lambda driver: driver.mean(number))

    def statistics(self) -> Statistics:
        """Statistics of the states that were taken into the mean over time."""
        return self._gather(lambda driver: driver.statistics())

    def at_bounds(self) -> NDArray[np.int64]:
        """Number of nodes whose tau is at its lower and its upper bound."""
        return self._begin_sum([driver.at_bounds() for driver in self.drivers])()

    def begin_with(self, fields: Fields, pressures: NDArray[np.float64]) -> None:
        """Begin with a flow instead of fluid at rest."""
        for part, driver in self._parts():
            driver.begin_with(self._of_part(fields, part), pressures)
        self._since, self._ahead = 0, None

    def shift(self, before: Fields, after: Fields, pressures: NDArray[np.float64] | None = None) -> None:
        """See :meth:`solver.backends.driver.Driver.shift`."""
        for part, driver in self._parts():
            driver.shift(self._of_part(before, part), self._of_part(after, part), pressures)

    def _of_part(self, fields: Fields, part: Subdomain) -> Fields:
        """Fields of a part from those that this driver gives."""
        return Fields(*(array[..., part.rows] for array in fields.arrays()))

    def pressures(self) -> NDArray[np.float64]:
        """Filtered excess of the flow and stored pressure of each outlet with feedback, which all parts know."""
        return self.drivers[0].pressures()

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All that the next steps depend on, in the order of the whole lattice: that of a driver of all of it, or of
        any other division.
        """

    def _with_since(self, state: dict[str, Any]) -> dict[str, Any]:
        return state | ({"since": np.array(self._since)} if self._corrected else {})

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of a driver of the same lattice, however that was divided."""
        self._since, self._ahead = int(state.get("since", 0)), None
        for part, driver in self._parts():
            driver.restore(self._state.of_part(state, part, driver.held()))


class SubdomainsDriver(DividedDriver):
    """Runs all subdomains one after another in one process."""

    def __init__(self, whole: Lattice, subdomain: NDArray[np.integer], make: Make) -> None:
        super().__init__(whole, split(whole, subdomain), make, len(whole.walls.slot), whole.walls.moving)
        self.device = f"{self.drivers[0].device}, {len(self.subdomains)} parts one after another"
        self.division = division = self._divided()
        self.layout = f"{division.words()}; {self.drivers[0].layout}"

    def memory_bytes(self) -> int:
        """Memory that the run takes where it runs, up to now."""
        return self._memory_bytes()

    def agreed(self, *numbers: int) -> tuple[int, ...]:
        """The numbers, which no other process has a say in."""
        return numbers

    def _exchange(self, buffers: Sequence[Buffers]) -> Callable[[], None]:
        for each in buffers:
            each.pack()

        def arrive() -> None:
            for each in buffers:
                each.wait()
            for part, each in zip(self.subdomains, buffers, strict=True):
                for peer, message in each.received.items():
                    message[:] = buffers[peer].sent[part.number]
            for each in buffers:
                each.unpack()

        return arrive

    def _begin_sum(self, limbs: list[Limbs]) -> Callable[[], Limbs]:
        added: Limbs = np.sum(limbs, axis=0, dtype=np.int64)
        return lambda: added

    def _everywhere(self, numbers: NDArray[Any]) -> NDArray[Any]:
        return numbers

    def _gather(self, read: Callable[[LatticeDriver], Held]) -> Held:
        whole: Held | None = None
        for part, driver in self._parts():
            held = read(driver)
            if whole is None:
                whole = type(held)(*map(self._room, held.arrays()))
            for into, values in zip(whole.arrays(), held.arrays(), strict=True):
                into[..., part.rows] = values
        assert whole is not None
        return whole

    def _room(self, of_subdomain: NDArray[np.floating]) -> NDArray[np.floating]:
        """Empty arrays for all nodes, shaped like these of a subdomain."""
        return np.empty((*of_subdomain.shape[:-1], self._count), self._real)

    def state(self) -> dict[str, Any]:
        """All that the next steps depend on."""
        whole: dict[str, NDArray[Any]] = {}
        for part, driver in self._parts():
            self._state.take(whole, part, driver.state())
        return self._with_since(whole)


def _work(part: Subdomain) -> tuple[int, int, int, int]:
    """What stands in a :class:`Division` for a part, whose cost is that of the links that it treats."""
    lattice = part.lattice
    openings = len(lattice.inlets.slot) + len(lattice.outlets.slot)
    return lattice.count, weighed(lattice.count, len(lattice.walls.slot), openings), lattice.halo, len(part.halo)
