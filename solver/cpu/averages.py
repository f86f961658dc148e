"""Running means of fields."""

from functools import cache
from typing import Any

from numba import prange

from solver.cpu.blocks import CHUNK, chunks, plain, threaded


@cache
def make_fold() -> Any:
    """Function ``(mean, values, share)``: mean += share (values - mean), over flat arrays."""
    pieces = plain(chunks)

    @threaded
    def fold(mean: Any, values: Any, share: Any) -> None:
        for piece in prange(pieces(len(mean))):
            for k in range(piece * CHUNK, min(len(mean), (piece + 1) * CHUNK)):
                mean[k] += share * (values[k] - mean[k])

    return fold
