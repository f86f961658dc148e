"""Addresses of all links, compressed: those of consecutive nodes mostly follow each other, until one meets a wall."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from solver.d3q19 import Q
from solver.streaming import ALIGNMENT


class Pieces(NamedTuple):
    """Pieces of the nodes of each direction over which its addresses rise by one a node.

    Attributes
    ----------
    first : (G, 18) piece of each direction in which the nodes 64 g, ... begin.
    start : (P,) first node of each piece, in the order of directions and nodes; after the last of a direction follows
        one more, which ends it.
    shift : (P,) what is added to a node of the piece to get its address.
    """

    first: NDArray[np.uint32]
    start: NDArray[np.uint32]
    shift: NDArray[np.unsignedinteger]


def address_pieces(addresses: NDArray[np.unsignedinteger]) -> Pieces:
    """Pieces of the addresses of :mod:`solver.streaming`, whose rows begin at multiples of `ALIGNMENT`."""
    table = addresses.reshape(Q - 1, -1)
    ends = np.cumsum(_count(table))
    first = np.empty((table.shape[1] // ALIGNMENT, Q - 1), np.uint32)
    start, shift = np.empty(ends[-1], np.uint32), np.zeros(ends[-1], addresses.dtype)
    _fill(table, ends, first, start, shift)
    return Pieces(first, start, shift)


@njit(parallel=True, cache=True)
def _count(table: Any) -> Any:
    counts = np.empty(len(table), np.int64)
    for i in prange(len(table)):
        row, pieces = table[i], 2
        for n in range(1, len(row)):
            pieces += row[n] != row[n - 1] + 1
        counts[i] = pieces
    return counts


@njit(parallel=True, cache=True)
def _fill(table: Any, ends: Any, first: Any, start: Any, shift: Any) -> None:
    for i in prange(len(table)):
        row, piece = table[i], ends[i - 1] - 1 if i else -1
        for n in range(len(row)):
            if n == 0 or row[n] != row[n - 1] + 1:
                piece += 1
                start[piece], shift[piece] = n, row[n] - n
            if n % ALIGNMENT == 0:
                first[n // ALIGNMENT, i] = piece
        start[piece + 1] = len(row)
