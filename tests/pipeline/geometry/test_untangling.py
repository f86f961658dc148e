# SPDX-License-Identifier: Apache-2.0
"""A surface that noise lets pass through itself at few places comes out simple, and nearly where it was."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.files.mesh import Mesh
from pipeline.geometry.surface.connections import WALL
from pipeline.geometry.surface.intersections import self_intersections
from pipeline.geometry.surface.remesh import vertex_kinds
from pipeline.geometry.surface.untangling import FURTHEST, MOST_PART, untangled
from tests.support.shapes import capped_cylinder, torus

SEEDS = st.integers(0, 2**31)


def edges_of(mesh: Mesh) -> np.ndarray:
    return np.linalg.norm(np.diff(mesh.points_mm[mesh.triangles[:, [0, 1, 2, 0]]], axis=1), axis=2)


def rough(mesh: Mesh, noise: float, seed: int) -> tuple[Mesh, float]:
    """The wall with noise of so many mean edges; and the median edge then, in mm."""
    edges_mm = edges_of(mesh)
    wall, points = vertex_kinds(mesh) == WALL, mesh.points_mm.copy()
    points[wall] += np.random.default_rng(seed).normal(0, noise * edges_mm.mean(), (wall.sum(), 3))
    found = Mesh(points, mesh.triangles, mesh.opening)
    return found, float(np.median(edges_of(found)))


@settings(max_examples=12, deadline=None)
@given(seed=SEEDS, noise=st.floats(0.12, 0.16), axis=st.tuples(*[st.floats(0.2, 1.0)] * 3), closed=st.booleans())
def test_few_triangles_that_pass_through_each_other_are_smoothed(seed, noise, axis, closed):
    """The volume stays within 0.1 %: some hundred vertices of thousands move by a part of an edge."""
    even = torus(20.0, 5.0, axis=axis, segments=48) if closed else capped_cylinder(axis, 3.0, 20.0, segments=48)[0]
    mesh, median_mm = rough(even, 0.6 * noise if closed else noise, seed)
    pairs = self_intersections(mesh.points_mm, mesh.triangles)
    found, left, moved = untangled(mesh)
    if len(np.unique(pairs)) > MOST_PART * len(mesh.triangles):
        assert moved == {}
    if moved:
        assert not len(self_intersections(found.points_mm, found.triangles))
        assert not len(left)
        way_mm = np.linalg.norm(found.points_mm - mesh.points_mm, axis=1)
        assert moved["pairs"] == len(pairs)
        assert 0 < moved["moved_mm"] == way_mm.max() <= FURTHEST * median_mm
        assert not way_mm[mesh.triangles[mesh.opening > 0]].any()
        np.testing.assert_allclose(found.volume_mm3(), mesh.volume_mm3(), rtol=1e-3)
    else:
        assert found is mesh
        np.testing.assert_array_equal(left, pairs)


@settings(max_examples=4, deadline=None)
@given(seed=SEEDS)
def test_a_surface_that_passes_through_itself_all_over_stays(seed):
    mesh, _ = rough(capped_cylinder((1, 2, 3), 3.0, 20.0, segments=48)[0], 0.5, seed)
    found, left, moved = untangled(mesh)
    assert found is mesh
    assert moved == {}
    assert len(left) > 0


@settings(max_examples=4, deadline=None)
@given(seed=SEEDS, through=st.floats(2.05, 2.5))
def test_a_vertex_far_behind_the_opposite_wall_stays(seed, through):
    """Its way back is many edges long: what was meant is not known."""
    mesh, _ = capped_cylinder((1, 2, 3), 3.0, 20.0, segments=48)
    wall = np.flatnonzero(vertex_kinds(mesh) == WALL)
    vertex = int(np.random.default_rng(seed).choice(wall))
    axis = np.array([1, 2, 3]) / np.sqrt(14)
    points = mesh.points_mm.copy()
    points[vertex] -= through * (points[vertex] - points[vertex] @ axis * axis)
    found, left, moved = untangled(Mesh(points, mesh.triangles, mesh.opening))
    assert moved == {}
    assert len(left) > 0
    np.testing.assert_array_equal(found.points_mm, points)
