# SPDX-License-Identifier: Apache-2.0
"""Section of the vessel by a plane, and the part of the vessel that it severs: how a sac is separated from its
parent.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pipeline.files.mesh import Mesh, words_mm
from pipeline.geometry.surface.clip import axes_of_plane, edges_of
from pipeline.haemodynamics.accumulator import Slab, hann
from solver.domain.nodes import Nodes

Floats = NDArray[np.float64]


class NeckError(Exception):
    """The plane cuts no section around its point, or severs no sac; the message says why."""


@dataclass(frozen=True)
class Section:
    """One closed loop in which a plane cuts a surface.

    Attributes
    ----------
    at_mm : (3,), the point in the plane that the loop goes around.
    normal : (3,), unit vector.
    edges : (k, 2), the surface's edges that the loop crosses, from the vertex beyond the plane to that before it.
    places_mm : (k, 3), where it crosses them.
    segments : (n, 2), the loop's segments, rows of `edges`; counter-clockwise seen from where the normal points to.
    triangles : (n,), the triangle that each segment lies in.
    """

    at_mm: Floats
    normal: Floats
    edges: NDArray[np.int64]
    places_mm: Floats
    segments: NDArray[np.int64]
    triangles: NDArray[np.int64]

    @property
    def area_mm2(self) -> float:
        """Area of the flat polygon: the sum of the triangles between its segments and a point."""
        return float(np.sum(self._vectors() @ self.normal) / 2)

    @property
    def centre_mm(self) -> Floats:
        """Centroid of the flat polygon, (3,)."""
        start, end = (self.places_mm[self.segments[:, k]] for k in range(2))
        middle = (start + end + self.at_mm) / 3
        return np.asarray(np.average(middle, axis=0, weights=self._vectors() @ self.normal))

    def _vectors(self) -> Floats:
        start, end = (self.places_mm[self.segments[:, k]] - self.at_mm for k in range(2))
        return np.asarray(np.cross(start, end))

    def encloses(self, points_mm: Floats) -> NDArray[np.bool_]:
        """Whether the loop goes around the projections of points, (N, 3), onto its plane, (N,): by winding numbers."""
        axes = axes_of_plane(self.normal)
        flat, corners = (points_mm - self.at_mm) @ axes, (self.places_mm - self.at_mm) @ axes
        low, high = corners.min(axis=0), corners.max(axis=0)
        near = np.flatnonzero(((flat > low) & (flat < high)).all(axis=1))
        found = np.zeros(len(points_mm), bool)
        found[near] = np.rint(_turns(flat[near], corners[self.segments])) != 0
        return found

    def slab(self, nodes: Nodes, half_width: float) -> Slab:
        """The fluid nodes around the section, and what each stands for.

        With s the height of a node over the plane and h `half_width` spacings, the flow through the section is the sum
        of u.n k(s) dx^3 over the nodes within the loop's prism, with the Hann window k(s) = (1 + cos(pi s/h)) / (2 h).
        Because u vanishes on the loop, the flow through the prism's section changes with s^2 only.

        Parameters
        ----------
        nodes : the lattice.
        half_width : of the slab, in spacings.
        """
        dx, half = nodes.spacing_mm, half_width * nodes.spacing_mm
        points = nodes.points_mm()
        height = (points - self.at_mm) @ self.normal
        rows = np.flatnonzero(np.abs(height) < half)
        rows = rows[self.encloses(points[rows])]
        return Slab(rows, hann(height[rows], half) * dx**3, -height[rows])


def _turns(points: Floats, segments: Floats) -> Floats:
    """Turns that segments, (n, 2, 2), make around points, (N, 2): (N,)."""
    turns = np.empty(len(points))
    for rows in np.array_split(np.arange(len(points)), len(points) * len(segments) // 4_000_000 + 1):
        a, b = (segments[None, :, k] - points[rows, None] for k in range(2))
        cross = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
        turns[rows] = np.arctan2(cross, (a * b).sum(axis=-1)).sum(axis=1) / (2 * np.pi)
    return turns


def section_around(mesh: Mesh, at_mm: Floats, normal: Floats) -> Section:
    """The smallest loop around a point in which a plane through it cuts a closed surface.

    Parameters
    ----------
    mesh : closed surface, outward.
    at_mm : (3,), in the vessel.
    normal : (3,), unit vector.

    Raises
    ------
    NeckError
        If the plane misses the surface, or the point is not in the vessel.
    """
    height = (mesh.points_mm - at_mm) @ normal
    beyond = height > 0
    crossed = np.flatnonzero(np.ptp(beyond[mesh.triangles].astype(np.int8), axis=1))
    if not len(crossed):
        raise NeckError("its plane misses the vessel")
    edges, segments = _segments(mesh.triangles[crossed], beyond)
    part = height[edges[:, 0]] / (height[edges[:, 0]] - height[edges[:, 1]])
    places = (1 - part)[:, None] * mesh.points_mm[edges[:, 0]] + part[:, None] * mesh.points_mm[edges[:, 1]]
    graph = coo_array((np.ones(len(segments), np.int8), segments.T), shape=(len(edges),) * 2)
    count, label = connected_components(graph, directed=False)
    loop = label[segments[:, 0]]
    flat = (places - at_mm) @ axes_of_plane(normal)
    around = [round(float(_turns(np.zeros((1, 2)), flat[segments[loop == k]])[0])) for k in range(count)]
    if sum(around) <= 0:
        raise NeckError(
            f"the point {words_mm(at_mm)} is not in the vessel; the nearest place of its wall is"
            f" {np.linalg.norm(mesh.points_mm - at_mm, axis=1).min():.2f} mm away"
        )
    reach = [np.linalg.norm(flat[label == k], axis=1).max() if around[k] > 0 else np.inf for k in range(count)]
    kept, own = label == int(np.argmin(reach)), loop == int(np.argmin(reach))
    renumbered = np.cumsum(kept) - 1
    return Section(at_mm, normal, edges[kept], places[kept], renumbered[segments[own]], crossed[own])


def _segments(triangles: NDArray[np.int64], beyond: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Crossed edges of crossed triangles, (k, 2), and the segment in each triangle as two rows of them, (n, 2).

    A triangle's segment runs along the rim of the part beyond the plane.
    """
    side = beyond[triangles]
    lone = np.argmax(side == (side.sum(axis=1) == 1)[:, None], axis=1)
    a, b, c = (np.take_along_axis(triangles, (lone + k)[:, None] % 3, axis=1)[:, 0] for k in range(3))
    up = beyond[a]
    first = np.where(up[:, None], np.stack([a, b], axis=1), np.stack([c, a], axis=1))
    second = np.where(up[:, None], np.stack([a, c], axis=1), np.stack([b, a], axis=1))
    edges, rows = np.unique(np.concatenate([first, second]), axis=0, return_inverse=True)
    return edges.astype(np.int64), rows.reshape(2, -1).T.astype(np.int64)


@dataclass(frozen=True)
class Severed:
    """What lies beyond a section, and is connected to it there.

    Attributes
    ----------
    vertices : (P,), which vertices of the whole surface.
    closed : the part's own surface, exactly cut at the plane; `opening` is 1 on the flat cap, a fan around the
        section's point.
    shares_mm2 : (P,), integral of each vertex's linear shape function over the part of the surface: they sum to its
        area, and integrate what is given at the vertices.
    """

    vertices: NDArray[np.bool_]
    closed: Mesh
    shares_mm2: Floats


def sever(mesh: Mesh, section: Section, names: Mapping[int, str]) -> Severed:
    """The part of a vessel beyond a section. It may lean over the plane elsewhere: only the loop is cut.

    Parameters
    ----------
    mesh : closed surface.
    section : of it.
    names : of the openings by their ids, for the message.

    Raises
    ------
    NeckError
        If the section does not sever the vessel, or the part has an opening.
    """
    vertices = _beyond(mesh, section)
    _require_sac(mesh, vertices, names)
    count = len(mesh.points_mm)
    points = np.concatenate([mesh.points_mm, section.places_mm, section.at_mm[None]])
    uncut = mesh.triangles[vertices[mesh.triangles].all(axis=1)]
    start, end = (count + section.segments[:, k] for k in range(2))
    cap = np.stack([end, start, np.full(len(start), len(points) - 1)], axis=1)
    wall = np.concatenate([uncut, _cut_parts(section, count)])
    tags = np.repeat(np.array([0, 1], np.int8), [len(wall), len(cap)])
    used, renumbered = np.unique(np.concatenate([wall, cap]), return_inverse=True)
    closed = Mesh(points[used], renumbered.reshape(-1, 3).astype(np.int64), tags)
    areas = np.linalg.norm(Mesh(points, wall, tags[: len(wall)]).area_vectors_mm2(), axis=1)
    shares = np.bincount(wall.ravel(), np.repeat(areas / 3, 3), len(points))
    height = (mesh.points_mm[section.edges] - section.at_mm) @ section.normal
    part = height[:, 0] / (height[:, 0] - height[:, 1])
    on_rim = shares[count:-1]
    ends = np.concatenate([section.edges[:, 0], section.edges[:, 1]])
    shares = shares[:count] + np.bincount(ends, np.concatenate([(1 - part) * on_rim, part * on_rim]), count)
    return Severed(vertices, closed, shares.astype(np.float64))


def _beyond(mesh: Mesh, section: Section) -> NDArray[np.bool_]:
    """Vertices that are connected to the section from beyond, over edges that it does not cross."""
    size = len(mesh.points_mm)
    edges = edges_of(mesh.triangles)
    cut = np.sort(section.edges, axis=1)
    free = edges[~np.isin(edges[:, 0] * size + edges[:, 1], cut[:, 0] * size + cut[:, 1])]
    graph = coo_array((np.ones(len(free), np.int8), free.T), shape=(size, size))
    label = connected_components(graph, directed=False)[1]
    beyond, before = np.unique(label[section.edges[:, 0]]), np.unique(label[section.edges[:, 1]])
    if np.isin(beyond, before).any():
        raise NeckError("its plane does not sever a sac: both sides of the section are connected elsewhere")
    return np.isin(label, beyond)


def _require_sac(mesh: Mesh, vertices: NDArray[np.bool_], names: Mapping[int, str]) -> None:
    caps = mesh.opening > 0
    of_part = vertices[mesh.triangles[caps]].any(axis=1)
    within, outside = ([names[k] for k in np.unique(mesh.opening[caps][side]).tolist()] for side in (of_part, ~of_part))
    if within and not outside:
        raise NeckError("all openings lie on the side that its normal points to; the normal must point into the sac")
    if within:
        raise NeckError(
            f"its plane leaves openings on both sides ({', '.join(within)} beyond it, {', '.join(outside)} before it),"
            " so that neither is a sac"
        )


def _cut_parts(section: Section, count: int) -> NDArray[np.int64]:
    """Triangles of the parts of the cut triangles beyond the plane; places on the loop follow the `count` vertices."""
    first, second = section.segments.T
    start, end = section.edges[first, 0], section.edges[second, 0]  # the ends of the two edges beyond the plane
    tips = np.stack([end, count + first, count + second], axis=1)
    wide = start != end
    rest = np.stack([start[wide], count + first[wide], end[wide]], axis=1)
    return np.concatenate([tips, rest])
