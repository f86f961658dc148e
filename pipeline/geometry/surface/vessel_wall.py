# SPDX-License-Identifier: Apache-2.0
"""The wall of a vessel given in place of its lumen: an outer and an inner surface, as of a model that can be printed.

The two are pieces of their own, or joined at the ends of the vessel by flat rings. Without the rings they are two
pieces, too, one within the other at about the same distance everywhere. The inner one is the surface of the lumen.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pipeline.geometry.surface.clip import neighbours, open_edges
from pipeline.geometry.surface.distance import ClosestPoint

SHARP_DEG, FLAT = 40.0, 0.9995
"""A ring meets the wall at sharper edges, and its area vectors add up to this part of its area, or more."""

MOST_APART = 0.01
"""Part of the area that pieces beside the two may have."""

LEAST_AREA = 0.45
"""Area of the inner surface over that of the outer one, at least: a wall is thinner than its lumen is wide."""

UNEVEN = 3.0
"""The distance from one surface to the other is at most so many times larger at nine tenths of it than at one tenth."""

LOOKED_AT = 200
"""Triangles of each surface from which the other one is looked at."""


@dataclass(frozen=True)
class Wall:
    """The wall of a vessel.

    Attributes
    ----------
    inner : rows of the triangles of its inner surface.
    thickness_mm : median distance of these to the outer surface.
    """

    inner: NDArray[np.int64]
    thickness_mm: float


def vessel_wall(points_mm: NDArray[np.float64], triangles: NDArray[np.int64]) -> Wall | None:
    """The wall that a surface is; None where it is a lumen's, or something else.

    Parameters
    ----------
    points_mm : (P, 3).
    triangles : (T, 3), every edge between two triangles of the same orientation or at a rim.
    """
    area_vectors = _area_vectors(points_mm, triangles)
    area = np.linalg.norm(area_vectors, axis=1)
    pieces, label = connected_components(neighbours(triangles), directed=False)
    left = np.arange(len(triangles))
    if pieces == 1 or np.sort(np.bincount(label, area))[:-1].sum() <= MOST_APART * area.sum():
        if len(open_edges(triangles)):
            return None
        left = left[~_rings(triangles, area_vectors, area)]
        if len(left) == len(triangles):
            return None
        _, label = connected_components(neighbours(triangles[left]), directed=False)
    areas = np.bincount(label, area[left])
    if len(areas) < 2:
        return None
    outer, inner = np.argsort(areas)[::-1][:2]
    if areas.sum() - areas[outer] - areas[inner] > MOST_APART * areas.sum() or areas[inner] < LEAST_AREA * areas[outer]:
        return None
    within, around = left[label == inner], triangles[left[label == outer]]
    thickness = _distances(points_mm, triangles[within], around)
    return Wall(within, float(np.median(thickness))) if len(thickness) else None


def _rings(
    triangles: NDArray[np.int64], area_vectors: NDArray[np.float64], area: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Which triangles lie in flat pieces with sharp edges and two rims."""
    pairs = neighbours(triangles)
    cosine = np.einsum("ij,ij->i", area_vectors[pairs.row], area_vectors[pairs.col])
    smooth = cosine > np.cos(np.radians(SHARP_DEG)) * area[pairs.row] * area[pairs.col]
    ends = pairs.row[smooth], pairs.col[smooth]
    pieces, label = connected_components(coo_array((np.ones(len(ends[0]), np.int8), ends), shape=pairs.shape), False)
    sums = np.stack([np.bincount(label, area_vectors[:, k], minlength=pieces) for k in range(3)], axis=1)
    flat = np.linalg.norm(sums, axis=1) >= FLAT * np.bincount(label, area)
    flat[np.argmax(np.bincount(label, area))] = False
    return np.isin(label, [piece for piece in np.flatnonzero(flat) if _rims(triangles[label == piece]) == 2])


def _rims(triangles: NDArray[np.int64]) -> int:
    """Number of rims of some triangles."""
    corners, edges = np.unique(open_edges(triangles), return_inverse=True)
    ends = edges.reshape(-1, 2).T
    graph = coo_array((np.ones(ends.shape[1], np.int8), tuple(ends)), shape=(len(corners),) * 2)
    return int(connected_components(graph, directed=False)[0])


def _distances(
    points_mm: NDArray[np.float64], inner: NDArray[np.int64], outer: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Distances of places on an inner surface to the outer one, mm; none where it does not lie evenly within that."""
    places = points_mm[inner[:: max(1, len(inner) // LOOKED_AT)]].mean(axis=1)
    turns = [abs(_winding(points_mm[outer] - place)) for place in places[:: max(1, len(places) // 20)]]
    if np.median(turns) <= 0.5:
        return np.empty(0)
    away = _away(places, points_mm, outer)
    back = _away(points_mm[outer[:: max(1, len(outer) // LOOKED_AT)]].mean(axis=1), points_mm, inner)
    for each in (away, back):
        low, high = np.quantile(each, [0.1, 0.9])
        if high > UNEVEN * low:
            return np.empty(0)
    return away


def _away(
    places: NDArray[np.float64], points_mm: NDArray[np.float64], triangles: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Distance of places, (n, 3), to triangles, mm."""
    feet, _ = ClosestPoint(points_mm, triangles)(places)
    return np.asarray(np.linalg.norm(places - feet, axis=1))


def _winding(corners: NDArray[np.float64]) -> float:
    """How often triangles, (T, 3, 3), wind around the origin: their solid angle over 4 pi.

    Source: Van Oosterom and Strackee (1983), doi:10.1109/TBME.1983.325207.
    """
    a, b, c = (corners[:, k] for k in range(3))
    la, lb, lc = (np.linalg.norm(each, axis=1) for each in (a, b, c))
    volume = np.einsum("ij,ij->i", a, np.cross(b, c))
    ab, bc, ca = (np.einsum("ij,ij->i", p, q) for p, q in ((a, b), (b, c), (c, a)))
    return float(2 * np.arctan2(volume, la * lb * lc + ab * lc + bc * la + ca * lb).sum() / (4 * np.pi))


def _area_vectors(points: NDArray[np.float64], triangles: NDArray[np.int64]) -> NDArray[np.float64]:
    a, b, c = (points[triangles[:, k]] for k in range(3))
    return np.asarray(np.cross(b - a, c - a) / 2)
