# SPDX-License-Identifier: Apache-2.0
"""What levels near each place leave out of a lumen, though it is as bright and joined to it, is measured."""

import logging
from dataclasses import replace

import numpy as np
import pytest

from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.levels import Levels
from pipeline.segmentation.parted import record_of_parted
from pipeline.segmentation.problem import Lumen, Problem

FOUND = Levels(lumen=300.0, mask=300.0, surroundings=50.0, bright_surroundings=50.0, noise=5.0, spread=5.0)


def of(behind: float, even: bool = True):
    """A tube of 60 voxels, of which the mask holds the first 30; what lies behind has a share of the contrast."""
    z, y, x = np.indices((60, 20, 20))
    tube = np.hypot(x - 9.5, y - 9.5) < 5
    voxels = np.where(tube, np.where(z < 30, 300.0, 50 + behind * 250), 50.0).astype(np.float32)
    image = Volume(voxels, (0.5,) * 3, (0.0, 0.0, 0.0), np.eye(3))
    settings = SegmentSettings(seeds_voxel=[[9, 9, 3]], lower=175)
    problem = Problem(image, (), (), None, settings, 175.0, None, logging.getLogger("test"))
    mask = tube & (z < 30)
    lumen = Lumen(mask, 175.0, "segment.lower", 175.0, None, {}, even=voxels)
    return record_of_parted(problem, lumen if even else replace(lumen, even=None), mask, FOUND)


def test_a_part_as_bright_is_measured():
    found = of(0.9)
    assert found["share"] == pytest.approx(28 / 30, abs=1e-4)  # two layers beside the mask are its rim
    assert found["mm"][2] == pytest.approx(0.5 * (32 + 59) / 2, abs=0.5)


@pytest.mark.parametrize(("behind", "even"), [(0.65, True), (0.4, True), (0.9, False)])
def test_a_dim_neighbour_and_a_mask_of_one_threshold_leave_nothing_out(behind, even):
    assert of(behind, even) is None
