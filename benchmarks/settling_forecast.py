# SPDX-License-Identifier: Apache-2.0
"""Forecast of the steps of steady runs against what they take: small shapes of random size, speed and viscosity.

    python benchmarks/settling_forecast.py [--cases N] [--seed S] [--json FILE]

Shapes: a straight pipe, a pipe that narrows to a quarter of its area, one that widens at once, a fork, a channel whose
floor steps down, a cavity whose lid moves, and plates between which a force drives the fluid. Reynolds numbers of
openings, of the lid and between plates are drawn evenly in their logarithm, sizes and lattice speeds evenly.
"""

import argparse
import json
import logging
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from solver.domain.nodes import Nodes  # noqa: E402
from solver.run.settings import InletSettings, PatchSettings, SolveSettings  # noqa: E402
from solver.run.solve import solve  # noqa: E402
from solver.runtime.errors import StageError  # noqa: E402
from tests.solver.boundary.test_moving_walls import patched  # noqa: E402
from tests.solver.run.test_simulation import DENSITY, VISCOSITY, settings  # noqa: E402
from tests.support.geometries import bifurcation, closed_box, hollow, pipe, plates, round_opening, stenosis, step  # noqa: E402
from tests.support.solve_settings import inflow_ml_s  # noqa: E402

NU = VISCOSITY / DENSITY
SPACING_MM = 0.2
Draw = Callable[[float, float], float]


def opened(nodes: Nodes, reynolds: float, **changes: Any) -> tuple[Nodes, SolveSettings]:
    """With the flow of a Reynolds number of the inlet's mean speed and diameter."""
    inlet = InletSettings(inflow_ml_s(nodes, reynolds), None, "developed")
    return nodes, settings(inlets={"*": inlet}, **changes)


def straight(even: Draw, log: Draw, speed: float) -> tuple[Nodes, SolveSettings]:
    radius = even(3.2, 5)
    return opened(pipe((1, 0, 0), radius, even(4, 12) * radius, SPACING_MM), log(5, 200), lattice_speed=speed)


def narrowed(even: Draw, log: Draw, speed: float) -> tuple[Nodes, SolveSettings]:
    radius = even(4.2, 5.5)
    nodes = stenosis((1, 0, 0), radius, 2 * radius, 2 * radius, even(3, 8) * radius, SPACING_MM)
    return opened(nodes, log(5, 80), lattice_speed=speed)


def widened(even: Draw, log: Draw, speed: float) -> tuple[Nodes, SolveSettings]:
    narrow, start = even(3.2, 4), np.array([0.3, 0.2, 0.4])
    wide, before, along = narrow * even(1.4, 2), 2 * narrow, np.array([1.0, 0, 0])
    end = start + (before + even(6, 12) * wide) * along

    def level(points: np.ndarray) -> np.ndarray:
        offset = points - start
        return np.hypot(*offset[:, 1:].T) - np.where(offset[:, 0] < before, narrow, wide)

    caps = (
        round_opening(1, "in", "inlet", start, -along, narrow),
        round_opening(2, "out", "outlet", end, along, wide),
    )
    margin = wide * np.array([0, 1, 1]) + 2
    nodes = hollow(level, caps, np.floor(start - margin), np.ceil(end + margin), SPACING_MM)
    return opened(nodes, log(8, 120), lattice_speed=speed)


def forked(even: Draw, log: Draw, speed: float) -> tuple[Nodes, SolveSettings]:
    radius = even(3.4, 4.2)
    daughters = (0.8 * radius, even(25, 50)), (0.7 * radius, -even(25, 50))
    return opened(bifurcation(radius, daughters, even(4, 6), np.eye(3), SPACING_MM), log(5, 150), lattice_speed=speed)


def stepped(even: Draw, log: Draw, speed: float) -> tuple[Nodes, SolveSettings]:
    rise = round(even(5, 9))
    nodes = step(rise, 2 * rise, 2 * rise, round(even(8, 20)) * rise, SPACING_MM)
    return opened(nodes, log(10, 200), lattice_speed=speed)


def driven(even: Draw, log: Draw, speed: float) -> tuple[Nodes, SolveSettings]:
    side, reynolds = round(even(10, 18)), log(1, 400)
    nodes = closed_box((side, side, side))
    nodes = patched(nodes, lid=lambda place: place[:, 2] > side)
    nodes = replace(nodes, spacing_mm=SPACING_MM)
    lid = PatchSettings((reynolds * NU / (side * SPACING_MM * 1e-3), 0.0, 0.0), False)
    return nodes, settings(inlets={}, patches={"lid": lid}, lattice_speed=speed)


def forced(even: Draw, log: Draw, speed: float) -> tuple[Nodes, SolveSettings]:
    nodes, reynolds = plates(round(even(8, 24)), 2), log(1, 100)
    nodes = replace(nodes, spacing_mm=SPACING_MM)
    height = (nodes.shape[0] - 2) * SPACING_MM * 1e-3
    force = 8 * VISCOSITY * reynolds * NU / height**3
    return nodes, settings(inlets={}, force_n_m3=(force, 0.0, 0.0), lattice_speed=speed)


SHAPES = {
    "pipe": straight,
    "stenosis": narrowed,
    "widening": widened,
    "fork": forked,
    "step": stepped,
    "cavity": driven,
    "plates": forced,
}


def measured(name: str, rng: np.random.Generator, keep: Path | None) -> dict[str, Any]:
    """A run of a shape: what was expected, and what it took."""

    def even(low: float, high: float) -> float:
        return float(rng.uniform(low, high))

    def log(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    nodes, wanted = SHAPES[name](even, log, even(0.05, 0.1))
    with tempfile.TemporaryDirectory() as folder:
        try:
            summary = solve(nodes, wanted, Path(folder) / "f.vtkhdf", Path(folder) / "monitor.csv", logging.getLogger())
        except StageError as error:
            return {"shape": name, "fluid_nodes": nodes.count, "failed": str(error)}
        if keep:
            (Path(folder) / "monitor.csv").rename(keep)
    numbers = summary["numbers"]
    expected = summary["forecast"]["steps"]
    return {
        "shape": name,
        "fluid_nodes": nodes.count,
        "reynolds": numbers.get("reynolds"),
        "grid_reynolds": numbers["grid_reynolds"],
        "tau": numbers["tau"],
        "state": summary["state"],
        "forecast": expected,
        "steps": summary["steps"],
        "ratio": expected / summary["steps"],
        "numbers": numbers,
    }


def commit() -> str:
    """The project's, with a sign of what was not committed."""
    reported = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return reported.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=24, help="runs, the shapes in turn (default: 24)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="where the result goes")
    parser.add_argument("--keep", type=Path, help="folder for the monitors' CSVs")
    arguments = parser.parse_args()
    rows, made_of = [], commit()
    for number in range(arguments.cases):
        name = [*SHAPES][number % len(SHAPES)]
        keep = arguments.keep / f"{number:03d}-{name}.csv" if arguments.keep else None
        begin = time.monotonic()
        rows.append(measured(name, np.random.default_rng((arguments.seed, number)), keep))
        row = rows[-1]
        if "failed" in row:
            print(f"{name:9s} {row['failed']}", flush=True)
            continue
        print(
            f"{name:9s} {row['fluid_nodes']:6d} nodes, Re_g {row['grid_reynolds']:6.2f}, tau {row['tau']:.3f}:"
            f" {row['forecast']:7d} steps expected, {row['steps']:7d} taken, {row['ratio']:.2f}, {row['state']},"
            f" {time.monotonic() - begin:.0f} s",
            flush=True,
        )
    if arguments.json:
        machine = {"machine": platform.machine(), "cores": os.cpu_count(), "commit": made_of}
        arguments.json.write_text(json.dumps(machine | {"seed": arguments.seed, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
