# SPDX-License-Identifier: Apache-2.0
"""A strange series: nothing of it is lost without a word, no two are mixed, and what a refusal advises works."""

import logging
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from pydicom.uid import SecondaryCaptureImageStorage, UltrasoundImageStorage

from pipeline.case.settings.images import LoadSettings
from pipeline.dicom.listing import listing
from pipeline.files.volume import Volume
from pipeline.stages.load import SeriesFacts, load
from solver.runtime.errors import StageError
from tests.support.dicom_files import edit, files, put
from tests.support.linear_field import TOLERANCE, Slice, slices, worst_error, write
from tests.support.series_mutations import judge

SLICES = 9
LOG = logging.getLogger("test")
Damage = Callable[[Path], Any]


def read(source: Path, **settings: Any) -> tuple[Volume, SeriesFacts]:
    return load(source, LoadSettings(**settings), LOG)


def refused(source: Path, pattern: str, **settings: Any) -> str:
    with pytest.raises(StageError, match=pattern) as refusal:
        read(source, **settings)
    assert "PLANTED" not in str(refusal.value)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def require_right(volume: Volume, stack: list[Slice]) -> None:
    assert len(volume.voxels) == len(stack)
    assert worst_error(volume, stack) < TOLERANCE


def changed(**tags: Any) -> Damage:
    """The file with other tags; None takes one out."""

    def change(path: Path) -> None:
        dataset = pydicom.dcmread(path)
        for keyword, content in tags.items():
            if content is None:
                delattr(dataset, keyword)
            else:
                setattr(dataset, keyword, content)
        dataset.save_as(path)

    return change


def written(content: Callable[[bytes], bytes]) -> Damage:
    return lambda path: path.write_bytes(content(path.read_bytes()))


def broken_header(data: bytes) -> bytes:
    """An element in front of the geometry claims more bytes than the file has."""
    place = data.index(b"\x08\x00\x60\x00CS")
    return data[: place + 6] + b"\xff\xff" + data[place + 8 :]


LOST: dict[str, tuple[Damage, str]] = {
    "cut in its header": (written(lambda data: data[:200]), "damaged header|no image"),
    "a length in the header is wrong": (written(broken_header), "damaged header|no image"),
    "empty": (written(lambda _: b""), "not DICOM"),
    "all zeros": (written(lambda data: bytes(len(data))), "not DICOM"),
    "without the letters DICM": (written(lambda data: data.replace(b"DICM", b"DISM")), "not DICOM"),
    "without the size of the image": (changed(Rows=None), "no image"),
    "another modality": (changed(Modality="QT"), "modality other"),
    "another SeriesInstanceUID": (changed(SeriesInstanceUID="1.2.3"), "another SeriesInstanceUID"),
    "no SeriesInstanceUID": (changed(SeriesInstanceUID=None), "no SeriesInstanceUID"),
}
"""What makes a file no slice of its series, and the words for it."""


@pytest.mark.parametrize("lost", [(0,), (SLICES - 1,), (SLICES - 2, SLICES - 1)])
@pytest.mark.parametrize("kind", LOST)
def test_a_slice_lost_at_an_end_is_reported_and_left_out_only_if_the_case_says_so(kind, lost, tmp_path):
    damage, why = LOST[kind]
    write(slices(), tmp_path)
    for k in lost:
        damage(files(tmp_path)[k])
    numbers = ", ".join(rf"file {k + 1} of the folder \(by name\): ({why})[^)]*" for k in lost)
    refused(tmp_path, rf"{len(lost)} files? could be slices of it \({numbers}\); .*load\.doubtful_files: leave_out")
    assert "load.doubtful_files: leave_out" in listing([tmp_path])
    volume, facts = read(tmp_path, doubtful_files="leave_out")
    require_right(volume, [each for k, each in enumerate(slices()) if k not in lost])
    reported = [f"file {k + 1} of the folder (by name)" for k in lost]
    assert [each["file"] for each in facts.files["could_belong"]] == reported
    for k in sorted(lost, reverse=True):  # the other advice
        files(tmp_path)[k].unlink()
    assert "could_belong" not in read(tmp_path)[1].files


@pytest.mark.parametrize("kind", LOST)
def test_a_slice_lost_inside_is_reported_before_the_gap_that_it_leaves(kind, tmp_path):
    damage, _ = LOST[kind]
    write(slices(), tmp_path)
    damage(files(tmp_path)[4])
    refused(tmp_path, "1 file could be slices of it")
    refused(tmp_path, "1 slice is missing", doubtful_files="leave_out")
    require_right(read(tmp_path, doubtful_files="leave_out", missing_slices="resample")[0], slices())


def test_a_lost_slice_is_reported_where_each_slice_has_a_folder_and_in_a_zip_file(tmp_path):
    write(slices(), tmp_path / "flat")
    files(tmp_path / "flat")[-1].write_bytes(b"")
    for path in files(tmp_path / "flat"):
        (tmp_path / "deep" / path.stem).mkdir(parents=True)
        shutil.copy(path, tmp_path / "deep" / path.stem / "image")
    with zipfile.ZipFile(tmp_path / "packed", "w") as packed:
        for path in files(tmp_path / "flat"):
            packed.write(path, f"PLANTED/{path.name}")
    for source in ("deep", "packed"):
        refused(tmp_path / source, rf"file {SLICES} of .*: not DICOM\); .*load\.doubtful_files: leave_out")
        require_right(read(tmp_path / source, doubtful_files="leave_out")[0], slices()[:-1])


def add_other_objects(folder: Path) -> None:
    """What lies beside slices and is none: texts, pictures, a report, another series, in the same folder."""
    (folder / "README").write_text("1.2.840.10008.5.1.4.1.1.2")
    uid = pydicom.dcmread(folder / "001.dcm").SeriesInstanceUID
    (folder / "001.txt").write_text(f"dump of 1.2.840.10008.5.1.4.1.1.2 in {uid}")
    (folder / "index.sql").write_bytes(f"SQLite 3.45 {uid} 1.2.840.10008.5.1.4.1.1.2".encode() + bytes(9))
    (folder / "._001.dcm").write_bytes(bytes(99))
    (folder / "Thumbs.db").write_bytes(bytes(range(256)) * 9)
    source = folder / "003.dcm"
    for number, (storage, more) in enumerate(
        [
            ("1.2.840.10008.5.1.4.1.1.88.11", {"Rows": None, "SeriesInstanceUID": "1.2.3"}),
            (SecondaryCaptureImageStorage, {"Modality": "OT"}),  # in the very series
            (UltrasoundImageStorage, {"Modality": "US", "SeriesInstanceUID": "1.2.4"}),
            ("1.3.12.2.1107.5.9.1", {"Rows": None, "SeriesInstanceUID": "1.2.5"}),  # private, no image
        ]
    ):
        other = folder / f"other{number}.dcm"
        shutil.copy(source, other)
        changed(SOPClassUID=storage, SOPInstanceUID=f"1.2.9.{number}", **more)(other)


def test_what_is_certainly_no_slice_refuses_nothing(tmp_path):
    write(slices(), tmp_path)
    add_other_objects(tmp_path)
    volume, facts = read(tmp_path)
    require_right(volume, slices())
    assert sum(facts.files["skipped"].values()) == 9


def test_a_damaged_file_that_names_another_series_refuses_that_one_alone(tmp_path):
    """Both series lie in one folder, under names of one kind."""
    write(slices(), tmp_path)
    write(
        [each.tagged(SeriesInstanceUID="1.2.3.4", SOPInstanceUID=f"1.2.3.4.{k}") for k, each in enumerate(slices())],
        tmp_path / "b",
    )
    for path in files(tmp_path / "b"):
        path.rename(tmp_path / f"1{path.name}")
    mine, other = ({"series": pydicom.dcmread(tmp_path / name).SeriesInstanceUID} for name in ("001.dcm", "1001.dcm"))
    data = (tmp_path / "1009.dcm").read_bytes()
    (tmp_path / "1009.dcm").write_bytes(data.replace(b"DICM", b"DISM"))
    require_right(read(tmp_path, **mine)[0], slices())
    refused(tmp_path, "1 file could be slices of it", **other)


@pytest.mark.parametrize("tag", ["PatientID", "PatientName", "PatientBirthDate"])
def test_two_patients_under_one_series_uid_are_kept_apart(tag, tmp_path):
    """The second lies where the first ends, so that the places would fit."""
    whole = slices(np.arange(11) * 0.8)
    other = {"PatientBirthDate": "19500101", "PatientID": "PLANTED-2", "PatientName": "PLANTED^OTHER"}[tag]
    mine = [each.tagged(PatientBirthDate="19600101") for each in whole[:6]]
    write([*mine, *(each.tagged(**{"PatientBirthDate": "19600101", tag: other}) for each in whole[6:])], tmp_path)
    said = refused(tmp_path, r"2 patients .*load\.phase.*: 1: patient 1 \(6 slices\); 2: patient 2 \(5 slices\)$")
    assert other not in said
    for phase, part in ((1, whole[:6]), ("patient 2", whole[6:])):
        require_right(read(tmp_path, phase=phase)[0], part)
    assert other not in listing([tmp_path])


def test_one_patient_whose_name_is_written_in_two_ways_is_one(tmp_path):
    write(slices(), tmp_path)
    edit(tmp_path, lambda dataset, k: setattr(dataset, "PatientName", ["PLANTED^Name", "planted^name^^"][k % 2]))
    edit(tmp_path, lambda dataset, k: delattr(dataset, "PatientID") if k == 3 else None)
    require_right(read(tmp_path)[0], slices())


def test_two_frames_of_reference_are_kept_apart(tmp_path):
    whole = slices(np.arange(11) * 0.8)
    write([*whole[:4], *(each.tagged(FrameOfReferenceUID="1.2.3") for each in whole[4:])], tmp_path)
    refused(tmp_path, r"2 parts .*: 1: frame of reference 1 \(7 slices\); 2: frame of reference 2 \(4 slices\)$")
    require_right(read(tmp_path, phase=1)[0], whole[4:])
    require_right(read(tmp_path, phase=2)[0], whole[:4])


def test_frames_of_reference_that_each_slice_has_for_itself_say_nothing(tmp_path):
    write([each.tagged(FrameOfReferenceUID=f"1.2.3.{k}") for k, each in enumerate(slices())], tmp_path)
    volume, facts = read(tmp_path)
    require_right(volume, slices())
    assert facts.frames_of_reference == SLICES


@pytest.mark.parametrize(
    "keywords",
    [
        ("SeriesInstanceUID",),
        ("SOPInstanceUID",),
        ("StudyInstanceUID",),
        ("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID"),
    ],
)
def test_images_without_uids_are_loaded_and_reported(keywords, tmp_path, caplog):
    write(slices(), tmp_path)
    edit(tmp_path, lambda dataset, k: [delattr(dataset, keyword) for keyword in keywords] and None)
    with caplog.at_level(logging.WARNING):
        volume, facts = read(tmp_path)
    require_right(volume, slices())
    assert facts.missing_uids == dict.fromkeys(keywords, SLICES)
    for keyword in keywords:
        assert f"9 of 9 CT images without {keyword}" in caplog.text
    assert f"{SLICES}  " in listing([tmp_path])
    require_right(read(tmp_path, series=facts.series)[0], slices())


def test_images_without_uids_that_form_no_stack_are_refused_by_what_is_wrong(tmp_path):
    write(slices(), tmp_path)
    edit(tmp_path, lambda dataset, k: delattr(dataset, "SeriesInstanceUID"))
    edit(tmp_path, lambda dataset, k: k != 4)
    refused(tmp_path, r"\(CT, number 5, without SeriesInstanceUID\): 1 slice is missing")
    edit(tmp_path, lambda dataset, k: setattr(dataset, "SeriesNumber", 5 + k % 2))
    refused(tmp_path, r"2 series have the most voxels .* name one in load\.series .*: .*without SeriesInstanceUID")


def test_a_series_without_pixels_is_reported_by_list_and_load(tmp_path):
    write(slices(), tmp_path)
    edit(tmp_path, lambda dataset, k: delattr(dataset, "PixelData"))
    refused(tmp_path, r"no pixel data \(PixelData\) in any of its files, only headers")
    assert "no pixel data (PixelData) in any of its files" in listing([tmp_path])


@pytest.mark.parametrize("pixels", [None, b""])
def test_a_slice_without_pixels_is_named_and_can_be_taken_out(pixels, tmp_path):
    write(slices(), tmp_path)
    changed(PixelData=pixels)(files(tmp_path)[-1])
    refused(tmp_path, rf"1 of 9 slices have no pixel data \(PixelData\): file {SLICES} of the folder")
    files(tmp_path)[-1].unlink()
    require_right(read(tmp_path)[0], slices()[:-1])


@pytest.mark.parametrize("keyword", ["ImagePositionPatient", "PixelSpacing"])
def test_slices_without_a_place_are_named_and_can_be_taken_out(keyword, tmp_path):
    write(slices(), tmp_path)
    changed(**{keyword: None})(files(tmp_path)[0])
    refused(tmp_path, rf"1 of 9 slices lack {keyword}.*take these slices out: file 1 of the folder")
    files(tmp_path)[0].unlink()
    require_right(read(tmp_path)[0], slices()[1:])


AXIAL = ["1", "0", "0", "0", "1", "0"]


def test_of_two_orientations_those_are_offered_that_form_a_volume(tmp_path):
    write([*slices(), *(each.tagged() for each in slices([0, 0.8, 1.6, 2.4], (-90, 0, 0)))], tmp_path)
    refused(tmp_path, r"load\.phase.*: 1: orientation 1 \(9 slices\); 2: orientation 2 \(4 slices\)$")
    require_right(read(tmp_path, phase=1)[0], slices())
    require_right(read(tmp_path, phase=2)[0], slices([0, 0.8, 1.6, 2.4], (-90, 0, 0)))
    files(tmp_path)[-2].unlink()
    refused(
        tmp_path, r"by number or name: 1: orientation 1 \(9 slices\); these form no volume: 2: .* 1 slice is missing"
    )
    require_right(read(tmp_path, phase=1)[0], slices())


def test_a_damaged_stack_of_two_orientations_offers_no_choice_that_fails(tmp_path):
    write(slices(), tmp_path)
    edit(tmp_path, lambda dataset, k: put(ImageOrientationPatient=AXIAL)(dataset, k) if k in (2, 3, 7) else None)
    said = refused(tmp_path, r"holds 2 parts .* none of them forms a volume: 1: .*; 2: ")
    assert "load.phase" not in said
    assert "load.missing_slices: resample" in said  # which is right for the first part
    refused(tmp_path, r"name one in load\.phase.*: 1: orientation 1 \(6 slices\); these", missing_slices="resample")
    volume, _ = read(tmp_path, missing_slices="resample", phase=1)
    require_right(volume, slices()[:9])


def sound(first: int, count: int) -> Counter[str]:
    """First outcomes of cases of series_mutations.py, all of them as they may be; counted."""
    judged = [judge(number) for number in range(first, first + count)]
    assert [case for case in judged if not case["sound"]] == []
    return Counter(case["first"] for case in judged)


def test_a_sample_of_mixed_up_series_is_right_refused_or_reported():
    outcomes = sound(first=6000, count=40)
    assert min(outcomes["refused"], outcomes["right"]) > 5  # neither is everything refused nor everything taken


@pytest.mark.slow
def test_every_mixed_up_series_is_right_refused_or_reported():
    sound(first=7000, count=1000)


def test_the_judge_of_mixed_up_series_sees_what_is_wrong(monkeypatch):
    """Without the checks of this file it finds patients mixed and ends lost."""
    monkeypatch.setattr("pipeline.stages.load.left_out", lambda *_: [])
    assert any(case["first"] == "short" and not case["sound"] for case in map(judge, range(6000, 6064)))
    monkeypatch.setattr("pipeline.dicom.parts._by_patient", lambda piece: [piece])
    mixed = [judge(number) for number in range(6007, 6064, 8)]
    assert any(case["first"].startswith(("wrong", "blind")) and not case["sound"] for case in mixed)
