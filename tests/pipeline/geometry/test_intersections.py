# SPDX-License-Identifier: Apache-2.0
"""Triangles that pass through each other are found, all of them, and those that touch are not."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.geometry.surface.intersections import self_intersections
from tests.support.shapes import capped_cylinder, joined, sphere, torus


def volume(points) -> Fraction:
    """Six times the volume of a tetrahedron, in exact arithmetic."""
    a, b, c, d = ([Fraction(float(x)) for x in point] for point in points)
    u, v, w = ([x - y for x, y in zip(point, d, strict=True)] for point in (a, b, c))
    return u[0] * (v[1] * w[2] - v[2] * w[1]) + u[1] * (v[2] * w[0] - v[0] * w[2]) + u[2] * (v[0] * w[1] - v[1] * w[0])


def pierces(p, q, triangle) -> bool:
    if volume((*triangle, p)) * volume((*triangle, q)) >= 0:
        return False
    around = [volume((p, q, triangle[k], triangle[(k + 1) % 3])) for k in range(3)]
    return min(around) > 0 or max(around) < 0


def cross(one, other) -> bool:
    """Whether an edge of a triangle goes through the inside of another."""
    return any(pierces(a[k], a[(k + 1) % 3], b) for a, b in ((one, other), (other, one)) for k in range(3))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(2, 14), grid=st.sampled_from([0, 4, 8]))
def test_crossings_are_those_of_exact_arithmetic(seed, count, grid):
    """In general places, and on a coarse grid, where triangles often share corners, touch and lie in one plane; there
    pairs in one plane, which cross no inside, are left out."""
    rng = np.random.default_rng(seed)
    points = rng.integers(0, grid, (3 * count, 3)).astype(float) if grid else rng.random((3 * count, 3)) + 100
    points, renumbered = np.unique(points, axis=0, return_inverse=True)
    triangles = renumbered.reshape(-1, 3)
    triangles = triangles[[len(set(row)) == 3 for row in triangles.tolist()]]
    found = {tuple(pair) for pair in self_intersections(points, triangles).tolist()}
    for a, b in combinations(range(len(triangles)), 2):
        one, other = points[triangles[a]], points[triangles[b]]
        if (
            all(volume((*one, corner)) == 0 for corner in other)
            or volume((*other, one[0])) == volume((*other, one[1])) == 0
        ):
            continue
        assert ((a, b) in found) == cross(one, other)


@pytest.mark.parametrize("mesh", [sphere(5.0), torus(20.0, 5.0), capped_cylinder((1, 2, 3), 3.0, 30.0)[0]])
def test_a_sound_surface_has_none(mesh):
    assert not len(self_intersections(mesh.points_mm, mesh.triangles))


def test_two_spheres_meet_along_their_circle():
    mesh = joined(sphere(5.0), sphere(5.0, (6.0, 0.3, 0.2)))
    pairs = self_intersections(mesh.points_mm, mesh.triangles)
    assert len(pairs) > 100
    places = mesh.points_mm[mesh.triangles[pairs]].mean(axis=(1, 2))
    half = np.array([6.0, 0.3, 0.2]) / 2
    edge = 0.5  # of the triangles
    circle = np.sqrt(25 - half @ half)
    assert np.abs(np.linalg.norm(places - half, axis=1) - circle).max() < edge
    only = self_intersections(mesh.points_mm, mesh.triangles, of=np.arange(len(mesh.triangles)) == pairs[0, 0])
    np.testing.assert_array_equal(only, pairs[(pairs == pairs[0, 0]).any(axis=1)])


FLAT = np.array([[0, 0, 0], [2, 0, 0], [0, 2, 0], [2, 2, 0], [0.5, 0.5, 0], [5, 5, 0], [1, 0.2, 0], [0.2, 1, 0.0]])


@pytest.mark.parametrize(
    ("triangles", "expected"),
    [
        ([[0, 1, 2], [1, 3, 2]], 0),  # neighbours in a plane
        ([[0, 1, 2], [0, 2, 1]], 0),  # the same, which a mesh has not: see repair
        ([[0, 1, 2], [1, 0, 4]], 1),  # folded onto each other
        ([[0, 1, 2], [0, 6, 7]], 1),  # one in the other, with a corner shared
        ([[0, 1, 2], [4, 3, 5]], 1),  # a corner in the other
        ([[0, 1, 2], [3, 5, 1]], 0),  # a corner shared
    ],
)
def test_triangles_in_one_plane_overlap_or_touch(triangles, expected):
    assert len(self_intersections(FLAT, np.array(triangles))) == expected
