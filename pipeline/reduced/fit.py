# SPDX-License-Identifier: Apache-2.0
"""Fit: the model that reproduces the runs of a vessel at several flows.

R and K of a branch are those whose drops R Q + K Q|Q| differ least, as parts of the whole loss of their run, from those
of the runs at other flows, which are on a coarse lattice; then both are multiplied by the ratio of the drop in the run
of the case to that of the fit at its flow, so that the case's own run is reproduced. A linear and a square part are
what Young and Tsai (1973), doi:10.1016/0021-9290(73)90099-7, found of stenoses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.reduced.answer import Answer, What, answered
from pipeline.reduced.model import Behind, Held, Law, Limb, Loss, Opening, Point, ReducedModel, Share
from pipeline.reduced.runs import Run, Shape, Way
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.runtime.errors import StageError

Floats = NDArray[np.float64]

LEAST_PART = 0.02
"""A drop below this part of the whole loss is not scaled to that of the case's run: its ratio would say nothing."""

MOST_RATIO = 1.5
"""Nor is one whose ratio to that of the coarse lattice is beyond this or its inverse: the remainder is added to R."""


def fitted(flow: Floats, drop: Floats, whole: Floats) -> Loss:
    """R and K of least squares.

    Parameters
    ----------
    flow, drop : (runs,) of a branch, mL/s, mmHg.
    whole : (runs,) loss of each run, by which differences are measured.
    """
    if not np.any(flow):
        return Loss(resistance_mmhg_s_ml=0.0, square_mmhg_s2_ml2=0.0)
    terms = np.column_stack((flow, flow * np.abs(flow))) / whole[:, None]
    scale = np.abs(terms).max(axis=0)
    linear, square = np.linalg.lstsq(terms / scale, drop / whole, rcond=None)[0] / scale
    return Loss(resistance_mmhg_s_ml=float(linear), square_mmhg_s2_ml2=float(square))


def scaled(loss: Loss, flow_ml_s: float, drop_mmhg: float, whole_mmhg: float) -> Loss:
    """The loss, such that it has the drop of the case's run at its flow."""
    before = loss.at(flow_ml_s)
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
    limbs = tuple(_limb(way, shapes[way.name], case, others, whole) for way in ways)
    openings = tuple(_opening(name, case, others, summary) for name in case.openings)
    again = next((run for run in others if run.factor == 1.0), None)
    factors = [run.factor for run in others]
    found = ReducedModel(
        density_kg_m3=summary["numbers"]["density_kg_m3"],
        viscosity_pa_s=summary["numbers"]["viscosity_m2_s"] * summary["numbers"]["density_kg_m3"],
        factors=(min(factors), max(factors)),
        limbs=limbs,
        openings=openings,
        spacing_ratio=spacing_ratio,
        coarse_error=whole_loss(again) / whole_loss(case) - 1 if again else 0.0,
        reservations=(*reservations, *_doubts(limbs)),
    )
    points = [point for run in others for point in compared(found, run, "coarse")]
    return found.model_copy(update={"points": (*compared(found, case, "case"), *points)})


def _limb(way: Way, shape: Shape, case: Run, others: Sequence[Run], whole: Floats) -> Limb:
    """One branch."""
    flow = np.array([run.flow[way.name] for run in others])
    drop = np.array([run.total[way.start] - run.total[way.stop] for run in others])
    loss = fitted(flow, drop, whole)
    misfit = max(abs(loss.at(q) - p) / w for q, p, w in zip(flow, drop, whole, strict=True))
    here, now = case.flow[way.name], case.total[way.start] - case.total[way.stop]
    loss = scaled(loss, here, now, whole_loss(case))
    lowest = None
    if all(way.name in run.least for run in (case, *others)):
        depth = np.array([run.total[way.start] - run.least[way.name] for run in others])
        lowest = fitted(flow, depth, whole)
        lowest = scaled(lowest, here, case.total[way.start] - case.least[way.name], whole_loss(case))
    return Limb(
        **loss.model_dump(),
        name=way.name,
        start=way.start,
        stop=way.stop,
        inertance_mmhg_s2_ml=shape.inertance_mmhg_s2_ml,
        poiseuille_mmhg_s_ml=shape.poiseuille_mmhg_s_ml,
        length_mm=way.length_mm,
        least_area_mm2=shape.least_area_mm2,
        flow_ml_s=here,
        fitted_ml_s=(float(min(flow.min(), here)), float(max(flow.max(), here))),
        misfit=float(misfit),
        lowest=lowest,
    )


def _opening(name: str, case: Run, others: Sequence[Run], summary: Mapping[str, Any]) -> Opening:
    """One opening, with what holds there."""
    entry = case.openings[name]
    flow = entry["monitored_flow_ml_s"]
    pressure = entry["pressure_pa"] / PASCAL_PER_MMHG
    squares = [run.openings[name]["monitored_flow_ml_s"] ** 2 for run in (case, *others)]
    heads = [run.total[name] - run.openings[name]["pressure_pa"] / PASCAL_PER_MMHG for run in (case, *others)]
    kinetic = float(np.dot(squares, heads) / np.dot(squares, squares)) if any(squares) else 0.0
    return Opening(
        name=name,
        role=entry["role"],
        area_mm2=np.pi * entry["radius_mm"] ** 2,
        kinetic_mmhg_s2_ml2=kinetic,
        flow_ml_s=flow,
        pressure_mmhg=pressure,
        law=_law(summary["openings"][name], pressure) if entry["role"] == "outlet" else None,
    )


def _law(says: Mapping[str, Any], pressure_mmhg: float) -> Law:
    """What the solver let hold at an outlet."""
    if says.get("distal_mmhg_s_ml") is not None:
        return Behind(**{key: says[key] for key in Behind.model_fields if key != "type" and key in says})
    if says.get("demanded"):
        return Share(part=says["flow_fraction"])
    return Held(pressure_mmhg=pressure_mmhg)


def compared(model: ReducedModel, run: Run, lattice: str) -> list[Point]:
    """What the model says at the flow of a run, beside what the run gave: drops between inlets and outlets."""
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


def _doubts(limbs: Sequence[Limb]) -> list[str]:
    """Where the fit itself says that it does not hold."""
    found = []
    for limb in limbs:
        low, high = limb.fitted_ml_s
        if low < 0 < high:
            found.append(f"the flow in branch {limb.name} turns round between the runs: what it loses is not known")
        elif limb.slope(max(abs(low), abs(high))) <= 0 and abs(limb.at(high)) > 0:
            found.append(
                f"the pressure in branch {limb.name} falls by less where more flows, as behind a fork that gives it"
                " energy: it holds for the division of flow of the runs alone"
            )
    return found
