# SPDX-License-Identifier: Apache-2.0
"""The workflow is killed at random moments of all its stages: the next run always finishes, with the same results."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.left import results
from tests.support.project_copy import copy_project

LONGEST_S = 3.0
"""From the beginning of a stage to a kill, at most: longer than most stages, so that some kills fall between two."""


@pytest.fixture
def project(tmp_path) -> Path:
    """A copy of the project without results."""
    return copy_project(tmp_path)


def start(project: Path, case: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--config", f"cases={case}"]
    return subprocess.Popen(
        command, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def logs(folder: Path, since: float) -> set[str]:
    """Stages that have begun to work."""
    return {path.stem for path in folder.glob("logs/*.log") if path.stat().st_mtime > since}


def stages_of(folder: Path) -> list[str]:
    """Stages of a case that is finished, in the order in which they began."""
    records = [json.loads(path.read_text()) for path in folder.glob("*.provenance.json")]
    return [record["stage"] for record in sorted(records, key=lambda record: record["started"])]


# Quick tests kill the solver (test_workflow.py, with the same results in the end), Snakemake (test_recovery.py), and
# both while two cases are at work (test_cohort_workflow.py).
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("case", "kills"), [("tiny", 1), ("demo", 30)])
def test_killed_at_random_moments_the_workflow_finishes_with_the_results_of_a_run_that_was_not(project, case, kills):
    whole = start(project, case)
    errors = whole.communicate(timeout=900)[1]
    assert whole.returncode == 0, errors
    folder = project / "results" / case
    wanted = results(folder)
    moments, reached = random.Random(1), set[str]()
    stages = stages_of(folder)
    shutil.rmtree(project / "results")
    for kill in range(kills):
        later = set(stages[kill * len(stages) // kills :])
        run, since = start(project, case), time.time()
        while run.poll() is None and not logs(folder, since) & later:
            time.sleep(0.02)
        try:
            run.communicate(timeout=moments.uniform(0, LONGEST_S))
            assert run.returncode == 0  # killed too late: it has finished
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate(timeout=60)
            reached |= logs(folder, since)
    last = start(project, case)
    errors = last.communicate(timeout=900)[1]
    assert last.returncode == 0, errors
    assert results(folder) == wanted
    print(f"killed {kills} times in runs of the stages {', '.join(stage for stage in stages if stage in reached)}")
    assert len(reached) >= min(kills, len(stages) - 1)
