# SPDX-License-Identifier: Apache-2.0
"""The steps left that a run tells of, beside those that it then takes: steady flows that begin at twice the spacing.

    PYTHONPATH=.:benchmarks python benchmarks/steps_left.py 45 --seed 1 [--every 2 --offset 0] [--json FILE]

Vessels are drawn at random from a seed: bends, stenoses, forks, sacs and trees of two forks
(tests/support/drawn_flows.py), and canonical pipes, bends, forks and stenoses (benchmarks/stability_drawn.py), 9 to 13
nodes across their narrowest section. Each row of the monitor tells, which in a run only those of a log do. Told and
needed are compared at a fifth and at half of the steps on the fine lattice.
"""

import argparse
import json
import logging
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
from bench import default_file, provenance
from reduced_model import of_drawn
from stability_drawn import DIAMETER_MM, geometry
from steps_shown import CLOSE, close, shown

from pipeline.case.settings.geometry import DecomposeSettings
from pipeline.members.in_memory import nodes_of
from solver.domain.nodes import Nodes
from solver.run.settings import InletSettings, SolveSettings
from solver.run.solve import solve
from tests.support.drawn_flows import KINDS
from tests.support.solve_settings import DENSITY, VISCOSITY, settings
from tests.support.stability_matrix import of_shape

CANONICAL = ("pipe", "bend", "bifurcation", "stenosis")
DRAWN = (*KINDS, *(f"canonical {shape}" for shape in CANONICAL))
LOG = logging.getLogger("steps_left")


def vessel(kind: str, seed: int, rng: np.random.Generator) -> tuple[Nodes, SolveSettings]:
    """A vessel on its lattice, and what is solved on it."""
    across = float(rng.uniform(9, 13))
    if kind in KINDS:
        given = of_drawn(kind, seed)
        nodes = nodes_of(given.surface.mesh, given.surface.openings, given.narrowest_mm / across, DecomposeSettings())
        flow_ml_s = given.flow_ml_s
    else:
        made, area_mm2 = geometry(kind.removeprefix("canonical "), rng)
        nodes = of_shape(made)(DIAMETER_MM / across)
        reynolds = float(np.exp(rng.uniform(np.log(40), np.log(300))))  # of the narrowest section
        flow_ml_s = reynolds * VISCOSITY / DENSITY * area_mm2 / DIAMETER_MM * 1e3
    inlet = next(opening.name for opening in nodes.openings if opening.role == "inlet")
    wanted = settings(inlets={inlet: InletSettings(flow_ml_s, None, "developed")})
    return nodes, replace(wanted, start="coarse", unsettled="report", precision="fp32")


def measured(kind: str, seed: int) -> dict[str, Any]:
    """A flow: what was told of its steps, and what they were."""
    rng = np.random.default_rng((seed, DRAWN.index(kind)))
    nodes, wanted = vessel(kind, seed, rng)
    with tempfile.TemporaryDirectory() as folder, shown() as recorder:
        summary = solve(nodes, wanted, Path(folder) / "flow.vtkhdf", Path(folder) / "monitor.csv", LOG)
    end = summary["steps"]
    found: dict[str, Any] = {"name": f"{kind}-{seed}", "fluid_nodes": nodes.count, "state": summary["state"]}
    return found | {"start": summary["start"], "steps": end} | recorder.beside(end)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, help="flows, the kinds in turn")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--every", type=int, default=1, help="run only each of so many, to share the work")
    parser.add_argument("--offset", type=int, default=0, help="the first of them")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--commit", help="of what was run, where git cannot tell it")
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    found = []
    for number in range(options.offset, options.count, options.every):
        kind, seed = DRAWN[number % len(DRAWN)], options.seed + number // len(DRAWN)
        found.append(measured(kind, seed))
        print(json.dumps(found[-1]), flush=True)
    right = close(found)
    print(f"of {len(found)} flows within {CLOSE[0]:g} to {CLOSE[1]:g}: {right}")
    record = {**provenance(options), "seed": options.seed, "within": CLOSE, "right": right, "flows": found}
    file = options.json or default_file("steps-left", record["hardware"])
    file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
