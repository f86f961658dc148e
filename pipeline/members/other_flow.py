# SPDX-License-Identifier: Apache-2.0
"""One run of a case at another flow, for its reduced model: steady, on a coarse lattice, within this process.

The inflow is the mean of the case's times a factor. Outlets keep what holds there; where a Windkessel lies behind them,
the part of the flow that it gives them. A run that fails says why in its file, so that the others go on.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from pipeline.case.settings.base import NonNegative, Positive, Section, parse
from pipeline.case.settings.flow import InletSettings, OutletSettings, PostprocessSettings, SolveSettings
from pipeline.case.settings.geometry import DecomposeSettings, SurfaceSettings
from pipeline.case.settings.reduced import ReducedSettings
from pipeline.files.json_file import read_json
from pipeline.files.mesh import Mesh, read_openings
from pipeline.geometry.branches.branch_files import read_branches
from pipeline.geometry.branches.tree_tracing import trace_tree
from pipeline.geometry.branches.vessel_tree import Branch
from pipeline.geometry.lattice.grid import read_patches
from pipeline.members.in_memory import nodes_across, nodes_of, results_of
from pipeline.members.start import start_from
from pipeline.reduced.run_file import OtherFlow
from pipeline.reduced.runs import Way
from pipeline.uncertainty.coarse_spacing import ratio_of
from solver.boundary.waveform import by_opening, read_waveforms
from solver.domain.nodes import Opening
from solver.run.flow_file import Flow, read_flow
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job


class OtherFlowInput(Section):
    """What the command line takes: sections of the case, and the flow."""

    factor: Positive = Field(description="of the inflow, by the mean of the case's")
    division: NonNegative = Field(0.0, description="part of its own by which outlets get more and less of the flow")
    reduced: ReducedSettings
    solve: SolveSettings
    surface: SurfaceSettings = SurfaceSettings()
    decompose: DecomposeSettings = DecomposeSettings()
    postprocess: PostprocessSettings = PostprocessSettings()


@dataclass(frozen=True)
class Vessel:
    """What the case left that its runs at other flows start from.

    Attributes
    ----------
    surface, openings : of it.
    branches : of its tree.
    spacing_mm, across : of the case's lattice, and nodes across the narrowest place.
    parts : of the inflow that left through each outlet, in the run of the case.
    patches : names of those of the wall.
    flow : of the case, with which runs begin; none: they begin at rest.
    """

    surface: Mesh
    openings: tuple[Opening, ...]
    branches: tuple[Branch, ...]
    spacing_mm: float
    across: float
    parts: Mapping[str, float]
    patches: tuple[str, ...] = ()
    flow: Flow | None = None

    @staticmethod
    def read(inputs: Mapping[str, Path], given: SurfaceSettings, log: logging.Logger) -> "Vessel":
        """From the files of the case's stages, by role. A canonical shape has no centreline: it is traced here.

        Parameters
        ----------
        inputs : files by role.
        given : settings of the surface, by which a canonical shape is traced.
        log : of the command.
        """
        surface, numbers = Mesh.read(inputs["surface"]), read_json(inputs["summary"])["numbers"]
        openings = read_openings(inputs["openings"])
        found = read_json(inputs["indices"])["openings"]
        if "centreline" in inputs:
            branches = read_branches(inputs["centreline"])
        else:
            branches = trace_tree(surface, openings, given.min_branch_radii, log).branches
        leaving = {each["name"]: each["flow_ml_s"] for each in found if each["role"] == "outlet"}
        parts = {name: flow / sum(leaving.values()) for name, flow in leaving.items()}
        return Vessel(
            surface,
            openings,
            tuple(branches),
            float(numbers["spacing_mm"]),
            nodes_across(numbers),
            parts,
            read_patches(inputs["openings"]),
            read_flow(inputs["flow"]),
        )

    @property
    def ways(self) -> tuple[Way, ...]:
        """Its branches as the reduced model knows them."""
        return tuple(
            Way(each.id, each.start, each.stop, each.length_mm, float(np.mean(each.radius_mm)))
            for each in self.branches
            if each.leads
        )


def at_flow(
    solve: SolveSettings, openings: tuple[Opening, ...], factor: float, parts: Mapping[str, float]
) -> SolveSettings:
    """The section ``solve`` of a steady run at another flow.

    Parameters
    ----------
    solve : of the case.
    openings : of the vessel.
    factor : of the mean inflow.
    parts : of the flow, by outlet, in the run of the case.

    Raises
    ------
    StageError
        If blood entered at an outlet with a Windkessel, whose part of the flow is then none.
    """
    mean = read_waveforms(openings, solve).inflow
    inlets = {
        name: InletSettings(flow_ml_s=factor * mean[name].mean_ml_s, profile=_steady(entry.profile))
        for name, entry in by_opening(openings, "inlet", solve.inlets).items()
    }
    outlets = {
        name: OutletSettings(pressure_mmhg=entry.pressure_mmhg, flow_fraction=_part(name, entry, parts))
        for name, entry in by_opening(openings, "outlet", solve.outlets).items()
    }
    faster = solve.peak_speed_m_s and solve.peak_speed_m_s * max(factor, 1.0)
    changes: dict[str, Any] = {"inlets": inlets, "outlets": outlets, "peak_speed_m_s": faster, "ranks": 1}
    return solve.model_copy(update=changes)


def divided(solve: SolveSettings, parts: Mapping[str, float], division: float) -> SolveSettings:
    """The section ``solve``, with more of the flow for the first, third, ... outlet, and less for the others.

    Parameters
    ----------
    solve : of :func:`at_flow`.
    parts : of the flow, by outlet, in the run of the case.
    division : part of their own by which they change.

    Raises
    ------
    StageError
        If blood entered at an outlet, so that it has no part of the flow.
    """
    if least := [name for name, part in parts.items() if part <= 0]:
        raise StageError(f"outlet {least[0]}: blood entered there, so that the flow cannot be divided otherwise")
    changed = {name: part * (1 + (-1) ** k * division) for k, (name, part) in enumerate(parts.items())}
    whole = sum(changed.values())
    outlets = {
        name: entry.model_copy(update={"flow_fraction": changed[name] / whole}) for name, entry in solve.outlets.items()
    }
    return solve.model_copy(update={"outlets": outlets})


def _part(name: str, entry: OutletSettings, parts: Mapping[str, float]) -> float | str | None:
    """The part of the flow that is to leave through an outlet; none: as it comes."""
    if not entry.windkessel or len(parts) == 1:
        return entry.flow_fraction
    if not 0 < parts[name] < 1:
        raise StageError(
            f"outlet {name}: {parts[name]:.1%} of the inflow left there in the run of the case, with a Windkessel"
            " behind it; that cannot be held at other flows"
        )
    return parts[name]


def _steady(profile: str) -> str:
    """The profile of an inlet in a steady flow: there Womersley's is the developed one."""
    return "developed" if profile == "womersley" else profile


def computed(vessel: Vessel, given: OtherFlowInput, log: logging.Logger) -> OtherFlow:
    """What a run gives.

    Parameters
    ----------
    vessel : what it starts from.
    given : settings, and the flow.
    log : where progress goes.
    """
    ratio = ratio_of(vessel.across, given.reduced.nodes_across)
    if given.division and len(vessel.parts) == 1:
        return OtherFlow(given.factor, ratio, given.division)
    try:
        solve = at_flow(given.solve, vessel.openings, given.factor, vessel.parts)
        if given.division:
            solve = divided(solve, vessel.parts, given.division)
        spacing_mm = ratio * vessel.spacing_mm
        nodes = nodes_of(vessel.surface, vessel.openings, spacing_mm, given.decompose, vessel.patches)
        begin = start_from(vessel.flow, vessel.spacing_mm, nodes, given.factor) if vessel.flow else None
        found = results_of(nodes, vessel.surface, solve, given.postprocess, log, vessel.branches, begin)
    except StageError as error:
        log.warning("warning: the flow times %g failed, and the reduced model does without: %s", given.factor, error)
        return OtherFlow(given.factor, ratio, given.division, failed=str(error))
    return OtherFlow(
        factor=given.factor,
        spacing_ratio=ratio,
        division=given.division,
        ways=vessel.ways,
        openings=tuple(found.indices["openings"]),
        sections=tuple(found.profile),
        unsteady=bool(found.indices["unsteady"]),
    )


def _compute(job: Job) -> None:
    given = parse(OtherFlowInput, job.settings, "--settings")
    run = computed(Vessel.read(job.inputs, given.surface, job.log), given, job.log)
    job.facts["failed"] = run.failed
    run.write(job.outputs["run"])


if __name__ == "__main__":
    run_stage(
        "other_flow",
        __doc__,
        inputs={
            "surface": "closed surface of the case, from surface (surface.vtp)",
            "openings": "its openings, from surface (openings.json)",
            "centreline": "lines of the branches, from centreline (centreline.vtp); none of a canonical shape",
            "summary": "choices and outcome of the case's flow, from solve (solve.json)",
            "flow": "that flow, from solve (flow.vtkhdf)",
            "indices": "figures of the case, from postprocess (indices.json)",
        },
        outputs={"run": "pressures and flows of the run along the branches (JSON)"},
        compute=_compute,
        optional=("centreline",),
    )
