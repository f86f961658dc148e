# SPDX-License-Identifier: Apache-2.0
"""What drives one lattice: the phases of a step, and the state that is read and kept."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.buffers import Buffers, Places
from solver.backends.fields import MEAN, Fields, Held, Mean, Statistics
from solver.backends.initial_populations import populations
from solver.backends.lattice import Lattice
from solver.backends.observation import Found, Observation, ObservationAccumulator
from solver.backends.share import Share
from solver.boundary.openings import backflow_limbs
from solver.domain.division import Division
from solver.kernels.sums import Limbs, limbs_by_group


def stretches(pairs: int, since: int, period: int) -> Iterator[tuple[int, int]]:
    """Stretches of pairs of steps, the first and the number of each, after which corrections may be due.

    Parameters
    ----------
    pairs : number of all.
    since : pairs since corrections were found.
    period : pairs after which they are found again; 0 if never.
    """
    first = 0
    while first < pairs:
        count = min(pairs - first, period - since) if period else pairs
        yield first, count
        first, since = first + count, 0


class LatticeDriver(ABC):
    """Drives one lattice, of a whole domain or a part of it: a :class:`solver.backends.driver.Driver` made of phases.

    A step collides all nodes, finds the pressures that follow from the flow of the step before, treats the openings,
    then the wall links, and takes what these added to the mass of the whole domain off again. Phases are apart so that
    parts of a domain can exchange populations and sums in between.

    Attributes
    ----------
    device, layout, on_host, share : what it runs on, and how.
    division : none; those who run several lattices have one.
    lattice : what it runs.
    populations : (lattice.slots,) where it runs; between pairs of steps slot (i, n) holds g_i arriving at node n.
    node_velocity, fluxes : (3, count + ghosts) where it runs, that the force of :mod:`solver.kernels.isotropy` and the
        velocity of walls, :mod:`solver.boundary.parabolic_walls`, follow from.
    since : pairs of steps since these were found, where they act.
    means : running means of the fields by their number.
    """

    device: str
    layout: str
    division: Division | None = None
    on_host: bool
    share: Share = Share()
    lattice: Lattice
    populations: Any
    node_velocity: Any
    fluxes: Any
    since: int
    means: dict[int, Mean]

    def __init__(self, lattice: Lattice) -> None:
        self.lattice = lattice
        self.means = {}
        self.since = 0

    def advance(self, boundary_values: NDArray[np.float64]) -> None:
        """Run steps, one a row of `boundary_values`: pairs, and a last even one where their number is odd."""
        self.begin(boundary_values)
        period = self.lattice.corrected_pairs if self.lattice.corrected else 0
        for first, count in stretches(len(boundary_values) // 2, self.since, period):
            self.pairs(first, count)
            self.since += count
            if self.since == period:
                self.renew_corrections()
        if len(boundary_values) % 2:
            self.step(len(boundary_values) - 1, True)

    def pairs(self, first: int, count: int) -> None:
        """Run so many pairs of an even and an odd step, the first of this number, counted from :meth:`begin`."""
        for number in range(2 * first, 2 * (first + count)):
            self.step(number, number % 2 == 0)
            if self.lattice.isotropic and number % 2:
                self.add_momentum()

    def renew_corrections(self) -> None:
        """Find the force of :mod:`solver.kernels.isotropy` and the velocity of walls again, where they act."""
        self.write_velocity()
        if self.lattice.isotropic:
            self.write_fluxes()
            self.write_momentum()
        if self.lattice.walls.varies:
            self.write_slip()
        self.since = 0

    def step(self, number: int, even: bool) -> None:
        """Run a step, counted from :meth:`begin`."""
        self.collide(even, 0, self.lattice.count)
        self.treat_boundaries(number, even)

    def treat_boundaries(self, number: int, even: bool) -> None:
        """All of a step that follows its collision."""
        if self.lattice.has_feedback:
            self.apply_feedback(number, self.feedback_sums(even)())
        self.treat_openings(number, even)
        if len(self.lattice.walls.slot):
            self.treat_walls(number, even)
            self.correct_mass(even)

    def observation(self) -> Observation:
        """The last observation."""
        return self.accumulator().observation(self.lattice.count, self.lattice.probes())

    def accumulator(self) -> ObservationAccumulator:
        """Partial results of the last observation, of this lattice."""
        found, openings = self.found(), self.lattice.openings
        inlets, outlets = self.lattice.inlets, self.lattice.outlets
        entered = limbs_by_group(found.inlet_flux, inlets.opening, openings)
        entered += limbs_by_group(found.outlet_flux, outlets.opening, openings)
        returned = backflow_limbs(found.outlet_flux, outlets.first, outlets.opening, openings)
        drho = limbs_by_group(found.probe_drho, self.lattice.probe_opening, openings)
        return ObservationAccumulator(found.sums, found.extremes, np.stack((entered, returned, drho)))

    def fields(self) -> Fields:
        """Fields of all nodes."""
        fields = self.room()
        self.read_fields(fields)
        return self.fetch(fields)

    def transient_fields(self) -> Fields:
        """Fields of all nodes, whose memory the next ones may take."""
        return self.fields()

    def average(self, number: int, restart: bool) -> None:
        """Take the present state into the running mean of that number, or begin it with it; `MEAN` has statistics.

        m_n = m_(n-1) + (x_n - m_(n-1))/n, which stays near the mean and so keeps its digits in single precision
        (Welford 1962, doi:10.1080/00401706.1962.10490022).
        """
        if number not in self.means:
            self.means[number] = self.new_mean(number)
        mean = self.means[number]
        mean.count = 1 if restart else mean.count + 1
        self.fold(number, mean)

    def mean(self, number: int) -> Fields:
        """Mean of the fields that were taken into it."""
        return self.fetch(self.means[number].fields)

    def statistics(self) -> Statistics:
        """Statistics of the states that were taken into the mean over time."""
        statistics = self.means[MEAN].statistics
        assert statistics is not None
        return self.fetch(statistics)

    def begin_with(self, fields: Fields, pressures: NDArray[np.float64]) -> None:
        """Begin with a flow instead of fluid at rest."""
        held, real = self.held(), self.lattice.real
        self.store(held["populations"], self._populations(fields).view(self.populations.dtype))
        self.store(held["pressure"], pressures)
        self.store(held["outlet_flux"], self.lattice.outlets.entering(fields.velocity).astype(real))
        self.store(held["omega"], self.lattice.relaxation()[1])
        if self.lattice.corrected:  # what corrected another flow is forgotten
            for name in ("momentum", *(("slip",) if self.lattice.walls.varies else ())):
                self.store(held[name], np.zeros(held[name].shape, real))
            self.since = 0

    def _populations(self, fields: Fields, flux: Any = 1.0) -> NDArray[Any]:
        """Populations of fields, where the momentum flux Pi is so many times their stress."""
        return populations(self.lattice, fields.drho, fields.velocity, fields.stress * flux)

    def shift(self, before: Fields, after: Fields, pressures: NDArray[np.float64] | None = None) -> None:
        """See :meth:`solver.backends.driver.Driver.shift`."""
        if pressures is not None:
            self.store(self.held()["pressure"], pressures)
        flux = 1.0
        if before.viscosity is not None:
            omega = 1 / (0.5 + 3 * before.viscosity)
            flux = (1 - self.lattice.rates[0] / 2) / (1 - omega / 2)
        kept, old, new = self.here(self.populations), self._populations(before, flux), self._populations(after, flux)
        kept, old, new = (slots.view(old.dtype) for slots in (kept, old, new))
        self.store(self.populations, (kept + (new - old)).view(self.populations.dtype))

    def pressures(self) -> NDArray[np.float64]:
        """Filtered excess of the flow and stored pressure of each outlet with feedback, (M, 2)."""
        return self.here(self.held()["pressure"])

    def state(self) -> dict[str, NDArray[Any]]:
        """All that the next steps, observations and means depend on, between pairs of steps: copies, by name."""
        state = {name: self.here(array) for name, array in self.held().items()}
        for number, mean in self.means.items():
            arrays = [self.here(array) for held in mean.held() for array in held.arrays()]
            state |= {f"mean-{number}/{k}": array for k, array in enumerate(arrays)}
            state[f"mean-{number}/count"] = np.array(mean.count)
        if self.lattice.corrected:
            state["since"] = np.array(self.since)
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of a driver of the same lattice."""
        for name, array in self.held().items():
            self.store(array, np.asarray(state[name]))
        self.since = int(state.get("since", 0))
        for number in sorted({int(name.split("/")[0][5:]) for name in state if name.startswith("mean-")}):
            mean = self.means[number] = self.new_mean(number)
            mean.count = int(state[f"mean-{number}/count"])
            arrays = [array for held in mean.held() for array in held.arrays()]
            for k, array in enumerate(arrays):
                self.store(array, np.asarray(state[f"mean-{number}/{k}"]))

    def agreed(self, *numbers: int) -> tuple[int, ...]:
        """The numbers, which no other process has a say in."""
        return numbers

    def new_mean(self, number: int) -> Mean:
        """Room for the running mean of that number."""
        return Mean(self.room(), self.statistics_room() if number == MEAN else None)

    def room(self) -> Fields:
        """Arrays for the fields of all nodes, where the driver runs."""
        varying = () if self.lattice.rheology is None else ((),)
        return Fields(*(self.empty((*row, self.lattice.count)) for row in ((), (3,), (6,), *varying)))

    def statistics_room(self) -> Statistics:
        """Arrays for the statistics of all nodes, where the driver runs."""
        return Statistics(*(self.empty((self.lattice.count,)) for _ in fields(Statistics)))

    @abstractmethod
    def memory_bytes(self) -> int:
        """Memory that the run takes where it runs, up to now."""

    @abstractmethod
    def begin(self, boundary_values: NDArray[np.float64]) -> None:
        """Take the boundary values of the next steps."""

    @abstractmethod
    def collide(self, even: bool, first: int, last: int) -> None:
        """Stream and collide the nodes of a range of rows; `first` is a multiple of the alignment.

        Parameters
        ----------
        even : whether the step is an even one, see :mod:`solver.kernels.streaming`.
        first, last : the rows first, first + 1, ..., last - 1.
        """

    @abstractmethod
    def feedback_sums(self, even: bool) -> Callable[[], Limbs]:
        """Begin to find limbs of what pressures and flows follow from; what gives them, (M, 3): the flow that entered
        through each outlet with feedback when openings were treated last, and then drho over the nodes of each such
        inlet, of a step in which these have collided.
        """

    @abstractmethod
    def apply_feedback(self, step: int, sums: Limbs) -> None:
        """Write the pressures and flows that follow from the whole domain's `sums`, in limbs, into the boundary values
        of a step.
        """

    @abstractmethod
    def treat_openings(self, step: int, even: bool) -> None:
        """Treat inlets and outlets under the boundary values of a step, counted from :meth:`begin`."""

    @abstractmethod
    def treat_walls(self, step: int, even: bool) -> None:
        """Treat wall links under the boundary values of a step."""

    @abstractmethod
    def mass_added(self, even: bool) -> Limbs:
        """Limbs of the mass that they added, (3,)."""

    @abstractmethod
    def correct_mass(self, even: bool, added: Limbs | None = None) -> None:
        """Take the mass that walls added in a step off the wall nodes; `added` in the whole domain, of which this may
        be a part, in words.
        """

    @abstractmethod
    def write_velocity(self) -> None:
        """Write the velocity of the nodes into `node_velocity`."""

    @abstractmethod
    def write_slip(self) -> None:
        """Keep what the velocity of walls adds, which follows from it."""

    @abstractmethod
    def write_fluxes(self) -> None:
        """Write the fluxes that follow from these into `fluxes`."""

    @abstractmethod
    def write_momentum(self) -> None:
        """Keep the momentum that follows from these."""

    @abstractmethod
    def add_momentum(self) -> None:
        """Add that momentum to the populations, after a pair of steps."""

    @abstractmethod
    def buffers(self, name: str, outgoing: Mapping[int, Places], incoming: Mapping[int, Places]) -> Buffers:
        """Buffers of an array of the driver, ``populations``, ``node_velocity`` or ``fluxes``, by places in it as it
        lies in memory.

        Parameters
        ----------
        name : of the array.
        outgoing, incoming : places in it, by the subdomain that they go to and come from.
        """

    @abstractmethod
    def read(self, slots: slice) -> NDArray[Any]:
        """Populations in a range of slots."""

    @abstractmethod
    def write(self, slots: slice, values: NDArray[Any]) -> None:
        """Replace populations in a range of slots."""

    @abstractmethod
    def ask_volume(self) -> None:
        """Begin to read the volume that passed through openings with feedback."""

    @abstractmethod
    def volume(self) -> NDArray[np.float64]:
        """What was read last."""

    @abstractmethod
    def observe(self, keep: bool) -> None:
        """Begin to observe all nodes and openings; `keep`: changes are counted from this state on."""

    @abstractmethod
    def found(self) -> Found:
        """Results of the last observation."""

    @abstractmethod
    def at_bounds(self) -> NDArray[np.int64]:
        """Number of nodes whose tau is at its lower and its upper bound, (2,)."""

    @abstractmethod
    def empty(self, shape: tuple[int, ...]) -> Any:
        """An array of numbers, where the driver runs."""

    @abstractmethod
    def read_fields(self, fields: Fields) -> None:
        """Write the present fields into such arrays."""

    @abstractmethod
    def fold(self, number: int, mean: Mean) -> None:
        """Take the present state into the mean of that number, with the share 1/count of a count that has it."""

    @abstractmethod
    def held(self) -> dict[str, Any]:
        """Arrays that the next steps and observations depend on, where the driver runs, by name; means are apart."""

    @abstractmethod
    def here(self, array: Any) -> NDArray[Any]:
        """A copy of an array of the driver, here."""

    @abstractmethod
    def store(self, array: Any, values: NDArray[Any]) -> None:
        """Put numbers into an array of the driver."""

    @abstractmethod
    def fetch(self, held: Held) -> Held:
        """A copy of such arrays, here."""
