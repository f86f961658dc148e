"""Streaming and collision: one thread a node. That of the first node counts the step, and clears the sum that its wall
links will add up.
"""

from functools import cache
from typing import Any

from solver.collision import make_collision
from solver.cuda.device import cuda, on_device
from solver.rheology import make_rates
from solver.storage import make_access
from solver.streaming import link_address, opposite
from solver.sums import WORDS


@cache
def make_steps(
    collision: str, storage: str, real: Any, equilibrium: str = "incompressible", rheology: str | None = None,
    blended: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """The even and the odd step of a range of nodes; `rates`, `omega` and `blend` as :func:`make_rates` says."""
    collide = make_collision(collision, real, equilibrium)
    rates_of = on_device(make_rates(rheology, blended, equilibrium, real))
    read, write, read_links, write_links, _, _ = map(on_device, make_access(storage, real))
    addresses_of = on_device(link_address)

    @cuda.jit(device=True)
    def turn(clock: Any, added: Any) -> None:
        clock[0] += 1
        for word in range(WORDS):
            added[word] = 0

    @cuda.jit
    def even_step(
        f: Any, clock: Any, added: Any, stride: int, first: int, last: int, force: Any, rates: Any, omega: Any,
        blend: Any,
    ) -> None:  # fmt: skip
        n = first + cuda.grid(1)
        if n == 0:
            turn(clock, added)
        if n < last:
            g = read(f, n, stride)
            write(f, n, stride, opposite(collide(g, rates_of(g, n, force, rates, omega, blend), force)))

    @cuda.jit
    def odd_step(
        f: Any, addresses: Any, clock: Any, added: Any, stride: int, first: int, last: int, force: Any, rates: Any,
        omega: Any, blend: Any,
    ) -> None:  # fmt: skip
        n = first + cuda.grid(1)
        if n == 0:
            turn(clock, added)
        if n < last:
            at = addresses_of(addresses, n, stride)
            g = opposite(read_links(f, at, n))
            write_links(f, at, n, collide(g, rates_of(g, n, force, rates, omega, blend), force))

    return even_step, odd_step
