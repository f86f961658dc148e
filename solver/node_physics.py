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

node_function = njit(forceinline=True)
"""Decorator of functions that a driver calls for every node: inlined, so that loops over nodes can be vectorised."""

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


@cache
def make_macroscopic(real: Callable[[float], Any]) -> Any:
    """Function ``(g, force) -> (drho, ux, uy, uz)`` for populations before collision.

    drho = sum g_i; u = sum c_i g_i + F/2, the velocity of the incompressible form (He and Luo 1997,
    doi:10.1023/B:JOSS.0000015179.12689.e4) with the force of Guo, Zheng and Shi (2002, doi:10.1103/PhysRevE.65.046308).
    """
    half = real(0.5)

    @node_function
    def macroscopic(g: Populations, force: Populations) -> tuple[Any, ...]:
        drho, x, y, z = zeroth_and_first_moments(g)
        return drho, x + half * force[0], y + half * force[1], z + half * force[2]

    return macroscopic


@cache
def make_observation(real: Callable[[float], Any]) -> Any:
    """Function ``(g, before, force) -> (drho, u, |u|^2, |u - before|^2)``, the squares in double precision.

    Where a population is not finite, drho and |u|^2 are infinite, so that a search for the largest finds the place.
    """
    macroscopic = make_macroscopic(real)
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
def make_stress(real: Callable[[float], Any]) -> Any:
    """Function ``(g, drho, u, force) -> Pi`` for populations before collision, (xx, yy, zz, xy, xz, yz).

    Pi = sum c_i c_i g_i - (drho/3) I - u u + (u F + F u)/2, the non-equilibrium part of the momentum flux; the
    viscous stress is -(1 - 1/(2 tau)) Pi (Krüger et al. 2017, section 4.1, doi:10.1007/978-3-319-44649-3).
    """
    third, half = real(1 / 3), real(0.5)

    @node_function
    def stress(g: Populations, drho: Any, u: Populations, force: Populations) -> tuple[Any, ...]:
        xx, yy, zz, xy, xz, yz = second_moments(g)
        p = third * drho
        ux, uy, uz = u
        fx, fy, fz = force
        return (
            xx - p - ux * (ux - fx),
            yy - p - uy * (uy - fy),
            zz - p - uz * (uz - fz),
            xy - ux * uy + half * (ux * fy + uy * fx),
            xz - ux * uz + half * (ux * fz + uz * fx),
            yz - uy * uz + half * (uy * fz + uz * fy),
        )

    return stress
