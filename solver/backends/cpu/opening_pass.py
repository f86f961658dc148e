"""Inlets, outlets, the pressures that follow from the flow, and the density at openings."""

from functools import cache
from typing import Any

import numpy as np
from numba import prange

from solver.backends.cpu.blocks import plain, threaded
from solver.boundary.openings import adjusted, make_outlet
from solver.kernels.d3q19 import Q
from solver.kernels.storage import make_access
from solver.kernels.streaming import make_link_address, make_opposite
from solver.kernels.sums import join


@cache
def make_opening_pass(
    storage: str, real: Any, equilibrium: str = "incompressible", q: int = Q
) -> tuple[Any, Any, Any, Any]:
    """Treat all inlets, all outlets; control pressures; read the density of the nodes at openings."""
    flow_at, treat = make_outlet(storage, real, equilibrium, q)
    access = make_access(storage, real, q)
    take, put, load, gather = access.take, access.put, access.load, access.gather
    opposite, link_address = make_opposite(q), make_link_address(q)

    @threaded
    def inlets(f: Any, slot: Any, column: Any, rows: Any, weight: Any, conditions: Any, entered: Any) -> None:
        for k in prange(len(slot)):
            entered[k] = weight[0, k] * conditions[column[k]]
            for r in range(1, rows[k]):
                entered[k] += weight[r, k] * conditions[column[k] + r]
            put(f, slot[k], take(f, slot[k]) + entered[k])

    @threaded
    def outlets(
        f: Any,
        addresses: Any,
        stride: int,
        even: bool,
        node: Any,
        first: Any,
        links: Any,
        force: Any,
        conditions: Any,
        entered: Any,
    ) -> None:
        for m in prange(len(node)):
            n = node[m]
            g = opposite(load(f, n, stride)) if even else gather(f, link_address(addresses, m, len(node)), n)
            flow = flow_at(g, force)
            for k in range(first[m], first[m + 1]):
                treat(f, k, flow, links, conditions, 0, entered)

    @plain
    def control(flux: Any, column: Any, rule: Any, state: Any, conditions: Any) -> None:
        total = -join(flux[:, 0].sum(), flux[:, 1].sum(), flux[:, 2].sum())
        for m in range(len(column)):
            own = -join(flux[m, 0], flux[m, 1], flux[m, 2])
            left = own + rule[m, 4] * (total - own)
            state[m, 0], state[m, 1], more = adjusted(left, conditions[column[m] + 1], state[m], rule[m])
            conditions[column[m]] = real(conditions[column[m]] + more)

    @plain
    def probe(f: Any, stride: int, node: Any, drho: Any) -> None:
        for k in range(len(node)):
            total = 0.0
            for i in range(q):
                total += np.float64(take(f, i * stride + node[k]))
            drho[k] = total

    return inlets, outlets, control, probe
