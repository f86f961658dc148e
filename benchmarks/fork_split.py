# SPDX-License-Identifier: Apache-2.0
"""How drawn forks share a steady flow between outlets of given pressures: expected, by friction alone, and in the run.

    PYTHONPATH=.:benchmarks python benchmarks/fork_split.py 10 --seed 1

Diameters, lengths, angles, direction, the Reynolds number (3 to 400) and the difference of the outlets' pressures
(none, 0.3 or 1 mmHg) are drawn.
"""

import argparse
import json
import logging
import os
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
from bench import default_file, provenance

from solver.run import expected
from solver.run.plan import make_plan
from solver.run.settings import InletSettings, OutletSettings
from solver.run.solve import solve
from solver.runtime.errors import StageError
from tests.support.solve_settings import DENSITY, VISCOSITY, settings
from tests.support.stability_matrix import of_shape

DIAMETER_MM, ACROSS = 4.0, 8.0
LOG = logging.getLogger("fork_split")


def measured(rng: np.random.Generator) -> dict[str, Any]:
    """A fork: parts of the inflow that leave to the right, and peak speeds, m/s."""
    d = DIAMETER_MM
    across = [d * float(part) for part in rng.uniform(0.45, 0.95, 2)]
    daughters = [
        {
            "name": name,
            "diameter_mm": across_mm,
            "length_mm": d * rng.uniform(1.5, 4),
            "angle_deg": rng.uniform(20, 70),
        }
        for name, across_mm in zip(("left", "right"), across, strict=True)
    ]
    shape = {"shape": "bifurcation", "diameter_mm": d, "length_mm": d * rng.uniform(1.5, 2.5), "daughters": daughters}
    reynolds, apart_mmhg = float(np.exp(rng.uniform(np.log(3), np.log(400)))), float(rng.choice([0, 0, 0.3, 1.0]))
    nodes = of_shape(shape | {"direction": rng.standard_normal(3).tolist()})(min(across) / ACROSS)
    flow_ml_s = reynolds * VISCOSITY / DENSITY * np.pi * d * 1e-3 / 4 * 1e6
    outlets = {"left": OutletSettings(apart_mmhg), "right": OutletSettings(0.0)}
    wanted = settings(inlets={"inlet": InletSettings(flow_ml_s, None, "developed")}, outlets=outlets, max_steps=None)
    right = next(k for k, opening in enumerate(nodes.openings) if opening.name == "right")
    plan = make_plan(nodes, wanted)
    with mock.patch.object(expected, "_with_heads", friction_alone):
        by_friction = make_plan(nodes, wanted)
    with tempfile.TemporaryDirectory() as folder:
        summary = solve(nodes, wanted, Path(folder) / "flow.vtkhdf", Path(folder) / "monitor.csv", LOG)
    peak = "expected_peak_speed_m_s"
    return {
        "reynolds": reynolds,
        "apart_mmhg": apart_mmhg,
        "nodes": nodes.count,
        "state": summary["state"],
        "part": {
            "friction": by_friction.out_m3_s[right] * 1e6 / flow_ml_s,
            "expected": plan.out_m3_s[right] * 1e6 / flow_ml_s,
            "found": summary["openings"]["right"]["flow_ml_s"] / flow_ml_s,
        },
        "peak_m_s": {
            "friction": by_friction.numbers[peak],
            "expected": plan.numbers[peak],
            "found": summary["mach"] / plan.numbers["expected_mach"] * plan.numbers[peak],
        },
        "steps": {"expected": plan.expected_steps, "found": summary["steps"]},
    }


def friction_alone(sections: Any, ends: Any, steady: Any, _: Any) -> Any:
    """What leaves where the speed of a flow takes no pressure."""
    return sections.leaving(ends, steady)[:, 0].real


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--commit", help="of what was run, where git cannot tell it")
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    rng, found = np.random.default_rng(options.seed), []
    for _ in range(options.count):
        try:
            found.append(measured(rng))
        except StageError as error:  # branches too short to be told apart
            LOG.error("%s", error)
            continue
        print(json.dumps(found[-1]), flush=True)
        record = {**provenance(options), "seed": options.seed, "forks": found}
        file = options.json or default_file("fork-split", record["hardware"])
        file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
