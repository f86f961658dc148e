# SPDX-License-Identifier: Apache-2.0
"""By how much pressure drops are too large at a spacing, against half of it, beside the bound that reports state.

    PYTHONPATH=.:benchmarks python benchmarks/pressure_drops.py 16 --seed 1 [--workers 2] [--fast]

Steady flows through pipes, bends, forks and stenoses whose direction, proportions, nodes across the narrowest section
(7 to 18) and grid Reynolds number (10 to 120, logarithmic) are drawn at random, from a seed. The finer run has twice
as many nodes across. The flows of --fast are as the automatic spacing takes them beyond a grid Reynolds number of 150:
24 to 30 nodes across, and as fast as a bound of 10 % allows.
"""

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
from bench import add_results, write_results
from comparison import table
from stability_drawn import DIAMETER_MM, geometry

from pipeline.geometry.lattice.spacing import DROP_ERROR_TAKEN, STABLE_GRID_REYNOLDS
from solver.run.plan import drop_error
from solver.run.units import pressure_drop_error
from tests.support.stability_matrix import VESSELS, Entry, Vessel, of_shape, run

SHAPES = ("pipe", "bend", "bifurcation", "stenosis")


def drawn(number: int, seed: int, fast: bool = False) -> tuple[Entry, float]:
    """An entry, whose vessel is added to those of the matrix, and the nodes across its narrowest section."""
    rng = np.random.default_rng((seed, number))
    shape = str(rng.choice(SHAPES))
    given, area = geometry(shape, rng)
    across = float(rng.uniform(24, 30) if fast else rng.uniform(7, 18))
    least, most = (150, min(STABLE_GRID_REYNOLDS, fastest(across))) if fast else (10, 120)
    name = f"{shape}-{number}"
    VESSELS[name] = Vessel(of_shape(given), DIAMETER_MM / across, area)
    return Entry(name, "steady", round(float(np.exp(rng.uniform(np.log(least), np.log(most)))), 1)), across


def fastest(across: float) -> float:
    """Grid Reynolds number at which so many nodes across have a bound of 10 %."""
    return DROP_ERROR_TAKEN / pressure_drop_error(1.0, across)


def measure(number: int, seed: int, steps: int, fast: bool) -> dict[str, Any]:
    """Both runs of a flow, the difference of their pressure drops, and the bound."""
    entry, across = drawn(number, seed, fast)
    spacing_mm = VESSELS[entry.vessel].spacing_mm
    coarse, fine = (run(entry, spacing_mm=spacing_mm / times, max_steps=times * steps) for times in (1, 2))
    drops = [each.get("mean", {}).get("pressure_drop_pa") for each in (coarse, fine)]
    bound = drop_error(entry.grid_reynolds, {"nodes_across_narrowest_section": across})
    return {
        "name": entry.name,
        "grid_reynolds": entry.grid_reynolds,
        "nodes_across": across,
        "outcomes": [coarse["outcome"], fine["outcome"]],
        "pressure_drop_pa": drops,
        "too_large": drops[0] / drops[1] - 1 if None not in drops else None,
        "bound": bound or 0.0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--steps", type=int, default=20_000, help="at most; twice as many at half the spacing")
    parser.add_argument("--fast", action="store_true", help="grid Reynolds numbers above 150")
    parser.add_argument("--workers", type=int, default=2)
    add_results(parser)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.workers) as workers:
        jobs = [
            workers.submit(measure, number, options.seed, options.steps, options.fast)
            for number in range(options.count)
        ]
        found = []
        for job in jobs:
            found.append(job.result())
            print(found[-1], flush=True)
    file = write_results(options, "pressure-drops", found)
    known = [each for each in found if each["too_large"] is not None]
    rows = [
        [
            each["name"],
            f"{each['nodes_across']:.1f}",
            f"{each['grid_reynolds']:g}",
            f"{each['too_large']:+.1%}",
            f"{each['bound']:.1%}",
        ]
        for each in known
    ]
    print(table(["flow", "nodes across", "grid Reynolds number", "too large by", "bound"], rows))
    above = sum(each["too_large"] > max(each["bound"], 0.02) for each in known)
    print(f"{above} of {len(known)} above their bound and 2 %; {file}")


if __name__ == "__main__":
    main()
