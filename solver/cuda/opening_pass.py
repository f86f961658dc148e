"""Inlets, outlets, and the density at them."""

from functools import cache
from typing import Any

import numpy as np

from solver.cuda.device import cuda, on_device
from solver.openings import make_outlet
from solver.streaming import gather, link_address, load, opposite


@cache
def make_opening_pass(real: Any) -> tuple[Any, Any, Any]:
    """Treat all inlets, all outlets; read the density of the nodes at openings."""
    treat, read = on_device(make_outlet(real)), on_device(load)
    addresses_of, read_links = on_device(link_address), on_device(gather)

    @cuda.jit
    def inlets(f: Any, slot: Any, opening: Any, weight: Any, conditions: Any, row: int, entered: Any) -> None:
        k = cuda.grid(1)
        if k < slot.shape[0]:
            entered[k] = weight[k] * conditions[row + opening[k]]
            f[slot[k]] += entered[k]

    @cuda.jit
    def outlets(
        f: Any, addresses: Any, stride: int, even: bool, node: Any, first: Any, slot: Any, opening: Any, normal: Any,
        velocity: Any, weight: Any, force: Any, conditions: Any, row: int, entered: Any,
    ) -> None:  # fmt: skip
        m = cuda.grid(1)
        if m < node.shape[0]:
            n = node[m]
            g = opposite(read(f, n, stride)) if even else read_links(f, addresses_of(addresses, n, stride), n)
            links = (first, slot, opening, normal, velocity, weight)
            treat(f, g, m, links, force, conditions, row, entered)

    @cuda.jit
    def probe(f: Any, stride: int, node: Any, drho: Any) -> None:
        k = cuda.grid(1)
        if k < node.shape[0]:
            total = 0.0
            for i in range(19):
                total += np.float64(f[i * stride + node[k]])
            drho[k] = total

    return inlets, outlets, probe
