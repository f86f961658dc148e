# SPDX-License-Identifier: Apache-2.0
"""Solutions of pulsatile flow through a straight round pipe into a Windkessel.

To the mean of a flow Q + Re(q exp(i w t)) belongs the steady solution of Hagen and Poiseuille, to its oscillatory
component that of Womersley (1955, doi:10.1113/jphysiol.1955.sp005276): with U = q/(pi R^2), alpha = R sqrt(w/nu), l =
i^(3/2) alpha and k = 1 - 2 J1(l)/(l J0(l)),

    -dp/dx = i w rho U/k,   u = U (1 - J0(l r/R)/J0(l))/k,   tau = R/2 (-dp/dx - i w rho U),

tau the stress on the wall, from the balance of forces on the fluid. At the outlet p = Z q, with the impedance
Z = Rp + Rd/(1 + i w Rd C) of a proximal and a distal resistance and a compliance.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import jv

from solver.boundary.windkessel import PASCAL_PER_MMHG

Reals = NDArray[np.float64]


def inertial_part(alpha: ArrayLike) -> NDArray[np.complex128]:
    """The mean velocity over that of a fluid without friction, k = 1 - 2 J1(l)/(l J0(l)), at Womersley numbers."""
    scaled = 1j**1.5 * np.asarray(alpha)
    part: NDArray[np.complex128] = 1 - 2 * jv(1, scaled) / (scaled * jv(0, scaled))
    return part


def harmonic_shear(alpha: ArrayLike) -> NDArray[np.complex128]:
    """Wall shear stress of a flow that oscillates over that of the same flow when steady, 4 mu U/R, at Womersley
    numbers.

    tau/(4 mu U/R) = i alpha^2/8 (1/k - 1).
    """
    return 1j * np.square(alpha) / 8 * (1 / inertial_part(alpha) - 1)


def shear_indices(shear: Reals) -> dict[str, Reals]:
    """TAWSS, OSI, RRT and peak of a stress along one direction; times lie along the last axis."""
    mean, size = np.abs(shear.mean(axis=-1)), np.abs(shear).mean(axis=-1)
    return {"TAWSS": size, "OSI": (1 - mean / size) / 2, "RRT": 1 / mean, "peak": np.abs(shear).max(axis=-1)}


@dataclass(frozen=True)
class Windkessel:
    """Three elements behind an outlet, in mmHg, mL and s, as the key ``windkessel`` of a case has them."""

    proximal_mmhg_s_ml: float
    distal_mmhg_s_ml: float
    compliance_ml_mmhg: float

    def impedance_pa_s_ml(self, omega: float) -> complex:
        """Rp + Rd/(1 + i w Rd C)."""
        behind = self.distal_mmhg_s_ml / (1 + 1j * omega * self.distal_mmhg_s_ml * self.compliance_ml_mmhg)
        return PASCAL_PER_MMHG * (self.proximal_mmhg_s_ml + behind)


@dataclass(frozen=True)
class PulsatilePipe:
    """Solutions in a pipe for a flow Q + Re(q exp(i w t)), Q and q in mL/s; the rest in SI.

    Attributes
    ----------
    radius_m, period_s, viscosity_m2_s, density_kg_m3 : R, 2 pi/w, nu, rho.
    flow_ml_s : Q.
    """

    radius_m: float
    period_s: float
    viscosity_m2_s: float
    density_kg_m3: float
    flow_ml_s: float

    @property
    def omega(self) -> float:
        """Angular frequency, w."""
        return 2 * np.pi / self.period_s

    @property
    def alpha(self) -> float:
        """Womersley number."""
        return float(self.radius_m * np.sqrt(self.omega / self.viscosity_m2_s))

    @property
    def reynolds(self) -> float:
        """2 R U/nu of the mean flow."""
        return float(2 * self.radius_m * self.speed(self.flow_ml_s).real / self.viscosity_m2_s)

    def speed(self, flow_ml_s: complex) -> complex:
        """Mean over the section of a flow, m/s."""
        return 1e-6 * flow_ml_s / (np.pi * self.radius_m**2)

    def steady_velocity(self, r: Reals) -> Reals:
        """Of the mean flow, at distances from the axis in radii."""
        return 2 * self.speed(self.flow_ml_s).real * (1 - r**2)

    def steady_gradient(self) -> float:
        """-dp/dx of the mean flow, Pa/m."""
        return 8 * self._viscosity_pa_s * self.speed(self.flow_ml_s).real / self.radius_m**2

    def velocity(self, flow_ml_s: complex, r: Reals) -> NDArray[np.complex128]:
        """Of a flow that oscillates, U (1 - J0(l r/R)/J0(l))/k."""
        scaled = 1j**1.5 * self.alpha
        profile = (1 - jv(0, scaled * r) / jv(0, scaled)) / inertial_part(self.alpha)
        return np.asarray(self.speed(flow_ml_s) * profile)

    def gradient(self, flow_ml_s: complex) -> complex:
        """-dp/dx of a flow that oscillates, i w rho U/k, Pa/m."""
        return complex(1j * self.omega * self.density_kg_m3 * self.speed(flow_ml_s) / inertial_part(self.alpha))

    def shear_pa(self, flow_ml_s: complex) -> complex:
        """Wall shear stress of a flow that oscillates."""
        return complex(self.steady_shear_pa(flow_ml_s) * harmonic_shear(self.alpha))

    def steady_shear_pa(self, flow_ml_s: complex) -> complex:
        """The same of a flow that is steady, 4 mu U/R."""
        return 4 * self._viscosity_pa_s * self.speed(flow_ml_s) / self.radius_m

    def turning(self, times_s: ArrayLike) -> NDArray[np.complex128]:
        """exp(i w t)."""
        return np.asarray(np.exp(1j * self.omega * np.asarray(times_s)))

    @property
    def _viscosity_pa_s(self) -> float:
        return self.viscosity_m2_s * self.density_kg_m3


def first_harmonic(times_s: Reals, values: Reals, period_s: float) -> complex:
    """The amplitude a of Re(a exp(i w t)) in samples spread evenly over whole periods.

    Parameters
    ----------
    times_s, values : (T,) samples.
    period_s : 2 pi/w.
    """
    return complex(2 * np.mean(values * np.exp(-2j * np.pi * times_s / period_s)))


def phase_deg(ratio: complex) -> float:
    """Phase of a complex number in degrees, -180 to 180."""
    return float(np.degrees(np.angle(ratio)))
