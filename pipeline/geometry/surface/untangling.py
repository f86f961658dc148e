# SPDX-License-Identifier: Apache-2.0
"""Smoothing of the few places where a surface passes through itself, as noise and decimation leave them.

The vertices of triangles that pass through each other move towards the middle of their neighbours, by a part of the way
each time, until no triangles do. It is for crossings as small as the triangles: where a vertex would go further, or
many triangles cross, it is open what the surface encloses, and it stays as it is.
"""

import numpy as np
from numpy.typing import NDArray

from pipeline.files.mesh import Mesh
from pipeline.geometry.surface.clip import directed_edges
from pipeline.geometry.surface.connections import WALL
from pipeline.geometry.surface.intersections import self_intersections
from pipeline.geometry.surface.isosurface import neighbour_mean
from pipeline.geometry.surface.remesh import vertex_kinds

MOST_PART = 0.02
"""Of the triangles, those that may pass through others."""

FURTHEST = 1.0
"""Way of a vertex at most, over the median of all edges: those at the vertex are long where it is far off."""

STEP, ROUNDS = 0.25, 40
"""Part of the way to the middle of its neighbours that a vertex goes each time; and how many times at most."""


def untangled(mesh: Mesh) -> tuple[Mesh, NDArray[np.int64], dict[str, float]]:
    """A surface whose triangles do not pass through each other, where few do and little moves; else the same surface.

    Parameters
    ----------
    mesh : closed; caps and their rims stay.

    Returns
    -------
    The surface; pairs of its triangles that pass through each other, (n, 2); and how many pairs did, how many vertices
    moved, and the longest way of one in mm: nothing where none did, or where the surface stays.
    """
    pairs = self_intersections(mesh.points_mm, mesh.triangles)
    if not len(pairs) or len(np.unique(pairs)) > MOST_PART * len(mesh.triangles):
        return mesh, pairs, {}
    points, moved = mesh.points_mm.copy(), np.zeros(len(mesh.points_mm), bool)
    wall, mean, crossing = vertex_kinds(mesh) == WALL, neighbour_mean(mesh), pairs
    for _ in range(ROUNDS):
        rows = np.unique(mesh.triangles[crossing])
        rows = rows[wall[rows]]
        points[rows] += STEP * (mean[rows] @ points - points[rows])
        moved[rows] = True
        beside: NDArray[np.bool_] = np.any(moved[mesh.triangles], axis=1)
        beside[pairs] = True
        crossing = self_intersections(points, mesh.triangles, of=beside)
        if not len(crossing):
            break
    way_mm = np.linalg.norm(points - mesh.points_mm, axis=1)
    start, end = directed_edges(mesh.triangles).T
    edge_mm = float(np.median(np.linalg.norm(mesh.points_mm[start] - mesh.points_mm[end], axis=1)))
    if len(crossing) or way_mm.max() > FURTHEST * edge_mm:
        return mesh, pairs, {}
    record = {"pairs": len(pairs), "vertices": int(moved.sum()), "moved_mm": float(way_mm.max())}
    return Mesh(points, mesh.triangles, mesh.opening, mesh.patch), crossing, record
