# SPDX-License-Identifier: Apache-2.0
"""The vessel wall: its normals, and the fit that carries a field from the fluid nodes to the wall."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_dilation
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from pipeline.files.mesh import Mesh
from solver.domain.nodes import Nodes, Opening
from solver.runtime.errors import StageError

WIDENING = (1.0, 1.5, 2.0)
"""Factors on the fit's radius, tried in turn where the nodes within it do not determine a linear fit."""

MAX_CONDITION = 1e8
"""Larger conditions of a fit's 4 x 4 matrix are taken as singular; lengths are in units of the fit's radius."""

MAX_AMPLIFICATION = 5.0
"""Largest sum of the magnitudes of a fit's weights, by which it can amplify noise: 1.6 on a flat wall, 3 on a rim."""

MAX_OUTSIDE = 0.5
"""Nodes further than this, in spacings, outside the tangent plane of the wall belong to a neighbouring lumen."""

RIM_SPACINGS = 3.0
"""Wall nearer to a cap than this has no part in statistics: there the openings' conditions are felt."""

CHUNK = 4096
"""Vertices that are fitted together, so that memory does not grow with the surface."""


@dataclass(frozen=True)
class Wall:
    """The wall part of the surface, without caps.

    Attributes
    ----------
    mesh : wall triangles only, vertices renumbered; outward.
    normals : (V, 3), unit vectors out of the fluid, area-weighted means over the wall triangles at a vertex.
    areas_mm2 : (V,), a third of the area of the triangles at a vertex; they sum to the area of the wall.
    """

    mesh: Mesh
    normals: NDArray[np.float64]
    areas_mm2: NDArray[np.float64]

    @staticmethod
    def of(surface: Mesh) -> "Wall":
        """The wall of a closed surface.

        Raises
        ------
        StageError
            If the surface has no wall triangle.
        """
        kept = surface.triangles[surface.opening == 0]
        if not len(kept):
            raise StageError("the surface has no wall, only caps; run the surface stage again")
        used, renumbered = np.unique(kept, return_inverse=True)
        mesh = Mesh(surface.points_mm[used], renumbered.reshape(-1, 3), np.zeros(len(kept), np.int8))
        vectors = mesh.area_vectors_mm2()
        normals = np.column_stack([_gather(mesh, vectors[:, k]) for k in range(3)])
        length = np.linalg.norm(normals, axis=1, keepdims=True)
        normals = np.divide(normals, length, out=np.zeros_like(normals), where=length > 0)
        return Wall(mesh, normals, _gather(mesh, np.linalg.norm(vectors, axis=1)) / 3)


def _gather(mesh: Mesh, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of the triangles' values at each vertex."""
    return np.bincount(mesh.triangles.ravel(), np.repeat(values, 3), len(mesh.points_mm)).astype(np.float64)


@dataclass(frozen=True)
class WallFit:
    """Linear operator from values at the fluid nodes to values on the wall.

    Attributes
    ----------
    weights : (V, N) sparse; ``weights @ values`` are the values at the vertices, as of :meth:`carry`.
    widened : vertices whose fit needed a wider radius.
    nearest : vertices that take the nearest node's value, for want of a fit.
    """

    weights: csr_array
    widened: int
    nearest: int

    def carry(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        """A field of the fluid nodes, (N,) or (N, components), at the vertices; only nodes near the wall are read."""
        rows, weights = self._used
        return weights @ values[rows].astype(np.float64)

    @cached_property
    def _used(self) -> tuple[NDArray[np.int64], csr_array]:
        """Nodes that have a weight, and the weights of these alone."""
        rows, column = np.unique(self.weights.indices, return_inverse=True)
        return rows, csr_array((self.weights.data, column, self.weights.indptr), (self.weights.shape[0], len(rows)))


def fit_to_wall(nodes_mm: NDArray[np.float64], spacing_mm: float, wall: Wall, fit_nodes: float) -> WallFit:
    """Weighted linear least squares over the fluid nodes near each vertex, evaluated at the vertex.

    With d the offset of a node from the vertex, r = |d|, R = `fit_nodes` spacings and b = (1, d/R), the fit minimises
    sum w (f - a.b)^2, w = (1 - r/R)^2, and its value at the vertex is a_0 = sum_j w_j (b_j.y) f_j, where
    (sum w b b^T) y = (1, 0, 0, 0). The fit depends on the nodes' places alone, so that one operator serves all fields
    and times; it reproduces linear fields exactly.

    Parameters
    ----------
    nodes_mm : (N, 3), places of the fluid nodes, LPS.
    spacing_mm : distance of neighbouring nodes.
    wall : where the values are wanted.
    fit_nodes : radius of the fit in spacings.
    """
    tree = cKDTree(nodes_mm)
    vertices = wall.mesh.points_mm
    entries: list[tuple[NDArray, NDArray, NDArray]] = []
    left, widened = np.arange(len(vertices)), 0
    for factor in WIDENING:
        radius_mm = factor * fit_nodes * spacing_mm
        failed = []
        for rows in np.array_split(left, -(-len(left) // CHUNK) or 1):
            vertex, node, weight, good = _fit(tree, vertices[rows], wall.normals[rows], radius_mm, spacing_mm)
            entries.append((rows[vertex], node, weight))
            failed.append(rows[~good])
        widened += (factor > 1) * (len(left) - sum(map(len, failed)))
        left = np.concatenate(failed)
    entries.append((left, tree.query(vertices[left])[1].astype(np.int64), np.ones(len(left))))
    vertex, node, weight = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    weights = csr_array((weight, (vertex, node)), shape=(len(vertices), len(nodes_mm)))
    return WallFit(weights, widened, len(left))


def fit_nodes_to_wall(nodes: Nodes, wall: Wall, fit_nodes: float) -> WallFit:
    """:func:`fit_to_wall` with the images of the nodes beyond the periods of a lattice that repeats.

    Parameters
    ----------
    nodes : the lattice.
    wall : the wall without caps.
    fit_nodes : radius of the fit, in spacings.
    """
    reach = WIDENING[-1] * fit_nodes * nodes.spacing_mm
    points = nodes.points_mm()
    rows = _near(points, wall.mesh.points_mm, reach) if not any(nodes.periodic) else np.arange(nodes.count)
    points = points[rows]
    low, high = period_mm(nodes)
    for axis in np.flatnonzero(nodes.periodic):
        period = high[axis] - low[axis]
        times = np.arange(-np.ceil(reach / period), np.ceil(reach / period) + 1)
        points = np.concatenate([points + k * period * np.eye(3)[axis] for k in times])
        rows = np.tile(rows, len(times))
        near = (points[:, axis] > low[axis] - reach) & (points[:, axis] < high[axis] + reach)
        points, rows = points[near], rows[near]
    fit = fit_to_wall(points, nodes.spacing_mm, wall, fit_nodes)
    found = fit.weights
    weights = csr_array((found.data, rows[found.indices], found.indptr), shape=(found.shape[0], nodes.count))
    return replace(fit, weights=weights)


def _near(points: NDArray[np.float64], others: NDArray[np.float64], reach: float) -> NDArray[np.int64]:
    """Rows of all points within reach of one of the others, and of some more: those in cells beside one of theirs."""
    low = others.min(axis=0) - 2 * reach
    shape = np.ceil((others.max(axis=0) + 2 * reach - low) / reach).astype(np.int64)
    marked = np.zeros(shape, bool)
    marked[tuple(((others - low) // reach).astype(np.int64).T)] = True
    marked = binary_dilation(marked, np.ones((3, 3, 3), bool))
    cells = ((points - low) // reach).astype(np.int32)
    inside = ((cells >= 0) & (cells < shape)).all(axis=1)
    inside[inside] = marked[tuple(cells[inside].T)]
    return np.flatnonzero(inside)


def period_mm(nodes: Nodes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ends of the period of the lattice along (x, y, z); infinite where it does not repeat."""
    low = np.asarray(nodes.origin_mm) - nodes.spacing_mm / 2
    high = low + np.array(nodes.shape[::-1]) * nodes.spacing_mm
    return np.where(nodes.periodic, low, -np.inf), np.where(nodes.periodic, high, np.inf)


def within_period(surface: Mesh, nodes: Nodes) -> Mesh:
    """The triangles within one period: the surface of a shape that repeats reaches beyond it."""
    low, high = period_mm(nodes)
    middle = surface.centroids_mm()
    inside = ((middle > low) & (middle < high)).all(axis=1)
    patch = None if surface.patch is None else surface.patch[inside]
    return Mesh(surface.points_mm, surface.triangles[inside], surface.opening[inside], patch)


def _fit(
    tree: cKDTree, vertices: NDArray[np.float64], normals: NDArray[np.float64], radius_mm: float, spacing_mm: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """Vertex, node and weight of each entry of the operator, and which vertices have a fit."""
    found = tree.query_ball_point(vertices, radius_mm, return_sorted=True)
    vertex = np.repeat(np.arange(len(vertices)), [len(nodes) for nodes in found])
    node = np.concatenate([np.asarray(nodes, np.int64) for nodes in found]) if len(found) else np.empty(0, np.int64)
    offset = tree.data[node] - vertices[vertex]
    inside = np.einsum("ij,ij->i", offset, normals[vertex]) <= MAX_OUTSIDE * spacing_mm
    vertex, node, offset = vertex[inside], node[inside], offset[inside] / radius_mm
    basis = np.column_stack((np.ones(len(offset)), offset))
    weight = np.maximum(1 - np.linalg.norm(offset, axis=1), 0) ** 2
    moments = np.stack(
        [np.bincount(vertex, weight * basis[:, i] * basis[:, j], len(vertices)) for i in range(4) for j in range(4)], 1
    ).reshape(-1, 4, 4)
    good = np.bincount(vertex, minlength=len(vertices)) >= 4
    good[good] = np.linalg.cond(moments[good]) < MAX_CONDITION
    moments[~good] = np.eye(4)
    solution = np.linalg.solve(moments, np.broadcast_to(np.eye(4)[:, :1], (len(vertices), 4, 1)))[..., 0]
    weight *= np.einsum("ij,ij->i", basis, solution[vertex])
    good &= np.bincount(vertex, np.abs(weight), len(vertices)) <= MAX_AMPLIFICATION
    kept = good[vertex]
    return vertex[kept], node[kept], weight[kept], good


def wall_shear_stress(
    fit: WallFit, normals: NDArray[np.float64], stress_pa: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Wall shear stress: the tangential part of the traction that the fluid exerts on the wall.

    tau_w = -(sigma.n - (n.sigma.n) n) with n out of the fluid, so that it points along the flow near the wall.

    Parameters
    ----------
    fit : carries the stress to the wall.
    normals : (V, 3), out of the fluid.
    stress_pa : (N, 6), viscous stress sigma at the fluid nodes, components xx, yy, zz, xy, yz, xz.

    Returns
    -------
    (V, 3), Pa.
    """
    xx, yy, zz, xy, yz, xz = fit.carry(stress_pa).T
    x, y, z = normals.T
    traction = np.column_stack((xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z))
    return np.einsum("ij,ij->i", traction, normals)[:, None] * normals - traction


def surface_gradient(wall: Wall, values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Gradient along the wall of a quantity at its vertices, (V, 3), per mm.

    On a triangle with corners p_k and unit normal m the gradient of the linear function is
    sum of f_k m x (p_(k+2) - p_(k+1)) / (2 A); that of a vertex is the mean over its triangles by area, freed of its
    part along the normal.

    Parameters
    ----------
    wall : the wall.
    values : (V,), any unit.
    """
    mesh = wall.mesh
    corners, vectors = mesh.points_mm[mesh.triangles], mesh.area_vectors_mm2()
    size = np.linalg.norm(vectors, axis=1, keepdims=True)
    normal = np.divide(vectors, size, out=np.zeros_like(vectors), where=size > 0)
    of_triangles = np.zeros_like(vectors)  # times their area
    for k in range(3):
        edge = corners[:, (k + 2) % 3] - corners[:, (k + 1) % 3]
        of_triangles += np.asarray(values, np.float64)[mesh.triangles[:, k], None] * np.cross(normal, edge) / 2
    around = np.column_stack([_gather(mesh, of_triangles[:, k]) for k in range(3)])
    weight = 3 * wall.areas_mm2[:, None]
    mean = np.divide(around, weight, out=np.zeros_like(around), where=weight > 0)
    return mean - np.einsum("ij,ij->i", mean, wall.normals)[:, None] * wall.normals


def rim_mm(fit_nodes: float, spacing_mm: float) -> float:
    """Distance from a cap below which the wall has no part in statistics.

    Parameters
    ----------
    fit_nodes : radius of the fit that carries the stress to the wall, in spacings; nearer, nodes would be lacking.
    spacing_mm : of the lattice.
    """
    return max(fit_nodes, RIM_SPACINGS) * spacing_mm


def near_openings(wall: Wall, openings: Iterable[Opening], distance_mm: float) -> NDArray[np.bool_]:
    """Which vertices lie within a distance of a cap's plane and beside that cap, (V,).

    Parameters
    ----------
    wall : the wall without caps.
    openings : whose caps count.
    distance_mm : from a cap's plane; from its centre, two of its radii and as much.
    """
    near = np.zeros(len(wall.normals), bool)
    for opening in openings:
        offset = wall.mesh.points_mm - np.asarray(opening.centre_mm)
        depth = np.abs(offset @ np.asarray(opening.normal))
        near |= (depth < distance_mm) & (np.linalg.norm(offset, axis=1) < 2 * opening.radius_mm + distance_mm)
    return near


def place_at(opening: Opening, points_mm: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Depth of points, (N, 3), behind the plane of a cap, and their distance from its axis, (N,) each; mm."""
    offset, normal = points_mm - np.asarray(opening.centre_mm), np.asarray(opening.normal)
    depth = -offset @ normal
    return depth, np.linalg.norm(offset + depth[:, None] * normal, axis=1)
