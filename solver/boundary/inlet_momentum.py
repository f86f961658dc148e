# SPDX-License-Identifier: Apache-2.0
"""What bounce-back at an inlet lacks where the velocity varies across the cap.

Half-way bounce-back returns to a node at x what it sent along c, as if the even part of the populations were the same
at x + c. Of a velocity u along the normal that varies across the cap, it is not: in steady flow the returning
population lacks

    2 (tau_3 - 1/2) w_i [B_i(u, u)(x + c) - B_i(u, u)(x)],

tau_3 the relaxation time of odd parts of third order, B_i the quadratic form of the equilibrium. That of two slanting
links of a node adds up to a force across the flow, u du/dr on each, which drives fluid to the axis: the profile behind
the inlet is too pointed, by an error of first order. Derived from the recurrence of steady populations of d'Humières
and Ginzburg (2009, doi:10.1016/j.camwa.2009.02.008).
"""

import numpy as np
from numpy.typing import NDArray

from solver.domain.nodes import Nodes, Opening
from solver.kernels.node_physics import make_link_quadratic
from solver.kernels.velocity_sets import velocity_set

Reals = NDArray[np.float64]

BESIDE = np.array(list(np.ndindex(3, 3, 3))) - 1
"""Steps to the nodes around a node, itself among them."""


def momentum_shares(nodes: Nodes, opening: Opening, rows: NDArray[np.intp], profile: Reals) -> Reals:
    """What the links of an inlet lack, for a unit of 2 (tau_3 - 1/2) and of the squared flow, (L,); their sum is 0.

    Parameters
    ----------
    nodes, opening : the geometry and its inlet.
    rows : (L,) rows of the inlet's links among the opening links.
    profile : (L,) velocity along the normal in the middle of each link, any multiple.
    """
    stencil, normal = velocity_set(nodes.q), np.asarray(opening.normal)
    direction = nodes.opening_link_direction[rows]
    c, w = stencil.velocities[direction].astype(np.float64), stencil.weights[direction]
    share = stencil.flux(direction, normal) * profile
    here, there = _at_both_ends(nodes, opening, rows, profile)
    form = make_link_quadratic(np.float64, "incompressible", nodes.q)
    form = getattr(form, "py_func", form)  # of all links at once; without compilation it is the function itself
    lacking = w * form(tuple(c.T), tuple(normal)) * (there**2 - here**2) / share.sum() ** 2
    return np.asarray(lacking - share / share.sum() * lacking.sum())


def _at_both_ends(nodes: Nodes, opening: Opening, rows: NDArray[np.intp], profile: Reals) -> tuple[Reals, Reals]:
    """Velocity at the node of each link and one link further out, (L,) each: by a paraboloid through what is known in
    the middle of the links of the nodes around, projected onto the cap.
    """
    node, owner = np.unique(nodes.opening_link_node[rows], return_inverse=True)
    at = (nodes.points_mm()[node] - opening.centre_mm) / nodes.spacing_mm @ opening.across
    step = velocity_set(nodes.q).velocities[nodes.opening_link_direction[rows]] @ opening.across
    middle = at[owner] + 0.5 * step
    known = profile > 0  # beyond the rim nothing flows
    terms = len(_paraboloid(middle[:1])[0])
    normal_matrix, right_side = np.zeros((len(node), terms, terms)), np.zeros((len(node), terms))
    for beside in _neighbours(nodes.position[node].astype(np.int64)):
        target = beside[owner]
        used = known & (target >= 0)
        term = _paraboloid(middle[used] - at[target[used]])
        for p in range(terms):
            right_side[:, p] += np.bincount(target[used], term[:, p] * profile[used], len(node))
            for q in range(terms):
                normal_matrix[:, p, q] += np.bincount(target[used], term[:, p] * term[:, q], len(node))
    fit = np.einsum("npq,nq->np", np.linalg.pinv(normal_matrix, rcond=1e-9, hermitian=True), right_side)[owner]
    ends = ((_paraboloid(place) * fit).sum(axis=1) for place in (np.zeros_like(step), step))
    here, there = (np.clip(end, 0.0, profile.max()) for end in ends)
    return here, there


def _paraboloid(place: Reals) -> Reals:
    """1, x, y, x^2, x y, y^2 at places (L, 2), (L, 6)."""
    x, y = place.T
    return np.stack((np.ones_like(x), x, y, x * x, x * y, y * y), axis=1)


def _neighbours(position: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """For each step of `BESIDE` the row of the node that lies there of each of these nodes (N, 3), or -1, (N,)."""
    shifted = position - position.min(axis=0) + 1
    size = tuple(shifted.max(axis=0) + 2)
    keys = np.ravel_multi_index(tuple(shifted.T), size)
    order = np.argsort(keys)
    found = []
    for beside in BESIDE:
        wanted = np.ravel_multi_index(tuple((shifted + beside).T), size)
        place = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
        row = order[place]
        found.append(np.where(keys[row] == wanted, row, -1))
    return found
