# SPDX-License-Identifier: Apache-2.0
"""Loops that find nodes by their places in the order of the lattice."""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

CHUNK = 1 << 14
"""Nodes that one thread looks up at a time, few enough that their rows of ends stay in its cache."""


@njit(parallel=True, cache=True)
def flat_index(position: NDArray[np.int32], strides: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places, (N,), in a flattened lattice of positions (N, 3), by its steps along (x, y, z)."""
    place = np.empty(len(position), np.int64)
    for n in prange(len(position)):
        place[n] = position[n, 0] * strides[0] + position[n, 1] * strides[1] + position[n, 2] * strides[2]
    return place


@njit(parallel=True, cache=True)
def find_rows(
    keys: NDArray[np.int64],
    rows: NDArray[np.int32],
    position: NDArray[np.int32],
    moves: NDArray[np.int64],
    wraps: NDArray[np.int64],
    size: NDArray[np.int64],
    ends: NDArray[np.int32],
) -> None:
    """Rows at the ends of links: a search at the start of a chunk and where a link wraps around, else a walk.

    Parameters
    ----------
    keys : (N,) places of the nodes in the order of the lattice, which they ascend in.
    rows : (N,) of the node arrays, of these nodes.
    position : (N, 3) lattice indices, by row.
    moves : (D, 3) what a step in each direction adds to a key, by axis.
    wraps : (D, 3) the direction's step along axes that are periodic, 0 along others.
    size : (3,) nodes along the axes.
    ends : (N, D) gets the rows, -1 where there is no node.
    """
    for chunk in prange((len(keys) + CHUNK - 1) // CHUNK):
        first, last = chunk * CHUNK, min(len(keys), (chunk + 1) * CHUNK)
        for i in range(len(moves)):
            step = moves[i].sum()
            there = np.searchsorted(keys, keys[first] + step)
            before = keys[first] + step
            for k in range(first, last):
                wanted = keys[k] + step
                for axis in range(3):
                    at_border = size[axis] - 1 if wraps[i, axis] > 0 else 0
                    if wraps[i, axis] != 0 and position[rows[k], axis] == at_border:
                        wanted -= size[axis] * moves[i, axis]
                if wanted < before:
                    there = np.searchsorted(keys, wanted)
                before = wanted
                while there < len(keys) and keys[there] < wanted:
                    there += 1
                found = there < len(keys) and keys[there] == wanted
                ends[rows[k], i] = rows[there] if found else -1
