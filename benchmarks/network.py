# SPDX-License-Identifier: Apache-2.0
"""Speed of the one-dimensional network: processor time of a cycle, one thread.

    HEMO_NETWORKS=... python benchmarks/network.py --network adan56 --spacing 4 --json results.json

Needs NumPy, Numba, h5py and PyYAML. The network is one of openBF's inputs, tapered as it is stated. Two cycles go
before, in which loops are compiled and the time step is found. Time is that of the processor, which other programs
change little; each cycle counts, with its samples, and the least and the median are told.
"""

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

os.environ["NUMBA_NUM_THREADS"] = "1"

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from solver.network.run import NetworkRun, Numerics  # noqa: E402
from tests.support.networks import openbf  # noqa: E402


def cycle(run: NetworkRun) -> float:
    """Processor time of a cycle, seconds."""
    start = time.process_time()
    if not run.march(run.steps):
        raise SystemExit(f"the time step is too long in cycle {run.cycle + 1}; lower --courant")
    run.next_cycle()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="adan56", help="name of an input of openBF")
    parser.add_argument("--spacing", type=float, default=4.0, help="length of a cell in mm")
    parser.add_argument("--courant", type=float, default=Numerics().courant)
    parser.add_argument("--cycles", type=int, default=5)
    parser.add_argument("--json", type=Path, help="file for the results")
    arguments = parser.parse_args()
    network = openbf(arguments.network, tapered=True)
    run = NetworkRun(network, Numerics(1e-3 * arguments.spacing, arguments.courant))
    for _ in range(2):
        cycle(run)
    seconds = [cycle(run) for _ in range(arguments.cycles)]
    cells = int((run.grid.last - run.grid.first + 1).sum())
    results = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "network": arguments.network,
        "segments": len(network.segments),
        "cells": cells,
        "steps_per_cycle": run.steps,
        "seconds_per_cycle": {"least": round(min(seconds), 3), "median": round(float(np.median(seconds)), 3)},
        "nanoseconds_per_cell_and_step": round(1e9 * min(seconds) / cells / run.steps, 1),
        "seconds": [round(each, 3) for each in seconds],
    }
    print(json.dumps(results, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
