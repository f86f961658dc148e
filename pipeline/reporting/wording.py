# SPDX-License-Identifier: Apache-2.0
"""What the page says of figures that other stages tell by keys: which of them, in which words and units."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.reporting.tables import DASH, Rows, column, number


class Line(NamedTuple):
    """How a figure is shown: its key, with dots into objects, words, unit, and the factor to that unit."""

    key: str
    words: str
    unit: str = ""
    factor: float = 1.0


SAC = (
    Line("found_by", "found by a neck plane, or by its radius beside the vessel's"),
    Line("volume_ml", "volume", "mL"),
    Line("height_mm", "height over the neck", "mm"),
    Line("dome_diameter_mm", "largest width along the neck", "mm"),
    Line("neck_area_mm2", "area of the neck", "mm²"),
    Line("neck_diameter_mm", "diameter of the circle of that area", "mm"),
    Line("aspect_ratio", "aspect ratio: height over that diameter"),
    Line("inflow_ml_s", "inflow through the neck", "mL/s"),
    Line("inflow_share", "inflow, as a part of the flow beside it", "%", 100),
    Line("net_inflow_fraction", "inflow that does not return: its numerical error", "%", 100),
    Line("inflow_concentration_index", "inflow concentration index: that part over the neck's part with inflow"),
    Line("turnover_time_s", "turnover time: volume over inflow", "s"),
    Line("mean_speed_m_s", "mean speed", "m/s"),
    Line("shear_mean_pa", "mean wall shear stress", "Pa"),
    Line("parent_shear_mean_pa", "the same of the vessel beside the neck", "Pa"),
    Line("shear_ratio", "their ratio"),
    Line("low_shear_area_fraction", "wall below a tenth of the vessel's mean", "%", 100),
    Line("low_shear_index", "low-shear index"),
    Line("osi_mean", "mean oscillatory shear index"),
)

RESIDENCE = (
    Line("volume_over_inflow_s", "mean time in the vessel by volume over inflow", "s"),
    Line("flow_weighted_residence_s", "the same by the particles", "s"),
    Line("in_volume.time_since_entry_s.median", "time since entry of the blood in the vessel: median", "s"),
    Line("in_volume.time_since_entry_s.p90", "90 % entered less than so long ago", "s"),
    Line("in_volume.residence_time_s.median", "time from entry to exit of the blood in the vessel: median", "s"),
    Line("in_volume.residence_time_s.p90", "90 % are through in less than", "s"),
    Line("limit_s", "followed for at most", "s"),
    Line("in_volume.not_washed_out_share", "blood not washed out by then", "%", 100),
    Line("in_volume.entered_share", "blood that could be followed back to an inlet", "%", 100),
    Line("in_volume.lost_share", "particles lost at the wall: numerical error", "%", 100),
)

VOLUME = (
    Line("volume_ml", "volume of the fluid nodes", "mL"),
    Line("mean_speed_m_s", "mean speed", "m/s"),
    Line("kinetic_energy_j", "kinetic energy", "µJ", 1e6),
    Line("mean_shear_rate_1_s", "mean shear rate", "1/s"),
    Line("mean_viscosity_pa_s", "mean viscosity", "mPa s", 1e3),
    Line("enstrophy_1_s2", "enstrophy: mean of half the squared vorticity", "1/s²"),
    Line("helicity_h1_m_s2", "helicity h1: mean", "m/s²"),
    Line("helicity_h2_m_s2", "helicity h2: mean size", "m/s²"),
    Line("helicity_h3", "helicity h3: h1 over h2; ±1 all turns one way, 0 two ways in balance"),
)

ENERGY = (
    Line("power_in_w", "power that enters", "µW", 1e6),
    Line("power_out_w", "power that leaves", "µW", 1e6),
    Line("dissipation_w", "lost to friction", "µW", 1e6),
    Line("kinetic_energy_change_w", "stored as kinetic energy", "µW", 1e6),
    Line("unaccounted_fraction", "not accounted for", "%", 100),
)

BRANCHES = (
    Line("branch", "branch"),
    Line("from", "from"),
    Line("to", "to"),
    Line("sections", "sections"),
    Line("flow_ml_s", "flow", "mL/s"),
    Line("flow_deviation", "flow differs by", "%", 100),
    Line("pressure_drop_pa", "pressure drop", "Pa"),
    Line("pressure_drop_mmhg", "pressure drop", "mmHg"),
    Line("mean_area_mm2", "mean area", "mm²"),
    Line("min_area_mm2", "least area", "mm²"),
    Line("shear_mean_pa", "mean wall shear stress", "Pa"),
)

STENOSES = (
    Line("branch", "branch"),
    Line("from", "from"),
    Line("way_mm", "at", "mm"),
    Line("diameter_mm", "diameter", "mm"),
    Line("stenosis_by_diameter", "narrowing of the diameter", "%", 100),
    Line("stenosis_by_area", "narrowing of the area", "%", 100),
    Line("max_speed_m_s", "largest speed", "m/s"),
    Line("pressure_drop_mmhg", "pressure drop", "mmHg"),
    Line("pressure_ratio", "pressure behind over that in front"),
)


def table_rows(values: Mapping[str, Any], lines: Sequence[Line]) -> Rows:
    """Rows of words and figures; a figure that is missing or has no value is left out."""
    found = [(line, _at(values, line.key)) for line in lines]
    return [(line.words, _shown(value, line)) for line, value in found if value is not None]


def tabled(objects: Sequence[Mapping[str, Any]], lines: Sequence[Line]) -> tuple[list[str], Rows]:
    """Headings and rows of a table, a row for each object; columns without any value are left out.

    Columns of numbers share their decimals; a value that is missing is a dash, a whole number stays one.
    """
    shown: dict[str, list[str]] = {}
    for line in lines:
        values = [_at(each, line.key) for each in objects]
        if all(value is None for value in values):
            continue
        head = f"{line.words} ({line.unit})" if line.unit else line.words
        if any(isinstance(value, float) for value in values):
            shown[head] = column([None if value is None else line.factor * value for value in values])
        else:
            shown[head] = [DASH if value is None else str(value) for value in values]
    return list(shown), list(zip(*shown.values(), strict=True))


def _at(values: Mapping[str, Any], key: str) -> Any:
    """The value at a key with dots; none where there is no such thing."""
    found: Any = values
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _shown(value: Any, line: Line) -> str:
    if isinstance(value, str):
        return value
    return f"{number(line.factor * value)} {line.unit}".rstrip()
