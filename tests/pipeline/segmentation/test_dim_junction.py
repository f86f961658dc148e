# SPDX-License-Identifier: Apache-2.0
"""A vessel that opens into the lumen at a place too dim for the threshold is a failed check that gives its seed."""

import numpy as np
import pytest
from scipy import ndimage

from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.seed_advice import with_tried_seeds
from pipeline.stages.plausibility import of_lumen
from pipeline.stages.segment import Segmentation, segment
from tests.pipeline.segmentation.test_parted import advised_of, fistula
from tests.support.fistulas import fistula as drawn
from tests.support.variants import some

NAME = "volume behind a dim junction, of the mask"
TISSUE, CONTRAST = 50.0, 400.0
GAP = 9
"""Voxels between the wall of the wide vessel and the end of the thin one."""


def near(what: str, share: float = 0.0) -> tuple[Volume, np.ndarray]:
    """A vessel of 8 voxels in radius along x, one of 3 voxels that begins so far from its wall, and where the wide one
    lies.
    """
    z, y, x = np.indices((56, 40, 60)).astype(float)
    wide, thin = np.hypot(z - 12, y - 20) < 8, (np.hypot(x - 30, y - 20) < 3) & (z > 20 + GAP)
    way = (np.hypot(x - 30, y - 20) < 3) & (z > 12)
    if what == "beside":  # it turns its side to the wide vessel
        thin = np.hypot(z - 20 - GAP - 3, y - 20) < 3
    level = np.where(way, share, 0.0)
    if what == "organ":
        level = np.where(z > 18, share, 0.0)
    level = np.where(wide | thin, 1.0, level)
    noise = np.random.default_rng(5).normal(0, 8, level.shape)
    voxels = TISSUE + CONTRAST * ndimage.gaussian_filter(level, 0.8, mode="nearest") + noise
    return Volume(voxels.astype(np.float32), (0.7,) * 3, (0.0, 0.0, 0.0), np.eye(3)), wide


def found(image: Volume, seed: tuple[int, int, int] = (10, 20, 12), **settings: object) -> Segmentation:
    given = {"seeds_voxel": [seed], "lower": TISSUE + CONTRAST / 2, "method": "threshold"}
    return segment(image, SegmentSettings(**given | settings), image)


def check_of(lumen: Segmentation) -> dict:
    return next(each for each in of_lumen(lumen.record) if each["name"] == NAME)


def test_what_opens_into_the_side_of_the_lumen_is_measured_and_given_as_a_seed_that_was_tried():
    image, wide = near("joined", 0.35)
    first = found(image)
    check = check_of(first)
    assert not check["passed"]
    behind = np.pi * 3**2 * (56 - 20 - GAP) / wide.sum()
    assert 0.8 * behind < check["value"] < behind  # half way ends it up to 3 voxels behind where it is dim
    assert "give a seed in it, tried: " in check["advice"]
    second = found(image, **advised_of(check["advice"]))
    assert second.lumen.voxels[50, 20, 30]
    assert check_of(second)["passed"]


@pytest.mark.parametrize(("what", "share"), [("apart", 0.0), ("organ", 0.35), ("beside", 0.35)])
def test_what_no_blood_joins_lies_in_an_organ_or_turns_its_side_is_none(what, share):
    lumen = found(near(what, share)[0], border_fraction=0.5)
    assert lumen.record["dim_junction"] is None
    assert check_of(lumen)["passed"]


def test_what_a_disc_parts_is_none():
    plane = {"point_mm": [21, 14, 0.7 * 24], "normal": [0, 0, 1], "radius_mm": 5}
    assert found(near("joined", 0.35)[0], cut_planes=[plane]).record["dim_junction"] is None


@pytest.mark.parametrize("wider", some([2.5, 3.5], 2.5))
def test_an_artery_behind_a_junction_is_found_from_a_seed_in_its_vein(wider):
    """As it was, 15 and 9 % of the volume were missing, and no check failed."""
    image, whole_ml = fistula(wider, 0.4)
    given = {"seeds_voxel": [[84, 24, 20]]}
    first = segment(image, SegmentSettings(**given), image).record
    assert first["volume_ml"] < 0.92 * whole_ml
    assert first["dim_junction"]["words"] in first["warnings"]
    both = advised_of(first["dim_junction"]["words"])
    second = segment(image, SegmentSettings(**given | both), image)
    assert second.record["dim_junction"] is None
    right = second.record["volume_ml"] == pytest.approx(whole_ml, rel=0.03)
    assert right or not all(each["passed"] for each in of_lumen(second.record))


@pytest.mark.slow
def test_of_drawn_fistulas_none_that_lacks_a_vessel_passes_from_its_vein():
    """Over 3.5 %, since blur and grid take some tenths more than the 3 % from which what is behind is looked at."""
    green = []
    for seed in range(400, 412):
        each = drawn(seed)
        lumen = segment(each.image, SegmentSettings(seeds_voxel=(each.vein,)), each.image)
        error = lumen.record["volume_ml"] / each.volume_ml - 1
        if abs(error) > 0.035 and all(check["passed"] for check in of_lumen(lumen.record)):
            green.append((seed, each.words, error))
    assert green == []


def test_a_check_says_that_the_seed_was_refused():
    part = {"share": 0.1, "mm": [1.0, 2.0, 3.0], "words": "left out: if it is the vessel, give input.mask"}
    record = {"parted": None, "dim_junction": part, "warnings": [part["words"]]}
    (said,) = with_tried_seeds(record, lambda point_mm: "")["warnings"]
    assert said == "left out: a seed in it was refused; if it is the vessel, give input.mask"
    (said,) = with_tried_seeds(record, lambda point_mm: f"segment.seeds_mm: [{point_mm}]")["warnings"]
    assert "give a seed in it, tried: segment.seeds_mm: [[1.0, 2.0, 3.0]], or give input.mask" in said
