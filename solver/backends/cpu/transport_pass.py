# SPDX-License-Identifier: Apache-2.0
"""Steps of the scalar of :mod:`solver.kernels.transport`, several nodes at once, and what passes openings and walls.

As in :mod:`solver.backends.cpu.steps`, nodes of a run are taken together as far as they fill vectors; what is left of
it one by one.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import prange

from solver.backends.cpu.blocks import CHUNK, serial, threaded
from solver.backends.cpu.simd import make_simd
from solver.kernels.compilation import inner_loop
from solver.kernels.node_physics import node_function
from solver.kernels.storage import NATIVE
from solver.kernels.transport import (
    concentration,
    exchanged,
    faces_at,
    make_axis_address,
    make_passage,
    make_scalar_moves,
    make_transport,
)


# long because the loops close over the same functions of a node
@cache
def make_transport_pass(real: Any) -> tuple[Any, Any, Any, Any]:
    """The even and the odd step of all nodes, what passes openings, and what comes in through walls.

    Parameters
    ----------
    real : NumPy type that is computed with.
    """
    transport, whole = make_transport(real), make_simd(NATIVE, real)
    load, store, _, _ = make_scalar_moves(whole.load_slot, whole.store_slot)
    load_one, _, gather_one, scatter_one = make_scalar_moves(whole.get, whole.set)
    axis_address, passage = make_axis_address(whole.get), make_passage(real)
    faces_of, faces_of_one = faces_at(whole.load_slot), faces_at(whole.get)
    width = whole.width

    def make_run(part: int) -> Any:
        """Function that moves nodes of a run up to its end, as many as fill vectors; the node that comes next."""
        simd = make_simd(NATIVE, real, part)
        width, faces_of = simd.width, faces_at(simd.load_slot)
        _, _, gather, scatter = make_scalar_moves(simd.load_slot, simd.store_slot)

        @node_function
        def move_run(s: Any, stride: int, runs: Any, r: int, n: int, end: int, faces: Any, numbers: Any) -> int:
            while n + width <= end:
                at, f = axis_address(runs.offset, r, n), faces_of(faces, n, stride)
                scatter(s, at, n, exchanged(transport(exchanged(gather(s, at, n)), f, numbers)))
                n += width
            return n

        return move_run

    move_full, move_half = make_run(1), make_run(2)

    @inner_loop
    def even_chunk(s: Any, stride: int, first: int, last: int, faces: Any, numbers: Any) -> None:
        for n in range(first, last, width):
            store(s, n, stride, transport(load(s, n, stride), faces_of(faces, n, stride), numbers))

    @inner_loop
    def odd_chunk(s: Any, stride: int, runs: Any, first: int, last: int, faces: Any, numbers: Any) -> None:
        n, r = first, np.searchsorted(runs.first, first, "right") - 1
        while n < last:
            end = min(last, runs.first[r + 1])
            n = move_full(s, stride, runs, r, n, end, faces, numbers)
            n = move_half(s, stride, runs, r, n, end, faces, numbers)
            while n < end:
                at, f = axis_address(runs.offset, r, n), faces_of_one(faces, n, stride)
                scatter_one(s, at, n, exchanged(transport(exchanged(gather_one(s, at, n)), f, numbers)))
                n += 1
            r += 1

    @threaded
    def even_step(s: Any, stride: int, faces: Any, numbers: Any) -> None:
        for chunk in prange((stride + CHUNK - 1) // CHUNK):
            first = chunk * CHUNK
            even_chunk(s, stride, first, min(stride, first + CHUNK), faces, numbers)

    @threaded
    def odd_step(s: Any, stride: int, runs: Any, faces: Any, numbers: Any) -> None:
        for chunk in prange((stride + CHUNK - 1) // CHUNK):
            first = chunk * CHUNK
            odd_chunk(s, stride, runs, first, min(stride, first + CHUNK), faces, numbers)

    # many parameters because a compiled loop takes each array by itself
    @serial
    def openings(
        s: Any,
        stride: int,
        even: bool,
        ports: Any,
        flux: Any,
        inflow: Any,
        k: Any,
        held: Any,
        carried: Any,
        passed: Any,
    ) -> None:
        links = ports.first, ports.slot, ports.opening
        for m in range(len(ports.node)):
            n = ports.node[m]
            arriving = gather_one(s, axis_address(ports.address, m, 0), n) if even else load_one(s, n, stride)
            passage(s, concentration(arriving), m, links, flux, inflow, 0, k, held, carried, passed)

    @serial
    def walls(s: Any, slot: Any, amount: Any) -> None:
        for k in range(len(slot)):
            s[slot[k]] += amount[k]

    return even_step, odd_step, openings, walls
