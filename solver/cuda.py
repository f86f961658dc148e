"""CUDA driver: one thread a node, or a link, calling the same functions of one node as the CPU driver.

Sums are taken in a fixed order by a fixed number of threads, so that the same input gives the same bits on a device.
Nothing but sums and extremes, and the few numbers at openings, comes back to the host before a snapshot.
"""

import os
from functools import cache
from typing import Any

import numpy as np
from numba import config
from numpy.typing import NDArray

from solver.collision import make_collision
from solver.forecast import Device, available_bytes, update_bytes
from solver.lattice import PARTIAL_COLUMNS, Fields, Lattice, Observation, combine, held_bytes, sum_by_opening
from solver.node_physics import make_macroscopic, make_observation, make_stress
from solver.openings import make_outlet
from solver.stage import StageError
from solver.streaming import gather, link_address, load, opposite, scatter, store

os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")  # passes over links are short by nature
try:
    from numba import cuda, float64
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
    def even_step(f: Any, stride: int, count: int, rates: Any, force: Any) -> None:
        n = cuda.grid(1)
        if n < count:
            write(f, n, stride, opposite(collide(read(f, n, stride), rates, force)))

    @cuda.jit
    def odd_step(f: Any, addresses: Any, stride: int, count: int, rates: Any, force: Any) -> None:
        n = cuda.grid(1)
        if n < count:
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
            added = 0.0
            for k in range(t, slot.shape[0], parts):
                leaving = f[slot[k]]
                returning = a[k] * leaving + b[k] * f[leaving_back[k]] + c[k] * f[arriving[k]] + s[k]
                f[slot[k]] = returning
                added += np.float64(returning) - np.float64(leaving)
            partials[t] = added

    @cuda.jit
    def average(partials: Any, parts: int, count: int, mean: Any) -> None:
        shared = cuda.shared.array(SUM_THREADS, float64)
        t = cuda.threadIdx.x
        total = 0.0
        for k in range(t, parts, SUM_THREADS):
            total += partials[k]
        shared[t] = total
        cuda.syncthreads()
        width = SUM_THREADS // 2
        while width > 0:
            if t < width:
                shared[t] += shared[t + width]
            cuda.syncthreads()
            width //= 2
        if t == 0:
            mean[0] = real(shared[0] / count)

    @cuda.jit
    def subtract(f: Any, nodes: Any, mean: Any) -> None:
        k = cuda.grid(1)
        if k < nodes.shape[0]:
            f[nodes[k]] -= mean[0]

    return interpolate, average, subtract


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
    def observe(f: Any, stride: int, force: Any, before: Any, keep: bool, parts: int, partials: Any) -> None:
        t = cuda.grid(1)
        if t < parts:
            sum_change, sum_speed, sum_drho, most_drho, most, place = 0.0, 0.0, 0.0, 0.0, -1.0, t
            for n in range(t, before.shape[1], parts):
                drho, u, square, change = look(read(f, n, stride), (before[0, n], before[1, n], before[2, n]), force)
                if square > most:
                    most, place = square, n
                sum_change += change
                sum_speed += square**0.5
                most_drho = max(most_drho, np.float64(abs(drho)))
                sum_drho += np.float64(drho)
                if keep:
                    before[0, n], before[1, n], before[2, n] = u
            partials[t, 0], partials[t, 1], partials[t, 2] = sum_change, sum_speed, most
            partials[t, 3], partials[t, 4], partials[t, 5] = place, most_drho, sum_drho

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


class CudaDriver:
    """Runs a lattice on a CUDA device; see :class:`solver.lattice.Driver`.

    Attributes
    ----------
    device : its name.
    populations : (19 * stride,) on the device; between pairs of steps slot (i, n) holds g_i arriving at node n.
    """

    def __init__(self, lattice: Lattice) -> None:
        self.device = require_device()
        self.lattice = lattice
        real, send = lattice.real, cuda.to_device
        self.populations = send(np.zeros(19 * lattice.stride, dtype=real))
        self._addresses = send(lattice.addresses)
        self._even, self._odd = _make_steps(lattice.collision, real)
        self._interpolate, self._average, self._subtract = _make_wall_pass(real)
        self._inlets, self._outlets, self._probe = _make_openings(real)
        self._fields, self._observe = _make_reading(real)
        walls, into, out = lattice.walls, lattice.inlets, lattice.outlets
        self._wall_arrays = [send(array) for array in (walls.slot, walls.inside, walls.upstream)]
        self._wall_coefficients = [send(array) for array in (walls.a, walls.b, walls.c, walls.s)]
        self._wall_nodes = send(walls.nodes)
        self._wall_sums, self._wall_mean = send(np.zeros(_parts(len(walls.slot)))), send(np.zeros(1, real))
        self._inlet_arrays = [send(array) for array in (into.slot, into.opening, into.weight)]
        self._outlet_arrays = [
            send(array) for array in (out.node, out.first, out.slot, out.opening, out.normal, out.velocity, out.weight)
        ]
        self._inlet_flux, self._outlet_flux = send(np.zeros(len(into.slot), real)), send(np.zeros(len(out.slot), real))
        self._probe_node, self._probe_drho = send(lattice.probe_node), send(np.zeros(len(lattice.probe_node)))
        self._before = send(np.zeros((3, lattice.count), real))
        self._partials = send(np.zeros((_parts(lattice.count), PARTIAL_COLUMNS)))

    def memory_bytes(self) -> int:
        """Memory that the run takes on the device, a snapshot's fields not counted."""
        return held_bytes({name: value for name, value in vars(self).items() if value is not self.lattice})

    def advance(self, conditions: NDArray[np.float64]) -> None:
        """Run an even number of steps, one a row of `conditions`."""
        lattice = self.lattice
        rows = cuda.to_device(np.ascontiguousarray(conditions, dtype=lattice.real).ravel())
        for step in range(len(conditions)):
            even = step % 2 == 0
            if even:
                self._over(lattice.count, self._even, self.populations, lattice.stride, lattice.count, lattice.rates,
                           lattice.force)  # fmt: skip
            else:
                self._over(lattice.count, self._odd, self.populations, self._addresses, lattice.stride, lattice.count,
                           lattice.rates, lattice.force)  # fmt: skip
            self._treat_openings(rows, step * lattice.openings, even)
            self._treat_walls(even)

    def _over(self, count: int, kernel: Any, *arguments: Any) -> None:
        if count:
            kernel[_blocks(count), THREADS](*arguments)

    def _treat_openings(self, rows: Any, row: int, even: bool) -> None:
        lattice, f = self.lattice, self.populations
        self._over(len(lattice.outlets.node), self._outlets, f, self._addresses, lattice.stride, even,
                   *self._outlet_arrays, lattice.force, rows, row, self._outlet_flux)  # fmt: skip
        self._over(len(lattice.inlets.slot), self._inlets, f, *self._inlet_arrays, rows, row, self._inlet_flux)

    def _treat_walls(self, even: bool) -> None:
        walls = self.lattice.walls
        if not len(walls.slot):
            return
        slot, inside, upstream = self._wall_arrays
        back, arriving = (inside, upstream) if even else (upstream, inside)
        parts = _parts(len(walls.slot))
        self._over(parts, self._interpolate, self.populations, slot, back, arriving, *self._wall_coefficients, parts,
                   self._wall_sums)  # fmt: skip
        self._average[1, SUM_THREADS](self._wall_sums, parts, len(walls.nodes), self._wall_mean)
        self._over(len(walls.nodes), self._subtract, self.populations, self._wall_nodes, self._wall_mean)

    def observe(self, keep: bool) -> Observation:
        """Sums and extremes over all nodes."""
        lattice, parts = self.lattice, _parts(self.lattice.count)
        self._over(parts, self._observe, self.populations, lattice.stride, lattice.force, self._before, keep, parts,
                   self._partials)  # fmt: skip
        return combine(self._partials.copy_to_host(), lattice.count)

    def fields(self) -> Fields:
        """Fields of all nodes."""
        count, real = self.lattice.count, self.lattice.real
        drho, velocity, stress = (cuda.device_array(shape, real) for shape in (count, (3, count), (6, count)))
        self._over(count, self._fields, self.populations, self.lattice.stride, self.lattice.force, drho, velocity,
                   stress)  # fmt: skip
        return Fields(drho.copy_to_host(), velocity.copy_to_host(), stress.copy_to_host())

    def inflow(self) -> NDArray[np.float64]:
        """Fluid that entered through each opening in the last step."""
        inlets, outlets, openings = self.lattice.inlets, self.lattice.outlets, self.lattice.openings
        return sum_by_opening(self._inlet_flux.copy_to_host(), inlets.opening, openings) + sum_by_opening(
            self._outlet_flux.copy_to_host(), outlets.opening, openings
        )

    def opening_drho(self) -> NDArray[np.float64]:
        """Mean density deviation over the nodes at each opening."""
        lattice = self.lattice
        self._over(len(lattice.probe_node), self._probe, self.populations, lattice.stride, self._probe_node,
                   self._probe_drho)  # fmt: skip
        nodes = np.bincount(lattice.probe_opening, minlength=lattice.openings)
        drho = sum_by_opening(self._probe_drho.copy_to_host(), lattice.probe_opening, lattice.openings)
        return drho / np.maximum(nodes, 1)
