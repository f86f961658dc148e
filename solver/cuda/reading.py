"""What is read between pairs of steps: the fields of all nodes, sums and extremes over them, single populations."""

from functools import cache
from typing import Any

import numpy as np

from solver.cuda.device import cuda, on_device
from solver.node_physics import make_macroscopic, make_observation, make_stress
from solver.streaming import load
from solver.sums import WORDS, split


@cache
def make_reading(real: Any) -> tuple[Any, Any]:
    """Fields of all nodes; sums and extremes over them."""
    macroscopic, stress, look = make_macroscopic(real), make_stress(real), make_observation(real)
    read = on_device(load)

    @cuda.jit
    def fields(f: Any, stride: int, force: Any, drho: Any, velocity: Any, pi: Any) -> None:
        n = cuda.grid(1)
        if n < drho.shape[0]:
            g = read(f, n, stride)
            density, x, y, z = macroscopic(g, force)
            drho[n] = density
            velocity[0, n], velocity[1, n], velocity[2, n] = x, y, z
            xx, yy, zz, xy, xz, yz = stress(g, density, (x, y, z), force)
            pi[0, n], pi[1, n], pi[2, n], pi[3, n], pi[4, n], pi[5, n] = xx, yy, zz, xy, xz, yz

    @cuda.jit
    def observe(
        f: Any, stride: int, force: Any, before: Any, keep: bool, first: int, last: int, parts: int, sums: Any,
        extremes: Any,
    ) -> None:  # fmt: skip
        t = cuda.grid(1)
        if t < parts:
            most, place, most_drho = -1.0, first + t, 0.0
            for k in range(3):
                for word in range(WORDS):
                    sums[t, k, word] = 0
            for n in range(first + t, last, parts):
                drho, u, square, change = look(read(f, n, stride), (before[0, n], before[1, n], before[2, n]), force)
                if square > most:
                    most, place = square, n
                most_drho = max(most_drho, np.float64(abs(drho)))
                terms = (change, square**0.5, np.float64(drho))
                for k in range(3):
                    words = split(terms[k])
                    for word in range(WORDS):
                        sums[t, k, word] += words[word]
                if keep:
                    before[0, n], before[1, n], before[2, n] = u
            extremes[t, 0], extremes[t, 1], extremes[t, 2] = most, place, most_drho

    return fields, observe


@cache
def make_exchange() -> tuple[Any, Any]:
    """Read and write populations in given slots."""

    @cuda.jit
    def read(f: Any, slots: Any, values: Any) -> None:
        k = cuda.grid(1)
        if k < slots.shape[0]:
            values[k] = f[slots[k]]

    @cuda.jit
    def write(f: Any, slots: Any, values: Any) -> None:
        k = cuda.grid(1)
        if k < slots.shape[0]:
            f[slots[k]] = values[k]

    return read, write
