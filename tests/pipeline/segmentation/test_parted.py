# SPDX-License-Identifier: Apache-2.0
"""What levels near each place leave out of a lumen, though it is as bright and joined to it, is measured."""

import logging
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import yaml
from scipy import ndimage

from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.levels import Levels
from pipeline.segmentation.parted import record_of_parted
from pipeline.segmentation.problem import Lumen, Problem
from pipeline.segmentation.seed_advice import joining_level, seed_in
from pipeline.segmentation.seeds import Seed
from pipeline.stages.segment import segment
from solver.runtime.errors import StageError
from tests.support.advice import advised
from tests.support.variants import some

FOUND = Levels(lumen=300.0, mask=300.0, surroundings=50.0, bright_surroundings=50.0, noise=5.0, spread=5.0)


def of(behind: float, even: bool = True, shell: bool = False, brightened: float = 1.0, **asked):
    """A tube of 60 voxels, of which the mask holds the first 30; what lies behind has a share of the contrast. Or of
    which it holds all but a shell of a voxel. The levels near each place make what lies behind brighter.
    """
    z, y, x = np.indices((60, 20, 20))
    tube = np.hypot(x - 9.5, y - 9.5) < 5
    voxels = np.where(tube, np.where((z < 30) | shell, 300.0, 50 + behind * 250), 50.0).astype(np.float32)
    image = Volume(voxels, (0.5,) * 3, (0.0, 0.0, 0.0), np.eye(3))
    settings = SegmentSettings(seeds_voxel=[[9, 9, 3]], lower=175, **asked)
    problem = Problem(image, (), (), None, settings, 175.0, None, logging.getLogger("test"))
    mask = tube & (np.hypot(x - 9.5, y - 9.5) < 4.2 if shell else z < 30)
    of_places = np.where(z < 30, voxels, 50 + (voxels - 50) * brightened).astype(np.float32)
    lumen = Lumen(mask, 175.0, "segment.lower", 175.0, None, {}, even=of_places)
    return record_of_parted(problem, lumen if even else replace(lumen, even=None), mask, FOUND)


def test_a_part_as_bright_is_measured():
    found = of(0.9)
    assert found["share"] == pytest.approx(1)
    assert found["mm"][2] > 0.5 * 30
    beyond_its_rim = of(0.9, least_radius_mm=0.5)  # asked to leave out narrow places: that of one threshold alone
    assert beyond_its_rim["share"] == pytest.approx(28 / 30, abs=1e-4)
    assert beyond_its_rim["mm"][2] == pytest.approx(0.5 * (32 + 59) / 2, abs=0.5)


@pytest.mark.parametrize(("behind", "even"), [(0.65, True), (0.4, True), (0.9, False)])
def test_a_dim_neighbour_and_a_mask_of_one_threshold_leave_nothing_out(behind, even):
    assert of(behind, even) is None


def test_a_wall_a_voxel_further_out_is_no_part():
    assert of(0.0, shell=True) is None


def test_a_part_as_bright_as_the_vessel_is_at_its_place_is_measured():
    """Contrast falls along the vessel: one threshold does not reach it, the levels near each place do."""
    assert of(0.45, brightened=2.0)["share"] == pytest.approx(1)


def fistula(wider: float, mixed: float) -> tuple[Volume, float]:
    """An artery of 3 voxels in radius that opens into a vein so many times as wide, where its brightness falls to a
    share; and the volume of both, mL.
    """
    rng = np.random.default_rng(1)
    z, y, x = np.indices((40, 48, 110)).astype(float)
    along = np.clip((x - 50) / 14, 0, 1)
    radius = 3 * (1 + (wider - 1) * along**2 * (3 - 2 * along))
    tube = np.clip(radius - np.hypot(y - 24, z - 20) + 0.5, 0, 1)
    level = 400 * (1 - (1 - mixed) * np.exp(-(((x - 46) / 10) ** 2)))
    voxels = ndimage.gaussian_filter(50 + tube * level, 1.0) + rng.normal(0, 8, tube.shape)
    return Volume(voxels.astype(np.float32), (0.7,) * 3, (0.0, 0.0, 0.0), np.eye(3)), 0.7**3 * tube.sum() / 1000


@pytest.mark.parametrize(("wider", "mixed"), some([(2.5, 0.5), (4.5, 0.7)], (2.5, 0.5)))
def test_a_vein_that_an_artery_opens_into_fails_a_check_and_is_found_from_its_seed(wider, mixed):
    image, whole_ml = fistula(wider, mixed)
    given = {"seeds_voxel": [[10, 24, 20]], "method": "local"}
    first = segment(image, SegmentSettings(**given), image).record
    assert first["volume_ml"] < 0.2 * whole_ml
    assert first["parted"]["words"] in first["warnings"]
    second = segment(image, SegmentSettings(**given | advised_of(first["parted"]["words"])), image).record
    assert second["parted"] is None
    assert second["volume_ml"] == pytest.approx(whole_ml, rel=0.03)


def at(image: Volume, place: tuple[int, int, int]) -> Seed:
    """A seed at a voxel x, y, z."""
    return Seed("seed", tuple(image.to_mm(place).tolist()), place)


def advised_of(said: str) -> dict[str, Any]:
    """The settings of the last way out that words name: where seeds are wrong, it is that which leaves them out."""
    case = {"input": {"volume": "image.nrrd"}, "solve": {"inlets": {"*": {"flow_ml_s": 1.0}}}}
    return [each for each in advised(said, case) if "segment" in each.settings][-1].settings["segment"]


def test_a_junction_too_dim_for_the_seed_alone_is_joined_by_a_threshold_that_was_tried():
    """As it was, the seed that the check gave was refused, and without it the same check failed."""
    image, whole_ml = fistula(2.5, 0.4)
    given = {"seeds_voxel": [[10, 24, 20]], "method": "local"}
    first = segment(image, SegmentSettings(**given), image).record
    both = advised_of(first["parted"]["words"])
    assert "lower" in both
    second = segment(image, SegmentSettings(**given | both), image).record
    assert second["parted"] is None
    assert second["volume_ml"] == pytest.approx(whole_ml, rel=0.03)


def test_seeds_that_lie_apart_are_refused_with_what_joins_them():
    image, whole_ml = fistula(2.5, 0.4)
    given = {"seeds_voxel": [[10, 24, 20], [84, 24, 20]]}
    with pytest.raises(StageError, match=r"no path of voxels.*tried, passes: segment\.lower: ") as refused:
        segment(image, SegmentSettings(**given), image)
    lower = yaml.safe_load(re.search(r"segment\.(lower: [\d.]+)", str(refused.value))[1])
    found = segment(image, SegmentSettings(**given | lower), image).record
    assert found["volume_ml"] == pytest.approx(whole_ml, rel=0.03)


def test_where_levels_near_each_place_are_refused_no_check_advises_them():
    """The vein is so wide that its level is that of the junction, too: one threshold joins both, and fails a check."""
    image, whole_ml = fistula(3.5, 0.4)
    found = segment(image, SegmentSettings(seeds_voxel=[[10, 24, 20], [84, 24, 20]], lower=185.0), image).record
    assert found["volume_ml"] == pytest.approx(whole_ml, rel=0.1)
    said = [each for each in found["warnings"] if each.startswith("half way")]
    assert len(said) == 1
    assert "correct lumen.nrrd" in said[0]
    assert "segment.method" not in said[0]


def test_a_leak_names_the_seed_in_what_joins():
    image, _ = fistula(2.5, 0.3)
    with pytest.raises(StageError, match=r"leaks.*give a seed in it, tried: ") as refused:
        segment(image, SegmentSettings(seeds_voxel=[[10, 24, 20]], method="local"), image)
    named = advised_of(str(refused.value))
    assert segment(image, SegmentSettings(**named), image).record["volume_ml"] > 3


def test_a_seed_beside_a_given_one_is_none():
    """It was named again and again, each time with the same refusal."""
    image, _ = fistula(2.5, 0.4)
    given = SegmentSettings(seeds_voxel=[[10, 24, 20]])
    problem = Problem(image, (at(image, (10, 24, 20)),), (), None, given, 175.0, -np.inf, logging.getLogger("test"))

    def records(_: SegmentSettings) -> dict:
        return {"warnings": [], "doubts": []}

    assert not seed_in(image.to_mm((11, 24, 20)), problem, given, image, records)
    assert "seeds_mm" in seed_in(image.to_mm((13, 24, 20)), problem, given, image, records)


def test_the_level_that_joins_seeds_is_that_of_the_darkest_place_between_them():
    image, _ = fistula(2.5, 0.4)
    seeds = at(image, (10, 24, 20)), at(image, (84, 24, 20))
    problem = Problem(image, seeds, (), None, SegmentSettings(), 175.0, -np.inf, logging.getLogger("test"))
    level = joining_level(problem)
    label, _ = ndimage.label(image.voxels >= level)
    assert label[20, 24, 10] == label[20, 24, 84] > 0
    label, _ = ndimage.label(image.voxels >= level + 0.001 * 400)
    assert label[20, 24, 10] != label[20, 24, 84]
