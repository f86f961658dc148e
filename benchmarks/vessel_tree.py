# SPDX-License-Identifier: Apache-2.0
"""A vessel tree for benchmarks: winding, branching, seeded, the same everywhere, of any number of fluid nodes.

A trunk forks four times by Murray's law into 16 twigs, each fork in a plane of its own; every vessel winds. Walls are
where the distance to the nearest vessel's axis is its radius, found on each link by bisection; flat caps close the
trunk (the inlet) and the twigs (outlets). of the box around it the lumen fills about an eighth.
"""

from dataclasses import dataclass, replace

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from solver.domain.nodes import FLUID, INLET, OUTLET, Nodes, Opening
from solver.kernels.d3q19 import VELOCITIES, Q
from solver.kernels.velocity_sets import velocity_set

GENERATIONS, PIECES, LENGTH = 4, 10, 2.5
"""Forks from the trunk to a twig, straight pieces of a vessel, its length in radii."""
FORK, BEND = 0.65, 0.25
"""Half the angle of a fork, and standard deviation of a bend between pieces, in radians."""
MURRAY = 2 ** (-1 / 3)
CUT = 1.5
"""How far from its centre, in radii, a cap cuts off all that lies behind it."""
CELL = 8
"""Side of the cells that keep lists of the pieces near them, in spacings."""
BISECTIONS = 24


@dataclass(frozen=True)
class Tree:
    """Axes of all vessels in units of the trunk's radius.

    Attributes
    ----------
    start, end : (P, 3) of each straight piece.
    radius : (P,).
    tips : rows of the pieces that caps close: the trunk's first, then the twigs' last.
    """

    start: NDArray[np.float64]
    end: NDArray[np.float64]
    radius: NDArray[np.float64]
    tips: NDArray[np.int64]


def grow(seed: int = 0) -> Tree:
    """Axes of a tree."""
    rng = np.random.default_rng(seed)
    pieces: list[tuple[NDArray[np.float64], NDArray[np.float64], float]] = []
    tips = [0]
    ends = [(np.zeros(3), np.array((0.3, 0.2, 1.0)), np.array((1.0, 0.0, 0.0)), 1.0, 0)]
    while ends:
        place, along, side, radius, generation = ends.pop(0)
        for _ in range(PIECES):
            along = along + BEND * rng.standard_normal(3)
            along /= np.linalg.norm(along)
            pieces.append((place, place + LENGTH / PIECES * radius * along, radius))
            place = pieces[-1][1]
        if generation == GENERATIONS:
            tips.append(len(pieces) - 1)
            continue
        side = side - (side @ along) * along
        side /= np.linalg.norm(side)
        for sign in (-1, 1):
            turned = np.cos(FORK) * along + sign * np.sin(FORK) * side
            ends.append((place, turned, np.cross(along, side), MURRAY * radius, generation + 1))
    start, end, radii = (np.array(values) for values in zip(*pieces, strict=True))
    return Tree(start, end, radii, np.array(tips))


def vessel_tree(nodes: float, seed: int = 0, corners: bool = False) -> Nodes:
    """Node arrays of a tree of about so many fluid nodes, with links along corners if they are wanted; the first axis
    runs fastest.
    """
    tree = grow(seed)
    coarse = 2e5
    scale = (coarse / _volume(tree)) ** (1 / 3)
    counted = int(_paint(*_placed(tree, scale)).sum())
    scale *= (nodes / counted) ** (1 / 3)
    return _nodes(*_placed(tree, scale), tree.tips, corners)


def _volume(tree: Tree) -> float:
    return float((np.pi * tree.radius**2 * np.linalg.norm(tree.end - tree.start, axis=1)).sum())


def _placed(tree: Tree, scale: float) -> tuple[NDArray, NDArray, NDArray, NDArray, tuple[int, int, int]]:
    """Pieces in spacings, which of them end flat at the start and at the end, shape of the lattice (z, y, x)."""
    corners = np.concatenate((tree.start, tree.end)) * scale
    reach = np.concatenate((tree.radius, tree.radius))[:, None] * scale + 2
    low = np.floor((corners - reach).min(axis=0))
    start, end = tree.start * scale - low, tree.end * scale - low
    size = np.ceil((corners + reach).max(axis=0) - low).astype(int) + 1
    flat = np.zeros((len(start), 2), np.bool_)
    flat[tree.tips[0], 0], flat[tree.tips[1:], 1] = True, True
    return start, end, tree.radius * scale, flat, (int(size[2]), int(size[1]), int(size[0]))


def _paint(start: NDArray, end: NDArray, radius: NDArray, flat: NDArray, shape: tuple[int, int, int]) -> NDArray:
    """Mask [z, y, x] of the nodes inside."""
    mask = np.zeros(shape, np.bool_)
    _fill(mask, *_near(start, end, radius, shape), start, end, radius, flat)
    return mask


def _near(start: NDArray, end: NDArray, radius: NDArray, shape: tuple[int, int, int]) -> tuple[NDArray, NDArray]:
    """Pieces near each cell: where its list begins, and the lists."""
    cells = np.array([-(-n // CELL) for n in shape])
    low = (np.minimum(start, end) - radius[:, None] - 2) // CELL
    high = (np.maximum(start, end) + radius[:, None] + 2) // CELL
    counts, entries = np.zeros(cells, np.int64), []
    for piece, ends in enumerate(zip(low.astype(int), high.astype(int), strict=True)):
        x, y, z = (np.arange(max(a, 0), min(b, n - 1) + 1) for a, b, n in zip(*ends, cells[::-1], strict=True))
        cell = ((z[:, None, None] * cells[1] + y[:, None]) * cells[2] + x).ravel()
        counts.reshape(-1)[cell] += 1
        entries.append(np.stack((cell, np.full(len(cell), piece))))
    cell, piece = np.concatenate(entries, axis=1)
    return np.append(0, np.cumsum(counts)), piece[np.argsort(cell, kind="stable")]


@njit
def _level(
    x: float,
    y: float,
    z: float,
    cells: tuple[int, int],
    first: NDArray,
    near: NDArray,
    start: NDArray,
    end: NDArray,
    radius: NDArray,
    flat: NDArray,
) -> float:
    """Distance to the wall of the nearest vessel, negative inside; caps are not seen from outside their vessel."""
    cell = (int(z) // CELL * cells[0] + int(y) // CELL) * cells[1] + int(x) // CELL
    least = np.inf
    for k in range(first[cell], first[cell + 1]):
        p = near[k]
        ax, ay, az = end[p, 0] - start[p, 0], end[p, 1] - start[p, 1], end[p, 2] - start[p, 2]
        bx, by, bz = x - start[p, 0], y - start[p, 1], z - start[p, 2]
        part = (ax * bx + ay * by + az * bz) / (ax * ax + ay * ay + az * az)
        if (flat[p, 0] and part < 0) or (flat[p, 1] and part > 1):
            if part > 1:
                bx, by, bz = x - end[p, 0], y - end[p, 1], z - end[p, 2]
            if bx * bx + by * by + bz * bz < (CUT * radius[p]) ** 2:
                return np.inf  # the round ends of the pieces before would bulge through the cap
            continue
        part = min(max(part, 0.0), 1.0)
        away = np.sqrt((bx - part * ax) ** 2 + (by - part * ay) ** 2 + (bz - part * az) ** 2)
        least = min(least, away - radius[p])
    return least


@njit(parallel=True)
def _fill(
    mask: NDArray, first: NDArray, near: NDArray, start: NDArray, end: NDArray, radius: NDArray, flat: NDArray
) -> None:
    cells = -(-mask.shape[1] // CELL), -(-mask.shape[2] // CELL)
    for z in prange(mask.shape[0]):
        for y in range(mask.shape[1]):
            for x in range(mask.shape[2]):
                mask[z, y, x] = _level(x, y, z, cells, first, near, start, end, radius, flat) < 0


@njit(parallel=True)
def _count_links(mask: NDArray, velocities: NDArray, counts: NDArray) -> None:
    """Fluid nodes, and links out of the fluid, of each row (z, y)."""
    for z in prange(1, mask.shape[0] - 1):
        for y in range(1, mask.shape[1] - 1):
            for x in range(mask.shape[2]):
                if mask[z, y, x]:
                    counts[0, z, y] += 1
                    for i in range(1, len(velocities)):
                        if not mask[z + velocities[i, 2], y + velocities[i, 1], x + velocities[i, 0]]:
                            counts[1, z, y] += 1


@njit(parallel=True)
def _list_links(
    mask: NDArray,
    velocities: NDArray,
    node_at: NDArray,
    link_at: NDArray,
    position: NDArray,
    node: NDArray,
    direction: NDArray,
) -> None:
    for z in prange(1, mask.shape[0] - 1):
        for y in range(1, mask.shape[1] - 1):
            n, k = node_at[z, y], link_at[z, y]
            for x in range(mask.shape[2]):
                if mask[z, y, x]:
                    position[n, 0], position[n, 1], position[n, 2] = x, y, z
                    for i in range(1, len(velocities)):
                        if not mask[z + velocities[i, 2], y + velocities[i, 1], x + velocities[i, 0]]:
                            node[k], direction[k] = n, i
                            k += 1
                    n += 1


@njit(parallel=True)
def _cross(
    cells: tuple[int, int],
    first: NDArray,
    near: NDArray,
    start: NDArray,
    end: NDArray,
    radius: NDArray,
    flat: NDArray,
    place: NDArray,
    velocity: NDArray,
    q: NDArray,
) -> None:
    """Where links leave the lumen, by bisection."""
    for k in prange(len(place)):
        inside, outside = 0.0, 1.0
        for _ in range(BISECTIONS):
            middle = (inside + outside) / 2
            x, y, z = place[k] + middle * velocity[k]
            if _level(x, y, z, cells, first, near, start, end, radius, flat) < 0:
                inside = middle
            else:
                outside = middle
        q[k] = outside


def _nodes(
    start: NDArray,
    end: NDArray,
    radius: NDArray,
    flat: NDArray,
    shape: tuple[int, int, int],
    tips: NDArray,
    corners: bool,
) -> Nodes:
    near = _near(start, end, radius, shape)
    mask = np.zeros(shape, np.bool_)
    _fill(mask, *near, start, end, radius, flat)
    velocities = VELOCITIES.astype(np.int64)
    counts = np.zeros((2, *shape[:2]), np.int64)
    _count_links(mask, velocities, counts)
    totals = counts.reshape(2, -1).sum(axis=1)
    starts = (counts.reshape(2, -1).cumsum(axis=1) - counts.reshape(2, -1)).reshape(counts.shape)
    position = np.empty((totals[0], 3), np.int32)
    node, direction = np.empty(totals[1], np.int64), np.empty(totals[1], np.uint8)
    _list_links(mask, velocities, starts[0], starts[1], position, node, direction)
    lumen, openings = (*near, start, end, radius, flat), _openings(start, end, radius, tips)
    q, opening, off = _ends(shape, lumen, position[node], VELOCITIES[direction], openings)
    nodes = _arrays(position, node, direction, q, opening, off, openings, shape)
    return _with_corner_links(nodes, mask, lumen) if corners else nodes


def _ends(
    shape: tuple[int, int, int],
    lumen: tuple[NDArray, ...],
    position: NDArray,
    velocity: NDArray,
    openings: tuple[Opening, ...],
) -> tuple[NDArray, NDArray, NDArray]:
    """Where links leave the lumen, and what :func:`_caps` tells of them."""
    place, velocity, q = position.astype(float), velocity.astype(float), np.empty(len(position))
    _cross((-(-shape[1] // CELL), -(-shape[2] // CELL)), *lumen, place, velocity, q)
    return q, *_caps(place + q[:, None] * velocity, place + 0.5 * velocity, openings)


def _with_corner_links(nodes: Nodes, mask: NDArray, lumen: tuple[NDArray, ...]) -> Nodes:
    """The same with links along corners that end on no fluid node."""
    velocities = velocity_set(27).velocities
    found = []
    for i in range(Q, 27):
        x, y, z = (nodes.position + velocities[i].astype(np.int32)).T
        found.append(np.flatnonzero(~mask[z, y, x]))
    node, direction = np.concatenate(found), np.repeat(np.arange(Q, 27), [len(each) for each in found])
    q, opening, off = _ends(nodes.shape, lumen, nodes.position[node], velocities[direction], nodes.openings)
    return replace(
        nodes,
        corner_link_node=node.astype(np.int32),
        corner_link_direction=direction.astype(np.uint8),
        corner_link_q=np.clip(q, 1e-4, 1).astype(np.float32),
        corner_link_patch=np.zeros(len(node), np.int8),
        corner_link_opening=opening,
        corner_link_profile=np.where(opening > 0, 1 - off**2, 0).astype(np.float32),
    )


def _openings(start: NDArray, end: NDArray, radius: NDArray, tips: NDArray) -> tuple[Opening, ...]:
    openings = []
    for number, tip in enumerate(tips, 1):
        centre, other = (start[tip], end[tip]) if number == 1 else (end[tip], start[tip])
        normal = (centre - other) / np.linalg.norm(centre - other)
        name, role = ("trunk", "inlet") if number == 1 else (f"twig{number - 1}", "outlet")
        x, y, z = centre.tolist()
        along = normal.tolist()
        area = float(np.pi * radius[tip] ** 2)
        openings.append(Opening(number, name, role, (x, y, z), tuple(along), area, float(radius[tip])))  # type: ignore[arg-type]
    return tuple(openings)


def _caps(met: NDArray, middle: NDArray, openings: tuple[Opening, ...]) -> tuple[NDArray, NDArray]:
    """Opening on whose cap links end, 0 for none, and the distance of their middles to its axis in radii, at most 1."""
    opening, off = np.zeros(len(met), np.int8), np.zeros(len(met))
    for cap in openings:
        depth, distance = _cylindrical(met, cap)
        mine = (np.abs(depth) < 1e-4) & (distance < 1 - 1e-4)
        opening[mine], off[mine] = cap.id, np.minimum(_cylindrical(middle[mine], cap)[1], 1)
    return opening, off


def _cylindrical(place: NDArray, cap: Opening) -> tuple[NDArray, NDArray]:
    """Distance to a cap along its normal, and to its axis in radii."""
    away = place - cap.centre_mm
    depth = away @ np.array(cap.normal)
    return depth, np.sqrt(np.maximum((away**2).sum(axis=1) - depth**2, 0)) / cap.radius_mm


def _arrays(
    position: NDArray,
    node: NDArray,
    direction: NDArray,
    q: NDArray,
    opening: NDArray,
    off: NDArray,
    openings: tuple[Opening, ...],
    shape: tuple[int, int, int],
) -> Nodes:
    tags = np.array([FLUID, *(INLET if cap.role == "inlet" else OUTLET for cap in openings)], np.int8)
    of_node = np.zeros(len(position), np.int8)
    of_node[node[opening > 0]] = opening[opening > 0]
    order = np.argsort(tags[of_node], kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    ends = position[node].astype(np.int64) + VELOCITIES[direction]
    position, of_node, node = position[order], of_node[order], rank[node]
    wall = opening == 0
    flat = np.ravel_multi_index(tuple(ends[wall].T[::-1]), shape)
    wall_place, wall_row = np.unique(flat, return_inverse=True)
    wall_position = np.stack(np.unravel_index(wall_place, shape)[::-1], axis=1).astype(np.int32)
    q = np.clip(q, 1e-4, 1).astype(np.float32)
    return Nodes(
        spacing_mm=1.0,
        origin_mm=(0.0, 0.0, 0.0),
        shape=shape,
        openings=openings,
        position=position,
        tag=tags[of_node],
        opening=of_node,
        distance_mm=np.full(len(position), np.inf, np.float32),
        part=np.zeros(len(position), np.int16),
        wall_position=wall_position,
        wall_distance_mm=np.full(len(wall_position), np.inf, np.float32),
        wall_link_node=node[wall],
        wall_link_direction=direction[wall],
        wall_link_wall=wall_row.astype(np.int32),
        wall_link_q=q[wall],
        wall_link_patch=np.zeros(int(wall.sum()), np.int8),
        opening_link_node=node[~wall],
        opening_link_direction=direction[~wall],
        opening_link_opening=opening[~wall],
        opening_link_q=q[~wall],
        opening_link_profile=(1 - off[~wall] ** 2).astype(np.float32),
    )
