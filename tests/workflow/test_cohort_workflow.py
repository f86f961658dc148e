# SPDX-License-Identifier: Apache-2.0
"""Many cases in many scenarios through the workflow: what runs, what is shared, and what a failure leaves.

The stages are stand-ins that write what they were told, so that the order of the jobs can be looked at in seconds.
"""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml

from solver.runtime.sources import ROOT
from tests.pipeline.stages.test_cohort import indices
from tests.support.project_copy import copy_project
from tests.support.workflow_runs import run_workflow

CHAIN = ["load", "filter", "segment", "surface", "centreline", "voxelize", "decompose"]
FLOW = ["plausibility", "solve", "postprocess", "trace", "paraview", "report", "crate"]

STAND_IN = f"""
import json
import re
import runpy
import sys
import time
from pathlib import Path

module = sys.argv[2]
if "--check" in sys.argv:
    sys.exit()
if module in ("pipeline.stages.cohort", "pipeline.stages.link"):
    sys.argv = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit()
options = sys.argv[3:]
settings = json.loads(options[options.index("--settings") + 1]) if "--settings" in options else {{}}
log = Path(options[options.index("--log") + 1])
run, stage = log.parts[-3], log.stem
log.parent.mkdir(parents=True, exist_ok=True)
with open("calls.txt", "a") as calls:
    calls.write(f"{{run}} {{stage}}\\n")
if f"{{run}} {{stage}}" in Path("fail.txt").read_text().splitlines():
    log.write_text(f"12:00:00 {{stage}}: begins\\n12:00:00 {{stage}}: error: lower = 9: too low; raise it\\nmore\\n")
    sys.exit(1)
log.write_text("done\\n")
while f"{{run}} {{stage}}" in Path("wait.txt").read_text().splitlines():
    time.sleep(0.05)
told = {json.dumps(indices())!r}
for path in [Path(each) for each in options if each.startswith("results/") and not Path(each).exists()]:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name == "checkpoint":
        continue
    if not path.suffix:
        path.mkdir()
    elif path.name == "indices.json":
        path.write_text(told)
    else:
        path.write_text(json.dumps({{"settings": settings}}))
"""

TABLE = """\
case,file,segment.lower
p1,tiny,
p2,tiny,170
"""
CORES = ("--cores", "2")
CONFIG = {
    "studies": ["plates"],
    "cohort": "config/cohort.csv",
    "scenarios": {"rest": {}, "exercise": {"solve": {"inlets": {"*": {"flow_ml_s": 2.0}}}}},
}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory) -> Path:
    """A copy of the project with stand-ins for the stages, two cases and two scenarios."""
    project = copy_project(tmp_path_factory.mktemp("cohort") / "project")
    text = (ROOT / "pipeline/workflow/programs.py").read_text()
    python = "shlex.quote(sys.executable)"
    assert python in text
    (project / "pipeline/workflow/programs.py").write_text(text.replace(python, f'"{sys.executable} stand_in.py"'))
    (project / "stand_in.py").write_text(STAND_IN)
    (project / "config/cohort.csv").write_text(TABLE)
    (project / "config/config.yaml").write_text(yaml.safe_dump(CONFIG, sort_keys=False))
    for file in ("fail.txt", "wait.txt", "calls.txt"):
        (project / file).touch()
    return project


def run(project: Path, *options: str) -> subprocess.CompletedProcess:
    (project / "calls.txt").write_text("")
    return run_workflow(project, *CORES, *options)


def calls(project: Path) -> set[str]:
    """Stages that were computed, each once."""
    lines = (project / "calls.txt").read_text().splitlines()
    assert len(lines) == len(set(lines))
    return set(lines)


def table(project: Path) -> dict[tuple[str, str], dict[str, str]]:
    with (project / "results/cohort.csv").open(newline="") as stream:
        return {(row["case"], row["scenario"]): row for row in csv.DictReader(stream)}


@pytest.fixture(scope="module")
def failed(pristine) -> tuple[Path, subprocess.CompletedProcess, set[str]]:
    """The project after a run in which one case failed early and one late in one of the scenarios."""
    (pristine / "fail.txt").write_text("p2@rest segment\np1@exercise solve\n")
    answer = run(pristine, "--keep-going")
    return pristine, answer, calls(pristine)


def test_what_can_be_done_is_done_when_cases_fail(failed):
    _, answer, made = failed
    assert answer.returncode != 0
    of_p1 = {f"p1@rest {stage}" for stage in ["phantom", *CHAIN, *FLOW]}
    of_p1 |= {"p1@exercise plausibility", "p1@exercise solve"}
    assert made == of_p1 | {f"p2@rest {stage}" for stage in ("phantom", "load", "filter", "segment")}


def test_scenarios_link_to_what_they_share(failed):
    results = failed[0] / "results"
    for file in ("volume.nrrd", "segment.provenance.json", "surface.vtp", "lattice.vti", "nodes.h5"):
        assert (results / "p1@exercise" / file).samefile(results / "p1@rest" / file)
    log = results / "p1@exercise/logs/segment.log"
    assert log.read_text() == "done\n"
    assert not log.samefile(results / "p1@rest/logs/segment.log")  # which the next run of it would write into
    assert json.loads((results / "p1@rest/solve.json").read_text())["settings"]["inlets"]["*"]["flow_ml_s"] == 1.0


def test_the_page_tells_what_was_not_finished_with_stage_and_message(failed):
    project, answer, _ = failed
    rows = table(project)
    assert {key: row["finished"] for key, row in rows.items()} == {
        ("p1", "rest"): "yes",
        ("p1", "exercise"): "no",
        ("p2", "rest"): "no",
        ("p2", "exercise"): "no",
    }
    assert [rows[key]["failed_stage"] for key in rows] == ["solve", "segment", "segment", ""]
    assert rows["p2", "exercise"]["message"] == "lower = 9: too low; raise it"  # of the scenario that it shares with
    assert rows["p1", "rest"]["checks_passed"] == "yes"
    assert rows["p2", "rest"]["checks_passed"] == rows["p2", "rest"]["inflow_ml_s"] == ""
    page = (project / "results/cohort.html").read_text()
    assert "<b>3 of 4 not finished.</b>" in page
    assert "2 cases in 2 scenarios" in page
    assert re.findall(r'href="([^"]*report\.html)"', page) == ["p1@rest/report.html"]
    assert "not finished: p2@rest: segment: lower = 9: too low; raise it" in answer.stderr
    assert "1 of 4 finished" in answer.stderr


@pytest.fixture(scope="module")
def repaired(failed) -> tuple[Path, set[str], set[str]]:
    """The project after a run that was killed while two solvers were at work, and one after it in which nothing fails,
    with what each computed.
    """
    project = failed[0]
    at_work = {"p1@exercise solve", "p2@rest solve"}
    (project / "fail.txt").write_text("")
    (project / "wait.txt").write_text("\n".join(at_work))
    (project / "calls.txt").write_text("")
    command, null = [sys.executable, "-m", "snakemake", *CORES], subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=project, stdout=null, stderr=null, start_new_session=True)
    deadline = time.monotonic() + 240
    while not at_work <= calls(project):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    killed = calls(project)
    (project / "wait.txt").write_text("")
    answer = run(project, "--keep-going", "--rerun-incomplete")
    assert answer.returncode == 0, answer.stderr
    return project, killed, calls(project)


def test_the_runs_after_a_failure_and_a_kill_compute_what_is_missing_and_nothing_else(repaired):
    project, killed, made = repaired
    assert killed & made == {"p1@exercise solve", "p2@rest solve"}
    later = {f"{run} {stage}" for run in ("p1@exercise", "p2@rest", "p2@exercise") for stage in FLOW}
    later -= {"p1@exercise plausibility"}
    assert killed | made == later | {f"p2@rest {stage}" for stage in CHAIN[2:]}
    assert [row["finished"] for row in table(project).values()] == ["yes"] * 4
    assert "not finished" not in (project / "results/cohort.html").read_text()


def planned(project: Path, *options: str) -> Counter[str]:
    """How often each rule would run."""
    answer = run(project, "--dry-run", *options)
    assert answer.returncode == 0, answer.stderr
    stats = (answer.stdout + answer.stderr).partition("Job stats:")[2].partition("total")[0]
    return Counter({name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", stats, re.MULTILINE)})


def test_nothing_is_made_again_for_a_link_to_a_large_file(repaired):
    """Of small files Snakemake compares the contents before it goes by their times, of large ones it does not."""
    assert planned(repaired[0], "--max-checksum-file-size", "0") == Counter()


def test_a_scenario_more_links_to_what_is_there_and_a_changed_one_leaves_the_others_alone(repaired, tmp_path):
    project = shutil.copytree(repaired[0], tmp_path / "project", copy_function=shutil.copy2)
    low = {"segment": {"lower": 150}}
    (project / "config/config.yaml").write_text(
        yaml.safe_dump(CONFIG | {"scenarios": CONFIG["scenarios"] | {"low": low}}, sort_keys=False)
    )
    own = dict.fromkeys((*CHAIN[2:], *FLOW), 2)
    assert planned(project) == own | {"link_load": 2, "link_filter": 2, "cohort": 1, "all": 1}
    (project / "config/config.yaml").write_text(yaml.safe_dump(CONFIG, sort_keys=False))
    (project / "config/cohort.csv").write_text(TABLE.replace("170", "160"))
    of_p2 = Counter(dict.fromkeys(CHAIN[2:], 1) | {f"link_{stage}": 1 for stage in CHAIN[2:]})
    assert planned(project) == of_p2 + Counter(dict.fromkeys(FLOW, 2) | {"cohort": 1, "all": 1})
