# SPDX-License-Identifier: Apache-2.0
"""Half-edges: a closed triangle surface whose connections can change, and the steps that change them.

A half-edge ``h = 3 t + k`` runs from corner k of triangle t to the next one; ``twin[h]`` is the same edge seen from
the other triangle, ``out[v]`` any half-edge that begins at vertex v. Every step leaves the surface a closed 2-manifold
of the same topology and turns no triangle over; creases stay creases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.files.mesh import Mesh
from pipeline.geometry.surface.connections import (
    CORNER,
    CREASE,
)
from pipeline.geometry.surface.edge_steps import collapse_short, compact, flip_edges, split_long
from pipeline.geometry.surface.relaxation import relax_all

LONGEST, SHORTEST = 4 / 3, 4 / 5
"""Edges beyond these multiples of the wanted length are split or collapsed: neither step calls for the other."""


@dataclass
class HalfEdges:
    """A closed surface whose connections can change; the module says what `twin` and `out` are.

    Attributes
    ----------
    points : (P, 3) mm.
    edge : (P,) wanted length of the edges, mm.
    kind : (P,) int8.
    start : (3 T,) vertex at which each half-edge begins.
    twin : (3 T,).
    sharp : (3 T,) whether the edge is a crease.
    tag : (T,) int8, opening.
    out : (P,).
    """

    points: NDArray[np.float64]
    edge: NDArray[np.float64]
    kind: NDArray[np.int8]
    start: NDArray[np.int64]
    twin: NDArray[np.int64]
    sharp: NDArray[np.bool_]
    tag: NDArray[np.int8]
    out: NDArray[np.int64]

    @staticmethod
    def of(mesh: Mesh, edge_mm: NDArray[np.float64], crease_deg: float) -> "HalfEdges":
        """Of a closed mesh; its rims of caps, and edges at which it turns by more than an angle, are creases.

        Parameters
        ----------
        mesh : closed.
        edge_mm : (P,) wanted length of the edges at each point.
        crease_deg : angle between the normals of two triangles from which their edge is a crease.
        """
        start = mesh.triangles.astype(np.int64).ravel()
        end = np.roll(mesh.triangles, -1, axis=1).astype(np.int64).ravel()
        count = len(mesh.points_mm)
        forward, backward = np.argsort(start * count + end), np.argsort(end * count + start)
        twin = np.empty(len(start), np.int64)
        twin[forward] = backward
        out = np.empty(count, np.int64)
        out[start] = np.arange(len(start))
        tag, owner = mesh.opening.astype(np.int8), np.arange(len(start)) // 3
        vectors = mesh.area_vectors_mm2()
        normals = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
        cosine = np.einsum("ij,ij->i", normals[owner], normals[owner[twin]])
        sharp = (tag[owner] != tag[owner[twin]]) | (np.clip(cosine, -1, 1) < np.cos(np.radians(crease_deg)))
        kind = _kinds(start, twin, sharp, tag, count)
        return HalfEdges(mesh.points_mm.copy(), edge_mm.copy(), kind, start, twin, sharp, tag, out)

    def mesh(self) -> Mesh:
        """As a mesh."""
        return Mesh(self.points.copy(), self.start.reshape(-1, 3).copy(), self.tag.copy())

    def split(self) -> int:
        """Split too long edges, the longest first; how many."""
        ends = np.stack([self.start, self.start[self.twin]])
        length = np.linalg.norm(self.points[ends[0]] - self.points[ends[1]], axis=1) / self.edge[ends].mean(axis=0)
        long = np.flatnonzero((length > LONGEST) & (np.arange(len(length)) < self.twin))
        if len(long):
            long = long[np.argsort(-length[long], kind="stable")]
            steps = 1, 1, 1, 6, 6, 6, 2, 1
            grown = [_grown(a, len(long) * step) for a, step in zip(self._arrays(), steps, strict=True)]
            self._cut(grown, split_long(*grown, long, len(self.points), len(self.tag)))
        return len(long)

    def collapse(self) -> None:
        """Collapse too short edges where the surface allows it."""
        collapse_short(*self._arrays(), SHORTEST, LONGEST)
        self._cut(self._arrays(), compact(*self._arrays()))

    def flip(self, by_angle: bool) -> None:
        """Turn edges inside their two triangles, for six neighbours a vertex or for larger angles."""
        flip_edges(*self._arrays(), by_angle)

    def relax(self, steps: int) -> None:
        """Slide the vertices towards the middle of their neighbours."""
        for _ in range(steps):
            relax_all(self.points, self.kind, self.start, self.twin, self.sharp, self.out)

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return self.points, self.edge, self.kind, self.start, self.twin, self.sharp, self.tag, self.out

    def _cut(self, arrays: Sequence[NDArray[Any]], ends: Sequence[int]) -> None:
        """Take the arrays, each up to its end."""
        cut = [array[:end] for array, end in zip(arrays, ends, strict=True)]
        self.points, self.edge, self.kind, self.start, self.twin, self.sharp, self.tag, self.out = cut


def _grown(array: NDArray[Any], by: int) -> NDArray[Any]:
    return np.concatenate([array, np.zeros((by, *array.shape[1:]), array.dtype)])


def _kinds(
    start: NDArray[np.int64], twin: NDArray[np.int64], sharp: NDArray[np.bool_], tag: NDArray[np.int8], count: int
) -> NDArray[np.int8]:
    """Kind of each vertex; see :data:`connections.WALL`."""
    creases = np.bincount(start[sharp], minlength=count)
    kind = np.zeros(count, np.int16)
    kind[start] = np.repeat(tag, 3)  # inside the wall and the caps all triangles agree
    here, there = np.repeat(tag, 3)[sharp].astype(np.int16), tag[twin[sharp] // 3].astype(np.int16)
    of_rim = np.where((here != there) & (np.minimum(here, there) == 0), -np.maximum(here, there), CREASE)
    first, last = np.full(count, 127, np.int16), np.full(count, -128, np.int16)
    np.minimum.at(first, start[sharp], of_rim)
    np.maximum.at(last, start[sharp], of_rim)
    kind = np.where(creases > 0, np.where((creases == 2) & (first == last), first, CORNER), kind)
    return kind.astype(np.int8)
