# SPDX-License-Identifier: Apache-2.0
"""Streaming and collision of several nodes at once, straight on the populations where their links allow it.

In an even step they do. In an odd step the addresses of all links follow each other within a run: as many nodes of it
are collided at once as fill vectors, then one of half their length where it fits. What is left of runs is copied to a
small buffer first, a node a column.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import prange

from solver.backends.cpu.blocks import CHUNK, threaded
from solver.backends.cpu.simd import make_simd
from solver.kernels.collision import make_collision
from solver.kernels.compilation import inner_loop
from solver.kernels.d3q19 import Q
from solver.kernels.node_physics import node_function
from solver.kernels.rheology import make_rates
from solver.kernels.storage import FP16_BITS
from solver.kernels.streaming import make_moves, make_opposite, make_run_address

REST = 64
"""Nodes that the buffer holds."""


# long and many parameters because the loops close over the same functions of a node, and take each array by itself
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

    The parameters are those of :mod:`solver.kernels`.
    """
    collide, simd = make_collision(collision, real, equilibrium, q), make_simd(storage, real)
    rates_of = make_rates(rheology, blended, equilibrium, real, simd.numbers, q)
    width, (load, store, _, _) = simd.width, make_moves(simd.load_slot, simd.store_slot, q)
    load_one, store_one, gather_one, scatter_one = make_moves(simd.get, simd.set, q)
    run_address, opposite = make_run_address(simd.get, q), make_opposite(q)
    stored: Any = np.uint16 if storage == FP16_BITS else real
    varying = rheology is not None

    @inner_loop
    def even_chunk(f: Any, stride: int, first: int, last: int, force: Any, rates: Any, omega: Any, blend: Any) -> None:
        for n in range(first, last, width):
            g = load(f, n, stride)
            store(f, n, stride, opposite(collide(g, rates_of(g, n, force, rates, omega, blend), force)))

    def make_run(part: int) -> Any:
        """Function that collides nodes of a run up to its end, as many as fill vectors; the node that comes next."""
        simd = make_simd(storage, real, part)
        width, (_, _, gather, scatter) = simd.width, make_moves(simd.load_slot, simd.store_slot, q)
        rates_of = make_rates(rheology, blended, equilibrium, real, simd.numbers, q)

        @node_function
        def collide_run(
            f: Any, runs: Any, r: int, n: int, end: int, force: Any, rates: Any, omega: Any, blend: Any
        ) -> int:
            while n + width <= end:
                at = run_address(runs.offset, r, n)
                g = opposite(gather(f, at, n))
                scatter(f, at, n, collide(g, rates_of(g, n, force, rates, omega, blend), force))
                n += width
            return n

        return collide_run

    collide_full, collide_half = make_run(1), make_run(2)

    @node_function
    def collide_rest(f: Any, runs: Any, rest: Any, count: int, force: Any, rates: Any, omega: Any, blend: Any) -> None:
        """Collide the nodes in the buffer, and put them back."""
        columns, node, run, its_omega, its_blend = rest
        for k in range(0, count, width):
            g = load(columns, k, REST)
            store(columns, k, REST, collide(g, rates_of(g, k, force, rates, its_omega, its_blend), force))
        for k in range(count):
            scatter_one(f, run_address(runs.offset, run[k], node[k]), node[k], load_one(columns, k, REST))
            if varying:
                omega[node[k]] = its_omega[k]

    @inner_loop
    def odd_chunk(f: Any, runs: Any, first: int, last: int, force: Any, rates: Any, omega: Any, blend: Any) -> None:
        columns, node, run = np.zeros(q * REST, stored), np.zeros(REST, np.intp), np.zeros(REST, np.intp)
        its_omega, its_blend = np.ones(REST, real), np.zeros(REST, real)
        rest, count = (columns, node, run, its_omega, its_blend), 0
        n, r = first, np.searchsorted(runs.first, first, "right") - 1
        while n < last:
            end = min(last, runs.first[r + 1])
            n = collide_full(f, runs, r, n, end, force, rates, omega, blend)
            n = collide_half(f, runs, r, n, end, force, rates, omega, blend)
            while n < end:
                store_one(columns, count, REST, opposite(gather_one(f, run_address(runs.offset, r, n), n)))
                node[count], run[count] = n, r
                if varying:
                    its_omega[count] = omega[n]
                if blended:
                    its_blend[count] = blend[n]
                n, count = n + 1, count + 1
                if count == REST:
                    collide_rest(f, runs, rest, count, force, rates, omega, blend)
                    count = 0
            r += 1
        collide_rest(f, runs, rest, count, force, rates, omega, blend)

    @threaded
    def even_step(f: Any, stride: int, first: int, last: int, force: Any, rates: Any, omega: Any, blend: Any) -> None:
        for chunk in prange((last - first + CHUNK - 1) // CHUNK):
            begin = first + chunk * CHUNK
            even_chunk(f, stride, begin, min(last, begin + CHUNK), force, rates, omega, blend)

    @threaded
    def odd_step(f: Any, runs: Any, first: int, last: int, force: Any, rates: Any, omega: Any, blend: Any) -> None:
        for chunk in prange((last - first + CHUNK - 1) // CHUNK):
            begin = first + chunk * CHUNK
            odd_chunk(f, runs, begin, min(last, begin + CHUNK), force, rates, omega, blend)

    return even_step, odd_step
