"""CPU driver: nodes in blocks that are copied to a small buffer, collided in a vectorised loop, and copied back.

Threads share out nodes and links, and sums do not depend on the order of their terms: nor do results on threads.
"""

import os
from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import NDArray

from solver.collision import make_collision
from solver.driver import Fields, LatticeDriver, Tally, held_bytes
from solver.forecast import Device, available_bytes
from solver.lattice import Lattice
from solver.node_physics import make_macroscopic, make_observation, make_stress
from solver.openings import make_outlet
from solver.streaming import gather, link_address, load, opposite, store
from solver.sums import WORDS, Words, join, split, words_by_group

# threads that spin while they wait slow each other down tenfold where cores are shared with other programs
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

BLOCK = 64
"""Nodes in the buffer; divides the alignment."""
CHUNK = 64 * BLOCK
"""Nodes, or links, that one thread takes at a time."""
CORE_UPDATES_S, STEP_S, COMPILE_S = 10e6, 1e-4, 12.0
"""For the forecast, about: updates a second on a core (either precision: 160e6 on 16, 23e6 on 2), time that a step
takes however few the nodes, compilation."""

plain = njit(error_model="numpy")  # Python's check for division by zero would keep loops from being vectorised
threaded = njit(parallel=True, error_model="numpy")


@cache
def _make_steps(collision: str, real: Any) -> tuple[Any, Any]:
    """The even and the odd step of a range of nodes."""
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
    def even_step(f: Any, stride: int, first: int, last: int, rates: Any, force: Any) -> None:
        for chunk in prange((last - first + CHUNK - 1) // CHUNK):
            begin = first + chunk * CHUNK
            even_chunk(f, stride, begin, min(last, begin + CHUNK), rates, force)

    @threaded
    def odd_step(f: Any, addresses: Any, stride: int, first: int, last: int, rates: Any, force: Any) -> None:
        for chunk in prange((last - first + CHUNK - 1) // CHUNK):
            begin = first + chunk * CHUNK
            odd_chunk(f, addresses, stride, begin, min(last, begin + CHUNK), rates, force)

    return even_step, odd_step


@cache
def _make_wall_pass() -> tuple[Any, Any]:
    @plain
    def interpolate_chunk(
        f: Any, slot: Any, leaving_back: Any, arriving: Any, a: Any, b: Any, c: Any, s: Any, first: int, last: int,
        added: Any,
    ) -> None:  # fmt: skip
        x, y, z = np.int64(0), np.int64(0), np.int64(0)
        for k in range(first, last):
            leaving = f[slot[k]]
            returning = a[k] * leaving + b[k] * f[leaving_back[k]] + c[k] * f[arriving[k]] + s[k]
            f[slot[k]] = returning
            words = split(np.float64(returning) - np.float64(leaving))
            x, y, z = x + words[0], y + words[1], z + words[2]
        added[0], added[1], added[2] = x, y, z

    @threaded
    def interpolate(
        f: Any, slot: Any, leaving_back: Any, arriving: Any, a: Any, b: Any, c: Any, s: Any, added: Any
    ) -> None:
        for chunk in prange(len(added)):
            last = min(len(slot), (chunk + 1) * CHUNK)
            interpolate_chunk(f, slot, leaving_back, arriving, a, b, c, s, chunk * CHUNK, last, added[chunk])

    @plain
    def subtract(f: Any, nodes: Any, share: Any) -> None:
        for k in range(len(nodes)):
            f[nodes[k]] -= share

    return interpolate, subtract


@cache
def _make_openings(real: Any) -> tuple[Any, Any, Any]:
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

    @plain
    def probe(f: Any, stride: int, node: Any, drho: Any) -> None:
        for k in range(len(node)):
            total = 0.0
            for i in range(19):
                total += np.float64(f[i * stride + node[k]])
            drho[k] = total

    return inlets, outlets, probe


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
        f: Any, stride: int, force: Any, before: Any, keep: bool, first: int, last: int, sums: Any, extremes: Any
    ) -> None:
        extremes[0] = -1
        for n in range(first, last):
            drho, u, square, change = look(load(f, n, stride), (before[0, n], before[1, n], before[2, n]), force)
            if square > extremes[0]:
                extremes[0], extremes[1] = square, n
            extremes[2] = max(extremes[2], abs(drho))
            terms = (change, np.sqrt(square), np.float64(drho))
            for k in range(3):
                words = split(terms[k])
                for word in range(WORDS):
                    sums[k, word] += words[word]
            if keep:
                before[0, n], before[1, n], before[2, n] = u

    @threaded
    def observe(
        f: Any, stride: int, force: Any, before: Any, keep: bool, first: int, last: int, sums: Any, extremes: Any
    ) -> None:
        for chunk in prange(len(sums)):
            begin = first + chunk * CHUNK
            observe_chunk(f, stride, force, before, keep, begin, min(last, begin + CHUNK), sums[chunk], extremes[chunk])

    return fields, observe


def cpu_device() -> Device:
    """The cores of this machine, as many as Numba uses."""
    return Device("CPU", available_bytes(), CORE_UPDATES_S * get_num_threads(), STEP_S, COMPILE_S)


class CpuDriver(LatticeDriver):
    """Runs a lattice on the cores of this machine; see :class:`solver.driver.LatticeDriver`."""

    device = "CPU"

    def __init__(self, lattice: Lattice) -> None:
        self.lattice = lattice
        self.populations: NDArray[Any] = np.zeros(lattice.slots, dtype=lattice.real)
        self._even, self._odd = _make_steps(lattice.collision, lattice.real)
        self._interpolate, self._subtract = _make_wall_pass()
        self._inlets, self._outlets, self._probe = _make_openings(lattice.real)
        self._fields, self._observe = _make_reading(lattice.real)
        self._added = np.zeros((_chunks(len(lattice.walls.slot)), WORDS), np.int64)
        self._before = np.zeros((3, lattice.count), dtype=lattice.real)
        self._inlet_flux = np.zeros(len(lattice.inlets.slot), dtype=lattice.real)
        self._outlet_flux = np.zeros(len(lattice.outlets.slot), dtype=lattice.real)
        self._probe_drho = np.zeros(len(lattice.probe_node))

    def memory_bytes(self) -> int:
        """Memory that the run takes here, a snapshot's fields not counted."""
        return held_bytes(vars(self))

    def begin(self, conditions: NDArray[np.float64]) -> None:
        """Take the conditions of the next steps."""
        self._conditions = conditions.astype(self.lattice.real)

    def collide(self, even: bool, first: int, last: int) -> None:
        """Stream and collide the nodes of a range of rows, and the padding after it."""
        lattice = self.lattice
        last = -(-last // BLOCK) * BLOCK if first < last else first
        if even:
            self._even(self.populations, lattice.stride, first, last, lattice.rates, lattice.force)
        else:
            self._odd(self.populations, lattice.addresses, lattice.stride, first, last, lattice.rates, lattice.force)

    def treat_openings(self, step: int, even: bool) -> None:
        """Treat inlets and outlets under the conditions of a step."""
        inlets, out, lattice, conditions = (
            self.lattice.inlets,
            self.lattice.outlets,
            self.lattice,
            self._conditions[step],
        )
        # outlets first read all of a node's populations as they left it, wall links among them: before the walls
        links = (out.first, out.slot, out.opening, out.normal, out.velocity, out.weight)
        force, stride, f = lattice.force, lattice.stride, self.populations
        self._outlets(f, lattice.addresses, stride, even, out.node, links, force, conditions, self._outlet_flux)
        self._inlets(f, inlets.slot, inlets.opening, inlets.weight, conditions, self._inlet_flux)

    def treat_walls(self, even: bool) -> Words:
        """Treat wall links; words of the mass that they added."""
        walls = self.lattice.walls
        back, arriving = (walls.inside, walls.upstream) if even else (walls.upstream, walls.inside)
        self._interpolate(self.populations, walls.slot, back, arriving, walls.a, walls.b, walls.c, walls.s, self._added)
        added: Words = self._added.sum(axis=0)
        return added

    def share_mass(self, added: Words) -> None:
        """Take mass that was added off the wall nodes."""
        walls = self.lattice.walls
        self._subtract(self.populations, walls.nodes, self.lattice.real(join(*added.tolist()) / walls.sharers))

    def place(self, slots: NDArray[np.integer]) -> NDArray[np.integer]:
        """Slots, which are here already."""
        return slots

    def read(self, slots: Any) -> NDArray[Any]:
        """Populations in slots, or in a slice of them."""
        return np.array(self.populations[slots])

    def write(self, slots: Any, values: NDArray[Any]) -> None:
        """Replace populations in slots, or in a slice of them."""
        self.populations[slots] = values

    def tally(self, keep: bool) -> Tally:
        """Partial sums and extremes over all nodes."""
        lattice = self.lattice
        tally = Tally.empty(sum(_chunks(last - first) for first, last in lattice.ranges))
        done = 0
        for first, last in lattice.ranges:
            mine = slice(done, done := done + _chunks(last - first))
            self._observe(
                self.populations, lattice.stride, lattice.force, self._before, keep, first, last, tally.sums[mine],
                tally.extremes[mine],
            )  # fmt: skip
        return tally

    def fields(self) -> Fields:
        """Fields of all nodes."""
        count, real = self.lattice.count, self.lattice.real
        fields = Fields(np.empty(count, real), np.empty((3, count), real), np.empty((6, count), real))
        self._fields(
            self.populations, self.lattice.stride, self.lattice.force, fields.drho, fields.velocity, fields.stress
        )
        return fields

    def inflow_words(self) -> Words:
        """Words of what entered through each opening in the last step."""
        inlets, outlets, openings = self.lattice.inlets, self.lattice.outlets, self.lattice.openings
        entered: Words = words_by_group(self._inlet_flux, inlets.opening, openings)
        entered += words_by_group(self._outlet_flux, outlets.opening, openings)
        return entered

    def drho_words(self) -> Words:
        """Words of the sum of drho over the nodes at each opening."""
        lattice = self.lattice
        self._probe(self.populations, lattice.stride, lattice.probe_node, self._probe_drho)
        words: Words = words_by_group(self._probe_drho, lattice.probe_opening, lattice.openings)
        return words


def _chunks(count: int) -> int:
    return -(-count // CHUNK)
