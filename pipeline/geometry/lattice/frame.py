# SPDX-License-Identifier: Apache-2.0
"""Where a lattice lies: places and numbers of its nodes, and its repetition."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from pipeline.files.mesh import Mesh
from solver.domain.nodes import STEPS, flat_index

Scalar = TypeVar("Scalar", bound=np.generic)

MARGIN_NODES = 2
"""Nodes around the surface along axes on which the lattice does not repeat."""

OFFSET = np.array((0.8191725134, 0.6710436067, 0.5497004779))
"""Shift of a lattice against planes of the surface, in spacings along x, y, z: powers of the root of x^4 = x + 1. Flat
caps and walls along axes or diagonals then do not lie on nodes."""


@dataclass(frozen=True)
class Frame:
    """Where a lattice lies.

    Attributes
    ----------
    spacing_mm : distance of neighbouring nodes along an axis, mm.
    origin_mm : place of index (0, 0, 0), (x, y, z), LPS, mm.
    shape : nodes along (z, y, x).
    periodic : whether the lattice repeats along (x, y, z).
    """

    spacing_mm: float
    origin_mm: tuple[float, float, float]
    shape: tuple[int, int, int]
    periodic: tuple[bool, bool, bool] = (False, False, False)

    @property
    def strides(self) -> NDArray[np.int64]:
        """Steps in the flattened lattice to the next node along (x, y, z)."""
        return np.array((1, self.shape[2], self.shape[1] * self.shape[2]))

    def step(self, direction: int) -> int:
        """Step in the flattened lattice to the node at the end of a link."""
        return int(STEPS[direction].astype(np.int64) @ self.strides)

    def position(self, node: NDArray[np.integer]) -> NDArray[np.int32]:
        """Lattice index (x, y, z), (N, 3), of nodes given by their place in the flattened lattice."""
        return _positions(node, *self.shape[1:])

    def node(self, position: NDArray[np.int32]) -> NDArray[np.int64]:
        """Places in the flattened lattice, (N,), of nodes given by their lattice index (x, y, z), (N, 3)."""
        return flat_index(position, self.strides)

    def padded(self) -> "Frame":
        """The same with one more layer of nodes at both ends of the axes along which it repeats."""
        x, y, z = (np.asarray(self.origin_mm) - np.array(self.periodic) * self.spacing_mm).tolist()
        depth, height, width = (n + 2 * repeats for n, repeats in zip(self.shape, self.periodic[::-1], strict=True))
        return Frame(self.spacing_mm, (x, y, z), (depth, height, width))

    def pad(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Values of the nodes, [z, y, x], of the padded lattice."""
        return np.pad(values, [(int(p), int(p)) for p in self.periodic[::-1]], "wrap") if any(self.periodic) else values

    def core(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Values of the lattice, [z, y, x], of those of the padded one."""
        return values[tuple(slice(1, -1) if repeats else slice(None) for repeats in self.periodic[::-1])]

    def core_node(self, node: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places in the flattened lattice of nodes given by their places in the flattened padded one."""
        if not any(self.periodic):
            return node
        position = self.padded().position(node) - np.array(self.periodic)
        return self.node((position % self.shape[::-1]).astype(np.int32))


@njit(parallel=True, cache=True)
def _positions(node: NDArray[np.int64], height: int, width: int) -> NDArray[np.int32]:
    position = np.empty((len(node), 3), np.int32)
    for n in prange(len(node)):
        row = node[n] // width
        position[n, 0], position[n, 1], position[n, 2] = node[n] - row * width, row % height, row // height
    return position


def around(mesh: Mesh, spacing_mm: float) -> Frame:
    """A lattice around a surface, off its planes."""
    low, high = mesh.points_mm.min(axis=0), mesh.points_mm.max(axis=0)
    origin = low - (MARGIN_NODES - 1 + OFFSET) * spacing_mm
    width, height, depth = (np.ceil((high - origin) / spacing_mm).astype(int) + MARGIN_NODES).tolist()
    x, y, z = origin.tolist()
    return Frame(spacing_mm, (x, y, z), (depth, height, width))


def mean_runs(fluid: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Mean number of fluid nodes, [z, y, x], that follow each other without a gap along (x, y, z)."""
    count = int(np.count_nonzero(fluid))
    begun = []
    for along in (2, 1, 0):
        line = np.moveaxis(fluid, along, 0)
        begun.append(int(np.count_nonzero(line[0])) + int(np.count_nonzero(line[1:] > line[:-1])))
    return count / begun[0], count / begun[1], count / begun[2]
