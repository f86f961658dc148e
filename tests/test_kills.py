"""The workflow is killed at random moments, over and over: the next run always finishes, with the same results."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from left import results
from project_copy import copy_project

LONGEST_S = 10.0
"""From the first stage of a run to a kill, at most: about as long as the longest stage."""


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


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("case", "kills"), [("tiny", 3), pytest.param("demo", 30, marks=pytest.mark.slow)])
def test_killed_at_random_moments_the_workflow_finishes_with_the_results_of_a_run_that_was_not(project, case, kills):
    whole = start(project, case)
    errors = whole.communicate(timeout=900)[1]
    assert whole.returncode == 0, errors
    folder = project / "results" / case
    wanted = results(folder)
    shutil.rmtree(project / "results")
    moments, done, reached = random.Random(1), 0, set[str]()
    while done < kills:
        run, since = start(project, case), time.time()
        while run.poll() is None and not logs(folder, since):
            time.sleep(0.02)
        try:
            run.communicate(timeout=moments.uniform(0, LONGEST_S))
            assert run.returncode == 0
            shutil.rmtree(project / "results")  # and from the beginning again
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate(timeout=60)
            done += 1
            reached |= logs(folder, since)
    last = start(project, case)
    errors = last.communicate(timeout=900)[1]
    assert last.returncode == 0, errors
    assert results(folder) == wanted
    print(f"killed {done} times in runs of the stages {', '.join(sorted(reached))}")
    assert len(reached) > 3
