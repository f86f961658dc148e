# SPDX-License-Identifier: Apache-2.0
"""The force that makes up for the fourth moments along the axes, which D3Q27 lacks.

Velocities whose components are -1, 0 and 1 have c_x^4 = c_x^2, so that of the equilibrium's moment sum c_x^4 g_i^eq,
which should be 2 u_x^2, they have u_x^2, and likewise along y and z; all other fourth moments of D3Q27 are right. In
the momentum that comes of streaming and collision, expanded to the third order in the spacing, this leaves the force

    -(1/3 - tau/2) d_a^3 (u_a^2)   along each axis a, without a sum.

It vanishes for flow along an axis. Askew to the axes it bends a jet into the shape of the lattice, the more the larger
the grid Reynolds number, since it does not fall with the viscosity. The opposite force takes it off, up to the gradient
of a pressure, which moves no fluid: with D_a = d_a^2 (u_a^2), central differences on three nodes,

    F_a = d_a [(1/3 - tau/2) (D_a - (D_x + D_y + D_z)/2)].

In Poiseuille flow d_a D_a is a gradient but for a small part, and the half of the trace leaves nothing of it along the
diagonals of a cube. So there is little that walls could cut off: where a force that is a gradient ends a node before
the wall, what is left of it turns the fluid over, and that turns axial speed over on its way down a pipe.

Flow changes little within a few steps: the force is found again after `PAIRS` pairs of steps, and its momentum is added
after each pair, half to each of the two populations along the axis. Nodes without a neighbour on one side have no D: to
them the flux in the brackets goes on linearly.
"""

from functools import cache
from typing import Any

from solver.kernels.d3q19 import Q
from solver.kernels.node_physics import Populations, make_macroscopic, node_function

PAIRS = 8
"""Pairs of steps after which the force is found again, and that a device is asked for at once."""


@cache
def make_velocity(real: Any, equilibrium: str, q: int = Q) -> Any:
    """Function ``(g, force) -> (u_x, u_y, u_z)`` of arriving populations.

    The parameters are those of :mod:`solver.kernels`.
    """
    macroscopic = make_macroscopic(real, equilibrium, q)

    @node_function
    def velocity(g: Populations, force: Populations) -> Populations:
        _, x, y, z = macroscopic(g, force)
        return x, y, z

    return velocity


@cache
def make_fluxes(real: Any, varying: bool) -> Any:
    """Function ``(velocity, beside, n, rates, omega) -> fluxes`` of node n along x, y and z; 0 where it has none.

    That is (1/3 - tau/2)(D_a - (D_x + D_y + D_z)/2). `beside` is that of :class:`Stencils`; `velocity` is that of
    all nodes, (3, .); `rates` and `omega` as of :func:`solver.kernels.rheology.make_relaxation`.
    """
    two, third, half, zero = real(2), real(1 / 3), real(0.5), real(0)

    @node_function
    def second(velocity: Any, beside: Any, a: int, n: int) -> Any:
        up, own, down = velocity[a, beside[2 * a, n]], velocity[a, n], velocity[a, beside[2 * a + 1, n]]
        return up * up - two * (own * own) + down * down

    @node_function
    def fluxes(velocity: Any, beside: Any, n: int, rates: Any, omega: Any) -> Populations:
        if beside[0, n] < 0:
            return zero, zero, zero
        rate = omega[n] if varying else rates[0]
        x, y, z = second(velocity, beside, 0, n), second(velocity, beside, 1, n), second(velocity, beside, 2, n)
        part, trace = third - half / rate, half * (x + y + z)
        return part * (x - trace), part * (y - trace), part * (z - trace)

    return fluxes


@cache
def make_momentum(real: Any) -> Any:
    """Function ``(fluxes, ends, times, a, n) -> momentum`` along axis a that node n gets after a pair of steps; `ends`
    and `times` are those of :class:`Stencils`.
    """

    @node_function
    def momentum(fluxes: Any, ends: Any, times: Any, a: int, n: int) -> Any:
        return real(times[a, n]) * (fluxes[a, ends[2 * a, n]] - fluxes[a, ends[2 * a + 1, n]])

    return momentum
