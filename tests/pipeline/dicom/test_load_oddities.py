# SPDX-License-Identifier: Apache-2.0
"""Real odd files: what loading makes of each is stated here by name; none is read wrongly, none ends in a traceback.

``real_cases / "dicom-oddities"``; its README.txt and MANIFEST.csv say where each file is from. Single slices are judged
in a stack of three copies, as a slice alone is always refused.
"""

import logging
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pydicom
import pytest
from pydicom.pixels import pixel_array
from scipy.ndimage import map_coordinates

from pipeline.case.settings.images import LoadSettings
from pipeline.files.volume import Volume
from pipeline.stages.load import SeriesFacts, load
from solver.runtime.errors import StageError
from tests.support.real_cases import RealCases

LOG = logging.getLogger("test")
RESAMPLE = LoadSettings(gantry_tilt="resample", missing_slices="resample")

ONE_SLICE = "only 1 slice; at least 3 are needed"
NOT_DICOM = "the source is no folder, no DICOM, DICOMDIR or ZIP file, and no file of the kinds"
NO_GEOMETRY = "missing geometry: 1 of 1 slices lack ImagePositionPatient, 1 of 1 slices lack ImageOrientationPatient"
WITHOUT_GROUPS = "multi-frame image of 10 frames without functional groups"
PADDING = "padding value -3024 lies inside the range of measured intensities"


def skipped(reason: str) -> str:
    return rf"no CT, MR or XA image among \d+ files \(skipped: {reason}\)"


FOLDERS: dict[str, str | tuple[int, int, int]] = {
    "r01-transfer-syntax-nema-ct1": ONE_SLICE,  # copies of one slice, in nine encodings
    "r02-transfer-syntax-ctimage": ONE_SLICE,
    "r03-gantry-tilt-14deg-4slices": r"tilted by 14\.0 degrees; load\.gantry_tilt: resample",
    "r04-same-position-slices": r"only 2 slices; .*2 slices lie at 1 place along the normal \(2 at each",
    "r05-only-two-slices": "only 2 slices; at least 3 are needed",
    "r06-missing-slice-5-5-10mm": r"1 slice is missing: .* is 10 mm where the spacing is 5 mm; load\.missing_slices",
    "r07-missing-slice-oblique": r"tilted by 15\.5 degrees; load\.gantry_tilt.*1 slice is missing",
    "r09-compressed-series-with-truth": (256, 256, 4),  # the same slices in four encodings
    "r09-compressed-series-with-truth/j2k": (256, 256, 4),
    "r09-compressed-series-with-truth/jpeg": (256, 256, 4),
    "r09-compressed-series-with-truth/jpegls": (256, 256, 4),
    "r09-compressed-series-with-truth/rle": (256, 256, 4),
    "r10-non-isotropic-pixels-4.0x6.4": (64, 28, 4),
    "r12-enhanced-multiframe": "holds 4 parts that could be meant; name one in load.phase",
    "r13-dicomdir-tree": (16, 16, 5),
    "r13-dicomdir-tree/77654033": r"two neighbouring slices are 202\.5 mm apart",
    "r13-dicomdir-tree/98892001/CT2N": "localizer images only",
    "r13-dicomdir-tree/98892003": "6 series have the most voxels .* name one in load.series",
    "r13-dicomdir-tree/98892003/MR700": "projections or renderings of a volume",
    "r13-dicomdir-tree/TINY_ALPHA": skipped("1 directory of a medium, 50 no image, 1 not DICOM"),
    "r14-person-name-charsets": skipped("3 modality CR, 12 modality OT, 2 no image, 1 not DICOM"),
    "r15-corrupt-or-headless": r"3 files could be slices of it \(.*: damaged header, .*: no image, .*: not DICOM\)",
    "r16-no-geometry-or-not-ct": NO_GEOMETRY,
    "r17-signed-and-small": ONE_SLICE,
    "r18-ct-multiframe-seg-24x38x3": "2 series have the most voxels",  # the image, and the same as one file
    "r18-ct-multiframe-seg-24x38x3/image": (24, 38, 3),
    "r18-ct-multiframe-seg-24x38x3/multiframe": (24, 38, 3),
    "r18-ct-multiframe-seg-24x38x3/seg": skipped("1 modality SEG"),
}
"""What a folder gives with the default settings: the matrix, or why it is refused."""

FILES: dict[str, str | tuple[int, int, int]] = {
    "r01*": ONE_SLICE,
    "r02*": ONE_SLICE,
    "r0[345679]*.dcm": ONE_SLICE,
    "r09*.nii.gz": (256, 256, 4),
    "r10*.nii.gz": (64, 28, 4),
    "r10*.dcm": ONE_SLICE,
    "r12*/BRMULTI.dcm": "holds 4 parts that could be meant",
    "r12*/CT0012*": "a map of a calculated quantity",
    "r12*/eCT_Supplemental.dcm": "a map of a calculated quantity",
    "r12*/emri_small.dcm": WITHOUT_GROUPS,
    "r13*/DICOMDIR-empty.dcm": "the DICOMDIR names no file",
    "r13*/TINY_ALPHA/DICOMDIR": skipped("50 no image"),
    "r13*/DICOMDIR*": (16, 16, 5),
    "r13*/TINY_ALPHA/PT*": skipped("1 no image"),
    "r13*/README*": NOT_DICOM,
    "r13*/CR?/*": skipped("1 modality CR"),
    "r13*/CT2/*": ONE_SLICE,
    "r13*/CT5N/*": ONE_SLICE,
    "r13*/CT2N/*": "localizer images only",
    "r13*/MR700/*": "projections or renderings of a volume",
    "r13*/MR[12]/*": "only 1 slice|localizer images only",
    "r14*/FileInfo.txt": NOT_DICOM,
    "r14*/chrSQ*": skipped("1 no image"),
    "r14*/chr*Multi*": skipped("1 modality (CR|OT)"),
    "r14*/chr*": skipped("1 modality OT"),
    "r15*/*NoMeta.dcm": NOT_DICOM,
    "r15*/no_meta.dcm": NOT_DICOM,
    "r15*/zipMR.gz": NOT_DICOM,
    "r15*/GH177*": skipped("1 damaged header"),
    "r15*/J2K_pixelrep*": ONE_SLICE,
    "r15*/JPEG2000-embedded*": skipped("1 modality NM"),
    "r15*/MR_truncated.dcm": ONE_SLICE,
    "r15*/badVR.dcm": skipped("1 modality RTDOSE"),
    "r15*/emri_small_jpeg*": WITHOUT_GROUPS,
    "r15*/image_dfl.dcm": skipped("1 modality OT"),
    "r15*/meta_missing*": skipped("1 no image"),
    "r15*/rtplan_truncated.dcm": skipped("1 no image"),
    "r16*/CT-MONO2*": NO_GEOMETRY,
    "r16*/CT-without-pixel*": "projections or renderings of a volume",
    "r16*/SC_rgb*": skipped("1 modality OT"),
    "r16*/examples_rgb*": skipped("1 modality US"),
    "r16*/rtstruct.dcm": NOT_DICOM,
    "r16*/test-SR.dcm": skipped("1 no image"),
    "r17*": ONE_SLICE,
    "r18*/image/*.dcm": ONE_SLICE,
    "r18*/mf.dcm": (24, 38, 3),
    "r18*/*.nrrd": "2 different values, 0 to 1: labels, no intensities",
    "r18*/*.seg": skipped("1 modality SEG"),
    "r18*/README*": NOT_DICOM,
    "r18*/*.md": NOT_DICOM,
    "r18*/screenshots/*": NOT_DICOM,
    "r18*/*.json": NOT_DICOM,
}
"""What a file gives when it is the source; the first pattern that fits counts."""

COPIES: dict[str, str | float] = {
    "r01*/CT1_UNC": 0,
    "r01*/CT1_J2KI": PADDING,  # lossy: padding is no longer one value
    "r01*/CT1_JLSN": PADDING,
    "r01*/*": 0,
    "r02*.4.50.dcm": 65,  # lossy, 8 bits for 4402 HU: 17 HU a step
    "r02*.4.5[135].dcm": 36,  # lossy
    "r02*": 0,
    "r15*/J2K_pixelrep*": 0,
    "r15*/MR_truncated.dcm": "missing, truncated or cannot be decoded",
    "r17*/693_J2KI.dcm": PADDING,
    "r17*/MR_small_padded.dcm": "its pixels have 8320 bytes where its header asks for 8192",
    "r17*/CT_small.dcm": 0,
    "r17*": 0,
}
"""Largest difference in HU from the same slice uncompressed, in a stack of three copies, or why that is refused."""

ORIGINALS = {
    "r01": "r01-transfer-syntax-nema-ct1/CT1_UNC",
    "r02": "r02-transfer-syntax-ctimage/CTImage.dcm_LittleEndianImplicitTransferSyntax_1.2.840.10008.1.2.dcm",
    "r17": "r17-signed-and-small/MR_small.dcm",
}
"""The same slice as others of its folder, uncompressed."""


@pytest.fixture(scope="module")
def odd(real_cases) -> RealCases:
    return RealCases(real_cases / "dicom-oddities")


def names_in(folder: Path, root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in folder.rglob("*") if path.is_file())


def outcome(table: dict[str, object], name: str) -> object:
    return next((expected for pattern, expected in table.items() if fnmatch(name, pattern)), None)


def judge(source: Path, expected: str | tuple[int, int, int]) -> None:
    if isinstance(expected, tuple):
        assert load(source, LoadSettings(), LOG)[1].matrix == expected
        return
    with pytest.raises(StageError, match=expected) as refusal:
        load(source, LoadSettings(), LOG)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", FOLDERS)
def test_each_folder_is_read_or_refused_as_stated(name, odd):
    judge(odd / name, FOLDERS[name])


@pytest.mark.parametrize("folder", sorted(name for name in FOLDERS if "/" not in name))
def test_each_file_is_read_or_refused_as_stated(folder, odd):
    names = names_in(odd / folder, odd.root)
    assert names
    assert [name for name in names if outcome(FILES, name) is None] == []
    for name in names:
        judge(odd / name, outcome(FILES, name))


def three_copies(file: Path, folder: Path) -> Path:
    """The slice at three places, 1 mm apart; its pixels untouched."""
    for k in range(3):
        dataset = pydicom.dcmread(file)
        x, y = np.array(dataset.ImageOrientationPatient, float).reshape(2, 3)
        place = np.array(dataset.ImagePositionPatient, float) + k * np.cross(x, y)
        dataset.ImagePositionPatient = [f"{number:.10g}" for number in place]
        dataset.SOPInstanceUID = dataset.file_meta.MediaStorageSOPInstanceUID = f"1.2.3.{k}"
        dataset.save_as(folder / str(k))
    return folder


def stored(file: Path) -> np.ndarray:
    """Intensities of an uncompressed slice, from its bytes, with padding as the smallest other one."""
    dataset = pydicom.dcmread(file)
    raw = np.frombuffer(dataset.PixelData, "<i2").reshape(dataset.Rows, dataset.Columns)
    values = raw * float(dataset.get("RescaleSlope", 1)) + float(dataset.get("RescaleIntercept", 0))
    if "PixelPaddingValue" in dataset:
        padded = raw == np.uint16(dataset["PixelPaddingValue"].value & 0xFFFF).astype(np.int16)
        values[padded] = values[~padded].min()
    return values


@pytest.mark.parametrize(
    ("folder", "number"),
    [
        ("r01-transfer-syntax-nema-ct1", 9),
        ("r02-transfer-syntax-ctimage", 8),
        ("r15-corrupt-or-headless", 2),
        ("r17-signed-and-small", 10),
    ],
)
def test_single_slices_are_read_bit_for_bit_in_each_encoding(folder, number, odd, tmp_path_factory):
    judged = [name for name in names_in(odd / folder, odd.root) if outcome(COPIES, name) is not None]
    assert len(judged) == number
    for name in judged:
        folder = three_copies(odd / name, tmp_path_factory.mktemp("copies"))
        expected = outcome(COPIES, name)
        if isinstance(expected, str):
            with pytest.raises(StageError, match=expected):
                load(folder, LoadSettings(), LOG)
            continue
        volume, facts = load(folder, LoadSettings(), LOG)
        reference = pixels_of(odd, name)
        assert np.abs(volume.voxels - reference).max() <= expected, name
        assert facts.lossy == (expected > 0)


def pixels_of(odd: RealCases, name: str) -> np.ndarray:
    """What a slice must be: the uncompressed original's bytes, or what another library decodes."""
    if name.startswith("r15") or name.endswith("CT_small.dcm"):
        dataset = pydicom.dcmread(odd / name)
        plane = pixel_array(dataset) * float(dataset.RescaleSlope) + float(dataset.RescaleIntercept)
        return np.broadcast_to(plane, (3, *plane.shape))
    plane = stored(odd / ORIGINALS[name[:3]])
    return np.broadcast_to(plane, (3, *plane.shape))


@pytest.mark.parametrize(
    ("series", "truth"),
    [
        *((f"r09-compressed-series-with-truth/{each}",) * 2 for each in ("j2k", "jpeg", "jpegls", "rle")),
        ("r10-non-isotropic-pixels-4.0x6.4",) * 2,
    ],
)
def test_a_series_agrees_with_its_truth_at_the_places_of_the_patient(series, truth, odd):
    volume, _ = load(odd / series, LoadSettings(), LOG)
    reference = Volume.read(odd / f"{truth}.truth.nii.gz")
    index = reference.to_index(volume.to_mm(np.stack(np.indices(volume.voxels.shape)[::-1], axis=-1)))
    x, y, z = np.moveaxis(np.rint(index).astype(int), -1, 0)
    np.testing.assert_allclose(index, np.stack([x, y, z], axis=-1), atol=1e-4)  # NIfTI keeps float32
    # float32 of values up to 100
    np.testing.assert_allclose(volume.voxels, reference.voxels[z, y, x], atol=1e-5)


def original_slices(folder: Path) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Pixels, first position and spacing of slices, sorted along the normal, straight from their headers."""
    found = []
    for path in folder.glob("*.dcm"):
        each = pydicom.dcmread(path)
        pixels = each.pixel_array * float(each.RescaleSlope) + float(each.RescaleIntercept)
        found.append((pixels, np.array(each.ImagePositionPatient, float), np.array(each.PixelSpacing, float)))
        axes = np.array(each.ImageOrientationPatient, float).reshape(2, 3)
    normal = np.cross(*axes)
    return sorted(((*slice_, axes) for slice_ in found), key=lambda slice_: slice_[1] @ normal)


def sampled(slice_: tuple[np.ndarray, ...], points_mm: np.ndarray) -> np.ndarray:
    """A slice at places seen along its normal, bilinear; NaN outside of its pixel centres. A thousandth of a pixel, by
    which decimals of the header move places, counts as nothing.
    """
    pixels, corner, spacing, axes = slice_
    column_row = (points_mm - corner) @ axes.T / spacing[::-1]
    nearest = np.rint(column_row)
    column_row = np.where(np.abs(column_row - nearest) < 1e-3, nearest, column_row)
    return map_coordinates(pixels, np.moveaxis(column_row[..., ::-1], -1, 0), order=1, cval=np.nan)


@pytest.mark.parametrize(
    ("name", "tilt_deg", "between"),
    [
        ("r03-gantry-tilt-14deg-4slices", 14.0, None),
        ("r06-missing-slice-5-5-10mm", 0.0, 3),
        ("r07-missing-slice-oblique", 15.5, 3),
    ],
)
def test_tilt_and_gaps_of_real_series_are_resampled_to_what_their_headers_say(name, tilt_deg, between, odd):
    """Against an interpolation of each slice at the places of the volume; the missing slice is the mean of two."""
    volume, facts = load(odd / name, RESAMPLE, LOG)
    originals = original_slices(odd / name)
    points = volume.to_mm(np.stack(np.indices(volume.voxels.shape)[::-1], axis=-1))
    numbers = list(range(len(originals)))
    if between is not None:
        numbers.insert(between, -1)
    assert len(volume.voxels) == len(numbers)
    for k, number in enumerate(numbers):
        if number >= 0:
            expected = sampled(originals[number], points[k])
        else:
            expected = (sampled(originals[between - 1], points[k]) + sampled(originals[between], points[k])) / 2
        inside = np.isfinite(expected)
        assert inside.mean() > 0.97
        # float32 weights, times a range of 254; the measured slices of r06 lie up to 2e-6 mm off their even places
        np.testing.assert_allclose(volume.voxels[k][inside], expected[inside], atol=1e-3)
        assert (volume.voxels[k][~inside] == volume.voxels.min()).all()
    assert facts.policies["missing_slices"]["needed"] == (between is not None)
    assert facts.policies["gantry_tilt"].get("tilt_deg", 0) == pytest.approx(tilt_deg, abs=0.05)


def test_the_stacks_of_an_enhanced_image_are_kept_apart(odd):
    """Twelve frames: T2; T1 before and after contrast agent; and sagittal ones."""
    file = odd / "r12-enhanced-multiframe/BRMULTI.dcm"
    frames = pixel_array(file)
    # the sagittal ones step along their normal (x cross -z = y), the others along z
    for number, wanted in ((1, [6, 7, 8]), (2, [4, 5, 3]), (3, [0, 1, 2]), (4, [9, 10, 11])):
        volume, _ = load(file, LoadSettings(phase=number), LOG)
        np.testing.assert_allclose(volume.spacing_mm, (0.78125, 0.78125, 7.5), atol=1e-4)
        np.testing.assert_array_equal(volume.voxels, frames[wanted])


def same(first: tuple[Volume, SeriesFacts], second: tuple[Volume, SeriesFacts]) -> None:
    np.testing.assert_array_equal(first[0].voxels, second[0].voxels)
    np.testing.assert_allclose(first[0].to_mm([1, 2, 3]), second[0].to_mm([1, 2, 3]), atol=1e-3)
    np.testing.assert_allclose(first[0].spacing_mm, second[0].spacing_mm, atol=1e-6)


def test_a_dicomdir_leads_to_the_series_in_each_of_its_encodings(odd):
    tree = odd / "r13-dicomdir-tree"
    series = load(tree / "98892001" / "CT5N", LoadSettings(), LOG)
    for name in ("DICOMDIR", "DICOMDIR-bigEnd", "DICOMDIR-implicit", "DICOMDIR-nooffset", "DICOMDIR-reordered"):
        same(load(tree / name, LoadSettings(), LOG), series)


def test_files_one_file_and_a_volume_file_of_one_image_agree(odd):
    folder = odd / "r18-ct-multiframe-seg-24x38x3"
    series = load(folder / "image", LoadSettings(), LOG)
    same(load(folder / "multiframe", LoadSettings(), LOG), series)
