# SPDX-License-Identifier: Apache-2.0
"""Couple: the network of arteries around a vessel, computed alone until its cycles repeat, with the vessel's piece cut
out of it.

What passes where the openings of the vessel are is what it is expected to carry, by which spacing and time step are
chosen; the solver begins with the state of the network.
"""

import csv
import json
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.case.settings.base import parse
from pipeline.case.settings.coupling import CouplingSettings
from pipeline.files.mesh import read_openings
from pipeline.geometry.branches.branch_files import read_rows
from pipeline.network.case_network import waveform_files
from pipeline.network.for_solver import ML, for_solver
from pipeline.network.network_file import Blood
from pipeline.network.reading import edited_network
from pipeline.network.vessel_piece import Lengths, Piece, piece_of
from pipeline.network.ways import shortest_ways
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.coupling.around import Around, cut_out, mean_radius_m
from solver.coupling.coupling import Cap
from solver.domain.nodes import Opening
from solver.network.cycles import Until, solve_network
from solver.network.last_cycle import TreeResult
from solver.network.run import Numerics
from solver.runtime.checksums import checksum
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job


class CoupleInput(CouplingSettings):
    """What the command line takes: the section coupling, and the blood of the vessel, which is that of the network."""

    blood: Blood


def lengths_mm(openings: tuple[Opening, ...], branches: list[dict[str, Any]]) -> Lengths:
    """Ways between openings, along branches where these are known, else straight.

    Parameters
    ----------
    openings : of the vessel.
    branches : rows of ``centreline.json``; none: no branches are known.
    """
    centre = {opening.name: np.array(opening.centre_mm) for opening in openings}
    links = [(row["from"], row["to"], row["length_mm"], str(row["branch"])) for row in branches]
    ways = {name: shortest_ways(links, name).distance_mm for name in centre}
    return {
        frozenset((one, other)): ways[one].get(other, float(np.linalg.norm(centre[one] - centre[other])))
        for one, other in combinations(centre, 2)
    }


def _require_ways(around: Around, settings: CouplingSettings, piece: Piece) -> None:
    """Check that blood enters through inlets and leaves through outlets on average."""
    for cap, meeting in zip(around.caps, piece.meetings, strict=True):
        section = "inlets" if cap.opening in settings.inlets else "outlets"
        if not cap.flow_m3_s.mean > 0:
            raise StageError(
                f"coupling.{section}.{cap.opening}: on average {cap.flow_m3_s.mean / ML:.3g} mL/s of the network pass"
                f" {meeting.segment} there, the wrong way for an {section.removesuffix('s')}; couple it to another"
                " segment, or change the role of the opening in surface.openings"
            )


def write_waveforms(path: Path, cap: Cap, time_s: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """Write flow and pressure of an opening over a cycle, whose ends both count: ``time_s``, ``flow_ml_s``,
    ``pressure_mmhg``.

    Parameters
    ----------
    path : of the file.
    cap : opening with its flow and pressure.
    time_s : (T,), of the cycle.
    """
    columns = time_s, cap.flow_m3_s.at(time_s) / ML, cap.pressure_pa.at(time_s) / PASCAL_PER_MMHG
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("time_s", "flow_ml_s", "pressure_mmhg"))
        writer.writerows(np.column_stack(columns).tolist())


def summary(
    settings: CoupleInput,
    piece: Piece,
    result: TreeResult,
    around: Around,
    openings: tuple[Opening, ...],
    edits: list[str],
) -> dict[str, Any]:
    """``coupling.json``: the network, and each opening with its place, its radius and what passes there.

    Parameters
    ----------
    settings : section ``coupling``.
    piece : of the network.
    result : of the whole network.
    around : the rest of it.
    openings : of the vessel.
    edits : what each of them did.
    """
    own_mm = {opening.name: opening.radius_mm for opening in openings}
    caps = {}
    for cap, meeting in zip(around.caps, piece.meetings, strict=True):
        segment = next(s for s in around.network.segments if meeting.node in (s.start, s.end))
        radius_mm = 1e3 * mean_radius_m(result, segment.name, 1.0 if segment.end == meeting.node else 0.0)
        low, high = cap.pressure_pa.extremes
        caps[cap.opening] = {
            "role": "inlet" if cap.opening in settings.inlets else "outlet",
            "segment": meeting.segment,
            "from_start_mm": meeting.way_mm,
            "network_radius_mm": radius_mm,
            "vessel_radius_mm": own_mm[cap.opening],
            "radius_difference": own_mm[cap.opening] / radius_mm - 1,
            "flow_ml_s": cap.flow_m3_s.mean / ML,
            "pressure_mmhg": [each / PASCAL_PER_MMHG for each in (low, cap.pressure_pa.mean, high)],
            "impedance_mmhg_s_ml": around.impedance_mmhg_s_ml[cap.opening],
        }
    return {
        "network": around.network.name,
        "edits": edits,
        "period_s": around.network.period_s,
        "segments": len(around.network.segments),
        "replaced": sorted(piece.inside),
        "replaced_mm": piece.length_mm,
        "cycles": result.cycles,
        "caps": caps,
    }


def _log(found: Mapping[str, Any], job: Job) -> None:
    for name, cap in found["caps"].items():
        job.log.info(
            "%s: %s, %.4g mm from its start; radius %.3g mm in the network, %.3g mm of the vessel; %.4g mL/s, %.3g to"
            " %.3g mmHg",
            *(name, cap["segment"], cap["from_start_mm"], cap["network_radius_mm"], cap["vessel_radius_mm"]),
            *(cap["flow_ml_s"], cap["pressure_mmhg"][0], cap["pressure_mmhg"][2]),
        )


def _compute(job: Job) -> None:
    settings = parse(CoupleInput, job.settings, "--settings")
    openings, path = read_openings(job.inputs["openings"]), job.inputs["network"]
    if mistake := settings.mistaken_openings({opening.name: opening.role for opening in openings}):
        raise StageError(mistake)
    network, edits = edited_network(path, settings.edits, "coupling")
    for line in edits:
        job.log.info("edit: %s", line)
    branches = read_rows(job.inputs["centreline"]) if "centreline" in job.inputs else []
    piece = piece_of(network.changed(blood=settings.blood), settings, lengths_mm(openings, branches))
    numerics = Numerics(settings.spacing_mm * 1e-3, settings.courant, settings.samples)
    until = Until(settings.tolerance, most_cycles=settings.most_cycles)
    result = solve_network(for_solver(piece.network, path.stem), numerics, until, job.log)
    nodes = {meeting.opening: meeting.node for meeting in piece.meetings}
    around = cut_out(result, numerics, piece.inside, nodes, frozenset(settings.inlets))
    _require_ways(around, settings, piece)
    found = summary(settings, piece, result, around, openings, edits)
    _log(found, job)
    around.write(job.outputs["coupling"])
    job.outputs["caps"].mkdir(parents=True)
    time_s = np.linspace(0, around.network.period_s, around.samples + 1)
    for cap in around.caps:
        write_waveforms(job.outputs["caps"] / f"{cap.opening}.csv", cap, time_s)
    job.outputs["summary"].write_text(json.dumps(found, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    job.facts["waveforms_sha256"] = {Path(file).name: checksum(Path(file)) for file in waveform_files(network)}


if __name__ == "__main__":
    run_stage(
        "couple",
        __doc__,
        inputs={
            "network": "the network's file (.yaml)",
            "openings": "openings of the vessel (JSON)",
            "centreline": "branches of the vessel (centreline.json)",
        },
        outputs={
            "coupling": "the network around the vessel, for the solver (.h5)",
            "caps": "folder with flow and pressure at each opening, as the network has them alone (CSV)",
            "summary": "where the openings are, radii, what passes (.json)",
        },
        compute=_compute,
        optional=("centreline",),
    )
