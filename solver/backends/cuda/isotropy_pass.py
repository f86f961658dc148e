# SPDX-License-Identifier: Apache-2.0
"""The force of :mod:`solver.kernels.isotropy`: the velocity, fluxes, and the momentum."""

from functools import cache
from typing import Any

from solver.backends.cuda.device import cuda, kernel, on_device
from solver.domain.stencils import AXES
from solver.kernels.isotropy import make_fluxes, make_momentum, make_velocity
from solver.kernels.storage import make_access


@cache
def make_isotropy_pass(storage: str, real: Any, equilibrium: str, varying: bool, q: int) -> tuple[Any, Any, Any, Any]:
    """Keep the velocity; find the fluxes; find the momentum; add it to the populations along the axes.

    The parameters are those of :mod:`solver.kernels`.
    """
    access, velocity_of = make_access(storage, real, q), make_velocity(real, equilibrium, q)
    load_slot, store_slot, load = map(on_device, access[:3])
    fluxes_of, momentum_of = on_device(make_fluxes(real, varying)), on_device(make_momentum(real))
    half = real(0.5)

    @kernel()
    def write_velocity(f: Any, stride: int, force: Any, count: int, into: Any) -> None:
        n = cuda.grid(1)
        if n < count:
            into[0, n], into[1, n], into[2, n] = velocity_of(load(f, n, stride), force)

    @kernel()
    def write_fluxes(velocity: Any, beside: Any, count: int, rates: Any, omega: Any, into: Any) -> None:
        n = cuda.grid(1)
        if n < count:
            into[0, n], into[1, n], into[2, n] = fluxes_of(velocity, beside, n, rates, omega)

    @kernel()
    def write_momentum(fluxes: Any, ends: Any, times: Any, count: int, into: Any) -> None:
        n = cuda.grid(1)
        if n < count:
            for a in range(AXES):
                into[a, n] = momentum_of(fluxes, ends, times, a, n)

    @kernel()
    def add_momentum(f: Any, stride: int, momentum: Any, count: int) -> None:
        n = cuda.grid(1)
        if n < count:
            for a in range(AXES):
                more, up, down = half * momentum[a, n], (2 * a + 1) * stride + n, (2 * a + 2) * stride + n
                store_slot(f, up, load_slot(f, up) + more)
                store_slot(f, down, load_slot(f, down) - more)

    return write_velocity, write_fluxes, write_momentum, add_momentum
