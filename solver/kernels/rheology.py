# SPDX-License-Identifier: Apache-2.0
"""Relaxation at each node where the viscosity varies: with the shear rate, with turbulence, or at openings.

The non-equilibrium momentum flux Pi tells the shear rate at the node, g = K/tau with K = (3/sqrt 2) sqrt(Pi:Pi). Each
step takes one explicit step of the fixed point tau = 1/2 + 3 nu(K/tau): from Pi as it arrives and the omega = 1/tau of
the step before follows the omega of this one, which the node keeps. In this order,

    tau = clip(1/2 + 3 nu(g)),    tau + 3 (C dx)^2 max(g - g_0, 0),    tau + b (1 - tau),

the second after Smagorinsky (1963), C dx in lattice units, with an onset g_0 of the shear rate; b the node's share of a
blend towards tau = 1. Bingham's model has a closed form, with no shear below the yield stress,

    omega = omega_p max(0, 1 - tau_y / sqrt(Pi:Pi/2)),    omega_p = 1/(1/2 + 3 nu_p),

since the stress is (1 - omega/2) sqrt(Pi:Pi/2). What is compiled depends on the names of models alone. Where nothing
follows from the flow, as with the blend alone, omega of each node stays as it is before the first step (`GIVEN`).
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.kernels.d3q19 import Q
from solver.kernels.node_physics import Populations, make_density, make_macroscopic, make_stress, node_function
from solver.kernels.power import make_parts, make_power
from solver.kernels.storage import NATIVE, make_access
from solver.kernels.viscosity_models import VISCOSITIES, Real

LEAST_TAU, MOST_TAU = 0.5005, 100.0
"""Bounds of tau where it follows the shear rate: what is thinner is hardly damped, what is thicker moves as a block.
Where tau is less at the viscosity that units are chosen by, a little less than that is the bound: no bound makes blood
thicker than it is."""
THINNER = 0.99
"""Part of that viscosity."""
LEAST_RATE = 1e-20
"""Shear rates are at least this, in lattice units: models divide by them."""
GIVEN = "given"
"""Model of a viscosity that differs from node to node and does not follow from the flow."""
NUMERICS = 6
"""Numbers in front of the model's own parameters, see `Rheology.numbers`."""


@dataclass(frozen=True)
class Rheology:
    """Viscosity that varies, in lattice units.

    Attributes
    ----------
    model : name of one of `solver.run.blood.MODELS`, or `GIVEN`.
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
    return Rheology(model if model != "newtonian" or smagorinsky else GIVEN, numbers, blend)


def omega_before(rheology: Rheology, omega: float, count: int, real: Any) -> NDArray[np.floating]:
    """Omega of so many nodes before the first step, in the type that is computed with, (count,).

    Parameters
    ----------
    rheology : how the viscosity varies.
    omega : at the viscosity that units are chosen by.
    count : how many nodes.
    real : NumPy type.
    """
    before: NDArray[np.floating] = np.full(count, omega, real)
    if rheology.model == GIVEN:
        one, (_, _, lowest, highest, _, _, viscosity) = real(1), map(real, rheology.numbers)
        before[:] = max(lowest, min(highest, one / (real(0.5) + real(3) * viscosity)))
        if rheology.blend is not None:
            share = rheology.blend.astype(before.dtype)
            before /= one - share + share * before
    return before


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

    @node_function
    def given(g: Populations, force: Populations, before: Any, share: Any, numbers: Any) -> tuple[Any, Any]:
        drho, x, y, z = macroscopic(g, force)
        return before, stress(g, drho, (x, y, z), force)

    if model == GIVEN:
        return given

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


class Relaxation(NamedTuple):
    """What relaxes nodes: functions for a step, in their order.

    Attributes
    ----------
    known : ``(omega, blend, n) -> known``, what is read of node n.
    rates : ``(g, force, rates, known) -> (omega+, omega-)``.
    keep : ``(omega, n, rates)``, which writes what the next step reads.
    """

    known: Any
    rates: Any
    keep: Any


@cache
def make_relaxation(
    model: str | None, blended: bool, equilibrium: str, real: Real, numbers: Numbers | None = None, q: int = Q
) -> Relaxation:
    """How a node is relaxed in a step.

    Without a model the rates are `rates`, and the arrays are not touched. With one, `rates` are `Rheology.numbers`,
    `omega` holds that of each node in the step before and gets this one's, and omega- follows from TRT's Lambda,

        omega- = 1/(1/2 + Lambda/(tau - 1/2)) = (2 - omega)/(1 - omega/2 + 2 Lambda omega),

    which holds for omega = 0, too. `numbers` tells how to work on several nodes at once, of which n is the first.

    Makers' other parameters are those of :mod:`solver.kernels`.
    """

    @node_function
    def nothing(omega: Any, blend: Any, n: int) -> None:
        return None

    @node_function
    def given(g: Populations, force: Populations, rates: Any, known: Any) -> Populations:
        return rates

    @node_function
    def left(omega: Any, n: int, rates: Any) -> None:
        pass

    if model is None:
        return Relaxation(nothing, given, left)

    read, write, power = numbers or one_number(real)
    local_rate, share = make_local_rate(model, blended, equilibrium, real, power, q), _make_share(blended, real, read)
    half, one, two = real(0.5), real(1), real(2)

    @node_function
    def before(omega: Any, blend: Any, n: int) -> Populations:
        return read(omega, n), share(blend, n)

    @node_function
    def local(g: Populations, force: Populations, rates: Any, known: Any) -> Populations:
        even, _ = local_rate(g, force, known[0], known[1], rates)
        return even, (two - even) / (one - half * even + two * rates[0] * even)

    @node_function
    def written(omega: Any, n: int, rates: Any) -> None:
        write(omega, n, rates[0])

    return Relaxation(before, local, left if model == GIVEN else written)


@cache
def make_rates(
    model: str | None, blended: bool, equilibrium: str, real: Real, numbers: Numbers | None = None, q: int = Q
) -> Any:
    """Function ``(g, n, force, rates, omega, blend) -> (omega+, omega-)`` of node n for a step.

    It reads, relaxes and keeps as :func:`make_relaxation` says; its parameters are those of that function.
    """
    known, rates_from, keep = make_relaxation(model, blended, equilibrium, real, numbers, q)

    @node_function
    def rates_of(g: Populations, n: int, force: Populations, rates: Any, omega: Any, blend: Any) -> Populations:
        own = rates_from(g, force, rates, known(omega, blend, n))
        keep(omega, n, own)
        return own

    return rates_of


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
