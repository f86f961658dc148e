# SPDX-License-Identifier: Apache-2.0
"""Distances to a surface are those of a search over all of its triangles."""

import numpy as np
import pytest

from pipeline.files.mesh import Mesh
from pipeline.geometry.surface.distance import Surface
from tests.support.shapes import capped_cylinder


def dense(corners, steps=60):
    """Points all over a triangle."""
    a, b, c = corners
    s, t = np.meshgrid(np.linspace(0, 1, steps), np.linspace(0, 1, steps))
    s, t = s[s + t <= 1 + 1e-12], t[s + t <= 1 + 1e-12]
    return a + s[:, None] * (b - a) + t[:, None] * (c - a)


@pytest.mark.parametrize("count", [1, 4, 5, 40])
def test_distance_to_loose_triangles_is_that_to_points_all_over_them(count):
    random = np.random.default_rng(count)
    corners = random.normal(size=(count, 3, 3))
    mesh = Mesh(corners.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3), np.zeros(count, np.int8))
    points = random.normal(scale=2, size=(50, 3))
    distance, foot = Surface(mesh).nearest(points)
    everywhere = np.concatenate([dense(triangle) for triangle in corners])
    tried = np.linalg.norm(points[:, None] - everywhere, axis=2).min(axis=1)
    # Points of a sampling are at most 0.6 of its step from any place: sides of up to about 5 in 59 steps.
    assert (distance <= tried + 1e-12).all()
    np.testing.assert_allclose(distance, tried, atol=0.05)
    np.testing.assert_allclose(np.linalg.norm(points - foot, axis=1), distance, atol=1e-7)


def test_triangles_without_area_and_without_length_count_as_segments_and_points():
    points = np.array([[0.0, 0, 0], [2, 0, 0], [1, 0, 0], [5, 5, 5]])
    mesh = Mesh(points, np.array([[0, 1, 2], [3, 3, 3]]), np.zeros(2, np.int8))
    distance, foot = Surface(mesh).nearest(np.array([[1.5, 1.0, 0.0], [-3.0, 0, 4], [5, 5, 7.0]]))
    np.testing.assert_allclose(distance, [1, 5, 2], rtol=1e-12)
    np.testing.assert_allclose(foot, [[1.5, 0, 0], [0, 0, 0], [5, 5, 5]], atol=1e-12)


def test_wall_and_caps_are_distinguished():
    mesh, _ = capped_cylinder((0, 0, 1), 2.0, 10.0, segments=32)
    point = np.array([[0.0, 0, 4.0]])
    flat = 2 * np.cos(np.pi / 32)  # the sides of the polygon
    assert Surface(mesh).distance_mm(point)[0] == pytest.approx(flat)
    assert Surface(mesh, (1, 2)).distance_mm(point)[0] == pytest.approx(1.0)
    assert Surface(mesh, (1,)).distance_mm(point)[0] == pytest.approx(9.0)


def test_a_distance_that_matters_only_above_a_bound_is_exact_there():
    mesh, _ = capped_cylinder((1, 2, 3), 2.0, 10.0, segments=32)
    points = np.random.default_rng(3).normal(scale=3, size=(300, 3))
    exact = Surface(mesh).distance_mm(points)
    bounded = Surface(mesh).distance_mm(points, np.full(len(points), 1.0))
    above = exact >= 1
    assert 50 < above.sum() < 250
    np.testing.assert_array_equal(bounded[above], exact[above])
    assert (bounded[~above] < 1).all()
