"""Numbers that sum up a flow, and the checks that say how far to trust them: what stands in ``indices.json``."""

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.haemodynamics.accumulator import WallAccumulator
from pipeline.haemodynamics.centreline_profile import CentrelineProfile, Row
from pipeline.haemodynamics.energy import Energy, kinetic_change_w
from pipeline.haemodynamics.trust import LIMITS, check, trust_of
from pipeline.haemodynamics.wall_indices import oscillatory_shear_index
from pipeline.haemodynamics.wall_shear_stress import Wall, WallFit, near_openings
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.domain.nodes import Nodes, Opening
from solver.runtime.errors import StageError

LOW_SHEAR_PA = (0.4, 1.0, 1.5)
"""Limits for the area of low wall shear stress: arteries are prone to disease below 0.4 Pa, usually above 1 Pa, and
protected above 1.5 Pa. Source: Malek, Alper and Izumo (1999), doi:10.1001/jama.282.21.2035."""

CARRIES = 0.02
"""A branch with less than this part of the largest flow is not judged: it changes that of others by no more, which is
what the wall shear stress may be off with 20 nodes across."""
MIN_SECTIONS = 3
"""Sections from which the flow along a branch is judged."""

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

OPENING_COLUMNS = (
    "id",
    "name",
    "role",
    "radius_mm",
    "imposed_flow_ml_s",
    "monitored_flow_ml_s",
    "flow_ml_s",
    "flow_min_ml_s",
    "flow_max_ml_s",
    "flow_share",
    "mean_speed_m_s",
    "peak_speed_m_s",
    "pressure_pa",
    "pressure_mmhg",
    "pressure_min_pa",
    "pressure_max_pa",
    "total_pressure_pa",
    "reynolds",
    "reynolds_peak",
    "womersley",
)
"""Columns of ``openings.csv``: the keys of an opening in ``indices.json``."""

OPENING_TRUST = {
    "flow_trust": "openings.flow",
    "speed_trust": "openings.peak_speed",
    "pressure_trust": "openings.pressure",
}
"""Further columns of it, what flows, speeds and pressures are worth, by the quantity that tells it."""

LONG_COLUMNS = ("quantity", "name", "value", "unit", "trust")
"""Columns of ``indices.csv``; the last says what the number is worth, see :mod:`trust`."""

UNITS = {
    "_mm2": "mm2",
    "_mm": "mm",
    "_ml_s": "mL/s",
    "_m_s": "m/s",
    "_pa": "Pa",
    "_mmhg": "mmHg",
    "_j": "J",
    "_w": "W",
    "_pa_s": "Pa s",
}
"""Units by the end of a quantity's name; those without are numbers, and fractions."""


def indices(
    nodes: Nodes,
    wall: Wall,
    fit: WallFit,
    accumulator: WallAccumulator,
    energy: Energy,
    profile: tuple[CentrelineProfile, list[Row]] | None,
    summary: Mapping[str, Any],
    monitored_ml_s: Mapping[str, float],
    record: Mapping[str, NDArray[np.float64]],
    fit_nodes: float,
) -> dict[str, Any]:
    """Numbers that sum up a flow, warnings first.

    Parameters
    ----------
    nodes, wall, fit : the lattice, the wall, and the operator onto it.
    accumulator, energy : the sums over the times.
    profile : the sums over the times along the branches, and their rows; none where there is no centreline.
    summary : what the solver says of its run (``solve.json``).
    monitored_ml_s : flow through each opening, counted by the solver link by link, positive along the opening's role.
    record : columns of the solver's record over the whole run (``monitor.csv``); may be empty.
    fit_nodes : radius of the fit in spacings; the wall that near to a cap is left out of the statistics.

    Returns
    -------
    As it stands in ``indices.json``; means over the times unless the key says otherwise.
    """
    openings = _openings(nodes, accumulator, energy, summary, monitored_ml_s, record)
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
        "wall": _wall(nodes, wall, accumulator, fit_nodes),
        "peak_speed_m_s": accumulator.peak_speed_m_s,
        "peak_speed_at_mm": accumulator.peak_at_mm.tolist(),
        "kinetic_energy_j": accumulator.kinetic_energy_j / accumulator.times,
        "energy": energy.balance(kinetic_change_w(record, summary["numbers"].get("period_s")), moving),
        "mach_max": float(np.max(record["mach"])) if "mach" in record else float(summary["mach"]),
    }
    checks = _checks(nodes, openings, fit.nearest / len(wall.normals), summary)
    checks += _centreline_checks(nodes, profile[0], branches) if profile else []
    checks += _energy_checks(found["energy"])
    warnings = [*summary["warnings"], *(each["advice"] for each in checks if not each["passed"])]
    state = {key: summary.get(key) for key in ("unsettled", "unsteady")}
    return {"warnings": warnings, **state, "checks": checks} | found


def _openings(
    nodes: Nodes,
    accumulator: WallAccumulator,
    energy: Energy,
    summary: Mapping[str, Any],
    monitored_ml_s: Mapping[str, float],
    record: Mapping[str, NDArray[np.float64]],
) -> list[dict[str, Any]]:
    """Flow, speed, pressure, Reynolds number 2 R U/nu and Womersley number R sqrt(omega/nu) of each opening.

    nu is the mean effective viscosity at the opening over the density; omega that of the period.
    """
    found, period = [], summary["numbers"].get("period_s")
    flows, totals = accumulator.flow_ml_s / accumulator.times, energy.total_pressures_pa()
    for k, opening in enumerate(nodes.openings):
        flow = float(flows[k])
        mean_speed = flow / opening.area_mm2
        pressure = float(accumulator.opening_pressure_pa[k] / accumulator.times)
        kinematic = float(energy.opening_viscosity_pa_s[k] / energy.times / summary["numbers"]["density_kg_m3"])
        per_speed = 2e-3 * opening.radius_mm / kinematic
        of_role = sum(flows[j] for j, other in enumerate(nodes.openings) if other.role == opening.role)
        ranges = _ranges(opening, record, period) or {"flow": (flow, flow), "pressure": (pressure, pressure)}
        found.append(
            {
                "id": opening.id,
                "name": opening.name,
                "role": opening.role,
                "radius_mm": opening.radius_mm,
                "imposed_flow_ml_s": summary["openings"][opening.name].get("imposed_flow_ml_s"),
                "monitored_flow_ml_s": monitored_ml_s[opening.name],
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


def _wall(nodes: Nodes, wall: Wall, accumulator: WallAccumulator, fit_nodes: float) -> dict[str, Any]:
    """Area-weighted statistics of the wall shear stress, without the rims that the openings' conditions touch."""
    counted = ~near_openings(wall, nodes.openings, fit_nodes * nodes.spacing_mm)
    shear, area = accumulator.shear_magnitude[counted] / accumulator.times, wall.areas_mm2[counted]
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
    if accumulator.times > 1:
        found["osi_mean"] = float(area @ oscillatory_shear_index(accumulator)[counted]) / total
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
    """What the trust in the result rests on: see :func:`trust.check`.

    Values with the unit ``%`` are stored as fractions.
    """
    mach = float(summary["mach"])
    return [
        *_settling_checks(summary),
        *(_opening_checks(nodes, openings) if openings else ()),
        check(
            "Mach number",
            "",
            mach,
            f"a Mach number of {mach:.2g} makes the fluid compressible; lower solve.lattice_speed",
        ),
        *_model_checks(summary),
        check(
            "wall without a fit",
            "%",
            nearest,
            f"{nearest:.1%} of the wall takes its shear stress from the nearest node alone; use a finer spacing",
        ),
    ]


def _settling_checks(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Whether the flow is what it was run for, and how well its cycles repeat or its mean is known."""
    converged, advice = bool(summary["converged"]), "raise solve.max_steps or solve.cycles"
    differ = max((summary.get("periodicity") or {}).values(), default=None)
    found = [
        {
            "name": "mean of an unsteady flow" if summary.get("unsteady") else "converged",
            "unit": "",
            "value": converged,
            "limit": True,
            "passed": converged,
            "state": "good" if converged else "unusable" if differ is None else "reservation",
            "advice": None if converged else f"the flow had not settled when the solver stopped; {advice}",
        }
    ]
    if differ is not None:
        words = f"the last two cycles differ by {differ:.2%}; raise solve.cycles"
        found.append(check("difference of the last two cycles", "%", differ, words))
    if summary.get("unsteady") and (errors := (summary.get("fluctuation") or {}).get("standard_error")):
        error = max(errors.values())
        words = f"the means of the unsteady flow have standard errors up to {error:.2%}; raise solve.unsteady_throughs"
        found.append(check("standard error of the mean", "%", error, words))
    return found


def _model_checks(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Whether models of the lattice change the flow little: compressibility, eddy viscosity, grid Reynolds number."""
    found = []
    if (loss := summary["numbers"].get("first_harmonic_loss")) is not None:
        words = (
            f"the lattice's compressibility is expected to take {loss:.1%} of the first harmonic of an outlet's flow;"
            " lower solve.lattice_speed, to which it is proportional squared"
        )
        found.append(check("first harmonic lost to compressibility", "%", loss, words))
    if (part := (summary.get("models", {}).get("eddies") or {}).get("part_of_nodes")) is not None:
        words = f"the eddy viscosity acts at {part:.1%} of the nodes: the lattice is too coarse for the flow there"
        found.append(check("nodes with eddy viscosity", "%", part, f"{words}; use a finer spacing"))
    if error := summary.get("pressure_drop_error"):
        words = f"pressure drops by friction may be up to {error:.0%} too large at this spacing; use a finer spacing"
        found.append(check("pressure drop too large by", "%", error, words))
    return found


def _energy_checks(energy: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Whether the power that enters is found again."""
    if (left := energy.get("unaccounted_fraction")) is None:
        return []
    words = f"{left:+.1%} of the power supplied is not accounted for: dissipation is off by about that; use a finer"
    return [check("energy not accounted for", "%", left, f"{words} spacing")]


def _opening_checks(nodes: Nodes, openings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    narrowest = min(nodes.openings, key=lambda opening: opening.radius_mm)
    across = 2 * narrowest.radius_mm / nodes.spacing_mm
    counted, in_field = imbalance(openings, "monitored_flow_ml_s"), imbalance(openings, "flow_ml_s")
    errors = [o["flow_ml_s"] / o["imposed_flow_ml_s"] - 1 for o in openings if o["imposed_flow_ml_s"]]
    imposed = max(errors, key=abs, default=0.0)
    return [
        check(
            "flow balance",
            "%",
            counted,
            f"inflow and outflow differ by {counted:.2%} of the inflow; run longer or use a finer spacing",
        ),
        check(
            "flow balance of the velocity field",
            "%",
            in_field,
            f"the velocity field just inside the openings is out of balance by {in_field:.2%} of the inflow;"
            " use a finer spacing, or cut the openings where the vessel is straight",
        ),
        check(
            "inflow against imposed",
            "%",
            imposed,
            f"the velocity field carries {imposed:+.2%} of the imposed flow too much; use a finer spacing",
        ),
        check(
            "nodes across",
            "",
            across,
            f"only {across:.1f} nodes across opening {narrowest.name}: wall shear stress may be off by"
            f" {_shear_error(across)}; set {resolving(across, nodes.spacing_mm)}",
        ),
    ]


def resolving(across: float, spacing_mm: float) -> str:
    """The setting by which as many nodes lie across as are wanted, where now there are fewer."""
    finer_mm = 0.99 * spacing_mm * across / LIMITS["nodes across"].good
    return f"voxelize: {{spacing_mm: {finer_mm:.3g}, nodes_across: null}}"


def _shear_error(across: float) -> str:
    """How far wall shear stress may be off, as docs/validation/ladder.md measures it in a pipe."""
    return "more than 5 %" if across < 10 else "2 to 4 % for its lattice alone"


def _centreline_checks(nodes: Nodes, profile: CentrelineProfile, branches: list[Row]) -> list[dict[str, Any]]:
    """Checks of the branches that carry the flow: mass along them, and nodes across the narrowest of them."""
    largest = max((abs(each["flow_ml_s"]) for each in branches), default=0.0)
    trickles = {each["branch"] for each in branches if abs(each["flow_ml_s"]) < CARRIES * largest}
    judged = [
        each
        for each in branches
        if each["flow_deviation"] is not None and each["sections"] >= MIN_SECTIONS and each["branch"] not in trickles
    ]
    worst = max(judged, key=lambda each: float(each["flow_deviation"]), default=None)
    checks = []
    if worst:
        deviation = worst["flow_deviation"]
        words = f"the flow along branch {worst['branch']} differs by {deviation:.2%} from section to section"
        checks.append(check("flow along the centreline", "%", deviation, f"{words}; run longer or use a finer spacing"))
    passed = [branch for branch in profile.branches if branch.leads and branch.id not in trickles]
    if passed:
        narrowest = min(passed, key=lambda branch: float(branch.radius_mm[branch.narrowest]))
        across = 2 * float(narrowest.radius_mm[narrowest.narrowest]) / nodes.spacing_mm
        checks.append(
            check(
                "nodes across the narrowest place",
                "",
                across,
                f"only {across:.1f} nodes across the narrowest place, in branch {narrowest.id}: wall shear stress there"
                f" may be off by {_shear_error(across)}; set {resolving(across, nodes.spacing_mm)}",
            )
        )
    return checks


def long_rows(found: Mapping[str, Any]) -> list[Row]:
    """The numbers of ``indices.json`` one a row: quantity, name of what it is of, value, unit, what it is worth.

    The quantity is the way to it by keys with dots, as ``openings.flow_ml_s``; the name tells the entry of a list.
    Words, places and what has no value are left out; whether a check has passed is 1 or 0.
    """
    listed = {key: value for key, value in found.items() if key != "trust"}
    rows = [row for key, value in listed.items() for row in _rows_of(key, "", value)]
    return [row | {"trust": trust_of(found.get("trust", ()), str(row["quantity"]), str(row["name"]))} for row in rows]


def _rows_of(quantity: str, name: str, value: Any) -> list[Row]:
    if isinstance(value, Mapping):
        return [row for key, each in value.items() for row in _rows_of(f"{quantity}.{key}", name, each)]
    if isinstance(value, list):
        entries = [each for each in value if isinstance(each, Mapping)]
        return [row for k, each in enumerate(entries, 1) for row in _rows_of(quantity, _called(each, k), each)]
    if not isinstance(value, int | float):
        return []
    unit = next((unit for end, unit in UNITS.items() if quantity.endswith(end)), "")
    return [{"quantity": quantity, "name": name, "value": float(value), "unit": unit}]


def _called(entry: Mapping[str, Any], number: int) -> str:
    """What tells an entry of a list from the others."""
    if "name" in entry:
        return str(entry["name"])
    if "inlet" in entry:
        return f"{entry['inlet']} to {entry['outlet']}"
    return f"branch {entry['branch']}" if "sections" in entry else str(number)


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
        for opening in openings
        if opening.role == "inlet"
    )
    return int(np.argmax(inflow))
