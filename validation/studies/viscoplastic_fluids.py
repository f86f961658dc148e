# SPDX-License-Identifier: Apache-2.0
"""Flow of fluids whose viscosity follows the shear rate between plates and through round pipes, as theory has it.

The theory holds in any coherent units. y is the distance from the middle, h half the distance of the plates, and G y
the stress. In a round pipe of radius h the stress is G y/2: all that is said of plates holds there with half the force.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LEAST_RATE, MOST_RATE = 1e-20, 1e4
"""Between these the quadrature looks for shear rates."""
SHEARED = 0.1
"""Of the largest shear rate: what is sheared by more tells where the plug ends."""


@dataclass(frozen=True)
class Fluid:
    """Herschel and Bulkley's fluid, whose stress is tau_y + k g^n where it is sheared.

    Bingham's where n = 1, a power law where tau_y = 0, Newton's where both hold.

    Attributes
    ----------
    yield_stress, consistency, index : tau_y, k, n.
    """

    yield_stress: float
    consistency: float
    index: float

    def velocity(self, y: Array, half: float, force: float) -> Array:
        """Velocity, of the shape of `y`, under a force G per volume, the same as a gradient of the pressure.

        u = n/(n + 1) (G/k)^(1/n) [(h - y_0)^(1 + 1/n) - max(y - y_0, 0)^(1 + 1/n)],    y_0 = tau_y/G.

        Parameters
        ----------
        y : distances from the middle, of any shape.
        half : h, half the distance of the plates.
        force : G, per volume.
        """
        edge, power = self.plug_width(force) / 2, 1 + 1 / self.index
        sheared = (half - edge) ** power - np.maximum(np.abs(y) - edge, 0) ** power
        return (force / self.consistency) ** (1 / self.index) / power * sheared

    def pipe_flow(self, radius: float, stress: float) -> float:
        """Flow through a round pipe, with s = t - tau_y of the stress t at its wall.

        Q = pi R^3 n/t^3 (s/k)^(1/n) s [s^2/(3 n + 1) + 2 tau_y s/(2 n + 1) + tau_y^2/(n + 1)],

        from Rabinowitsch's integral (:func:`pipe_flow_by_quadrature`). Of Bingham's fluid it is
        pi R^3 t/(4 k) [1 - 4/3 (tau_y/t) + 1/3 (tau_y/t)^4] (Buckingham 1921, Proc. ASTM 21, 1154).
        """
        over, n = stress - self.yield_stress, self.index
        if over <= 0:
            return 0.0
        parts = over**2 / (3 * n + 1) + 2 * self.yield_stress * over / (2 * n + 1) + self.yield_stress**2 / (n + 1)
        return float(np.pi * radius**3 * n / stress**3 * self.shear_rate(stress) * over * parts)

    def shear_rate(self, stress: float) -> float:
        """Shear rate at a stress."""
        return float((max(stress - self.yield_stress, 0.0) / self.consistency) ** (1 / self.index))

    def plug_width(self, force: float) -> float:
        """Width 2 tau_y/G over which the stress does not suffice to shear the fluid."""
        return 2 * self.yield_stress / force

    @property
    def straight(self) -> tuple[float, float]:
        """Powers of the shear rate and of the distance from the middle that are linear in each other: n, 1."""
        return self.index, 1.0


@dataclass(frozen=True)
class Casson:
    """Casson's fluid: the root of its stress is sqrt(tau_y) + sqrt(mu g) where it is sheared.

    Source: Fung (1993), Biomechanics, chapter 3, doi:10.1007/978-1-4757-2257-4.

    Attributes
    ----------
    yield_stress, viscosity : tau_y, mu.
    """

    yield_stress: float
    viscosity: float

    def velocity(self, y: Array, half: float, force: float) -> Array:
        """Velocity, of the shape of `y`, under a force G per volume; y is at least y_0 = tau_y/G.

        u = [G (h^2 - y^2)/2 - 4/3 sqrt(tau_y G) (h^(3/2) - y^(3/2)) + tau_y (h - y)]/mu.

        Parameters
        ----------
        y : distances from the middle, of any shape.
        half : h, half the distance of the plates.
        force : G, per volume.
        """
        y = np.maximum(np.abs(y), self.plug_width(force) / 2)
        roots = 4 / 3 * np.sqrt(self.yield_stress * force) * (half**1.5 - y**1.5)
        return (force * (half**2 - y**2) / 2 - roots + self.yield_stress * (half - y)) / self.viscosity

    def pipe_flow(self, radius: float, stress: float) -> float:
        """Flow through a round pipe at whose wall the stress is t, with s = tau_y/t.

        Q = pi R^3 t/(4 mu) (1 - 16/7 sqrt(s) + 4/3 s - s^4/21).
        """
        s = min(self.yield_stress / stress, 1.0)
        part = 1 - 16 / 7 * s**0.5 + 4 / 3 * s - s**4 / 21
        return float(np.pi * radius**3 * stress / (4 * self.viscosity) * part)

    def shear_rate(self, stress: float) -> float:
        """Shear rate at a stress."""
        return max(stress**0.5 - self.yield_stress**0.5, 0.0) ** 2 / self.viscosity

    def plug_width(self, force: float) -> float:
        """Width 2 tau_y/G over which the stress does not suffice to shear the fluid."""
        return 2 * self.yield_stress / force

    @property
    def straight(self) -> tuple[float, float]:
        """Powers of the shear rate and of the distance from the middle that are linear in each other: the roots."""
        return 0.5, 0.5


def shear_rate_of(stress: Array, viscosity: Callable[[Array], Array], yield_stress: float = 0.0) -> Array:
    """Shear rate g of any fluid at stresses mu(g) g, of the same shape, by bisection.

    Parameters
    ----------
    stress : of any shape.
    viscosity : mu at shear rates g, of their shape.
    yield_stress : at and below which the rate is 0.
    """
    low, high = np.full(stress.shape, np.log10(LEAST_RATE)), np.full(stress.shape, np.log10(MOST_RATE))
    for _ in range(80):
        exponent = (low + high) / 2
        less = viscosity(10**exponent) * 10**exponent < stress
        low, high = np.where(less, exponent, low), np.where(less, high, exponent)
    return np.where(stress > yield_stress, 10**low, 0.0)


def _places(y: Array, half: float) -> tuple[Array, Array]:
    """Places from each of `y`, (N,), to the wall and weights of integrals over these, (N, 8, 40).

    Gauss's rule of 40 points in each of 8 pieces that grow finer towards the middle, where the velocity may be as
    y^(1/n).
    """
    edges = y[:, None] + (half - y)[:, None] * np.linspace(0, 1, 9) ** 2
    points, weights = np.polynomial.legendre.leggauss(40)
    middle, reach = (edges[:, 1:] + edges[:, :-1]) / 2, (edges[:, 1:] - edges[:, :-1]) / 2
    return middle[..., None] + reach[..., None] * points, reach[..., None] * weights


def velocity_by_quadrature(
    y: Array, half: float, force: float, viscosity: Callable[[Array], Array], yield_stress: float = 0.0
) -> Array:
    """Velocity, (N,), from the balance G y = mu(g) g of any fluid: the integral of g from there to the wall.

    Parameters
    ----------
    y : (N,) distances from the middle.
    half : h.
    force : G, per volume.
    viscosity, yield_stress : as of :func:`shear_rate_of`.
    """
    place, weight = _places(np.abs(y), half)
    return (shear_rate_of(force * place, viscosity, yield_stress) * weight).sum(axis=(1, 2))


def pipe_flow_by_quadrature(
    radius: float, stress: float, viscosity: Callable[[Array], Array], yield_stress: float = 0.0
) -> float:
    """Flow of any fluid through a round pipe at whose wall the stress is t: pi times the integral of r^2 g(t r/R).

    It is that of 2 pi r u by parts, u = 0 at the wall (Rabinowitsch 1929, Z. Phys. Chem. A 145, 1).

    Parameters
    ----------
    radius : R.
    stress : t.
    viscosity, yield_stress : as of :func:`shear_rate_of`.
    """
    place, weight = _places(np.zeros(1), radius)
    return float(np.pi * (place**2 * shear_rate_of(stress / radius * place, viscosity, yield_stress) * weight).sum())


def shear_between(y: Array, velocity: Array) -> tuple[Array, Array]:
    """Distances from the middle and shear rates, (N - 1,), half-way between evenly spaced places, (N,)."""
    return np.abs(y[1:] + y[:-1]) / 2, np.abs(np.diff(velocity) / np.diff(y))


def plug_width(place: Array, rate: Array, straight: tuple[float, float]) -> float:
    """Width of the plug as shear rates at distances from the middle, (N,), show it; 0 where there is none.

    A power of the shear rate grows linearly with one of the distance from the plug: its edge is where the line through
    that of the fluid that is well sheared, by least squares, reaches zero.

    Parameters
    ----------
    place, rate : (N,) distances from the middle and the shear rates there.
    straight : the powers of rate and place, :attr:`Fluid.straight`.
    """
    of_rate, of_place = straight
    well = rate > SHEARED * rate.max()
    slope, at_zero = np.polyfit(place[well] ** of_place, rate[well] ** of_rate, 1)
    return 2 * max(0.0, float(-at_zero / slope)) ** (1 / of_place)


CLOSED: dict[str, Callable[[Mapping[str, float]], Fluid | Casson]] = {
    "newtonian": lambda given: Fluid(0.0, given["mu_pa_s"], 1.0),
    "power-law": lambda given: Fluid(0.0, given["k_pa_s_n"], given["n"]),
    "bingham": lambda given: Fluid(given["yield_stress_pa"], given["mu_p_pa_s"], 1.0),
    "herschel-bulkley": lambda given: Fluid(given["yield_stress_pa"], given["k_pa_s_n"], given["n"]),
    "casson": lambda given: Casson(given["yield_stress_pa"], given["mu_c_pa_s"]),
}
"""Makers of the fluid with a closed form, which yields at once, from parameters of models of `solver.run.blood`."""
