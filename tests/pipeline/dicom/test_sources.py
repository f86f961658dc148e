# SPDX-License-Identifier: Apache-2.0
"""Every source of images gives the same volume (folder, DICOMDIR, ZIP file, list of files); unsafe ones are refused."""

import json
import struct
import subprocess
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pydicom
import pytest
from pydicom import uid
from pydicom.fileset import FileSet

from solver.runtime.checksums import checksum
from solver.runtime.errors import StageError
from tests.support.command_lines import run_here
from tests.support.dicom_files import SLICES, edit, files, noise, oblique, put, read, write
from tests.support.dicom_writer import enhanced, save


@pytest.fixture
def series(tmp_path: Path) -> Path:
    write(oblique(noise()), tmp_path / "series")
    return tmp_path / "series"


def archive(folder: Path, path: Path, **more: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in files(folder):
            packed.write(file, f"a b/{file.relative_to(folder)}")
        for name, content in more.items():
            packed.writestr(name, content)
    return path


def medium(series: Path, folder: Path) -> Path:
    """The series on a medium with a DICOMDIR, as viewers write it."""
    fileset = FileSet()
    for path in files(series):
        dataset = pydicom.dcmread(path)
        dataset.StudyDate, dataset.StudyTime, dataset.StudyID = "20200101", "101010", "1"
        fileset.add(dataset)
    folder.mkdir()
    fileset.write(folder)
    return folder / "DICOMDIR"


def test_all_sources_give_the_same_volume(series, tmp_path):
    directory = medium(series, tmp_path / "medium")
    sources = {
        "folder": series,
        "DICOMDIR": directory,
        "folder with a DICOMDIR": directory.parent,
        "ZIP": archive(series, tmp_path / "x", readme=b"junk", nested=b"PK\3\4"),
        "list of files": files(series),
        "list of folders and files": [*files(series)[:2], *(path for path in series.iterdir())],
        "the same twice": [series, series, archive(series, tmp_path / "y")],
    }
    seen = {}
    for name, source in sources.items():
        volume, facts = read(source)
        np.testing.assert_array_equal(volume.voxels, noise(), err_msg=name)
        seen[name] = facts.files
    assert {facts["used"] for facts in seen.values()} == {SLICES}
    assert seen["folder with a DICOMDIR"]["skipped"] == {"directory of a medium": 1}
    assert seen["ZIP"]["skipped"] == {"not DICOM": 2}
    assert seen["list of folders and files"]["skipped"] == {"file given twice": 2}
    assert seen["the same twice"]["skipped"] == {"file given twice": SLICES, "duplicate of a slice": SLICES}


def test_a_single_enhanced_file_is_a_source(tmp_path):
    cells = np.arange(6 * 11 * 17).reshape(6, 11, 17).astype(np.uint16)
    save(enhanced(cells, oblique(cells)), tmp_path / "x.dcm")
    np.testing.assert_array_equal(read(tmp_path / "x.dcm")[0].voxels, cells.astype(int) - 1024)


def test_names_on_a_medium_may_have_changed_their_case(series, tmp_path):
    directory = medium(series, tmp_path / "medium")
    for path in sorted(directory.parent.rglob("*"), key=lambda path: -len(path.parts)):
        if path != directory:
            path.rename(path.with_name(path.name.lower()))
    np.testing.assert_array_equal(read(directory)[0].voxels, noise())


def test_a_dicomdir_without_its_files_is_refused(series, tmp_path):
    directory = medium(series, tmp_path / "medium")
    for path in [path for path in files(directory.parent) if path != directory][:2]:
        path.unlink()
    with pytest.raises(StageError, match=r"DICOMDIR: 2 of the 6 files that it names are missing beside it"):
        read(directory)


@pytest.mark.parametrize("parts", [["..", "secret"], ["/etc", "passwd"], ["a/../..", "x"], ["..\\x"]])
def test_a_dicomdir_leads_nowhere_else(parts, series, tmp_path):
    directory = medium(series, tmp_path / "medium")
    dataset = pydicom.dcmread(directory)
    record = next(each for each in dataset.DirectoryRecordSequence if "ReferencedFileID" in each)
    element = pydicom.DataElement(0x00041500, "CS", parts, validation_mode=pydicom.config.IGNORE)
    record[0x00041500] = element
    pydicom.dcmwrite(directory, dataset)
    (tmp_path / "secret").write_bytes(files(series)[0].read_bytes())
    with pytest.raises(StageError, match="names files outside of its own folder"):
        read(directory)


@pytest.mark.parametrize(
    ("name", "used"),
    [
        ("DICOMDIR", 5),
        ("DICOMDIR-bigEnd", 5),
        ("DICOMDIR-implicit", 5),
        ("DICOMDIR-nooffset", 5),
        ("DICOMDIR-nopatient", 5),
        ("DICOMDIR-reordered", 5),
    ],
)
def test_real_dicomdirs_give_their_one_certain_series(name, used, real_cases):
    volume, facts = read(real_cases / "dicom-oddities/r13-dicomdir-tree" / name)
    assert (facts.files["used"], volume.voxels.shape) == (used, (5, 16, 16))


def test_a_real_dicomdir_that_names_nothing_is_refused(real_cases):
    with pytest.raises(StageError, match="names no file"):
        read(real_cases / "dicom-oddities/r13-dicomdir-tree/DICOMDIR-empty.dcm")


def test_members_of_a_zip_file_are_unpacked_nowhere_else_and_removed(series, tmp_path, monkeypatch):
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for k, file in enumerate(files(series)):
            packed.write(file, f"../../../{'/' * (k % 2)}escape{k}")
    np.testing.assert_array_equal(read(path)[0].voxels, noise())
    assert not list(place.iterdir())
    assert not list(tmp_path.rglob("escape*"))
    edit(series, put(RescaleSlope="0"))
    with pytest.raises(StageError, match="slope"):
        read(archive(series, tmp_path / "y.zip"))
    assert not list(place.iterdir())


def encrypted(path: Path) -> None:
    """Set the flag of encryption in all headers of members."""
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = data.find(mark)
        while at >= 0:
            data[at + offset] |= 1
            at = data.find(mark, at + 4)
    path.write_bytes(data)


def damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[600:700] = bytes(100)
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-500])


def unknown_packing(path: Path) -> None:
    data = path.read_bytes()
    for mark, offset in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        at = data.index(mark) + offset
        data = data[:at] + struct.pack("<H", 97) + data[at + 2 :]
    path.write_bytes(data)


ZIP_FAULTS = {
    "encrypted": (encrypted, "the ZIP file is encrypted"),
    "damaged": (damaged, "the ZIP file is damaged"),
    "cut": (cut, r"the source is no folder"),
    "unknown packing": (unknown_packing, "packed in a way that is not known"),
}


@pytest.mark.parametrize("fault", ZIP_FAULTS)
def test_a_zip_file_that_cannot_be_read_whole_is_refused(fault, series, tmp_path):
    path = archive(series, tmp_path / "QZX.zip")
    change, expected = ZIP_FAULTS[fault]
    change(path)
    with pytest.raises(StageError, match=expected) as refusal:
        read(path)
    assert "QZX" not in str(refusal.value)


def test_a_zip_bomb_is_not_unpacked(series, tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.dicom.files.RATIO_FROM_BYTES", 2**20)
    bomb = b"\0" * 128 + b"DICM" + bytes(2**22)
    path = archive(series, tmp_path / "bomb.zip", bomb=bomb)
    with pytest.raises(StageError, match=r"would unpack to .* GiB, \d+ times its size"):
        read(path)
    zeros = archive(series, tmp_path / "zeros.zip", zeros=bytes(2**22))  # no DICOM: counted, never unpacked
    assert read(zeros)[1].files["skipped"] == {"not DICOM": 1}


def test_a_file_that_inflates_without_end_is_no_image(series, monkeypatch):
    monkeypatch.setattr("pipeline.dicom.dataset.MAX_INFLATED_BYTES", 2**16)
    bomb = pydicom.dcmread(files(series)[0])
    bomb.PixelData = bytes(2**22)
    save(bomb, series / "bomb", uid.DeflatedExplicitVRLittleEndian)
    _, facts = read(series)
    assert facts.files["skipped"] == {"damaged header": 1}


def test_a_slice_that_the_dicomdir_does_not_name_is_reported(series, tmp_path):
    directory = medium(series, tmp_path / "medium")
    whole = pydicom.dcmread(directory)
    records = whole.DirectoryRecordSequence
    last = max((each for each in records if "ReferencedFileID" in each), key=lambda each: each.InstanceNumber)
    last.RecordInUseFlag = 0
    whole.save_as(directory)
    with pytest.raises(
        StageError, match=r"1 file could be slices of it \(file \d of those beside the DICOMDIR .*not named"
    ):
        read(directory)
    np.testing.assert_array_equal(read(directory.parent)[0].voxels, noise())


def load(tmp_path: Path, *sources: Path) -> subprocess.CompletedProcess:
    roles = {name: str(tmp_path / name) for name in ("volume.nrrd", "series.json", "provenance.json")}
    options = [part for name, path in roles.items() for part in (f"--{name.split('.')[0]}", path)]
    return run_here("pipeline.stages.load", "--source", *sources, *options)


def test_the_command_line_takes_a_list_and_keeps_a_checksum_of_all(series, tmp_path):
    result = load(tmp_path, *files(series))
    assert result.returncode == 0, result.stderr
    record = json.loads((tmp_path / "provenance.json").read_text())
    assert record["inputs_sha256"] == {"source": checksum(series)}  # that of the folder with the same contents
    result = load(tmp_path, medium(series, tmp_path / "medium"))
    assert result.returncode == 0, result.stderr
    named = json.loads((tmp_path / "provenance.json").read_text())["inputs_sha256"]["source"]
    assert named == checksum(*files(tmp_path / "medium"))  # a DICOMDIR stands for what it names
