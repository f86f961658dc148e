# SPDX-License-Identifier: Apache-2.0
"""What a step of the passive scalar costs beside a step of the flow on the same nodes.

    python benchmarks/transport_cost.py --radius 40 --backends cpu cuda --json results.json

Needs NumPy, Numba and h5py alone. Stretches of steps of a flow and of the scalar that it carries run in turns; a table
gives the medians. First the scalar is checked: what passed the openings and was gained must be what the vessel holds.
On a CPU time is that of the clock, of all cores.
"""

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from solver.backends.lattice import PRECISIONS, build_lattice  # noqa: E402
from solver.backends.scalar_driver import TransportDriver  # noqa: E402
from solver.backends.scalar_lattice import ScalarLattice, scalar_lattice  # noqa: E402
from solver.domain.nodes import Nodes  # noqa: E402
from solver.kernels.collision import relaxation_rates  # noqa: E402
from solver.run.setup import make_driver  # noqa: E402
from solver.transport.carrier import Carrier  # noqa: E402
from solver.transport.scalar_setup import make_transport_driver  # noqa: E402
from tests.support.geometries import pipe  # noqa: E402

TAU, MEAN, DIFFUSIVITY = 0.55, 0.025, 0.004
CHECKED = {"fp32": 1e-5, "fp64": 1e-11}
"""Largest part of the scalar that may be missing after the check, by the type that is computed with."""


def developed(nodes: Nodes, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """Developed velocity of the pipe, (3, N), and the flow out through inlet and outlet."""
    opening = nodes.openings[0]
    unit = -np.array(opening.normal)
    away = nodes.points_mm() - np.array(opening.centre_mm)
    away -= np.outer(away @ unit, unit)
    profile = np.clip(1 - (away**2).sum(axis=1) / radius**2, 0, None)
    flow = MEAN * np.pi * radius**2
    return unit[:, None] * 2 * MEAN * profile, np.array([-flow, flow])


def check(driver: TransportDriver, faces: np.ndarray, lattice: ScalarLattice) -> float:
    """Part of the scalar that is missing after some steps with a source and an inflow."""
    steps = 40
    driver.begin(np.zeros(lattice.count), faces, np.ones(2))
    driver.advance(np.ones((steps, 2)))
    held = driver.concentration().astype(np.float64).sum()
    return abs(held - lattice.count * steps + driver.left()[0].sum()) / held


def seconds(work: Any, wait: Any) -> float:
    """Time of some work, at whose end a device has done it."""
    start = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - start


def compare(nodes: Nodes, radius: float, backend: str, precision: str, options: argparse.Namespace) -> dict[str, Any]:
    """Medians of the time of a step of the flow and of the scalar."""
    flow = make_driver(backend, build_lattice(nodes, "trt", relaxation_rates(TAU, 3 / 16), "bouzidi", precision))
    lattice = scalar_lattice(nodes)
    faces = Carrier.of(nodes, lattice).faces(*developed(nodes, radius))
    scalar = make_transport_driver(backend, lattice, PRECISIONS[precision], DIFFUSIVITY, 1.0)
    missing = check(scalar, faces, lattice)
    if not missing < CHECKED[precision]:
        raise SystemExit(f"{backend}, {precision}: the part {missing:.2g} of the scalar is missing")
    conditions = np.tile((MEAN * np.pi * radius**2, 0.0), (options.steps, 1))
    inflow = np.zeros((options.steps, 2))
    works = (
        (lambda: flow.advance(conditions), lambda: flow.read(slice(0, 1))),
        (lambda: scalar.advance(inflow), lambda: scalar.left()),
    )
    for work, wait in works:
        seconds(work, wait)
    times = np.array([[seconds(*each) for each in works] for _ in range(options.repeats)]) / options.steps
    of_flow, of_scalar = np.median(times, axis=0)
    return {
        "backend": backend,
        "device": scalar.device,
        "precision": precision,
        "nodes": nodes.count,
        "missing": missing,
        "flow_step_us": round(1e6 * of_flow, 2),
        "scalar_step_us": round(1e6 * of_scalar, 2),
        "ratio": round(float(of_scalar / of_flow), 4),
        "ratios": [round(float(ratio), 4) for ratio in times[:, 1] / times[:, 0]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--radius", type=float, default=25, help="radius of the pipe in nodes; it is 8 radii long")
    parser.add_argument("--backends", nargs="+", default=["cpu"], choices=["cpu", "cuda"])
    parser.add_argument("--precisions", nargs="+", default=["fp32", "fp64"], choices=list(CHECKED))
    parser.add_argument("--steps", type=int, default=200, help="of a stretch, an even number")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args()
    nodes = pipe((2, 3, 6), options.radius, 8 * options.radius)
    rows = [
        compare(nodes, options.radius, backend, precision, options)
        for backend in options.backends
        for precision in options.precisions
    ]
    print(f"{'device':28} {'':5} {'nodes':>9} {'flow us':>10} {'scalar us':>10} {'ratio':>6}  missing")
    for row in rows:
        print(
            f"{row['device'][:28]:28} {row['precision']:5} {row['nodes']:9d} {row['flow_step_us']:10.1f}"
            f" {row['scalar_step_us']:10.1f} {row['ratio']:6.3f}  {row['missing']:.1e}"
        )
    if options.json:
        machine = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
        options.json.write_text(json.dumps(machine | {"steps": options.steps, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
