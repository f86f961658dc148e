# SPDX-License-Identifier: Apache-2.0
"""Load gives back exactly what was scanned, or refuses with the reason."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
import SimpleITK as sitk
from pydicom.uid import MPEG2MPML, EnhancedCTImageStorage

from pipeline.dicom.uids import short_hash
from pipeline.files.volume import Volume
from pipeline.stages.load import SeriesFacts
from pipeline.stages.phantom import localizer
from solver.runtime.errors import StageError
from tests.support.dicom_files import SLICES, edit, files, noise, oblique, put, read, shift, truncate, write

ROTATIONS = [(0, 0, 0), (14, -9, 21), (90, 0, 0), (-35, 60, 170)]


@pytest.fixture
def series(tmp_path: Path) -> Path:
    """A small oblique series, six slices of 17 x 11."""
    write(oblique(noise()), tmp_path / "dicom")
    return tmp_path / "dicom"


@pytest.mark.parametrize("rotation_deg", ROTATIONS)
def test_voxels_and_geometry_come_back_exactly(rotation_deg, tmp_path):
    written = oblique(noise(), rotation_deg)
    write(written, tmp_path)
    volume, facts = read(tmp_path)
    assert volume.voxels.dtype == np.int16
    np.testing.assert_array_equal(volume.voxels, written.voxels)
    # decimal strings of 16 characters hold 12 digits or more
    np.testing.assert_allclose(volume.origin_mm, written.origin_mm, atol=1e-9)
    np.testing.assert_allclose(volume.spacing_mm, written.spacing_mm, atol=1e-9)
    np.testing.assert_allclose(volume.direction, written.direction, atol=1e-9)
    assert facts.matrix == (17, 11, SLICES)
    assert facts.files == {"seen": SLICES, "used": SLICES, "skipped": {}}


@pytest.mark.parametrize("rotation_deg", ROTATIONS)
def test_a_linear_function_of_place_is_read_back_at_its_places(rotation_deg, tmp_path):
    gradient = np.array([3.0, -2.0, 1.5]) * 20  # HU/mm, unlike along all axes: a flip or a swap would show
    blank = oblique(np.zeros((20, 22, 26), np.int16), rotation_deg)
    z, y, x = np.meshgrid(*(np.arange(n) for n in blank.voxels.shape), indexing="ij")
    centre = blank.to_mm([12.5, 10.5, 9.5])

    def value(volume: Volume) -> np.ndarray:
        return (volume.to_mm(np.stack([x, y, z], axis=-1)) - centre) @ gradient + 900

    written = blank.with_voxels(np.rint(value(blank)).astype(np.int16))
    write(written, tmp_path)
    volume, _ = read(tmp_path)
    error = np.abs(volume.voxels - value(volume)).max()
    assert error < 0.005 * np.ptp(written.voxels)


def test_order_of_the_slices_is_that_of_their_positions_alone(series):
    expected, _ = read(series)

    def mislead(dataset: pydicom.Dataset, k: int) -> None:
        dataset.InstanceNumber = (5 * k) % 7
        dataset.SliceLocation = str(-3 * k)
        dataset.SliceThickness = "9.9"

    edit(series, mislead)
    volume, _ = read(series)
    np.testing.assert_array_equal(volume.voxels, expected.voxels)
    assert volume.spacing_mm == expected.spacing_mm


def test_junk_duplicates_and_other_series_are_left_out_and_counted(series):
    expected, _ = read(series)
    first = files(series)[0]
    write(localizer(oblique(noise((8, 40, 60)))), series, 1, "LOCALIZER")  # more voxels than the series itself
    (series / "copy").write_bytes(first.read_bytes())
    (series / "notes.txt").write_text("junk")
    (series / "empty").write_bytes(b"")
    (series / "cut").write_bytes(first.read_bytes()[:150])
    volume, facts = read(series)
    np.testing.assert_array_equal(volume.voxels, expected.voxels)
    assert facts.files["used"] == SLICES
    skipped = facts.files["skipped"]
    assert skipped["other series"] == 3
    assert skipped.pop("other series") + sum(skipped.values()) + SLICES == facts.files["seen"]
    assert sum(skipped.values()) == 4  # the copy, and three files that are no images
    assert [each["localizer"] for each in facts.series_seen].count(True) == 1


def test_series_is_chosen_by_size_uid_or_hash(tmp_path):
    small, large = oblique(noise((4, 9, 9))), oblique(noise((5, 9, 9)))
    write(small, tmp_path, 1)
    write(large, tmp_path, 2)
    assert read(tmp_path)[0].voxels.shape == (5, 9, 9)
    uid = next(d.SeriesInstanceUID for d in map(pydicom.dcmread, files(tmp_path)) if d.SeriesNumber == 1)
    for name in (uid, short_hash(uid)):
        volume, facts = read(tmp_path, name)
        np.testing.assert_array_equal(volume.voxels, small.voxels)
        assert facts.series == short_hash(uid)
    with pytest.raises(StageError, match=r"load\.series: no series .* one that is there .*: series \w{8} \(CT, number"):
        read(tmp_path, "1.2.3")


def test_two_equally_large_series_are_not_guessed_between(tmp_path):
    write(oblique(noise()), tmp_path, 1)
    write(oblique(noise()), tmp_path, 2)
    with pytest.raises(StageError, match=r"2 series have the most voxels \(1122\).*name one in load\.series"):
        read(tmp_path)


def test_rescaling_is_that_of_each_slice(series):
    expected, _ = read(series)

    def rescale(dataset: pydicom.Dataset, k: int) -> None:
        dataset.RescaleSlope, dataset.RescaleIntercept = str(1 + k), str(-1024 * (1 + k))

    edit(series, rescale)
    volume, facts = read(series)
    np.testing.assert_array_equal(volume.voxels, expected.voxels * (1 + np.arange(SLICES))[:, None, None])
    assert facts.dtype == volume.voxels.dtype.name == "int16"


def test_intensities_that_are_no_short_integers_become_float32(series):
    expected, _ = read(series)
    edit(series, lambda dataset, k: setattr(dataset, "RescaleSlope", "0.5"))
    volume, _ = read(series)
    assert volume.voxels.dtype == np.float32
    np.testing.assert_array_equal(volume.voxels, (expected.voxels + 1024.0) * 0.5 - 1024)


def test_padding_becomes_the_smallest_measured_intensity(series):
    def pad(dataset: pydicom.Dataset, k: int) -> None:
        pixels = np.maximum(dataset.pixel_array, 900)
        pixels[:2] = 5
        dataset.PixelData = pixels.tobytes()
        dataset.add_new("PixelPaddingValue", "US", 5)

    edit(series, pad)
    volume, facts = read(series)
    assert (volume.voxels[:, :2] == 900 - 1024).all()
    assert volume.voxels.min() == 900 - 1024
    assert facts.padding_voxels == SLICES * 2 * 17


def test_padding_inside_the_measured_range_is_refused(series):
    def pad(dataset: pydicom.Dataset, k: int) -> None:
        pixels = dataset.pixel_array
        pixels[0] = 2000
        dataset.PixelData = pixels.tobytes()
        dataset.add_new("PixelPaddingValue", "US", 2000)

    edit(series, pad)
    with pytest.raises(StageError, match="the padding value 976 lies inside the range of measured intensities"):
        read(series)


def keep(count: int) -> Callable[[pydicom.Dataset, int], Any]:
    return lambda dataset, k: k < count


def remove(*keywords: str, only: int | None = None) -> Callable[[pydicom.Dataset, int], Any]:
    def change(dataset: pydicom.Dataset, k: int) -> None:
        for keyword in keywords:
            if only in (None, k):
                delattr(dataset, keyword)

    return change


def enhanced(dataset: pydicom.Dataset, k: int) -> None:
    dataset.SOPClassUID = dataset.file_meta.MediaStorageSOPClassUID = EnhancedCTImageStorage
    dataset.NumberOfFrames = 1


def compressed(dataset: pydicom.Dataset, k: int) -> None:
    dataset.PixelData = pydicom.encaps.encapsulate([b"\xff\xd8\xff\xd9"])
    dataset["PixelData"].VR = "OB"
    dataset.file_meta.TransferSyntaxUID = MPEG2MPML


def narrower(dataset: pydicom.Dataset, k: int) -> None:
    if k == 2:
        dataset.Columns, dataset.PixelData = 16, dataset.pixel_array[:, :16].tobytes()


FAULTS = {
    "gap": (lambda d, k: k != 3, r"1 slice is missing: the step from slice 3 to slice 4 .* is 1\.6 mm .* is 0\.8 mm"),
    "two gaps": (lambda d, k: k not in (1, 4), r"2 slices are missing"),
    "duplicate position": (
        lambda d, k: shift(d, normal=-0.8) if k == 4 else None,
        r"6 slices lie at 5 places along the normal",
    ),
    "two phases": (
        lambda d, k: shift(d, normal=-0.8 * (k % 2)),
        r"6 slices lie at 3 places along the normal \(2 at each: several phases or echoes\?\)",
    ),
    "uneven": (
        lambda d, k: shift(d, normal=0.1 * (k == 2)),
        r"slice positions step 0\.7 to 0\.9 mm, up to 0\.1 mm off",
    ),
    "drift": (lambda d, k: shift(d, normal=0.004 * k**2), r"slice positions step 0\.804 to 0\.836 mm"),
    "mixed orientation": (
        put(only=2, ImageOrientationPatient=[1, 0, 0, 0, 1, 0]),
        r"holds 2 parts .*none of them forms a volume: 1: orientation 1 \(5 slices\): 1 slice is missing.*"
        r" 2: orientation 2 \(1 slice\): only 1 slice",
    ),
    "tilt": (
        lambda d, k: shift(d, row=0.2 * k),
        r"shifted within their plane by up to 1 mm \(limit 0\.035 mm\), as by a gantry tilted by 14\.0 degrees",
    ),
    "not orthonormal": (put(ImageOrientationPatient=[1, 0, 0, 0.1, 1, 0]), r"not orthonormal \(error 0\.1"),
    "two slices": (keep(2), r"only 2 slices; at least 3 are needed"),
    "one slice": (keep(1), r"only 1 slice; at least 3 are needed"),
    "no position": (
        remove("ImagePositionPatient", only=3),
        r"missing geometry: 1 of 6 slices lack ImagePositionPatient",
    ),
    "no place at all": (
        remove("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing"),
        r"6 of 6 slices lack ImagePositionPatient, 6 of 6 .* lack ImageOrientationPatient, 6 of 6 .* lack PixelSpacing",
    ),
    "spacing of pixels": (put(only=1, PixelSpacing=[0.5, 0.36]), r"pixel spacing from 0\.35 to 0\.5 mm in one series"),
    "sizes": (narrower, r"slices of several sizes: 5 of 17x11, 1 of 16x11"),
    "enhanced": (enhanced, r"is an Enhanced CT multi-frame image of 1 frames without functional groups"),
    "multi-frame": (put(NumberOfFrames=4), r"a multi-frame image of 4 frames"),
    "colour": (put(SamplesPerPixel=3, PhotometricInterpretation="RGB"), r"3 samples a pixel: a colour picture"),
    "monochrome 1": (put(PhotometricInterpretation="MONOCHROME1"), r"photometric interpretation MONOCHROME1"),
    "no HU": (remove("RescaleSlope"), r"RescaleSlope or RescaleIntercept is missing in file \d of the folder"),
    "slope 0": (put(RescaleSlope="0"), r"rescale slope 0\.0"),
    "projection": (
        lambda d, k: (remove("ImagePositionPatient")(d, k), put(Modality="XA")(d, k))[0],
        r"an X-ray projection \(XA without slice positions\)",
    ),
    "localizers only": (put(ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"]), r"localizer images only"),
    "other modality": (put(Modality="US"), r"no CT, MR or XA image among 6 files \(skipped: 6 modality US\)"),
    "no decoder": (compressed, r"MPEG2 Main Profile / Main Level .*2\.4\.100\): there is no decoder"),
    "truncated": (
        truncate,
        r"the pixels of file \d of the folder \(by name\) are missing, truncated or cannot be decoded",
    ),
    "one instance, two images": (put(SOPInstanceUID="1.2.3"), r"claim to be the same image but differ"),
    "all padding": (
        lambda d, k: (d.add_new("PixelPaddingValue", "US", 0), put(PixelData=bytes(2 * 17 * 11))(d, k))[1],
        r"every pixel is padding",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_refused_by_its_name(fault, series):
    change, expected = FAULTS[fault]
    edit(series, change)
    with pytest.raises(StageError, match=expected) as refusal:
        read(series)
    assert str(series) not in str(refusal.value)


def test_small_deviations_of_real_headers_are_accepted(series):
    """Four decimals in the direction cosines, hundredths of a millimetre in the positions."""
    expected, _ = read(series)

    def round_off(dataset: pydicom.Dataset, k: int) -> None:
        shift(dataset, normal=0.004 * (-1) ** k, row=0.003 * (k % 3))
        dataset.ImageOrientationPatient = [f"{float(value):.4f}" for value in dataset.ImageOrientationPatient]

    edit(series, round_off)
    volume, _ = read(series)
    np.testing.assert_array_equal(volume.voxels, expected.voxels)
    np.testing.assert_allclose(volume.direction, expected.direction, atol=1e-4)
    assert np.linalg.det(volume.direction) == pytest.approx(1, abs=1e-12)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(StageError, match=r"no CT, MR or XA image among 0 files"):
        read(tmp_path)


@pytest.mark.parametrize("place", ["pipeline.dicom.header.read_header", "pathlib.Path.is_file"])
def test_what_may_not_be_read_is_refused_without_its_name(place, series, monkeypatch):
    def refuse(path: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(place, refuse)
    with pytest.raises(StageError, match=r"cannot be read \(Permission denied\)") as refusal:
        read(series)
    assert str(series) not in str(refusal.value)


@pytest.mark.parametrize("suffix", ["nrrd", "nii.gz", "mha"])
def test_a_volume_file_is_read_as_it_is(suffix, tmp_path):
    written = oblique(noise())
    written.write(tmp_path / f"a.{suffix}")
    volume, facts = read(tmp_path / f"a.{suffix}")
    np.testing.assert_array_equal(volume.voxels, written.voxels)
    np.testing.assert_allclose(volume.direction, written.direction, atol=1e-6)  # NIfTI keeps float32
    np.testing.assert_allclose(volume.to_mm([3, 4, 5]), written.to_mm([3, 4, 5]), atol=1e-4)
    assert facts.source == "volume"
    assert facts.modality is None


def test_a_volume_file_that_is_not_trustworthy_is_refused(tmp_path):
    image = noise().astype(np.float32)
    image[1, 2, 3:5] = np.nan
    oblique(image).write(tmp_path / "nan.nrrd")
    with pytest.raises(StageError, match=r"2 of 1122 values \(float32\) are NaN or infinite"):
        read(tmp_path / "nan.nrrd")
    oblique(noise((2, 9, 9))).write(tmp_path / "thin.nrrd")
    with pytest.raises(StageError, match="smallest extent: 2 voxels"):
        read(tmp_path / "thin.nrrd")
    (tmp_path / "text.nrrd").write_text("no image")
    with pytest.raises(StageError, match="volume file: NRRD: its header cannot be read") as refusal:
        read(tmp_path / "text.nrrd")
    assert "text.nrrd" not in str(refusal.value)
    (tmp_path / "picture.png").write_bytes(b"")
    with pytest.raises(StageError, match=r"no file of the kinds \.nrrd"):
        read(tmp_path / "picture.png")


def test_a_skewed_volume_file_is_refused(tmp_path):
    oblique(noise()).write(tmp_path / "a.mha")
    header, rest = (tmp_path / "a.mha").read_bytes().split(b"TransformMatrix = ", 1)
    skewed = header + b"TransformMatrix = 1 0 0 0.1 0.99 0 0 0 1" + rest[rest.index(b"\n") :]
    (tmp_path / "a.mha").write_bytes(skewed)
    with pytest.raises(StageError, match="orthonormal direction: error"):
        read(tmp_path / "a.mha")


@pytest.fixture(scope="module")
def head(real_cases) -> tuple[Volume, SeriesFacts]:
    return read(real_cases / "head-arteries-mr/dicom")


def test_real_head_arteries_load(head):
    volume, facts = head
    assert volume.voxels.shape == (120, 512, 512)
    np.testing.assert_allclose(volume.spacing_mm, (0.4102, 0.4102, 1.5), atol=1e-4)
    assert facts.modality == "MR"
    assert volume.voxels[25, 244, 192] >= 950  # the seed in the right internal carotid


def test_real_chest_without_contrast_loads(real_cases):
    volume, facts = read(real_cases / "negative-chest-ct/dicom")
    assert volume.voxels.shape == (40, 512, 512)
    np.testing.assert_allclose(volume.spacing_mm, (0.78125, 0.78125, 1.0), atol=1e-6)
    assert not facts.contrast_agent_recorded
    assert facts.frames_of_reference == 40  # as this export has it; the positions agree all the same


ODDITIES = {
    "r03-gantry-tilt-14deg-4slices": r"gantry tilted by 14\.0 degrees",
    "r04-same-position-slices": r"only 2 slices.*2 slices lie at 1 place",
    "r05-only-two-slices": r"only 2 slices; at least 3",
    "r06-missing-slice-5-5-10mm": r"1 slice is missing: the step from slice 3 to slice 4 .* is 10 mm .* is 5 mm",
    "r07-missing-slice-oblique": r"gantry tilted by 15\.5 degrees.*1 slice is missing",
}


@pytest.mark.parametrize("name", ODDITIES)
def test_odd_real_series_are_refused_with_the_reason(name, real_cases):
    with pytest.raises(StageError, match=ODDITIES[name]):
        read(real_cases / f"dicom-oddities/{name}")


def truth_of(path: Path) -> Volume:
    return Volume.from_sitk(sitk.ReadImage(str(path)))


@pytest.mark.parametrize(
    ("source", "truth"),
    [
        ("r09-compressed-series-with-truth/j2k", "r09-compressed-series-with-truth/j2k.truth.nii.gz"),
        ("r09-compressed-series-with-truth/rle", "r09-compressed-series-with-truth/rle.truth.nii.gz"),
        ("r10-non-isotropic-pixels-4.0x6.4", "r10-non-isotropic-pixels-4.0x6.4.truth.nii.gz"),
    ],
)
def test_odd_real_series_agree_with_their_truth(source, truth, real_cases):
    volume, _ = read(real_cases / f"dicom-oddities/{source}")
    expected = truth_of(real_cases / f"dicom-oddities/{truth}")
    assert sorted(volume.spacing_mm) == pytest.approx(sorted(expected.spacing_mm), abs=1e-3)
    z, y, x = np.meshgrid(*(np.arange(n) for n in volume.voxels.shape), indexing="ij")
    at = expected.to_index(volume.to_mm(np.stack([x, y, z], axis=-1)))
    np.testing.assert_allclose(at, at.round(), atol=0.02)  # voxel centres on voxel centres
    i, j, k = np.moveaxis(at.round().astype(int), -1, 0)
    np.testing.assert_allclose(volume.voxels, expected.voxels[k, j, i], rtol=1e-5, atol=0.5)


MULTI_FRAME = {"BRMULTI.dcm", "mf.dcm", "DICOMDIR"}  # single files that hold a volume, or name one


def test_no_odd_folder_or_file_ends_in_a_traceback(real_cases, tmp_path):
    """Each folder by itself, and each file by itself, is either loaded or refused with a reason."""
    root = real_cases / "dicom-oddities"
    for folder in [root, *sorted(path for path in root.rglob("*") if path.is_dir())]:
        try:
            volume, _ = read(folder)
        except StageError as refusal:
            assert str(root) not in str(refusal)
        else:
            assert volume.voxels.shape[0] >= 3
    for number, file in enumerate(path for path in sorted(root.rglob("*")) if path.is_file()):
        alone = tmp_path / str(number)
        alone.mkdir()
        (alone / file.name).symlink_to(file)
        for source in (alone, alone / file.name):
            try:
                volume, facts = read(source)
            except StageError as refusal:
                assert file.name.replace("DICOMDIR", str(root)) not in str(refusal)
            else:
                assert volume.voxels.shape[0] >= 3
                assert facts.source == "volume" or file.name in MULTI_FRAME
