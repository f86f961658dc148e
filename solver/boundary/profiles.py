# SPDX-License-Identifier: Apache-2.0
"""Profiles: how the flow through an inlet is shared by its links.

Link k gets W_k of the flow, W_k = beta_k / sum(beta) with beta_k = 6 w_i |c_i.n| phi, phi the velocity in the
middle of the link, so that the flow through the discrete inlet is exact. A pulsatile flow
Q = Re(sum of Q_n exp(i n w t)) has a profile for each harmonic (Womersley 1955, doi:10.1113/jphysiol.1955.sp005276),

    phi_n = 1 - J0(l_n r/R) / J0(l_n),  l_n = i^(3/2) alpha sqrt(n),  alpha = R sqrt(w/nu),

and complex W_n that sum to 1; the rows Re W_n and Im W_n then belong to Re(Q_n exp(i n w t)) and -Im of the same.
On caps that are not round, r/R is the one at which a round cap has the same developed velocity.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import pi

import numpy as np
from numpy.typing import NDArray

from solver.boundary.inlet_momentum import momentum_shares
from solver.boundary.waveform import Inflow
from solver.domain.nodes import Nodes, Opening
from solver.kernels.velocity_sets import velocity_set
from solver.runtime.errors import StageError

Shape = Callable[[Nodes, Opening, NDArray[np.intp]], NDArray[np.float64]]

QUASI_STEADY = 0.01
"""Womersley number below which a profile is the developed one, to alpha^2 of it."""


@dataclass(frozen=True)
class Profile:
    """Velocity over an inlet.

    Attributes
    ----------
    name : ``developed``, ``parabolic``, ``plug`` or ``womersley``.
    harmonics : of a pulsatile flow that have a profile of their own; 0 for all but womersley.
    womersley : alpha of the first of them.
    corrected : whether a last row has the squared flow, see :mod:`solver.boundary.inlet_momentum`.
    """

    name: str = "developed"
    harmonics: int = 0
    womersley: float = 0.0
    corrected: bool = False

    @property
    def rows(self) -> int:
        """Rows of weights: the flow, two for each harmonic, and that of the squared flow."""
        return 1 + 2 * self.harmonics + self.corrected


def inlet_profile(name: str, inflow: Inflow, radius_mm: float, viscosity_m2_s: float) -> Profile:
    """Profile of an inlet of a radius through which fluid of a kinematic viscosity flows.

    Parameters
    ----------
    name : of the profile, one of `PROFILES`.
    inflow : through the inlet.
    radius_mm : of the inlet.
    viscosity_m2_s : kinematic.

    Raises
    ------
    StageError
        If the name is unknown.
    """
    if name not in PROFILES:
        raise StageError(f"profile {name!r}: unknown; known are {', '.join(PROFILES)}")
    if name != "womersley" or not inflow.period_s:
        return Profile(name, corrected=True)
    alpha = 1e-3 * radius_mm * (2 * pi / (inflow.period_s * viscosity_m2_s)) ** 0.5
    harmonics = inflow.harmonics if alpha > QUASI_STEADY else 0
    return Profile(name, harmonics, alpha if harmonics else 0.0, corrected=True)


def link_weights(nodes: Nodes, opening: Opening, rows: NDArray[np.intp], profile: Profile) -> NDArray[np.float64]:
    """Shares of an inlet's flow that its links get, (profile.rows, L): W_0, Re W_1, Im W_1, Re W_2, ..., and, where the
    profile is corrected, shares of the squared flow.

    Parameters
    ----------
    nodes, opening : the geometry and its inlet.
    rows : (L,) rows of the inlet's links among the opening links.
    profile : what the velocity is like.

    Raises
    ------
    StageError
        If the profile is unknown, or no link carries flow.
    """
    if profile.name not in PROFILES:
        raise StageError(f"profile {profile.name!r}: unknown; known are {', '.join(PROFILES)}")
    direction = nodes.opening_link_direction[rows]
    projected = velocity_set(nodes.q).flux(direction, np.asarray(opening.normal))
    velocity = PROFILES[profile.name](nodes, opening, rows)
    steady = projected * velocity
    if not steady.sum() > 0:
        raise StageError(
            f"inlet {opening.name}: none of its {len(rows)} links carries flow (radius {opening.radius_mm:.3g} mm "
            f"at a spacing of {nodes.spacing_mm:.3g} mm); choose a finer voxelize.spacing_mm"
        )
    weights = [steady / steady.sum()]
    radius = np.sqrt(1 - developed(nodes, opening, rows))
    for n in range(1, profile.harmonics + 1):
        mode = projected * womersley(profile.womersley * n**0.5, radius)
        mode /= mode.sum()
        weights += [mode.real, mode.imag]
    if profile.corrected:
        weights.append(momentum_shares(nodes, opening, rows, velocity))
    return np.stack(weights)


def developed(nodes: Nodes, opening: Opening, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Steady flow through a tube with the cap's shape: Laplace(phi) = -1 on the cap, 0 on its rim.

    The parameters are those of :func:`link_weights`; the result is (L,), any multiple.
    """
    return nodes.opening_link_profile[rows].astype(np.float64)


def parabolic(nodes: Nodes, opening: Opening, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Hagen-Poiseuille's profile, max(0, 1 - r^2/R^2), R the equivalent radius.

    The parameters are those of :func:`link_weights`; the result is (L,), any multiple.
    """
    normal = np.asarray(opening.normal)
    reach = 0.5 * nodes.spacing_mm * velocity_set(nodes.q).velocities[nodes.opening_link_direction[rows]]
    from_centre = nodes.points_mm()[nodes.opening_link_node[rows]] + reach - opening.centre_mm
    in_plane = from_centre - (from_centre @ normal)[:, None] * normal
    return np.maximum(0.0, 1 - (in_plane**2).sum(axis=1) / opening.radius_mm**2)


def plug(nodes: Nodes, opening: Opening, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """The same velocity everywhere on the cap.

    The parameters are those of :func:`link_weights`; the result is (L,), any multiple.
    """
    return np.ones(len(rows))


PROFILES: dict[str, Shape] = {"developed": developed, "parabolic": parabolic, "plug": plug, "womersley": developed}
"""Steady velocity over an inlet, by name: of its links, any multiple."""


def womersley(alpha: float, radius: NDArray[np.float64]) -> NDArray[np.complex128]:
    """1 - J0(l r)/J0(l), l = i^(3/2) alpha, at distances r from the centre in radii of the pipe."""
    decay = np.exp(-(1 + 1j) / 2**0.5 * alpha * (1 - radius))
    values: NDArray[np.complex128] = 1 - decay * scaled_j0(alpha * radius) / scaled_j0(np.array([alpha]))
    return values


LARGE, TERMS, TERMS_FAR = 25.0, 80, 24
"""Where the series of J0 gives way to the one for large arguments, and terms of both: either is then right to 1e-12."""


def scaled_j0(x: NDArray[np.float64]) -> NDArray[np.complex128]:
    """J0(i^(3/2) x) exp(-(1 + i) x / sqrt(2)) for x >= 0, which neither overflows nor oscillates.

    J0(z) is the sum of (-z^2/4)^k / k!^2; for large z with a positive imaginary part H0^(2)(z)/2, that is
    exp(i pi/4 - i z) / sqrt(2 pi z) times the sum of (i/(8 z))^k (1 3 ... (2k - 1))^2 / k!.
    Source: Abramowitz and Stegun (1964), 9.1.12 and 9.2.8.
    """
    near, far = np.minimum(x, LARGE), np.maximum(x, LARGE)
    term = total = np.ones(len(x), np.complex128)
    for k in range(1, TERMS):
        term = term * (0.25j * near**2) / k**2
        total = total + term
    total = total * np.exp(-(1 + 1j) / 2**0.5 * near)
    z = far * np.exp(0.75j * pi)
    term = asymptotic = np.ones(len(x), np.complex128)
    for k in range(1, TERMS_FAR):
        term = term * 1j * (2 * k - 1) ** 2 / (8 * k * z)
        asymptotic = asymptotic + term
    asymptotic = asymptotic * np.exp(0.25j * pi) / np.sqrt(2 * pi * z)
    return np.where(x < LARGE, total, asymptotic)
