# SPDX-License-Identifier: Apache-2.0
"""`segment.method: auto`: one threshold where it is right, levels near each place where these are better."""

import json

import numpy as np
import pytest

from pipeline.case.settings.images import FilterSettings, SegmentSettings
from pipeline.segmentation.chosen_method import misplaced, reservations, settles
from pipeline.segmentation.limits import MOVED, WRONG
from pipeline.stages.filter import filter_volume
from pipeline.stages.plausibility import of_lumen
from pipeline.stages.segment import Segmentation, segment
from tests.support.strange_images import Strange, scene


def drawn(seed: int, rest: float) -> Strange:
    """A bent vessel whose contrast falls along it to a part."""
    made = scene(np.random.default_rng([66, seed]), forked=False, radius=(2, 4), wide=2.5)
    made.fill(1 - (1 - rest) * made.along())
    return made.finished(0.7 * made.spacing_mm[0], (made.blood - made.tissue) / 20)


def found(image: Strange, method: str = "auto", **given: float) -> Segmentation:
    settings = SegmentSettings(seeds_voxel=(image.seed,), method=method, **given)
    return segment(filter_volume(image.image, FilterSettings()), settings, image.image, "CT")


def failed(segmentation: Segmentation) -> set[str]:
    return {check["name"] for check in of_lumen(segmentation.record) if not check["passed"]}


@pytest.mark.parametrize("seed", range(2))
def test_where_contrast_falls_the_first_try_is_right(seed):
    image = drawn(seed, rest=0.7)
    at_one, chosen = found(image, "threshold", lower=image.half_way), found(image, lower=image.half_way)
    assert "volume that one threshold misses" in failed(at_one)
    assert chosen.record["method_chosen"].startswith("local, as one threshold")
    assert chosen.record["volume_ml"] / image.volume_ml == pytest.approx(1, abs=WRONG)
    assert not failed(chosen)


def test_an_even_vessel_keeps_its_threshold_and_every_figure_of_it():
    """At the level at which a tube so wide and so blurred has its true volume, nothing is to be moved."""
    image = drawn(3, rest=1.0)
    lower = found(image, "threshold", lower=image.half_way).record["lower_without_blur_bias"]
    at_one, chosen = found(image, "threshold", lower=lower), found(image, lower=lower)
    assert not misplaced(at_one.record)
    assert json.dumps(chosen.record) == json.dumps(at_one.record)
    np.testing.assert_array_equal(chosen.occupancy.voxels, at_one.occupancy.voxels)


def test_a_large_change_is_a_failed_check_until_a_method_is_named():
    """A threshold that leaves out most of the dim half: right by levels near each place, but a person has to look."""
    image = drawn(4, rest=0.45)
    chosen = found(image, lower=image.half_way * 1.12)
    assert chosen.record["moved_by_place"]["share"] > MOVED
    assert failed(chosen) == {"volume that the levels near each place moved"}
    assert not failed(found(image, "local", lower=image.half_way * 1.12))


def record(*warned: str, change: float = 0.0, doubts: tuple[str, ...] = (), layer: bool = False) -> dict:
    """A record that warns of some of its parts."""
    parts = {key: {"share": 0.1, "words": f"{key} is off"} for key in ("bright_rim", "undecided", "other_brightness")}
    edge = {"change": change, "words": "local_edge is off", "beyond": None} | (
        {"layer": {"words": ""}} if layer else {}
    )
    words = [f"{key} is off" for key in warned]
    return parts | {"local_edge": edge, "warnings": [*words, "2% of it is thin"], "doubts": list(doubts)}


def test_levels_near_each_place_are_taken_where_they_settle_doubts_and_bring_none():
    doubtful = record("local_edge", "undecided", change=0.06, doubts=("a bulge",))
    assert reservations(doubtful) == {"local_edge", "undecided", "doubts"}
    assert misplaced(doubtful)
    assert settles(record(), doubtful)
    assert settles(record("undecided"), doubtful)
    assert not settles(record("bright_rim"), doubtful)  # a new doubt
    assert not settles(record("local_edge", change=-0.05), doubtful)  # still misplaced


def test_beside_an_organ_of_medium_brightness_one_threshold_stays():
    edge = {"off_the_edge": {"share": 0.1, "words": "beside an organ"}}
    assert not misplaced(record(change=0.02) | edge | {"warnings": ["beside an organ"]})


@pytest.mark.parametrize(
    ("change", "layer", "tries"), [(0.014, False, False), (-0.016, False, True), (0.016, True, False)]
)
def test_they_are_tried_from_half_of_what_a_volume_may_be_off_unless_a_layer_misleads_them(change, layer, tries):
    assert misplaced(record(change=change, layer=layer)) == tries
