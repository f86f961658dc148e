# SPDX-License-Identifier: Apache-2.0
"""What a run finds on this machine, with and without a CUDA device."""

import os

from solver.backends.cost import Device
from solver.backends.cuda import device
from solver.run import machine as module
from solver.run.machine import Machine, machine


def test_without_a_device_the_reason_is_said(monkeypatch):
    monkeypatch.setattr(module, "no_device", lambda: "no driver; install it")
    found = machine()
    assert found == Machine(len(os.sched_getaffinity(0)), found.memory_bytes, no_device="no driver; install it")
    assert 1e7 < found.memory_bytes < 1e14


def test_a_device_has_its_name_free_memory_and_driver(monkeypatch):
    monkeypatch.setattr(module, "no_device", lambda: None)
    monkeypatch.setattr(module, "find_device", lambda *asked: Device(f"GPU of {asked}", 8e10, 1.0, 1.0, 1.0))
    monkeypatch.setattr(device, "driver_version", lambda: "550.1, CUDA 12.4")
    found = machine()
    assert (found.device, found.device_bytes) == ("GPU of ('cuda', 'fp32')", 8e10)
    assert (found.driver, found.no_device) == ("550.1, CUDA 12.4", "")
