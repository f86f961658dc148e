# SPDX-License-Identifier: Apache-2.0
"""A vessel whose contrast fades is followed to its end, by the next step that a refusal or a failed check names."""

import logging
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import ndimage

from pipeline.case.settings.images import FilterSettings, SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.following import REACH_VOXELS, SEEN, NearMean, followed, levels_near
from pipeline.segmentation.levels import SHELL_VOXELS, levels
from pipeline.segmentation.local_edge import LOCAL
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.region_growing import bounding_box
from pipeline.stages.filter import filter_volume
from pipeline.stages.plausibility import of_lumen
from pipeline.stages.segment import Segmentation, segment
from solver.runtime.errors import StageError
from tests.support import strangers
from tests.support.advice import advised
from tests.support.strange_images import Scene, Strange, scene
from tests.support.variants import some

DIMLY, FADES = "vessel that goes on more dimly, of the mask", "vessel that fades away, of the mask"


def vessel(seed: int, at: float, rest: float) -> Strange:
    """A bent vessel of 350 HU in 40 whose contrast falls evenly along z to a part; where the seed lies."""
    rng = np.random.default_rng([41, seed])
    made = scene(rng, forked=False, radius=(2, 4), wide=2.5)
    made.tissue, made.blood = 40.0, 350.0
    way = (made.places[..., 2] / np.abs(made.places[..., 2]).max() + 1) / 2
    made.fill(1 - (1 - rest) * way)
    drawn = made.finished(0.7 * made.spacing_mm[0], (made.blood - made.tissue) / 20)
    return replace(drawn, seed=made.seed_at(at))


def by(drawn: Strange, **keys: object) -> Segmentation:
    settings = SegmentSettings(**({"seeds_voxel": (drawn.seed,), "method": "threshold"} | keys))
    return segment(filter_volume(drawn.image, FilterSettings()), settings, drawn.image, "CT")


def error(drawn: Strange, found: Segmentation) -> float:
    return found.record["volume_ml"] / drawn.volume_ml - 1


def next_step(drawn: Strange, **keys: object) -> dict[str, object] | None:
    """Settings of the section that the refusal or the first failed check names; none where nothing is said."""
    try:
        record = by(drawn, **keys).record
    except StageError as refusal:
        said = str(refusal)
    else:
        said = next((f"{each['advice']}" for each in of_lumen(record) if not each["passed"]), "")
    ways = advised(said, {"input": {"volume": "x.nrrd"}, "segment": {}})
    return next((way.settings["segment"] for way in ways if "segment" in way.settings), None)


@pytest.mark.parametrize(("at", "given"), some(product((0.05, 0.5, 0.95), (True, False)), (0.05, False), (0.95, True)))
def test_the_next_step_leads_to_the_volume_of_a_vessel_that_fades_to_40_percent(at, given):
    """Seeds in its bright, middle and dim part; a threshold half way where contrast is best is above the dim seed.

    Within the 3 % that count as right.
    """
    drawn = vessel(1 + given, at, rest=0.4)
    keys = {"lower": round(drawn.half_way, 1)} if given else {}
    step = next_step(drawn, **keys) or {}
    assert step.get("method") == LOCAL or not given  # without one, the threshold that is found may do
    assert error(drawn, by(drawn, **(keys | step))) == pytest.approx(0, abs=0.03)


def test_a_check_says_where_a_vessel_goes_on_more_dimly():
    drawn = vessel(4, 0.1, rest=0.35)
    found = by(drawn, lower=250.0)
    assert error(drawn, found) < -0.3
    check = next(each for each in of_lumen(found.record) if each["name"] == DIMLY)
    assert not check["passed"]
    beyond = found.record["local_edge"]["beyond"]
    assert beyond["ml"] > 0.2 * drawn.volume_ml
    assert "goes on more dimly" in check["advice"]
    place = np.rint(drawn.image.to_index(beyond["mm"])).astype(int)
    z, y, x = place[::-1]
    assert drawn.image.voxels[z - 1 : z + 2, y - 1 : y + 2, x - 1 : x + 2].mean() == pytest.approx(200, abs=60)


def test_a_vessel_that_fades_into_the_noise_ends_there_and_that_is_said():
    """Contrast falls to none: it ends where contrast is a fourth of that of the whole, 3 % of the way off at most."""
    drawn = vessel(5, 0.1, rest=0.0)
    found = by(drawn, method=LOCAL)
    check = next(each for each in of_lumen(found.record) if each["name"] == FADES)
    assert not check["passed"]
    assert f"{SEEN:g} times the noise" in check["advice"]
    slices = np.flatnonzero(found.lumen.voxels.any(axis=(1, 2)))
    assert slices[0] == 0
    assert 0.6 < (slices[-1] + 1) / found.lumen.voxels.shape[0] < 0.95


def test_an_even_vessel_is_neither_followed_nor_said_to_fade():
    drawn = vessel(6, 0.5, rest=1.0)
    found = by(drawn, method=LOCAL)
    assert found.record["voxels_followed"] == 0
    assert all(each["passed"] for each in of_lumen(found.record))
    assert error(drawn, found) == pytest.approx(0, abs=0.03)
    assert by(drawn).record["local_edge"]["beyond"] is None


def test_a_vessel_is_not_followed_into_a_wide_dim_body():
    """It ends in an organ of 60 % of its contrast and three times its radius; a threshold at 70 % parts both."""
    rng = np.random.default_rng(42)
    step, radius = 0.5, 2.5
    z = np.linspace(-60, 2, 40)
    made = Scene(
        rng, (step,) * 3, (50, 50, 80), [(np.stack([0 * z, 0 * z, z], axis=1), np.full(40, radius))], 40, 350, True
    )
    organ = np.linalg.norm(made.places - [0, 0, 9.5], axis=-1) < 3 * radius
    vessel_only = made.lumen > 0.5
    body = organ & ~vessel_only
    made.voxels = np.where(body, 40 + 0.6 * 310, made.voxels)
    drawn = made.finished(0.35, 12.0)
    for method in ("threshold", LOCAL):
        found = by(drawn, lower=257.0, method=method, seeds_voxel=(made.seed_at(0.3),))
        within = found.lumen.voxels[ndimage.binary_erosion(body, iterations=4)]
        assert within.mean() < 0.02


@pytest.mark.parametrize("length", range(30, 38))
def test_a_vessel_is_followed_to_the_border_whatever_is_left_of_its_last_piece(length):
    z, y, x = np.indices((length, 24, 24))
    vessel = np.hypot(y - 12, x - 12) < 4
    voxels = ndimage.gaussian_filter(np.where(vessel, 300.0, 40.0), 0.7).astype(np.float32)
    image = Volume(voxels, (0.5,) * 3, (0.0, 0.0, 0.0), np.eye(3))
    settings = SegmentSettings(seeds_voxel=((12, 12, 4),), lower=170)
    problem = Problem(image, (), (), None, settings, 170.0, -np.inf, logging.getLogger("test"))
    mask = vessel & (z < 12)
    on = followed(problem, mask, levels(voxels, mask, [(12, 12, 4)], 170.0), 170.0, np.full(12, 4.0))
    assert on.mask[-1].sum() == pytest.approx(vessel[-1].sum(), rel=0.1)  # voxels of the rim are at the threshold
    assert on.added == on.mask[12:].sum()


@pytest.mark.parametrize(("gap", "goes_on"), [(1, True), (2, False), (3, False)])
def test_what_fits_but_hangs_on_the_mask_by_what_does_not_is_not_followed(gap, goes_on):
    """A tube as wide as the vessel stands on a streak beside it. Where that lies on the wall all along, the tube
    is a branch; where there is a gap, and the streak touches the wall far away, it is none.
    """
    z, y, x = np.indices((60, 44, 24))
    vessel = np.hypot(y - 8, x - 12) < 4
    wall = int(np.flatnonzero(vessel[0, :, 12]).max())
    between = (abs(x - 12) <= 1) & (y <= wall + REACH_VOXELS)
    streak = between & (z >= 6) & (z < 44) & (y >= wall + gap)
    foot = between & (z >= 6) & (z < 8) & (y > wall)
    tube = (np.hypot(z - 40, x - 12) < 4) & (y > wall + REACH_VOXELS)
    voxels = np.where(vessel | streak | foot | tube, 300.0, 40.0).astype(np.float32)
    image = Volume(voxels, (0.5,) * 3, (0.0, 0.0, 0.0), np.eye(3))
    settings = SegmentSettings(seeds_voxel=((12, 8, 4),), lower=170)
    problem = Problem(image, (), (), None, settings, 170.0, -np.inf, logging.getLogger("test"))
    found = levels(voxels, vessel, [(12, 8, 4)], 170.0)
    on = followed(problem, vessel.copy(), found, 170.0, np.full(60, 4.0))
    assert (on.added > 0.8 * tube.sum()) == goes_on
    assert (on.mask == vessel).all() != goes_on


@pytest.mark.slow
def test_what_fits_but_hangs_on_the_mask_by_what_does_not_ends_in_no_traceback():
    """Streaks of noise between the shoulders, 0.2 to 0.6 of the contrast: what goes on is joined by none of its own."""
    drawn = strangers.image("shoulders", 8002)
    try:
        found = by(drawn, method=LOCAL, dark_sheets="part")
    except StageError as refused:
        assert advised(str(refused), {"input": {"volume": "x.nrrd"}, "segment": {}})
    else:
        assert found.record["volume_ml"] > 0


@pytest.mark.parametrize("seed", range(8))
def test_a_mean_near_a_place_has_the_bits_of_whole_gaussians(seed):
    """Though lines are left out: of weights in a box at random, at the border, too, in either precision."""
    rng = np.random.default_rng([43, seed])
    weight, length = np.zeros(rng.integers(12, 40, 3), rng.choice([np.float32, np.float64])), rng.uniform(0.5, 6)
    box = tuple(slice(*np.sort(rng.choice(size + 1, 2, replace=False))) for size in weight.shape)
    weight[box] = rng.random(weight[box].shape) + 0.1
    values = rng.normal(100, 300, weight.shape).astype(np.float32)
    total, sums = (ndimage.gaussian_filter(each, length, mode="nearest") for each in (weight, values * weight))
    floor, whole = 1e-6 * float(weight.mean()), float((values * weight).sum() / weight.sum())
    wanted = (sums + floor * whole) / (total + floor)
    near = bounding_box(weight > 0, margin=3)
    found, found_near = NearMean(weight, length)(values), NearMean(weight, length, near)(values)
    assert found.dtype == found_near.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(found_near[near], wanted[near])


@pytest.mark.parametrize("seed", range(4))
def test_levels_within_reach_are_those_of_the_whole_box(seed):
    """Of a bent vessel that the image's border cuts, and of one within it."""
    rng = np.random.default_rng([44, seed])
    y, x = 9 + 3 * np.sin(np.arange(40) / 5), np.full(40, rng.uniform(8, 20))
    z, yy, xx = np.indices((40, 30, 30))
    mask = (yy - y[z]) ** 2 + (xx - x[z]) ** 2 < rng.uniform(2, 4) ** 2
    if seed % 2:
        mask[:8] = mask[-8:] = False
    voxels = (40 + 300 * mask + rng.normal(0, 15, mask.shape)).astype(np.float32)
    image, log = Volume(voxels, (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3)), logging.getLogger("test")
    problem = Problem(image, (), (), None, SegmentSettings(), 190.0, -np.inf, log)
    box, reach = bounding_box(mask, margin=25), 6
    asked = (problem, box, mask[box], levels(voxels, mask, [(int(x[20]), int(y[20]), 20)], 190.0), 190.0, 3.0)
    whole, near = levels_near(*asked), levels_near(*asked, reach)
    there = whole.away <= max(reach, SHELL_VOXELS[1] + 1)
    assert not there.all()
    assert (near.away[~there] > reach).all()
    for name in ("blood", "tissue", "depth", "away"):
        np.testing.assert_array_equal(getattr(near, name)[there], getattr(whole, name)[there])
