# SPDX-License-Identifier: Apache-2.0
"""What a start from twice the spacing saves: node updates until a steady case has settled, and how far results differ.

    python benchmarks/coarse_start.py demo carotid-right --backend cpu --json results.json

For cases that have ``results/<case>/nodes.h5`` (``snakemake --cores 1 --config cases=demo -- results/demo/nodes.h5``).
"""

import argparse
import json
import logging
import platform
import sys
import tempfile
from pathlib import Path

import numpy as np
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pipeline.case.settings.flow import SolveSettings
from solver.domain.nodes import Nodes, load
from solver.run.flow_file import read_flow
from solver.run.settings import parse
from solver.run.solve import solve
from solver.runtime.provenance import versions
from solver.runtime.sources import ROOT

LOG = logging.getLogger("coarse_start")


def run(case: str, nodes: Nodes, start: str, backend: str) -> tuple[dict, np.ndarray, np.ndarray]:
    """Summary of a case with a start, and its velocity and pressure."""
    given = yaml.safe_load((ROOT / f"config/cases/{case}.yaml").read_text(encoding="utf-8"))["solve"]
    values = SolveSettings(**given | {"start": start, "backend": backend}).model_dump(mode="json")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        summary = solve(nodes, parse(values), folder / "flow.vtkhdf", folder / "monitor.csv", LOG)
        flow = read_flow(folder / "flow.vtkhdf")
        return summary, flow.velocity_m_s(-1).astype(float), flow.pressure_pa(-1).astype(float)


def compared(case: str, backend: str) -> dict:
    """Both starts of a case: steps, updates in steps of the fine lattice, and differences of the results."""
    nodes = load(ROOT / f"results/{case}/nodes.h5")
    (one, u, p), (other, v, q) = (run(case, nodes, start, backend) for start in ("rest", "coarse"))
    summaries = one, other
    rest, coarse = (s["steps"] * nodes.count + s["start"]["node_updates"] for s in summaries)
    return {
        "case": case,
        "fluid_nodes": nodes.count,
        "device": summaries[0]["device"],
        "steps": [s["steps"] for s in summaries],
        "start": summaries[1]["start"],
        "node_updates": [rest, coarse],
        "saved": 1 - coarse / rest,
        "seconds": [s["seconds"] + s["start"]["seconds"] for s in summaries],
        "velocity_apart": float(np.sqrt(np.square(u - v).sum(axis=1).mean()) / np.linalg.norm(u, axis=1).mean()),
        "pressure_apart": float(np.sqrt(np.square(p - q).mean()) / np.ptp(p)),
        "flows_ml_s": [{name: each["flow_ml_s"] for name, each in s["openings"].items()} for s in summaries],
        "residual": [s["residual"] for s in summaries],
    }


def main() -> None:
    """Compare the starts of the cases and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [compared(case, options.backend) for case in options.cases]
    for row in rows:
        print(
            f"{row['case']}: {row['steps']} steps, {row['saved']:.1%} of the updates saved, "
            f"velocities {row['velocity_apart']:.1e} apart"
        )
    if options.json:
        record = {"machine": platform.machine(), "commit": versions().get("hemolattice_commit"), "rows": rows}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
