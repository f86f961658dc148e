# SPDX-License-Identifier: Apache-2.0
"""Series that go on where another one ends are told, and make one volume on request."""

import logging
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pydicom
import pytest
from pydicom import uid

from pipeline.case.settings.images import LoadSettings
from pipeline.dicom.source import find_source
from pipeline.stages.load import load
from solver.runtime.errors import StageError
from tests.support.advice import advised
from tests.support.dicom_files import edit, noise, oblique, write
from tests.support.variants import some

LOG = logging.getLogger("test")


def stored_in_two(folder: Path, count: int, parts: list[range], **tags: object) -> np.ndarray:
    """A scan stored as several series; its voxels."""
    whole = oblique(noise((count, 11, 17)))
    write(whole, folder / "all")
    for number, part in enumerate(parts, start=1):
        series = uid.generate_uid()

        def change(dataset: pydicom.Dataset, k: int, part=part, number=number, series=series) -> None:
            if k not in part:
                return
            one = pydicom.dcmread(dataset.filename)
            one.SeriesInstanceUID, one.SeriesNumber = series, number
            one.SOPInstanceUID = one.file_meta.MediaStorageSOPInstanceUID = uid.generate_uid()
            for keyword, value in tags.items() if number > 1 else ():
                setattr(one, keyword, value)
            one.save_as(folder / f"{number}-{k:03d}.dcm")

        edit(folder / "all", change)
    edit(folder / "all", lambda dataset, k: False)
    return whole.voxels


def refused(folder: Path) -> str:
    with pytest.raises(StageError, match="goes on where it ends") as found:
        load(folder, LoadSettings(), LOG)
    return str(found.value)


@pytest.mark.parametrize("seed", some(range(6), 4))
def test_what_a_refusal_names_gives_the_whole_scan(seed, tmp_path):
    """Series that adjoin or overlap, the larger one above or below, or both as large."""
    random = np.random.default_rng([20261129, seed])
    count = int(random.integers(12, 30))
    at, over = int(count * random.uniform(0.3, 0.7)), int(random.integers(0, 4))
    if seed == 5:
        count, at, over = 20, 10, 0
    voxels = stored_in_two(tmp_path, count, [range(at), range(at - over, count)])
    ways = advised(refused(tmp_path), {})
    together, alone = (LoadSettings(**way.settings["load"]) for way in ways)
    volume, facts = load(tmp_path, together, LOG)
    assert np.array_equal(volume.voxels, voxels)
    assert facts.files["used"] == count
    assert len(find_source([tmp_path], asdict(facts)).images) == count  # what an export refers to
    part, _ = load(tmp_path, alone, LOG)
    assert len(part.voxels) == max(at, count - at + over)


def test_three_parts_are_named_at_once(tmp_path):
    """Of the middle one, which is the largest."""
    voxels = stored_in_two(tmp_path, 24, [range(5), range(5, 18), range(17, 24)])
    with pytest.raises(StageError, match="go on where it ends") as found:
        load(tmp_path, LoadSettings(), LOG)
    first, *_ = advised(str(found.value), {})
    assert np.array_equal(load(tmp_path, LoadSettings(**first.settings["load"]), LOG)[0].voxels, voxels)


OTHERS = {
    "of another patient": {"PatientID": "another"},
    "of another frame of reference": {"FrameOfReferenceUID": "1.2.3.4"},
    "of other pixels": {"PixelSpacing": [0.6, 0.35]},
    "derived": {"ImageType": ["DERIVED", "SECONDARY", "AXIAL"]},
    "of another modality": {"Modality": "MR"},
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_scan_is_left_alone(other, tmp_path):
    stored_in_two(tmp_path, 20, [range(13), range(12, 20)], **OTHERS[other])
    volume, _ = load(tmp_path, LoadSettings(), LOG)
    assert len(volume.voxels) == 13


@pytest.mark.parametrize("parts", [[range(20), range(4, 16)], [range(13), range(15, 20)]])
def test_a_part_of_it_and_what_lies_apart_are_left_alone(parts, tmp_path):
    """Another reconstruction of some slices; a scan whose next one begins behind a gap of two slices."""
    stored_in_two(tmp_path, 20, parts)
    assert len(load(tmp_path, LoadSettings(), LOG)[0].voxels) == len(parts[0])
