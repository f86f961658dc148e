# SPDX-License-Identifier: Apache-2.0
"""What a run in three dimensions says of the joints and branches of its vessel: pressures and flows, and the ways."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.haemodynamics.centreline_profile import Row
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.runtime.errors import StageError

MM, ML = 1e-3, 1e-6
FIRM = 1e3
"""Weight of the balance of flow at joints against the flow that is counted at sections."""


@dataclass(frozen=True)
class Way:
    """A branch as the model knows it.

    Attributes
    ----------
    id : of the branch in the tree.
    start, stop : names of its joints.
    length_mm : from joint to joint.
    radius_mm : mean of the largest ball in its sections.
    """

    id: int
    start: str
    stop: str
    length_mm: float
    radius_mm: float

    @property
    def name(self) -> str:
        """For people, and unlike that of any other way."""
        return f"{self.id}: {self.start} to {self.stop}"


@dataclass(frozen=True)
class Run:
    """Pressures in mmHg and flows in mL/s of one run.

    Attributes
    ----------
    factor : of its inflow, by that of the case.
    openings : entries of ``indices.json`` by name.
    flow : of each way, from its start to its stop.
    total : mean total pressure of each joint, weighted with the flow.
    least : of each way with sections, the least static pressure along it.
    """

    factor: float
    openings: Mapping[str, Mapping[str, Any]]
    flow: Mapping[str, float]
    total: Mapping[str, float]
    least: Mapping[str, float]


def require_ends(ways: Sequence[Way], openings: Sequence[Mapping[str, Any]]) -> None:
    """Refuse branches that do not lead to every opening.

    Parameters
    ----------
    ways : the branches.
    openings : entries of ``indices.json``.

    Raises
    ------
    StageError
        If an opening is at the end of no branch.
    """
    ends = {joint for way in ways for joint in (way.start, way.stop)}
    if lost := [each["name"] for each in openings if each["name"] not in ends]:
        raise StageError(f"no branch of the centreline ends at opening {', '.join(lost)}; run centreline again")


def run_of(factor: float, indices: Mapping[str, Any], rows: Sequence[Row], ways: Sequence[Way]) -> Run:
    """What a run says.

    The total pressure of a joint inside the vessel is that of the last section of the branch that brings the flow, so
    that what the joint takes counts with the branches behind it; of several, their mean weighted with the flow.

    Parameters
    ----------
    factor : of its inflow, by that of the case.
    indices : as in ``indices.json``.
    rows : as in ``centreline_flow.csv``.
    ways : branches through which flow passes.

    Raises
    ------
    StageError
        If a joint has no section before it from which its pressure could be taken.
    """
    openings = {each["name"]: each for each in indices["openings"]}
    sections = {way.name: _sections(rows, way) for way in ways}
    flow = _flows(ways, openings, sections)
    total = {
        name: (each["pressure_pa"] if each["total_pressure_pa"] is None else each["total_pressure_pa"])
        / PASCAL_PER_MMHG
        for name, each in openings.items()
    }
    waiting = list(dict.fromkeys(joint for way in ways for joint in (way.start, way.stop) if joint not in total))
    while waiting:
        found = {joint: value for joint in waiting if (value := _total(joint, ways, flow, sections, total)) is not None}
        if not found:
            raise StageError(
                f"joints {', '.join(waiting)}: no section of a single vessel before them, from which their pressure"
                " could be taken; this vessel has no reduced model"
            )
        total |= found
        waiting = [joint for joint in waiting if joint not in found]
    least = {name: min(row["pressure_pa"] for row in mine) / PASCAL_PER_MMHG for name, mine in sections.items() if mine}
    return Run(factor, openings, flow, total, least)


def _sections(rows: Sequence[Row], way: Way) -> list[Row]:
    """The rows of a way that have a section and a flow through it, in their order."""
    return [row for row in rows if row["branch"] == way.id and np.isfinite(row["total_pressure_pa"])]


def _total(
    joint: str,
    ways: Sequence[Way],
    flow: Mapping[str, float],
    sections: Mapping[str, Sequence[Row]],
    known: Mapping[str, float],
) -> float | None:
    """Total pressure of a joint, mmHg; none where what brings the flow has no section and begins at a joint that is
    not known yet.
    """
    weights, values = [], []
    for way in ways:
        arriving = flow[way.name] if way.stop == joint else -flow[way.name] if way.start == joint else 0.0
        if arriving <= 0:
            continue
        mine, other = sections[way.name], way.start if way.stop == joint else way.stop
        if mine:
            last = mine[-1] if way.stop == joint else mine[0]
            value = last["total_pressure_pa"] / PASCAL_PER_MMHG
        elif other in known:
            value = known[other]
        else:
            return None
        weights.append(arriving)
        values.append(value)
    return float(np.average(values, weights=weights)) if values else None


def _flows(
    ways: Sequence[Way], openings: Mapping[str, Mapping[str, Any]], sections: Mapping[str, Sequence[Row]]
) -> dict[str, float]:
    """Flow of each way: the balance at every joint, with what the solver counted at the openings, and the mean over its
    sections where the balance alone leaves it open, as in a loop.
    """
    joints = list(dict.fromkeys(joint for way in ways for joint in (way.start, way.stop)))
    balance, leaving = np.zeros((len(joints), len(ways))), np.zeros(len(joints))
    for k, way in enumerate(ways):
        balance[joints.index(way.start), k] += 1
        balance[joints.index(way.stop), k] -= 1
    for name, each in openings.items():
        sign = 1 if each["role"] == "inlet" else -1
        leaving[joints.index(name)] = sign * each["monitored_flow_ml_s"]
    seen = [k for k, way in enumerate(ways) if sections[way.name]]
    counted = np.array([np.mean([row["flow_ml_s"] for row in sections[ways[k].name]]) for k in seen])
    equations = np.vstack((FIRM * balance, np.eye(len(ways))[seen]))
    values = np.concatenate((FIRM * leaving, counted))
    found = np.linalg.lstsq(equations, values, rcond=None)[0]
    return {way.name: float(value) for way, value in zip(ways, found, strict=True)}


@dataclass(frozen=True)
class Shape:
    """Integrals along a way: what friction and inertia of a round vessel of its sections would be.

    Attributes
    ----------
    poiseuille_mmhg_s_ml : 8 pi mu times the integral of ds/A^2.
    inertance_mmhg_s2_ml : rho times the integral of ds/A.
    least_area_mm2 : of its sections.
    """

    poiseuille_mmhg_s_ml: float
    inertance_mmhg_s2_ml: float
    least_area_mm2: float


def shape_of(way: Way, rows: Sequence[Row], density_kg_m3: float, viscosity_pa_s: float, steps: int = 400) -> Shape:
    """The integrals along a way.

    Areas between sections are interpolated, and those beyond the first and the last section are theirs; where there is
    no section, it is a round tube of the mean radius.

    Parameters
    ----------
    way : the branch.
    rows : as in ``centreline_flow.csv``.
    density_kg_m3, viscosity_pa_s : of the blood.
    steps : of the integrals.
    """
    mine = _sections(rows, way)
    along = [row["way_mm"] for row in mine] or [0.0]
    areas = [row["area_mm2"] for row in mine] or [np.pi * way.radius_mm**2]
    middles = (np.arange(steps) + 0.5) * way.length_mm / steps
    section = np.interp(middles, along, areas) * MM**2
    step = way.length_mm * MM / steps
    per_flow = PASCAL_PER_MMHG / ML
    return Shape(
        float(8 * np.pi * viscosity_pa_s * (step / section**2).sum() / per_flow),
        float(density_kg_m3 * (step / section).sum() / per_flow),
        float(np.min(areas)),
    )
