# SPDX-License-Identifier: Apache-2.0
"""Load never says who the patient is, whether it succeeds or refuses, lists or loads, and whatever the source is."""

import json
import logging
import shutil
import subprocess
import sys
import warnings
import zipfile
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from pydicom.fileset import FileSet

from pipeline.case.settings.images import LoadSettings
from pipeline.dicom.listing import listing
from pipeline.dicom.uids import short_hash
from pipeline.dicom.words import KNOWN, plain_words
from pipeline.stages.load import load
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.support.dicom_files import edit, files, noise, oblique, put, truncate, write
from tests.support.dicom_writer import enhanced, save
from tests.support.variants import some

MARK = "QZXQZX"  # letters that no word of ours has; short, so that it fits every text tag
UID_MARK = "1.2.826.0.1.777777"
STRUCTURE = {"Modality", "ImageType", "PhotometricInterpretation", "FrameType"}
TEXTS = ("PN", "LO", "SH", "ST", "LT", "UT", "UC", "UR", "CS", "AE", "AS", "DA", "TM", "DT")
SEQUENCES_THAT_MATTER = {"SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence", "ModalityLUTSequence"}

CHANGES = {
    "none": lambda dataset, k: None,
    "gap": lambda dataset, k: k != 3,
    "truncated": truncate,
    "slope 0": put(RescaleSlope="0"),
    "other modality": put(Modality=MARK),
    "two phases": lambda dataset, k: setattr(dataset, "TemporalPositionIdentifier", 1 + k % 2),
    "transfer syntax": lambda dataset, k: setattr(dataset.file_meta, "TransferSyntaxUID", f"{UID_MARK}.1"),
    "no place": lambda dataset, k: dataset.pop("ImagePositionPatient"),
    "padding inside": lambda dataset, k: dataset.add_new("PixelPaddingValue", "US", 2000),
    "a value that is no number": lambda dataset, k: dataset.__setitem__(
        0x00281053, pydicom.DataElement(0x00281053, "LO", MARK)
    ),
    "colour": put(PhotometricInterpretation=MARK),
    "localizers": put(ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"]),
    "map": put(ImageType=["DERIVED", "PRIMARY", "PERFUSION", MARK]),
}


def dictionary(*vrs: str) -> list[tuple[int, str, str]]:
    """Tag, VR and keyword of every entry of the standard's dictionary that a data set may hold."""
    return [
        (tag, entry[0], entry[4])
        for tag, entry in pydicom.datadict.DicomDictionary.items()
        if 0x00080000 <= tag < 0xFFFA0000 and entry[0] in vrs and entry[4]
    ]


def mark(dataset: pydicom.Dataset, k: int = 0) -> None:
    """Plant the mark in every text tag of the dictionary, valid or not, in items of all sequences, in private tags."""
    _texts(dataset)
    for tag, vr, keyword in dictionary("SQ"):
        if keyword not in SEQUENCES_THAT_MATTER:
            nested = pydicom.Dataset()
            nested.add(pydicom.DataElement(0x00100010, "PN", MARK))
            nested.add(pydicom.DataElement(0x00080104, "LO", MARK))
            dataset.add_new(tag, vr, [nested])
    block = dataset.private_block(0x0043, MARK, create=True)
    block.add_new(1, "LO", MARK)
    block.add_new(2, "UN", MARK.encode())
    if "ImageType" in dataset:
        dataset.ImageType = ["ORIGINAL", "PRIMARY", MARK.lower()]  # not valid: pydicom warns and quotes it


def _texts(dataset: pydicom.Dataset) -> None:
    for tag, vr, keyword in dictionary(*TEXTS):
        if keyword not in STRUCTURE:
            dataset[tag] = pydicom.DataElement(tag, vr, MARK, validation_mode=pydicom.config.IGNORE)
    for number, (tag, vr, keyword) in enumerate(dictionary("UI")):
        if keyword != "SOPClassUID":
            own = f".{dataset.InstanceNumber}" if keyword == "SOPInstanceUID" and "InstanceNumber" in dataset else ""
            dataset[tag] = pydicom.DataElement(tag, vr, f"{UID_MARK}.{number}{own}")


def run(source: Path, folder: Path, **settings: str) -> subprocess.CompletedProcess:
    folder.mkdir()
    roles = {name: folder / name for name in ("volume.nrrd", "series.json", "provenance.json", "log")}
    options = [part for name, path in roles.items() for part in (f"--{name.split('.')[0]}", str(path))]
    command = [sys.executable, "-W", "default", "-m", "pipeline.stages.load", "--source", str(source), *options]
    command += ["--settings", json.dumps(settings)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def everything(result: subprocess.CompletedProcess, folder: Path) -> str:
    written = "".join(path.read_bytes().decode("latin-1") for path in folder.iterdir())
    return (result.stdout + result.stderr + written).upper()


def reported(source: Path, folder: Path, capfd: Any, **settings: Any) -> tuple[str, bool]:
    """All that loading and listing a source tell: log, facts, volume file, table, errors, warnings, both streams."""
    stream = StringIO()
    log = logging.getLogger("told")
    log.handlers, log.propagate = [logging.StreamHandler(stream)], False
    log.setLevel(logging.DEBUG)
    texts, loaded = [], False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            volume, facts = load(source, LoadSettings(**settings), log)
            volume.write(folder / "volume.nrrd")
            texts += [json.dumps(asdict(facts)), (folder / "volume.nrrd").read_bytes().decode("latin-1")]
            loaded = True
        except StageError as refusal:
            texts += [str(refusal), repr(refusal.__cause__)]
        try:
            texts.append(listing([source]))
        except StageError as refusal:
            texts.append(str(refusal))
    streams = capfd.readouterr()
    texts += [stream.getvalue(), *(str(each.message) for each in caught), streams.out, streams.err]
    return "\n".join(texts).upper(), loaded


def require_silence(text: str) -> None:
    assert MARK not in text
    assert UID_MARK not in text
    assert "TRACEBACK" not in text


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
    (folder / MARK / f"{MARK}.txt").write_text("junk")
    return folder


@pytest.fixture
def marked(marked_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    folder = tmp_path / "source"
    shutil.copytree(marked_once, folder)
    return folder


def images(folder: Path) -> list[Path]:
    return [path for path in files(folder) if path.suffix == ".dcm"]


def change(folder: Path, fault: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in folder.rglob("*.txt"):
            path.unlink()
        edit(folder, CHANGES[fault])


def test_pydicom_left_alone_does_tell_the_marks(marked):
    """What the next tests hold is not held by itself: these headers make pydicom quote their texts."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        str(pydicom.dcmread(images(marked)[0]).ImageType)
    assert MARK in "".join(str(each.message) for each in caught).upper()


def test_the_marks_stand_in_every_text_tag(marked):
    raw = images(marked)[0].read_bytes()
    assert raw.count(MARK.encode()) > len(dictionary(*TEXTS)) - len(STRUCTURE)
    assert raw.count(UID_MARK.encode()) >= len(dictionary("UI")) - 1


@pytest.mark.parametrize(
    "fault", some(CHANGES, "none", "truncated", "slope 0", "two phases", "a value that is no number", "no place")
)
def test_nothing_of_the_patient_is_reported(fault, marked, tmp_path, capfd):
    change(marked, fault)
    text, loaded = reported(marked, tmp_path, capfd)
    require_silence(text)
    assert loaded == (fault == "none"), text


@pytest.mark.parametrize("fault", [pytest.param("none", marks=pytest.mark.slow), "truncated"])
def test_nothing_of_the_patient_is_reported_by_the_command_line(fault, marked, tmp_path):
    change(marked, fault)
    out = tmp_path / "out"
    result = run(marked, out)
    require_silence(everything(result, out))
    assert result.returncode == (0 if fault == "none" else 1), result.stderr
    assert (out / "series.json").exists() == (fault == "none")


@pytest.mark.parametrize("fault", some(["none", "groups", "truncated"], "truncated"))
def test_nothing_of_the_patient_is_reported_of_enhanced_images(fault, tmp_path, capfd):
    cells = np.random.default_rng(0).integers(0, 99, (4, 9, 10)).astype(np.uint16)
    dataset = enhanced(cells, oblique(cells))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mark(dataset)
        for group in [*dataset.SharedFunctionalGroupsSequence, *dataset.PerFrameFunctionalGroupsSequence]:
            for element in list(group):
                if element.keyword not in SEQUENCES_THAT_MATTER:
                    _texts(element.value[0])
                    element.value[0].pop("RescaleType", None)
        if fault == "groups":
            dataset.PerFrameFunctionalGroupsSequence.pop()
        if fault == "truncated":
            dataset.PixelData = dataset.PixelData[:40]
        save(dataset, tmp_path / MARK / f"{MARK}.dcm")
    text, loaded = reported(tmp_path / MARK / f"{MARK}.dcm", tmp_path, capfd)
    require_silence(text)
    assert loaded == (fault == "none"), text


def zipped(marked: Path, tmp_path: Path) -> Path:
    path = tmp_path / f"{MARK}.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.comment = MARK.encode()
        for file in files(marked):
            packed.write(file, f"{MARK}/{file.name}")
    return path


def damaged_zip(marked: Path, tmp_path: Path) -> Path:
    path = zipped(marked, tmp_path)
    data = bytearray(path.read_bytes())
    data[3000:4000] = bytes(1000)
    path.write_bytes(data)
    return path


def medium(marked: Path, tmp_path: Path) -> Path:
    """A DICOMDIR full of marks, beside files with marks in their names."""
    plain = tmp_path / "plain"
    write(oblique(noise()), plain)
    fileset = FileSet()
    for path in files(plain):
        dataset = pydicom.dcmread(path)
        dataset.StudyDate, dataset.StudyTime, dataset.StudyID = "20200101", "101010", "1"
        dataset.PatientName = dataset.PatientID = MARK
        fileset.add(dataset)
    fileset.write(tmp_path / MARK)
    directory = pydicom.dcmread(tmp_path / MARK / "DICOMDIR")
    for record in directory.DirectoryRecordSequence:
        record.SpecificCharacterSet = "ISO_IR 192"
        record.PatientComments = record.StudyDescription = record.SeriesDescription = MARK
    directory.save_as(tmp_path / MARK / "DICOMDIR")
    return tmp_path / MARK / "DICOMDIR"


def medium_without_files(marked: Path, tmp_path: Path) -> Path:
    directory = medium(marked, tmp_path)
    for path in files(directory.parent):
        if path != directory:
            path.unlink()
    return directory


@pytest.mark.parametrize(
    ("source", "loads"), [(zipped, True), (damaged_zip, False), (medium, True), (medium_without_files, False)]
)
def test_nothing_of_the_patient_is_reported_of_archives_and_media(source, loads, marked, tmp_path, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = source(marked, tmp_path)
    text, loaded = reported(path, tmp_path, capfd)
    require_silence(text)
    assert loaded == loads, text


@pytest.mark.parametrize("settings", [{"series": f"{UID_MARK}.9.9"}, {"phase": MARK}])
def test_what_is_asked_for_is_not_repeated(settings, marked, tmp_path, capfd):
    text, loaded = reported(marked, tmp_path, capfd, **settings)
    require_silence(text)
    assert not loaded


def test_a_uid_in_the_settings_reaches_no_output(tmp_path):
    series, out = tmp_path / "dicom", tmp_path / "out"
    write(oblique(noise()), series)
    known = pydicom.dcmread(files(series)[0]).SeriesInstanceUID
    result = run(series, out, series=known)
    assert result.returncode == 0, result.stderr
    assert known not in everything(result, out)
    assert json.loads((out / "provenance.json").read_text())["settings"]["series"] == short_hash(known)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("CTA Head 0.75 B30f", "cta head 0.75 …"),
        ("t2_tse_tra 3mm, 70 %", "t2 tse tra 3mm 70 %"),
        ("Mueller^Hans 12.03.1950", "…"),
        ("ANGIO 1950-03-12 id 4711 4", "angio …"),
        ("Aorta Prof. Kowalska", "aorta …"),
        ("3 12 1950", "…"),
        (MARK, "…"),
        ("", ""),
    ],
)
def test_only_words_of_the_field_and_plain_numbers_pass(text, shown):
    assert plain_words(text) == shown


def test_known_words_are_small_letters_and_no_dates():
    assert all(word == word.lower() and not word.isdigit() for word in KNOWN)
