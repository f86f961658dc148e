# SPDX-License-Identifier: Apache-2.0
"""Labels that are parts of one vessel are told from a wall, a plaque, a vein beside it, and are taken together."""

import logging

import numpy as np
import pytest
import SimpleITK as sitk
from scipy import ndimage

from pipeline.files.label_parts import chain, continuations
from pipeline.files.volume import Volume
from pipeline.stages.import_mask import MaskSettings, import_mask, read_mask
from pipeline.stages.plausibility import of_lumen
from solver.runtime.errors import StageError
from tests.pipeline.stages.test_import_mask import write_segmentation

SPACING = (0.5, 0.5, 1.0)


def places() -> tuple[np.ndarray, ...]:
    """x, y, z of the voxels, mm, and the distance from a vessel aslant along z."""
    z, y, x = (axis * step for axis, step in zip(np.indices((40, 60, 60)), SPACING[::-1], strict=True))
    return x, y, z, np.hypot(x - 10 - z / 5, y - 13)


def in_parts(radius_mm: float = 3.5) -> np.ndarray:
    """A vessel of three labels along it, the last one only two voxels long."""
    x, _, z, away = places()
    return np.where(away < radius_mm, 1 + (z + x / 4 > 16) + (z > 37.5), 0).astype(np.uint8)


def test_parts_of_a_vessel_go_on_one_in_another():
    labels = in_parts()
    assert continuations(labels, [1], SPACING) == [2]
    assert continuations(labels, [2], SPACING) == [1, 3]
    assert chain(labels, [1, 2, 3], SPACING) == [1, 2, 3]


def test_an_arch_that_is_cut_level_meets_its_other_label_at_two_sections():
    z, y, x = (axis * step for axis, step in zip(np.indices((40, 40, 90)), SPACING[::-1], strict=True))
    ring = np.hypot(np.hypot(x - 22, z - 5) - 14, y - 10) < 3.5
    labels = np.where(ring & (z > 4), 1 + (z > 12), 0).astype(np.uint8)
    assert ndimage.label(labels == 1)[1] == 2
    assert continuations(labels, [1], SPACING) == [2]
    assert chain(labels, [2, 1], SPACING) == [1, 2]


@pytest.mark.parametrize("what", ["wall", "plaque", "vein", "thrombus", "false lumen"])
def test_what_lies_beside_a_lumen_is_no_part_of_it(what):
    x, y, z, away = places()
    side = x - 10 - z / 5
    other = {
        "wall": away < 4.6,
        "plaque": (away < 4.6) & (side > 2.5) & (np.abs(z - 20) < 6),
        "vein": np.hypot(side - 6.5, y - 13) < 3.5,
        "thrombus": (away < 7) & (side > -1) & (np.abs(z - 20) < 12),
        "false lumen": (np.hypot(side - 2.5, y - 13) < 5) & (side > 1.5),
    }[what]
    labels = np.where(away < 3.5, 1, 2 * other)
    if what == "false lumen":
        labels = np.where(other, 2, labels)
    assert (labels == 2).sum() > 300
    assert continuations(labels, [1], SPACING) == []


@pytest.mark.parametrize(("place", "radius_mm"), [((9, 17, 20), 5), ((16, 12, 14), 4), ((12, 10, 24), 7)])
def test_an_organ_that_a_vessel_passes_is_no_part_of_it(place, radius_mm):
    """A ball that the vessel lies in by a half, or runs through: the face between is as deep in both as a section."""
    x, y, z, away = places()
    ball = np.linalg.norm(np.stack([x, y, z], axis=-1) - place, axis=-1) < radius_mm
    labels = np.where(away < 3.5, 1, 2 * ball)
    assert (labels == 2).sum() > 300
    assert continuations(labels, [1], SPACING) == []
    assert continuations(labels, [2], SPACING) == []


def test_one_of_several_parts_is_refused_and_a_part_alone_fails_a_check(tmp_path):
    labels, path = in_parts(), tmp_path / "parts.nrrd"
    image = sitk.GetImageFromArray(labels)
    image.SetSpacing(SPACING)
    sitk.WriteImage(image, str(path))
    with pytest.raises(
        StageError, match=r"3 segments and none chosen; 1, 2, 3 go on .* input\.mask_segment: \[1, 2, 3\];"
    ):
        read_mask(path, None)
    log = logging.getLogger("test")
    alone = import_mask(read_mask(path, 1), MaskSettings(), log).record
    check, left_out = of_lumen(alone)
    assert not check["passed"]
    assert left_out["passed"]
    assert "input.mask_segment: [1, 2]" in check["advice"]
    together = import_mask(read_mask(path, (1, 2, 3)), MaskSettings(), log).record
    assert together["given_voxels"] == np.count_nonzero(labels)
    assert together["segment"] == [1, 2, 3]
    assert [each["passed"] for each in of_lumen(together)] == [True, True]


def test_parts_of_a_dicom_segmentation_are_named_and_taken_together(tmp_path):
    """The wall, a fourth segment, is larger than any part of the lumen."""
    labels = in_parts()[:, ::2, ::2]
    wall = ndimage.binary_dilation(labels > 0, iterations=2) & (labels == 0)
    assert wall.sum() > max((labels == number).sum() for number in (1, 2, 3))
    volume = Volume(labels, (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3))
    masks = {str(number): (labels == number).astype(np.uint8) for number in (1, 2, 3)} | {"wall": wall.astype(np.uint8)}
    path = write_segmentation(tmp_path, volume, masks)
    with pytest.raises(
        StageError, match=r"4 segments and none chosen; 1, 2, 3 go on .* input\.mask_segment: \[1, 2, 3\];"
    ):
        read_mask(path, None)
    assert read_mask(path, 1).record["goes_on_in"] == [2]  # one alone fails a check by this
    together = read_mask(path, (1, 2, 3))
    assert together.lumen.voxels.sum() == np.count_nonzero(labels)
    assert (together.record["segment"], together.record["goes_on_in"]) == ([1, 2, 3], [])
