# SPDX-License-Identifier: Apache-2.0
"""Evidence for the geometry of loading: series of a linear field, with each fault, come back right or are refused.

Right means within 0.5 % of the range of the series' intensities at the place that the volume states, in every voxel
that lies within the measured slices; every voxel that does not holds the smallest intensity of those that do, and is
counted. `benchmarks/loading_evidence.py` writes the worst errors as a table.
"""

import logging
from pathlib import Path

import numpy as np
import pytest
from pydicom.dataset import FileDataset

from pipeline.case.settings.images import LoadSettings
from pipeline.files.volume import Volume
from pipeline.stages.load import SeriesFacts, load
from solver.runtime.errors import StageError
from tests.support.linear_field import (
    TOLERANCE,
    Slice,
    intensity_range,
    measured,
    places_mm,
    slices,
    tilted,
    value,
    worst_error,
    write,
)
from tests.support.loading_faults import FAULTS, RIGHT

LOG = logging.getLogger("test")


def judge(
    folder: Path, settings: LoadSettings, stack: list[Slice], expected: str, offset: float
) -> tuple[Volume, SeriesFacts] | None:
    if expected != RIGHT:
        with pytest.raises(StageError, match=expected):
            load(folder, settings, LOG)
        return None
    volume, facts = load(folder, settings, LOG)
    assert worst_error(volume, stack, offset) < TOLERANCE
    inside = measured(volume, stack)
    assert facts.outside_voxels == (~inside).sum()
    assert (volume.voxels[~inside] == volume.voxels[inside].min()).all()
    assert facts.padding_voxels == 0
    return volume, facts


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_refused_or_right_by_default(name, tmp_path):
    fault = FAULTS[name]
    loaded = judge(tmp_path, LoadSettings(), fault.build(tmp_path), fault.default, fault.offset)
    if loaded:
        assert loaded[1].dtype == "int16" or "rescaling of" in name
        assert not any(found["needed"] and found["policy"] == "resample" for found in loaded[1].policies.values())


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.settings])
def test_each_fault_is_refused_or_right_where_the_case_says_how_to_treat_it(name, tmp_path):
    fault = FAULTS[name]
    loaded = judge(tmp_path, fault.settings, fault.build(tmp_path), fault.treated, fault.offset)
    if loaded:
        found = loaded[1].policies
        assert {key for key in found if found[key]["needed"]} == set(fault.policies)
        assert loaded[1].dtype == ("float32" if fault.policies else "int16")


@pytest.mark.parametrize("tilt_deg", [0, 14])
def test_padding_mixes_into_no_measured_voxel(tilt_deg, tmp_path):
    """A corner of each slice was not measured: it is filled, all else is the field, and no more than what touches the
    corner is lost.
    """

    def pad(made: FileDataset) -> None:
        pixels = made.pixel_array.copy()
        pixels[:4, :5] = 17
        made.PixelData = pixels.tobytes()
        made.add_new("PixelPaddingValue", "US", 17)

    stack = tilted(slices(), 0, tilt_deg)
    write(stack, tmp_path, pad)
    volume, facts = load(tmp_path, LoadSettings(gantry_tilt="resample"), LOG)
    right = np.abs(volume.voxels - value(places_mm(volume))) < TOLERANCE * intensity_range(stack)
    filled = volume.voxels == volume.voxels.min()
    assert (right | filled).all()
    assert (~right).sum() <= facts.padding_voxels + facts.outside_voxels < filled.sum()
    row = 9 * 5 if tilt_deg else 0  # a shift by a part of a row touches one more, or one less
    assert 9 * 4 * 5 - row <= facts.padding_voxels <= 9 * 4 * 5 + row


def test_resampling_a_sound_series_changes_nothing(tmp_path):
    FAULTS["none, oblique"].build(tmp_path)
    plain, _ = load(tmp_path, LoadSettings(), LOG)
    policies = dict.fromkeys(("irregular_spacing", "missing_slices", "gantry_tilt", "anisotropic_pixels"), "resample")
    again, _ = load(tmp_path, LoadSettings(**policies), LOG)
    np.testing.assert_array_equal(again.voxels, plain.voxels)
    assert again.spacing_mm == plain.spacing_mm
