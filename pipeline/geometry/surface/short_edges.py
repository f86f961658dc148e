# SPDX-License-Identifier: Apache-2.0
"""Long edges of a triangle surface split, so that a plane can cut it where it ought to."""

import numpy as np
from numpy.typing import NDArray

from pipeline.files.mesh import Mesh
from pipeline.geometry.surface.clip import directed_edges


def with_short_edges(mesh: Mesh, edge_mm: float) -> Mesh:
    """The same surface with longer edges halved until none is left; triangles at an edge share its new point.

    Parameters
    ----------
    mesh : closed surface.
    edge_mm : length of the longest edge that stays.
    """
    points, triangles, opening = mesh.points_mm, mesh.triangles, mesh.opening
    while True:
        ends = np.sort(directed_edges(triangles), axis=1)
        _, first, of = np.unique(ends[:, 0] * len(points) + ends[:, 1], return_index=True, return_inverse=True)
        edges = ends[first]
        long = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1) > edge_mm
        if not long.any():
            return Mesh(points, triangles, opening)
        middle = np.full(len(edges), -1)
        middle[long] = len(points) + np.arange(np.count_nonzero(long))
        points = np.concatenate([points, points[edges[long]].mean(axis=1)])
        triangles, rows = _halved(points, triangles, middle[of].reshape(3, -1).T)
        opening = opening[rows]


def _halved(
    points: NDArray[np.float64], triangles: NDArray[np.int64], middle: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Triangles split at the middles of their edges, (T, 3) with -1 for none; and which triangle each one was."""
    count = (middle >= 0).sum(axis=1)
    found, rows = [triangles[count == 0]], [np.flatnonzero(count == 0)]
    for number in (1, 2, 3):
        here = np.flatnonzero(count == number)
        first = np.argmax(middle[here] >= 0, axis=1) if number == 1 else (np.argmin(middle[here], axis=1) + 1) % 3
        turn = (first[:, None] + np.arange(3)) % 3  # with one middle it is on the first edge, with two on the first two
        a, b, c = np.take_along_axis(triangles[here], turn, axis=1).T
        ab, bc, ca = np.take_along_axis(middle[here], turn, axis=1).T
        if number == 1:
            parts = [(a, ab, c), (ab, b, c)]
        elif number == 2:
            near = np.linalg.norm(points[a] - points[bc], axis=1) < np.linalg.norm(points[c] - points[ab], axis=1)
            parts = [
                (ab, b, bc),
                (a, np.where(near, bc, ab), c),
                (np.where(near, a, ab), np.where(near, ab, bc), np.where(near, bc, c)),
            ]
        else:
            parts = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        found += [np.stack(part, axis=1) for part in parts]
        rows += [here] * len(parts)
    return np.concatenate(found), np.concatenate(rows)
