# SPDX-License-Identifier: Apache-2.0
"""A run that was stopped goes on to the same bits; what is kept on the way is whole or is not used."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import h5py
import numba
import numpy as np
import pytest

from solver.backends.cpu.blocks import CHUNK
from solver.domain.nodes import Nodes, save
from solver.run.boundary_schedule import BoundarySchedule
from solver.run.checkpoint import Checkpoints
from solver.run.settings import BloodSettings, InletSettings, OutletSettings, SolveSettings, WindkesselSettings
from solver.run.solve import solve
from solver.runtime import outputs
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.solver.run.test_simulation import settings
from tests.support.geometries import pipe
from tests.support.small_disk import made_read_only, mounted
from tests.support.variants import some
from tests.support.waveforms import write_waveform

LOG = logging.getLogger("test_checkpoint")


class KilledError(Exception):
    """Stands for the end of the process."""


def kept(folder: Path, every_s: float = 0.0, identity: str = "run") -> Checkpoints:
    return Checkpoints(folder / "checkpoint", identity, every_s, LOG)


def run(nodes: Nodes, wanted: SolveSettings, folder: Path, checkpoints: Checkpoints | None = None) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    return solve(nodes, wanted, folder / "flow.vtkhdf", folder / "monitor.csv", LOG, checkpoints)


def killed_at(step: int, spacing_mm: float | None = None) -> Any:
    """The process ends when steps beyond this one are to be done, of the lattice of a spacing, if one is given."""
    at = BoundarySchedule.at

    def until(boundary_schedule: BoundarySchedule, first: int, last: int) -> np.ndarray:
        here = spacing_mm is None or boundary_schedule.units.dx_m == pytest.approx(1e-3 * spacing_mm)
        if here and last > step:
            raise KilledError
        return at(boundary_schedule, first, last)

    return mock.patch.object(BoundarySchedule, "at", until)


def wave(folder: Path) -> str:
    """Half a second of flow that turns back: nodes at the inlet are thickened."""
    folder.mkdir(exist_ok=True)
    times = np.linspace(0, 0.5, 21)
    flow = 0.02 + 0.05 * np.sin(4 * np.pi * times)
    return write_waveform(folder / "wave.csv", times, flow)


def pulsatile(folder: Path) -> SolveSettings:
    """Every kind of state: a viscosity that varies, nodes that are thickened, a Windkessel, snapshots, statistics."""
    return settings(
        inlets={"*": InletSettings(None, wave(folder), "parabolic")},
        outlets={"*": OutletSettings(0.2, windkessel=WindkesselSettings(time_constant_s=0.1))},
        blood=BloodSettings("carreau-yasuda"),
        cycles=2,
        phases=[0.2, 0.4, 0.6, 0.8, 1.0],
    )


def short_pipe() -> Nodes:
    return pipe((0, 0, 1), 4.2, 10, spacing_mm=0.3)


def in_parts(nodes: Nodes) -> Nodes:
    return replace(nodes, part=(nodes.position[:, 2] > 4).astype(np.uint16))


RUNS: dict[str, tuple[Callable[[], Nodes], Callable[[Path], SolveSettings]]] = {
    "steady": (short_pipe, lambda folder: settings()),
    "pulsatile": (short_pipe, pulsatile),
    "averages over phases": (short_pipe, lambda folder: replace(pulsatile(folder), phase_averages=True)),
    "two parts": (lambda: in_parts(short_pipe()), lambda folder: replace(pulsatile(folder), phase_averages=True)),
}


def files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("flow.vtkhdf", "monitor.csv")}


def test_a_run_on_two_threads_leaves_the_bits_of_one_on_one(tmp_path):
    """With all that a run can have, on more nodes than one thread takes at a time."""
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("one core")
    nodes, wanted = pipe((1, 2, 3), 4.2, 20, spacing_mm=0.3), replace(pulsatile(tmp_path / "wave"), cycles=1)
    assert nodes.count > CHUNK
    for threads, name in ((1, "one"), (2, "two")):
        numba.set_num_threads(threads)
        run(nodes, wanted, tmp_path / name)
    assert files(tmp_path / "one") == files(tmp_path / "two")


@pytest.mark.parametrize(
    "name",
    [
        "steady",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("pulsatile", "averages over phases", "two parts")),
    ],
)
def test_a_run_that_was_stopped_twice_leaves_the_bits_of_one_that_was_not(name, tmp_path):
    make, choose = RUNS[name]
    nodes, wanted = make(), choose(tmp_path / "wave")
    whole = run(nodes, wanted, tmp_path / "whole")
    for part in (0.4, 0.9):  # the last cycle of two is kept
        with pytest.raises(KilledError), killed_at(round(part * whole["steps"])):
            run(nodes, wanted, tmp_path / "stopped", kept(tmp_path))
        assert len([*(tmp_path / "checkpoint").glob("step-*.h5")]) == 2
    found = run(nodes, wanted, tmp_path / "stopped", kept(tmp_path, every_s=3600))
    assert found["steps"] == whole["steps"]
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")
    changing = ("seconds", "mlups", "memory_mb", "forecast")
    assert {key: found[key] for key in found if key not in changing} == {
        key: whole[key] for key in whole if key not in changing
    }


@pytest.fixture
def stopped(tmp_path) -> Path:
    """The folder of a steady run that was killed."""
    with pytest.raises(KilledError), killed_at(300):
        run(short_pipe(), settings(), tmp_path, kept(tmp_path))
    return tmp_path / "checkpoint"


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def overstate_size(path: Path) -> None:
    """Populations of another size, which no file of this size holds."""
    with h5py.File(path, "a") as file:
        del file["driver/populations"]
        file.create_dataset("driver/populations", (10**9,), np.float32, chunks=(1000,))


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "flipped bit": flip,
    "cut off": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: path.write_bytes(b""),
    "no checkpoint": lambda path: path.write_text("not one"),
    "another size": overstate_size,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_gives_way_to_the_one_before(damage, stopped, caplog):
    before, newest = sorted(stopped.glob("step-*.h5"))
    DAMAGES[damage](newest)
    with caplog.at_level(logging.INFO):
        state = kept(stopped.parent).newest(dict)
    assert state is not None
    assert state.step == int(before.stem[5:])
    assert "is damaged" in caplog.text


def test_a_checkpoint_of_another_run_is_not_used_but_removed(stopped, caplog):
    with caplog.at_level(logging.INFO):
        assert kept(stopped.parent, identity="another").newest(dict) is None
        summary = run(short_pipe(), settings(), stopped.parent, kept(stopped.parent, 3600, "another"))
    assert summary["converged"]
    assert "of other settings, geometry or code" in caplog.text
    assert not stopped.exists()


def test_a_full_disk_ends_the_run_in_words_and_leaves_the_checkpoints_from_before(stopped, monkeypatch):
    before = {path: path.read_bytes() for path in stopped.iterdir()}
    monkeypatch.setattr(outputs.shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    with pytest.raises(StageError, match=r"MB more are to be written, and 1 MB are free on its disk; make room"):
        run(short_pipe(), settings(), stopped.parent, kept(stopped.parent))
    assert {path: path.read_bytes() for path in stopped.iterdir()} == before


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 3 MB."""
    with mounted(tmp_path / "small", "3m") as folder:
        yield folder


def test_a_disk_that_fills_up_ends_the_stage_in_words_and_the_next_run_goes_on(small_disk, tmp_path):
    save(short_pipe(), small_disk / "nodes.h5")
    wanted = settings(steady_tolerance=1e-6)
    process, deadline = start(small_disk, wanted), time.monotonic() + 120
    while len([*small_disk.glob("checkpoint/step-*.h5")]) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    filling = small_disk / "filling"
    filling.write_bytes(bytes(shutil.disk_usage(small_disk).free - 500_000))
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 1, errors
    assert "MB are free on its disk; make room" in errors.splitlines()[-1]
    assert not {"flow.vtkhdf", "solve.json"} & {path.name for path in small_disk.iterdir()}
    filling.unlink()
    process = start(small_disk, wanted)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 0, errors
    assert "going on from the checkpoint of step" in errors
    run(short_pipe(), wanted, tmp_path / "whole")
    assert files(small_disk) == files(tmp_path / "whole")


@pytest.mark.slow
def test_a_disk_that_becomes_read_only_ends_the_stage_in_words_and_the_next_run_goes_on(tmp_path):
    """That of the checkpoints, since no disk can be made so while other files on it are being written."""
    save(short_pipe(), tmp_path / "nodes.h5")
    wanted = settings(steady_tolerance=1e-6)
    with mounted(tmp_path / "kept", "30m") as folder:
        process, deadline = start(tmp_path, wanted, "kept/checkpoint"), time.monotonic() + 120
        while len([*folder.glob("checkpoint/step-*.h5")]) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        while not made_read_only(folder):  # it is busy while a checkpoint is being written
            time.sleep(0.001)
        errors = process.communicate(timeout=60)[1]
        assert process.returncode == 1, errors
        reported = "cannot be written (Read-only file system); make it writable, or let results/ lie on a disk that is"
        assert reported in errors.splitlines()[-1]
        assert "Traceback" not in errors
        assert not {"flow.vtkhdf", "solve.json"} & {path.name for path in tmp_path.iterdir()}
        assert made_read_only(folder, False)
        process = start(tmp_path, wanted, "kept/checkpoint")
        errors = process.communicate(timeout=60)[1]
        assert process.returncode == 0, errors
        assert "going on from the checkpoint of step" in errors
    run(short_pipe(), wanted, tmp_path / "whole")
    assert files(tmp_path) == files(tmp_path / "whole")


def test_a_folder_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "checkpoint").write_text("a file in its place")
    with pytest.raises(StageError, match=r"--checkpoint .*: cannot be written \(File exists\); let results/ lie"):
        run(short_pipe(), settings(), tmp_path, kept(tmp_path))


# ---- the stage -------------------------------------------------------------------------------------------------------


def command_line(
    folder: Path,
    wanted: SolveSettings,
    checkpoint: str = "checkpoint",
    minutes: float = 1e-4,
    more: tuple[str, ...] = (),
) -> list[str]:
    """Options by which the stage solves what lies in a folder, in the network around it where there is one; `minutes`
    between two checkpoints.
    """
    roles = {
        "nodes": "nodes.h5",
        "flow": "flow.vtkhdf",
        "monitor": "monitor.csv",
        "summary": "solve.json",
        "provenance": "solve.provenance.json",
        "log": "solve.log",
        "checkpoint": checkpoint,
    }
    roles |= {"coupling": "coupling.h5"} if (folder / "coupling.h5").exists() else {}
    options = [part for role, name in roles.items() for part in (f"--{role}", str(folder / name))]
    return [*options, "--checkpoint-minutes", str(minutes), "--settings", json.dumps(asdict(wanted)), *more]


def start(folder: Path, wanted: SolveSettings, *given: Any, **named: Any) -> subprocess.Popen[str]:
    """The stage in a process of its own, with the options of :func:`command_line`."""
    environment = os.environ | {"NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "solver", *command_line(folder, wanted, *given, **named)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.parametrize("number", some((signal.SIGTERM, signal.SIGINT, signal.SIGKILL), signal.SIGTERM))
def test_a_signal_leaves_a_checkpoint_from_which_the_stage_goes_on(number, tmp_path):
    save(short_pipe(), tmp_path / "nodes.h5")
    wanted = settings(steady_tolerance=1e-6)
    process, deadline = start(tmp_path, wanted), time.monotonic() + 120
    while len([*tmp_path.glob("checkpoint/step-*.h5")]) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(number)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode != 0
    assert "Traceback" not in errors
    if number != signal.SIGKILL:
        assert f"stopped by signal {number:d} after step" in errors
        assert "run the workflow again to go on" in errors
    assert not (tmp_path / "flow.vtkhdf").exists()
    process = start(tmp_path, wanted)
    errors = process.communicate(timeout=120)[1]
    assert process.returncode == 0, errors
    assert "going on from the checkpoint of step" in errors
    assert not (tmp_path / "checkpoint").exists()
    run(short_pipe(), wanted, tmp_path / "whole")
    assert files(tmp_path) == files(tmp_path / "whole")
