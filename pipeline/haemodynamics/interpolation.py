# SPDX-License-Identifier: Apache-2.0
"""Values between the nodes of the lattice: trilinear, up to the wall and up to the caps of openings.

A cell at the wall has corners in the solid. With the velocity 0 there, the wall of the interpolated flow would be a
staircase of the lattice: too slow by up to a spacing of shear, and with dents in which particles are caught. So the
corners beside the fluid get values of their own, by the method of ghost nodes: along every link that ends there,
linear interpolation is to give the velocity at the wall, 0, where the link meets it, and at a cap the velocity of the
fluid node. Of several links the value g is that of least squares, to solve

    (1 - q) u + q g = 0    for a link with the distance q to the wall and u at its fluid node,
    g = u                  for a link through a cap, or through a patch of the wall, which may move or slip:

    g = (sum_caps u - sum_walls q (1 - q) u) / (sum_walls (q^2 + REGULAR) + sum_caps 1).

What is at rest on the wall to the second order of the spacing is thereby no staircase but the wall that links meet.
Corners that no link reaches follow along diagonals: linear extrapolation from the cell of a fluid node.

Source of the method: Tseng and Ferziger (2003), doi:10.1016/j.jcp.2003.07.024.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray
from scipy.sparse import csr_array

from solver.domain.nodes import Nodes
from solver.kernels.compilation import inner_function
from solver.kernels.d3q19 import VELOCITIES

REGULAR = 1e-3
"""Keeps a corner behind a wall that all but touches its fluid node from magnifying that node's error more than
q/(q^2 + REGULAR) times, 16 at most."""

EDGE = 8
"""Nodes along the edge of a block; a power of two. Rows are looked up in blocks: a box of the whole lattice would take
tens of times the memory of the vessel in it."""

SHIFT = 3
"""EDGE is two to this power."""

FAR = 2.0
"""Distance, in spacings, of nodes beyond the band in which distances to the wall are known."""


class Blocks(NamedTuple):
    """Where the row of a lattice index is looked up.

    Attributes
    ----------
    low : (3,) int64, lattice index of the first node of the first block.
    top : [z, y, x] int32, number of the block there, -1 where there is none.
    blocks : (B, 8, 8, 8) int32, row at each node of a block, -1 where there is no value.
    wrap : (3,) int64, nodes along axes that repeat, 0 along others.
    """

    low: NDArray[np.int64]
    top: NDArray[np.int32]
    blocks: NDArray[np.int32]
    wrap: NDArray[np.int64]


@dataclass(frozen=True)
class Interpolation:
    """Rows of values at the corners of cells.

    Values stand at the fluid nodes, (N, ...), in the rows of the node arrays; :meth:`extended` appends those at the
    corners beside them. Places are lattice indices (x, y, z) as numbers, so that a cell is one.

    Attributes
    ----------
    nodes : the lattice.
    table : of the rows.
    carried, mirrored : operators from values at the fluid nodes to the corners that links reach: values that are
        carried on, such as pressure; and those that are 0 at the wall, such as velocity.
    diagonal : operator from all these to the corners that no link reaches.
    """

    nodes: Nodes
    table: Blocks
    carried: csr_array
    mirrored: csr_array
    diagonal: csr_array

    @staticmethod
    def of(nodes: Nodes) -> "Interpolation":
        """From the node arrays."""
        wrap = np.where(nodes.periodic, nodes.shape[::-1], 0).astype(np.int64)
        node = np.concatenate((nodes.wall_link_node, nodes.opening_link_node))
        direction = np.concatenate((nodes.wall_link_direction, nodes.opening_link_direction))
        at_rest = np.append(nodes.wall_link_patch == 0, np.zeros(len(nodes.opening_link_node), bool))
        q = np.where(at_rest, np.append(nodes.wall_link_q, nodes.opening_link_q), 1.0)
        ends, corner = _distinct(_wrapped(nodes.position[node] + VELOCITIES[direction], wrap))
        shape = len(ends), nodes.count
        share = 1 / np.bincount(corner, minlength=len(ends))[corner]
        divisor = np.bincount(corner, q * q + REGULAR * at_rest, len(ends))
        weight = np.where(at_rest, -q * (1 - q), 1.0) / divisor[corner]
        low = np.concatenate((nodes.position, ends)).min(axis=0).astype(np.int64) - 2
        high = np.concatenate((nodes.position, ends)).max(axis=0) + 2
        table = _Table(low, high, wrap)
        table.add(nodes.position)
        table.add(ends)
        diagonal = _diagonals(nodes, np.unique(node), table)
        return Interpolation(
            nodes,
            table.finished(),
            csr_array((share, (corner, node)), shape),
            csr_array((weight, (corner, node)), shape),
            diagonal,
        )

    def extended(self, values: NDArray[np.floating], zero_at_wall: bool) -> NDArray[np.float32]:
        """Values at the fluid nodes, (N,) or (N, C), followed by those at the corners beside them, (E,) or (E, C)."""
        linked = (self.mirrored if zero_at_wall else self.carried) @ values
        known = np.concatenate((values, linked.astype(np.float32)), dtype=np.float32)
        return np.concatenate((known, (self.diagonal @ known).astype(np.float32)))

    @cached_property
    def distance(self) -> NDArray[np.float32]:
        """Signed distance to the wall in spacings, (E,), negative in the solid; carried on through openings."""
        nodes = self.nodes
        fluid = np.minimum(nodes.distance_mm / nodes.spacing_mm, FAR).astype(np.float32)
        found = self.extended(fluid, zero_at_wall=False)
        row = self.rows(nodes.wall_position)
        found[row[row >= 0]] = np.maximum(nodes.wall_distance_mm[row >= 0] / nodes.spacing_mm, -FAR)
        return found

    def rows(self, position: NDArray[np.integer]) -> NDArray[np.int32]:
        """Rows of nodes by lattice index (x, y, z), (M, 3); -1 where there is no value."""
        return _rows(np.ascontiguousarray(position, np.int64), self.table)

    def sample(self, values: NDArray[np.float32], points_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        """Extended values, (E, C), at places in the patient, (M, 3), mm: (M, C). Corners without a value count as 0."""
        found = np.zeros((len(points_mm), values.shape[1]))
        _sample(self.place(points_mm), values, self.table, found)
        return found

    def place(self, points_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lattice indices, (..., 3), of places in the patient, mm."""
        return (points_mm - np.asarray(self.nodes.origin_mm)) / self.nodes.spacing_mm

    def points_mm(self, place: NDArray[np.float64]) -> NDArray[np.float64]:
        """Places in the patient, (..., 3), mm, of lattice indices."""
        return place * self.nodes.spacing_mm + np.asarray(self.nodes.origin_mm)


def _wrapped(position: NDArray[np.integer], wrap: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(wrap > 0, position % np.maximum(wrap, 1), position)


def _distinct(position: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions without repetition, and the number of each given one among them."""
    low = position.min(axis=0, initial=0) - 1
    size = position.max(axis=0, initial=0) - low + 2
    keys = ((position[:, 2] - low[2]) * size[1] + position[:, 1] - low[1]) * size[0] + position[:, 0] - low[0]
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    return position[first], number


class _Table:
    """Blocks of rows, filled list by list; rows go on counting from list to list."""

    def __init__(self, low: NDArray[np.int64], high: NDArray[np.int64], wrap: NDArray[np.int64]) -> None:
        self.low, self.wrap, self.count = low, wrap, 0
        self.top = np.full(((high - low) // EDGE + 1)[::-1], -1, np.int32)
        self.blocks = np.empty((0, EDGE, EDGE, EDGE), np.int32)

    def add(self, position: NDArray[np.integer]) -> None:
        number = _number_blocks(position, self.low, self.top, len(self.blocks))
        new = np.full((number - len(self.blocks), EDGE, EDGE, EDGE), -1, np.int32)
        self.blocks = np.concatenate((self.blocks, new))
        _fill(position, self.low, self.top, self.blocks, self.count)
        self.count += len(position)

    def finished(self) -> Blocks:
        return Blocks(self.low, self.top, self.blocks, self.wrap)

    def rows(self, position: NDArray[np.int64]) -> NDArray[np.int32]:
        return _rows(position, self.finished())


def _diagonals(nodes: Nodes, linked: NDArray[np.int32], table: _Table) -> csr_array:
    """Values at corners (1, 1, 1) beside fluid nodes to which no link leads; they are added to the table.

    Linear in the cell: u(1,1,1) = (u(1,1,0) + u(1,0,1) + u(0,1,1) - u(0,0,0)) / 2, a mean over the fluid nodes around.
    """
    known = table.count
    ends, sources = [], []
    for diagonal in np.array(list(product((-1, 1), repeat=3))):
        end = nodes.position[linked] + diagonal
        missing = table.rows(end) < 0
        start = nodes.position[linked[missing]].astype(np.int64)
        moves = diagonal * (1 - np.eye(3, dtype=np.int64))
        sources.append(np.column_stack((*(table.rows(start + move) for move in moves), linked[missing])))
        ends.append(_wrapped(end[missing], table.wrap))
    position, corner = _distinct(np.concatenate(ends))
    table.add(position)
    share = 0.5 / np.bincount(corner, minlength=len(position))[corner]
    weights = share[:, None] * np.array([1.0, 1.0, 1.0, -1.0])
    columns = np.concatenate(sources)
    rows = np.repeat(corner, 4)
    return csr_array((weights.ravel(), (rows, columns.ravel())), shape=(len(position), known))


@njit(cache=True)
def _number_blocks(position: NDArray[np.integer], low: NDArray[np.int64], top: NDArray[np.int32], count: int) -> int:
    for n in range(len(position)):
        x, y, z = position[n, 0] - low[0], position[n, 1] - low[1], position[n, 2] - low[2]
        if top[z >> SHIFT, y >> SHIFT, x >> SHIFT] < 0:
            top[z >> SHIFT, y >> SHIFT, x >> SHIFT] = count
            count += 1
    return count


@njit(cache=True)
def _fill(
    position: NDArray[np.integer],
    low: NDArray[np.int64],
    top: NDArray[np.int32],
    blocks: NDArray[np.int32],
    first: int,
) -> None:
    for n in range(len(position)):
        x, y, z = position[n, 0] - low[0], position[n, 1] - low[1], position[n, 2] - low[2]
        block = top[z >> SHIFT, y >> SHIFT, x >> SHIFT]
        blocks[block, z & (EDGE - 1), y & (EDGE - 1), x & (EDGE - 1)] = first + n


@inner_function(forceinline=True)
def row_at(
    x: int,
    y: int,
    z: int,
    table: Blocks,
) -> int:
    """Row of the value at a lattice index, -1 where there is none.

    Parameters
    ----------
    x, y, z : lattice index.
    table : where rows are looked up.
    """
    low, top, blocks, wrap = table
    if wrap[0]:
        x %= wrap[0]
    if wrap[1]:
        y %= wrap[1]
    if wrap[2]:
        z %= wrap[2]
    x, y, z = x - low[0], y - low[1], z - low[2]
    i, j, k = x >> SHIFT, y >> SHIFT, z >> SHIFT
    if i < 0 or j < 0 or k < 0 or i >= top.shape[2] or j >= top.shape[1] or k >= top.shape[0] or top[k, j, i] < 0:
        return -1
    return blocks[top[k, j, i], z & (EDGE - 1), y & (EDGE - 1), x & (EDGE - 1)]


@inner_function(forceinline=True)
def corners(
    x: float,
    y: float,
    z: float,
    table: Blocks,
    row: NDArray[np.int64],
) -> tuple[float, float, float, bool]:
    """Rows of the corners of the cell around a place, x fastest, into `row`, (8,); the place in the cell, and whether
    all corners have values.

    Parameters
    ----------
    x, y, z : the place, in lattice indices.
    table : where rows are looked up.
    row : (8,) int64, is filled; -1 where there is no value.
    """
    i, j, k = int(np.floor(x)), int(np.floor(y)), int(np.floor(z))
    whole = True
    for corner in range(8):
        row[corner] = row_at(i + (corner & 1), j + (corner >> 1 & 1), k + (corner >> 2), table)
        whole &= row[corner] >= 0
    return x - i, y - j, z - k, whole


@inner_function(forceinline=True)
def weight_of(corner: int, a: float, b: float, c: float) -> float:
    """Trilinear weight of a corner at the place (a, b, c) in the cell.

    Parameters
    ----------
    corner : 0 to 7; its bits are the steps along x, y, z.
    a, b, c : from 0 to 1, along x, y, z.
    """
    return (a if corner & 1 else 1 - a) * (b if corner >> 1 & 1 else 1 - b) * (c if corner >> 2 else 1 - c)


@njit(parallel=True, cache=True)
def _rows(
    position: NDArray[np.int64],
    table: Blocks,
) -> NDArray[np.int32]:
    found = np.empty(len(position), np.int32)
    for n in prange(len(position)):
        found[n] = row_at(position[n, 0], position[n, 1], position[n, 2], table)
    return found


@njit(parallel=True, cache=True)
def _sample(
    place: NDArray[np.float64],
    values: NDArray[np.float32],
    table: Blocks,
    found: NDArray[np.float64],
) -> None:
    for n in prange(len(place)):
        row = np.empty(8, np.int64)
        a, b, c, _ = corners(place[n, 0], place[n, 1], place[n, 2], table, row)
        for corner in range(8):
            if row[corner] >= 0:
                for component in range(values.shape[1]):
                    found[n, component] += weight_of(corner, a, b, c) * values[row[corner], component]
