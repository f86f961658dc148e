# SPDX-License-Identifier: Apache-2.0
"""Nodes between which the force of solver/kernels/isotropy.py takes differences."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.domain.nodes import Neighbours, Nodes

AXES = 3


@dataclass(frozen=True)
class Stencils:
    """Nodes between which the force takes differences, as rows of the fluid nodes.

    Attributes
    ----------
    beside : (6, N) at the ends of a node's links along +x, -x, +y, -y, +z, -z, which give its flux; -1 in all where one
        of them is missing.
    ends : (6, N) whose fluxes' difference is the node's momentum, the upper and the lower one along each axis; the node
        itself in both where there is none.
    times : (3, N) how often: 1 where they are two nodes apart, 2 where they are next to each other.
    """

    beside: NDArray[np.int32]
    ends: NDArray[np.int32]
    times: NDArray[np.int8]

    @property
    def count(self) -> int:
        """Number of nodes."""
        return self.beside.shape[1]

    @classmethod
    def none(cls) -> "Stencils":
        """Of a lattice without the force."""
        nothing = np.zeros((2 * AXES, 0), np.int32)
        return cls(nothing, nothing, np.zeros((AXES, 0), np.int8))

    @classmethod
    def of_nodes(cls, nodes: Nodes) -> "Stencils":
        """Of a geometry."""
        neighbours = Neighbours(nodes)
        beside = np.empty((2 * AXES, nodes.count), np.int32)
        for row in range(2 * AXES):
            beside[row] = neighbours.along(row + 1)
        inner = np.asarray((beside >= 0).all(axis=0))
        ends, times = np.empty_like(beside), np.empty((AXES, nodes.count), np.int8)
        for a in range(AXES):
            both = slice(2 * a, 2 * a + 2)
            ends[both], times[a] = _chosen(inner, *beside[both])
        beside[:, ~inner] = -1
        return cls(beside, ends, times)


def _chosen(
    inner: NDArray[np.bool_], up: NDArray[np.int32], down: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Upper and lower end, (2, N), and how often their difference counts, along an axis.

    `inner` says which nodes have a flux, `up` and `down` are neighbours. Where there is no flux on one side, those on
    the other side go on linearly.
    """
    own = np.arange(len(up), dtype=np.int32)
    ends, times = np.stack((own, own)), np.zeros(len(up), np.int8)

    def with_flux(row: NDArray[np.integer]) -> NDArray[np.bool_]:
        return (row >= 0) & inner[row]

    high, low = with_flux(up), with_flux(down)
    both = high & low
    ends[0, both], ends[1, both], times[both] = up[both], down[both], 1
    for near, other, outer, inward in ((high, low, 0, up), (low, high, 1, down)):
        beside = near & ~other & inner
        ends[outer, beside], times[beside] = inward[beside], 2
        next_one = np.where(near & ~other & ~inner, inward[inward], -1)
        beyond = with_flux(next_one)
        ends[outer, beyond], ends[1 - outer, beyond], times[beyond] = next_one[beyond], inward[beyond], 2
    return ends, times
