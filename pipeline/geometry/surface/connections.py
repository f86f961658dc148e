# SPDX-License-Identifier: Apache-2.0
"""How the half-edges of a surface hang together, for the steps that change them.

A half-edge ``h = 3 t + k`` runs from corner k of triangle t to the next one; ``twin[h]`` is the same edge seen from
the other triangle, ``out[v]`` any half-edge that begins at vertex v.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from solver.kernels.compilation import inner_function

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Kinds: TypeAlias = NDArray[np.int8]
Flags: TypeAlias = NDArray[np.bool_]
Vector: TypeAlias = tuple[float, float, float]

WALL = 0
"""Kind of a vertex of the wall; k > 0: inside cap k; -k: on its rim."""

CREASE = -127
"""Kind of a vertex on another crease."""

CORNER = -128
"""Kind of a vertex where creases meet or end."""


@inner_function()
def next_of(h: int) -> int:
    """The half-edge after one in its triangle."""
    return h - 2 if h % 3 == 2 else h + 1


@inner_function()
def previous_of(h: int) -> int:
    """The half-edge before one in its triangle."""
    return h + 2 if h % 3 == 0 else h - 1


@inner_function()
def valence_of(v: int, start: Ints, twin: Ints, out: Ints) -> int:
    """Number of edges at a vertex.

    Parameters
    ----------
    v : the vertex.
    start, twin, out : as in :class:`half_edges.HalfEdges`.
    """
    count, h = 0, out[v]
    while True:
        count += 1
        h = twin[previous_of(h)]
        if h == out[v]:
            return count


@inner_function()
def joined(a: int, b: int, start: Ints, twin: Ints, out: Ints) -> bool:
    """Whether an edge joins two vertices.

    Parameters
    ----------
    a, b : the vertices.
    start, twin, out : as in :class:`half_edges.HalfEdges`.
    """
    h = out[a]
    while True:
        if start[twin[h]] == b:
            return True
        h = twin[previous_of(h)]
        if h == out[a]:
            return False
