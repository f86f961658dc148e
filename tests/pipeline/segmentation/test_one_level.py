# SPDX-License-Identifier: Apache-2.0
"""A threshold that was raised so that it does not leak into what lies beside a vessel fails a check."""

import numpy as np
import pytest

from pipeline.case.settings.images import FilterSettings, SegmentSettings
from pipeline.stages.filter import filter_volume
from pipeline.stages.plausibility import of_lumen
from pipeline.stages.segment import segment
from tests.support import strangers
from tests.support.variants import some

NAME = "volume that the threshold misses by one level"


@pytest.mark.parametrize(
    ("seed", "raised"), some([(8404, True), (9805, True), (9813, False)], (8404, True), (9813, False))
)
def test_a_threshold_raised_beside_an_organ_fails_the_check(seed, raised):
    """The organ has half of the contrast, so that the levels near each place take it for tissue."""
    drawn = strangers.image("between-phases", seed)
    image = drawn.image.with_voxels(np.rint(drawn.image.voxels).astype(np.int16))
    found = segment(filter_volume(image, FilterSettings()), SegmentSettings(seeds_voxel=(drawn.seed,)), image, "CT")
    check = next(each for each in of_lumen(found.record) if each["name"] == NAME)
    assert check["passed"] is not raised
    assert ("segment.cut_planes" in f"{check['advice']}") is raised
    assert (found.record["volume_ml"] / drawn.volume_ml < 0.97) is raised
