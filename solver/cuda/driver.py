"""The CUDA driver: one thread a node, or a link, calling the same functions of one node as the CPU driver.

Sums do not depend on the order of their terms, so that the same input gives the same bits however threads share it out.
Nothing but sums and extremes, and the few numbers at openings, comes back to the host before a snapshot.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.cuda.averages import make_fold
from solver.cuda.device import SUM_THREADS, THREADS, blocks, cuda, partials, require_device
from solver.cuda.opening_pass import make_control_pass, make_opening_pass
from solver.cuda.reading import make_count, make_exchange, make_reading
from solver.cuda.steps import make_steps
from solver.cuda.wall_pass import make_wall_pass
from solver.driver import EXTREMES, SUMS, Fields, LatticeDriver, Tally, held_bytes
from solver.lattice import Lattice
from solver.storage import HALF, PLAIN
from solver.sums import WORDS


class CudaDriver(LatticeDriver):
    """Runs a lattice on a CUDA device; see :class:`solver.driver.LatticeDriver`."""

    def __init__(self, lattice: Lattice) -> None:
        self.device = require_device()
        super().__init__(lattice)
        real, send = lattice.real, cuda.to_device
        storage = HALF if lattice.halves else PLAIN
        self.populations = send(np.zeros(lattice.slots, np.float16 if lattice.halves else real))
        self._addresses = send(lattice.addresses)
        self._even, self._odd = make_steps(lattice.collision, storage, real, *lattice.models)
        self._rates, omega, blend = lattice.relaxation()
        self._omega, self._blend = send(omega), send(blend)
        self._interpolate, self._add_up, self._subtract = make_wall_pass(storage, real)
        self._inlets, self._outlets, self._probe = make_opening_pass(storage, real, lattice.equilibrium)
        self._fields, self._observe, self._add_up_tally = make_reading(storage, real, *lattice.models)
        self._count = make_count()
        self._fold = make_fold()
        self._read, self._write = make_exchange()
        walls, into, out, control = lattice.walls, lattice.inlets, lattice.outlets, lattice.control
        self._wall_arrays = [send(array) for array in (walls.slot, walls.inside, walls.upstream)]
        self._wall_coefficients = [send(array) for array in (walls.a, walls.b, walls.c, walls.s)]
        self._wall_nodes = send(walls.nodes)
        self._wall_sums = send(np.zeros((partials(len(walls.slot)), WORDS), np.int64))
        self._added = send(np.zeros(WORDS, np.int64))
        self._inlet_arrays = [send(array) for array in (into.slot, into.column, into.rows, into.weight)]
        self._outlet_arrays = [
            send(array) for array in (out.node, out.first, out.slot, out.column, out.normal, out.velocity, out.weight)
        ]
        self._inlet_flux, self._outlet_flux = send(np.zeros(len(into.slot), real)), send(np.zeros(len(out.slot), real))
        self._add_up_flux, self._control = make_control_pass(real)
        self._control_arrays = [send(array) for array in (control.column, control.rule, control.start)]
        by_outlet = np.argsort(out.opening, kind="stable")
        begins, ends = (np.searchsorted(out.opening[by_outlet], control.opening, side) for side in ("left", "right"))
        self._controlled_links = [
            send(np.concatenate([by_outlet[a:b] for a, b in zip(begins, ends, strict=True)] or [by_outlet[:0]])),
            send(np.append(0, np.cumsum(ends - begins))),
        ]
        self._controlled_flux = send(np.zeros((len(control.opening), WORDS), np.int64))
        self._probe_node, self._probe_drho = send(lattice.probe_node), send(np.zeros(len(lattice.probe_node)))
        self._before = send(np.zeros((3, lattice.count), real))
        parts = partials(max(last - first for first, last in lattice.ranges))
        self._sums, self._extremes = send(np.zeros((parts, *SUMS), np.int64)), send(np.zeros((parts, EXTREMES)))
        self._tally = [send(array) for array in vars(Tally.empty(1)).values()]

    def memory_bytes(self) -> int:
        """Memory that the run takes on the device, up to now."""
        return held_bytes({name: value for name, value in vars(self).items() if value is not self.lattice})

    def begin(self, conditions: NDArray[np.float64]) -> None:
        """Take the conditions of the next steps."""
        self._rows = cuda.to_device(np.ascontiguousarray(conditions, dtype=self.lattice.real).ravel())

    def collide(self, even: bool, first: int, last: int) -> None:
        """Stream and collide the nodes of a range of rows."""
        lattice = self.lattice
        addresses = () if even else (self._addresses,)
        self._over(last - first, self._even if even else self._odd, self.populations, *addresses, lattice.stride, first,
                   last, lattice.force, self._rates, self._omega, self._blend)  # fmt: skip

    def _over(self, count: int, kernel: Any, *arguments: Any) -> None:
        if count:
            kernel[blocks(count), THREADS](*arguments)

    def outlet_flux(self) -> Any:
        """Words of what entered through each controlled outlet in the last step, on the device."""
        self._add_up_flux[len(self.lattice.control.opening), SUM_THREADS](
            self._outlet_flux, *self._controlled_links, self._controlled_flux
        )
        return self._controlled_flux

    def control(self, step: int, flux: Any) -> None:
        """Put the pressures that follow from the flow into the conditions of a step."""
        words = cuda.to_device(flux) if isinstance(flux, np.ndarray) else flux
        count, row = len(self.lattice.control.opening), step * self.lattice.columns
        self._over(count, self._control, words, *self._control_arrays, self._rows, row)

    def treat_openings(self, step: int, even: bool) -> None:
        """Treat inlets and outlets under the conditions of a step."""
        lattice, f, row = self.lattice, self.populations, step * self.lattice.columns
        self._over(len(lattice.outlets.node), self._outlets, f, self._addresses, lattice.stride, even,
                   *self._outlet_arrays, lattice.force, self._rows, row, self._outlet_flux)  # fmt: skip
        self._over(len(lattice.inlets.slot), self._inlets, f, *self._inlet_arrays, self._rows, row, self._inlet_flux)

    def treat_walls(self, even: bool) -> Any:
        """Treat wall links; words of the mass that they added, on the device."""
        slot, inside, upstream = self._wall_arrays
        back, arriving = (inside, upstream) if even else (upstream, inside)
        parts = partials(len(self.lattice.walls.slot))
        self._over(parts, self._interpolate, self.populations, slot, back, arriving, *self._wall_coefficients, parts,
                   self._wall_sums)  # fmt: skip
        self._add_up[1, SUM_THREADS](self._wall_sums, parts, self._added)
        return self._added

    def share_mass(self, added: Any) -> None:
        """Take mass that was added off the wall nodes."""
        walls = self.lattice.walls
        words = cuda.to_device(added) if isinstance(added, np.ndarray) else added
        self._over(len(walls.nodes), self._subtract, self.populations, self._wall_nodes, words, walls.sharers)

    def place(self, slots: NDArray[np.integer]) -> Any:
        """Slots on the device."""
        return cuda.to_device(slots)

    def read(self, slots: Any) -> NDArray[Any]:
        """Populations in slots on the device, or in a slice of them."""
        if isinstance(slots, slice):
            values = self.populations[slots]
        else:
            values = cuda.device_array(slots.shape, self.populations.dtype)
            self._over(len(slots), self._read, self.populations, slots, values)
        here: NDArray[Any] = values.copy_to_host()
        return here

    def write(self, slots: Any, values: NDArray[Any]) -> None:
        """Replace populations in slots on the device, or in a slice of them."""
        if isinstance(slots, slice):
            self.populations[slots].copy_to_device(values)
        else:
            self._over(len(slots), self._write, self.populations, slots, cuda.to_device(values))

    def tally(self, keep: bool) -> Tally:
        """Partial sums and extremes over all nodes."""
        lattice, sums, extremes = self.lattice, [], []
        for first, last in lattice.ranges:
            parts = partials(last - first)
            self._over(parts, self._observe, self.populations, lattice.stride, lattice.force, self._before, keep, first,
                       last, parts, self._sums, self._extremes)  # fmt: skip
            self._add_up_tally[1, SUM_THREADS](self._sums, self._extremes, parts, *self._tally)
            sums.append(self._tally[0].copy_to_host())
            extremes.append(self._tally[1].copy_to_host())
        return Tally(np.concatenate(sums), np.concatenate(extremes))

    def at_bounds(self) -> NDArray[np.int64]:
        """Number of nodes whose tau is at its lower and its upper bound."""
        counts = cuda.to_device(np.zeros(2, np.int64))
        if self.lattice.rheology:
            count = self.lattice.count
            self._over(count, self._count, self._omega, count, self._rates[2], self._rates[3], counts)
        here: NDArray[np.int64] = counts.copy_to_host()
        return here

    def room(self) -> Fields:
        """Arrays for the fields of all nodes, on the device."""
        count, real = self.lattice.count, self.lattice.real
        varying = () if self.lattice.rheology is None else (count,)
        return Fields(*(cuda.device_array(shape, real) for shape in (count, (3, count), (6, count), *varying)))

    def read_fields(self, fields: Fields) -> None:
        """Write the present fields into arrays on the device."""
        viscosity = () if self.lattice.rheology else (self._omega,)
        self._over(self.lattice.count, self._fields, self.populations, self.lattice.stride, self.lattice.force,
                   self._rates, self._omega, self._blend, *fields.arrays(), *viscosity)  # fmt: skip

    def fetch(self, fields: Fields) -> Fields:
        """Arrays of the device, here."""
        return Fields(*(array.copy_to_host() for array in fields.arrays()))

    def fold(self, mean: Any, values: Any, share: float) -> None:
        """Mean += share (values - mean), on the device."""
        self._over(mean.size, self._fold, mean.reshape(mean.size), values.reshape(values.size),
                   self.lattice.real(share))  # fmt: skip

    def here(self, array: Any) -> NDArray[Any]:
        """A copy of an array of the device."""
        copy: NDArray[Any] = array.copy_to_host()
        return copy

    def probe(self) -> Any:
        """Density deviation of each node at an opening, on the device."""
        self._over(len(self.lattice.probe_node), self._probe, self.populations, self.lattice.stride, self._probe_node,
                   self._probe_drho)  # fmt: skip
        return self._probe_drho
