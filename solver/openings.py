"""Openings: a prescribed flow rate at inlets, a prescribed pressure at outlets, as short passes after each step.

Inlet: half-way bounce-back with a moving wall. Link k returns g_o = g_i* + Q beta_k / sum(beta) with
beta_k = 6 w_i |c_i.n| phi, phi the profile where the link meets the cap, so that the fluid that enters in a step is
exactly Q (Ladd 1994, doi:10.1017/S0022112094001771, normalised).

Outlet: anti-bounce-back (Ginzburg, Verhaeghe and d'Humières 2008),

    g_o = -g_i* + 2 w_i [3 p + X (4.5 (c.u)^2 - 1.5 u.u)],

with X = 1 where fluid leaves through the cap and 0 where it comes back, which stays stable under reversal of the flow.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.d3q19 import OPPOSITE, VELOCITIES, WEIGHTS
from solver.node_physics import node_function, zeroth_and_first_moments
from solver.nodes import Nodes, Opening
from solver.stage import StageError


@dataclass(frozen=True)
class InletLinks:
    """Links through inlets.

    Attributes
    ----------
    slot : (K,) slot of the returning population.
    opening : (K,) int32, index of the opening, its id less one.
    weight : (K,) share of the opening's flow; sums to 1 over an opening.
    """

    slot: NDArray[np.unsignedinteger]
    opening: NDArray[np.int32]
    weight: NDArray[np.floating]


@dataclass(frozen=True)
class OutletLinks:
    """Links through outlets, grouped by node.

    Attributes
    ----------
    node : (M,) int32, row of the node.
    first : (M + 1,) int32, where the links of each node begin.
    slot : (K,) slot of the returning population.
    opening : (K,) int32, index of the opening, its id less one.
    normal : (K, 3), unit vector out of the vessel.
    velocity : (K, 3), c_i of the link.
    weight : (K,), w_i of the link.
    """

    node: NDArray[np.int32]
    first: NDArray[np.int32]
    slot: NDArray[np.unsignedinteger]
    opening: NDArray[np.int32]
    normal: NDArray[np.floating]
    velocity: NDArray[np.floating]
    weight: NDArray[np.floating]


def parabolic(radius: NDArray[np.float64]) -> NDArray[np.float64]:
    """Hagen-Poiseuille's profile, max(0, 1 - r^2), over the distance from the centre in equivalent radii."""
    return np.maximum(0.0, 1 - radius**2)


def plug(radius: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same velocity everywhere on the cap."""
    return np.ones_like(radius)


PROFILES: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {"parabolic": parabolic, "plug": plug}
"""Velocity over an inlet, by name, as a function of the distance from its centre in equivalent radii."""


@cache
def make_outlet(real: Callable[[float], Any]) -> Any:
    """Function ``(f, g, m, links, force, conditions, row, entered)`` that treats the m-th node at an outlet.

    `g` are the node's populations after collision, `links` the arrays of :class:`OutletLinks` after ``node`` in their
    order, ``conditions[row + opening]`` is drho on the cap; `entered` gets what came in through each link.
    """
    half, onehalf, two, fourhalf = real(0.5), real(1.5), real(2), real(4.5)
    zero, one = real(0), real(1)

    @node_function
    def outlet(f: Any, g: Any, m: int, links: Any, force: Any, conditions: Any, row: int, entered: Any) -> None:
        first, slot, opening, normal, velocity, weight = links
        _, x, y, z = zeroth_and_first_moments(g)
        x, y, z = x - half * force[0], y - half * force[1], z - half * force[2]
        square = onehalf * (x * x + y * y + z * z)
        for k in range(first[m], first[m + 1]):
            leaving = f[slot[k]]
            out = x * normal[k, 0] + y * normal[k, 1] + z * normal[k, 2]
            cu = velocity[k, 0] * x + velocity[k, 1] * y + velocity[k, 2] * z
            kinetic = (fourhalf * cu * cu - square) * (one if out >= zero else zero)
            returning = two * weight[k] * (conditions[row + opening[k]] + kinetic) - leaving
            f[slot[k]] = returning
            entered[k] = returning - leaving

    return outlet


def inlet_links(
    nodes: Nodes, addresses: NDArray[np.unsignedinteger], stride: int, profiles: dict[str, str], real: Any
) -> InletLinks:
    """Links through inlets, with `profiles` by name of the opening.

    Raises
    ------
    StageError
        If a profile is unknown, or no link of an inlet carries flow.
    """
    rows = np.flatnonzero(_of_role(nodes, "inlet")[nodes.opening_link_opening])
    direction = nodes.opening_link_direction[rows].astype(np.int64)
    index = nodes.opening_link_opening[rows].astype(np.int32) - 1
    weight = 6 * WEIGHTS[direction]
    for opening in (opening for opening in nodes.openings if opening.role == "inlet"):
        mine = index == opening.id - 1
        weight[mine] *= _profile(nodes, opening, rows[mine], profiles[opening.name])
        total = weight[mine].sum()
        if not total > 0:
            raise StageError(
                f"inlet {opening.name}: none of its {mine.sum()} links carries flow (radius {opening.radius_mm:.3g} mm "
                f"at a spacing of {nodes.spacing_mm:.3g} mm); choose a finer voxelize.spacing_mm"
            )
        weight[mine] /= total
    slot = OPPOSITE[direction].astype(np.int64) * stride + nodes.opening_link_node[rows]
    return InletLinks(slot.astype(addresses.dtype), index, weight.astype(real))


def _profile(nodes: Nodes, opening: Opening, rows: NDArray[np.intp], name: str) -> NDArray[np.float64]:
    """|c_i.n| phi at the points where links meet the cap."""
    if name not in PROFILES:
        raise StageError(f"profile {name!r}: unknown; known are {', '.join(PROFILES)}")
    normal = np.asarray(opening.normal)
    velocity = VELOCITIES[nodes.opening_link_direction[rows]].astype(np.float64)
    reach = nodes.opening_link_q[rows, None] * velocity * nodes.spacing_mm
    from_centre = nodes.points_mm()[nodes.opening_link_node[rows]] + reach - opening.centre_mm
    in_plane = from_centre - (from_centre @ normal)[:, None] * normal
    return np.abs(velocity @ normal) * PROFILES[name](np.linalg.norm(in_plane, axis=1) / opening.radius_mm)


def outlet_links(nodes: Nodes, addresses: NDArray[np.unsignedinteger], stride: int, real: Any) -> OutletLinks:
    """Links through outlets, sorted by node: all links of a node need its populations before any is replaced."""
    rows = np.flatnonzero(_of_role(nodes, "outlet")[nodes.opening_link_opening])
    rows = rows[np.lexsort((nodes.opening_link_direction[rows], nodes.opening_link_node[rows]))]
    node, index = nodes.opening_link_node[rows], nodes.opening_link_opening[rows].astype(np.int32) - 1
    direction = nodes.opening_link_direction[rows].astype(np.int64)
    starts = np.flatnonzero(np.diff(node, prepend=-1))
    normals = np.array([opening.normal for opening in nodes.openings], dtype=real).reshape(-1, 3)
    return OutletLinks(
        node=node[starts],
        first=np.append(starts, len(rows)).astype(np.int32),
        slot=(OPPOSITE[direction].astype(np.int64) * stride + node).astype(addresses.dtype),
        opening=index,
        normal=normals[index],
        velocity=VELOCITIES[direction].astype(real),
        weight=WEIGHTS[direction].astype(real),
    )


def opening_nodes(nodes: Nodes) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Nodes with a link through an opening, and the index of the opening, both (P,), each pair once."""
    pairs = np.unique(np.stack((nodes.opening_link_opening.astype(np.int32) - 1, nodes.opening_link_node)), axis=1)
    return np.ascontiguousarray(pairs[1]), np.ascontiguousarray(pairs[0])


def _of_role(nodes: Nodes, role: str) -> NDArray[np.bool_]:
    """Whether the opening of each id, from 0 for none, has the role."""
    return np.array([False] + [opening.role == role for opening in nodes.openings])
