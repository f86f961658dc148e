# SPDX-License-Identifier: Apache-2.0
"""Links of the textbook solver: where they lead, and where they cross a wall; endless pipes, whose links are known."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.boundary.parabolic_walls import FASTEST
from solver.kernels.velocity_sets import VelocitySet

Array = NDArray[np.float64]
Rate = float | Array


@dataclass(frozen=True)
class Links:
    """Where the links of all nodes lead, and those that cross a wall.

    Attributes
    ----------
    neighbour : (Q, N) row of the fluid node at each link's end; -1 where there is none.
    node, direction : (L,) of the links that cross a wall.
    q : (L,) distance of the wall over the length of the link.
    """

    neighbour: NDArray[np.integer]
    node: NDArray[np.integer]
    direction: NDArray[np.integer]
    q: Array

    def at_planes(self, velocities: int) -> NDArray[np.bool_]:
        """Whether each crossing link is one of the five or nine of equal length that lead from its node to a plane wall
        across an axis, and the only ones to walls.
        """
        wanted, crossing = {19: 5, 27: 9}[velocities], dict[int, list[float]]()
        for node, q in zip(self.node.tolist(), self.q.tolist(), strict=True):
            crossing.setdefault(node, []).append(q)
        plane = {node: len(q) == wanted and max(q) - min(q) < 1e-5 for node, q in crossing.items()}
        return np.array([plane[node] for node in self.node.tolist()], np.bool_)


Fold = Callable[[NDArray[np.integer]], NDArray[np.integer]]
"""From lattice positions (N, 3) to those of the nodes that stand for them, where a geometry or its flow repeats."""
Crossing = Callable[[NDArray[np.integer], Array], Array]
"""From nodes (L, 3) and velocities (L, 3): distance q at which these links meet the wall, (L,)."""


def find_links(stencil: VelocitySet, position: NDArray[np.integer], fold: Fold, crossing: Crossing) -> Links:
    """Links of fluid nodes, (N, 3); those that end on no fluid node cross a wall.

    Parameters
    ----------
    stencil : the velocity set.
    position : (N, 3) lattice positions, x, y, z, of the fluid nodes.
    fold : to the nodes that stand for others.
    crossing : where links meet the wall.
    """
    velocities = stencil.velocities.astype(np.int64)
    ends = np.stack([fold(position + velocity) for velocity in velocities])
    low = ends.min(axis=(0, 1))
    rows = np.full(ends.max(axis=(0, 1)) - low + 1, -1)
    rows[tuple((position - low).T)] = np.arange(len(position))
    neighbour = rows[tuple(np.moveaxis(ends - low, -1, 0))]
    direction, node = np.nonzero(neighbour < 0)
    return Links(neighbour, node, direction, crossing(position[node], stencil.velocities[direction]))


@dataclass(frozen=True)
class EndlessPipe:
    """A pipe whose flow does not change along it: each node stands for all those at its place of the section.

    Attributes
    ----------
    direction : along the pipe, whole numbers without a common divisor, the first of them 1.
    radius : in spacings.
    axis : a point on the axis.
    """

    direction: tuple[int, int, int]
    radius: float
    axis: tuple[float, float, float] = (0.3, 0.2, 0.4)

    @property
    def unit(self) -> Array:
        """Unit vector along the pipe."""
        return np.array(self.direction) / np.linalg.norm(self.direction)

    def offset(self, position: NDArray[np.number]) -> Array:
        """Vectors from the axis to places (N, 3)."""
        away = position - np.array(self.axis)
        return np.asarray(away - np.outer(away @ self.unit, self.unit))

    def fold(self, position: NDArray[np.integer]) -> NDArray[np.integer]:
        """Places on the plane x = 0 that have the same place of the section."""
        return position - position[..., :1] * np.array(self.direction)

    def nodes(self) -> NDArray[np.integer]:
        """Fluid nodes, (N, 3)."""
        reach = int(self.radius * np.linalg.norm(self.direction) + np.abs(self.axis).sum()) + 2
        y, z = np.mgrid[-reach : reach + 1, -reach : reach + 1].reshape(2, -1)
        plane = np.column_stack((np.zeros_like(y), y, z))
        return plane[np.linalg.norm(self.offset(plane), axis=1) < self.radius]

    def links(self, stencil: VelocitySet) -> Links:
        """Links of its nodes."""
        return find_links(stencil, self.nodes(), self.fold, self.crossing)

    def crossing(self, position: NDArray[np.integer], velocity: Array) -> Array:
        """Distances at which links meet the wall."""
        return distance_to_cylinder(self.offset(position), velocity, self.unit, self.radius)


def distance_to_cylinder(offset: Array, velocity: Array, unit: Array, radius: float) -> Array:
    """Length along `velocity` from inside to the cylinder, in lengths of `velocity`; inf along the axis.

    Parameters
    ----------
    offset : (L, 3) vectors from the axis to the nodes.
    velocity : (L, 3) along the links.
    unit : (3,) along the axis.
    radius : of the cylinder.
    """
    across = velocity - np.outer(velocity @ unit, unit)
    a, b = (across**2).sum(axis=1), (offset * across).sum(axis=1)
    c = (offset**2).sum(axis=1) - radius**2
    with np.errstate(divide="ignore", invalid="ignore"):
        q = (-b + np.sqrt(b * b - a * c)) / a
    return np.where(a > 1e-12, q, np.inf)


def second_derivative(q: Array, along: list[Array], fourth: NDArray[np.bool_]) -> Array:
    """At the node, of a cubic through the values at 0, -1 and -2 and a fourth: 0 at q from q = 1/2 on, else that at -3;
    without the latter, of the parabola through the three.

    Parameters
    ----------
    q : (L,), distance of the wall, in links.
    along : values at 0, -1, -2 and -3 along the link, each (L,).
    fourth : (L,), whether there is one at -3.
    """
    parabola = along[0] - 2 * along[1] + along[2]
    third = parabola - (along[1] - 2 * along[2] + along[3])
    # what a cubic through the three adds to their parabola is a x (x + 1) (x + 2), of second derivative 6 a at 0
    at_wall = along[0] + q * (along[0] - along[2] + 2 * parabola) / 2 + q**2 * parabola / 2
    by_wall = parabola - 6 * at_wall / (q * (q + 1) * (q + 2))
    return np.where(q >= 0.5, by_wall, parabola + np.where(fourth, third, 0))


def by_two(q: Array, along: list[Array]) -> Array:
    """At the node, of the parabola through the values at 0 and -1 that is 0 at q."""
    return np.asarray(2 * (along[1] / (1 + q) - along[0] / q))


def slips(
    stencil: VelocitySet, links: Links, walls: str, rates: tuple[Rate, Rate], share: Rate, velocity: Array
) -> Array:
    """-6 w_i c_i.u_w of walls that meet a parabola, (L,): c_i.u_w = {s [Lambda + (tau - 1/2) k] - q^2/2} u''.

    u'' is the second derivative of c_i.u at the node; k is abs(q - 1/2) of bouzidi, 1/2 of yu, 0 of others. With one
    node behind, walls nearer than half a link get nothing. With none the link is half-way: a wall half a link away or
    more gets u + u'/2 + s Lambda u'' of a parabola that is 0 at the walls on both sides, between nothing and `FASTEST`
    of u; where there is an opening behind, any wall that of a line, within `FASTEST` of u
    (:mod:`solver.boundary.parabolic_walls`).

    Parameters
    ----------
    stencil, links, walls : the velocity set, its links and the name of the walls' scheme.
    rates : (omega+, omega-), numbers.
    share : s; at nodes with but a plane wall across an axis 4/3 of it.
    velocity : (3, N) of the nodes.
    """
    even, odd = (1 / rate - 0.5 for rate in rates)
    part: dict[str, Rate] = {"bouzidi": np.abs(links.q - 0.5), "yu": 0.5, "cli": 0.0, "half-way": 0.0}
    back = stencil.opposite[links.direction]
    rows = [links.node]
    for _ in range(3):
        rows.append(np.where(rows[-1] < 0, -1, links.neighbour[back, rows[-1]]))
    along = [np.einsum("la,al->l", stencil.velocities[links.direction], velocity[:, row]) for row in rows]
    there, far = [row >= 0 for row in rows], links.q >= 0.5
    second = np.where(there[2], second_derivative(links.q, along, there[3]), by_two(links.q, along))
    share = np.where(links.at_planes(len(stencil.weights)), 4 / 3 * share, share)
    slip = (share * even * (odd + part[walls]) - links.q**2 / 2) * second
    slip[~there[2] & ~far] = 0
    distance = np.full((len(stencil.weights), velocity.shape[1]), np.inf)
    distance[links.direction, links.node] = links.q
    behind = distance[back, links.node]
    slope, second = along[0] * (1 / behind - 1 / links.q), -2 * along[0] / (links.q * behind)
    between = along[0] + slope / 2 + share * even * odd * second
    most, opens = FASTEST * along[0], behind == np.inf
    least = np.where(opens, -most, 0)
    held = np.clip(between, np.minimum(least, most), np.maximum(least, most))
    slip = np.where(there[1], slip, np.where(far | opens, held, 0))
    return np.asarray(-6 * stencil.weights[links.direction] * slip)
