# SPDX-License-Identifier: Apache-2.0
"""A cut takes one end off a closed surface and leaves it closed."""

import numpy as np
import pytest

from pipeline.files.mesh import Mesh
from pipeline.geometry.surface.clip import ClipError, check_closed, cut_end
from pipeline.geometry.surface.isosurface import fit, smooth_field, zero_surface
from solver.runtime.errors import StageError
from tests.support.shapes import revolve
from tests.support.tubes import arc, tube


def cylinder(radius=2.0, length=20.0, axis=(1, 2, 3)):
    """A closed cylinder around the origin, all of it wall."""
    heights = np.linspace(-length / 2, length / 2, 41)
    radii = [0, *[radius] * len(heights), 0]
    heights = [heights[0], *heights, heights[-1]]
    mesh = revolve(radii, heights, [0] * (len(radii) - 1), axis, (5.0, -3.0, 2.0), 48)
    return mesh, np.asarray(axis) / np.linalg.norm(axis), np.array([5.0, -3.0, 2.0])


@pytest.mark.parametrize("tilt_deg", [0, 17, 35])
def test_a_cut_leaves_volume_and_cap_as_computed(tilt_deg):
    mesh, axis, centre = cylinder()
    across = np.cross(axis, [0, 0, 1.0])
    across /= np.linalg.norm(across)
    tilt = np.radians(tilt_deg)
    normal = np.cos(tilt) * axis + np.sin(tilt) * across
    cut = cut_end(mesh, centre + 3.3 * axis, normal, 1)
    check_closed(cut)
    section = mesh.volume_mm3() / 20  # of the polygon that the cylinder is
    # Vertices near the plane move along edges onto it: the polygon of 48 corners changes by up to 0.5 %.
    assert cut.volume_mm3() == pytest.approx(section * 13.3, rel=3e-3)
    cap = cut.opening == 1
    assert np.linalg.norm(cut.area_vectors_mm2()[cap], axis=1).sum() == pytest.approx(section / np.cos(tilt), rel=1e-2)
    np.testing.assert_allclose((cut.points_mm[cut.triangles[cap]] - centre - 3.3 * axis) @ normal, 0, atol=1e-12)
    assert (cut.area_vectors_mm2()[cap] @ normal > 0).all()
    beyond = (cut.points_mm - centre - 3.3 * axis) @ normal
    assert beyond.max() < 1e-12


def test_both_ends_can_be_cut():
    mesh, axis, centre = cylinder()
    for number, side in ((1, 1), (2, -1)):
        mesh = cut_end(mesh, centre + side * 6 * axis, side * axis, number)
    check_closed(mesh)
    assert set(np.unique(mesh.opening)) == {0, 1, 2}
    assert mesh.volume_mm3() == pytest.approx(cylinder()[0].volume_mm3() * 12 / 20, rel=1e-3)


def test_only_the_limb_at_the_centre_is_cut():
    points = arc(14, np.pi, seed=1)  # the plane through both limbs of a U
    lumen = tube(points, 4.0, seed=1)
    field = smooth_field(lumen, None)
    mesh, _ = fit(zero_surface(field), field, float(lumen.voxels.sum()))
    normal = points[0] - points[1]
    normal /= np.linalg.norm(normal)
    cut = cut_end(mesh, points[3], normal, 1)
    check_closed(cut)
    height = (cut.points_mm - points[3]) @ normal
    near = np.linalg.norm(cut.points_mm - points[3], axis=1) < 12
    assert height[near].max() < 1e-9
    assert height[~near].max() > 3  # the other limb keeps its end


@pytest.mark.parametrize(
    ("place", "message"),
    [(30.0, "misses the vessel"), (4.0, "meets opening 1"), (2.0, "cut off opening 1")],
)
def test_a_cut_that_misses_or_meets_another_is_refused(place, message):
    mesh, axis, centre = cylinder()
    first = cut_end(mesh, centre + 4 * axis, axis, 1)
    tilted = axis + 0.3 * np.cross(axis, [0, 0, 1.0]) if place == 4.0 else axis
    with pytest.raises(ClipError, match=message):
        cut_end(first, centre + place * axis, tilted / np.linalg.norm(tilted), 2)


def changed(triangles=None, points=None):
    mesh, _, _ = cylinder()
    triangles = mesh.triangles if triangles is None else triangles(mesh)
    points = mesh.points_mm if points is None else points(mesh)
    return Mesh(points, triangles, np.zeros(len(triangles), np.int8))


def twice(mesh):
    return np.concatenate([mesh.triangles, mesh.triangles + len(mesh.points_mm)])


def pinched():
    """Two cylinders that share one point."""
    mesh, _, _ = cylinder()
    other = mesh.triangles + len(mesh.points_mm)
    other[other == len(mesh.points_mm)] = 0
    return changed(
        lambda m: np.concatenate([m.triangles, other]), lambda m: np.concatenate([m.points_mm, m.points_mm + 40])
    )


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda: changed(lambda m: m.triangles[1:]), "3 edges do not join"),
        (lambda: changed(lambda m: np.concatenate([m.triangles[:1, ::-1], m.triangles[1:]])), "edges do not join"),
        (lambda: changed(lambda m: np.concatenate([m.triangles, m.triangles[:1]])), "edges do not join"),
        (lambda: changed(twice, lambda m: np.concatenate([m.points_mm, m.points_mm + 50])), "2 separate pieces"),
        (pinched, "2 separate pieces|touches itself"),
        (lambda: changed(lambda m: m.triangles[:, ::-1]), "is not positive"),
        (
            lambda: changed(points=lambda m: m.points_mm[np.r_[:60, 61, 61 : len(m.points_mm)]]),
            "degenerate triangle",
        ),
    ],
    ids=["hole", "turned", "double", "two", "pinched", "inside out", "degenerate"],
)
def test_what_is_not_closed_is_refused(broken, message):
    with pytest.raises(StageError, match=message):
        check_closed(broken())


def test_a_closed_surface_passes():
    check_closed(cylinder()[0])
