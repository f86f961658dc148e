# SPDX-License-Identifier: Apache-2.0
"""Fit: the model that reproduces the runs of a vessel at several flows.

R and K of a branch are those whose drops R Q + K Q|Q| differ least, as parts of the whole loss of their run, from those
of the runs at other flows, which are on a coarse lattice; then both are multiplied by the ratio of the drop in the run
of the case to that on the coarse lattice at its flow. A linear and a square part are what Young and Tsai (1973),
doi:10.1016/0021-9290(73)90099-7, found of stenoses. What a branch loses behind a fork depends on the part of the flow
that it gets, too: D is fitted with R and K where a run has another division.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.reduced.answer import Answer, What, answered
from pipeline.reduced.model import Behind, Held, Law, Loss, Opening, Point, ReducedBranch, ReducedModel, Share
from pipeline.reduced.runs import Run, Shape, Way
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.runtime.errors import StageError

Floats = NDArray[np.float64]

LEAST_PART = 0.02
"""A drop below this part of the whole loss is not scaled to that of the case's run: its ratio would say nothing."""

MOST_RATIO = 1.5
"""Nor is one whose ratio to that of the coarse lattice is beyond this or its inverse: the remainder is added to R."""


LEAST_MOVED = 0.01
"""Change of a branch's part of what arrives at its fork from which on a loss can be told of it."""


def fitted(flow: Floats, drop: Floats, whole: Floats) -> Loss:
    """R and K of least squares.

    Parameters
    ----------
    flow, drop : (runs,) of a branch, mL/s, mmHg.
    whole : (runs,) loss of each run, by which differences are measured.
    """
    linear, square = _least_squares((flow, flow * np.abs(flow)), drop, whole)
    return Loss(resistance_mmhg_s_ml=linear, square_mmhg_s2_ml2=square)


def _with_division(flow: Floats, moved: Floats, drop: Floats, whole: Floats) -> tuple[Loss, float]:
    """R and K, and D of the flow that a fork moved, of least squares."""
    linear, square, division = _least_squares((flow, flow * np.abs(flow), moved), drop, whole)
    return Loss(resistance_mmhg_s_ml=linear, square_mmhg_s2_ml2=square), division


def _least_squares(columns: Sequence[Floats], drop: Floats, whole: Floats) -> list[float]:
    """Coefficients of columns, 0 where all are; each row by its whole loss, each column by its largest entry."""
    terms = np.column_stack(columns) / whole[:, None]
    scale = np.where(terms.any(axis=0), np.abs(terms).max(axis=0), 1.0)
    found = np.linalg.lstsq(terms / scale, drop / whole, rcond=None)[0] / scale
    return [float(value) for value in found]


def scaled(loss: Loss, flow_ml_s: float, drop_mmhg: float, whole_mmhg: float, excess_mmhg: float = 0.0) -> Loss:
    """The loss, by what the drop in the case's run is over that on the coarse lattice.

    A fit that is above that of a run at its middle flow, as of losses with a power between 1 and 2, and below at the
    others, stays so: a fit through the case's own run would be off by all of it at half and twice the flow.

    Parameters
    ----------
    loss : fitted on the coarse lattice.
    flow_ml_s, drop_mmhg, whole_mmhg : flow, drop, and loss of the whole vessel in the run of the case.
    excess_mmhg : of the fit over the run on the coarse lattice at the flow of the case.
    """
    before = loss.at(flow_ml_s) - excess_mmhg
    ratio = drop_mmhg / before if abs(before) > LEAST_PART * whole_mmhg else 0.0
    if 1 / MOST_RATIO < ratio < MOST_RATIO:
        return Loss(
            resistance_mmhg_s_ml=ratio * loss.resistance_mmhg_s_ml, square_mmhg_s2_ml2=ratio * loss.square_mmhg_s2_ml2
        )
    more = (drop_mmhg - before) / flow_ml_s if flow_ml_s else 0.0
    return Loss(resistance_mmhg_s_ml=loss.resistance_mmhg_s_ml + more, square_mmhg_s2_ml2=loss.square_mmhg_s2_ml2)


def whole_loss(run: Run) -> float:
    """Power that a run loses between its openings over its inflow, mmHg."""
    inflow = power = 0.0
    for name, each in run.openings.items():
        sign = 1 if each["role"] == "inlet" else -1
        power += sign * run.total[name] * each["monitored_flow_ml_s"]
        inflow += each["monitored_flow_ml_s"] if sign > 0 else 0.0
    return power / inflow


def on_whole(again: Run, indices: Mapping[str, Any]) -> Run:
    """The run of a case along whose branches nothing was measured: what its openings say, and at joints inside what the
    run on the coarse lattice has there, its losses scaled by the ratio of the whole losses.

    Parameters
    ----------
    again : at the case's flow on the coarse lattice.
    indices : figures of the case, as in ``indices.json``.
    """
    openings = {each["name"]: each for each in indices["openings"]}
    total = {
        name: (each["pressure_pa"] if each["total_pressure_pa"] is None else each["total_pressure_pa"])
        / PASCAL_PER_MMHG
        for name, each in openings.items()
    }
    case = Run(1.0, openings, again.flow, total, {})
    ratio = whole_loss(case) / whole_loss(again)
    inlet = next(name for name, each in openings.items() if each["role"] == "inlet")
    inside = {
        joint: total[inlet] - ratio * (again.total[inlet] - value)
        for joint, value in again.total.items()
        if joint not in total
    }
    return replace(case, total=total | inside)


def model_of(
    case: Run,
    others: Sequence[Run],
    ways: Sequence[Way],
    shapes: Mapping[str, Shape],
    summary: Mapping[str, Any],
    spacing_ratio: float,
    reservations: Sequence[str] = (),
    divided: Run | None = None,
) -> ReducedModel:
    """The reduced model of a vessel.

    Parameters
    ----------
    case : the run of the case.
    others : runs at several flows, at that of the case too, on one lattice.
    ways, shapes : its branches, and the integrals along them.
    summary : ``solve.json`` of the case, which says what holds at outlets.
    spacing_ratio : spacing of the others' lattice over that of the case's.
    reservations : what is known of where it does not hold.
    divided : a run on the others' lattice in which the flow divides otherwise than in these; none without forks.

    Raises
    ------
    StageError
        If the runs lose no pressure, or are fewer than two.
    """
    if len(others) < 2:
        raise StageError(
            f"{len(others)} runs at other flows ended, and a linear and a square loss need two of them:"
            f" {'; '.join(reservations)}"
        )
    whole = np.array([whole_loss(run) for run in others])
    if not (whole > 0).all() or not whole_loss(case) > 0:
        raise StageError("the total pressure does not fall from the inlets to the outlets: no reduced model")
    every = (*others, divided) if divided else tuple(others)
    branches = tuple(_branch(way, shapes[way.name], _Feeding.of(way, ways), case, every) for way in ways)
    openings = tuple(_opening(name, case, others, summary) for name in case.openings)
    again = next((run for run in others if run.factor == 1.0), None)
    factors = [run.factor for run in others]
    found = ReducedModel(
        density_kg_m3=summary["numbers"]["density_kg_m3"],
        viscosity_pa_s=summary["numbers"]["viscosity_m2_s"] * summary["numbers"]["density_kg_m3"],
        factors=(min(factors), max(factors)),
        branches=branches,
        openings=openings,
        spacing_ratio=spacing_ratio,
        coarse_error=whole_loss(again) / whole_loss(case) - 1 if again else 0.0,
        reservations=(*reservations, *_doubts(branches)),
    )
    points = [point for run in others for point in compared(found, run, "coarse")]
    return found.model_copy(update={"points": (*compared(found, case, "case"), *points)})


@dataclass(frozen=True)
class _Feeding:
    """Ways that bring the flow to the start of one, by name; none at an inlet."""

    names: tuple[str, ...]

    @staticmethod
    def of(way: Way, ways: Sequence[Way]) -> "_Feeding":
        return _Feeding(tuple(other.name for other in ways if other.stop == way.start))

    def arriving(self, run: Run) -> float:
        """Flow that arrives, mL/s."""
        return sum(run.flow[name] for name in self.names)

    def part(self, way: Way, run: Run) -> float:
        """What a way has of it; 1 where none arrives."""
        arriving = self.arriving(run)
        return run.flow[way.name] / arriving if arriving else 1.0


def _branch(way: Way, shape: Shape, feeding: _Feeding, case: Run, runs: Sequence[Run]) -> ReducedBranch:
    """One branch."""
    flow, part = np.array([run.flow[way.name] for run in runs]), feeding.part(way, case)
    drop = np.array([run.total[way.start] - run.total[way.stop] for run in runs])
    whole = np.array([whole_loss(run) for run in runs])
    arriving = np.array([feeding.arriving(run) for run in runs])
    moved = (flow - part * arriving) * np.abs(arriving)
    divided = max((abs(feeding.part(way, run) - part) for run in runs), default=0.0)
    loss, division = fitted(flow, drop, whole), 0.0
    if feeding.names and divided > LEAST_MOVED and len(runs) > 2:
        loss, division = _with_division(flow, moved, drop, whole)
    rest = drop - [loss.at(q) for q in flow] - division * moved
    here, now = case.flow[way.name], case.total[way.start] - case.total[way.stop]
    return ReducedBranch(
        **scaled(loss, here, now, whole_loss(case), _excess(loss, flow, drop, runs)).model_dump(),
        name=way.name,
        start=way.start,
        stop=way.stop,
        inertance_mmhg_s2_ml=shape.inertance_mmhg_s2_ml,
        poiseuille_mmhg_s_ml=shape.poiseuille_mmhg_s_ml,
        length_mm=way.length_mm,
        least_area_mm2=shape.least_area_mm2,
        flow_ml_s=here,
        fitted_ml_s=(float(min(flow.min(), here)), float(max(flow.max(), here))),
        misfit=float(np.abs(rest / whole).max()),
        part=part,
        division_mmhg_s2_ml2=division,
        divided=divided if division else 0.0,
        lowest=_lowest(way, case, runs, whole),
    )


def _lowest(way: Way, case: Run, runs: Sequence[Run], whole: Floats) -> Loss | None:
    """Total pressure at the start of a branch less the least static pressure along it; none without sections."""
    if not all(way.name in run.least for run in (case, *runs)):
        return None
    flow = np.array([run.flow[way.name] for run in runs])
    depth = np.array([run.total[way.start] - run.least[way.name] for run in runs])
    loss, here = fitted(flow, depth, whole), case.total[way.start] - case.least[way.name]
    return scaled(loss, case.flow[way.name], here, whole_loss(case), _excess(loss, flow, depth, runs))


def _excess(loss: Loss, flow: Floats, drop: Floats, runs: Sequence[Run]) -> float:
    """What a fit gives more than the run at the flow of the case on the coarse lattice, mmHg; 0 without such a run."""
    for k, run in enumerate(runs):
        if run.factor == 1.0:
            return loss.at(float(flow[k])) - float(drop[k])
    return 0.0


def _opening(name: str, case: Run, others: Sequence[Run], summary: Mapping[str, Any]) -> Opening:
    """One opening, with what holds there."""
    entry = case.openings[name]
    flow = entry["monitored_flow_ml_s"]
    pressure = entry["pressure_pa"] / PASCAL_PER_MMHG
    flows = np.abs([run.openings[name]["monitored_flow_ml_s"] for run in others])
    heads = np.array([_head(run, name) for run in others])
    whole = np.array([whole_loss(run) for run in others])
    loss = fitted(flows, heads, whole)
    head = scaled(loss, abs(flow), _head(case, name), whole_loss(case), _excess(loss, flows, heads, others))
    return Opening(
        name=name,
        role=entry["role"],
        area_mm2=np.pi * entry["radius_mm"] ** 2,
        head=head,
        flow_ml_s=flow,
        pressure_mmhg=pressure,
        law=_law(summary["openings"][name], pressure) if entry["role"] == "outlet" else None,
    )


def _head(run: Run, name: str) -> float:
    """Total less static pressure of an opening, mmHg."""
    return run.total[name] - float(run.openings[name]["pressure_pa"]) / PASCAL_PER_MMHG


def _law(says: Mapping[str, Any], pressure_mmhg: float) -> Law:
    """What the solver let hold at an outlet."""
    if says.get("distal_mmhg_s_ml") is not None:
        return Behind(**{key: says[key] for key in Behind.model_fields if key != "type" and key in says})
    if says.get("demanded"):
        return Share(part=says["flow_fraction"])
    return Held(pressure_mmhg=pressure_mmhg)


def compared(model: ReducedModel, run: Run, lattice: str) -> list[Point]:
    """What the model says at the flow of a run, beside what the run gave: drops between inlets and outlets.

    Parameters
    ----------
    model : fitted to runs.
    run : whose flow it is asked for.
    lattice : of the run, ``case`` or another.
    """
    says: Answer = answered(model, What(factor=run.factor), beyond=True)
    pressure, inlets, outlets = says.pressure_mmhg, model.with_role("inlet"), model.with_role("outlet")
    static = {name: each["pressure_pa"] / PASCAL_PER_MMHG for name, each in run.openings.items()}
    return [
        Point(
            inlet=inlet.name,
            outlet=outlet.name,
            factor=run.factor,
            lattice="case" if lattice == "case" else "coarse",
            drop_mmhg=static[inlet.name] - static[outlet.name],
            total_drop_mmhg=run.total[inlet.name] - run.total[outlet.name],
            reduced_mmhg=pressure[inlet.name] - pressure[outlet.name],
            reduced_total_mmhg=says.total_mmhg[inlet.name] - says.total_mmhg[outlet.name],
        )
        for inlet in inlets
        for outlet in outlets
    ]


def _doubts(branches: Sequence[ReducedBranch]) -> list[str]:
    """Where the fit itself says that it does not hold."""
    found = []
    for branch in branches:
        low, high = branch.fitted_ml_s
        if low < 0 < high:
            found.append(f"the flow in branch {branch.name} turns round between the runs: what it loses is not known")
        elif branch.slope(max(abs(low), abs(high))) <= 0 and abs(branch.at(high)) > 0:
            found.append(
                f"the pressure in branch {branch.name} falls by less where more flows, as behind a fork that gives it"
                " energy: it holds for the division of flow of the runs alone"
            )
    return found
