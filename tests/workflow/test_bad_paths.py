# SPDX-License-Identifier: Apache-2.0
"""Names and paths reach the shell as they are: nothing in them is run, and nothing is written outside of results/."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from pipeline.case.case_file import read_cohort
from pipeline.workflow.programs import options
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.support.project_copy import copy_project

BY_PARTS = {"params.srun", "params.call", "params.gate", "threads"}
"""What stands in commands without being quoted there: numbers, and what is quoted where it is put together."""

COMMANDS = ("$(touch canary)", "`touch canary`", ";touch canary;", "&touch canary", "|touch canary", ">canary", "\"'")
ODD = (f"a b ü漢字 {' '.join(COMMANDS[:4])}", f"#*?[a]~%s\\!!,= {' '.join(COMMANDS[4:])} ")
"""Names of files and folders."""


def test_every_path_of_a_command_is_quoted():
    text = "".join(path.read_text() for path in (ROOT / "pipeline/rules").glob("*.smk"))
    commands = re.findall(r"^ +shell:\n((?: +\"[^\n]*\n)+)", text, re.MULTILINE)
    assert len(commands) == text.count("    shell:") > 20
    places = [place for command in commands for place in re.findall(r"\{([^}]+)\}", command)]
    assert len(places) > 70
    assert [place for place in places if not place.endswith(":q") and place not in BY_PARTS] == []


def test_options_of_files_are_quoted_and_without_a_file_there_is_none():
    line = options({"nodes": ODD[0], "indices_table": [*ODD, "a"]}, {"along": [], "log": COMMANDS[0]})
    words = ["--nodes", ODD[0], "--indices-table", *ODD, "a", "--log", COMMANDS[0]]
    assert shlex.split(line) == words
    echoed = subprocess.run(["bash", "-c", f"printf '%s\\n' {line}"], capture_output=True, text=True, check=True)
    assert echoed.stdout.splitlines() == words


@pytest.fixture(scope="module")
def project(study, tmp_path_factory) -> Path:
    """A project in a folder with an odd name."""
    copy = tmp_path_factory.mktemp("odd") / ODD[0] / "project"
    shutil.copytree(study, copy, ignore=shutil.ignore_patterns("results", ".snakemake", "odd*", "patients"))
    return copy


def listed(folder: Path) -> set[str]:
    """What lies beside results/, and the files that Snakemake and Python keep for themselves."""
    found = (str(path) for path in folder.rglob("*"))
    return {name for name in found if not re.search(r"project/(results|\.snakemake)|__pycache__", name)}


def markups(path: Path) -> str:
    """A point in the lumen."""
    points = [{"position": [4.82, 13.27, -35.22]}]
    path.write_text(json.dumps({"markups": [{"type": "Fiducial", "controlPoints": points}]}))
    return str(path.relative_to(path.parents[3]))


def test_odd_names_of_files_reach_the_stages_and_nothing_in_them_is_run(project, snakemake):
    """Phantom, seeds and waveform have an odd name in a folder with another one; one begins with a dash."""
    outer, name = ODD
    folder = project / "data/patients" / outer
    folder.mkdir(parents=True)
    shutil.copy(project / "data/phantoms/tiny.yaml", folder / f"{name}.yaml")
    shutil.copy(project / "data/waveforms/common-carotid-of-2-mm.csv", folder / name)
    given = {
        "input": {"phantom": str((folder / f"{name}.yaml").relative_to(project))},
        "filter": {"region_grown": {"seeds_file": markups(folder / f"{name}.json")}},
        "segment": {"lower": 185, "seeds_file": markups(folder / f"{name}.json")},
        "solve": {"inlets": {"*": {"waveform": str((folder / name).relative_to(project))}}},
    }
    (project / "config/cases/odd.yaml").write_text(json.dumps(given))
    shutil.copy(project / "data/phantoms/tiny.yaml", project / "-rf.yaml")
    dash = {"input": {"phantom": "-rf.yaml"}, "solve": {"inlets": {"*": {"flow_ml_s": 1}}}}
    (project / "config/cases/dash.yaml").write_text(json.dumps(dash))
    before = listed(project.parents[1])
    answer = snakemake(project, "odd,dash", "--", "results/odd/filtered.nrrd", "results/dash/truth.json")
    assert answer.returncode == 0, answer.stderr
    planned = snakemake(project, "odd,dash", "--dry-run", "--printshellcmds")
    assert planned.returncode == 0, planned.stderr
    assert listed(project.parents[1]) == before


NAMES = ["../etc", *COMMANDS[:6], "a b", "-rf", "ü", "..", "a/b", "a\tb", "'", "x" * 200, "{case}", ""]


def test_names_of_cases_that_no_file_may_have_are_refused_before_anything_runs(project, snakemake):
    before = listed(project)
    answer = snakemake(project, ",".join(NAMES), "--dry-run")
    assert answer.returncode == 1
    lines = [line for line in answer.stderr.splitlines() if line.startswith("--config: ")]
    assert len(lines) == len(NAMES)
    assert all("cases = " in line and "input should be a name of at most 64" in line for line in lines)
    assert "Traceback" not in answer.stderr
    assert listed(project) == before


MISTAKES = {
    "validation=$(touch canary)": r"validation = '\$\(touch canary\)': input should be 'ci', 'quick' or 'full'",
    "checkpoint_minutes=-1": r"checkpoint_minutes = .*: input should be greater than 0",
    "studies=../x": r"studies = '\.\./x': input should be a name",
    "patients=3": r"patients: unknown key \(value .*; did you mean studies",
}


def test_mistakes_of_the_command_line_are_reported_in_one_line_each(project, snakemake):
    answer = snakemake(project, "tiny", *MISTAKES, "--dry-run")
    assert answer.returncode == 1
    lines = [line for line in answer.stderr.splitlines() if line.startswith("--config: ")]
    assert len(lines) == len(MISTAKES)
    for said in MISTAKES.values():
        assert sum(bool(re.search(said, line)) for line in lines) == 1
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("name", ["results", "results/tiny"])
def test_a_file_where_results_belong_is_reported_in_one_line(name, tmp_path, snakemake):
    project = copy_project(tmp_path / "project")
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).touch()
    answer = snakemake(project, "tiny", "--dry-run")
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[-1].startswith(f"{name}: a file, or a link that leads to no folder")
    assert "Traceback" not in answer.stderr


def test_no_case_takes_the_place_of_what_is_made_of_all():
    with pytest.raises(StageError) as refused:
        read_cohort({"cases": "pipe,studies,cohort.html"}, ROOT / "config/cases")
    assert re.findall(r"^cases = '(\S+)': results/\1 is made of all cases", str(refused.value), re.MULTILINE) == [
        "studies",
        "cohort.html",
    ]


def test_no_file_is_made_for_a_case_that_the_cohort_does_not_have(project, snakemake):
    answer = snakemake(project, "tiny", "--dry-run", "--", "results/nobody/report.html")
    assert answer.returncode != 0
    assert "results/nobody/report.html: config/cases/nobody.yaml: no such case file" in answer.stdout + answer.stderr
