# SPDX-License-Identifier: Apache-2.0
"""Where numbers of a rank stand among those of all, without a list of their order.

The nodes of a part stand in two or three ranges, at the border, the others and the last, in each of which their rows
ascend: so where a row stands is found in these, and no order needs to be held beside them, which would take as much.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Place = slice | NDArray[np.bool_]


class PartRows:
    """Rows of own numbers among those of all.

    Attributes
    ----------
    rows : (K,), each of them once.

    Parameters
    ----------
    rows : the same.
    ranges : first and last of those that ascend; all together if not given.
    """

    def __init__(self, rows: NDArray[np.signedinteger], ranges: Sequence[tuple[int, int]] | None = None) -> None:
        self.rows = rows
        self._ranges = [slice(*ends) for ends in (((0, len(rows)),) if ranges is None else ranges)]

    @classmethod
    def sorted(cls, rows: NDArray[np.signedinteger]) -> tuple[Self, NDArray[np.intp]]:
        """Of rows in any order: these ascending, and the order that lets them ascend."""
        order = np.argsort(rows)
        return cls(rows[order]), order

    def __len__(self) -> int:
        return len(self.rows)

    def ascending(self) -> NDArray[np.signedinteger]:
        """The rows as they ascend."""
        return np.sort(self.rows)

    def _before(self, rows: NDArray[np.integer]) -> NDArray[np.intp]:
        """How many of the own rows come before each of some."""
        wanted = rows.astype(self.rows.dtype, copy=False)  # another type would copy the own ones
        before = np.zeros(wanted.shape, np.intp)
        for each in self._ranges:
            before += np.searchsorted(self.rows[each], wanted)
        return before

    def between(self, first: int, last: int) -> NDArray[np.intp]:
        """Where the own ones of the rows first, ..., last - 1 stand here."""
        wanted = np.array((first, last), self.rows.dtype)
        ends = ((each.start, np.searchsorted(self.rows[each], wanted).tolist()) for each in self._ranges)
        return np.concatenate([np.arange(start + low, start + high) for start, (low, high) in ends])

    def ordered_between(self, first: int, last: int) -> tuple[slice, NDArray[np.signedinteger]]:
        """The same of the own numbers as their rows ascend: where they stand, and the rows."""
        low, high = self._before(np.array((first, last))).tolist()
        return slice(low, high), np.sort(self.rows[self.between(first, last)])

    def find(self, rows: NDArray[np.integer]) -> NDArray[np.intp]:
        """Where own rows stand here, (k,)."""
        wanted, found = rows.astype(self.rows.dtype, copy=False), np.zeros(len(rows), np.intp)
        for each in self._ranges:
            own = self.rows[each]
            if len(own):
                place = np.minimum(np.searchsorted(own, wanted), len(own) - 1)
                there = own[place] == wanted
                found[there] = each.start + place[there]
        return found

    def among(self, rows: NDArray[np.integer]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Which of some rows are own ones, and where those stand among these as they ascend."""
        before = self._before(rows)
        there = np.flatnonzero(self._before(rows + 1) > before)
        return there, before[there]

    def in_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Numbers, (..., K), as their rows ascend."""
        return _moved(values, ((mine, each) for each, mine in self._places()))

    def in_part(self, values: NDArray[Any]) -> NDArray[Any]:
        """Numbers, (..., K), that stand as their rows ascend, as the rows stand here."""
        return _moved(values, self._places())

    def _places(self) -> Iterator[tuple[slice, NDArray[np.bool_]]]:
        """Each range, and which of the rows as they ascend are its own."""
        *few, most = sorted(self._ranges, key=lambda each: each.stop - each.start)
        left = np.ones(len(self.rows), np.bool_)
        for each in few:
            mine = np.zeros(len(self.rows), np.bool_)
            mine[self._before(self.rows[each])] = True
            left ^= mine
            yield each, mine
        yield most, left


def _moved(values: NDArray[Any], places: Iterable[tuple[Place, Place]]) -> NDArray[Any]:
    """Numbers, (..., K), in other places along the last axis: pairs of where some stand then and where they stood."""
    found = np.empty_like(values)
    for then, before in places:
        for lead in np.ndindex(values.shape[:-1]):  # one after the other, since a mask copies what it takes
            found[lead][then] = values[lead][before]
    return found
