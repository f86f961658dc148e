"""CUDA driver: one thread a node, or a link, calling the same functions of one node as the CPU driver.

Sums do not depend on the order of their terms, so that the same input gives the same bits however threads share it out.
Nothing but sums and extremes, and the few numbers at openings, comes back to the host before a snapshot.
"""

import os
from functools import cache
from typing import Any

import numpy as np
from numba import config
from numpy.typing import NDArray

from solver.collision import make_collision
from solver.driver import EXTREMES, SUMS, Fields, LatticeDriver, Tally, held_bytes
from solver.forecast import Device, available_bytes, update_bytes
from solver.lattice import Lattice
from solver.node_physics import make_macroscopic, make_observation, make_stress
from solver.openings import make_outlet
from solver.stage import StageError
from solver.streaming import gather, link_address, load, opposite, scatter, store
from solver.sums import WORDS, Words, join, split, words_by_group

os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")  # passes over links are short by nature
try:
    from numba import cuda, int64
except ImportError:
    cuda = None

THREADS = 128
"""Threads of a block."""
SUM_THREADS = 256
"""Threads of the one block that adds up partial sums; a power of 2."""
MOST_PARTS = 32768
"""Threads that each add up every so many nodes or links."""
EFFICIENCY, STEP_S, COMPILE_S, SIMULATOR_UPDATES_S = 0.6, 3e-4, 4.0, 1e3
"""For the forecast, about: part of the memory's bandwidth that updates reach (15.2e9 a second of 188 bytes in fp32 and
9.6e9 of 340 in fp64 are 58 and 66 % of an H200's 4.9e12 bytes/s), time of a step's launches, compilation; updates a
second on the simulator."""


def _on_device(function: Any) -> Any:
    """A function that takes arrays, for use in kernels: the simulator's arrays only fit the Python one."""
    return function.py_func if config.ENABLE_CUDASIM else function


def _blocks(count: int) -> int:
    return max(1, -(-count // THREADS))


def _parts(count: int) -> int:
    return min(MOST_PARTS, _blocks(count) * THREADS)


@cache
def _make_steps(collision: str, real: Any) -> tuple[Any, Any]:
    collide = make_collision(collision, real)
    read, write, addresses_of = _on_device(load), _on_device(store), _on_device(link_address)
    read_links, write_links = _on_device(gather), _on_device(scatter)

    @cuda.jit
    def even_step(f: Any, stride: int, first: int, last: int, rates: Any, force: Any) -> None:
        n = first + cuda.grid(1)
        if n < last:
            write(f, n, stride, opposite(collide(read(f, n, stride), rates, force)))

    @cuda.jit
    def odd_step(f: Any, addresses: Any, stride: int, first: int, last: int, rates: Any, force: Any) -> None:
        n = first + cuda.grid(1)
        if n < last:
            at = addresses_of(addresses, n, stride)
            write_links(f, at, n, collide(opposite(read_links(f, at, n)), rates, force))

    return even_step, odd_step


@cache
def _make_wall_pass(real: Any) -> tuple[Any, Any, Any]:
    @cuda.jit
    def interpolate(
        f: Any, slot: Any, leaving_back: Any, arriving: Any, a: Any, b: Any, c: Any, s: Any, parts: int, partials: Any
    ) -> None:
        t = cuda.grid(1)
        if t < parts:
            x, y, z = np.int64(0), np.int64(0), np.int64(0)
            for k in range(t, slot.shape[0], parts):
                leaving = f[slot[k]]
                returning = a[k] * leaving + b[k] * f[leaving_back[k]] + c[k] * f[arriving[k]] + s[k]
                f[slot[k]] = returning
                words = split(np.float64(returning) - np.float64(leaving))
                x, y, z = x + words[0], y + words[1], z + words[2]
            partials[t, 0], partials[t, 1], partials[t, 2] = x, y, z

    @cuda.jit
    def add_up(partials: Any, parts: int, added: Any) -> None:
        shared = cuda.shared.array((SUM_THREADS, WORDS), int64)
        t = cuda.threadIdx.x
        for word in range(WORDS):
            total = np.int64(0)
            for k in range(t, parts, SUM_THREADS):
                total += partials[k, word]
            shared[t, word] = total
        cuda.syncthreads()
        width = SUM_THREADS // 2
        while width > 0:
            if t < width:
                for word in range(WORDS):
                    shared[t, word] += shared[t + width, word]
            cuda.syncthreads()
            width //= 2
        if t < WORDS:
            added[t] = shared[0, t]

    @cuda.jit
    def subtract(f: Any, nodes: Any, added: Any, sharers: int) -> None:
        k = cuda.grid(1)
        if k < nodes.shape[0]:
            f[nodes[k]] -= real(join(added[0], added[1], added[2]) / sharers)

    return interpolate, add_up, subtract


@cache
def _make_exchange() -> tuple[Any, Any]:
    @cuda.jit
    def read(f: Any, slots: Any, values: Any) -> None:
        k = cuda.grid(1)
        if k < slots.shape[0]:
            values[k] = f[slots[k]]

    @cuda.jit
    def write(f: Any, slots: Any, values: Any) -> None:
        k = cuda.grid(1)
        if k < slots.shape[0]:
            f[slots[k]] = values[k]

    return read, write


@cache
def _make_openings(real: Any) -> tuple[Any, Any, Any]:
    treat, read = _on_device(make_outlet(real)), _on_device(load)
    addresses_of, read_links = _on_device(link_address), _on_device(gather)

    @cuda.jit
    def inlets(f: Any, slot: Any, opening: Any, weight: Any, conditions: Any, row: int, entered: Any) -> None:
        k = cuda.grid(1)
        if k < slot.shape[0]:
            entered[k] = weight[k] * conditions[row + opening[k]]
            f[slot[k]] += entered[k]

    @cuda.jit
    def outlets(
        f: Any, addresses: Any, stride: int, even: bool, node: Any, first: Any, slot: Any, opening: Any, normal: Any,
        velocity: Any, weight: Any, force: Any, conditions: Any, row: int, entered: Any,
    ) -> None:  # fmt: skip
        m = cuda.grid(1)
        if m < node.shape[0]:
            n = node[m]
            g = opposite(read(f, n, stride)) if even else read_links(f, addresses_of(addresses, n, stride), n)
            links = (first, slot, opening, normal, velocity, weight)
            treat(f, g, m, links, force, conditions, row, entered)

    @cuda.jit
    def probe(f: Any, stride: int, node: Any, drho: Any) -> None:
        k = cuda.grid(1)
        if k < node.shape[0]:
            total = 0.0
            for i in range(19):
                total += np.float64(f[i * stride + node[k]])
            drho[k] = total

    return inlets, outlets, probe


@cache
def _make_reading(real: Any) -> tuple[Any, Any]:
    macroscopic, stress, look = make_macroscopic(real), make_stress(real), make_observation(real)
    read = _on_device(load)

    @cuda.jit
    def fields(f: Any, stride: int, force: Any, drho: Any, velocity: Any, pi: Any) -> None:
        n = cuda.grid(1)
        if n < drho.shape[0]:
            g = read(f, n, stride)
            density, x, y, z = macroscopic(g, force)
            drho[n] = density
            velocity[0, n], velocity[1, n], velocity[2, n] = x, y, z
            xx, yy, zz, xy, xz, yz = stress(g, density, (x, y, z), force)
            pi[0, n], pi[1, n], pi[2, n], pi[3, n], pi[4, n], pi[5, n] = xx, yy, zz, xy, xz, yz

    @cuda.jit
    def observe(
        f: Any, stride: int, force: Any, before: Any, keep: bool, first: int, last: int, parts: int, sums: Any,
        extremes: Any,
    ) -> None:  # fmt: skip
        t = cuda.grid(1)
        if t < parts:
            most, place, most_drho = -1.0, first + t, 0.0
            for k in range(3):
                for word in range(WORDS):
                    sums[t, k, word] = 0
            for n in range(first + t, last, parts):
                drho, u, square, change = look(read(f, n, stride), (before[0, n], before[1, n], before[2, n]), force)
                if square > most:
                    most, place = square, n
                most_drho = max(most_drho, np.float64(abs(drho)))
                terms = (change, square**0.5, np.float64(drho))
                for k in range(3):
                    words = split(terms[k])
                    for word in range(WORDS):
                        sums[t, k, word] += words[word]
                if keep:
                    before[0, n], before[1, n], before[2, n] = u
            extremes[t, 0], extremes[t, 1], extremes[t, 2] = most, place, most_drho

    return fields, observe


def device_answers() -> bool:
    """Whether there is a CUDA device; the simulator is none."""
    return cuda is not None and not config.ENABLE_CUDASIM and bool(cuda.is_available())


def require_device() -> str:
    """Name of the CUDA device, or of the simulator where that is switched on.

    Raises
    ------
    StageError
        If none answers.
    """
    if cuda is not None and config.ENABLE_CUDASIM:
        return "CUDA simulator"
    if not device_answers():
        missing = "numba.cuda is not installed" if cuda is None else "no CUDA device answers (see nvidia-smi)"
        raise StageError(
            f"solve.backend cuda: {missing}; install the driver and requirements-cuda.lock, or set it to cpu or auto"
        )
    name = cuda.get_current_device().name
    return name.decode() if isinstance(name, bytes) else str(name)


def cuda_device(precision: str) -> Device:
    """The CUDA device: what is free on it, and the speed that its memory's clock and width let expect.

    Raises
    ------
    StageError
        If none answers.
    """
    name = require_device()
    if config.ENABLE_CUDASIM:
        return Device(name, available_bytes(), SIMULATOR_UPDATES_S, STEP_S, 0.0, MOST_PARTS)
    device = cuda.get_current_device()
    bandwidth = 2e3 * device.MEMORY_CLOCK_RATE * device.GLOBAL_MEMORY_BUS_WIDTH / 8
    free, _ = cuda.current_context().get_memory_info()
    return Device(name, float(free), EFFICIENCY * bandwidth / update_bytes(precision), STEP_S, COMPILE_S,
                  MOST_PARTS)  # fmt: skip


class CudaDriver(LatticeDriver):
    """Runs a lattice on a CUDA device; see :class:`solver.driver.LatticeDriver`."""

    def __init__(self, lattice: Lattice) -> None:
        self.device = require_device()
        self.lattice = lattice
        real, send = lattice.real, cuda.to_device
        self.populations = send(np.zeros(lattice.slots, dtype=real))
        self._addresses = send(lattice.addresses)
        self._even, self._odd = _make_steps(lattice.collision, real)
        self._interpolate, self._add_up, self._subtract = _make_wall_pass(real)
        self._inlets, self._outlets, self._probe = _make_openings(real)
        self._fields, self._observe = _make_reading(real)
        self._read, self._write = _make_exchange()
        walls, into, out = lattice.walls, lattice.inlets, lattice.outlets
        self._wall_arrays = [send(array) for array in (walls.slot, walls.inside, walls.upstream)]
        self._wall_coefficients = [send(array) for array in (walls.a, walls.b, walls.c, walls.s)]
        self._wall_nodes = send(walls.nodes)
        self._wall_sums = send(np.zeros((_parts(len(walls.slot)), WORDS), np.int64))
        self._added = send(np.zeros(WORDS, np.int64))
        self._inlet_arrays = [send(array) for array in (into.slot, into.opening, into.weight)]
        self._outlet_arrays = [
            send(array) for array in (out.node, out.first, out.slot, out.opening, out.normal, out.velocity, out.weight)
        ]
        self._inlet_flux, self._outlet_flux = send(np.zeros(len(into.slot), real)), send(np.zeros(len(out.slot), real))
        self._probe_node, self._probe_drho = send(lattice.probe_node), send(np.zeros(len(lattice.probe_node)))
        self._before = send(np.zeros((3, lattice.count), real))
        parts = _parts(max(last - first for first, last in lattice.ranges))
        self._sums, self._extremes = send(np.zeros((parts, *SUMS), np.int64)), send(np.zeros((parts, EXTREMES)))

    def memory_bytes(self) -> int:
        """Memory that the run takes on the device, a snapshot's fields not counted."""
        return held_bytes({name: value for name, value in vars(self).items() if value is not self.lattice})

    def begin(self, conditions: NDArray[np.float64]) -> None:
        """Take the conditions of the next steps."""
        self._rows = cuda.to_device(np.ascontiguousarray(conditions, dtype=self.lattice.real).ravel())

    def collide(self, even: bool, first: int, last: int) -> None:
        """Stream and collide the nodes of a range of rows."""
        lattice = self.lattice
        addresses = () if even else (self._addresses,)
        self._over(last - first, self._even if even else self._odd, self.populations, *addresses, lattice.stride, first,
                   last, lattice.rates, lattice.force)  # fmt: skip

    def _over(self, count: int, kernel: Any, *arguments: Any) -> None:
        if count:
            kernel[_blocks(count), THREADS](*arguments)

    def treat_openings(self, step: int, even: bool) -> None:
        """Treat inlets and outlets under the conditions of a step."""
        lattice, f, row = self.lattice, self.populations, step * self.lattice.openings
        self._over(len(lattice.outlets.node), self._outlets, f, self._addresses, lattice.stride, even,
                   *self._outlet_arrays, lattice.force, self._rows, row, self._outlet_flux)  # fmt: skip
        self._over(len(lattice.inlets.slot), self._inlets, f, *self._inlet_arrays, self._rows, row, self._inlet_flux)

    def treat_walls(self, even: bool) -> Any:
        """Treat wall links; words of the mass that they added, on the device."""
        slot, inside, upstream = self._wall_arrays
        back, arriving = (inside, upstream) if even else (upstream, inside)
        parts = _parts(len(self.lattice.walls.slot))
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
            values = cuda.device_array(slots.shape, self.lattice.real)
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
            parts = _parts(last - first)
            self._over(parts, self._observe, self.populations, lattice.stride, lattice.force, self._before, keep, first,
                       last, parts, self._sums, self._extremes)  # fmt: skip
            kept = slice(0, min(parts, last - first))  # a thread without a node has nothing to say
            sums.append(self._sums.copy_to_host()[kept])
            extremes.append(self._extremes.copy_to_host()[kept])
        return Tally(np.concatenate(sums), np.concatenate(extremes))

    def fields(self) -> Fields:
        """Fields of all nodes."""
        count, real = self.lattice.count, self.lattice.real
        drho, velocity, stress = (cuda.device_array(shape, real) for shape in (count, (3, count), (6, count)))
        self._over(count, self._fields, self.populations, self.lattice.stride, self.lattice.force, drho, velocity,
                   stress)  # fmt: skip
        return Fields(drho.copy_to_host(), velocity.copy_to_host(), stress.copy_to_host())

    def inflow_words(self) -> Words:
        """Words of what entered through each opening in the last step."""
        inlets, outlets, openings = self.lattice.inlets, self.lattice.outlets, self.lattice.openings
        entered: Words = words_by_group(self._inlet_flux.copy_to_host(), inlets.opening, openings)
        entered += words_by_group(self._outlet_flux.copy_to_host(), outlets.opening, openings)
        return entered

    def drho_words(self) -> Words:
        """Words of the sum of drho over the nodes at each opening."""
        lattice = self.lattice
        self._over(len(lattice.probe_node), self._probe, self.populations, lattice.stride, self._probe_node,
                   self._probe_drho)  # fmt: skip
        drho = self._probe_drho.copy_to_host()
        words: Words = words_by_group(drho, lattice.probe_opening, lattice.openings)
        return words
