# SPDX-License-Identifier: Apache-2.0
"""Wall links: interpolated bounce-back at the distance q, as a short pass after each step.

For a link i from fluid node n into a wall, o its opposite and * after collision, the population that comes back is

    g_o(n, t + 1) = a g_i*(n, t) + b g_o*(n, t) + c g_i*(n - c_i, t) + s,

where s, from the velocity u_w of the wall, is -6 w_i c_i.u_w times the share m of the scheme. A flow that is linear
along the link meets the wall's velocity exactly at q, whatever tau, if a + b + c = 1, 2m = 1 + a - b + c and
2qm = a + b: all interpolated schemes here hold these (put g_i = w_i [3 c_i.u - 3 tau c_i c_i:grad u] into both sides).
The term with c is what arrives at n as g_i at t + 1, so that all three stand in slots of node n: the first in slot
(o, n), where streaming alone would bounce it back half-way, the others in slot (i, n) and at the address of link o,
which change places between even and odd steps. A link writes its own slot and reads slots that no link writes, so the
order of links does not matter.

Interpolation does not conserve mass. What a pass adds in total, D, is taken off again from the rest populations of
all nodes next to a wall in equal parts, which keeps the order of accuracy. So is what a moving wall adds where it
begins and takes where it ends. While walls are set in motion, s is multiplied by the part of their velocity that they
have reached.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.domain.addresses import slip_links
from solver.domain.nodes import Nodes
from solver.kernels.node_physics import node_function
from solver.kernels.storage import make_access
from solver.kernels.sums import split
from solver.kernels.velocity_sets import velocity_set
from solver.runtime.errors import StageError

Coefficients = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
Vector = tuple[float, float, float]

NEAR = 16384
"""Rows of nodes that lie near to each other in memory: their links follow each other, in the order of their slots."""
MAX_THROUGH = 0.1
"""Largest part of a moving wall's speed that may push fluid through the wall."""


@dataclass(frozen=True)
class WallLinks:
    """Links whose returning population is not just what left: interpolated ones, and those of moving walls.

    Attributes
    ----------
    slot : (L,) slot (o, n), that of the returning population.
    inside : (L,) slot (i, n).
    upstream : (L,) address of link o.
    a, b, c : (L,) coefficients.
    s : (L,) what the wall's velocity adds; where that varies, see :mod:`solver.boundary.parabolic_walls`, what it adds
        at first.
    nodes : (B,) rows of the nodes that share the correction of mass.
    mass_correction_nodes : number of such nodes in the whole domain, of which these may be a part.
    varies : whether s varies.
    """

    slot: NDArray[np.unsignedinteger]
    inside: NDArray[np.unsignedinteger]
    upstream: NDArray[np.unsignedinteger]
    a: NDArray[np.floating]
    b: NDArray[np.floating]
    c: NDArray[np.floating]
    s: NDArray[np.floating]
    nodes: NDArray[np.int32]
    mass_correction_nodes: int
    varies: bool = False

    @property
    def two_terms(self) -> bool:
        """Whether each link returns shares of what left and of one other population, as all of Bouzidi's do."""
        return not ((self.b != 0) & (self.c != 0)).any()

    @property
    def moving(self) -> bool:
        """Whether a velocity of the wall adds to what links return."""
        return self.varies or bool(self.s.any())

    @property
    def terms(self) -> tuple[bool, bool]:
        """What the pass is compiled for: two terms or three, and whether walls move."""
        return self.two_terms, self.moving

    def source_slots(self, even: bool) -> list[NDArray[np.unsignedinteger]]:
        """Slots of the other populations of each link after a step, one or two (L,)."""
        back, arriving = (self.inside, self.upstream) if even else (self.upstream, self.inside)
        return [np.where(self.c != 0, arriving, back)] if self.two_terms else [back, arriving]

    def coefficients(self) -> list[NDArray[np.floating]]:
        """Share of what left, those of the other populations, and, where walls move, what their velocity adds."""
        shares = [self.a, self.b + self.c] if self.two_terms else [self.a, self.b, self.c]
        return [*shares, self.s] if self.moving else shares


@cache
def make_interpolation(storage: str, real: Any, two_terms: bool, moving: bool) -> Any:
    """Function ``(f, k, slot, source_slots, coefficients, motion)`` that treats the k-th link; limbs of the mass that
    it added.

    The arrays are those of :class:`WallLinks`; `motion` is the part of their velocity with which walls move now.

    Makers' parameters are those of :mod:`solver.kernels`.
    """
    load_slot, store_slot = make_access(storage, real)[:2]

    @node_function
    def of_two(f: Any, k: int, leaving: Any, source_slots: Any, coefficients: Any, motion: Any) -> Any:
        return coefficients[0][k] * leaving + coefficients[1][k] * load_slot(f, source_slots[0][k])

    @node_function
    def of_three(f: Any, k: int, leaving: Any, source_slots: Any, coefficients: Any, motion: Any) -> Any:
        returning = coefficients[0][k] * leaving + coefficients[1][k] * load_slot(f, source_slots[0][k])
        return returning + coefficients[2][k] * load_slot(f, source_slots[1][k])

    @node_function
    def of_moving(f: Any, k: int, leaving: Any, source_slots: Any, coefficients: Any, motion: Any) -> Any:
        of_fixed = fixed(f, k, leaving, source_slots, coefficients, motion)
        return of_fixed + motion * coefficients[last][k]

    fixed, last = (of_two, 2) if two_terms else (of_three, 3)
    returning = of_moving if moving else fixed

    @node_function
    def interpolate(f: Any, k: int, slot: Any, source_slots: Any, coefficients: Any, motion: Any) -> Any:
        place = slot[k]
        leaving = load_slot(f, place)
        store_slot(f, place, returning(f, k, leaving, source_slots, coefficients, motion))
        return split(np.float64(load_slot(f, place)) - np.float64(leaving))

    return interpolate


def half_way(q: NDArray[np.float64]) -> Coefficients:
    """Bounce-back at the middle of the link whatever q: first order in space on curved walls (Ladd 1994)."""
    return np.ones_like(q), np.zeros_like(q), np.zeros_like(q), np.ones_like(q)


def bouzidi(q: NDArray[np.float64]) -> Coefficients:
    """Linear interpolation (Bouzidi, Firdaouss and Lallemand 2001, doi:10.1063/1.1399290): second order.

    q < 1/2: (2q, 0, 1 - 2q, 1); else (1/(2q), 1 - 1/(2q), 0, 1/(2q)).
    """
    near = q < 0.5
    inverse = 1 / (2 * q)
    none, moved = np.zeros_like(q), np.where(near, 1.0, inverse)
    return np.where(near, 2 * q, inverse), np.where(near, none, 1 - inverse), np.where(near, 1 - 2 * q, none), moved


def yu(q: NDArray[np.float64]) -> Coefficients:
    """Interpolation to the wall, and from there to the node (Yu, Mei and Shyy 2003, doi:10.2514/6.2003-953).

    One formula for all q, second order: (q, q, 1 - q, 1)/(1 + q).
    """
    return q / (1 + q), q / (1 + q), (1 - q) / (1 + q), 1 / (1 + q)


def cli(q: NDArray[np.float64]) -> Coefficients:
    """Central linear interpolation (Ginzburg, Verhaeghe and d'Humières 2008, Commun. Comput. Phys. 3, 427).

    (1, -k, k, 1 + k) with k = (1 - 2q)/(1 + 2q), second order. It does not damp a checkerboard of pressures.
    """
    k = (1 - 2 * q) / (1 + 2 * q)
    return np.ones_like(q), -k, k, 1 + k


WALLS: dict[str, Callable[[NDArray[np.float64]], Coefficients]] = {
    "bouzidi": bouzidi,
    "half-way": half_way,
    "yu": yu,
    "cli": cli,
}
"""Coefficients (a, b, c, m) as functions of q, by name of the scheme."""


def wall_links(
    nodes: Nodes,
    addresses: NDArray[np.unsignedinteger],
    stride: int,
    scheme: str,
    real: Any,
    moving: Mapping[str, Vector] | None = None,
    slip: tuple[str, ...] = (),
    varies: bool = False,
) -> WallLinks:
    """Links of a geometry that need a pass of their own. Where n - c_i is no fluid node the link stays half-way.

    Parameters
    ----------
    nodes, addresses, stride : the geometry and where its links' populations live.
    scheme : name of one of `WALLS`.
    real : type of the coefficients.
    moving : velocity of the patches that move, lattice units, by name.
    slip : names of the patches along which fluid slips, which streaming does.
    varies : whether all walls get a velocity that varies, as those do that meet a parabola.

    Raises
    ------
    StageError
        If there is no such scheme.
    """
    if scheme not in WALLS:
        raise StageError(f"walls {scheme!r}: unknown; known are {', '.join(WALLS)}")
    node = nodes.wall_link_node.astype(np.int64)
    direction = nodes.wall_link_direction.astype(np.int64)
    back = velocity_set(nodes.q).opposite[direction]
    upstream = addresses[(back - 1) * stride + node]
    inside = direction * stride + node
    q = nodes.wall_link_q.astype(np.float64)
    interpolated = zip(half_way(q), WALLS[scheme](q), strict=True)
    a, b, c, factor = (np.where(upstream == inside, half_way_value, fitted) for half_way_value, fitted in interpolated)
    s = factor * moving_walls(nodes, moving or {})
    interpolating = np.flatnonzero(((b != 0) | (c != 0) | (s != 0) | varies) & ~slip_links(nodes, slip))
    interpolating = interpolating[
        np.lexsort((back[interpolating] * stride + node[interpolating], node[interpolating] // NEAR))
    ]
    kind, near = addresses.dtype, np.unique(node[interpolating]).astype(np.int32)
    return WallLinks(
        slot=(back * stride + node)[interpolating].astype(kind),
        inside=inside[interpolating].astype(kind),
        upstream=upstream[interpolating].astype(kind),
        a=a[interpolating].astype(real),
        b=b[interpolating].astype(real),
        c=c[interpolating].astype(real),
        s=s[interpolating].astype(real),
        nodes=near,
        mass_correction_nodes=len(near),
        varies=varies,
    )


def require_sliding(nodes: Nodes, moving: Mapping[str, Vector]) -> None:
    """Check that patches which move slide along themselves, as a wall must that stays where it is on the lattice.

    Parameters
    ----------
    nodes : the geometry; all ranks ask together.
    moving : velocity of the patches that move, lattice units, by name.

    Raises
    ------
    StageError
        If one would push fluid through itself.
    """
    added, own = moving_walls(nodes, moving), nodes.is_own[nodes.wall_link_node]
    for name in moving:
        mine = added[own & (nodes.wall_link_patch == nodes.patches.index(name) + 1)]
        pushes, moves = (nodes.ranks.join(np.array([each])).sum() for each in (mine.sum(), np.abs(mine).sum()))
        through = abs(pushes) / max(moves, 1e-300)
        if through > MAX_THROUGH:
            raise StageError(
                f"solve.patches.{name}: {through:.0%} of its velocity is through the wall (at most {MAX_THROUGH:.0%});"
                " a wall can only slide along itself: correct velocity_m_s"
            )


def moving_walls(nodes: Nodes, moving: Mapping[str, Vector]) -> NDArray[np.float64]:
    """-6 w_i c_i.u_w of each wall link, (L,), for the velocity of each patch that moves (Ladd 1994)."""
    added, stencil = np.zeros(len(nodes.wall_link_q)), velocity_set(nodes.q)
    for name, velocity in moving.items():
        mine = nodes.wall_link_patch == nodes.patches.index(name) + 1
        direction = nodes.wall_link_direction[mine]
        added[mine] = -6 * stencil.weights[direction] * (stencil.velocities[direction] @ np.array(velocity))
    return added
