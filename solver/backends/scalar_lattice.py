# SPDX-License-Identifier: Apache-2.0
"""ScalarLattice: where the populations of a passive scalar live on the nodes of a flow, and its links at their border.

Its directions are the first seven of the flow's, so that addresses are those of :mod:`solver.domain.addresses`: the
link to a wall turns round, and a wall lets nothing through.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.domain.addresses import Runs, address_runs, link_addresses, row_stride
from solver.domain.nodes import Nodes
from solver.kernels.d3q19 import OPPOSITE, VELOCITIES, WEIGHTS
from solver.kernels.transport import SCALAR_Q

AXIS_LINKS = SCALAR_Q - 1


class Ports(NamedTuple):
    """Links along the axes through openings, grouped by node.

    Attributes
    ----------
    node : (M,) row of the node.
    first : (M + 1,) where the links of each node begin.
    slot : (K,) slot of the returning population.
    opening : (K,) index of the opening, its id less one.
    address : (6 M,) addresses of all links of the node.
    """

    node: NDArray[np.int64]
    first: NDArray[np.int64]
    slot: NDArray[np.int64]
    opening: NDArray[np.int64]
    address: NDArray[np.int64]


@dataclass(frozen=True)
class ScalarLattice:
    """A geometry for a passive scalar, in lattice units.

    Attributes
    ----------
    count : number of fluid nodes N.
    stride : length of a row of populations.
    runs : addresses of the links along the axes.
    ports : those through openings.
    direction : (K,) direction of each of these, 1 to 6, out of the vessel.
    wall_slot : (L,) slots of the populations that return from walls.
    wall_area : (L,) area of the wall that each of these links stands for, in squares of the spacing.
    openings : number of openings.
    """

    count: int
    stride: int
    runs: Runs
    ports: Ports
    direction: NDArray[np.int64]
    wall_slot: NDArray[np.int64]
    wall_area: NDArray[np.float64]
    openings: int

    @property
    def port_node(self) -> NDArray[np.int64]:
        """(K,) node of each link through an opening."""
        return np.repeat(self.ports.node, np.diff(self.ports.first))

    def through_openings(self, faces: NDArray[np.floating]) -> NDArray[np.floating]:
        """(K,) of what flows out through faces, (6, N), what flows through openings."""
        through: NDArray[np.floating] = faces[self.direction - 1, self.port_node]
        return through

    @property
    def slots(self) -> int:
        """Length of the array of populations."""
        return SCALAR_Q * self.stride

    def rows(self, values: NDArray[np.floating], real: Any) -> NDArray[np.floating]:
        """Numbers of nodes, (rows, N), in rows of the length of a row of populations, flat."""
        padded = np.zeros((len(values), self.stride), real)
        padded[:, : self.count] = values
        return padded.ravel()


def scalar_lattice(nodes: Nodes) -> ScalarLattice:
    """Lay out a geometry for a passive scalar.

    Parameters
    ----------
    nodes : all nodes.
    """
    stride = row_stride(nodes.count)
    addresses = link_addresses(nodes)[: AXIS_LINKS * stride]
    through = np.flatnonzero(nodes.opening_link_direction < SCALAR_Q)
    through = through[np.lexsort((nodes.opening_link_direction[through], nodes.opening_link_node[through]))]
    node, direction = nodes.opening_link_node[through].astype(np.int64), nodes.opening_link_direction[through]
    starts = np.flatnonzero(np.diff(node, prepend=-1))
    table = addresses.reshape(AXIS_LINKS, stride)[:, node[starts]].T.astype(np.int64)
    at_wall = np.flatnonzero(nodes.wall_link_direction < SCALAR_Q)
    return ScalarLattice(
        count=nodes.count,
        stride=stride,
        runs=address_runs(addresses, stride),
        ports=Ports(
            node=node[starts],
            first=np.append(starts, len(node)).astype(np.int64),
            slot=_returning(direction, node, stride),
            opening=nodes.opening_link_opening[through].astype(np.int64) - 1,
            address=np.ascontiguousarray(table).ravel(),
        ),
        direction=direction.astype(np.int64),
        wall_slot=_returning(nodes.wall_link_direction[at_wall], nodes.wall_link_node[at_wall], stride),
        wall_area=_areas(nodes)[at_wall],
        openings=len(nodes.openings),
    )


def _returning(direction: NDArray[np.integer], node: NDArray[np.integer], stride: int) -> NDArray[np.int64]:
    """Slots of the populations that return along links."""
    return OPPOSITE[direction].astype(np.int64) * stride + node


def _areas(nodes: Nodes) -> NDArray[np.float64]:
    """Area of the wall that a link along an axis stands for: abs(c_i.n).

    A wall with the normal n meets abs(n_a) links along the axis a on a unit of its area, and the squares of the n_a sum
    to 1. The normal of a node is that of the sum of w_i c_i over all links through the wall.
    """
    stencil = np.array(VELOCITIES, float)
    kept = nodes.wall_link_direction < len(WEIGHTS)
    direction, node = nodes.wall_link_direction[kept], nodes.wall_link_node[kept]
    normal = np.zeros((nodes.count, 3))
    np.add.at(normal, node, WEIGHTS[direction, None] * stencil[direction])
    length = np.linalg.norm(normal, axis=1)
    normal /= np.where(length > 0, length, 1)[:, None]
    area = np.zeros(len(kept))
    area[kept] = np.abs((stencil[direction] * normal[node]).sum(axis=1))
    return area
