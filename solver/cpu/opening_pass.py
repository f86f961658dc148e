"""Inlets, outlets, and the density at them."""

from functools import cache
from typing import Any

import numpy as np

from solver.cpu.blocks import plain
from solver.openings import make_outlet
from solver.streaming import gather, link_address, load, opposite


@cache
def make_opening_pass(real: Any) -> tuple[Any, Any, Any]:
    """Treat all inlets, all outlets; read the density of the nodes at openings."""
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
