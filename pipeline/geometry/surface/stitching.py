# SPDX-License-Identifier: Apache-2.0
"""Seams of a triangle surface whose two sides have other corners, as programs that design parts write them.

Where a corner of one side lies on an edge of the other, a slit without width is open. The edge is split there, which
moves nothing.
"""

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from pipeline.geometry.surface.clip import open_edges

MOST_ROUNDS = 6
"""A triangle may have corners on two of its edges, which are split one after the other."""

MOST_OPEN = 0.25
"""With more open edges than this part of the triangles the surface has no seams, it falls apart."""


def stitched(
    points: NDArray[np.float64], triangles: NDArray[np.int64], reach: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Triangles with their open edges split at the corners that lie on them, and which triangle each one was.

    Parameters
    ----------
    points : (P, 3).
    triangles : (T, 3) rows of `points`.
    reach : distance from an edge within which a corner lies on it.
    """
    rows = np.arange(len(triangles))
    for _ in range(MOST_ROUNDS):
        edges = open_edges(triangles)
        if not 0 < len(edges) <= MOST_OPEN * len(triangles):
            break
        on_edges = _corners_on_edges(points, edges, reach)
        if not on_edges:
            break
        triangles, rows = _split(triangles, rows, on_edges)
    return triangles, rows


def _corners_on_edges(
    points: NDArray[np.float64], edges: NDArray[np.int64], reach: float
) -> dict[tuple[int, int], list[int]]:
    """Corners of open edges that lie on others, in the order along these, by the two ends of the edge."""
    corners = np.unique(edges)
    start, way = points[edges[:, 0]], points[edges[:, 1]] - points[edges[:, 0]]
    length = np.linalg.norm(way, axis=1)
    near = cKDTree(points[corners]).query_ball_point(start + way / 2, length / 2 + reach)
    found = {}
    for edge, candidates in enumerate(near):
        ends = edges[edge].tolist()
        there = np.array([row for row in corners[candidates].tolist() if row not in ends], dtype=np.int64)
        if not len(there) or not length[edge]:
            continue
        along = (points[there] - start[edge]) @ way[edge] / length[edge]
        off = np.linalg.norm(points[there] - start[edge] - np.outer(along, way[edge] / length[edge]), axis=1)
        on = (off <= reach) & (along > reach) & (along < length[edge] - reach)
        if on.any():
            found[ends[0], ends[1]] = there[on][np.argsort(along[on])].tolist()
    return found


def _split(
    triangles: NDArray[np.int64], rows: NDArray[np.int64], on_edges: dict[tuple[int, int], list[int]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each triangle with corners on one of its edges as a fan from the corner opposite to that."""
    starts = np.array([start for start, _ in on_edges])
    touched = np.flatnonzero(np.isin(triangles, starts).any(axis=1))
    added, gone = [], []
    for row in touched.tolist():
        corners = triangles[row].tolist()
        for k in range(3):
            a, b, apex = corners[k], corners[(k + 1) % 3], corners[(k + 2) % 3]
            if between := on_edges.get((a, b)):
                chain = [a, *[each for each in between if each != apex], b]
                added += [(one, other, apex, rows[row]) for one, other in itertools.pairwise(chain)]
                gone.append(row)
                break
    new = np.array(added, dtype=np.int64).reshape(-1, 4)
    return (
        np.concatenate([np.delete(triangles, gone, axis=0), new[:, :3]]),
        np.concatenate([np.delete(rows, gone), new[:, 3]]),
    )
