# SPDX-License-Identifier: Apache-2.0
"""Relaxation at each node where the viscosity varies: with the shear rate, with turbulence, or at openings.

The non-equilibrium momentum flux Pi tells the shear rate at the node, g = K/tau with K = (3/sqrt 2) sqrt(Pi:Pi). Each
step takes one explicit step of the fixed point tau = 1/2 + 3 nu(K/tau): from Pi as it arrives and the omega = 1/tau of
the step before follows the omega of this one, which the node keeps. In this order,

    tau = clip(1/2 + 3 nu(g)),    tau + 3 (C dx)^2 max(g - g_0, 0),    tau + b (1 - tau),

the second after Smagorinsky (1963), C dx in lattice units, with an onset g_0 of the shear rate; b the node's share of a
blend towards tau = 1. Bingham's model has a closed form, with no shear below the yield stress,

    omega = omega_p max(0, 1 - tau_y / sqrt(Pi:Pi/2)),    omega_p = 1/(1/2 + 3 nu_p),

since the stress is (1 - omega/2) sqrt(Pi:Pi/2). What is compiled depends on the names of models alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.kernels.d3q19 import Q
from solver.kernels.node_physics import Populations, make_density, make_macroscopic, make_stress, node_function
from solver.kernels.power import make_parts, make_power
from solver.kernels.storage import NATIVE, make_access

Real = Callable[[float], Any]

LEAST_TAU, MOST_TAU = 0.5005, 100.0
"""Bounds of tau where it follows the shear rate: what is thinner is hardly damped, what is thicker moves as a block.
Where tau is less at the viscosity that units are chosen by, a little less than that is the bound: no bound makes blood
thicker than it is."""
THINNER = 0.99
"""Part of that viscosity."""
LEAST_RATE = 1e-20
"""Shear rates are at least this, in lattice units: models divide by them."""
NUMERICS = 6
"""Numbers in front of the model's own parameters, see `Rheology.numbers`."""


@dataclass(frozen=True)
class Rheology:
    """Viscosity that varies, in lattice units.

    Attributes
    ----------
    model : name of one of `solver.run.blood.MODELS`.
    numbers : TRT's Lambda, (C dx)^2 of Smagorinsky, least and largest omega, 1 - omega/2 at the viscosity that units
        are chosen by, the shear rate g_0 from which on there are eddies, the model's parameters in its order.
    blend : (N,) share of the blend towards tau = 1, in 0..1; none if there is no such node.
    """

    model: str
    numbers: tuple[float, ...]
    blend: NDArray[np.floating] | None = None


def make_rheology(
    model: str,
    parameters: tuple[float, ...],
    tau: float,
    lambda_trt: float,
    smagorinsky: float = 0.0,
    blend: NDArray[np.floating] | None = None,
    onset: float = 0.0,
) -> Rheology | None:
    """Rheology of a model; none if the viscosity is the same everywhere.

    Parameters
    ----------
    model, parameters : of :class:`solver.run.blood.Blood`, in lattice units.
    tau, lambda_trt : relaxation time at the viscosity that units are chosen by, and TRT's Lambda.
    smagorinsky : constant C of the eddy viscosity (C dx)^2 (g - g_0); 0 for none.
    blend : (N,) share of the blend towards tau = 1.
    onset : g_0, lattice units.
    """
    if model == "newtonian" and not smagorinsky and blend is None:
        return None
    least = min(LEAST_TAU, 0.5 + THINNER * (tau - 0.5))
    numbers = (lambda_trt, smagorinsky**2, 1 / MOST_TAU, 1 / least, 1 - 0.5 / tau, onset, *parameters)
    return Rheology(model, numbers, blend)


def thinned(viscosity: NDArray[np.floating], blend: NDArray[np.floating], reference: float) -> NDArray[np.float64]:
    """Viscosity without the blend over that with it, (N,), of nu = (1 - b) nu_blood + b/6, which is tau + b (1 - tau).

    Parameters
    ----------
    viscosity : (N,) nu, lattice units.
    blend : (N,) share b.
    reference : what nu_blood is taken for where b is 1 and nu tells nothing of it.
    """
    nu, share = np.asarray(viscosity, np.float64), np.asarray(blend, np.float64)
    blood = np.divide(nu - share / 6, 1 - share, out=np.full_like(nu, reference), where=share < 1)
    return np.divide(blood, nu, out=np.ones_like(nu), where=share > 0)


class Numbers(NamedTuple):
    """How numbers of nodes are worked with, one or several at a time.

    Attributes
    ----------
    read : ``(array, n)``, that of node n.
    write : ``(array, n, number)``, to there.
    power : ``(x, e) -> x^e`` of positive numbers, see :mod:`solver.kernels.power`.
    """

    read: Any
    write: Any
    power: Any


@cache
def one_number(real: Real) -> Numbers:
    """A node at a time."""
    return Numbers(*make_access(NATIVE, real)[:2], make_power(real, make_parts(real)))


def newtonian(real: Real, power: Any) -> Any:
    """nu(g) of (nu,)."""

    @node_function
    def viscosity(rate: Any, p: Any) -> Any:
        return p[0]

    return viscosity


def carreau_yasuda(real: Real, power: Any) -> Any:
    """nu(g) of (nu_0, nu_inf, lambda, a, n)."""
    one = real(1)

    @node_function
    def viscosity(rate: Any, p: Any) -> Any:
        return p[1] + (p[0] - p[1]) * power(one + power(p[2] * rate, p[3]), (p[4] - one) / p[3])

    return viscosity


def casson(real: Real, power: Any) -> Any:
    """nu(g) of (tau_y, nu_c, nu_max)."""

    @node_function
    def viscosity(rate: Any, p: Any) -> Any:
        root = math.sqrt(p[0] / rate) + math.sqrt(p[1])
        return min(root * root, p[2])

    return viscosity


def power_law(real: Real, power: Any) -> Any:
    """nu(g) of (k, n)."""
    one = real(1)

    @node_function
    def viscosity(rate: Any, p: Any) -> Any:
        return p[0] * power(rate, p[1] - one)

    return viscosity


def herschel_bulkley(real: Real, power: Any) -> Any:
    """nu(g) of (tau_y, k, n, m)."""
    one = real(1)

    @node_function
    def viscosity(rate: Any, p: Any) -> Any:
        return p[1] * power(rate, p[2] - one) - p[0] * math.expm1(-p[3] * rate) / rate

    return viscosity


VISCOSITIES: dict[str, Callable[[Real, Any], Any]] = {
    "newtonian": newtonian,
    "carreau-yasuda": carreau_yasuda,
    "casson": casson,
    "power-law": power_law,
    "herschel-bulkley": herschel_bulkley,
}
"""Makers of the function ``(g, parameters) -> nu`` for a floating-point type and its power, by name; Bingham's is
`_yielding`."""


def _by_viscosity(real: Real, viscosity: Any) -> Any:
    half, one, three = real(0.5), real(1), real(3)

    @node_function
    def relaxation(size: Any, rate: Any, numbers: Any) -> Any:
        return max(numbers[2], min(numbers[3], one / (half + three * viscosity(rate, numbers[NUMERICS:]))))

    return relaxation


def _yielding(real: Real) -> Any:
    """Bingham's model: (tau_y, nu_p)."""
    half, zero, one, three = real(0.5), real(0), real(1), real(3)
    root_half, least = real(0.5**0.5), real(LEAST_RATE)

    @node_function
    def relaxation(size: Any, rate: Any, numbers: Any) -> Any:
        flows = one - numbers[NUMERICS] / max(root_half * size, least)
        return max(zero, flows) * min(numbers[3], one / (half + three * numbers[NUMERICS + 1]))

    return relaxation


@cache
def make_local_rate(model: str, blended: bool, equilibrium: str, real: Real, power: Any, q: int = Q) -> Any:
    """Function ``(g, force, before, share, numbers) -> (omega, Pi)`` of one node's arriving populations.

    `before` is its omega in the step before, `share` that of the blend, which is left out unless `blended`.

    Makers' parameters are those of :mod:`solver.kernels`; `power` is a function ``(base, exponent)``.
    """
    macroscopic, stress = make_macroscopic(real, equilibrium, q), make_stress(real, equilibrium, q)
    density = make_density(real, equilibrium)
    relaxation = _yielding(real) if model == "bingham" else _by_viscosity(real, VISCOSITIES[model](real, power))
    zero, one, two, three = real(0), real(1), real(2), real(3)
    to_rate, least = real(3 / 2**0.5), real(LEAST_RATE)

    @node_function
    def local_rate(g: Populations, force: Populations, before: Any, share: Any, numbers: Any) -> tuple[Any, Any]:
        drho, x, y, z = macroscopic(g, force)
        pi = stress(g, drho, (x, y, z), force)
        xx, yy, zz, xy, xz, yz = pi
        size = math.sqrt(xx * xx + yy * yy + zz * zz + two * (xy * xy + xz * xz + yz * yz))
        rate = max(to_rate * size * before / density(drho), least)
        omega = relaxation(size, rate, numbers)
        omega = omega / (one + omega * (three * numbers[1] * max(rate - numbers[5], zero)))
        if blended:
            omega = omega / (one - share + share * omega)
        return omega, pi

    return local_rate


@cache
def make_rates(
    model: str | None, blended: bool, equilibrium: str, real: Real, numbers: Numbers | None = None, q: int = Q
) -> Any:
    """Function ``(g, n, force, rates, omega, blend) -> (omega+, omega-)`` of node n for a step.

    Without a model these are `rates`, and the arrays are not touched. With one, `rates` are `Rheology.numbers`, `omega`
    holds that of each node in the step before and gets this one's, and omega- follows from TRT's Lambda,

        omega- = 1/(1/2 + Lambda/(tau - 1/2)) = (2 - omega)/(1 - omega/2 + 2 Lambda omega),

    which holds for omega = 0, too. `numbers` tells how to work on several nodes at once, of which n is the first.

    Makers' other parameters are those of :mod:`solver.kernels`.
    """
    if model is None:

        @node_function
        def constant(g: Populations, n: int, force: Populations, rates: Any, omega: Any, blend: Any) -> Populations:
            return rates

        return constant

    read, write, power = numbers or one_number(real)
    local_rate, share = make_local_rate(model, blended, equilibrium, real, power, q), _make_share(blended, real, read)
    half, one, two = real(0.5), real(1), real(2)

    @node_function
    def local(g: Populations, n: int, force: Populations, rates: Any, omega: Any, blend: Any) -> Populations:
        even, _ = local_rate(g, force, read(omega, n), share(blend, n), rates)
        write(omega, n, even)
        return even, (two - even) / (one - half * even + two * rates[0] * even)

    return local


def _make_share(blended: bool, real: Real, read: Any) -> Any:
    """Function ``(blend, n)`` of node n's share of the blend."""
    zero = real(0)

    @node_function
    def none(blend: Any, n: int) -> Any:
        return zero

    @node_function
    def share(blend: Any, n: int) -> Any:
        return read(blend, n)

    return share if blended else none


@cache
def make_fields(model: str | None, blended: bool, equilibrium: str, real: Real, q: int = Q) -> Any:
    """Function ``(g, n, force, rates, omega, blend) -> (drho, velocity, stress, viscosity)`` of node n.

    `rates`, `omega` and `blend` as for :func:`make_rates`; the fields are those of
    :class:`solver.backends.fields.Fields`, the viscosity 0 without a model. With one, the stress is that with the
    omega which the next step would collide with, and Bingham's viscosity, which is infinite where nothing is sheared,
    is given as if tau were at most `MOST_TAU` there.

    Makers' parameters are those of :mod:`solver.kernels`.
    """
    macroscopic, stress_of = make_macroscopic(real, equilibrium, q), make_stress(real, equilibrium, q)
    zero, half, one, third = real(0), real(0.5), real(1), real(1 / 3)

    @node_function
    def constant(g: Populations, n: int, force: Populations, rates: Any, omega: Any, blend: Any) -> Populations:
        drho, x, y, z = macroscopic(g, force)
        return drho, (x, y, z), stress_of(g, drho, (x, y, z), force), zero

    if model is None:
        return constant

    read, _, power = one_number(real)
    local_rate = make_local_rate(model, blended, equilibrium, real, power, q)
    share_of = _make_share(blended, real, read)

    @node_function
    def local(g: Populations, n: int, force: Populations, rates: Any, omega: Any, blend: Any) -> Populations:
        drho, x, y, z = macroscopic(g, force)
        even, (xx, yy, zz, xy, xz, yz) = local_rate(g, force, read(omega, n), share_of(blend, n), rates)
        share = (one - half * even) / rates[4]
        stress = (share * xx, share * yy, share * zz, share * xy, share * xz, share * yz)
        return drho, (x, y, z), stress, third * (one / max(even, rates[2]) - half)

    return local
