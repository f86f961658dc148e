# SPDX-License-Identifier: Apache-2.0
"""Steps of the scalar of :mod:`solver.kernels.transport`: one thread a node, or a node at an opening, or a link.

Memory is what a step waits for, so it moves as few numbers as can be: of what flows through a face one, which both of
its nodes read. And odd steps begin with the last block: what the even step wrote last is still in the cache.

Nodes at openings, of which there are few, move in launches of their own, beside those of all others. What passes
openings needs what arrives at their nodes, as the next step does; so in the launch of that step it comes before it, and
none but the last of several steps has a launch for it alone.
"""

from functools import cache
from typing import Any

import numpy as np

from solver.backends.cuda.device import cuda, kernel, on_device
from solver.domain.addresses import GROUP
from solver.kernels.storage import NATIVE, make_access
from solver.kernels.transport import (
    concentration,
    exchanged,
    faces_at,
    make_axis_address,
    make_passage,
    make_scalar_moves,
    make_transport,
    shared_faces_at,
)


@cache
def make_transport_pass(real: Any) -> tuple[Any, Any, Any, Any]:
    """The even and the odd step of all nodes but those at openings, what comes in through walls, and the concentration.

    The thread of the first node counts even and odd steps, by which openings find their row of the inflow.

    Parameters
    ----------
    real : NumPy type that is computed with.
    """
    access = make_access(NATIVE, real)
    load_slot, store_slot = map(on_device, access[:2])
    load, store, gather, scatter = map(on_device, make_scalar_moves(access.load_slot, access.store_slot))
    axis_address = on_device(make_axis_address(access.load_slot))
    faces_of, transport = on_device(shared_faces_at(real, access.load_slot)), make_transport(real)

    @cuda.jit(device=True)
    def addresses_of(runs: Any, n: Any) -> Any:
        offset, before, starts = runs
        group = n // GROUP
        begun = starts[group] & (np.uint32(0xFFFFFFFF) >> np.uint32(GROUP - 1 - n % GROUP))
        return axis_address(offset, before[group] + cuda.popc(begun), n)

    @cuda.jit(device=True)
    def is_marked(marks: Any, n: Any) -> Any:
        return (marks[n // GROUP] >> np.uint32(n % GROUP)) & np.uint32(1)

    @kernel()
    def even_step(s: Any, stride: int, counts: Any, runs: Any, at_openings: Any, faces: Any, numbers: Any) -> None:
        n = cuda.grid(1)
        if n == 0:
            counts[0] += 1
        if n < stride and not is_marked(at_openings, n):
            at = addresses_of(runs, n)
            f = faces_of(faces, n, stride, (at[1], at[3], at[5]))
            store(s, n, stride, transport(load(s, n, stride), f, numbers))

    @kernel()
    def odd_step(s: Any, stride: int, counts: Any, runs: Any, at_openings: Any, faces: Any, numbers: Any) -> None:
        n = (cuda.gridDim.x - 1 - cuda.blockIdx.x) * cuda.blockDim.x + cuda.threadIdx.x
        if n == 0:
            counts[1] += 1
        if n < stride and not is_marked(at_openings, n):
            at = addresses_of(runs, n)
            f = faces_of(faces, n, stride, (at[1], at[3], at[5]))
            scatter(s, at, n, exchanged(transport(exchanged(gather(s, at, n)), f, numbers)))

    @kernel()
    def walls(s: Any, slot: Any, amount: Any) -> None:
        k = cuda.grid(1)
        if k < len(slot):
            store_slot(s, slot[k], load_slot(s, slot[k]) + amount[k])

    @kernel()
    def read(s: Any, stride: int, count: int, into: Any) -> None:
        n = cuda.grid(1)
        if n < count:
            into[n] = concentration(load(s, n, stride))

    return even_step, odd_step, walls, read


# long and many parameters because the kernels close over the same functions of a node, and share what they take
@cache
def make_port_pass(real: Any) -> tuple[Any, Any, Any]:
    """The even and the odd step of nodes at openings, before which, if it `waits`, what passes openings in the step
    before comes; and that alone, after a step.

    `ports` are the arrays of :class:`solver.backends.scalar_lattice.Ports`, `faces` what flows out through the faces of
    their nodes, `flux` through their links; `stated` are the concentrations of what comes in, a row a step, and the
    length of a row; `held` are the last three arguments of :func:`solver.kernels.transport.make_passage`. `counts` are
    numbers of the last even and the last odd step. The launch beside counts, so a step of one kind reads that of the
    other.

    Parameters
    ----------
    real : NumPy type that is computed with.
    """
    access = make_access(NATIVE, real)
    load, store, gather, scatter = map(on_device, make_scalar_moves(access.load_slot, access.store_slot))
    axis_address, faces_of = on_device(make_axis_address(access.load_slot)), on_device(faces_at(access.load_slot))
    transport, passage = make_transport(real), on_device(make_passage(real))

    @cuda.jit(device=True)
    def passed_by(
        s: Any, arriving: Any, m: int, ports: Any, flux: Any, step: int, stated: Any, k: Any, held: Any
    ) -> None:
        _, first, slot, opening, _ = ports
        (inflow, width), (at_openings, carried, passed) = stated, held
        links, row = (first, slot, opening), step * width
        passage(s, concentration(arriving), m, links, flux, inflow, row, k, at_openings, carried, passed)

    @kernel()
    def even_step(
        s: Any,
        stride: int,
        waits: bool,
        ports: Any,
        faces: Any,
        flux: Any,
        counts: Any,
        stated: Any,
        held: Any,
        numbers: Any,
    ) -> None:
        m = cuda.grid(1)
        if m < len(ports[0]):
            n = ports[0][m]
            if waits:
                arriving, step = load(s, n, stride), 2 * counts[1] + 1
                passed_by(s, arriving, m, ports, flux, step, stated, numbers[0], held)
            f = faces_of(faces, m, len(ports[0]))
            store(s, n, stride, transport(load(s, n, stride), f, numbers))

    @kernel()
    def odd_step(
        s: Any,
        stride: int,
        waits: bool,
        ports: Any,
        faces: Any,
        flux: Any,
        counts: Any,
        stated: Any,
        held: Any,
        numbers: Any,
    ) -> None:
        m = cuda.grid(1)
        if m < len(ports[0]):
            n, at = ports[0][m], axis_address(ports[4], m, 0)
            if waits:
                passed_by(s, gather(s, at, n), m, ports, flux, 2 * counts[0], stated, numbers[0], held)
            f = faces_of(faces, m, len(ports[0]))
            scatter(s, at, n, exchanged(transport(exchanged(gather(s, at, n)), f, numbers)))

    @kernel()
    def after_step(
        s: Any, stride: int, even: bool, ports: Any, flux: Any, counts: Any, stated: Any, held: Any, k: Any
    ) -> None:
        m = cuda.grid(1)
        if m < len(ports[0]):
            n = ports[0][m]
            arriving = gather(s, axis_address(ports[4], m, 0), n) if even else load(s, n, stride)
            step = 2 * counts[0] if even else 2 * counts[1] + 1
            passed_by(s, arriving, m, ports, flux, step, stated, k, held)

    return even_step, odd_step, after_step
