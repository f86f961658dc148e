# SPDX-License-Identifier: Apache-2.0
"""What a killed Snakemake leaves is cleared away, unless another one is alive in the folder."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.workflow.recovery import recover
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.support.workflow_runs import run_workflow

WORKFLOW = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pipeline.workflow.recovery import recover
AT_WORK = recover()

rule all:
    input: "results/{"x" * 200}/a.txt", "results/b.txt"

rule a:
    output: "results/{"x" * 200}/a.txt", "results/b.txt"
    shell: "echo half > {{output[0]}}; sleep $(cat wait); echo whole | tee {{output}} > /dev/null"
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "Snakefile").write_text(WORKFLOW)
    return tmp_path


def start(folder: Path, wait_s: int) -> subprocess.Popen[str]:
    (folder / "wait").write_text(str(wait_s))
    command = [sys.executable, "-m", "snakemake", "--cores", "1"]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True)


def at_work(folder: Path) -> subprocess.Popen[str]:
    """A run that is in the middle of its only job."""
    process, deadline = start(folder, 60), time.monotonic() + 60
    while not list(folder.glob("results/*/a.txt")) and time.monotonic() < deadline:
        time.sleep(0.05)
    return process


def test_the_run_after_a_killed_one_finishes(folder):
    killed = at_work(folder)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=30)
    assert [*folder.glob(".snakemake/locks/*")]
    errors = (again := start(folder, 0)).communicate(timeout=60)[1]
    assert again.returncode == 0, errors
    assert {path.read_text() for path in folder.rglob("*.txt")} == {"whole\n"}


def test_a_run_does_not_disturb_one_that_is_alive(folder):
    alive = at_work(folder)
    try:
        other = run_workflow(folder, "--cores", "1")
        assert "a.txt" in other.stderr  # which is being made
        assert other.returncode != 0
        assert [path.read_text() for path in folder.glob("results/*/a.txt")] == ["half\n"]
    finally:
        os.killpg(alive.pid, signal.SIGKILL)
        alive.communicate(timeout=30)


def test_what_a_cluster_may_be_at_is_left_alone(tmp_path):
    marks, made = tmp_path / ".snakemake/incomplete", tmp_path / "a.txt"
    marks.mkdir(parents=True)
    made.write_text("")
    (marks / "YS50eHQ=").write_text(json.dumps({"external_jobid": "17"}))  # Base64 of a.txt
    lock = recover(tmp_path / ".snakemake")
    assert lock is not None
    lock.close()
    assert made.exists()
    (marks / "YS50eHQ=").write_text("{")  # cut off
    recover(tmp_path / ".snakemake")
    assert not made.exists()
    assert not [*marks.iterdir()]


@pytest.mark.parametrize("name", ["results", ".snakemake"])
@pytest.mark.parametrize("link", [False, True])
def test_a_file_where_a_folder_belongs_is_reported_in_one_line_and_moving_it_helps(name, link, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if link:
        Path(name).symlink_to("nowhere")
    else:
        Path(name).touch()
    with pytest.raises(StageError, match=rf"^{name}: a file, or a link that leads to no folder, .*rename or move it"):
        recover()
    Path(name).rename("moved")
    recover().close()
