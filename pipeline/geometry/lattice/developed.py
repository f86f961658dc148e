# SPDX-License-Identifier: Apache-2.0
"""Developed flow through the caps of openings: Laplace(phi) = -1 on a cap, phi = 0 on its rim.

A cap is meshed again inside its true outline, and the equation solved with quadratic finite elements, which are exact
for the parabola between plates and, but for the outline's corners, in a round tube. Where the lattice repeats, a cap
ends at no wall: there the derivative across is 0, as it is where one period mirrors the next.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.linalg import spsolve
from scipy.spatial import cKDTree

from pipeline.files.mesh import Mesh
from pipeline.geometry.surface.clip import ClipError, axes_of_plane, cap_of, open_edges
from solver.domain.nodes import Opening
from solver.runtime.errors import StageError

Reals = NDArray[np.float64]
Rows = NDArray[np.int64]
CapFlow = Callable[[Reals], NDArray[np.float32]]
"""Velocity over its largest at places (K, 3), mm."""

ACROSS = 32
"""Triangles across a cap, counted on four times its area over the length of its rim: the diameter of a round one."""

CANDIDATES = 24
"""Triangles among which the one that holds a place is looked for, those with the nearest centroids."""

FINE = 16
"""Parts of a triangle's edges among which the largest value is looked for."""


def developed(mesh: Mesh, opening: Opening, periodic: tuple[bool, bool, bool], across: float = ACROSS) -> CapFlow:
    """Fully developed velocity through a cap, over its largest.

    Parameters
    ----------
    mesh : surface with the cap.
    opening : whose cap.
    periodic : axes along which the lattice repeats; the surface then ends in planes beyond the period.
    across : triangles on four times the area over the length of the rim.

    Returns
    -------
    What gives the values, (K,) in [0, 1], at places (K, 3), (x, y, z), LPS, mm; the velocity is the same all along the
    cap's normal. Beyond the rim they are those on it; 1 everywhere if the cap ends at no wall.

    Raises
    ------
    StageError
        If the cap is not one flat polygon without holes.
    """
    corners, walled = _outline(mesh, opening, periodic)
    if not walled.any():
        return lambda places_mm: np.ones(len(places_mm), np.float32)
    normal = np.asarray(opening.normal)
    plane = axes_of_plane(normal)
    following = np.roll(corners, -1, axis=0)
    length = np.linalg.norm(following - corners, axis=1)
    area_mm2 = normal @ np.cross(corners - corners[0], following - corners[0]).sum(axis=0) / 2
    step = 4 * area_mm2 / length[walled].sum() / across
    rim, walled = _divided(corners, walled, np.ceil(length / step).astype(int))
    try:
        inside, triangles = cap_of(rim, normal, step)
    except ClipError as error:
        raise StageError(f"opening {opening.name}: {error}; run surface again") from None
    points = (np.concatenate((rim, inside)) - opening.centre_mm) @ plane / step
    dofs, on_rim = _degrees(triangles, len(rim), walled)
    values = _solved(points, triangles, dofs, on_rim)
    return lambda places_mm: _evaluated(points, triangles, dofs, values, (places_mm - opening.centre_mm) @ plane / step)


def _outline(mesh: Mesh, opening: Opening, periodic: tuple[bool, bool, bool]) -> tuple[Reals, NDArray[np.bool_]]:
    """Corners of a cap, (M, 3), counter-clockwise seen from outside, and whether a wall stands at the edge to the next.

    None stands in the planes in which the surface ends along axes on which it repeats.
    """
    edges = open_edges(mesh.triangles[mesh.opening == opening.id])
    after, start = dict(edges.tolist()), int(edges[0, 0])
    loop = [start]
    while (here := after.get(loop[-1], start)) != start and len(loop) < len(edges):
        loop.append(here)
    if len(loop) != len(edges):
        raise StageError(f"opening {opening.name}: its cap is not one polygon without holes; close it with one")
    corners = mesh.points_mm[loop]
    following, walled = np.roll(corners, -1, axis=0), np.full(len(corners), True)
    for axis in np.flatnonzero(periodic):
        for end in (mesh.points_mm[:, axis].min(), mesh.points_mm[:, axis].max()):
            walled &= (corners[:, axis] != end) | (following[:, axis] != end)
    return corners, walled


def _divided(corners: Reals, walled: NDArray[np.bool_], parts: NDArray[np.int64]) -> tuple[Reals, NDArray[np.bool_]]:
    """The polygon with its edges divided into equal parts."""
    edge = np.repeat(np.arange(len(corners)), parts)
    along = (np.arange(len(edge)) - np.repeat(np.cumsum(parts) - parts, parts)) / parts[edge]
    return corners[edge] + along[:, None] * (np.roll(corners, -1, axis=0) - corners)[edge], walled[edge]


def _degrees(triangles: Rows, rim: int, walled: NDArray[np.bool_]) -> tuple[Rows, NDArray[np.bool_]]:
    """Degrees of freedom of each triangle, (T, 6): corners, then middles of the edges opposite to these; and which of
    all lie at a wall.
    """
    sides = np.sort(triangles[:, [[1, 2], [2, 0], [0, 1]]].reshape(-1, 2), axis=1)
    edges, number = np.unique(sides, axis=0, return_inverse=True)
    vertices = int(triangles.max()) + 1
    on_rim = np.zeros(vertices + len(edges), bool)
    ends = np.sort(np.stack((here := np.flatnonzero(walled), (here + 1) % rim), axis=1), axis=1)
    on_rim[ends] = True
    on_rim[vertices + np.searchsorted(edges @ (vertices, 1), ends @ (vertices, 1))] = True
    return np.concatenate((triangles, vertices + number.reshape(-1, 3)), axis=1), on_rim


def _solved(points: Reals, triangles: Rows, dofs: Rows, on_rim: NDArray[np.bool_]) -> Reals:
    """Values of phi at all degrees of freedom, the integrals exact."""
    sides = points[triangles[:, [2, 0, 1]]] - points[triangles[:, [1, 2, 0]]]
    area = (sides[:, 0, 0] * sides[:, 1, 1] - sides[:, 0, 1] * sides[:, 1, 0]) / 2
    gradients = np.stack((-sides[..., 1], sides[..., 0]), axis=2) / (2 * area[:, None, None])  # of the coordinates
    slopes = np.zeros((3, 6, 3))  # of each function by each coordinate, in the middle of each edge
    for k, place in enumerate((1 - np.eye(3)) / 2):
        for a, (b, c) in enumerate(((1, 2), (2, 0), (0, 1))):
            slopes[k, a, a] = 4 * place[a] - 1
            slopes[k, 3 + a, b], slopes[k, 3 + a, c] = 4 * place[c], 4 * place[b]
    slope = np.einsum("qam,tmd->tqad", slopes, gradients)
    stiffness = np.einsum("tqad,tqbd,t->tab", slope, slope, area / 3)
    rows, columns = np.repeat(dofs, 6, axis=1).ravel(), np.tile(dofs, 6).ravel()
    matrix = coo_array((stiffness.ravel(), (rows, columns)), shape=(len(on_rim),) * 2).tocsc()
    load = np.bincount(dofs[:, 3:].ravel(), np.repeat(area / 3, 3), len(on_rim))
    free, values = np.flatnonzero(~on_rim), np.zeros(len(on_rim))
    values[free] = spsolve(matrix[free][:, free], load[free])
    return values


def _functions(place: Reals) -> Reals:
    """Quadratic functions, (..., 6), at barycentric coordinates (..., 3)."""
    return np.concatenate((place * (2 * place - 1), 4 * place[..., [1, 2, 0]] * place[..., [2, 0, 1]]), axis=-1)


def _evaluated(points: Reals, triangles: Rows, dofs: Rows, values: Reals, places: Reals) -> NDArray[np.float32]:
    """Values at places over the largest."""
    first, second, third = (points[triangles[:, k]] for k in range(3))
    frames = np.linalg.inv(np.stack((second - first, third - first), axis=2))
    _, near = cKDTree((first + second + third) / 3).query(places, k=min(CANDIDATES, len(triangles)))
    local = np.einsum("kcij,kcj->kci", frames[near], places[:, None] - first[near])
    coordinates = np.maximum(np.concatenate((1 - local.sum(axis=2, keepdims=True), local), axis=2), 0)
    coordinates /= coordinates.sum(axis=2, keepdims=True)
    inside = np.einsum("kcm,kcmi->kci", coordinates, points[triangles[near]])
    best = ((inside - places[:, None]) ** 2).sum(axis=2).argmin(axis=1)
    rows = np.arange(len(places))
    found = (_functions(coordinates[rows, best]) * values[dofs[near[rows, best]]]).sum(axis=1)
    i, j = (index.ravel() for index in np.indices((FINE + 1, FINE + 1)))
    lattice = np.stack((i, j, FINE - i - j), axis=1)[i + j <= FINE] / FINE
    at_top = (dofs == values.argmax()).any(axis=1)
    largest = (values[dofs[at_top]] @ _functions(lattice).T).max()
    return np.clip(found / largest, 0, 1).astype(np.float32)
