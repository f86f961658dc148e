# SPDX-License-Identifier: Apache-2.0
"""Normals, lengths and angles of triangles, compiled."""

import numpy as np
from numba import njit

from pipeline.geometry.surface.connections import (
    Floats,
    Ints,
    Vector,
)
from solver.kernels.compilation import inner_function


@njit(cache=True)
def vertex_normals(points: Floats, corners: Ints) -> Floats:
    """Unit normals at the points, (P, 3): area vectors of the triangles around each, summed."""
    normals = np.zeros_like(points)
    for t in range(len(corners) // 3):
        a, b, c = corners[3 * t], corners[3 * t + 1], corners[3 * t + 2]
        n = cross(points[a], points[b], points[c])
        for v in (a, b, c):
            for i in range(3):
                normals[v, i] += n[i]
    for v in range(len(points)):
        length = np.sqrt(normals[v, 0] ** 2 + normals[v, 1] ** 2 + normals[v, 2] ** 2)
        for i in range(3):
            normals[v, i] /= max(length, 1e-300)
    return normals


@inner_function()
def cross(a: Floats, b: Floats, c: Floats) -> Vector:
    """Twice the area vector of a triangle.

    Parameters
    ----------
    a, b, c : (3,) corners, counterclockwise as seen from where the vector points to.
    """
    ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    vx, vy, vz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
    return uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx


@inner_function()
def dot(a: Vector, b: Vector) -> float:
    """Scalar product of two vectors."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inner_function()
def square_distance(a: Floats, b: Floats) -> float:
    """Square of the distance of two points."""
    return (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2


@inner_function()
def smallest_sine(a: Floats, b: Floats, c: Floats) -> float:
    """Sine of the smallest angle of a triangle, which is opposite its shortest side.

    Parameters
    ----------
    a, b, c : (3,) corners.
    """
    n = cross(a, b, c)
    twice = np.sqrt(dot(n, n))
    ab, bc, ca = square_distance(a, b), square_distance(b, c), square_distance(c, a)
    shortest = min(ab, bc, ca)
    return twice * np.sqrt(shortest / max(ab * bc * ca, 1e-300))
