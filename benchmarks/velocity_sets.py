# SPDX-License-Identifier: Apache-2.0
"""D3Q19 beside D3Q27: speed, memory, and by how much fast flow askew to the axes feels the lattice.

    PYTHONPATH=.:benchmarks python benchmarks/velocity_sets.py [--radius 40] [--backend cuda] [--speeds-only]

Speed is that of a pipe along (1, 2, 3) with inlet, outlet and walls, on D3Q19 with the standard equilibrium, too; the
variants take turns, so that what else a machine does meanwhile hits all. The deviation is the rms of what depends on
the angle, over the peak speed, of the flow that a force drives through endless pipes 16 nodes across, from the parabola
on. That of jets 10 nodes wide in fluid at rest follows. Prints two tables.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from bench import default_file, provenance
from comparison import table

from solver.backends.cost import update_bytes
from solver.backends.lattice import build_lattice
from solver.kernels.collision import ON_D3Q19, relaxation_rates
from solver.run.models import choose_models
from solver.run.setup import make_driver
from tests.solver.kernels.test_isotropy import jet
from tests.solver.kernels.test_velocity_sets import uneven
from tests.support.geometries import periodic_pipe, pipe
from validation.timing import repeated_steps, stirred

SETS = ((19, False), (27, False), (27, True))
"""Velocities, and whether the force of `solver/kernels/isotropy.py` acts."""
VARIANTS = (
    (19, "incompressible-standard", False),
    (19, "incompressible", False),
    (27, "incompressible", False),
    (27, "incompressible", True),
)
TAU, LAMBDA_TRT = 0.55, 0.025
DIRECTIONS = ((1, 1, 0), (1, 1, 1), (1, 2, 3))
GRID_REYNOLDS = (5, 10, 20, 30, 60, 120)
SPEED, RADIUS = 0.08, 8.2
TURNS = 5


def key(q: int, force: bool) -> str:
    """In tables and the record."""
    return f"D3Q{q}" + (" with the force" if force else "")


def speeds(options: argparse.Namespace) -> list[dict]:
    """Of each collision and variant: updates a second in each turn, and memory of a node."""
    nodes, found = pipe((1, 2, 3), options.radius, 6 * options.radius), []
    for collision in ("trt", "projected", "cumulant"):
        drivers, variants = {}, [variant for variant in VARIANTS if variant[0] == 27 or collision in ON_D3Q19]
        for q, equilibrium, force in variants:
            lattice = build_lattice(
                nodes.with_corners() if q == 27 else nodes,
                collision,
                relaxation_rates(TAU, LAMBDA_TRT),
                "bouzidi",
                equilibrium=equilibrium,
                isotropic=force,
            )
            drivers[q, equilibrium, force] = stirred(make_driver(options.backend, lattice))
        taken: dict[tuple[int, str, bool], list[float]] = {variant: [] for variant in variants}
        for _ in range(TURNS):
            for variant, driver in drivers.items():
                step_s = repeated_steps(driver, np.array((1e-3, 0.0)), options.seconds, 1)[1][0, 0]
                taken[variant].append(nodes.count / step_s / 1e6)
        found += [
            {
                "collision": collision,
                "q": q,
                "equilibrium": equilibrium,
                "force": force,
                "nodes": nodes.count,
                "mlups": taken[q, equilibrium, force],
                "node_bytes": driver.memory_bytes() / nodes.count,
                "update_bytes": update_bytes("fp32", q),
                "device": driver.device,
            }
            for (q, equilibrium, force), driver in drivers.items()
        ]
    return found


def deviations() -> list[dict]:
    """Of each direction, grid Reynolds number and set."""
    found = []
    for direction in DIRECTIONS:
        nodes = periodic_pipe(direction, RADIUS)
        for number in GRID_REYNOLDS:
            tau = 0.5 + 3 * SPEED / number
            models = choose_models("auto", number, tau)[0]
            with_models = tau, RADIUS, SPEED, models.collision, models.lambda_trt
            pipes = {key(*each): uneven(nodes, direction, each[0], *with_models, each[1]) for each in SETS}
            jets = {key(27, force): jet(direction, force, number)[0] for force in (False, True)}
            found.append(
                {
                    "direction": direction,
                    "grid_reynolds": number,
                    "collision": models.collision,
                    "lambda_trt": models.lambda_trt,
                    "pipe": pipes,
                    "jet": jets,
                }
            )
            print(found[-1], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--radius", type=float, default=24.0, help="of the pipe that is timed, in nodes")
    parser.add_argument("--seconds", type=float, default=2.0, help="of one timing, about")
    parser.add_argument("--backend", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--speeds-only", action="store_true", help="leave the deviations out")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--commit", help="of what was run, where git cannot tell it")
    options = parser.parse_args()
    results = {**provenance(options), "speeds": speeds(options)}
    results["deviations"] = [] if options.speeds_only else deviations()
    file = options.json or default_file("velocity-sets", results["hardware"])
    file.write_text(json.dumps(results, indent=1) + "\n")
    rows = [
        [
            each["collision"],
            key(each["q"], each["force"]),
            each["equilibrium"],
            f"{np.median(each['mlups']):.1f}",
            f"{each['node_bytes']:.0f}",
            str(each["update_bytes"]),
        ]
        for each in results["speeds"]
    ]
    print(table(["collision", "velocities", "equilibrium", "MLUPS, median", "bytes a node", "bytes an update"], rows))
    numbers = [
        [
            str(each["direction"]),
            str(each["grid_reynolds"]),
            each["collision"],
            *(f"{100 * part:.2f}" for flow in ("pipe", "jet") for part in each[flow].values()),
        ]
        for each in results["deviations"]
    ]
    names = *(f"pipe, {key(*each)}, %" for each in SETS), *(f"jet, {key(*each)}, %" for each in SETS[1:])
    print(table(["direction", "Re_g", "collision", *names], numbers), file, sep="\n\n")


if __name__ == "__main__":
    main()
