# SPDX-License-Identifier: Apache-2.0
"""Extrapolation of steady flows that take longer than expected: what it saves, and how settled they are.

    python benchmarks/slow_settling.py 40 --seed 1 [--workers 8] [--json FILE]

Shapes of random size in turn: a ball between two tubes that miss its middle, a tube that widens at once and off its
axis, a floor that steps down, and a sac on a vessel, at Reynolds numbers of 50 to 400 of the inlet. Each is run as it
is and without extrapolation. Where that acted, a run without it to a thirtieth of the tolerance tells how far both are
from rest: over all nodes and over the tenth of them farthest from it, over the mean speed.
"""

import argparse
import logging
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
from bench import add_results, write_results
from comparison import table
from numpy.typing import NDArray
from settling_forecast import opened

from solver.domain.nodes import Nodes
from solver.run.extrapolation import Extrapolation
from solver.run.flow_file import read_flow
from solver.run.settings import SolveSettings
from solver.run.solve import solve
from tests.support.geometries import hollow, round_opening, step
from tests.support.sacs import drawn_sac

SPACING_MM = 0.5
FINER = 30
LOG = logging.getLogger("slow_settling")

Draw = np.random.Generator


def in_chamber(rng: Draw, ball: bool) -> Nodes:
    """A tube into a ball or a wider tube off its axis; a ball has another tube behind it."""
    radius, wide = rng.uniform(3.2, 4.2), rng.uniform(1.6, 2.6)
    start, along = rng.uniform(0.2, 0.5, 3), np.array([1.0, 0, 0])
    before, wide = 1.5 * radius, wide * radius
    aside = np.array([0, *rng.uniform(-0.5, 0.5, 2)]) * (wide - radius)
    middle = start + (before + wide) * along + aside
    after = 2 * wide + 2 * radius if ball else rng.uniform(4, 7) * wide
    end = start + (before + after) * along + (0 if ball else aside)

    def level(points: NDArray[np.float64]) -> NDArray[np.float64]:
        tube = np.hypot(*(points - start)[:, 1:].T) - radius
        if ball:
            return np.minimum(tube, np.linalg.norm(points - middle, axis=1) - wide)
        chamber = np.hypot(*(points - middle)[:, 1:].T) - wide
        return np.where((points - start)[:, 0] < before, tube, chamber)

    caps = (
        round_opening(1, "in", "inlet", start, -along, radius),
        round_opening(2, "out", "outlet", end, along, radius if ball else wide),
    )
    margin = (wide + np.abs(aside).max()) * np.array([0, 1, 1]) + 2
    return hollow(level, caps, np.floor(start - margin), np.ceil(end + margin), SPACING_MM)


def over_step(rng: Draw) -> Nodes:
    """A channel whose floor steps down."""
    rise = int(rng.integers(5, 9))
    return step(rise, 2 * rise, 2 * rise, int(rng.integers(8, 16)) * rise, SPACING_MM)


KINDS = {
    "ball": lambda rng: in_chamber(rng, True),
    "widening": lambda rng: in_chamber(rng, False),
    "step": over_step,
    "sac": lambda rng: drawn_sac(rng, 3.5, SPACING_MM)[0],
}


def drawn(seed: int, least: float, most: float) -> tuple[str, Nodes, float]:
    """A kind, its nodes and a Reynolds number between two; the kinds in turn."""
    rng, kind = np.random.default_rng(seed), [*KINDS][seed % len(KINDS)]
    return kind, KINDS[kind](rng), float(np.exp(rng.uniform(np.log(least), np.log(most))))


def ran(nodes: Nodes, wanted: SolveSettings, extrapolated: bool) -> tuple[dict[str, Any], NDArray[np.float64]]:
    """How a run ended, and its mean velocities."""
    never = patch.object(Extrapolation, "update", return_value=0)
    with tempfile.TemporaryDirectory() as folder, nullcontext() if extrapolated else never:
        flow = Path(folder) / "flow.vtkhdf"
        summary = solve(nodes, wanted, flow, Path(folder) / "monitor.csv", LOG)
        ended = {name: summary[name] for name in ("state", "steps", "extrapolations")}
        ended["forecast"] = summary["forecast"]["steps"]
        return ended, np.asarray(read_flow(flow).velocity_mean_m_s(), np.float64)


def measured(seed: int) -> dict[str, Any]:
    """What extrapolation does for a flow."""
    kind, nodes, reynolds = drawn(seed, 50.0, 400.0)
    _, wanted = opened(nodes, reynolds, precision="fp32", unsettled="report")
    found: dict[str, Any] = {"seed": seed, "kind": kind, "nodes": nodes.count, "reynolds": reynolds}
    now, velocity = ran(nodes, wanted, extrapolated=True)
    found["now"] = now
    if now["extrapolations"] or now["steps"] > now["forecast"]:
        found["before"], earlier = ran(nodes, wanted, extrapolated=False)
        if now["extrapolations"] and found["before"]["state"] == "steady":
            finer = replace(wanted, steady_tolerance=wanted.steady_tolerance / FINER, precision="fp64")
            _, truth = ran(nodes, finer, extrapolated=False)
            now["off"], found["before"]["off"] = off(velocity, truth), off(earlier, truth)
    return found


def off(velocity: NDArray[np.float64], truth: NDArray[np.float64]) -> list[float]:
    """Root mean square difference over the mean speed: of all nodes, and of the tenth that is farthest off."""
    apart = np.sort(((velocity - truth) ** 2).sum(axis=1))
    mean = np.linalg.norm(truth, axis=1).mean()
    return [float(np.sqrt(each.mean()) / mean) for each in (apart, apart[-len(apart) // 10 :])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, required=True, help="of the first; the others follow")
    parser.add_argument("--workers", type=int, default=1)
    add_results(parser)
    options = parser.parse_args()
    found = []
    with ProcessPoolExecutor(options.workers) as workers:
        for each in workers.map(measured, range(options.seed, options.seed + options.count)):
            found.append(each)
            print(each, flush=True)
    columns = ["flow", "Re", "expected", "before", "now", "extrapolated", "off before", "off now"]
    print(table(columns, [_row(each) for each in found if "before" in each]), sep="\n\n")
    print(write_results(options, "slow-settling", found))


def _row(each: dict[str, Any]) -> list[str]:
    before, now = each["before"], each["now"]
    ends = [f"{run['steps']:,} {run['state']}" for run in (before, now)]
    away = [f"{run['off'][0]:.2g}, {run['off'][1]:.2g}" if "off" in run else "" for run in (before, now)]
    name = f"{each['kind']} {each['seed']}"
    return [name, f"{each['reynolds']:.3g}", f"{now['forecast']:,}", *ends, str(now["extrapolations"]), *away]


if __name__ == "__main__":
    main()
