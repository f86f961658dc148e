"""Wall links, and the mass that they add."""

from functools import cache
from typing import Any

import numpy as np
from numba import prange

from solver.backends.cpu.blocks import CHUNK, plain, threaded
from solver.backends.cpu.prefetch import prefetch
from solver.boundary.walls import make_interpolation
from solver.kernels.storage import make_access

AHEAD = 32
"""Links between the one that is treated and the one whose populations are asked for."""


@cache
def make_wall_pass(storage: str, real: Any, two_terms: bool) -> tuple[Any, Any]:
    """Treat all wall links; take a share of the mass off the nodes next to walls."""
    interpolate, others = make_interpolation(storage, real, two_terms), 1 if two_terms else 2
    take, put = make_access(storage, real)[:2]

    @plain
    def treat_chunk(
        f: Any, slot: Any, partners: Any, shares: Any, motion: Any, first: int, last: int, added: Any
    ) -> None:
        x, y, z = np.int64(0), np.int64(0), np.int64(0)
        for k in range(first, last):
            later = min(k + AHEAD, last - 1)
            prefetch(f, slot[later])
            for m in range(others):
                prefetch(f, partners[m][later])
            words = interpolate(f, k, slot, partners, shares, motion)
            x, y, z = x + words[0], y + words[1], z + words[2]
        added[0], added[1], added[2] = x, y, z

    @threaded
    def treat(f: Any, slot: Any, partners: Any, shares: Any, motion: Any, added: Any) -> None:
        for chunk in prange(len(added)):
            last = min(len(slot), (chunk + 1) * CHUNK)
            treat_chunk(f, slot, partners, shares, motion, chunk * CHUNK, last, added[chunk])

    @plain
    def subtract(f: Any, nodes: Any, share: Any) -> None:
        for k in range(len(nodes)):
            put(f, nodes[k], take(f, nodes[k]) - share)

    return treat, subtract
