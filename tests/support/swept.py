# SPDX-License-Identifier: Apache-2.0
"""Surfaces of vessels with known centrelines: round tubes swept along curves, and bifurcations from a distance."""

import numpy as np
from skimage.measure import marching_cubes

from pipeline.files.mesh import Mesh
from pipeline.geometry.surface.clip import cut_end
from tests.support.shapes import opening_of


def transported_frames(tangents):
    """A unit vector across a curve at each point, turned with the curve but not around it, (n, 3)."""
    across = np.cross(tangents[0], np.eye(3)[np.abs(tangents[0]).argmin()])
    frames = []
    for tangent in tangents:
        across = across - (across @ tangent) * tangent
        across /= np.linalg.norm(across)
        frames.append(across)
    return np.array(frames)


def swept(points_mm, radius_mm, segments=48):
    """Capped tube along a curve: opening 1, the inlet, at its first point, opening 2, the outlet, at its last.

    The sections stand across the curve at its points; `radius_mm` is one a point, or one for all.
    """
    points = np.asarray(points_mm, float)
    radius = np.broadcast_to(radius_mm, len(points))
    tangents = np.gradient(points, axis=0, edge_order=2)
    tangents /= np.linalg.norm(tangents, axis=1, keepdims=True)
    first = transported_frames(tangents)
    second = np.cross(tangents, first)
    angle = 2 * np.pi * np.arange(segments) / segments
    ring = np.cos(angle)[:, None] * first[:, None] + np.sin(angle)[:, None] * second[:, None]
    wall = points[:, None] + radius[:, None, None] * ring
    corners = np.concatenate([wall.reshape(-1, 3), points[[0, -1]]])
    here = np.arange(len(points) - 1)[:, None] * segments + np.arange(segments)
    beside = np.arange(len(points) - 1)[:, None] * segments + (np.arange(segments) + 1) % segments
    sides = np.stack([here, beside, beside + segments, here, beside + segments, here + segments], axis=-1)
    start = np.stack([beside[0], here[0], np.full(segments, len(corners) - 2)], axis=-1)
    stop = np.stack([here[-1] + segments, beside[-1] + segments, np.full(segments, len(corners) - 1)], axis=-1)
    triangles = np.concatenate([sides.reshape(-1, 3), start, stop])
    tags = np.repeat([0, 1, 2], [len(triangles) - 2 * segments, segments, segments]).astype(np.int8)
    mesh = Mesh(corners, triangles, tags)
    return mesh, (opening_of(mesh, 1, "inlet", "inlet"), opening_of(mesh, 2, "outlet", "outlet"))


def arc(bend_mm, angle, count=400):
    """Points on an arc of a circle of radius `bend_mm` about the origin, from the x axis, in the plane z = 0."""
    t = np.linspace(0, angle, count)
    return np.stack([bend_mm * np.cos(t), bend_mm * np.sin(t), 0 * t], axis=1)


def to_ray(points, towards):
    """Distance (n,) of points to a ray from the origin, and place (n,) along it, 1 at `towards`."""
    along = (points @ towards) / (towards @ towards)
    return np.linalg.norm(points - np.clip(along, 0, None)[:, None] * towards, axis=1), along


def level_surface(distance, low_mm, high_mm, grid_mm) -> Mesh:
    """Closed surface where a distance, a function of points (N, 3) that is negative inside, is 0 on a grid.

    Walls are true to about the square of the grid's spacing over eight radii.
    """
    low = np.asarray(low_mm, float) - np.array([3.37, 3.41, 3.29]) * grid_mm  # off walls that lie along axes
    axes = [np.arange(a, b, grid_mm) for a, b in zip(low, np.asarray(high_mm) + 3 * grid_mm, strict=True)]
    places = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    field = distance(places.reshape(-1, 3)).reshape(places.shape[:3])
    points, triangles, _, _ = marching_cubes(field, 0.0, spacing=(grid_mm,) * 3)
    mesh = Mesh(np.asarray(points, float) + low, triangles.astype(np.int64), np.zeros(len(triangles), np.int8))
    return mesh if mesh.volume_mm3() > 0 else Mesh(mesh.points_mm, mesh.triangles[:, ::-1].copy(), mesh.opening)


def forked(tubes, grid_mm, sacs=()):
    """Capped surface of straight tubes that run out of the origin, each ``(name, role, end, radius)``.

    A tube without a name ends blind, in half a ball. `sacs` are balls, each ``(centre, radius)``. Caps are exact planes
    through the ends, numbered in the order of the tubes.
    """

    def distance(points):
        parts = [np.linalg.norm(points - centre, axis=1) - radius for centre, radius in sacs]
        for name, _, end, radius in tubes:
            away, along = to_ray(points, np.asarray(end, float))
            beyond = (along - 1) * np.linalg.norm(end)
            ball = np.linalg.norm(points - end, axis=1)
            parts.append(np.maximum(away, beyond) - radius if name else np.where(beyond > 0, ball, away) - radius)
        return np.min(parts, axis=0)

    spheres = [(np.asarray(end, float), 2 * radius) for _, _, end, radius in tubes] + list(sacs)
    low = np.min([np.subtract(centre, radius) for centre, radius in spheres], axis=0).clip(max=0)
    high = np.max([np.add(centre, radius) for centre, radius in spheres], axis=0).clip(min=0)
    mesh = level_surface(distance, low, high, grid_mm)
    named = [tube for tube in tubes if tube[0]]
    for number, (_, _, end, _) in enumerate(named, 1):
        mesh = cut_end(mesh, np.asarray(end, float), np.asarray(end, float) / np.linalg.norm(end), number)
    return mesh, tuple(opening_of(mesh, k, name, role) for k, (name, role, _, _) in enumerate(named, 1))


def moved(mesh: Mesh, turn, shift_mm) -> Mesh:
    """The mesh turned by a rotation, (3, 3), and shifted."""
    return Mesh(mesh.points_mm @ np.asarray(turn).T + shift_mm, mesh.triangles, mesh.opening)
