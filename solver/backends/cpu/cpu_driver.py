# SPDX-License-Identifier: Apache-2.0
"""The CPU driver. Threads share out nodes and links, and sums do not depend on the order of their terms: nor do results
on threads.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from solver.backends.buffers import Buffers, HostBuffers, Places
from solver.backends.cost import Device
from solver.backends.cpu.blocks import chunks
from solver.backends.cpu.isotropy_pass import make_isotropy_pass
from solver.backends.cpu.opening_pass import make_opening_pass
from solver.backends.cpu.sampling import make_reading
from solver.backends.cpu.simd import make_simd
from solver.backends.cpu.steps import make_steps
from solver.backends.cpu.wall_pass import make_wall_pass
from solver.backends.fields import Fields, Held, Mean, Statistics, held_bytes
from solver.backends.lattice import Lattice
from solver.backends.lattice_driver import LatticeDriver
from solver.backends.observation import EXTREMES, SUMS, Found
from solver.domain.addresses import address_runs, row_stride
from solver.kernels.storage import FP16_BITS, NATIVE
from solver.kernels.sums import LIMBS, Limbs, join, limbs_by_group
from solver.runtime.memory import available_bytes

CORE_UPDATES_S, STEP_S, COMPILE_S = 24e6, 4e-5, 25.0
"""For the forecast, about: updates a second on a core (47e6 on 2 for 80 thousand nodes, 65e6 to 79e6 for 2 million),
time that a step takes however few the nodes, compilation where none is kept."""
CORNERS = 2.2
"""Time of a node with 27 populations over that with 19, as measured on two cores: 1.7 to 2.0, and 1.15 to 1.2
times as much with the force of `solver/kernels/isotropy.py`."""


def cpu_device(threads: int | None = None) -> Device:
    """The cores of this machine, as many as Numba uses unless a number is given."""
    updates_s = CORE_UPDATES_S * (threads or get_num_threads())
    return Device("CPU", available_bytes(), updates_s, STEP_S, COMPILE_S, copies=1, corners=CORNERS)


class CpuDriver(LatticeDriver):
    """Runs a lattice on the cores of this machine; see :class:`solver.backends.lattice_driver.LatticeDriver`."""

    device = "CPU"
    on_host = True

    def __init__(self, lattice: Lattice) -> None:
        self._runs = address_runs(lattice.addresses, lattice.stride)
        addresses = lattice.addresses.reshape(lattice.q - 1, -1)
        self._inlet_node, self._inlet_opening = lattice.nodes_of_inlet_feedback
        self._outlet_addresses, self._inlet_addresses = (
            addresses[:, nodes].ravel() for nodes in (lattice.outlets.node, self._inlet_node)
        )
        super().__init__(replace(lattice, addresses=self._outlet_addresses[:0]))  # the table is not needed any more
        storage, real = FP16_BITS if lattice.fp16 else NATIVE, lattice.real
        self.populations: NDArray[Any] = np.zeros(lattice.slots, np.uint16 if lattice.fp16 else real)
        self._even, self._odd = make_steps(lattice.collision, storage, real, *lattice.models)
        self.layout = f"{get_num_threads()} threads, {make_simd(storage, real).width} nodes at once"
        self._rates, self._omega, self._blend = lattice.relaxation()
        if len(self._blend) and lattice.rheology:  # that of the lattice is not needed beside it
            rheology = replace(lattice.rheology, blend=self._blend[: lattice.count])
            self.lattice = replace(self.lattice, rheology=rheology)
        walls = lattice.walls
        self._treat_walls, self._subtract, self._slip_pass = make_wall_pass(storage, real, *walls.terms)
        self._source_slots = {even: tuple(walls.source_slots(even)) for even in (True, False)}
        self._coefficients = tuple(each.copy() for each in walls.coefficients())
        self._slip = self._coefficients[-1] if walls.moving else np.zeros(0, real)
        opening_pass = make_opening_pass(storage, real, lattice.equilibrium, lattice.q)
        self._inlets, self._outlets, self._beside = opening_pass[:3]
        self._outlet_feedback, self._density, self._inlet_feedback, self._probe = opening_pass[3:]
        self._fields, self._gather, self._observe = make_reading(storage, real, *lattice.models)
        self._added = np.zeros((chunks(len(lattice.walls.slot)), LIMBS), np.int64)
        self._before = np.zeros((3, lattice.count), dtype=lattice.real)
        self._inlet_flux = np.zeros(len(lattice.inlets.slot), dtype=lattice.real)
        self._outlet_flux = np.zeros(len(lattice.outlets.slot), dtype=lattice.real)
        self._inlet_drho = np.zeros(len(self._inlet_node), dtype=lattice.real)
        self._state = lattice.outlet_feedback.start.copy()
        self._admitted = lattice.inlet_feedback.start.copy()
        self._volume = np.zeros(len(self._state) + len(self._admitted))
        self.node_velocity = np.zeros((3, lattice.corrected_rows), lattice.real)
        self.fluxes = np.zeros((3, lattice.flux_rows), lattice.real)
        self._momentum = np.zeros((3, lattice.stencils.count), lattice.real)
        self._velocity_pass, self._flux_pass, self._momentum_pass, self._add_pass = make_isotropy_pass(
            storage, real, lattice.equilibrium, lattice.rheology is not None, lattice.q
        )
        self._probe_drho = np.zeros(len(lattice.probe_node))

    def memory_bytes(self) -> int:
        """Memory that the run takes here, up to now."""
        return held_bytes(vars(self))

    def begin(self, boundary_values: NDArray[np.float64]) -> None:
        """Take the boundary values of the next steps."""
        self._boundary_values = self.lattice.script(boundary_values)

    def collide(self, even: bool, first: int, last: int) -> None:
        """Stream and collide the nodes of a range of rows, and the padding after it.

        The parameters are those of :meth:`solver.backends.lattice_driver.LatticeDriver.collide`.
        """
        last = row_stride(last) if first < last else first
        nodes = (first, last, self.lattice.force, self._rates, self._omega, self._blend)
        if even:
            self._even(self.populations, self.lattice.stride, *nodes)
        else:
            self._odd(self.populations, self._runs, *nodes)

    @property
    def _stored(self) -> tuple[Any, int, Any]:
        """The populations, their stride and the body force, which all that reads populations takes."""
        return self.populations, self.lattice.stride, self.lattice.force

    def feedback_sums(self, even: bool) -> Callable[[], Limbs]:
        """Limbs of what entered through each outlet with feedback last, and of drho at each such inlet, at hand."""
        found = self._feedback_sums(even)
        return lambda: found

    def _feedback_sums(self, even: bool) -> Limbs:
        lattice, inlets = self.lattice, self.lattice.inlet_feedback.opening
        flux = limbs_by_group(self._outlet_flux, lattice.outlets.opening, lattice.openings)
        flux = flux[lattice.outlet_feedback.opening]
        if not len(inlets):
            return flux
        at_inlets = self._inlet_addresses, lattice.stride, even, self._inlet_node, self._inlet_drho
        self._density(self.populations, *at_inlets)
        drho = limbs_by_group(self._inlet_drho, self._inlet_opening, lattice.openings)
        return np.concatenate((flux, drho[inlets]))

    def apply_feedback(self, step: int, sums: Limbs) -> None:
        """Write the pressures and flows that follow into the boundary values of a step."""
        out, into, values = self.lattice.outlet_feedback, self.lattice.inlet_feedback, self._boundary_values[step]
        outlets = len(out.opening)
        self._outlet_feedback(sums[:outlets], out.column, out.rule, self._state, self._volume[:outlets], values)
        if len(into.opening):
            self._inlet_feedback(sums[outlets:], into.column, into.rule, self._admitted, self._volume[outlets:], values)

    def treat_openings(self, step: int, even: bool) -> None:
        """Treat inlets and outlets under the boundary values of a step."""
        lattice, boundary_values = self.lattice, self._boundary_values[step]
        inlets, out = lattice.inlets, lattice.outlets
        # outlets first read all of a node's populations as they left it, wall links among them: before the walls
        force, stride, f = lattice.force, lattice.stride, self.populations
        if len(out.node):  # loops over nothing would be compiled
            where, nodes = (self._outlet_addresses, stride, even), (out.node, out.first)
            self._outlets(f, *where, *nodes, out.arrays, force, boundary_values, self._outlet_flux)
        if len(inlets.slot):
            given = inlets.column, inlets.rows, inlets.weight, inlets.part, boundary_values
            self._inlets(f, inlets.slot, *given, self._inlet_flux)

    def treat_walls(self, step: int, even: bool) -> None:
        """Treat wall links."""
        slot, source_slots, motion = self.lattice.walls.slot, self._source_slots[even], self._boundary_values[step, -1]
        self._treat_walls(self.populations, slot, source_slots, self._coefficients, motion, self._added)

    def mass_added(self, even: bool) -> Limbs:
        """Limbs of the mass that they added, without what belongs to openings."""
        added: Limbs = self._added.sum(axis=0)
        for flux, links in ((self._inlet_flux, self.lattice.inlets), (self._outlet_flux, self.lattice.outlets)):
            if len(flux):
                self._beside(flux, links.part, added)
        return added

    def correct_mass(self, even: bool, added: Limbs | None = None) -> None:
        """Take mass that was added off the wall nodes."""
        walls, limbs = self.lattice.walls, self.mass_added(even) if added is None else added
        self._subtract(
            self.populations, walls.nodes, self.lattice.real(join(*limbs.tolist()) / walls.mass_correction_nodes)
        )

    def write_velocity(self) -> None:
        """Write the velocity of the nodes into `node_velocity`."""
        self._velocity_pass(*self._stored, self.lattice.count, self.node_velocity)

    def write_slip(self) -> None:
        """Keep what the velocity of walls adds, which follows from it."""
        parabolic = self.lattice.parabolic
        self._slip_pass(self.node_velocity, parabolic.rows, parabolic.weights, parabolic.share, self._slip)

    def write_fluxes(self) -> None:
        """Write the fluxes that follow from these into `fluxes`."""
        lattice = self.lattice
        self._flux_pass(
            self.node_velocity, lattice.stencils.beside, lattice.count, self._rates, self._omega, self.fluxes
        )

    def write_momentum(self) -> None:
        """Keep the momentum that follows from these."""
        stencils = self.lattice.stencils
        self._momentum_pass(self.fluxes, stencils.ends, stencils.times, self.lattice.count, self._momentum)

    def add_momentum(self) -> None:
        """Add that momentum to the populations, after a pair of steps."""
        self._add_pass(self.populations, self.lattice.stride, self._momentum, self.lattice.count)

    def buffers(self, name: str, outgoing: Mapping[int, Places], incoming: Mapping[int, Places]) -> Buffers:
        """Buffers of an array; the parameters are those of :meth:`LatticeDriver.buffers`."""
        return HostBuffers(getattr(self, name).reshape(-1), outgoing, incoming)

    def read(self, slots: slice) -> NDArray[Any]:
        """Populations in a range of slots."""
        return np.array(self.populations[slots])

    def write(self, slots: slice, values: NDArray[Any]) -> None:
        """Replace populations in a range of slots."""
        self.populations[slots] = values

    def ask_volume(self) -> None:
        """Read the volume that passed through openings with feedback."""
        self._asked = self._volume.copy()

    def volume(self) -> NDArray[np.float64]:
        """What was read last."""
        return self._asked

    def observe(self, keep: bool) -> None:
        """Look at all nodes and openings."""
        lattice, done = self.lattice, 0
        partials = sum(chunks(last - first) for first, last in lattice.ranges)
        sums, extremes = np.zeros((partials, *SUMS), np.int64), np.zeros((partials, EXTREMES))
        for first, last in lattice.ranges:
            mine = slice(done, done := done + chunks(last - first))
            self._observe(*self._stored, self._before, lattice.wide, keep, first, last, sums[mine], extremes[mine])
        if len(lattice.probe_node):
            self._probe(self.populations, lattice.stride, lattice.probe_node, self._probe_drho)
        self._found = Found(sums, extremes, self._inlet_flux.copy(), self._outlet_flux.copy(), self._probe_drho)

    def found(self) -> Found:
        """Results of the last observation."""
        return self._found

    def at_bounds(self) -> NDArray[np.int64]:
        """Number of nodes whose tau is at its lower and its upper bound."""
        if self.lattice.rheology is None:
            return np.zeros(2, np.int64)
        omega = self._omega[: self.lattice.count]
        return np.array([np.count_nonzero(omega >= self._rates[3]), np.count_nonzero(omega <= self._rates[2])])

    def empty(self, shape: tuple[int, ...]) -> NDArray[np.floating]:
        """An array of numbers."""
        return np.empty(shape, self.lattice.real)

    def fields(self) -> Fields:
        """Fields of all nodes, in arrays that nothing else writes into: they need not be copied."""
        fields = self.room()
        self.read_fields(fields)
        return fields

    def read_fields(self, fields: Fields) -> None:
        """Write the present fields into arrays."""
        self._accumulate(self._fields, 1.0, fields)

    def fold(self, number: int, mean: Mean) -> None:
        """Take the present state into a mean."""
        self._accumulate(self._gather if mean.statistics else self._fields, 1 / mean.count, *mean.held())

    def _accumulate(self, loop: Any, share: float, *into: Fields | Statistics) -> None:
        arrays = (tuple(each.arrays()) for each in into)
        loop(*self._stored, self._rates, self._omega, self._blend, self.lattice.real(share), *arrays)

    def held(self) -> dict[str, Any]:
        """Arrays that the next steps and observations depend on."""
        return {
            "populations": self.populations,
            "omega": self._omega,
            "before": self._before,
            "pressure": self._state,
            "admitted": self._admitted,
            "volume_out": self._volume[: len(self._state)],
            "volume_in": self._volume[len(self._state) :],
            "inlet_flux": self._inlet_flux,
            "outlet_flux": self._outlet_flux,
            "momentum": self._momentum,
            "slip": self._slip,
        }

    def here(self, array: NDArray[Any]) -> NDArray[Any]:
        """A copy of an array."""
        return array.copy()

    def store(self, array: NDArray[Any], values: NDArray[Any]) -> None:
        """Put numbers into an array."""
        array[...] = values

    def fetch(self, held: Held) -> Held:
        """A copy of arrays, which the next reading leaves as they are."""
        return type(held)(*(array.copy() for array in held.arrays()))
