# SPDX-License-Identifier: Apache-2.0
"""Runs share out the CUDA devices of a machine, faked here: never two on one; and why a device cannot be used."""

import logging
import os
import subprocess
import sys
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.cuda import device, device_lock
from solver.backends.cuda.device_lock import locked_device, locked_devices
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.solver.run.test_checkpoint import files, kept, run, short_pipe
from tests.solver.run.test_simulation import settings

LOG = logging.getLogger("test_device_lock")
RUN = """
import logging
import sys
import time
from pathlib import Path
from solver.backends.cuda.device_lock import locked_device
folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
with locked_device(["GPU-a", "GPU-b"], logging.getLogger("run"), folder / "locks") as number:
    begin = time.time()
    time.sleep(seconds)
    (folder / f"{time.time()}").write_text(f"{number} {begin} {time.time()}")
"""


def start(folder: Path, seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", RUN, str(folder), str(seconds)], cwd=ROOT)


def test_no_device_has_two_runs_at_a_time(tmp_path):
    runs = [start(tmp_path, 0.3) for _ in range(6)]
    assert [run.wait(timeout=60) for run in runs] == [0] * 6
    spans = [tuple(map(float, path.read_text().split())) for path in tmp_path.iterdir() if path.is_file()]
    assert len(spans) == 6
    assert {number for number, _, _ in spans} == {0, 1}
    for number in (0, 1):
        mine = sorted((begin, end) for on, begin, end in spans if on == number)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(mine))


def test_the_device_of_a_killed_run_is_free(tmp_path):
    run = start(tmp_path, 60)
    while not (tmp_path / "locks/GPU-b").exists():
        time.sleep(0.02)
    run.kill()
    run.wait(timeout=30)
    with locked_device(["GPU-a"], LOG, tmp_path / "locks") as number:
        assert number == 0


def test_runs_that_wait_get_a_device_in_the_order_in_which_they_came(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(device_lock, "WAIT_S", 0.01)
    caplog.set_level(logging.INFO)
    came: list[int] = []

    def wait(number: int) -> None:
        with locked_device(["GPU-a"], LOG, tmp_path):
            came.append(number)

    runs = [Thread(target=wait, args=(k,)) for k in range(8)]
    with locked_device(["GPU-a"], LOG, tmp_path):
        for count, run in enumerate(runs, 1):
            run.start()
            while len(caplog.messages) < count:
                time.sleep(0.005)
            time.sleep(0.05)  # from its message to its place in the queue
    for run in runs:
        run.join(timeout=30)
    assert came == list(range(8))


def test_a_run_that_waits_says_so(tmp_path, caplog, monkeypatch):
    def stop_waiting(seconds: float) -> None:
        raise TimeoutError

    monkeypatch.setattr(device_lock, "time", SimpleNamespace(sleep=stop_waiting))
    waiting = locked_device(["GPU-a", "GPU-b"], LOG, tmp_path)
    caplog.set_level(logging.INFO)
    with locked_device(["GPU-a"], LOG, tmp_path), locked_device(["GPU-b"], LOG, tmp_path), pytest.raises(TimeoutError):
        waiting.__enter__()
    assert caplog.messages == ["all of 2 CUDA devices are taken by other runs; waiting for one"]


def test_a_run_of_several_ranks_holds_as_many_devices_as_it_wants_or_none(tmp_path, caplog, monkeypatch):
    """While it waits for the second of two, the first is free: a run that sees that one alone gets it meanwhile."""
    caplog.set_level(logging.INFO)
    waits = 0

    def is_free(name: str) -> bool:
        lock = device_lock._open_lock(tmp_path / name)
        try:
            return device_lock._locked(lock)
        finally:
            os.close(lock)

    def wait(seconds: float) -> None:
        nonlocal waits
        waits += 1
        assert is_free("GPU-a")
        if waits == 2:
            other.__exit__(None, None, None)

    monkeypatch.setattr(device_lock, "time", SimpleNamespace(sleep=wait))
    other = locked_device(["GPU-b"], LOG, tmp_path)
    other.__enter__()
    with locked_devices(["GPU-a", "GPU-b"], 2, LOG, tmp_path) as numbers:
        assert (numbers, waits) == ([0, 1], 2)
        assert caplog.messages == ["too many of 2 CUDA devices are taken by other runs; waiting for 2"]
        assert not is_free("GPU-a")
        assert not is_free("GPU-b")
    with locked_devices(["GPU-a", "GPU-b", "GPU-c"], 2, LOG, tmp_path) as numbers:
        assert numbers == [0, 1]
        with locked_devices(["GPU-a", "GPU-b", "GPU-c"], 1, LOG, tmp_path) as rest:
            assert rest == [2]


FAULTS = {
    "not installed": (None, {}, "numba.cuda is not installed; install requirements-cuda.lock"),
    "hidden": ({}, {"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES is empty, which hides all devices; unset it"),
    "hidden by number": ({}, {"CUDA_VISIBLE_DEVICES": "-1"}, "CUDA_VISIBLE_DEVICES is -1, which hides all devices"),
    "no driver": (
        {"error": "libcuda.so\n not found. If you are sure that it is there, set X"},
        {},
        r"no CUDA device answers \(libcuda.so not found\); install",
    ),
    "old driver": ({"version": (11, 4)}, {}, "the NVIDIA driver knows CUDA 11.4, and 12.0 at least is needed; update"),
    "no device": ({"devices": False}, {}, "no CUDA device answers; see nvidia-smi"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_why_no_device_can_be_used_is_reported_with_the_remedy(name, monkeypatch):
    given, environment, message = FAULTS[name]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(device, "cuda", faked(**given) if given is not None else None)
    assert not device.device_answers()
    with pytest.raises(StageError, match=f"^solve.backend cuda: {message}.*, or set it to cpu or auto$"):
        device.require_device()


def faked(error: str | None = None, version: tuple[int, int] = (12, 9), devices: bool = True) -> SimpleNamespace:
    """What is asked of numba.cuda."""
    driver = SimpleNamespace(driver=SimpleNamespace(get_version=lambda: version))
    return SimpleNamespace(cuda_error=lambda: error, driver=driver, is_available=lambda: devices)


def test_a_device_that_answers_has_no_fault(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(device, "cuda", faked())
    assert device.device_answers()


def test_locks_are_shared_by_the_users_of_a_machine(tmp_path):
    """Whoever comes first makes folder and lock; others may add locks, and open those that they may not write to."""
    with locked_device(["GPU-a"], LOG, tmp_path / "locks"):
        assert (tmp_path / "locks").stat().st_mode & 0o7777 == 0o1777
        assert (tmp_path / "locks/GPU-a").stat().st_mode & 0o444 == 0o444
    (tmp_path / "locks/GPU-a").chmod(0o444)
    with locked_device(["GPU-a"], LOG, tmp_path / "locks") as number:
        assert number == 0


# ---- devices that fail -----------------------------------------------------------------------------------------------


class CudaAPIError(Exception):
    """As numba.cuda tells what the driver answers."""

    def __init__(self, code: int, call: str, name: str) -> None:
        super().__init__(f"[{code}] Call to {call} results in {name}")


FULL = CudaAPIError(2, "cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY")
FAILED = {
    "illegal address": CudaAPIError(700, "cuStreamSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS"),
    "memory at fault": CudaAPIError(214, "cuEventSynchronize", "CUDA_ERROR_ECC_UNCORRECTABLE"),
    "gone": RuntimeError("CUDA_ERROR_DEVICE_UNAVAILABLE: the device is busy or unavailable"),  # as cuda.core tells it
}


def two_devices(select=lambda number: None) -> SimpleNamespace:
    """A machine with two devices, of which the second is smaller."""
    names = (b"Large", b"Small")
    chosen = []

    def take(number: int) -> None:
        select(number)
        chosen.append(number)

    return SimpleNamespace(
        **vars(faked()),
        gpus=[SimpleNamespace(uuid=f"GPU-{each}") for each in "ab"],
        select_device=take,
        get_current_device=lambda: SimpleNamespace(name=names[chosen[-1]]),
        current_context=lambda: SimpleNamespace(get_memory_info=lambda: (300_000_000, 80_000_000_000)),
    )


@pytest.fixture
def locks(tmp_path, monkeypatch) -> Path:
    """A folder for the claims of devices."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    folder = tmp_path / "locks"
    monkeypatch.setattr(device, "locked_device", partial(locked_device, folder=folder))
    return folder


def test_of_several_devices_the_log_names_the_one_that_is_taken(locks, monkeypatch, caplog):
    monkeypatch.setattr(device, "cuda", two_devices())
    caplog.set_level(logging.INFO)
    with locked_device(["GPU-a"], LOG, locks), device.own_device(LOG):
        assert caplog.messages == ["CUDA device 1 of those numbered 0 to 1: Small"]


def test_a_device_without_memory_for_its_context_is_reported(locks, monkeypatch):
    def select(number: int) -> None:
        raise FULL

    monkeypatch.setattr(device, "cuda", two_devices(select))
    message = r"^the CUDA device has no memory left: 0.3 GB of 80 GB are free; .* or set solve.backend to cpu$"
    with pytest.raises(StageError, match=message), device.own_device(LOG):
        pass


def failing_at(error: Exception, step: int) -> Any:
    """The driver's device fails when so many steps are done; at 0 when its arrays are laid out."""
    done = 0

    def begin(driver: CpuDriver, boundary_values: NDArray[np.float64]) -> None:
        nonlocal done
        if (done := done + len(boundary_values)) > step:
            raise error
        begun(driver, boundary_values)

    begun = CpuDriver.begin
    return mock.patch.object(CpuDriver, "begin", begin)


@pytest.mark.parametrize("step", [0, 300])
def test_memory_that_another_program_takes_is_reported_with_what_was_wanted(step, tmp_path, monkeypatch):
    monkeypatch.setattr(device, "cuda", two_devices())
    device.cuda.select_device(0)
    message = (
        r"^the CUDA device has no memory left: \S+ GB in fp32 were wanted, 0.3 GB of 80 GB are free; choose a coarser"
        r" voxelize.spacing_mm or a smaller solve.precision, or wait until other programs free it, or set solve.backend"
        r" to cpu$"
    )
    with pytest.raises(StageError, match=message), failing_at(FULL, step):
        run(short_pipe(), settings(), tmp_path)


@pytest.mark.parametrize("name", FAILED)
def test_a_device_that_fails_leaves_the_last_checkpoint(name, tmp_path, caplog):
    message = (
        r"^the CUDA device failed \(CUDA_ERROR_\w+\); the last checkpoint is kept, and the workflow goes on from it"
    )
    with pytest.raises(StageError, match=message), failing_at(FAILED[name], 300):
        run(short_pipe(), settings(), tmp_path / "stopped", kept(tmp_path))
    caplog.set_level(logging.INFO)
    run(short_pipe(), settings(), tmp_path / "stopped", kept(tmp_path))
    assert "going on from the checkpoint of step" in caplog.text
    run(short_pipe(), settings(), tmp_path / "whole")
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")


def test_a_machine_without_memory_is_reported(tmp_path):
    message = r"^this machine has no memory left: \S+ GB in fp32 were wanted, \S+ GB are free; choose a coarser"
    with pytest.raises(StageError, match=message), failing_at(MemoryError(), 0):
        run(short_pipe(), settings(), tmp_path)


def test_the_version_of_the_driver_is_reported_where_a_device_answers(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(device, "cuda", faked())
    monkeypatch.setattr(device, "DRIVER_VERSION", (sys.executable, "-c", "print('570.1\\n570.1')"))
    assert device.driver_version() == "570.1, CUDA 12.9"
    monkeypatch.setattr(device, "DRIVER_VERSION", ("no-such-command",))
    assert device.driver_version() == "CUDA 12.9"
    monkeypatch.setattr(device, "cuda", faked(devices=False))
    assert device.driver_version() is None
