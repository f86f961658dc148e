# SPDX-License-Identifier: Apache-2.0
"""Surfaces of revolution with known area, volume and inside, as the surface stage would hand them on."""

import numpy as np

from pipeline.files.mesh import Mesh
from solver.domain.nodes import Opening


def frame_of(axis):
    """Right-handed orthonormal frame, (3, 3), rows e1, e2 and the unit axis."""
    axis = np.asarray(axis, float) / np.linalg.norm(axis)
    first = np.cross(axis, np.eye(3)[np.abs(axis).argmin()])
    first /= np.linalg.norm(first)
    return np.array([first, np.cross(axis, first), axis])


def revolve(radius_mm, height_mm, tags, axis, centre_mm, segments) -> Mesh:
    """Turn a profile around an axis through `centre_mm`.

    The profile runs with the outside on its right: ``(radius_mm, height_mm)`` of its corners, and the ``opening`` of
    each of its edges. With as many tags as corners the profile is closed (a torus). A corner of radius 0 is a pole.
    """
    angle = 2 * np.pi * np.arange(segments) / segments
    circle = np.stack((np.cos(angle), np.sin(angle)), axis=1)
    points, rings, count = [], [], 0
    for radius, height in zip(radius_mm, height_mm, strict=True):
        around = circle if radius > 0 else circle[:1]
        points.append(np.column_stack((radius * around, np.full(len(around), height))))
        rings.append(count + np.arange(segments) % len(around))
        count += len(around)
    triangles = []
    for edge in range(len(tags)):
        low, high = rings[edge], rings[(edge + 1) % len(rings)]
        low_next, high_next = np.roll(low, -1), np.roll(high, -1)
        triangles.append(np.stack((low, low_next, high_next, low, high_next, high), axis=1).reshape(-1, 3))
    corners = np.concatenate(triangles)
    opening = np.repeat(np.asarray(tags, np.int8), [len(part) for part in triangles])
    a, b, c = corners.T
    whole = (a != b) & (b != c) & (c != a)
    return Mesh(np.concatenate(points) @ frame_of(axis) + centre_mm, corners[whole], opening[whole])


def opening_of(mesh: Mesh, number, name, role) -> Opening:
    """The opening whose cap carries `number`, measured on the mesh."""
    cap = mesh.opening == number
    vectors = mesh.area_vectors_mm2()[cap]
    areas = np.linalg.norm(vectors, axis=1)
    normal = vectors.sum(axis=0) / np.linalg.norm(vectors.sum(axis=0))
    centre = np.average(mesh.centroids_mm()[cap], axis=0, weights=areas)
    return Opening(
        id=number,
        name=name,
        role=role,
        centre_mm=tuple(centre.tolist()),
        normal=tuple(normal.tolist()),
        area_mm2=float(areas.sum()),
        radius_mm=float(np.sqrt(areas.sum() / np.pi)),
    )


def vessel(radius_mm, height_mm, axis, centre_mm, segments) -> tuple[Mesh, tuple[Opening, Opening]]:
    """Round vessel of varying radius; the cap at the lowest height is opening 1, the inlet, the other 2, the outlet."""
    radius = np.concatenate(([0], radius_mm, [0]))
    height = np.concatenate((height_mm[:1], height_mm, height_mm[-1:]))
    tags = [1] + [0] * (len(radius_mm) - 1) + [2]
    mesh = revolve(radius, height, tags, axis, centre_mm, segments)
    return mesh, (opening_of(mesh, 1, "inlet", "inlet"), opening_of(mesh, 2, "outlet", "outlet"))


def capped_cylinder(
    axis, radius_mm, length_mm, centre_mm=(0.0, 0.0, 0.0), segments=64, rings=None
) -> tuple[Mesh, tuple[Opening, Opening]]:
    """Straight pipe; flow goes along `axis` from opening 1 (inlet) to opening 2 (outlet).

    Vertices lie on the cylinder, so that the polygon's area is smaller by ``1 - sin(2 pi/n)/(2 pi/n)``. `rings` bands
    of triangles stand along the wall; by default as many as make them about as long as wide.
    """
    rings = rings or max(1, round(length_mm * segments / (2 * np.pi * radius_mm)))
    height = np.linspace(-length_mm / 2, length_mm / 2, rings + 1)
    return vessel(np.full(rings + 1, radius_mm), height, axis, centre_mm, segments)


def stenosis(
    axis, radius_mm, length_mm, throat_mm, centre_mm=(0.0, 0.0, 0.0), segments=64
) -> tuple[Mesh, tuple[Opening, Opening]]:
    """Pipe that narrows as a cosine to the radius `throat_mm` over its middle third."""
    rings = max(30, round(length_mm * segments / (2 * np.pi * radius_mm)))
    height = np.linspace(-length_mm / 2, length_mm / 2, rings + 1)
    inside = np.clip(6 * height / length_mm, -1, 1)
    radius = radius_mm - (radius_mm - throat_mm) * (1 + np.cos(np.pi * inside)) / 2
    return vessel(radius, height, axis, centre_mm, segments)


def sphere(radius_mm, centre_mm=(0.0, 0.0, 0.0), segments=64, axis=(0.0, 0.0, 1.0)) -> Mesh:
    """Sphere without openings; vertices lie on it."""
    polar = np.pi * np.arange(segments // 2 + 1) / (segments // 2)
    radius = radius_mm * np.sin(polar)
    radius[[0, -1]] = 0
    return revolve(radius, -radius_mm * np.cos(polar), [0] * (len(polar) - 1), axis, centre_mm, segments)


def torus(ring_mm, tube_mm, centre_mm=(0.0, 0.0, 0.0), segments=64, axis=(0.0, 0.0, 1.0)) -> Mesh:
    """Torus without openings: a tube of radius `tube_mm` around a circle of radius `ring_mm`."""
    angle = 2 * np.pi * np.arange(segments) / segments
    return revolve(
        ring_mm + tube_mm * np.cos(angle), tube_mm * np.sin(angle), [0] * segments, axis, centre_mm, segments
    )


def joined(*meshes: Mesh) -> Mesh:
    """Several closed surfaces as one."""
    starts = np.cumsum([0] + [len(mesh.points_mm) for mesh in meshes[:-1]])
    return Mesh(
        np.concatenate([mesh.points_mm for mesh in meshes]),
        np.concatenate([mesh.triangles + start for mesh, start in zip(meshes, starts, strict=True)]),
        np.concatenate([mesh.opening for mesh in meshes]),
    )
