# SPDX-License-Identifier: Apache-2.0
"""What this machine has for a run."""

import os
from dataclasses import dataclass

from solver.run.setup import find_device, no_device
from solver.runtime.memory import available_bytes


@dataclass(frozen=True)
class Machine:
    """What a run finds here.

    Attributes
    ----------
    cores : that this process may use.
    memory_bytes : that it can still take.
    device : name of the CUDA device that a run would take; empty where there is none.
    device_bytes : memory that is free on it.
    driver : its driver's version, with the newest CUDA that this knows.
    no_device : why there is none, with the remedy.
    """

    cores: int
    memory_bytes: float
    device: str = ""
    device_bytes: float = 0.0
    driver: str = ""
    no_device: str = ""


def machine() -> Machine:
    """What a run finds on this machine.

    Raises
    ------
    StageError
        If there is a CUDA device that fails.
    """
    cores, memory = len(os.sched_getaffinity(0)), available_bytes()
    if missing := no_device():
        return Machine(cores, memory, no_device=missing)
    from solver.backends.cuda.device import driver_version, explain_failures

    with explain_failures():
        device = find_device("cuda", "fp32")
        return Machine(cores, memory, device.name, device.free_bytes, driver_version() or "")
