# SPDX-License-Identifier: Apache-2.0
"""A vessel a few of its blurs wide, whose volume hangs on how well the blur is known, fails a check; others do not."""

import pytest

from pipeline.case.settings.images import FilterSettings, SegmentSettings
from pipeline.stages.filter import filter_volume
from pipeline.stages.plausibility import of_lumen
from pipeline.stages.segment import segment
from tests.support import strangers
from tests.support.variants import some

NAME = "volume that the blur leaves open"


def tried(kind: str, seed: int) -> tuple[float, dict, list[str]]:
    """Error of the volume by the levels near each place, the check, and the warnings."""
    drawn = strangers.image(kind, seed)
    settings = SegmentSettings(seeds_voxel=(drawn.seed,), lower=drawn.half_way, method="local")
    record = segment(filter_volume(drawn.image, FilterSettings()), settings, drawn.image).record
    check = next(each for each in of_lumen(record) if each["name"] == NAME)
    return record["volume_ml"] / drawn.volume_ml - 1, check, record["warnings"]


@pytest.mark.parametrize("seed", some([41002, 41011, 41013, 41015, 41019], 41011))
def test_a_vessel_of_a_voxel_and_a_half_fails_it(seed):
    """4 to 31 % too large; of two of them nothing else failed."""
    error, check, warnings = tried("hair", seed)
    assert abs(error) > 0.03
    assert not check["passed"]
    assert check["advice"] in warnings
    assert "finer image" in check["advice"]


@pytest.mark.parametrize(
    ("kind", "seed"), some([("hair", 41017), ("bias", 41001), ("fading", 41002), ("corner", 41001)], ("bias", 41001))
)
def test_a_wider_vessel_does_not(kind, seed):
    """From 2.4 voxels in radius at a blur of half a voxel on."""
    error, check, warnings = tried(kind, seed)
    assert abs(error) < 0.03
    assert check["passed"]
    assert not any("known to about" in each for each in warnings)
