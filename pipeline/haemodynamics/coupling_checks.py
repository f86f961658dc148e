# SPDX-License-Identifier: Apache-2.0
"""A vessel that sits in a network: what each of its openings was in the network alone, what both sides have together,
and checks of how well they meet.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.haemodynamics.trust import check
from solver.boundary.windkessel import PASCAL_PER_MMHG

Row = dict[str, Any]
KINDS = ("alone", "network", "vessel")
"""Waveforms over a cycle: of the network without the vessel, of the network, and of the vessel."""


def coupling_rows(places: Mapping[str, Any], coupled: Mapping[str, Any]) -> list[Row]:
    """A row for each opening.

    Parameters
    ----------
    places : ``coupling.json``, places and radii.
    coupled : ``coupling`` of ``solve.json``, waveforms over the last cycle.

    Returns
    -------
    With ``name``, ``role``, ``segment``, radii (mm) and their relative difference; for each of `KINDS` the mean flow
    (mL/s) and the least, mean and largest pressure (mmHg), as ``<kind>_flow_ml_s`` and so on; ``flow_difference``, mean
    flow of the vessel less that of the network by the largest mean of all openings, and ``pressure_difference``, the
    same of mean pressures by the network's.
    """
    rows = []
    for name, place in places["caps"].items():
        waveforms = coupled["caps"][name]
        row = {"name": name} | {key: place[key] for key in ("role", "segment", "network_radius_mm", "vessel_radius_mm")}
        row["radius_difference"] = place["radius_difference"]
        for kind in KINDS:
            flow, pressure = (np.array(waveforms[kind][key]) for key in ("flow_ml_s", "pressure_mmhg"))
            row |= {f"{kind}_flow_ml_s": float(flow.mean()), f"{kind}_pressure_mmhg": float(pressure.mean())}
            row |= {f"{kind}_diastolic_mmhg": float(pressure.min()), f"{kind}_systolic_mmhg": float(pressure.max())}
        rows.append(row)
    largest = max(abs(row["network_flow_ml_s"]) for row in rows)
    for row in rows:
        row["flow_difference"] = (row["vessel_flow_ml_s"] - row["network_flow_ml_s"]) / largest
        row["pressure_difference"] = row["vessel_pressure_mmhg"] / row["network_pressure_mmhg"] - 1
    return rows


def coupling_checks(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Whether the vessel is as wide as what it replaces, and has the flow and the pressure of the network."""
    worst = {
        key: max(rows, key=lambda row: abs(row[key]))
        for key in ("radius_difference", "flow_difference", "pressure_difference")
    }
    radius, flow, pressure = worst.values()
    off_pa = PASCAL_PER_MMHG * (pressure["vessel_pressure_mmhg"] - pressure["network_pressure_mmhg"])
    return [
        check(
            "radius against the network",
            "%",
            radius["radius_difference"],
            f"opening {radius['name']} has a radius of {radius['vessel_radius_mm']:.3g} mm, the network"
            f" {radius['network_radius_mm']:.3g} mm there ({radius['segment']}): choose another segment, or fit the"
            " network to the patient with coupling.edits, such as {widen: "
            f"{radius['segment']}, radius_factor: {radius['vessel_radius_mm'] / radius['network_radius_mm']:.2f}}}",
        ),
        check(
            "flow against the network",
            "%",
            flow["flow_difference"],
            f"opening {flow['name']} has {flow['vessel_flow_ml_s']:.4g} mL/s on average, the network"
            f" {flow['network_flow_ml_s']:.4g} mL/s; raise solve.cycles",
        ),
        check(
            "pressure against the network",
            "%",
            pressure["pressure_difference"],
            f"opening {pressure['name']} has a mean pressure that is {off_pa:+.3g} Pa off the network's; use a finer"
            " spacing, or raise solve.cycles",
        ),
    ]


def with_network(indices: Mapping[str, Any], rows: Sequence[Row], network: str) -> dict[str, Any]:
    """What stands in ``indices.json`` with the network's name, the rows of openings in it, their checks, and a warning
    for each that failed.

    Parameters
    ----------
    indices : content of ``indices.json``.
    rows : of the openings in the network.
    network : its name.
    """
    found = coupling_checks(rows)
    warnings = [each["advice"] for each in found if not each["passed"]]
    more = {"warnings": [*indices["warnings"], *warnings], "checks": [*indices["checks"], *found]}
    return {**indices, **more, "network": {"name": network}, "coupling": [*rows]}
