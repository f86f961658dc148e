# SPDX-License-Identifier: Apache-2.0
"""Walls of arteries: how the pressure depends on the lumen's area. Plain data and NumPy, in SI.

With the stretch lambda = sqrt(A/A0) of a wall whose lumen has the area A0 at the reference pressure, every wall here is

    p - p_ref = b0 (lambda - 1) + b1 (1 - 1/lambda)
                + [b2 (lambda - 1) + b3 e_r ln(1 + exp((lambda - 1 - e_0)/e_r))] / lambda^2 - the same at lambda = 1,

with which :mod:`solver.network.laws` computes; a wall says what its coefficients are.
"""

from dataclasses import dataclass
from math import pi, sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]

Along = float | tuple[float, ...]
"""A value along a segment: the same everywhere, or at evenly spaced places from its start to its end, which both count;
straight lines between them.
"""

ELASTIC, HYPERBOLIC, ELASTIN, COLLAGEN, RECRUITED_AT, RECRUITED_OVER = range(6)
"""Rows of a wall's coefficients: b0, b1, b2, b3, e_0, e_r."""
COEFFICIENTS = 6
"""Number of them."""
INCOMPRESSIBLE = 0.5
"""Poisson's ratio of arterial walls."""


def along(value: Along, place: Reals) -> Reals:
    """A value at places, as parts of the segment's length."""
    samples = np.atleast_1d(np.asarray(value, np.float64))
    if len(samples) == 1:
        return np.full(place.shape, samples[0])
    found: Reals = np.interp(place, np.linspace(0.0, 1.0, len(samples)), samples)
    return found


def empirical_thickness_m(radius_m: Reals) -> Reals:
    """Thickness of arterial walls, by the radius of the lumen: h = R (0.2802 exp(-505.3 R) + 0.1324 exp(-11.14 R)).

    Source: the ADAN model (Blanco et al. 2015, doi:10.1109/TBME.2014.2364522); compared with openBF, which takes it
    where none is given and names Avolio (1980), doi:10.1007/BF02441895.
    """
    thickness: Reals = radius_m * (0.2802 * np.exp(-505.3 * radius_m) + 0.1324 * np.exp(-11.14 * radius_m))
    return thickness


def viscous_coefficient(viscosity_pa_s: float, thickness_m: float) -> float:
    """Gamma, Pa s m, of a wall by the viscosity of its material: 2/3 sqrt(pi) phi h (Alastruey et al. 2011,
    doi:10.1016/j.jbiomech.2011.05.041).
    """
    return 2.0 / 3.0 * sqrt(pi) * viscosity_pa_s * thickness_m


class Wall(Protocol):
    """What a wall tells.

    Attributes
    ----------
    viscous_pa_s_m : Gamma of Kelvin and Voigt's part of the pressure, Gamma/(A0 sqrt(A)) dA/dt; 0: none.
    """

    @property
    def viscous_pa_s_m(self) -> Along:
        """Gamma."""

    def coefficients(self, place: Reals, radius_m: Reals) -> Reals:
        """Coefficients of the law, (6, K), Pa but the last two, at places (parts of the length) of these radii."""


def _rows(place: Reals, rows: dict[int, Reals]) -> Reals:
    table = np.zeros((COEFFICIENTS, *place.shape))
    table[RECRUITED_OVER] = 1.0
    for row, values in rows.items():
        table[row] = values
    return table


@dataclass(frozen=True)
class ElasticWall:
    """A wall that is linear in its stretch: p = beta (sqrt(A/A0) - 1), beta = E h/((1 - nu^2) R0).

    Attributes
    ----------
    young_pa : Young's modulus E.
    thickness_m : h; none: that of :func:`empirical_thickness_m`.
    poisson : nu; beta = 4/3 E h/R0 where it is 1/2.
    viscous_pa_s_m : see :class:`Wall`.
    """

    young_pa: Along
    thickness_m: Along | None = None
    poisson: float = INCOMPRESSIBLE
    viscous_pa_s_m: Along = 0.0

    def coefficients(self, place: Reals, radius_m: Reals) -> Reals:
        """See :class:`Wall`."""
        thickness = empirical_thickness_m(radius_m) if self.thickness_m is None else along(self.thickness_m, place)
        beta = along(self.young_pa, place) * thickness / ((1.0 - self.poisson**2) * radius_m)
        return _rows(place, {ELASTIC: beta})


@dataclass(frozen=True)
class StiffWall:
    """A wall that is linear in its stretch, by beta itself: p = beta (sqrt(A/A0) - 1).

    Attributes
    ----------
    beta_pa : stiffness; of a pulse's speed c0 at the reference pressure it is 2 rho c0^2.
    viscous_pa_s_m : see :class:`Wall`.
    """

    beta_pa: Along
    viscous_pa_s_m: Along = 0.0

    def coefficients(self, place: Reals, radius_m: Reals) -> Reals:
        """See :class:`Wall`."""
        return _rows(place, {ELASTIC: along(self.beta_pa, place)})


@dataclass(frozen=True)
class OlufsenWall:
    """A wall whose stiffness falls with the radius: p = 4/3 (k1 exp(k2 R0) + k3) (1 - sqrt(A0/A)).

    Source: Olufsen (1999), doi:10.1152/ajpheart.1999.276.1.H257.

    Attributes
    ----------
    k1_pa, k2_per_m, k3_pa : its parameters, k2 below 0.
    viscous_pa_s_m : see :class:`Wall`.
    """

    k1_pa: float
    k2_per_m: float
    k3_pa: float
    viscous_pa_s_m: Along = 0.0

    def coefficients(self, place: Reals, radius_m: Reals) -> Reals:
        """See :class:`Wall`."""
        stiffness = 4.0 / 3.0 * (self.k1_pa * np.exp(self.k2_per_m * radius_m) + self.k3_pa)
        return _rows(place, {HYPERBOLIC: stiffness})


@dataclass(frozen=True)
class FibreWall:
    """A wall of elastin, and of collagen that is recruited about a strain e_0, over a range e_r of strains.

        p = pi R0 h/A [E_E e + E_C e_r ln(1 + exp((e - e_0)/e_r))],    e = sqrt(A/A0) - 1.

    Far below e_0 elastin carries alone, far above it the slope is E_E + E_C. The form is meant as that of the ADAN
    model (Blanco et al. 2015, doi:10.1109/TBME.2014.2364522, after Urquiza et al. 2006), with which it could not be
    compared: neither the paper's text nor a program that holds its law was at hand. The bracket at e = 0, which is
    E_C e_r exp(-e_0/e_r) nearly, is taken off, so that the lumen has its area A0 at the reference pressure.

    Attributes
    ----------
    elastin_pa : E_E.
    collagen_pa : E_C.
    recruited_at : e_0, strain at which half of the collagen is recruited.
    recruited_over : e_r, range of strains over which it is.
    thickness_m : h; none: that of :func:`empirical_thickness_m`.
    viscous_pa_s_m : see :class:`Wall`.
    """

    elastin_pa: Along
    collagen_pa: Along
    recruited_at: float
    recruited_over: float
    thickness_m: Along | None = None
    viscous_pa_s_m: Along = 0.0

    def coefficients(self, place: Reals, radius_m: Reals) -> Reals:
        """See :class:`Wall`."""
        thickness = empirical_thickness_m(radius_m) if self.thickness_m is None else along(self.thickness_m, place)
        relative = thickness / radius_m
        return _rows(
            place,
            {
                ELASTIN: relative * along(self.elastin_pa, place),
                COLLAGEN: relative * along(self.collagen_pa, place),
                RECRUITED_AT: np.full(place.shape, self.recruited_at),
                RECRUITED_OVER: np.full(place.shape, self.recruited_over),
            },
        )
