"""Streaming and collision: one thread a node."""

from functools import cache
from typing import Any

from solver.collision import make_collision
from solver.cuda.device import cuda, on_device
from solver.streaming import gather, link_address, load, opposite, scatter, store


@cache
def make_steps(collision: str, real: Any) -> tuple[Any, Any]:
    """The even and the odd step of a range of nodes."""
    collide = make_collision(collision, real)
    read, write, addresses_of = on_device(load), on_device(store), on_device(link_address)
    read_links, write_links = on_device(gather), on_device(scatter)

    @cuda.jit
    def even_step(f: Any, stride: int, first: int, last: int, rates: Any, force: Any) -> None:
        n = first + cuda.grid(1)
        if n < last:
            write(f, n, stride, opposite(collide(read(f, n, stride), rates, force)))

    @cuda.jit
    def odd_step(f: Any, addresses: Any, stride: int, first: int, last: int, rates: Any, force: Any) -> None:
        n = first + cuda.grid(1)
        if n < last:
            at = addresses_of(addresses, n, stride)
            write_links(f, at, n, collide(opposite(read_links(f, at, n)), rates, force))

    return even_step, odd_step
