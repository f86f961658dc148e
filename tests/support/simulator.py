# SPDX-License-Identifier: Apache-2.0
"""Programs that run on the simulator of CUDA."""

import os
import subprocess
import sys

from solver.runtime.sources import ROOT


def simulated(program: str, *arguments: str) -> None:
    """Run a program on the simulator, in a process of its own, which must end well.

    All of it is interpreted, the CPU's loops as well: to compile them would take longer than all else, a quarter of a
    minute a model. Compiled loops are compared with reference solvers elsewhere, as in test_simulation.py and
    test_drivers.py.
    """
    environment = os.environ | {
        "NUMBA_ENABLE_CUDASIM": "1",
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-c", program, *arguments]
    answer = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
