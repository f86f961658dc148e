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
from solver.domain.stencils import AXES
from solver.kernels.collision import make_collision
from solver.kernels.d3q19 import Q
from solver.kernels.rheology import make_relaxation
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
def make_fetching(storage: str, real: Any, q: int, varying: bool) -> Any:
    """Device function ``(f, stride, n, last, momentum, due, omega)``: a warp asks for the lines that another will need,
    one a thread: of the populations, of the momentum where that is `due`, and of omega where it varies.

    The parameters are those of :mod:`solver.kernels`.
    """
    size, wide = 2 if storage == FP16 else np.dtype(real).itemsize, np.dtype(real).itemsize
    lines, wide_lines = max(1, WARP * size // LINE), WARP * wide // LINE
    of_populations = q * lines
    with_momentum = of_populations + AXES * wide_lines
    with_omega = with_momentum + wide_lines
    rounds = -(-with_omega // WARP)

    @cuda.jit(device=True)
    def fetch_ahead(f: Any, stride: int, n: Any, last: int, momentum: Any, due: bool, omega: Any) -> None:
        thread = n % WARP
        there = n - thread + AHEAD
        if there < last:
            for number in range(rounds):
                line = thread + number * WARP
                if line < of_populations:
                    prefetch(f, line // lines * stride + there + line % lines * (LINE // size))
                elif line < with_momentum:
                    if due:
                        axis, part = divmod(line - of_populations, wide_lines)
                        prefetch(momentum, axis * momentum.shape[1] + there + part * (LINE // wide))
                elif varying and line < with_omega:
                    prefetch(omega, there + (line - with_momentum) * (LINE // wide))

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


@cache
def make_added_momentum(real: Any, q: int) -> tuple[Any, Any]:
    """Device functions ``(n, momentum, due) -> halves``, of the momentum of node n, (3, .), where that is due, and
    ``(g, halves, due) -> g`` with it. What is loaded first is on its way together with the populations.
    """
    half, zero = real(0.5), real(0)

    @cuda.jit(device=True)
    def halves_of(n: Any, momentum: Any, due: bool) -> Any:
        if due:
            return half * momentum[0, n], half * momentum[1, n], half * momentum[2, n]
        return zero, zero, zero

    @cuda.jit(device=True)
    def added(g: Any, halves: Any, due: bool) -> Any:
        if due:
            x, y, z = halves
            return (g[0], g[1] + x, g[2] - x, g[3] + y, g[4] - y, g[5] + z, g[6] - z, *g[7:])
        return g

    @cuda.jit(device=True)
    def none(n: Any, momentum: Any, due: bool) -> Any:
        return zero, zero, zero

    @cuda.jit(device=True)
    def unchanged(g: Any, halves: Any, due: bool) -> Any:
        return g

    return (none, unchanged) if q == Q else (halves_of, added)


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
    """The even and the odd step of a range of nodes; `rates`, `omega` and `blend` as :func:`make_relaxation` says.
    What is read of a node first is on its way together with its populations.

    `mass_correction` is what walls added in the step before: bits of the nodes that share it, 32 a word, the limbs of
    the mass, and how many share it, 0 where none is pending. `momentum` is that of :mod:`solver.kernels.isotropy`, and
    whether it is due before an even step.

    The parameters are those of :mod:`solver.kernels`.
    """
    collide, opposite = make_collision(collision, real, equilibrium, q), make_opposite(q)
    known_of, rates_of, keep = map(on_device, make_relaxation(rheology, blended, equilibrium, real, q=q))
    load, store, gather, scatter = map(on_device, make_access(storage, real, q)[2:])
    even_registers, odd_registers = node_registers(real, rheology is not None, q)
    addresses_of, fetch_ahead, correct_node_mass = (
        make_addresses(q),
        make_fetching(storage, real, q, rheology is not None),
        make_mass_correction(storage, real),
    )
    halves_of, with_momentum = make_added_momentum(real, q)

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

    @kernel(even_registers)
    def even_step(
        f: Any,
        stride: int,
        runs: Any,
        step_counter: Any,
        added: Any,
        mass_correction: Any,
        momentum: Any,
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
            fetch_ahead(f, stride, n, last, momentum[0], momentum[1], omega)
            known, halves = known_of(omega, blend, n), halves_of(n, momentum[0], momentum[1])
            g = mass_corrected(f, with_momentum(load(f, n, stride), halves, momentum[1]), n, mass_correction)
            own = rates_of(g, force, rates, known)
            keep(omega, n, own)
            store(f, n, stride, opposite(collide(g, own, force)))

    @kernel(odd_registers)
    def odd_step(
        f: Any,
        stride: int,
        runs: Any,
        step_counter: Any,
        added: Any,
        mass_correction: Any,
        momentum: Any,
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
            fetch_ahead(f, stride, n, last, momentum[0], False, omega)
            known, at = known_of(omega, blend, n), addresses_of(runs, n)
            g = mass_corrected(f, opposite(gather(f, at, n)), n, mass_correction)
            own = rates_of(g, force, rates, known)
            keep(omega, n, own)
            scatter(f, at, n, collide(g, own, force))

    return even_step, odd_step
