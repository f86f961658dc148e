# SPDX-License-Identifier: Apache-2.0
"""A mask that was stored as an ordinary DICOM series is brought in where it lay; an image is not taken for one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from pydicom.uid import MRImageStorage, SecondaryCaptureImageStorage
from scipy import ndimage
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from pipeline.files.volume import Volume
from pipeline.stages.import_mask import read_mask
from solver.runtime.errors import StageError
from tests.pipeline.stages.test_import_mask import ball, brought_in, places
from tests.support.dicom_files import edit, files, write
from tests.support.variants import some

Change = Callable[[pydicom.Dataset, int], Any]


def tagged(storage: str, modality: str, rescaled: bool = False) -> Change:
    """The slice of another modality, its stored values as they are unless they are to be rescaled."""

    def change(dataset: pydicom.Dataset, k: int) -> None:
        dataset.SOPClassUID, dataset.Modality = storage, modality
        if not rescaled:
            values = dataset.pixel_array.astype(int) + int(dataset.RescaleIntercept)
            dataset.PixelData = values.astype("<u2").tobytes()
            for keyword in ("RescaleSlope", "RescaleIntercept", "RescaleType"):
                delattr(dataset, keyword)

    return change


def unrescaled(dataset: pydicom.Dataset, k: int) -> None:
    """0 and 1 stored as such, under the intercept that CT has."""
    values = dataset.pixel_array.astype(int) + int(dataset.RescaleIntercept)
    dataset.PixelData = values.astype("<u2").tobytes()


WAYS: dict[str, tuple[Change, int]] = {
    "CT, 1 after rescaling": (lambda dataset, k: None, 1),
    "CT, 1 before rescaling": (unrescaled, 1),
    "CT without rescaling": (tagged("1.2.840.10008.5.1.4.1.1.2", "CT"), 255),
    "MR, 255": (tagged(MRImageStorage, "MR"), 255),
    "secondary capture, OT": (tagged(SecondaryCaptureImageStorage, "OT"), 255),
    "secondary capture, SC": (tagged(SecondaryCaptureImageStorage, "SC"), 1),
    "image of modality SEG": (tagged(SecondaryCaptureImageStorage, "SEG"), 3),
}


def at_random(seed: int) -> Volume:
    """A ball in a volume of an orientation drawn at random."""
    return ball((0.5, 0.5, 0.5), Rotation.random(random_state=seed).as_matrix())


@pytest.mark.parametrize(
    "way", some(WAYS, "CT, 1 before rescaling", "MR, 255", "secondary capture, OT", "image of modality SEG")
)
def test_a_mask_that_is_a_series_lies_where_its_slices_lie(way, tmp_path):
    change, number = WAYS[way]
    mask = at_random(9100 + len(way))
    write(mask.with_voxels(mask.voxels.astype(np.int16) * number), tmp_path)
    edit(tmp_path, change)
    result = brought_in(tmp_path)
    np.testing.assert_allclose(places(result.lumen), places(mask), atol=1e-4)  # decimals of the header
    assert result.record["given_voxels"] == mask.voxels.sum()
    assert (result.record["file"], result.record["segment"]) == ("DICOM series", number)


def test_a_label_is_chosen_by_its_number_as_in_a_label_map(tmp_path):
    mask = at_random(9200)
    labels = np.where(mask.voxels, 7, 0).astype(np.int16)
    labels[:2] = 2
    write(mask.with_voxels(labels), tmp_path)
    with pytest.raises(StageError, match=r"2 segments and none chosen; set input\.mask_segment.*2 \(.*7 \(\d+ voxels"):
        brought_in(tmp_path)
    assert brought_in(tmp_path, 7).record["given_voxels"] == mask.voxels.sum()


def test_slices_in_which_nothing_is_marked_may_be_left_out(tmp_path):
    mask = at_random(9300)
    write(mask.with_voxels(mask.voxels.astype(np.int16)), tmp_path)
    assert read_mask(tmp_path, None).ends_known
    marked = mask.voxels.any(axis=(1, 2))
    edit(tmp_path, lambda dataset, k: bool(marked[k]))
    assert not read_mask(tmp_path, None).ends_known
    np.testing.assert_allclose(places(brought_in(tmp_path).lumen), places(mask), atol=1e-4)


def image(rng: np.random.Generator) -> np.ndarray:
    """A vessel in tissue, beside air or not, blurred and noisy; in HU and more, as 8 bits of a window, or cut at 0."""
    shape = rng.integers(12, 30, 3)
    z, y, x = np.indices(shape)
    lumen = (y - shape[1] / 2) ** 2 + (x - shape[2] / 2 - 2 * np.sin(z / 5)) ** 2 < rng.uniform(2, 6) ** 2
    intensity = np.where(lumen, rng.uniform(150, 500), rng.uniform(-50, 80))
    if rng.integers(2):
        intensity[:, :, : shape[2] // 3] = -1000
    intensity = ndimage.gaussian_filter(intensity, rng.uniform(0.4, 1.2)) + rng.normal(0, rng.uniform(2, 30), shape)
    window = np.clip((intensity - rng.uniform(-200, 0)) / rng.uniform(300, 800), 0, 1)
    return np.rint(
        [np.clip(intensity, -1024, None), 255 * window, np.clip(intensity, 0, None)][rng.integers(3)]
    ).astype(np.int16)


@pytest.mark.parametrize("seed", some(range(9400, 9415), *range(9400, 9405)))
def test_an_image_is_not_taken_for_a_mask(seed, tmp_path):
    voxels = image(np.random.default_rng(seed))
    write(Volume(voxels, (0.5, 0.5, 0.5), (0.0, 0.0, 0.0), np.eye(3)), tmp_path)
    wanted = int(voxels.max())
    with pytest.raises(StageError, match=r"an image.* goes to input\.dicom") as refusal:
        brought_in(tmp_path, wanted)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("seed", range(9420, 9424))
def test_a_map_of_many_labels_is_none_of_those_images(seed, tmp_path):
    rng = np.random.default_rng(seed)
    shape = rng.integers(20, 32, 3)
    centres = rng.uniform(0, 1, (rng.integers(9, 30), 3)) * shape
    distance, nearest = cKDTree(centres).query(np.stack(np.indices(shape), axis=-1))
    labels = np.where(distance < rng.uniform(4, 8), nearest + 1, 0).astype(np.int16)
    write(Volume(labels, (0.5, 0.5, 0.5), (0.0, 0.0, 0.0), np.eye(3)), tmp_path)
    number = int(np.bincount(labels[labels > 0]).argmax())
    assert read_mask(tmp_path, number).lumen.voxels.sum() == (labels == number).sum()


@pytest.mark.slow
def test_a_real_image_is_not_taken_for_a_mask(real_cases):
    for name in (
        "head-arteries-mr/dicom",
        "negative-chest-ct/dicom",
        "dicom-oddities/r10-non-isotropic-pixels-4.0x6.4",
    ):
        with pytest.raises(StageError, match=r"goes to input\.dicom"):
            read_mask(real_cases / name, 100)


def test_what_is_doubtful_of_a_mask_series_is_refused_and_the_advice_works(tmp_path):
    mask = at_random(9500)
    for number, name in enumerate(("mask", "other"), start=1):
        write(mask.with_voxels(mask.voxels.astype(np.int16) * number), tmp_path / name, number)
    with pytest.raises(StageError, match=r"2 series of images below the folder.* give the folder of the mask's own"):
        brought_in(tmp_path)
    assert brought_in(tmp_path / "mask").record["given_voxels"] == mask.voxels.sum()
    last = files(tmp_path / "mask")[-1]
    whole = last.read_bytes()
    last.write_bytes(whole[:200])
    with pytest.raises(StageError, match=r"1 file could be slices of it .*take them out if they do not belong$"):
        brought_in(tmp_path / "mask")
    last.write_bytes(whole)
    edit(tmp_path / "mask", lambda dataset, k: k != 12)
    with pytest.raises(
        StageError, match=r"input\.mask: series .*1 slice is missing.*; add the missing slices"
    ) as refusal:
        brought_in(tmp_path / "mask")
    assert "load." not in str(refusal.value)


def test_one_slice_given_instead_of_its_folder_is_reported(tmp_path):
    mask = at_random(9600)
    write(mask.with_voxels(mask.voxels.astype(np.int16)), tmp_path)
    with pytest.raises(StageError, match="or the folder of a series whose images are the mask"):
        brought_in(files(tmp_path)[0])
    assert brought_in(tmp_path).record["given_voxels"] == mask.voxels.sum()


def test_a_folder_without_images_is_reported(tmp_path: Path):
    (tmp_path / "notes").write_text("x")
    with pytest.raises(StageError, match=r"input\.mask: no CT, MR, XA, OT, SC or SEG image among 1 files"):
        read_mask(tmp_path, None)
