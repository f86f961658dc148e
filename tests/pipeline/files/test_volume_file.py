# SPDX-License-Identifier: Apache-2.0
"""Volume files are read where they say they lie, or refused where they do not say it, or say it twice."""

import struct
from pathlib import Path

import numpy as np
import pytest

from pipeline.files.volume import Volume
from pipeline.files.volume_file import read_volume_file
from solver.runtime.errors import StageError
from tests.support.dicom_files import noise, oblique, read

SPACING, OFFSET, SIZE = (0.5, 0.6, 0.7), (10.0, 20.0, 30.0), (4, 5, 6)
SFORM = np.column_stack([np.diag(SPACING), OFFSET])
SHIFTED, SHEARED = SFORM.copy(), SFORM.copy()
SHIFTED[0, 3] += 1
SHEARED[0, 1] += 0.2


def nifti(
    path: Path,
    unit: int = 2,
    qform: int = 1,
    sform: np.ndarray | None = SFORM,
    scale: float = 1.0,
    times: int | None = None,
) -> Path:
    """A NIfTI-1 file, header byte by byte; lengths are divided by the scale."""
    header = bytearray(352)
    struct.pack_into("<i", header, 0, 348)
    dimensions = (3, *SIZE, 1) if times is None else (4, *SIZE, times)
    struct.pack_into("<8h", header, 40, *dimensions, 1, 1, 1)
    struct.pack_into("<2h", header, 70, 4, 16)  # int16
    struct.pack_into("<8f", header, 76, 1, *np.divide(SPACING, scale), 1, 0, 0, 0)
    struct.pack_into("<2f", header, 108, 352, 1)
    header[123] = unit
    struct.pack_into("<2h", header, 252, qform, 0 if sform is None else 1)
    struct.pack_into("<6f", header, 256, 0, 0, 0, *np.divide(OFFSET, scale))
    if sform is not None:
        struct.pack_into("<12f", header, 280, *np.divide(sform, scale).ravel())
    header[344:348] = b"n+1\0"
    voxels = np.arange(np.prod(SIZE) * (times or 1), dtype="<i2")
    path.write_bytes(bytes(header) + voxels.tobytes())
    return path


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"unit": 10},
        {"unit": 0},
        {"sform": None},
        {"qform": 0},
        {"unit": 1, "scale": 1000.0},
        {"times": 1},
        {"unit": 3, "scale": 0.001},
    ],
)
def test_nifti_lies_where_its_header_says_in_mm(how, tmp_path):
    volume, _ = read_volume_file(nifti(tmp_path / "a.nii", **how))
    assert volume.voxels.shape == SIZE[::-1]
    index = np.array([3, 2, 5])
    expected = (np.multiply(index, SPACING) + OFFSET) * [-1, -1, 1]  # RAS to LPS
    np.testing.assert_allclose(volume.to_mm(index), expected, rtol=1e-6)
    assert volume.voxels[5, 2, 3] == 3 + 4 * (2 + 5 * 5)


REFUSED = {
    "no orientation": ({"qform": 0, "sform": None}, "neither qform nor sform is set"),
    "two places": ({"sform": SHIFTED}, "qform and sform.*disagree by up to 1 mm"),
    "two spacings": ({"sform": SFORM * [2, 2, 2, 1]}, "qform and sform, or the spacing beside them, disagree"),
    "sheared": ({"sform": SHEARED}, "disagree"),
    "sheared alone": ({"qform": 0, "sform": SHEARED}, "cannot be read|disagree"),
    "no unit of length": ({"unit": 5}, "unit of length number 5"),
    "metres that are mm": ({"unit": 1}, "largest spacing: 700 mm"),
    "four dimensions": ({"times": 2}, "4 dimensions .* save one time point"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_nifti_whose_place_is_doubtful_is_refused(fault, tmp_path):
    how, expected = REFUSED[fault]
    with pytest.raises(StageError, match=expected) as refusal:
        read_volume_file(nifti(tmp_path / "QZX.nii", **how))
    assert "QZX" not in str(refusal.value)


FIELDS = {
    "no space": (["spacings: 1 1 2"], "it has no field space"),
    "cm": (
        ["space: LPS", "space directions: (1,0,0) (0,1,0) (0,0,2)", 'space units: "cm" "cm" "cm"'],
        "space units are not mm",
    ),
    "no directions": (["space: LPS", "space origin: (0,0,0)"], "no space directions"),
}


@pytest.mark.parametrize("fault", FIELDS)
def test_nrrd_that_does_not_say_where_it_lies_is_refused(fault, tmp_path):
    fields, expected = FIELDS[fault]
    lines = ["NRRD0004", "type: short", "dimension: 3", "sizes: 5 4 3", *fields, "endian: little", "encoding: raw"]
    (tmp_path / "a.nrrd").write_bytes("\n".join([*lines, "", ""]).encode() + bytes(120))
    with pytest.raises(StageError, match=expected):
        read_volume_file(tmp_path / "a.nrrd")


def test_mha_without_spacing_is_refused(tmp_path):
    oblique(noise()).write(tmp_path / "a.mha")
    header, _, rest = (tmp_path / "a.mha").read_bytes().partition(b"ElementSpacing = ")
    (tmp_path / "a.mha").write_bytes(header + rest[rest.index(b"\n") + 1 :])
    with pytest.raises(StageError, match="no ElementSpacing"):
        read_volume_file(tmp_path / "a.mha")


@pytest.mark.parametrize("suffix", ["nrrd", "mha", "nii.gz"])
def test_left_handed_directions_keep_every_voxel_at_its_place(suffix, tmp_path):
    right = oblique(noise())
    mirrored = Volume(
        np.ascontiguousarray(right.voxels[:, :, ::-1]),
        right.spacing_mm,
        tuple(right.to_mm([right.voxels.shape[2] - 1, 0, 0]).tolist()),
        right.direction * [-1, 1, 1],
    )
    mirrored.write(tmp_path / f"a.{suffix}")
    volume, _ = read(tmp_path / f"a.{suffix}")
    assert np.linalg.det(volume.direction) == pytest.approx(-1, abs=1e-6)
    for index in ([0, 0, 0], [16, 3, 5], [7, 10, 2]):
        place = volume.to_mm(index)
        x, y, z = np.rint(right.to_index(place)).astype(int)
        np.testing.assert_allclose(right.to_mm([x, y, z]), place, atol=1e-4)  # NIfTI keeps float32
        assert volume.voxels[tuple(index[::-1])] == right.voxels[z, y, x]
