"""What is read between pairs of steps: the fields of all nodes, sums and extremes over them."""

from functools import cache
from typing import Any

import numpy as np
from numba import prange

from solver.cpu.blocks import CHUNK, plain, threaded
from solver.node_physics import make_macroscopic, make_observation, make_stress
from solver.streaming import load
from solver.sums import WORDS, split


@cache
def make_reading(real: Any) -> tuple[Any, Any]:
    """Fields of all nodes; sums and extremes over them."""
    macroscopic, stress, look = make_macroscopic(real), make_stress(real), make_observation(real)

    @threaded
    def fields(f: Any, stride: int, force: Any, drho: Any, velocity: Any, pi: Any) -> None:
        for n in prange(len(drho)):
            g = load(f, n, stride)
            density, x, y, z = macroscopic(g, force)
            drho[n] = density
            velocity[0, n], velocity[1, n], velocity[2, n] = x, y, z
            xx, yy, zz, xy, xz, yz = stress(g, density, (x, y, z), force)
            pi[0, n], pi[1, n], pi[2, n], pi[3, n], pi[4, n], pi[5, n] = xx, yy, zz, xy, xz, yz

    @plain
    def observe_chunk(
        f: Any, stride: int, force: Any, before: Any, keep: bool, first: int, last: int, sums: Any, extremes: Any
    ) -> None:
        extremes[0] = -1
        for n in range(first, last):
            drho, u, square, change = look(load(f, n, stride), (before[0, n], before[1, n], before[2, n]), force)
            if square > extremes[0]:
                extremes[0], extremes[1] = square, n
            extremes[2] = max(extremes[2], abs(drho))
            terms = (change, np.sqrt(square), np.float64(drho))
            for k in range(3):
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

    return fields, observe
