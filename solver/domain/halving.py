# SPDX-License-Identifier: Apache-2.0
"""Every second point of a lattice: node arrays of the same vessel at twice the spacing, without its surface.

A link of the coarse lattice is two links of the fine one in a row. Where the first of them crosses the surface at the
distance q, the coarse one does at q/2; where the second does, at (1 + q)/2: the geometry is exact. Of the eight ways to
take every second point that one is taken which keeps most fluid nodes. Along an axis on which the lattice is one layer
of nodes, nothing changes, and one layer it stays, of twice the thickness.

Ranks that have a part of the vessel each make such a part of the coarse lattice: its nodes are those of its own ones.
"""

from dataclasses import replace

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from solver.domain.border import Border
from solver.domain.excerpt import Scattered, excerpt
from solver.domain.link_graph import link_table
from solver.domain.node_types import ends_of_links, keys_of
from solver.domain.nodes import FLUID, INLET, OUTLET, Neighbours, Nodes, check
from solver.domain.slices import pieces_of
from solver.domain.whole import places_among
from solver.kernels.d3q19 import OPPOSITE, VELOCITIES, Q

REACH = 1.0
"""Distance in fine spacings over which developed velocities of links are averaged for a coarse one beside them."""

Rows = NDArray[np.integer]


class NotHalved(Exception):  # noqa: N818
    """Why there is no lattice at twice the spacing that stands for the same vessel."""


def halved(nodes: Nodes) -> tuple[Nodes, Rows]:
    """Node arrays of the same vessel at twice the spacing.

    A fine node with a coarse neighbour on the other side of a wall is left out, or that one, whichever is nearer to
    the wall, as `voxelize` does; and so are nodes from which no way leads to the openings.

    Parameters
    ----------
    nodes : the fine ones; of a rank those of its part and around it, where all ranks call this together.

    Returns
    -------
    The coarse node arrays, of a rank likewise, and where among the fine nodes that are here each of its own M fluid
    nodes is, (M,).

    Raises
    ------
    NotHalved
        If an axis along which the lattice repeats has an odd number of nodes, an opening loses its links, or a rank
        would have no node.
    """
    size = np.array(nodes.shape[::-1])
    layer = size == 1
    if (odd := np.array(nodes.periodic) & ~layer & (size % 2 == 1)).any():
        axis = int(odd.argmax())
        raise NotHalved(f"the lattice repeats along {'xyz'[axis]} after {size[axis]} nodes, an odd number")
    parity = np.where(layer, 0, nodes.position % 2)
    ways = np.bincount(parity[nodes.is_own] @ np.array((1, 2, 4)), minlength=8)
    first = nodes.ranks.begin_sum(ways)().argmax() >> np.arange(3) & 1
    rows: Rows = np.flatnonzero((parity == first).all(axis=1))
    fine = _FineLinks(nodes)
    rows = np.setdiff1d(rows, _behind_walls(_bare(nodes, rows, first), rows, fine))
    if nodes.openings:
        rows = rows[_in_largest_piece(_bare(nodes, rows, first))]
    return _linked(_bare(nodes, rows, first), rows, fine)


def _in_largest_piece(coarse: Nodes) -> NDArray[np.bool_]:
    """Which coarse nodes, own ones and those next to them, belong to the largest connected piece of all."""
    links = link_table(coarse)
    piece, of_piece = pieces_of(coarse, links, Border(coarse, links), np.zeros(coarse.count, np.int32))
    sizes = np.bincount(piece[coarse.is_own], minlength=len(of_piece))
    return np.asarray(piece == coarse.ranks.begin_sum(sizes)().argmax())


class _FineLinks:
    """Links of the fine lattice.

    Attributes
    ----------
    nodes : their node arrays.
    q, patch, opening : of those that cross the surface, of the wall and then of the openings: distance, patch or 0,
        opening or 0.
    """

    def __init__(self, nodes: Nodes) -> None:
        walls, openings = len(nodes.wall_link_node), len(nodes.opening_link_node)
        self.nodes, self._neighbours = nodes, Neighbours(nodes)
        self.q = np.concatenate((nodes.wall_link_q, nodes.opening_link_q))
        self.patch = np.pad(nodes.wall_link_patch, (0, openings))
        self.opening = np.pad(nodes.opening_link_opening, (walls, 0))
        self._node = np.concatenate((nodes.wall_link_node, nodes.opening_link_node))
        self._direction = np.concatenate((nodes.wall_link_direction, nodes.opening_link_direction))

    def along(self, direction: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Fluid node at the end of the link of each node, -1 for none; and which crossing the link is where none is."""
        crossing = np.full(self.nodes.count, -1, np.int64)
        mine = np.flatnonzero(self._direction == direction)
        crossing[self._node[mine]] = mine
        return self._neighbours.along(direction), crossing


def _bare(nodes: Nodes, rows: Rows, first: NDArray[np.int64]) -> Nodes:
    """Coarse nodes at fine ones, without links; a margin of one node for walls where the lattice does not repeat. Those
    of a part are numbered as the fine ones are.
    """
    size = np.array(nodes.shape[::-1])
    layer, margin = size == 1, np.where(nodes.periodic, 0, 1)
    position = np.where(layer, 0, (nodes.position[rows] - first) // 2 + margin)
    shape = np.where(layer, 1, np.where(nodes.periodic, size // 2, (size - 1 - first) // 2 + 3))
    x, y, z = (nodes.origin_mm + (first - 2 * margin) * nodes.spacing_mm).tolist()
    thicker = 2 ** int(layer.sum())
    none = {name: getattr(nodes, name)[:0] for name in vars(nodes) if "link" in name or "wall" in name}
    whole, part = nodes.whole, nodes.part[rows]
    if not whole:
        part = np.unique(part, return_inverse=True)[1].astype(np.int16)
    return replace(
        nodes,
        spacing_mm=2 * nodes.spacing_mm,
        origin_mm=(x, y, z),
        shape=tuple(shape[::-1].tolist()),
        openings=tuple(replace(opening, area_mm2=opening.area_mm2 * thicker) for opening in nodes.openings),
        position=position.astype(np.int32),
        tag=nodes.tag[rows],
        opening=nodes.opening[rows],
        distance_mm=nodes.distance_mm[rows],
        part=part,
        whole=replace(whole, rows=whole.rows[rows]) if whole else None,
        **none,
    )


def _behind_walls(coarse: Nodes, rows: Rows, fine: _FineLinks) -> Rows:
    """Fine rows of the coarse nodes to leave out since a wall is between them and their neighbour."""
    neighbours, out = Neighbours(coarse), []
    for i in range(1, Q, 2):
        ends, (_, leaving), (_, coming) = neighbours.along(i), fine.along(i), fine.along(int(OPPOSITE[i]))
        apart = np.flatnonzero((ends >= 0) & (leaving[rows] >= 0))
        here, there = rows[apart], rows[ends[apart]]
        out.append(np.where(fine.q[leaving[here]] <= fine.q[coming[there]], here, there))
    return np.concatenate(out)


def _linked(coarse: Nodes, rows: Rows, fine: _FineLinks) -> tuple[Nodes, Rows]:
    """Coarse nodes with the links of own ones, in their order, and the fine rows of these in it."""
    neighbours, found, own = Neighbours(coarse), [], coarse.is_own
    for i in range(1, Q):
        out = np.flatnonzero(own & (neighbours.along(i) < 0))
        ends, crossing = fine.along(i)
        here = rows[out]
        middle = ends[here]
        near = middle < 0
        met = np.where(near, crossing[here], crossing[middle])  # -1 where the end was left out: the wall is put there
        q = np.where(met < 0, 1.0, (fine.q[met] + ~near) / 2)
        found.append(np.stack((out, np.full(len(out), i), met, q)))
    node, direction, met, q = np.concatenate(found, axis=1)
    return _assembled(coarse, rows, fine, node.astype(np.int64), direction.astype(np.uint8), met.astype(np.int64), q)


# long because it names the arrays of the coarse lattice one by one
def _assembled(
    coarse: Nodes,
    rows: Rows,
    fine: _FineLinks,
    node: NDArray[np.int64],
    direction: NDArray[np.uint8],
    met: NDArray[np.int64],
    q: NDArray[np.float64],
) -> tuple[Nodes, Rows]:
    """Coarse nodes in their order with links from own ones, `node`, in a `direction`, that meet the fine crossing `met`
    at `q`.
    """
    ranks, own = coarse.ranks, np.flatnonzero(coarse.is_own)
    if int(ranks.largest(np.array([not len(own)], np.int64))[0]):
        raise NotHalved("a rank would have no node of it")
    opens = np.where(met < 0, 0, fine.opening[met])
    opening = _nearest(node, opens, q * np.linalg.norm(VELOCITIES[direction], axis=1), len(rows))[own]
    roles = np.array([FLUID] + [INLET if each.role == "inlet" else OUTLET for each in coarse.openings], np.int8)
    tag, size = roles[opening], np.prod(np.array(coarse.shape, np.int64) + 2)
    row, count = places_among(ranks, tag * size + keys_of(coarse, coarse.position[own]))
    row_of = np.empty(len(rows), np.int32)
    row_of[own] = row
    wall, through = np.flatnonzero(opens == 0), np.flatnonzero(opens)
    wall_position = ends_of_links(coarse, node[wall], direction[wall])
    wall_row, walls = places_among(ranks, keys_of(coarse, wall_position))
    in_order = direction * np.int64(fine.nodes.total) + coarse.rows[node]
    (wall_place, wall_links), (place, links) = (places_among(ranks, in_order[some]) for some in (wall, through))
    profile = _profiles(coarse, node[through], direction[through], opens[through], fine.nodes)
    found = Scattered(coarse, ranks)
    found.take(
        row,
        count,
        position=coarse.position[own],
        tag=tag,
        opening=opening,
        distance_mm=coarse.distance_mm[own],
        part=coarse.part[own],
    )
    unknown = np.full(len(wall), np.inf, np.float32)
    found.take(wall_row, walls, wall_position=wall_position, wall_distance_mm=unknown)
    found.take(
        wall_place,
        wall_links,
        wall_link_node=row_of[node[wall]],
        wall_link_direction=direction[wall],
        wall_link_wall=wall_row.astype(np.int32),
        wall_link_q=q[wall].astype(np.float32),
        wall_link_patch=np.where(met[wall] < 0, 0, fine.patch[met[wall]]).astype(np.int8),
    )
    found.take(
        place,
        links,
        opening_link_node=row_of[node[through]],
        opening_link_direction=direction[through],
        opening_link_opening=opens[through].astype(np.int8),
        opening_link_q=q[through].astype(np.float32),
        opening_link_profile=profile,
    )
    linked = excerpt(found, ranks) if coarse.whole else found.nodes()
    check(linked)
    return linked, rows[own[np.argsort(row)]]


def _nearest(node: Rows, opens: NDArray[np.int8], distance: NDArray[np.float64], count: int) -> NDArray[np.int8]:
    """Opening, of those that the links of each node cross, which is the nearest; 0 for none, (count,)."""
    through = np.flatnonzero(opens)
    farthest_first = through[np.argsort(-distance[through], kind="stable")]
    nearest = np.zeros(count, np.int8)
    nearest[node[farthest_first]] = opens[farthest_first]
    return nearest


def _profiles(
    coarse: Nodes, node: Rows, direction: NDArray[np.uint8], opens: NDArray[np.integer], fine: Nodes
) -> NDArray[np.float32]:
    """Developed velocity at the middle of the coarse links through openings, from those of the fine links, (K,).

    It is the same all along a cap's normal: fine links count whose middles are within `REACH` of a coarse one's when
    both are moved along the normal, the nearest more, or else the nearest one alone.

    Raises
    ------
    NotHalved
        If fluid enters or leaves through no link of an opening.
    """
    profile = np.zeros(len(node), np.float32)
    of_coarse = coarse, node, direction, opens
    of_fine = fine, fine.opening_link_node, fine.opening_link_direction, fine.opening_link_opening
    for opening in coarse.openings:
        places = []
        for nodes, of_node, along, through in (of_coarse, of_fine):
            mine = np.flatnonzero(through == opening.id)
            half = VELOCITIES[along[mine]] * (nodes.spacing_mm / 2)
            middle = nodes.points_mm(of_node[mine]) + half - opening.centre_mm
            places.append((mine, middle - np.outer(middle @ opening.normal, opening.normal)))
        (wanted, here), (known, there) = places
        if len(known):
            profile[wanted] = _averaged(here, there, fine.opening_link_profile[known], REACH * fine.spacing_mm)
        if not int(coarse.ranks.largest(np.array([(profile[wanted] > 0).any()], np.int64))[0]):
            raise NotHalved(f"opening {opening.name} loses its links")
    return profile


@njit(parallel=True, cache=True)
def _averaged(
    here: NDArray[np.float64], there: NDArray[np.float64], values: NDArray[np.float32], reach: float
) -> NDArray[np.float64]:
    """Mean of values at places `there` around each of `here`, with weights (1 - r^2/reach^2)^2."""
    mean = np.empty(len(here))
    for k in prange(len(here)):
        total, weights, nearest = 0.0, 0.0, np.inf
        for j in range(len(there)):
            square = 0.0
            for a in range(3):
                square += (here[k, a] - there[j, a]) ** 2
            weight = max(0.0, 1 - square / reach**2) ** 2
            total, weights = total + weight * values[j], weights + weight
            if square < nearest:
                nearest, mean[k] = square, values[j]
        if weights > 0:
            mean[k] = total / weights
    return mean
