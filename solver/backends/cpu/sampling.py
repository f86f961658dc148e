# SPDX-License-Identifier: Apache-2.0
"""What is read between pairs of steps: the fields of all nodes, sums and extremes over them."""

from functools import cache
from typing import Any

import numpy as np
from numba import prange

from solver.backends.cpu.blocks import CHUNK, threaded
from solver.backends.observation import EVERYWHERE, TERMS
from solver.kernels.accumulation import make_accumulation, make_gathering
from solver.kernels.compilation import inner_loop
from solver.kernels.d3q19 import Q
from solver.kernels.node_physics import make_observation, relative_change
from solver.kernels.rheology import make_fields
from solver.kernels.storage import make_access
from solver.kernels.sums import LIMBS, split


# long and many parameters because loops close over the same functions of a node, and take each array by itself
@cache
def make_reading(
    storage: str,
    real: Any,
    equilibrium: str = "incompressible",
    rheology: str | None = None,
    blended: bool = False,
    q: int = Q,
) -> tuple[Any, Any, Any]:
    """Fields of all nodes; the same with statistics; sums and extremes over them.

    The parameters are those of :mod:`solver.kernels`.
    """
    observe_node, measure = make_observation(real, equilibrium, q), make_fields(rheology, blended, equilibrium, real, q)
    load, varying = make_access(storage, real, q).load, rheology is not None
    accumulate, gather = make_accumulation(varying), make_gathering(varying, real)

    @threaded
    def fields(f: Any, stride: int, force: Any, rates: Any, omega: Any, blend: Any, share: Any, into: Any) -> None:
        for n in prange(len(into[0])):
            accumulate(into, n, measure(load(f, n, stride), n, force, rates, omega, blend), share)

    @threaded
    def fields_and_statistics(
        f: Any, stride: int, force: Any, rates: Any, omega: Any, blend: Any, share: Any, into: Any, statistics: Any
    ) -> None:
        for n in prange(len(into[0])):
            found = measure(load(f, n, stride), n, force, rates, omega, blend)
            accumulate(into, n, found, share)
            gather(statistics, n, found, rates, share)

    @inner_loop
    def observe_chunk(
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
    ) -> None:
        extremes[0] = extremes[2] = -1
        for n in range(first, last):
            drho, u, square, change = observe_node(
                load(f, n, stride), (before[0, n], before[1, n], before[2, n]), force
            )
            if square > extremes[0]:
                extremes[0], extremes[1] = square, n
            if abs(drho) > extremes[2]:
                extremes[2], extremes[3] = abs(drho), n
            relative = relative_change(change, square)
            terms = (change, np.sqrt(square), square, np.float64(drho), relative, 1.0)
            for k in range(TERMS if len(wide) > 0 and wide[n] else EVERYWHERE):
                limbs = split(terms[k])
                for limb in range(LIMBS):
                    sums[k, limb] += limbs[limb]
            if keep:
                before[0, n], before[1, n], before[2, n] = u

    @threaded
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
    ) -> None:
        for chunk in prange(len(sums)):
            begin = first + chunk * CHUNK
            end, found = min(last, begin + CHUNK), (sums[chunk], extremes[chunk])
            observe_chunk(f, stride, force, before, wide, keep, begin, end, *found)

    return fields, fields_and_statistics, observe
