# SPDX-License-Identifier: Apache-2.0
"""A layer of thrombus on the wall, of medium brightness, fails checks whose advice gives the volume; blur is none."""

import numpy as np
import pytest
from scipy import ndimage

from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.stages.plausibility import of_lumen
from pipeline.stages.segment import segment
from tests.support.advice import advised

RADIUS = 7.0
LUMEN, TISSUE = 350.0, 50.0
SIZE = (26, 40, 40)
TRUE_ML = SIZE[0] * np.pi * RADIUS**2 / 1000


def imaged(level: float, blur: tuple[float, float, float] = (0.8, 0.8, 0.8)) -> Volume:
    """A tube along z of 7 voxels of 1 mm in radius, with a layer of two voxels on half of its wall."""
    z, y, x = np.meshgrid(*(np.arange(n * 4) / 4 - (n - 0.25) / 2 for n in SIZE), indexing="ij", sparse=True)
    away = np.hypot(x, y) + 0 * z
    share = np.where(away < RADIUS, 1.0, np.where((away < RADIUS + 2) & (x > 0), level, 0.0))
    share = share.reshape(SIZE[0], 4, SIZE[1], 4, SIZE[2], 4).mean(axis=(1, 3, 5))
    share = ndimage.gaussian_filter(share, blur, mode="nearest")
    noise = np.random.default_rng(3).normal(0, 0.03, share.shape)
    voxels = (TISSUE + (LUMEN - TISSUE) * (share + noise)).astype(np.float32)
    return Volume(voxels, (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3))


def tried(image: Volume, **given: float) -> tuple[float, dict, dict]:
    """Error of the volume, the failed checks by name, and the record of the wall."""
    settings = SegmentSettings(seeds_voxel=((20, 20, 13),), **given)
    record = segment(image, settings, image, "CT").record
    failed = {check["name"]: check for check in of_lumen(record) if not check["passed"]}
    return record["volume_ml"] / TRUE_ML - 1, failed, record["local_edge"]


def test_a_layer_fails_checks_whose_advice_gives_the_volume():
    image = imaged(0.35)
    error, failed, edge = tried(image)
    assert error > 0.05
    # half of the wall, but for where the layer begins and ends
    assert edge["layer"]["share"] == pytest.approx(0.5, abs=0.1)
    assert edge["layer"]["level"] == pytest.approx(0.35, abs=0.1)
    advice = failed["volume that one threshold misses"]["advice"]
    (setting, *_) = [each.settings for each in advised(advice, {}) if each.settings]
    after, still, _ = tried(image, lower=setting["segment"]["lower"])
    assert abs(after) < 0.03
    (check,) = still.values()
    assert check["name"] == "wall under a layer of medium brightness"  # which is out of place in part
    assert "segment.lower" not in check["advice"]


def test_with_levels_near_each_place_there_is_no_threshold_to_give():
    _, failed, edge = tried(imaged(0.35), method="local")
    assert edge["change"] < -0.03
    assert "segment.lower" not in failed["volume that one threshold misses"]["advice"]


@pytest.mark.parametrize("blur", [(0.8, 0.8, 0.8), (0.8, 0.8, 1.5)], ids=["even", "along one axis"])
def test_blur_is_no_layer(blur):
    error, failed, edge = tried(imaged(0.0, blur))
    assert not failed
    assert "layer" not in edge
    assert abs(error) < 0.03
