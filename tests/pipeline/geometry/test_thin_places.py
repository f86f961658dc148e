# SPDX-License-Identifier: Apache-2.0
"""Places that an image hardly resolves stay in the surface, or are told as lost; they never let its points run away."""

import logging
import re

import numpy as np
import pytest
from scipy import ndimage
from scipy.spatial import cKDTree

from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.files.mesh import Mesh
from pipeline.files.volume import Volume
from pipeline.geometry.surface.clip import check_closed
from pipeline.geometry.surface.facets import Facets
from pipeline.geometry.surface.isosurface import LevelSet, smooth_field, zero_surface
from pipeline.geometry.surface.remesh import remesh_vessel
from pipeline.geometry.surface.thin import DRAWN_IN, ThinPlaceError, faithful_field, lost_places, thinness
from pipeline.stages.surface import extract_surface, volume_of
from solver.runtime.errors import StageError
from tests.support.shapes import capped_cylinder
from tests.support.thin_vessels import ThinVessel, flap, twigs
from tests.support.tubes import line, tube

LOG = logging.getLogger("thin")
SEEDS = {
    twigs: [100, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(101, 140))],
    flap: [100, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(101, 140))],
}
THREAD = np.interp(np.arange(50), [0, 18, 21, 28, 31, 49], [4, 4, 1.0, 1.0, 4, 4])
"""Radii of a tube that is all but closed in its middle."""


def extract(lumen, **keys):
    return extract_surface(lumen, SurfaceSettings(**keys), LOG)


def require_kept(vessel: ThinVessel) -> None:
    """The surface is closed, has the mask's volume but for what is told, and lies beside all that is thin."""
    surface = extract(vessel.lumen)
    check_closed(surface.mesh)
    quality = surface.quality
    cut_off = sum(end["volume_mm3"] for end in quality["cut_ends"])
    assert surface.mesh.volume_mm3() == pytest.approx(volume_of(vessel.lumen) - cut_off, rel=1e-3)
    assert quality["after"]["needles"] <= 2
    lost = quality.get("lost_to_smoothing", [])
    assert sum(part["volume_mm3"] for part in lost) <= 0.03 * volume_of(vessel.lumen)
    wall = surface.mesh.points_mm[np.unique(surface.mesh.triangles)]
    away = cKDTree(wall).query(vessel.axes[:, :3])[0] - vessel.axes[:, 3]
    known = [*lost, *quality["cut_ends"]]  # beyond the opening of a twig there is no wall, and its volume is told
    places = np.array([part["place_mm"] for part in known]).reshape(-1, 3)
    for place in vessel.axes[away > DRAWN_IN + 0.5, :3]:
        assert np.linalg.norm(places - place, axis=1).min(initial=np.inf) < 8, "a thin part is lost untold"


@pytest.mark.parametrize("seed", SEEDS[twigs])
def test_twigs_of_a_voxel_or_two_stay_or_are_reported(seed):
    require_kept(twigs(seed))


@pytest.mark.parametrize("seed", SEEDS[flap])
def test_a_slit_beside_a_flap_stays(seed):
    require_kept(flap(seed))


def test_a_bulb_behind_a_thread_stays(caplog):
    lumen = tube(line(50, seed=2), THREAD)
    with caplog.at_level(logging.INFO):
        surface = extract(lumen)
    cut_off = sum(end["volume_mm3"] for end in surface.quality["cut_ends"])
    assert len(surface.openings) == 2
    assert surface.mesh.volume_mm3() == pytest.approx(volume_of(lumen) - cut_off, rel=1e-3)
    assert "a thin place of the vessel breaks" in surface.quality["smoothed_less_where_thin"]
    assert "made once more with less smoothing of thin places" in caplog.text
    assert re.search(r"smoothed less where the radius is below 2\.5 mm: in .* of .* mL", caplog.text)


def test_smoothing_that_is_asked_for_is_refused_and_the_next_step_works():
    lumen = tube(line(50, seed=2), THREAD)
    with pytest.raises(StageError, match=r"breaks, and .* would be lost; leave surface.smoothing_mm out, and"):
        extract(lumen, smoothing_mm=1.25)
    assert len(extract(lumen).openings) == 2  # it was left out


def test_a_vessel_without_thin_places_is_smoothed_as_ever():
    quality = extract(tube(line(40, seed=6), 4.0)).quality
    assert not {"smoothed_less_where_thin", "lost_to_smoothing"} & quality.keys()


def test_a_level_on_which_a_part_lacks_is_refused():
    """On the level of the wanted volume the thread is gone; its points would run away by half a voxel a step."""
    lumen = tube(line(50, seed=2), np.interp(np.arange(50), [0, 16, 19, 30, 33, 49], [5, 5, 1.5, 1.5, 5, 5]))
    field = smooth_field(lumen, None)
    mesh = zero_surface(field)
    with pytest.raises(ThinPlaceError, match=r"\d+ of \d+ points of the wall lie on no smooth surface, most around \("):
        LevelSet(field, mesh).enclose(mesh, 0.7 * mesh.volume_mm3())


def test_triangles_that_leave_the_wall_are_refused():
    class Shrinking(Facets):
        def project(self, points, normals, kind):
            return points - 0.1 * normals * (kind == 0)[:, None]

    mesh: Mesh = capped_cylinder((1, 2, 3), 2.0, 12.0, segments=32)[0]
    with pytest.raises(ThinPlaceError, match=r"new triangles enclose .* mm3 instead of .* mm3"):
        remesh_vessel(mesh, Shrinking(mesh, mesh), 4.0, 0.0)


def test_thinness_of_a_thread_on_a_ball():
    mask = np.zeros((40, 40, 60), bool)
    mask[np.linalg.norm(np.indices(mask.shape) - np.array([20, 20, 15])[:, None, None, None], axis=0) < 8] = True
    mask[20, 20, 20:50] = True
    thin = thinness(mask, 2.5)
    assert (thin[20, 20, 26:50] == 1).all()
    assert thin[20, 20, 15] == 0
    assert thin[20, 8, 8] == 0


@pytest.mark.parametrize(("radius", "least"), [(0.8, 0.7), (1.0, 0.8), (1.5, 0.9), (2.0, 0.94), (4.0, 0.98)])
def test_the_faithful_field_keeps_any_tube_whole_and_thickens_none(radius, least):
    lumen = tube(line(40, seed=3), radius)
    mask = ndimage.label(lumen.voxels)[0] == 1
    field = faithful_field(mask)
    surface = zero_surface(Volume(np.where(np.abs(field) < 1e-4, -1e-4, field), (1.0,) * 3, (0.0,) * 3, np.eye(3)))
    assert ndimage.label(field > 0.05)[1] == 1  # also on a level beside zero
    # chords between so few voxels round the corners of the mask off
    assert least < surface.volume_mm3() / np.count_nonzero(mask) < 1.005


def test_what_is_lost_has_a_place_and_a_volume():
    mask = np.zeros((20, 20, 40), bool)
    mask[5:15, 5:15, 5:15] = mask[10, 10, 15:35] = True
    kept = mask.copy()
    kept[:, :, 15:] = False
    ((place, count),) = lost_places(mask, kept)
    assert count == 20
    np.testing.assert_allclose(place, [24.5, 10, 10])
    assert lost_places(mask, mask) == []
    drawn_in = ndimage.binary_erosion(mask[:, :, :15], iterations=2)
    assert lost_places(mask[:, :, :15], drawn_in) == []
