# SPDX-License-Identifier: Apache-2.0
"""Inlets, outlets, the pressures that follow from the flow, and the density at openings."""

from functools import cache
from typing import Any

import numpy as np
from numba import prange

from solver.backends.cpu.blocks import serial, threaded
from solver.backends.cpu.prefetch import prefetch
from solver.boundary.opening_walls import taken_by_walls
from solver.boundary.openings import adjusted, admitted, make_outlet
from solver.kernels.d3q19 import Q
from solver.kernels.node_physics import make_moments
from solver.kernels.storage import make_access
from solver.kernels.streaming import make_link_address, make_opposite
from solver.kernels.sums import join

AHEAD = 16
"""Nodes between the one that is treated and the one whose populations are asked for."""


# long and many parameters because loops close over the same functions of a node, and take each array by itself
@cache
def make_opening_pass(
    storage: str, real: Any, equilibrium: str = "incompressible", q: int = Q
) -> tuple[Any, Any, Any, Any, Any, Any, Any]:
    """Treat all inlets, all outlets; add up what walls beside them take; control pressures; find densities after a
    collision, and control flows by them; read the density of the nodes at openings.

    The parameters are those of :mod:`solver.kernels`.
    """
    flow_at, treat = make_outlet(storage, real, equilibrium, q)
    access = make_access(storage, real, q)
    load_slot, store_slot, load, gather = access.load_slot, access.store_slot, access.load, access.gather
    zeroth_and_first_moments, _ = make_moments(q)
    opposite, link_address = make_opposite(q), make_link_address(q)

    @threaded
    def inlets(
        f: Any, slot: Any, column: Any, rows: Any, weight: Any, part: Any, boundary_values: Any, entered: Any
    ) -> None:
        for k in prange(len(slot)):
            more = weight[0, k] * boundary_values[column[k]]
            for r in range(1, rows[k]):
                more += weight[r, k] * boundary_values[column[k] + r]
            store_slot(f, slot[k], load_slot(f, slot[k]) + more)
            entered[k] = part[k] * more

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
        boundary_values: Any,
        entered: Any,
    ) -> None:
        for m in prange(len(node)):
            n, later = node[m], min(m + AHEAD, len(node) - 1)
            if not even:
                for i in range(q - 1):
                    prefetch(f, addresses[i * len(node) + later])
            g = opposite(load(f, n, stride)) if even else gather(f, link_address(addresses, m, len(node)), n)
            flow = flow_at(g, force)
            for k in range(first[m], first[m + 1]):
                treat(f, k, flow, links, boundary_values, 0, entered)

    @serial
    def beside(entered: Any, part: Any, added: Any) -> None:
        for k in range(len(entered)):
            limbs = taken_by_walls(entered[k], part[k])
            added[0] += limbs[0]
            added[1] += limbs[1]
            added[2] += limbs[2]

    @serial
    def outlet_feedback(flux: Any, column: Any, rule: Any, state: Any, volume: Any, boundary_values: Any) -> None:
        surplus = total = -join(flux[:, 0].sum(), flux[:, 1].sum(), flux[:, 2].sum())
        for m in range(len(column)):
            surplus -= np.float64(boundary_values[column[m] + 1])
        for m in range(len(column)):
            own = -join(flux[m, 0], flux[m, 1], flux[m, 2])
            left, wanted = own + rule[m, 4] * (total - own), boundary_values[column[m] + 1]
            state[m, 0], state[m, 1], more = adjusted(left, wanted, surplus, state[m], rule[m])
            volume[m] += state[m, 0]
            boundary_values[column[m]] = real(boundary_values[column[m]] + more - rule[m, 5] * own)

    @threaded
    def density(f: Any, addresses: Any, stride: int, even: bool, node: Any, drho: Any) -> None:
        for m in prange(len(node)):
            n = node[m]
            g = opposite(load(f, n, stride)) if even else gather(f, link_address(addresses, m, len(node)), n)
            drho[m] = zeroth_and_first_moments(g)[0]

    @serial
    def inlet_feedback(sums: Any, column: Any, rule: Any, flow: Any, volume: Any, boundary_values: Any) -> None:
        for m in range(len(column)):
            found = join(sums[m, 0], sums[m, 1], sums[m, 2])
            flow[m] = admitted(found, boundary_values[column[m] + 2], flow[m], rule[m])
            boundary_values[column[m]] = real(flow[m])
            boundary_values[column[m] + 1] = real(rule[m, 3] * flow[m] * flow[m])
            volume[m] += np.float64(boundary_values[column[m]])

    @serial
    def probe(f: Any, stride: int, node: Any, drho: Any) -> None:
        for k in range(len(node)):
            total = 0.0
            for i in range(q):
                total += np.float64(load_slot(f, i * stride + node[k]))
            drho[k] = total

    return inlets, outlets, beside, outlet_feedback, density, inlet_feedback, probe
