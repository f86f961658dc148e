# SPDX-License-Identifier: Apache-2.0
"""The command: what its words mean, what it writes, and how it says what is wrong."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.case.case_file import Case, read_cohort
from pipeline.case.settings.base import parse
from pipeline.case.settings.yaml_file import read_yaml
from pipeline.case.stages import LEVELS, ON_EVERY_LATTICE, stages_of
from pipeline.command import check, run, status
from pipeline.command.__main__ import main
from pipeline.command.cases import configuration
from pipeline.command.launch import snakemake
from pipeline.workflow.recovery import at_work, recover
from solver.domain import nodes as node_files
from solver.run.machine import Machine
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.support.dicom_files import noise, oblique, write
from tests.support.stability_matrix import of_shape
from tests.support.workflow_runs import run_workflow

ALL = "all"
ONE_STUDY = ("--config", "studies=plates")
"""To read the files of all takes a fourth of a start."""
HEAVY = {"h5py", "numba", "numpy", "pydantic", "pydicom", "snakemake", "vtkmodules", "yaml"}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder, in which the command is called."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(capsys, *words: str) -> str:
    """The one line with which a command refuses what is given."""
    assert main([*words]) == 1
    found = capsys.readouterr()
    assert found.err.startswith("hemolattice: ")
    assert found.err.count("\n") == 1
    return found.err.removeprefix("hemolattice: ").rstrip("\n")


def test_the_command_begins_without_what_only_a_subcommand_needs():
    """Each of these packages takes a tenth of a second and more."""
    words = (
        f"import sys; from pipeline.command.__main__ import main; main(['version']); print({HEAVY} & {{*sys.modules}})"
    )
    found = subprocess.run([sys.executable, "-c", words], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"hemolattice \d+\.\d+\.\d+\nset\(\)\n", found.stdout)


@pytest.mark.parametrize("name", ["new", "pick", "run", "demo", "status", "open", "check", "version"])
def test_each_subcommand_has_a_help_and_unknown_words_end_in_status_2(name, capsys):
    for words, code in (([name, "--help"], 0), ([f"{name}s"], 2), ([], 2)):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == code
    assert f"usage: hemolattice {name}" in capsys.readouterr().out


GIVEN = {
    "volume": ["--volume", "image.nrrd"],
    "mask": ["--mask", "a mask.nii.gz", "--vessel", "carotid"],
    "surface": ["--surface", "vessel.stl", "--unit", "mm"],
    "dicom": ["--dicom", "images"],
}


@pytest.mark.parametrize("entry", GIVEN)
def test_a_new_case_file_is_valid_with_and_without_what_its_comments_show(entry, folder, capsys):
    given = Path(GIVEN[entry][1])
    given.touch() if entry != "dicom" else write(oblique(noise()), given)
    assert main(["new", "case1", *GIVEN[entry], "--flow", "4.5"]) == 0
    said, path = capsys.readouterr().out, folder / "config/cases/case1.yaml"
    assert said.endswith(f"Next: hemolattice {'pick' if entry in ('dicom', 'volume') else 'run'} case1\n")
    assert ("1 series in 6 files" in said) == (entry == "dicom")
    case = read_cohort({"cases": ["case1"]})["case1"]
    assert getattr(case.input, entry) == str(given)
    assert case.solve.inlets["*"].flow_ml_s == 4.5
    assert case.vessel == ("carotid" if entry == "mask" else None)
    shown = re.sub(r"^# ((?: |\w+:).*)$", r"\1", path.read_text(), flags=re.MULTILINE)
    path.write_text(shown)
    filled = parse(Case, read_yaml(path), "shown")
    assert [opening.name for opening in filled.surface.openings] == ["ica", "mca"]
    assert filled.voxelize.nodes_across == 20
    assert (filled.segment.lower == 200) == (filled.load.series is not None) == (entry in ("dicom", "volume"))
    assert refusal(capsys, "new", "case1", *GIVEN[entry], "--flow", "4") == (
        "config/cases/case1.yaml: is there already; give another name, or rename that file"
    )
    assert path.read_text() == shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a case", "--volume", "x"], "NAME = 'a case': input should be a name of at most 64"),
        (["cohort.a", "--volume", "x"], "NAME = 'cohort.a': results/cohort.a is made of all cases"),
        (["a", "--volume", "none.nrrd"], "new: input.volume = 'none.nrrd': no such file or folder; correct the path"),
        (["a", "--surface", "x"], "--unit: missing; a surface's file does not tell its unit: give mm"),
        (["a", "--mask", "x", "--unit", "mm"], "--unit mm: belongs to --surface; leave it out"),
        (["a", "--dicom", "x"], "no CT, MR or XA image among 1 files"),
        (["a", "--volume", "x", "--flow", "-1"], "solve.inlets.*.flow_ml_s = -1.0: input should be greater than 0"),
    ],
)
def test_what_makes_no_valid_case_is_refused_and_nothing_is_written(words, said, folder, capsys):
    (folder / "x").write_text("x")
    assert said in refusal(capsys, "new", *words, *([] if "--flow" in words else ["--flow", "4"]))
    assert {path.name for path in folder.iterdir()} == {"x"}


def test_cases_are_named_or_are_files_of_one_folder(folder):
    with pytest.raises(StageError, match=r"^no case in config/cases/; write one by `hemolattice new NAME"):
        configuration([])
    (folder / "config/cases").mkdir(parents=True)
    (folder / "mine").mkdir()
    for path in ("config/cases/b.yaml", "config/cases/a.yaml", "mine/c.yaml", "mine/d.yml"):
        Path(path).touch()
    assert configuration([]) == {"cases": ["a", "b"]}
    assert configuration(["b", "config/cases/a.yaml"]) == {"cases": ["b", "a"]}
    assert configuration(["mine/c.yaml"]) == {"cases": ["c"], "case_folder": "mine"}
    for words, said in (
        (["mine/x.yaml"], r"^mine/x\.yaml: no such file; mine/ has c\.yaml$"),
        (["none/x.yaml"], r"^none/x\.yaml: no such file; write one by"),
        (["mine/d.yml"], r"^mine/d\.yml: call it d\.yaml"),
        (["mine/c.yaml", "a"], r"^cases lie in config/cases and in mine; run those of one folder at a time$"),
    ):
        with pytest.raises(StageError, match=said):
            configuration(words)
    (folder / "config/config.yaml").touch()
    assert configuration([]) == {}


CHOSEN = {"cases": ["a", "007", "1e5", "true"], "case_folder": "my cases, old"}
"""Names that would be read as numbers, and a folder with signs."""


def taken(options: list[str], targets: tuple[str, ...] = ()) -> SimpleNamespace:
    """What Snakemake's own parser takes of the command line."""
    from snakemake.cli import get_argument_parser  # half a second, which other workers of the tests are spared

    command = snakemake(options, CHOSEN, targets)
    return get_argument_parser().parse_args(command[command.index("snakemake") + 1 :])


@pytest.mark.parametrize(
    ("options", "cores", "jobs", "config", "targets"),
    [
        ([], ALL, None, {}, []),
        (["--cores", "3", "-k"], 3, None, {}, []),
        (["-c3", "--config", "threads=1", "xy=2", "-k"], 3, None, {"threads": 1, "xy": 2}, []),
        (["-j", "2", "-k"], None, 2, {}, []),
        (["-k", "--config=threads=1", "-C", "xy=2"], ALL, None, {"threads": 1, "xy": 2}, []),
        (
            ["-k", "--config", "threads=1", "--", "results/a/pick.html"],
            ALL,
            None,
            {"threads": 1},
            ["results/a/pick.html"],
        ),
    ],
)
def test_options_reach_snakemake_with_all_entries_of_the_configuration(options, cores, jobs, config, targets):
    from snakemake.cli import parse_config
    from snakemake.utils import available_cpu_count

    found = taken(options)
    assert (found.cores, found.jobs) == (available_cpu_count() if cores == ALL else cores, jobs)
    assert parse_config(found.config) == config | CHOSEN
    assert [*found.targets] == targets
    assert found.keep_going == ("-k" in options)
    assert found.snakefile == str(ROOT / "Snakefile")


def test_a_profile_says_how_many_cores():
    command = snakemake(["--profile", "config/profiles/local"], {})
    assert "--cores" not in command
    assert "--config" not in command


def test_a_case_file_from_anywhere_runs_in_the_folder_of_the_user(folder, capsys, monkeypatch):
    """With Snakemake's own plan of it; a case that is not there ends with those that are."""
    (folder / "mine").mkdir()
    (folder / "mine/odd.yaml").write_text((ROOT / "config/cases/tiny.yaml").read_text())
    answers = []

    def without_imports(command: list[str]) -> int:
        answers.append(run_workflow(folder, *command[command.index("snakemake") + 1 :]))
        return answers[-1].returncode

    monkeypatch.setattr(run, "launch", without_imports)
    assert main(["run", "mine/odd.yaml", "--dry-run", *ONE_STUDY]) == 0
    planned = answers[-1].stdout + answers[-1].stderr
    assert "results/odd/report.html" in planned
    assert str(folder) not in planned.partition("rule ")[2]
    assert main(["run", "tinny", "--dry-run", *ONE_STUDY]) == 1
    assert answers[-1].stderr.splitlines()[-1] == "cases: 'tinny': no file config/cases/tinny.yaml; did you mean tiny?"
    (folder / "config/cases").mkdir(parents=True)
    (folder / "config/cases/a.yaml").touch()
    assert refusal(capsys, "run", "--keep-going", "a").startswith("a: a case stands before the options")


def test_the_page_to_pick_on_is_of_a_case_with_images(folder, capsys, monkeypatch):
    calls: list[list[str]] = []
    monkeypatch.setattr(run, "launch_quietly", lambda command, *_: calls.append(command) or 0)
    put("config/cases/a.yaml", text="input: {network: adan56}\n")
    assert refusal(capsys, "pick", "a") == ("a: enters with a network, and the page is for images; hemolattice run a")
    assert refusal(capsys, "pick", "tinny") == "cases: 'tinny': no file config/cases/tinny.yaml; did you mean tiny?"
    assert not calls
    assert main(["pick", "tiny"]) == 0
    assert calls[0][-3:] == ['cases=["tiny"]', "--", "results/tiny/pick.html"]
    assert (folder / "results/tiny/pick.html").as_uri() in capsys.readouterr().out


def put(*paths: str, text: str = "") -> None:
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)


def test_status_says_what_is_done_what_failed_and_where_the_report_is(folder, capsys):
    case = "input: {phantom: data/phantoms/tiny.yaml}\nsolve: {inlets: {'*': {flow_ml_s: 1}}}\n"
    put("config/cases/a.yaml", "config/cases/b.yaml", text=f"{case}convergence: {{spacings: 2}}\n")
    put(*(f"results/a/{stage}.provenance.json" for stage in ("phantom", "load")))
    put("results/a/logs/filter.log", text="10:00:00 filter: error: too noisy; set filter.smoothing\nsecond line\n")
    put("results/b/report.html", "results/cohort.html")
    assert main(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    own = stages_of(read_cohort({"cases": ["a"]})["a"], makes_images=True)
    count = len([*own, "crate", *ON_EVERY_LATTICE])  # these on two lattices
    assert lines[:3] == [
        f"a: 2 of {count} stages done: phantom, load",
        "  filter failed: too noisy; set filter.smoothing",
        "    log: results/a/logs/filter.log; when it is corrected: hemolattice run a",
    ]
    assert "voxelize, voxelize (coarser-1), decompose" in lines[3]
    assert lines[4] == f"b: 0 of {count} stages done"
    assert lines[-2:] == ["  report: results/b/report.html", "all cases: results/cohort.html"]
    assert main(["status", "a"]) == 0
    assert "b:" not in capsys.readouterr().out
    put("results/tiny/logs/load.log", "results/gone/logs/load.log")
    assert main(["status"]) == 0  # with a shipped case that has run here
    assert re.findall(r"^(\w+): \d", capsys.readouterr().out, re.MULTILINE) == ["a", "b", "tiny"]


def test_status_tells_a_stage_that_runs_from_one_that_was_stopped(folder, capsys):
    put("config/cases/a.yaml", text="input: {network: adan56}\n")
    put("results/a/logs/tree.log", text="10:00:00 tree: cycle 1\n10:00:01 tree: cycle 2\n")
    assert not at_work()
    lock = recover()
    assert at_work()
    assert main(["status"]) == 0
    assert "  tree is running: 10:00:01 tree: cycle 2\n" in capsys.readouterr().out
    lock.close()
    assert not at_work()
    assert main(["status"]) == 0
    assert "  tree was stopped; it goes on by: hemolattice run a\n" in capsys.readouterr().out


def test_status_names_the_run_whose_stage_a_scenario_links_to(folder, capsys):
    put("config/config.yaml", text="cases: [tiny]\nscenarios: {rest: {}, thin: {solve: {viscosity_pa_s: 0.003}}}\n")
    put("results/tiny@rest/logs/load.log", text="10:00:00 load: error: no series\n")
    assert main(["status"]) == 0
    first, second = capsys.readouterr().out.split("tiny@thin: ")
    log = "results/tiny@rest/logs/load.log"
    failed = f"  load failed: no series\n    log: {log}; when it is corrected: hemolattice run tiny\n"
    assert failed in first
    assert failed in second
    own = stages_of(read_cohort({"cases": ["tiny"]})["tiny"], makes_images=False)  # they are those of the first
    assert second.startswith(f"0 of {len([*own, 'crate'])} stages")


def test_stages_on_every_lattice_are_those_whose_rules_have_a_level():
    rules = "".join(
        (ROOT / "pipeline/rules" / name).read_text() for name in ("geometry.smk", "solve.smk", "results.smk")
    )
    found = re.findall(r"^rule (\w+):(?:\n(?!rule ).*)*?provenance=\"results/\{case\}/\{level\}", rules, re.MULTILINE)
    assert [*dict.fromkeys(found)] == [*ON_EVERY_LATTICE]
    assert LEVELS[0] == ""


def test_open_shows_the_page_and_else_names_the_cases_that_have_one(folder, capsys, monkeypatch):
    shown: list[str] = []
    monkeypatch.setattr(status.webbrowser, "open", shown.append)
    assert refusal(capsys, "open", "a").endswith("no such page yet; `hemolattice run a` makes it")
    put("results/b/report.html", "results/cohort.html")
    assert refusal(capsys, "open", "a") == (
        "results/a/report.html: no such page yet; these cases have one: b; `hemolattice run a` makes it"
    )
    for words, page in (
        (["b"], "results/b/report.html"),
        (["config/cases/b.yaml"], "results/b/report.html"),
        ([], "results/cohort.html"),
    ):
        assert main(["open", *words]) == 0
        assert capsys.readouterr().out == f"{folder / page}\n"
        assert shown.pop() == (folder / page).as_uri()


def test_check_says_what_there_is_and_ends_in_status_1_where_a_package_is_missing(folder, capsys, monkeypatch):
    monkeypatch.setattr(check, "machine", lambda: Machine(3, 2e9, no_device="no driver"))
    assert main(["check", "--quick"]) == 0
    said = capsys.readouterr().out
    assert "3 cores" in said
    assert "2 GB free" in said
    assert "none, runs take the processor: no driver" in said
    assert said.splitlines()[-1] == "ready        yes; next: hemolattice demo, or hemolattice new CASE"
    assert len(check.required()) > 15
    monkeypatch.setattr(check, "required", lambda: ["numpy>=2", "numba>=99", "no-such-package>=1"])
    assert main(["check", "--quick"]) == 1
    assert re.search(
        r"1 of 3 are there; numba>=99 is needed and [\d.]+ is there: pip install 'numba>=99'; no-such-package>=1 is"
        r" missing: pip install 'no-such-package>=1'\n(?s:.*)ready        no; see the lines above\n",
        capsys.readouterr().out,
    )


def test_the_self_test_knows_the_peak_at_the_nodes_and_refuses_another():
    """Of the parabola F (h^2/4 - y^2) / (2 mu) at nodes half a spacing from the walls and one apart."""
    nodes = [(k + 0.5) / check.NODES - 0.5 for k in range(check.NODES)]
    speeds = [
        check.FORCE_N_M3 * (check.HEIGHT_MM * 1e-3) ** 2 * (0.25 - y**2) / (2 * check.VISCOSITY_PA_S) for y in nodes
    ]
    assert check.expected_mm_s() == pytest.approx(1e3 * max(speeds), rel=1e-12)
    assert "(error 0.05 %, at most 0.1 %), in 3 s" in check.said_of(check.expected_mm_s() * 1.0005, 3.1)
    for wrong in (1.002, 0.998, float("nan")):
        with pytest.raises(StageError, match="remove the __pycache__ folders"):
            check.said_of(check.expected_mm_s() * wrong, 1)


def test_the_self_test_computes_the_peak_with_nothing_to_compile_but_the_flow(monkeypatch, tmp_path):
    """Alone in a folder: by the node arrays that the stages make of the channel, and no loop of theirs. Numba names the
    files of the loops that a run has: some were compiled before, with the small case.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_DEBUG_CACHE", "1")
    called, said = subprocess.run, []

    def noted(command: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
        said.append(called(command, **more))
        return said[-1]

    monkeypatch.setattr(check.subprocess, "run", noted)
    assert "(error" in check.self_test()
    names = " ".join(
        re.findall(r"^\[cache\] data (?:loaded from|saved to) '.*/(.+\.nbc)'$", said[0].stdout, re.MULTILINE)
    )
    assert "steps.make_steps" in names
    assert not re.search(r"crossings|thin_passages|links\._|opening_pass", names)
    made = of_shape({"shape": "channel", "height_mm": check.HEIGHT_MM, "ends": "periodic"})
    node_files.save(made(check.HEIGHT_MM / check.NODES), tmp_path / "channel.h5")
    assert node_files.stored_checksum(tmp_path / "channel.h5") == node_files.stored_checksum(check.CHANNEL)


def test_a_failed_self_test_ends_with_what_the_solver_said(monkeypatch, tmp_path):
    (tmp_path / "nodes.h5").write_bytes(b"no nodes")
    monkeypatch.setattr(check, "CHANNEL", tmp_path / "nodes.h5")
    with pytest.raises(StageError, match=r"the solver failed; its last lines:\n(.*\n)*.*nodes\.h5"):
        check.self_test()
