# SPDX-License-Identifier: Apache-2.0
"""Streaming and collision: one thread a node, addresses from runs.

The thread of the first node counts the step, and clears the sum to which the links of its walls will add. Nodes next to
walls first take off their part of the mass correction of the step before, where that is still pending.
"""

from functools import cache
from typing import Any

import numpy as np

from solver.backends.cuda.device import cuda, kernel, node_registers, on_device
from solver.backends.cuda.instructions import prefetch
from solver.domain.addresses import GROUP
from solver.kernels.collision import make_collision
from solver.kernels.d3q19 import Q
from solver.kernels.rheology import make_rates
from solver.kernels.storage import FP16, NATIVE, make_access
from solver.kernels.streaming import make_opposite, make_run_address
from solver.kernels.sums import LIMBS, join

AHEAD = 16384
"""Nodes ahead of which populations are asked for: some that wait for memory are a few times fewer at any time."""
WARP, LINE = 32, 128
"""Threads that work together, and bytes of a line of the cache."""


@cache
def make_addresses(q: int) -> Any:
    """Device function ``(runs, n)`` that gives the addresses of node n's links from the arrays of `Runs`."""
    address_in_run = on_device(make_run_address(make_access(NATIVE, np.float32).load_slot, q))

    @cuda.jit(device=True)
    def addresses_of(runs: Any, n: Any) -> Any:
        offset, before, starts = runs
        group = n // GROUP
        begun = starts[group] & (np.uint32(0xFFFFFFFF) >> np.uint32(GROUP - 1 - n % GROUP))
        return address_in_run(offset, before[group] + cuda.popc(begun), n)

    return addresses_of


@cache
def make_fetching(storage: str, real: Any, q: int) -> Any:
    """Device function ``(f, stride, n, last)``: a warp asks for the lines that another will need, one a thread.

    The parameters are those of :mod:`solver.kernels`.
    """
    size = 2 if storage == FP16 else np.dtype(real).itemsize
    lines = max(1, WARP * size // LINE)
    rounds = -(-q * lines // WARP)

    @cuda.jit(device=True)
    def fetch_ahead(f: Any, stride: int, n: Any, last: int) -> None:
        thread = n % WARP
        there = n - thread + AHEAD
        if there < last:
            for number in range(rounds):
                line = thread + number * WARP
                if line < q * lines:
                    prefetch(f, line // lines * stride + there + line % lines * (LINE // size))

    return fetch_ahead


@cache
def make_mass_correction(storage: str, real: Any) -> Any:
    """Device function ``(f, n, added, mass_correction_nodes)`` that takes node n's part of the mass `added`, in words,
    off slot n.

    That is its population at rest. What is left there, as it is stored, is returned.
    """
    load_slot, store_slot = map(on_device, make_access(storage, real)[:2])

    @cuda.jit(device=True)
    def correct_node_mass(f: Any, n: Any, added: Any, mass_correction_nodes: int) -> Any:
        store_slot(f, n, load_slot(f, n) - real(join(added[0], added[1], added[2]) / mass_correction_nodes))
        return load_slot(f, n)

    return correct_node_mass


# long and many parameters because the kernels close over the same functions of a node, and take each array by itself
@cache
def make_steps(
    collision: str,
    storage: str,
    real: Any,
    equilibrium: str = "incompressible",
    rheology: str | None = None,
    blended: bool = False,
    q: int = Q,
) -> tuple[Any, Any]:
    """The even and the odd step of a range of nodes; `rates`, `omega` and `blend` as :func:`make_rates` says.

    `mass_correction` is what walls added in the step before: bits of the nodes that share it, 32 a word, the limbs of
    the mass, and how many share it, 0 where none is pending.

    The parameters are those of :mod:`solver.kernels`.
    """
    collide, opposite = make_collision(collision, real, equilibrium, q), make_opposite(q)
    rates_of = on_device(make_rates(rheology, blended, equilibrium, real, q=q))
    load, store, gather, scatter = map(on_device, make_access(storage, real, q)[2:])
    registers = node_registers(real, rheology is not None, q)
    addresses_of, fetch_ahead, correct_node_mass = (
        make_addresses(q),
        make_fetching(storage, real, q),
        make_mass_correction(storage, real),
    )

    @cuda.jit(device=True)
    def count_step(step_counter: Any, added: Any) -> None:
        step_counter[0] += 1
        for limb in range(LIMBS):
            added[limb] = 0

    @cuda.jit(device=True)
    def mass_corrected(f: Any, g: Any, n: Any, mass_correction: Any) -> Any:
        correction_bits, added, mass_correction_nodes = mass_correction
        if mass_correction_nodes > 0 and (correction_bits[n // GROUP] >> np.uint32(n % GROUP)) & np.uint32(1):
            return (correct_node_mass(f, n, added, mass_correction_nodes), *g[1:])
        return g

    @kernel(registers)
    def even_step(
        f: Any,
        stride: int,
        runs: Any,
        step_counter: Any,
        added: Any,
        mass_correction: Any,
        first: int,
        last: int,
        force: Any,
        rates: Any,
        omega: Any,
        blend: Any,
    ) -> None:
        n = first + cuda.grid(1)
        if n == 0:
            count_step(step_counter, added)
        if n < last:
            fetch_ahead(f, stride, n, last)
            g = mass_corrected(f, load(f, n, stride), n, mass_correction)
            store(f, n, stride, opposite(collide(g, rates_of(g, n, force, rates, omega, blend), force)))

    @kernel(registers)
    def odd_step(
        f: Any,
        stride: int,
        runs: Any,
        step_counter: Any,
        added: Any,
        mass_correction: Any,
        first: int,
        last: int,
        force: Any,
        rates: Any,
        omega: Any,
        blend: Any,
    ) -> None:
        n = first + cuda.grid(1)
        if n == 0:
            count_step(step_counter, added)
        if n < last:
            fetch_ahead(f, stride, n, last)
            at = addresses_of(runs, n)
            g = mass_corrected(f, opposite(gather(f, at, n)), n, mass_correction)
            scatter(f, at, n, collide(g, rates_of(g, n, force, rates, omega, blend), force))

    return even_step, odd_step
