# SPDX-License-Identifier: Apache-2.0
"""Blood that is darker than tissue is told with the setting that reads it, and what is read so is never all green."""

import logging
from pathlib import Path

import numpy as np
import pytest

from pipeline.case.settings.images import FilterSettings, LoadSettings, SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.dark_blood import inverted
from pipeline.stages.filter import filter_volume
from pipeline.stages.load import load
from pipeline.stages.segment import segment
from solver.runtime.errors import StageError
from tests.support import strange_series, strangers
from tests.support.advice import Workflow, advised, merged
from tests.support.dicom_files import edit, noise, oblique, put, write
from tests.support.variants import some

LOG = logging.getLogger("test")
NAME = "lumen of dark blood, read inverted"


@pytest.mark.parametrize("seed", some([9020, 9021, 9024, 9025], 9021))
def test_the_refusal_of_dark_blood_names_the_setting_that_reads_it(seed, tmp_path):
    """By a threshold that was given, and by none."""
    drawn = strangers.image("dark-blood", seed)
    drawn.image.write(tmp_path / "image.nrrd")
    segmented = {"seeds_voxel": [list(drawn.seed)]} | ({"lower": round(drawn.half_way, 1)} if seed % 2 else {})
    case = {
        "input": {"volume": str(tmp_path / "image.nrrd")},
        "segment": segmented,
        "solve": {"inlets": {"*": {"flow_ml_s": 1.0}}},
    }
    workflow = Workflow(tmp_path, "plausibility")
    refusal = workflow.run(case)
    assert refusal is not None
    assert "the seed is dark" in refusal.said
    (way,) = advised(refusal.said, case)
    assert way.settings["load"] == {"invert": True}
    assert workflow.run(merged(case, way.settings)) is None
    checks = (tmp_path / "plausibility.json").read_text()
    assert NAME in checks
    assert "read inverted (load.invert)" in checks


def test_a_seed_in_dark_tissue_beside_a_bright_vessel_is_not_called_dark_blood():
    drawn = strangers.image("zero-filled", 9001)
    z, y, x = np.unravel_index(int(drawn.image.voxels.argmin()), drawn.image.voxels.shape)
    filtered = filter_volume(drawn.image, FilterSettings())
    settings = SegmentSettings(seeds_voxel=((int(x), int(y), int(z)),), lower=drawn.half_way)
    with pytest.raises(StageError) as caught:
        segment(filtered, settings, drawn.image)
    assert "load.invert" not in str(caught.value)


def test_what_is_brightest_becomes_0_and_what_was_not_measured_stays_unknown():
    voxels = np.array([[[3.0, 10.0, np.nan]]])
    found = inverted(Volume(voxels, (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3))).voxels
    np.testing.assert_array_equal(found, [[[7, 0, np.nan]]])


def test_ct_is_not_inverted(tmp_path):
    write(oblique(noise()), tmp_path)
    with pytest.raises(StageError, match=r"load\.invert is for MR"):
        load(tmp_path, LoadSettings(invert=True), logging.getLogger("test"))


@pytest.mark.parametrize("seed", some([5, 6], 5))
def test_monochrome1_is_read_as_viewers_show_it_and_is_no_dark_blood(seed, tmp_path):
    case, _ = strange_series.monochrome1(np.random.default_rng([20261129, seed]), tmp_path)
    folder = Path(case["input"]["dicom"])
    with pytest.raises(StageError, match=r"MONOCHROME1: .* if blood is bright in a viewer, set load\.invert: true"):
        load(folder, LoadSettings(), LOG)
    shown, facts = load(folder, LoadSettings(invert=True), LOG)
    edit(folder, put(PhotometricInterpretation="MONOCHROME2"))
    stored, _ = load(folder, LoadSettings(), LOG)
    assert np.ptp(shown.voxels + stored.voxels.astype(int)) == 0
    assert not facts.inverted  # else the check of dark blood would fail


def test_slices_of_which_some_are_turned_round_are_refused(tmp_path):
    case, _ = strange_series.monochrome1(np.random.default_rng([20261129, 7]), tmp_path)
    folder = Path(case["input"]["dicom"])
    edit(folder, put(only=2, PhotometricInterpretation="MONOCHROME2"))
    with pytest.raises(StageError, match=r"MONOCHROME1 in some slices and MONOCHROME2 in others"):
        load(folder, LoadSettings(invert=True), LOG)
