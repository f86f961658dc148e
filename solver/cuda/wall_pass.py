"""Wall links, and the mass that they add."""

from functools import cache
from typing import Any

import numpy as np
from numba import int64

from solver.cuda.device import SUM_THREADS, cuda, make_block_sum
from solver.storage import make_access
from solver.sums import WORDS, join, split


@cache
def make_wall_pass(storage: str, real: Any) -> tuple[Any, Any]:
    """Treat all wall links and add up their mass; take a share of it off the nodes next to walls."""
    add_block = make_block_sum()
    decode, encode = make_access(storage, real)[-2:]

    @cuda.jit
    def interpolate(
        f: Any, slot: Any, leaving_back: Any, arriving: Any, a: Any, b: Any, c: Any, s: Any, added: Any
    ) -> None:
        shared = cuda.shared.array((SUM_THREADS, WORDS), int64)
        k, t = cuda.grid(1), cuda.threadIdx.x
        shared[t, 0], shared[t, 1], shared[t, 2] = 0, 0, 0
        if k < slot.shape[0]:
            leaving = decode(f[slot[k]])
            returning = a[k] * leaving + b[k] * decode(f[leaving_back[k]]) + c[k] * decode(f[arriving[k]]) + s[k]
            f[slot[k]] = encode(returning)
            shared[t, 0], shared[t, 1], shared[t, 2] = split(np.float64(decode(f[slot[k]])) - np.float64(leaving))
        add_block(shared, t)
        if t < WORDS:
            cuda.atomic.add(added, t, shared[0, t])

    @cuda.jit
    def subtract(f: Any, nodes: Any, added: Any, sharers: int) -> None:
        k = cuda.grid(1)
        if k < nodes.shape[0]:
            f[nodes[k]] = encode(decode(f[nodes[k]]) - real(join(added[0], added[1], added[2]) / sharers))

    return interpolate, subtract
