# SPDX-License-Identifier: Apache-2.0
"""The page of all cases: a table, and how each key figure is spread over the cases."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from pipeline.reporting.report_page import fill
from pipeline.reporting.tables import DASH, number

FEWEST_FOR_A_BOX = 5
"""Of fewer cases quartiles say nothing: they are dots alone."""

WIDTH, HEIGHT, EDGE = 320, 96, 16
BOX_AT, DOTS_AT, DOTS_HIGH, DOT = 24, 58, 36, 4.0
"""Of a plot, in its own units: size, heights of the box and of the middle of the dots, extent and radius of these."""

GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Column:
    """A key figure.

    Attributes
    ----------
    key : name in the table of numbers, with its unit.
    words, unit : for reading.
    of : its value in ``indices.json``; none where a case does not have it.
    factor : from the value to what is shown, 100 for per cent.
    quantity : that of ``indices.csv`` which tells what it is worth; empty where nothing does.
    spread : whether its spread over the cases is plotted.
    band : beginning of the keys in ``uncertainty.json`` of the figures that it is chosen from; empty without any.
    """

    key: str
    words: str
    unit: str
    of: Callable[[Mapping[str, Any]], float | None]
    factor: float = 1.0
    quantity: str = ""
    spread: bool = True
    band: str = ""

    @property
    def label(self) -> str:
        """Name with unit."""
        return f"{self.words} ({self.unit})" if self.unit else self.words


@dataclass(frozen=True)
class Row:
    """A run: a case, in one of the scenarios where there are any.

    Attributes
    ----------
    run, description : name of its folder, ``<case>`` or ``<case>@<scenario>``, and what the case is.
    failed, warnings : names of the checks that failed, and warnings in words.
    values : by key of the column; none where the case does not have it.
    worth : good, reservation or unusable, by key of the column; empty where nothing says so.
    pictures : addresses of small pictures.
    stage, message : of a run that was not finished the stage that failed, if any was begun, and what is said of it.
    network : in which the vessel sits, or which is all of the case, in words; empty where there is none.
    unsettled : by how much the flow had not settled; empty where it had.
    unsteady : how a flow under steady conditions fluctuates; empty where it does not.
    bands : ends of the bands of its values, by key of the column, where there are any.
    """

    run: str
    description: str
    failed: list[str]
    warnings: list[str]
    values: Mapping[str, float | None]
    worth: Mapping[str, str]
    pictures: list[str]
    stage: str = ""
    message: str = ""
    network: str = ""
    unsettled: str = ""
    unsteady: str = ""
    bands: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def case(self) -> str:
        """Name of the case."""
        return self.run.partition("@")[0]

    @property
    def scenario(self) -> str:
        """Name of the scenario; empty where there are none."""
        return self.run.partition("@")[2]

    @property
    def finished(self) -> bool:
        """Whether there are results."""
        return not self.message

    @property
    def state(self) -> str:
        """``unfinished``, ``failed``, ``warned`` or ``passed``."""
        if not self.finished:
            return "unfinished"
        return "failed" if self.failed else "warned" if self.warnings else "passed"


def _at(*keys: str) -> Callable[[Mapping[str, Any]], float | None]:
    """The number under keys of objects within objects; none where there is none."""

    def found(indices: Mapping[str, Any]) -> float | None:
        value: Any = indices
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return float(value) if isinstance(value, int | float) else None

    return found


def _over(
    group: str, key: str, choose: Callable[[list[float]], float], role: str | None = None
) -> Callable[[Mapping[str, Any]], float | None]:
    """What is chosen from the numbers of a list of objects, of one role where that is given."""

    def found(indices: Mapping[str, Any]) -> float | None:
        objects = [each for each in indices.get(group) or () if role is None or each["role"] == role]
        values = [float(each[key]) for each in objects if each.get(key) is not None]
        return choose(values) if values else None

    return found


def _check(name: str) -> Callable[[Mapping[str, Any]], float | None]:
    """The value that a check looked at."""

    def found(indices: Mapping[str, Any]) -> float | None:
        return next((float(check["value"]) for check in indices["checks"] if check["name"] == name), None)

    return found


def _largest_share(indices: Mapping[str, Any]) -> float | None:
    """Largest mean flow of an outlet by that of all of them; none where there are not two, or blood comes in by one."""
    flows = [each["flow_ml_s"] for each in indices.get("openings") or () if each["role"] == "outlet"]
    return float(max(flows) / sum(flows)) if len(flows) > 1 and min(flows) >= 0 < sum(flows) else None


def _at_inlets(indices: Mapping[str, Any], key: str) -> list[float]:
    """A figure of the inlets of a vessel that sits in a network; empty of all other cases."""
    return [float(each[key]) for each in indices.get("coupling") or () if each["role"] == "inlet"]


def _pulse_pressure(indices: Mapping[str, Any]) -> float | None:
    """At the inlet of a network, or the largest at an inlet of a vessel that sits in one."""
    both = (_at_inlets(indices, key) for key in ("vessel_systolic_mmhg", "vessel_diastolic_mmhg"))
    pulses = [high - low for high, low in zip(*both, strict=True)]
    return max(pulses) if pulses else _at("indices", "inlet_pulse_mmhg")(indices)


def _flow_change(indices: Mapping[str, Any]) -> float | None:
    """Mean flow into a vessel that sits in a network, off what the network alone had there."""
    with_it, alone = (sum(_at_inlets(indices, f"{kind}_flow_ml_s")) for kind in ("vessel", "alone"))
    return with_it / alone - 1 if alone else None


def _largest(values: list[float]) -> float:
    return max(values, key=abs)


COLUMNS = (
    Column(
        "inflow_ml_s",
        "inflow",
        "mL/s",
        _over("openings", "flow_ml_s", sum, "inlet"),
        quantity="openings.flow_ml_s",
        band="flow ",
    ),
    Column("peak_speed_m_s", "peak speed", "m/s", _at("peak_speed_m_s"), quantity="peak_speed_m_s", band="peak_speed"),
    Column(
        "pressure_drop_mmhg",
        "largest pressure drop",
        "mmHg",
        _over("pressure_drops", "drop_mmhg", _largest),
        quantity="pressure_drops.drop_mmhg",
        band="drop ",
    ),
    Column(
        "pressure_ratio_min",
        "least pressure ratio",
        "",
        _over("pressure_drops", "pressure_ratio", min),
        quantity="pressure_drops.pressure_ratio",
        band="ratio ",
    ),
    Column(
        "shear_mean_pa",
        "mean wall shear stress",
        "Pa",
        _at("wall", "shear_mean_pa"),
        quantity="wall.shear_mean_pa",
        band="shear_mean",
    ),
    Column(
        "shear_p99_pa",
        "99th percentile of the wall shear stress",
        "Pa",
        _at("wall", "shear_p99_pa"),
        quantity="wall.shear_p99_pa",
        band="shear_p99",
    ),
    Column(
        "wall_below_0.4_pa_fraction",
        "wall below 0.4 Pa",
        "%",
        _at("wall", "low_shear_fraction", "0.4 Pa"),
        100.0,
        "wall.low_shear_fraction",
        band="low_shear",
    ),
    Column(
        "osi_mean",
        "mean oscillatory shear index",
        "",
        _at("wall", "osi_mean"),
        quantity="wall.osi_mean",
        band="osi_mean",
    ),
    Column("narrowing_fraction", "largest narrowing", "%", _over("stenoses", "stenosis_by_diameter", max), 100.0),
    Column(
        "reynolds_max", "largest Reynolds number", "", _over("openings", "reynolds", max), quantity="openings.reynolds"
    ),
    Column("sac_volume_ml", "volume of sacs", "mL", _over("sacs", "volume_ml", sum)),
    Column("volume_ml", "volume", "mL", _at("volume", "volume_ml"), band="volume"),
    Column(
        "dissipated_w", "power lost to friction", "W", _at("energy", "dissipation_w"), quantity="energy.dissipation_w"
    ),
    Column("outlet_share_max", "largest share of the flow of an outlet", "%", _largest_share, 100.0),
    Column("pulse_pressure_mmhg", "pulse pressure at the inlet", "mmHg", _pulse_pressure),
    Column("network_flow_change", "inflow against the network without the vessel", "%", _flow_change, 100.0),
    Column("cardiac_output_l_min", "cardiac output", "L/min", _at("indices", "cardiac_output_l_min")),
    Column("pulse_wave_velocity_m_s", "pulse wave velocity", "m/s", _at("indices", "pulse_wave_velocity_m_s")),
    Column("ankle_brachial_index", "ankle-brachial index", "", _at("indices", "ankle_brachial_index")),
    Column("augmentation_index", "augmentation index", "%", _at("indices", "augmentation_index_aortic"), 100.0),
    Column("flow_share_carotids", "share of the carotid arteries", "%", _at("indices", "flow_share_carotids"), 100.0),
    Column("flow_share_femorals", "share of the femoral arteries", "%", _at("indices", "flow_share_femorals"), 100.0),
    Column("nodes_across", "nodes across", "", _check("nodes across"), spread=False),
    Column("flow_balance_fraction", "flow balance", "%", _check("flow balance"), 100.0, spread=False),
    Column("mach", "Mach number", "", _check("Mach number"), spread=False),
    *(
        Column(
            f"{what}_against_network",
            f"{what} against the network",
            "%",
            _check(f"{what} against the network"),
            100.0,
            spread=False,
        )
        for what in ("radius", "flow", "pressure")
    ),
)
"""Key figures in their order; those that no case has are left out."""


BAND_ENDS = ("low", "high")
"""What the columns of a band's ends are called behind the key of its value."""

SAME = 0.01
"""A column's value is that of a figure with a band if they differ by no more: the volume is that of the lattice here,
and of the surface there."""


def bands_of(values: Mapping[str, float | None], found: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """Ends of the bands of a run's values, by key of the column.

    Parameters
    ----------
    values : by key of the column.
    found : bands of the run's figures, as in ``uncertainty.json``.
    """
    ends = {}
    for column in COLUMNS:
        value = values[column.key]
        if not column.band or value is None:
            continue
        near = [band for band in found if band["key"].startswith(column.band) and _same(value, band["value"])]
        if near:
            band = min(near, key=lambda each: abs(each["value"] - value))
            by = value / band["value"] if band["value"] else 1.0
            ends[column.key] = (by * band["low"], by * band["high"])
    return ends


def _same(value: float, other: float) -> bool:
    return abs(value - other) <= SAME * abs(other)


def cohort_page(rows: Sequence[Row], table: str) -> str:
    """The page.

    Parameters
    ----------
    rows : runs in the order in which they are shown at first.
    table : the same as CSV, which the page carries for download.
    """
    shown = [column for column in COLUMNS if any(row.values[column.key] is not None for row in rows)]
    states = [row.state for row in rows]
    scenarios = len({row.scenario for row in rows} - {""})
    finished = len(rows) - states.count("unfinished")
    context = {
        "head": [column.label for column in shown],
        "rows": [(row, [_cell(column, row) for column in shown]) for row in rows],
        "plots": [(column.label, spread(column, rows)) for column in shown if column.spread],
        "box": finished >= FEWEST_FOR_A_BOX,
        "bands": any(row.bands for row in rows),
        "count": len(rows),
        "finished": finished,
        "heading": _counted(len({row.case for row in rows}), "case"),
        "scenarios": _counted(scenarios, "scenario") if scenarios else "",
        "failed": states.count("failed"),
        "warned": states.count("warned"),
        "table": "data:text/csv;charset=utf-8;base64," + base64.b64encode(table.encode()).decode(),
    }
    return fill(Path(__file__), context)


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def _cell(column: Column, row: Row) -> tuple[str, str, str, str]:
    """What sorts, what is read, what it is worth, and its band in words."""
    value = row.values[column.key]
    if value is None:
        return "", DASH, "", ""
    ends = row.bands.get(column.key)
    band = " to ".join(number(column.factor * end) for end in ends) if ends else ""
    return repr(value), number(column.factor * value), row.worth[column.key], band


def spread(column: Column, rows: Sequence[Row]) -> Markup:
    """The spread of a key figure over the cases as an SVG: a dot a run, which leads to its row, and above them a box.

    The box reaches from the lower to the upper quartile with a line at the median; whiskers reach to the outermost
    values within 1.5 box lengths of it. Source: Tukey (1977), Exploratory Data Analysis. A line through a dot is its
    band.
    """
    given = [(row, column.factor * value) for row in rows if (value := row.values[column.key]) is not None]
    given.sort(key=lambda each: ("passed", "warned", "failed").index(each[0].state))  # these lie on top
    values = np.array([value for _, value in given])
    bands = {row.run: [column.factor * end for end in row.bands.get(column.key, ())] for row, _ in given}
    within = np.concatenate((values, *bands.values()))
    low, high = float(within.min()), float(within.max())

    def across(value: float) -> float:
        return EDGE + (value - low) / (high - low) * (WIDTH - 2 * EDGE) if high > low else WIDTH / 2

    parts = [f'<svg class="spread" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>{escape(column.label)}</title>']
    if len(values) >= FEWEST_FOR_A_BOX:
        first, median, third = np.percentile(values, (25, 50, 75))
        inner = values[(values >= first - 1.5 * (third - first)) & (values <= third + 1.5 * (third - first))]
        a, b, c, d, e = (across(float(each)) for each in (inner.min(), first, median, third, inner.max()))
        top, cap, label = BOX_AT - 8, BOX_AT - 4, BOX_AT - 11
        parts.append(
            f'<path class="box" d="M{a:.1f} {cap}v8M{a:.1f} {BOX_AT}H{b:.1f}M{d:.1f} {BOX_AT}H{e:.1f}M{e:.1f} {cap}v8'
            f'M{b:.1f} {top}H{d:.1f}v16H{b:.1f}z"/><path class="median" d="M{c:.1f} {top}v16"/>'
            f'<text x="{c:.1f}" y="{label}" text-anchor="middle">{number(float(median))}</text>'
        )
    size = DOT / np.sqrt(max(len(given) / 60, 1))
    for k, (row, value) in enumerate(given):
        y = DOTS_AT + (k * GOLDEN % 1 - 0.5) * DOTS_HIGH  # so that dots of close values stay apart
        if bands[row.run]:
            first, last = (across(end) for end in bands[row.run])
            parts.append(f'<path class="band" d="M{first:.1f} {y:.1f}H{last:.1f}"/>')
        parts.append(
            f'<a href="#case-{escape(row.run)}"><circle class="{row.state}" cx="{across(value):.1f}" cy="{y:.1f}"'
            f' r="{size:.1f}"><title>{escape(row.run)}: {number(value)}</title></circle></a>'
        )
    ends = [(low, EDGE, "start"), (high, WIDTH - EDGE, "end")] if high > low else [(low, WIDTH / 2, "middle")]
    for value, x, anchor in ends:
        parts.append(f'<text x="{x}" y="{HEIGHT - 4}" text-anchor="{anchor}">{number(value)}</text>')
    return Markup("".join(parts) + "</svg>")
