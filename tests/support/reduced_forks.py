# SPDX-License-Identifier: Apache-2.0
"""A fork whose losses are known, as a reduced model, and as what runs of it would leave."""

from dataclasses import replace

import numpy as np

from pipeline.haemodynamics.centreline_profile import Row
from pipeline.reduced.model import Held, Law, Loss, Opening, ReducedBranch, ReducedModel
from pipeline.reduced.run_file import OtherFlow
from pipeline.reduced.runs import Way
from solver.boundary.windkessel import PASCAL_PER_MMHG

DENSITY, VISCOSITY = 1060.0, 3.5e-3
LOSSES = {"trunk": (0.3, 0.05), "left": (1.2, 0.1), "right": (2.0, 0.0)}
"""R, mmHg s/mL, and K, mmHg s2/mL2, of the branches."""
KINETIC = {"inlet": 0.02, "left": 0.01, "right": 0.03}
WAYS = (
    Way(1, "inlet", "bifurcation_1", 20.0, 2.0),
    Way(2, "bifurcation_1", "left", 15.0, 1.6),
    Way(3, "bifurcation_1", "right", 15.0, 1.4),
)
SUMMARY = {
    "numbers": {"density_kg_m3": DENSITY, "viscosity_m2_s": VISCOSITY / DENSITY},
    "openings": {"inlet": {}, "left": {"pressure_mmhg": 80.0}, "right": {"pressure_mmhg": 80.0}},
}


def fork(left: Law | None = None, right: Law | None = None, inflow: float = 3.0, **changes) -> ReducedModel:
    """The fork, its outlets held at 80 mmHg unless laws are given; flows of the case are not those that follow."""
    flows = {"trunk": inflow, "left": 0.6 * inflow, "right": 0.4 * inflow}
    branches = tuple(
        ReducedBranch(
            name=way.name,
            start=way.start,
            stop=way.stop,
            resistance_mmhg_s_ml=LOSSES[name][0],
            square_mmhg_s2_ml2=LOSSES[name][1],
            inertance_mmhg_s2_ml=0.01,
            poiseuille_mmhg_s_ml=LOSSES[name][0],
            length_mm=way.length_mm,
            least_area_mm2=np.pi * way.radius_mm**2,
            flow_ml_s=flows[name],
            fitted_ml_s=(0.5 * flows[name], 2 * flows[name]),
            misfit=0.0,
        )
        for way, name in zip(WAYS, LOSSES, strict=True)
    )
    laws = {"left": left or Held(pressure_mmhg=80), "right": right or Held(pressure_mmhg=80)}
    openings = tuple(
        Opening(
            name=name,
            role="inlet" if name == "inlet" else "outlet",
            area_mm2=10.0,
            head=Loss(resistance_mmhg_s_ml=0.0, square_mmhg_s2_ml2=KINETIC[name]),
            flow_ml_s=flows["trunk" if name == "inlet" else name],
            pressure_mmhg=80.0,
            law=laws.get(name),
        )
        for name in KINETIC
    )
    values = {"factors": (0.5, 2.0), "spacing_ratio": 1.5, "coarse_error": 0.0} | changes
    return ReducedModel(density_kg_m3=DENSITY, viscosity_pa_s=VISCOSITY, branches=branches, openings=openings, **values)


def as_run(
    found: ReducedModel, factor: float, flows: dict[str, float], scale: float = 1.0, division: float = 0.0
) -> OtherFlow:
    """What a run at these flows would leave: by name of the branch, with the losses of a model times a factor.

    Each branch has two sections; all that the fork takes is behind the trunk's last one.
    """
    totals, sections = {}, list[Row]()
    for branch in found.branches:
        flow = flows[branch.name]
        totals.setdefault(branch.start, 100.0)
        moved = flow - branch.part * flows[found.branches[0].name] if branch.start == "bifurcation_1" else 0.0
        other = branch.division_mmhg_s2_ml2 * moved * flows[found.branches[0].name]
        totals[branch.stop] = totals[branch.start] - scale * (branch.at(flow) + other)
    for way, branch in zip(WAYS, found.branches, strict=True):
        for part, joint in ((0.25, branch.start), (1.0, branch.stop)):
            total = (
                totals[branch.start] + part * (totals[branch.stop] - totals[branch.start])
                if part < 1
                else totals[joint]
            )
            sections.append(
                {
                    "branch": way.id,
                    "way_mm": part * way.length_mm,
                    "area_mm2": np.pi * way.radius_mm**2,
                    "flow_ml_s": flows[branch.name],
                    "pressure_pa": (total - 0.5) * PASCAL_PER_MMHG,
                    "total_pressure_pa": total * PASCAL_PER_MMHG,
                }
            )
    passing = {branch.start: flows[branch.name] for branch in found.branches[:1]}
    passing |= {branch.stop: flows[branch.name] for branch in found.branches[1:]}
    openings = [
        {
            "name": each.name,
            "role": each.role,
            "radius_mm": 1.5,
            "flow_ml_s": passing[each.name],
            "monitored_flow_ml_s": passing[each.name],
            "total_pressure_pa": totals[each.name] * PASCAL_PER_MMHG,
            "pressure_pa": (totals[each.name] - each.head.at(passing[each.name])) * PASCAL_PER_MMHG,
        }
        for each in found.openings
    ]
    return OtherFlow(
        factor, found.spacing_ratio, ways=WAYS, openings=tuple(openings), sections=tuple(sections), division=division
    )


def runs(found: ReducedModel, factors=(0.5, 1.0, 2.0), scale: float = 1.0) -> list[OtherFlow]:
    """Runs of a model at flows in proportion to those of its case."""
    return [
        as_run(found, factor, {branch.name: factor * branch.flow_ml_s for branch in found.branches}, scale)
        for factor in factors
    ]


def indices(run: OtherFlow, **changes) -> dict:
    """The run as the case's ``indices.json``."""
    return {"openings": list(run.openings), "times": 1, "unsettled": None, "unsteady": None} | changes


def failed(run: OtherFlow, why: str) -> OtherFlow:
    """The run as one that failed."""
    return replace(run, ways=(), openings=(), sections=(), failed=why)
