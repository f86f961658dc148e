# SPDX-License-Identifier: Apache-2.0
"""Physics of one node, written once for the CPU and the CUDA driver: moments, velocity, stress.

A node's populations are a tuple ``g`` of q = 19 or 27 numbers, shifted: g_i = f_i - w_i, so that a fluid at rest is all
zeros and single precision keeps its digits. The first 19 directions of D3Q27 are those of D3Q19. Everything is in
lattice units: spacing, time step and rest density are 1.

Constants must have the type of the populations, since a Python number would turn a single-precision expression into
double precision. Functions that need some are therefore made for one type by a function that takes ``real``.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import config

from solver.kernels.d3q19 import Q
from solver.kernels.numba_internals import InnerFunction

OPTIONS = {"forceinline": True, "error_model": "numpy"}
"""How functions of a node are compiled."""


def node_function(function: Any) -> Any:
    """Decorator of functions that a driver calls for every node: inlined and without Python's check for division by
    zero, so that loops over nodes can be vectorised.
    """
    return function if config.DISABLE_JIT else InnerFunction(function, targetoptions=OPTIONS)


Populations = tuple[Any, ...]


@node_function
def _zeroth_and_first(g: Populations) -> tuple[Any, ...]:
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
def _second(g: Populations) -> tuple[Any, ...]:
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


@node_function
def _zeroth_and_first_27(g: Populations) -> tuple[Any, ...]:
    drho, x, y, z = _zeroth_and_first(g[:19])
    a, b, c, d = g[19] - g[20], g[21] - g[22], g[23] - g[24], g[25] - g[26]
    corners = ((g[19] + g[20]) + (g[21] + g[22])) + ((g[23] + g[24]) + (g[25] + g[26]))
    return drho + corners, x + ((a + b) + (c + d)), y + ((a + b) - (c + d)), z + ((a - b) + (c - d))


@node_function
def _second_27(g: Populations) -> tuple[Any, ...]:
    xx, yy, zz, xy, xz, yz = _second(g[:19])
    a, b, c, d = g[19] + g[20], g[21] + g[22], g[23] + g[24], g[25] + g[26]
    corners = (a + b) + (c + d)
    more = (a + b) - (c + d), (a - b) + (c - d), (a - b) - (c - d)
    return xx + corners, yy + corners, zz + corners, xy + more[0], xz + more[1], yz + more[2]


def make_moments(q: int = Q) -> tuple[Any, Any]:
    """Functions of g: density deviation and momentum, (sum g_i, sum c_i g_i), as four numbers; and the momentum flux
    sum c_i c_i g_i as (xx, yy, zz, xy, xz, yz).
    """
    return (_zeroth_and_first_27, _second_27) if q == 27 else (_zeroth_and_first, _second)


EQUILIBRIA = ("incompressible", "compressible", "incompressible-standard", "compressible-standard")
"""Names of the equilibria. They differ in the density rho that momentum rho u and the terms rho u u are taken with, and
in D3Q19's fourth moments, which are isotropic unless the name ends with -standard: see :func:`make_quadratic`."""


@cache
def make_density(real: Callable[[float], Any], equilibrium: str) -> Any:
    """Function ``drho -> rho``: 1 in the incompressible form of He and Luo (1997), else 1 + drho.

    Source: doi:10.1023/B:JOSS.0000015179.12689.e4. Multiplying by the constant 1 is left out by the compiler.

    Raises
    ------
    ValueError
        If there is no such equilibrium.
    """
    if equilibrium not in EQUILIBRIA:
        raise ValueError(f"equilibrium {equilibrium!r}: unknown; known are {', '.join(EQUILIBRIA)}")
    one, compressible = real(1), equilibrium.startswith("compressible")

    @node_function
    def density(drho: Any) -> Any:
        return one + drho if compressible else one

    return density


@cache
def make_quadratic(real: Callable[[float], Any], equilibrium: str, q: int = Q) -> Any:
    """Function ``(xx, yy, zz) -> (rest, x, y, z, xy, xz, yz)``: the terms of second order of the equilibrium over w_i.

    From the products a_x b_x, a_y b_y, a_z b_z of two vectors follow, as a form B_i(a, b) that is u u's for a = b = u,
    the whole term for the population at rest and for those along the axes, and what the planes xy, xz and yz have
    beside 4.5 (c_i.a)(c_i.b). The textbook form is

        B_i = 4.5 (c_i.a)(c_i.b) - 1.5 a.b,

    whose fourth moment on D3Q19, sum w c_x^2 c_y^2 B_i = a.b/9 + ... - a_z b_z/6, is not isotropic: it bends jets into
    the shape of the lattice. Bauer and Rüde (2018, arXiv:1803.04937) take that part off and leave all lower moments:

        B_rest = -a.b,   B_x = 6 a_x b_x - 3 a.b,   B_xy = 4.5 (c_i.a)(c_i.b) - 1.5 (a_x b_x + a_y b_y),

    which is the default. D3Q27 has no such part (Silva and Semiao 2014, J. Comput. Phys. 269, 259): there the textbook
    form is the only one, and its corners have, beside 4.5 (c_i.a)(c_i.b), what the population at rest has.

    The parameters are those of :mod:`solver.kernels`.
    """
    minus_one, minus_onehalf, three, fourhalf, six = (real(value) for value in (-1, -1.5, 3, 4.5, 6))

    @node_function
    def isotropic(xx: Any, yy: Any, zz: Any) -> tuple[Any, ...]:
        xy, xz, yz = xx + yy, xx + zz, yy + zz
        less = three * (xy + zz)
        along = six * xx - less, six * yy - less, six * zz - less
        return minus_one * (xy + zz), *along, minus_onehalf * xy, minus_onehalf * xz, minus_onehalf * yz

    @node_function
    def standard(xx: Any, yy: Any, zz: Any) -> tuple[Any, ...]:
        less = minus_onehalf * (xx + yy + zz)
        return less, fourhalf * xx + less, fourhalf * yy + less, fourhalf * zz + less, less, less, less

    return standard if q == 27 or equilibrium.endswith("-standard") else isotropic


@cache
def make_link_quadratic(real: Callable[[float], Any], equilibrium: str, q: int = Q) -> Any:
    """Function ``(c, u) -> B_i(u, u)`` of :func:`make_quadratic` for any moving direction c = c_i as a tuple.

    The parameters are those of :mod:`solver.kernels`.
    """
    onehalf, two, three, fourhalf = real(1.5), real(2), real(3), real(4.5)
    standard = q == 27 or equilibrium.endswith("-standard")

    @node_function
    def quadratic(c: Populations, u: Populations) -> Any:
        cu = c[0] * u[0] + c[1] * u[1] + c[2] * u[2]
        axes = c[0] * c[0] + c[1] * c[1] + c[2] * c[2]  # 1 along an axis, 2 in a plane
        outside = (u[0] * u[0] + u[1] * u[1] + u[2] * u[2]) - (
            c[0] * c[0] * u[0] * u[0] + c[1] * c[1] * u[1] * u[1] + c[2] * c[2] * u[2] * u[2]
        )
        plain = fourhalf * cu * cu - onehalf * (u[0] * u[0] + u[1] * u[1] + u[2] * u[2])
        return plain if standard else plain + onehalf * (two * axes - three) * outside

    return quadratic


@cache
def make_macroscopic(real: Callable[[float], Any], equilibrium: str = "incompressible", q: int = Q) -> Any:
    """Function ``(g, force) -> (drho, ux, uy, uz)`` for populations before collision.

    drho = sum g_i; rho u = sum c_i g_i + F/2 with the force of Guo, Zheng and Shi (2002,
    doi:10.1103/PhysRevE.65.046308), and rho of :func:`make_density`.

    The parameters are those of :mod:`solver.kernels`.
    """
    half, density = real(0.5), make_density(real, equilibrium)
    zeroth_and_first_moments, _ = make_moments(q)

    @node_function
    def macroscopic(g: Populations, force: Populations) -> tuple[Any, ...]:
        drho, x, y, z = zeroth_and_first_moments(g)
        rho = density(drho)
        return drho, (x + half * force[0]) / rho, (y + half * force[1]) / rho, (z + half * force[2]) / rho

    return macroscopic


@cache
def make_observation(real: Callable[[float], Any], equilibrium: str = "incompressible", q: int = Q) -> Any:
    """Function ``(g, before, force) -> (drho, u, |u|^2, |u - before|^2)``, the squares in double precision.

    Where a population is not finite, drho and |u|^2 are infinite, so that a search for the largest finds the place.

    The parameters are those of :mod:`solver.kernels`.
    """
    macroscopic = make_macroscopic(real, equilibrium, q)
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


@node_function
def relative_change(change: Any, square: Any) -> Any:
    """|u - before|^2 / |u|^2 from both squares, at most 1."""
    return change / square if change < square else 1.0


@cache
def make_stress(real: Callable[[float], Any], equilibrium: str = "incompressible", q: int = Q) -> Any:
    """Function ``(g, drho, u, force) -> Pi`` for populations before collision, (xx, yy, zz, xy, xz, yz).

    Pi = sum c_i c_i g_i - (drho/3) I - rho u u + (u F + F u)/2, the non-equilibrium part of the momentum flux; the
    viscous stress is -(1 - 1/(2 tau)) Pi (Krüger et al. 2017, section 4.1, doi:10.1007/978-3-319-44649-3).

    The parameters are those of :mod:`solver.kernels`.
    """
    third, half, density = real(1 / 3), real(0.5), make_density(real, equilibrium)
    _, second_moments = make_moments(q)

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
