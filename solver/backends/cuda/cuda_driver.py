# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver: one thread a node, or a link, calling the same functions of one node as the CPU driver.

Sums do not depend on the order of their terms, so that the same input gives the same bits however threads share it out.
Nothing but sums and extremes, and the few numbers at openings, comes back to the host before a snapshot.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.buffers import Buffers, Places
from solver.backends.cuda.boundary_pass import Boundaries, make_boundary_pass, outlets_first
from solver.backends.cuda.bundle import Bundle, PinnedMemory
from solver.backends.cuda.device import (
    OBSERVATION_BLOCKS,
    SUM_THREADS,
    Queue,
    blocks_of,
    cuda,
    fitting_threads,
    node_registers,
    require_device,
)
from solver.backends.cuda.device_arrays import DeviceLatticeDriver
from solver.backends.cuda.device_buffers import DeviceBuffers
from solver.backends.cuda.feedback import Feedback
from solver.backends.cuda.isotropy_pass import make_isotropy_pass
from solver.backends.cuda.sampling import make_count, make_reading
from solver.backends.cuda.steps import make_steps
from solver.backends.fields import Fields, Mean, Statistics, held_bytes
from solver.backends.lattice import Lattice
from solver.backends.observation import EXTREMES, SUMS, Found
from solver.domain.addresses import address_runs, bit_words, runs_by_group
from solver.kernels.isotropy import PAIRS
from solver.kernels.storage import FP16, NATIVE
from solver.kernels.sums import LIMBS, Limbs

STEP = "step: "
"""Begins the names of what steps launch again."""


def at_once(count: int) -> list[int]:
    """How many of so many pairs of steps a device is asked for at once, one time after the other."""
    return [min(PAIRS, count - first) for first in range(0, count, PAIRS)]


class CudaDriver(DeviceLatticeDriver):
    """Runs a lattice on a CUDA device; see :class:`solver.backends.lattice_driver.LatticeDriver`.

    Attributes
    ----------
    added : limbs of the mass that walls added in the last even (True) and odd step, (LIMBS,) on the device.
    feedback : openings whose pressure or flow follows from the flow.
    threads : of a block that collides.

    Parameters
    ----------
    lattice : what it runs.
    """

    def __init__(self, lattice: Lattice) -> None:
        self.device = require_device()
        super().__init__(lattice)
        real, send = lattice.real, cuda.to_device
        storage = FP16 if lattice.fp16 else NATIVE
        self.populations = send(np.zeros(lattice.slots, np.float16 if lattice.fp16 else real))
        runs = address_runs(lattice.addresses, lattice.stride)
        self._runs = tuple(send(array) for array in (runs.offset, *runs_by_group(runs)))
        self._even, self._odd = make_steps(lattice.collision, storage, real, *lattice.models)
        self._rates, omega, blend = lattice.relaxation()
        self._omega, self._blend = send(omega), send(blend)
        self._fields, self._gather, self._raise, self._observe = make_reading(storage, real, *lattice.models)
        self._count = make_count()
        walls, into, out = lattice.walls, lattice.inlets, lattice.outlets
        self._boundaries = Boundaries.of(lattice)
        self._treat, self._subtract, self._slip_pass = make_boundary_pass(
            storage, real, lattice.equilibrium, walls.terms, lattice.q
        )
        self._slip = self._boundaries.coefficients[-1] if walls.moving else send(np.zeros(0, real))
        self._wall_nodes = send(walls.nodes)
        correction_bits = np.zeros(lattice.stride, np.bool_)
        correction_bits[walls.nodes] = True
        self._correction_bits = send(bit_words(correction_bits))
        most = max(last - first for first, last in lattice.ranges)
        self._observation_blocks = min(OBSERVATION_BLOCKS, max(1, blocks_of(most, SUM_THREADS)))
        partials = self._observation_blocks * len(lattice.ranges)
        self.queue = Queue()
        self.share_out()
        self._mass = {even: Bundle(self.queue.stream, np.zeros(LIMBS, np.int64)) for even in (True, False)}
        self.added = {even: bundle.arrays[0] for even, bundle in self._mass.items()}
        self._flux = [send(np.zeros(len(links.slot), real)) for links in (into, out)]
        self._probe_node = send(lattice.probe_node)
        self._observed = Bundle(
            self.queue.stream,
            np.zeros((partials, *SUMS), np.int64),
            np.zeros((partials, EXTREMES)),
            np.zeros(len(into.slot), real),
            np.zeros(len(out.slot), real),
            np.zeros(len(lattice.probe_node)),
        )
        self._sums, self._extremes, *self._at_openings = self._observed.arrays
        self._script = Bundle(self.queue.stream, np.zeros(1, np.int64), np.zeros(0, real))
        self.feedback = Feedback(lattice, storage, self.queue)
        self._one, self._counts = send(np.ones(1, np.int64)), dict[int, Any]()
        self._before, self._pinned = send(np.zeros((3, lattice.count), real)), PinnedMemory(self.queue.stream)
        self._wide = send(lattice.wide)
        self._prepare_isotropy(storage)

    def _prepare_isotropy(self, storage: str) -> None:
        """Put what the force of :mod:`solver.kernels.isotropy` needs on the device."""
        lattice, real, send = self.lattice, self.lattice.real, cuda.to_device
        self.node_velocity = send(np.zeros((3, lattice.corrected_rows), real))
        self.fluxes = send(np.zeros((3, lattice.flux_rows), real))
        stencils = lattice.stencils
        self._beside, self._ends, self._times = send(stencils.beside), send(stencils.ends), send(stencils.times)
        self._momentum = send(np.zeros((3, lattice.stencils.count), real))
        self._velocity_pass, self._flux_pass, self._momentum_pass, self._add_pass = make_isotropy_pass(
            storage, real, lattice.equilibrium, lattice.rheology is not None, lattice.q
        )

    def share_out(self, threads: int | None = None) -> None:
        """Let a block that collides have so many threads; as many as fit best if not given.

        Raises
        ------
        StageError
            If so many do not fit on a multiprocessor.
        """
        registers = max(*node_registers(self.lattice.real, self.lattice.rheology is not None, self.lattice.q))
        self.threads, resident = fitting_threads(registers, threads)
        each = f"{registers} registers each at most"
        self.layout = f"{self.threads} threads a block, {each}, {resident} a multiprocessor"
        self.queue.forget(STEP)

    def memory_bytes(self) -> int:
        """Memory that the run takes on the device, up to now."""
        return held_bytes({name: value for name, value in vars(self).items() if value is not self.lattice})

    def begin(self, boundary_values: NDArray[np.float64]) -> None:
        """Take the boundary values of the next steps, of which the device counts off the rows."""
        rows, step_counter = self.lattice.script(boundary_values), np.array([-1])
        if self._script.arrays[1].size < rows.size:
            self._script = Bundle(self.queue.stream, step_counter, rows.ravel())
            self.queue.forget(STEP)
        else:
            self._script.replace(step_counter, rows)
        self._step_counter, self._rows = self._script.arrays

    def pairs(self, first: int, count: int) -> None:
        """Run so many pairs of an even and an odd step, of which the device counts the number."""
        for many in at_once(count):
            self.queue.replay(f"{STEP}{many} pairs", partial(self._pairs, many))

    def _pairs(self, count: int) -> None:
        """Pairs in as few launches as there can be: each step takes off what the walls of the one before added, and a
        pair begins with the momentum due after the one before, but for halves, which would be rounded once less.
        """
        pending, fuses = False, self.lattice.isotropic and not self.lattice.fp16
        for number in range(2 * count):
            even, last = number % 2 == 0, number == 2 * count - 1
            self._collide(even, 0, self.lattice.count, pending, fuses and even and number > 0)
            if self.lattice.has_feedback:
                self.add_up_feedback(even)
                self.feedback.apply(self._rows, self._step_counter)
            self._treat_boundaries(even, 0, self._boundaries.ends[2])
            pending = bool(len(self.lattice.walls.slot))
            if self.lattice.isotropic and not even and (last or not fuses):
                self.add_momentum()
        if pending:
            self.correct_mass(False)

    def collide(self, even: bool, first: int, last: int, pending: bool = False) -> None:
        """Stream and collide the nodes of a range of rows; where that is `pending`, first take off what walls added in
        the step before. The other parameters are those of :meth:`LatticeDriver.collide`.
        """
        if last > first:
            name = f"{STEP}{even}, {first} to {last}, pending {pending}"
            self.queue.replay(name, lambda: self._collide(even, first, last, pending))

    def _collide(self, even: bool, first: int, last: int, pending: bool, due: bool = False) -> None:
        """See :meth:`collide`; where the momentum of the force of isotropy is `due`, an even step adds it first."""
        lattice = self.lattice
        corrected = lattice.walls.mass_correction_nodes if pending else 0
        mass_correction = self._correction_bits, self.added[not even], corrected
        sums = self._step_counter, self.added[even]
        nodes = first, last, lattice.force, self._rates, self._omega, self._blend
        step = self._even if even else self._odd
        launch = step[blocks_of(last - first, self.threads), self.threads, self.queue.stream]
        launch(self.populations, lattice.stride, self._runs, *sums, mass_correction, (self._momentum, due), *nodes)

    @property
    def _stored(self) -> tuple[Any, int, Any]:
        """The populations, their stride and the body force, which all that reads populations takes."""
        return self.populations, self.lattice.stride, self.lattice.force

    def add_up_feedback(self, even: bool) -> None:
        """Add up what entered through each outlet with feedback in the last step, and drho at each such inlet."""
        self.feedback.add_up(self.populations, self._runs, self.lattice.stride, even, self._flux[1])

    def feedback_sums(self, even: bool) -> Callable[[], Limbs]:
        """Begin to bring limbs of these sums here, beside what the device is asked for next."""
        self.queue.replay(f"{STEP}feedback, {even}", lambda: self.add_up_feedback(even))
        return self.feedback.fetch()

    def apply_feedback(self, step: int, sums: Limbs | None = None) -> None:
        """Write what follows into the boundary values of a step, of sums on the device if none are given."""
        if sums is not None:
            self.feedback.take(sums)
        self.queue.replay(f"{STEP}rules", lambda: self.feedback.apply(self._rows, self._step_counter, True))

    def treat_openings(self, step: int, even: bool) -> None:
        """Treat inlets and outlets under the boundary values of a step, and the wall links of nodes at outlets."""
        if last := self._boundaries.ends[1]:
            self.queue.replay(f"{STEP}openings, {even}", lambda: self._treat_boundaries(even, 0, last))

    def treat_walls(self, step: int, even: bool) -> None:
        """Treat the other wall links."""
        _, first, last = self._boundaries.ends
        if last > first:
            self.queue.replay(f"{STEP}walls, {even}", lambda: self._treat_boundaries(even, first, last))

    def treat_links(self, even: bool) -> None:
        """Treat openings and all wall links in one launch."""
        self.queue.replay(f"{STEP}links, {even}", lambda: self._treat_boundaries(even, 0, self._boundaries.ends[2]))

    def _treat_boundaries(self, even: bool, first: int, last: int) -> None:
        """Treat openings and wall links by the numbers of their blocks."""
        lattice, these = self.lattice, self._boundaries
        into, out = self._flux
        values = self._rows, self._step_counter, lattice.width
        openings = these.outlets, these.outlet_links, out, these.inlets, into
        walls = these.wall_slot, these.source_slots[even], these.coefficients, self.added[even]
        links = *openings, *walls
        for begin, count in these.launches(first, last):
            treat = self._treat[count, SUM_THREADS, self.queue.stream]
            treat(self.populations, these.ends, begin, self._runs, lattice.stride, even, lattice.force, *values, *links)

    def mass_added(self, even: bool) -> Limbs:
        """Limbs of the mass that all wall links added, here."""
        self._mass[even].fetch()
        return np.asarray(self._mass[even].here()[0])

    def correct_mass(self, even: bool, added: Limbs | None = None) -> None:
        """Take mass that was added off the wall nodes."""
        if added is not None:
            self._mass[even].replace(added)
        walls, of = self.lattice.walls, self.added[even]
        taken = self.populations, self._wall_nodes, of, walls.mass_correction_nodes
        self.queue.replay(f"{STEP}mass, {even}", lambda: self._over(len(walls.nodes), self._subtract, *taken))

    def renew_corrections(self) -> None:
        """Find the force of :mod:`solver.kernels.isotropy` and the velocity of walls again, where they act."""
        self.queue.replay("renew corrections", super().renew_corrections)
        self.since = 0

    def write_velocity(self) -> None:
        """Write the velocity of the nodes into `node_velocity`."""
        count = self.lattice.count
        self._over(count, self._velocity_pass, *self._stored, count, self.node_velocity)

    def write_slip(self) -> None:
        """Keep what the velocity of walls adds, which follows from it."""
        self._over(len(self._slip), self._slip_pass, self.node_velocity, *self._boundaries.parabolic, self._slip)

    def write_fluxes(self) -> None:
        """Write the fluxes that follow from these into `fluxes`."""
        count = self.lattice.count
        self._over(
            count, self._flux_pass, self.node_velocity, self._beside, count, self._rates, self._omega, self.fluxes
        )

    def write_momentum(self) -> None:
        """Keep the momentum that follows from these."""
        count = self.lattice.count
        self._over(count, self._momentum_pass, self.fluxes, self._ends, self._times, count, self._momentum)

    def add_momentum(self) -> None:
        """Add that momentum to the populations, after a pair of steps."""
        count = self.lattice.count
        self._over(count, self._add_pass, self.populations, self.lattice.stride, self._momentum, count)

    def buffers(self, name: str, outgoing: Mapping[int, Places], incoming: Mapping[int, Places]) -> Buffers:
        """Buffers of an array; the parameters are those of :meth:`LatticeDriver.buffers`."""
        array = getattr(self, name)
        return DeviceBuffers(array.reshape(array.size), outgoing, incoming, self.queue)

    def ask_volume(self) -> None:
        """Begin to read the volume that passed through openings with feedback."""
        self.feedback.ask_volume()

    def volume(self) -> NDArray[np.float64]:
        """What was read last."""
        return self.feedback.volume()

    def observe(self, keep: bool) -> None:
        """Begin to observe all nodes and openings; one copy brings the results here."""
        self.queue.replay(f"observe, keep {keep}", lambda: self._launch_observation(keep))
        self._observed.fetch()

    def found(self) -> Found:
        """Results of the last observation."""
        return Found(*self._observed.here())

    def _launch_observation(self, keep: bool) -> None:
        at_openings, found_there = (self._probe_node, *self._flux), tuple(self._at_openings)
        observe = self._observe[self._observation_blocks, SUM_THREADS, self.queue.stream]
        for k, (first, last) in enumerate(self.lattice.ranges):
            mine = slice(k * self._observation_blocks, (k + 1) * self._observation_blocks)
            found = self._sums[mine], self._extremes[mine]
            observe(*self._stored, self._before, self._wide, keep, first, last, *found, at_openings, found_there)

    def at_bounds(self) -> NDArray[np.int64]:
        """Number of nodes whose tau is at its lower and its upper bound."""
        counts = cuda.to_device(np.zeros(2, np.int64))
        if self.lattice.rheology:
            count = self.lattice.count
            self._over(count, self._count, self._omega, count, self._rates[2], self._rates[3], counts)
        return np.asarray(counts.copy_to_host())

    def transient_fields(self) -> Fields:
        """Fields of all nodes, in page-locked memory that the next ones take."""
        fields = self.room()
        self.read_fields(fields)
        return self._pinned.fetch(fields)

    def read_fields(self, fields: Fields) -> None:
        """Write the present fields into arrays on the device."""
        self._accumulate(self._fields, self._one, fields)

    def fold(self, number: int, mean: Mean) -> None:
        """Take the present state into a mean, which the device counts for itself."""
        count, restart = self._counts[number], mean.count == 1

        def work() -> None:
            self._raise[1, 1, self.queue.stream](count, restart)
            self._accumulate(self._gather if mean.statistics else self._fields, count, *mean.held())

        self.queue.replay(f"mean {number}, again {restart}", work)

    def _accumulate(self, kernel: Any, count: Any, *into: Fields | Statistics) -> None:
        arrays = (tuple(each.arrays()) for each in into)
        relaxation = self._rates, self._omega, self._blend
        self._over(self.lattice.count, kernel, *self._stored, *relaxation, count, *arrays)

    def held(self) -> dict[str, Any]:
        """Arrays on the device that the next steps and observations depend on. Between pairs of steps no mass
        correction is pending.
        """
        into, out = self._flux
        return {
            "populations": self.populations,
            "omega": self._omega,
            "before": self._before,
            "pressure": self.feedback.outlet_state,
            "admitted": self.feedback.admitted,
            "volume_out": self.feedback.volumes[0],
            "volume_in": self.feedback.volumes[1],
            "inlet_flux": into,
            "outlet_flux": out,
            "momentum": self._momentum,
            "slip": self._slip,
        }

    def new_mean(self, number: int) -> Mean:
        """Room for a mean, of which the device counts the states."""
        self._counts[number] = cuda.to_device(np.zeros(1, np.int64))
        return super().new_mean(number)

    def state(self) -> dict[str, NDArray[Any]]:
        """All that the next steps, observations and means depend on; what walls add is held in the order in which links
        are treated here.
        """
        state = super().state()
        if self._slip.size:
            held, state["slip"] = state["slip"], np.empty_like(state["slip"])
            state["slip"][self._order_of_walls()] = held
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        if self._slip.size:
            state = {**state, "slip": np.asarray(state["slip"])[self._order_of_walls()]}
        super().restore(state)
        for number, mean in self.means.items():
            self._counts[number].copy_to_device(np.array([mean.count]))

    def _order_of_walls(self) -> NDArray[np.intp]:
        """Wall links in the order in which they are treated here."""
        return outlets_first(self.lattice.walls, self.lattice.outlets, self.lattice.stride)[0]
