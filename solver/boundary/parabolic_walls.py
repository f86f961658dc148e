# SPDX-License-Identifier: Apache-2.0
"""Walls that meet a parabola: what linear interpolation leaves of the profile's second derivative along each link.

Where the second half of the populations, odd in the velocity, relaxes with a given Lambda, a wall link of the scheme
(a, b, c) at the distance q holds in a steady flow, with 2 m = 1 + a - b + c and u the velocity along the link,

    u + q du + [Lambda + (tau - 1/2) (1 - a + b + c)/(4 m)] ddu = u_w

(the expansion of Ginzburg, Verhaeghe and d'Humières 2008, Commun. Comput. Phys. 3, 427, without its gradient of the
pressure). A wall at rest at the distance q asks for u + q du + (q^2/2) ddu = 0. What differs is a slip, which makes
lumens seem narrower: with Lambda = 1/12 the mean of q^2/2, 1/6, is twice what the scheme has. So the wall gets, with a
share s of the bracket, the velocity

    u_w = {s [Lambda + (tau - 1/2) (1 - a + b + c)/(4 m)] - q^2/2} ddu,     ddu = u(n) - 2 u(n - c_i) + u(n - 2 c_i),

along each link that has two fluid nodes behind it, from velocities that are taken every so many pairs of steps
(:mod:`solver.kernels.isotropy`). It acts as the velocity of a moving wall does (:mod:`solver.boundary.walls`).

In slow flow the gradient of the pressure is nu laplace(u), and the whole expansion has
[Lambda + (tau - 1/2) k] (ddu - laplace(u)/3). Along the links of a plane wall laplace(u) is ddu, in a round pipe one to
two ddu: half of the bracket is left on average, with TRT. Cumulants, whose Lambda is that of their third order alone,
are nearer to Poiseuille's flow with all of it (docs/validation/directions.md).
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.boundary.walls import WALLS, WallLinks
from solver.domain.nodes import Neighbours, Nodes
from solver.kernels.node_physics import node_function
from solver.kernels.velocity_sets import velocity_set

SHARES = {"bgk": 0.5, "trt": 0.5, "cumulant": 1.0}
"""Of the bracket, s, by the collision model; others have no Lambda, and no such walls."""
WALL_PAIRS = 32
"""Pairs of steps after which the velocity of walls is found again where nothing else needs those of nodes."""


@dataclass(frozen=True)
class ParabolicWalls:
    """Of each of L wall links, what its wall's velocity follows from.

    Attributes
    ----------
    rows : (3, L) the link's node, and the two behind it; three times the node itself where there are not so many.
    share : (3, L) the parts of the second difference of u_x, u_y and u_z between these nodes that the returning
        population gets.
    """

    rows: NDArray[np.int32]
    share: NDArray[np.floating]

    @classmethod
    def none(cls) -> "ParabolicWalls":
        """Of a lattice without them."""
        return cls(np.zeros((3, 0), np.int32), np.zeros((3, 0)))

    @classmethod
    def of_links(
        cls,
        nodes: Nodes,
        walls: WallLinks,
        stride: int,
        scheme: str,
        collision: str,
        rates: tuple[float, float],
        real: Any,
    ) -> "ParabolicWalls":
        """Those of a geometry.

        Parameters
        ----------
        nodes, stride : the geometry and the length of its rows of populations.
        walls : its links.
        scheme : name of their scheme, one of :data:`solver.boundary.walls.WALLS`.
        collision : name of the collision model, one of :data:`SHARES`.
        rates : (omega+, omega-) of it.
        real : type of the shares.
        """
        stencil, neighbours = velocity_set(nodes.q), Neighbours(nodes)
        back, node = np.divmod(walls.slot.astype(np.int64), stride)
        listed = nodes.wall_link_direction * np.int64(nodes.count) + nodes.wall_link_node
        order = np.argsort(listed)
        place = np.searchsorted(listed, stencil.opposite[back] * nodes.count + node, sorter=order)
        q = nodes.wall_link_q[order[place]].astype(np.float64)
        rows = np.tile(node, (3, 1))
        for direction in np.unique(back):
            mine, beside = back == direction, neighbours.along(int(direction))
            rows[1, mine] = beside[node[mine]]
            rows[2, mine] = np.where(rows[1, mine] < 0, -1, beside[rows[1, mine]])
        inside = rows.min(axis=0) >= 0
        leading, returning, arriving, factor = WALLS[scheme](q)
        even, odd = (1 / rate - 0.5 for rate in rates)
        of_scheme = SHARES[collision] * even * (odd + (1 - leading + returning + arriving) / (4 * factor))
        slip = np.where(inside, 6 * stencil.weights[back] * factor * (of_scheme - q**2 / 2), 0)
        # -6 w_i m c_i.u_w, and c_i = -c_o
        share = slip * stencil.velocities[back].T
        return cls(np.where(inside, rows, node).astype(np.int32), share.astype(real))


@cache
def make_wall_slip(real: Any) -> Any:
    """Function ``(velocity, rows, share, k) -> s`` of the k-th link: what its wall's velocity adds to its population.

    The arrays are those of :class:`ParabolicWalls`, and the velocities (3, .) of nodes.
    """
    two = real(2)

    @node_function
    def slip(velocity: Any, rows: Any, share: Any, k: int) -> Any:
        n, behind, beyond = rows[0, k], rows[1, k], rows[2, k]
        x = share[0, k] * (velocity[0, n] - two * velocity[0, behind] + velocity[0, beyond])
        y = share[1, k] * (velocity[1, n] - two * velocity[1, behind] + velocity[1, beyond])
        return x + y + share[2, k] * (velocity[2, n] - two * velocity[2, behind] + velocity[2, beyond])

    return slip
