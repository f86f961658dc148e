# SPDX-License-Identifier: Apache-2.0
"""Viscosity of one node by its shear rate, in lattice units; :mod:`solver.run.blood` has the formulas and sources."""

import math
from collections.abc import Callable
from typing import Any

from solver.kernels.node_physics import node_function

Real = Callable[[float], Any]


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
"""Makers of the function ``(g, parameters) -> nu`` for a floating-point type and its power, by name; Bingham's has a
closed form in :mod:`solver.kernels.rheology`."""
