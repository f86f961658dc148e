# SPDX-License-Identifier: Apache-2.0
"""Reduced: runs at several flows -> resistances, square losses and inertances of the branches, as a file and a network.

What it answers, ``hemolattice what-if CASE --flow 2`` asks. See docs/reduced.md.
"""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.case.settings.base import parse
from pipeline.case.settings.reduced import ReducedSettings
from pipeline.files.json_file import read_json
from pipeline.files.table import write_table
from pipeline.haemodynamics.centreline_profile import Row
from pipeline.reduced.as_network import network_of
from pipeline.reduced.fit import model_of, on_whole
from pipeline.reduced.model import ReducedBranch, ReducedModel
from pipeline.reduced.run_file import KEPT, OtherFlow
from pipeline.reduced.runs import require_ends, run_of, shape_of
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job

COLUMNS = (
    "branch",
    "length_mm",
    "flow_ml_s",
    "resistance_mmhg_s_ml",
    "poiseuille_mmhg_s_ml",
    "square_mmhg_s2_ml2",
    "part",
    "division_mmhg_s2_ml2",
    "inertance_mmhg_s2_ml",
    "drop_mmhg",
    "square_part",
    "misfit",
)
"""Of the table of branches."""

LARGE = 0.05
"""Difference of the whole loss on both lattices that is told, with what the fit is off by in the runs: of drawn vessels
in which the first was so large or larger, the model was off by up to six tenths of it at half and twice the flow."""


def reduced(
    others: Sequence[OtherFlow], indices: Mapping[str, Any], sections: Sequence[Row], summary: Mapping[str, Any]
) -> ReducedModel:
    """The reduced model of a case.

    Parameters
    ----------
    others : the runs at other flows, that at the case's own among them.
    indices : figures of the case, as in ``indices.json``.
    sections : rows of ``centreline_flow.csv``; none where there is no centreline.
    summary : ``solve.json`` of the case.

    Raises
    ------
    StageError
        If too few runs ended, or no losses can be found of them.
    """
    ended = [each for each in others if not each.failed and not each.division]
    divided = next((each for each in others if each.division and each.openings), None)
    reservations = [
        f"at {each.factor:g} times the flow{' with another division' if each.division else ''} there is no run:"
        f" {each.failed}"
        for each in others
        if each.failed
    ]
    if not ended:
        raise StageError("; ".join(reservations))
    reservations += [
        f"at {each.factor:g} times the flow it fluctuates, and what was fitted is its mean"
        for each in ended
        if each.unsteady
    ]
    ways = ended[0].ways
    require_ends(ways, indices["openings"])
    runs = [run_of(each.factor, {"openings": each.openings}, each.sections, ways) for each in ended]
    again = next((run for run in runs if run.factor == 1.0), None)
    if again is None:
        raise StageError(f"no run at the flow of the case on the coarse lattice: {'; '.join(reservations)}")
    if indices["times"] > 1:
        case = again
        reservations.append(
            "the case's flow is not steady: losses are those of steady runs on the coarse lattice alone"
        )
    elif sections:
        case = run_of(1.0, indices, sections, ways)
    else:
        case = on_whole(again, indices)
    if indices.get("unsettled"):
        reservations.append("the flow of the case has not settled")
    numbers = summary["numbers"]
    density = numbers["density_kg_m3"]
    viscosity = density * numbers["viscosity_m2_s"]
    along = sections or ended[0].sections
    shapes = {way.name: shape_of(way, along, density, viscosity) for way in ways}
    other = run_of(1.0, {"openings": divided.openings}, divided.sections, ways) if divided else None
    found = model_of(case, runs, ways, shapes, summary, ended[0].spacing_ratio, reservations, other)
    doubt = _doubt(found.coarse_error, max(branch.misfit for branch in found.branches))
    if not doubt:
        return found
    return found.model_copy(update={"reservations": (*found.reservations, doubt)})


def _doubt(coarse_error: float, misfit: float) -> str | None:
    """Why the model is less sure than it should be; none where what both lattices and fit and runs differ by adds up to
    little.
    """
    if abs(coarse_error) > LARGE:
        return f"the whole loss on the coarse lattice differs by {coarse_error:+.0%}; raise reduced.nodes_across"
    if abs(coarse_error) + misfit <= LARGE:
        return None
    return (
        f"the fit is off by up to {misfit:.1%} of the whole loss of a run, and that on the coarse lattice differs by"
        f" {coarse_error:+.1%}; give reduced.flows nearer to 1, where fewer will do"
    )


def row(branch: ReducedBranch) -> dict[str, Any]:
    """A row of the table: a branch at the flow of the case."""
    drop = branch.at(branch.flow_ml_s)
    square = branch.square_mmhg_s2_ml2 * branch.flow_ml_s * abs(branch.flow_ml_s)
    values = {
        **branch.model_dump(),
        "branch": branch.name,
        "drop_mmhg": drop,
        "square_part": square / drop if drop else None,
    }
    return {column: values[column] for column in COLUMNS}


def read_sections(path: Path) -> list[Row]:
    """Rows of ``centreline_flow.csv`` that have a section of one vessel alone.

    Raises
    ------
    StageError
        If it is another file.
    """
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    try:
        return [
            {key: int(each[key]) if key == "branch" else float(each[key]) for key in KEPT}
            for each in rows
            if each["total_pressure_pa"]
        ]
    except (KeyError, ValueError) as error:
        raise StageError(f"{path}: no table of the centreline ({error}); run postprocess again") from None


def _compute(job: Job) -> None:
    parse(ReducedSettings, job.settings, "--settings")
    others = sorted((OtherFlow.read(path) for path in job.lists["runs"]), key=lambda each: each.factor)
    sections = read_sections(job.inputs["along"]) if "along" in job.inputs else []
    try:
        found = reduced(others, read_json(job.inputs["indices"]), sections, read_json(job.inputs["summary"]))
    except StageError as error:
        raise StageError(f"{error}; or set reduced.flows: [], and the case does without a reduced model") from None
    for branch in found.branches:
        job.log.info(
            "branch %s: R %.4g mmHg s/mL, K %.4g mmHg s2/mL2, L %.4g mmHg s2/mL",
            branch.name,
            branch.resistance_mmhg_s_ml,
            branch.square_mmhg_s2_ml2,
            branch.inertance_mmhg_s2_ml,
        )
    for doubt in found.reservations:
        job.log.warning("warning: %s", doubt)
    found.write(job.outputs["model"])
    job.outputs["network"].write_text(network_of(found), encoding="utf-8")
    write_table(job.outputs["table"], COLUMNS, [row(branch) for branch in found.branches])


if __name__ == "__main__":
    run_stage(
        "reduced",
        __doc__,
        inputs={
            "runs": "runs at other flows (JSON)",
            "indices": "figures of the case, from postprocess (indices.json)",
            "along": "flow along the branches, from postprocess (centreline_flow.csv); none of a canonical shape",
            "summary": "choices and outcome of the case's flow, from solve (solve.json)",
        },
        outputs={
            "model": "the reduced model and what the runs gave beside it (.json)",
            "network": "the same as a network of arteries (.yaml)",
            "table": "the branches, one a row (.csv)",
        },
        compute=_compute,
        optional=("along",),
        several=("runs",),
    )
