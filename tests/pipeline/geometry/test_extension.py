# SPDX-License-Identifier: Apache-2.0
"""A straight tube in front of an opening: closed, as large as the cap is wide and the tube long."""

import logging

import numpy as np
import pytest

from pipeline.case.settings.geometry import OpeningSettings, SurfaceSettings
from pipeline.files.mesh import Mesh
from pipeline.files.surface_file import SurfaceFile
from pipeline.geometry.given_surface import GivenSurface
from pipeline.geometry.surface.clip import check_closed
from pipeline.geometry.surface.extension import extend, place_of_collision
from pipeline.stages.import_surface import import_surface
from pipeline.stages.surface import extract_surface
from solver.runtime.errors import StageError
from tests.support.shapes import capped_cylinder, stenosis
from tests.support.tubes import arc, line, tube

LOG = logging.getLogger("test")


@pytest.mark.parametrize("length_mm", [0.05, 4.0, 30.0])
def test_volume_grows_by_area_times_length(length_mm):
    mesh, openings = stenosis((1, -2, 3), 3.0, 30.0, 1.5)
    for opening in openings:
        longer = extend(mesh, opening.id, length_mm)
        check_closed(longer)
        assert longer.volume_mm3() - mesh.volume_mm3() == pytest.approx(opening.area_mm2 * length_mm, rel=1e-9)
        cap, before = (m.area_vectors_mm2()[m.opening == opening.id].sum(axis=0) for m in (longer, mesh))
        np.testing.assert_allclose(cap, before, rtol=1e-12)
        assert place_of_collision(mesh, longer) is None
        mesh = longer


def test_triangles_are_as_long_as_the_rims_edges():
    mesh, _ = capped_cylinder((0, 0, 1), 3.0, 20.0, segments=48)
    longer = extend(mesh, 2, 12.0)
    new = longer.triangles[(longer.opening == 0) & (longer.triangles >= len(mesh.points_mm)).any(axis=1)]
    sides = np.linalg.norm(np.diff(longer.points_mm[new][:, [0, 1, 2, 0]], axis=1), axis=2)
    edge = 2 * 3.0 * np.sin(np.pi / 48)
    assert sides.min() > 0.9 * edge
    assert sides.max() < 1.6 * edge  # the diagonals


def test_a_segmented_vessel_is_extended_at_its_openings_which_keep_their_names():
    points = line(40, seed=6)
    lumen = tube(points, 4.0, seed=3)

    def extract(case: float, own: float | None):
        named = (
            OpeningSettings(name="in", role="inlet", near_mm=tuple(points[0])),
            OpeningSettings(name="out", role="outlet", near_mm=tuple(points[-1]), extend_radii=own),
        )
        return extract_surface(lumen, SurfaceSettings(openings=named, extend_radii=case), LOG)

    plain, longer = extract(0.0, None), extract(3.0, 0.5)  # an opening's own length goes before the case's
    check_closed(longer.mesh)
    grown = 0.0
    for before, after in zip(plain.openings, longer.openings, strict=True):
        radii = {"in": 3.0, "out": 0.5}[before.name]
        assert (before.name, before.role) == (after.name, after.role)
        assert after.area_mm2 == before.area_mm2
        moved = np.array(after.centre_mm) - before.centre_mm
        np.testing.assert_allclose(moved, radii * before.radius_mm * np.array(before.normal), atol=1e-9)
        grown += before.area_mm2 * radii * before.radius_mm
    assert longer.mesh.volume_mm3() - plain.mesh.volume_mm3() == pytest.approx(grown, rel=1e-9)


def test_a_given_surface_is_extended_at_rims_and_caps():
    whole, openings = capped_cylinder((1, 2, 3), 3.0, 20.0)
    for keep in (slice(None), whole.opening == 0):
        given = SurfaceFile(whole.points_mm, whole.triangles[keep], None)
        longer = import_surface(given, GivenSurface(unit="mm", extend_radii=2.0), LOG)
        check_closed(longer.mesh)
        radius, area = openings[0].radius_mm, openings[0].area_mm2
        assert longer.mesh.volume_mm3() == pytest.approx(whole.volume_mm3() + 2 * area * 2.0 * radius, rel=1e-9)


def bent() -> Mesh:
    """A tube along most of a circle, whose ends look at each other."""
    lumen = tube(arc(14, 5.4, seed=1), 3.0, seed=1)
    return extract_surface(lumen, SurfaceSettings(), LOG).mesh


def test_an_extension_that_runs_into_the_vessel_is_refused_with_the_place():
    mesh = bent()
    given = SurfaceFile(mesh.points_mm, mesh.triangles, None)
    with pytest.raises(StageError, match=r"runs into the vessel or another extension at .*extend_radii = 12") as caught:
        import_surface(given, GivenSurface(unit="mm", extend_radii=12.0), LOG)
    assert caught.value.picture().startswith(b"\x89PNG")
