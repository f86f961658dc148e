"""Wall links, and the mass that they add."""

from functools import cache
from typing import Any

import numpy as np
from numba import int64

from solver.cuda.device import SUM_THREADS, cuda, make_block_sum
from solver.storage import make_access
from solver.sums import WORDS, join, split


@cache
def make_wall_pass(storage: str, real: Any) -> tuple[Any, Any, Any]:
    """Treat all wall links; add up their mass; take a share of it off the nodes next to walls."""
    add_block = make_block_sum()
    decode, encode = make_access(storage, real)[-2:]

    @cuda.jit
    def interpolate(
        f: Any, slot: Any, leaving_back: Any, arriving: Any, a: Any, b: Any, c: Any, s: Any, parts: int, partials: Any
    ) -> None:
        t = cuda.grid(1)
        if t < parts:
            x, y, z = np.int64(0), np.int64(0), np.int64(0)
            for k in range(t, slot.shape[0], parts):
                leaving = decode(f[slot[k]])
                returning = a[k] * leaving + b[k] * decode(f[leaving_back[k]]) + c[k] * decode(f[arriving[k]]) + s[k]
                f[slot[k]] = encode(returning)
                words = split(np.float64(decode(f[slot[k]])) - np.float64(leaving))
                x, y, z = x + words[0], y + words[1], z + words[2]
            partials[t, 0], partials[t, 1], partials[t, 2] = x, y, z

    @cuda.jit
    def add_up(partials: Any, parts: int, added: Any) -> None:
        shared = cuda.shared.array((SUM_THREADS, WORDS), int64)
        t = cuda.threadIdx.x
        for word in range(WORDS):
            total = np.int64(0)
            for k in range(t, parts, SUM_THREADS):
                total += partials[k, word]
            shared[t, word] = total
        add_block(shared, t)
        if t < WORDS:
            added[t] = shared[0, t]

    @cuda.jit
    def subtract(f: Any, nodes: Any, added: Any, sharers: int) -> None:
        k = cuda.grid(1)
        if k < nodes.shape[0]:
            f[nodes[k]] = encode(decode(f[nodes[k]]) - real(join(added[0], added[1], added[2]) / sharers))

    return interpolate, add_up, subtract
