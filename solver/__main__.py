"""Stage 7: solve the flow through the vessel with the lattice-Boltzmann method.

Reads the node arrays; writes velocity, pressure and viscous stress over time as one VTKHDF file that ParaView opens,
what was monitored on the way, and a summary. Runs on a CUDA device where one answers, else on this machine's cores.
"""

import json

from solver.nodes import load
from solver.settings import parse
from solver.simulation import solve
from solver.stage import Job, run_stage


def _compute(job: Job) -> None:
    settings = parse(job.settings)
    summary = solve(load(job.inputs["nodes"]), settings, job.outputs["flow"], job.outputs["monitor"], job.log)
    job.outputs["summary"].write_text(json.dumps(summary, indent=2, allow_nan=False) + "\n")
    job.facts["device"] = summary["device"]


if __name__ == "__main__":
    run_stage(
        "solve",
        __doc__,
        inputs={"nodes": "node arrays (nodes.h5)"},
        outputs={
            "flow": "flow over time (flow.vtkhdf)",
            "monitor": "flow and pressure of each opening, residual, extremes (monitor.csv)",
            "summary": "summary of the run (solve.json)",
        },
        compute=_compute,
    )
