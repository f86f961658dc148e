# SPDX-License-Identifier: Apache-2.0
"""Exact distances and closest points of triangles, through a tree of boxes around them."""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from pipeline.files.mesh import Mesh
from pipeline.geometry.surface.intersections import LEAF, box_tree, places_on_curve
from solver.kernels.compilation import inner_function

Floats = NDArray[np.float64]


class ClosestPoint:
    """The place of some triangles that is closest to a point.

    Parameters
    ----------
    points_mm : (P, 3).
    triangles : (T, 3) rows of the points, T > 0; a triangle of two different corners is the line between them.
    """

    def __init__(self, points_mm: Floats, triangles: NDArray[np.integer]) -> None:
        corners = points_mm[triangles]
        low, high = corners.min(axis=1), corners.max(axis=1)
        self._order = np.argsort(places_on_curve((low + high) / 2), kind="stable")
        leaves = 1 << max(0, int(np.ceil(np.log2(len(corners) / LEAF))))
        first = np.linspace(0, len(corners), leaves + 1).astype(np.int64)
        self._tree = corners[self._order], first, *box_tree(low[self._order], high[self._order], first)

    def __call__(self, points_mm: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """Closest places to points (N, 3), and the rows of the triangles in which they lie, (N,)."""
        _, foot, row = self._found(points_mm)
        return foot, row

    def _found(self, points_mm: Floats, least_mm: Floats | None = None) -> tuple[Floats, Floats, NDArray[np.int64]]:
        count = len(points_mm)
        least_mm = np.zeros(count) if least_mm is None else np.ascontiguousarray(least_mm)
        distance, foot, row = np.empty(count), np.empty((count, 3)), np.zeros(count, np.int64)
        _nearest(np.ascontiguousarray(points_mm), least_mm, *self._tree, distance, foot, row)
        return distance, foot, self._order[row]


class Surface(ClosestPoint):
    """The triangles of a surface that belong to some openings or to the wall (0).

    Parameters
    ----------
    mesh : the surface.
    parts : numbers of the cell array ``opening`` that count.

    Attributes
    ----------
    extent_mm : diagonal of the box around the mesh: no line within goes on for longer.
    """

    def __init__(self, mesh: Mesh, parts: tuple[int, ...] = (0,)) -> None:
        self.extent_mm = float(np.linalg.norm(np.ptp(mesh.points_mm, axis=0)))
        super().__init__(mesh.points_mm, mesh.triangles[np.isin(mesh.opening, parts)])

    def nearest(self, points_mm: Floats) -> tuple[Floats, Floats]:
        """Distance, (N,), to the surface, and its place there, (N, 3), of points (N, 3), mm."""
        return self._found(points_mm)[:2]

    def distance_mm(self, points_mm: Floats, least_mm: Floats | None = None) -> Floats:
        """Distance, (N,), of points (N, 3), mm; or any that is below `least_mm`, (N,), where it is, which is quick."""
        return self._found(points_mm, least_mm)[0]


# many parameters because compiled code takes the arrays of the points, the tree and the results one by one
@njit(cache=True, parallel=True)
def _nearest(
    points: Floats,
    least: Floats,
    corners: Floats,
    first: NDArray[np.int64],
    low: Floats,
    high: Floats,
    distance: Floats,
    foot: Floats,
    nearest: NDArray[np.int64],
) -> None:
    """Walk the tree from each point, into the nearer box first, past boxes beyond the nearest triangle so far.

    The walk ends where a triangle is nearer than `least`.
    """
    leaves = len(first) - 1
    for row in prange(len(points)):
        x, y, z = points[row]
        box, away = np.empty(64, np.int64), np.empty(64)
        box[0], away[0], depth, best = 0, 0.0, 1, np.inf
        while depth and best >= least[row] ** 2:
            depth -= 1
            here = box[depth]
            if away[depth] >= best:
                continue
            if here < leaves - 1:
                left = _to_box(x, y, z, low, high, 2 * here + 1)
                right = _to_box(x, y, z, low, high, 2 * here + 2)
                nearer = 1 if left <= right else 2
                box[depth], away[depth] = 2 * here + 3 - nearer, max(left, right)
                box[depth + 1], away[depth + 1] = 2 * here + nearer, min(left, right)
                depth += 2
                continue
            leaf = here - leaves + 1
            for triangle in range(first[leaf], first[leaf + 1]):
                square, s, t = to_triangle(x, y, z, corners, triangle)
                if square < best:
                    best, nearest[row] = square, triangle
                    for k in range(3):
                        a, b, c = corners[triangle, 0, k], corners[triangle, 1, k], corners[triangle, 2, k]
                        foot[row, k] = a + s * (b - a) + t * (c - a)
        distance[row] = np.sqrt(best)


@inner_function()
def _to_box(x: float, y: float, z: float, low: Floats, high: Floats, box: int) -> float:
    """Square of the distance of a point to a box."""
    u = max(low[box, 0] - x, 0.0, x - high[box, 0])
    v = max(low[box, 1] - y, 0.0, y - high[box, 1])
    w = max(low[box, 2] - z, 0.0, z - high[box, 2])
    return u * u + v * v + w * w


@inner_function()
def to_triangle(x: float, y: float, z: float, corners: Floats, triangle: int) -> tuple[float, float, float]:
    """Square of the distance of a point to a triangle, and the parts of the sides b - a and c - a to the nearest place.

    That is the foot on the triangle's plane if it lies inside, or else the nearest place of the three sides.

    Parameters
    ----------
    x, y, z : the point.
    corners : (T, 3, 3), corners a, b, c of each triangle.
    triangle : which of them.
    """
    ax, ay, az = corners[triangle, 0, 0], corners[triangle, 0, 1], corners[triangle, 0, 2]
    bx, by, bz = corners[triangle, 1, 0] - ax, corners[triangle, 1, 1] - ay, corners[triangle, 1, 2] - az
    cx, cy, cz = corners[triangle, 2, 0] - ax, corners[triangle, 2, 1] - ay, corners[triangle, 2, 2] - az
    px, py, pz = x - ax, y - ay, z - az
    bb, bc, cc = bx * bx + by * by + bz * bz, bx * cx + by * cy + bz * cz, cx * cx + cy * cy + cz * cz
    bp, cp, pp = bx * px + by * py + bz * pz, cx * px + cy * py + cz * pz, px * px + py * py + pz * pz
    det = bb * cc - bc * bc
    s, t = cc * bp - bc * cp, bb * cp - bc * bp
    if det > 0 and s >= 0 and t >= 0 and s + t <= det:
        s, t = s / det, t / det
        return _square(s, t, bb, bc, cc, bp, cp, pp), s, t
    best, best_s, best_t = np.inf, 0.0, 0.0
    for side in range(3):
        if side == 0:
            s, t = _part(bp, bb), 0.0
        elif side == 1:
            s, t = 0.0, _part(cp, cc)
        else:
            t = _part(cp - bp + bb - bc, bb - 2 * bc + cc)
            s = 1 - t
        square = _square(s, t, bb, bc, cc, bp, cp, pp)
        if square < best:
            best, best_s, best_t = square, s, t
    return best, best_s, best_t


@inner_function()
def _part(along: float, whole: float) -> float:
    """Part of a side at which the foot of a point lies; 0 on one without length."""
    return min(max(along / whole, 0.0), 1.0) if whole > 0 else 0.0


@inner_function()
def _square(s: float, t: float, bb: float, bc: float, cc: float, bp: float, cp: float, pp: float) -> float:
    """Square of the length of p - s b - t c, from the products of these vectors."""
    return max(pp - 2 * (s * bp + t * cp) + s * s * bb + 2 * s * t * bc + t * t * cc, 0.0)
