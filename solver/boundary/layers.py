# SPDX-License-Identifier: Apache-2.0
"""Layers of nodes at openings in which tau is raised, and the pressure that their friction would take.

A layer is a spacing thick along the normal of the cap, whatever its direction. In the k-th of n layers tau is blended
towards 1 by the share (1 - (d - 1/2)/n)^2 of that at the cap, d its depth below the cap in spacings.

At outlets such layers damp what a given pressure would send back. Their friction is not that of blood: developed flow
of mean speed Q/A in a section A loses, in nodes whose viscosity is too large by dnu,

    dp = sum over nodes of K dnu rho Q/A^3,     K = A^2 / integral of phi,     Laplace(phi) = -1, phi = 0 on the rim,

lattice units: K = 8 pi in a circle, 28.45 in a square, 12/A between plates of the height A. So the pressure on the
cap is set lower by dp, and the pressure in front of the layers becomes the one that is given for the outlet: layers
do not decide how outlets share the flow, and pressure drops do not contain their friction. Fields within the layers are
corrected by the part of dp that lies upstream. Those of a developed flow are then those of a vessel without layers.

An inlet that is coupled to a network is an opening of that kind, too: what it takes in follows from the pressure that
it finds, from which the friction of its layers is taken. Layers of tau = 1, as other inlets have whose flow turns back,
would be a stenosis in the network. Where the flow is given, their friction changes nothing but the pressure at the
inlet, from which it is taken as well.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.boundary.cap_profile import CapProfile
from solver.domain.border import Border
from solver.domain.nodes import Neighbours, Nodes, Opening
from solver.kernels.d3q19 import Q

INLET_LAYERS = 3
"""Layers of nodes at an inlet whose flow turns back over which tau is raised."""


@dataclass(frozen=True)
class LayerFriction:
    """Friction of the layers at an opening, beyond that of blood.

    Attributes
    ----------
    opening : its index.
    normal : (3,) of its cap, out of the vessel.
    resistance : drho over the flow, lattice units.
    rows : (K,) nodes of the layers, among all.
    upstream : (K,) part of the friction that lies upstream of each.
    upstream_of_cap : its mean over the nodes with a link through the cap.
    depth : of the layers, spacings.
    """

    opening: int
    normal: NDArray[np.float64]
    resistance: float
    rows: NDArray[np.int64]
    upstream: NDArray[np.float64]
    upstream_of_cap: float
    depth: float

    def flow(self, velocity: NDArray[np.floating]) -> float:
        """Flow out of the vessel through the layers, the mean over them, from the velocity of their nodes, (3, K)."""
        return float(self.normal @ velocity.sum(axis=1, dtype=np.float64)) / self.depth


def inlet_layers(
    nodes: Nodes, tau: float, names: Container[str]
) -> tuple[NDArray[np.float64], tuple[LayerFriction, ...]]:
    """Share of a blend towards tau = 1 at each node, (N,), for inlets through which fluid leaves at times; and what
    that adds to the friction at each of them.

    Given velocities that take fluid out of the domain make the flow unstable. The blend is 1 at nodes with a link
    through such an inlet and falls quadratically over the next layers of nodes.

    Parameters
    ----------
    nodes : the geometry.
    tau : relaxation time elsewhere.
    names : of these inlets.
    """
    return _raised(nodes, [o.id for o in nodes.openings if o.name in names], max(0.0, 1.0 - tau), INLET_LAYERS)


def outlet_layers(
    nodes: Nodes, tau: float, wanted: float, layers: int, coupled: Container[str] = ()
) -> tuple[NDArray[np.float64], tuple[LayerFriction, ...]]:
    """Share of a blend towards tau = 1 at each node, (N,), with which tau rises to that `wanted` at the outlets; and
    what that adds to the friction at each of them.

    The blend falls quadratically over so many layers of nodes. Where tau is `wanted` or more, it is 0 everywhere, and
    adds no friction. Both are below 1.

    Parameters
    ----------
    nodes : the geometry.
    tau : relaxation time elsewhere.
    wanted : relaxation time at the outlets; 1 where it is more.
    layers : of nodes.
    coupled : names of inlets that get such layers, too.
    """
    raised = min(wanted, 1.0) - tau
    ids = [opening.id for opening in nodes.openings if opening.role == "outlet" or opening.name in coupled]
    blend, frictions = _raised(nodes, ids, max(0.0, raised), layers)
    return raised / (1 - tau) * blend if raised > 0 else blend, frictions


def _raised(
    nodes: Nodes, ids: Sequence[int], raised: float, layers: int
) -> tuple[NDArray[np.float64], tuple[LayerFriction, ...]]:
    """Share that falls quadratically over layers of nodes at these openings, (N,), and the friction that they add
    where tau is raised by so much at the caps; neither where it is not raised.
    """
    blend, frictions = np.zeros(nodes.count), []
    for opening, rows, depth, share in _layers(nodes, ids, layers) if raised else ():
        here, of_layer = nodes.among_here(rows)
        blend[here] = np.maximum(blend[here], share[of_layer])
        area = _area(nodes, opening)
        within = layers + 0.5 - np.clip(depth, 0.5, layers + 0.5)
        upstream = (within**3 / (3 * layers**2) + np.clip(0.5 - depth, 0, 0.5)) / (layers / 3 + 0.5)
        frictions.append(
            LayerFriction(
                opening=opening.id - 1,
                normal=np.array(opening.normal),
                resistance=friction_factor(nodes, opening) / area**3 * raised * float(share.sum()),
                rows=rows,
                upstream=upstream,
                upstream_of_cap=float(upstream[share == 1].mean()),
                depth=len(rows) / area,
            )
        )
    return blend, tuple(frictions)


def friction_factor(nodes: Nodes, opening: Opening) -> float:
    """K = A^2 / integral of phi, where Laplace(phi) = -1 on the cap and phi = 0 on its rim; A in lattice units."""
    profile, area = CapProfile.of(nodes, opening), _area(nodes, opening)
    return profile.curvature * area**2 / profile.flow


def resistances_to_caps(nodes: Nodes, tau: float) -> NDArray[np.float64]:
    """Drop of drho over the flow, lattice units, of developed flow between the nodes with a link through each opening
    and its cap, (openings,): K (tau - 1/2) d/A^2, d their mean depth in spacings. All ranks ask together.
    """
    factors = [friction_factor(nodes, opening) * (tau - 0.5) / _area(nodes, opening) ** 2 for opening in nodes.openings]
    return np.array(factors) * _depths_of_caps(nodes)


def inertances_to_caps(nodes: Nodes) -> NDArray[np.float64]:
    """Drop of drho on the same way over the rise of the flow in a step, lattice units, (openings,): 3 d/A. All ranks
    ask together.
    """
    return 3 * _depths_of_caps(nodes) / np.array([_area(nodes, opening) for opening in nodes.openings])


def _area(nodes: Nodes, opening: Opening) -> float:
    """Of a cap, lattice units."""
    return opening.area_mm2 / nodes.spacing_mm**2


def _depths_of_caps(nodes: Nodes) -> NDArray[np.float64]:
    """Mean depth below each cap of the nodes with a link through it, spacings, (openings,)."""
    return np.array([_depth_of_cap(nodes, opening) for opening in nodes.openings])


def _depth_of_cap(nodes: Nodes, opening: Opening) -> float:
    linked = np.unique(nodes.opening_link_node[nodes.opening_link_opening == opening.id])
    linked = linked[nodes.is_own[linked]]
    depth = (np.array(opening.centre_mm) - nodes.points_mm(linked)) @ np.array(opening.normal) / nodes.spacing_mm
    rows, depth = nodes.ranks.join(nodes.rows[linked]), nodes.ranks.join(depth)
    return float(depth[np.argsort(rows)].mean())


def _layers(
    nodes: Nodes, ids: Sequence[int], layers: int
) -> Iterator[tuple[Opening, NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]]:
    """Each of these openings with the nodes of its layers, as rows of all, their depth in spacings and their share: 1
    at nodes with a link through the opening. A node belongs to one that so many links lead to.
    """
    links = Neighbours(nodes).table(range(1, Q))
    border = Border(nodes, links)
    for opening in (nodes.openings[number - 1] for number in ids):
        linked = np.unique(nodes.opening_link_node[nodes.opening_link_opening == opening.id])
        near = np.zeros(nodes.count, np.bool_)
        near[linked] = True
        for _ in range(layers):
            reached = links[near].ravel()
            near[reached[reached >= 0]] = True
            border.swap(near)
        here = np.flatnonzero(near & border.own)
        rows, at_cap = (nodes.ranks.join(each) for each in (nodes.rows[here], np.isin(here, linked)))
        order, position = np.argsort(rows), nodes.ranks.join(nodes.position[here].ravel()).reshape(-1, 3)
        points = nodes.place_of(position[order])
        depth = (np.array(opening.centre_mm) - points) @ np.array(opening.normal) / nodes.spacing_mm
        share = np.clip(1 - (depth - 0.5) / layers, 0, 1) ** 2
        share[at_cap[order]] = 1
        kept = share > 0
        yield opening, rows[order][kept], depth[kept], share[kept]
