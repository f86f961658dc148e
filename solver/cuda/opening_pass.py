"""Inlets, outlets, the pressures that follow from the flow, and the density at openings."""

from functools import cache
from typing import Any

import numpy as np
from numba import int64

from solver.cuda.device import SUM_THREADS, cuda, make_block_sum, on_device
from solver.cuda.steps import make_addresses
from solver.openings import adjusted, make_outlet
from solver.storage import make_access
from solver.streaming import opposite
from solver.sums import WORDS, join, split


@cache
def make_opening_pass(storage: str, real: Any, equilibrium: str = "incompressible") -> tuple[Any, Any]:
    """Treat outlets, a thread a node, and then inlets, a thread a link; read the density of the nodes at openings."""
    treat, addresses_of = on_device(make_outlet(storage, real, equilibrium)), make_addresses()
    read, _, read_links, _, decode, encode = map(on_device, make_access(storage, real))

    @cuda.jit
    def openings(
        f: Any, begin: int, end: int, offset: Any, before: Any, starts: Any, stride: int, even: bool, force: Any,
        conditions: Any, clock: Any, columns: int, node: Any, first: Any, slot: Any, column: Any, normal: Any,
        velocity: Any, weight: Any, outlet_flux: Any, inlet_slot: Any, inlet_column: Any, inlet_rows: Any,
        inlet_weight: Any, inlet_flux: Any,
    ) -> None:  # fmt: skip
        m, row = begin + cuda.grid(1), clock[0] * columns
        k = m - node.shape[0]
        if m < min(end, node.shape[0]):
            n = node[m]
            g = opposite(read(f, n, stride)) if even else read_links(f, addresses_of(offset, before, starts, n), n)
            treat(f, g, m, (first, slot, column, normal, velocity, weight), force, conditions, row, outlet_flux)
        elif m < end:
            at = row + inlet_column[k]
            more = inlet_weight[0, k] * conditions[at]
            for r in range(1, inlet_rows[k]):
                more += inlet_weight[r, k] * conditions[at + r]
            inlet_flux[k] = more
            f[inlet_slot[k]] = encode(decode(f[inlet_slot[k]]) + more)

    @cuda.jit
    def probe(f: Any, stride: int, node: Any, drho: Any) -> None:
        k = cuda.grid(1)
        if k < node.shape[0]:
            total = 0.0
            for i in range(19):
                total += np.float64(decode(f[i * stride + node[k]]))
            drho[k] = total

    return openings, probe


@cache
def make_control_pass(real: Any) -> tuple[Any, Any]:
    """Add up the flux of each controlled outlet, a block each; put the pressures that follow into the conditions."""
    add_block = make_block_sum()
    rule_of = on_device(adjusted)

    @cuda.jit
    def add_up(entered: Any, link: Any, ends: Any, flux: Any) -> None:
        shared = cuda.shared.array((SUM_THREADS, WORDS), int64)
        m, t = cuda.blockIdx.x, cuda.threadIdx.x
        x, y, z = np.int64(0), np.int64(0), np.int64(0)
        for k in range(ends[m] + t, ends[m + 1], SUM_THREADS):
            words = split(np.float64(entered[link[k]]))
            x, y, z = x + words[0], y + words[1], z + words[2]
        shared[t, 0], shared[t, 1], shared[t, 2] = x, y, z
        add_block(shared, t)
        if t < WORDS:
            flux[m, t] = shared[0, t]

    @cuda.jit
    def control(flux: Any, column: Any, rule: Any, state: Any, conditions: Any, clock: Any, columns: int) -> None:
        m = cuda.grid(1)
        if m < column.shape[0]:
            at = clock[0] * columns + column[m]
            left = -join(flux[m, 0], flux[m, 1], flux[m, 2])
            state[m, 0], state[m, 1], more = rule_of(left, np.float64(conditions[at + 1]), state[m], rule[m])
            conditions[at] = real(conditions[at] + more)

    return add_up, control
