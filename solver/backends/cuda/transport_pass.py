# SPDX-License-Identifier: Apache-2.0
"""Steps of the scalar of :mod:`solver.kernels.transport`: one thread a node, or a node at an opening, or a link."""

from functools import cache
from typing import Any

import numpy as np

from solver.backends.cuda.device import cuda, kernel, on_device
from solver.domain.addresses import GROUP
from solver.kernels.storage import NATIVE, make_access
from solver.kernels.transport import (
    concentration,
    exchanged,
    faces_at,
    make_axis_address,
    make_passage,
    make_scalar_moves,
    make_transport,
)


# long and many parameters because the kernels close over the same functions of a node, and take each array by itself
@cache
def make_transport_pass(real: Any) -> tuple[Any, Any, Any, Any, Any]:
    """The even and the odd step of all nodes, what passes openings, what comes in through walls, and the concentration.

    The thread of the first node counts the step, by which openings find their row of `inflow`.

    Parameters
    ----------
    real : NumPy type that is computed with.
    """
    access = make_access(NATIVE, real)
    load_slot, store_slot = map(on_device, access[:2])
    moves = make_scalar_moves(access.load_slot, access.store_slot)
    load, store, gather, scatter = map(on_device, moves)
    axis_address, faces_of = on_device(make_axis_address(access.load_slot)), on_device(faces_at(access.load_slot))
    transport, passage = make_transport(real), on_device(make_passage(real))

    @cuda.jit(device=True)
    def addresses_of(runs: Any, n: Any) -> Any:
        offset, before, starts = runs
        group = n // GROUP
        begun = starts[group] & (np.uint32(0xFFFFFFFF) >> np.uint32(GROUP - 1 - n % GROUP))
        return axis_address(offset, before[group] + cuda.popc(begun), n)

    @kernel()
    def even_step(s: Any, stride: int, step_counter: Any, faces: Any, numbers: Any) -> None:
        n = cuda.grid(1)
        if n == 0:
            step_counter[0] += 1
        if n < stride:
            store(s, n, stride, transport(load(s, n, stride), faces_of(faces, n, stride), numbers))

    @kernel()
    def odd_step(s: Any, stride: int, step_counter: Any, runs: Any, faces: Any, numbers: Any) -> None:
        n = cuda.grid(1)
        if n == 0:
            step_counter[0] += 1
        if n < stride:
            at, f = addresses_of(runs, n), faces_of(faces, n, stride)
            scatter(s, at, n, exchanged(transport(exchanged(gather(s, at, n)), f, numbers)))

    @kernel()
    def openings(
        s: Any,
        stride: int,
        even: bool,
        node: Any,
        first: Any,
        slot: Any,
        opening: Any,
        address: Any,
        flux: Any,
        step_counter: Any,
        inflow: Any,
        width: int,
        k: Any,
        held: Any,
        carried: Any,
        passed: Any,
    ) -> None:
        m = cuda.grid(1)
        if m < len(node):
            n = node[m]
            arriving = gather(s, axis_address(address, m, 0), n) if even else load(s, n, stride)
            links, row = (first, slot, opening), step_counter[0] * width
            passage(s, concentration(arriving), m, links, flux, inflow, row, k, held, carried, passed)

    @kernel()
    def walls(s: Any, slot: Any, amount: Any) -> None:
        k = cuda.grid(1)
        if k < len(slot):
            store_slot(s, slot[k], load_slot(s, slot[k]) + amount[k])

    @kernel()
    def read(s: Any, stride: int, count: int, into: Any) -> None:
        n = cuda.grid(1)
        if n < count:
            into[n] = concentration(load(s, n, stride))

    return even_step, odd_step, openings, walls, read
