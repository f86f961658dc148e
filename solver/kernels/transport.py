# SPDX-License-Identifier: Apache-2.0
"""A passive scalar on the nodes of the flow: D3Q7 with two relaxation times, for one node.

The concentration C is the sum of seven populations s_i, one at rest and one along each axis, whose directions are the
first of D3Q19 and D3Q27. It obeys

    dC/dt + div(u C) = D div grad C + S,    D = c_s^2 (1/omega- - 1/2),    c_s^2 = 1/4,

from the equilibrium w_i C (1 + 4 c_i.u), w_0 = 1/4, w_i = 1/8 (Ginzburg 2005, doi:10.1016/j.advwatres.2005.03.004). S
is a source per step, of which a half stands in C, so that it is of second order (Guo, Zheng and Shi 2002,
doi:10.1103/PhysRevE.65.046308). Of the parameter

    Lambda = (1/omega+ - 1/2) (1/omega- - 1/2)

the value 1/4 is taken. It is stable for each D (Ginzburg, d'Humières and Kuzmin 2010, doi:10.1007/s10955-010-9969-9),
steady fields are exactly those of central differences, and omega+ + omega- = 2, whence with k = 1 - omega-

    s_i* = w_i (e + 4 f_i d) - k s_o,    e = omega+ C + (1 - omega+/2) S,    d = omega- C + (1 - omega-/2) S,

o being the direction opposite to i, and f_i = c_i.u. In an even step of the streaming in place
(:mod:`solver.kernels.streaming`) s_i* goes to the slot that s_o came from.

In place of the velocity of the node, f_i is the flow out through the face that link i crosses, the same for both nodes
but for its sign. Of two steps then follows, for C alone,

    [C(t+1) - C(t-1)]/2 = -sum_i f_i (C + C_i)/2 + (1 + k)/(1 - k) [sum_i w_i C_i - (C(t+1) + C(t-1))/2]

with C_i in the neighbours and C_0 = C, as long as the f_i of each node sum to 0 (:mod:`solver.transport.carrier`): a
leap-frog in whose sum of squares what the flow carries cancels, so that it is stable at any D, and that leaves a
concentration that is the same everywhere as it is. With the velocity of nodes, flow that widens diffuses against the
gradient.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from solver.kernels.node_physics import Populations, node_function

SCALAR_Q = 7
"""Populations of the scalar: the directions 0 to 6 of the flow's velocity set."""
REST, AXIS = 1 / 4, 1 / 8
"""Their weights."""
SOUND_SQUARE = 1 / 4
"""c_s^2."""
FASTEST = 1 / 4
"""Largest flow through a face for which no equilibrium is negative."""


def scalar_rates(diffusivity: float) -> tuple[float, float]:
    """(omega+, omega-) of a diffusivity in lattice units."""
    odd = 1 / (diffusivity / SOUND_SQUARE + 0.5)
    return 2 - odd, odd


def scalar_numbers(real: Any, diffusivity: float, source: float) -> tuple[Any, ...]:
    """What the function of :func:`make_transport` takes beside populations and velocity, in the type `real`.

    Parameters
    ----------
    real : NumPy type that is computed with.
    diffusivity : D, lattice units.
    source : S, per step.
    """
    even, odd = scalar_rates(diffusivity)
    numbers = (1 - odd, even, (1 - even / 2) * source, odd, (1 - odd / 2) * source, source / 2)
    return tuple(real(number) for number in numbers)


class ScalarMoves(NamedTuple):
    """Reads and writes of all seven populations of a node, as :class:`solver.kernels.streaming.Moves` has them."""

    load: Any
    store: Any
    gather: Any
    scatter: Any


@cache
def make_transport(real: Any) -> Any:
    """Function ``(s, f, numbers) -> s*`` in the order of the opposite directions: s_0*, s_2*, s_1*, s_4*, s_3*, ...

    That is where an even step writes them. `f` are f_1 to f_6, `numbers` those of :func:`scalar_numbers`.

    The parameters are those of :mod:`solver.kernels`.
    """
    rest, axis, four = real(REST), real(AXIS), real(4)

    @node_function
    def transport(s: Populations, f: Populations, numbers: Populations) -> Populations:
        k, even, of_even, odd, of_odd, half_source = numbers
        c = s[0] + ((s[1] + s[2]) + (s[3] + s[4]) + (s[5] + s[6])) + half_source
        e, d = axis * (even * c + of_even), axis * (four * (odd * c + of_odd))
        kept = (f[0] + f[1]) + (f[2] + f[3]) + (f[4] + f[5])  # round-off, so that none of the scalar is lost
        return (
            rest / axis * e - d * kept - k * s[0],
            e + d * f[1] - k * s[1],
            e + d * f[0] - k * s[2],
            e + d * f[3] - k * s[3],
            e + d * f[2] - k * s[4],
            e + d * f[5] - k * s[5],
            e + d * f[4] - k * s[6],
        )

    return transport


@node_function
def exchanged(s: Populations) -> Populations:
    """The populations with those of opposite directions exchanged."""
    return s[0], s[2], s[1], s[4], s[3], s[6], s[5]


@node_function
def concentration(s: Populations) -> Any:
    """Sum of the populations."""
    return s[0] + ((s[1] + s[2]) + (s[3] + s[4]) + (s[5] + s[6]))


@cache
def make_scalar_moves(load_slot: Any, store_slot: Any) -> ScalarMoves:
    """Reads and writes from those of single slots, as :func:`solver.kernels.streaming.make_moves` has them.

    Parameters
    ----------
    load_slot : ``(s, slot)``.
    store_slot : ``(s, slot, population)``.
    """

    @node_function
    def load(s: Any, first: int, stride: int) -> Populations:
        return (
            load_slot(s, first),
            load_slot(s, first + stride),
            load_slot(s, first + 2 * stride),
            load_slot(s, first + 3 * stride),
            load_slot(s, first + 4 * stride),
            load_slot(s, first + 5 * stride),
            load_slot(s, first + 6 * stride),
        )

    @node_function
    def store(s: Any, first: int, stride: int, g: Populations) -> None:
        store_slot(s, first, g[0])
        store_slot(s, first + stride, g[1])
        store_slot(s, first + 2 * stride, g[2])
        store_slot(s, first + 3 * stride, g[3])
        store_slot(s, first + 4 * stride, g[4])
        store_slot(s, first + 5 * stride, g[5])
        store_slot(s, first + 6 * stride, g[6])

    @node_function
    def gather(s: Any, a: Populations, n: int) -> Populations:
        return (
            load_slot(s, n),
            load_slot(s, a[0]),
            load_slot(s, a[1]),
            load_slot(s, a[2]),
            load_slot(s, a[3]),
            load_slot(s, a[4]),
            load_slot(s, a[5]),
        )

    @node_function
    def scatter(s: Any, a: Populations, n: int, g: Populations) -> None:
        store_slot(s, n, g[0])
        store_slot(s, a[0], g[1])
        store_slot(s, a[1], g[2])
        store_slot(s, a[2], g[3])
        store_slot(s, a[3], g[4])
        store_slot(s, a[4], g[5])
        store_slot(s, a[5], g[6])

    return ScalarMoves(load, store, gather, scatter)


@cache
def make_axis_address(load_slot: Any) -> Any:
    """Function ``(offset, run, n)`` of the addresses of a node's links along the axes, from the offsets of its run.

    Parameters
    ----------
    load_slot : reads an offset.
    """

    @node_function
    def axis_address(offset: Any, run: int, n: int) -> Populations:
        k = 6 * run
        return (
            n + load_slot(offset, k),
            n + load_slot(offset, k + 1),
            n + load_slot(offset, k + 2),
            n + load_slot(offset, k + 3),
            n + load_slot(offset, k + 4),
            n + load_slot(offset, k + 5),
        )

    return axis_address


@cache
def faces_at(load_slot: Any) -> Any:
    """Function ``(faces, n, stride)`` of the flow out through the faces of a node, f_1 to f_6, in rows of `stride`.

    Parameters
    ----------
    load_slot : reads a number.
    """

    @node_function
    def faces_of(faces: Any, n: int, stride: int) -> Populations:
        return (
            load_slot(faces, n),
            load_slot(faces, n + stride),
            load_slot(faces, n + 2 * stride),
            load_slot(faces, n + 3 * stride),
            load_slot(faces, n + 4 * stride),
            load_slot(faces, n + 5 * stride),
        )

    return faces_of


@cache
def shared_faces_at(real: Any, load_slot: Any) -> Any:
    """Function ``(faces, n, stride, behind)`` of the same where `faces` holds f_1, f_3 and f_5 of each node alone.

    What flows out to the node behind, along the directions 2, 4 and 6, is what flows out of that towards this one, with
    the other sign. `behind` are the addresses of these three links: through a wall, where a link comes back to the node
    itself, nothing flows. At openings it is of no use.

    Parameters
    ----------
    real : NumPy type that is computed with.
    load_slot : reads a number.
    """
    zero = real(0)

    @node_function
    def out_behind(faces: Any, n: int, stride: int, axis: int, address: int) -> Any:
        if address == (2 * axis + 1) * stride + n:
            return zero
        return -load_slot(faces, address - (axis + 2) * stride)

    @node_function
    def faces_of(faces: Any, n: int, stride: int, behind: Any) -> Populations:
        return (
            load_slot(faces, n),
            out_behind(faces, n, stride, 0, behind[0]),
            load_slot(faces, n + stride),
            out_behind(faces, n, stride, 1, behind[1]),
            load_slot(faces, n + 2 * stride),
            out_behind(faces, n, stride, 2, behind[2]),
        )

    return faces_of


# many parameters because compiled loops take each array by itself
@cache
def make_passage(real: Any) -> Any:
    """Function ``(s, arriving, m, ports, flux, inflow, row, k, held, carried, passed)`` of the m-th node at openings.

    After a step, of its links through openings: with half-way bounce-back what comes back is what left; here it lacks
    what the flow F out through the link carries away,

        a(t) = k a(t-1) + (1 - k) [F C_b + abs(F) ((C(t+1) + C(t-1))/2 - C(t))/2],

    with C_b = C(t) where fluid leaves, that of the inflow elsewhere, and k = 1 - omega-. In the mean over time that is
    F C_b. C(t+1) follows from itself, a linear equation of the node. The scheme is centred in time, a leap-frog at
    small diffusivities. What openings take off damps, which no leap-frog bears unless the mean of both ends is damped
    (Du Fort and Frankel 1953, doi:10.2307/2002754); and as populations are what they were two steps before, and what
    came since,

        s_o(t+1) = k^2 s_o(t-1) + ... - [a(t) - k a(t-1)],

    it is the bracket that stands at the time t.

    `arriving` is the sum of the populations that arrive next, `ports` are the arrays first, slot and opening of
    :class:`solver.backends.scalar_lattice.Ports`; ``inflow[row + opening]`` is the concentration of what comes in.
    `held`, (2, M), holds C(t) and C(t-1), `carried`, (K,), a(t-1). `passed`, (2, K), double precision, adds up what
    left of the scalar and of fluid.

    The parameters are those of :mod:`solver.kernels`.
    """
    zero, quarter, half, one = real(0), real(0.25), real(0.5), real(1)

    @node_function
    def passage(
        s: Any,
        arriving: Any,
        m: int,
        ports: Any,
        flux: Any,
        inflow: Any,
        row: int,
        k: Any,
        held: Any,
        carried: Any,
        passed: Any,
    ) -> None:
        first, slot, opening = ports
        now, before, size, taken = held[0, m], held[1, m], zero, zero
        for i in range(first[m], first[m + 1]):
            carried[i] = k * carried[i] + (one - k) * flux[i] * (now if flux[i] > zero else inflow[row + opening[i]])
            size, taken = size + (one - k) * abs(flux[i]), taken + carried[i]
        then = (arriving - taken + size * (half * now - quarter * before)) / (one + quarter * size)
        bend = (one - k) * half * (half * (then + before) - now)
        for i in range(first[m], first[m + 1]):
            carried[i] += abs(flux[i]) * bend
            left = s[slot[i]]
            s[slot[i]] = left - carried[i]
            passed[0, i] += np.float64(left) - np.float64(s[slot[i]])
            passed[1, i] += np.float64(flux[i])
        held[0, m], held[1, m] = then, now

    return passage


def at_uniform(c: Any, faces: Any) -> Any:
    """Populations (7, N) of a concentration (N,) that is near the same around each node, by the flow out through the
    faces (6, N): what a run begins with.
    """
    c = np.asarray(c, np.float64)
    arriving = (AXIS * c * (1 - 4 * faces[i ^ 1]) for i in range(SCALAR_Q - 1))
    return np.stack([REST * c, *arriving])
