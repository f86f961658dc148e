# SPDX-License-Identifier: Apache-2.0
"""Devices are counted by what the driver's program lists and what the environment shows of them."""

import subprocess

import pytest

from pipeline.case.settings.flow import SolveSettings
from solver.backends.cuda import device_count

LISTED = "".join(f"GPU {n}: NVIDIA H200 (UUID: GPU-{n}abc-77b{n})\n" for n in range(3))
NEEDED = {"inlets": {"*": {"flow_ml_s": 1.0}}}


@pytest.fixture(autouse=True)
def nothing_remembered():
    device_count._listed.cache_clear()
    yield
    device_count._listed.cache_clear()


def listing(monkeypatch, text: str = LISTED, shown: str | None = None) -> None:
    def run(command, **options):
        return subprocess.CompletedProcess(command, 0, text, "")

    monkeypatch.setattr(device_count.subprocess, "run", run)
    if shown is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)


@pytest.mark.parametrize(
    ("shown", "count"),
    [(None, 3), ("0,2", 2), ("GPU-1abc-77b1", 1), ("", 0), ("-1", 0), ("0,7,1", 1), ("2, 1", 2)],
)
def test_devices_that_programs_see_are_counted_up_to_the_first_that_is_none(monkeypatch, shown, count):
    listing(monkeypatch, shown=shown)
    assert device_count.device_count() == count


def test_as_many_ranks_as_devices_and_one_without_any(monkeypatch):
    listing(monkeypatch)
    assert SolveSettings(ranks="devices", **NEEDED).ranks == 3
    device_count._listed.cache_clear()
    listing(monkeypatch, text="No devices were found\n")
    assert SolveSettings(ranks="devices", **NEEDED).ranks == 1


def test_no_driver_is_no_device(monkeypatch):
    def missing(*_, **__):
        raise FileNotFoundError("nvidia-smi")

    monkeypatch.setattr(device_count.subprocess, "run", missing)
    assert device_count.device_count() == 0
