# SPDX-License-Identifier: Apache-2.0
"""How many steps a flow beside a stream takes, beside those forecast, and those that it tells of on the way.

    PYTHONPATH=.:benchmarks python benchmarks/beside_stream.py 80 --seed 1 [--backend cuda] [--workers 16] [--json FILE]

Balls between tubes, widenings off their axis, steps and sacs are drawn as in benchmarks/slow_settling.py, at Reynolds
numbers of 50 to 2000 of the inlet, every other flow from rest, the others from the flow at twice the spacing where that
is what a run begins with by itself.
"""

import argparse
import logging
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

from bench import add_results, write_results
from comparison import table
from settling_forecast import opened
from slow_settling import KINDS, drawn
from steps_shown import close, shown

from solver.run.solve import solve

LEAST, MOST, STEPS = 50.0, 2000.0, 200_000
"""Reynolds numbers, and the steps after which a run ends anyhow."""
WITHIN = 1.5
LOG = logging.getLogger("beside_stream")


def measured(seed: int, backend: str) -> dict[str, Any]:
    """A flow: its steps, those forecast, and what was told of them."""
    kind, nodes, reynolds = drawn(seed, LEAST, MOST)
    start = "rest" if seed // len(KINDS) % 2 else "auto"
    given = {"precision": "fp32", "unsettled": "report", "max_steps": STEPS, "start": start, "backend": backend}
    _, wanted = opened(nodes, reynolds, **given)
    with tempfile.TemporaryDirectory() as folder, shown() as recorder:
        summary = solve(nodes, wanted, None, Path(folder) / "monitor.csv", LOG)
    end, forecast = summary["steps"], summary["forecast"]
    known = {"seed": seed, "kind": kind, "nodes": nodes.count, "reynolds": reynolds, "state": summary["state"]}
    known |= {"start": summary["start"]["kind"], "extrapolations": summary["extrapolations"], "steps": end}
    known |= {"forecast": forecast["steps"], "likely": forecast["likely_steps"]}
    return known | recorder.beside(end)


def summarised(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the steady flows: how many took the steps forecast, ended in their range, and were told right."""
    steady = [each for each in found if each["state"] == "steady"]
    return {
        "steady": len(steady),
        "within": sum(1 / WITHIN <= each["steps"] / each["forecast"] <= WITHIN for each in steady),
        "in range": sum(each["likely"][0] <= each["steps"] <= each["likely"][1] for each in steady),
        **{f"told right {name}": count for name, count in close(steady).items()},
        "told less than a fifth": sum(each["least"] < 0.2 for each in steady),
        "steps": sum(each["steps"] for each in steady),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, required=True, help="of the first; the others follow")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    add_results(parser)
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    with ProcessPoolExecutor(options.workers) as workers:
        seeds = range(options.seed, options.seed + options.count)
        found = list(workers.map(partial(measured, backend=options.backend), seeds))
    by_kind = {kind: summarised([each for each in found if each["kind"] == kind]) for kind in KINDS}
    print(table(["kind", *by_kind["sac"]], [[kind, *map(str, row.values())] for kind, row in by_kind.items()]))
    print(write_results(options, "beside-stream", {"by kind": by_kind, "flows": found}))


if __name__ == "__main__":
    main()
