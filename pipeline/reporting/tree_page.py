# SPDX-License-Identifier: Apache-2.0
"""The page of a network alone: texts and tables made of ``tree.json``."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.reporting.report_page import fill
from pipeline.reporting.tables import DASH, Rows, facts, number, percent
from pipeline.reporting.tree_plots import words
from pipeline.reporting.trust_rows import check_shown
from pipeline.reporting.wording import Line

PAGE = Path(__file__).with_name("report_page.py")

TILES = (
    ("inlet_pressure", "pressure at the inlet", "mmHg", ""),
    ("cardiac_output_l_min", "cardiac output", "L/min", "usual of adults at rest: 3.5 to 8"),
    ("inflow_ml_s", "mean inflow", "mL/s", ""),
    (
        "pulse_wave_velocity_m_s",
        "pulse wave velocity, carotid to femoral",
        "m/s",
        "above 10 m/s arteries are stiff (Van Bortel et al. 2012)",
    ),
    (
        "ankle_brachial_index",
        "ankle-brachial index, the lower of both legs",
        "",
        "usual: 1.0 to 1.4; 0.9 or less speaks for a narrowing",
    ),
    ("augmentation_index_aortic", "augmentation index of the aorta", "%", ""),
    ("reflection_magnitude", "reflection magnitude at the inlet", "", ""),
    ("resistance_mmhg_s_ml", "total resistance", "mmHg s/mL", ""),
    ("compliance_ml_mmhg", "total compliance", "mL/mmHg", ""),
)
"""Keys of indices, words, unit and what is usual."""

INDICES = (
    Line("cardiac_output_l_min", "cardiac output", "L/min"),
    Line("stroke_volume_ml", "stroke volume", "mL"),
    Line("heart_rate_1_min", "heart rate", "1/min"),
    Line("inflow_ml_s", "mean inflow", "mL/s"),
    Line("inlet_systolic_mmhg", "systolic pressure at the inlet", "mmHg"),
    Line("inlet_diastolic_mmhg", "diastolic pressure at the inlet", "mmHg"),
    Line("inlet_mean_mmhg", "mean pressure at the inlet", "mmHg"),
    Line("inlet_pulse_mmhg", "pulse pressure at the inlet", "mmHg"),
    Line("brachial_systolic_mmhg", "systolic pressure of the arm", "mmHg"),
    Line("brachial_diastolic_mmhg", "diastolic pressure of the arm", "mmHg"),
    Line("resistance_mmhg_s_ml", "total resistance: mean pressure at the inlet over mean inflow", "mmHg s/mL"),
    Line("compliance_ml_mmhg", "total compliance: walls and terminals", "mL/mmHg"),
    Line("flow_share_carotids", "share of the flow, carotid arteries together", "%", 100),
    Line("flow_share_femorals", "share of the flow, femoral arteries together", "%", 100),
    Line("ankle_brachial_index_right", "ankle-brachial index, right"),
    Line("ankle_brachial_index_left", "ankle-brachial index, left"),
    Line("pulse_wave_velocity_m_s", "pulse wave velocity, carotid to femoral, foot to foot", "m/s"),
    Line("augmentation_index_aortic", "augmentation index of the aorta", "%", 100),
    Line("augmentation_index_carotid", "augmentation index of the carotid", "%", 100),
    Line("reflection_magnitude", "reflection magnitude at the inlet"),
)

SITES = (
    Line("number", "no."),
    Line("words", "site"),
    Line("at", "at"),
    Line("from_heart_mm", "from the inlet", "mm"),
    Line("systolic_mmhg", "systolic", "mmHg"),
    Line("diastolic_mmhg", "diastolic", "mmHg"),
    Line("mean_mmhg", "mean", "mmHg"),
    Line("flow_ml_s", "mean flow", "mL/s"),
    Line("peak_velocity_m_s", "peak velocity", "m/s"),
    Line("wave_speed_m_s", "wave speed", "m/s"),
    Line("foot_ms", "foot after the first site's", "ms"),
    Line("augmentation_index", "augmentation index", "%", 100),
    Line("reflection_magnitude", "reflection magnitude"),
)

SEGMENTS = (
    Line("words", "segment"),
    Line("length_mm", "length", "mm"),
    Line("radius_mm", "radius", "mm"),
    Line("mean_mmhg", "mean", "mmHg"),
    Line("systolic_mmhg", "systolic", "mmHg"),
    Line("diastolic_mmhg", "diastolic", "mmHg"),
    Line("pulse_mmhg", "pulse", "mmHg"),
    Line("flow_ml_s", "mean flow", "mL/s"),
    Line("flow_share", "share", "%", 100),
    Line("peak_velocity_m_s", "peak velocity", "m/s"),
    Line("wave_speed_m_s", "wave speed", "m/s"),
    Line("impedance_mmhg_s_ml", "impedance", "mmHg s/mL"),
    Line("reynolds", "Reynolds"),
    Line("womersley", "Womersley"),
)


def tree_page(summary: Mapping[str, Any], more: Mapping[str, Any]) -> str:
    """The page.

    Parameters
    ----------
    summary : ``tree.json``.
    more : title, description, figures, records of the stages.
    """
    context = {**_context(summary), **_provenance(more["records"]), **more}
    return fill(Path(__file__), context, style_of=PAGE)


def _context(summary: Mapping[str, Any]) -> dict[str, Any]:
    checks, unsettled = summary["checks"], summary["unsettled"]
    sites = _site_rows(summary)
    return {
        "unsettled": unsettled,
        "warnings": [each for each in summary["warnings"] if each != unsettled],
        "trusted": summary["converged"] and not summary["warnings"] and all(check["passed"] for check in checks),
        "checks": [check_shown(check) for check in checks],
        "tiles": _tiles(summary["indices"]),
        "sites": _table(sites, SITES),
        "indices": _index_rows(summary["indices"]),
        "segments": _table([row | {"words": words(row["segment"])} for row in summary["segments"]], SEGMENTS),
        "ends": _end_rows(summary),
        "edits": summary["edits"],
        "cycles": summary["cycles"],
        "network": _network_rows(summary),
        "balance": _balance_rows(summary["balance"]),
        "sources": list(summary["network"]["sources"].items()),
    }


def _table(rows: Sequence[Mapping[str, Any]], lines: Sequence[Line]) -> tuple[list[str], Rows]:
    """Headings and rows; each number has its own digits, since flows differ by powers of ten; columns without any value
    are left out.
    """
    kept = [line for line in lines if any(row[line.key] is not None for row in rows)]
    head = [f"{line.words} ({line.unit})" if line.unit else line.words for line in kept]
    return head, [tuple(_cell(row[line.key], line) for line in kept) for row in rows]


def _cell(value: Any, line: Line) -> str:
    if value is None:
        return DASH
    return number(line.factor * value) if isinstance(value, float) else str(value)


def _tiles(indices: Mapping[str, Any]) -> list[dict[str, str]]:
    found = []
    for key, name, unit, usual in TILES:
        if key == "inlet_pressure":
            value = f"{indices['inlet_systolic_mmhg']:.0f}/{indices['inlet_diastolic_mmhg']:.0f}"
        elif indices.get(key) is None or (key == "inflow_ml_s" and indices["cardiac_output_l_min"] is not None):
            continue
        else:
            value = number(100 * indices[key] if unit == "%" else indices[key])
        found.append({"name": name, "value": value, "unit": unit, "usual": usual})
    return found


def _index_rows(indices: Mapping[str, Any]) -> Rows:
    """All indices; what the network has no place for is a dash."""
    rows: Rows = []
    for line in INDICES:
        value = indices[line.key]
        rows.append((line.words, DASH if value is None else f"{number(line.factor * value)} {line.unit}".rstrip()))
    return rows


def _site_rows(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Sites with their number, and how much later their pulse begins than that of the first."""
    period, rows = summary["network"]["period_s"], summary["sites"]
    first = rows[0]["foot_s"]

    def foot(row: Mapping[str, Any]) -> float | None:
        if first is None or row["foot_s"] is None:
            return None
        return 1e3 * ((row["foot_s"] - first + period / 4) % period - period / 4)

    return [
        row | {"number": k, "words": words(row["name"].partition("@")[0]), "foot_ms": foot(row)}
        for k, row in enumerate(rows, start=1)
    ]


def _end_rows(summary: Mapping[str, Any]) -> Rows:
    """Ends by what leaves there, the most first."""
    of = {node: name for name, nodes in summary["nodes"].items() for node in nodes}
    ends = [each for each in summary["openings"] if each["role"] == "outlet"]
    inflow = sum(each["flow_ml_s"] for each in summary["openings"] if each["role"] == "inlet")
    ends.sort(key=lambda each: -each["flow_ml_s"])
    return [
        (
            words(of[each["name"]]),
            number(each["flow_ml_s"]),
            percent(each["flow_ml_s"] / inflow) if inflow else DASH,
        )
        for each in ends
    ]


def _network_rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    network = summary["network"]
    shown = {key: value for key, value in network.items() if key not in ("description", "sources")}
    return facts(
        shown | {"cells": summary["cells"], "spacing_mm": summary["spacing_mm"], "tolerance": summary["tolerance"]}
    )


def _balance_rows(balance: Mapping[str, float]) -> Rows:
    profile = balance["profile_j"]
    return [
        ("mass not accounted for, of the inflow", f"{100 * abs(balance['mass']):.1e} %"),
        ("work that comes in, a cycle", f"{number(balance['work_in_j'])} J"),
        ("lost to friction in the segments", f"{number(1e3 * balance['friction_j'])} mJ"),
        ("lost in viscous walls", f"{number(1e3 * balance['walls_j'])} mJ"),
        *([("taken by the momentum of profiles", f"{number(1e3 * profile)} mJ")] if profile else []),
        ("work not accounted for", percent(balance["work_left"])),
    ]


def _provenance(records: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "stages": [
            (stage, number(record["seconds"]), number(record["peak_memory_mb"]), record.get("finished", DASH))
            for stage, record in records.items()
        ],
        "versions": [each for record in records.values() for each in record["versions"].items()],
        "settings": [
            (stage, json.dumps(record["settings"], indent=2)) for stage, record in records.items() if record["settings"]
        ],
    }
