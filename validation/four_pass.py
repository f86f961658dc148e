# SPDX-License-Identifier: Apache-2.0
"""The reference four-pass solver of the drivers: the four passes of Collares (2012), each over whole arrays of fluid
and wall nodes.

1. *Collision* of the fluid nodes. Each population is left in the slot of the opposite direction: the first half of the
   swap.
2. *Wall condition*: what the wall nodes send back, and what comes in through openings.
3. *Streaming*: the two ends of every link exchange what they sent each other (Mattila, Hyväluoma, Rossi, Aspnäs and
   Westerholm 2007, doi:10.1016/j.cpc.2006.09.005). A link whose far end has no slot keeps what it sent, which is
   half-way bounce-back.
4. *Macroscopic update*: density and velocity of the fluid nodes.

One lattice is enough, as in place, but a step goes through memory four times and a node is the same in every step:
nothing alternates. Between the first and the third pass populations stand as after an even step of
:mod:`solver.kernels.streaming`, so that openings and wall links are treated by the same passes as there.

With :func:`wall_nodes` the walls are those of the work: wall nodes are nodes of the lattice that carry populations,
extrapolated along each link from the fluid (Guo, Zheng and Shi 2002, doi:10.1063/1.1471914).
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from solver.backends.cpu.blocks import serial, threaded
from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.lattice import Lattice
from solver.backends.lattice_driver import LatticeDriver
from solver.boundary.walls import Vector, WallLinks, moving_walls
from solver.domain.nodes import Neighbours, Nodes
from solver.kernels.collision import make_collision
from solver.kernels.node_physics import make_density, make_link_quadratic, make_macroscopic, node_function
from solver.kernels.rheology import make_rates
from solver.kernels.storage import FP16_BITS, NATIVE, make_access
from solver.kernels.streaming import make_opposite
from solver.kernels.velocity_sets import velocity_set

NEAR = 0.75
"""Distance q of the wall from which on the next fluid node alone is extrapolated from (Guo, Zheng and Shi 2002)."""


@dataclass(frozen=True)
class WallNodes:
    """Wall nodes that carry populations, and the links along which they get them.

    Attributes
    ----------
    count : number of wall nodes W.
    node : (L,) row of each link's fluid node n.
    direction : (L,) direction i of the link, into the wall.
    wall : (L,) row of the wall node at its far end.
    upstream : (L,) row of the fluid node n - c_i; n itself where it is not needed, -1 where it is missing.
    near, far : (L,) parts of the velocities of n and n - c_i in that of the wall node.
    moved : (3, L) part of the wall's velocity in it.
    kept : (L,) part of n in what the wall node has of non-equilibrium; the rest is of n - c_i.
    bounced : (L,) -6 w_i c_i.u_b of the wall's velocity u_b, for links that turn round half-way.
    """

    count: int
    node: NDArray[np.int32]
    direction: NDArray[np.uint8]
    wall: NDArray[np.int32]
    upstream: NDArray[np.int32]
    near: NDArray[np.float64]
    far: NDArray[np.float64]
    moved: NDArray[np.float64]
    kept: NDArray[np.float64]
    bounced: NDArray[np.float64]


def wall_nodes(nodes: Nodes, moving: Mapping[str, Vector] | None = None) -> WallNodes:
    """Wall nodes of a geometry, and how each link extrapolates to its own.

    With q the distance of the wall over the length of the link and u_b its velocity, a wall node has, for the link, the
    density of n and

        q u = u_b + (q - 1) u(n)                                         for q >= 3/4, else
        u = u_b + (q - 1) u(n) + (1 - q)/(1 + q) [2 u_b + (q - 1) u(n - c_i)],

    the non-equilibrium part likewise: of n, or q of n and 1 - q of n - c_i. Where n - c_i is wanted but no fluid node,
    the link turns round half-way.

    Parameters
    ----------
    nodes : the geometry.
    moving : velocity of the patches that move, lattice units, by name.

    Raises
    ------
    StageError
        If a moving patch would push fluid through itself.
    """
    moving = moving or {}
    node, direction = nodes.wall_link_node, nodes.wall_link_direction
    q = nodes.wall_link_q.astype(np.float64)
    upstream, neighbours = np.empty_like(node), Neighbours(nodes)
    for i, back in enumerate(velocity_set(nodes.q).opposite[1:].tolist(), 1):
        mine = direction == i
        upstream[mine] = neighbours.along(back)[node[mine]]
    velocity = np.zeros((3, len(node)))
    for name, of_patch in moving.items():
        velocity[:, nodes.wall_link_patch == nodes.patches.index(name) + 1] = np.array(of_patch)[:, None]
    beyond = q < NEAR
    return WallNodes(
        count=len(nodes.wall_position),
        node=node,
        direction=direction,
        wall=nodes.wall_link_wall,
        upstream=np.where(beyond, upstream, node).astype(np.int32),
        near=np.where(beyond, q - 1, (q - 1) / q),
        far=np.where(beyond, -((1 - q) ** 2) / (1 + q), 0.0),
        moved=np.where(beyond, 1 + 2 * (1 - q) / (1 + q), 1 / q) * velocity,
        kept=np.where(beyond, q, 1.0),
        bounced=moving_walls(nodes, moving),
    )


def no_links(links: WallLinks) -> WallLinks:
    """Wall links of a lattice that has none."""
    arrays: dict[str, Any] = {name: array[:0] for name, array in vars(links).items() if isinstance(array, np.ndarray)}
    return replace(links, **arrays, mass_correction_nodes=0)


@cache
def make_pass_functions(storage: str, real: Any, equilibrium: str, q: int) -> tuple[Any, Any, Any]:
    """The passes after collision: of a link to a wall node, of the two ends of a link, of a fluid node.

    The parameters are those of :mod:`solver.kernels`.
    """
    macroscopic, density = make_macroscopic(real, equilibrium, q), make_density(real, equilibrium)
    quadratic, stencil = make_link_quadratic(real, equilibrium, q), velocity_set(q)
    load_slot, store_slot, load, _ = make_access(storage, real, q)[:4]
    one, three = real(1), real(3)
    velocities, weights = stencil.velocities.astype(real), stencil.weights.astype(real)

    @node_function
    def in_equilibrium(i: int, drho: Any, x: Any, y: Any, z: Any) -> Any:
        c = velocities[i, 0], velocities[i, 1], velocities[i, 2]
        cu = c[0] * x + c[1] * y + c[2] * z
        return weights[i] * (drho + density(drho) * (three * cu + quadratic(c, (x, y, z))))

    @node_function
    def extrapolate_link(f: Any, stride: int, k: int, links: Any, coefficients: Any, drho: Any, u: Any) -> None:
        node, direction, upstream, sent = links
        near, far, moved, kept, bounced = coefficients
        n, m, i = node[k], upstream[k], int(direction[k])
        o = i + 1 if i % 2 else i - 1
        if m < 0:
            store_slot(f, sent[k], load_slot(f, o * stride + n) + bounced[k])
            return
        x = moved[0, k] + near[k] * u[0, n] + far[k] * u[0, m]
        y = moved[1, k] + near[k] * u[1, n] + far[k] * u[1, m]
        z = moved[2, k] + near[k] * u[2, n] + far[k] * u[2, m]
        here = load_slot(f, i * stride + n) - in_equilibrium(o, drho[n], u[0, n], u[1, n], u[2, n])
        there = load_slot(f, i * stride + m) - in_equilibrium(o, drho[m], u[0, m], u[1, m], u[2, m])
        store_slot(f, sent[k], in_equilibrium(o, drho[n], x, y, z) + kept[k] * here + (one - kept[k]) * there)

    @node_function
    def swap_ends(f: Any, k: int, one_end: Any, other_end: Any) -> None:
        f[one_end[k]], f[other_end[k]] = f[other_end[k]], f[one_end[k]]

    @node_function
    def update_node(f: Any, stride: int, n: int, force: Any, drho: Any, u: Any) -> None:
        drho[n], u[0, n], u[1, n], u[2, n] = macroscopic(load(f, n, stride), force)

    return extrapolate_link, swap_ends, update_node


@cache
def make_passes(
    collision: str,
    storage: str,
    real: Any,
    equilibrium: str,
    rheology: str | None,
    blended: bool,
    q: int,
    parallel: bool,
) -> tuple[Any, Any, Any, Any]:
    """The four passes for given models and a way of storage, over nodes in turn or shared out to threads.

    The parameters are those of :mod:`solver.kernels`; `parallel`: whether nodes are shared out to threads.
    """
    over_nodes = threaded if parallel else serial
    collide = make_collision(collision, real, equilibrium, q)
    rates_of = make_rates(rheology, blended, equilibrium, real, q=q)
    access, opposite = make_access(storage, real, q), make_opposite(q)
    load, store = access.load, access.store
    extrapolate_link, swap_ends, update_node = make_pass_functions(storage, real, equilibrium, q)

    @over_nodes
    def collide_range(
        f: Any, stride: int, first: int, last: int, force: Any, rates: Any, omega: Any, blend: Any
    ) -> None:
        for n in prange(first, last):
            g = load(f, n, stride)
            store(f, n, stride, opposite(collide(g, rates_of(g, n, force, rates, omega, blend), force)))

    @over_nodes
    def extrapolate(f: Any, stride: int, links: Any, coefficients: Any, drho: Any, u: Any) -> None:
        for k in prange(len(links[0])):
            extrapolate_link(f, stride, k, links, coefficients, drho, u)

    @over_nodes
    def swap(f: Any, one_end: Any, other_end: Any) -> None:
        for k in prange(len(one_end)):
            swap_ends(f, k, one_end, other_end)

    @over_nodes
    def update(f: Any, stride: int, force: Any, drho: Any, u: Any) -> None:
        for n in prange(len(drho)):
            update_node(f, stride, n, force, drho, u)

    return collide_range, extrapolate, swap, update


@dataclass(frozen=True)
class Ends:
    """What the passes after collision take of a lattice.

    Attributes
    ----------
    lattice : without wall links and with slots of wall nodes, where these carry populations.
    links : of the links to wall nodes: fluid node, direction, upstream node, slot of what the wall node sends.
    coefficients : what their extrapolation takes: near, far, moved, kept, bounced of :class:`WallNodes`.
    swapped : slots of both ends of every link along which fluid nodes, or a wall node and one, exchange what they sent.
    """

    lattice: Lattice
    links: tuple[NDArray[Any], ...]
    coefficients: tuple[NDArray[Any], ...]
    swapped: tuple[NDArray[np.int64], NDArray[np.int64]]

    @classmethod
    def of(cls, lattice: Lattice, walls: WallNodes | None) -> "Ends":
        """Those of a lattice and its wall nodes; none: the lattice's own wall scheme."""
        # between collision and streaming slot (o, n) holds what node n sent along i, which is due at the address of i
        sent = velocity_set(lattice.q).opposite[1:, None] * lattice.stride + np.arange(lattice.stride)
        due = lattice.addresses.astype(np.int64).reshape(lattice.q - 1, lattice.stride)
        links: tuple[NDArray[Any], ...] = ()
        coefficients: tuple[NDArray[Any], ...] = ()
        if walls:
            lattice = replace(lattice, walls=no_links(lattice.walls), halo=lattice.q * walls.count)
            from_wall = lattice.q * lattice.stride + walls.direction * np.int64(walls.count) + walls.wall
            due[walls.direction - 1, walls.node] = from_wall
            links = (walls.node, walls.direction, walls.upstream, from_wall)
            arrays = (walls.near, walls.far, walls.moved, walls.kept, walls.bounced)
            coefficients = tuple(array.astype(lattice.real) for array in arrays)
        once = due > sent  # each link is named by both of its ends
        return cls(lattice, links, coefficients, (sent[once], due[once]))


class FourPasses(LatticeDriver):
    """Steps made of the four passes, wherever they run."""

    def advance(self, boundary_values: NDArray[np.float64]) -> None:
        """Run steps, one a row of `boundary_values`; the second pass of the first needs density and velocity."""
        self.macroscopic_update()
        super().advance(boundary_values)

    def pairs(self, first: int, count: int) -> None:
        """Run so many pairs of steps, one after the other wherever they run."""
        LatticeDriver.pairs(self, first, count)

    def step(self, number: int, even: bool) -> None:
        """Run the passes of a step, counted from :meth:`begin`; `even` makes no difference."""
        for work in self.passes(number).values():
            work()

    def passes(self, number: int) -> dict[str, Callable[[], None]]:
        """The passes of a step, counted from :meth:`begin`, in their order; openings belong to the walls."""
        return {
            "collision": lambda: self.collide(True, 0, self.lattice.count),
            "walls": lambda: self._treat_ends(number),
            "streaming": self.streaming,
            "macroscopic": self.macroscopic_update,
        }

    def _treat_ends(self, number: int) -> None:
        self.treat_boundaries(number, True)  # openings and wall links as in an even step
        self.wall_condition()

    @abstractmethod
    def wall_condition(self) -> None:
        """Second pass: what the wall nodes send back."""

    @abstractmethod
    def streaming(self) -> None:
        """Third pass: exchange what the ends of every link sent each other."""

    @abstractmethod
    def macroscopic_update(self) -> None:
        """Fourth pass: density and velocity of the fluid nodes."""


class FourPass(FourPasses, CpuDriver):
    """Runs a lattice in four passes a step, see :mod:`validation.four_pass`; in all else as the CPU driver.

    Attributes
    ----------
    drho, velocity : (N,), (3, N) of the fluid nodes, as the last macroscopic update left them.

    Parameters
    ----------
    lattice : what it runs.
    walls : wall nodes that carry populations, in place of the lattice's own wall scheme; none: the lattice's scheme.
    parallel : whether its passes are shared out to threads; the work's own CPU version is sequential.
    """

    device = "CPU, four passes"

    def __init__(self, lattice: Lattice, walls: WallNodes | None = None, parallel: bool = False) -> None:
        self._ends = Ends.of(lattice, walls)
        lattice = self._ends.lattice
        super().__init__(lattice)
        self._collide, self._extrapolate, self._swap, self._update = make_passes(
            lattice.collision, FP16_BITS if lattice.fp16 else NATIVE, lattice.real, *lattice.models, parallel
        )
        self.drho, self.velocity = np.zeros(lattice.count, lattice.real), np.zeros((3, lattice.count), lattice.real)

    def collide(self, even: bool, first: int, last: int) -> None:
        """First pass: collide nodes, and leave each population in the slot of the opposite direction.

        The parameters are those of :meth:`solver.backends.lattice_driver.LatticeDriver.collide`; `even` changes
        nothing.
        """
        lattice = self.lattice
        self._collide(
            self.populations, lattice.stride, first, last, lattice.force, self._rates, self._omega, self._blend
        )

    def wall_condition(self) -> None:
        """Second pass: what the wall nodes send back."""
        ends = self._ends
        if ends.links:
            stride = self.lattice.stride
            self._extrapolate(self.populations, stride, ends.links, ends.coefficients, self.drho, self.velocity)

    def streaming(self) -> None:
        """Third pass: exchange what the ends of every link sent each other."""
        self._swap(self.populations, *self._ends.swapped)

    def macroscopic_update(self) -> None:
        """Fourth pass: density and velocity of the fluid nodes."""
        self._update(self.populations, self.lattice.stride, self.lattice.force, self.drho, self.velocity)
