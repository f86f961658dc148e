"""Wall links, and the mass that they add."""

from functools import cache
from typing import Any

import numpy as np
from numba import prange

from solver.cpu.blocks import CHUNK, plain, threaded
from solver.cpu.moving import prefetch
from solver.storage import make_access
from solver.sums import split

AHEAD = 32
"""Links between the one that is treated and the one whose populations are asked for."""


@cache
def make_wall_pass(storage: str, real: Any) -> tuple[Any, Any]:
    """Treat all wall links; take a share of the mass off the nodes next to walls."""
    decode, encode = make_access(storage, real)[-2:]

    @plain
    def interpolate_chunk(
        f: Any, slot: Any, leaving_back: Any, arriving: Any, a: Any, b: Any, c: Any, s: Any, first: int, last: int,
        added: Any,
    ) -> None:  # fmt: skip
        x, y, z = np.int64(0), np.int64(0), np.int64(0)
        for k in range(first, last):
            later = min(k + AHEAD, last - 1)
            prefetch(f, slot[later])
            prefetch(f, leaving_back[later])
            prefetch(f, arriving[later])
            leaving = decode(f[slot[k]])
            returning = a[k] * leaving + b[k] * decode(f[leaving_back[k]]) + c[k] * decode(f[arriving[k]]) + s[k]
            f[slot[k]] = encode(returning)
            words = split(np.float64(decode(f[slot[k]])) - np.float64(leaving))
            x, y, z = x + words[0], y + words[1], z + words[2]
        added[0], added[1], added[2] = x, y, z

    @threaded
    def interpolate(
        f: Any, slot: Any, leaving_back: Any, arriving: Any, a: Any, b: Any, c: Any, s: Any, added: Any
    ) -> None:
        for chunk in prange(len(added)):
            last = min(len(slot), (chunk + 1) * CHUNK)
            interpolate_chunk(f, slot, leaving_back, arriving, a, b, c, s, chunk * CHUNK, last, added[chunk])

    @plain
    def subtract(f: Any, nodes: Any, share: Any) -> None:
        for k in range(len(nodes)):
            f[nodes[k]] = encode(decode(f[nodes[k]]) - share)

    return interpolate, subtract
