# SPDX-License-Identifier: Apache-2.0
"""A stent in the wall, or blood that is dark at it, is a failed check; a wall that is only blurred is none."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import ndimage

from pipeline.case.settings.images import FilterSettings, SegmentSettings
from pipeline.segmentation.limits import BRIGHT_RIM
from pipeline.stages.filter import filter_volume
from pipeline.stages.plausibility import of_lumen
from pipeline.stages.segment import segment
from tests.support import strangers
from tests.support.advice import advised
from tests.support.crops import _away
from tests.support.strange_images import Scene, Strange, scene
from tests.support.variants import some

NAME = "vessel with something bright in its wall"
NO_FILTER = FilterSettings(smoothing="none")


def vessel(seed: int) -> Scene:
    """A bent vessel of even contrast, 4 to 7 voxels in radius."""
    return scene(np.random.default_rng([47, seed]), forked=False, radius=(2, 4), wide=2.5)


def taken(made: Scene, blur_voxels: float) -> Strange:
    return made.finished(blur_voxels * made.spacing_mm[0], (made.blood - made.tissue) / 25)


def tried(image: Strange, filtering: FilterSettings | None = None, **given: float) -> tuple[float, dict, dict]:
    """Error of the volume at one threshold, the check, and the record."""
    settings = SegmentSettings(seeds_voxel=(image.seed,), method="threshold", **given)
    filtered = filter_volume(image.image, filtering or FilterSettings())
    record = segment(filtered, settings, image.image, "CT").record
    check = next(each for each in of_lumen(record) if each["name"] == NAME)
    return record["volume_ml"] / image.volume_ml - 1, check, record


@pytest.mark.parametrize("seed", some([802, 804, 853], 804))
def test_a_stent_as_bright_as_blood_fails_the_check_whose_advice_makes_the_error_less_than_half(seed):
    """Rings of metal finer than the blur: hardly a voxel is as bright as calcium."""
    image = strangers.image("stent", seed)
    error, check, record = tried(image)
    assert error > 0.1
    assert record["bright_wall"]["share"] < 0.015
    assert not check["passed"]
    (setting, *_) = [each.settings for each in advised(check["advice"], {}) if each.settings]
    after, still, _ = tried(image, upper=setting["segment"]["upper"])
    assert abs(after) < error / 2
    assert not still["passed"]  # where the wall is, the image does not tell
    assert "input.mask" in still["advice"]


@pytest.mark.parametrize(
    ("blur_voxels", "smoothing"),
    some(product([0.3, 0.8, 1.5], ["curvature", "none"]), (0.3, "none"), (1.5, "curvature")),
)
def test_blur_alone_is_not_doubted(blur_voxels, smoothing):
    _, check, record = tried(taken(vessel(11), blur_voxels), FilterSettings(smoothing=smoothing))
    assert check["passed"]
    assert record["bright_rim"]["share"] < BRIGHT_RIM / 2


def test_a_sharp_kernel_is_not_doubted():
    """It makes the lumen brighter along its wall, and the tissue darker by as much: the profile stays even."""
    image = taken(vessel(12), 0.7)
    voxels = image.image.voxels.astype(float)
    sharp = (voxels + 0.6 * (voxels - ndimage.gaussian_filter(voxels, 1.5))).astype(np.float32)
    _, check, record = tried(replace(image, image=image.image.with_voxels(sharp)), NO_FILTER)
    assert check["passed"]
    assert record["bright_rim"]["share"] < BRIGHT_RIM


@pytest.mark.parametrize(("slow", "passes"), [(0.0, True), (0.45, False)])
def test_brightness_that_falls_towards_the_wall_fails_a_check(slow, passes):
    """To 55 % at the wall, with the square of the distance from the middle: half way is within the lumen then."""
    made = vessel(14)
    depth = np.clip(-_away(made.lines, made.places.reshape(-1, 3)).reshape(made.lumen.shape) / made.radius_mm, 0, 1)
    made.fill(1 - slow * (1 - depth) ** 2)
    error, _, record = tried(taken(made, 0.7))
    check = next(each for each in of_lumen(record) if each["name"] == "vessel that darkens towards its wall")
    assert check["passed"] == passes
    assert passes == (error > -0.05)
    assert passes or "input.mask" in check["advice"]


@pytest.mark.parametrize(("kind", "seed", "lacks"), [("saturated", 99502, True), ("kissing", 98200, False)])
def test_a_thin_saturated_vessel_lacks_brightness_within_its_wall(kind, seed, lacks):
    """At few places of three voxels in radius it is as dark as one place has to be; the vessel as a whole is."""
    image = strangers.image(kind, seed)
    filtered = filter_volume(image.image, FilterSettings())
    record = segment(filtered, SegmentSettings(seeds_voxel=(image.seed,)), image.image).record
    assert (record["volume_ml"] < 0.9 * image.volume_ml) == lacks
    failed = [each["name"] for each in of_lumen(record) if not each["passed"]]
    assert failed == (["brightness that the vessel lacks within its wall"] if lacks else [])


@pytest.mark.parametrize("seed", some([9001, 9004, 9005, 9008], 9005))
def test_edges_that_a_sharp_kernel_makes_overshoot_are_no_stent(seed):
    """It takes beyond the wall what it adds within."""
    image = strangers.image("sharp-kernel", seed)
    error, check, _ = tried(image)
    assert abs(error) < 0.03
    assert check["passed"]


@pytest.mark.parametrize("seed", some([9501, 9504, 9506], 9504))
def test_a_stent_fails_the_check_under_a_sharp_kernel_too(seed):
    error, check, _ = tried(strangers.image("sharp-stent", seed))
    assert error > 0.03
    assert not check["passed"]
