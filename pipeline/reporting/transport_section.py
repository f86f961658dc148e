# SPDX-License-Identifier: Apache-2.0
"""What the flow carries, on the page of a case: age of blood, course of a bolus, washout of sacs, drug from walls."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from pipeline.files.table import read_columns
from pipeline.reporting.colours import PARTS
from pipeline.reporting.figures import INK, STYLE, opening_colours
from pipeline.reporting.wording import Line, table_rows, tabled
from solver.domain.nodes import Opening

AGE = (
    Line("volume_over_flow_s", "mean age at the outlets by volume over flow", "s"),
    Line("age.mean_s", "mean age of the blood in the vessel", "s"),
    Line("age.median_s", "mean age at a place: in half of the vessel below", "s"),
    Line("age.p90_s", "in nine tenths of it below", "s"),
    Line("age.missing_share", "may be missing still", "%", 100),
    Line("bolus.duration_s", "the bolus lasts", "s"),
    Line("bolus.held_at_end_share", "of it in the vessel at the end", "%", 100),
    Line("drug.mean", "drug from the wall, mean in the vessel"),
    Line("numbers.diffusivity_m2_s", "diffusivity that was computed with", "mm²/s", 1e6),
    Line("numbers.grid_peclet", "grid Peclet number"),
    Line("numbers.peclet_of_radius", "Peclet number of the smallest opening's radius"),
)
OUTLETS = (
    Line("name", "outlet"),
    Line("age_s", "mean age", "s"),
    Line("appears_s", "a tenth of the peak at", "s"),
    Line("peak_s", "peak at", "s"),
    Line("peak", "peak of the concentration"),
    Line("mean_s", "passes in the mean at", "s"),
)
SACS = (
    Line("name", "sac"),
    Line("age_s", "mean age", "s"),
    Line("peak_share", "fullest", "%", 100),
    Line("peak_s", "fullest at", "s"),
    Line("to_50_percent_s", "half of it left after", "s"),
    Line("to_10_percent_s", "a tenth left after", "s"),
)


def transport_section(carried: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What the page says of what the flow carries; none where nothing was.

    Parameters
    ----------
    carried : ``transport.json``.
    """
    if not carried:
        return None
    return {
        "facts": table_rows(carried, AGE),
        "outlets": tabled(_joined(carried, "outlets"), OUTLETS),
        "sacs": tabled(_joined(carried, "sacs"), SACS),
        "notes": carried["notes"],
    }


def _joined(carried: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Rows of openings or sacs, of the age and of the bolus together."""
    rows: dict[str, dict[str, Any]] = {}
    for each in (carried.get("age") or {}).get(key, ()):
        rows[each["name"]] = {"name": each["name"], "age_s": each["mean_s"]}
    for each in (carried.get("bolus") or {}).get(key, ()):
        rows[each["name"]] = rows.get(each["name"], {}) | each
    return [*rows.values()]


def curves_figure(path: Path, openings: Sequence[Opening]) -> Figure | None:
    """Indicator-dilution curves at the outlets, and what vessel and sacs hold, against time; none without a bolus.

    Parameters
    ----------
    path : ``transport.csv``.
    openings : of the vessel.
    """
    columns = read_columns(path)
    if not len(columns["time_s"]):
        return None
    colours, time_s = opening_colours(tuple(openings)), columns["time_s"]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.6, 3.1), layout="constrained")
        left, right = figure.subplots(1, 2)
        for opening in openings:
            if (name := f"concentration:{opening.name}") in columns:
                left.plot(time_s, columns[name], color=colours[opening.id], label=opening.name)
        most = max(float(np.max(columns["vessel_share"])), np.finfo(float).tiny)
        right.plot(time_s, 100 * columns["vessel_share"] / most, color=INK, label="vessel")
        sacs = [name for name in columns if name.startswith("washout:")]
        for name, colour in zip(sacs, PARTS[1:], strict=False):
            largest = max(float(np.max(columns[name])), np.finfo(float).tiny)
            right.plot(time_s, 100 * columns[name] / largest, color=colour, label=name.removeprefix("washout:"))
        left.set_ylabel("concentration that leaves")
        right.set_ylabel("contrast, of the largest amount (%)")
        for axes in (left, right):
            axes.set_xlabel("time (s)")
            axes.set_ylim(0, None)
            axes.legend(loc="upper right")
    return figure
