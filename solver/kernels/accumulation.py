# SPDX-License-Identifier: Apache-2.0
"""Means and statistics of the fields of a node, as :mod:`solver.kernels.rheology` tells them, over states of a run."""

import math
from functools import cache
from typing import Any

from solver.kernels.node_physics import Populations, node_function
from solver.kernels.viscosity_models import Real


@node_function
def accumulated(mean: Any, value: Any, share: Any) -> Any:
    """Mean + share (value - mean), the value itself for a share of 1.

    Parameters
    ----------
    mean : of the states before.
    value : of the present state.
    share : 1/n of the n-th state.
    """
    return value if share >= 1 else mean + share * (value - mean)


@cache
def make_accumulation(varying: bool) -> Any:
    """Function ``(means, n, fields, share)`` that takes what `make_fields` tells of node n into means of fields.

    `means` are the arrays of :class:`solver.backends.fields.Fields`, the last of them where the viscosity is `varying`.
    """

    @node_function
    def accumulate(means: Any, n: int, fields: Populations, share: Any) -> None:
        drho, velocity, stress = means[0], means[1], means[2]
        drho[n] = accumulated(drho[n], fields[0], share)
        for a in range(3):
            velocity[a, n] = accumulated(velocity[a, n], fields[1][a], share)
        for a in range(6):
            stress[a, n] = accumulated(stress[a, n], fields[2][a], share)
        if varying:
            means[3][n] = accumulated(means[3][n], fields[3], share)

    return accumulate


@cache
def make_motion(varying: bool, real: Real) -> Any:
    """Function ``(fields, rates) -> (|u|, |u|^2, shear rate, dissipation)`` of one node.

    `fields` are what `make_fields` tells, `rates` as for `make_rates`. With sigma the viscous stress and
    S = sigma/(2 nu), at density 1, the shear rate is sqrt(2 S:S) and the dissipation sigma:S, nu times its square.
    """
    half, one, third = real(0.5), real(1), real(1 / 3)

    @node_function
    def of_node(fields: Populations, rates: Any) -> tuple[Any, Any]:
        return rates[4], fields[3]

    @node_function
    def of_all(fields: Populations, rates: Any) -> tuple[Any, Any]:
        return one - half * rates[0], third * (one / rates[0] - half)

    part_and_viscosity = of_node if varying else of_all

    @node_function
    def motion(fields: Populations, rates: Any) -> tuple[Any, ...]:
        x, y, z = fields[1]
        xx, yy, zz, xy, xz, yz = fields[2]
        part, viscosity = part_and_viscosity(fields, rates)
        square = x * x + y * y + z * z
        size = math.sqrt(half * (xx * xx + yy * yy + zz * zz) + (xy * xy + xz * xz + yz * yz))
        rate = part * size / viscosity
        return math.sqrt(square), square, rate, viscosity * (rate * rate)

    return motion


@cache
def make_gathering(varying: bool, real: Real) -> Any:
    """Function ``(statistics, n, fields, rates, share)`` that takes what `make_fields` tells of node n into them.

    `statistics` are the arrays of :class:`solver.backends.fields.Statistics`.
    """
    motion = make_motion(varying, real)

    @node_function
    def gather(statistics: Any, n: int, fields: Populations, rates: Any, share: Any) -> None:
        speed, square, rate, dissipation = motion(fields, rates)
        peak, squares, shear_rate, dissipated = statistics
        peak[n] = speed if share >= 1 else max(peak[n], speed)
        squares[n] = accumulated(squares[n], square, share)
        shear_rate[n] = accumulated(shear_rate[n], rate, share)
        dissipated[n] = accumulated(dissipated[n], dissipation, share)

    return gather
