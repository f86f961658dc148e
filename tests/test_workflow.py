"""The workflow as a user runs it: one small case from DICOM to report, in a copy of the project."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from solver.stage import checksum

STAGES = ["phantom", "load", "filter", "segment", "surface", "voxelize", "decompose", "solve", "postprocess", "report"]
FILES = {
    "truth.json", "truth.nrrd", "volume.nrrd", "series.json", "filtered.nrrd", "lumen.nrrd", "occupancy.nrrd",
    "segmentation.json", "segmentation.png", "segmentation.html", "surface.vtp", "openings.json", "lattice.vti",
    "nodes.h5", "flow.vtkhdf", "monitor.csv", "solve.json", "wall.vtp", "indices.json", "report.html",
}  # fmt: skip


@pytest.fixture(scope="module")
def planned(snakemake):
    """Stages that a run would execute now, in the order of the chain, as a function of the project."""

    def dry_run(project: Path) -> list[str]:
        answer = snakemake(project, "tiny", "--dry-run")
        assert answer.returncode == 0, answer.stderr
        rules = set(re.findall(r"^(?:local)?rule (\w+):", answer.stdout + answer.stderr, re.MULTILINE))
        return [stage for stage in STAGES if stage in rules]

    return dry_run


def change_case(project: Path, section: str, key: str, value: object) -> None:
    file = project / "config/cases/tiny.yaml"
    settings = yaml.safe_load(file.read_text())
    settings.setdefault(section, {})[key] = value
    file.write_text(yaml.safe_dump(settings))


@pytest.fixture(scope="module")
def finished(study, snakemake) -> Path:
    """A copy of the project in which the tiny case has run."""
    answer = snakemake(study, "tiny")
    assert answer.returncode == 0, answer.stderr
    return study


@pytest.fixture
def project(finished, tmp_path) -> Path:
    """A copy of the finished project (with its times of modification) that a test may change."""
    return shutil.copytree(finished, tmp_path / "project", copy_function=shutil.copy2)


def test_every_stage_leaves_its_outputs_log_and_provenance(finished):
    results = finished / "results/tiny"
    assert {path.name for path in results.iterdir() if path.is_file()} == FILES | {
        f"{s}.provenance.json" for s in STAGES
    }
    assert {path.name for path in results.iterdir() if path.is_dir()} == {"dicom", "figures", "logs"}
    for stage in STAGES:
        record = json.loads((results / f"{stage}.provenance.json").read_text())
        assert record["stage"] == stage
        assert (results / "logs" / f"{stage}.log").is_file()


def test_checksums_chain_the_stages(finished):
    results = finished / "results/tiny"
    record = json.loads((results / "decompose.provenance.json").read_text())
    assert record["outputs_sha256"]["nodes"] == checksum(results / "nodes.h5")
    assert json.loads((results / "solve.provenance.json").read_text())["inputs_sha256"]["nodes"] == checksum(
        results / "nodes.h5"
    )


def test_flow_is_balanced_and_as_imposed(finished):
    indices = json.loads((finished / "results/tiny/indices.json").read_text())
    checks = {check["name"]: check["value"] for check in indices["checks"]}
    assert checks["converged"] is True
    assert abs(checks["flow balance"]) < 0.005  # what is asked of the demo, at half its resolution
    assert abs(checks["inflow against imposed"]) < 0.01
    assert abs(checks["flow balance of the velocity field"]) < 0.01  # sampled in outlets of 6 nodes across


def test_nothing_is_left_to_do_after_a_run(finished, planned):
    assert planned(finished) == []


@pytest.mark.parametrize(
    ("section", "key", "value", "first"),
    [
        ("segment", "leak_growth", 1.6, "segment"),
        ("voxelize", "nodes_across", 9, "voxelize"),
        ("solve", "viscosity_pa_s", 0.004, "solve"),
        ("report", "title", "Other", "report"),
    ],
)
def test_a_changed_setting_reruns_its_stage_and_those_after_it(project, planned, section, key, value, first):
    change_case(project, section, key, value)
    assert planned(project) == STAGES[STAGES.index(first) :]


@pytest.mark.parametrize(
    ("module", "first"),
    [
        ("pipeline/filter.py", "filter"), ("pipeline/segmentation/page.js", "segment"),
        ("pipeline/postprocess.py", "postprocess"), ("pipeline/report.py", "report"),
    ],
)  # fmt: skip
def test_an_edited_module_reruns_its_stage(project, planned, module, first):
    with (project / module).open("a") as file:
        file.write("# edited\n")
    assert planned(project) == STAGES[STAGES.index(first) :]


def test_a_page_to_pick_seeds_on_needs_none(project, snakemake):
    file = project / "config/cases/tiny.yaml"
    settings = yaml.safe_load(file.read_text())
    del settings["segment"]
    file.write_text(yaml.safe_dump(settings))
    answer = snakemake(project, "tiny", "--dry-run", "results/tiny/pick.html")
    assert answer.returncode == 0, answer.stderr
    assert set(re.findall(r"^(?:local)?rule (\w+):", answer.stdout + answer.stderr, re.MULTILINE)) == {"pick"}


def test_a_killed_solver_leaves_nothing_and_the_next_run_finishes(project, snakemake):
    change_case(project, "solve", "steady_tolerance", 1e-12)  # long enough to be caught at work
    results = project / "results/tiny"
    log = results / "logs/solve.log"
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--config", "cases=tiny"]
    run = subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started = time.time()
    while not (log.is_file() and log.stat().st_mtime > started and "MLUPS" in log.read_text()):
        assert run.poll() is None, "the run ended before it could be killed"
        assert time.time() < started + 120
        time.sleep(0.05)
    for process in solver_processes(project):
        os.kill(process, signal.SIGKILL)
    assert run.wait(timeout=60) != 0
    left = {path.name for path in results.iterdir()}
    assert not left & {"flow.vtkhdf", "monitor.csv", "solve.json", "solve.provenance.json"}
    change_case(project, "solve", "steady_tolerance", 1e-3)
    answer = snakemake(project, "tiny")
    assert answer.returncode == 0, answer.stderr
    assert {path.name for path in results.iterdir() if path.is_file()} == FILES | {
        f"{s}.provenance.json" for s in STAGES
    }


def solver_processes(project: Path) -> list[int]:
    """Processes that run the solver in this copy of the project."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
                if command[1:3] == [b"-m", b"solver"] and (entry / "cwd").resolve() == project.resolve():
                    found.append(int(entry.name))
            except OSError:  # ended meanwhile
                continue
    return found


def test_a_mistake_in_the_case_ends_with_one_line_before_anything_runs(project, snakemake):
    change_case(project, "solve", "viscosity", 0.004)
    answer = snakemake(project, "tiny")
    assert answer.returncode != 0
    mistake = "config/cases/tiny.yaml: solve.viscosity: unknown key (value 0.004); did you mean viscosity_pa_s?"
    assert answer.stderr.splitlines()[-1] == mistake
    assert "Traceback" not in answer.stderr
    assert "rule" not in answer.stdout
