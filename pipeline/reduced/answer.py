# SPDX-License-Identifier: Apache-2.0
"""Answers of a reduced model: pressures and flows at another inflow or with other outlets, and whether it holds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import pi, sqrt

import numpy as np

from pipeline.reduced.balance import Balance, Line
from pipeline.reduced.model import Behind, Held, Law, ReducedBranch, ReducedModel, Share
from solver.runtime.errors import StageError

AT_ENDS = 1e-6
"""Part by which a factor may be beyond the range by rounding."""

SHIFT = 0.03
"""Change of a branch's part of the inflow from which on losses at forks are called unknown where no run had another
division of the flow; `benchmarks/reduced_model.py` measures what it costs."""

BEYOND = 1.2
"""Where a run had another division of the flow, what a fork takes is known as far as that, times this."""

LAMINAR = 2000.0
"""Reynolds number above which the flow in a straight vessel is not laminar (Reynolds 1883,
doi:10.1098/rstl.1883.0029); behind stenoses it ends before, which the runs show."""

ARTERIAL_MMHG = 20.0
"""Ratios of pressures, and levels of them, mean something where they are at least this at every opening."""


@dataclass(frozen=True)
class What:
    """What is asked.

    Attributes
    ----------
    factor : of the inflow, by that of the case.
    outlets : laws that hold in place of those of the case, by outlet.
    """

    factor: float = 1.0
    outlets: Mapping[str, Law] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What the model says; mmHg, mL/s.

    Attributes
    ----------
    factor : of the inflow.
    flow_ml_s : of each branch.
    total_mmhg : of each joint.
    opening_flow_ml_s, pressure_mmhg : of each opening, into an inlet or out of an outlet; static.
    reservations : why it may not hold.
    """

    factor: float
    flow_ml_s: Mapping[str, float]
    total_mmhg: Mapping[str, float]
    opening_flow_ml_s: Mapping[str, float]
    pressure_mmhg: Mapping[str, float]
    reservations: tuple[str, ...]

    @property
    def arterial(self) -> bool:
        """Whether the level of the pressures is that of arteries, so that their ratios have a meaning."""
        return min(self.pressure_mmhg.values()) >= ARTERIAL_MMHG


def answered(model: ReducedModel, what: What, beyond: bool = False) -> Answer:
    """The steady flow.

    Parameters
    ----------
    model : the model.
    what : is asked.
    beyond : answer outside of the flows of the runs, too, with a reservation.

    Raises
    ------
    StageError
        If the flow is outside of those of the runs, an outlet is unknown, or no pressure is held anywhere.
    """
    low, high = model.factors
    outside = not low * (1 - AT_ENDS) <= what.factor <= high * (1 + AT_ENDS)
    range_ml_s = f"{low * model.inflow_ml_s:.4g} to {high * model.inflow_ml_s:.4g} mL/s"
    if outside and not beyond:
        raise StageError(
            f"a flow of {what.factor:g} times that of the case: the reduced model was fitted from {low:g} to {high:g}"
            f" times it ({range_ml_s}) and says nothing beyond; run the case with that flow (solve.inlets)"
        )
    balance, laws = Balance(model), laws_of(model, what)
    inflow = {each.name: what.factor * each.flow_ml_s for each in model.with_role("inlet")}
    whole = sum(inflow.values())
    lines = {name: line_of(law, whole) for name, law in laws.items()}
    state = balance.solved(inflow, lines, balance.start())
    flow = dict(zip((branch.name for branch in model.branches), state.flow.tolist(), strict=True))
    total = dict(zip(balance.joints, state.total.tolist(), strict=True))
    arriving = dict(zip(balance.joints, (balance.arriving @ state.flow).tolist(), strict=True))
    through = {each.name: (1 if each.role == "outlet" else -1) * arriving[each.name] for each in model.openings}
    pressure = {each.name: total[each.name] - each.head.at(abs(through[each.name])) for each in model.openings}
    beyond_runs = f"the flow is outside of that of the runs, {range_ml_s}"
    found = Answer(what.factor, flow, total, through, pressure, (beyond_runs,) if outside else ())
    doubts = (*found.reservations, *model.reservations, *doubts_of(model, found, whole))
    return Answer(what.factor, flow, total, through, pressure, doubts)


def laws_of(model: ReducedModel, what: What) -> dict[str, Law]:
    """What holds at each outlet, as is asked or as in the case.

    Raises
    ------
    StageError
        If an outlet is unknown, no pressure is held anywhere, or parts of the flow add up to more than all of it.
    """
    outlets = {each.name: each.law for each in model.with_role("outlet")}
    if unknown := sorted(what.outlets.keys() - outlets.keys()):
        raise StageError(f"no outlet is called {', '.join(unknown)}; there are {', '.join(outlets)}")
    laws = {name: what.outlets.get(name) or law or Held(pressure_mmhg=0.0) for name, law in outlets.items()}
    parts = [law.part for law in laws.values() if isinstance(law, Share)]
    if len(parts) == len(laws):
        raise StageError("every outlet has a part of the flow, and none a pressure: give one a pressure or resistance")
    if sum(parts) >= 1:
        raise StageError(f"parts of the flow add up to {sum(parts):g}, which leaves nothing to the others; lower them")
    return laws


def line_of(law: Law, inflow_ml_s: float) -> Line | float:
    """What holds at an outlet of a steady flow."""
    if isinstance(law, Held):
        return Line(law.pressure_mmhg)
    if isinstance(law, Behind):
        return Line(law.distal_pressure_mmhg, law.total_mmhg_s_ml)
    return law.part * inflow_ml_s


def doubts_of(model: ReducedModel, answer: Answer, inflow_ml_s: float) -> list[str]:
    """Why an answer may not hold, in words.

    Parameters
    ----------
    model : that answered.
    answer : what it said.
    inflow_ml_s : flow that it was asked for.
    """
    found = []
    for branch in model.branches:
        flow = answer.flow_ml_s[branch.name]
        part, usual = flow / inflow_ml_s, branch.flow_ml_s / model.inflow_ml_s
        low, high = branch.fitted_ml_s
        arriving = sum(answer.flow_ml_s[other.name] for other in model.branches if other.stop == branch.start)
        known = max(SHIFT, BEYOND * branch.divided) * (arriving / inflow_ml_s if arriving else 1.0)
        if flow * branch.flow_ml_s < 0:
            found.append(f"branch {branch.name}: the flow turns round, and no run had that")
        elif abs(part - usual) > max(SHIFT, known):
            found.append(
                f"branch {branch.name}: {part:.0%} of the inflow passes, in the runs {usual:.0%}; what the fork takes"
                " then is not known"
            )
        elif not low - SHIFT * abs(low) <= flow <= high + SHIFT * abs(high):
            found.append(f"branch {branch.name}: {flow:.3g} mL/s; the runs had {low:.3g} to {high:.3g} mL/s")
        if (reynolds := _reynolds(model, branch, flow)) > LAMINAR:
            found.append(f"branch {branch.name}: a Reynolds number of {reynolds:.0f}; the flow is not laminar")
        if branch.lowest and answer.arterial:
            least = answer.total_mmhg[branch.start] - branch.lowest.at(flow)
            if least < 0:
                found.append(
                    f"branch {branch.name}: a static pressure of {least:.0f} mmHg at the narrowest place; the vessel"
                    " would collapse there, and walls are rigid here"
                )
    found += [
        f"outlet {each.name}: blood enters there"
        for each in model.with_role("outlet")
        if answer.opening_flow_ml_s[each.name] < 0
    ]
    return found


def _reynolds(model: ReducedModel, branch: ReducedBranch, flow_ml_s: float) -> float:
    """2 R U/nu in the least section of a branch."""
    radius_m = 1e-3 * sqrt(branch.least_area_mm2 / pi)
    return float(2 * abs(flow_ml_s) * 1e-6 * model.density_kg_m3 / (np.pi * radius_m * model.viscosity_pa_s))
