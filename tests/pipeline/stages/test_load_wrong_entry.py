# SPDX-License-Identifier: Apache-2.0
"""A file that is given to the wrong entry is refused with the right one."""

import numpy as np
import pytest
from scipy import ndimage

from pipeline.files.volume import Volume
from solver.runtime.errors import StageError
from tests.support import strangers
from tests.support.dicom_files import read
from tests.support.strange_given import _hard
from tests.support.strange_images import scene


def mask(seed: int, labels: int) -> Volume:
    """A vessel, and labels around it."""
    random = np.random.default_rng([20261129, seed])
    made = scene(random)
    voxels = _hard(made).astype(np.int16)
    shells = ndimage.distance_transform_cdt(voxels == 0)
    return Volume(np.where(shells < labels, shells + 1, 0), made.spacing_mm, (0.0, 0.0, 0.0), np.eye(3))


@pytest.mark.parametrize(("seed", "labels"), [(11, 1), (12, 5), (13, 20)])
@pytest.mark.parametrize("kind", ["nii.gz", "nrrd"])
def test_labels_are_no_image(seed, labels, kind, tmp_path):
    mask(seed, labels).write(tmp_path / f"mask.{kind}")
    with pytest.raises(StageError, match=r"input\.volume: \d+ different values.* give the file as input\.mask"):
        read(tmp_path / f"mask.{kind}")


@pytest.mark.parametrize("kind", ["thick-slices", "curved-greys"])
def test_an_image_is_none(kind, tmp_path):
    """Of whole numbers, of 8 bits among others."""
    image = strangers.image(kind, 3).image  # of the smallest: fewer voxels have fewer greys
    image.with_voxels(np.rint(image.voxels).astype(np.int16)).write(tmp_path / "image.nii.gz")
    assert read(tmp_path / "image.nii.gz")[0].voxels.size == image.voxels.size


def test_a_folder_of_volume_files_names_their_entry(tmp_path):
    mask(14, 1).write(tmp_path / "patient.nrrd")
    with pytest.raises(
        StageError, match=r"files of the kind \.nrrd: give one of them itself, as input\.volume"
    ) as said:
        read(tmp_path)
    assert "patient" not in str(said.value)
