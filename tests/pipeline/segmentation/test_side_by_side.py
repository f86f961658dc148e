# SPDX-License-Identifier: Apache-2.0
"""Two lumens that touch are a failed check with what parts them; forks, bends, sacs and stenoses are none."""

import logging
from itertools import pairwise

import numpy as np
import pytest
from scipy import ndimage

from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.barrier import BESIDE, barrier, with_its_layers
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.seam_planes import record_of_touches
from pipeline.segmentation.seeds import Seed
from pipeline.segmentation.side_by_side import CROSSING, THIN, Seam, _together, seams
from pipeline.stages.plausibility import of_lumen
from pipeline.stages.segment import segment
from tests.support.advice import advised, merged
from tests.support.left_vessels import VESSELS, vein
from tests.support.variants import some

NAME = "volume behind where two lumens touch"
HALF = 24
"""Half of the edge of a phantom, voxels."""


def tubes(*lines: tuple[list[list[float]], float]) -> np.ndarray:
    """A mask of tubes along broken lines of points x, y, z around the middle, voxels."""
    points = np.moveaxis(np.indices((2 * HALF,) * 3)[::-1], 0, -1) - HALF + 0.37
    away = [
        np.min([_off(points, np.array(a, float), np.array(b, float)) for a, b in pairwise(line)], 0) - r
        for line, r in lines
    ]
    return np.min(away, axis=0) < 0


def _off(points: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    share = np.clip((points - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1)
    return np.linalg.norm(points - a - share[..., None] * (b - a), axis=-1)


def along(x: float, turn: float = 0.0) -> list[list[float]]:
    """A line through (x, 0, 0) along z, turned about x by an angle."""
    y, z = 60 * np.sin(turn), 60 * np.cos(turn)
    return [[x, -y, -z], [x, y, z]]


def problem_of(mask: np.ndarray, *seeds: tuple[int, int, int], spacing_mm: float = 0.5) -> Problem:
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    volume = Volume(mask.astype(np.float32), (spacing_mm,) * 3, (7.0, -3.0, 11.0), turn * np.linalg.det(turn))
    found = tuple(Seed(f"seeds_mm[{n}]", tuple(volume.to_mm(seed).tolist()), seed) for n, seed in enumerate(seeds))
    return Problem(volume, found, (), None, SegmentSettings(), 0.5, -np.inf, logging.getLogger())


@pytest.mark.parametrize("turn", [0.0, 0.25, 0.6, 1.5])
@pytest.mark.parametrize("other", [4.0, 6.5])
def test_what_lies_behind_a_touch_is_measured_and_parted_by_the_advice(turn, other):
    """Behind the disc lie the voxels of the other tube, but for those that the disc itself takes."""
    one, two = (along(-5.0), 5.0), (along(other - 0.6, turn), other)
    mask, alone = tubes(one, two), tubes(two) & ~tubes(one)
    problem = problem_of(mask, (HALF - 5, HALF, HALF))
    record = record_of_touches(mask, problem)
    assert record is not None
    share = alone.sum() / mask.sum()
    assert record["share"] == pytest.approx(share, abs=0.04)
    assert record["volume_ml"] == pytest.approx(record["share"] * mask.sum() * 0.5**3 / 1000, rel=0.01)
    where = problem.filtered.to_index(record["mm"]) - HALF  # in the seam, which is as long as the vessels touch
    assert abs(where[0]) < 1.5
    assert abs(where[1]) < 3 + abs(np.tan(turn)) * HALF
    (setting, *_) = [each.settings for each in advised(record["words"], {}) if each.settings]
    planes = SegmentSettings(**setting["segment"]).cut_planes
    label, _ = ndimage.label(mask & ~barrier(planes, problem.filtered))
    rest = label == label[HALF, HALF, HALF - 5]
    assert (rest & alone).sum() < 0.03 * alone.sum()
    assert (rest & tubes(one)).sum() > 0.9 * tubes(one).sum()


def test_lumens_grown_together_over_the_whole_way_have_a_seam_however_deep_it_is():
    """A tube of 3.5 voxels sunk into one of 6: joined by nine tenths of the narrower and more, over 48 voxels."""
    wide = tubes((along(2.7), 6.0))
    mask = wide | tubes((along(-4.8), 3.5))
    (seam,) = seams(mask)
    assert seam.depth > THIN * seam.radius
    record = record_of_touches(mask, problem_of(mask, (HALF + 3, HALF, HALF)))
    assert record is not None
    assert record["share"] == pytest.approx((mask & ~wide).sum() / mask.sum(), abs=0.03)


@pytest.mark.parametrize("turn", [1.0, 1.4])
def test_vessels_that_cross_and_have_grown_together_have_a_seam(turn):
    """Joined by more than a bend or the neck of a sac may be, but both go straight on."""
    (seam,) = seams(tubes((along(-2.6), 3.5), (along(6.0, turn), 6.0)))
    assert seam.depth > CROSSING * seam.radius
    assert not seam.long


@pytest.mark.parametrize("aspect", [1.3, 1.8])
def test_an_oval_vessel_has_no_seam(aspect):
    """Its core is one, however it turns."""
    z, y, x = np.indices((2 * HALF,) * 3) - HALF + 0.37
    across, other = x * np.cos(z / 20) + y * np.sin(z / 20), y * np.cos(z / 20) - x * np.sin(z / 20)
    assert seams(np.hypot(across / aspect, other) < 6.0) == []


def test_seeds_on_both_sides_mean_both():
    mask = tubes((along(-5.0), 5.0), (along(4.4), 5.0))
    assert record_of_touches(mask, problem_of(mask, (HALF - 5, HALF, HALF))) is not None
    assert record_of_touches(mask, problem_of(mask, (HALF - 5, HALF, HALF), (HALF + 5, HALF, HALF + 8))) is None


def test_a_vessel_that_touches_itself_has_nothing_behind():
    """Two limbs of a loop, joined by an arc far from where they touch."""
    loop = [
        [-4.3, -40, 0],
        [-4.3, 6, 0],
        [-16, 12, 0],
        [-16, 12, 14],
        [16, 12, 14],
        [16, 12, 0],
        [4.3, 6, 0],
        [4.3, -40, 0],
    ]
    mask = tubes((loop, 4.5))
    record = record_of_touches(mask, problem_of(mask, (HALF - 4, HALF - 10, HALF)))
    assert record is not None
    assert record["volume_ml"] == 0
    assert "touches itself" in record["words"]
    check = next(each for each in of_lumen({"doubts": [], "touching_lumens": record}) if each["name"] == NAME)
    assert check["state"] == "reservation"


def test_vessels_that_do_not_touch_are_none():
    bridge = [[-8, 0, 0], [8, 0, 0]]
    assert seams(tubes((along(-8.0), 5.0), (along(8.0), 5.0), (bridge, 4.0))) == []


@pytest.mark.parametrize("half_angle_deg", [8, 15, 30, 60])
@pytest.mark.parametrize("second", [3.2, 4.5])
def test_forks_of_any_angle_have_no_seam(half_angle_deg, second):
    a = np.radians(half_angle_deg)
    arms = [[[0, 0, -8], [side * 80 * np.sin(a), 0, -8 + 80 * np.cos(a)]] for side in (-1, 1)]
    assert seams(tubes(([[0, 0, -60], [0, 0, -8]], 5.5), (arms[0], 4.5), (arms[1], second))) == []


def test_a_bend_and_a_stenosis_have_no_seam():
    bend = [[-7, -40, 0], [-7, 0, 0], [0, 6, 0], [7, 0, 0], [7, -40, 0]]
    assert seams(tubes((bend, 5.0))) == []
    narrow = ([[0, 0, -60], [0, 0, -4]], 6.0), ([[0, 0, 4], [0, 0, 60]], 6.0), (along(0.0), 2.5)
    assert seams(tubes(*narrow)) == []


@pytest.mark.parametrize("kind", some(VESSELS, "aneurysm", "narrow"))
def test_true_vessels_with_a_rough_wall_have_no_seam(kind):
    for seed in range(500, 501):
        phantom = VESSELS[kind](seed)
        assert seams(phantom.mask) == [], phantom.words


def test_veins_drawn_at_random_have_one():
    for seed in range(500, 501):
        phantom = vein(seed)
        assert seams(phantom.mask), phantom.words


def test_seams_near_each_other_are_one_whatever_stands_before_them():
    """One far away with fewer points comes first; the other two, 4 voxels apart, become one with the points of both."""

    def row(x: float, count: int) -> Seam:
        points = np.stack([np.zeros(count), np.zeros(count), x + np.arange(count)], axis=1)
        return Seam(points, np.zeros((count, 2, 3), np.int64), 4.0, count - 1.0, 0.0, 2.0)

    far, near = _together([row(90, 8), row(0, 14), row(17, 30)])
    assert [len(each.points) for each in (far, near)] == [8, 44]
    assert far.length == 7
    assert near.length == pytest.approx(46)  # voxels 0 to 46


def test_a_disc_gives_back_what_lies_beside_the_lumen_alone():
    """A disc within a tube parts nothing. One through the seam of two tubes that cross, along the whole of the first,
    keeps the voxels beside the second; all others come back.
    """
    one, two = tubes((along(-5.0), 5.0)), tubes((along(4.4, 0.6), 5.0))
    indices = np.moveaxis(np.indices(one.shape)[::-1], 0, -1) - HALF
    small = one & (np.abs(indices[..., 2]) < 1) & (np.hypot(indices[..., 0] + 5, indices[..., 1]) < 3)
    assert np.array_equal(with_its_layers(one & ~small, one, small), one)
    both, wide = one | two, np.abs(indices[..., 0] + 1) < 1
    label, _ = ndimage.label(both & ~wide)
    lumen, other = (label == label[HALF, HALF, HALF + x] for x in (-5, 5))
    whole = with_its_layers(lumen, both, wide)
    assert not (ndimage.binary_dilation(other) & whole).any()
    lost = one & ~ndimage.binary_dilation(other, iterations=BESIDE)
    assert np.array_equal(whole & lost, lost)
    assert (lost & wide).sum() > 0.1 * (one & wide).sum()


def test_a_disc_stays_where_a_vessel_touches_itself():
    """A loop that passes beside its beginning: the disc's voxels that were given back joined both once more."""
    way = [[-3.3, 0, -60], [-3.3, 0, 17], [14, -16, 17], [14, -16, -10], [3.3, -16, -10], [3.3, 60, -10]]
    mask = tubes((way, 3.6))
    problem = problem_of(mask, (HALF - 3, HALF, 5))
    said = record_of_touches(mask, problem)
    assert said is not None
    assert "touches itself" in said["words"]
    (setting, *_) = [each.settings for each in advised(said["words"], {}) if each.settings]
    cut = barrier(SegmentSettings(**setting["segment"]).cut_planes, problem.filtered)
    assert cut is not None
    whole = with_its_layers(mask & ~cut, mask, cut)
    assert record_of_touches(whole, problem) is None
    assert whole.sum() > 0.97 * mask.sum()


def test_a_disc_that_would_hold_the_seed_is_not_advised():
    mask = tubes((along(-5.0), 5.0), (along(4.4), 5.0))
    in_the_seam = (HALF, HALF, HALF)
    for seed, parted in (((HALF - 5, HALF, HALF), True), (in_the_seam, False)):
        said = record_of_touches(mask, problem_of(mask, seed))
        assert said is not None
        assert said["parted"] == parted
        assert ("cut_planes: [" in said["words"]) == parted


def test_of_an_image_the_check_fails_and_its_advice_leaves_the_vein_out():
    """A vein as bright as the artery, blurred by a voxel: no figure can be used. The disc takes a layer of a voxel."""
    artery, both = tubes((along(-5.0), 5.0)), tubes((along(-5.0), 5.0), (along(4.8), 5.0))
    voxels = ndimage.gaussian_filter(45 + 300.0 * both, 1.0) + np.random.default_rng(3).normal(0, 8, both.shape)
    image = Volume(voxels.astype(np.float32), (0.6,) * 3, (5.0, 5.0, 5.0), np.eye(3))
    seed = image.to_mm((HALF - 5, HALF, HALF)).tolist()
    settings = {"seeds_mm": [seed], "lower": 195.0}
    record = segment(image, SegmentSettings(**settings), image, "CT").record
    check = next(each for each in of_lumen(record) if each["name"] == NAME)
    assert check["state"] == "unusable"
    assert check["advice"] in record["warnings"]
    (setting, *_) = [each.settings for each in advised(check["advice"], {"segment": settings}) if each.settings]
    after = segment(image, SegmentSettings(**merged({"segment": settings}, setting)["segment"]), image, "CT").record
    assert record["voxels"] > 1.8 * artery.sum()
    assert after["voxels"] == pytest.approx(artery.sum(), rel=0.03)  # by two thirds of a layer on the seam
    assert after["touching_lumens"] is None
    assert not any("cut_planes" in warning for warning in after["warnings"])
