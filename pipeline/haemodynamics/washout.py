# SPDX-License-Identifier: Apache-2.0
"""Figures of what a flow carries: ages, indicator-dilution curves at outlets, and washout of parts of the vessel."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.domain.nodes import Opening
from solver.transport.carry import Carried
from solver.transport.scalar_run import Settled, Washed

APPEARS = 0.1
"""Part of the largest concentration at which a bolus counts as there."""
LEFT = (0.5, 0.1)
"""Parts of its largest filling after which times a part of the vessel is said to be washed out."""

Floats = NDArray[np.float64]


def transport_numbers(
    carried: Carried, openings: Sequence[Opening], parts: Mapping[str, NDArray[np.bool_]], start_s: float
) -> dict[str, Any]:
    """What stands in ``transport.json``.

    Parameters
    ----------
    carried : what became of the scalars.
    openings : of the vessel.
    parts : nodes of the sacs, by their names.
    start_s : when the bolus began.
    """
    plan, warnings = carried.plan, []
    found: dict[str, Any] = {"volume_over_flow_s": plan.transit_s, "period_s": plan.period_s}
    if age := carried.age:
        found["age"] = _of_age(age, openings, parts)
        warnings += _unsettled("the age of blood", age)
    if drug := carried.drug:
        found["drug"] = {"mean": drug.mean, "outlets": _at_outlets(drug, openings, "mean"), **_ended(drug)}
        warnings += _unsettled("drug from the wall", drug)
    if washed := carried.washed:
        found["bolus"] = {"start_s": start_s, "duration_s": carried.bolus_s, **_of_bolus(washed, openings, [*parts])}
        if not washed.washed_out:
            warnings.append(
                f"{washed.held[-1] / washed.injected[-1]:.1%} of the bolus are still in the vessel after"
                f" {washed.times_s[-1]:.4g} s; raise transport.max_transits, or transport.washed_out"
            )
    return found | {"numbers": plan.numbers, "notes": carried.notes, "warnings": warnings, "device": carried.device}


def _of_age(age: Settled, openings: Sequence[Opening], parts: Mapping[str, NDArray[np.bool_]]) -> dict[str, Any]:
    known = age.field[np.isfinite(age.field)]
    median, p90 = np.percentile(known, (50, 90)).tolist()
    sacs = [{"name": name, "mean_s": float(np.nanmean(age.field[part]))} for name, part in parts.items()]
    outlets = _at_outlets(age, openings, "mean_s")
    return {"mean_s": age.mean, "median_s": median, "p90_s": p90, "outlets": outlets, "sacs": sacs, **_ended(age)}


def _ended(found: Settled) -> dict[str, Any]:
    return {"settled": found.settled, "missing_share": found.missing, "transits": found.units}


def _at_outlets(found: Settled, openings: Sequence[Opening], key: str) -> list[dict[str, Any]]:
    outlets = [opening for opening in openings if opening.role == "outlet"]
    return [{"name": o.name, key: _number(found.at_openings[o.id - 1])} for o in outlets]


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _unsettled(what: str, found: Settled) -> list[str]:
    if found.settled:
        return []
    return [
        f"{what} has not settled: {found.missing:.1%} may be missing still; raise transport.max_transits, or"
        " transport.settled"
    ]


def _of_bolus(washed: Washed, openings: Sequence[Opening], names: Sequence[str]) -> dict[str, Any]:
    outlets = [opening for opening in openings if opening.role == "outlet"]
    return {
        "washed_out": washed.washed_out,
        "injected_share_of_volume": float(washed.injected[-1]),
        "held_at_end_share": float(washed.held[-1] / washed.injected[-1]),
        "missing_share": washed.missing,
        "outlets": [{"name": o.name, **dilution(washed.times_s, washed.passing[:, o.id - 1])} for o in outlets],
        "sacs": [{"name": name, **washout(washed.times_s, washed.parts[:, k])} for k, name in enumerate(names)],
    }


def dilution(times_s: Floats, concentration: Floats) -> dict[str, float | None]:
    """Of an indicator-dilution curve: when it comes, its peak, and the mean time at which it passes.

    Parameters
    ----------
    times_s : (R,) ends of stretches of equal length.
    concentration : (R,) mean of what left in each; not a number where nothing did.
    """
    known = np.nan_to_num(concentration)
    total, peak = known.sum(), int(known.argmax())
    if not total > 0:
        return {"appears_s": None, "peak_s": None, "peak": None, "mean_s": None}
    middle_s = times_s - times_s[0] / 2
    there = int(np.flatnonzero(known >= APPEARS * known[peak])[0])
    return {
        "appears_s": float(middle_s[there]),
        "peak_s": float(middle_s[peak]),
        "peak": float(known[peak]),
        "mean_s": float(known @ middle_s / total),
    }


def washout(times_s: Floats, held: Floats) -> dict[str, float | None]:
    """Of a part of the vessel: its largest filling, when that was, and how long after it how much was left.

    Parameters
    ----------
    times_s : (R,) ends of stretches.
    held : (R,) mean concentration in it, over the largest that came in.
    """
    peak = int(held.argmax())
    found: dict[str, float | None] = {"peak_share": float(held[peak]), "peak_s": float(times_s[peak])}
    for left in LEFT:
        below = np.flatnonzero(held[peak:] <= left * held[peak])
        key = f"to_{100 * left:.0f}_percent_s"
        found[key] = float(times_s[peak + below[0]] - times_s[peak]) if len(below) and held[peak] > 0 else None
    return found


def curve_rows(
    washed: Washed, openings: Sequence[Opening], names: Sequence[str]
) -> tuple[list[str], list[dict[str, Any]]]:
    """Columns and rows of ``transport.csv``: the course of the bolus.

    Parameters
    ----------
    washed : of the bolus.
    openings : of the vessel.
    names : of its parts.
    """
    outlets = [opening for opening in openings if opening.role == "outlet"]
    columns = {"time_s": washed.times_s, "injected_share": washed.injected, "vessel_share": washed.held}
    columns |= {f"washout:{name}": washed.parts[:, k] for k, name in enumerate(names)}
    columns |= {f"concentration:{o.name}": washed.passing[:, o.id - 1] for o in outlets}
    rows = [dict(zip(columns, map(float, values), strict=True)) for values in zip(*columns.values(), strict=True)]
    return [*columns], rows
