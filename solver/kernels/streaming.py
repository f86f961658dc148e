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

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from solver.domain.nodes import Neighbours, Nodes
from solver.kernels.d3q19 import VELOCITIES, Q
from solver.kernels.node_physics import Populations, node_function
from solver.kernels.velocity_sets import velocity_set
from solver.runtime.stage import StageError

ALIGNMENT = 64
"""Rows of populations start at multiples of this many numbers."""

SLIP_TOLERANCE = 1e-3
"""Largest distance from half-way, in lengths of the link, of a wall that slips; the surface is not known any better."""


def row_stride(count: int) -> int:
    """Length of a row of populations: the number of nodes rounded up to the alignment."""
    return -(-count // ALIGNMENT) * ALIGNMENT


def link_addresses(nodes: Nodes, slip: tuple[str, ...] = ()) -> NDArray[np.unsignedinteger]:
    """Address of link i of node n at ``[(i - 1) * stride + n]``, flat, q - 1 rows; 32-bit where it suffices.

    Padding nodes are enclosed by walls: their addresses are their own slots.

    Parameters
    ----------
    nodes : the geometry.
    slip : names of the patches of the wall along which fluid slips.

    Raises
    ------
    StageError
        If such a patch does not lie half-way between nodes, along the lattice, or links along corners are listed.
    """
    stride, opposite = row_stride(nodes.count), velocity_set(nodes.q).opposite
    kind = np.uint32 if nodes.q * stride < 2**32 else np.uint64
    addresses = np.empty((nodes.q - 1, stride), dtype=kind)
    neighbours = Neighbours(nodes)
    for i in range(1, nodes.q):
        _fill(addresses[i - 1], neighbours.along(i), i * stride, int(opposite[i]) * stride)
    if slip:
        if nodes.q != Q:
            raise StageError(
                f"solve.patches.{slip[0]}: fluid slips along walls on D3Q19 alone; set solve.velocity_set to D3Q19"
            )
        for node, direction, address in _mirrored(nodes, slip_links(nodes, slip), neighbours, stride):
            addresses[direction - 1, node] = address
    return addresses.ravel()


class Runs(NamedTuple):
    """Addresses of all links, compressed: runs of rows over which each of a node's addresses rises by one a row.

    Rows follow each other along an axis, and so do their neighbours, until one of these meets a wall. Of the r-th run,
    the address of link i of row n is ``n + offset[(q - 1) r + i - 1]``.

    Attributes
    ----------
    first : (R + 1,) first row of each run, and the end of the last one.
    offset : ((q - 1) R,) signed.
    """

    first: NDArray[np.int64]
    offset: NDArray[np.signedinteger]


def address_runs(addresses: NDArray[np.unsignedinteger], stride: int) -> Runs:
    """Runs of the addresses that :func:`link_addresses` gives, or of such as reach a halo behind the slots."""
    table = addresses.reshape(-1, stride)
    starting = np.zeros(stride, np.bool_)
    _mark_starts(table, starting)
    first = np.flatnonzero(starting)
    kind = np.int32 if int(table.max()) < 2**31 else np.int64
    offset = (table[:, first].astype(np.int64) - first).T.astype(kind)
    return Runs(np.append(first, stride), np.ascontiguousarray(offset).ravel())


GROUP = 32
"""Rows of a group: the bits of a word."""


def runs_by_group(runs: Runs) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
    """How a row finds its run: that of row n in group g = n // 32 is ``before[g]`` and one more for each bit of
    ``starts[g]`` up to that of the row.

    Returns
    -------
    before : (G,), the last run that starts in an earlier group; -1 in the first one.
    starts : (G,), bit k is set where row 32 g + k starts a run.
    """
    starting = np.zeros(runs.first[-1], np.bool_)
    starting[runs.first[:-1]] = True
    begun = np.cumsum(starting.reshape(-1, GROUP).sum(axis=1)) - 1
    return np.append(-1, begun[:-1]).astype(np.int32), bit_words(starting)


def bit_words(flags: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Flags as bits: that of row 32 g + k is bit k of word g."""
    bits = flags.reshape(-1, GROUP).astype(np.uint32)
    return (bits << np.arange(GROUP, dtype=np.uint32)).sum(axis=1, dtype=np.uint32)


@njit(parallel=True, cache=True)
def _mark_starts(table: NDArray[np.unsignedinteger], starting: NDArray[np.bool_]) -> None:
    for n in prange(table.shape[1]):
        starting[n] = n == 0
        for i in range(table.shape[0]):
            if n > 0 and table[i, n] != table[i, n - 1] + 1:
                starting[n] = True


def slip_links(nodes: Nodes, slip: tuple[str, ...]) -> NDArray[np.bool_]:
    """Which wall links cross a patch along which fluid slips, (L,).

    Raises
    ------
    StageError
        If such a patch does not lie half-way between nodes, along the lattice.
    """
    chosen = np.zeros(len(nodes.wall_link_q), np.bool_)
    for name in slip:
        mine = nodes.wall_link_patch == nodes.patches.index(name) + 1
        if mine.any() and (worst := np.abs(nodes.wall_link_q[mine] - 0.5).max()) > SLIP_TOLERANCE:
            raise StageError(
                f"solve.patches.{name}: fluid can slip only along flat walls of the lattice, half-way between its nodes"
                f" (q = 0.5), but here q is up to {worst:.2g} off; move this wall by a part of the spacing, choose"
                " another voxelize.nodes_across, or let it hold the fluid"
            )
        chosen |= mine
    return chosen


def _mirrored(
    nodes: Nodes, slips: NDArray[np.bool_], neighbours: Neighbours, stride: int
) -> Iterator[tuple[NDArray[np.integer], int, NDArray[np.int64]]]:
    """Nodes, direction and addresses of the diagonal links that a slipping wall reflects to a neighbour along it.

    The wall that a diagonal link c = t + m meets is told by the links along the axes: m is into the wall where n and
    n + t, both fluid, have slipping links along m. Every other slipping link turns round, as at a wall that holds the
    fluid. That is the mirror's own rule where the link is perpendicular, and where it meets the edge of two walls at
    once, of which the other slips, too (it is mirrored twice) or holds the fluid (it is mirrored, turned round and
    mirrored). At an edge of the wall that stands out into the fluid there is no mirror, and the fluid is held.
    """
    slipping = np.zeros((Q, nodes.count), np.bool_)
    slipping[nodes.wall_link_direction[slips], nodes.wall_link_node[slips]] = True
    for along in range(1, 7):
        beside = neighbours.along(along)
        for into in range(1, 7):
            if not VELOCITIES[along] @ VELOCITIES[into]:
                leaving, arriving, partner = (
                    _direction(VELOCITIES[along] * s + VELOCITIES[into] * m) for s, m in ((1, 1), (1, -1), (-1, 1))
                )
                node = np.flatnonzero(slipping[into] & slipping[leaving] & (beside >= 0))
                node = node[slipping[into, beside[node]] & slipping[partner, beside[node]]]
                yield node, leaving, arriving * stride + beside[node].astype(np.int64)


def _direction(velocity: NDArray[np.int8]) -> int:
    return int(np.flatnonzero((velocity == VELOCITIES).all(axis=1))[0])


@njit(parallel=True, cache=True)
def _fill(row: NDArray[np.unsignedinteger], ends: NDArray[np.int32], there: int, own: int) -> None:
    """Addresses of the links of one direction, where slots of the neighbour begin at `there`, a node's own at `own`."""
    for n in prange(len(row)):
        row[n] = there + ends[n] if n < len(ends) and ends[n] >= 0 else own + n


@node_function
def _opposite(g: Populations) -> Populations:
    return (
        g[0], g[2], g[1], g[4], g[3], g[6], g[5], g[8], g[7], g[10], g[9], g[12], g[11], g[14], g[13], g[16], g[15],
        g[18], g[17],
    )  # fmt: skip


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


def make_moves(take: Any, put: Any, q: int = Q) -> Moves:
    """Reads and writes made of those of single slots, ``take(f, slot)`` and ``put(f, slot, population)``.

    Each population is named: loops over a tuple would not be unrolled.
    """

    @node_function
    def load(f: Any, first: int, stride: int) -> Populations:
        return (
            take(f, first), take(f, first + stride), take(f, first + 2 * stride), take(f, first + 3 * stride),
            take(f, first + 4 * stride), take(f, first + 5 * stride), take(f, first + 6 * stride),
            take(f, first + 7 * stride), take(f, first + 8 * stride), take(f, first + 9 * stride),
            take(f, first + 10 * stride), take(f, first + 11 * stride), take(f, first + 12 * stride),
            take(f, first + 13 * stride), take(f, first + 14 * stride), take(f, first + 15 * stride),
            take(f, first + 16 * stride), take(f, first + 17 * stride), take(f, first + 18 * stride),
        )  # fmt: skip

    @node_function
    def store(f: Any, first: int, stride: int, g: Populations) -> None:
        put(f, first, g[0])
        put(f, first + stride, g[1])
        put(f, first + 2 * stride, g[2])
        put(f, first + 3 * stride, g[3])
        put(f, first + 4 * stride, g[4])
        put(f, first + 5 * stride, g[5])
        put(f, first + 6 * stride, g[6])
        put(f, first + 7 * stride, g[7])
        put(f, first + 8 * stride, g[8])
        put(f, first + 9 * stride, g[9])
        put(f, first + 10 * stride, g[10])
        put(f, first + 11 * stride, g[11])
        put(f, first + 12 * stride, g[12])
        put(f, first + 13 * stride, g[13])
        put(f, first + 14 * stride, g[14])
        put(f, first + 15 * stride, g[15])
        put(f, first + 16 * stride, g[16])
        put(f, first + 17 * stride, g[17])
        put(f, first + 18 * stride, g[18])

    @node_function
    def gather(f: Any, a: Populations, n: int) -> Populations:
        return (
            take(f, n), take(f, a[0]), take(f, a[1]), take(f, a[2]), take(f, a[3]), take(f, a[4]),
            take(f, a[5]), take(f, a[6]), take(f, a[7]), take(f, a[8]), take(f, a[9]), take(f, a[10]),
            take(f, a[11]), take(f, a[12]), take(f, a[13]), take(f, a[14]), take(f, a[15]), take(f, a[16]),
            take(f, a[17]),
        )  # fmt: skip

    @node_function
    def scatter(f: Any, a: Populations, n: int, g: Populations) -> None:
        put(f, n, g[0])
        put(f, a[0], g[1])
        put(f, a[1], g[2])
        put(f, a[2], g[3])
        put(f, a[3], g[4])
        put(f, a[4], g[5])
        put(f, a[5], g[6])
        put(f, a[6], g[7])
        put(f, a[7], g[8])
        put(f, a[8], g[9])
        put(f, a[9], g[10])
        put(f, a[10], g[11])
        put(f, a[11], g[12])
        put(f, a[12], g[13])
        put(f, a[13], g[14])
        put(f, a[14], g[15])
        put(f, a[15], g[16])
        put(f, a[16], g[17])
        put(f, a[17], g[18])

    moves = Moves(load, store, gather, scatter)
    return _with_corners(moves, take, put) if q == 27 else moves


def _with_corners(moves: Moves, take: Any, put: Any) -> Moves:
    """Those of D3Q27, from those of D3Q19, whose directions come first."""
    load_19, store_19, gather_19, scatter_19 = moves

    @node_function
    def load(f: Any, first: int, stride: int) -> Populations:
        return (
            *load_19(f, first, stride),
            take(f, first + 19 * stride), take(f, first + 20 * stride), take(f, first + 21 * stride),
            take(f, first + 22 * stride), take(f, first + 23 * stride), take(f, first + 24 * stride),
            take(f, first + 25 * stride), take(f, first + 26 * stride),
        )  # fmt: skip

    @node_function
    def store(f: Any, first: int, stride: int, g: Populations) -> None:
        store_19(f, first, stride, g)
        put(f, first + 19 * stride, g[19])
        put(f, first + 20 * stride, g[20])
        put(f, first + 21 * stride, g[21])
        put(f, first + 22 * stride, g[22])
        put(f, first + 23 * stride, g[23])
        put(f, first + 24 * stride, g[24])
        put(f, first + 25 * stride, g[25])
        put(f, first + 26 * stride, g[26])

    @node_function
    def gather(f: Any, a: Populations, n: int) -> Populations:
        return (
            *gather_19(f, a, n),
            take(f, a[18]), take(f, a[19]), take(f, a[20]), take(f, a[21]), take(f, a[22]), take(f, a[23]),
            take(f, a[24]), take(f, a[25]),
        )  # fmt: skip

    @node_function
    def scatter(f: Any, a: Populations, n: int, g: Populations) -> None:
        scatter_19(f, a, n, g)
        put(f, a[18], g[19])
        put(f, a[19], g[20])
        put(f, a[20], g[21])
        put(f, a[21], g[22])
        put(f, a[22], g[23])
        put(f, a[23], g[24])
        put(f, a[24], g[25])
        put(f, a[25], g[26])

    return Moves(load, store, gather, scatter)


@node_function
def _link_address(a: Any, n: int, stride: int) -> Populations:
    return (
        a[n], a[n + stride], a[n + 2 * stride], a[n + 3 * stride], a[n + 4 * stride], a[n + 5 * stride],
        a[n + 6 * stride], a[n + 7 * stride], a[n + 8 * stride], a[n + 9 * stride], a[n + 10 * stride],
        a[n + 11 * stride], a[n + 12 * stride], a[n + 13 * stride], a[n + 14 * stride], a[n + 15 * stride],
        a[n + 16 * stride], a[n + 17 * stride],
    )  # fmt: skip


@node_function
def _link_address_27(a: Any, n: int, stride: int) -> Populations:
    return (
        *_link_address(a, n, stride),
        a[n + 18 * stride], a[n + 19 * stride], a[n + 20 * stride], a[n + 21 * stride], a[n + 22 * stride],
        a[n + 23 * stride], a[n + 24 * stride], a[n + 25 * stride],
    )  # fmt: skip


def make_link_address(q: int = Q) -> Any:
    """Function ``(a, n, stride)`` of the addresses of a node's links, from the table `a`."""
    return _link_address_27 if q == 27 else _link_address


@cache
def make_run_address(take: Any, q: int = Q) -> Any:
    """Function ``(offset, run, n)`` of the addresses of a node's links, from the offsets of its run."""

    @node_function
    def address_19(offset: Any, k: int, n: int) -> Populations:
        return (
            n + take(offset, k), n + take(offset, k + 1), n + take(offset, k + 2), n + take(offset, k + 3),
            n + take(offset, k + 4), n + take(offset, k + 5), n + take(offset, k + 6), n + take(offset, k + 7),
            n + take(offset, k + 8), n + take(offset, k + 9), n + take(offset, k + 10), n + take(offset, k + 11),
            n + take(offset, k + 12), n + take(offset, k + 13), n + take(offset, k + 14), n + take(offset, k + 15),
            n + take(offset, k + 16), n + take(offset, k + 17),
        )  # fmt: skip

    @node_function
    def run_address(offset: Any, run: int, n: int) -> Populations:
        return address_19(offset, 18 * run, n)

    @node_function
    def run_address_27(offset: Any, run: int, n: int) -> Populations:
        k = 26 * run
        return (
            *address_19(offset, k, n),
            n + take(offset, k + 18), n + take(offset, k + 19), n + take(offset, k + 20), n + take(offset, k + 21),
            n + take(offset, k + 22), n + take(offset, k + 23), n + take(offset, k + 24), n + take(offset, k + 25),
        )  # fmt: skip

    return run_address_27 if q == 27 else run_address
