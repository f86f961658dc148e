# SPDX-License-Identifier: Apache-2.0
"""The RO-Crate of a case: it holds what it says, any damage shows, it tells no patient, and its case is the case."""

import json
import platform
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pydicom
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.case.case_file import Case, read_cohort
from pipeline.case.settings.base import parse
from pipeline.case.settings.yaml_file import CONTROL, read_yaml, write_yaml
from pipeline.reporting.crate_check import NEEDED, differences, faults, read_runs
from pipeline.reporting.crate_graph import METADATA, RECORD, RULES, StageRun
from pipeline.stages.crate import case_again
from solver.runtime.checksums import by_checksum, checksum, combined
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.pipeline.dicom.test_load_privacy import MARK, UID_MARK, mark
from tests.pipeline.dicom.test_load_privacy import run as load
from tests.support.dicom_files import edit, files, noise, oblique, write

VERSIONS = {"python": "3.11.0", "numpy": "1.0", "snakemake": "9.0", "hemolattice_source": "0" * 64}
WAVEFORM = "a" * 64


def case_of(name: str, folder: Path = Path("config/cases")) -> Case:
    return read_cohort({"cases": [name]}, folder)[name]


def stage(folder: Path, name: str, inputs: dict[str, str], outputs: dict[str, str], **more: Any) -> str:
    """A record as the stage of this name leaves it, with outputs of these names; one without a suffix is a folder."""
    made = {role: folder / Path(name).parent / file for role, file in outputs.items()}
    for path in made.values():
        (path if path.suffix else path / "file.png").parent.mkdir(parents=True, exist_ok=True)
        (path if path.suffix else path / "file.png").write_text(f"{name} {path.name}")
    record = {
        "stage": Path(name).name,
        "program": f"pipeline.stages.{Path(name).name}",
        "settings": {},
        "inputs_sha256": inputs,
        "outputs_sha256": {path.name: checksum(path) for path in made.values()},
        "versions": VERSIONS,
        "host": {"machine": "x86_64", "system": "Linux", "processor": "P", "cores": 2},
        "seconds": 1.0,
        "started": "2026-01-01T00:00:00+00:00",
        "finished": "2026-01-01T00:00:01+00:00",
        "peak_memory_mb": 2.0,
    }
    (folder / f"{name}{RECORD}").write_text(json.dumps(record | more))
    return str(folder / f"{name}{RECORD}")


def make(folder: Path, records: list[str], case: dict[str, Any]) -> subprocess.CompletedProcess:
    """Let the command line make a crate of the folder."""
    names = {
        "metadata": METADATA,
        "case": "case.yaml",
        "workflow": "workflow.smk",
        "workflow-rules": RULES,
        "provenance": f"crate{RECORD}",
    }
    options = [part for role, name in names.items() for part in (f"--{role}", str(folder / name))]
    options += ["--rules", *map(str, sorted((ROOT / RULES).glob("*.smk")))]
    command = [
        sys.executable,
        "-m",
        "pipeline.stages.crate",
        "--records",
        *records,
        "--snakefile",
        "Snakefile",
        *options,
    ]
    command += ["--settings", json.dumps({"run": "some", "case": case})]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A crate of a few stages, one of them on two lattices, with a file beside them that is none of theirs."""
    folder = tmp_path_factory.mktemp("crate") / "results" / "a case"
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("of the user")
    records = [stage(folder, "load", {"source": "b" * 64}, {"volume": "volume.nrrd"}, settings={"series": None})]
    named = {"inlets": {"*": {"waveform": f"sha256:{WAVEFORM}"}}}
    for level in ("", "coarser-1/"):
        given_to = {"volume": checksum(folder / "volume.nrrd")}
        records.append(stage(folder, f"{level}solve", given_to, {"flow": "flow.vtkhdf"}, settings=named, device="CPU"))
    flows = combined(checksum(folder / level / "flow.vtkhdf") for level in ("", "coarser-1"))
    records.append(stage(folder, "report", {"flow": flows}, {"report": "report.html", "figures": "figures"}))
    case = json.loads(case_of("tiny").settings("crate"))
    answer = make(folder, records, case)
    assert answer.returncode == 0, answer.stderr
    return folder


@pytest.fixture
def folder(whole, tmp_path) -> Path:
    """A copy of it that a test may damage."""
    return shutil.copytree(whole, tmp_path / "crate")


def metadata(folder: Path) -> dict[str, Any]:
    return json.loads((folder / METADATA).read_text())


def entity(folder: Path, key: str) -> dict[str, Any]:
    return next(each for each in metadata(folder)["@graph"] if each["@id"] == key)


def of(references: Any) -> list[str]:
    return [each["@id"] for each in (references if isinstance(references, list) else [references])]


def test_a_crate_has_no_faults_and_leaves_out_what_no_stage_made(whole):
    assert faults(whole) == []
    assert "of the user" not in (whole / METADATA).read_text()
    assert "mine.txt" not in (whole / METADATA).read_text()


def test_the_workflow_lies_in_the_crate_with_all_that_it_includes(whole):
    included = re.findall(r'^include: "(.+)"$', (whole / "workflow.smk").read_text(), re.MULTILINE)
    assert len(included) > 3
    assert {path.relative_to(whole).as_posix() for path in (whole / RULES).iterdir()} == {*included}
    for path in included:
        assert (whole / path).read_bytes() == (ROOT / path).read_bytes()
        assert entity(whole, path)["@type"] == ["File", "SoftwareSourceCode"]
    assert of(entity(whole, "workflow.smk")["hasPart"])[: len(included)] == sorted(included)


def test_files_are_chained_by_what_made_them_and_what_was_made_of_them(whole):
    assert of(entity(whole, "#run/load")["object"]) == [f"#sha256:{'b' * 64}", "#run/load/settings"]
    assert of(entity(whole, "#run/load")["result"]) == ["volume.nrrd"]
    took = ["volume.nrrd", f"#sha256:{WAVEFORM}", "#run/coarser-1/solve/settings"]
    assert of(entity(whole, "#run/coarser-1/solve")["object"]) == took
    assert of(entity(whole, "#run/report")["object"])[:2] == ["flow.vtkhdf", "coarser-1/flow.vtkhdf"]
    assert of(entity(whole, "#run/report")["result"]) == ["report.html", "figures/"]
    assert of(entity(whole, "figures/")["hasPart"]) == ["figures/file.png"]
    assert [entity(whole, f"#step/{name}")["position"] for name in ("load", "solve", "report")] == ["1", "2", "3"]
    assert of(entity(whole, "#run")["object"]) == ["case.yaml", f"#sha256:{'b' * 64}", f"#sha256:{WAVEFORM}"]
    assert of(entity(whole, "#pipeline.stages.solve")["softwareRequirements"]) == [
        "#python-3.11.0",
        "#numpy-1.0",
        "#snakemake-9.0",
    ]


def test_without_any_one_of_its_entities_a_crate_is_faulty(folder):
    reported = metadata(folder)
    assert len(reported["@graph"]) > 40
    for number, left_out in enumerate(reported["@graph"]):
        rest = reported["@graph"][:number] + reported["@graph"][number + 1 :]
        (folder / METADATA).write_text(json.dumps(reported | {"@graph": rest}))
        assert faults(folder), left_out["@id"]


def damages(reported: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Metadata with one fault each: a property less, a reference to nothing, an entity twice, another context."""
    for number, each in enumerate(reported["@graph"]):
        kind = each["@type"] if isinstance(each["@type"], str) else each["@type"][0]
        for need in {*NEEDED.get(each["@id"], ()), *NEEDED.get(kind, ())}:
            changed = deepcopy(reported)
            del changed["@graph"][number][need]
            yield f"{each['@id']}: {need}", changed
        for key in [key for key, value in each.items() if isinstance(value, dict | list) and key != "@type"]:
            changed = deepcopy(reported)
            changed["@graph"][number][key] = {"@id": "#nothing"}
            yield f"{each['@id']}: {key} refers to nothing", changed
        yield f"{each['@id']}: twice", reported | {"@graph": [*reported["@graph"], each]}
    yield "context", reported | {"@context": reported["@context"][:1]}


def test_any_damage_to_the_metadata_shows(folder):
    tried = 0
    for what, changed in damages(metadata(folder)):
        (folder / METADATA).write_text(json.dumps(changed))
        assert faults(folder), what
        tried += 1
    assert tried > 200


def test_any_damage_to_a_file_is_reported_with_its_name(folder):
    sound = [each["@id"] for each in metadata(folder)["@graph"] if "sha256" in each and not each["@id"].startswith("#")]
    assert {"volume.nrrd", "figures/file.png", "case.yaml", "coarser-1/solve.provenance.json"} <= {*sound}
    for name in sound:
        path = folder / name
        data = path.read_bytes()
        for damage in (data[:-1], data + b" ", bytes([data[0] ^ 1]) + data[1:]):
            path.write_bytes(damage)
            assert faults(folder) == [f"{name}: not as the crate says"]
        path.unlink()
        assert faults(folder) == [f"{name}: no such file"]
        path.write_bytes(data)
    assert faults(folder) == []


def test_a_crate_reaches_no_file_outside_it(folder):
    reported = (folder / METADATA).read_text().replace('"volume.nrrd"', '"../volume.nrrd"')
    (folder / METADATA).write_text(reported)
    shutil.move(folder / "volume.nrrd", folder.parent)
    assert "../volume.nrrd: lies outside the crate" in faults(folder)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"@graph": [1]}', '{"@graph": [{"@id": "./"}]}'])
def test_what_is_no_metadata_of_a_crate_is_refused_in_a_line(folder, text):
    (folder / METADATA).write_text(text)
    with pytest.raises(StageError, match="no metadata of a crate"):
        faults(folder)


def test_an_output_that_is_not_as_it_was_made_is_refused(folder):
    (folder / "volume.nrrd").write_text("other")
    records = [str(folder / f"{run.name}{RECORD}") for run in read_runs(folder)]
    answer = make(folder, records, json.loads(case_of("tiny").settings("crate")))
    assert answer.returncode == 1
    assert "load.provenance.json: volume.nrrd: not in the folder as load made it" in answer.stderr
    assert "Traceback" not in answer.stderr


def checked(*folders: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "pipeline.stages.crate", "--check", *map(str, folders)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_command_line_tells_what_differs_here_and_what_was_damaged(folder, tmp_path):
    answer = checked(folder)
    assert answer.returncode == 0, answer.stderr
    assert "all files are as it says" in answer.stdout
    assert f"python: 3.11.0; here: {platform.python_version()}" in answer.stdout
    assert checked(folder, folder).stdout.splitlines()[-1] == "the same bits in all results"
    (folder / "volume.nrrd").write_text("other")
    answer = checked(folder)
    assert answer.returncode == 1
    assert answer.stdout == f"{folder}: volume.nrrd: not as the crate says\n"
    answer = checked(tmp_path)
    assert answer.returncode == 1
    assert f"crate: error: {tmp_path}: holds no {METADATA}" in answer.stderr


def test_two_runs_are_distinguished_by_their_results_and_not_by_their_times(whole):
    one = read_runs(whole)
    assert [run.name for run in one] == ["load", "solve", "coarser-1/solve", "report"]
    other = [StageRun(run.name, deepcopy(run.record)) for run in one]
    other[3].record["outputs_sha256"]["report.html"] = "c" * 64
    assert differences(one, other) == []
    other[1].record["outputs_sha256"]["flow.vtkhdf"] = "c" * 64
    other[2].record["outputs_sha256"]["flow.vtkhdf"] = "c" * 64
    other[2].record["inputs_sha256"]["volume"] = "c" * 64
    lines = ["solve: flow.vtkhdf differs, of the same inputs", "coarser-1/solve: flow.vtkhdf differs, of other volume"]
    assert differences(one, other) == lines
    assert differences(one[:1], one[:2]) == ["solve: only in one of them"]


def test_the_case_of_a_crate_names_what_was_found_and_no_file(whole):
    again = read_yaml(whole / "case.yaml")
    assert again["input"]["phantom"] == f"sha256:{checksum(ROOT / 'data/phantoms/tiny.yaml')}"
    assert again["load"] == {"series": None}  # as its record has it
    assert again["solve"]["backend"] == "cpu"
    assert again["segment"]["lower"] == 185
    assert again["trace"]["limit_cycles"] == 5.0  # a default


@pytest.mark.parametrize("name", ["bend", "cavity", "demo", "pipe", "plates", "pulsatile", "stenosis", "tiny"])
def test_a_case_read_from_its_crate_is_the_case(name, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    case = case_of(name)
    (tmp_path / "again.yaml").write_text(write_yaml(case_again(json.loads(case.settings("crate")), [])))
    assert "data/" not in (tmp_path / "again.yaml").read_text()
    assert parse(Case, read_yaml(tmp_path / "again.yaml"), "again.yaml") == case


def test_a_checksum_that_no_kept_file_has_asks_for_the_path(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    case = {"input": {"dicom": f"sha256:{'0' * 64}"}, "solve": {"inlets": {"*": {"flow_ml_s": 1}}}}
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(case))
    with pytest.raises(
        StageError, match=r"input\.dicom = .*none in data/phantoms, data/waveforms, data/networks has it; write"
    ):
        case_of("again", tmp_path)


words = st.text(min_size=1, max_size=12).filter(lambda text: not CONTROL.search(text))
keys = words.filter(lambda key: "\n" not in key)
ODD = ("1e-3", "no", "~", "1.", "<<", "", "0x1", "true", "=", "sha256:1e5")
numbers = st.integers(-(10**17), 10**17) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | words | st.sampled_from(ODD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    reported=st.dictionaries(
        st.sampled_from(["1e3", "*", "null", "inlets", "2"]) | words.filter(str.isalnum), values, max_size=3
    )
)
def test_what_is_written_as_yaml_is_read_as_the_same(reported, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "values.yaml"
    path.write_text(write_yaml(reported), encoding="utf-8")
    assert read_yaml(path) == reported


def test_no_crate_tells_who_the_patient_is(tmp_path):
    """Of a series with marks in all texts, in its names and its UIDs, chosen by its UID, with files named so, too."""
    source, folder = tmp_path / MARK, tmp_path / "out"
    write(oblique(noise()), source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        edit(source, mark)
    series = pydicom.dcmread(files(source)[0]).SeriesInstanceUID
    assert series.startswith(UID_MARK)
    result = load(source, folder, series=series)
    assert result.returncode == 0, result.stderr
    (folder / "provenance.json").rename(folder / f"load{RECORD}")
    waveform = shutil.copy(ROOT / "data/waveforms/cosine.csv", tmp_path / f"{MARK}.csv")
    case = json.loads(case_of("tiny").settings("crate"))
    case["input"] |= {"phantom": None, "dicom": [str(source)]}
    case["load"]["series"], case["segment"]["seeds_file"] = series, str(waveform)
    case["solve"]["inlets"]["*"]["waveform"] = str(waveform)
    answer = make(folder, [str(folder / f"load{RECORD}")], case)
    assert answer.returncode == 0, answer.stderr
    written = {path.name: path.read_bytes().decode("latin-1").upper() for path in folder.iterdir() if path.is_file()}
    assert {METADATA, "case.yaml", f"crate{RECORD}", f"load{RECORD}"} <= {*written}
    for secret in (MARK, UID_MARK, str(tmp_path).upper()):
        assert [name for name, text in written.items() if name != "log" and secret in text] == []
        assert secret not in (answer.stdout + answer.stderr).upper()
    again = read_yaml(folder / "case.yaml")
    assert again["input"]["dicom"] == f"sha256:{checksum(source)}"
    assert again["solve"]["inlets"]["*"]["waveform"] == f"sha256:{checksum(Path(waveform))}"
    assert faults(folder) == []


def test_settings_name_files_by_their_contents():
    file = ROOT / "data/waveforms/cosine.csv"
    settings = {"inlets": {"*": {"waveform": str(file), "flow_ml_s": 1}}, "surface": {"a": [1]}, "seeds_file": None}
    said = {"inlets": {"*": {"waveform": f"sha256:{checksum(file)}", "flow_ml_s": 1}}, "surface": {"a": [1]}}
    assert by_checksum(settings) == said | {"seeds_file": None}
    assert by_checksum(by_checksum(settings)) == by_checksum(settings)
