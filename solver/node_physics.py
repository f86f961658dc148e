"""Physics of one node, written once for the CPU and the CUDA driver: moments, velocity, stress.

A node's populations are a tuple ``g`` of 19 numbers, shifted: g_i = f_i - w_i, so that a fluid at rest is all zeros
and single precision keeps its digits. Everything is in lattice units: spacing, time step and rest density are 1.

Constants must have the type of the populations, since a Python number would turn a single-precision expression into
double precision. Functions that need some are therefore made for one type by a function that takes ``real``.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from solver.stage import StageError

node_function = njit(forceinline=True, error_model="numpy")
"""Decorator of functions that a driver calls for every node: inlined and without Python's check for division by zero,
so that loops over nodes can be vectorised."""

Populations = tuple[Any, ...]


@node_function
def zeroth_and_first_moments(g: Populations) -> tuple[Any, ...]:
    """Density deviation and momentum, (sum g_i, sum c_i g_i), as four numbers."""
    xy, x_y, xz = g[7] - g[8], g[9] - g[10], g[11] - g[12]
    x_z, yz, y_z = g[13] - g[14], g[15] - g[16], g[17] - g[18]
    axes = (g[1] + g[2]) + (g[3] + g[4]) + (g[5] + g[6])
    planes = ((g[7] + g[8]) + (g[9] + g[10])) + ((g[11] + g[12]) + (g[13] + g[14]))
    drho = g[0] + axes + (planes + ((g[15] + g[16]) + (g[17] + g[18])))
    return (
        drho,
        (g[1] - g[2]) + ((xy + x_y) + (xz + x_z)),
        (g[3] - g[4]) + ((xy - x_y) + (yz + y_z)),
        (g[5] - g[6]) + ((xz - x_z) + (yz - y_z)),
    )


@node_function
def second_moments(g: Populations) -> tuple[Any, ...]:
    """Momentum flux sum c_i c_i g_i as (xx, yy, zz, xy, xz, yz)."""
    xy, x_y, xz = g[7] + g[8], g[9] + g[10], g[11] + g[12]
    x_z, yz, y_z = g[13] + g[14], g[15] + g[16], g[17] + g[18]
    return (
        (g[1] + g[2]) + ((xy + x_y) + (xz + x_z)),
        (g[3] + g[4]) + ((xy + x_y) + (yz + y_z)),
        (g[5] + g[6]) + ((xz + x_z) + (yz + y_z)),
        xy - x_y,
        xz - x_z,
        yz - y_z,
    )


EQUILIBRIA = ("incompressible", "compressible")
"""Names of the equilibria, which differ in the density rho that momentum rho u and the terms rho u u are taken with."""


@cache
def make_density(real: Callable[[float], Any], equilibrium: str) -> Any:
    """Function ``drho -> rho``: 1 in the incompressible form of He and Luo (1997), else 1 + drho.

    Source: doi:10.1023/B:JOSS.0000015179.12689.e4. Multiplying by the constant 1 is left out by the compiler.

    Raises
    ------
    StageError
        If there is no such equilibrium.
    """
    if equilibrium not in EQUILIBRIA:
        raise StageError(f"solve.equilibrium {equilibrium!r}: unknown; known are {', '.join(EQUILIBRIA)}")
    one, compressible = real(1), equilibrium == "compressible"

    @node_function
    def density(drho: Any) -> Any:
        return one + drho if compressible else one

    return density


@cache
def make_macroscopic(real: Callable[[float], Any], equilibrium: str = "incompressible") -> Any:
    """Function ``(g, force) -> (drho, ux, uy, uz)`` for populations before collision.

    drho = sum g_i; rho u = sum c_i g_i + F/2 with the force of Guo, Zheng and Shi (2002,
    doi:10.1103/PhysRevE.65.046308), and rho of :func:`make_density`.
    """
    half, density = real(0.5), make_density(real, equilibrium)

    @node_function
    def macroscopic(g: Populations, force: Populations) -> tuple[Any, ...]:
        drho, x, y, z = zeroth_and_first_moments(g)
        rho = density(drho)
        return drho, (x + half * force[0]) / rho, (y + half * force[1]) / rho, (z + half * force[2]) / rho

    return macroscopic


@cache
def make_observation(real: Callable[[float], Any], equilibrium: str = "incompressible") -> Any:
    """Function ``(g, before, force) -> (drho, u, |u|^2, |u - before|^2)``, the squares in double precision.

    Where a population is not finite, drho and |u|^2 are infinite, so that a search for the largest finds the place.
    """
    macroscopic = make_macroscopic(real, equilibrium)
    infinite = real(np.inf)

    @node_function
    def observation(g: Populations, before: Populations, force: Populations) -> tuple[Any, ...]:
        drho, x, y, z = macroscopic(g, force)
        square = np.float64(x) * x + np.float64(y) * y + np.float64(z) * z
        dx, dy, dz = np.float64(x - before[0]), np.float64(y - before[1]), np.float64(z - before[2])
        if not (square + abs(drho) < infinite):
            drho, square = infinite, np.float64(infinite)
        return drho, (x, y, z), square, dx * dx + dy * dy + dz * dz

    return observation


@cache
def make_stress(real: Callable[[float], Any], equilibrium: str = "incompressible") -> Any:
    """Function ``(g, drho, u, force) -> Pi`` for populations before collision, (xx, yy, zz, xy, xz, yz).

    Pi = sum c_i c_i g_i - (drho/3) I - rho u u + (u F + F u)/2, the non-equilibrium part of the momentum flux; the
    viscous stress is -(1 - 1/(2 tau)) Pi (Krüger et al. 2017, section 4.1, doi:10.1007/978-3-319-44649-3).
    """
    third, half, density = real(1 / 3), real(0.5), make_density(real, equilibrium)

    @node_function
    def stress(g: Populations, drho: Any, u: Populations, force: Populations) -> tuple[Any, ...]:
        xx, yy, zz, xy, xz, yz = second_moments(g)
        p, rho = third * drho, density(drho)
        ux, uy, uz = u
        fx, fy, fz = force
        return (
            xx - p - ux * (rho * ux - fx),
            yy - p - uy * (rho * uy - fy),
            zz - p - uz * (rho * uz - fz),
            xy - rho * ux * uy + half * (ux * fy + uy * fx),
            xz - rho * ux * uz + half * (ux * fz + uz * fx),
            yz - rho * uy * uz + half * (uy * fz + uz * fy),
        )

    return stress
