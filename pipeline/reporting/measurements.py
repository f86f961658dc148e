# SPDX-License-Identifier: Apache-2.0
"""Measurements: which numbers of ``indices.json`` go back to an archive, under which concepts.

Concepts of public schemes stand where one means the same; others are the project's own. Those that tell of an opening,
a sac or a narrow place come in a group for each; figures of one thing that are not worth the same are in groups apart.
"""

from collections.abc import Mapping
from itertools import groupby
from typing import Any, NamedTuple

from pipeline.dicom.objects import Concept, Group, Measured
from pipeline.haemodynamics.index_table import long_rows

UCUM = {"mmHg": "mm[Hg]", "Pa s": "Pa.s", "": "1"}
"""Units of ``indices.csv`` that UCUM writes otherwise."""

VOLUME, AREA = Concept("118565006", "Volume", "SCT"), Concept("42798000", "Area", "SCT")
RADIUS, DIAMETER = Concept("131190003", "Radius", "SCT"), Concept("81827009", "Diameter", "SCT")
FLOW = Concept("33878-0", "Volume flow", "LN")
SPEED = Concept("speed", "Speed of blood")
SHEAR = Concept("wss", "Wall shear stress")
PRESSURE = Concept("pressure", "Pressure above the reference at the outlets")

FINDINGS = {
    "vessel": Concept("91747007", "Lumen of blood vessel", "SCT"),
    "openings": Concept("opening", "Cut end of a vessel"),
    "pressure_drops": Concept("way", "Way from an inlet to an outlet"),
    "sacs": Concept("sac", "Sac of a vessel"),
    "stenoses": Concept("narrow-place", "Narrow place of a vessel"),
}
"""What figures are of, by the beginning of their quantity; others are of the vessel."""

WORTH = {
    "good": Concept("good", "Good"),
    "reservation": Concept("reservation", "With reservation"),
    "unusable": Concept("unusable", "Not usable"),
}


class Figure(NamedTuple):
    """A number: its concept, and how it is derived from many."""

    concept: Concept
    derivation: str = ""


FIGURES: Mapping[str, Figure] = {
    "volume.volume_ml": Figure(VOLUME),
    "wall.area_mm2": Figure(AREA),
    "wall.shear_mean_pa": Figure(SHEAR, "mean"),
    "wall.shear_min_pa": Figure(SHEAR, "least"),
    "wall.shear_max_pa": Figure(SHEAR, "largest"),
    "wall.shear_p99_pa": Figure(Concept("wss-p99", "Wall shear stress, 99th percentile of the area")),
    "wall.low_shear_fraction.0.4 Pa": Figure(Concept("wss-low", "Part of the wall below a shear stress of 0.4 Pa")),
    "wall.osi_mean": Figure(Concept("osi", "Oscillatory shear index"), "mean"),
    "peak_speed_m_s": Figure(SPEED, "largest"),
    "energy.dissipation_w": Figure(Concept("dissipation", "Power lost to friction")),
    "openings.radius_mm": Figure(RADIUS),
    "openings.flow_ml_s": Figure(FLOW, "mean"),
    "openings.flow_min_ml_s": Figure(FLOW, "least"),
    "openings.flow_max_ml_s": Figure(FLOW, "largest"),
    "openings.flow_share": Figure(Concept("flow-share", "Part of the inflow")),
    "openings.mean_speed_m_s": Figure(SPEED, "mean"),
    "openings.peak_speed_m_s": Figure(SPEED, "largest"),
    "openings.pressure_mmhg": Figure(PRESSURE, "mean"),
    "openings.reynolds": Figure(Concept("reynolds", "Reynolds number")),
    "openings.womersley": Figure(Concept("womersley", "Womersley number")),
    "pressure_drops.drop_mmhg": Figure(Concept("pressure-drop", "Pressure drop")),
    "sacs.volume_ml": Figure(VOLUME),
    "sacs.neck_diameter_mm": Figure(Concept("neck-diameter", "Diameter of the circle of the neck's area")),
    "sacs.height_mm": Figure(Concept("height", "Height over the neck")),
    "sacs.dome_diameter_mm": Figure(DIAMETER, "largest"),
    "sacs.aspect_ratio": Figure(Concept("aspect-ratio", "Height over diameter of the neck")),
    "sacs.inflow_ml_s": Figure(FLOW, "mean"),
    "sacs.turnover_time_s": Figure(Concept("turnover", "Turnover time: volume over inflow")),
    "sacs.shear_mean_pa": Figure(SHEAR, "mean"),
    "sacs.shear_max_pa": Figure(SHEAR, "largest"),
    "stenoses.diameter_mm": Figure(DIAMETER, "least"),
    "stenoses.stenosis_by_diameter": Figure(Concept("narrowing", "Narrowing, as a part of the diameter")),
    "stenoses.pressure_drop_mmhg": Figure(Concept("pressure-drop", "Pressure drop")),
}
"""By the quantity of ``indices.csv``."""
OF_PULSE = ("openings.flow_min_ml_s", "openings.flow_max_ml_s")
"""These say nothing of a steady flow."""


def measurements(indices: Mapping[str, Any]) -> list[Group]:
    """Groups of figures, those of the vessel first.

    Parameters
    ----------
    indices : ``indices.json``.
    """
    rows = [row for row in long_rows(indices) if row["quantity"] in FIGURES]
    if indices["times"] == 1:
        rows = [row for row in rows if row["quantity"] not in OF_PULSE]
    things = list(FINDINGS)

    def order(row: Mapping[str, Any]) -> tuple[int, str, str]:
        return things.index(_thing(row)), str(row["name"]), str(row["trust"])

    found = []
    for _, of_group in groupby(sorted(rows, key=order), order):
        same = list(of_group)
        thing, name, worth = _thing(same[0]), str(same[0]["name"]), str(same[0]["trust"])
        figures = [_measured(row) for row in same]
        found.append(Group(_called(thing, name), FINDINGS[thing], WORTH.get(worth), figures))
    return found


def _thing(row: Mapping[str, Any]) -> str:
    first = str(row["quantity"]).partition(".")[0]
    return first if first in FINDINGS else "vessel"


def _called(thing: str, name: str) -> str:
    return f"narrow place {name}" if thing == "stenoses" else name or "vessel"


def _measured(row: Mapping[str, Any]) -> Measured:
    concept, derivation = FIGURES[str(row["quantity"])]
    unit = str(row["unit"])
    return Measured(concept, float(row["value"]), UCUM.get(unit, unit), derivation)
