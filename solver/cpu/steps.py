"""Streaming and collision: blocks of nodes are copied to a small buffer, collided in a vectorised loop, copied back."""

from functools import cache
from typing import Any

import numpy as np
from numba import prange

from solver.collision import make_collision
from solver.cpu.blocks import CHUNK, plain, threaded
from solver.cpu.moving import move, prefetch
from solver.node_physics import node_function
from solver.rheology import make_rates
from solver.storage import BITS, make_access
from solver.streaming import ALIGNMENT, load, store

BLOCK_BYTES, PADDING_BYTES = 1024, 64
"""Of a row of the buffer: numbers of one direction that are copied at once, and what keeps the rows of 19 directions
from falling on the same lines of the cache."""


@cache
def make_steps(
    collision: str, storage: str, real: Any, equilibrium: str = "incompressible", rheology: str | None = None,
    blended: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """The even and the odd step of a range of nodes; `rates`, `omega` and `blend` as :func:`make_rates` says."""
    collide = make_collision(collision, real, equilibrium)
    rates_of = make_rates(rheology, blended, equilibrium, real)
    decode, encode = make_access(storage, real)[-2:]
    halves = storage == BITS
    stored: Any = np.uint16 if halves else real
    line = PADDING_BYTES // np.dtype(stored).itemsize
    block, width = (size // np.dtype(real).itemsize for size in (BLOCK_BYTES, BLOCK_BYTES + PADDING_BYTES))

    @node_function
    def collide_block(buffer: Any, n: int, count: int, force: Any, rates: Any, omega: Any, blend: Any) -> None:
        numbers = decoded(buffer) if halves else buffer
        for begin in range(0, count, ALIGNMENT):
            part = numbers[begin:]
            for k in range(ALIGNMENT):  # a length that is known needs no loop for the rest of vectors
                g = load(part, k, width)
                store(part, k, width, collide(g, rates_of(g, n + begin + k, force, rates, omega, blend), force))
        if halves:
            for k in range(len(buffer)):
                buffer[k] = encode(numbers[k])

    @node_function
    def prefetch_row(f: Any, begin: int) -> None:
        for k in range(0, block, line):
            prefetch(f, begin + k)

    @node_function
    def decoded(buffer: Any) -> Any:
        numbers = np.empty(len(buffer), real)
        for k in range(len(buffer)):
            numbers[k] = decode(buffer[k])
        return numbers

    @plain
    def even_chunk(f: Any, stride: int, first: int, last: int, force: Any, rates: Any, omega: Any, blend: Any) -> None:
        buffer = np.zeros(19 * width, stored)
        for n in range(first, last, block):
            count = min(block, last - n)
            for i in range(19):
                move(buffer, i * width, f, i * stride + n, count)
                prefetch_row(f, i * stride + n + block)
            collide_block(buffer, n, count, force, rates, omega, blend)
            for i in range(19):
                o = 0 if i == 0 else i + 1 if i % 2 else i - 1
                move(f, o * stride + n, buffer, i * width, count)

    @plain
    def odd_chunk(f: Any, pieces: Any, first: int, last: int, force: Any, rates: Any, omega: Any, blend: Any) -> None:
        buffer = np.zeros(19 * width, stored)
        for n in range(first, last, block):
            end = min(n + block, last)
            begins = pieces.first[n // ALIGNMENT]
            move(buffer, 0, f, n, end - n)
            for i in range(1, 19):
                o = i + 1 if i % 2 else i - 1
                piece, m = np.intp(begins[i - 1]), n
                while m < end:
                    until = min(end, np.intp(pieces.start[piece + 1]))
                    move(buffer, o * width + m - n, f, m + np.intp(pieces.shift[piece]), until - m)
                    piece, m = piece + 1, until
                prefetch_row(f, m + np.intp(pieces.shift[piece - 1]))
            collide_block(buffer, n, end - n, force, rates, omega, blend)
            move(f, n, buffer, 0, end - n)
            for i in range(1, 19):
                piece, m = np.intp(begins[i - 1]), n
                while m < end:
                    until = min(end, np.intp(pieces.start[piece + 1]))
                    move(f, m + np.intp(pieces.shift[piece]), buffer, i * width + m - n, until - m)
                    piece, m = piece + 1, until

    @threaded
    def even_step(f: Any, stride: int, first: int, last: int, force: Any, rates: Any, omega: Any, blend: Any) -> None:
        for chunk in prange((last - first + CHUNK - 1) // CHUNK):
            begin = first + chunk * CHUNK
            even_chunk(f, stride, begin, min(last, begin + CHUNK), force, rates, omega, blend)

    @threaded
    def odd_step(f: Any, pieces: Any, first: int, last: int, force: Any, rates: Any, omega: Any, blend: Any) -> None:
        for chunk in prange((last - first + CHUNK - 1) // CHUNK):
            begin = first + chunk * CHUNK
            odd_chunk(f, pieces, begin, min(last, begin + CHUNK), force, rates, omega, blend)

    return even_step, odd_step
