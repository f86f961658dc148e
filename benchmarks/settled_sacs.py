# SPDX-License-Identifier: Apache-2.0
"""How settled the flow in a sac is where a steady run ends: saccular aneurysms of random size, neck and direction.

    python benchmarks/settled_sacs.py 5 --seed 1 [--json FILE]

A straight vessel, 7 nodes across, has a round sac 1.5 to 3.5 times as wide, on a neck of 0.6 to 1.3 times the vessel's
radius; the Reynolds number of the vessel is 10 to 150. Each is run with the default tolerance, with what that was
before the viscous time was that of the sac, and until its residual is a hundredth of it, from which the others are
told apart: over all nodes, those of the sac, and those of the half of it that is farther from the neck, over the mean
speed there.
"""

import argparse
import logging
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
from bench import add_results, write_results
from comparison import table
from numpy.typing import NDArray

from solver.domain.nodes import Nodes
from solver.domain.widths import widest_radius_mm
from solver.run.flow_file import read_flow
from solver.run.settings import InletSettings, SolveSettings
from solver.run.solve import solve
from tests.support.sacs import vessel_with_sac
from tests.support.solve_settings import DENSITY, VISCOSITY, settings

RADIUS, SPACING_MM = 3.5, 0.5
"""Of the vessel, in spacings."""
TOLERANCE, REFERENCE = 1e-3, 1e-5
LOG = logging.getLogger("settled_sacs")

Reals = NDArray[np.float64]


def drawn(rng: np.random.Generator) -> tuple[Nodes, dict[str, Any], dict[str, NDArray[np.bool_]]]:
    """A vessel with its sac, its numbers, and its nodes by where they lie."""
    wide, neck, turn = rng.uniform(1.5, 3.5) * RADIUS, rng.uniform(0.6, 1.3) * RADIUS, rng.uniform(0, 2 * np.pi)
    nodes, places = vessel_with_sac(RADIUS, wide, neck, turn, SPACING_MM)
    reynolds = float(np.exp(rng.uniform(np.log(10), np.log(150))))
    return nodes, {"nodes": nodes.count, "wide": wide / RADIUS, "neck": neck / RADIUS, "reynolds": reynolds}, places


def velocities(nodes: Nodes, wanted: SolveSettings) -> tuple[int, Reals]:
    """Steps of a run, and its velocities."""
    with tempfile.TemporaryDirectory() as folder:
        flow = Path(folder) / "flow.vtkhdf"
        summary = solve(nodes, wanted, flow, Path(folder) / "monitor.csv", LOG)
        return summary["steps"], np.asarray(read_flow(flow).velocity_mean_m_s(), np.float64)


def measured(seed: int) -> dict[str, Any]:
    """How far a sac's flow is from rest where its runs end."""
    nodes, numbers, places = drawn(np.random.default_rng(seed))
    radius_mm = max(opening.radius_mm for opening in nodes.openings)
    flow_ml_s = numbers["reynolds"] * VISCOSITY / DENSITY * np.pi * radius_mm / 2 * 1e3
    wanted = settings(inlets={"in": InletSettings(float(flow_ml_s), None, "developed")}, precision="fp64")
    before = TOLERANCE * (widest_radius_mm(nodes) / radius_mm) ** 2
    _, truth = velocities(nodes, replace(wanted, steady_tolerance=REFERENCE))
    found: dict[str, Any] = {"seed": seed, **numbers}
    for name, tolerance in (("before", before), ("now", TOLERANCE)):
        steps, velocity = velocities(nodes, replace(wanted, steady_tolerance=tolerance))
        off = {place: _apart(velocity[there], truth[there]) for place, there in places.items()}
        found[name] = {"steps": steps, "off": off}
    return found


def _apart(velocity: Reals, truth: Reals) -> float:
    """Root mean square difference over the mean speed."""
    return float(np.sqrt(((velocity - truth) ** 2).sum(axis=1).mean()) / np.linalg.norm(truth, axis=1).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, required=True, help="of the first; the others follow")
    add_results(parser)
    options = parser.parse_args()
    found = []
    for seed in range(options.seed, options.seed + options.count):
        found.append(measured(seed))
        print(found[-1], flush=True)
    columns = [
        "sac",
        "wide",
        "Re",
        *(f"{name}: {what}" for name in ("before", "now") for what in ("steps", "far half")),
    ]
    cells = [
        [
            str(each["seed"]),
            f"{each['wide']:.2g}",
            f"{each['reynolds']:.3g}",
            *(text for name in ("before", "now") for text in _row(each[name])),
        ]
        for each in found
    ]
    print(table(columns, cells), write_results(options, "settled-sacs", found), sep="\n\n")


def _row(run: dict[str, Any]) -> tuple[str, str]:
    return f"{run['steps']:,}", f"{run['off']['far half']:.2%}"


if __name__ == "__main__":
    main()
