# SPDX-License-Identifier: Apache-2.0
"""A wall that one threshold puts wrong is a failed check, and the method that it names puts it right."""

import re

import numpy as np
import pytest
from scipy import ndimage

from pipeline.case.settings.images import FilterSettings, SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.following import spread_at_a_place
from pipeline.segmentation.limits import WRONG
from pipeline.segmentation.local_edge import LOCAL
from pipeline.stages.filter import filter_volume
from pipeline.stages.plausibility import of_lumen
from pipeline.stages.segment import Segmentation, segment
from solver.runtime.errors import StageError
from tests.support.advice import advised, merged
from tests.support.strange_images import Strange, scene
from tests.support.variants import some

NAME = "volume that one threshold misses"


def drawn(seed: int, rest: float) -> Strange:
    """A bent vessel whose contrast falls along it to a part."""
    rng = np.random.default_rng([35, seed])
    made = scene(rng, forked=False, radius=(2, 4), wide=2.5)
    made.fill(1 - (1 - rest) * made.along())
    return made.finished(0.7 * made.spacing_mm[0], (made.blood - made.tissue) / 20)


def found(image: Strange, method: str, lower: float | None) -> Segmentation:
    settings = SegmentSettings(seeds_voxel=(image.seed,), lower=lower, method=method)
    return segment(filter_volume(image.image, FilterSettings()), settings, image.image, "CT")


def error(image: Strange, segmentation: Segmentation) -> float:
    return segmentation.record["volume_ml"] / image.volume_ml - 1


@pytest.mark.parametrize("seed", some(range(2), 1))
def test_a_threshold_above_the_edge_of_fading_contrast_fails_a_check_whose_advice_is_right(seed):
    """Contrast that falls to 60 %, and a threshold half way at its bright end: by the blur the vessel is too thin.

    The volume that the check foretells is that of the vessel within 5 %, and so is that of the method that it names.
    """
    image = drawn(seed, rest=0.6)
    by_threshold = found(image, "threshold", image.half_way)
    off = error(image, by_threshold)
    edge = by_threshold.record["local_edge"]
    assert off < -0.06
    assert (1 + off) * (1 + edge["change"]) == pytest.approx(1, abs=WRONG)
    check = next(each for each in of_lumen(by_threshold.record) if each["name"] == NAME)
    assert not check["passed"]
    assert f"segment.method: {LOCAL}" in check["advice"]
    corrected = found(image, LOCAL, image.half_way)
    assert error(image, corrected) == pytest.approx(0, abs=WRONG)
    assert next(each for each in of_lumen(corrected.record) if each["name"] == NAME)["passed"]


def test_an_even_vessel_at_its_own_threshold_is_not_doubted():
    image = drawn(5, rest=1.0)
    assert all(each["passed"] for each in of_lumen(found(image, "threshold", None).record))


def test_the_spread_at_a_place_is_that_of_the_noise():
    """A cylinder whose level falls by a half has the spread of its noise at a place, four times that as a whole."""
    z, y, x = np.indices((60, 24, 24))
    mask = np.hypot(y - 11.5, x - 11.5) < 8
    rng = np.random.default_rng(36)
    voxels = np.where(mask, 300 - 2.5 * z, 40.0) + rng.normal(0, 10, mask.shape)
    assert np.std(voxels[mask]) > 40
    assert spread_at_a_place(voxels, mask) == pytest.approx(10, rel=0.2)  # the average takes in some of the noise


def test_calcium_at_the_wall_fails_a_check_with_its_place():
    """A ball of 1100 HU half in the wall, of a fortieth of the vessel's volume; without it nothing is said."""
    image = drawn(7, rest=1.0)
    voxels = image.image.voxels.copy()
    z, y, x = np.indices(voxels.shape)
    spacing = image.image.spacing_mm
    radius = float(np.sqrt(image.volume_ml * 1000 / (np.pi * voxels.shape[0] * spacing[2])))
    place = np.array([image.seed[0] + radius / spacing[0], image.seed[1], image.seed[2]])
    away = np.linalg.norm((np.stack([x, y, z], axis=-1) - place) * spacing, axis=-1)
    size = np.cbrt(image.volume_ml * 1000 / 40 / (4 / 3 * np.pi) * 2)
    voxels[away < size] = 1100
    calcified = image.image.with_voxels(voxels)
    settings = SegmentSettings(seeds_voxel=(image.seed,), lower=image.half_way, method="threshold")
    name = "calcium or metal at the wall, of the mask"
    for volume, passes in ((image.image, True), (calcified, False)):
        record = segment(filter_volume(volume, FilterSettings()), settings, volume, "CT").record
        check = next(each for each in of_lumen(record) if each["name"] == name)
        assert check["passed"] == passes
    reported = np.array([float(x) for x in re.search(r"most at \(([^)]*)\) mm", check["advice"])[1].split(",")])
    assert np.linalg.norm(reported - image.image.to_mm(place)) < 1.5 * size + spacing[2]
    assert "segment.upper: " in check["advice"]


@pytest.mark.parametrize("method", some([LOCAL, "threshold"], "threshold"))
def test_the_upper_limit_for_calcium_lies_above_the_blood_of_the_bright_end(method):
    """Contrast that falls to a half, a plaque of 2.5 times the contrast in the middle, the seed at the dim end.

    A limit above the blood at the seed alone took 6 % from the bright end. The plaque's rim in the lumen may go.
    """
    z, y, x = np.indices((80, 36, 36))
    vessel = np.hypot(x - 17.5, y - 17.5) < 6
    share = np.where(vessel, 1 - z / 160, 0)
    share[np.linalg.norm([x - 24, y - 17.5, z - 40], axis=0) < 3] = 2.5
    blurred = ndimage.gaussian_filter(50 + 300 * share, 0.8, mode="nearest")
    voxels = np.random.default_rng(3).normal(blurred, 6).astype(np.float32)
    volume = Volume(voxels, (0.5,) * 3, (0.0, 0.0, 0.0), np.eye(3))
    case = {"segment": {"seeds_voxel": [[17, 17, 72]], "method": method}}
    record = segment(volume, SegmentSettings(**case["segment"]), volume).record
    check = next(each for each in of_lumen(record) if each["name"] == "calcium or metal at the wall, of the mask")
    assert not check["passed"]
    (setting, *_) = [each.settings for each in advised(check["advice"], case) if each.settings]
    followed = segment(volume, SegmentSettings(**merged(case, setting)["segment"]), volume)
    assert followed.record["voxels"] == pytest.approx(vessel.sum(), rel=0.03)


def test_a_seed_beyond_the_edge_by_local_levels_is_refused():
    """A seed in the blur of the wall: by one low threshold it is in the vessel, half way at its place it is not."""
    image = drawn(0, 1.0)
    voxels = image.image.voxels
    row = voxels[image.seed[2], image.seed[1]]
    low, high = float(np.median(voxels)), float(row[image.seed[0]])
    outside = next(n for n in range(image.seed[0], len(row)) if row[n] < low + 0.35 * (high - low))
    settings = SegmentSettings(seeds_voxel=((outside, *image.seed[1:]),), lower=low + 0.2 * (high - low), method=LOCAL)
    with pytest.raises(StageError, match="beyond the vessel's edge"):
        segment(filter_volume(image.image, FilterSettings(smoothing="none")), settings, image.image, "CT")
