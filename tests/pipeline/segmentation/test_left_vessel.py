# SPDX-License-Identifier: Apache-2.0
"""A mask that has left the vessel inside the image is refused or doubted; sacs, aneurysms and narrow places are not."""

import io
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest
from matplotlib.image import imread
from scipy import ndimage

from pipeline.case.settings.images import FilterSettings, SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.barrier import barrier
from pipeline.segmentation.beyond import Departure, departures
from pipeline.segmentation.judged import Judged
from pipeline.segmentation.mask_picture import LEAVES, SEED
from pipeline.segmentation.narrow_places import parted
from pipeline.segmentation.region_growing import grow
from pipeline.segmentation.throat_cut import least_cut
from pipeline.stages.filter import filter_volume
from pipeline.stages.plausibility import of_lumen
from pipeline.stages.segment import Segmentation, segment
from solver.runtime.errors import StageError
from tests.pipeline.segmentation.test_faces import LEAK
from tests.support.crops import HALF_WAY, LEAKS, LUMEN, SHAPES, TISSUE, Crop, drawn, leaked
from tests.support.left_vessels import LEFT, VESSELS, Left, heart


def judged(drawn_mask: Left) -> list[Departure]:
    return departures(drawn_mask.mask, [drawn_mask.seed], drawn_mask.voxel_mm)


def imaged(mask: np.ndarray, voxel_mm: float, seed: int = 1) -> Volume:
    """A CT of a mask."""
    part = ndimage.gaussian_filter(mask.astype(float), 0.5)
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).normal(0, 30, mask.shape), 0.5)
    voxels = TISSUE + (LUMEN - TISSUE) * part + noise
    return Volume(voxels.astype(np.float32), (voxel_mm,) * 3, (10.0, -20.0, 30.0), np.eye(3))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [300])
def test_a_heart_behind_a_valve_is_reported(seed):
    assert judged(heart(seed))


@pytest.mark.parametrize("kind", VESSELS)
def test_true_vessels_are_not_doubted(kind):
    for seed in range(300, 301):
        phantom = VESSELS[kind](seed)
        assert judged(phantom) == [], phantom.words


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "least"), [("heart", 0.85), ("vein", 0.6)])
def test_of_many_that_have_left_the_vessel_most_are_reported(kind, least):
    """A ventricle as wide as the aorta behind a valve wide open is none of what is looked for, nor is a vein that lies
    along the vessel over more than its width."""
    reported = [bool(judged(LEFT[kind](seed))) for seed in range(1000, 1100)]
    assert np.mean(reported) >= least


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "most"), [("sac", 3), ("aneurysm", 12), ("narrow", 10)])
def test_of_many_true_vessels_none_is_refused_and_few_are_doubted(kind, most):
    """An aneurysm of the aorta beside one of an iliac artery is two wide bodies side by side, as chambers are."""
    found = {phantom.words: judged(phantom) for phantom in map(VESSELS[kind], range(1000, 1100))}
    assert [words for words, all_found in found.items() if any(each.clear for each in all_found)] == []
    assert sum(bool(each) for each in found.values()) <= most


def ventricle(valve: float) -> Left:
    """An aorta of 10 mm, cut by the image, on a ball of 16 mm behind a valve of some radius."""
    z, y, x = np.indices((120, 48, 48))
    across = np.hypot(x - 23.5, y - 23.5)
    aorta, ball = (z > 48) & (across < 10), across**2 + (z - 22.0) ** 2 < 16**2
    mask = aorta | ball | ((z > 20) & (across < valve))
    return Left(f"valve of {valve:g} mm", mask, (23, 23, 90), 1.0, aorta)


@cache
def refused(valve: float) -> tuple[Left, Volume, SegmentSettings, StageError]:
    """A chamber behind a valve, its image and settings, and what is said of it. What was tried for that is judged and
    not recorded, which would take twice as long.
    """
    phantom = ventricle(valve)
    image = imaged(phantom.mask, 1.0)
    settings = SegmentSettings(seeds_voxel=(phantom.seed,), lower=HALF_WAY)
    words = r"the mask has left the vessel at .*it ends there in a closed body"
    with patch.object(Judged, "record", side_effect=AssertionError), pytest.raises(StageError, match=words) as said:
        segment(image, settings, image, "CT")
    return phantom, image, settings, said.value.with_traceback(None)


@pytest.mark.parametrize("valve", [4.0, pytest.param(9.0, marks=pytest.mark.slow)])
def test_an_end_in_a_chamber_is_refused_with_place_and_what_parts_it(valve):
    """What is advised was tried: either of its settings gives the aorta within its wall and one radius of the valve."""
    phantom, image, settings, said = refused(valve)
    assert "segment.cut_planes: [{point_mm: [" in str(said)
    assert "segment.beyond: accept" in str(said)
    (found,) = judged(phantom)
    plane = least_cut(phantom.mask, found.place, found.radius, image)
    lumen = segment(image, settings.model_copy(update={"cut_planes": (plane,)}), image, "CT").lumen.voxels > 0
    assert abs(plane.normal[2]) > 0.9  # 12 degrees between the normals that are tried, and the valve is round
    beyond = lumen & ~ndimage.binary_dilation(phantom.vessel, iterations=2)
    assert beyond.sum() < np.pi * valve**2 * 14  # of the valve's tube, which is up to 12 mm long
    assert lumen.sum() > 0.95 * phantom.vessel.sum()  # the wall: 2 voxels' blur of 20


def of_colour(picture: np.ndarray, colour: str) -> np.ndarray:
    """Where a picture has a colour, rows of y, x."""
    wanted = np.array([int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)])
    return np.argwhere(np.abs(picture[..., :3] - wanted).max(axis=-1) < 0.02)


def test_the_refusal_has_a_picture_of_the_place():
    """The place is in the slices and in the projections, the seed in the projections alone, where both lie above and
    below each other as in the image.
    """
    *_, said = refused(4.0)
    picture = imread(io.BytesIO(said.picture()))
    half = len(picture) / 2
    leaves, seed = of_colour(picture, LEAVES), of_colour(picture, SEED)
    for row in (leaves[:, 0] < half, leaves[:, 0] > half):
        assert np.unique(leaves[row][:, 1] * 3 // picture.shape[1]).tolist() == [0, 1, 2]
    assert len(seed)
    assert (seed[:, 0] > half).all()
    coronal = [each[(each[:, 0] > half) & (each[:, 1] * 3 // picture.shape[1] == 1)] for each in (leaves, seed)]
    down, across = coronal[0].mean(axis=0) - coronal[1].mean(axis=0)
    assert down > 30  # the valve is 42 mm below the seed
    assert abs(across) < 0.05 * down


def test_what_is_accepted_or_only_doubted_is_a_failed_check_with_its_place():
    phantom = ventricle(4.0)
    image = imaged(phantom.mask, 1.0)
    settings = SegmentSettings(seeds_voxel=(phantom.seed,), lower=HALF_WAY, beyond="accept")
    record = segment(image, settings, image, "CT").record
    (doubt,) = record["doubts"]
    assert 35 < doubt["mm"][2] - 30 < 55  # the valve
    name = "places where the mask may have left the vessel"
    (check,) = (each for each in of_lumen(record) if each["name"] == name)
    assert check["state"] == "reservation"
    assert "may have left the vessel at" in check["advice"]
    assert of_lumen({}) == []
    assert [check["state"] for check in of_lumen({"doubts": []})] == ["good"] * 25


def test_a_seed_in_the_chamber_makes_it_the_vessel():
    phantom = ventricle(4.0)
    assert judged(phantom)
    assert departures(phantom.mask, [phantom.seed, (23, 23, 20)], 1.0) == []


def test_a_least_radius_closes_every_narrow_place_and_leaves_the_wall():
    """A tube of 8 voxels with a branch of 3 and a second tube behind a window of 3."""
    z, y, x = np.indices((60, 40, 70))
    tube, other = np.hypot(x - 14.5, y - 19.5) < 8, np.hypot(x - 50.5, y - 19.5) < 8
    branch = (np.hypot(y - 19.5, z - 15) < 3) & (x > 14) & (x < 35)
    window = (np.hypot(y - 19.5, z - 40) < 3) & (x > 14) & (x < 50)
    mask = tube | other | branch | window
    found, there = parted(mask, [(14, 19, 30)], 4.0)
    assert there == pytest.approx(8, abs=1)  # a voxel: depths are those of middles of voxels
    assert not (found & ~ndimage.binary_dilation(tube, iterations=2)).any()
    assert (tube & ~found).sum() == 0
    both, _ = parted(mask, [(14, 19, 30), (50, 19, 30)], 4.0)
    count = ndimage.label(both)[1]
    assert count == 1  # what is joined to the first seed; the stage says that the second is not reached


def test_a_least_radius_above_that_at_the_seed_is_refused():
    phantom = ventricle(4.0)
    image = imaged(phantom.mask, 1.0)
    settings = SegmentSettings(seeds_voxel=(phantom.seed,), lower=HALF_WAY, least_radius_mm=12.0)
    with pytest.raises(StageError, match=r"radius at a seed is \d\.\d mm, less than the 12 mm .*least_radius_mm: null"):
        segment(image, settings, image, "CT")


def test_a_least_radius_that_parts_the_seed_itself_is_refused():
    """A seed at the end of a spike of 2 voxels: the tube behind it is wide enough, the place of the seed is not."""
    z, y, x = np.indices((40, 40, 60))
    mask = (np.hypot(y - 19.5, z - 19.5) < 8) & (x > 30)
    mask |= (np.hypot(y - 19.5, z - 19.5) < 2) & (x > 8)
    image = imaged(mask, 1.0)
    settings = SegmentSettings(seeds_voxel=((27, 19, 19),), lower=HALF_WAY, least_radius_mm=5.0)
    with pytest.raises(StageError, match=r"at a seed is \d\.?\d* mm, less than the 5 mm .*least_radius_mm: null"):
        segment(image, settings, image, "CT")


@pytest.mark.parametrize("seed", range(300, 303))
def test_a_cut_across_a_throat_parts_the_mask(seed):
    """The throat of a waist between two tubes, in any direction."""
    random = np.random.default_rng(seed)
    way = random.normal(size=3)
    way /= np.linalg.norm(way)
    places = np.moveaxis(np.indices((61, 61, 61)), 0, -1) - 30.0
    along = places @ way
    width = 9 - 5 * np.exp(-((along / 4) ** 2))
    mask = (np.linalg.norm(places - along[..., None] * way, axis=-1) < width) & (np.abs(along) < 24)
    image = imaged(mask, 0.7)
    plane = least_cut(mask, (30, 30, 30), 4.0, image)
    assert abs(np.dot(plane.normal, way[::-1])) > np.cos(np.radians(15))  # normals are tried 12 degrees apart
    parts = grow(np.where(barrier([plane], image), 0.0, mask), [tuple(np.rint(30 + 15 * way).astype(int)[::-1])], 0.5)
    assert parts.sum() == pytest.approx(mask.sum() / 2, rel=0.15)


def small_leaks(seeds: range) -> list:
    """Leaks that cover no more of any face than the guard of the border looks at, and some of one."""
    found = []
    for seed in seeds:
        for leak in LEAKS:
            crop, lower = leaked(list(SHAPES)[seed % 3], leak, seed)
            mask = grow(crop.image.voxels, [crop.seed], lower)
            outside = mask & ~ndimage.binary_dilation(crop.truth, iterations=2)
            faces = [np.take(mask, end, axis=axis).mean() for axis in range(3) for end in (0, -1)]
            if outside.sum() > LEAK * crop.truth.sum() and 0 < max(faces) <= SegmentSettings().border_fraction:
                found.append((crop, lower))
    return found


def taken(crop: Crop, lower: float) -> Segmentation | None:
    """The lumen by a threshold; None where the stage refuses it."""
    filtered = filter_volume(crop.image, FilterSettings())
    try:
        return segment(filtered, SegmentSettings(seeds_voxel=(crop.seed,), lower=lower), crop.image, "CT")
    except StageError:
        return None


def is_refused_or_doubted(crop: Crop, lower: float) -> bool:
    """Whether the stage refuses or doubts it."""
    found = taken(crop, lower)
    return found is None or bool(found.record["doubts"])


def is_reported_or_left_out(crop: Crop, lower: float) -> bool:
    """The same of a leak, or whether the lumen that is taken is the vessel without it, within 3 % of the volume."""
    found = taken(crop, lower)
    if found is None or found.record["doubts"]:
        return True
    return found.lumen.voxels.sum() == pytest.approx(crop.truth.sum(), rel=0.03)


@pytest.mark.slow
def test_small_leaks_at_the_border_are_reported():
    leaks = small_leaks(range(3020, 3021))
    assert leaks
    assert all(is_reported_or_left_out(*each) for each in leaks)


def test_a_small_leak_that_is_brighter_than_blood_is_left_out_with_a_failed_check():
    """Blobs at the border, which are a sixth of what grows."""
    crop, lower = leaked("iliacs", "blobs", 3020)
    assert grow(crop.image.voxels, [crop.seed], lower).sum() > 1.18 * crop.truth.sum()
    found = taken(crop, lower)
    assert found.record["volume_ml"] == pytest.approx(crop.truth.sum() * crop.image.spacing_mm[0] ** 3 / 1000, rel=0.01)
    assert "leaves out calcium, metal or bone" in found.record["upper_chosen"]
    assert [each["name"] for each in of_lumen(found.record) if not each["passed"]] == [
        "calcium or metal at the wall, of the mask"
    ]


@pytest.mark.slow
def test_of_many_small_leaks_at_the_border_most_are_reported():
    leaks = small_leaks(range(6000, 6120))
    assert len(leaks) > 25
    assert sum(not is_reported_or_left_out(*each) for each in leaks) <= 0.3 * len(leaks)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHAPES)
def test_vessels_in_tight_crops_are_not_doubted(kind):
    crops = [drawn(kind, seed)[0] for seed in range(6000, 6020)]
    reported = [is_refused_or_doubted(crop, HALF_WAY) for crop in crops]
    assert sum(reported) <= 1


@pytest.mark.slow
def test_the_heart_of_a_real_chest_is_refused_and_the_advice_gives_the_aorta(real_cases):
    """The aorta's mask is a network's; of what is found 95 % lies in it, and no chamber of 20 mL can be in the rest."""
    folder = real_cases / "chest-cta-dissection"
    image, aorta = (Volume.read(folder / name) for name in ("ct_cropped.nii.gz", "aorta.nii.gz"))
    filtered = filter_volume(image, FilterSettings())
    settings = SegmentSettings(seeds_voxel=((51, 47, 104),))
    with pytest.raises(StageError, match=r"has left the vessel at .*segment\.least_radius_mm: \d") as reported:
        segment(filtered, settings, image, "CT")
    least_mm = float(str(reported.value).split("least_radius_mm: ")[1].split(",")[0])
    found = segment(filtered, settings.model_copy(update={"least_radius_mm": least_mm}), image, "CT")
    mask = found.lumen.voxels > 0
    assert found.record["volume_ml"] > 90
    assert (mask & (aorta.voxels > 0)).sum() > 0.95 * mask.sum()
