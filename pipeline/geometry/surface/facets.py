# SPDX-License-Identifier: Apache-2.0
"""A surface of triangles as the shape of another: its wall, its creases and the planes of its caps."""

import numpy as np
from numpy.typing import NDArray

from pipeline.files.mesh import Mesh
from pipeline.geometry.surface.connections import CREASE, WALL
from pipeline.geometry.surface.distance import ClosestPoint
from pipeline.geometry.surface.half_edges import HalfEdges
from pipeline.geometry.surface.remesh import CapPlanes, vertex_kinds
from pipeline.geometry.surface.triangle_measures import vertex_normals

ENDS_OF_RIM = 3
"""A rim is put onto the wall and into its plane by turns, so often: they are nearly perpendicular."""


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
        """Closest points of the wall for the wall's vertices and, in the planes of their caps, for those of rims.

        Parameters
        ----------
        points, normals : (P, 3) mm, and unit normals there, of which no use is made.
        kind : (P,) int8, as in ``connections.WALL``.
        """
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
    """Move the free vertices (P,) along their normals, all by the same distance, until a closed mesh has a volume.

    Parameters
    ----------
    mesh : closed.
    volume_mm3 : that is wanted.
    free : (P,) bool.
    """
    points = mesh.points_mm
    for _ in range(5):
        now = Mesh(points, mesh.triangles, mesh.opening)
        part = free[mesh.triangles].mean(axis=1)  # of a triangle, that moves
        area_mm2 = float((part * np.linalg.norm(now.area_vectors_mm2(), axis=1)).sum())
        step_mm = (volume_mm3 - now.volume_mm3()) / max(area_mm2, 1e-300)
        points = points + step_mm * free[:, None] * vertex_normals(points, mesh.triangles.ravel())
    return Mesh(points, mesh.triangles, mesh.opening)
