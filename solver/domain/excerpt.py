# SPDX-License-Identifier: Apache-2.0
"""The surroundings of a part: its nodes and those near them, with their links, from which a lattice of the part is laid
out as from the whole.

What a part needs of others is told by nodes a few links away: whom links reach, and between which nodes differences are
taken. All nodes with a link through an opening, also along a corner, belong to every excerpt, since what a link there
gets follows from all of its opening.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from solver.domain.nodes import ARRAYS, FLUID, Nodes
from solver.domain.whole import Ranks, Whole, row_blocks, row_numbers
from solver.runtime.errors import StageError

NEAR = 5
"""Links within which all nodes around a part belong to its excerpt: the force of solver/kernels/isotropy.py reaches a
node two links away of another part, whose differences are found from nodes up to three links further."""

OF_NODES = ("position", "tag", "opening", "distance_mm", "part")
OF_WALLS = ("wall_position", "wall_distance_mm")
KINDS = ("wall", "opening", "corner")


class NodeArrays(Protocol):
    """Node arrays, in a file or on several ranks, of which some rows are read after others.

    Attributes
    ----------
    together : whether all ranks must ask for the same rows together; else they do so for those of ``part``.
    """

    together: bool

    @property
    def bare(self) -> Nodes:
        """The same geometry without nodes and links."""

    def length(self, name: str) -> int:
        """Rows of an array."""

    def read(self, name: str, rows: slice) -> NDArray[Any]:
        """Rows of an array."""


class Scattered:
    """Node arrays of which each rank has some rows.

    Parameters
    ----------
    like : nodes of the same geometry.
    ranks : all of them.
    """

    together = True

    def __init__(self, like: Nodes, ranks: Ranks) -> None:
        none: dict[str, Any] = {name: getattr(like, name)[:0] for name in ARRAYS}
        self.bare, self._ranks = replace(like, **none, whole=None), ranks
        self._arrays: dict[str, tuple[NDArray[np.int64], int, NDArray[Any]]] = {}

    def take(self, rows: NDArray[np.int64], count: int, **arrays: NDArray[Any]) -> None:
        """Take in rows of some arrays that this rank has.

        Parameters
        ----------
        rows : (K,) of them; a row may be there more than once, also on other ranks, with the same numbers.
        count : rows of all ranks.
        arrays : (K, ...) by name.
        """
        order = np.argsort(rows)
        self._arrays |= {name: (rows[order], count, array[order]) for name, array in arrays.items()}

    def length(self, name: str) -> int:
        """Rows of an array."""
        return self._arrays[name][1] if name in self._arrays else 0

    def read(self, name: str, rows: slice) -> NDArray[Any]:
        """Rows of an array."""
        block: NDArray[Any] = getattr(self.bare, name)
        if name in self._arrays and rows.stop > rows.start:
            own_rows, _, array = self._arrays[name]
            own = slice(*np.searchsorted(own_rows, (rows.start, rows.stop)).tolist())
            block = np.empty((rows.stop - rows.start, *array.shape[1:]), array.dtype)
            place = self._ranks.join(own_rows[own] - rows.start)
            block[place] = self._ranks.join(array[own].reshape(-1)).reshape(-1, *array.shape[1:])
        return block

    def nodes(self) -> Nodes:
        """All of them, where one process has all."""
        found: dict[str, Any] = {name: self.read(name, slice(0, self.length(name))) for name in ARRAYS}
        return replace(self.bare, **found)


def excerpt(given: NodeArrays, ranks: Ranks) -> Nodes:
    """The nodes of the part of a rank and those around them, and all at openings, with their links.

    What is as large as the whole is read some rows after others, and never held.

    Parameters
    ----------
    given : node arrays of the whole.
    ranks : all of them; this one takes the part of its number.

    Raises
    ------
    StageError
        If arrays are not as long as others, or links name nodes that there are not.
    """
    alike = {"node": OF_NODES, "wall node": OF_WALLS} | {f"{kind} link": _of_links(kind) for kind in KINDS}
    for what, names in alike.items():
        if len({given.length(name) for name in names}) > 1:
            _refuse(f"{what} arrays are equally long")
    count = given.length("position")
    bare = given.bare
    own, sizes, extent = _own_cells(given, bare, ranks.rank)
    if not (len(own) and sizes.all()):
        _refuse("parts are numbered 0, 1, ... and none is empty")
    around, (by_corners, through) = _around(bare, own), _by_corners(given)

    def near(first: int, position: NDArray[np.int32], tag: NDArray[np.int8], _: NDArray[np.int16]) -> NDArray[np.bool_]:
        cell = _number(bare, position // NEAR + 1)
        place = np.minimum(np.searchsorted(around, cell), len(around) - 1)
        found = np.asarray((around[place] == cell) | (tag != FLUID))
        found[by_corners[slice(*np.searchsorted(by_corners, (first, first + len(tag))))] - first] = True
        return found

    rows, of_nodes = _picked(given, OF_NODES, ("position", "tag", "part"), near)
    found: dict[str, Any] = {**of_nodes}
    links = {}
    for kind in KINDS:
        _, of_kind = _picked(given, _of_links(kind), (f"{kind}_link_node",), _Among(rows, count))
        found |= of_kind
        found[f"{kind}_link_node"] = np.searchsorted(rows, found[f"{kind}_link_node"]).astype(np.int32)
        links[kind] = given.length(f"{kind}_link_node")
    links["corner through"] = through
    walls, of_link = np.unique(found["wall_link_wall"], return_inverse=True)
    if len(walls) and not (walls[0] >= 0 and walls[-1] < given.length("wall_position")):
        _refuse("links name existing nodes")
    found["wall_link_wall"] = of_link.astype(np.int32)
    found |= {name: _rows_of(given, name, walls) for name in OF_WALLS}
    whole = Whole(ranks, row_numbers(rows, count), count, extent, sizes, links)
    return replace(bare, **found, whole=whole)


def _by_corners(given: NodeArrays) -> tuple[NDArray[np.int64], int]:
    """Rows of nodes with a link along a corner through an opening, ascending, which may have no other link through it
    and so no tag that tells; and how many such links there are.
    """
    rows, links = np.zeros(0, np.int64), 0
    for _, (node, opening) in _blocks(given, ("corner_link_node", "corner_link_opening")):
        through = opening > 0
        rows, links = np.union1d(rows, node[through]), links + int(np.count_nonzero(through))
    return rows, links


def _refuse(rule: str) -> None:
    raise StageError(f"node arrays break the rule that {rule}; run decompose again")


def _of_links(kind: str) -> tuple[str, ...]:
    """Names of the arrays of links of a kind."""
    return tuple(name for name in ARRAYS if name.startswith(f"{kind}_link_"))


def _blocks(given: NodeArrays, names: tuple[str, ...]) -> Iterator[tuple[int, list[NDArray[Any]]]]:
    """Some rows of arrays after others: the first one, and the rows of each."""
    for rows in row_blocks(given.length(names[0])):
        yield rows.start, [given.read(name, rows) for name in names]


@dataclass(frozen=True)
class _Among:
    """Tells links of some fluid nodes, by their rows, ascending, from those of others."""

    rows: NDArray[np.int64]
    count: int

    def __call__(self, _: int, node: NDArray[np.int32]) -> NDArray[np.bool_]:
        if len(node) and not (node.min() >= 0 and node.max() < self.count):
            _refuse("links name existing nodes")
        place = np.minimum(np.searchsorted(self.rows, node), len(self.rows) - 1)
        return np.asarray(self.rows[place] == node)


def _picked(
    given: NodeArrays, names: tuple[str, ...], of: tuple[str, ...], wanted: Callable[..., NDArray[np.bool_]]
) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
    """Rows of arrays that are wanted for what the arrays `of` have from a first row on, and which these are."""
    rows: list[NDArray[np.int64]] = []
    pieces: dict[str, list[NDArray[Any]]] = {name: [given.read(name, slice(0, 0))] for name in names}
    for first, some in _blocks(given, of):
        kept = np.flatnonzero(wanted(first, *some))
        rows.append(first + kept)
        if len(kept) or given.together:
            within = slice(first, first + len(some[0]))
            for name in names:
                block = some[of.index(name)] if name in of else given.read(name, within)
                pieces[name].append(block[kept])
    return np.concatenate([np.zeros(0, np.int64), *rows]), {name: np.concatenate(pieces.pop(name)) for name in names}


def _rows_of(given: NodeArrays, name: str, rows: NDArray[np.integer]) -> NDArray[Any]:
    """Rows of an array, ascending."""
    pieces = [given.read(name, slice(0, 0))]
    for first, (block,) in _blocks(given, (name,)):
        own = slice(*np.searchsorted(rows, (first, first + len(block))).tolist())
        pieces.append(block[rows[own] - first])
    return np.concatenate(pieces)


def _own_cells(
    given: NodeArrays, bare: Nodes, part: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[int, int, int]]:
    """Numbers of the cells of `NEAR` nodes a side that have a node of a part; nodes of each part, and along axes."""
    cells, sizes = np.zeros(0, np.int64), np.zeros(0, np.int64)
    low, high = np.full(3, np.iinfo(np.int32).max), np.full(3, np.iinfo(np.int32).min)
    for _, (position, of_part) in _blocks(given, ("position", "part")):
        low, high = np.minimum(low, position.min(axis=0)), np.maximum(high, position.max(axis=0))
        there = np.bincount(of_part, minlength=len(sizes))
        there[: len(sizes)] += sizes
        sizes = there
        own = _with_images(bare, position[of_part == part])
        cells = np.union1d(cells, _number(bare, own // NEAR + 1))
    x, y, z = (high - low + 1).tolist()
    return cells, sizes, (x, y, z)


def _grid(nodes: Nodes) -> NDArray[np.int64]:
    """Cells along (x, y, z), with one beyond each border."""
    return np.array(nodes.shape[::-1], np.int64) // NEAR + 3


def _number(nodes: Nodes, cell: NDArray[np.integer]) -> NDArray[np.int64]:
    """Numbers of cells, (C, 3), from 1."""
    return np.ravel_multi_index(tuple(cell.T), tuple(_grid(nodes)))


def _with_images(nodes: Nodes, position: NDArray[np.int32]) -> NDArray[np.integer]:
    """Positions, and of those near a border at which the lattice repeats also where they lie beyond the other one."""
    size = np.array(nodes.shape[::-1], np.int64)
    for axis in np.flatnonzero(nodes.periodic):
        low, high = position[:, axis] < NEAR, position[:, axis] >= size[axis] - NEAR
        moved = np.where(np.arange(3) == axis, size, 0)
        position = np.concatenate((position, position[low] + moved, position[high] - moved))
    return position


def _around(nodes: Nodes, cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of some cells and of those beside them, ascending."""
    grid = _grid(nodes)
    place = np.stack(np.unravel_index(cells, tuple(grid)), axis=1)
    around = np.concatenate([place + step for step in product((-1, 0, 1), repeat=3)])
    return np.unique(_number(nodes, around[((around >= 0) & (around < grid)).all(axis=1)]))
