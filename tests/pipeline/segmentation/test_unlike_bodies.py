# SPDX-License-Identifier: Apache-2.0
"""A body on a neck is told by a level of its own; a sac, whose blood is that of its parent, is not."""

import logging

import numpy as np
import pytest
from scipy import ndimage

from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.levels import levels
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.seeds import Seed
from pipeline.segmentation.unlike_bodies import unlike_bodies
from pipeline.stages.plausibility import of_lumen
from pipeline.stages.segment import segment
from tests.support.advice import advised, merged

TISSUE, CONTRAST, NOISE = 50.0, 300.0, 12.0
SHAPE, SEED = (48, 40, 60), (14, 20, 24)
TUBE, BODY, GAP = 5.0, 9.0, 0.0
"""Radii, and the gap between both, voxels: blur makes a neck of it."""


def image(level: float, fades_to: float = 1.0) -> tuple[Volume, np.ndarray]:
    """A tube along z and a body beside it of a level over the tube's contrast, and the tube alone.

    The tube's contrast falls along it to a share.
    """
    z, y, x = np.indices(SHAPE)
    tube = np.hypot(x - SEED[0], y - SEED[1]) < TUBE
    body = np.linalg.norm([x - SEED[0] - TUBE - BODY - GAP, y - SEED[1], z - SEED[2]], axis=0) < BODY
    along = 1 - (1 - fades_to) * z / SHAPE[0]
    share = np.where(tube, along, np.where(body, level, 0.0))
    blurred = ndimage.gaussian_filter(share, 0.8, mode="nearest")
    noise = np.random.default_rng(5).normal(0, NOISE, SHAPE)
    return volume_of(TISSUE + CONTRAST * blurred + noise), tube


def volume_of(voxels: np.ndarray) -> Volume:
    return Volume(voxels.astype(np.float32), (0.5,) * 3, (0.0, 0.0, 0.0), np.eye(3))


def necks(voxels: np.ndarray, *seeds: tuple[int, int, int]) -> list:
    """Of what is brighter than half way."""
    lower = TISSUE + CONTRAST / 2
    found = tuple(Seed(f"seeds_voxel[{n}]", (0.0, 0.0, 0.0), seed) for n, seed in enumerate(seeds))
    volume = volume_of(voxels)
    problem = Problem(volume, found, (), None, SegmentSettings(), lower, -np.inf, logging.getLogger())
    label, _ = ndimage.label(voxels > lower)
    mask = ndimage.binary_fill_holes(label == label[seeds[0][::-1]])
    return unlike_bodies(problem, mask, levels(volume.voxels, mask, seeds, lower), 0.8)


@pytest.mark.parametrize("level", [0.88, 1.1, 1.16, 1.3])
def test_a_body_of_another_level_behind_a_neck_is_found(level):
    """Its level differs by three to four times the noise of a voxel, so that no class of single voxels shows it."""
    (seam,) = necks(image(level)[0].voxels, SEED)
    assert seam.unlike == pytest.approx(abs(level - 1), abs=0.03)
    assert np.linalg.norm(seam.points.mean(axis=0) - [SEED[2], SEED[1], SEED[0] + TUBE]) < 2


@pytest.mark.parametrize("level", [0.99, 1.0, 1.02])
def test_a_sac_with_the_blood_of_its_parent_is_none(level):
    assert necks(image(level)[0].voxels, SEED) == []


def test_seeds_in_both_mean_both():
    assert necks(image(1.16)[0].voxels, SEED, (int(SEED[0] + TUBE + BODY + GAP), SEED[1], SEED[2])) == []


def test_a_seed_beyond_the_mask_counts_for_the_nearest_of_it():
    """The tube, and not what lies as far from the other end."""
    voxels = image(1.16)[0].voxels
    (one,), (other,) = necks(voxels, SEED), necks(voxels, SEED, (0, SEED[1], SEED[2]))
    assert one.unlike == pytest.approx(other.unlike, abs=0.03)


def test_contrast_that_falls_along_a_vessel_with_a_sac_is_none():
    assert necks(image(0.75, fades_to=0.5)[0].voxels, SEED) == []


def test_a_step_without_a_neck_is_none():
    """The border of two slabs of a time of flight: a tube that is brighter by 12 % from a slice on."""
    voxels, tube = image(1.0)[0].voxels, image(1.0)[1]
    voxels = np.where(tube, voxels, TISSUE + np.random.default_rng(6).normal(0, NOISE, SHAPE))
    voxels[SHAPE[0] // 2 :] += 0.12 * CONTRAST * tube[SHAPE[0] // 2 :]
    assert necks(voxels, (SEED[0], SEED[1], 8)) == []


def test_the_advice_for_such_a_body_gives_the_vessel_alone():
    """Discs are tried at a threshold a step lower, too, so that the guard of leaks takes them."""
    drawn, tube = image(1.16)
    lower = TISSUE + CONTRAST / 2
    case = {"segment": {"seeds_voxel": [list(SEED)], "lower": lower}}
    found = segment(drawn, SegmentSettings(**case["segment"]), drawn, "CT")
    assert found.lumen.voxels.sum() > 1.8 * tube.sum()
    check = next(each for each in of_lumen(found.record) if each["name"] == "volume behind where two lumens touch")
    assert not check["passed"]
    assert "their brightness differs by 1" in check["advice"]
    (setting, *_) = [each.settings for each in advised(check["advice"], case) if each.settings]
    after = segment(drawn, SegmentSettings(**merged(case, setting)["segment"]), drawn, "CT")
    assert after.lumen.voxels.sum() == pytest.approx(tube.sum(), rel=0.05)  # a disc takes a layer of the wall
    assert after.record["touching_lumens"] is None


def beyond_a_stenosis() -> tuple[Volume, np.ndarray]:
    """A tube along z with a throat, and two thirds of its contrast beyond; and its mask."""
    z, y, x = np.indices(SHAPE)
    throat = 1.5 + (TUBE - 1.5) * (1 - np.exp(-(((z - 26) / 3) ** 2)))
    tube = np.hypot(x - SEED[0], y - SEED[1]) < throat
    share = np.where(tube, np.where(z > 26, 0.67, 1.0), 0.0)
    blurred = ndimage.gaussian_filter(share, 0.8, mode="nearest")
    return volume_of(TISSUE + CONTRAST * blurred + np.random.default_rng(5).normal(0, NOISE, SHAPE)), tube


def test_dim_blood_beyond_a_stenosis_is_in_line_and_what_touches_from_the_side_is_not():
    (in_line,) = necks(beyond_a_stenosis()[0].voxels, (SEED[0], SEED[1], 8))
    (beside,) = necks(image(1.16)[0].voxels, SEED)
    assert in_line.in_line
    assert not beside.in_line


def test_the_first_advice_for_a_vessel_beyond_a_stenosis_keeps_it():
    """Discs, which came first, left half of the vessel with no failed check."""
    volume, tube = beyond_a_stenosis()
    case = {"segment": {"seeds_voxel": [[SEED[0], SEED[1], 8]], "lower": TISSUE + CONTRAST / 3}}
    for _ in range(2):
        found = segment(volume, SegmentSettings(**case["segment"]), volume, "CT")
        failed = [check for check in of_lumen(found.record) if not check["passed"]]
        assert found.lumen.voxels.sum() == pytest.approx(tube.sum(), rel=0.1)
        if failed:
            said = next(check["advice"] for check in failed)
            case = merged(case, next(each.settings for each in advised(said, case) if each.settings))
    assert len(case["segment"]["seeds_mm"]) == 2
    assert not failed
