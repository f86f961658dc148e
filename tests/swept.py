"""Surfaces of vessels with known centrelines: round tubes swept along curves, and bifurcations from a distance."""

import numpy as np
from skimage.measure import marching_cubes

from pipeline.mesh import Mesh
from tests.shapes import opening_of


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


def to_segment(points, start, stop):
    """Distance (n,) of points to the axis of a tube, and place (n,) along it, 0 at `start` and 1 at `stop`."""
    axis = np.subtract(stop, start)
    along = (points - start) @ axis / (axis @ axis)
    return np.linalg.norm(points - start - np.clip(along, 0, None)[:, None] * axis, axis=1), along


def forked(tubes, grid_mm, sacs=()):
    """Capped surface of straight tubes that run out of a common point, each ``(name, role, end, radius)``.

    A tube without a name ends blind, in half a ball. `sacs` are balls, each ``(centre, radius)``. The surface is the
    zero level of the distance on a grid; flat ends are tagged as caps where a triangle lies in their plane.
    """
    reach = np.array([np.append(end, radius) for _, _, end, radius in tubes] + [np.append(*sac) for sac in sacs])
    low = np.minimum((reach[:, :3] - reach[:, 3:]).min(axis=0), 0) - 3 * grid_mm
    high = np.maximum((reach[:, :3] + reach[:, 3:]).max(axis=0), 0) + 3 * grid_mm
    axes = [np.arange(a, b, grid_mm) for a, b in zip(low + 0.37 * grid_mm, high, strict=True)]
    places = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    flat = places.reshape(-1, 3)
    field = np.full(len(flat), np.inf)
    for name, _, end, radius in tubes:
        away, along = to_segment(flat, np.zeros(3), end)
        over = (along - 1) * np.linalg.norm(end)
        if not name:
            away = np.where(over > 0, np.linalg.norm(flat - end, axis=1), away)
        field = np.minimum(field, np.maximum(away - radius, over if name else -np.inf))
    for centre, radius in sacs:
        field = np.minimum(field, np.linalg.norm(flat - centre, axis=1) - radius)
    corners, triangles, _, _ = marching_cubes(field.reshape(places.shape[:3]), 0.0, spacing=(grid_mm,) * 3)
    corners = np.asarray(corners, float) + [axis[0] for axis in axes]
    mesh = Mesh(corners, triangles.astype(np.int64), np.zeros(len(triangles), np.int8))
    if mesh.volume_mm3() < 0:
        mesh = Mesh(corners, mesh.triangles[:, ::-1], mesh.opening)
    middle = corners[mesh.triangles].mean(axis=1)
    for number, (_, _, end, radius) in enumerate([tube for tube in tubes if tube[0]], 1):
        _, along = to_segment(middle, np.zeros(3), end)
        near = np.linalg.norm(middle - end, axis=1) < radius + grid_mm
        mesh.opening[near & (np.abs(along - 1) * np.linalg.norm(end) < 1e-3 * grid_mm)] = number
    named = [(name, role) for name, role, _, _ in tubes if name]
    return mesh, tuple(opening_of(mesh, k, name, role) for k, (name, role) in enumerate(named, 1))


def moved(mesh: Mesh, turn, shift_mm) -> Mesh:
    """The mesh turned by a rotation, (3, 3), and shifted."""
    return Mesh(mesh.points_mm @ np.asarray(turn).T + shift_mm, mesh.triangles, mesh.opening)
