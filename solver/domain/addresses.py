# SPDX-License-Identifier: Apache-2.0
"""Addresses of links in place: where the population of each link lives, walls and free slip included."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from solver.domain.nodes import Neighbours, Nodes
from solver.kernels.d3q19 import VELOCITIES, Q
from solver.kernels.velocity_sets import velocity_set
from solver.runtime.errors import StageError

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

    The wall that a diagonal link c = t + m meets follows from the links along the axes: m is into the wall where n and
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
