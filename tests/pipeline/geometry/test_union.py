# SPDX-License-Identifier: Apache-2.0
"""What pieces of a surface enclose together becomes one surface of that volume, cut off flat where they end flat."""

import logging

import numpy as np
import pytest

from pipeline.files.mesh import Mesh
from pipeline.files.surface_file import SurfaceFile
from pipeline.geometry.given_surface import GivenSurface
from pipeline.stages.import_surface import import_surface
from solver.runtime.errors import StageError
from tests.support.shapes import capped_cylinder, joined, sphere

LOG = logging.getLogger("test")


def taken(mesh: Mesh):
    """As the stage takes it with the setting that its refusal names."""
    given = SurfaceFile(mesh.points_mm, mesh.triangles, None)
    with pytest.raises(StageError, match=r"set input\.surface_union: true"):
        import_surface(given, GivenSurface(unit="mm"), LOG)
    return import_surface(given, GivenSurface(unit="mm", union=True), LOG)


def rod(length_mm: float, middle_mm: float, radius_mm: float = 2.0) -> Mesh:
    mesh, _ = capped_cylinder((0, 0, 1), radius_mm, length_mm, (0, 0, middle_mm), 24)
    return mesh


@pytest.mark.parametrize("second", [rod(12, 6.0), rod(12, 6.01), rod(14, 5.0, 1.999)], ids=["face", "gap", "overlap"])
def test_two_rods_are_one_of_their_length(second):
    """End to end in the same points, 0.01 mm apart, or one 2 mm within the other; 24 mm in all."""
    surface = taken(joined(rod(12, -6.0), second))
    whole = rod(24, 0).volume_mm3()
    assert surface.quality["volume_mm3"] == pytest.approx(whole, rel=0.005)  # of 8 nodes on the radius
    assert sorted(round(each.centre_mm[2], 1) for each in surface.openings) == pytest.approx([-12, 12], abs=0.1)
    assert [each.area_mm2 for each in surface.openings] == pytest.approx([whole / 24] * 2, rel=0.01)


def test_a_branch_that_begins_in_a_tube_is_joined_to_it():
    """Of the branch, 11 mm from the axis on and 1.6 mm in radius, all counts that lies beyond the tube of 2 mm."""
    slope = np.hypot(1, 0.2)
    branch, _ = capped_cylinder((1, 0, 0.2), 1.6, 11, (5.5 / slope, 0, 1.1 / slope), 24)
    surface = taken(joined(rod(16, 0), branch))
    assert len(surface.openings) == 3
    y = np.linspace(-1.6, 1.6, 2001)
    within = np.average(np.sqrt(4 - y**2), weights=np.sqrt(1.6**2 - y**2)) * slope / 11  # share of its length
    expected = rod(16, 0).volume_mm3() + branch.volume_mm3() * (1 - within)
    assert surface.quality["volume_mm3"] == pytest.approx(expected, rel=0.005)


def test_a_face_across_a_tube_is_left_out():
    one, other = rod(12, -6), rod(12, 6)
    wall = [each.triangles[each.opening == 0] for each in (one, other)]
    face = one.triangles[one.opening == 2]
    triangles = np.concatenate([wall[0], face, wall[1] + len(one.points_mm)])
    mesh = Mesh(np.concatenate([one.points_mm, other.points_mm]), triangles, np.zeros(len(triangles), np.int8))
    surface = taken(mesh)
    assert len(surface.openings) == 2
    assert surface.quality["volume_mm3"] == pytest.approx(rod(24, 0).volume_mm3(), rel=0.005)


def test_what_is_not_certain_is_refused():
    """A ball within may be a clot or a device; one beside is no part of the vessel."""
    settings = GivenSurface(unit="mm", union=True)
    for place, message in (((0, 0, 1), "lies within one of"), ((9, 0, 1), "2 parts that do not touch")):
        mesh = joined(rod(24, 0), sphere(1.2, place, 16))
        with pytest.raises(StageError, match=message):
            import_surface(SurfaceFile(mesh.points_mm, mesh.triangles, None), settings, LOG)
    with pytest.raises(StageError, match="leave one of both out"):
        import_surface(
            SurfaceFile(mesh.points_mm, mesh.triangles, None), settings.model_copy(update={"face_array": "CapID"}), LOG
        )
