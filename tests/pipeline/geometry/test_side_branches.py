# SPDX-License-Identifier: Apache-2.0
"""Short and thin side branches are closed flush or taken out; the vessel that they leave stays as it was."""

import logging

import numpy as np
import pytest

from pipeline.case.settings.geometry import OpeningSettings, SideBranches, SurfaceSettings
from pipeline.files.mesh import Mesh
from pipeline.files.surface_file import SurfaceFile
from pipeline.files.volume import Volume
from pipeline.geometry.closed_surface import Surface
from pipeline.geometry.given_surface import GivenSurface
from pipeline.geometry.surface.clip import check_closed
from pipeline.geometry.surface.isosurface import smooth_field, zero_surface
from pipeline.stages.import_surface import import_surface
from pipeline.stages.surface import extract_surface
from solver.runtime.errors import StageError
from tests.support.shapes import capped_cylinder
from tests.support.tubes import SAC_MM, fork, grid_around, near_curve
from tests.support.variants import some

LOG = logging.getLogger("test")
RADIUS_MM = 4.0
MAIN = np.linspace(-30, 30, 50)[:, None] * np.array([1.0, 0, 0])


def branch(length_mm: float, tilt: float) -> np.ndarray:
    """A straight line out of the middle of the vessel, tilted along it, in the direction of y."""
    return np.linspace(0, RADIUS_MM + length_mm, 20)[:, None] * np.array([np.sin(tilt), np.cos(tilt), 0])


def vessel(*branches: tuple[np.ndarray, float]) -> Volume:
    """Mask of a straight vessel along x with side branches: points and radius of each."""
    grid = grid_around(np.concatenate([MAIN, [[0, 20, 0], [0, -20, 0]]]), 8, 1.0, seed=1)
    lumen = np.any([near_curve(grid, MAIN, RADIUS_MM), *(near_curve(grid, *each) for each in branches)], axis=0)
    return grid.with_voxels(lumen.astype(np.uint8))


def extract(lumen: Volume, action: str = "remove", **limits) -> Surface:
    keys = {key: limits.pop(key) for key in ("openings",) if key in limits}
    return extract_surface(lumen, SurfaceSettings(side_branches=SideBranches(action=action, **limits), **keys), LOG)


def bulge_mm(mesh: Mesh) -> float:
    """How far the wall in the middle of the vessel lies outside its true radius at most."""
    middle = mesh.points_mm[np.abs(mesh.points_mm[:, 0]) < 15]
    return float(np.hypot(middle[:, 1], middle[:, 2]).max()) - RADIUS_MM


@pytest.fixture(scope="module")
def alone() -> Surface:
    return extract_surface(vessel(), SurfaceSettings(), LOG)


@pytest.mark.parametrize(("radius", "tilt"), some([(1.6, 0.0), (2.0, 0.5), (2.5, 0.9)], (2.5, 0.9)))
@pytest.mark.parametrize("action", ["close", "remove"])
def test_a_side_branch_goes_and_the_vessel_stays(alone, action, radius, tilt):
    """Voxels are 1 mm. The wall of the vessel alone is 0.18 mm off at most; a plane cut leaves the widened mouth."""
    surface = extract(vessel((branch(12, tilt), radius)), action, shorter_than_radii=6)
    check_closed(surface.mesh)
    assert len(surface.openings) == 2
    assert surface.mesh.volume_mm3() == pytest.approx(alone.mesh.volume_mm3(), rel=0.01)
    assert bulge_mm(surface.mesh) < (1.0 if action == "close" else 0.5)
    ends = surface.mesh.points_mm[np.abs(surface.mesh.points_mm[:, 0]) > 15]
    assert len(ends) > 100
    (record,) = surface.quality["side_branches"]
    assert record["action"] == action
    assert record["radius_mm"] == pytest.approx(radius, abs=0.25)
    assert record["length_mm"] == pytest.approx(12 + radius - RADIUS_MM * (1 / np.cos(tilt) - 1), abs=2.5)
    assert "shorter_than_radii = 6" in record["why"]


def test_only_branches_below_the_limits_go_and_the_reason_is_logged(caplog):
    lumen = vessel((branch(12, 0.0), 1.6), (branch(14, 0.0) * [1, -1, 1] + np.array([8, 0, 0]), 2.6))
    with caplog.at_level(logging.INFO):
        surface = extract(lumen, thinner_than_mm=2.0)
    assert len(surface.openings) == 3
    assert len(surface.quality["side_branches"]) == 1
    assert any("removed, thinner than surface.side_branches.thinner_than_mm = 2" in text for text in caplog.messages)


def test_a_named_end_stays(caplog):
    named = (OpeningSettings(name="side", role="outlet", near_mm=(0.0, 16.0, 0.0)),)
    with caplog.at_level(logging.INFO):
        surface = extract(vessel((branch(12, 0.0), 2.6)), shorter_than_radii=6, openings=named)
    assert len(surface.openings) == 3
    assert any("stays, surface.openings names it side" in text for text in caplog.messages)


def test_main_vessels_stay_however_short_the_limit(caplog):
    """The vessel ends 1.5 mm behind the branch: that stump is shorter than the branch, but the vessel's course."""
    with caplog.at_level(logging.INFO):
        surface = extract(vessel((branch(12, 0.0) + np.array([18, 0, 0]), 2.0)), shorter_than_radii=100)
    assert sorted(round(opening.radius_mm) for opening in surface.openings) == [4, 4]
    assert len(surface.quality["side_branches"]) == 1


def test_a_sac_is_no_side_branch():
    surface = extract(fork(1, sac=True), shorter_than_radii=3.5)
    dome = surface.mesh.points_mm[(surface.mesh.points_mm - SAC_MM)[:, 2] > 0]
    assert np.linalg.norm(dome - SAC_MM, axis=1).mean() == pytest.approx(6.5, rel=0.02)


def given(mesh: Mesh, action: str, **limits) -> Surface:
    settings = GivenSurface(unit="mm", side_branches=SideBranches(action=action, **limits))
    return import_surface(SurfaceFile(mesh.points_mm, mesh.triangles, None), settings, LOG)


def test_a_side_branch_of_a_given_surface_is_cut_off_flush():
    mesh = zero_surface(smooth_field(vessel((branch(12, 0.3), 2.0)), None))
    surface = given(mesh, "close", shorter_than_radii=6)
    check_closed(surface.mesh)
    assert len(surface.openings) == 2
    assert bulge_mm(surface.mesh) < 1.0
    assert len(surface.quality["side_branches"]) == 1


def test_a_capped_side_branch_of_a_given_surface_goes_with_its_cap():
    whole = extract_surface(vessel((branch(12, 0.3), 2.0)), SurfaceSettings(), LOG).mesh
    surface = given(whole, "close", shorter_than_radii=6)
    assert surface.quality["openings_by"] == "flat caps"
    assert [round(opening.radius_mm) for opening in surface.openings] == [4, 4]
    assert [opening.id for opening in surface.openings] == [1, 2]


def test_a_given_surface_has_nothing_to_remove_a_branch_from():
    mesh, _ = capped_cylinder((0, 0, 1), 3.0, 30.0)
    with pytest.raises(StageError, match=r"action = remove: a given surface has no lumen.*give close"):
        given(mesh, "remove", shorter_than_radii=6)
