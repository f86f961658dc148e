# SPDX-License-Identifier: Apache-2.0
"""A lumen that a window cuts off fails a check; one whose noise alone reaches the brightest value does not."""

import numpy as np
import pytest

from pipeline.case.settings.images import FilterSettings, SegmentSettings
from pipeline.stages.filter import filter_volume
from pipeline.stages.plausibility import of_lumen
from pipeline.stages.segment import segment
from tests.support import strangers
from tests.support.strange_images import scene

NAME = "middle of the vessel at the image's brightest value"


@pytest.mark.parametrize(("top", "cut_off"), [(0.6, True), (0.85, True), (1.3, False), (np.inf, False)])
def test_a_lumen_that_a_window_cuts_off_fails_a_check(top, cut_off):
    """Contrast of 20 times the noise, above a part of which all is written as the same value."""
    made = scene(np.random.default_rng([91, 4]), ct=False, forked=False)
    contrast = made.blood - made.tissue
    drawn = made.finished(0.7 * made.spacing_mm[0], contrast / 20)
    image = drawn.image.with_voxels(np.minimum(drawn.image.voxels, np.float32(made.tissue + top * contrast)))
    found = segment(filter_volume(image, FilterSettings()), SegmentSettings(seeds_voxel=(drawn.seed,)), image)
    check = next(each for each in of_lumen(found.record) if each["name"] == NAME)
    assert check["passed"] is not cut_off
    assert ("Export the image again" in f"{check['advice']}") is cut_off


def test_a_vessel_of_one_brightness_fails_the_check_that_names_no_limit_above_it():
    """Its middle varies in the last digit alone, of which a histogram ended in a traceback; and a window leaves
    nothing that is brighter than blood, so that a limit above it changed nothing.
    """
    drawn = strangers.image("windowed", 82002)
    settings = SegmentSettings(seeds_voxel=(drawn.seed,), lower=198.43)
    record = segment(filter_volume(drawn.image, FilterSettings()), settings, drawn.image).record
    said = {check["name"]: check["advice"] for check in of_lumen(record) if not check["passed"]}
    assert NAME in said
    assert "segment.upper" not in said["vessel with something bright in its wall"]
