# SPDX-License-Identifier: Apache-2.0
"""Numbers that sum up a flow: what stands in ``indices.json``, and the solver's records that they need."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.haemodynamics.accumulator import WallAccumulator
from pipeline.haemodynamics.advice import in_words
from pipeline.haemodynamics.centreline_profile import CentrelineProfile, Row
from pipeline.haemodynamics.energy import Energy, kinetic_change_w
from pipeline.haemodynamics.flow_checks import centreline_checks, energy_checks, lattice_checks
from pipeline.haemodynamics.percentiles import weighted_percentiles
from pipeline.haemodynamics.wall_indices import oscillatory_shear_index
from pipeline.haemodynamics.wall_shear_stress import Wall, WallFit, near_openings
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.domain.nodes import Nodes, Opening
from solver.runtime.errors import StageError

LOW_SHEAR_PA = (0.4, 1.0, 1.5)
"""Limits for the area of low wall shear stress: arteries are prone to disease below 0.4 Pa, usually above 1 Pa, and
protected above 1.5 Pa. Source: Malek, Alper and Izumo (1999), doi:10.1001/jama.282.21.2035."""

MIN_RATIO_MMHG = 20.0
"""A ratio of pressures is reported where the mean pressure at every opening is at least this: pressures are computed
up to the level that is set at the outlets. At the default of 0 mmHg a ratio says nothing; no artery has so low a
mean.
"""

RATIO = (
    "Mean static pressure behind over that in front, computed for the flow that was assumed, in rigid walls, and not"
    " under hyperaemia unless the inflow was that of hyperaemia. It is not a measured fractional flow reserve"
    " (Pijls et al. 1996, doi:10.1056/NEJM199606273342604) and no substitute for it."
)


@dataclass(frozen=True)
class WallSums:
    """Sums of a flow over its times, and the wall that they were taken on.

    Attributes
    ----------
    nodes, wall, fit : the lattice, the wall, and the operator onto it.
    accumulator, energy : the sums over the times.
    rim_mm : the wall that near to a cap is left out of the statistics.
    """

    nodes: Nodes
    wall: Wall
    fit: WallFit
    accumulator: WallAccumulator
    energy: Energy
    rim_mm: float


@dataclass(frozen=True)
class SolverSays:
    """What the solver says of its run.

    Attributes
    ----------
    summary : choices and outcome (``solve.json``).
    monitored_ml_s : flow through each opening, counted link by link, positive along the opening's role.
    record : columns over the whole run (``monitor.csv``), each (rows,); may be empty.
    """

    summary: Mapping[str, Any]
    monitored_ml_s: Mapping[str, float]
    record: Mapping[str, NDArray[np.float64]]

    @property
    def period_s(self) -> float | None:
        """The period of the flow; none of a steady one."""
        return self.summary["numbers"].get("period_s")


def indices(
    sums: WallSums,
    run: SolverSays,
    profile: tuple[CentrelineProfile, list[Row]] | None,
    of_sacs: Iterable[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Numbers that sum up a flow, warnings first.

    Parameters
    ----------
    sums : over the times of the flow.
    run : what the solver says of it.
    profile : the sums over the times along the branches, and their rows; none where there is no centreline.
    of_sacs : checks of the sacs.

    Returns
    -------
    As it stands in ``indices.json``; means over the times unless the key says otherwise.
    """
    nodes, accumulator, summary, record = sums.nodes, sums.accumulator, run.summary, run.record
    openings = _openings(nodes, accumulator, sums.energy, run)
    lowest = min(openings, key=lambda opening: opening["pressure_mmhg"], default=None)
    physiological = bool(lowest and lowest["pressure_mmhg"] >= MIN_RATIO_MMHG)
    branches = profile[0].of_branches(profile[1]) if profile else []
    moving = "moves" in summary.get("models", {}).get("patches", {}).values()
    found: dict[str, Any] = {
        "times": accumulator.times,
        "openings": openings,
        "pressure_drops": _pressure_drops(nodes, accumulator, physiological),
        "pressure_ratio_note": RATIO if physiological else _no_ratio(lowest),
        "centreline": branches,
        "stenoses": profile[0].narrowings(profile[1], physiological) if profile else [],
        "wall": _wall(nodes, sums.wall, accumulator, sums.rim_mm),
        "peak_speed_m_s": accumulator.peak_speed_m_s,
        "peak_speed_at_mm": accumulator.peak_at_mm.tolist(),
        "kinetic_energy_j": accumulator.kinetic_energy_j / accumulator.times,
        "energy": sums.energy.balance(kinetic_change_w(record, run.period_s), moving),
        "mach_max": float(np.max(record["mach"])) if "mach" in record else float(summary["mach"]),
    }
    checks = lattice_checks(nodes, openings, sums.fit.nearest / len(sums.wall.normals), summary)
    checks += centreline_checks(nodes, profile[0], branches) if profile else []
    checks = in_words([*checks, *energy_checks(found["energy"]), *of_sacs])
    warnings = [*summary["warnings"], *(each["advice"] for each in checks if not each["passed"])]
    state = {key: summary.get(key) for key in ("unsettled", "unsteady")}
    return {"warnings": warnings, **state, "checks": checks} | found


def _openings(nodes: Nodes, accumulator: WallAccumulator, energy: Energy, run: SolverSays) -> list[dict[str, Any]]:
    """Flow, speed, pressure, Reynolds number 2 R U/nu and Womersley number R sqrt(omega/nu) of each opening.

    nu is the mean effective viscosity at the opening over the density; omega that of the period.
    """
    found, summary, period = [], run.summary, run.period_s
    flows, totals = accumulator.flow_ml_s / accumulator.times, energy.total_pressures_pa()
    for k, opening in enumerate(nodes.openings):
        flow = float(flows[k])
        mean_speed = flow / opening.area_mm2
        pressure = float(accumulator.opening_pressure_pa[k] / accumulator.times)
        kinematic = float(energy.opening_viscosity_pa_s[k] / energy.times / summary["numbers"]["density_kg_m3"])
        per_speed = 2e-3 * opening.radius_mm / kinematic
        of_role = sum(flows[j] for j, other in enumerate(nodes.openings) if other.role == opening.role)
        ranges = _ranges(opening, run.record, period) or {"flow": (flow, flow), "pressure": (pressure, pressure)}
        found.append(
            {
                "id": opening.id,
                "name": opening.name,
                "role": opening.role,
                "radius_mm": opening.radius_mm,
                "imposed_flow_ml_s": summary["openings"][opening.name].get("imposed_flow_ml_s"),
                "monitored_flow_ml_s": run.monitored_ml_s[opening.name],
                "flow_ml_s": flow,
                "flow_min_ml_s": ranges["flow"][0],
                "flow_max_ml_s": ranges["flow"][1],
                "flow_share": float(flow / of_role) if of_role else None,
                "mean_speed_m_s": mean_speed,
                "peak_speed_m_s": float(accumulator.opening_peak_m_s[k]),
                "pressure_pa": pressure,
                "pressure_mmhg": pressure / PASCAL_PER_MMHG,
                "pressure_min_pa": ranges["pressure"][0],
                "pressure_max_pa": ranges["pressure"][1],
                "total_pressure_pa": totals[k],
                "reynolds": per_speed * abs(mean_speed),
                "reynolds_peak": per_speed * max(map(abs, ranges["flow"])) / opening.area_mm2,
                "womersley": 1e-3 * opening.radius_mm * float(np.sqrt(2 * np.pi / (period * kinematic)))
                if period
                else None,
            }
        )
    return found


def _ranges(
    opening: Opening, record: Mapping[str, NDArray[np.float64]], period_s: float | None
) -> dict[str, tuple[float, float]] | None:
    """Least and largest flow, mL/s, and pressure, Pa, over the last period of the record; none of a steady flow."""
    if not period_s or not len(record.get("time_s", ())):
        return None
    time = record["time_s"]
    last = time > time[-1] - period_s * (1 - 1e-9)
    columns = {
        key: record[monitor_column(opening, quantity)][last]
        for key, quantity in (("flow", "flow_ml_s"), ("pressure", "pressure_pa"))
    }
    return {key: (float(values.min()), float(values.max())) for key, values in columns.items()}


def _pressure_drops(nodes: Nodes, accumulator: WallAccumulator, physiological: bool) -> list[dict[str, Any]]:
    """Static pressure of each inlet less that of each outlet, and their ratio where it has a meaning."""
    pressure = dict(
        zip((o.name for o in nodes.openings), accumulator.opening_pressure_pa / accumulator.times, strict=True)
    )
    pairs = [
        (inlet.name, outlet.name)
        for inlet in nodes.openings
        if inlet.role == "inlet"
        for outlet in nodes.openings
        if outlet.role == "outlet"
    ]
    return [
        {
            "inlet": inlet,
            "outlet": outlet,
            "drop_pa": float(pressure[inlet] - pressure[outlet]),
            "drop_mmhg": float(pressure[inlet] - pressure[outlet]) / PASCAL_PER_MMHG,
            "pressure_ratio": float(pressure[outlet] / pressure[inlet]) if physiological else None,
        }
        for inlet, outlet in pairs
    ]


def _no_ratio(lowest: Mapping[str, Any] | None) -> str:
    if lowest is None:
        return "No ratio of pressures: there are no openings."
    return (
        f"No ratio of pressures: the mean pressure at {lowest['name']} is {lowest['pressure_mmhg']:.3g} mmHg, less than"
        f" the {MIN_RATIO_MMHG:g} mmHg below which no artery is. Pressures count from those that are set at the"
        " outlets; for a ratio give these their true level (solve.outlets)."
    )


def _wall(nodes: Nodes, wall: Wall, accumulator: WallAccumulator, rim_mm: float) -> dict[str, Any]:
    """Area-weighted statistics of the wall shear stress, without the rims that the openings' conditions touch."""
    counted = ~near_openings(wall, nodes.openings, rim_mm)
    shear, area = accumulator.shear_magnitude[counted] / accumulator.times, wall.areas_mm2[counted]
    total = float(area.sum())
    if not total > 0:
        raise StageError(
            f"no wall is further than {rim_mm:.3g} mm from the openings, at a spacing of {nodes.spacing_mm:g} mm;"
            " use a finer spacing"
        )
    low, median, high = weighted_percentiles(shear, area, (1, 50, 99))
    found: dict[str, Any] = {
        "area_mm2": float(wall.areas_mm2.sum()),
        "counted_area_mm2": total,
        "shear_mean_pa": float(area @ shear) / total,
        "shear_min_pa": float(shear.min()),
        "shear_p01_pa": low,
        "shear_median_pa": median,
        "shear_p99_pa": high,
        "shear_max_pa": float(shear.max()),
        "low_shear_fraction": {f"{limit:g} Pa": float(area[shear < limit].sum()) / total for limit in LOW_SHEAR_PA},
    }
    if accumulator.noise:
        found["shear_noise"] = float(np.mean([noise.found for noise in accumulator.noise]))
        found["shear_noise_left"] = float(np.mean([noise.left for noise in accumulator.noise]))
    if accumulator.times > 1:
        found["osi_mean"] = float(area @ oscillatory_shear_index(accumulator)[counted]) / total
    return found


def read_monitor(path: Path) -> dict[str, NDArray[np.float64]]:
    """Columns of the solver's record by name, each (rows,).

    Raises
    ------
    StageError
        If the file holds no row, or something that is no number.
    """
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    if not rows:
        raise StageError(f"{path}: the solver recorded nothing; run solve again")
    try:
        return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    except (TypeError, ValueError):
        raise StageError(f"{path}: a value is missing or no number; run solve again") from None


def monitored_flows_ml_s(
    monitor: Mapping[str, NDArray[np.float64]], openings: Iterable[Opening], since_s: float
) -> dict[str, float]:
    """Mean flow through each opening over the solver's record from a time on, or its last value; mL/s.

    Parameters
    ----------
    monitor : columns of the record by name (:func:`read_monitor`).
    openings : whose flow is wanted.
    since_s : first time that counts.

    Returns
    -------
    By the names of the openings, positive along their role.
    """
    rows = np.flatnonzero(monitor["time_s"] >= since_s)
    rows = rows if len(rows) else np.array([-1])
    return {each.name: float(monitor[monitor_column(each, "flow_ml_s")][rows].mean()) for each in openings}


def monitor_column(opening: Opening, quantity: str) -> str:
    """Name of an opening's column in the solver's record; the quantity is ``flow_ml_s`` or ``pressure_pa``."""
    return f"{quantity}:{opening.name}"


def shown_step(
    times_s: NDArray[np.float64], monitor: Mapping[str, NDArray[np.float64]], openings: tuple[Opening, ...]
) -> int:
    """The time step that pictures show: the one with the largest inflow.

    Parameters
    ----------
    times_s : (T,) of the flow file.
    monitor : columns of the record by name (:func:`read_monitor`).
    openings : of which the inlets count.
    """
    inflow = sum(
        np.interp(times_s, monitor["time_s"], monitor[monitor_column(opening, "flow_ml_s")])
        for opening in openings
        if opening.role == "inlet"
    )
    return int(np.argmax(inflow))
