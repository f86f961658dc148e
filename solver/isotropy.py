"""The force that makes up for the fourth moments along the axes, which D3Q27 lacks.

Velocities whose components are -1, 0 and 1 have c_x^4 = c_x^2, so that of the equilibrium's moment sum c_x^4 g_i^eq,
which should be 2 u_x^2, they have u_x^2, and likewise along y and z; all other fourth moments of D3Q27 are right. In
the momentum that comes of streaming and collision, expanded to the third order in the spacing, this leaves the force

    -(1/3 - tau/2) d_a^3 (u_a^2)   along each axis a, without a sum.

It vanishes for flow along an axis. Askew to the axes it bends a jet into the shape of the lattice, the more the larger
the grid Reynolds number, since it does not fall with the viscosity. The opposite force takes it off:

    F_a = d_a [(1/3 - tau/2) D_a],   D_a(x) = u_a^2(x + e_a) - 2 u_a^2(x) + u_a^2(x - e_a),

d_a a central difference, so that it adds up to nothing where no wall is near. Flow changes little within a few steps:
the force is found anew after `PAIRS` pairs of steps, and its momentum is added after each pair, half to each of the two
populations along the axis. Nodes without a neighbour on one side have no D_a: to the next ones it is as large as their
own, and they themselves get no force along that axis.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.d3q19 import Q
from solver.node_physics import Populations, make_macroscopic, node_function
from solver.nodes import Neighbours, Nodes

PAIRS = 8
"""Pairs of steps after which the force is found anew, and that a device is asked for at once."""
AXES = 3


def axis_neighbours(nodes: Nodes) -> NDArray[np.int32]:
    """Rows of the fluid nodes at the ends of each node's links along +x, -x, +y, -y, +z, -z, (6, N); -1 for none."""
    neighbours = Neighbours(nodes)
    return np.stack([neighbours.along(direction) for direction in range(1, 2 * AXES + 1)])


@cache
def make_squares(real: Any, equilibrium: str, q: int = Q) -> Any:
    """Function ``(g, force) -> (u_x^2, u_y^2, u_z^2)`` of arriving populations."""
    macroscopic = make_macroscopic(real, equilibrium, q)

    @node_function
    def squares(g: Populations, force: Populations) -> Populations:
        _, x, y, z = macroscopic(g, force)
        return x * x, y * y, z * z

    return squares


@cache
def make_flux(real: Any, varying: bool) -> Any:
    """Function ``(squares, beside, a, n, rates, omega) -> flux`` of node n along axis a; infinite where it has no
    neighbour on one side.

    That is (1/3 - tau/2) D_a. `beside` are rows of :func:`axis_neighbours`; `squares` (3, .)
    hold u_a^2; `rates` and `omega` as of :func:`solver.rheology.make_rates`.
    """
    two, third, half, infinite = real(2), real(1 / 3), real(0.5), real(np.inf)

    @node_function
    def flux(squares: Any, beside: Any, a: int, n: int, rates: Any, omega: Any) -> Any:
        up, down = beside[2 * a, n], beside[2 * a + 1, n]
        if up < 0 or down < 0:
            return infinite
        rate = omega[n] if varying else rates[0]
        return (third - half / rate) * (squares[a, up] - two * squares[a, n] + squares[a, down])

    return flux


@cache
def make_momentum(real: Any) -> Any:
    """Function ``(fluxes, beside, a, n) -> momentum`` along axis a that node n gets after a pair of steps."""
    zero, infinite = real(0), real(np.inf)

    @node_function
    def momentum(fluxes: Any, beside: Any, a: int, n: int) -> Any:
        own, up, down = fluxes[a, n], beside[2 * a, n], beside[2 * a + 1, n]
        if own == infinite:
            return zero
        high, low = fluxes[a, up], fluxes[a, down]
        return (own if high == infinite else high) - (own if low == infinite else low)

    return momentum
