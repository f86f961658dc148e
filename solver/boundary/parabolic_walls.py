# SPDX-License-Identifier: Apache-2.0
"""Walls that meet a parabola: what linear interpolation leaves of the profile's second derivative along each link.

Where the second half of the populations, odd in the velocity, relaxes with a given Lambda, a wall link of the scheme
(a, b, c) at the distance q holds in a steady flow, with 2 m = 1 + a - b + c and u the velocity along the link,

    u + q u' + [Lambda + (tau - 1/2) (1 - a + b + c)/(4 m)] u'' = u_w

(the expansion of Ginzburg, Verhaeghe and d'Humières 2008, Commun. Comput. Phys. 3, 427, without its gradient of the
pressure). A wall at rest at the distance q asks for u + q u' + (q^2/2) u'' = 0. What differs is a slip, which makes
lumens seem narrower: with Lambda = 1/12 the mean of q^2/2, 1/6, is twice what the scheme has. So the wall gets, with a
share s of the bracket, the velocity

    u_w = {s [Lambda + (tau - 1/2) (1 - a + b + c)/(4 m)] - q^2/2} u''

along each link, from velocities that are taken every so many pairs of steps (:mod:`solver.kernels.isotropy`). It acts
as the velocity of a moving wall does (:mod:`solver.boundary.walls`).

The second derivative u'' is wanted at the node itself. That of the node and the two behind it, u(n) - 2 u(n - c_i) +
u(n - 2 c_i), is the one at n - c_i: where a boundary layer is two or three spacings thick it is half of what it is at
n, and the flow beside the wall too slow by some percent. So u'' is that of a cubic: through these three and the wall,
where fluid is at rest, for q >= 1/2; through the node and three behind it where the wall is nearer, whose distance
would be divided by; of the three alone where there is no fourth. With one node behind it is that of a parabola which is
0 at the wall, for q >= 1/2 alone.

In corners a link may end at a wall on both sides. Such a link bounces back half-way, and meets u + u'/2 + s Lambda u'':
that of the parabola which is 0 at both walls is given to a wall half a link away or more. It is at most nine tenths of
the node's velocity: the wall follows the node some steps later, and more than all of its velocity would grow. Left
half-way, the corners of a square duct whose walls are 0.95 spacings from their nodes took 1.5 % of the flow away, 10
nodes across.

At nodes beside openings half of the links are such that the link back leaves through the cap. They meet
u + u'/2 + s Lambda u'' half-way, too, and the parabola that is 0 at q asks for u' = -u/q - (q/2) u''. Its second
derivative is that of developed flow through the cap (:mod:`solver.boundary.cap_profile`), as a part of u:

    u_w = u - u/(2q) + (s Lambda - q/4) u'',

within nine tenths of u both ways. Without a velocity a duct was up to 6 % narrower in front of its outlet than
elsewhere; without the second derivative its profile was pointed there, which took up to 3 % of its pressure drop.

The gradient of the pressure is nu laplace(u) at a wall, and the whole expansion has
[Lambda + (tau - 1/2) k] (u'' - laplace(u)/3). Along the links of a plane wall across an axis laplace(u) is u'': s is
2/3, with which Lambda = 3/16 is exact half-way. In a round pipe laplace(u) is one to two u'': a third to two thirds are
left, and s is 1/2. The third order of cumulants follows the same equation where their limiter does not act.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.boundary.cap_profile import LEAST, CapProfile
from solver.boundary.walls import WallLinks
from solver.domain.nodes import Neighbours, Nodes
from solver.domain.whole import row_blocks
from solver.kernels.node_physics import node_function
from solver.kernels.velocity_sets import velocity_set

SHARE, PLANE_SHARE = 0.5, 2 / 3
"""Of the bracket, s; of a plane wall across an axis."""
EQUAL = 1e-5
"""Distances of a plane wall along its links differ by no more."""
WALL_PAIRS = 25
"""Pairs of steps after which the velocity of walls is found again where nothing else needs those of nodes. A cycle has
a multiple of 200 steps: walls move at the same moments in each, and cycles differ by nothing that these add."""

NEAREST = 0.5
"""Distance of a wall, in lengths of the link, from which on fluid at rest there counts for the second derivative."""
FASTEST = 0.9
"""Part of the velocity of a node that a wall beside it gets at most where the link back ends at no node."""


@dataclass(frozen=True)
class ParabolicWalls:
    """Of each of L wall links, what its wall's velocity follows from.

    Attributes
    ----------
    rows : (4, L) the link's node, and the three behind it; the node itself in place of those that there are not.
    weights : (4, L) of their velocities in that of the wall, each along the link.
    share : (3, L) the parts of the wall's u_x, u_y and u_z that the returning population gets.
    """

    rows: NDArray[np.int32]
    weights: NDArray[np.floating]
    share: NDArray[np.floating]

    @classmethod
    def none(cls) -> "ParabolicWalls":
        """Of a lattice without them."""
        return cls(np.zeros((4, 0), np.int32), np.zeros((4, 0)), np.zeros((3, 0)))

    def of_some(self, links: NDArray[np.generic]) -> "ParabolicWalls":
        """Those of some of the links, by number or by a mask."""
        return ParabolicWalls(self.rows[:, links], self.weights[:, links], self.share[:, links])

    @classmethod
    def of_links(
        cls,
        nodes: Nodes,
        walls: WallLinks,
        stride: int,
        rates: tuple[float, float],
        real: Any,
        caps: Sequence[CapProfile],
    ) -> "ParabolicWalls":
        """Those of a geometry.

        Parameters
        ----------
        nodes, stride : the geometry and the length of its rows of populations.
        walls : its links.
        rates : (omega+, omega-) of it.
        real : type of the shares.
        caps : developed flow through each opening.
        """
        rows = _behind(nodes, walls, stride)
        weights, share = (np.empty((length, rows.shape[1]), real) for length in (4, 3))
        listed = nodes.wall_link_direction * np.int64(nodes.count) + nodes.wall_link_node
        order = np.argsort(listed)
        curved = _curved_at_openings(nodes, caps, walls.slot, stride, rows[1] < 0)
        of_links = _Links(nodes, stride, rates, at_planes(nodes), listed[order], order)
        for some in row_blocks(rows.shape[1]):
            scheme = (each[some].astype(np.float64) for each in (walls.a, walls.b, walls.c))
            weights[:, some], share[:, some] = of_links.weights(walls.slot[some], rows[:, some], curved[some], *scheme)
        np.copyto(rows, rows[0], where=rows < 0)
        return cls(rows, weights, share)


@dataclass(frozen=True)
class _Links:
    """What the numbers of wall links follow from, some links after others.

    Attributes
    ----------
    nodes, stride, rates : as of :meth:`ParabolicWalls.of_links`.
    plane : (N,) of :func:`at_planes`.
    listed, order : of :func:`_distance`.
    """

    nodes: Nodes
    stride: int
    rates: tuple[float, float]
    plane: NDArray[np.bool_]
    listed: NDArray[np.int64]
    order: NDArray[np.intp]

    def weights(
        self,
        slot: NDArray[np.unsignedinteger],
        rows: NDArray[np.int32],
        curved: NDArray[np.float64],
        a: NDArray[np.float64],
        b: NDArray[np.float64],
        c: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights (4, K) and shares (3, K) of some links.

        Parameters
        ----------
        slot, a, b, c : (K,) of :class:`solver.boundary.walls.WallLinks`.
        rows : (4, K) of :func:`_behind`.
        curved : (K,) of :func:`_curved_at_openings`.
        """
        stencil, nodes = velocity_set(self.nodes.q), self.nodes
        back, node = np.divmod(slot.astype(np.int64), self.stride)
        q, behind = (
            _distance(nodes, self.listed, self.order, direction * nodes.count + node)
            for direction in (stencil.opposite[back], back)
        )
        factor = (1 + a - b + c) / 2
        even, odd = (1 / rate - 0.5 for rate in self.rates)
        share = np.where(self.plane[node], PLANE_SHARE, SHARE)
        of_scheme = share * even * (odd + (1 - a + b + c) / (4 * factor))
        weights = np.where(
            rows[1] < 0, between_walls(q, behind, of_scheme, curved), before_wall(q, of_scheme, rows >= 0)
        )
        # -6 w_i m c_i.u_w, and c_i = -c_o
        return weights, 6 * stencil.weights[back] * factor * stencil.velocities[back].T


def _behind(nodes: Nodes, walls: WallLinks, stride: int) -> NDArray[np.int32]:
    """The node of each wall link and the three behind it, (4, L); -1 where there is none."""
    neighbours = Neighbours(nodes)
    back, rows = (walls.slot // stride).astype(np.int8), np.tile((walls.slot % stride).astype(np.int32), (4, 1))
    for direction in np.unique(back):
        mine, beside = np.flatnonzero(back == direction), neighbours.along(int(direction))
        for k in (1, 2, 3):
            before = rows[k - 1, mine]
            rows[k, mine] = np.where(before < 0, -1, beside[before])
    return rows


def _curved_at_openings(
    nodes: Nodes,
    caps: Sequence[CapProfile],
    slot: NDArray[np.unsignedinteger],
    stride: int,
    alone: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Second derivative of developed flow along each wall link whose link back leaves through an opening, over the
    velocity at its node; (L,), 0 elsewhere.

    Parameters
    ----------
    nodes, caps, slot, stride : as of :meth:`ParabolicWalls.of_links` and :meth:`_Links.weights`.
    alone : (L,) which links have no node behind.
    """
    curved, stencil, links = np.zeros(len(slot)), velocity_set(nodes.q), np.flatnonzero(alone)
    back, node = np.divmod(slot[links].astype(np.int64), stride)
    through = nodes.opening_link_direction * np.int64(nodes.count) + nodes.opening_link_node
    order, wanted = np.argsort(through), back * nodes.count + node
    for cap in caps:
        of_opening = order[nodes.opening_link_opening[order] == cap.opening.id]
        mine = np.isin(wanted, through[of_opening])
        at, _, second = cap.along(nodes.points_mm(node[mine]), stencil.velocities[back[mine]])
        curved[links[mine]] = np.where(at > LEAST, second / np.maximum(at, LEAST), 0)
    return curved


def at_planes(nodes: Nodes) -> NDArray[np.bool_]:
    """Whether each node, (N,), has but a plane wall across an axis: five or nine links to walls, of one length."""
    near, of_link, links = np.unique(nodes.wall_link_node, return_inverse=True, return_counts=True)
    least, most = np.full(len(near), np.inf), np.zeros(len(near))
    np.minimum.at(least, of_link, nodes.wall_link_q)
    np.maximum.at(most, of_link, nodes.wall_link_q)
    found = np.zeros(nodes.count, np.bool_)
    found[near] = (most - least < EQUAL) & (links == (5 if nodes.q == 19 else 9))
    return found


def before_wall(
    q: NDArray[np.float64], of_scheme: NDArray[np.float64], there: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Weights (4, L) of the values at 0, -1, -2 and -3 in the velocity of a wall at q, where fluid is at rest.

    Parameters
    ----------
    q : (L,) distance of the wall.
    of_scheme : (L,) what the scheme has of the second derivative.
    there : (4, L) which of the four values there are. With two of them near walls get none, and with one all.
    """
    none = np.zeros_like(q)
    cubic = np.array([(q - 3) / q, 2 * (2 - q) / (1 + q), (q - 1) / (2 + q), none])
    square = np.array([-2 / q, 2 / (1 + q), none, none])
    of_four, of_three = (np.array(w)[:, None] for w in ((2.0, -5.0, 4.0, -1.0), (1.0, -2.0, 1.0, 0.0)))
    far = np.where(there[2], cubic, square * there[1])
    second = np.where(q >= NEAREST, far, np.where(there[3], of_four, of_three * there[2]))
    return (of_scheme - q**2 / 2) * second


def between_walls(
    q: NDArray[np.float64], behind: NDArray[np.float64], of_scheme: NDArray[np.float64], curved: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Weights (4, L) where the link back ends at no node: the link stays half-way, and the wall gets u + u'/2 +
    `of_scheme` u'' of a parabola. It is 0 at both walls; where the link back leaves through an opening, `behind` being
    infinite, it is 0 at one and has the second derivative `curved` times u.

    A wall nearer than half a link would have to move back, which it does beside openings alone.

    Parameters
    ----------
    q : (L,), distance of the wall from the node along the link, in links.
    behind : (L,), that of the wall behind the node; infinite where the link back leaves through an opening.
    of_scheme : (L,), factor of u'' in what the wall gets.
    curved : (L,), second derivative of the parabola over u, beside an opening.
    """
    at_opening, none = behind == np.inf, np.zeros_like(q)
    of_parabola = np.where(at_opening, (of_scheme - q / 4) * curved, -2 * of_scheme / (q * behind))
    own = 1 + (1 / behind - 1 / q) / 2 + of_parabola
    moved = np.where((q >= NEAREST) | at_opening, np.clip(own, np.where(at_opening, -FASTEST, 0), FASTEST), 0)
    return np.array([moved, none, none, none])


def _distance(
    nodes: Nodes, listed: NDArray[np.int64], order: NDArray[np.intp], wanted: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Distance of the wall that links end at, infinite where they end at none.

    Parameters
    ----------
    listed, order : direction and node of all wall links as one number each, sorted, and their rows.
    wanted : (L,) those numbers of the links.
    """
    found = np.minimum(np.searchsorted(listed, wanted), len(listed) - 1)
    distance = nodes.wall_link_q[order[found]].astype(np.float64)
    return np.where(listed[found] == wanted, distance, np.inf)


@cache
def make_wall_slip(real: Any) -> Any:
    """Function ``(velocity, rows, weights, share, k) -> s`` of the k-th link: what its wall's velocity adds to its
    population.

    The arrays are those of :class:`ParabolicWalls`, and the velocities (3, .) of nodes.
    """

    @node_function
    def slip(velocity: Any, rows: Any, weights: Any, share: Any, k: int) -> Any:
        total = real(0)
        for m in range(4):
            n = rows[m, k]
            along = share[0, k] * velocity[0, n] + share[1, k] * velocity[1, n] + share[2, k] * velocity[2, n]
            total += weights[m, k] * along
        return total

    return slip
