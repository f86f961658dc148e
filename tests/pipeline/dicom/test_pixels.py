# SPDX-License-Identifier: Apache-2.0
"""Stored values come back bit for bit through every lossless transfer syntax, or are refused."""

import tempfile
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pydicom
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydicom import uid

from pipeline.files.volume import Volume
from solver.runtime.errors import StageError
from tests.support.dicom_files import edit, noise, oblique, read, write
from tests.support.dicom_writer import LOSSLESS, decimals, enhanced, save, store

SHAPE = (3, 40, 48)
COMPRESSED = {"RLE", "JPEG lossless", "JPEG lossless, first-order", "JPEG-LS", "JPEG 2000"}


def series(folder: Path, cells: np.ndarray, syntax: str = "explicit", **stored) -> None:
    """A CT series of slices with these cells; what is stored of them is told as to `store`."""
    write(oblique(np.zeros(cells.shape, np.int16)), folder)
    paths = [path for path in folder.rglob("*") if path.is_file()]
    datasets = sorted(((pydicom.dcmread(path), path) for path in paths), key=lambda pair: -pair[0].InstanceNumber)
    for (dataset, path), plane in zip(datasets, cells, strict=True):
        more = dict(stored)
        dataset.RescaleSlope, dataset.RescaleIntercept = map(str, more.pop("rescale", (1, 0)))
        extra = more.pop("extra", {})
        store(dataset, plane, **more)
        for tag, (vr, value) in extra.items():
            dataset.add_new(tag, vr, value)
        save(dataset, path, LOSSLESS[syntax])


def patches(rng: np.random.Generator, least: int, most: int) -> np.ndarray:
    """Values of the whole range in patches: encoders fail where noise makes them write more than they read."""
    return rng.integers(least, most, (3, 5, 6), endpoint=True).repeat(8, axis=1).repeat(8, axis=2)


@st.composite
def pixels(draw) -> tuple[np.ndarray, np.ndarray, dict, str]:
    """Values, the cells that hold them, and how."""
    syntax = draw(st.sampled_from(sorted(LOSSLESS)))
    allocated = draw(st.sampled_from([8, 16] if syntax in COMPRESSED else [8, 16, 32]))
    stored = draw(st.integers(2, allocated))
    signed = draw(st.booleans())
    raw = syntax not in COMPRESSED or syntax == "RLE"
    low = draw(st.integers(0, allocated - stored)) if raw else 0
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    least, most = (-(2 ** (stored - 1)), 2 ** (stored - 1) - 1) if signed else (0, 2**stored - 1)
    values = patches(rng, least, most)
    extend = signed and draw(st.booleans())  # the sign repeated in the bits above, or zeros there
    field = values << low if extend else (values & (2**stored - 1)) << low
    cells = (field & (2**allocated - 1)).astype(f"u{allocated // 8}")
    slope = draw(st.sampled_from([1.0, 2.0, 0.5, 0.123, -1.0]))
    intercept = draw(st.sampled_from([0.0, -1024.0, 0.25]))
    return (
        values,
        cells,
        {"bits_stored": stored, "signed": signed, "high_bit": low + stored - 1, "rescale": (slope, intercept)},
        syntax,
    )


@given(pixels())
@settings(max_examples=80, deadline=None)
def test_values_come_back_whatever_their_bits_sign_and_transfer_syntax(case):
    values, cells, how, syntax = case
    with tempfile.TemporaryDirectory() as folder:
        series(Path(folder), cells, syntax, **how)
        volume, facts = read(Path(folder))
    slope, intercept = how["rescale"]
    truth = values * slope + intercept
    whole = np.array_equal(truth, np.rint(truth)) and truth.min() >= -32768 and truth.max() <= 32767
    assert volume.voxels.dtype == (np.int16 if whole else np.float32)
    np.testing.assert_array_equal(volume.voxels, truth.astype(volume.voxels.dtype))
    assert LOSSLESS[syntax] in facts.transfer_syntaxes[0]
    assert facts.lossy is False


@pytest.mark.parametrize("syntax", LOSSLESS)
def test_frames_come_back_through_every_transfer_syntax(syntax, tmp_path):
    cells = np.random.default_rng(2).integers(0, 4096, (7, 5, 6)).repeat(8, axis=1).repeat(8, axis=2).astype(np.uint16)
    grid = oblique(cells)
    save(enhanced(cells, grid), tmp_path / "a", LOSSLESS[syntax])
    volume, _ = read(tmp_path)
    np.testing.assert_array_equal(volume.voxels, cells.astype(int) - 1024)
    np.testing.assert_allclose(volume.to_mm([40, 30, 6]), grid.to_mm([40, 30, 6]), atol=1e-9)


def test_overlays_in_unused_bits_are_no_intensities(tmp_path):
    values = np.random.default_rng(3).integers(0, 4096, SHAPE)
    overlay = np.random.default_rng(4).integers(0, 2, SHAPE)
    said = {0x60000100: ("US", 16), 0x60000102: ("US", 13)}
    series(tmp_path, (values | overlay << 13).astype(np.uint16), bits_stored=12, extra=said)
    np.testing.assert_array_equal(read(tmp_path)[0].voxels, values)


@pytest.mark.parametrize(("signed", "cell"), [(False, 5000), (False, 0xF830), (True, 0x0BB8 | 0x1000), (True, 0xF448)])
def test_unused_bits_that_nobody_explains_are_refused(signed, cell, tmp_path):
    """Values beyond BitsStored would come back wrapped around."""
    cells = np.full(SHAPE, 40, np.uint16)
    cells[1, 2, 3] = cell
    series(tmp_path, cells, bits_stored=12, signed=signed)
    with pytest.raises(StageError, match="bits beside the 12 stored ones are set, and nothing says why"):
        read(tmp_path)


@pytest.mark.parametrize(("vr", "written"), [("SS", -2000), ("US", 63536)])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("bits_stored", [12, 16])
def test_padding_is_known_however_its_sign_is_written(vr, written, signed, bits_stored, tmp_path):
    """As scanners write it: -2000 in 16 bits, even where only 12 are said to be stored."""
    cells = np.random.default_rng(5).integers(0, 2000, SHAPE).astype(np.uint16)
    cells[:, 0] = 63536
    series(tmp_path, cells, bits_stored=bits_stored, signed=signed, extra={0x00280120: (vr, written)})
    volume, facts = read(tmp_path)
    assert facts.padding_voxels == SHAPE[0] * SHAPE[2]
    np.testing.assert_array_equal(volume.voxels[:, 1:], cells[:, 1:])
    assert (volume.voxels[:, 0] == cells[:, 1:].min()).all()


def test_a_range_of_padding_is_padding(tmp_path):
    cells = np.random.default_rng(6).integers(100, 2000, SHAPE).astype(np.uint16)
    cells[:, 0, :4] = [0, 3, 9, 10]
    padding = {0x00280120: ("US", 0), 0x00280121: ("US", 10)}
    series(tmp_path, cells, bits_stored=16, extra=padding)
    assert read(tmp_path)[1].padding_voxels == 4 * SHAPE[0]


@pytest.mark.parametrize("syntax", LOSSLESS)
@pytest.mark.parametrize("keyword", ["Rows", "Columns"])
@pytest.mark.parametrize("change", [-1, 1])
def test_a_size_that_the_pixels_do_not_have_is_refused(syntax, keyword, change, tmp_path):
    """A row or column too few or too many would shear or cut the image."""
    series(tmp_path, patches(np.random.default_rng(7), 0, 4095).astype(np.uint16), syntax, bits_stored=12)
    edit(tmp_path, lambda dataset, k: setattr(dataset, keyword, dataset[keyword].value + change))
    with pytest.raises(StageError, match=r"truncated|asks for|its header says|cannot be decoded"):
        read(tmp_path)


def flipped_sign(dataset: pydicom.Dataset, k: int) -> None:
    dataset.PixelRepresentation = 1 - dataset.PixelRepresentation


@pytest.mark.parametrize("signed", [True, False])
def test_a_sign_on_which_header_and_codestream_disagree_is_refused_or_certain(signed, tmp_path):
    ramp = np.broadcast_to(np.linspace(-1500, 1500, 48).astype(np.int16), SHAPE)
    cells = (ramp if signed else ramp + 2048).astype(np.uint16) & 0x0FFF
    series(tmp_path, cells, "JPEG 2000", bits_stored=12, signed=signed)
    edit(tmp_path, flipped_sign)
    with pytest.raises(StageError, match="not certain which is right"):
        read(tmp_path)
    series(tmp_path / "low", np.full(SHAPE, 40, np.uint16), "JPEG 2000", bits_stored=12, signed=signed)
    edit(tmp_path / "low", flipped_sign)
    assert (read(tmp_path / "low")[0].voxels == 40).all()


@pytest.mark.parametrize(("said", "lossy"), [("01", True), ("00", False), ("", True)])
def test_jpeg_2000_is_lossy_unless_its_header_says_otherwise(said, lossy, tmp_path):
    series(tmp_path, np.full(SHAPE, 9, np.uint16), "JPEG 2000", bits_stored=12)

    def relabel(dataset: pydicom.Dataset, k: int) -> None:
        dataset.file_meta.TransferSyntaxUID, dataset.LossyImageCompression = uid.JPEG2000, said

    edit(tmp_path, relabel)
    assert read(tmp_path)[1].lossy is lossy


def test_lossy_compression_is_reported(tmp_path):
    series(tmp_path, np.full(SHAPE, 9, np.uint16), bits_stored=12)
    edit(tmp_path, lambda dataset, k: setattr(dataset, "LossyImageCompression", "01"))
    assert read(tmp_path)[1].lossy is True


def test_a_large_series_takes_little_memory_beside_its_volume(tmp_path):
    """Integers stay integers: no floating-point copy of the whole volume is made."""

    write(oblique(noise((40, 128, 128))), tmp_path)
    tracemalloc.start()
    volume, _ = read(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * volume.voxels.nbytes + 40 * 128 * 128 * 2  # a few slices in float64, headers


ONE_SLICE = {
    "CT1_J2KR": 0,
    "CT1_JLSL": 0,
    "CT1_JPLL": 0,
    "CT1_RLE": 0,
    "D_CLUNIE_CT1_RLE_FRAGS.dcm": 0,
    "GH177_D_CLUNIE_CT1_IVRLE_BigEndian_ELE_undefinded_length.dcm": 0,
    "CT1_JLSN": 4,
    "CT1_J2KI": 352,
}
"""Largest difference from the uncompressed slice; the last two are lossy, JPEG-LS by at most its bound."""


def tripled(path: Path, folder: Path) -> Volume:
    """The volume of a slice three times, one above the other; loss would smear its padding."""
    folder.mkdir()
    dataset = pydicom.dcmread(path)
    dataset.pop("PixelPaddingValue", None)
    place = np.array(dataset.ImagePositionPatient, float)
    normal = np.cross(*np.array(dataset.ImageOrientationPatient, float).reshape(2, 3))
    for k in range(3):
        dataset.SOPInstanceUID = dataset.file_meta.MediaStorageSOPInstanceUID = uid.generate_uid()
        dataset.ImagePositionPatient = decimals(place + k * normal)
        dataset.save_as(folder / str(k))
    return read(folder)[0]


def test_one_real_slice_is_the_same_in_every_lossless_syntax(real_cases, tmp_path):
    root = real_cases / "dicom-oddities/r01-transfer-syntax-nema-ct1"
    expected = tripled(root / "CT1_UNC", tmp_path / "expected").voxels.astype(int)
    found = {
        name: int(np.abs(tripled(root / name, tmp_path / name).voxels.astype(int) - expected).max())
        for name in ONE_SLICE
    }
    assert Counter(found) == Counter(ONE_SLICE)


@pytest.mark.parametrize("process", ["JPEGProcess2_4", "JPEGProcess6_8", "JPEGProcess10_12"])
def test_real_extended_jpeg_of_12_bits_is_close_to_the_original(process, real_cases, tmp_path):
    root = real_cases / "dicom-oddities/r02-transfer-syntax-ctimage"
    volume = tripled(next(root.glob(f"*{process}*")), tmp_path / "lossy").voxels.astype(float)
    expected = tripled(next(root.glob("*LittleEndianImplicit*")), tmp_path / "original").voxels
    inside = expected > -1024 - 976 + 1  # the encoder clipped what lies below, padding among it
    assert np.sqrt(np.mean((volume - expected)[inside] ** 2)) < 20  # HU: the noise of the slice is larger


def test_real_jpeg_2000_with_a_wrong_sign_is_read_by_its_header(real_cases, tmp_path):
    """Its background is -2000, as that of this maker's uncompressed images."""
    volume = tripled(real_cases / "dicom-oddities/r15-corrupt-or-headless/J2K_pixelrep_mismatch.dcm", tmp_path / "a")
    assert volume.voxels[:, 0, 0].tolist() == [volume.voxels.min()] * 3
    assert volume.voxels.max() < 4000
