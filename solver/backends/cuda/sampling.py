# SPDX-License-Identifier: Apache-2.0
"""What is read between pairs of steps: the fields of all nodes, sums and extremes over them, single populations."""

import math
from functools import cache
from typing import Any

import numpy as np
from numba import float64, int64

from solver.backends.cuda.device import SUM_THREADS, cuda, kernel, make_block_sum, on_device
from solver.backends.observation import EVERYWHERE, EXTREMES, TERMS
from solver.kernels.accumulation import make_accumulation, make_gathering
from solver.kernels.d3q19 import Q
from solver.kernels.node_physics import make_observation, relative_change
from solver.kernels.rheology import make_fields
from solver.kernels.storage import make_access
from solver.kernels.sums import LIMBS, split

ROWS = TERMS * LIMBS


# long and many parameters because the kernels close over the same functions of a node, and take each array by itself
@cache
def make_reading(
    storage: str,
    real: Any,
    equilibrium: str = "incompressible",
    rheology: str | None = None,
    blended: bool = False,
    q: int = Q,
) -> tuple[Any, Any, Any, Any]:
    """Take the fields of all nodes into a mean; the same with statistics; count a mean's states; observe nodes and
    openings.

    An observation leaves sums and extremes, a partial result a block, the density of the nodes at openings, and copies
    of what came in through their links, which the next step writes again.

    The parameters are those of :mod:`solver.kernels`.
    """
    observe_node, measure = make_observation(real, equilibrium, q), make_fields(rheology, blended, equilibrium, real, q)
    access = make_access(storage, real, q)
    load_slot, load, measure_node = on_device(access.load_slot), on_device(access.load), on_device(measure)
    varying, add_block = rheology is not None, make_block_sum(ROWS)
    accumulate, gather = on_device(make_accumulation(varying)), on_device(make_gathering(varying, real))

    @cuda.jit(device=True)
    def merge_extremes(found: Any, t: int, other: int) -> None:
        for k in range(0, EXTREMES, 2):
            value, node = found[other, k], found[other, k + 1]
            if value > found[t, k] or (value == found[t, k] and node < found[t, k + 1]):
                found[t, k], found[t, k + 1] = value, node

    @kernel()
    def fields(f: Any, stride: int, force: Any, rates: Any, omega: Any, blend: Any, count: Any, into: Any) -> None:
        n = cuda.grid(1)
        if n < into[0].shape[0]:
            share = real(1.0 / count[0])
            accumulate(into, n, measure_node(load(f, n, stride), n, force, rates, omega, blend), share)

    @kernel()
    def fields_and_statistics(
        f: Any, stride: int, force: Any, rates: Any, omega: Any, blend: Any, count: Any, into: Any, statistics: Any
    ) -> None:
        n = cuda.grid(1)
        if n < into[0].shape[0]:
            share = real(1.0 / count[0])
            found = measure_node(load(f, n, stride), n, force, rates, omega, blend)
            accumulate(into, n, found, share)
            gather(statistics, n, found, rates, share)

    @kernel()
    def count_state(count: Any, restart: bool) -> None:
        count[0] = 1 if restart else count[0] + 1

    @cuda.jit(device=True)
    def observe_openings(f: Any, stride: int, here: Any, observed: Any) -> None:
        node, inlet_flux, outlet_flux = here
        into, out, drho = observed
        for k in range(cuda.grid(1), node.shape[0], cuda.gridsize(1)):
            total = 0.0
            for i in range(q):
                total += np.float64(load_slot(f, i * stride + node[k]))
            drho[k] = total
        for k in range(cuda.grid(1), into.shape[0], cuda.gridsize(1)):
            into[k] = inlet_flux[k]
        for k in range(cuda.grid(1), out.shape[0], cuda.gridsize(1)):
            out[k] = outlet_flux[k]

    @kernel()
    def observe(
        f: Any,
        stride: int,
        force: Any,
        before: Any,
        wide: Any,
        keep: bool,
        first: int,
        last: int,
        sums: Any,
        extremes: Any,
        at_openings: Any,
        openings_observed: Any,
    ) -> None:
        observe_openings(f, stride, at_openings, openings_observed)
        shared = cuda.shared.array((ROWS, SUM_THREADS), int64)
        found = cuda.shared.array((SUM_THREADS, EXTREMES), float64)
        t, block = cuda.threadIdx.x, cuda.blockIdx.x
        for row in range(ROWS):
            shared[row, t] = 0
        most, place, most_drho, dense = -1.0, 0, -1.0, 0
        for n in range(first + cuda.grid(1), last, cuda.gridsize(1)):
            drho, u, square, change = observe_node(
                load(f, n, stride), (before[0, n], before[1, n], before[2, n]), force
            )
            if square > most:
                most, place = square, n
            if np.float64(abs(drho)) > most_drho:
                most_drho, dense = np.float64(abs(drho)), n
            relative = relative_change(change, square)
            terms = (change, math.sqrt(square), square, np.float64(drho), relative, 1.0)
            for k in range(TERMS if wide.shape[0] > 0 and wide[n] else EVERYWHERE):
                limbs = split(terms[k])
                for limb in range(LIMBS):
                    shared[k * LIMBS + limb, t] += limbs[limb]
            if keep:
                before[0, n], before[1, n], before[2, n] = u
        add_block(shared, t)
        if t < ROWS:
            sums[block, t // LIMBS, t % LIMBS] = shared[t, 0]
        found[t, 0], found[t, 1], found[t, 2], found[t, 3] = most, place, most_drho, dense
        cuda.syncthreads()
        width = SUM_THREADS // 2
        while width > 0:
            if t < width:
                merge_extremes(found, t, t + width)
            cuda.syncthreads()
            width //= 2
        if t < EXTREMES:
            extremes[block, t] = found[0, t]

    return fields, fields_and_statistics, count_state, observe


@cache
def make_exchange() -> tuple[Any, Any]:
    """Read and write populations in given slots."""

    @kernel()
    def read(f: Any, slots: Any, values: Any) -> None:
        k = cuda.grid(1)
        if k < slots.shape[0]:
            values[k] = f[slots[k]]

    @kernel()
    def write(f: Any, slots: Any, values: Any) -> None:
        k = cuda.grid(1)
        if k < slots.shape[0]:
            f[slots[k]] = values[k]

    return read, write


@cache
def make_count() -> Any:
    """Kernel ``(omega, count, least, most, counts)`` that counts the nodes at and beyond bounds of their rate."""

    @kernel()
    def tell(omega: Any, count: int, least: Any, most: Any, counts: Any) -> None:
        n = cuda.grid(1)
        if n < count:
            if omega[n] >= most:
                cuda.atomic.add(counts, 0, 1)
            if omega[n] <= least:
                cuda.atomic.add(counts, 1, 1)

    return tell
