"""Load never says who the patient is, whether it succeeds or refuses."""

import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pydicom
import pytest
from dicom_files import edit, files, noise, oblique, put, truncate, write

from pipeline.dicom.series import short_hash
from solver.stage import ROOT

MARK = "QZXQZX"  # letters that no word of ours has; short, so that it fits every text tag
STRUCTURE = {"Modality", "ImageType", "PhotometricInterpretation"}
TEXTS = ("PN", "LO", "SH", "ST", "LT", "UT", "UC", "CS", "AE", "AS", "DA", "TM", "DT")

CHANGES = {
    "gap": lambda dataset, k: k != 3,
    "truncated": truncate,
    "slope 0": put(RescaleSlope="0"),
    "other modality": put(Modality=MARK),
}


def mark(dataset: pydicom.Dataset, k: int) -> None:
    """Plant the mark in every text tag that a CT may hold, valid or not."""
    keywords = {
        entry[4]
        for tag, entry in pydicom.datadict.DicomDictionary.items()
        if 0x00080000 <= tag < 0x00410000 and not entry[3] and entry[0] in TEXTS
    } - STRUCTURE
    for keyword in keywords:
        tag = pydicom.datadict.tag_for_keyword(keyword)
        vr = pydicom.datadict.dictionary_VR(tag)
        dataset[tag] = pydicom.DataElement(tag, vr, MARK, validation_mode=pydicom.config.IGNORE)
    dataset.ImageType = ["ORIGINAL", "PRIMARY", MARK.lower()]  # not valid: pydicom warns and quotes it
    block = dataset.private_block(0x0043, MARK, create=True)
    block.add_new(1, "LO", MARK)


def run(source: Path, folder: Path, **settings: str) -> subprocess.CompletedProcess:
    folder.mkdir()
    roles = {name: folder / name for name in ("volume.nrrd", "series.json", "provenance.json", "log")}
    options = [part for name, path in roles.items() for part in (f"--{name.split('.')[0]}", str(path))]
    command = [sys.executable, "-W", "default", "-m", "pipeline.load", "--source", str(source), *options]
    command += ["--settings", json.dumps(settings)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def everything(result: subprocess.CompletedProcess, folder: Path) -> str:
    written = "".join(path.read_bytes().decode("latin-1") for path in folder.iterdir())
    return (result.stdout + result.stderr + written).upper()


@pytest.fixture(scope="module")
def marked_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A series with the mark in all texts and in the names of files and folders."""
    folder = tmp_path_factory.mktemp("marked")
    write(oblique(noise()), folder / MARK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        edit(folder, mark)
    for path in files(folder):
        path.rename(path.with_name(f"{MARK} {path.name}.dcm"))
    return folder


@pytest.fixture
def marked(marked_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    folder = tmp_path / "source"
    shutil.copytree(marked_once, folder)
    return folder


def test_pydicom_left_alone_does_tell_the_marks(marked):
    """What the next test holds is not held by itself: these headers make pydicom quote their texts."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        str(pydicom.dcmread(files(marked)[0]).ImageType)
    assert MARK in "".join(str(each.message) for each in caught).upper()


@pytest.mark.parametrize("fault", ["none", *CHANGES])
def test_nothing_of_the_patient_is_told(fault, marked, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if fault != "none":
            edit(marked, CHANGES[fault])
        uids = {uid for path in files(marked) for uid in all_uids(path)}
    (marked / MARK / f"{MARK}.txt").write_text("junk")
    out = tmp_path / "out"
    result = run(marked, out)
    told = everything(result, out)
    assert result.returncode == (0 if fault == "none" else 1), result.stderr
    assert "TRACEBACK" not in told
    assert MARK not in told
    assert not [uid for uid in uids if uid in told]
    assert (out / "series.json").exists() == (fault == "none")


def all_uids(path: Path) -> list[str]:
    dataset = pydicom.dcmread(path, specific_tags=["SOPInstanceUID", "SeriesInstanceUID", "StudyInstanceUID"])
    return [str(element.value) for element in dataset if element.VR == "UI"]


def test_a_uid_in_the_settings_reaches_no_output(tmp_path):
    series, out = tmp_path / "dicom", tmp_path / "out"
    write(oblique(noise()), series)
    uid = pydicom.dcmread(files(series)[0]).SeriesInstanceUID
    result = run(series, out, series=uid)
    assert result.returncode == 0, result.stderr
    assert uid not in everything(result, out)
    assert json.loads((out / "provenance.json").read_text())["settings"]["series"] == short_hash(uid)
