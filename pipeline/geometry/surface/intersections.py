# SPDX-License-Identifier: Apache-2.0
"""Intersections: which triangles of a surface pass through each other.

Triangles are sorted along a space-filling curve into a tree of boxes (Lauterbach et al. 2009,
doi:10.1111/j.1467-8659.2009.01377.x), and those whose boxes meet are tested: an edge of one crosses the inside of the
other, by the signs of volumes of tetrahedra. A sign counts only where the volume is beyond round-off (Shewchuk 1997,
doi:10.1007/PL00009321), so that triangles that touch do not cross; those that lie in one plane are tested there.
"""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from solver.kernels.compilation import inner_function

LEAF = 4
"""Triangles in a box that is not divided."""

ROUND_OFF = 8e-16
"""A volume of six times a tetrahedron is uncertain by this part of the sum of its terms' sizes (7.77e-16)."""

FOLDED = -1 + 1e-7
"""Cosine of the angle between the normals of neighbours that are folded onto each other: 0.03 degrees."""

MOST = 1_000_000
"""So many pairs are given out at most: a surface with more needs no list."""


def self_intersections(
    points: NDArray[np.float64], triangles: NDArray[np.int64], of: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """Pairs of triangles that pass through each other, or lie on each other.

    Triangles that merely touch, in a corner, an edge or from one side, do not count.

    Parameters
    ----------
    points : (P, 3).
    triangles : (T, 3) rows of `points`.
    of : (T,) look only for pairs with at least one of these; none: for all.

    Returns
    -------
    (n, 2) rows of `triangles`, the lower first, sorted.
    """
    if not len(triangles):
        return np.zeros((0, 2), np.int64)
    low, high = points[triangles].min(axis=1), points[triangles].max(axis=1)
    order = np.argsort(places_on_curve((low + high) / 2), kind="stable")
    leaves = 1 << max(0, int(np.ceil(np.log2(len(triangles) / LEAF))))
    first = np.linspace(0, len(triangles), leaves + 1).astype(np.int64)
    boxes = box_tree(low[order], high[order], first)
    wanted = np.ones(len(triangles), bool) if of is None else of
    corners, wanted = np.ascontiguousarray(triangles[order]), np.ascontiguousarray(wanted[order])
    arguments = np.ascontiguousarray(points, np.float64), corners, wanted, first, *boxes
    count = np.zeros(len(triangles), np.int64)
    _find(*arguments, count, np.zeros(0, np.int64), np.zeros((0, 2), np.int64))
    if count.sum() > MOST:
        count[np.cumsum(count) > MOST] = 0
    start = np.cumsum(count) - count
    found = np.empty((int(count.sum()), 2), np.int64)
    _find(*arguments, count, start, found)
    pairs = np.sort(order[found], axis=1)
    return pairs[np.lexsort(pairs.T[::-1])]


def places_on_curve(places: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Morton codes of points: the bits of their three coordinates interleaved."""
    size = np.ptp(places, axis=0).max() or 1.0
    steps = ((places - places.min(axis=0)) / size * ((1 << 20) - 1)).astype(np.uint64)
    for shift, mask in (
        (32, 0x1F00000000FFFF),
        (16, 0x1F0000FF0000FF),
        (8, 0x100F00F00F00F00F),
        (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    ):
        steps = (steps | steps << np.uint64(shift)) & np.uint64(mask)
    return np.asarray(steps[:, 0] | steps[:, 1] << np.uint64(1) | steps[:, 2] << np.uint64(2))


def box_tree(
    low: NDArray[np.float64], high: NDArray[np.float64], first: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Corners of the boxes of a complete binary tree, (2 leaves - 1, 3); those below ``k`` are 2k + 1 and 2k + 2.

    Parameters
    ----------
    low, high : (T, 3), corners of the box of each triangle, in the order of the leaves.
    first : (leaves + 1,), where the triangles of each leaf begin; the number of leaves is a power of 2.
    """
    lows = [np.minimum.reduceat(low, first[:-1])]
    highs = [np.maximum.reduceat(high, first[:-1])]
    while len(lows[-1]) > 1:
        lows.append(np.minimum(lows[-1][::2], lows[-1][1::2]))
        highs.append(np.maximum(highs[-1][::2], highs[-1][1::2]))
    return np.concatenate(lows[::-1]), np.concatenate(highs[::-1])


# many parameters because compiled code takes the arrays of the surface, the tree and the results one by one
@njit(cache=True, parallel=True)
def _find(
    points: NDArray[np.float64],
    triangles: NDArray[np.int64],
    wanted: NDArray[np.bool_],
    first: NDArray[np.int64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    count: NDArray[np.int64],
    start: NDArray[np.int64],
    found: NDArray[np.int64],
) -> None:
    """Count the pairs of each triangle with later ones; with `start` write them to `found` instead."""
    for row in prange(len(triangles)):
        if not len(start) or count[row]:
            hits = _find_of(row, points, triangles, wanted, first, low, high, count, start, found)
            if not len(start):
                count[row] = hits


# many parameters because it takes those of the loop over all, which is compiled twice and so does no more than call it
@inner_function()
def _find_of(
    row: int,
    points: NDArray[np.float64],
    triangles: NDArray[np.int64],
    wanted: NDArray[np.bool_],
    first: NDArray[np.int64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    count: NDArray[np.int64],
    start: NDArray[np.int64],
    found: NDArray[np.int64],
) -> int:
    """Number of pairs of a triangle with later ones, which are written to `found` with `start`."""
    leaves = len(first) - 1
    box_low, box_high = np.empty(3), np.empty(3)
    for k in range(3):
        a, b, c = points[triangles[row, 0], k], points[triangles[row, 1], k], points[triangles[row, 2], k]
        box_low[k], box_high[k] = min(a, b, c), max(a, b, c)
    stack = np.empty(64, np.int64)
    stack[0] = 0
    depth, hits = 1, 0
    while depth:
        depth -= 1
        box = stack[depth]
        if not _boxes_meet(low[box], high[box], box_low, box_high):
            continue
        if box < leaves - 1:
            stack[depth], stack[depth + 1] = 2 * box + 1, 2 * box + 2
            depth += 2
            continue
        leaf = box - leaves + 1
        for other in range(max(first[leaf], row + 1), first[leaf + 1]):
            if (wanted[row] or wanted[other]) and _cross(points, triangles[row], triangles[other]):
                if len(start) and hits < count[row]:
                    found[start[row] + hits, 0], found[start[row] + hits, 1] = row, other
                hits += 1
    return hits


@inner_function()
def _boxes_meet(
    low: NDArray[np.float64], high: NDArray[np.float64], other_low: NDArray[np.float64], other_high: NDArray[np.float64]
) -> bool:
    apart = False
    for k in range(3):
        apart |= low[k] > other_high[k] or high[k] < other_low[k]
    return not apart


@inner_function()
def _cross(points: NDArray[np.float64], one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    """Whether two triangles share more than corners, edges or a touch."""
    shared = 0
    for i in range(3):
        for j in range(3):
            shared += one[i] == other[j]
    if shared >= 2:
        return shared == 2 and _folded(points, one, other)
    sides_one, sides_other = np.empty(3, np.int64), np.empty(3, np.int64)
    off_plane = 0
    for k in range(3):
        sides_one[k] = _side(points, other[0], other[1], other[2], one[k])
        sides_other[k] = _side(points, one[0], one[1], one[2], other[k])
        off_plane += abs(sides_one[k]) + abs(sides_other[k])
    if off_plane == 0:
        return _overlap_in_plane(points, one, other)
    for k in range(3):
        m = (k + 1) % 3
        if sides_one[k] * sides_one[m] < 0 and _pierces(points, one[k], one[m], other):
            return True
        if sides_other[k] * sides_other[m] < 0 and _pierces(points, other[k], other[m], one):
            return True
    return False


@inner_function()
def _pierces(points: NDArray[np.float64], p: int, q: int, triangle: NDArray[np.int64]) -> bool:
    """Whether a line through two points meets the inside of a triangle."""
    around = 0
    for k in range(3):
        around += _side(points, p, q, triangle[k], triangle[(k + 1) % 3])
    return abs(around) == 3


@inner_function()
def _side(points: NDArray[np.float64], a: int, b: int, c: int, d: int) -> int:
    """Sign of the volume of a tetrahedron; 0 where round-off may have made it, or where two corners are the same."""
    ax, ay, az = points[a, 0] - points[d, 0], points[a, 1] - points[d, 1], points[a, 2] - points[d, 2]
    bx, by, bz = points[b, 0] - points[d, 0], points[b, 1] - points[d, 1], points[b, 2] - points[d, 2]
    cx, cy, cz = points[c, 0] - points[d, 0], points[c, 1] - points[d, 1], points[c, 2] - points[d, 2]
    volume = ax * (by * cz - bz * cy) + ay * (bz * cx - bx * cz) + az * (bx * cy - by * cx)
    size = (
        abs(ax) * (abs(by * cz) + abs(bz * cy))
        + abs(ay) * (abs(bz * cx) + abs(bx * cz))
        + abs(az) * (abs(bx * cy) + abs(by * cx))
    )
    if abs(volume) <= ROUND_OFF * size:
        return 0
    return 1 if volume > 0 else -1


@inner_function()
def _normal(points: NDArray[np.float64], triangle: NDArray[np.int64]) -> tuple[float, float, float]:
    """Unit vector; number by number, since operations on whole arrays take seconds to compile."""
    a, b, c = triangle[0], triangle[1], triangle[2]
    ux, uy, uz = points[b, 0] - points[a, 0], points[b, 1] - points[a, 1], points[b, 2] - points[a, 2]
    vx, vy, vz = points[c, 0] - points[a, 0], points[c, 1] - points[a, 1], points[c, 2] - points[a, 2]
    x, y, z = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    length = max(np.sqrt(x * x + y * y + z * z), 1e-300)
    return x / length, y / length, z / length


@inner_function()
def _folded(points: NDArray[np.float64], one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    """Whether two neighbours of one orientation lie on each other."""
    (ax, ay, az), (bx, by, bz) = _normal(points, one), _normal(points, other)
    return ax * bx + ay * by + az * bz < FOLDED


@inner_function()
def _overlap_in_plane(points: NDArray[np.float64], one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    """Whether two triangles in one plane share area: edges cross, or a corner or middle of one lies in the other."""
    x, y, z = _normal(points, one)
    u = 1 if abs(x) >= abs(y) and abs(x) >= abs(z) else 2 if abs(y) >= abs(z) else 0  # the axis after the largest
    v = (u + 1) % 3
    a, b = np.empty((4, 2)), np.empty((4, 2))
    for k in range(3):
        a[k, 0], a[k, 1] = points[one[k], u], points[one[k], v]
        b[k, 0], b[k, 1] = points[other[k], u], points[other[k], v]
    for k in range(2):
        a[3, k], b[3, k] = (a[0, k] + a[1, k] + a[2, k]) / 3, (b[0, k] + b[1, k] + b[2, k]) / 3
    for k in range(4):
        if _inside(a, b, k) or _inside(b, a, k):
            return True
    for i in range(3):
        for j in range(3):
            p, q, r, s = i, (i + 1) % 3, j, (j + 1) % 3
            apart = _turn(a, p, a, q, b, r) * _turn(a, p, a, q, b, s) < 0
            if apart and _turn(b, r, b, s, a, p) * _turn(b, r, b, s, a, q) < 0:
                return True
    return False


@inner_function()
def _inside(triangle: NDArray[np.float64], places: NDArray[np.float64], row: int) -> bool:
    first = _turn(triangle, 0, triangle, 1, places, row)
    return (
        first != 0
        and _turn(triangle, 1, triangle, 2, places, row) == first
        and _turn(triangle, 2, triangle, 0, places, row) == first
    )


@inner_function()
def _turn(a: NDArray[np.float64], p: int, b: NDArray[np.float64], q: int, c: NDArray[np.float64], r: int) -> int:
    """Sign of the area of a triangle in the plane, of rows of arrays, 0 within round-off."""
    left = (a[p, 0] - c[r, 0]) * (b[q, 1] - c[r, 1])
    right = (a[p, 1] - c[r, 1]) * (b[q, 0] - c[r, 0])
    if abs(left - right) <= ROUND_OFF * (abs(left) + abs(right)):
        return 0
    return 1 if left > right else -1
