# SPDX-License-Identifier: Apache-2.0
"""Pressures that follow from the flow through outlets, and flows that follow from the pressure at inlets."""

from functools import cache
from typing import Any

import numpy as np
from numba import int64

from solver.backends.cuda.device import SUM_THREADS, cuda, kernel, make_block_sum, on_device
from solver.backends.cuda.steps import make_addresses
from solver.boundary.openings import adjusted, admitted
from solver.kernels.node_physics import make_moments
from solver.kernels.storage import make_access
from solver.kernels.streaming import make_opposite
from solver.kernels.sums import LIMBS, join, split


# long and many parameters because the kernels close over the same functions of a node, and take each array by itself
@cache
def make_feedback_pass(storage: str, real: Any, q: int) -> tuple[Any, Any, Any, Any, Any]:
    """Add up what is found at each opening with feedback, some blocks each, which leave a sum each; write the pressures
    that follow into the boundary values; find densities after a collision; write the flows that follow; keep the
    volumes that passed.

    The parameters are those of :mod:`solver.kernels`.
    """
    access = make_access(storage, real, q)
    load, gather, opposite = map(on_device, (access.load, access.gather, make_opposite(q)))
    moments, addresses_of = on_device(make_moments(q)[0]), make_addresses(q)
    add_block = make_block_sum(LIMBS)
    rule_of, admit = on_device(adjusted), on_device(admitted)

    @kernel()
    def add_up(entered: Any, link: Any, ends: Any, flux: Any) -> None:
        sums = cuda.shared.array((LIMBS, SUM_THREADS), int64)
        parts, t = flux.shape[1], cuda.threadIdx.x
        m, part = cuda.blockIdx.x // parts, cuda.blockIdx.x % parts
        x, y, z = np.int64(0), np.int64(0), np.int64(0)
        for k in range(ends[m] + part * SUM_THREADS + t, ends[m + 1], parts * SUM_THREADS):
            limbs = split(np.float64(entered[link[k]]))
            x, y, z = x + limbs[0], y + limbs[1], z + limbs[2]
        sums[0, t], sums[1, t], sums[2, t] = x, y, z
        add_block(sums, t)
        if t < LIMBS:
            flux[m, part, t] = sums[t, 0]

    @cuda.jit(device=True)
    def add_parts(limbs: Any, m: int) -> Any:
        x, y, z = np.int64(0), np.int64(0), np.int64(0)
        for part in range(limbs.shape[1]):
            x, y, z = x + limbs[m, part, 0], y + limbs[m, part, 1], z + limbs[m, part, 2]
        return x, y, z

    @kernel()
    def outlet_feedback(
        flux: Any,
        column: Any,
        rule: Any,
        state: Any,
        volume: Any,
        boundary_values: Any,
        step_counter: Any,
        width: int,
    ) -> None:
        m = cuda.grid(1)
        if m < column.shape[0]:
            at = step_counter[0] * width + column[m]
            x, y, z = np.int64(0), np.int64(0), np.int64(0)
            for k in range(column.shape[0]):
                limbs = add_parts(flux, k)
                x, y, z = x + limbs[0], y + limbs[1], z + limbs[2]
            surplus = total = -join(x, y, z)
            for k in range(column.shape[0]):
                surplus -= np.float64(boundary_values[step_counter[0] * width + column[k] + 1])
            limbs = add_parts(flux, m)
            own = -join(limbs[0], limbs[1], limbs[2])
            left, wanted = own + rule[m, 4] * (total - own), np.float64(boundary_values[at + 1])
            state[m, 0], state[m, 1], more = rule_of(left, wanted, surplus, state[m], rule[m])
            volume[m] += state[m, 0]
            boundary_values[at] = real(boundary_values[at] + more - rule[m, 5] * own)

    @kernel()
    def inlet_feedback(
        drho: Any,
        column: Any,
        rule: Any,
        flow: Any,
        volume: Any,
        boundary_values: Any,
        step_counter: Any,
        width: int,
    ) -> None:
        m = cuda.grid(1)
        if m < column.shape[0]:
            at = step_counter[0] * width + column[m]
            limbs = add_parts(drho, m)
            found = join(limbs[0], limbs[1], limbs[2])
            flow[m] = admit(found, np.float64(boundary_values[at + 2]), flow[m], rule[m])
            boundary_values[at] = real(flow[m])
            boundary_values[at + 1] = real(rule[m, 3] * flow[m] * flow[m])
            volume[m] += np.float64(boundary_values[at])

    @kernel()
    def density(f: Any, runs: Any, stride: int, even: bool, node: Any, drho: Any) -> None:
        k = cuda.grid(1)
        if k < node.shape[0]:
            n = node[k]
            g = opposite(load(f, n, stride)) if even else gather(f, addresses_of(runs, n), n)
            drho[k] = moments(g)[0]

    @kernel()
    def keep_volumes(left: Any, entered: Any, kept_left: Any, kept_entered: Any) -> None:
        m = cuda.grid(1)
        if m < left.shape[0]:
            kept_left[m] = left[m]
        elif m < left.shape[0] + entered.shape[0]:
            kept_entered[m - left.shape[0]] = entered[m - left.shape[0]]

    return add_up, outlet_feedback, density, inlet_feedback, keep_volumes
