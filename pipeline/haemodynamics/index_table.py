# SPDX-License-Identifier: Apache-2.0
"""The numbers of ``indices.json`` as tables: ``indices.csv``, one number a row, and ``openings.csv``."""

from collections.abc import Mapping
from typing import Any

from pipeline.haemodynamics.centreline_profile import Row
from pipeline.haemodynamics.trust import trust_of

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
    "_mmhg_s_ml": "mmHg s/mL",
    "_mm2": "mm2",
    "_mm": "mm",
    "_ml_s": "mL/s",
    "_m_s": "m/s",
    "_pa": "Pa",
    "_mmhg": "mmHg",
    "_j": "J",
    "_w": "W",
    "_pa_s": "Pa s",
    "_ml": "mL",
    "_l_min": "L/min",
    "_1_s2": "1/s2",
    "_m_s2": "m/s2",
    "_1_s": "1/s",
    "_s": "s",
}
"""Units by the end of a quantity's name, the first that fits; those without are numbers, and fractions."""


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
    return [{"quantity": quantity, "name": name, "value": float(value), "unit": unit_of(quantity)}]


def unit_of(quantity: str) -> str:
    """Unit of a quantity, by its name; empty for a number, and for a part of 1."""
    return next((unit for end, unit in UNITS.items() if quantity.endswith(end)), "")


def _called(entry: Mapping[str, Any], number: int) -> str:
    """What tells an entry of a list from the others."""
    if "name" in entry:
        return str(entry["name"])
    if "inlet" in entry:
        return f"{entry['inlet']} to {entry['outlet']}"
    return f"branch {entry['branch']}" if "sections" in entry else str(number)
