"""Closest points of a triangle surface, found in a tree of boxes; a surface of triangles as the shape of another."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipeline.geometry.surface.half_edges import CREASE, WALL, HalfEdges, vertex_normals
from pipeline.geometry.surface.intersections import LEAF, box_tree, places_on_curve
from pipeline.geometry.surface.remesh import CapPlanes, vertex_kinds
from pipeline.mesh import Mesh

ENDS_OF_RIM = 3
"""A rim is put onto the wall and into its plane by turns, so often: they are nearly perpendicular."""


class ClosestPoint:
    """The point of a surface that is closest to a place.

    Parameters
    ----------
    points : (P, 3).
    triangles : (T, 3) rows of `points`, T > 0; a triangle of two different corners is the line between them.
    """

    def __init__(self, points: NDArray[np.float64], triangles: NDArray[np.int64]) -> None:
        corners = points[triangles]
        low, high = corners.min(axis=1), corners.max(axis=1)
        self._order = np.argsort(places_on_curve((low + high) / 2), kind="stable")
        leaves = 1 << max(0, int(np.ceil(np.log2(len(triangles) / LEAF))))
        self._first = np.linspace(0, len(triangles), leaves + 1).astype(np.int64)
        self._boxes = box_tree(low[self._order], high[self._order], self._first)
        self._corners = np.ascontiguousarray(corners[self._order])

    def __call__(self, places: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Closest points to places (n, 3), and the rows of the triangles in which they lie, (n,)."""
        closest, row = _closest(np.ascontiguousarray(places, np.float64), self._corners, self._first, *self._boxes)
        return closest, self._order[row]


class Facets:
    """The triangles of a surface, and the planes of a mesh's caps, as a shape to put a mesh onto.

    Parameters
    ----------
    surface : closed; its wall is the shape.
    mesh : whose caps give the planes: the surface itself, or what a cut has left of it.
    crease_deg : edges at which the surface turns by more are creases, on which the creases of a mesh are kept.
    """

    def __init__(self, surface: Mesh, mesh: Mesh, crease_deg: float = 180.0) -> None:
        self._planes, self._crease_deg = CapPlanes(mesh), crease_deg
        self._wall = ClosestPoint(surface.points_mm, surface.triangles[surface.opening == 0])
        half = HalfEdges.of(surface, np.zeros(len(surface.points_mm)), crease_deg)
        ends = np.stack([half.start, half.start[half.twin], half.start[half.twin]], axis=1)[half.sharp]
        self._creases = ClosestPoint(surface.points_mm, ends) if len(ends) else None

    def project(
        self, points: NDArray[np.float64], normals: NDArray[np.float64], kind: NDArray[np.int8]
    ) -> NDArray[np.float64]:
        """Closest points of the wall for the wall's vertices and, in the planes of their caps, for those of rims."""
        wall, rim, crease = np.flatnonzero(kind == WALL), np.flatnonzero(self._planes.on_rim(kind)), kind == CREASE
        points = self._planes.put(points, kind)
        points[wall] = self._wall(points[wall])[0]
        for _ in range(ENDS_OF_RIM):
            points[rim] = self._planes.put(self._wall(points[rim])[0], kind[rim])
        if self._creases and crease.any():
            points[crease] = self._creases(points[crease])[0]
        return points

    def enclose(self, mesh: Mesh, volume_mm3: float) -> Mesh:
        """Move the wall between caps and creases along its normals, until the mesh has a volume."""
        return with_volume(mesh, volume_mm3, vertex_kinds(mesh, self._crease_deg) == WALL)


def with_volume(mesh: Mesh, volume_mm3: float, free: NDArray[np.bool_]) -> Mesh:
    """Move the free vertices (P,) along their normals, all by the same distance, until a closed mesh has a volume."""
    points = mesh.points_mm
    for _ in range(5):
        now = Mesh(points, mesh.triangles, mesh.opening)
        part = free[mesh.triangles].mean(axis=1)  # of a triangle, that moves
        area_mm2 = float((part * np.linalg.norm(now.area_vectors_mm2(), axis=1)).sum())
        step_mm = (volume_mm3 - now.volume_mm3()) / max(area_mm2, 1e-300)
        points = points + step_mm * free[:, None] * vertex_normals(points, mesh.triangles.ravel())
    return Mesh(points, mesh.triangles, mesh.opening)


@njit(cache=True)
def _closest(
    places: NDArray[np.float64],
    corners: NDArray[np.float64],
    first: NDArray[np.int64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    leaves = len(first) - 1
    closest, rows = np.empty_like(places), np.zeros(len(places), np.int64)
    stack, point = np.empty(64, np.int64), np.empty(3)
    row = 0  # neighbours in the list are often neighbours in space
    for n in range(len(places)):
        place = places[n]
        best = _to_triangle(place, corners[row], point)
        closest[n], rows[n] = point, row
        stack[0], depth = 0, 1
        while depth:
            depth -= 1
            box = stack[depth]
            if _to_box(place, low[box], high[box]) >= best:
                continue
            if box < leaves - 1:
                left, right = 2 * box + 1, 2 * box + 2
                if _to_box(place, low[left], high[left]) < _to_box(place, low[right], high[right]):
                    left, right = right, left
                stack[depth], stack[depth + 1] = left, right  # the nearer one is looked into first
                depth += 2
                continue
            leaf = box - leaves + 1
            for other in range(first[leaf], first[leaf + 1]):
                distance = _to_triangle(place, corners[other], point)
                if distance < best:
                    best, row = distance, other
                    closest[n], rows[n] = point, other
        row = rows[n]
    return closest, rows


@njit(cache=True)
def _to_box(place: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]) -> float:
    """Square of the distance of a place to a box."""
    square = 0.0
    for k in range(3):
        away = max(low[k] - place[k], place[k] - high[k], 0.0)
        square += away * away
    return square


@njit(cache=True)
def _to_triangle(place: NDArray[np.float64], corners: NDArray[np.float64], point: NDArray[np.float64]) -> float:
    """Square of the distance of a place to a triangle; the closest point into `point` (Ericson 2005, section 5.1.5)."""
    a, b, c = corners
    d1 = d2 = d3 = d4 = d5 = d6 = 0.0
    for k in range(3):
        ab, ac = b[k] - a[k], c[k] - a[k]
        d1 += ab * (place[k] - a[k])
        d2 += ac * (place[k] - a[k])
        d3 += ab * (place[k] - b[k])
        d4 += ac * (place[k] - b[k])
        d5 += ab * (place[k] - c[k])
        d6 += ac * (place[k] - c[k])
    va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    if d1 <= 0 and d2 <= 0:
        v, w = 0.0, 0.0
    elif d3 >= 0 and d4 <= d3:
        v, w = 1.0, 0.0
    elif vc <= 0 and d1 >= 0 and d3 <= 0:
        v, w = d1 / max(d1 - d3, 1e-300), 0.0
    elif d6 >= 0 and d5 <= d6:
        v, w = 0.0, 1.0
    elif vb <= 0 and d2 >= 0 and d6 <= 0:
        v, w = 0.0, d2 / max(d2 - d6, 1e-300)
    elif va <= 0 and d4 >= d3 and d5 >= d6:
        w = (d4 - d3) / max((d4 - d3) + (d5 - d6), 1e-300)
        v = 1 - w
    else:
        v, w = vb / (va + vb + vc), vc / (va + vb + vc)
    square = 0.0
    for k in range(3):
        point[k] = a[k] + v * (b[k] - a[k]) + w * (c[k] - a[k])
        square += (place[k] - point[k]) ** 2
    return square
