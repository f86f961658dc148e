# SPDX-License-Identifier: Apache-2.0
"""Stage 7: solve the flow through the vessel with the lattice-Boltzmann method.

Reads the node arrays; writes velocity, pressure and viscous stress over time as one VTKHDF file that ParaView opens,
what was monitored on the way, and a summary. Runs on a CUDA device where one answers, else on this machine's cores.

With --checkpoint the state is kept in that folder every so many minutes, and when a signal stops the run (SIGTERM,
SIGINT); the next run with the same nodes, settings and code goes on from there, to the same bits. Once the run is over
the folder is removed.

Where the settings ask for several ranks, as many processes of MPI run a part of the lattice each, on the cores or on a
CUDA device each, and leave the same bits. With --srun in a job of SLURM they run on all of its machines.

With --coupling the vessel sits in that network of arteries: what its openings have is found together with it.
"""

import hashlib
import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from solver.backends.cuda.device import driver_version, own_device
from solver.coupling.around import read_around
from solver.domain.nodes import load, stored_checksum
from solver.kernels.compilation import source
from solver.ranks.launch import solve_on_ranks
from solver.ranks.rank import Task
from solver.ranks.versions import versions
from solver.run.checkpoint import Checkpoints
from solver.run.settings import SolveSettings, parse
from solver.run.setup import choose_backend
from solver.run.solve import solve
from solver.runtime.checksums import checksum
from solver.runtime.command_line import CHECKPOINT_OPTIONS, run_stage
from solver.runtime.provenance import Job


def identity(nodes: Path, settings: SolveSettings, coupling: Path | None = None) -> str:
    """What the bits of a run depend on up to where it ends: node arrays, settings, waveforms, the network around the
    vessel, backend and the solver's source.

    Where it ends at the latest, and what is done if it has not settled then, are left out: raised limits go on. So is
    the number of ranks and the division of the nodes among them, on which no bit depends.

    Parameters
    ----------
    nodes : file of the node arrays.
    settings : of the run.
    coupling : file of the network around the vessel; none: it sits in none.
    """
    files = [each.waveform for entries in (settings.inlets, settings.outlets) for each in entries.values()]
    waveforms = [checksum(Path(file)) for file in files if file]
    around = [checksum(coupling)] if coupling else []
    same = replace(settings, max_steps=0, cycles=min(settings.cycles, settings.min_cycles), unsettled="", ranks=1)
    made_of = [stored_checksum(nodes), repr(same), *waveforms, *around, choose_backend(settings.backend), source()]
    return hashlib.sha256("\n".join(made_of).encode()).hexdigest()


def _checkpoints(job: Job, settings: SolveSettings) -> Checkpoints | None:
    folder, minutes = job.more["checkpoint"], job.more["checkpoint-minutes"]
    made_of = identity(job.inputs["nodes"], settings, job.inputs.get("coupling"))
    return Checkpoints(folder, made_of, 60 * minutes, job.log) if folder else None


def _tidy(job: Job) -> None:
    if job.more["checkpoint"]:
        Checkpoints(job.more["checkpoint"], "", 0.0, job.log).remove()


def _compute(job: Job) -> None:
    settings = parse(job.settings)
    summary = _solve_on_ranks(job, settings) if settings.ranks > 1 else _solve_here(job, settings)
    job.facts["device"] = summary["device"]


def _solve_on_ranks(job: Job, settings: SolveSettings) -> dict[str, Any]:
    """Let several processes solve; the summary that they wrote."""
    folder, coupling = job.more["checkpoint"], job.inputs.get("coupling")
    task = Task(
        versions(),
        job.settings,
        str(job.inputs["nodes"]),
        str(coupling) if coupling else None,
        str(job.outputs["flow"]),
        str(job.outputs["monitor"]),
        str(job.outputs["summary"]),
        str(folder) if folder else None,
        identity(job.inputs["nodes"], settings, coupling),
        60 * job.more["checkpoint-minutes"],
    )
    solve_on_ranks(task, job.log, job.more["srun"])
    _note_driver(job, settings)
    found: dict[str, Any] = json.loads(job.outputs["summary"].read_text())
    return found


def _note_driver(job: Job, settings: SolveSettings) -> None:
    if settings.backend != "cpu" and (version := driver_version()):
        job.facts["driver"] = version


def _solve_here(job: Job, settings: SolveSettings) -> dict[str, Any]:
    nodes, checkpoints = load(job.inputs["nodes"]), _checkpoints(job, settings)
    around = read_around(job.inputs["coupling"]) if "coupling" in job.inputs else None
    with own_device(job.log) if settings.backend != "cpu" else nullcontext():
        summary = solve(nodes, settings, job.outputs["flow"], job.outputs["monitor"], job.log, checkpoints, around)
    job.outputs["summary"].write_text(json.dumps(summary, indent=2, allow_nan=False) + "\n")
    _note_driver(job, settings)
    return summary


if __name__ == "__main__":
    run_stage(
        "solve",
        __doc__,
        inputs={"nodes": "node arrays (nodes.h5)", "coupling": "network around the vessel (coupling.h5)"},
        optional=("coupling",),
        outputs={
            "flow": "flow over time (flow.vtkhdf)",
            "monitor": "flow and pressure of each opening, residual, extremes (monitor.csv)",
            "summary": "summary of the run (solve.json)",
        },
        compute=_compute,
        more={
            **CHECKPOINT_OPTIONS,
            "srun": {
                "type": str,
                "metavar": "OPTIONS",
                "help": "start ranks in a job of SLURM by srun with these options, each with so many threads as this"
                " process has (default: by mpirun on this machine, which shares its cores out)",
            },
        },
        afterwards=_tidy,
    )
