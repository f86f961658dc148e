# SPDX-License-Identifier: Apache-2.0
"""Given masks that do not hold the lumen as it is are refused with a setting by which they do; others are not."""

import logging
from pathlib import Path

import numpy as np
import pytest

from pipeline.files.volume import Volume
from pipeline.segmentation.mask_fill import between_slices, hollow
from pipeline.stages.import_mask import GivenMask, MaskSettings, import_mask, read_mask
from pipeline.stages.plausibility import of_lumen
from solver.runtime.errors import StageError
from tests.support import strangers
from tests.support.advice import advised
from tests.support.variants import some


def brought_in(path: Path, **keys):
    return import_mask(read_mask(path, None), MaskSettings(**keys), logging.getLogger("test"))


KINDS = {"mask-every-other": "slices", "mask-gap": "slices", "mask-wall": "hollow", "mask-inverted": "outside"}


@pytest.mark.parametrize("seed", some(range(9000, 9003), 9000))
@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_is_refused_with_the_setting_that_gives_its_volume(kind, seed, tmp_path):
    """Within the 3 % that count as right."""
    case, truth = strangers.given(kind, seed, tmp_path)
    path = Path(case["input"]["mask"])
    with pytest.raises(StageError, match=rf"set input\.mask_fill: {KINDS[kind]}") as refused:
        brought_in(path)
    way = next(each.settings for each in advised(str(refused.value), case) if each.settings)
    found = brought_in(path, fill=way["input"]["mask_fill"])
    assert found.record["volume_ml"] == pytest.approx(truth["true_ml"], rel=0.03)


@pytest.mark.parametrize("fill", ["slices", "hollow", "outside"])
def test_a_setting_that_does_not_fit_is_refused_with_how_to_leave_it_out(fill, tmp_path):
    case, _ = strangers.given("mask-label", 9000, tmp_path)
    with pytest.raises(StageError, match=r"input\.mask_fill: null"):
        brought_in(Path(case["input"]["mask"]), fill=fill)


def test_a_loop_of_vessels_is_no_wall():
    """A ring of 2 voxels in radius, 9 voxels across its middle: a disc in it is open to both sides."""
    z, y, x = np.indices((9, 30, 30))
    assert hollow(np.hypot(np.hypot(x - 15, y - 15) - 9, z - 4) < 2.2) is None


def test_bodies_side_by_side_are_not_joined_over_empty_slices():
    mask = np.zeros((20, 20, 20), bool)
    mask[2:8, 2:8, 2:8] = mask[11:17, 11:17, 2:8] = True
    filled, count = between_slices(mask, (1.0, 1.0, 1.0))
    assert count == 0
    np.testing.assert_array_equal(filled, mask)


def test_branches_that_part_between_two_contours_are_followed():
    """Two tubes of 5 voxels in radius that run apart by half a voxel a slice, drawn on every fourth one."""
    z, y, x = np.indices((33, 24, 80))
    apart = 8 + 0.5 * z
    whole = (np.hypot(x - 40 - apart, y - 12) < 5) | (np.hypot(x - 40 + apart, y - 12) < 5)
    drawn = whole & (z % 4 == 0)
    filled, count = between_slices(drawn, (1.0, 1.0, 1.0))
    assert count == 24
    assert np.count_nonzero(filled & whole) > 0.93 * np.count_nonzero(whole)  # but for voxels at the rim
    assert filled.sum() == pytest.approx(whole.sum(), rel=0.02)


def test_the_number_of_filled_slices_is_recorded(tmp_path):
    z, y, x = np.indices((24, 20, 20))
    mask = (np.hypot(x - 9, y - 9) < 5) & (z % 3 == 0)
    volume = Volume(mask, (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3))
    found = import_mask(GivenMask(volume, record={}), MaskSettings(fill="slices"), logging.getLogger("test"))
    assert found.record["slices_filled"] == 14


@pytest.mark.parametrize(("count", "checked"), [(1, False), (3, True)])
def test_islands_are_left_out_where_the_user_says_so_and_many_fail_a_check(count, checked):
    """Of 1.6 % of the vessel each."""
    z, y, x = np.indices((40, 30, 60))
    mask = np.hypot(x - 9, y - 9) < 5
    for k in range(count):
        mask |= (abs(x - 30 - 8 * k) < 2) & (abs(y - 15) < 3) & (abs(z - 20) < 2)
    volume = Volume(mask, (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3))
    given, log = GivenMask(volume, record={}), logging.getLogger("test")
    with pytest.raises(StageError, match=r"of all, set input\.mask_fill: largest"):
        import_mask(given, MaskSettings(), log)
    record = import_mask(given, MaskSettings(fill="largest"), log).record
    (check,) = of_lumen(record)
    assert check["passed"] is not checked
    assert check["value"] == pytest.approx(0.016 * count / (1 + 0.016 * count), rel=0.15)


def test_a_part_that_has_come_off_is_not_left_out_by_a_setting():
    z, y, x = np.indices((40, 30, 60))
    mask = (np.hypot(x - 9, y - 9) < 5) | ((np.hypot(x - 30, y - 9) < 4) & (z < 20))
    volume = Volume(mask, (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3))
    for fill in (None, "largest"):
        with pytest.raises(StageError, match=r"at most 1% may lie apart from the largest\. Join them"):
            import_mask(GivenMask(volume, record={}), MaskSettings(fill=fill), logging.getLogger("test"))
