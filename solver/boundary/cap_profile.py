# SPDX-License-Identifier: Apache-2.0
"""Developed flow through an opening, as a polynomial on its cap.

The profile of the links of an opening is psi = phi/max(phi), Laplace(phi) = -1 on the cap and phi = 0 on its rim. Its
Laplacian is the same all over the cap:

    psi = -g r^2/4 + a harmonic polynomial,     g = 1/max(phi),

by least squares over the middles of the links that lie within the rim. It can be asked for anywhere: flow that does not
change along the vessel is that of the cap at all nodes before it.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from solver.domain.nodes import Nodes, Opening
from solver.kernels.velocity_sets import velocity_set

Reals = NDArray[np.float64]

HARMONICS = 8
"""Degree of the harmonic polynomials in the velocity over a cap. K of eight rectangles drawn at random, 1.4 to 3.4 as
wide as high, 6 to 16 nodes across, is within 1.3 % of its series; with degree 4 within 5 %."""

LEAST = 0.01
"""Velocity, over its largest, from which on something counts as a part of it."""


@dataclass(frozen=True)
class CapProfile:
    """Of an opening; the same on all ranks, which ask for it together.

    Attributes
    ----------
    opening : it.
    curvature : -Laplace(psi), per square of a spacing.
    flow : through the cap where the velocity is psi, lattice units.
    """

    opening: Opening
    curvature: float
    flow: float
    _spacing_mm: float
    _coefficients: Reals

    @classmethod
    def of(cls, nodes: Nodes, opening: Opening) -> Self:
        """That of an opening of a geometry. The flow is that of the links' fluxes."""
        psi, place, flux = _at_links(nodes, opening)
        within = psi > 0
        solved = np.linalg.lstsq(_terms(opening, place[within]), psi[within], rcond=1e-6)
        coefficients = np.asarray(solved[0], np.float64)
        curvature = float(coefficients[0]) * (nodes.spacing_mm / opening.radius_mm) ** 2
        return cls(opening, curvature, float(psi @ flux), nodes.spacing_mm, coefficients)

    def at(self, points_mm: Reals) -> Reals:
        """Velocity psi above or below the cap at points (K, 3), mm; (K,)."""
        return np.asarray(_terms(self.opening, points_mm) @ self._coefficients)

    def along(self, points_mm: Reals, links: Reals, part: Reals | None = None) -> tuple[Reals, Reals, Reals]:
        """psi, its first and its second derivative along links, by differences over half a link both ways, (K,) each.

        Parameters
        ----------
        points_mm : (K, 3) where the links begin.
        links : (K, 3) vectors, spacings.
        part : (K,) of each link at which these are wanted; its beginning if not given.
        """
        step = self._spacing_mm * links
        middle = points_mm if part is None else points_mm + part[:, None] * step
        before, here, after = (self.at(middle + half * step) for half in (-0.5, 0.0, 0.5))
        return here, after - before, 4 * (after - 2 * here + before)


def cap_profiles(nodes: Nodes) -> tuple[CapProfile, ...]:
    """Those of all openings of a geometry; all ranks ask together."""
    return tuple(CapProfile.of(nodes, opening) for opening in nodes.openings)


def _terms(opening: Opening, points_mm: Reals) -> Reals:
    """-r^2/4 and the harmonic polynomials at points (K, 3), mm; in the plane of the cap, lengths in its radii."""
    z = ((points_mm - opening.centre_mm) @ opening.across / opening.radius_mm) @ (1, 1j)
    powers = z[:, None] ** np.arange(HARMONICS + 1)
    return np.concatenate((-(np.abs(z[:, None]) ** 2) / 4, powers.real, powers.imag[:, 1:]), axis=1)


def _at_links(nodes: Nodes, opening: Opening) -> tuple[Reals, Reals, Reals]:
    """Developed velocity at the middles of all links through an opening, (L,), these places, (L, 3), mm, and what each
    link carries of a uniform flow.
    """
    mine = (nodes.opening_link_opening == opening.id) & nodes.is_own[nodes.opening_link_node]
    node, direction, stencil = nodes.opening_link_node[mine], nodes.opening_link_direction[mine], velocity_set(nodes.q)
    middle = nodes.position[node] + 0.5 * stencil.velocities[direction]
    profile, number = nodes.opening_link_profile[mine].astype(np.float64), nodes.rows[node] * nodes.q + direction
    psi, place, direction, number = (nodes.ranks.join(each) for each in (profile, middle.ravel(), direction, number))
    order = np.argsort(number)
    flux = stencil.flux(direction[order], np.asarray(opening.normal))
    return psi[order], nodes.place_of(place.reshape(-1, 3)[order]), flux
