"""Friction of curved walls: how much of Poiseuille's flow a force drives through endless pipes, by velocity set.

    PYTHONPATH=.:tests:benchmarks python benchmarks/wall_friction.py [--radius 5.1] [--collision projected]

Tau follows from the grid Reynolds number at a fixed peak speed; slow flow at the same tau tells what is linear, so that
the wall's alone, from what the speed adds. Prints the mean speed over that of the parabola.
"""

import argparse
import json
from itertools import product
from pathlib import Path

import numpy as np
from bench import default_file, provenance
from comparison import table
from geometries import periodic_pipe, pipe_radius
from velocity_sets import SETS, SPEED, key

from solver.collision import COLLISIONS, relaxation_rates
from solver.cpu.driver import CpuDriver
from solver.driver import Fields
from solver.lattice import build_lattice
from solver.walls import WALLS

DIRECTIONS = ((0, 0, 1), (1, 1, 0), (1, 1, 1), (1, 2, 3))
GRID_REYNOLDS = (5, 20, 60, 120)
SLOWER, TIMES = 10, 0.7
"""By how much the slow flow is slower; for how many R^2/nu flows run from the parabola on."""


def share(options: argparse.Namespace, direction: tuple[int, int, int], q: int, force: bool, tau: float,
          speed: float) -> float:  # fmt: skip
    """Mean speed of a developed flow over that of the parabola with the same force."""
    nodes = periodic_pipe(direction, options.radius)
    nodes = nodes.with_corners() if q == 27 else nodes
    unit, viscosity = np.array(direction) / np.linalg.norm(direction), (tau - 0.5) / 3
    push = 4 * viscosity * speed / options.radius**2 * unit
    lattice = build_lattice(
        nodes, options.collision, relaxation_rates(tau, options.magic), options.walls, "fp64", force=tuple(push),
        isotropic=force,
    )  # fmt: skip
    driver, r = CpuDriver(lattice), pipe_radius(nodes, direction) / options.radius
    parabola = speed * (1 - r**2)
    driver.begin_with(
        Fields(np.zeros(nodes.count), np.outer(unit, parabola), np.zeros((6, nodes.count))), np.zeros((0, 2))
    )
    driver.advance(np.zeros((2 * round(TIMES * options.radius**2 / viscosity / 2), 0)))
    return float((unit @ driver.fields().velocity).mean() / parabola.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--radius", type=float, default=5.1, help="of the pipe, in nodes")
    parser.add_argument("--collision", default="projected", choices=COLLISIONS)
    parser.add_argument("--magic", type=float, default=0.01, help="TRT's Lambda")
    parser.add_argument("--walls", default="bouzidi", choices=WALLS)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--commit", help="of what was run, where git cannot tell it")
    options = parser.parse_args()
    found = []
    for direction, number in product(DIRECTIONS, GRID_REYNOLDS):
        tau = 0.5 + 3 * SPEED / number
        slow, fast = (
            {key(*each): share(options, direction, *each, tau, speed) for each in SETS}
            for speed in (SPEED / SLOWER, SPEED)
        )
        found.append({"direction": direction, "grid_reynolds": number, "tau": tau, "slow": slow, "fast": fast})
        print(found[-1], flush=True)
    results = {**provenance(options), "shares": found}
    file = options.json or default_file("wall-friction", results["hardware"])
    file.write_text(json.dumps(results, indent=1) + "\n")
    names = [f"{key(*each)}, {flow}" for each in SETS for flow in ("slow", "fast")]
    rows = [
        [str(each["direction"]), str(each["grid_reynolds"]),
         *(f"{each[flow][key(*one)]:.3f}" for one in SETS for flow in ("slow", "fast"))]
        for each in found
    ]  # fmt: skip
    print(table(["direction", "Re_g", *names], rows), file, sep="\n\n")


if __name__ == "__main__":
    main()
