# SPDX-License-Identifier: Apache-2.0
"""Stage 8, postprocess: flow -> wall shear stress, pressure drops, flow balance and how far they can be trusted.

Stresses on the wall come from a linear fit to the viscous stress at the fluid nodes and from the normals of the smooth
surface, never from faces of voxels. Flow, pressure and speed at an opening come from the nodes in a thin slab just
inside it, so that they check the conditions that the solver was given instead of repeating them.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pipeline.case.range_checks import with_limits
from pipeline.case.settings.base import parse
from pipeline.case.settings.flow import PostprocessSettings
from pipeline.files.json_file import read_json
from pipeline.files.mesh import Mesh, read_openings
from pipeline.files.table import write_table
from pipeline.geometry.branches.branch_files import read_branches, write_polylines
from pipeline.geometry.branches.vessel_tree import Branch
from pipeline.haemodynamics.accumulator import Fields, WallAccumulator
from pipeline.haemodynamics.centreline_profile import COLUMNS, WORDS, CentrelineProfile, Row
from pipeline.haemodynamics.coupling_checks import coupling_rows, with_network
from pipeline.haemodynamics.dry import wetted
from pipeline.haemodynamics.energy import Energy
from pipeline.haemodynamics.index_table import LONG_COLUMNS, OPENING_COLUMNS, OPENING_TRUST, long_rows
from pipeline.haemodynamics.indices import (
    SolverSays,
    WallSums,
    indices,
    monitored_flows_ml_s,
    read_monitor,
    shown_step,
)
from pipeline.haemodynamics.sac import Sacs
from pipeline.haemodynamics.sac_blur import with_blur_checks
from pipeline.haemodynamics.sections import find_stations, wall_of_stations
from pipeline.haemodynamics.trust import judged, trust_of
from pipeline.haemodynamics.vortices import Volume
from pipeline.haemodynamics.wall_indices import oscillatory_shear_index, wall_arrays
from pipeline.haemodynamics.wall_noise import WallFilter
from pipeline.haemodynamics.wall_shear_stress import Wall, fit_nodes_to_wall, near_openings, rim_mm, within_period
from solver.domain import nodes as node_files
from solver.domain.nodes import Nodes
from solver.run.flow_file import ITEM_BYTES, Flow, read_flow
from solver.run.vtkhdf import SURFACE_CELLS, Steps, add_points, begin, extend, write_still, write_surface
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.outputs import require_room
from solver.runtime.progress import Parts
from solver.runtime.provenance import Job

BEFORE, AFTER = 2.6, 1.5
"""Times of what comes before the first and after the last time of a flow, over that of one."""


@dataclass(frozen=True)
class Results:
    """What is found of a flow.

    Attributes
    ----------
    wall : the wall without caps.
    arrays : its point arrays by name.
    accumulator : sums over the times.
    indices : what stands in ``indices.json``, but for the volume, some of whose figures stand in the flow file.
    profile : a row for each place along the branches.
    """

    wall: Wall
    arrays: dict[str, NDArray[Any]]
    accumulator: WallAccumulator
    indices: dict[str, Any]
    profile: list[Row]


def postprocess(
    nodes: Nodes,
    surface: Mesh,
    times: Iterable[Fields],
    summary: Mapping[str, Any],
    monitored_ml_s: Mapping[str, float],
    settings: PostprocessSettings,
    branches: Sequence[Branch] = (),
    record: Mapping[str, NDArray[np.float64]] | None = None,
) -> Results:
    """Haemodynamic quantities of a flow.

    Parameters
    ----------
    nodes : the lattice and its openings.
    surface : the smooth surface that the lattice was cut from.
    times : the flow, one entry a time; evenly spaced over one period, or a single entry for a steady flow.
    summary : what the solver says of its run (``solve.json``).
    monitored_ml_s : flow through each opening, counted by the solver link by link, positive along the opening's role.
    settings : radius of the fit; sacs.
    branches : of the vessel's tree; empty where it has no centreline.
    record : columns of the solver's record over the whole run (``monitor.csv``); none is taken as one without rows.

    Raises
    ------
    StageError
        If the flow holds no time or is not finite, or if the inputs do not belong together.
    """
    reached, branches = wetted(within_period(surface, nodes), branches, nodes)
    wall = Wall.of(reached)
    fit = fit_nodes_to_wall(nodes, wall, settings.fit_nodes)
    density = summary["numbers"]["density_kg_m3"]
    viscosity = density * summary["numbers"]["viscosity_m2_s"]
    wall_filter = WallFilter(wall, nodes.spacing_mm) if settings.lessen_noise else None
    accumulator = WallAccumulator(nodes, wall, fit, density, wall_filter)
    energy = Energy(nodes, surface, wall, fit, accumulator.slabs, density, viscosity)
    profile = _centreline_profile(branches, surface, nodes, wall, settings, density, viscosity) if branches else None
    lines = [np.column_stack((branch.points_mm, branch.radius_mm)) for branch in branches]
    sacs = Sacs(nodes, surface, settings, lines, density, viscosity)
    for fields in times:
        accumulator.add(fields)
        energy.add(fields)
        sacs.add(fields)
        if profile:
            profile.add(fields)
    if not accumulator.times:
        raise StageError("the flow file holds no time step; run solve again")
    oscillatory = oscillatory_shear_index(accumulator) if accumulator.times > 1 else None
    rows = profile.rows(accumulator.shear_magnitude / accumulator.times, oscillatory) if profile else []
    lengthwise = (profile, rows) if profile else None
    rim = rim_mm(settings.fit_nodes, nodes.spacing_mm)
    sums = WallSums(nodes, wall, fit, accumulator, energy, rim)
    of_sacs = {"sacs": sacs.figures(wall, accumulator), "sac_search": sacs.search}
    found = indices(sums, SolverSays(summary, monitored_ml_s, record or {}), lengthwise, sacs.checks) | of_sacs
    found["warnings"] += sacs.warnings
    return Results(wall, wall_arrays(accumulator, wall) | sacs.arrays(), accumulator, found, rows)


def _centreline_profile(
    branches: Sequence[Branch],
    surface: Mesh,
    nodes: Nodes,
    wall: Wall,
    settings: PostprocessSettings,
    density_kg_m3: float,
    viscosity_pa_s: float,
) -> CentrelineProfile:
    """Places along the branches, and the wall that belongs to them as far as its stress is not touched by openings."""
    stations = find_stations(branches, surface, nodes)
    counted = ~near_openings(wall, nodes.openings, rim_mm(settings.fit_nodes, nodes.spacing_mm))
    belongs = wall_of_stations(stations, branches, wall, counted)
    return CentrelineProfile(branches, stations, belongs, density_kg_m3, viscosity_pa_s)


def write_wall_over_time(results: Results, times_s: NDArray[np.float64], path: Path) -> None:
    """Write ``wall_over_time.vtkhdf``: stress and pressure on the wall as a time series that ParaView opens.

    Parameters
    ----------
    results : whose accumulator has kept stress and pressure of each time.
    times_s : (T,) of the flow file.
    path : of the file.
    """
    mesh, accumulator = results.wall.mesh, results.accumulator
    arrays = {"WSS (Pa)": 3, "WSS magnitude (Pa)": 1, "pressure (Pa)": 1}
    require_room(path, len(times_s) * len(mesh.points_mm) * sum(arrays.values()) * ITEM_BYTES)
    with h5py.File(path, "w") as file:
        root = begin(file, "PolyData")
        write_surface(root, mesh.points_mm, mesh.triangles)
        data, steps = root.create_group("PointData"), Steps(root, tuple(arrays), len(SURFACE_CELLS))
        for name, components in arrays.items():
            add_points(data, name, len(mesh.points_mm), components)
        for time_s, shear, pressure in zip(
            times_s, accumulator.shear_over_time, accumulator.pressure_over_time, strict=True
        ):
            steps.append(float(time_s), dict.fromkeys(arrays, steps.count * len(shear)))
            for name, values in zip(arrays, (shear, np.linalg.norm(shear, axis=1), pressure), strict=True):
                extend(data[name], values)


def write_centreline_profile(rows: Sequence[Row], path: Path) -> None:
    """Write ``centreline_flow.vtp``: a polyline a branch through its places, with what is known there in words.

    Where there is no centreline, it has no points.
    """
    lines = [list(mine) for _, mine in groupby(rows, lambda row: row["branch"])]
    points = [np.array([[row["x_mm"], row["y_mm"], row["z_mm"]] for row in line]) for line in lines]
    arrays = {words: [np.array([row[key] for row in line]) for line in lines] for key, words in WORDS.items()}
    write_polylines(path, points, arrays, [{key: line[0][key] for key in ("branch", "from", "to")} for line in lines])


def fields_of(flow: Flow, nodes: Nodes, log: logging.Logger) -> Iterator[Fields]:
    """The times of a flow file, one after the other.

    Parameters
    ----------
    flow : the file, opened.
    nodes : the lattice that it was solved on.
    log : where progress goes.

    Raises
    ------
    StageError
        If the file belongs to other nodes.
    """
    if len(flow.points_mm) != nodes.count:
        raise StageError(f"{flow.path}: {len(flow.points_mm)} nodes, the node arrays {nodes.count}; run solve again")
    names = [f"time {k + 1} of {len(flow.times_s)}" for k in range(len(flow.times_s))]
    parts = Parts(log, {"places": BEFORE, **dict.fromkeys(names, 1.0), "figures": AFTER})  # places: since this call

    def fields() -> Iterator[Fields]:
        for step, name in enumerate(names):
            parts.begin(name)
            yield Fields(
                flow.velocity_m_s(step), flow.pressure_pa(step), flow.viscous_stress_pa(step), flow.viscosity_pa_s(step)
            )
        parts.begin("figures")

    return fields()


def _also_into(volume: Volume, times: Iterable[Fields]) -> Iterator[Fields]:
    """The times of a flow, each of which goes into the derivatives of the velocity once the others have taken it."""
    for fields in times:
        yield fields
        volume.add(fields.velocity_m_s)


def _compute(job: Job) -> None:
    settings = parse(PostprocessSettings, job.settings, "--settings")
    nodes, surface = node_files.load(job.inputs["nodes"]), Mesh.read(job.inputs["surface"])
    if read_openings(job.inputs["openings"]) != nodes.openings:
        raise StageError("openings and nodes do not belong together; run decompose again")
    flow, summary = read_flow(job.inputs["flow"]), read_json(job.inputs["summary"])
    record = read_monitor(job.inputs["monitor"])
    monitored = monitored_flows_ml_s(record, nodes.openings, float(flow.times_s[0]))
    branches = read_branches(job.inputs["centreline"]) if "centreline" in job.inputs else ()
    shown = shown_step(flow.times_s, record, nodes.openings) if nodes.openings else 0
    volume = Volume(nodes, shown)
    times = _also_into(volume, fields_of(flow, nodes, job.log))
    results = postprocess(nodes, surface, times, summary, monitored, settings, branches, record)
    found = results.indices | {"volume": volume.figures(flow, nodes)}
    if "plausibility" in job.inputs:
        found = with_limits(found, read_json(job.inputs["plausibility"]))
    if "segmentation" in job.inputs:
        found = with_blur_checks(found, read_json(job.inputs["segmentation"]))
    if "coupling" in job.inputs:
        places = read_json(job.inputs["coupling"])
        found = with_network(found, coupling_rows(places, summary["coupling"]), places["network"])
    found["trust"] = judged(found)
    for warning in found["warnings"]:
        job.log.warning("warning: %s", warning)
    results.wall.mesh.write(job.outputs["wall"], results.arrays)
    write_wall_over_time(results, flow.times_s, job.outputs["wall-over-time"])
    write_still(job.outputs["statistics"], nodes, volume.arrays(flow))
    job.outputs["indices"].write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    write_table(job.outputs["indices-table"], LONG_COLUMNS, long_rows(found))
    worth = {column: trust_of(found["trust"], quantity, "") for column, quantity in OPENING_TRUST.items()}
    rows = [opening | worth for opening in found["openings"]]
    write_table(job.outputs["openings-table"], (*OPENING_COLUMNS, *OPENING_TRUST), rows)
    along = trust_of(found["trust"], "centreline", "")
    write_table(job.outputs["along-table"], (*COLUMNS, "trust"), [row | {"trust": along} for row in results.profile])
    write_centreline_profile(results.profile, job.outputs["along"])


if __name__ == "__main__":
    run_stage(
        "postprocess",
        __doc__,
        inputs={
            "nodes": "node arrays, from decompose (nodes.h5)",
            "flow": "velocity, pressure and stress, from solve (flow.vtkhdf)",
            "surface": "smooth surface, from surface (surface.vtp)",
            "openings": "the openings, from surface (openings.json)",
            "monitor": "flow and pressure against time, from solve (monitor.csv)",
            "summary": "choices and outcome, from solve (solve.json)",
            "centreline": "lines of the branches, from centreline (centreline.vtp); none of a canonical shape",
            "plausibility": "checks before the run, from plausibility (plausibility.json); none of a canonical shape",
            "segmentation": "how the lumen was found, from segment (segmentation.json); none of a given surface",
            "coupling": "where the vessel sits in a network, from couple (coupling.json)",
        },
        outputs={
            "wall": "the wall with stresses and pressure (.vtp)",
            "wall-over-time": "stress and pressure on the wall over time (.vtkhdf)",
            "statistics": "means and peaks over time, vortices at the fluid nodes (.vtkhdf)",
            "indices": "numbers that sum up the flow, checks and warnings (.json)",
            "indices-table": "the numbers of it, one a row (.csv)",
            "openings-table": "flow, pressure and speed at the openings, one a row (.csv)",
            "along": "the same and shear stress along the branches, as lines (.vtp); empty without a centreline",
            "along-table": "the same, one place a row (.csv)",
        },
        compute=_compute,
        optional=("centreline", "plausibility", "segmentation", "coupling"),
    )
