# SPDX-License-Identifier: Apache-2.0
"""The figures that the page shows first."""

from collections.abc import Mapping
from typing import Any

from pipeline.reporting.bands_section import band_words
from pipeline.reporting.case_evidence import Evidence
from pipeline.reporting.tables import number, percent
from solver.run.units import words


def key_figures(given: Evidence) -> list[dict[str, Any]]:
    """Key figures, each with the key of what it is worth, and with what is usual where a range is established."""
    indices = given.indices
    inlets = [opening for opening in indices["openings"] if opening["role"] == "inlet"]
    drop = max(indices["pressure_drops"], key=lambda each: abs(each["drop_pa"]), default=None)
    found = [
        _figure(
            "peak speed",
            number(indices["peak_speed_m_s"]),
            "m/s",
            "speed",
            _mach(given),
            _index(given.grid, "speed"),
            band_words(given.bands, "peak_speed"),
        ),
        *_of_wall(given),
    ]
    if inlets:
        flow = number(sum(opening["flow_ml_s"] for opening in inlets))
        imposed = [opening["imposed_flow_ml_s"] for opening in inlets if opening["imposed_flow_ml_s"]]
        set_to = f"imposed: {number(sum(imposed))} mL/s" if imposed else ""
        band = band_words(given.bands, f"flow {inlets[0]['name']}") if len(inlets) == 1 else None
        found.insert(0, _figure("inflow", flow, "mL/s", "flow", set_to, _index(given.grid, "inflow"), band))
    if drop:
        name = f"pressure drop, {drop['inlet']} to {drop['outlet']} ({number(drop['drop_pa'])} Pa)"
        value = number(drop["drop_mmhg"])
        band = band_words(given.bands, f"drop {drop['inlet']} to {drop['outlet']}")
        found.insert(2, _figure(name, value, "mmHg", "pressure", "", _index(given.grid, "pressure"), band))
    if "osi_mean" in indices["wall"]:
        usual = "0: one direction; 0.5: to and fro"
        found.append(
            _figure(
                "mean oscillatory shear index",
                number(indices["wall"]["osi_mean"]),
                "",
                "oscillation",
                usual,
                _index(given.grid, "oscillatory"),
                band_words(given.bands, "osi_mean"),
            )
        )
    return found


def _of_wall(given: Evidence) -> list[dict[str, Any]]:
    """Figures of the wall shear stress."""
    wall, averaged = given.indices["wall"], "time-averaged " if given.indices["times"] > 1 else ""
    return [
        _figure(
            f"mean {averaged}wall shear stress",
            number(wall["shear_mean_pa"]),
            "Pa",
            "wall",
            "usual in arteries: 1 to 7 Pa",
            _index(given.grid, "shear", "mean"),
            band_words(given.bands, "shear_mean"),
        ),
        _figure(
            f"99th percentile of the {averaged}wall shear stress",
            number(wall["shear_p99_pa"]),
            "Pa",
            "wall",
            "",
            _index(given.grid, "shear", "99"),
            band_words(given.bands, "shear_p99"),
        ),
        _figure(
            "of the wall below 0.4 Pa",
            f"{100 * wall['low_shear_fraction']['0.4 Pa']:.1f}",
            "%",
            "wall",
            "below 0.4 Pa walls are prone to plaque",
            _index(given.grid, "low"),
            band_words(given.bands, "low_shear", 100.0),
        ),
    ]


# many parameters because a tile of the page has so many lines
def _figure(
    name: str, value: str, unit: str, trust: str, usual: str, index: str | None, band: str | None
) -> dict[str, Any]:
    shown = {"name": name, "value": value, "unit": unit, "trust": trust, "usual": usual}
    return shown | {"index": index, "band": band}


def _mach(given: Evidence) -> str:
    """The Mach number that was reached and the one that was expected."""
    expected = given.summary["numbers"].get("expected_mach")
    foreseen = f", {number(expected)} expected" if expected else ""
    return f"Mach number {number(given.summary['mach'])}{foreseen}"


def _index(grid: Mapping[str, Any] | None, *words_in: str) -> str | None:
    """The grid convergence index of the first quantity whose name has all words; none where there is none."""
    for quantity in (grid or {}).get("quantities", ()):
        name = words(quantity["name"]).lower()
        if quantity["gci"] is not None and all(word in name for word in words_in):
            return f"grid convergence index {percent(quantity['gci'])}"
    return None
