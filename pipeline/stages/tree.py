# SPDX-License-Identifier: Apache-2.0
"""A network alone, tree: the arterial tree in one dimension over cycles until they repeat, and its figures.

With --checkpoint the state is kept in that folder every so many minutes, and when a signal stops the run; the same
command goes on from there, to the same bits.
"""

import json
from collections.abc import Mapping, Sequence
from math import pi
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.case.settings.base import parse
from pipeline.case.settings.tree import Site, TreeSettings
from pipeline.files.network_series import write_network_series
from pipeline.files.table import write_table
from pipeline.haemodynamics.arterial_tree import Tree, segment_rows, site_rows, tree_indices
from pipeline.haemodynamics.pulse import ejection_s
from pipeline.haemodynamics.tree_checks import tree_checks
from pipeline.haemodynamics.tree_waveforms import SEGMENTS, SITES, Waveforms, waveforms, write_waveforms
from pipeline.network.case_network import chosen_sites, network_of_case, waveform_files
from pipeline.network.for_solver import ML, for_solver
from pipeline.network.network_file import Network
from pipeline.network.schematic import Point, schematic
from pipeline.network.summary import Summary, summary
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.network.cycles import Until, identity, solve_network
from solver.network.last_cycle import SITES as PARTS
from solver.network.last_cycle import TreeResult
from solver.network.run import Numerics
from solver.run.checkpoint import Checkpoints
from solver.runtime.checksums import checksum
from solver.runtime.command_line import CHECKPOINT_MINUTES, CHECKPOINT_OPTIONS, run_stage
from solver.runtime.provenance import Job

Reals = NDArray[np.float64]


def computed(job: Job, network: Network, settings: TreeSettings, name: str) -> TreeResult:
    """The last cycle of a network.

    Parameters
    ----------
    job : of the stage, whose checkpoint is kept and gone on from.
    network : that is computed.
    settings : how.
    name : of the network, for messages.

    Raises
    ------
    StageError
        If the flow diverges, cycles do not repeat where that is refused, or a signal stops the run.
    """
    stated = for_solver(network, name)
    numerics = Numerics(settings.spacing_mm * 1e-3, settings.courant, settings.samples)
    until = Until(settings.tolerance, most_cycles=settings.most_cycles, unsettled=settings.unsettled)
    folder, minutes = job.more.get("checkpoint"), job.more.get("checkpoint-minutes", CHECKPOINT_MINUTES)
    kept = Checkpoints(folder, identity(stated, numerics, until), 60 * minutes, job.log) if folder else None
    return solve_network(stated, numerics, until, job.log, kept)


def site_names(sites: Sequence[Site]) -> list[str]:
    """Names of places for columns and pictures: the segment's, with the part of its length where that tells more."""
    of = [site.segment for site in sites]
    return [site.segment if of.count(site.segment) == 1 else f"{site.segment}@{site.at:g}" for site in sites]


def tree_summary(
    result: TreeResult,
    tree: Tree,
    at_sites: Tree,
    names: list[str],
    places: Mapping[str, Point],
    settings: TreeSettings,
    edits: list[str],
) -> dict[str, Any]:
    """``tree.json``: what was computed, how it ended, balances, indices, checks and figures of all segments.

    Parameters
    ----------
    result : of the solver.
    tree, at_sites : the network with waveforms of all segments, and of the sites.
    names : of the sites.
    places : of the nodes in the drawing.
    settings : section ``tree``.
    edits : what each of them did.
    """
    network = tree.network
    figures = summary(network)
    indices = tree_indices(
        tree, settings.landmarks, figures.wall_compliance_ml_mmhg + figures.terminal_compliance_ml_mmhg
    )
    checks = tree_checks(tree, result, indices, settings.tolerance)
    rows = segment_rows(tree)
    unsettled = "" if result.converged else _unsettled(result, settings)
    return {
        "network": {"name": result.network.name, **_of_network(network, figures)},
        "edits": edits,
        "spacing_mm": settings.spacing_mm,
        "cells": int((result.grid.last - result.grid.first + 1).sum()),
        "cycles": result.cycles,
        "converged": result.converged,
        "unsettled": unsettled or None,
        "tolerance": settings.tolerance,
        "changes": [{"pressure": float(p), "flow": float(q)} for p, q in result.changes],
        "balance": _of_balance(result),
        "indices": indices,
        "peak_speed_m_s": max(row["peak_velocity_m_s"] for row in rows),
        "openings": _openings(network, result),
        "pressure_drops": [],
        "wall": {},
        "trust": [],
        "checks": checks,
        "warnings": [unsettled] if unsettled else [],
        "segments": rows,
        "sites": site_rows(at_sites, names, ejection_s(tree.inflow_m3_s, figures.period_s)),
        "schematic": {node: [round(x, 3), round(y, 3)] for node, (x, y) in places.items()},
        "nodes": {name: list(segment.nodes) for name, segment in network.segments.items()},
        "radii_mm": {name: [segment.radii_mm[0], segment.radii_mm[-1]] for name, segment in network.segments.items()},
    }


def _unsettled(result: TreeResult, settings: TreeSettings) -> str:
    pressure, flow = result.changes[-1] if len(result.changes) else (np.inf, np.inf)
    return (
        f"after {result.cycles} cycles pressure still changes by {100 * pressure:.2g} % of the pulse pressure and flow"
        f" by {100 * flow:.2g} % of the largest from one cycle to the next; {100 * settings.tolerance:.2g} % is asked"
        " for: raise tree.most_cycles"
    )


def _of_network(network: Network, figures: Summary) -> dict[str, Any]:
    return {
        "description": network.description,
        "sources": dict(network.sources),
        "segments": figures.segments,
        "nodes": figures.nodes,
        "terminals": figures.terminals,
        "length_mm": figures.length_mm,
        "volume_ml": figures.volume_ml,
        "wall_compliance_ml_mmhg": figures.wall_compliance_ml_mmhg,
        "terminal_compliance_ml_mmhg": figures.terminal_compliance_ml_mmhg,
        "terminal_resistance_mmhg_s_ml": figures.terminal_resistance_mmhg_s_ml,
        "period_s": figures.period_s,
        "density_kg_m3": network.blood.density_kg_m3,
        "viscosity_pa_s": network.blood.viscosity_pa_s,
        "junctions": network.junctions,
    }


def _of_balance(result: TreeResult) -> dict[str, float]:
    balance = result.balance
    entered = -sum(work for work in balance.work_out_j.values() if work < 0)
    return {
        "mass": balance.mass,
        "work_in_j": entered,
        "friction_j": balance.friction_j,
        "walls_j": balance.walls_j,
        "profile_j": balance.profile_j,
        "work_left": balance.work_left,
    }


def _openings(network: Network, result: TreeResult) -> list[dict[str, Any]]:
    """Mean flows at inlets, in, and at terminals, out."""
    period = result.network.period_s
    return [
        {
            "name": node,
            "role": "inlet" if node in network.inlets else "outlet",
            "flow_ml_s": (-volume if node in network.inlets else volume) / period / ML,
        }
        for node, volume in result.balance.volume_out_m3.items()
    ]


def write_sites(path: Path, names: list[str], found: Waveforms) -> None:
    """Write ``waveforms.csv``: time, and pressure, flow, area and velocity of each site.

    Parameters
    ----------
    path : of the file.
    names : of the sites.
    found : their waveforms, in SI.
    """
    columns: dict[str, Reals] = {"time_s": found.time_s}
    for k, name in enumerate(names):
        columns[f"{name}.pressure_mmhg"] = found.pressure_pa[:, k] / PASCAL_PER_MMHG
        columns[f"{name}.flow_ml_s"] = found.flow_m3_s[:, k] / ML
        columns[f"{name}.area_mm2"] = found.area_m2[:, k] * 1e6
        columns[f"{name}.velocity_m_s"] = found.velocity_m_s[:, k]
    rows = ({key: float(values[n]) for key, values in columns.items()} for n in range(len(found.time_s)))
    write_table(path, list(columns), rows)


def write_series(path: Path, network: Network, result: TreeResult, frames: int, places: Mapping[str, Point]) -> None:
    """Write ``tree.vtkhdf``: the schematic drawing with radius, pressure, flow and velocity at frames of the cycle.

    Parameters
    ----------
    path : of the file.
    network : that was computed.
    result : its last cycle.
    frames : moments of the cycle that are written.
    places : of nodes in the drawing, by name.
    """
    shown = result.frames(frames)
    lines, columns = list[Reals](), dict[str, list[Reals]]()
    for number, (name, segment) in enumerate(network.segments.items()):
        course = result.along(name)
        (x0, y0), (x1, y1) = (places[node] for node in segment.nodes)
        part = course.part
        lines.append(np.column_stack((x0 + part * (x1 - x0), y0 + part * (y1 - y0), np.zeros(len(part)))))
        for key, values in {
            "radius (mm)": 1e3 * np.sqrt(course.area_m2 / pi),
            "pressure (mmHg)": course.pressure_pa / PASCAL_PER_MMHG,
            "flow (mL s-1)": course.flow_m3_s / ML,
            "velocity (m s-1)": course.velocity_m_s,
        }.items():
            columns.setdefault(key, []).append(values[shown])
        columns.setdefault("segment", []).append(np.full(len(part), float(number)))
    fixed = {"segment": np.concatenate(columns.pop("segment"))}
    arrays = {key: np.concatenate(values, axis=1) for key, values in columns.items()}
    write_network_series(path, lines, result.time_s[shown], arrays, fixed)


def _compute(job: Job) -> None:
    settings = parse(TreeSettings, job.settings, "--settings")
    path = job.inputs["network"]
    network, edits = network_of_case(path, settings, "tree")
    for line in edits:
        job.log.info("edit: %s", line)
    result = computed(job, network, settings, path.stem)
    sites = chosen_sites(network, settings)
    names, drawn = site_names(sites), schematic(network)
    found = waveforms(result, [(name, part) for name in network.segments for part in PARTS])
    at_sites = waveforms(result, [(site.segment, site.at) for site in sites])
    tree, of_sites = (Tree(network, result.network, each) for each in (found, at_sites))
    outcome = tree_summary(result, tree, of_sites, names, drawn, settings, edits)
    write_waveforms(job.outputs["waveforms"], {SEGMENTS: found, SITES: at_sites})
    write_table(job.outputs["table"], list(outcome["segments"][0]), outcome["segments"])
    write_sites(job.outputs["sites"], names, at_sites)
    write_series(job.outputs["series"], network, result, settings.frames, drawn)
    text = json.dumps(outcome, indent=1, ensure_ascii=False, allow_nan=False)
    job.outputs["summary"].write_text(f"{text}\n", encoding="utf-8")
    job.facts["waveforms_sha256"] = {Path(file).name: checksum(Path(file)) for file in waveform_files(network)}
    failed = [check["name"] for check in outcome["checks"] if not check["passed"]]
    job.log.info(
        "%d segments, %d cycles, %s",
        len(network.segments),
        result.cycles,
        f"checks failed: {', '.join(failed)}" if failed else "all checks passed",
    )


def _clean(job: Job) -> None:
    """Remove checkpoints, which are of no use once the outputs are there."""
    if folder := job.more.get("checkpoint"):
        Checkpoints(folder, "", 0.0, job.log).remove()


if __name__ == "__main__":
    run_stage(
        "tree",
        __doc__,
        inputs={"network": "the network's file (.yaml)"},
        outputs={
            "waveforms": "pressure, flow, area and velocity of all segments over the last cycle (.h5)",
            "table": "figures of all segments (.csv)",
            "sites": "waveforms at chosen places (.csv)",
            "summary": "outcome, indices, checks (.json)",
            "series": "the network over the cycle, for ParaView (.vtkhdf)",
        },
        compute=_compute,
        afterwards=_clean,
        more=CHECKPOINT_OPTIONS,
    )
