# SPDX-License-Identifier: Apache-2.0
"""Openings: a prescribed flow rate at inlets, a pressure at outlets, as short passes after each step.

Inlet: half-way bounce-back with a moving wall (Ladd 1994, doi:10.1017/S0022112094001771). Link k returns
g_o = g_i* + sum_r beta_rk s_r, with amplitudes s_r that change in time and shares beta_rk that sum to 1 over the links
where r stands for a flow, see :mod:`solver.boundary.profiles`, so that what enters in a step is exactly what is asked
for.

Outlet: anti-bounce-back (Ginzburg, Verhaeghe and d'Humières 2008),

    g_o = -g_i* + 2 w_i [3 p + X rho B_i(u, u) - 3 (tau - 1/2) c_n du_n],

with the form B_i of the equilibrium, and X = 1 where fluid leaves through the cap and 0 where it comes back, which
stays stable under reversal of the flow. The last term is what populations that stream have of the change du_n of the
velocity along the normal from the node to the other end of the link: without it the pressure of a pipe acted 0.2 to 0.7
spacings before its outlet. Developed flow changes by du_n = u_n (psi(x + c)/psi(x) - 1),
:mod:`solver.boundary.cap_profile`. Where layers raise tau it is left out: their friction is known as a whole
(:mod:`solver.boundary.layers`).

Where that pressure follows from the flow, :class:`OutletFeedback`, it is found again in each step from what left in
the last.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.boundary.cap_profile import LEAST, CapProfile
from solver.boundary.profiles import Profile, link_weights
from solver.domain.nodes import Nodes
from solver.kernels.d3q19 import Q
from solver.kernels.node_physics import make_density, make_link_quadratic, make_moments, node_function
from solver.kernels.storage import make_access
from solver.kernels.sums import LIMBS, Limbs, split
from solver.kernels.velocity_sets import velocity_set


@dataclass(frozen=True)
class InletLinks:
    """Links through inlets. What enters through link k is sum_r weight[r, k] boundary_values[column[k] + r], r <
    rows[k], of which a part is flow.

    Attributes
    ----------
    slot : (K,) slot of the returning population.
    opening : (K,) int32, index of the opening, its id less one.
    column, rows : (K,) int32, the opening's first column in the boundary values, and how many it has there.
    weight : (R, K) share of the flow that each column stands for, R the most that an inlet has.
    part : (K,) of what enters that counts as flow, see :mod:`solver.boundary.opening_walls`.
    """

    slot: NDArray[np.unsignedinteger]
    opening: NDArray[np.int32]
    column: NDArray[np.int32]
    rows: NDArray[np.int32]
    weight: NDArray[np.floating]
    part: NDArray[np.floating]


@dataclass(frozen=True)
class OutletLinks:
    """Links through outlets, grouped by node.

    Attributes
    ----------
    node : (M,) int32, row of the node.
    first : (M + 1,) int32, where the links of each node begin.
    slot : (K,) slot of the returning population.
    opening : (K,) int32, index of the opening, its id less one.
    column : (K,) int32, the opening's column in the boundary values: drho on the cap.
    normal : (K, 3), unit vector out of the vessel.
    velocity : (K, 3), c_i of the link.
    weight : (K,), w_i of the link.
    part : (K,) of what enters that counts as flow, see :mod:`solver.boundary.opening_walls`.
    shear : (K,) what the velocity along the normal adds to the density, as it changes along the link.
    """

    node: NDArray[np.int32]
    first: NDArray[np.int32]
    slot: NDArray[np.unsignedinteger]
    opening: NDArray[np.int32]
    column: NDArray[np.int32]
    normal: NDArray[np.floating]
    velocity: NDArray[np.floating]
    weight: NDArray[np.floating]
    part: NDArray[np.floating]
    shear: NDArray[np.floating]

    @property
    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        """What :func:`make_outlet` takes of the links."""
        return self.slot, self.column, self.normal, self.velocity, self.weight, self.part, self.shear

    def entering(self, velocity: NDArray[np.floating]) -> NDArray[np.floating]:
        """Flow that comes in through each link in a step where fluid has the velocity (3, N): -6 w_i c_i.u, (K,)."""
        at_links = velocity[:, np.repeat(self.node, np.diff(self.first))]
        entered: NDArray[np.floating] = -6 * self.part * self.weight * (self.velocity.T * at_links).sum(axis=0)
        return entered


@dataclass(frozen=True)
class OutletFeedback:
    """Outlets whose pressure follows from their flow, one linear rule for all; see :func:`adjusted`.

    Each has a second column in the boundary values, the flow that belongs to the pressure in its first. The flow that
    a rule follows is the outlet's own, Q_m, or that of all outlets with feedback: Q = Q_m + share (sum of Q_k - Q_m).
    The resulting pressure is lowered by the friction of layers at the outlet, friction times Q_m, see
    :mod:`solver.boundary.layers`.

    Attributes
    ----------
    opening : (M,) int32, index of the opening.
    column : (M,) int32, its first column in the boundary values.
    rule : (M, 7) float64: alpha, decay, gain and resistance (drho, lattice units of flow), share, friction, part.
    start : (M, 2) float64, filtered excess of the flow and stored pressure before the first step.
    """

    opening: NDArray[np.int32]
    column: NDArray[np.int32]
    rule: NDArray[np.float64]
    start: NDArray[np.float64]

    @classmethod
    def none(cls) -> "OutletFeedback":
        """No such outlet."""
        return cls(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros((0, 7)), np.zeros((0, 2)))


@dataclass(frozen=True)
class InletFeedback:
    """Inlets whose flow follows from the pressure there, one rule for all; see :func:`admitted`.

    Each has two columns in the boundary values for its profile, flow and squared flow, and a third for the pressure
    that is offered.

    Attributes
    ----------
    opening : (M,) int32, index of the opening.
    column : (M,) int32, its first column in the boundary values.
    rule : (M, 4) float64: gain and resistance, in drho and lattice units of flow, 1 over the number of its nodes, and
        the factor of the squared flow.
    start : (M,) float64, flow before the first step.
    """

    opening: NDArray[np.int32]
    column: NDArray[np.int32]
    rule: NDArray[np.float64]
    start: NDArray[np.float64]

    @classmethod
    def none(cls) -> "InletFeedback":
        """No such inlet."""
        return cls(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros((0, 4)), np.zeros(0))

    def among(self, probe_opening: NDArray[np.integer]) -> "InletFeedback":
        """The same with the numbers of nodes at openings of whose nodes these are the indices, (P,)."""
        rule = self.rule.copy()
        rule[:, 2] = [1 / np.count_nonzero(probe_opening == k) for k in self.opening.tolist()]
        return replace(self, rule=rule)


@node_function
def admitted(drho: Any, offered: Any, flow: Any, rule: Any) -> Any:
    """Flow through an inlet in a step, in which `drho` was found there.

    Where a network offers the pressure p0 - R Q and waves on the lattice leave with the impedance Za,

        Q <- Q + gain (p0 - p - R Q),    gain = a/(R + Za),

    comes to the flow at which both have the pressure p; with a = 1 in one step. As with :func:`adjusted`, a is less.

    Parameters
    ----------
    drho : sum over the nodes of the inlet.
    offered : p0, in drho.
    flow : Q of the step before.
    rule : a row of :attr:`InletFeedback.rule`.
    """
    return flow + rule[0] * (offered - drho * rule[2] - rule[1] * flow)


@node_function
def adjusted(flow: Any, wanted: Any, surplus: Any, state: Any, rule: Any) -> tuple[Any, Any, Any]:
    """Filtered excess, stored pressure, and what is added to an outlet's pressure, after a step in which `flow` left.

        E <- E + alpha (Q - Q0 - E),   w <- decay w + gain (Q - Q0 - part S),   p = p0 + w + resistance E,

    with the flow Q0, `wanted`, that belongs to the pressure p0. Q0 is filtered as Q is: else one that is raised would
    run ahead of Q where the filter is slow. What is stored is not filtered: each term then lags by less than a quarter
    of a period; both in turn would lag by more, and feed a wave. A three-element Windkessel of resistances Rp and Rd
    and compliance C (Westerhof, Lankhaar and Westerhof 2009, doi:10.1007/s11517-008-0359-2), whose steady state is p0
    at Q0, has decay = exp(-1/(Rd C)), exact for a flow that does not change within a step, gain = Rd (1 - decay),
    resistance = Rp. An outlet of which Q0 is demanded has decay = 1: w is added up until it comes. With gain = 0 and
    the impedance of the lattice's fluid as the resistance waves leave; if Q0 must come, the steady state is p0. The
    filter keeps the wave that a change of pressure sends into the domain from being answered by a larger one.

    Parameters
    ----------
    flow : Q, that left through the outlet in the step, lattice units.
    wanted : Q0.
    surplus : S, what left through all outlets with feedback beyond what is wanted of them.
    state : filtered excess E and stored pressure w before the step, w in drho.
    rule : a row of :attr:`OutletFeedback.rule`.
    """
    missing = flow - wanted
    excess = state[0] + rule[0] * (missing - state[0])
    stored = rule[1] * state[1] + rule[2] * (missing - rule[6] * surplus)
    return excess, stored, stored + rule[3] * excess


@cache
def make_outlet(
    storage: str, real: Callable[[float], Any], equilibrium: str = "incompressible", q: int = Q
) -> tuple[Any, Any]:
    """Function ``(g, force)`` of the flow at a node, and ``(f, k, flow, links, boundary_values, row, entered)`` of a
    link.

    The first takes the node's populations after collision, before any of its links is treated; the second treats the
    k-th link at an outlet. `links` are the `arrays` of :class:`OutletLinks`, ``boundary_values[row + column]`` is drho
    on the cap; `entered` gets the flow that came in through each link.

    The parameters are those of :mod:`solver.kernels`.
    """
    zero, half, one, two = (real(value) for value in (0, 0.5, 1, 2))
    density, quadratic = make_density(real, equilibrium), make_link_quadratic(real, equilibrium, q)
    zeroth_and_first_moments, _ = make_moments(q)
    load_slot, store_slot = make_access(storage, real)[:2]

    @node_function
    def flow_at(g: Any, force: Any) -> tuple[Any, ...]:
        drho, x, y, z = zeroth_and_first_moments(g)
        rho = density(drho)
        return rho, (x - half * force[0]) / rho, (y - half * force[1]) / rho, (z - half * force[2]) / rho

    @node_function
    def treat(f: Any, k: int, flow: Any, links: Any, boundary_values: Any, row: int, entered: Any) -> None:
        slot, column, normal, velocity, weight, part, shear = links
        rho, x, y, z = flow
        place = slot[k]
        leaving = load_slot(f, place)
        out = x * normal[k, 0] + y * normal[k, 1] + z * normal[k, 2]
        c = velocity[k, 0], velocity[k, 1], velocity[k, 2]
        kinetic = rho * quadratic(c, (x, y, z)) * (one if out >= zero else zero)
        store_slot(f, place, two * weight[k] * (boundary_values[row + column[k]] + kinetic + shear[k] * out) - leaving)
        entered[k] = part[k] * (load_slot(f, place) - leaving)

    return flow_at, treat


def inlet_links(
    nodes: Nodes,
    addresses: NDArray[np.unsignedinteger],
    stride: int,
    profiles: Mapping[str, Profile],
    columns: NDArray[np.int32],
    real: Any,
    parts: NDArray[np.float64],
) -> InletLinks:
    """Links through inlets.

    Parameters
    ----------
    nodes, addresses, stride : the geometry and where its links' populations live.
    profiles : velocity over each inlet, by name.
    columns : (openings + 1,) where the columns of each opening begin in the boundary values, and how many there are.
    real : type of the weights.
    parts : (openings,) of what enters that count as flow.

    Raises
    ------
    StageError
        If a profile is unknown, or no link of an inlet carries flow.
    """
    rows, stencil = np.flatnonzero(_of_role(nodes, "inlet")[nodes.opening_link_opening]), velocity_set(nodes.q)
    direction = nodes.opening_link_direction[rows].astype(np.int64)
    index = nodes.opening_link_opening[rows].astype(np.int32) - 1
    weight = np.zeros((max((profile.rows for profile in profiles.values()), default=1), len(rows)))
    rows_of_opening = np.zeros(len(nodes.openings), np.int32)
    for opening in (opening for opening in nodes.openings if opening.role == "inlet"):
        rows_of_opening[opening.id - 1] = profiles[opening.name].rows
        profile, mine = profiles[opening.name], index == opening.id - 1
        weight[: profile.rows, mine] = link_weights(nodes, opening, rows[mine], profile)
    return InletLinks(
        slot=(stencil.opposite[direction] * stride + nodes.opening_link_node[rows]).astype(addresses.dtype),
        opening=index,
        column=columns[index],
        rows=rows_of_opening[index],
        weight=(weight / parts[index]).astype(real),
        part=parts[index].astype(real),
    )


def outlet_links(
    nodes: Nodes,
    addresses: NDArray[np.unsignedinteger],
    stride: int,
    columns: NDArray[np.int32],
    real: Any,
    parts: NDArray[np.float64],
    caps: Sequence[CapProfile] = (),
    tau: NDArray[np.float64] | None = None,
) -> OutletLinks:
    """Links through outlets, sorted by node: all links of a node need its populations before any is replaced.

    Parameters
    ----------
    nodes : the geometry.
    addresses : of all links, see :mod:`solver.kernels.streaming`; slots are of their type.
    stride : of the lattice.
    columns : (openings + 1,) where the columns of each opening begin in the boundary values.
    real : NumPy type that is computed with.
    parts : (openings,) of what enters that count as flow.
    caps, tau : developed flow through each opening and relaxation time at each node, (N,), by which the velocity's
        change along links counts; it does not if not given.
    """
    rows, stencil = np.flatnonzero(_of_role(nodes, "outlet")[nodes.opening_link_opening]), velocity_set(nodes.q)
    rows = rows[np.lexsort((nodes.opening_link_direction[rows], nodes.opening_link_node[rows]))]
    node, index = nodes.opening_link_node[rows], nodes.opening_link_opening[rows].astype(np.int32) - 1
    direction = nodes.opening_link_direction[rows].astype(np.int64)
    starts = np.flatnonzero(np.diff(node, prepend=-1))
    normals = np.array([opening.normal for opening in nodes.openings], dtype=real).reshape(-1, 3)
    shear = np.zeros(len(rows))
    if tau is not None:
        for cap in caps:
            mine = index == cap.opening.id - 1
            shear[mine] = shear_terms(nodes, cap, node[mine], direction[mine], tau[node[mine]])
    return OutletLinks(
        node=node[starts],
        first=np.append(starts, len(rows)).astype(np.int32),
        slot=(stencil.opposite[direction] * stride + node).astype(addresses.dtype),
        opening=index,
        column=columns[index],
        normal=normals[index],
        velocity=stencil.velocities[direction].astype(real),
        weight=stencil.weights[direction].astype(real),
        part=parts[index].astype(real),
        shear=shear.astype(real),
    )


def shear_terms(
    nodes: Nodes,
    cap: CapProfile,
    node: NDArray[np.integer],
    direction: NDArray[np.integer],
    tau: NDArray[np.float64],
) -> NDArray[np.float64]:
    """What the velocity along the normal, times this, adds to the density at links through an outlet, (K,):
    -3 (tau - 1/2) c_n times its relative change along the link, in developed flow.

    The change is at most the velocity itself, so that a node next to the wall does not answer itself more strongly.

    Parameters
    ----------
    nodes, cap : the geometry, and developed flow through the outlet.
    node, direction, tau : (K,) of the links, tau the relaxation time at the node.
    """
    links, place = velocity_set(nodes.q).velocities[direction], nodes.points_mm(node)
    here, there = cap.at(place), cap.at(place + nodes.spacing_mm * links)
    change = np.clip((there - here) / np.maximum(here, LEAST), -1, 1)
    return np.asarray(-3 * (tau - 0.5) * (links @ np.asarray(cap.opening.normal)) * change)


def opening_nodes(nodes: Nodes) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Nodes with a link through an opening, and the index of the opening, both (P,), each pair once."""
    pairs = np.unique(np.stack((nodes.opening_link_opening.astype(np.int32) - 1, nodes.opening_link_node)), axis=1)
    return np.ascontiguousarray(pairs[1]), np.ascontiguousarray(pairs[0])


@njit(cache=True)
def backflow_limbs(entered: Any, first: Any, opening: Any, openings: int) -> Limbs:
    """Limbs of what entered on balance at the nodes of each outlet where more came in than went out, (openings, 3).

    Parameters
    ----------
    entered : (K,) what came in through each link.
    first, opening : of :class:`OutletLinks`.
    openings : number of openings.
    """
    limbs, net = np.zeros((openings, LIMBS), np.int64), np.zeros(openings)
    for m in range(len(first) - 1):
        net[:] = 0
        for k in range(first[m], first[m + 1]):
            net[opening[k]] += entered[k]
        for k in range(openings):
            if net[k] > 0:
                parts = split(net[k])
                for limb in range(LIMBS):
                    limbs[k, limb] += parts[limb]
    return limbs


def _of_role(nodes: Nodes, role: str) -> NDArray[np.bool_]:
    """Whether the opening of each id, from 0 for none, has the role."""
    return np.array([False] + [opening.role == role for opening in nodes.openings])
