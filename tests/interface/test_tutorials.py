# SPDX-License-Identifier: Apache-2.0
"""Tutorials: what they tell to type is typed, on smaller vessels.

The quick tests let runs of Snakemake be forks (:mod:`tests.support.workflow_runs`), and plan what would take minutes.
The slow ones give each page to a shell as it stands.
"""

import csv
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from matplotlib import pyplot

from pipeline.case.settings.base import parse
from pipeline.case.settings.yaml_file import read_yaml
from pipeline.command.__main__ import main, split
from pipeline.command.cases import configuration
from pipeline.command.launch import snakemake
from pipeline.stages import cohort
from pipeline.stages.phantom import PhantomSettings, SeriesHeader, synthesize, write_series
from solver.runtime.sources import ROOT
from tests.pipeline.stages.test_cohort import indices
from tests.support.project_copy import copy_project
from tests.support.simulator import interpreted
from tests.support.tutorial import Block, blocks, write_file
from tests.support.workflow_runs import run_workflow

PAGES = ROOT / "docs/tutorials"
ONE_STUDY = {"studies": "plates"}
"""In place of all, whose files take the workflow half of a start to read."""
OF_TINY = {
    "results/demo": "results/tiny",
    "hemolattice run demo": "hemolattice run tiny",
    "[15.9, -33.6, 596.5]": "[4.4, 13.5, -36.7]",
    "[32.8, -26.6, 629.3]": "[10.0, 10.1, -23.9]",
    "[20.0, -37.8, 622.9]": "[1.0, 11.3, -23.9]",
    "flow_ml_s: 4.0": "flow_ml_s: 1.0",
    "--flow 4.0": "--flow 1.0",
}
"""The small fork in place of the demo, in the tutorial of a surface."""


OF_HEAD = {
    "filter:\n  region_voxels: {low: [232, 212, 26], high: [284, 275, 54]}\n": "",
    "seeds_voxel: [[258, 241, 30]]": "seeds_mm: [[4.82, 13.27, -35.22]]",
    "    - {name: sca_right, role: outlet, near_mm: [-10.1, -27.4, -26.8]}\n": "",
    "[4.7, -15.3, -53.7]": "[4.4, 13.5, -36.7]",
    "[-11.4, -30.8, -20.8]": "[10.0, 10.1, -23.9]",
    "[10.0, -27.0, -20.1]": "[1.0, 11.3, -23.9]",
    "flow_ml_s: 2.0": "flow_ml_s: 1.0",
    "--flow 2.0": "--flow 1.0",
}
"""The same in place of the head, in the tutorial from DICOM."""


class Reader:
    """Someone in an empty folder who types what a page says."""

    def __init__(self, folder: Path, monkeypatch, capsys) -> None:
        self.folder, self.capsys = folder, capsys
        monkeypatch.chdir(folder)

    def type(self, command: str) -> str:
        """What a command prints; it ends well."""
        status, printed = self._run(shlex.split(command))
        assert status == 0, printed
        return printed

    def is_refused(self, command: str) -> str:
        status, printed = self._run(shlex.split(command))
        assert status == 1
        return printed

    def _run(self, words: list[str]) -> tuple[int, str]:
        program, *given = words
        if program == "python":
            with patch.object(sys, "argv", given):
                runpy.run_path(given[0], run_name="__main__")
            pyplot.close("all")
            return 0, self.capsys.readouterr().out
        assert program == "hemolattice"
        if given[0] == "run":
            (_, *cases), options = split(given)
            options = [option for option in options if option != "--verbose"]
            ran = run_workflow(self.folder, *snakemake(options, configuration(cases) | ONE_STUDY)[4:])
            return ran.returncode, ran.stdout + ran.stderr
        return main(given), self.capsys.readouterr().out


@pytest.fixture
def reader(tmp_path, monkeypatch, capsys) -> Reader:
    return Reader(tmp_path, monkeypatch, capsys)


def of_language(found: list[Block], language: str) -> list[Block]:
    return [block for block in found if block.language == language]


def percents(printed: str) -> dict[str, float]:
    return {case: float(percent) for case, percent in re.findall(r"(\S+): ([\d.]+) % of the peak", printed)}


def test_the_canonical_case_has_the_errors_that_the_page_names(reader):
    """(16 Lambda - 3)/(3 H^2) of the peak with 16 nodes: 1.69 % with BGK at tau = 1.5, nothing with TRT; but for a
    hundredth, which single precision and the end of the run leave.
    """
    found = blocks(PAGES / "lattice-boltzmann.md")
    for block in found[: found.index(of_language(found, "diff")[0])]:
        write_file(block, reader.folder)
        printed = [reader.type(command) for command in block.commands]
        if "python plates.py" in block.text:
            assert percents(printed[0]) == pytest.approx({"plates-bgk": 100 * 13 / 768, "plates-trt": 0}, abs=0.01)


@pytest.fixture
def changed(tmp_path) -> Path:
    """A copy of the project with the collision model of the page."""
    project = copy_project(tmp_path / "project")
    for module in project.rglob("__pycache__"):
        module.unlink()  # links; what is compiled of the changed source is not to be kept
    shutil.copytree(ROOT / "tests", project / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    (diff,) = of_language(blocks(PAGES / "lattice-boltzmann.md"), "diff")
    (project / "model.diff").write_text(diff.text)
    subprocess.run(["git", "apply", "model.diff"], cwd=project, check=True)
    return project


def test_the_collision_model_of_the_page_is_its_formula_and_a_case_may_choose_it(changed):
    """The tests that the page runs, interpreted, and the schema that `make schema` writes."""
    lines = (
        f"import os; os.chdir({str(changed)!r})",  # where modules are looked for first
        "from tests.solver.kernels.test_collision import FORMS, require_all",
        "assert (27, 'compressible', 'odd-at-once') in FORMS",
        "FORMS[:] = [form for form in FORMS if form[2] == 'odd-at-once']",
        "require_all()",
        "from pipeline.case.case_file import schema",
        "assert 'odd-at-once' in schema()",
    )
    interpreted("\n".join(lines))


def test_a_surface_becomes_a_case_whose_mistakes_are_refused(reader):
    """The last run, of the case with named openings, is planned."""
    for place, block in enumerate(found := blocks(PAGES / "surface.md", OF_TINY)):
        write_file(block, reader.folder)
        for command in block.commands:
            if command == "hemolattice run wrong":
                message, _ = found[place + 1].text.removeprefix("wrong: import_surface: ").split("would be")
                assert message in reader.is_refused(command)
            elif command == "hemolattice run vessel":
                printed = reader.type(f"{command} --dry-run")
                assert {"voxelize", "solve", "report"} <= set(re.findall(r"^rule (\w+):", printed, re.MULTILINE))
            elif command == "hemolattice status vessel":
                assert reader.type(command).startswith("vessel: 1 of 11 stages done")
            elif command.startswith("cat "):
                assert "3 openings by flat caps" in (reader.folder / command.removeprefix("cat ")).read_text()
            else:
                reader.type(command)


def as_dicom(folder: Path) -> None:
    """The small fork as a series, in place of the patient's."""
    made = synthesize(parse(PhantomSettings, read_yaml(ROOT / "data/phantoms/tiny.yaml"), "tiny.yaml"))
    write_series(made.image, folder / "data/patients/vs-001", SeriesHeader("tiny", 2, "tiny", "AXIAL", 1.0))


def test_dicom_becomes_a_case_step_by_step_and_its_table_is_read(reader):
    """The series is listed and a page made to pick a seed; runs are planned. Results are made up."""
    as_dicom(reader.folder)
    listed, *found = blocks(PAGES / "dicom.md", OF_HEAD)
    assert "1 series in 44 files" in reader.type(listed.text.strip())
    for block in found:
        write_file(block, reader.folder)
        for command in block.commands:
            if command.startswith("hemolattice run"):
                case, _, targets = command.removeprefix("hemolattice run ").partition(" -- ")
                plan = f"hemolattice run {case} --dry-run" + (f" -- {targets}" if targets else "")
                assert ("rule solve" in reader.type(plan)) == (not targets)
            elif command == "python table.py":
                results = reader.folder / "results/basilar"
                (results / "openings.csv").write_text(
                    "name,role,flow_share,reynolds,pressure_mmhg,pressure_trust\n"
                    "basilar,inlet,1,147,1.2,good\npca_left,outlet,0.4,112,0.1,reservation\n"
                )
                (results / "indices.csv").write_text(
                    "quantity,name,value,unit,trust\nwall.shear_mean_pa,,2.25,Pa,good\nwall.shear_p99_pa,,9.18,Pa,good\n"
                )
                assert "| pca_left | 40.0% | 112 | 1.10 | reservation |" in reader.type(command)
            elif command == "hemolattice open basilar":
                continue  # its page is not made here
            else:
                reader.type(command)


def made_up_table() -> str:
    """``cohort.csv`` of three cases in two conditions."""
    runs = [f"p0{k}@{condition}" for condition in ("rest", "anaemia") for k in (1, 2, 3)]
    return cohort.table([cohort.row(run, "", indices(factor), []) for factor, run in enumerate(runs, start=1)])


def test_a_cohort_is_planned_in_its_conditions_and_its_table_read(reader):
    """Masks are made, the table and the conditions read and planned: what conditions share, once. The table of results
    is made up, as its page would write it.
    """
    planned = ""
    for block in blocks(PAGES / "cohort.md"):
        write_file(block, reader.folder)
        for command in block.commands:
            if command == "hemolattice run --keep-going":
                (reader.folder / "results").mkdir()
                (reader.folder / "results/cohort.csv").write_text(made_up_table())
            elif command == "hemolattice run --dry-run":
                planned = reader.type(command)
            elif command == "python table.py":
                (_, _, *lines) = reader.type(command).splitlines()
                assert len(lines) == 6
                assert lines[3].startswith("| p01 | anaemia | 5.2 | -2 |")
            else:
                reader.type(command)
    counts = dict(re.findall(r"^(\w+) +(\d+)$", planned, re.MULTILINE))
    assert (counts["import_mask"], counts["decompose"], counts["solve"]) == ("3", "3", "6")


def typed_by_hand(page: str, folder: Path, instead: dict[str, str] | None = None) -> str:
    """A page in a shell: what its commands print, and its files; a block that fails has to."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    (programs / "hemolattice").write_text(
        f'#!/bin/sh\nPYTHONPATH="${{HEMO:-{ROOT}}}" exec {sys.executable} -m hemolattice "$@"\n'
    )
    (programs / "python").write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "BROWSER": "true"}
    printed = ""
    for block in blocks(PAGES / page, instead):
        write_file(block, folder)
        if block.language == "diff":
            (folder / "model.diff").write_text(block.text)
        if block.language == "sh":
            ran = subprocess.run(
                ["bash", "-ec", block.text], cwd=folder, env=environment, capture_output=True, text=True
            )
            assert (ran.returncode != 0) == (block.about == "fails"), ran.stdout + ran.stderr
            printed += ran.stdout + ran.stderr
    return printed


@pytest.mark.slow
def test_the_page_of_a_surface_goes_to_its_report(tmp_path):
    printed = typed_by_hand("surface.md", tmp_path, OF_TINY)
    assert "vessel: 11 of 11 stages done" in printed
    assert (tmp_path / "results/vessel/report.html").exists()


@pytest.mark.slow
def test_the_page_of_dicom_goes_to_its_table(tmp_path):
    as_dicom(tmp_path)
    printed = typed_by_hand("dicom.md", tmp_path, OF_HEAD)
    assert "| pca_left | " in printed
    assert (tmp_path / "results/basilar/report.html").exists()


@pytest.mark.slow
def test_the_page_of_a_cohort_goes_to_its_table(tmp_path):
    typed_by_hand("cohort.md", tmp_path)
    with (tmp_path / "results/cohort.csv").open(newline="") as file:
        rows = {(row["case"], row["scenario"]): row for row in csv.DictReader(file)}
    assert len(rows) == 6
    assert all(row["finished"] == "yes" for row in rows.values())
    # a narrowing, and more of it, takes pressure; thinner blood takes less
    drops = {key: float(row["pressure_drop_mmhg"]) for key, row in rows.items()}
    assert drops["p01", "rest"] < drops["p02", "rest"] < drops["p03", "rest"]
    assert all(drops[case, "anaemia"] < drops[case, "rest"] for case, _ in drops)
    assert (tmp_path / "cohort.png").exists()


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_the_page_of_lattice_boltzmann_goes_to_a_case_with_its_own_model(changed):
    """In a copy of the project without the page's changes. With them its loops are all compiled again."""
    subprocess.run(["git", "apply", "--reverse", "model.diff"], cwd=changed, check=True)
    for name in ("docs", "benchmarks"):
        shutil.copytree(ROOT / name, changed / name)
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        shutil.copy(ROOT / name, changed)
    shutil.copytree(ROOT / "hemolattice", changed / "hemolattice")
    (changed / ".venv").mkdir()
    for part in Path(sys.prefix).glob("[!.]*"):
        (changed / ".venv" / part.name).symlink_to(part)
    for mark in (".venv", ".run", ".dev"):
        (changed / ".venv" / mark).touch()
    printed = typed_by_hand(
        "lattice-boltzmann.md", changed, {"hemolattice run plates-own": f"HEMO={changed} hemolattice run plates-own"}
    )
    # (16 Lambda - 3)/(3 H^2) with Lambda = 1/2, as above
    assert percents(printed)["plates-own"] == pytest.approx(100 * 5 / 768, abs=0.01)
