# SPDX-License-Identifier: Apache-2.0
"""Populations of a flow whose fields are known, to begin a run with."""

from functools import cache
from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from solver.backends.cpu.blocks import threaded
from solver.backends.lattice import Lattice
from solver.kernels.collision import make_collision
from solver.kernels.d3q19 import Q
from solver.kernels.node_physics import make_density
from solver.kernels.storage import FP16_BITS, NATIVE, make_access

Reals = NDArray[np.floating]


@cache
def make_beginning(storage: str, real: Any, equilibrium: str, q: int) -> Any:
    """Loop ``(f, stride, force, drho, velocity, stress)`` that writes the populations which arrive at each node.

    With the moments that fields tell, sum g = drho, sum c g = rho u - F/2 and
    sum c c g = (drho/3) I + rho u u - (u F + F u)/2 + Pi, they are those that the regularised collision leaves where it
    relaxes nothing: the equilibrium and the part of Pi, 4.5 w (c c:Pi - tr Pi/3), with no higher moments.

    The parameters are those of :mod:`solver.kernels`.
    """
    density, store = make_density(real, equilibrium), make_access(storage, real, q).store
    regularise, corners = make_collision("projected", real, equilibrium, q), (real(0),) * (q - Q)
    zero, half, third = real(0), real(0.5), real(1 / 3)

    @threaded
    def begin(f: Any, stride: int, force: Any, drho: Any, velocity: Any, stress: Any) -> None:
        for n in prange(len(drho)):
            rho, p = density(drho[n]), third * drho[n]
            x, y, z = velocity[0, n], velocity[1, n], velocity[2, n]
            fx, fy, fz = force
            xy = rho * x * y - half * (x * fy + y * fx) + stress[3, n]
            xz = rho * x * z - half * (x * fz + z * fx) + stress[4, n]
            yz = rho * y * z - half * (y * fz + z * fy) + stress[5, n]
            xx = p + x * (rho * x - fx) + stress[0, n] - xy - xz
            yy = p + y * (rho * y - fy) + stress[1, n] - xy - yz
            zz = p + z * (rho * z - fz) + stress[2, n] - xz - yz
            jx, jy, jz = rho * x - half * fx, rho * y - half * fy, rho * z - half * fz
            on_x = half * (xx + jx), half * (xx - jx)
            on_y = half * (yy + jy), half * (yy - jy)
            on_z = half * (zz + jz), half * (zz - jz)
            in_xy = half * xy, half * xy, zero, zero
            in_xz = half * xz, half * xz, zero, zero
            in_yz = half * yz, half * yz, zero, zero
            g = (drho[n] - xx - yy - zz - xy - xz - yz, *on_x, *on_y, *on_z, *in_xy, *in_xz, *in_yz)
            store(f, n, stride, regularise(g + corners, (zero, zero), (zero, zero, zero)))

    return begin


def populations(lattice: Lattice, drho: Reals, velocity: Reals, stress: Reals) -> NDArray[Any]:
    """All slots between pairs of steps, (lattice.slots,), as they are stored: fp16 numbers as such, scaled.

    Parameters
    ----------
    lattice : a whole domain's, or a part's.
    drho, velocity, stress : (N,), (3, N) and (6, N), of its nodes: stress is the momentum flux Pi.
    """
    real = lattice.real
    storage, kind = (FP16_BITS, np.uint16) if lattice.fp16 else (NATIVE, real)
    slots = np.zeros(lattice.slots, kind)
    loop = make_beginning(storage, real, lattice.equilibrium, lattice.q)
    loop(slots, lattice.stride, lattice.force, *(np.ascontiguousarray(each, real) for each in (drho, velocity, stress)))
    return slots.view(np.float16) if lattice.fp16 else slots
