# SPDX-License-Identifier: Apache-2.0
"""What a process knows of all nodes of a geometry when it has a part of them, and how parts find numbers of the whole.

What is found of all nodes is found by all ranks together, each from its own: whole numbers are added up, rows come
together in the order of all, some after others. A process that has all nodes goes the same way, as the one rank there
is, so that no bit depends on the number of ranks.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

BLOCK_ROWS, MOST_BLOCKS = 65536, 256
"""Rows that are brought together at a time; and in how many pieces at most a range of keys is."""
NOWHERE = np.iinfo(np.int64).max
"""A row that there is not."""

Arrays = Mapping[str, NDArray[Any]]


class Ranks(Protocol):
    """Processes that have the parts, as :class:`solver.backends.communicator.Communicator` tells them."""

    rank: int
    size: int

    def swap(self, sent: Mapping[int, NDArray[Any]], received: Mapping[int, NDArray[Any]]) -> Callable[[], None]:
        """Begin to send an array to each of some ranks and to receive one from each; what waits for all of them."""

    def begin_sum(self, numbers: NDArray[np.int64]) -> Callable[[], NDArray[np.int64]]:
        """Begin to add whole numbers up over all ranks; what waits for the sum."""

    def largest(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The largest of each number over all ranks."""

    def join(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """The numbers (K,) of all ranks one after another."""

    def collect(self, numbers: NDArray[Any]) -> NDArray[Any] | None:
        """The numbers (K, ...) of all ranks one after another; on the first rank alone."""

    def broadcast(self, arrays: Arrays | None) -> dict[str, NDArray[Any]] | None:
        """What the first rank has."""


class Alone:
    """The one process there is."""

    rank, size = 0, 1

    def swap(self, sent: Mapping[int, NDArray[Any]], received: Mapping[int, NDArray[Any]]) -> Callable[[], None]:
        """Nobody else has anything."""
        return lambda: None

    def begin_sum(self, numbers: NDArray[np.int64]) -> Callable[[], NDArray[np.int64]]:
        """The numbers."""
        return lambda: numbers

    def largest(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers."""
        return numbers

    def join(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """The numbers."""
        return numbers

    def collect(self, numbers: NDArray[Any]) -> NDArray[Any] | None:
        """The numbers."""
        return numbers

    def broadcast(self, arrays: Arrays | None) -> dict[str, NDArray[Any]] | None:
        """The arrays."""
        return None if arrays is None else {**arrays}


ALONE = Alone()


@dataclass(frozen=True)
class Whole:
    """All nodes, to a rank that has its part and what lies around it.

    Attributes
    ----------
    ranks : all of them; this one's part has its number.
    rows : (R,) rows of the nodes that it has among all, ascending.
    count : of all nodes.
    extent : nodes from the first to the last along (x, y, z).
    sizes : (P,) nodes of each part.
    links : how many links there are of each kind: ``wall``, ``opening``, ``corner``, and of the last ``corner through``
        openings.
    """

    ranks: Ranks
    rows: NDArray[np.signedinteger]
    count: int
    extent: tuple[int, int, int]
    sizes: NDArray[np.int64]
    links: Mapping[str, int]


def row_numbers(rows: NDArray[np.integer], count: int) -> NDArray[np.signedinteger]:
    """Rows among so many, as the smaller numbers that suffice."""
    return rows.astype(np.int32 if count < 2**31 else np.int64)


def rows_between(rows: NDArray[np.integer], first: int, last: int, order: NDArray[np.integer] | None = None) -> slice:
    """Where rows first, ..., last - 1 stand in a list of some; the ends have its type, so that it is not copied.

    Parameters
    ----------
    rows : (K,) ascending, or in an order.
    first, last : ends.
    order : (K,) that lets them ascend.
    """
    return slice(*np.searchsorted(rows, np.array((first, last), rows.dtype), sorter=order).tolist())


def first_finds(ranks: Ranks, find: Callable[[], Arrays]) -> dict[str, NDArray[Any]]:
    """What the first rank finds for all: they may be different processors, which round differently.

    Parameters
    ----------
    ranks : all of them, which call this together.
    find : gives arrays by name.
    """
    found = ranks.broadcast(find() if ranks.rank == 0 else None)
    assert found is not None
    return found


def row_blocks(count: int, size: int | None = None) -> Iterator[slice]:
    """Ranges of so many rows, a block after another.

    Parameters
    ----------
    count : number of rows.
    size : of a block; `BLOCK_ROWS` if not given.
    """
    size = size or BLOCK_ROWS
    return (slice(first, min(first + size, count)) for first in range(0, count, size))


def places_among(ranks: Ranks, keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Where own keys stand among the different ones of all ranks, ascending, (K,), and how many these are.

    Parameters
    ----------
    ranks : all of them, which call this together.
    keys : (K,) not negative; a key may be there more than once.
    """
    order, places, before = np.argsort(keys), np.empty(len(keys), np.int64), 0
    end = int(ranks.largest(keys.max(initial=-1, keepdims=True))[0]) + 1
    for some in row_blocks(end, max(BLOCK_ROWS, -(-end // MOST_BLOCKS))):
        own = order[rows_between(keys, some.start, some.stop, order)]
        joined = np.unique(ranks.join(keys[own]))
        places[own] = before + np.searchsorted(joined, keys[own])
        before += len(joined)
    return places, before


def collected(
    ranks: Ranks, places: NDArray[np.integer], values: NDArray[Any], first: int, last: int
) -> NDArray[Any] | None:
    """Rows first, ..., last - 1 of an array (N, ...) that stand on different ranks; on the first alone.

    Parameters
    ----------
    ranks : all of them, which call this together.
    places, values : where the own ones of these stand in the array, and what they are.
    first, last : rows that are wanted, of which each is on one rank, or on none and is zero.
    """
    place, found = ranks.collect((places - first).astype(np.int32)), ranks.collect(values)
    if place is None or found is None:
        return None
    block = np.zeros((last - first, *values.shape[1:]), values.dtype)
    block[place] = found
    return block


def blocks_in_order(
    ranks: Ranks, rows: NDArray[np.integer], count: int, *values: NDArray[Any], size: int | None = None
) -> Iterator[tuple[NDArray[np.integer], ...]]:
    """Some rows of all ranks after others: rows, ascending, and their values; on the first rank alone.

    Parameters
    ----------
    ranks : all of them, which go through this together.
    rows : (K,) the own ones, ascending, of which each is on one rank at most.
    count : rows end before it.
    values : (K, ...) of the own ones.
    size : rows that are brought together at a time; `BLOCK_ROWS` if not given.
    """
    for block in row_blocks(count, size):
        own = rows_between(rows, block.start, block.stop)
        found = [ranks.collect(each[own]) for each in (rows, *values)]
        place = found[0]
        if place is not None:
            order = np.argsort(place)
            yield tuple(each[order] for each in found if each is not None)


def sum_in_order(ranks: Ranks, rows: NDArray[np.integer], count: int, values: NDArray[np.float64]) -> float:
    """Sum over all rows whose last bit does not depend on which rank has them: halves are added up, of these halves,
    as NumPy does with an array of all.

    Parameters
    ----------
    ranks, rows, count : as of :func:`blocks_in_order`; each row is on one rank, or zero.
    values : (K,) of the own ones.
    """

    def between(first: int, last: int) -> float:
        if last - first > BLOCK_ROWS:
            middle = first + (last - first) // 16 * 8
            return between(first, middle) + between(middle, last)
        own = rows_between(rows, first, last)
        block = collected(ranks, rows[own], values[own], first, last)
        return 0.0 if block is None else float(block.sum())

    total = np.array(between(0, count))
    return float(first_finds(ranks, lambda: {"total": total})["total"])
