# SPDX-License-Identifier: Apache-2.0
"""Slices of a vessel and their connected pieces: nodes by the length of their shortest way from some of them.

Ranks find them together: each goes on from its own nodes as far as it can, and then from what others found at the
border, until nobody finds anything more. Lengths are whole numbers, and a piece is named by the first of its rows.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.domain.border import Border
from solver.domain.link_graph import LENGTHS, UNSEEN, Links, Rows
from solver.domain.nodes import Nodes
from solver.domain.whole import NOWHERE


def distances(nodes: Nodes, links: Links, border: Border, seeds: Rows) -> NDArray[np.int32]:
    """Lengths of the shortest ways from some nodes to all, (N,), in fifths of a spacing; other pieces follow beyond.

    Parameters
    ----------
    nodes, links, border : the geometry, the nodes at the ends of links, (N, 18), and the border of a part.
    seeds : rows of own nodes at which ways begin.
    """
    distance = np.full(nodes.count, UNSEEN, np.int32)
    rows = nodes.rows
    while True:
        distance[seeds], active = np.int32(_farthest(nodes, distance, border) + 1), seeds
        while True:
            _go_on(links, border.own, LENGTHS, active, distance)
            active = border.swap(distance)
            if not border.any(len(active)):
                break
        unseen = rows[border.own & (distance == UNSEEN)].astype(np.int64)
        lowest = -int(nodes.ranks.largest(-unseen[:1] if len(unseen) else np.array([-NOWHERE]))[0])
        if lowest == NOWHERE:
            return distance
        seeds = np.flatnonzero(border.own & (rows == lowest))


def _farthest(nodes: Nodes, distance: NDArray[np.int32], border: Border) -> int:
    return int(nodes.ranks.largest(np.array([distance[border.own].max(initial=UNSEEN)], np.int64))[0])


@njit(cache=True)
def _go_on(
    links: Links, own: NDArray[np.bool_], lengths: NDArray[np.int32], active: Rows, distance: NDArray[np.int32]
) -> None:
    """Lengths of ways that go on from some nodes through own ones.

    A queue of nodes whose distance has become less: nearly in order of distance, so that few come twice.
    """
    size = len(own) + 1
    queue, queued, head, tail = np.empty(size, np.int32), np.zeros(len(own), np.bool_), 0, 0
    for n in active:
        queue[tail], queued[n] = n, True
        tail += 1
    while head != tail:
        n = queue[head]
        head = head + 1 if head + 1 < size else 0
        queued[n] = False
        for i in range(links.shape[1]):
            m = links[n, i]
            if m < 0 or not own[m]:
                continue
            there = distance[n] + lengths[i]
            if distance[m] == UNSEEN or there < distance[m]:
                distance[m] = there
                if not queued[m]:
                    queued[m], queue[tail] = True, m
                    tail = tail + 1 if tail + 1 < size else 0


def pieces_of(
    nodes: Nodes, links: Links, border: Border, level: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number of the connected piece of a slice that each node belongs to, (N,), from 0 in the order of their first
    rows, and the slice of each piece.

    Parameters
    ----------
    nodes, links, border : as of :func:`distances`.
    level : (N,) slice of each node.
    """
    piece, seeds = _connected(links, border.own, level)
    first, inner, outer = nodes.rows[seeds].astype(np.int64), *_across_border(links, border, level, piece)
    label = np.full(nodes.count, NOWHERE)
    while True:
        label[border.own] = first[piece[border.own]]
        border.swap(label)
        least = first.copy()
        np.minimum.at(least, inner, label[outer])
        if not border.any(int(np.count_nonzero(least < first))):
            break
        first = least
    names = np.unique(nodes.ranks.join(np.unique(first)))
    of_piece = np.full(len(names), -1, np.int64)
    of_piece[np.searchsorted(names, first)] = level[seeds]
    # nodes that are neither own nor at the border have no name, and whatever number
    return np.searchsorted(names, label), nodes.ranks.largest(of_piece)


def _across_border(
    links: Links, border: Border, level: NDArray[np.int32], piece: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Own pieces, and nodes of others in their slices that they have links to, pair by pair."""
    inner, outer = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for ends in links.T:
        here = np.flatnonzero(border.own & (ends >= 0) & ~border.own[ends])
        here = here[level[here] == level[ends[here]]]
        inner.append(piece[here])
        outer.append(ends[here])
    return np.concatenate(inner), np.concatenate(outer)


def connected(links: Links) -> NDArray[np.int32]:
    """Number of the connected piece that each node belongs to, (N,), from 0.

    Parameters
    ----------
    links : (N, 18) rows of the nodes at the ends of links; -1 where there is none.
    """
    return _connected(links, np.ones(len(links), np.bool_), np.zeros(len(links), np.int32))[0]


@njit(cache=True)
def _connected(
    links: Links, own: NDArray[np.bool_], level: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Number of the connected piece of a slice that each own node belongs to, from 0, and the first row of each."""
    piece, stack, found = np.full(len(level), np.int32(-1)), np.empty(len(level), np.int32), 0
    seeds = np.empty(len(level), np.int32)
    for seed in range(len(level)):
        if piece[seed] >= 0 or not own[seed]:
            continue
        piece[seed], seeds[found], stack[0], high = found, seed, seed, 1
        while high:
            high -= 1
            n = stack[high]
            for i in range(links.shape[1]):
                m = links[n, i]
                if m >= 0 and own[m] and piece[m] < 0 and level[m] == level[n]:
                    piece[m], stack[high] = found, m
                    high += 1
        found += 1
    return piece, seeds[:found].astype(np.int64)
