# SPDX-License-Identifier: Apache-2.0
"""Brightness near the threshold with no wall is a failed check with its place; walls, thrombus and voids are none."""

import numpy as np
import pytest
from scipy import ndimage

from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.limits import UNDECIDED
from pipeline.segmentation.undecided import undecided
from pipeline.stages.plausibility import of_lumen
from pipeline.stages.segment import segment
from tests.pipeline.segmentation.test_dark_sheet import BLOOD, HALF, RADIUS, SHIFT, TISSUE, dissected

NAME = "volume as bright as the threshold, with no wall"


def dissection(level: float) -> tuple[Volume, np.ndarray, np.ndarray]:
    """An image of an aorta whose false lumen has a share of the contrast, and parts of voxels: blood, true lumen."""
    blood, true = dissected(0.5)
    part = true + level * (blood - true)
    noise = np.random.default_rng(5).normal(0, 16, part.shape)
    voxels = ndimage.gaussian_filter(TISSUE + (BLOOD - TISSUE) * part, 0.8) + noise
    return Volume(voxels.astype(np.float32), (1.0,) * 3, (5.0, -5.0, 8.0), np.eye(3)), blood, true


def segmented(level: float) -> tuple[dict, dict, np.ndarray, np.ndarray]:
    """The record of the stage at half way, its check, and the truth."""
    image, blood, true = dissection(level)
    place = [image.to_mm((HALF - 4, HALF, HALF)).tolist()]
    settings = SegmentSettings(seeds_mm=place, lower=(TISSUE + BLOOD) / 2, border_fraction=0.5)
    record = segment(image, settings, image, "CT").record
    return record, next(each for each in of_lumen(record) if each["name"] == NAME), blood, true


def test_a_false_lumen_at_the_threshold_is_a_failed_check_with_its_place():
    """The mask holds some of it by chance; within three voxels of the mask half of it and more is found, and no more
    than there is."""
    record, check, blood, true = segmented(0.5)
    false_ml = (blood.sum() - true.sum()) / 1000
    assert record["voxels"] > 1.1 * true.sum()
    assert 0.5 * false_ml < record["undecided"]["volume_ml"] < 1.05 * false_ml
    assert check["state"] == "reservation"
    assert check["value"] > 3 * UNDECIDED
    assert check["advice"] in record["warnings"]
    x, y, _ = (np.array(record["undecided"]["mm"]) - (5, -5, 8)) - HALF
    assert x > SHIFT - 1  # behind the flap
    assert np.hypot(x, y) < RADIUS


@pytest.mark.parametrize("level", [0.25, 1.0])
def test_a_false_lumen_far_from_the_threshold_is_none(level):
    """As dim as a thrombus it lies beyond the wall, as bright as blood within the mask."""
    record, check, _, _ = segmented(level)
    assert record["undecided"]["share"] < UNDECIDED / 5
    assert check["passed"]


def test_what_lies_beyond_a_wall_as_a_whole_is_none_and_what_the_mask_holds_a_part_of_is():
    """A slab of blood, and beside a third of it a body at the threshold, of which the mask holds every second
    voxel, or none."""
    above = np.full((20, 30, 20), -0.5)
    above[:, :, :8], above[:, :10, 8:14] = 0.5, 0.0
    part = above > 0.25
    assert not undecided(above, part).any()
    part[:, :10, 8:11] = np.random.default_rng(2).random((20, 10, 3)) < 1 / 2
    found = undecided(above, part)
    assert found[:, :8, 10:12].all()
    assert not found[:, :, :7].any()
    assert not found[:, 14:].any()
    assert not found[:, :, 15:].any()


def test_a_mask_that_fills_the_image_has_no_wall():
    assert not undecided(np.ones((6, 6, 6)), np.ones((6, 6, 6), bool)).any()
