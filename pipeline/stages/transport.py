# SPDX-License-Identifier: Apache-2.0
"""Stage 8, transport: flow -> age of blood, course of a bolus, washout of sacs, a virtual angiogram, drug from walls.

A passive scalar goes with the flow that was computed: with its one velocity where it is steady, else with its snapshots
over the period, as often as it takes.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.base import parse
from pipeline.case.settings.transport import TransportInput
from pipeline.files.json_file import read_json
from pipeline.files.mesh import Mesh
from pipeline.files.table import write_table
from pipeline.haemodynamics.indices import monitor_column, monitored_flows_ml_s, read_monitor
from pipeline.haemodynamics.neck import section_around
from pipeline.haemodynamics.sac_shape import severed_sac
from pipeline.haemodynamics.washout import curve_rows, transport_numbers
from pipeline.reporting.angiogram import Projections, angiogram
from solver.backends.cuda.device import own_device
from solver.domain import nodes as node_files
from solver.domain.nodes import Nodes
from solver.run.checkpoint import Checkpoints
from solver.run.flow_file import read_flow
from solver.run.vtkhdf import write_still
from solver.runtime.checksums import checksum
from solver.runtime.command_line import CHECKPOINT_OPTIONS, run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job
from solver.transport.carry import Carried, carry, kept_in


def flows_ml_s(
    nodes: Nodes,
    monitor: Mapping[str, NDArray[np.float64]],
    times_s: NDArray[np.float64],
    period_s: float | None,
) -> NDArray[np.float64]:
    """Flow out through each opening at the times of snapshots, (T, openings); without several the mean, (1, openings).

    Parameters
    ----------
    nodes : the lattice and its openings.
    monitor : the solver's record.
    times_s : (T,) of the snapshots.
    period_s : none of a steady flow.
    """
    signs = np.array([-1.0 if opening.role == "inlet" else 1.0 for opening in nodes.openings])
    if period_s is None or len(times_s) == 1:
        mean = monitored_flows_ml_s(monitor, nodes.openings, float(times_s[-1]) - (period_s or 0.0))
        return signs[None] * [[mean[opening.name] for opening in nodes.openings]]
    columns = (monitor[monitor_column(opening, "flow_ml_s")] for opening in nodes.openings)
    return signs * np.stack([np.interp(times_s, monitor["time_s"], column) for column in columns], axis=1)


def sac_parts(nodes: Nodes, surface: Mesh, indices: Mapping[str, Any]) -> dict[str, NDArray[np.bool_]]:
    """Nodes of each sac that was found, (N,), by its name.

    Parameters
    ----------
    nodes : of the lattice.
    surface : of the vessel.
    indices : content of ``indices.json``, which names the sacs.
    """
    parts = {}
    for sac in indices.get("sacs", ()):
        neck = section_around(surface, np.array(sac["neck_mm"]), np.array(sac["neck_normal"]))
        parts[sac["name"]] = np.zeros(nodes.count, np.bool_)
        parts[sac["name"]][severed_sac(nodes, surface, neck, sac["name"], "radius").rows] = True
    return parts


def _checkpoints(job: Job) -> Callable[[str], Checkpoints] | None:
    """Where the state of each scalar is kept."""
    folder: Path | None = job.more["checkpoint"]
    if not folder:
        return None
    made_of = f"{checksum(job.inputs['nodes'])} {checksum(job.inputs['flow'])} {job.settings}"
    return kept_in(folder, made_of, 60 * job.more["checkpoint-minutes"], job.log)


def _compute(job: Job) -> None:
    settings = parse(TransportInput, job.settings, "--settings")
    nodes, flow = node_files.load(job.inputs["nodes"]), read_flow(job.inputs["flow"])
    if len(flow.points_mm) != nodes.count:
        raise StageError(f"{flow.path}: {len(flow.points_mm)} nodes, the node arrays {nodes.count}; run solve again")
    summary, monitor = read_json(job.inputs["summary"]), read_monitor(job.inputs["monitor"])
    period_s = summary["numbers"].get("period_s")
    parts = sac_parts(nodes, Mesh.read(job.inputs["surface"]), read_json(job.inputs["indices"]))
    wanted, projections = settings.for_solver(), Projections(nodes)
    with own_device(job.log) if wanted.backend != "cpu" else nullcontext():
        carried = carry(
            nodes,
            flow,
            flows_ml_s(nodes, monitor, flow.times_s, period_s),
            period_s,
            wanted,
            job.log,
            parts,
            _checkpoints(job),
            projections.look,
        )
    numbers = transport_numbers(carried, nodes.openings, parts, wanted.bolus.start_s if wanted.bolus else 0.0)
    if summary.get("unsteady"):
        numbers["notes"].append("the flow fluctuates: its mean carries the scalar, and what eddies mix is left out")
    for warning in numbers["warnings"]:
        job.log.warning("warning: %s", warning)
    _write(job, nodes, carried, parts, numbers)
    strip, moving = angiogram(projections, wanted.bolus.concentration) if wanted.bolus else (b"", b"")
    job.outputs["strip"].write_bytes(strip)
    job.outputs["angiogram"].write_bytes(moving)
    job.facts["device"] = carried.device


def _write(
    job: Job, nodes: Nodes, carried: Carried, parts: Mapping[str, NDArray[np.bool_]], numbers: Mapping[str, Any]
) -> None:
    """The fields, the curves and the figures."""
    fields = {"age (s)": carried.age, "drug": carried.drug}
    write_still(job.outputs["fields"], nodes, {name: found.field for name, found in fields.items() if found})
    columns, rows = curve_rows(carried.washed, nodes.openings, [*parts]) if carried.washed else (["time_s"], [])
    write_table(job.outputs["curves"], columns, rows)
    job.outputs["numbers"].write_text(json.dumps(numbers, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _tidy(job: Job) -> None:
    if folder := job.more["checkpoint"]:
        for name in ("age", "bolus", "drug"):
            Checkpoints(folder / name, "", 0.0, job.log).remove()
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


if __name__ == "__main__":
    run_stage(
        "transport",
        __doc__,
        inputs={
            "nodes": "node arrays, from decompose (nodes.h5)",
            "flow": "velocity over time, from solve (flow.vtkhdf)",
            "surface": "closed surface, from surface (surface.vtp)",
            "monitor": "flow and pressure against time, from solve (monitor.csv)",
            "summary": "choices and outcome, from solve (solve.json)",
            "indices": "the sacs, from postprocess (indices.json)",
        },
        outputs={
            "fields": "age of blood and drug at the fluid nodes (.vtkhdf)",
            "curves": "course of the bolus: washout and indicator-dilution curves (.csv)",
            "numbers": "figures, warnings and how they were computed (.json)",
            "strip": "pictures of the virtual angiogram (.png)",
            "angiogram": "the same as a moving picture (.webp)",
        },
        compute=_compute,
        more=CHECKPOINT_OPTIONS,
        afterwards=_tidy,
    )
