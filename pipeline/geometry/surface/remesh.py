# SPDX-License-Identifier: Apache-2.0
"""Remesh: near-equilateral triangles whose edges follow the vessel's local radius.

Too long edges are split, too short ones collapsed, edges flipped towards six neighbours a vertex, vertices slid along
the surface towards the middle of their neighbours and put back onto the shape (Botsch and Kobbelt 2004,
doi:10.1145/1057432.1057457; with a graded length as in Dunyach et al. 2013, doi:10.2312/conf/EG2013/short/029-032).
Every step leaves the surface a closed 2-manifold of the same topology and turns no triangle over. Creases (the rims of
caps, sharp edges of a given surface) stay creases: their vertices slide along them only.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from pipeline.files.mesh import Mesh
from pipeline.geometry.surface.clip import directed_edges
from pipeline.geometry.surface.connections import CREASE, WALL
from pipeline.geometry.surface.half_edges import HalfEdges
from pipeline.geometry.surface.thin import ThinPlaceError
from pipeline.geometry.surface.triangle_measures import vertex_normals

ROUNDS = 8
MOST_SPLITS = 12
"""Rounds of splitting alone, at first, of a surface whose triangles are far too large."""
GRADING = 0.2
"""The wanted length grows by at most so much over its own length: 20 % from an edge to the next."""
SMALLEST_BALL_MM = 1e-6
"""Stands for a ball that is not known."""
PENETRATION = 0.05
"""An inscribed ball may be entered by the surface by this part of its radius, so that roughness does not shrink it, and
speaks for the surface within this distance of it."""
MOST_DRIFT = 0.1
"""Part of the volume that new triangles may add or take away before it is given back: chords of half a radius
take 6 %."""
BALLS = 4000
"""Inscribed balls that are tried at once."""


class Shape(Protocol):
    """What a remeshed surface keeps to."""

    def project(
        self, points: NDArray[np.float64], normals: NDArray[np.float64], kind: NDArray[np.int8]
    ) -> NDArray[np.float64]:
        """Points (P, 3) put back onto the shape; `normals` (P, 3) of the surface, `kind` (P,) as
        in ``connections.WALL``.

        Parameters
        ----------
        points, normals : (P, 3) mm, and unit normals of the surface there.
        kind : (P,) int8, as in ``connections.WALL``.
        """
        ...

    def enclose(self, mesh: Mesh, volume_mm3: float) -> Mesh:
        """A mesh on the shape moved so little that it has a volume."""
        ...


def remesh_vessel(
    mesh: Mesh, shape: Shape, edges_per_radius: float, least_radius_mm: float, crease_deg: float = 180.0
) -> Mesh:
    """Near-equilateral triangles on a shape, their edges in proportion to the local radius, with the mesh's volume.

    Parameters
    ----------
    mesh : closed, on the shape; its caps stay flat.
    shape : of the wall.
    edges_per_radius : of the triangles, on the local radius of the vessel.
    least_radius_mm : a smaller local radius is taken as this one.
    crease_deg : edges at which the surface turns by more are creases, as the rims of caps are.

    Returns
    -------
    Closed surface with the tags of `mesh`.

    Raises
    ------
    ThinPlaceError
        If the triangles leave the surface, as where the shape lacks a part of the mesh: their volume shows it.
    """
    edge_mm = edge_lengths(mesh, np.maximum(local_radius(mesh), least_radius_mm), edges_per_radius)
    new, wanted_mm3 = remesh(mesh, edge_mm, shape, crease_deg), mesh.volume_mm3()
    if abs(new.volume_mm3() / wanted_mm3 - 1) > MOST_DRIFT:
        raise ThinPlaceError(
            f"surface: new triangles enclose {new.volume_mm3():.1f} mm3 instead of {wanted_mm3:.1f} mm3, more than"
            f" {100 * MOST_DRIFT:g} % off: some of them leave the wall where the vessel is thin"
        )
    return shape.enclose(new, wanted_mm3)


def vertex_kinds(mesh: Mesh, crease_deg: float = 180.0) -> NDArray[np.int8]:
    """Kind of each vertex of a closed mesh, (P,), as in ``connections.WALL``; sharper edges than `crease_deg` count."""
    return HalfEdges.of(mesh, np.zeros(len(mesh.points_mm)), crease_deg).kind


class CapPlanes:
    """The planes of a mesh's caps."""

    def __init__(self, mesh: Mesh) -> None:
        count = int(mesh.opening.max(initial=0)) + 1
        self._centre, self._normal = np.zeros((2, count, 3))
        vectors = mesh.area_vectors_mm2()
        for number in np.unique(mesh.opening[mesh.opening > 0]):
            cap = mesh.opening == number
            self._centre[number] = mesh.points_mm[mesh.triangles[cap]].mean(axis=(0, 1))
            self._normal[number] = vectors[cap].sum(axis=0) / np.linalg.norm(vectors[cap].sum(axis=0))

    def on_rim(self, kind: NDArray[np.int8]) -> NDArray[np.bool_]:
        """Which vertices lie on the rim of a cap."""
        return (kind < WALL) & (kind > CREASE)

    def along(self, vectors: NDArray[np.float64], kind: NDArray[np.int8]) -> NDArray[np.float64]:
        """The part of vectors (n, 3) that lies in the planes of the caps to which their vertices belong."""
        normal = self._normal[np.abs(kind)]
        return vectors - np.einsum("ij,ij->i", vectors, normal)[:, None] * normal

    def put(self, points: NDArray[np.float64], kind: NDArray[np.int8]) -> NDArray[np.float64]:
        """Points with those of the caps and of their rims put into the planes."""
        own = np.flatnonzero((kind > WALL) | self.on_rim(kind))
        number = np.abs(kind[own])
        points = points.copy()
        points[own] = self._centre[number] + self.along(points[own] - self._centre[number], number)
        return points


def remesh(mesh: Mesh, edge_mm: NDArray[np.float64], shape: Shape, crease_deg: float = 180.0) -> Mesh:
    """Remesh a closed surface.

    Parameters
    ----------
    mesh : closed 2-manifold; caps and sharp edges stay.
    edge_mm : (P,) wanted length of the edges at the points; see :func:`edge_lengths`.
    shape : what the vertices are put back onto.
    crease_deg : edges at which the surface turns by more are creases, as the rims of caps are.

    Returns
    -------
    Closed surface with the tags of `mesh`.
    """
    half = HalfEdges.of(mesh, edge_mm, crease_deg)
    known = cKDTree(mesh.points_mm)
    for _ in range(MOST_SPLITS):
        if half.split() < 0.02 * len(half.start):
            break
        half.flip(by_angle=True)
        half.edge = _looked_up(known, edge_mm, half.points)
    for number in range(ROUNDS):
        half.split()
        half.collapse()
        half.flip(by_angle=number >= ROUNDS - 2)
        half.relax(2)
        half.points = shape.project(half.points, vertex_normals(half.points, half.start), half.kind)
        half.edge = _looked_up(known, edge_mm, half.points)
    half.flip(by_angle=True)
    return half.mesh()


def _looked_up(known: cKDTree, values: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values at points from those at the nearest known places, weighted by the inverse square of the distance."""
    distance, rows = known.query(points, k=min(3, len(values)))
    weight = 1 / (distance**2 + 1e-12)
    return np.asarray((weight * values[rows]).sum(axis=1) / weight.sum(axis=1))


def edge_lengths(mesh: Mesh, radius_mm: NDArray[np.float64], edges_per_radius: float) -> NDArray[np.float64]:
    """Wanted lengths of the edges at the points of a mesh, (P,) mm: proportional to the radius, smoothly graded.

    The largest field that is nowhere above the radius over `edges_per_radius`, and grows along the surface by at most
    :data:`GRADING` of the way: from every point a shortest way to all others.

    Parameters
    ----------
    mesh : closed.
    radius_mm : (P,) of the vessel at each point.
    edges_per_radius : that are wanted.
    """
    edges = directed_edges(mesh.triangles)
    count = len(mesh.points_mm)
    way = GRADING * np.linalg.norm(mesh.points_mm[edges[:, 0]] - mesh.points_mm[edges[:, 1]], axis=1)
    source = np.full(count, count), np.arange(count)  # one more node, as far from each point as its own length is
    length = np.concatenate([way, radius_mm / edges_per_radius])
    rows = np.concatenate([edges[:, 0], source[0]]), np.concatenate([edges[:, 1], source[1]])
    graph = coo_array((length, rows), shape=(count + 1,) * 2).tocsr()
    return np.asarray(dijkstra(graph, indices=count)[:count])


def local_radius(mesh: Mesh) -> NDArray[np.float64]:
    """Local radius of a vessel at the points of its surface, (P,) mm.

    Of the balls inside the surface that touch it in a point (found by shrinking, Ma, Bae and Choi 2012,
    doi:10.1007/s00371-011-0594-7), the largest one that comes near the point (the local thickness of Hildebrand and
    Rueegsegger 1997, doi:10.1046/j.1365-2818.1997.1340694.x). Caps do not count as surface.
    """
    wall = mesh.triangles[mesh.opening == 0]
    rows = np.unique(wall)
    points = mesh.points_mm[rows]
    normals = vertex_normals(mesh.points_mm, wall.ravel())[rows]
    tree = cKDTree(points)
    radius = np.zeros(len(points))
    usual_mm = 2 * mesh.volume_mm3() / float(np.linalg.norm(mesh.area_vectors_mm2(), axis=1).sum())
    random = np.random.default_rng(0)
    while len(left := np.flatnonzero(radius == 0)):
        tried = left if len(left) <= BALLS else random.choice(left, BALLS, replace=False)
        room = _room(points[tried], normals[tried], mesh)
        size = _inscribed(points[tried], normals[tried], tree, room, usual_mm)
        size[size == room] = SMALLEST_BALL_MM  # it leaves the vessel through a cap: its neighbours' balls count
        for k in np.argsort(-size):
            if radius[tried[k]] == 0:
                near = tree.query_ball_point(
                    points[tried[k]] - size[k] * normals[tried[k]], size[k] * (1 + PENETRATION)
                )
                radius[near] = np.maximum(radius[near], size[k])
                radius[tried[k]] = max(radius[tried[k]], size[k])
    known = radius > SMALLEST_BALL_MM
    if not known.any():
        return np.full(len(mesh.points_mm), usual_mm)
    return np.asarray(radius[known][cKDTree(points[known]).query(mesh.points_mm)[1]])


def _room(points: NDArray[np.float64], normals: NDArray[np.float64], mesh: Mesh) -> NDArray[np.float64]:
    """Way from points of the wall, along their normals inwards, to a cap, (n,); a normal near a rim may point at it."""
    room = np.full(len(points), float(np.linalg.norm(np.ptp(mesh.points_mm, axis=0))))
    vectors = mesh.area_vectors_mm2()
    for number in range(1, int(mesh.opening.max(initial=0)) + 1):
        cap = mesh.opening == number
        corners, normal = mesh.points_mm[mesh.triangles[cap]].reshape(-1, 3), vectors[cap].sum(axis=0)
        centre, normal = corners.mean(axis=0), normal / np.linalg.norm(normal)
        reach = float(np.linalg.norm(corners - centre, axis=1).max()) * (1 + PENETRATION)
        way = np.maximum((centre - points) @ normal, 0) / np.maximum(-(normals @ normal), 1e-12)
        met = np.linalg.norm(points - way[:, None] * normals - centre, axis=1) <= reach
        room[met] = np.minimum(room[met], way[met])
    return np.maximum(room, SMALLEST_BALL_MM)


def _inscribed(
    points: NDArray[np.float64],
    normals: NDArray[np.float64],
    tree: cKDTree,
    most_mm: NDArray[np.float64],
    usual_mm: float,
) -> NDArray[np.float64]:
    """Radii of the balls that touch the surface from inside at points, (n,), each at most so large; the part by which
    they may be entered is of the usual radius at most: a huge ball would be entered by the whole vessel.
    """
    radius = most_mm.copy()
    active = np.arange(len(points))
    for _ in range(30):
        centre = points[active] - radius[active, None] * normals[active]
        distance, nearest = tree.query(centre)
        across = points[active] - tree.data[nearest]
        depth = np.einsum("ij,ij->i", across, normals[active])
        through = np.einsum("ij,ij->i", across, across) / np.maximum(2 * depth, 1e-12)
        entered = (depth > 0) & (radius[active] - distance > PENETRATION * np.minimum(through, usual_mm))
        active = active[entered]
        if not len(active):
            break
        radius[active] = through[entered]
    return radius
