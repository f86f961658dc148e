"""Stage 8, postprocess: flow -> wall shear stress, pressure drops, flow balance and how far they can be trusted.

Stresses on the wall come from a linear fit to the viscous stress at the fluid nodes and from the normals of the smooth
surface, never from faces of voxels. Flow, pressure and speed at an opening come from the nodes in a thin slab just
inside it, so that they check the conditions that the solver was given instead of repeating them.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.centreline import read_lines
from pipeline.haemodynamics.indices import indices, monitored_flows_ml_s, read_json, read_monitor
from pipeline.haemodynamics.sac import Sacs
from pipeline.haemodynamics.tally import Fields, Tally
from pipeline.haemodynamics.wall import Wall, fit_nodes_to_wall, within_period
from pipeline.mesh import Mesh, read_openings
from pipeline.settings.base import parse
from pipeline.settings.flow import PostprocessSettings
from solver import nodes as node_files
from solver.flow import Flow, read_flow
from solver.nodes import Nodes
from solver.stage import Job, Progress, StageError, run_stage


def postprocess(
    nodes: Nodes,
    surface: Mesh,
    times: Iterable[Fields],
    summary: Mapping[str, Any],
    monitored_ml_s: Mapping[str, float],
    settings: PostprocessSettings,
    lines: Sequence[NDArray[np.float64]] = (),
) -> tuple[Wall, dict[str, NDArray[Any]], dict[str, Any]]:
    """Haemodynamic quantities of a flow.

    Parameters
    ----------
    nodes : the lattice and its openings.
    surface : the smooth surface that the lattice was cut from.
    times : the flow, one entry a time; evenly spaced over one period, or a single entry for a steady flow.
    summary : what the solver says of its run (``solve.json``).
    monitored_ml_s : flow through each opening, counted by the solver link by link, positive along the opening's role.
    settings : radius of the fit; sacs.
    lines : of the centreline's branches, (n, 4): x, y, z and radius, mm; none of canonical shapes.

    Returns
    -------
    The wall, its point arrays by name, and the indices.

    Raises
    ------
    StageError
        If the flow holds no time or is not finite, if the inputs do not belong together, or if a neck that was marked
        severs no sac.
    """
    wall = Wall.of(within_period(surface, nodes))
    fit = fit_nodes_to_wall(nodes, wall, settings.fit_nodes)
    tally = Tally(nodes, wall, fit, summary["numbers"]["density_kg_m3"])
    sacs = Sacs(nodes, surface, settings, lines, summary["numbers"]["density_kg_m3"])
    for fields in times:
        tally.add(fields)
        sacs.add(fields)
    if not tally.times:
        raise StageError("the flow file holds no time step; run solve again")
    found = indices(nodes, wall, fit, tally, summary, monitored_ml_s, settings.fit_nodes)
    found["sacs"] = sacs.figures(wall, tally)
    found["warnings"] += sacs.warnings
    return wall, tally.wall_arrays() | sacs.arrays(), found


def fields_of(flow: Flow, nodes: Nodes, log: logging.Logger) -> Iterator[Fields]:
    """The times of a flow file, one after the other.

    Raises
    ------
    StageError
        If the file belongs to other nodes.
    """
    if len(flow.points_mm) != nodes.count:
        raise StageError(f"{flow.path}: {len(flow.points_mm)} nodes, the node arrays {nodes.count}; run solve again")
    progress = Progress(log, len(flow.times_s), "times")
    for step in range(len(flow.times_s)):
        yield Fields(flow.velocity_m_s(step), flow.pressure_pa(step), flow.viscous_stress_pa(step))
        progress.update(step + 1)


def _compute(job: Job) -> None:
    settings = parse(PostprocessSettings, job.settings, "--settings")
    nodes, surface = node_files.load(job.inputs["nodes"]), Mesh.read(job.inputs["surface"])
    if read_openings(job.inputs["openings"]) != nodes.openings:
        raise StageError("openings and nodes do not belong together; run decompose again")
    flow, summary = read_flow(job.inputs["flow"]), read_json(job.inputs["summary"])
    monitored = monitored_flows_ml_s(read_monitor(job.inputs["monitor"]), nodes.openings, float(flow.times_s[0]))
    lines = read_lines(job.inputs["centreline"]) if "centreline" in job.inputs else []
    times = fields_of(flow, nodes, job.log)
    wall, arrays, found = postprocess(nodes, surface, times, summary, monitored, settings, lines)
    for warning in found["warnings"]:
        job.log.warning("warning: %s", warning)
    wall.mesh.write(job.outputs["wall"], arrays)
    job.outputs["indices"].write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_stage(
        "postprocess",
        __doc__,
        inputs={
            "nodes": "node arrays, from decompose (nodes.h5)",
            "flow": "velocity, pressure and stress, from solve (flow.vtkhdf)",
            "surface": "smooth surface, from surface (surface.vtp)",
            "openings": "the openings, from surface (openings.json)",
            "centreline": "lines of the branches, from centreline (centreline.vtp); none of canonical shapes",
            "monitor": "flow and pressure against time, from solve (monitor.csv)",
            "summary": "choices and outcome, from solve (solve.json)",
        },
        outputs={
            "wall": "the wall with stresses and pressure (.vtp)",
            "indices": "numbers that sum up the flow, checks and warnings (.json)",
        },
        compute=_compute,
        optional=("centreline",),
    )
