# SPDX-License-Identifier: Apache-2.0
"""Ends of a given surface whose rim is a zigzag or a saddle are made even; the vessel keeps its volume and its axis."""

import logging

import numpy as np
import pytest

from pipeline.files.mesh import Mesh
from pipeline.files.surface_file import SurfaceFile
from pipeline.geometry.given_surface import GivenSurface
from pipeline.stages.import_surface import import_surface
from tests.support.shapes import capped_cylinder
from tests.support.swept import arc, swept

LOG = logging.getLogger("test")


def brought_in(mesh: Mesh):
    return import_surface(SurfaceFile(mesh.points_mm, mesh.triangles, None), GivenSurface(unit="mm"), LOG)


@pytest.mark.parametrize("seed", range(3))
def test_a_rim_where_triangles_were_deleted_is_made_even(seed):
    """A bent tube that ends where triangles with their middle beyond a plane aslant were deleted."""
    rng = np.random.default_rng(seed)
    axis = arc(20.0, 1.6, 40)
    mesh, _ = swept(axis, 3.0, 24)
    middles, keep = mesh.centroids_mm(), mesh.opening == 0
    ends = ((axis[0], axis[0] - axis[1]), (axis[-1], axis[-1] - axis[-2]))
    planes = [(end, out / np.linalg.norm(out) + rng.uniform(-0.2, 0.2, 3)) for end, out in ends]
    for end, out in planes:
        near = np.linalg.norm(middles - end, axis=1) < 9
        keep &= ~(near & ((middles - end) @ out > -2.0 * np.linalg.norm(out)))
    surface = brought_in(Mesh(mesh.points_mm, mesh.triangles[keep], np.zeros(int(keep.sum()), np.int8)))
    assert len(surface.openings) == len(surface.quality["rims_made_even"]) == 2
    for end, out in planes:
        out = out / np.linalg.norm(out)
        nearest = min(surface.openings, key=lambda each, end=end: float(np.linalg.norm(each.centre_mm - end)))
        assert nearest.normal @ out > np.cos(np.radians(8))  # half a ring of triangles over the tube's width is 6
        # the planes lie 2 mm within; a ring of triangles is 0.8 mm long
        assert (end - nearest.centre_mm) @ out == pytest.approx(2.0, abs=0.6)
        assert nearest.radius_mm == pytest.approx(3.0, rel=0.04)  # aslant by up to 16 degrees


def test_a_rim_like_a_saddle_is_made_even_and_the_volume_stays():
    mesh, _ = capped_cylinder((0, 0, 1), 3.0, 30.0, rings=20)
    points, wall = mesh.points_mm.copy(), mesh.opening == 0
    top = points[:, 2] > 14
    points[top, 2] += 0.15 * (points[top, 0] ** 2 - points[top, 1] ** 2)  # as much lies above the plane as below
    surface = brought_in(Mesh(points, mesh.triangles[wall], np.zeros(int(wall.sum()), np.int8)))
    assert len(surface.openings) == 2
    (made,) = surface.quality["rims_made_even"]
    assert 1.35 < made["length_mm"] < 1.65  # from the lowest place of the rim, 1.35 mm below its middle, and a bit
    assert surface.mesh.volume_mm3() == pytest.approx(mesh.volume_mm3(), rel=0.005)
