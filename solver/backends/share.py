# SPDX-License-Identifier: Apache-2.0
"""What of the nodes a process has: all of them, but of a rank its own; and how such numbers come together.

What is written goes to the first rank a block of rows after another, so that none ever holds what all have. What all
need of few nodes, such as those at an opening, all get.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.communicator import Communicator
from solver.backends.fields import Held
from solver.backends.part_rows import PartRows
from solver.domain.whole import collected, row_blocks

Index = tuple[int | slice, ...]

WRITTEN_ROWS = 16384
"""Rows of a field that come together on the first rank at a time, where several copies of them are held."""


class Share:
    """All nodes: of the one process there is."""

    @property
    def here(self) -> slice | NDArray[np.intp]:
        """Its nodes among the node arrays of this process, ascending."""
        return slice(None)

    def blocks(self, values: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Numbers of all nodes, (N, ...), some rows after others, from those of own nodes. All ranks ask for them, and
        the first gets them.
        """
        for rows in row_blocks(len(values)):
            yield values[rows]

    def at(self, values: NDArray[Any], rows: NDArray[np.integer]) -> NDArray[Any]:
        """Numbers of a few nodes, (..., K), from those of own ones, (..., n).

        Parameters
        ----------
        values : of own nodes.
        rows : (K,) of these nodes, the same on all ranks.
        """
        return np.asarray(values[..., rows])

    def among_own(self, rows: NDArray[np.integer]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Which of the rows of some nodes are own ones, and where those stand among the own nodes."""
        return np.arange(len(rows)), rows.astype(np.intp)

    def whole(self, held: Held) -> Held:
        """The same of all nodes, on all ranks."""
        return held

    def total(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sum of whole numbers over all ranks."""
        return numbers

    def kept(self, values: NDArray[Any]) -> Any:
        """Numbers of all nodes, (..., N), for a checkpoint, from those of own ones, (..., n)."""
        return values

    def taken(self, kept: Any) -> NDArray[Any]:
        """Numbers of own nodes from those of all that a checkpoint gives."""
        return np.asarray(kept)


class RankShare(Share):
    """The nodes of a rank.

    Parameters
    ----------
    own : rows of its nodes among all. Fields have these as they ascend.
    count : of all nodes.
    ranks : all of them.
    here : rows among all of the nodes of its node arrays, ascending.
    """

    def __init__(self, own: PartRows, count: int, ranks: Communicator, here: NDArray[np.signedinteger]) -> None:
        self._own, self._here = own, here
        self._count, self._ranks = count, ranks

    @property
    def here(self) -> NDArray[np.intp]:
        """Its nodes among the node arrays of this process."""
        return np.searchsorted(self._here, self._own.ascending())

    def blocks(self, values: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Numbers of all nodes; nothing but on the first rank."""
        for block in row_blocks(self._count, WRITTEN_ROWS):
            own, rows = self._own.ordered_between(block.start, block.stop)
            found = collected(self._ranks, rows, values[own], block.start, block.stop)
            if found is not None:
                yield found

    def at(self, values: NDArray[Any], rows: NDArray[np.integer]) -> NDArray[Any]:
        """Numbers of a few nodes."""
        there, own = self.among_own(rows)
        found, order = np.empty((*values.shape[:-1], len(rows)), values.dtype), self._ranks.join(there)
        for component in np.ndindex(values.shape[:-1]):
            found[component][order] = self._ranks.join(values[component][own])
        return found

    def among_own(self, rows: NDArray[np.integer]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Which of the rows are own ones."""
        return self._own.among(rows)

    def whole(self, held: Held) -> Held:
        """The same of all nodes."""
        rows = np.arange(self._count)
        return type(held)(*(self.at(array, rows) for array in held.arrays()))

    def total(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sum over all ranks."""
        return self._ranks.begin_sum(numbers)()

    def kept(self, values: NDArray[Any]) -> Any:
        """Numbers of all nodes, of which this rank has its own."""
        if not values.size:  # on no rank
            return values
        shape = (*values.shape[:-1], self._count)
        return Shared(shape, values.dtype, shape, 0, PartRows(self._own.ascending()), values, self._ranks)

    def taken(self, kept: Any) -> NDArray[Any]:
        """Numbers of own nodes."""
        return np.asarray(kept.pick(self._own.ascending(), kept.shape) if np.prod(kept.shape) else kept)


def pieces_of(shape: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """An array in pieces along its last axis: an index of the axes before, first and last row of each."""
    for lead in np.ndindex(shape[:-1]):
        for rows in row_blocks(shape[-1]):
            yield lead, rows.start, rows.stop


def index_of(stored: tuple[int, ...], shape: tuple[int, ...], lead: tuple[int, ...], first: int, last: int) -> Index:
    """Where a piece of an array of a shape is, if it is stored in that shape or flat.

    Parameters
    ----------
    stored : shape in which the array is stored.
    shape : that it has.
    lead : index in the axes before the last one.
    first, last : of the piece along that axis, the last not among it.
    """
    if len(stored) == len(shape):
        return (*lead, slice(first, last))
    before = int(np.ravel_multi_index(lead, shape[:-1])) * shape[-1]
    return (slice(before + first, before + last),)


@dataclass(frozen=True)
class Shared:
    """Numbers of nodes or links of a state, of which each rank has its own.

    Attributes
    ----------
    shape, dtype : of those of all.
    split : the same shape with the nodes or links along a last axis of their own, and room behind them.
    fill : what stands in that room.
    places : (K,) where the own ones stand along that axis.
    values : (..., K) the own ones.
    ranks : all of them.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    split: tuple[int, ...]
    fill: Any
    places: PartRows
    values: NDArray[Any]
    ranks: Communicator

    @property
    def nbytes(self) -> int:
        """Memory of those of all."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def pieces(self) -> Iterator[tuple[Index, NDArray[Any]]]:
        """All of it, piece by piece: where each stands, and its numbers. All ranks ask, the first gets them."""
        last_used = self.places.rows.max(initial=-1, keepdims=True).astype(np.int64)
        used = int(self.ranks.largest(last_used)[0]) + 1
        for lead, first, last in pieces_of((*self.split[:-1], used)):
            own = self.places.between(first, last)
            block = collected(self.ranks, self.places.rows[own], self.values[lead][own], first, last)
            if block is not None:
                yield index_of(self.shape, self.split, lead, first, last), block

    def pick(
        self, places: NDArray[np.signedinteger], split: tuple[int, ...], into: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Numbers at some of the own places, (..., K).

        Parameters
        ----------
        places : (K,) along the last axis of the whole.
        split : shape of the whole.
        into : where they are put; a new array if not given.
        """
        assert split == self.split
        return np.take(self.values, self.places.find(places), axis=-1, out=into, mode="clip")  # which needs no copy

    def whole(self) -> NDArray[Any]:
        """All of it, on all ranks."""
        found, order = np.full(self.split, self.fill, self.dtype), self.ranks.join(self.places.rows)
        for lead in np.ndindex(self.split[:-1]):
            found[lead][order] = self.ranks.join(self.values[lead])
        return found.reshape(self.shape)
