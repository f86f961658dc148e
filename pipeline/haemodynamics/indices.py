"""Numbers that sum up a flow, and the checks that say how far to trust them: what stands in ``indices.json``."""

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.haemodynamics.tally import Tally
from pipeline.haemodynamics.wall import Wall, WallFit, near_openings
from solver.nodes import Nodes, Opening
from solver.stage import StageError

PA_PER_MMHG = 133.322387415
"""Pascal per conventional millimetre of mercury (BIPM, SI brochure, 8th edition, table 8)."""

LOW_SHEAR_PA = (0.4, 1.0, 1.5)
"""Limits for the area of low wall shear stress: arteries are prone to disease below 0.4 Pa, usually above 1 Pa, and
protected above 1.5 Pa. Source: Malek, Alper and Izumo (1999), doi:10.1001/jama.282.21.2035."""

MAX_IMBALANCE = 0.01
MAX_MACH = 0.2
MIN_NODES_ACROSS = 10
MAX_NEAREST = 0.01
"""What breaks the trust in a result: each becomes a warning."""


def indices(
    nodes: Nodes,
    wall: Wall,
    fit: WallFit,
    tally: Tally,
    summary: Mapping[str, Any],
    monitored_ml_s: Mapping[str, float],
    fit_nodes: float,
) -> dict[str, Any]:
    """Numbers that sum up a flow, warnings first.

    Parameters
    ----------
    nodes, wall, fit, tally : the lattice, the wall, the operator onto it, and the sums over the times.
    summary : what the solver says of its run (``solve.json``).
    monitored_ml_s : flow through each opening, counted by the solver link by link, positive along the opening's role.
    fit_nodes : radius of the fit in spacings; the wall that near to a cap is left out of the statistics.

    Returns
    -------
    As it stands in ``indices.json``; means over the times unless the key says otherwise.
    """
    openings = _openings(nodes, tally, summary, monitored_ml_s)
    found = {
        "times": tally.times,
        "openings": openings,
        "pressure_drops": _pressure_drops(nodes, tally),
        "wall": _wall(nodes, wall, tally, fit_nodes),
        "peak_speed_m_s": tally.peak_speed_m_s,
        "peak_speed_at_mm": tally.peak_at_mm.tolist(),
        "kinetic_energy_j": tally.kinetic_energy_j / tally.times,
    }
    checks = _checks(nodes, openings, fit.nearest / len(wall.normals), summary)
    warnings = [*summary["warnings"], *(check["advice"] for check in checks if not check["passed"])]
    return {"warnings": warnings, "checks": checks} | found


def _openings(
    nodes: Nodes, tally: Tally, summary: Mapping[str, Any], monitored_ml_s: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Flow, speed, pressure and Reynolds number 2 R U / nu of each opening."""
    found = []
    for k, opening in enumerate(nodes.openings):
        flow = float(tally.flow_ml_s[k] / tally.times)
        mean_speed = flow / opening.area_mm2
        pressure = float(tally.opening_pressure_pa[k] / tally.times)
        found.append(
            {
                "id": opening.id,
                "name": opening.name,
                "role": opening.role,
                "radius_mm": opening.radius_mm,
                "imposed_flow_ml_s": summary["openings"][opening.name].get("imposed_flow_ml_s"),
                "monitored_flow_ml_s": monitored_ml_s[opening.name],
                "flow_ml_s": flow,
                "mean_speed_m_s": mean_speed,
                "peak_speed_m_s": float(tally.opening_peak_m_s[k]),
                "pressure_pa": pressure,
                "pressure_mmhg": pressure / PA_PER_MMHG,
                "reynolds": 2e-3 * opening.radius_mm * abs(mean_speed) / summary["numbers"]["viscosity_m2_s"],
            }
        )
    return found


def _pressure_drops(nodes: Nodes, tally: Tally) -> list[dict[str, Any]]:
    """Static pressure of each inlet less that of each outlet."""
    pressure = dict(zip((o.name for o in nodes.openings), tally.opening_pressure_pa / tally.times, strict=True))
    drops = {
        (inlet.name, outlet.name): float(pressure[inlet.name] - pressure[outlet.name])
        for inlet in nodes.openings if inlet.role == "inlet"
        for outlet in nodes.openings if outlet.role == "outlet"
    }  # fmt: skip
    return [
        {"inlet": inlet, "outlet": outlet, "drop_pa": drop, "drop_mmhg": drop / PA_PER_MMHG}
        for (inlet, outlet), drop in drops.items()
    ]


def _wall(nodes: Nodes, wall: Wall, tally: Tally, fit_nodes: float) -> dict[str, Any]:
    """Area-weighted statistics of the wall shear stress, without the rims that the openings' conditions touch."""
    counted = ~near_openings(wall, nodes.openings, fit_nodes * nodes.spacing_mm)
    shear, area = tally.shear_magnitude[counted] / tally.times, wall.areas_mm2[counted]
    total = float(area.sum())
    if not total > 0:
        raise StageError(
            f"no wall is further than {fit_nodes:g} spacings of {nodes.spacing_mm:g} mm from the openings;"
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
    if tally.times > 1:
        found["osi_mean"] = float(area @ tally.oscillatory_index()[counted]) / total
    return found


def weighted_percentiles(
    values: NDArray[np.float64], weights: NDArray[np.float64], percents: Iterable[float]
) -> tuple[float, ...]:
    """Smallest values at or below which the given percentages of the weight lie."""
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum() * 100
    rows = np.minimum(np.searchsorted(share, list(percents)), len(values) - 1)
    return tuple(float(value) for value in values[order][rows])


def imbalance(openings: Iterable[Mapping[str, Any]], key: str) -> float:
    """(inflow - outflow) / inflow over all openings; `key` names the flow."""
    flows = [(opening["role"], opening[key]) for opening in openings]
    inflow = sum(flow for role, flow in flows if role == "inlet")
    outflow = sum(flow for role, flow in flows if role == "outlet")
    return (inflow - outflow) / inflow if inflow else float("inf")


def _checks(
    nodes: Nodes, openings: list[dict[str, Any]], nearest: float, summary: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """What the trust in the result rests on: name, value, limit, whether it passed, and advice for where it did not.

    Values with the unit ``%`` are stored as fractions.
    """
    mach, converged = float(summary["mach"]), bool(summary["converged"])
    return [
        _check(
            "converged", "", converged, True, converged,
            "the flow had not settled when the solver stopped; raise solve.max_steps or solve.cycles",
        ),
        *(_opening_checks(nodes, openings) if openings else ()),
        _check(
            "Mach number", "", mach, MAX_MACH, mach <= MAX_MACH,
            f"a Mach number of {mach:.2g} makes the fluid compressible; lower solve.lattice_speed",
        ),
        _check(
            "wall without a fit", "%", nearest, MAX_NEAREST, nearest <= MAX_NEAREST,
            f"{nearest:.1%} of the wall takes its shear stress from the nearest node alone; use a finer spacing",
        ),
    ]  # fmt: skip


def _opening_checks(nodes: Nodes, openings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    narrowest = min(nodes.openings, key=lambda opening: opening.radius_mm)
    across = 2 * narrowest.radius_mm / nodes.spacing_mm
    counted, seen = imbalance(openings, "monitored_flow_ml_s"), imbalance(openings, "flow_ml_s")
    errors = [o["flow_ml_s"] / o["imposed_flow_ml_s"] - 1 for o in openings if o["imposed_flow_ml_s"]]
    imposed = max(errors, key=abs, default=0.0)
    return [
        _check(
            "flow balance", "%", counted, MAX_IMBALANCE, abs(counted) <= MAX_IMBALANCE,
            f"inflow and outflow differ by {counted:.2%} of the inflow; run longer or use a finer spacing",
        ),
        _check(
            "flow balance of the velocity field", "%", seen, MAX_IMBALANCE, abs(seen) <= MAX_IMBALANCE,
            f"the velocity field just inside the openings is out of balance by {seen:.2%} of the inflow;"
            " use a finer spacing, or cut the openings where the vessel is straight",
        ),
        _check(
            "inflow against imposed", "%", imposed, MAX_IMBALANCE, abs(imposed) <= MAX_IMBALANCE,
            f"the velocity field carries {imposed:+.2%} of the imposed flow too much; use a finer spacing",
        ),
        _check(
            "nodes across", "", across, MIN_NODES_ACROSS, across >= MIN_NODES_ACROSS,
            f"only {across:.1f} nodes across opening {narrowest.name}: wall shear stress may be off by more than 5 %;"
            " set voxelize.nodes_across to 20 or more, or a finer voxelize.spacing_mm",
        ),
    ]  # fmt: skip


def _check(name: str, unit: str, value: float, limit: float, passed: bool, advice: str) -> dict[str, Any]:
    return {
        "name": name,
        "unit": unit,
        "value": value,
        "limit": limit,
        "passed": passed,
        "advice": None if passed else advice,
    }


def read_json(path: Path) -> dict[str, Any]:
    """Read an object that another stage wrote.

    Raises
    ------
    StageError
        If the file holds something else.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StageError(f"{path}: no JSON ({error}); run the stage that makes it again") from None
    if not isinstance(values, dict):
        raise StageError(f"{path}: an object is wanted; run the stage that makes it again")
    return values


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
    """Mean flow through each opening over the solver's record from a time on, or its last value; mL/s."""
    rows = np.flatnonzero(monitor["time_s"] >= since_s)
    rows = rows if len(rows) else np.array([-1])
    return {each.name: float(monitor[monitor_column(each, "flow_ml_s")][rows].mean()) for each in openings}


def monitor_column(opening: Opening, quantity: str) -> str:
    """Name of an opening's column in the solver's record; the quantity is ``flow_ml_s`` or ``pressure_pa``."""
    return f"{quantity}:{opening.name}"


def shown_step(
    times_s: NDArray[np.float64], monitor: Mapping[str, NDArray[np.float64]], openings: tuple[Opening, ...]
) -> int:
    """The time step that pictures show: the one with the largest inflow."""
    inflow = sum(
        np.interp(times_s, monitor["time_s"], monitor[monitor_column(opening, "flow_ml_s")])
        for opening in openings if opening.role == "inlet"
    )  # fmt: skip
    return int(np.argmax(inflow))
