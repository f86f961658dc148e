# SPDX-License-Identifier: Apache-2.0
"""A sac that ends a branch is never an opening that nobody is told of, and an end that a plane cuts stays one."""

import logging

import numpy as np
import pytest

from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.files.volume import Volume
from pipeline.haemodynamics.shape_checks import of_shape
from pipeline.stages.surface import extract_surface
from tests.pipeline.geometry.test_flat_faces import lumen_of
from tests.support.drawn_sacs import NOISE, drawn, on_stalk
from tests.support.tubes import line, tube

LOG = logging.getLogger("test")
SACS = "openings that may be sacs"


def extract(lumen: Volume, **keys):
    surface = extract_surface(lumen, SurfaceSettings(**keys), LOG)
    return surface, next(each for each in of_shape(surface.quality, surface.openings) if each["name"] == SACS)


@pytest.mark.parametrize("seed", [702, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (706, 710))])
def test_a_sac_on_a_stalk_fails_a_check_and_the_flat_end_beside_it_stays_open(seed):
    """The end stands out by less than 2.5 radii: it was closed, and the sac was an outlet, with no failed check."""
    vessel = on_stalk(drawn(seed, list(NOISE)[seed % 3]), seed)
    lumen, truth = lumen_of(vessel)
    surface, check = extract(lumen)
    assert len(surface.openings) == 3
    assert not check["passed"]
    (doubt,) = surface.quality["round_ends"]
    closed, check = extract(lumen, closed_mm=[tuple(doubt["place_mm"])])
    assert check["passed"]
    assert len(closed.openings) == 2
    for end in truth["openings"]:
        away = [np.linalg.norm(np.array(opening.centre_mm) - end["centre_mm"]) for opening in closed.openings]
        assert min(away) < 1.2 * vessel.radius_mm  # half a radius behind the tip, or up to one where the rim is round


def test_a_vessel_that_narrows_or_keeps_its_width_to_a_round_end_is_open_without_a_doubt():
    points = line(36, seed=4)
    for radii in (np.full(50, 4.0), np.interp(np.arange(50), [0, 20], [2.5, 4.0])):
        surface, check = extract(tube(points, radii, seed=4))
        assert len(surface.openings) == 2
        assert check["passed"]


def test_a_vessel_that_ends_in_a_wide_dome_fails_a_check():
    points = line(50, seed=5)
    surface, check = extract(tube(points, np.interp(np.arange(50), [0, 6, 12], [4.8, 4.8, 4.0]), seed=5))
    assert len(surface.openings) == 2
    assert not check["passed"]
    assert "surface.closed_mm" in check["advice"]
