# SPDX-License-Identifier: Apache-2.0
"""What looking at a run costs: rows of the monitor, looks for a flow that diverges, and the mean over a cycle.

    python benchmarks/monitor_cost.py --radius 20 --backend cpu --json results.json

Needs NumPy, Numba and h5py alone. A part of a cycle of a pipe is run under the schedule of a periodic run, with 80
steps for each node of its length, and as many steps without it, in turns; the cost is the difference over the latter.
On a CPU time is that of the processor, which other programs change little; on a GPU that of the clock. What each look
costs is told in steps.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from solver.backends.driver import Driver  # noqa: E402
from solver.backends.lattice import build_lattice  # noqa: E402
from solver.kernels.collision import relaxation_rates  # noqa: E402
from solver.run.schedule import SAMPLES, Schedule  # noqa: E402
from solver.run.setup import make_driver  # noqa: E402
from solver.run.units import ROWS_PER_CYCLE  # noqa: E402
from tests.support.geometries import observe, pipe  # noqa: E402
from validation.thread_sweep import STEPS_PER_NODE  # noqa: E402

TAU, PEAK = 0.55, 0.05
STRETCH = 10
"""Samples of the mean in what is timed: on a device the host takes in a look while the next steps run."""


def schedule(length: float) -> Schedule:
    """That of a periodic run through a domain of so many nodes."""
    interval = 2 * round(STEPS_PER_NODE * length / ROWS_PER_CYCLE / 2)
    cycle = ROWS_PER_CYCLE * interval
    return Schedule(interval, cycle // SAMPLES, cycle, cycle, compared=interval)


def stretch(driver: Driver, flow: float, plan: Schedule | None, steps: int) -> None:
    """Run so many steps; with a schedule, look at them as it says. Both wait for the device at the same steps."""
    pace, step, observed = plan or Schedule(steps, steps, steps), 0, False
    while step < steps:
        stop = min(pace.next_stop(step), steps)
        driver.advance(np.tile((flow, 0.0), (stop - step, 1)))
        if observed:
            driver.observation()
        step = stop
        observed = plan is not None and plan.observed_at(step)
        if plan and observed:
            driver.observe(plan.compares(step))
        if plan and plan.sampled(step):
            driver.average(0, plan.begins_mean(step))
    if observed:
        driver.observation()
    driver.at_bounds()


def seconds(clock: Callable[[], float], work: Callable[[], object]) -> float:
    """Time of some work."""
    start = clock()
    work()
    return clock() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--radius", type=float, default=20, help="radius of the pipe in nodes; it is 8 radii long")
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="file for the results")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.backend == "cpu" else time.perf_counter
    nodes = pipe((2, 3, 6), arguments.radius, 8 * arguments.radius)
    lattice = build_lattice(nodes, "trt", relaxation_rates(TAU, (TAU - 0.5) / 2), "bouzidi", arguments.precision)
    driver = make_driver(arguments.backend, lattice)
    plan = schedule(float(np.linalg.norm(np.ptp(nodes.position, axis=0) + 1)))
    flow, steps = PEAK / 2 * np.pi * arguments.radius**2, STRETCH * plan.sample
    for number in range(3):  # compile
        driver.average(0, number == 0)
    stretch(driver, flow, plan, steps)
    bare, watched = [], []
    for _ in range(arguments.repeats):
        bare.append(seconds(clock, lambda: stretch(driver, flow, None, steps)))
        watched.append(seconds(clock, lambda: stretch(driver, flow, plan, steps)))
    step = float(np.median(bare)) / steps
    works = {"look": lambda: observe(driver, True), "mean": lambda: driver.average(0, False)}
    parts = {
        name: np.median([seconds(clock, work) for _ in range(arguments.repeats)]) / step for name, work in works.items()
    }
    results = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "device": driver.device,
        "precision": arguments.precision,
        "nodes": nodes.count,
        "steps_per_cycle": plan.last,
        "steps_between_rows": plan.interval,
        "steps_between_samples": plan.sample,
        "microseconds_per_step": round(1e6 * step, 1),
        "in_steps": {name: round(float(value), 2) for name, value in parts.items()},
        "cost": round(float(np.median(watched) / np.median(bare)) - 1, 4),
        "costs": [round(one / other - 1, 4) for one, other in zip(watched, bare, strict=True)],
    }
    print(json.dumps(results, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
