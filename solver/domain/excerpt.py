# SPDX-License-Identifier: Apache-2.0
"""The surroundings of a part: its nodes and those near them, with their links, from which a lattice of the part is laid
out as from the whole.

What a part needs of others is told by nodes a few links away: whom links reach, and between which nodes differences are
taken. All nodes at openings belong to every excerpt, since what a link there gets follows from all of its opening.
"""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.domain.nodes import ARRAYS, FLUID, Nodes

NEAR = 5
"""Links within which all nodes around a part belong to its excerpt: the force of solver/kernels/isotropy.py reaches a
node two links away of another part, whose differences are found from nodes up to three links further."""


@dataclass(frozen=True)
class Excerpt:
    """Some nodes of a geometry.

    Attributes
    ----------
    nodes : they and their links, in the order of all.
    rows : (R,) their rows among all nodes.
    count : of all nodes.
    """

    nodes: Nodes
    rows: NDArray[np.int64]
    count: int


def excerpt(nodes: Nodes, part: int) -> Excerpt:
    """The nodes of a part and those around them, and all at openings.

    Parameters
    ----------
    nodes : the geometry.
    part : number of the part.
    """
    size = np.array(nodes.shape[::-1], np.int64) // NEAR + 3
    own = np.ravel_multi_index(tuple(_cells_around(nodes, nodes.position[nodes.part == part]).T), tuple(size))
    own.sort()
    cell = np.ravel_multi_index(tuple((nodes.position // NEAR + 1).T), tuple(size))
    place = np.minimum(np.searchsorted(own, cell), len(own) - 1)
    rows = np.flatnonzero((own[place] == cell) | (nodes.tag != FLUID))
    return Excerpt(_of_rows(nodes, rows), rows, nodes.count)


def _cells_around(nodes: Nodes, position: NDArray[np.int32]) -> NDArray[np.int64]:
    """Cells of `NEAR` nodes a side that have one of these, and the cells beside those, (C, 3), from 1."""
    size = np.array(nodes.shape[::-1], np.int64)
    for axis in np.flatnonzero(nodes.periodic):  # what lies near the border lies near the other one, too
        low, high = position[:, axis] < NEAR, position[:, axis] >= size[axis] - NEAR
        moved = np.where(np.arange(3) == axis, size, 0)
        position = np.concatenate((position, position[low] + moved, position[high] - moved))
    cells = np.unique(position // NEAR + 1, axis=0)
    around = np.unique(np.concatenate([cells + step for step in product((-1, 0, 1), repeat=3)]), axis=0)
    return around[((around >= 0) & (around < size // NEAR + 3)).all(axis=1)]


def _of_rows(nodes: Nodes, rows: NDArray[np.int64]) -> Nodes:
    """Some fluid nodes, by their rows, ascending, with their links and the wall nodes at the ends of these."""
    number = np.full(nodes.count, -1, np.int32)
    number[rows] = np.arange(len(rows))
    found: dict[str, Any] = {name: getattr(nodes, name)[rows] for name in ARRAYS if "_" not in name}
    found["distance_mm"] = nodes.distance_mm[rows]
    for kind in ("wall", "opening", "corner"):
        kept = np.flatnonzero(number[getattr(nodes, f"{kind}_link_node")] >= 0)
        found |= {name: getattr(nodes, name)[kept] for name in ARRAYS if name.startswith(f"{kind}_link_")}
        found[f"{kind}_link_node"] = number[found[f"{kind}_link_node"]]
    walls, found["wall_link_wall"] = np.unique(found["wall_link_wall"], return_inverse=True)
    found["wall_link_wall"] = found["wall_link_wall"].astype(np.int32)
    found |= {name: getattr(nodes, name)[walls] for name in ("wall_position", "wall_distance_mm")}
    return replace(nodes, **found)
