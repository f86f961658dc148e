"""Streaming and collision: blocks of nodes are copied to a small buffer, collided in a vectorised loop, copied back."""

from functools import cache
from typing import Any

import numpy as np
from numba import prange

from solver.collision import make_collision
from solver.cpu.blocks import BLOCK, CHUNK, plain, threaded
from solver.rheology import make_rates
from solver.storage import make_access
from solver.streaming import load, store


@cache
def make_steps(
    collision: str, storage: str, real: Any, equilibrium: str = "incompressible", rheology: str | None = None,
    blended: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """The even and the odd step of a range of nodes; `rates`, `omega` and `blend` as :func:`make_rates` says."""
    collide = make_collision(collision, real, equilibrium)
    rates_of = make_rates(rheology, blended, equilibrium, real)
    decode, encode = make_access(storage, real)[-2:]

    @plain
    def collide_block(buffer: Any, n: int, force: Any, rates: Any, omega: Any, blend: Any) -> None:
        for k in range(BLOCK):
            g = load(buffer, k, BLOCK)
            store(buffer, k, BLOCK, collide(g, rates_of(g, n + k, force, rates, omega, blend), force))

    @plain
    def even_chunk(f: Any, stride: int, first: int, last: int, force: Any, rates: Any, omega: Any, blend: Any) -> None:
        buffer = np.empty(19 * BLOCK, real)
        for n in range(first, last, BLOCK):
            for i in range(19):
                row = f[i * stride + n : i * stride + n + BLOCK]
                for k in range(BLOCK):
                    buffer[i * BLOCK + k] = decode(row[k])
            collide_block(buffer, n, force, rates, omega, blend)
            for i in range(19):
                o = 0 if i == 0 else i + 1 if i % 2 else i - 1
                row = f[o * stride + n : o * stride + n + BLOCK]
                for k in range(BLOCK):
                    row[k] = encode(buffer[i * BLOCK + k])

    @plain
    def odd_chunk(
        f: Any, addresses: Any, stride: int, first: int, last: int, force: Any, rates: Any, omega: Any, blend: Any
    ) -> None:
        buffer = np.empty(19 * BLOCK, real)
        for n in range(first, last, BLOCK):
            rest = f[n : n + BLOCK]
            for k in range(BLOCK):
                buffer[k] = decode(rest[k])
            for i in range(1, 19):
                o = i + 1 if i % 2 else i - 1
                at = addresses[(i - 1) * stride + n : (i - 1) * stride + n + BLOCK]
                for k in range(BLOCK):
                    buffer[o * BLOCK + k] = decode(f[at[k]])
            collide_block(buffer, n, force, rates, omega, blend)
            for k in range(BLOCK):
                rest[k] = encode(buffer[k])
            for i in range(1, 19):
                at = addresses[(i - 1) * stride + n : (i - 1) * stride + n + BLOCK]
                for k in range(BLOCK):
                    f[at[k]] = encode(buffer[i * BLOCK + k])

    @threaded
    def even_step(f: Any, stride: int, first: int, last: int, force: Any, rates: Any, omega: Any, blend: Any) -> None:
        for chunk in prange((last - first + CHUNK - 1) // CHUNK):
            begin = first + chunk * CHUNK
            even_chunk(f, stride, begin, min(last, begin + CHUNK), force, rates, omega, blend)

    @threaded
    def odd_step(
        f: Any, addresses: Any, stride: int, first: int, last: int, force: Any, rates: Any, omega: Any, blend: Any
    ) -> None:
        for chunk in prange((last - first + CHUNK - 1) // CHUNK):
            begin = first + chunk * CHUNK
            odd_chunk(f, addresses, stride, begin, min(last, begin + CHUNK), force, rates, omega, blend)

    return even_step, odd_step
