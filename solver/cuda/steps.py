"""Streaming and collision: one thread a node, addresses from runs.

The thread of the first node counts the step, and clears the sum that its wall links will add up.
"""

from functools import cache
from typing import Any

import numpy as np

from solver.collision import make_collision
from solver.cuda.device import cuda, on_device, step_kernel
from solver.rheology import make_rates
from solver.storage import make_access
from solver.streaming import GROUP, opposite, run_address
from solver.sums import WORDS


@cache
def make_addresses() -> Any:
    """Device function ``(offset, before, starts, n)`` that gives the 18 addresses of node n, from `Runs`."""
    address_in_run = on_device(run_address)

    @cuda.jit(device=True)
    def addresses_of(offset: Any, before: Any, starts: Any, n: Any) -> Any:
        group = n // GROUP
        begun = starts[group] & (np.uint32(0xFFFFFFFF) >> np.uint32(GROUP - 1 - n % GROUP))
        return address_in_run(offset, before[group] + cuda.popc(begun), n)

    return addresses_of


@cache
def make_steps(
    collision: str, storage: str, real: Any, equilibrium: str = "incompressible", rheology: str | None = None,
    blended: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """The even and the odd step of a range of nodes; `rates`, `omega` and `blend` as :func:`make_rates` says."""
    collide = make_collision(collision, real, equilibrium)
    rates_of = on_device(make_rates(rheology, blended, equilibrium, real))
    read, write, read_links, write_links, _, _ = map(on_device, make_access(storage, real))
    addresses_of = make_addresses()

    @cuda.jit(device=True)
    def turn(clock: Any, added: Any) -> None:
        clock[0] += 1
        for word in range(WORDS):
            added[word] = 0

    @step_kernel(real)
    def even_step(
        f: Any, stride: int, clock: Any, added: Any, first: int, last: int, force: Any, rates: Any, omega: Any,
        blend: Any,
    ) -> None:  # fmt: skip
        n = first + cuda.grid(1)
        if n == 0:
            turn(clock, added)
        if n < last:
            g = read(f, n, stride)
            write(f, n, stride, opposite(collide(g, rates_of(g, n, force, rates, omega, blend), force)))

    @step_kernel(real)
    def odd_step(
        f: Any, offset: Any, before: Any, starts: Any, clock: Any, added: Any, first: int, last: int, force: Any,
        rates: Any, omega: Any, blend: Any,
    ) -> None:  # fmt: skip
        n = first + cuda.grid(1)
        if n == 0:
            turn(clock, added)
        if n < last:
            at = addresses_of(offset, before, starts, n)
            g = opposite(read_links(f, at, n))
            write_links(f, at, n, collide(g, rates_of(g, n, force, rates, omega, blend), force))

    return even_step, odd_step
