# SPDX-License-Identifier: Apache-2.0
"""In-place streaming on the node list (AA pattern): where a population lives before and after each step.

Populations are one flat array of q rows of `stride` numbers, q = 19 or 27; slot (i, n) is ``i * stride + n``. With o
the opposite of i, the address of link i of node n is slot (i, neighbour) where n + c_i is fluid, else slot (o, n),
which folds half-way bounce-back into streaming. Steps come in pairs:

* even: node n reads g_i from slot (i, n), collides, and writes g_i* to slot (o, n);
* odd: node n reads g_o from the address of its link i, collides, and writes g_i* to the same address.

No slot is touched by two nodes in one step, so one array is enough and the order of nodes does not matter. Source:
Bailey, Myre, Walsh, Lilja and Saar (2009), doi:10.1109/ICPP.2009.38.

A wall that lets fluid slip, half-way between two layers of nodes, reflects as a mirror: with c_i = t + m, t along the
wall and m into it, what leaves n along i arrives at n + t along r, c_r = t - m. Its address is therefore slot
(r, n + t). What arrives at n from there, along o, left n + t along the opposite of r, which after an even step stands
in the same slot: both kinds of steps hold as they are, and the two links exchange their populations.
"""

from functools import cache
from typing import Any, NamedTuple

from solver.kernels.d3q19 import Q
from solver.kernels.node_physics import Populations, node_function


@node_function
def _opposite(g: Populations) -> Populations:
    return (
        g[0],
        g[2],
        g[1],
        g[4],
        g[3],
        g[6],
        g[5],
        g[8],
        g[7],
        g[10],
        g[9],
        g[12],
        g[11],
        g[14],
        g[13],
        g[16],
        g[15],
        g[18],
        g[17],
    )


@node_function
def _opposite_27(g: Populations) -> Populations:
    return (*_opposite(g[:19]), g[20], g[19], g[22], g[21], g[24], g[23], g[26], g[25])


def make_opposite(q: int = Q) -> Any:
    """Function ``g -> g`` that exchanges the populations of opposite directions."""
    return _opposite_27 if q == 27 else _opposite


class Moves(NamedTuple):
    """Reads and writes of all populations of a node.

    Attributes
    ----------
    load : ``(f, first, stride)``, those at ``first``, ``first + stride``, ...
    store : ``(f, first, stride, g)``, to there.
    gather : ``(f, a, n)``, those at the addresses `a` of the node's links, after the one at rest.
    scatter : ``(f, a, n, g)``, to there.
    """

    load: Any
    store: Any
    gather: Any
    scatter: Any


# long because each population is named: loops over a tuple would not be unrolled
def make_moves(load_slot: Any, store_slot: Any, q: int = Q) -> Moves:
    """Reads and writes from those of single slots, ``load_slot(f, slot)`` and ``store_slot(f, slot, population)``.

    Parameters
    ----------
    load_slot, store_slot : functions of one node.
    q : populations of a node, 19 or 27.
    """

    @node_function
    def load(f: Any, first: int, stride: int) -> Populations:
        return (
            load_slot(f, first),
            load_slot(f, first + stride),
            load_slot(f, first + 2 * stride),
            load_slot(f, first + 3 * stride),
            load_slot(f, first + 4 * stride),
            load_slot(f, first + 5 * stride),
            load_slot(f, first + 6 * stride),
            load_slot(f, first + 7 * stride),
            load_slot(f, first + 8 * stride),
            load_slot(f, first + 9 * stride),
            load_slot(f, first + 10 * stride),
            load_slot(f, first + 11 * stride),
            load_slot(f, first + 12 * stride),
            load_slot(f, first + 13 * stride),
            load_slot(f, first + 14 * stride),
            load_slot(f, first + 15 * stride),
            load_slot(f, first + 16 * stride),
            load_slot(f, first + 17 * stride),
            load_slot(f, first + 18 * stride),
        )

    @node_function
    def store(f: Any, first: int, stride: int, g: Populations) -> None:
        store_slot(f, first, g[0])
        store_slot(f, first + stride, g[1])
        store_slot(f, first + 2 * stride, g[2])
        store_slot(f, first + 3 * stride, g[3])
        store_slot(f, first + 4 * stride, g[4])
        store_slot(f, first + 5 * stride, g[5])
        store_slot(f, first + 6 * stride, g[6])
        store_slot(f, first + 7 * stride, g[7])
        store_slot(f, first + 8 * stride, g[8])
        store_slot(f, first + 9 * stride, g[9])
        store_slot(f, first + 10 * stride, g[10])
        store_slot(f, first + 11 * stride, g[11])
        store_slot(f, first + 12 * stride, g[12])
        store_slot(f, first + 13 * stride, g[13])
        store_slot(f, first + 14 * stride, g[14])
        store_slot(f, first + 15 * stride, g[15])
        store_slot(f, first + 16 * stride, g[16])
        store_slot(f, first + 17 * stride, g[17])
        store_slot(f, first + 18 * stride, g[18])

    @node_function
    def gather(f: Any, a: Populations, n: int) -> Populations:
        return (
            load_slot(f, n),
            load_slot(f, a[0]),
            load_slot(f, a[1]),
            load_slot(f, a[2]),
            load_slot(f, a[3]),
            load_slot(f, a[4]),
            load_slot(f, a[5]),
            load_slot(f, a[6]),
            load_slot(f, a[7]),
            load_slot(f, a[8]),
            load_slot(f, a[9]),
            load_slot(f, a[10]),
            load_slot(f, a[11]),
            load_slot(f, a[12]),
            load_slot(f, a[13]),
            load_slot(f, a[14]),
            load_slot(f, a[15]),
            load_slot(f, a[16]),
            load_slot(f, a[17]),
        )

    @node_function
    def scatter(f: Any, a: Populations, n: int, g: Populations) -> None:
        store_slot(f, n, g[0])
        store_slot(f, a[0], g[1])
        store_slot(f, a[1], g[2])
        store_slot(f, a[2], g[3])
        store_slot(f, a[3], g[4])
        store_slot(f, a[4], g[5])
        store_slot(f, a[5], g[6])
        store_slot(f, a[6], g[7])
        store_slot(f, a[7], g[8])
        store_slot(f, a[8], g[9])
        store_slot(f, a[9], g[10])
        store_slot(f, a[10], g[11])
        store_slot(f, a[11], g[12])
        store_slot(f, a[12], g[13])
        store_slot(f, a[13], g[14])
        store_slot(f, a[14], g[15])
        store_slot(f, a[15], g[16])
        store_slot(f, a[16], g[17])
        store_slot(f, a[17], g[18])

    moves = Moves(load, store, gather, scatter)
    return _with_corners(moves, load_slot, store_slot) if q == 27 else moves


def _with_corners(moves: Moves, load_slot: Any, store_slot: Any) -> Moves:
    """Those of D3Q27, from those of D3Q19, whose directions come first."""
    load_19, store_19, gather_19, scatter_19 = moves

    @node_function
    def load(f: Any, first: int, stride: int) -> Populations:
        return (
            *load_19(f, first, stride),
            load_slot(f, first + 19 * stride),
            load_slot(f, first + 20 * stride),
            load_slot(f, first + 21 * stride),
            load_slot(f, first + 22 * stride),
            load_slot(f, first + 23 * stride),
            load_slot(f, first + 24 * stride),
            load_slot(f, first + 25 * stride),
            load_slot(f, first + 26 * stride),
        )

    @node_function
    def store(f: Any, first: int, stride: int, g: Populations) -> None:
        store_19(f, first, stride, g)
        store_slot(f, first + 19 * stride, g[19])
        store_slot(f, first + 20 * stride, g[20])
        store_slot(f, first + 21 * stride, g[21])
        store_slot(f, first + 22 * stride, g[22])
        store_slot(f, first + 23 * stride, g[23])
        store_slot(f, first + 24 * stride, g[24])
        store_slot(f, first + 25 * stride, g[25])
        store_slot(f, first + 26 * stride, g[26])

    @node_function
    def gather(f: Any, a: Populations, n: int) -> Populations:
        return (
            *gather_19(f, a, n),
            load_slot(f, a[18]),
            load_slot(f, a[19]),
            load_slot(f, a[20]),
            load_slot(f, a[21]),
            load_slot(f, a[22]),
            load_slot(f, a[23]),
            load_slot(f, a[24]),
            load_slot(f, a[25]),
        )

    @node_function
    def scatter(f: Any, a: Populations, n: int, g: Populations) -> None:
        scatter_19(f, a, n, g)
        store_slot(f, a[18], g[19])
        store_slot(f, a[19], g[20])
        store_slot(f, a[20], g[21])
        store_slot(f, a[21], g[22])
        store_slot(f, a[22], g[23])
        store_slot(f, a[23], g[24])
        store_slot(f, a[24], g[25])
        store_slot(f, a[25], g[26])

    return Moves(load, store, gather, scatter)


@node_function
def _link_address(a: Any, n: int, stride: int) -> Populations:
    return (
        a[n],
        a[n + stride],
        a[n + 2 * stride],
        a[n + 3 * stride],
        a[n + 4 * stride],
        a[n + 5 * stride],
        a[n + 6 * stride],
        a[n + 7 * stride],
        a[n + 8 * stride],
        a[n + 9 * stride],
        a[n + 10 * stride],
        a[n + 11 * stride],
        a[n + 12 * stride],
        a[n + 13 * stride],
        a[n + 14 * stride],
        a[n + 15 * stride],
        a[n + 16 * stride],
        a[n + 17 * stride],
    )


@node_function
def _link_address_27(a: Any, n: int, stride: int) -> Populations:
    return (
        *_link_address(a, n, stride),
        a[n + 18 * stride],
        a[n + 19 * stride],
        a[n + 20 * stride],
        a[n + 21 * stride],
        a[n + 22 * stride],
        a[n + 23 * stride],
        a[n + 24 * stride],
        a[n + 25 * stride],
    )


def make_link_address(q: int = Q) -> Any:
    """Function ``(a, n, stride)`` of the addresses of a node's links, from the table `a`."""
    return _link_address_27 if q == 27 else _link_address


@cache
def make_run_address(load_slot: Any, q: int = Q) -> Any:
    """Function ``(offset, run, n)`` of the addresses of a node's links, from the offsets of its run."""

    @node_function
    def address_19(offset: Any, k: int, n: int) -> Populations:
        return (
            n + load_slot(offset, k),
            n + load_slot(offset, k + 1),
            n + load_slot(offset, k + 2),
            n + load_slot(offset, k + 3),
            n + load_slot(offset, k + 4),
            n + load_slot(offset, k + 5),
            n + load_slot(offset, k + 6),
            n + load_slot(offset, k + 7),
            n + load_slot(offset, k + 8),
            n + load_slot(offset, k + 9),
            n + load_slot(offset, k + 10),
            n + load_slot(offset, k + 11),
            n + load_slot(offset, k + 12),
            n + load_slot(offset, k + 13),
            n + load_slot(offset, k + 14),
            n + load_slot(offset, k + 15),
            n + load_slot(offset, k + 16),
            n + load_slot(offset, k + 17),
        )

    @node_function
    def run_address(offset: Any, run: int, n: int) -> Populations:
        return address_19(offset, 18 * run, n)

    @node_function
    def run_address_27(offset: Any, run: int, n: int) -> Populations:
        k = 26 * run
        return (
            *address_19(offset, k, n),
            n + load_slot(offset, k + 18),
            n + load_slot(offset, k + 19),
            n + load_slot(offset, k + 20),
            n + load_slot(offset, k + 21),
            n + load_slot(offset, k + 22),
            n + load_slot(offset, k + 23),
            n + load_slot(offset, k + 24),
            n + load_slot(offset, k + 25),
        )

    return run_address_27 if q == 27 else run_address
