# SPDX-License-Identifier: Apache-2.0
"""Entry with a mask: what comes out lies where it lay and is as large, and what is doubtful is refused."""

import itertools
import logging
from pathlib import Path

import highdicom as hd
import numpy as np
import pydicom
import pytest
import SimpleITK as sitk
from hypothesis import given, settings
from hypothesis import strategies as st
from pydicom.sr.codedict import codes
from scipy.spatial import cKDTree

from pipeline.dicom.segmentation_object import read_segmentation
from pipeline.files.mask_file import GivenMask, read_mask_file
from pipeline.files.volume import Volume
from pipeline.segmentation.shape_interpolation import interpolate_parts
from pipeline.stages.import_mask import MaskSettings, import_mask, read_mask
from pipeline.stages.phantom import SeriesHeader, write_series
from solver.runtime.errors import StageError
from tests.support.vessels import oblique

NAME = "SMITH^JOHN"
"""Stands in the files where free text may, and must stand nowhere else."""


def ball(spacing_mm=(0.5, 0.5, 0.5), direction=None, radius_mm=4.0) -> Volume:
    """A ball off the middle of a volume, so that no mirror image of it looks the same."""
    size = np.ceil(np.array([14, 16, 18]) / spacing_mm).astype(int)
    volume = Volume(
        np.zeros(size[::-1], np.uint8), spacing_mm, (11.0, -7.0, 30.0), np.eye(3) if direction is None else direction
    )
    return volume.with_voxels(
        (distance_to(volume, volume.to_mm(np.array([5.1, 7.2, 8.3]) / spacing_mm)) < radius_mm).astype(np.uint8)
    )


def distance_to(volume: Volume, place_mm) -> np.ndarray:
    z, y, x = np.indices(volume.voxels.shape)
    return np.linalg.norm(volume.to_mm(np.stack([x, y, z], axis=-1)) - place_mm, axis=-1)


def places(volume: Volume) -> np.ndarray:
    """Centres of the voxels that are marked, sorted."""
    found = volume.to_mm(np.argwhere(volume.voxels)[:, ::-1])
    return found[np.lexsort(np.round(found, 3).T)]


def brought_in(source, wanted=None, **options):
    mask = source if isinstance(source, GivenMask) else read_mask(source, wanted)
    return import_mask(mask, MaskSettings(segment=wanted, **options), logging.getLogger("test"))


def given_mask(volume: Volume, **more) -> GivenMask:
    return GivenMask(volume.with_voxels(volume.voxels > 0), **more)


DIRECTIONS = [
    np.eye(3)[:, list(order)] * sign
    for order in itertools.permutations(range(3))
    for sign in itertools.product((1, -1), repeat=3)
] + [oblique()]


@given(st.sampled_from(DIRECTIONS), st.sampled_from([".nrrd", ".nii.gz", ".mha"]), st.sampled_from([1, 3, 255]))
@settings(max_examples=25, deadline=None)
def test_a_label_map_comes_back_where_it_lay(tmp_path_factory, direction, suffix, value):
    mask = ball(direction=direction)
    path = tmp_path_factory.mktemp("mask") / f"mask{suffix}"
    mask.with_voxels(mask.voxels * np.uint8(value)).write(path)
    result = brought_in(path)
    np.testing.assert_allclose(places(result.lumen), places(mask), atol=1e-4)  # NIfTI keeps places as float32
    assert result.record["volume_ml"] == pytest.approx(mask.voxels.sum() * 0.125 / 1000, rel=1e-4)
    assert np.array_equal(result.occupancy.voxels >= 0.5, result.lumen.voxels == 1)


def layered(path: Path) -> Volume:
    """A .seg.nrrd as 3D Slicer writes it: two segments of the same value that overlap, in two layers."""
    mask = ball()
    other = np.roll(mask.voxels, 4, axis=2)
    header = (
        "NRRD0004\ntype: uchar\ndimension: 4\nspace: left-posterior-superior\n"
        f"sizes: 2 {' '.join(map(str, mask.voxels.shape[::-1]))}\nkinds: list domain domain domain\n"
        "space directions: none (0.5,0,0) (0,0.5,0) (0,0,0.5)\nencoding: raw\nspace origin: (11,-7,30)\n"
        f"Segment0_Name:={NAME}\nSegment0_LabelValue:=1\nSegment0_Layer:=1\n"
        "Segment1_Name:=Wall\nSegment1_LabelValue:=1\nSegment1_Layer:=0\n\n"
    )
    path.write_bytes(header.encode() + np.stack([other, mask.voxels], axis=-1).tobytes())
    return mask


def test_a_segment_of_a_layered_segmentation_is_chosen_by_its_label(tmp_path):
    mask = layered(tmp_path / "case.seg.nrrd")
    result = brought_in(tmp_path / "case.seg.nrrd", "smith^john ")
    np.testing.assert_allclose(places(result.lumen), places(mask), atol=1e-9)
    assert NAME not in str(result.record)
    for wanted, message in ((None, "2 segments and none chosen"), (1, "2 segments have"), ("Lumen", "no segment has")):
        with pytest.raises(StageError, match=message) as caught:
            brought_in(tmp_path / "case.seg.nrrd", wanted)
        assert NAME not in str(caught.value)
        assert f"1 ({mask.voxels.sum()} voxels" in str(caught.value)


@pytest.mark.parametrize("spacing_mm", [(0.5, 0.5, 0.5), (0.5, 0.5, 0.8)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_map_of_fractions_keeps_its_surface_within_the_voxels(tmp_path, spacing_mm, kind):
    """A ball of 4 mm: its radius from the volume is right to a tenth of a voxel. The places where its parts pass one
    half lie on the ball to the same accuracy on average.
    """
    empty = ball(spacing_mm)
    fine = [np.linspace(-0.5, 0.5, 6)[:-1] + 1 / 10] * 3
    middle = empty.to_mm(np.array([5.1, 7.2, 8.3]) / spacing_mm)
    z, y, x = np.indices(empty.voxels.shape)
    part = np.zeros(empty.voxels.shape)
    for shift in itertools.product(*fine):
        points = empty.to_mm(np.stack([x, y, z], axis=-1) + shift)
        part += (np.linalg.norm(points - middle, axis=-1) < 4) / 125
    empty.with_voxels(part.astype(kind)).write(tmp_path / "parts.nii.gz")
    result = brought_in(tmp_path / "parts.nii.gz")
    assert result.record["file"] == "map of fractions"
    assert set(np.unique(result.lumen.voxels)) == {0, 1}
    volume_mm3 = float(result.occupancy.voxels.sum()) * 0.5**3
    assert (volume_mm3 / (4 / 3 * np.pi)) ** (1 / 3) == pytest.approx(4, abs=0.05)
    between = (result.occupancy.voxels > 0.45) & (result.occupancy.voxels < 0.55)
    assert distance_to(result.occupancy, middle)[between].mean() == pytest.approx(4, abs=0.05)
    assert brought_in(tmp_path / "parts.nii.gz", 1).record["voxels"] == result.record["voxels"]
    with pytest.raises(StageError, match=r"mask_segment = 2: no segment has.*1 \("):
        brought_in(tmp_path / "parts.nii.gz", 2)


def test_fractions_without_a_half_or_an_outside_are_no_mask(tmp_path):
    for parts in (0.4 * ball().voxels, 0.3 + 0.6 * ball().voxels):
        ball().with_voxels(parts.astype(np.float32)).write(tmp_path / "parts.nrrd")
        with pytest.raises(StageError, match=r"is no label.*values from 0 to 1"):
            brought_in(tmp_path / "parts.nrrd")


def test_a_label_is_chosen_by_number(tmp_path):
    mask = ball()
    labels = np.where(mask.voxels, 7, 0).astype(np.int16)
    labels[:2] = 2
    mask.with_voxels(labels).write(tmp_path / "labels.nii.gz")
    assert brought_in(tmp_path / "labels.nii.gz", 7).record["given_voxels"] == mask.voxels.sum()
    with pytest.raises(StageError, match=r"none chosen.*mask_segment.*2 \(.*voxels.*7 \("):
        brought_in(tmp_path / "labels.nii.gz")
    with pytest.raises(StageError, match=r"mask_segment = 1: no segment has"):
        brought_in(tmp_path / "labels.nii.gz", 1)


def write_segmentation(folder: Path, volume: Volume, masks: dict[str, np.ndarray], kind="BINARY", **options) -> Path:
    """A DICOM segmentation of a DICOM series of that geometry; masks are (Z, Y, X), fractions for FRACTIONAL."""
    image = volume.with_voxels(volume.voxels.astype(np.int16))
    write_series(image, folder / "series", SeriesHeader("study", 2, "series", "AXIAL", 1.0))
    images = [pydicom.dcmread(path) for path in (folder / "series").rglob("*") if path.is_file()]
    z = np.cross(volume.direction[:, 0], volume.direction[:, 1])
    images.sort(key=lambda image: float(z @ np.array(image.ImagePositionPatient, float)))
    described = [
        hd.seg.SegmentDescription(
            number, label, codes.SCT.BodyStructure, codes.SCT.Artery, hd.seg.SegmentAlgorithmTypeValues.MANUAL
        )
        for number, label in enumerate(masks, 1)
    ]
    segmentation = hd.seg.Segmentation(
        images,
        np.stack(list(masks.values()), axis=-1),
        kind,
        described,
        hd.UID(),
        3,
        hd.UID(),
        1,
        NAME,
        NAME,
        "1",
        "1",
        omit_empty_frames=True,
        **options,
    )
    segmentation.save_as(folder / "mask.dcm")
    return folder / "mask.dcm"


def test_a_dicom_segmentation_lies_where_its_images_lie_and_absent_frames_are_empty(tmp_path):
    mask = ball((0.5, 0.5, 0.5), oblique())
    marked = mask.voxels.copy()
    gap = int(np.flatnonzero(marked.any(axis=(1, 2)))[0]) - 2
    marked[gap] = 1  # a second, thin segment far from the first: the slice between them has no frame
    path = write_segmentation(tmp_path, mask, {NAME: mask.voxels, "other": marked})
    for wanted in (1, NAME.lower()):
        result = brought_in(path, wanted)
        np.testing.assert_allclose(places(result.lumen), places(mask), atol=1e-4)  # 16 characters a number
        assert NAME not in str(result.record)
        assert result.record["segment_kind"] == "Arterial structure (body structure)"
    with pytest.raises(
        StageError, match=r"2 segments and none chosen.*1 \(Arterial structure.*; 2 \(Arterial"
    ) as caught:
        brought_in(path)
    assert NAME not in str(caught.value)
    assert brought_in(tmp_path, 1).record["given_voxels"] == mask.voxels.sum()  # the folder of both, found in it


@pytest.mark.parametrize("fractions", ["OCCUPANCY", "PROBABILITY"])
def test_fractions_become_a_mask_at_one_half(tmp_path, fractions):
    mask = ball()
    smooth = np.clip(4.5 - distance_to(mask, mask.to_mm(np.array([10.2, 14.4, 16.6]))), 0, 1)
    path = write_segmentation(
        tmp_path, mask, {"a": smooth}, "FRACTIONAL", fractional_type=fractions, max_fractional_value=200
    )
    result = brought_in(path)
    assert result.record["least_fraction"] == 0.5
    assert result.record["fractional"] == fractions.lower()
    wanted = np.rint(smooth * 200) / 200 >= 0.5
    assert result.record["given_voxels"] == wanted.sum()
    assert np.array_equal(result.occupancy.voxels >= 0.5, result.lumen.voxels == 1)
    between = (result.occupancy.voxels > 0) & (result.occupancy.voxels < 1)
    assert between.any() == (fractions == "OCCUPANCY")  # a probability says nothing of how full a voxel is


def test_frames_that_form_no_grid_and_other_objects_are_refused(tmp_path):
    mask = ball()
    path = write_segmentation(tmp_path, mask, {"a": mask.voxels})
    dataset = pydicom.dcmread(path)
    dataset.PerFrameFunctionalGroupsSequence[3].PlanePositionSequence[0].ImagePositionPatient[2] += 0.2
    dataset.save_as(tmp_path / "uneven.dcm")
    image = next(path for path in (tmp_path / "series").rglob("*") if path.is_file())
    (tmp_path / "cut.dcm").write_bytes(path.read_bytes()[:2000])
    for file, message in (
        (tmp_path / "uneven.dcm", "no regular grid"),
        (image, "no segmentation but an image"),
        (tmp_path / "cut.dcm", "export it again"),
    ):
        with pytest.raises(StageError, match=message) as caught:
            read_segmentation(file, None)
        assert str(tmp_path) not in str(caught.value)
    with pytest.raises(StageError, match="3 DICOM segmentations"):
        read_mask(tmp_path, None)


def fewer_frames(dataset: pydicom.Dataset) -> None:
    dataset.NumberOfFrames -= 1


def fewer_groups(dataset: pydicom.Dataset) -> None:
    dataset.PerFrameFunctionalGroupsSequence.pop()


def fewer_pixels(dataset: pydicom.Dataset) -> None:
    dataset.PixelData = dataset.PixelData[: -dataset.Rows * dataset.Columns // 8]


def fewer_of_both(dataset: pydicom.Dataset) -> None:
    fewer_frames(dataset)
    fewer_groups(dataset)


def without_pixels(dataset: pydicom.Dataset) -> None:
    del dataset.PixelData


@pytest.mark.parametrize("change", [fewer_frames, fewer_groups, fewer_pixels, fewer_of_both, without_pixels])
@pytest.mark.parametrize("kind", ["BINARY", "FRACTIONAL"])
def test_a_segmentation_whose_numbers_of_frames_disagree_is_refused(kind, change, tmp_path):
    mask = ball()
    path = write_segmentation(
        tmp_path, mask, {"a": mask.voxels.astype(float if kind == "FRACTIONAL" else np.uint8)}, kind
    )
    assert brought_in(path).record["given_voxels"] == mask.voxels.sum()
    dataset = pydicom.dcmread(path)
    change(dataset)
    dataset.save_as(path)
    with pytest.raises(StageError, match=r"claims \d+ frames and describes \d+, and its pixels have \d+ bytes"):
        brought_in(path)


def test_real_segmentation_and_label_map_agree(real_cases):
    folder = real_cases / "dicom-oddities/r18-ct-multiframe-seg-24x38x3"
    found, truth = (read_mask(folder / name, None).lumen for name in ("seg/label.seg", "nrrd/label.nrrd"))
    assert np.array_equal(found.voxels, truth.voxels)
    np.testing.assert_allclose(found.spacing_mm, truth.spacing_mm)
    np.testing.assert_allclose(found.origin_mm, truth.origin_mm, atol=1e-5)
    np.testing.assert_allclose(found.direction, truth.direction)
    assert found.voxels.sum() == 315


def tube(spacing_mm, tilt_deg, radius_mm) -> Volume:
    """A gently bent tube through a box, aslant to the slices."""
    size = np.round(np.array([18, 18, 18]) / spacing_mm).astype(int)
    first = (np.array(spacing_mm) - 18) / 2
    volume = Volume(np.zeros(size[::-1], np.uint8), spacing_mm, tuple(first), np.eye(3))
    way, tilt = np.linspace(-13, 13, 500), np.radians(tilt_deg)
    axis = np.array([np.sin(tilt) * 0.96, np.sin(tilt) * 0.28, np.cos(tilt)])
    side = np.cross(axis, [0.3, 0.5, 0.8])
    line = way[:, None] * axis + 2 * np.cos(way / 6)[:, None] * side / np.linalg.norm(side) + [0.13, 0.21, 0.17]
    z, y, x = np.indices(volume.voxels.shape)
    distance = cKDTree(line).query(volume.to_mm(np.stack([x, y, z], axis=-1)))[0]
    return volume.with_voxels((distance < radius_mm).astype(np.uint8))


@pytest.mark.parametrize("thick_mm", [0.67, 0.93, 1.17])
def test_a_vessel_that_the_border_cuts_is_as_long_on_cubes(thick_mm):
    """61 slices that are no whole number of cubes thick: parts keep their volume, which was up to 0.4 % off."""
    _, y, x = np.indices((61, 24, 24))
    part = np.clip(6.3 - np.hypot(y - 11.4, x - 11.7), 0, 1).astype(np.float32)
    volume = Volume((part >= 0.5).astype(np.uint8), (0.5, 0.5, thick_mm), (0.0, 0.0, 0.0), np.eye(3))
    cubes, parts = interpolate_parts(volume.with_voxels(part))
    assert parts.sum() * np.prod(cubes.spacing_mm) == pytest.approx(part.sum() * 0.25 * thick_mm, rel=1e-3)
    again = brought_in(given_mask(cubes))
    np.testing.assert_array_equal(again.lumen.voxels > 0, cubes.voxels)  # and such a mask is taken as it is


@pytest.mark.parametrize(("tilt_deg", "least"), [(0, 0.95), (30, 0.94), (60, 0.92), (90, 0.87)])
def test_thick_slices_become_cubes_of_the_same_volume_and_nearly_the_true_shape(tilt_deg, least):
    """Dice against the tube sampled on cubes; a mask that repeats its slices reaches 0.96, 0.92, 0.87 and 0.84."""
    thick, truth = tube((0.4, 0.4, 1.5), tilt_deg, 1.6), tube((0.4, 0.4, 0.4), tilt_deg, 1.6).voxels > 0
    result = brought_in(given_mask(thick))
    found = result.lumen.voxels > 0
    assert result.lumen.spacing_mm == (0.4, 0.4, 0.4)
    assert found.sum() * 0.4**3 == pytest.approx(thick.voxels.sum() * 0.4 * 0.4 * 1.5, rel=2e-3)
    assert np.array_equal(result.occupancy.voxels >= 0.5, found)
    truth = truth[: len(found)]
    dice = 2 * (found & truth).sum() / (found.sum() + truth.sum())
    nearest = thick.voxels[np.clip(np.rint((np.arange(len(found)) + 0.5) * 0.4 / 1.5 - 0.5).astype(int), 0, 11)] > 0
    repeated = 2 * (nearest & truth).sum() / (nearest.sum() + truth.sum())
    assert dice > max(least, repeated - 0.005)


def test_thick_slices_keep_their_place_in_any_direction():
    """The centre of a ball moves by less than a tenth of a fine voxel."""
    for direction in (np.eye(3), oblique(), np.diag([1.0, 1, -1])):
        mask = ball((0.5, 0.5, 1.5), direction)
        result = brought_in(given_mask(mask))
        assert np.linalg.norm(places(result.lumen).mean(axis=0) - places(mask).mean(axis=0)) < 0.05
        assert np.linalg.det(result.lumen.direction) == pytest.approx(np.linalg.det(direction))


def test_slices_as_thick_as_the_vessel_are_refused():
    with pytest.raises(StageError, match=r"voxels of 0\.4 x 0\.4 x 6 mm.*thinner slices"):
        brought_in(given_mask(tube((0.4, 0.4, 6.0), 80, 1.2)))


def test_specks_are_left_out_and_counted_but_no_part_of_a_vessel_is():
    mask = ball()
    mask.voxels[1, 1, 1:5] = 1
    result = brought_in(given_mask(mask))
    assert result.record["specks_removed_voxels"] == 4
    assert "4 voxels in 1 specks" in result.record["warnings"][0]
    assert not result.occupancy.voxels[1, 1, 1:5].any()
    mask.voxels[1:4, 1:8, 1:8] = 1
    with pytest.raises(StageError, match=r"2 parts.*at most 1% may lie apart.*Join them"):
        brought_in(given_mask(mask))


def test_parts_that_touch_over_an_edge_only_are_two():
    mask = ball()
    mask.voxels[...] = 0
    mask.voxels[2:8, 2:8, 2:8] = mask.voxels[8:14, 8:14, 2:8] = 1
    with pytest.raises(StageError, match="2 parts"):
        brought_in(given_mask(mask))


def test_cavities_are_filled_and_counted_unless_the_case_says_no():
    mask = ball()
    place = tuple(np.argwhere(mask.voxels).mean(axis=0).astype(int))
    mask.voxels[place] = 0
    whole = brought_in(given_mask(mask))
    assert (whole.record["holes_filled"], whole.record["voxels_filled"]) == (1, 1)
    assert whole.occupancy.voxels[place] == 1
    assert brought_in(given_mask(mask), fill_holes=False).lumen.voxels[place] == 0


def test_a_border_that_may_not_be_the_image_s_gets_room():
    """Else the end of the vessel's tree that lies farthest out would be opened, the sac of an aneurysm too."""
    mask = ball()
    z, y, x = (slice(side.min(), side.max() + 1) for side in np.nonzero(mask.voxels))
    tight = Volume(
        mask.voxels[z, y, x], mask.spacing_mm, tuple(mask.to_mm([x.start, y.start, z.start])), mask.direction
    )
    result = brought_in(given_mask(tight))
    assert result.record["cropped_to_the_mask"] == "all sides"
    assert not any(np.take(result.lumen.voxels, [0, -1], axis).any() for axis in range(3))
    np.testing.assert_allclose(places(result.lumen), places(mask), atol=1e-9)
    slices = Volume(mask.voxels[z], mask.spacing_mm, tuple(mask.to_mm([0, 0, z.start])), mask.direction)
    assert max(brought_in(given_mask(slices)).record["border_contact"].values()) > 0
    sparse = brought_in(given_mask(slices, ends_known=False))
    assert sparse.record["cropped_to_the_mask"] == "first and last slice"
    np.testing.assert_allclose(places(sparse.lumen), places(mask), atol=1e-9)


def test_thin_vessels_are_noted():
    fine, thin = (brought_in(given_mask(tube((0.4,) * 3, 30, radius))).record for radius in (1.6, 0.6))
    assert not fine["warnings"]
    assert "thinner than 4 voxels of the given mask (1.6 mm)" in thin["warnings"][0]


def mistake(kind: str, path: Path) -> Path:
    """Write what a user might give by mistake."""
    mask = ball()
    voxels = mask.voxels.astype(np.float32)
    if kind == "image":
        voxels = np.random.default_rng(0).normal(40, 20, voxels.shape).astype(np.float32)
    elif kind == "integer image":
        voxels = np.random.default_rng(0).integers(0, 3000, voxels.shape, dtype=np.int16)
    elif kind == "not finite":
        voxels[3, 3, 3] = np.nan
    elif kind == "empty":
        voxels[...] = 0
    elif kind == "background":
        voxels = 1 - voxels
    elif kind == "tiny":
        voxels[...] = 0
        voxels[4:7, 4:7, 4:7] = 1
    elif kind == "flat":
        image = sitk.GetImageFromArray(voxels[10])
    elif kind == "colours":
        image = sitk.GetImageFromArray(np.repeat(voxels[..., None], 3, axis=-1), isVector=True)
    if kind in ("flat", "colours"):
        sitk.WriteImage(image, str(path))
    elif kind == "text":
        path.write_text("hello")
    elif kind == "huge voxels":
        Volume(voxels, (500.0, 500.0, 500.0), (0, 0, 0), np.eye(3)).write(path)
    else:
        mask.with_voxels(voxels).write(path)
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("image", "is no label.*input.volume"),
        ("integer image", "more than 1000 different values.*input.volume"),
        ("not finite", r"1 of \d+ values \(float32\) are NaN or infinite"),
        ("empty", "marks nothing"),
        ("background", "background"),
        ("tiny", "27 voxels.*at least 100"),
        ("flat", "2 dimensions"),
        ("colours", "3 values a voxel"),
        ("text", "cannot be read"),
        ("huge voxels", "correct the file's spacing"),
    ],
)
def test_mistakes_end_with_one_message_that_does_not_name_the_file(tmp_path, kind, message):
    path = mistake(kind, tmp_path / f"{NAME}.nrrd")
    with pytest.raises(StageError, match=message) as caught:
        brought_in(path)
    assert NAME not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_pictures_are_refused(tmp_path):
    sitk.WriteImage(sitk.GetImageFromArray(np.zeros((8, 8), np.uint8)), str(tmp_path / "mask.png"))
    with pytest.raises(StageError, match="PNG"):
        read_mask_file(tmp_path / "mask.png", None)
