# SPDX-License-Identifier: Apache-2.0
"""The workflow on a SLURM cluster, faked here: what jobs ask for, and runs that the end of their time stops."""

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from pipeline.case.case_file import read_cohort
from pipeline.case.settings.cluster import LIBRARIES_MB, ClusterSettings
from solver.backends.cost import RANK_STEP_S
from solver.backends.cuda.device import COMPILE_S, STEP_S
from solver.domain.nodes import save
from solver.run.solve import solve
from solver.run.walltime import expected
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.solver.run.test_simulation import settings
from tests.support.fake_slurm import make_cluster
from tests.support.geometries import pipe
from tests.support.project_copy import copy_project
from tests.support.variants import some
from tests.support.workflow_runs import run_workflow

LOG = logging.getLogger("test_slurm")
CASE = {
    "input": {"geometry": {"shape": "pipe", "diameter_mm": 2, "length_mm": 5, "ends": "openings"}},
    "voxelize": {"nodes_across": 9},
    "solve": {
        "inlets": {"*": {"flow_ml_s": 1.0}},
        "steady_tolerance": 1e-12,
        "max_steps": 60000,
        "unsettled": "report",
    },
}
PROFILE = ("--profile", "config/profiles/slurm")
ONE_STUDY = "studies=plates"
"""To read the files of all takes a fourth of a start."""
FAST = ("--slurm-init-seconds-before-status-checks", "1", "--seconds-between-status-checks", "1", "--latency-wait", "5")


def snakemake(*options: str) -> list[str]:
    return [sys.executable, "-m", "snakemake", *options]


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A copy of the project with three pipes up to the nodes: one for a GPU where there is one, one for the CPU, one
    for four ranks; files of the first are those of the others.
    """
    project = copy_project(tmp_path_factory.mktemp("slurm") / "project")
    for name, own in (("pipe", {}), ("on-cores", {"backend": "cpu"}), ("on-ranks", {"ranks": 4})):
        case = CASE | {"solve": CASE["solve"] | own}
        (project / f"config/cases/{name}.yaml").write_text(yaml.safe_dump(case))
    answer = run_workflow(project, "--cores", "1", "--config", "cases=pipe", ONE_STUDY, "--", "results/pipe/nodes.h5")
    assert answer.returncode == 0, answer.stderr
    for name in ("on-cores", "on-ranks"):
        shutil.copytree(project / "results/pipe", project / "results" / name)
    return project


class Resources(dict[str, Any]):
    """Of a job, as the executor plugin is given them: also by attribute."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


def asked(project: Path, *options: str) -> dict[str, dict[str, str]]:
    """Resources of the jobs of solve that a dry run shows, by case."""
    answer = run_workflow(project, *options, "--dry-run", "--quiet", "host", "--cores", "8")
    text = answer.stdout + answer.stderr
    assert answer.returncode == 0, text
    jobs = re.findall(
        r"^rule solve:\n(?:    .*\n)*?    wildcards: case=([\w-]+).*\n(?:    .*\n)*?    resources: (.*)\n", text, re.M
    )
    return {case: dict(entry.split("=", 1) for entry in reported.split(", ")) for case, reported in jobs}


@pytest.fixture(scope="module")
def reported(project) -> dict[str, dict[str, str]]:
    """What jobs of solve ask for with the profile as it stands, by case."""
    return asked(project, *PROFILE, "--config", "cases=pipe,on-cores,on-ranks,tiny", ONE_STUDY)


def test_solve_asks_for_what_is_expected_of_it(project, reported):
    """Twice the expected time and memory beside ten minutes and the libraries, of the device that the case runs on; of
    a case without nodes that cannot be told yet.
    """
    waiting = reported["tiny"]
    assert (waiting["gpu"], waiting["runtime"]) == ("1", "<TBD>")
    assert [reported[case]["gpu"] for case in ("pipe", "on-cores")] == ["1", "0"]
    for case, bytes_s in (("pipe", 900e9), ("on-cores", None)):
        wanted = read_cohort({"cases": [case]}, project / "config/cases")[case].settings("solve")
        found = expected(str(project / f"results/{case}/nodes.h5"), wanted, 8, bytes_s)
        assert int(reported[case]["runtime"]) == -(-(600 + 2 * found.seconds) // 60)
        assert int(reported[case]["mem_mb"]) == -(-(LIBRARIES_MB * 1e6 + 2 * found.bytes) // 1e6)
    given = {"gpu": False, "margin": 50, "max_minutes": 25}
    limited = asked(project, *PROFILE, "--config", "cases=pipe,on-cores", ONE_STUDY, f"cluster={given}")
    assert {(one["gpu"], one["runtime"]) for one in limited.values()} == {("0", "25")}


def test_a_case_with_ranks_asks_for_as_many_tasks(project, reported):
    """In one job, with a GPU, eight cores, and the memory of one process, for each, as nodes of a canonical geometry
    are not divided; the time is that of all GPUs, or cores, with what was measured of the network.
    """
    from snakemake_executor_plugin_slurm.submit_string import get_submit_command  # which imports pandas

    waits = {"network_us": 70000, "ranks_per_node": 3, "gpu": False}
    waiting = asked(project, *PROFILE, "--config", "cases=on-ranks", ONE_STUDY, f"cluster={waits}")
    for given, bytes_s, jobs, found_in in (({}, 900e9, reported, ("4", None)), (waits, None, waiting, ("0", "2"))):
        own = jobs["on-ranks"]
        assert [own.get(name) for name in ("mpi", "tasks", "gpu", "nodes")] == ["srun", "4", *found_in]
        wanted = read_cohort({"cases": ["on-ranks"]}, project / "config/cases")["on-ranks"].settings("solve")
        found = expected(str(project / "results/on-ranks/nodes.h5"), wanted, 4 * 8, bytes_s)
        assert found.steps > 1000
        seconds = found.seconds + found.steps * 1e-6 * given.get("network_us", 0)
        assert int(own["runtime"]) == -(-(600 + 2 * seconds) // 60)
        memory = ClusterSettings().memory_mb(found.bytes, 1)
        assert (int(own["mem_mb"]), int(own["mem_mb_per_cpu"])) == (4 * memory, -(-memory // 8))
        numbers = {name: int(own[name]) for name in ("tasks", "gpu", "tasks_per_gpu") if name in own}
        parameters = dict.fromkeys(("run_uuid", "slurm_logfile", "comment_str", "account", "partition", "workdir"), "")
        job = SimpleNamespace(resources=Resources(numbers, mpi="srun"), threads=8)
        command = get_submit_command(job, parameters).split()
        assert "--ntasks=4" in command
        assert ("--ntasks-per-gpu=1" in command) == (numbers["gpu"] > 0)


def test_ranks_on_gpus_are_expected_to_wait_for_each_other(project):
    """Their nodes take a fourth of the time, a step at least what launches, messages and sums take."""
    path = str(project / "results/on-ranks/nodes.h5")
    cases = read_cohort({"cases": ["pipe", "on-ranks"]}, project / "config/cases")
    one, four = (expected(path, cases[name].settings("solve"), 8, 900e9) for name in ("pipe", "on-ranks"))
    assert one.steps == four.steps
    nodes = one.seconds - COMPILE_S - STEP_S * one.steps
    assert four.seconds == pytest.approx(COMPILE_S + RANK_STEP_S * one.steps + nodes / 4)


@pytest.mark.parametrize("case", some(["pipe", "on-ranks"], "on-ranks"))
def test_on_one_machine_solve_asks_for_nothing(case, project):
    assert {*asked(project, "--config", f"cases={case}", ONE_STUDY)[case]} == {"tmpdir"}


def test_jobs_get_longer_up_to_what_the_partition_allows():
    cluster = ClusterSettings(margin=3, least_minutes=5, max_minutes=100)
    assert [cluster.minutes(600.0, attempt) for attempt in (1, 2, 3, 4)] == [35, 65, 95, 100]
    assert cluster.memory_mb(1e9, 2) == LIBRARIES_MB + 6000


def test_a_case_that_solve_will_refuse_is_left_to_it(tmp_path):
    save(pipe((0, 0, 1), 4.2, 10, spacing_mm=0.3), tmp_path / "nodes.h5")
    wanted = json.loads(read_cohort({"cases": ["tiny"]}, ROOT / "config/cases")["tiny"].settings("solve"))
    found = expected(str(tmp_path / "nodes.h5"), json.dumps(wanted), 2, None)
    assert found.steps > 0
    wrong = json.dumps(wanted | {"inlets": {"no such opening": wanted["inlets"]["*"]}})
    assert expected(str(tmp_path / "nodes.h5"), wrong, 2, None).steps == 0
    with pytest.raises(FileNotFoundError) as missing:
        expected(str(tmp_path / "none.h5"), wrong, 2, None)
    assert missing.value.filename == str(tmp_path / "none.h5")  # by which Snakemake knows that it is to be made yet


@pytest.mark.parametrize("given", [{"SLURM_GPUS": "1"}, {"SLURM_GPUS_ON_NODE": "2"}])
def test_a_job_whose_gpu_cannot_be_used_ends_with_one_message(given, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    ((name, value),) = given.items()
    message = rf"SLURM gave this job GPUs \({name} is {value}\), and none can be used: .*; or set solve.backend to cpu"
    nodes = pipe((0, 0, 1), 4.2, 10, spacing_mm=0.3)
    with pytest.raises(StageError, match=message):
        solve(nodes, settings(backend="auto"), tmp_path / "flow.vtkhdf", tmp_path / "monitor.csv", LOG)
    assert not [*tmp_path.iterdir()]


def until(happened, process: subprocess.Popen) -> None:
    """Wait for it while the workflow is at work."""
    deadline = time.monotonic() + 300
    while not happened():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def at_work(project, tmp_path) -> Iterator[tuple[Path, object, subprocess.Popen]]:
    """The workflow on a faked cluster, with the job of a solver that keeps its state all the time."""
    cluster = make_cluster(tmp_path / "cluster")
    run = snakemake(
        *PROFILE, *FAST, "--config", "cases=on-cores", "checkpoint_minutes=0.001", "--", "results/on-cores/solve.json"
    )
    process = subprocess.Popen(
        run, cwd=project, env=cluster.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    until(lambda: [*project.glob("results/on-cores/checkpoint/step-*.h5")], process)
    yield project, cluster, process
    process.kill()


@pytest.mark.slow
def test_a_solve_that_its_time_stops_goes_on_in_the_next_job_to_the_same_bits(at_work, tmp_path):
    """SLURM sends SIGTERM to the step before its time is over. Its locks are taken away meanwhile, as on file systems
    whose locks other machines do not see; what the Snakemake of the second job finds is left as it is all the same.
    """
    project, cluster, process = at_work
    (project / ".snakemake/hemolattice.lock").unlink()
    (mark := project / ".snakemake/incomplete/YS50eHQ=").write_text("{}")  # Base64 of a.txt
    (made := project / "a.txt").write_text("of another job")
    locks = {*(project / ".snakemake/locks").iterdir()}
    (first,) = cluster.jobs("solve")
    os.killpg(int(first["step"]), signal.SIGTERM)
    log = project / "results/on-cores/logs/solve.log"  # Snakemake removes that of the first
    until(lambda: len(cluster.jobs("solve")) == 2 and log.exists() and "going on from" in log.read_text(), process)
    assert mark.exists()
    assert made.exists()
    assert locks
    assert {*(project / ".snakemake/locks").iterdir()} == locks
    text = process.communicate(timeout=300)[0]
    assert process.returncode == 0, text
    first, second = cluster.jobs("solve")
    assert (first["state"], second["state"]) == ("FAILED", "COMPLETED")
    assert (first["signal"], first["cpus-per-task"]) == ("TERM@120", "8")
    assert "gpus" not in first
    summary = json.loads((project / "results/on-cores/solve.json").read_text())
    wanted = read_cohort({"cases": ["on-cores"]}, project / "config/cases")["on-cores"].settings("solve")
    needed = expected(str(project / "results/on-cores/nodes.h5"), wanted, 8, None).bytes
    assert int(first["mem"]) == ClusterSettings().memory_mb(needed, 1)
    whole = {name: tmp_path / name for name in ("flow.vtkhdf", "monitor.csv", "solve.json", "provenance.json")}
    roles = dict(zip(("flow", "monitor", "summary", "provenance"), whole.values(), strict=True))
    options = [text for role, path in roles.items() for text in (f"--{role}", str(path))]
    run = [
        sys.executable,
        "-m",
        "solver",
        "--nodes",
        str(project / "results/on-cores/nodes.h5"),
        "--settings",
        wanted,
        *options,
    ]
    subprocess.run(run, cwd=project, check=True, capture_output=True, timeout=300)
    assert summary["steps"] == json.loads(whole["solve.json"].read_text())["steps"]
    for name in ("flow.vtkhdf", "monitor.csv"):
        assert (project / "results/on-cores" / name).read_bytes() == whole[name].read_bytes()
    expected_s = (
        summary["forecast"]["steps"] * (4e-5 + summary["numbers"]["fluid_nodes"] / (8 * 24e6)) + 25
    )  # on 8 cores
    assert [int(job["t"]) for job in (first, second)] == [-(-(600 + 2 * n * expected_s) // 60) for n in (1, 2)]


@pytest.mark.slow
def test_a_case_runs_on_a_cluster_from_dicom_to_report(tmp_path):
    """Each stage in a job of its own, but for those of a moment; solve asks for a GPU, and ends where it has none."""
    project, cluster = copy_project(tmp_path / "project"), make_cluster(tmp_path / "cluster")
    run = snakemake(*PROFILE, *FAST, "--config", "cases=tiny")
    environment = cluster.environment | {"CUDA_VISIBLE_DEVICES": ""}
    none = {"gpu": True, "retries": 0}
    answer = subprocess.run(
        [*run, f"cluster={none}"],
        cwd=project,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert answer.returncode != 0
    (job,) = cluster.jobs("solve")
    assert (job["gpus"], job["state"]) == ("1", "FAILED")
    log = (project / "results/tiny/logs/solve.log").read_text()
    assert "SLURM gave this job GPUs (SLURM_GPUS_ON_NODE is 1), and none can be used" in log
    assert "not finished" in (project / "results/cohort.html").read_text()
    answer = subprocess.run(
        [*run, f"cluster={none | {'gpu': False}}"],
        cwd=project,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert answer.returncode == 0, answer.stderr
    assert (project / "results/tiny/report.html").exists()
    assert "not finished" not in (project / "results/cohort.html").read_text()
    assert not cluster.jobs("paraview")
    for rule in ("load", "segment", "decompose", "trace", "report", "cohort"):
        (job,) = cluster.jobs(rule)
        assert job["state"] == "COMPLETED"
