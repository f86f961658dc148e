# SPDX-License-Identifier: Apache-2.0
"""What leaves the project: DICOM objects in the study of the images, which alone tell who the patient is, and files for
3D Slicer. Read back by other readers than those that wrote them.
"""

import json
import re
import shutil
from dataclasses import asdict
from pathlib import Path

import highdicom as hd
import numpy as np
import pydicom
import pytest
from pydicom.uid import EncapsulatedPDFStorage

from pipeline.command.__main__ import main
from pipeline.command.version import version
from pipeline.dicom.objects import METHOD, SCHEME, WORTH
from pipeline.files import vtk_file
from pipeline.files.mesh import read_mesh, read_openings
from pipeline.geometry.branches.branch_files import read_branches
from pipeline.haemodynamics.index_table import long_rows
from pipeline.reporting.measurements import FIGURES, FINDINGS, UCUM
from pipeline.reporting.measurements import WORTH as STATES
from pipeline.reporting.printed import printed_report
from tests.support.dicom_files import edit, files, noise, oblique, put, read, write
from tests.support.dicom_writer import enhanced, save
from tests.support.reported import enrich, leave, make

MARK = "QZXQZX"
PATIENT = {
    "PatientName": f"{MARK}^Ä",
    "PatientID": f"{MARK}1",
    "PatientBirthDate": "19500102",
    "StudyDate": "20200304",
    "StudyTime": "101112.5",
    "AccessionNumber": f"{MARK}2",
    "ReferringPhysicianName": f"{MARK}^Doctor",
}
OBJECTS = ("measurements.dcm", "report.dcm")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder in which a case has run: its results, and the images it was computed from."""
    place = tmp_path_factory.mktemp("finished")
    results = place / "results" / "case1"
    results.parent.mkdir()
    enrich(leave(place / "left"), results)
    write(oblique(noise()), place / "images")
    edit(place / "images", put(**PATIENT))
    _, facts = read(place / "images")
    (results / "series.json").write_text(json.dumps(asdict(facts)))
    seeds = json.loads((results / "segmentation.json").read_text()) | {"seeds": [{"mm": [1.5, -2.0, 3.0]}]}
    (results / "segmentation.json").write_text(json.dumps(seeds))
    make(results, results, still=False, blank=True)
    settings = {"case": "case1", "title": "", "description": "an artery"}
    (results / "report.provenance.json").write_text(json.dumps({"settings": settings}))
    return place


@pytest.fixture(scope="module")
def pdf(finished):
    return printed_report(finished / "results/case1", "case1", "an artery", version())


@pytest.fixture
def here(finished, pdf, tmp_path, monkeypatch):
    """A copy of that folder; the PDF, which takes seconds, is made once."""

    def made(folder, *words):
        assert (folder, *words) == (Path("results/case1"), "case1", "an artery", version())
        return pdf

    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipeline.command.export.printed_report", made)
    return tmp_path


def said(capsys, *words):
    status = main(["export", "case1", *words])
    out, err = capsys.readouterr()
    return status, out, err


def refused(capsys, *words):
    status, out, err = said(capsys, *words)
    assert (status, out) == (1, "")
    (line,) = err.splitlines()
    assert MARK not in line
    return line


def test_every_figure_comes_back_with_value_unit_concept_and_worth(here, capsys):
    assert said(capsys, "--to", "out", "--dicom", "images")[0] == 0
    report = hd.sr.srread(here / "out/measurements.dcm")
    assert isinstance(report, hd.sr.Comprehensive3DSR)
    assert report.content[0].ContentTemplateSequence[0].TemplateIdentifier == "1500"
    found = set()
    for group in report.content.get_image_measurement_groups():
        assert group.method == METHOD
        worth = [each.value.value for each in group.get_qualitative_evaluations(WORTH)]
        for each in group.get_measurements():
            assert each.unit.scheme_designator == "UCUM"
            derived = each.derivation.meaning if each.derivation else ""
            found.add((group.tracking_identifier, each.name.value, derived, each.value, each.unit.value, *worth))
    rows = long_rows(json.loads(Path("results/case1/indices.json").read_text()))
    words = {"mean": "Mean", "least": "Minimum", "largest": "Maximum", "": ""}
    expected = set()
    for row in (row for row in rows if row["quantity"] in FIGURES):
        concept, derivation = FIGURES[row["quantity"]]
        name = row["name"] or "vessel"
        name = f"narrow place {name}" if row["quantity"].startswith("stenoses") else name
        worth = [STATES[row["trust"]].value] if row["trust"] else []
        unit = UCUM.get(row["unit"], row["unit"])
        expected.add((name, concept.value, words[derivation], row["value"], unit, *worth))
    assert found == expected
    things = {row["quantity"].partition(".")[0] for row in rows if row["quantity"] in FIGURES}
    assert things >= set(FINDINGS) - {"vessel"}
    assert {entry[4] for entry in found} >= {"Pa", "mL/s", "mm[Hg]", "mL", "m/s", "mm", "W", "1"}


def test_concepts_fit_into_their_elements():
    """Code values have 16 characters at most, meanings 64, schemes 16 (PS3.5, 6.2); one value has one meaning."""
    concepts = [*(figure.concept for figure in FIGURES.values()), *FINDINGS.values(), *STATES.values()]
    assert all(len(each.value) <= 16 and len(each.meaning) <= 64 for each in concepts)
    assert len(SCHEME) <= 16
    assert len({each.value for each in concepts}) == len(set(concepts))


def test_objects_refer_to_every_image_and_lie_in_its_study(here, capsys):
    assert said(capsys, "--to", "out", "--dicom", "images")[0] == 0
    images = [pydicom.dcmread(path) for path in files(here / "images")]
    uids = {(image.SOPClassUID, image.SOPInstanceUID) for image in images}
    report, pdf = (pydicom.dcmread(here / "out" / name) for name in OBJECTS)
    (study,) = report.CurrentRequestedProcedureEvidenceSequence
    (series,) = study.ReferencedSeriesSequence
    assert study.StudyInstanceUID == images[0].StudyInstanceUID
    assert series.SeriesInstanceUID == images[0].SeriesInstanceUID
    for items in (series.ReferencedSOPSequence, pdf.SourceInstanceSequence):
        assert {(item.ReferencedSOPClassUID, item.ReferencedSOPInstanceUID) for item in items} == uids
    groups = hd.sr.srread(here / "out/measurements.dcm").content.get_image_measurement_groups()
    assert {image.referenced_sop_instance_uid for image in groups[0].source_images} == {uid for _, uid in uids}
    for made in (report, pdf):
        assert made.StudyInstanceUID == images[0].StudyInstanceUID
        assert made.SeriesInstanceUID != images[0].SeriesInstanceUID
        assert {key: str(made[key].value) for key in PATIENT} == PATIENT
        assert made.VerificationFlag == "UNVERIFIED"
    assert (report.Modality, pdf.Modality, pdf.SOPClassUID) == ("SR", "DOC", EncapsulatedPDFStorage)


def test_the_pdf_is_whole_and_tells_nothing_of_the_patient(here, capsys):
    assert said(capsys, "--to", "out", "--dicom", "images")[0] == 0
    made = pydicom.dcmread(here / "out/report.dcm")
    pdf = made.EncapsulatedDocument[: made.EncapsulatedDocumentLength]
    assert pdf.startswith(b"%PDF-")
    assert pdf.rstrip().endswith(b"%%EOF")
    assert 1 < len(re.findall(rb"/Type /Page\b", pdf)) <= 8
    assert b"CreationDate" not in pdf
    assert MARK.encode() not in pdf


def test_only_the_objects_tell_who_the_patient_is(here, capsys):
    before = {path: path.read_bytes() for path in (here / "results").rglob("*") if path.is_file()}
    status, out, err = said(capsys, "--to", "out", "--dicom", "images", "--slicer")
    assert status == 0
    assert MARK not in out + err
    assert {path: path.read_bytes() for path in (here / "results").rglob("*") if path.is_file()} == before
    marked = {path.name for path in (here / "out").iterdir() if MARK.encode() in path.read_bytes()}
    assert marked == set(OBJECTS)
    uid = pydicom.dcmread(files(here / "images")[0]).StudyInstanceUID.encode()
    assert {path.name for path in (here / "out").iterdir() if uid in path.read_bytes()} == set(OBJECTS)


def test_without_its_images_there_are_no_objects(here, capsys):
    assert "--dicom SOURCE" in refused(capsys, "--to", "out")
    assert "no such file or folder" in refused(capsys, "--to", "out", "--dicom", "nowhere")
    (here / "empty").mkdir()
    assert "no CT" in refused(capsys, "--to", "out", "--dicom", "empty")
    write(oblique(noise() + 1), here / "other")
    line = refused(capsys, "--to", "out", "--dicom", "other")
    assert json.loads(Path("results/case1/series.json").read_text())["series"] in line
    files(here / "images")[2].unlink()
    assert "has 5 files, and the case was computed from 6" in refused(capsys, "--to", "out", "--dicom", "images")
    Path("results/case1/series.json").unlink()
    assert "a mask, a surface or a shape" in refused(capsys, "--to", "out", "--dicom", "images")
    assert not (here / "out").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda each, k: each.pop("SOPInstanceUID") if k == 1 else None, "1 of 6 images without SOPInstanceUID"),
        (lambda each, k: each.pop("StudyInstanceUID"), "6 of 6 images without StudyInstanceUID"),
        (lambda each, k: setattr(each, "StudyInstanceUID", f"1.2.{k % 2 + 1}"), "images of several studies"),
    ],
)
def test_images_that_nothing_can_refer_to_are_refused(here, capsys, change, words):
    edit(here / "images", change)
    assert words in refused(capsys, "--to", "out", "--dicom", "images")


def test_a_header_without_patient_leaves_its_place_empty(here, capsys):
    edit(here / "images", lambda each, k: [each.pop(key, None) for key in (*PATIENT, "PatientSex", "StudyID")] and None)
    assert said(capsys, "--to", "out", "--dicom", "images")[0] == 0
    for name in OBJECTS:
        assert not any(pydicom.dcmread(here / "out" / name)[key].value for key in (*PATIENT, "PatientSex", "StudyID"))


def test_a_header_that_breaks_the_rules_is_refused_without_its_values(here, capsys):
    for path in files(here / "images"):
        bytes_of = path.read_bytes()
        assert bytes_of.count(b"19500102") == 1
        path.write_bytes(bytes_of.replace(b"19500102", MARK.encode() + b"99"))
    assert "breaks the rules of DICOM" in refused(capsys, "--to", "out", "--dicom", "images")
    assert list((here / "out").iterdir()) == []


def test_all_frames_of_one_file_are_one_image(here, capsys):
    cells = noise().astype(np.uint16)
    save(enhanced(cells, oblique(cells)), here / "frames/one.dcm")
    _, facts = read(here / "frames")
    Path("results/case1/series.json").write_text(json.dumps(asdict(facts)))
    assert said(capsys, "--to", "out", "--dicom", "frames")[0] == 0
    (item,) = pydicom.dcmread(here / "out/report.dcm").SourceInstanceSequence
    assert item.ReferencedSOPInstanceUID == pydicom.dcmread(here / "frames/one.dcm").SOPInstanceUID


def test_of_a_series_in_parts_only_the_part_that_was_loaded_is_referred_to(here, capsys):
    edit(here / "images", lambda each, k: setattr(each, "TemporalPositionIdentifier", 1 + k % 2))
    _, facts = read(here / "images", phase=1)
    assert facts.part
    Path("results/case1/series.json").write_text(json.dumps(asdict(facts)))
    assert said(capsys, "--to", "out", "--dicom", "images")[0] == 0
    images = [pydicom.dcmread(path) for path in files(here / "images")]
    uids = {image.SOPInstanceUID for image in images if image.TemporalPositionIdentifier == 1}
    assert 0 < len(uids) < len(images)
    items = pydicom.dcmread(here / "out/report.dcm").SourceInstanceSequence
    assert {item.ReferencedSOPInstanceUID for item in items} == uids


def test_nothing_is_written_below_results_or_over_a_file(here, capsys):
    for place in ("results", "results/case1", "out/../results/new"):
        assert "lies below results/" in refused(capsys, "--to", place, "--slicer")
    (here / "out").mkdir()
    (here / "out/wall.vtp").write_text("mine")
    assert "is there already" in refused(capsys, "--to", "out", "--slicer")
    assert [path.read_text() for path in (here / "out").iterdir()] == ["mine"]
    assert "hemolattice run case1" in refused_without_report(here, capsys)


def refused_without_report(here, capsys):
    (here / "results/case1/report.html").unlink()
    return refused(capsys, "--to", "out2", "--slicer")


def test_a_vessel_without_openings_lines_and_seeds_has_a_wall_for_slicer(here, capsys):
    """As a periodic channel, which enters as a shape."""
    results = Path("results/case1")
    (results / "openings.json").write_text('{"openings": []}')
    (results / "centreline.vtp").unlink()
    (results / "segmentation.json").unlink()
    assert said(capsys, "--to", "out", "--slicer")[0] == 0
    assert [path.name for path in (here / "out").iterdir()] == ["wall.vtp"]


def test_slicer_gets_places_in_lps_and_a_model_that_says_so(here, capsys):
    assert said(capsys, "--to", "out", "--slicer")[0] == 0
    results, marks = Path("results/case1"), {}
    for name in ("openings", "centreline", "seeds"):
        marks[name] = json.loads(Path(f"out/{name}.mrk.json").read_text())["markups"]
        assert {each["coordinateSystem"] for each in marks[name]} == {"LPS"}
    for plane, opening in zip(marks["openings"], read_openings(results / "openings.json"), strict=True):
        matrix = np.array(plane["baseToNode"]).reshape(4, 4)
        np.testing.assert_allclose(matrix[:3, :3] @ matrix[:3, :3].T, np.eye(3), atol=1e-12)  # round-off
        assert np.linalg.det(matrix[:3, :3]) == pytest.approx(1)
        assert matrix[:3, 2].tolist() == list(opening.normal)
        assert plane["controlPoints"][0]["position"] == list(opening.centre_mm) == matrix[:3, 3].tolist()
        assert plane["planeBounds"] == [-opening.radius_mm, opening.radius_mm] * 2
    for curve, branch in zip(marks["centreline"], read_branches(results / "centreline.vtp"), strict=True):
        assert [point["position"] for point in curve["controlPoints"]] == branch.points_mm.tolist()
        assert curve["measurements"][0]["controlPointValues"] == branch.radius_mm.tolist()
    assert [point["position"] for point in marks["seeds"][0]["controlPoints"]] == [[1.5, -2.0, 3.0]]
    model = vtk_file.read_polydata(Path("out/wall.vtp"))
    assert model.GetFieldData().GetAbstractArray("SPACE").GetValue(0) == "LPS"
    (wall, given), (mesh, arrays) = read_mesh(results / "wall.vtp"), read_mesh(Path("out/wall.vtp"))
    np.testing.assert_array_equal(mesh.points_mm, wall.points_mm)
    assert {name: values.tolist() for name, values in arrays.items()} == {n: v.tolist() for n, v in given.items()}
