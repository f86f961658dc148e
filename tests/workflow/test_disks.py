# SPDX-License-Identifier: Apache-2.0
"""Disks that are full or read-only: one line with the folder and the remedy, whatever library writes, and no output."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeline.files.volume import Volume
from solver.runtime.sources import ROOT
from tests.support.project_copy import copy_project
from tests.support.small_disk import made_read_only, mounted

FULL = "No space left on device; make room, or let results/ lie on a larger disk, and run the workflow again"
READ_ONLY = "Read-only file system; make it writable, or let results/ lie on a disk that is, and run the workflow again"

STAGE = """
import sys
import numpy as np
from matplotlib.figure import Figure
from tests.support.geometries import pipe
from pipeline.geometry.branches.branch_files import write_polylines
from pipeline.geometry.lattice.tagged_lattice import Lattice
from pipeline.files.mesh import Mesh
from pipeline.files.volume import Volume
from solver.domain.nodes import save
from solver.runtime.command_line import run_stage

rng = np.random.default_rng(0)

def picture(path):
    figure = Figure()
    figure.add_subplot().imshow(rng.random((600, 600)), interpolation="nearest")
    figure.savefig(path, dpi=300)

def image(path):
    Volume(rng.random((50, 50, 50)), (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3)).write(path)

def surface(path):
    Mesh(rng.random((20_000, 3)), rng.integers(0, 20_000, (20_000, 3)), np.zeros(20_000, np.int8)).write(path)

def lattice(path):
    tag, opening = rng.integers(-1, 4, (2, 90, 90, 90)).astype(np.int8)
    Lattice(tag, opening, 1.0, (0.0, 0.0, 0.0)).write(path)

def lines(path):
    write_polylines(path, [rng.random((20_000, 3))], {}, [{}])

def nodes(path):
    save(pipe((0, 0, 1), 8.2, 40), path)

def text(path):
    path.write_text("x" * 300_000)

def nothing(path):
    path.write_text("")

run_stage("trial", "A trial.", {}, {"made": "out"}, lambda job: globals()[sys.argv.pop()](job.outputs["made"]))
"""
"""A stage that writes some 300 kB through a library; its last argument names what."""


def trial(folder: Path, what: str, suffix: str = "") -> subprocess.CompletedProcess[str]:
    """That stage, with all that it writes in a folder."""
    roles = {"made": f"made{suffix}", "provenance": "made.json", "log": "logs/trial.log"}
    options = [part for role, name in roles.items() for part in (f"--{role}", str(folder / name))]
    return started([sys.executable, "-c", STAGE.replace("sys.argv.pop()", repr(what)), *options])


def started(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def left(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("what", "suffix"),
    [
        ("image", ".nrrd"),
        ("surface", ".vtp"),
        pytest.param("lattice", ".vti", marks=pytest.mark.slow),
        pytest.param("lines", ".vtp", marks=pytest.mark.slow),
        pytest.param("picture", ".png", marks=pytest.mark.slow),
        pytest.param("text", "", marks=pytest.mark.slow),
    ],
)
def test_a_full_disk_is_reported_whatever_library_writes(what, suffix, tmp_path):
    with mounted(tmp_path / "small", "160k") as folder:
        answer = trial(folder, what, suffix)
        assert answer.returncode == 1, answer.stderr
        assert answer.stderr.splitlines()[-1].endswith(f"trial: error: {folder}: {FULL}")
        assert len(answer.stderr.splitlines()) == 1
        assert left(folder) == {"logs/trial.log"}


def test_node_arrays_that_a_disk_does_not_hold_are_refused_before_they_are_written(tmp_path):
    """HDF5 may crash on a full disk."""
    with mounted(tmp_path / "small", "160k") as folder:
        answer = trial(folder, "nodes", ".h5")
        assert answer.returncode == 1, answer.stderr
        assert "MB are free on its disk; make room" in answer.stderr.splitlines()[-1]
        assert left(folder) == {"logs/trial.log"}


def test_a_disk_that_the_log_alone_fills_ends_the_stage_too(tmp_path):
    with mounted(tmp_path / "small", "160k") as folder:
        (folder / "filling").write_bytes(bytes(140_000))
        answer = trial(folder, "nothing")
        assert answer.returncode == 1
        assert answer.stderr.splitlines()[-1].endswith(FULL)
        assert "Traceback" not in answer.stderr


def test_an_image_that_a_disk_does_not_hold_leaves_no_volume(tmp_path):
    voxels = np.random.default_rng(0).integers(-500, 500, (60, 60, 60)).astype(np.int16)
    Volume(voxels, (0.5, 0.5, 0.5), (0.0, 0.0, 0.0), np.eye(3)).write(tmp_path / "given.nrrd")
    with mounted(tmp_path / "small", "160k") as folder:
        roles = {"volume": "volume.nrrd", "series": "series.json", "provenance": "made.json", "log": "load.log"}
        options = [part for role, name in roles.items() for part in (f"--{role}", str(folder / name))]
        answer = started(
            [sys.executable, "-m", "pipeline.stages.load", "--source", str(tmp_path / "given.nrrd"), *options]
        )
        assert answer.returncode == 1
        assert answer.stderr.splitlines()[-1].endswith(f"error: {folder}: {FULL}")
        assert "Traceback" not in answer.stderr
        assert left(folder) == {"load.log"}


def test_a_read_only_folder_is_reported_also_where_the_log_cannot_be_opened(tmp_path):
    with mounted(tmp_path / "small", "1m") as folder:
        assert trial(folder, "nothing").returncode == 0
        assert made_read_only(folder)
        answer = trial(folder, "nothing")
        assert answer.returncode == 1
        assert len(answer.stderr.splitlines()) == 1
        assert answer.stderr.splitlines()[-1].endswith(f"trial: error: {folder / 'logs'}: {READ_ONLY}")
        assert json.loads((folder / "made.json").read_text())["stage"] == "trial"  # what was there still is


def test_a_workflow_in_a_read_only_folder_ends_in_words(tmp_path, snakemake):
    with mounted(tmp_path / "small", "100m") as folder:
        project = copy_project(folder / "project")
        assert made_read_only(folder)
        answer = snakemake(project, "tiny")
        assert answer.returncode != 0
        assert answer.stderr.splitlines()[-1] == f"{project}: {READ_ONLY}"
        assert "Traceback" not in answer.stderr


def test_results_that_cannot_be_written_end_the_workflow_in_words(tmp_path, snakemake):
    project = copy_project(tmp_path / "project")
    with mounted(project / "results", "1m") as folder:
        assert made_read_only(folder)
        answer = snakemake(project, "tiny")
        assert answer.returncode != 0
        assert answer.stderr.splitlines()[-1] == f"{project / 'results'}: {READ_ONLY}"
        assert "Traceback" not in answer.stderr
