# SPDX-License-Identifier: Apache-2.0
"""Repair a given surface where that leaves no doubt, and find out what it is: closed, open at clean rims, or
unusable.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from pipeline.files.mesh import words_mm
from pipeline.geometry.surface.clip import directed_edges, edge_numbers, neighbours, open_edges
from pipeline.geometry.surface.stitching import stitched
from pipeline.geometry.surface.vessel_wall import vessel_wall
from solver.runtime.errors import StageError

WELD = 1e-5
"""Open edges are welded where their ends come this near, in diagonals of the surface's box."""

MAX_SPECKS = 0.01
"""Part of the area that pieces apart from the largest one may have."""

TINY_AREA = 1e-9
"""A triangle smaller than this part of the median is none."""

SHARP_DEG = 40.0
"""A flat cap meets the wall at an edge that is sharper."""

SHARP_PART = 0.9
"""So much of the rim of a face must be as sharp, for the face to be a cap."""

FLAT = 0.9995
"""Length of the sum of a flat piece's area vectors, over its area; one that is domed by 2 % of its radius has less."""

SMOOTH_PART = 0.99
"""Where wall and caps make up less of the area, the surface is faceted all over and its flat pieces are no caps."""

LEAST_RIM = 6
"""Edges around a cap, at least."""


UNITE = "Where all that they enclose together is the lumen, set input.surface_union: true"
"""The way out where pieces were put together without a Boolean union."""


@dataclass(frozen=True)
class Repaired:
    """A surface of one piece, every edge between two triangles of the same orientation or at a rim.

    Attributes
    ----------
    points : (P, 3).
    triangles : (T, 3), rows of `points`; the orientation is consistent, but may be inwards.
    record : what was done, by name: counts.
    rows : (T,) which of the given triangles each one was.
    wall_mm : thickness of the wall whose inner surface this is; None: the given surface was no wall.
    """

    points: NDArray[np.float64]
    triangles: NDArray[np.int64]
    record: dict[str, int]
    rows: NDArray[np.int64]
    wall_mm: float | None


def repair(points: NDArray[np.float64], triangles: NDArray[np.int64]) -> Repaired:
    """Join what belongs together, drop what is no triangle, orient, and keep the one piece that counts.

    Of a vessel's wall that is its inner surface.

    Parameters
    ----------
    points : (P, 3) mm, finite.
    triangles : (T, 3) rows of `points`.

    Raises
    ------
    StageError
        If more than two triangles meet at an edge, the surface is one-sided, or is several pieces.
    """
    given_points, given_triangles = len(points), len(triangles)
    points, triangles, rows, welded = _clean(points, triangles)
    removed, merged = given_triangles - len(triangles), given_points - len(points) + welded
    whole = len(triangles)
    triangles, split = stitched(points, triangles, WELD * float(np.linalg.norm(np.ptp(points, axis=0))))
    rows = rows[split]
    _require_manifold(points, triangles)
    triangles, turned = oriented(triangles)
    if wall := vessel_wall(points, triangles):
        triangles, rows = triangles[wall.inner], rows[wall.inner]
    largest, pieces = _largest_piece(points, triangles)
    record = {
        "points_merged": merged,
        "triangles_removed": removed,
        "triangles_turned": turned,
        "triangles_added_at_seams": len(split) - whole,
        "pieces": pieces,
    }
    return Repaired(*_used(points, triangles[largest]), record, rows[largest], wall.thickness_mm if wall else None)


def clean(points: NDArray[np.float64], triangles: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Points at the same place made one, and triangles with an area, each once."""
    points, triangles, _, _ = _clean(points, triangles)
    return points, triangles


def _clean(
    points: NDArray[np.float64], triangles: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], int]:
    """The same, which of the given triangles they were, and how many points were welded."""
    points, triangles = _used(*_merged(points, triangles))
    rows = _proper(triangles)
    points, triangles, welded = _welded(points, triangles[rows])
    again = _proper(triangles)
    triangles, left = _without_slivers(points, triangles[again])
    return points, triangles, rows[again][left], welded


def _merged(points: NDArray[np.float64], triangles: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Points at the same place made one: STL repeats the corners of every triangle."""
    order = np.lexsort(points.T)
    new = np.ones(len(points), bool)
    new[1:] = (np.diff(points[order], axis=0) != 0).any(axis=1)
    number = np.empty(len(points), np.int64)
    number[order] = np.cumsum(new) - 1
    return points[order[new]], number[triangles]


def _used(points: NDArray[np.float64], triangles: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rows, renumbered = np.unique(triangles, return_inverse=True)
    return points[rows], renumbered.reshape(-1, 3)


def _proper(triangles: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of triangles, without those of fewer than three corners, and one of those that have the same corners."""
    a, b, c = triangles.T
    rows = np.flatnonzero((a != b) & (b != c) & (c != a))
    low, middle, high = np.sort(triangles[rows], axis=1).T
    order = np.lexsort((low, middle, high))
    corners = np.stack([low, middle, high], axis=1)[order]
    first = np.ones(len(order), bool)
    first[1:] = (np.diff(corners, axis=0) != 0).any(axis=1)
    return rows[np.sort(order[first])]


def _welded(
    points: NDArray[np.float64], triangles: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
    """Ends of open edges that all but meet made one, and how many went."""
    rim = np.unique(open_edges(triangles))
    if not len(rim):
        return points, triangles, 0
    reach = WELD * float(np.linalg.norm(np.ptp(points, axis=0)))
    pairs = cKDTree(points[rim]).query_pairs(reach, output_type="ndarray")
    groups, label = connected_components(
        coo_array((np.ones(len(pairs), np.int8), pairs.T), shape=(len(rim),) * 2), directed=False
    )
    first = np.full(groups, len(points))
    np.minimum.at(first, label, rim)
    number = np.arange(len(points))
    number[rim] = first[label]
    return points, number[triangles], len(rim) - groups


def _without_slivers(
    points: NDArray[np.float64], triangles: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Triangles without area taken out by joining the ends of their shortest edge, and the rows that are left."""
    rows = np.arange(len(triangles))
    for _ in range(3):
        corners, area = points[triangles], np.linalg.norm(_area_vectors(points, triangles), axis=1)
        flat = np.flatnonzero(area <= TINY_AREA * np.median(area)) if len(area) else area
        if not len(flat):
            break
        sides = np.linalg.norm(np.roll(corners[flat], -1, axis=1) - corners[flat], axis=2)
        shortest = sides.argmin(axis=1)
        one, other = triangles[flat, shortest], triangles[flat, (shortest + 1) % 3]
        number = np.arange(len(points))
        number[np.maximum(one, other)] = np.minimum(one, other)
        triangles = number[number[triangles]]
        left = _proper(triangles)
        triangles, rows = triangles[left], rows[left]
    return triangles, rows


def _require_manifold(points: NDArray[np.float64], triangles: NDArray[np.int64]) -> None:
    if not len(triangles):
        raise StageError("input.surface: none of its triangles has an area; export the surface again")
    edges = directed_edges(triangles)
    _, first, count = np.unique(edge_numbers(edges), return_index=True, return_counts=True)
    if (count > 2).any():
        place = points[edges[first[int(np.argmax(count))]]].mean(axis=0)
        raise StageError(
            f"input.surface: {int((count > 2).sum())} edges are shared by more than two triangles, for instance at"
            f" {words_mm(place)}: walls meet or lie in each other, as where tubes were put together with faces"
            f" left within. {UNITE}; otherwise delete inner faces, or export the lumen's surface alone"
        )


def oriented(triangles: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """The same orientation on both sides of every edge, and how many triangles were turned for it.

    Each triangle stands twice in a graph, as it is and turned; a shared edge joins the two pairs that agree. In a
    one-sided surface both versions of a triangle get into one component.
    """
    count = len(triangles)
    pairs, agree = _pairs(triangles)
    a, b = pairs.T
    ends = (
        np.concatenate([a, a + count]),
        np.concatenate([np.where(agree, b, b + count), np.where(agree, b + count, b)]),
    )
    _, label = connected_components(coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(2 * count,) * 2), False)
    as_is, turned = label[:count], label[count:]
    if (as_is == turned).any():
        raise StageError(
            "input.surface: it has one side only, like a Moebius strip; export the lumen's surface again, or remesh it"
        )
    turn = as_is > turned
    for piece in np.unique(np.minimum(as_is, turned)):  # the fewer are turned
        rows = np.minimum(as_is, turned) == piece
        if 2 * np.count_nonzero(turn[rows]) > np.count_nonzero(rows):
            turn[rows] = ~turn[rows]
    return np.where(turn[:, None], triangles[:, ::-1], triangles), int(turn.sum())


def _pairs(triangles: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Rows of triangles that share an edge, (n, 2), and whether their orientations agree there."""
    edges = directed_edges(triangles)
    key = edge_numbers(edges)
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order]) == 0)
    one, other = order[first], order[first + 1]
    return np.stack([one, other], axis=1) % len(triangles), edges[one, 0] != edges[other, 0]


def _largest_piece(points: NDArray[np.float64], triangles: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Rows of the piece with the most area, and the number of pieces; the others must be specks."""
    pieces, label = connected_components(neighbours(triangles), directed=False)
    area = np.bincount(label, np.linalg.norm(_area_vectors(points, triangles), axis=1))
    largest = int(np.argmax(area))
    if area.sum() - area[largest] > MAX_SPECKS * area.sum():
        shown = ", ".join(f"{each:.3g}" for each in np.sort(area)[::-1][:5]) + (", ..." if pieces > 5 else "")
        raise StageError(
            f"input.surface: {pieces} pieces that share no edge, of {shown} mm2; one is wanted, and at most"
            f" {MAX_SPECKS:.0%} of the area may lie apart from it. {UNITE}; otherwise join the pieces, delete what"
            " does not belong to the vessel, or export the lumen's surface alone"
        )
    return np.flatnonzero(label == largest), pieces


def _area_vectors(points: NDArray[np.float64], triangles: NDArray[np.int64]) -> NDArray[np.float64]:
    a, b, c = (points[triangles[:, k]] for k in range(3))
    return np.cross(b - a, c - a) / 2


def rims(points: NDArray[np.float64], triangles: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Rows of the points around each hole, in the order in which a cap's triangles run along it.

    Raises
    ------
    StageError
        If two rims meet in a point.
    """
    after: dict[int, int] = {}
    for a, b in open_edges(triangles).tolist():
        if b in after:
            raise StageError(
                f"input.surface: two rims, or a rim and itself, meet at {words_mm(points[b])}; clean the open end there"
            )
        after[b] = a
    loops = []
    while after:
        start, here = after.popitem()
        loop = [start]
        while here != start:
            loop.append(here)
            here = after.pop(here)
        loops.append(np.array(loop, dtype=np.int64))
    return sorted(loops, key=lambda loop: int(loop.min()))


def flat_caps(points: NDArray[np.float64], triangles: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Rows of the triangles of each flat cap: a plane piece with a sharp edge to the wall all around.

    Empty where the surface is faceted all over, so that flat pieces say nothing.
    """
    vector = _area_vectors(points, triangles)
    area = np.linalg.norm(vector, axis=1)
    pairs, _ = _pairs(triangles)
    normal = vector / area[:, None]
    smooth = np.einsum("ij,ij->i", normal[pairs[:, 0]], normal[pairs[:, 1]]) > np.cos(np.radians(SHARP_DEG))
    joined = coo_array((np.ones(int(smooth.sum()), np.int8), pairs[smooth].T), shape=(len(triangles),) * 2)
    pieces, label = connected_components(joined, directed=False)
    total = np.bincount(label, area)
    sums = np.stack([np.bincount(label, vector[:, k], minlength=pieces) for k in range(3)], axis=1)
    flat = np.linalg.norm(sums, axis=1) >= FLAT * total
    wall = int(np.argmax(total))
    ends = label[pairs[~smooth]]
    ends = ends[ends[:, 0] != ends[:, 1]]
    to_wall = np.bincount(ends[(ends == wall).any(axis=1)].ravel(), minlength=pieces)
    rim = np.bincount(ends.ravel(), minlength=pieces)
    cap = flat & (rim >= LEAST_RIM) & (to_wall == rim)
    cap[wall] = False
    if flat[wall] or total[cap].sum() + total[wall] < SMOOTH_PART * total.sum():
        return []
    return [np.flatnonzero(label == piece) for piece in np.flatnonzero(cap)]


def flat_faces(
    points: NDArray[np.float64], triangles: NDArray[np.int64], faces: NDArray[np.int64]
) -> tuple[dict[int, NDArray[np.int64]], dict[int, str]]:
    """Rows of the triangles of each face that is a cap by its id, and why each other face is wall, by id.

    The largest face is wall; a cap is plane, in one piece, and meets the rest in sharp edges.

    Parameters
    ----------
    points : (P, 3).
    triangles : (T, 3) of a closed surface.
    faces : (T,) id of the face that each triangle belongs to.
    """
    vector = _area_vectors(points, triangles)
    area = np.linalg.norm(vector, axis=1)
    pairs, _ = _pairs(triangles)
    normal = vector / np.maximum(area, 1e-30)[:, None]
    cosine = np.einsum("ij,ij->i", normal[pairs[:, 0]], normal[pairs[:, 1]])
    ids, face = np.unique(faces, return_inverse=True)
    total = np.bincount(face, area)
    caps, wall = {}, {int(ids[np.argmax(total)]): "the largest face"}
    same = face[pairs[:, 0]] == face[pairs[:, 1]]
    joined = coo_array((np.ones(int(same.sum()), np.int8), pairs[same].T), shape=(len(triangles),) * 2)
    _, piece = connected_components(joined, directed=False)
    for k, number in enumerate(ids.tolist()):
        rows, border = np.flatnonzero(face == k), (face[pairs] == k).sum(axis=1) == 1
        if number in wall:
            continue
        if np.linalg.norm(vector[rows].sum(axis=0)) < FLAT * total[k]:
            wall[number] = "not plane"
        elif len(np.unique(piece[rows])) > 1:
            wall[number] = "in several pieces"
        elif np.mean(cosine[border] < np.cos(np.radians(SHARP_DEG))) < SHARP_PART:
            wall[number] = "without a sharp edge around"
        else:
            caps[number] = rows
    return caps, wall
