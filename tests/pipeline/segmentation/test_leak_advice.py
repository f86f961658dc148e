# SPDX-License-Identifier: Apache-2.0
"""What a leak is refused with leads to a lumen, followed to the letter; where nothing does, what was tried is named."""

import re

import numpy as np
import pytest
from scipy import ndimage

from pipeline.case.settings.images import FilterSettings, SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.leak import LeakError
from pipeline.stages.filter import filter_volume
from pipeline.stages.plausibility import of_lumen
from pipeline.stages.segment import segment
from tests.pipeline.segmentation.test_dark_sheet import HALF, dissected, image_of
from tests.support.advice import advised
from tests.support.strange_images import Scene, scene
from tests.support.variants import some

NAME = "vessel that goes on beyond the region, of the mask"


def beside_an_organ(number: int, at: float) -> tuple[Scene, SegmentSettings]:
    """A vessel 1.5 to 6 mm in radius, and beside it, at a part `at` of its way, an organ of 70 % of its contrast.

    The organ, a ball of 2.2 to 2.8 radii, is 0.8 radii away; what lies between, a radius wide, has 44 to 48 %. The seed
    lies at an end of the vessel.
    """
    rng = np.random.default_rng([number, 30])
    made = scene(rng, ct=False, forked=False, radius=(1.5, 6), wide=6.5)
    point, along, radius = made.middle(at)
    size, side, level = rng.uniform(2.2, 2.8) * radius, made.across(along), rng.uniform(0.44, 0.48)
    organ = made.part(lambda points: np.linalg.norm(points - point - (1.8 * radius + size) * side, axis=1) - size)
    between = made.part(lambda points: np.linalg.norm(points - point - 1.4 * radius * side, axis=1) - radius)
    contrast = made.blood - made.tissue
    made.beside(between, made.tissue + level * contrast)
    made.put(organ * (1 - made.lumen), made.tissue + 0.7 * contrast)
    lower = (made.blood + made.tissue) / 2 if number % 2 else None
    return made, SegmentSettings(method="local", seeds_voxel=(made.seed_at(0.05),), lower=lower)


@pytest.mark.parametrize("number", some(range(6), 2))  # without a threshold; the test below has one that is given
def test_a_leak_is_refused_with_a_region_that_passes(number):
    made, settings = beside_an_organ(number, 0.8)
    drawn = made.finished(0.7 * made.spacing_mm[0], (made.blood - made.tissue) / 20)
    with pytest.raises(LeakError, match="tried, passes: a smaller region") as refused:
        segment(filter_volume(drawn.image, FilterSettings()), settings, drawn.image)
    case = {"input": {"volume": "image.nrrd"}, "solve": {"inlets": {"*": {"flow_ml_s": 1.0}}}}
    way = next(each.settings for each in advised(str(refused.value), case) if each.settings)
    region, settings = FilterSettings.model_validate(way["filter"]), settings.model_copy(update=way["segment"])
    found = segment(filter_volume(drawn.image, region), settings, drawn.image)
    reported = [check["name"] for check in of_lumen(found.record) if not check["passed"]]
    for end in (0, -1):  # it ends where the image does
        assert found.lumen.voxels[end].any()
    assert reported or found.record["volume_ml"] == pytest.approx(drawn.volume_ml, rel=0.05)  # by the threshold


@pytest.mark.parametrize("number", some((1, 3, 5), 1))
def test_a_leak_into_an_organ_names_no_seed_in_it(number):
    """Of 0.7 times the contrast: with a seed there the volume is 2.2 to 3.7 times the vessel's, and no check fails."""
    made, settings = beside_an_organ(number, 0.8)
    settings = settings.model_copy(update={"method": "auto"})
    drawn = made.finished(0.7 * made.spacing_mm[0], (made.blood - made.tissue) / 20)
    with pytest.raises(LeakError, match="if what joins is a branch of the vessel, give a seed in it") as refused:
        segment(filter_volume(drawn.image, FilterSettings()), settings, drawn.image)
    assert "seeds_mm" not in str(refused.value)


def test_where_no_region_passes_the_refusal_says_which_were_tried():
    made, settings = beside_an_organ(1, 0.15)
    drawn = made.finished(0.7 * made.spacing_mm[0], (made.blood - made.tissue) / 20)
    with pytest.raises(LeakError) as refused:
        segment(filter_volume(drawn.image, FilterSettings()), settings, drawn.image)
    assert re.search(
        r"no smaller region that was tried \(.*within [\d, ]+ mm of the seeds\) passes", str(refused.value)
    )


def straight(ends_at: float = np.inf) -> tuple[Volume, tuple[int, int, int]]:
    """A vessel of 4 voxels in radius along x, which may end in the image, and an organ beside it; a place in it."""
    z, y, x = np.indices((24, 40, 90))
    vessel = (np.hypot(z - 12, y - 14) < 4) & (x < ends_at)
    levels = np.where(vessel, 300.0, np.where(y > 24, 180.0, 40.0))
    voxels = np.random.default_rng(7).normal(ndimage.gaussian_filter(levels, 0.7), 10).astype(np.float32)
    return Volume(voxels, (0.5, 0.5, 0.5), (10.0, -20.0, 30.0), np.eye(3)), (20, 14, 12)


@pytest.mark.parametrize(
    ("ends_at", "high", "beyond", "share"),
    some(
        [
            (np.inf, 50, "tell", 35 / 50),  # what is cut off, as far as is looked: ten radii of 3.5 voxels
            (np.inf, 50, "accept", 0),  # the user has ended it there
            (np.inf, 90, "tell", 0),  # the image ends there
            (46, 50, "tell", 0),  # the vessel does
        ],
        (np.inf, 50, "tell", 35 / 50),
        (46, 50, "tell", 0),
    ),
)
def test_what_a_region_cuts_off_of_a_vessel_fails_a_check_where_it_is_asked_for(ends_at, high, beyond, share):
    image, seed = straight(ends_at)
    region = FilterSettings(region_voxels={"low": (0, 0, 0), "high": (high, 40, 24)})
    settings = SegmentSettings(seeds_voxel=(seed,), lower=170, beyond_region=beyond)
    found = segment(filter_volume(image, region), settings, image)
    failed = {check["name"]: check for check in of_lumen(found.record) if not check["passed"]}
    if not share:
        assert NAME not in failed
    else:
        assert failed[NAME]["value"] == pytest.approx(share, rel=0.1)  # blur of the wall
        assert "mL" in failed[NAME]["advice"]


def flapped(shift: float) -> tuple[Volume, tuple[int, int, int]]:
    """Half of an aorta with a flap that brightness falls to half way in, and a seed in its true lumen."""
    return image_of(dissected(1.6, shift=shift)[0][:HALF]), (HALF - 5, HALF, HALF // 2)


def test_no_seed_is_named_that_would_make_another_lumen_the_vessel():
    """What leaks is the false lumen: from a seed in it both are one, and a check of the flap fails."""
    image, seed = flapped(1.0)
    with pytest.raises(LeakError, match="leaks") as refused:
        segment(image, SegmentSettings(seeds_voxel=(seed,), method="local"), image)
    assert "tried, passes: a smaller region" in str(refused.value)
    assert "seeds_mm" not in str(refused.value)


def test_of_one_seed_levels_that_leak_with_no_way_out_are_not_advised():
    image, seed = flapped(-3.0)
    with pytest.raises(LeakError, match=r"no smaller region that was tried .* passes") as refused:
        segment(image, SegmentSettings(seeds_voxel=(seed,), method="local"), image)
    assert "seeds_mm" not in str(refused.value)
    found = segment(image, SegmentSettings(seeds_voxel=(seed,)), image)
    failed = [check["advice"] for check in of_lumen(found.record) if not check["passed"]]
    assert any("are refused; correct lumen.nrrd" in advice for advice in failed)
    assert not any("segment.method: local" in advice for advice in failed)


def test_a_leak_of_one_seed_that_a_region_holds_is_still_advised():
    """The levels near each place find the wall in the region that their refusal names."""
    image, seed = flapped(1.0)
    failed = of_lumen(segment(image, SegmentSettings(seeds_voxel=(seed,)), image).record)
    assert any("segment.method: local" in check["advice"] for check in failed if not check["passed"])
