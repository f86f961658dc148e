# SPDX-License-Identifier: Apache-2.0
"""Triangles of a surface in blocks, so that a plane is held against those few that it can cut."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.files.mesh import Mesh

PER_BLOCK = 20.0
"""Triangles that lie in a block of a plane surface."""

ROUND_OFF = 1e-9
"""Of the size of the surface: a plane that passes a block so near may cut it."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Blocks:
    """A surface and its blocks, of which there are B.

    Attributes
    ----------
    mesh : with T triangles.
    order, first : (T,) rows of the triangles by block, and (B + 1,) where in it each begins.
    middle_mm, half_mm : (B, 3), of the box along the axes around each block, and half its size.
    """

    mesh: Mesh
    order: NDArray[np.int64]
    first: NDArray[np.int64]
    middle_mm: Floats
    half_mm: Floats

    @classmethod
    def of(cls, mesh: Mesh) -> "Blocks":
        """The triangles whose centroids lie in one cube are a block."""
        centroids = mesh.centroids_mm()
        area_mm2 = float(np.linalg.norm(mesh.area_vectors_mm2(), axis=1).mean())
        edge_mm = max(np.sqrt(PER_BLOCK * area_mm2), ROUND_OFF)
        cube = np.floor((centroids - centroids.min(axis=0)) / edge_mm).astype(np.int64)
        number = np.ravel_multi_index(tuple(cube.T), tuple(cube.max(axis=0) + 1))
        order = np.argsort(number, kind="stable")
        first = np.flatnonzero(np.diff(number[order], prepend=-1))
        corners = mesh.points_mm[mesh.triangles[order]]
        low = np.minimum.reduceat(corners.min(axis=1), first)
        high = np.maximum.reduceat(corners.max(axis=1), first)
        return cls(mesh, order, np.append(first, len(order)), (low + high) / 2, (high - low) / 2)

    def met_by(self, place_mm: Floats, direction: Floats) -> NDArray[np.int64]:
        """Rows, ascending, of the triangles in blocks that a plane meets.

        Parameters
        ----------
        place_mm, direction : (3,), a point of the plane, and its unit normal.
        """
        away = np.abs((self.middle_mm - place_mm) @ direction)
        slack = ROUND_OFF * float(np.abs(self.middle_mm - place_mm).max() + self.half_mm.max())
        met = np.flatnonzero(away <= self.half_mm @ np.abs(direction) + slack)
        counts = self.first[met + 1] - self.first[met]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.sort(self.order[np.repeat(self.first[met], counts) + within])
