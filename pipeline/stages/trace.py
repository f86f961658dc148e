# SPDX-License-Identifier: Apache-2.0
"""Stage 8, trace: flow -> streamlines, paths of particles, how long the blood stays, and a moving picture of it.

Lines and points are VTP files that ParaView opens as they are. In a steady flow particles are traced through the one
velocity that there is; in a periodic flow through the snapshots, which repeat.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.base import parse
from pipeline.case.settings.flow import TraceSettings
from pipeline.files.json_file import read_json
from pipeline.files.lines import write_lines, write_points
from pipeline.files.mesh import Mesh
from pipeline.haemodynamics.indices import monitored_flows_ml_s, read_monitor, shown_step
from pipeline.haemodynamics.interpolation import Interpolation
from pipeline.haemodynamics.particles import MOVING, Particles, Tracer
from pipeline.haemodynamics.paths import Arrivals, Paths, Recorder, arrivals, inward_at, releases_s, spread_evenly
from pipeline.haemodynamics.residence import (
    Clock,
    inflow_ml_s,
    particle_checks,
    residence_numbers,
    residence_warnings,
    volume_ml,
)
from pipeline.haemodynamics.snapshots import Field
from pipeline.haemodynamics.streamlines import Grid, seeds_at, streamlines_from_inlets
from pipeline.haemodynamics.tracing_time import TracingTime
from pipeline.haemodynamics.wall_shear_stress import Wall, within_period
from pipeline.reporting.animation import animate
from solver.domain import nodes as node_files
from solver.domain.nodes import Nodes
from solver.run.flow_file import Flow, read_flow
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.progress import Progress
from solver.runtime.provenance import Job

MOMENTS = 60, 1000
"""Moments, in a period or a mean transit time, at which particles are looked at: at least and at most."""

APART = 0.25
"""Points of a path are about this far apart, in radii of the smallest opening."""

PATH_WORK = 2.0
"""Work on a particle that is looked at on its way from an inlet, over that on one of the volume, which goes half of the
way."""

MAX_SAMPLES = 250_000
"""Looks at particles that are kept in memory at a time, 56 bytes each."""


@dataclass(frozen=True)
class Traced:
    """What was traced.

    Attributes
    ----------
    lines : streamlines of the shown moment, each (P, 5): x, y, z in mm, speed in m/s, time since the seed in s.
    paths : of particles from the inlets, or, where there are none, from places all over the fluid.
    points_mm : (R, 3), where particles were spread over the volume at the shown moment.
    entry, exit : how these came in, backwards in time, and how they left.
    lattice : values between the nodes.
    numbers : as they stand in ``particles.json``.
    """

    lines: list[NDArray[np.float64]]
    paths: Paths
    points_mm: NDArray[np.float64]
    entry: Arrivals
    exit: Arrivals
    lattice: Interpolation
    numbers: dict[str, Any]


def trace(
    nodes: Nodes,
    flow: Flow,
    monitor: Mapping[str, NDArray[np.float64]],
    period_s: float | None,
    settings: TraceSettings,
    log: logging.Logger,
) -> Traced:
    """Streamlines, paths and residence of particles in a flow.

    Parameters
    ----------
    nodes : the lattice and its openings.
    flow : snapshots, over one period of a periodic flow; one of a steady flow.
    monitor : the solver's record.
    period_s : none of a steady flow; with one snapshot alone a periodic flow is taken as steady, with a warning.
    settings : how many and how far.
    log : of the progress.

    Raises
    ------
    StageError
        If the flow belongs to other nodes, or nothing moves.
    """
    if len(flow.points_mm) != nodes.count:
        raise StageError(f"{flow.path}: {len(flow.points_mm)} nodes, the node arrays {nodes.count}; run solve again")
    step = shown_step(flow.times_s, monitor, nodes.openings) if nodes.openings else 0
    field = Field(flow.times_s, period_s if len(flow.times_s) > 1 else None, flow.velocity_m_s)
    flows = monitored_flows_ml_s(monitor, nodes.openings, float(flow.times_s[0]))
    clock = _clock(nodes, monitor, field, flows, step, settings)
    lattice = Interpolation.of(nodes)
    grid = Grid.of(nodes, flow.velocity_m_s(step))
    lines = streamlines_from_inlets(grid, nodes.openings, settings.streamlines)
    log.info("%d streamlines at %.4g s", len(lines), clock.shown_s)
    tracer = Tracer(lattice, field, nodes.openings, settings.step)
    points = nodes.points_mm()[spread_evenly(nodes.count, settings.particles)]
    share = len(points) / (len(points) + PATH_WORK * settings.pathlines)
    timed = TracingTime(tracer, clock, field.spacing_s, share, settings.frames)
    paths, left = _forwards(tracer, grid, points, clock, settings, field, timed, log)
    progress = Progress(log, round(clock.limit_s / clock.every_s), "moments")
    timed.backwards(0.0)

    def passed(flow_s: float) -> None:
        progress.update(round(flow_s / clock.every_s), "particles, backwards", timed.backwards(flow_s))

    entered = arrivals(tracer, lattice.place(points), clock.shown_s, clock.shown_s - clock.limit_s, passed)
    numbers = residence_numbers(nodes, flows, clock, paths, entered, left, field.period_s)
    numbers["warnings"] = residence_warnings(numbers, field, period_s)
    return Traced(lines, paths, points, entered, left, lattice, numbers)


def _clock(
    nodes: Nodes,
    monitor: Mapping[str, NDArray[np.float64]],
    field: Field,
    flows: Mapping[str, float],
    step: int,
    settings: TraceSettings,
) -> Clock:
    """Without a flow through inlets, the mean transit time is that over the cube root of the volume."""
    kept = monitor["time_s"] >= min(field.times_s[0], monitor["time_s"][-1])
    peak_m_s = float(monitor["max_speed_m_s"][kept].max())
    if not peak_m_s > 0:
        raise StageError("nothing moves: the largest speed of the record is 0 m/s; see the inflow, and run solve again")
    volume, inflow = volume_ml(nodes), inflow_ml_s(nodes, flows)
    transit_s = volume / inflow if inflow > 0 else 1e-2 * np.cbrt(volume) / peak_m_s
    unit_s = field.period_s or transit_s
    wanted_s = 1e-3 * APART * _width_mm(nodes) / peak_m_s
    moments = int(np.clip(np.ceil(unit_s / wanted_s), *MOMENTS))
    limit = (settings.limit_cycles if field.period_s else settings.limit_transits) * moments
    every_s = unit_s / moments
    limit_s = max(round(limit), 1) * every_s
    return Clock(float(field.times_s[0]), float(field.times_s[step]), unit_s, every_s, limit_s, transit_s)


def _width_mm(nodes: Nodes) -> float:
    """Radius of the smallest opening; without openings, a tenth of the cube root of the volume."""
    tenth = float(np.cbrt(volume_ml(nodes)))  # a cube root in cm is a tenth of it in mm
    return min((opening.radius_mm for opening in nodes.openings), default=tenth)


def _forwards(
    tracer: Tracer,
    grid: Grid,
    points_mm: NDArray[np.float64],
    clock: Clock,
    settings: TraceSettings,
    field: Field,
    timed: TracingTime,
    log: logging.Logger,
) -> tuple[Paths, Arrivals]:
    """Particles from the inlets and those in the volume together, so that each snapshot is read once on the way."""
    lattice = tracer.lattice
    nodes = lattice.nodes
    inlets = [opening for opening in nodes.openings if opening.role == "inlet"]
    all_over = points_mm[spread_evenly(len(points_mm), settings.pathlines)]
    seeds = seeds_at(inlets, grid, settings.pathlines) if inlets else all_over
    released_s = releases_s(len(seeds), clock.releases_s()) if field.period_s else np.full(len(seeds), clock.start_s)
    released = Particles.at(lattice.place(seeds), released_s, clock.limit_s)
    apart = APART * _width_mm(nodes) / nodes.spacing_mm
    recorder = Recorder(tracer, released, apart, clock.unit_s / MOMENTS[0])
    start = lattice.place(points_mm)
    spread = Particles.at(start, np.full(len(start), clock.shown_s), clock.limit_s)
    stretches = clock.stretches_s(field, max(MAX_SAMPLES // max(len(seeds), 1), 1))
    progress, done = Progress(log, sum(map(len, stretches)), "moments", every_s=2.0), 0
    for stops in stretches:
        on_way = recorder.advance(stops)
        if stops[-1] > clock.shown_s:
            tracer.advance(spread, float(stops[-1]))
        done += len(stops)
        if (left_s := timed.forwards(float(stops[-1]) - clock.start_s)) is not None:
            on_way += int((spread.state == MOVING).sum())
            progress.update(done, f"{on_way} particles on their way", left_s)
    inward = inward_at(nodes.openings, seeds) if inlets else None
    return recorder.paths(inward), Arrivals.of(spread, start, clock.shown_s, clock.limit_s)


def _compute(job: Job) -> None:
    settings = parse(TraceSettings, job.settings, "--settings")
    nodes, flow = node_files.load(job.inputs["nodes"]), read_flow(job.inputs["flow"])
    summary, monitor = read_json(job.inputs["summary"]), read_monitor(job.inputs["monitor"])
    traced = trace(nodes, flow, monitor, summary["numbers"].get("period_s"), settings, job.log)
    for warning in traced.numbers["warnings"]:
        job.log.warning("warning: %s", warning)
    traced.numbers["checks"] = particle_checks(traced.numbers)
    _write_streamlines(job, traced, flow)
    _write_paths(job, traced)
    _write_residence(job, traced)
    wall = Wall.of(within_period(Mesh.read(job.inputs["surface"]), nodes)).mesh
    job.outputs["numbers"].write_text(json.dumps(traced.numbers, indent=2) + "\n", encoding="utf-8")
    made = animate(traced.paths, nodes, wall, traced.numbers["period_s"], settings.frames, job.log)
    job.outputs["animation"].write_bytes(made.gif)
    job.facts["drawn_by"] = made.drawn_by


def _write_streamlines(job: Job, traced: Traced, flow: Flow) -> None:
    lattice = traced.lattice
    step = int(np.searchsorted(flow.times_s, traced.numbers["moment_s"]))
    table = np.concatenate([np.empty((0, 5)), *traced.lines])
    velocity = lattice.sample(lattice.extended(flow.velocity_m_s(step), zero_at_wall=True), table[:, :3])
    pressure = lattice.sample(lattice.extended(flow.pressure_pa(step)[:, None], zero_at_wall=False), table[:, :3])
    offsets = np.concatenate(([0], np.cumsum([len(line) for line in traced.lines], dtype=np.int64)))
    arrays = {
        "speed (m s-1)": np.linalg.norm(velocity, axis=1),
        "velocity (m s-1)": velocity,
        "pressure (Pa)": pressure[:, 0],
        "time since seed (s)": table[:, 4],
    }
    write_lines(job.outputs["streamlines"], table[:, :3].astype(np.float32), offsets, _single(arrays), {})


def _write_paths(job: Job, traced: Traced) -> None:
    paths = traced.paths
    points = traced.lattice.points_mm(paths.place).astype(np.float32)
    arrays: dict[str, NDArray[Any]] = {
        "time (s)": paths.time_s,
        "speed (m s-1)": paths.speed_m_s,
        "age (s)": paths.age_s(),
    }
    on_lines = {"released (s)": paths.released_s, "left through": np.maximum(paths.left, 0)}
    write_lines(job.outputs["pathlines"], points, paths.offsets, arrays, on_lines)


def _write_residence(job: Job, traced: Traced) -> None:
    entry, left = traced.entry, traced.exit
    arrays = {
        "time since entry (s)": entry.time_s,
        "time to leave (s)": left.time_s,
        "residence time (s)": entry.time_s + left.time_s,
    }
    marks = {
        "entered through": entry.through,
        "left through": left.through,
        "not entered": (entry.through == 0).astype(np.int8),
        "not left": (left.through == 0).astype(np.int8),
    }
    write_points(job.outputs["residence"], traced.points_mm.astype(np.float32), _single(arrays) | marks)


def _single(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: values.astype(np.float32) for name, values in arrays.items()}


if __name__ == "__main__":
    run_stage(
        "trace",
        __doc__,
        inputs={
            "nodes": "node arrays, from decompose (nodes.h5)",
            "flow": "velocity and pressure, from solve (flow.vtkhdf)",
            "surface": "smooth surface, from surface (surface.vtp)",
            "monitor": "flow and pressure against time, from solve (monitor.csv)",
            "summary": "choices and outcome, from solve (solve.json)",
        },
        outputs={
            "streamlines": "streamlines of the moment with the largest inflow (.vtp)",
            "pathlines": "paths of particles from the inlets (.vtp)",
            "residence": "how long the blood has been and will be in the vessel (.vtp)",
            "numbers": "numbers that sum up the particles, warnings, and checks (.json)",
            "animation": "moving picture of the particles (.gif)",
        },
        compute=_compute,
    )
