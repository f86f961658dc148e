# SPDX-License-Identifier: Apache-2.0
"""One lattice on several ranks of one thread against one process of as many threads.

    make mpi
    python benchmarks/mpi.py --nodes 2e6 --ranks 2 --json results.json

A tree of vessels with a parabolic inflow is run by both in turns, for some steps each; while the first rank runs the
whole alone the others sleep. The clock tells what a user waits for; the time of processors, of all ranks together, what
it takes on a machine whose cores others use, too. At the end both must have the same bits.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import numba  # noqa: E402
from bench import provenance  # noqa: E402
from vessel_tree import vessel_tree  # noqa: E402

from solver.backends.communicator import Communicator, world  # noqa: E402
from solver.backends.cpu.cpu_driver import CpuDriver  # noqa: E402
from solver.backends.distributed import DistributedDriver, OwnPart  # noqa: E402
from solver.backends.driver import Driver  # noqa: E402
from solver.backends.lattice import build_lattice  # noqa: E402
from solver.domain.partition import partition  # noqa: E402
from solver.kernels.collision import relaxation_rates  # noqa: E402
from solver.ranks.launch import environment, require_mpi  # noqa: E402

TAU, INFLOW = 0.55, 20.0
MOST_ASLEEP = 0.9
"""Part of the time that the whole took last for which other ranks sleep before they ask whether it is done."""


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Time of the clock and of this processor."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


def total(ranks: Communicator, seconds: float) -> float:
    """Sum over all ranks."""
    return float(ranks.join(np.array([seconds])).sum())


def alike(whole: Driver | None, divided: Driver, ranks: Communicator) -> bool:
    """Whether the first rank has the same velocity of both."""
    velocity = divided.share.whole(divided.fields()).velocity
    return whole is None or bool(np.array_equal(whole.fields().velocity, velocity))


def measure(arguments: argparse.Namespace) -> None:
    """What each rank does."""
    ranks, threads = world(), arguments.ranks
    nodes = vessel_tree(arguments.nodes)
    shared = ranks.broadcast({"part": partition(nodes, ranks.size)} if ranks.rank == 0 else None)
    assert shared is not None
    lattice = build_lattice(nodes, "trt", relaxation_rates(TAU, (TAU - 0.5) / 2), "bouzidi", arguments.precision)
    whole = CpuDriver(lattice) if ranks.rank == 0 else None
    divided = DistributedDriver(OwnPart.of_lattice(lattice, shared["part"], ranks), CpuDriver, ranks)
    inlets = [opening.role == "inlet" for opening in nodes.openings]
    rows = np.tile(INFLOW * np.array(inlets, np.float64), (arguments.steps, 1))
    found: dict[str, list[float]] = {name: [] for name in ("whole", "whole_cpu", "ranks", "ranks_cpu")}
    last = 0.0
    for repeat in range(arguments.repeats + 1):  # the first compiles
        clock, processor = 0.0, 0.0
        if whole:
            numba.set_num_threads(threads)
            clock, processor = timed(lambda: whole.advance(rows))
        else:
            time.sleep(MOST_ASLEEP * last)
        clock = last = total(ranks, clock)
        numba.set_num_threads(1)
        together, own = timed(lambda: divided.advance(rows))
        if repeat:
            for name, value in zip(found, (clock, processor, together, total(ranks, own)), strict=True):
                found[name].append(value)
        else:
            total(ranks, own)
    same = alike(whole, divided, ranks)
    if ranks.rank == 0:
        updates = nodes.count * arguments.steps / 1e6
        results = {
            **provenance(arguments),
            "nodes": nodes.count,
            "ranks": ranks.size,
            "layout": divided.layout,
            "steps": arguments.steps,
            "same_bits": same,
            "mlups": {name: [round(updates / value, 2) for value in values] for name, values in found.items()},
            "ranks_over_whole": round(float(np.median(np.divide(found["whole"], found["ranks"]))), 3),
            "ranks_over_whole_cpu": round(float(np.median(np.divide(found["whole_cpu"], found["ranks_cpu"]))), 3),
        }
        print(json.dumps(results, indent=2), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=float, default=2e6)
    parser.add_argument("--ranks", type=int, default=2, help="and threads of the one process")
    parser.add_argument("--steps", type=int, default=20, help="of each turn, even")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--commit", help="of what is measured, where git cannot tell it")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        measure(arguments)
        return
    command = [require_mpi(arguments.ranks), "-n", str(arguments.ranks), sys.executable, *sys.argv, "--rank"]
    given = environment(arguments.ranks) | {"NUMBA_NUM_THREADS": str(arguments.ranks)}
    sys.exit(subprocess.run(command, env=given, check=False).returncode)


if __name__ == "__main__":
    main()
