"""CPU driver: nodes in blocks that are copied to a small buffer, collided in a vectorised loop, and copied back.

Threads share out nodes and links, never a sum: results do not depend on their number.
"""

import os
from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import NDArray

from solver.collision import make_collision
from solver.forecast import Device, available_bytes
from solver.lattice import PARTIAL_COLUMNS, Fields, Lattice, Observation, combine, held_bytes, sum_by_opening
from solver.node_physics import make_macroscopic, make_observation, make_stress
from solver.openings import make_outlet
from solver.streaming import gather, link_address, load, opposite, store

# threads that spin while they wait slow each other down tenfold where cores are shared with other programs
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

BLOCK = 64
"""Nodes in the buffer; divides the stride."""
CHUNK = 64 * BLOCK
"""Nodes, or links, that one thread takes at a time."""
CORE_UPDATES_S, STEP_S, COMPILE_S = 10e6, 1e-4, 12.0
"""For the forecast, about: updates a second on a core (either precision: 160e6 on 16, 23e6 on 2), time that a step
takes however few the nodes, compilation."""

plain = njit(error_model="numpy")  # Python's check for division by zero would keep loops from being vectorised
threaded = njit(parallel=True, error_model="numpy")


@cache
def _make_steps(collision: str, real: Any) -> tuple[Any, Any]:
    """The even and the odd step of all nodes."""
    collide = make_collision(collision, real)

    @plain
    def collide_block(buffer: Any, rates: Any, force: Any) -> None:
        for k in range(BLOCK):
            store(buffer, k, BLOCK, collide(load(buffer, k, BLOCK), rates, force))

    @plain
    def even_chunk(f: Any, stride: int, first: int, last: int, rates: Any, force: Any) -> None:
        buffer = np.empty(19 * BLOCK, f.dtype)
        for n in range(first, last, BLOCK):
            for i in range(19):
                row = f[i * stride + n : i * stride + n + BLOCK]
                for k in range(BLOCK):
                    buffer[i * BLOCK + k] = row[k]
            collide_block(buffer, rates, force)
            for i in range(19):
                o = 0 if i == 0 else i + 1 if i % 2 else i - 1
                row = f[o * stride + n : o * stride + n + BLOCK]
                for k in range(BLOCK):
                    row[k] = buffer[i * BLOCK + k]

    @plain
    def odd_chunk(f: Any, addresses: Any, stride: int, first: int, last: int, rates: Any, force: Any) -> None:
        buffer = np.empty(19 * BLOCK, f.dtype)
        for n in range(first, last, BLOCK):
            rest = f[n : n + BLOCK]
            for k in range(BLOCK):
                buffer[k] = rest[k]
            for i in range(1, 19):
                o = i + 1 if i % 2 else i - 1
                at = addresses[(i - 1) * stride + n : (i - 1) * stride + n + BLOCK]
                for k in range(BLOCK):
                    buffer[o * BLOCK + k] = f[at[k]]
            collide_block(buffer, rates, force)
            for k in range(BLOCK):
                rest[k] = buffer[k]
            for i in range(1, 19):
                at = addresses[(i - 1) * stride + n : (i - 1) * stride + n + BLOCK]
                for k in range(BLOCK):
                    f[at[k]] = buffer[i * BLOCK + k]

    @threaded
    def even_step(f: Any, stride: int, rates: Any, force: Any) -> None:
        for chunk in prange((stride + CHUNK - 1) // CHUNK):
            even_chunk(f, stride, chunk * CHUNK, min(stride, (chunk + 1) * CHUNK), rates, force)

    @threaded
    def odd_step(f: Any, addresses: Any, stride: int, rates: Any, force: Any) -> None:
        for chunk in prange((stride + CHUNK - 1) // CHUNK):
            odd_chunk(f, addresses, stride, chunk * CHUNK, min(stride, (chunk + 1) * CHUNK), rates, force)

    return even_step, odd_step


@cache
def _make_wall_pass() -> Any:
    @plain
    def interpolate_chunk(
        f: Any, slot: Any, leaving_back: Any, arriving: Any, a: Any, b: Any, c: Any, s: Any, first: int, last: int
    ) -> float:
        added = 0.0
        for k in range(first, last):
            leaving = f[slot[k]]
            returning = a[k] * leaving + b[k] * f[leaving_back[k]] + c[k] * f[arriving[k]] + s[k]
            f[slot[k]] = returning
            added += np.float64(returning) - np.float64(leaving)
        return added

    @threaded
    def walls(f: Any, slot: Any, leaving_back: Any, arriving: Any, a: Any, b: Any, c: Any, s: Any, nodes: Any) -> None:
        chunks = (len(slot) + CHUNK - 1) // CHUNK
        added = np.empty(chunks)
        for chunk in prange(chunks):
            last = min(len(slot), (chunk + 1) * CHUNK)
            added[chunk] = interpolate_chunk(f, slot, leaving_back, arriving, a, b, c, s, chunk * CHUNK, last)
        total = 0.0
        for chunk in range(chunks):
            total += added[chunk]
        share = f.dtype.type(total / len(nodes))
        for k in range(len(nodes)):
            f[nodes[k]] -= share

    return walls


@cache
def _make_openings(real: Any) -> tuple[Any, Any]:
    treat = make_outlet(real)

    @plain
    def inlets(f: Any, slot: Any, opening: Any, weight: Any, conditions: Any, entered: Any) -> None:
        for k in range(len(slot)):
            entered[k] = weight[k] * conditions[opening[k]]
            f[slot[k]] += entered[k]

    @plain
    def outlets(
        f: Any,
        addresses: Any,
        stride: int,
        even: bool,
        node: Any,
        links: Any,
        force: Any,
        conditions: Any,
        entered: Any,
    ) -> None:
        for m in range(len(node)):
            n = node[m]
            g = opposite(load(f, n, stride)) if even else gather(f, link_address(addresses, n, stride), n)
            treat(f, g, m, links, force, conditions, 0, entered)

    return inlets, outlets


@cache
def _make_reading(real: Any) -> tuple[Any, Any]:
    macroscopic, stress, look = make_macroscopic(real), make_stress(real), make_observation(real)

    @threaded
    def fields(f: Any, stride: int, force: Any, drho: Any, velocity: Any, pi: Any) -> None:
        for n in prange(len(drho)):
            g = load(f, n, stride)
            density, x, y, z = macroscopic(g, force)
            drho[n] = density
            velocity[0, n], velocity[1, n], velocity[2, n] = x, y, z
            xx, yy, zz, xy, xz, yz = stress(g, density, (x, y, z), force)
            pi[0, n], pi[1, n], pi[2, n], pi[3, n], pi[4, n], pi[5, n] = xx, yy, zz, xy, xz, yz

    @plain
    def observe_chunk(
        f: Any, stride: int, force: Any, before: Any, keep: bool, first: int, last: int, part: Any
    ) -> None:
        part[:] = 0
        part[2] = -1
        for n in range(first, last):
            drho, u, square, change = look(load(f, n, stride), (before[0, n], before[1, n], before[2, n]), force)
            if square > part[2]:
                part[2], part[3] = square, n
            part[0] += change
            part[1] += np.sqrt(square)
            part[4] = max(part[4], abs(drho))
            part[5] += drho
            if keep:
                before[0, n], before[1, n], before[2, n] = u

    @threaded
    def observe(f: Any, stride: int, force: Any, before: Any, keep: bool, partials: Any) -> None:
        count = before.shape[1]
        for chunk in prange(len(partials)):
            last = min(count, (chunk + 1) * CHUNK)
            observe_chunk(f, stride, force, before, keep, chunk * CHUNK, last, partials[chunk])

    return fields, observe


def cpu_device() -> Device:
    """The cores of this machine, as many as Numba uses."""
    return Device("CPU", available_bytes(), CORE_UPDATES_S * get_num_threads(), STEP_S, COMPILE_S)


class CpuDriver:
    """Runs a lattice on the cores of this machine; see :class:`solver.lattice.Driver`.

    Attributes
    ----------
    populations : (19 * stride,) between pairs of steps slot (i, n) holds g_i arriving at node n.
    """

    device = "CPU"

    def __init__(self, lattice: Lattice) -> None:
        self.lattice = lattice
        self.populations: NDArray[Any] = np.zeros(19 * lattice.stride, dtype=lattice.real)
        self._even, self._odd = _make_steps(lattice.collision, lattice.real)
        self._walls = _make_wall_pass()
        self._inlets, self._outlets = _make_openings(lattice.real)
        self._fields, self._observe = _make_reading(lattice.real)
        self._before = np.zeros((3, lattice.count), dtype=lattice.real)
        self._inlet_flux = np.zeros(len(lattice.inlets.slot), dtype=lattice.real)
        self._outlet_flux = np.zeros(len(lattice.outlets.slot), dtype=lattice.real)

    def memory_bytes(self) -> int:
        """Memory that the run takes here, a snapshot's fields not counted."""
        return held_bytes(vars(self))

    def advance(self, conditions: NDArray[np.float64]) -> None:
        """Run an even number of steps, one a row of `conditions`."""
        lattice, rows = self.lattice, conditions.astype(self.lattice.real)
        for step, row in enumerate(rows):
            even = step % 2 == 0
            if even:
                self._even(self.populations, lattice.stride, lattice.rates, lattice.force)
            else:
                self._odd(self.populations, lattice.addresses, lattice.stride, lattice.rates, lattice.force)
            self._treat_openings(row, even)
            self._treat_walls(even)

    def _treat_openings(self, conditions: NDArray[Any], even: bool) -> None:
        inlets, out, lattice = self.lattice.inlets, self.lattice.outlets, self.lattice
        # outlets first read all of a node's populations as they left it, wall links among them: before the walls
        links = (out.first, out.slot, out.opening, out.normal, out.velocity, out.weight)
        force, stride, f = lattice.force, lattice.stride, self.populations
        self._outlets(f, lattice.addresses, stride, even, out.node, links, force, conditions, self._outlet_flux)
        self._inlets(f, inlets.slot, inlets.opening, inlets.weight, conditions, self._inlet_flux)

    def _treat_walls(self, even: bool) -> None:
        walls = self.lattice.walls
        if not len(walls.slot):
            return
        back, arriving = (walls.inside, walls.upstream) if even else (walls.upstream, walls.inside)
        self._walls(self.populations, walls.slot, back, arriving, walls.a, walls.b, walls.c, walls.s, walls.nodes)

    def observe(self, keep: bool) -> Observation:
        """Sums and extremes over all nodes."""
        partials = np.empty((-(-self.lattice.count // CHUNK), PARTIAL_COLUMNS))
        self._observe(self.populations, self.lattice.stride, self.lattice.force, self._before, keep, partials)
        return combine(partials, self.lattice.count)

    def fields(self) -> Fields:
        """Fields of all nodes."""
        count, real = self.lattice.count, self.lattice.real
        fields = Fields(np.empty(count, real), np.empty((3, count), real), np.empty((6, count), real))
        self._fields(
            self.populations, self.lattice.stride, self.lattice.force, fields.drho, fields.velocity, fields.stress
        )
        return fields

    def inflow(self) -> NDArray[np.float64]:
        """Fluid that entered through each opening in the last step."""
        inlets, outlets, openings = self.lattice.inlets, self.lattice.outlets, self.lattice.openings
        return sum_by_opening(self._inlet_flux, inlets.opening, openings) + sum_by_opening(
            self._outlet_flux, outlets.opening, openings
        )

    def opening_drho(self) -> NDArray[np.float64]:
        """Mean density deviation over the nodes at each opening."""
        lattice = self.lattice
        rows = self.populations.reshape(19, lattice.stride)[:, lattice.probe_node].astype(np.float64)
        nodes = np.bincount(lattice.probe_opening, minlength=lattice.openings)
        return sum_by_opening(rows.sum(axis=0), lattice.probe_opening, lattice.openings) / np.maximum(nodes, 1)
