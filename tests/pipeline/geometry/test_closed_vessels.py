# SPDX-License-Identifier: Apache-2.0
"""Closed surfaces of vessels drawn at random: flat caps cost no volume, round ends as much as is told and checked.

The draws (`tests/support/closed_vessels.py`) were made after the limits of `pipeline/geometry/end_faces.py`.
"""

import logging
import re

import numpy as np
import pytest

from pipeline.files.mesh import Mesh
from pipeline.files.surface_file import SurfaceFile
from pipeline.geometry.closed_surface import Surface
from pipeline.geometry.given_surface import GivenSurface
from pipeline.geometry.surface.clip import check_closed
from pipeline.geometry.surface.short_edges import with_short_edges
from pipeline.geometry.surface.volumes import MOST_LOST, share_lost
from pipeline.haemodynamics.shape_checks import of_shape
from pipeline.stages.import_surface import import_surface
from tests.support.closed_vessels import BULGE, FLAT, ROUND, closed_vessel, decimated
from tests.support.swept import forked
from tests.support.variants import some

LOG = logging.getLogger("test")
CUT_OFF, LEFT_CLOSED = "volume cut off beyond the ends", "ends that the given surface closes"


def brought_in(mesh: Mesh, **keys) -> Surface:
    return import_surface(SurfaceFile(mesh.points_mm, mesh.triangles, None), GivenSurface(unit="mm", **keys), LOG)


def checks(surface: Surface) -> dict[str, dict]:
    return {each["name"]: each for each in of_shape(surface.quality, surface.openings)}


def require_stated(surface: Surface, given_mm3: float) -> float:
    """What was lost is what is told; the part of the given volume."""
    lost_mm3 = given_mm3 - surface.mesh.volume_mm3()
    assert surface.quality["given_volume_mm3"] == pytest.approx(given_mm3, rel=1e-9)
    stated_mm3 = sum(end["volume_mm3"] for end in surface.quality["cut_ends"])
    assert lost_mm3 == pytest.approx(stated_mm3, abs=1e-6 * given_mm3)
    found = checks(surface)[CUT_OFF]
    assert found["value"] == share_lost(surface.quality)
    assert found["passed"] == (share_lost(surface.quality) <= MOST_LOST)
    return lost_mm3 / given_mm3


def require_flat(seed: int) -> None:
    vessel = closed_vessel(seed, FLAT + BULGE)
    surface = brought_in(vessel.mesh)
    assert surface.quality["openings_by"] == "flat caps"
    assert len(surface.openings) == 2
    require_stated(surface, vessel.mesh.volume_mm3())
    assert surface.mesh.volume_mm3() == pytest.approx(vessel.tube_mm3, rel=0.002)  # a bulge of 2 % counts as flat


def require_round(seed: int) -> None:
    vessel = closed_vessel(seed, ROUND)
    surface = brought_in(vessel.mesh)
    assert len(surface.openings) == 2
    lost = require_stated(surface, vessel.mesh.volume_mm3())
    assert surface.mesh.volume_mm3() > 0.97 * vessel.tube_mm3  # little but the round ends is cut off
    assert surface.mesh.volume_mm3() < vessel.mesh.volume_mm3()
    if lost <= MOST_LOST:
        return
    advice = checks(surface)[CUT_OFF]["advice"]
    radii = float(re.search(r"surface\.cut_radii: (\S+)", advice)[1])
    asked = brought_in(vessel.mesh, cut_radii=radii)
    assert checks(asked)[CUT_OFF]["passed"]
    for end in asked.quality["cut_ends"]:  # no more than was asked for, by far
        assert end["volume_mm3"] <= 1.01 * end["asked_mm3"] + 0.01 * vessel.tube_mm3


def require_decimated(seed: int) -> None:
    """Whatever a coarse surface is, what it loses is told, and little."""
    part = np.random.default_rng(seed).uniform(0.2, 0.6)
    mesh = decimated(closed_vessel(seed, FLAT + BULGE, segments=(24, 40)).mesh, part)
    surface = brought_in(mesh)
    assert require_stated(surface, mesh.volume_mm3()) < 0.02
    assert len(surface.openings) == 2


@pytest.mark.parametrize("seed", range(6000, 6006))
def test_flat_caps_cost_nothing_however_coarse_they_are(seed):
    require_flat(seed)


@pytest.mark.parametrize("seed", some(range(6100, 6104), 6103))
def test_round_ends_are_cut_where_they_begin_and_what_is_cut_off_is_checked(seed):
    require_round(seed)


@pytest.mark.parametrize("seed", range(6200, 6202))
def test_coarse_surfaces_keep_their_volume(seed):
    require_decimated(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10300, 10420))
def test_many_closed_vessels(seed):
    require_flat(seed)
    require_round(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10500, 10540))
def test_many_coarse_vessels(seed):
    require_decimated(seed)


@pytest.mark.parametrize("seed", range(6610, 6614))
def test_split_edges_leave_the_surface_closed_and_as_it_was(seed):
    mesh = closed_vessel(seed, FLAT + BULGE + ROUND).mesh
    fine = with_short_edges(mesh, np.random.default_rng(seed).uniform(0.3, 1))
    check_closed(fine)
    areas = [np.linalg.norm(each.area_vectors_mm2(), axis=1).sum() for each in (mesh, fine)]
    assert fine.volume_mm3() == pytest.approx(mesh.volume_mm3(), rel=1e-9)
    assert areas[1] == pytest.approx(areas[0], rel=1e-9)


def three_ends(seed: int, third: str | None):
    """A fork with two flat ends, and a third that is flat or round."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    radius = rng.uniform(1.5, 3)
    ways = np.array([[0, 0, -12], [7, 0, 10], [-8, 1, 9]]) @ turn * radius / 2
    names = ("a", "b", third)
    tubes = [(name, "inlet" if name == "a" else "outlet", way, radius) for name, way in zip(names, ways, strict=True)]
    mesh, _ = forked(tubes, radius / 6)
    return Mesh(mesh.points_mm, mesh.triangles, np.zeros(len(mesh.triangles), np.int8)), ways


@pytest.mark.parametrize("seed", some([6600, 6601], 6601))
def test_a_round_end_beside_flat_caps_is_a_failed_check_until_it_is_meant(seed):
    mesh, ways = three_ends(seed, None)
    surface = brought_in(mesh)
    assert len(surface.openings) == 2
    found = checks(surface)[LEFT_CLOSED]
    assert found["value"] == 1
    assert not found["passed"]
    place = [float(x) for x in re.search(r"surface\.closed_mm: \[\[(.*?)\]\]", found["advice"])[1].split(",")]
    assert np.linalg.norm(place - ways[2]) < np.linalg.norm(ways[2]) / 2
    assert checks(brought_in(mesh, closed_mm=[place]))[LEFT_CLOSED]["passed"]


def test_three_flat_caps_leave_no_end_closed():
    mesh, _ = three_ends(6602, "c")
    surface = brought_in(mesh)
    assert len(surface.openings) == 3
    assert checks(surface)[LEFT_CLOSED]["passed"]
    assert surface.mesh.volume_mm3() == pytest.approx(mesh.volume_mm3(), rel=1e-9)


def test_a_bulging_cap_beside_flat_ones_is_an_opening():
    mesh, _ = three_ends(6603, "c")
    surface = brought_in(mesh)
    cap = surface.mesh.opening == 1
    out = np.array(surface.openings[0].normal)
    rows = np.unique(surface.mesh.triangles[cap])
    rim = np.intersect1d(rows, np.unique(surface.mesh.triangles[~cap]))
    away = np.linalg.norm(surface.mesh.points_mm[:, None] - surface.mesh.points_mm[rim], axis=2).min(axis=1)
    points = surface.mesh.points_mm.copy()
    inner = np.setdiff1d(rows, rim)
    points[inner] += 0.15 * away[inner][:, None] * out
    bulged = Mesh(points, surface.mesh.triangles, np.zeros(len(cap), np.int8))
    found = brought_in(bulged)
    assert len(found.openings) == 3
    assert found.mesh.volume_mm3() == pytest.approx(surface.mesh.volume_mm3(), rel=1e-6)
    assert require_stated(found, bulged.volume_mm3()) > 1e-4
