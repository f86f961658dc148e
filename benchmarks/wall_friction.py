# SPDX-License-Identifier: Apache-2.0
"""Friction of curved walls: how much of Poiseuille's flow a force drives through endless pipes, by velocity set.

    PYTHONPATH=.:benchmarks python benchmarks/wall_friction.py [--radius 5.1] [--collision projected]
    PYTHONPATH=.:benchmarks python benchmarks/wall_friction.py --collision cumulant --lambda-trt 0.0833

Tau follows from the grid Reynolds number at a fixed peak speed; slow flow at the same tau tells what is linear from
what the speed adds. Prints the mean speed over that of the parabola.
"""

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

from bench import default_file, provenance
from comparison import table
from velocity_sets import SETS, SPEED, key

from solver.boundary.walls import WALLS
from solver.kernels.collision import COLLISIONS, ON_D3Q19
from tests.solver.kernels.test_velocity_sets import driven
from tests.support.geometries import periodic_pipe

DIRECTIONS = ((0, 0, 1), (1, 1, 0), (1, 1, 1), (1, 2, 3))
GRID_REYNOLDS = (5, 20, 60, 120)
SLOWER, PAIRS = 10, 0.35
"""By how much the slow flow is slower; for how many pairs of steps, over R^2/nu, flows run from the parabola on."""


def share(
    options: argparse.Namespace, direction: tuple[int, int, int], q: int, force: bool, tau: float, speed: float
) -> float:
    """Mean speed of a developed flow over that of the parabola with the same force."""
    nodes = periodic_pipe(direction, options.radius)
    along, r = driven(
        nodes,
        direction,
        q,
        tau,
        options.radius,
        speed,
        PAIRS,
        options.collision,
        options.lambda_trt,
        force,
        options.walls,
    )
    return float(along.mean() / (speed * (1 - r**2)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--radius", type=float, default=5.1, help="of the pipe, in nodes")
    parser.add_argument("--collision", default="projected", choices=COLLISIONS)
    parser.add_argument(
        "--lambda-trt", type=float, default=0.01, help="Lambda of TRT or of the cumulants of third order"
    )
    parser.add_argument("--walls", default="bouzidi", choices=WALLS)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--commit", help="of what was run, where git cannot tell it")
    options = parser.parse_args()
    sets = [each for each in SETS if each[0] == 27 or options.collision in ON_D3Q19]
    found: list[dict[str, Any]] = []
    for direction, number in product(DIRECTIONS, GRID_REYNOLDS):
        tau = 0.5 + 3 * SPEED / number
        slow, fast = (
            {key(*each): share(options, direction, *each, tau, speed) for each in sets}
            for speed in (SPEED / SLOWER, SPEED)
        )
        found.append({"direction": direction, "grid_reynolds": number, "tau": tau, "slow": slow, "fast": fast})
        print(found[-1], flush=True)
    results = {**provenance(options), "shares": found}
    file = options.json or default_file("wall-friction", results["hardware"])
    file.write_text(json.dumps(results, indent=1) + "\n")
    names = [f"{key(*each)}, {flow}" for each in sets for flow in ("slow", "fast")]
    rows = [
        [
            str(each["direction"]),
            str(each["grid_reynolds"]),
            *(f"{each[flow][key(*one)]:.3f}" for one in sets for flow in ("slow", "fast")),
        ]
        for each in found
    ]
    print(table(["direction", "Re_g", *names], rows), file, sep="\n\n")


if __name__ == "__main__":
    main()
