# SPDX-License-Identifier: Apache-2.0
"""Wall links, and the mass that they add."""

from functools import cache
from typing import Any

import numpy as np
from numba import prange

from solver.backends.cpu.blocks import CHUNK, serial, threaded
from solver.backends.cpu.prefetch import prefetch
from solver.boundary.parabolic_walls import make_wall_slip
from solver.boundary.walls import make_interpolation
from solver.kernels.compilation import inner_loop
from solver.kernels.storage import make_access

AHEAD = 32
"""Links between the one that is treated and the one whose populations are asked for."""


@cache
def make_wall_pass(storage: str, real: Any, two_terms: bool, moving: bool) -> tuple[Any, Any, Any]:
    """Treat all wall links; take a share of the mass off the nodes next to walls; find what the walls' velocity adds.

    The parameters are those of :mod:`solver.kernels`.
    """
    interpolate, others = make_interpolation(storage, real, two_terms, moving), 1 if two_terms else 2
    load_slot, store_slot = make_access(storage, real)[:2]
    slip_of = make_wall_slip(real)

    @inner_loop
    def treat_chunk(
        f: Any, slot: Any, source_slots: Any, coefficients: Any, motion: Any, first: int, last: int, added: Any
    ) -> None:
        x, y, z = np.int64(0), np.int64(0), np.int64(0)
        for k in range(first, last):
            later = min(k + AHEAD, last - 1)
            prefetch(f, slot[later])
            for m in range(others):
                prefetch(f, source_slots[m][later])
            limbs = interpolate(f, k, slot, source_slots, coefficients, motion)
            x, y, z = x + limbs[0], y + limbs[1], z + limbs[2]
        added[0], added[1], added[2] = x, y, z

    @threaded
    def treat(f: Any, slot: Any, source_slots: Any, coefficients: Any, motion: Any, added: Any) -> None:
        for chunk in prange(len(added)):
            last = min(len(slot), (chunk + 1) * CHUNK)
            treat_chunk(f, slot, source_slots, coefficients, motion, chunk * CHUNK, last, added[chunk])

    @serial
    def subtract(f: Any, nodes: Any, correction: Any) -> None:
        for k in range(len(nodes)):
            store_slot(f, nodes[k], load_slot(f, nodes[k]) - correction)

    @threaded
    def write_slip(velocity: Any, rows: Any, weights: Any, share: Any, into: Any) -> None:
        for chunk in prange((len(into) + CHUNK - 1) // CHUNK):
            for k in range(chunk * CHUNK, min(len(into), (chunk + 1) * CHUNK)):
                into[k] = slip_of(velocity, rows, weights, share, k)

    return treat, subtract, write_slip
