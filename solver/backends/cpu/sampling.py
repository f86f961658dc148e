"""What is read between pairs of steps: the fields of all nodes, sums and extremes over them."""

from functools import cache
from typing import Any

import numpy as np
from numba import prange

from solver.backends.cpu.blocks import CHUNK, plain, threaded
from solver.kernels.d3q19 import Q
from solver.kernels.node_physics import make_observation
from solver.kernels.rheology import make_fields, make_gathering, make_taking
from solver.kernels.storage import make_access
from solver.kernels.sums import WORDS, split


@cache
def make_reading(
    storage: str, real: Any, equilibrium: str = "incompressible", rheology: str | None = None, blended: bool = False,
    q: int = Q,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Fields of all nodes; the same with statistics; sums and extremes over them."""
    look, measure = make_observation(real, equilibrium, q), make_fields(rheology, blended, equilibrium, real, q)
    load, varying = make_access(storage, real, q).load, rheology is not None
    take_in, gather = make_taking(varying), make_gathering(varying, real)

    @threaded
    def fields(f: Any, stride: int, force: Any, rates: Any, omega: Any, blend: Any, share: Any, into: Any) -> None:
        for n in prange(len(into[0])):
            take_in(into, n, measure(load(f, n, stride), n, force, rates, omega, blend), share)

    @threaded
    def fields_and_statistics(
        f: Any, stride: int, force: Any, rates: Any, omega: Any, blend: Any, share: Any, into: Any, statistics: Any
    ) -> None:
        for n in prange(len(into[0])):
            found = measure(load(f, n, stride), n, force, rates, omega, blend)
            take_in(into, n, found, share)
            gather(statistics, n, found, rates, share)

    @plain
    def observe_chunk(
        f: Any, stride: int, force: Any, before: Any, keep: bool, first: int, last: int, sums: Any, extremes: Any
    ) -> None:
        extremes[0] = extremes[2] = -1
        for n in range(first, last):
            drho, u, square, change = look(load(f, n, stride), (before[0, n], before[1, n], before[2, n]), force)
            if square > extremes[0]:
                extremes[0], extremes[1] = square, n
            if abs(drho) > extremes[2]:
                extremes[2], extremes[3] = abs(drho), n
            terms = (change, np.sqrt(square), square, np.float64(drho))
            for k in range(4):
                words = split(terms[k])
                for word in range(WORDS):
                    sums[k, word] += words[word]
            if keep:
                before[0, n], before[1, n], before[2, n] = u

    @threaded
    def observe(
        f: Any, stride: int, force: Any, before: Any, keep: bool, first: int, last: int, sums: Any, extremes: Any
    ) -> None:
        for chunk in prange(len(sums)):
            begin = first + chunk * CHUNK
            observe_chunk(f, stride, force, before, keep, begin, min(last, begin + CHUNK), sums[chunk], extremes[chunk])

    return fields, fields_and_statistics, observe
