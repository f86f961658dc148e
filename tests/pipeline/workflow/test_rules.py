# SPDX-License-Identifier: Apache-2.0
"""The rules of the workflow: what they declare, how they are laid out, and that they run from anywhere."""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from pipeline.case.case_file import read_cohort
from pipeline.case.merging import merged
from pipeline.case.stages import ENTERED, STAGES, WITH_SETTINGS
from pipeline.workflow.asked import of_no_case, stated_in
from pipeline.workflow.rules import Cases
from solver.runtime.checksums import checksum
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.support.variants import some
from tests.support.workflow_runs import run_workflow

FILES = sorted((ROOT / "pipeline/rules").glob("*.smk"))
SHOW = """
import json
import os
include: {snakefile!r}
RULES = [
    {{"name": rule.name, "input": [*rule.input.keys()], "output": [*rule.output.keys()]}} for rule in workflow.rules
]
print("RULES", json.dumps(RULES))
"""
"""A workflow that tells the names of the inputs and outputs of all rules."""

ELSEWHERE = ("-s", str(ROOT / "Snakefile"))
"""Options to run the workflow from another folder."""

MODULE = """
rule of_the_user:
    input:
        "results/tiny/series.json",
    output:
        "mine.json",
    shell:
        "cp {{input}} {{output}}"


module hemolattice:
    snakefile:
        {snakefile!r}
    config:
        {config!r}


use rule * from hemolattice{rename}
"""
"""A workflow of a user, of which this one is a part."""


def snakemake(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_workflow(folder, "--cores", "2", *options, **environment)


def test_without_cores_one_line_says_what_to_type(tmp_path):
    done = run_workflow(tmp_path, *ELSEWHERE)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == "say how many cores to use: snakemake --cores all"
    assert "Error" not in done.stderr


@pytest.mark.parametrize("option", some(["--dag", "--summary", "--dry-run"], "--summary"))
def test_what_only_tells_needs_no_cores(option, tmp_path):
    done = run_workflow(tmp_path, *ELSEWHERE, option, "--config", "cases=tiny")
    assert done.returncode == 0, done.stderr
    assert "solve" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("results/tiny/pick.html", "tiny is none of the cases of this run; add --config cases=tiny to the command"),
        ("results/p07@rest/pick.html", "config/cases/p07.yaml: no such case file; hemolattice new p07 writes one"),
    ],
)
def test_a_result_of_no_case_of_the_run_is_answered_with_what_to_type(target, said, tmp_path):
    done = snakemake(tmp_path, *ELSEWHERE, target, "--dry-run", "--config", "cases=demo")
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == f"{target}: {said}"


OF_ONE = (("--config", "cases=q2"), ["q2"])
"""Options that choose one case of a table, and which it is."""


def test_results_of_a_case_of_the_run_of_studies_and_of_all_cases_can_be_asked_for():
    asked = ["snakemake", "results/tiny/report.html", "results/studies/pipe/a.png", "results/cohort.html", "cases=tiny"]
    assert of_no_case(asked, ["tiny"], Path("config/cases")) is None


@pytest.mark.parametrize(("more", "runs"), some([((), ["q1", "q2"]), OF_ONE], OF_ONE))
def test_a_table_of_a_file_of_the_command_line_takes_the_place_of_the_cases_that_are_set(more, runs, tmp_path):
    (tmp_path / "table.csv").write_text("case,file,solve.inlets.*.flow_ml_s\nq1,tiny,1\nq2,tiny,2\n")
    (tmp_path / "study.yaml").write_text("cohort: table.csv\n")
    done = snakemake(tmp_path, *ELSEWHERE, "--configfile", "study.yaml", "--dry-run", *more)
    assert done.returncode == 0, done.stderr
    assert {*re.findall(r"output: results/(\w+)/report.html", done.stdout + done.stderr)} == {*runs}


STATED = [
    ({"cases": "tiny", "validation": "all"}, {"threads": 0}, "config/config.yaml: validation", "study.yaml: threads"),
    ({"threads": 2}, {"threads": 3}, "--config: threads"),
    (
        {"defaults": {"solve": {"lattice_speed": 0.1}}},
        {"defaults": {"solve": {"densty": 1}}},
        "study.yaml: defaults.solve",
    ),
    (
        {"defaults": {"solve": {"densty": 1}}},
        {"defaults": {"solve": {"lattice_speed": 0.1}}},
        "config.yaml: defaults.solve",
    ),
    ({}, {"scenarios": {"rest": {"solve": {"densty": 1}}}}, "study.yaml: scenarios.rest.solve.densty"),
]


@pytest.mark.parametrize("stated", STATED)
def test_a_mistake_names_the_file_or_option_that_states_it(stated, tmp_path, monkeypatch):
    """Of the configuration's own file, one of the command line, and its option ``--config``, which goes first."""
    monkeypatch.chdir(tmp_path)
    own, study, *wanted = stated
    Path("config").mkdir()
    Path("config/config.yaml").write_text(json.dumps(own))
    Path("study.yaml").write_text(json.dumps(study))
    option = {"threads": -1} if "--config" in wanted[0] else {}
    place = stated_in(option, [tmp_path / "study.yaml"])
    with pytest.raises(StageError) as error:
        read_cohort({"cases": "tiny"} | merged(merged(own, study), option), source=place)
    assert [any(each in line for line in str(error.value).splitlines()) for each in wanted] == [True] * len(wanted)


def test_the_snakefile_is_short_and_tells_its_commands():
    text = (ROOT / "Snakefile").read_text()
    assert text.count("\n") < 150
    head = ast.get_docstring(ast.parse(text.partition("\nimport ")[0]))
    commands = re.findall(r"^    (snakemake .+?)  ", head, re.MULTILINE)
    assert len(commands) == 7
    for command in commands:
        given = shlex.split(command)
        assert [word for word in given if word.startswith("config/") and not (ROOT / word).exists()] == []
    assert "min_version(" in text
    included = re.findall(r'^include: "(.+)"$', text, re.MULTILINE)
    assert sorted(included) == [path.relative_to(ROOT).as_posix() for path in FILES]


@pytest.mark.parametrize(
    ("cases", "stated", "cores", "each"),
    [
        (["tiny"], {}, 16, 16),
        (["tiny", "demo", "pipe"], {}, 16, 5),
        (["tiny", "demo", "pipe", "bend", "plates", "pulsatile"], {}, 16, 4),  # four at once, the others after them
        (["tiny", "demo", "pipe"], {}, 2, 1),
        (["tiny", "demo", "pipe"], {"threads": 3}, 16, 3),
        (["tiny", "demo", "pipe"], {"cluster": {}}, 16, 16),
    ],
)
def test_several_cases_share_the_cores_where_nothing_says_how_many_a_stage_takes(cases, stated, cores, each):
    found = Cases({"cases": cases, **stated}, cores, True, lambda config, options: {})
    assert {found.cores(SimpleNamespace(case=name)) for name in cases} == {each}
    half = each if "cluster" in stated else max(each // 2, 1)  # of two stages side by side
    assert {found.half_the_cores(SimpleNamespace(case=name)) for name in cases} == {half}


def test_the_rules_ask_which_cases_have_a_stage_as_the_chain_says(tmp_path, monkeypatch):
    """Of cases that ask for one more stage each, and of one that asks for none."""
    monkeypatch.chdir(ROOT)
    asked = {"reduced": {"flows": [0.5, 2]}, "convergence": {"spacings": 2}, "uncertainty": "quick", "transport": {}}
    tiny = yaml.safe_load((ROOT / "config/cases/tiny.yaml").read_text())
    for stage, section in (asked | {"none": None}).items():
        (tmp_path / f"{stage}.yaml").write_text(
            yaml.safe_dump(tiny | ({stage: section} if section is not None else {}))
        )
    config = {"cases": [*asked, "none"], "case_folder": str(tmp_path)}
    found = Cases(config, 2, True, lambda config, options: {})
    assert {stage: found.running(stage) for stage in asked} == {stage: [stage] for stage in asked}
    assert found.running("solve") == [*asked, "none"]


def test_snakemakes_linter_finds_nothing():
    answer = snakemake(ROOT, "--lint", "--config", "cases=tiny")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "Congratulations" in answer.stdout + answer.stderr


def test_stages_are_listed_once_in_the_order_of_their_rules():
    included = re.findall(r'^include: "(.+)"$', (ROOT / "Snakefile").read_text(), re.MULTILINE)
    rules = re.findall(r"^rule (\w+):", "".join((ROOT / path).read_text() for path in included), re.MULTILINE)
    assert [rule for rule in rules if rule in STAGES] == [*STAGES]
    for stages in ENTERED.values():
        assert [stage for stage in STAGES if stage in stages] == [*stages]
    takes = {rule for rule, text in blocks() if re.search(r"settings=cases\.(?!name)", text)}
    assert {*WITH_SETTINGS} == takes & {*STAGES}
    files = [file for folder in ("pipeline", "solver") for file in (ROOT / folder).rglob("*.py")]
    listed = [file.name for file in files if re.search(r'"load"[^"]+"filter"[^"]+"segment"', file.read_text())]
    assert listed == ["stages.py"]


def blocks() -> Iterator[tuple[str, str]]:
    """Each rule's name and text."""
    for path in FILES:
        parts = re.split(r"^(?:rule (\w+):|for STAGE)", path.read_text(), flags=re.MULTILINE)
        yield from ((name, text) for name, text in zip(parts[1::2], parts[2::2], strict=True) if name)


def declared(module: str) -> dict[str, Any]:
    """Roles of a stage's inputs and outputs, as its command line has them, and which inputs may be left out."""
    path = ROOT / Path(*module.split("."))
    file = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
    calls = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))
    call = next(call for call in calls if ast.unparse(call.func) == "run_stage")
    given = dict(zip(("stage", "description", "inputs", "outputs", "compute"), call.args, strict=False))
    given |= {word.arg: word.value for word in call.keywords}
    found = {role: [ast.literal_eval(key) for key in given[role].keys] for role in ("inputs", "outputs")}
    return found | {"optional": ast.literal_eval(given["optional"]) if "optional" in given else ()}


@pytest.fixture(scope="module")
def named(tmp_path_factory) -> dict[str, dict[str, list[str]]]:
    """Names of the inputs and outputs of each rule."""
    folder = tmp_path_factory.mktemp("show")
    (folder / "Snakefile").write_text(SHOW.format(snakefile=str(ROOT / "Snakefile")))
    answer = snakemake(folder, "--dry-run", "--config", "cases=tiny")
    found = re.search(r"^RULES (.+)$", answer.stdout + answer.stderr, re.MULTILINE)
    assert found, answer.stderr
    return {rule["name"]: rule for rule in json.loads(found[1])}


UNPACKED = {"report": re.compile(r'"(\w+)": rules\.')}
"""Rules some of whose inputs are named by a function, and how these names look."""


@pytest.mark.parametrize("rule", [name for name, _ in blocks()])
def test_a_rule_and_its_stage_have_the_same_files_and_neither_names_one_twice(rule, named):
    """A role is named where the rule says which file it is, and where the stage says what it holds; the command line
    follows from it.
    """
    text = dict(blocks())[rule]
    stage = declared(re.search(r'call=call\("([\w.]+)"', text)[1])
    unpacked = UNPACKED[rule].findall(text) if rule in UNPACKED else []
    given = [name.replace("_", "-") for name in [*named[rule]["input"], *unpacked]]
    also = ["old-docs", "old-kept", "old-pages"] if rule == "validation_page" else []  # what the rule makes again
    assert sorted(given + also) == sorted(stage["inputs"])
    made = [name.replace("_", "-") for name in named[rule]["output"]]
    assert sorted(made) == sorted([*stage["outputs"], "provenance"])
    spelled = re.findall(r"\{(?:input|output)\.(\w+)", text)
    assert spelled == (["docs", "pages", "kept"] if rule == "validation_page" else [])


def test_the_workflow_runs_from_another_folder_on_what_is_there_and_else_on_what_is_shipped(tmp_path):
    """With a configuration and a case of the user's beside a shipped one, and folders called as the project's."""
    for name in ("pipeline", "solver"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not this one')")
    (tmp_path / "config/cases").mkdir(parents=True)
    (tmp_path / "config/config.yaml").write_text("cases: [mine, tiny]\nstudies: [plates]\n")
    (tmp_path / "config/cases/mine.yaml").write_text((ROOT / "config/cases/tiny.yaml").read_text())
    targets = [f"results/{name}/truth.json" for name in ("mine", "tiny")]
    answer = snakemake(tmp_path, *ELSEWHERE, *targets)
    assert answer.returncode == 0, answer.stderr
    mine, shipped = (tmp_path / path for path in targets)
    assert checksum(mine) == checksum(shipped)
    assert {path.name for path in tmp_path.iterdir()} == {"config", "pipeline", "results", "solver", ".snakemake"}
    again = snakemake(tmp_path, *ELSEWHERE, "--dry-run", *targets)
    assert "Nothing to be done" in again.stdout + again.stderr
    (tmp_path / "config/cases/tiny.yaml").write_text("input: {}\n")
    refused = snakemake(tmp_path, *ELSEWHERE, "--dry-run", *targets)
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1].startswith("config/cases/tiny.yaml: ")


@pytest.mark.parametrize("rename", [pytest.param("", marks=pytest.mark.slow), " as hemolattice_*"])
def test_the_workflow_is_a_module_of_another_one(tmp_path, rename):
    config = {"cases": ["tiny"], "studies": ["plates"], "threads": 1}
    text = MODULE.format(snakefile=str(ROOT / "Snakefile"), config=config, rename=rename)
    (tmp_path / "Snakefile").write_text(text)
    prefix = rename.removeprefix(" as ").removesuffix("*")
    answer = snakemake(tmp_path, "--dry-run", "mine.json", f"{prefix}all")
    assert answer.returncode == 0, answer.stderr
    planned = {*re.findall(r"^(?:local)?rule (\w+):", answer.stdout + answer.stderr, re.MULTILINE)}
    chain = {*ENTERED["phantom"], "solve", "report", "crate", "cohort"}
    assert {"of_the_user", *(prefix + stage for stage in chain)} <= planned
    if prefix:
        answer = snakemake(tmp_path)
        assert answer.returncode == 0, answer.stderr
        assert json.loads((tmp_path / "mine.json").read_text())["modality"] == "CT"


APPTAINER = """#!/bin/sh
# Stands for Apptainer: notes how it is called, and runs the command on this machine.
[ "$1" = --version ] && echo apptainer version 1.3.0 && exit
echo "$@" >> calls.txt
while [ "$1" != hemolattice.sif ]; do shift; done
shift
exec "$@"
"""


def test_stages_run_in_the_image_that_the_configuration_names(tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("apptainer", APPTAINER), ("python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    options = (*ELSEWHERE, "--sdm", "apptainer", "--config", "cases=tiny", "studies=plates", "--")
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    answer = snakemake(tmp_path, *options, "results/tiny/truth.json", PATH=path)
    assert answer.returncode == 1
    assert "container: hemolattice.sif: no such file; build it by `apptainer build" in answer.stderr
    (tmp_path / "hemolattice.sif").touch()
    answer = snakemake(tmp_path, *options, "results/tiny/truth.json", PATH=path)
    assert answer.returncode == 0, answer.stderr
    (call,) = (tmp_path / "calls.txt").read_text().splitlines()
    assert " hemolattice.sif " in call
    assert "python -P -m pipeline.stages.phantom --vessel" in call
    assert sys.executable not in call
    assert (tmp_path / "results/tiny/truth.json").is_file()
