# SPDX-License-Identifier: Apache-2.0
"""The force of :mod:`solver.kernels.isotropy`: the velocity, fluxes, and the momentum."""

from functools import cache
from typing import Any

from numba import prange

from solver.backends.cpu.blocks import CHUNK, threaded
from solver.domain.stencils import AXES
from solver.kernels.compilation import inner_loop
from solver.kernels.isotropy import make_fluxes, make_momentum, make_velocity
from solver.kernels.storage import make_access


@cache
def make_isotropy_pass(storage: str, real: Any, equilibrium: str, varying: bool, q: int) -> tuple[Any, Any, Any, Any]:
    """Keep the velocity; find the fluxes; find the momentum; add it to the populations along the axes.

    The parameters are those of :mod:`solver.kernels`.
    """
    access, velocity_of = make_access(storage, real, q), make_velocity(real, equilibrium, q)
    (load_slot, store_slot, load), fluxes_of, momentum_of = access[:3], make_fluxes(real, varying), make_momentum(real)
    half = real(0.5)

    @threaded
    def write_velocity(f: Any, stride: int, force: Any, count: int, into: Any) -> None:
        for chunk in prange((count + CHUNK - 1) // CHUNK):
            for n in range(chunk * CHUNK, min(count, (chunk + 1) * CHUNK)):
                into[0, n], into[1, n], into[2, n] = velocity_of(load(f, n, stride), force)

    @threaded
    def write_fluxes(velocity: Any, beside: Any, count: int, rates: Any, omega: Any, into: Any) -> None:
        for chunk in prange((count + CHUNK - 1) // CHUNK):
            for n in range(chunk * CHUNK, min(count, (chunk + 1) * CHUNK)):
                into[0, n], into[1, n], into[2, n] = fluxes_of(velocity, beside, n, rates, omega)

    @threaded
    def write_momentum(fluxes: Any, ends: Any, times: Any, count: int, into: Any) -> None:
        for chunk in prange((count + CHUNK - 1) // CHUNK):
            for a in range(AXES):
                for n in range(chunk * CHUNK, min(count, (chunk + 1) * CHUNK)):
                    into[a, n] = momentum_of(fluxes, ends, times, a, n)

    @inner_loop
    def add_chunk(f: Any, up: int, down: int, momentum: Any, first: int, last: int) -> None:
        for n in range(first, last):
            more = half * momentum[n]
            store_slot(f, up + n, load_slot(f, up + n) + more)
            store_slot(f, down + n, load_slot(f, down + n) - more)

    @threaded
    def add_momentum(f: Any, stride: int, momentum: Any, count: int) -> None:
        for chunk in prange((count + CHUNK - 1) // CHUNK):
            for a in range(AXES):
                first, last = chunk * CHUNK, min(count, (chunk + 1) * CHUNK)
                add_chunk(f, (2 * a + 1) * stride, (2 * a + 2) * stride, momentum[a], first, last)

    return write_velocity, write_fluxes, write_momentum, add_momentum
