# SPDX-License-Identifier: Apache-2.0
"""Statistics of nodes: CUDA against the CPU, and what they cost.

    PYTHONPATH=.:benchmarks python benchmarks/node_statistics.py [--radius 44] [--small 6.2] [--json results.json]

On a machine with a CUDA device. A small pipe under a flow that swings is run on both backends: statistics and mean must
agree to within what rounding grows to, and parts of the domain must have the same bits as the whole. The mean without
statistics has the bits of the mean with them on the CPU; on CUDA two kernels may round a product and a sum at once or
not, which is told. Then the time of one `average` call with statistics (number 0) and without (number 1) on a pipe of
some 2 M nodes. Prints two tables; ends with status 1 where anything disagrees.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from backend_agreement import BLOOD, TOLERANCE

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.cuda import device
from solver.backends.cuda.cuda_driver import CudaDriver
from solver.backends.driver import Driver
from solver.backends.fields import Fields, Statistics
from solver.backends.lattice import Lattice, build_lattice
from solver.backends.subdomains import SubdomainsDriver
from solver.domain.nodes import Nodes
from solver.kernels.collision import relaxation_rates
from solver.kernels.rheology import make_rheology
from tests.support.geometries import pipe

TAU, LAMBDA_TRT, SAMPLES, EVERY = 0.7, 0.1, 10, 10
NAMES = ("peak_speed", "square", "shear_rate", "dissipation")


def lattice_of(nodes: Nodes, precision: str, blood: str) -> Lattice:
    rheology = make_rheology(blood, BLOOD[blood], TAU, LAMBDA_TRT) if blood in BLOOD else None
    return build_lattice(
        nodes,
        "trt",
        relaxation_rates(TAU, LAMBDA_TRT),
        "bouzidi",
        precision,
        force=(1e-5, 2e-5, -1e-5),
        rheology=rheology,
    )


def run(driver: Driver, flow: float) -> tuple[Fields, Fields, Statistics]:
    """Numbers 0 and 1 take the same states: the latter has no statistics."""
    for k in range(SAMPLES):
        times = np.arange(k * EVERY, (k + 1) * EVERY)
        inflow = flow * (1 + 0.6 * np.sin(2 * np.pi * times / (SAMPLES * EVERY)))
        driver.advance(np.stack((inflow, np.zeros(EVERY)), axis=1))
        for number in (0, 1):
            driver.average(number, k == 2)  # begun again after two states
    return driver.mean(0), driver.mean(1), driver.statistics()


def same(one: Fields | Statistics, other: Fields | Statistics) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one.arrays(), other.arrays(), strict=True))


def compare(nodes: Nodes, precision: str, blood: str) -> dict[str, Any]:
    lattice, flow = lattice_of(nodes, precision, blood), 0.02 * np.pi * nodes.openings[0].radius_mm ** 2
    part = (np.arange(nodes.count) * 3 // nodes.count).astype(np.int16)
    here, there = run(CpuDriver(lattice), flow), run(CudaDriver(lattice), flow)
    parts = run(SubdomainsDriver(lattice, part, CudaDriver), flow)
    row: dict[str, Any] = {"precision": precision, "blood": blood, "nodes": nodes.count}
    for name in NAMES:
        a, b = (getattr(each[2], name).astype(float) for each in (here, there))
        row[name] = float(np.abs(a - b).max() / np.abs(a).max())
    row["mean"] = max(
        float(np.abs(a - b).max() / np.abs(a).max()) for a, b in zip(here[0].arrays(), there[0].arrays(), strict=True)
    )
    row["cpu mean bits"], row["cuda mean bits"] = same(here[0], here[1]), same(there[0], there[1])
    row["parts bits"] = all(same(there[k], parts[k]) for k in range(3))
    # squares are off by twice what their root is
    close = all(row[name] <= TOLERANCE[precision] * (2 if name in ("square", "dissipation") else 1) for name in NAMES)
    row["good"] = close and row["cpu mean bits"] and row["parts bits"] and row["mean"] <= TOLERANCE[precision]
    return row


def seconds(driver: CudaDriver, work: Callable[[], object], count: int) -> float:
    driver.queue.stream.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        work()
    driver.queue.stream.synchronize()
    return (time.perf_counter() - start) / count


def cost(nodes: Nodes, precision: str, blood: str, repeats: int) -> dict[str, Any]:
    driver, row = CudaDriver(lattice_of(nodes, precision, blood)), np.tile((5.0, 0.0), (32, 1))
    works: dict[str, Callable[[], object]] = {
        "step": lambda: driver.advance(row),
        "with": lambda: driver.average(0, False),
        "without": lambda: driver.average(1, False),
    }
    for number in (0, 1):
        driver.average(number, True)
    for work in works.values():
        for _ in range(3):
            work()
    took: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            took[name].append(seconds(driver, work, 20))
    us = {name: 1e6 * float(np.median(each)) for name, each in took.items()}
    us["step"] /= len(row)
    return {
        "precision": precision,
        "blood": blood,
        "nodes": nodes.count,
        "step us": us["step"],
        "average without us": us["without"],
        "average with us": us["with"],
        "without in steps": us["without"] / us["step"],
        "with in steps": us["with"] / us["step"],
    }


def shown(rows: list[dict[str, Any]]) -> None:
    print("  ".join(rows[0]))
    for row in rows:
        print("  ".join(f"{v:.3g}" if isinstance(v, float) else f"{v}" for v in row.values()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precisions", nargs="+", default=["fp32", "fp64", "fp16"])
    parser.add_argument("--bloods", nargs="+", default=["newtonian", "carreau-yasuda"])
    parser.add_argument("--small", type=float, default=6.2, help="radius of the pipe that is compared")
    parser.add_argument("--radius", type=float, default=44, help="of the pipe that is timed, 8 radii long; 0: none")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    name = device.require_device()
    small = pipe((1, 2, 3), arguments.small, 4 * arguments.small)
    pairs = [(precision, blood) for precision in arguments.precisions for blood in arguments.bloods]
    agreement = [compare(small, *pair) for pair in pairs]
    shown(agreement)
    costs = []
    if arguments.radius:
        large = pipe((2, 3, 6), arguments.radius, 8 * arguments.radius)
        costs = [cost(large, *pair, arguments.repeats) for pair in pairs]
        shown(costs)
    good = all(row["good"] for row in agreement)
    print(f"{name}: {'all agree' if good else 'DISAGREEMENT'}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"device": name, "agreement": agreement, "cost": costs}, indent=2) + "\n")
    sys.exit(not good)


if __name__ == "__main__":
    main()
