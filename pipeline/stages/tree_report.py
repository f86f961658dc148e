# SPDX-License-Identifier: Apache-2.0
"""After tree, tree_report: what was found in a network alone, on one page that opens without a network connection."""

from collections.abc import Mapping
from typing import Any

from pipeline.case.settings.base import parse
from pipeline.files.json_file import read_json
from pipeline.haemodynamics.pulse import Waves, separated
from pipeline.haemodynamics.tree_waveforms import SEGMENTS, SITES, Waveforms, read_waveforms
from pipeline.reporting.figures import to_png
from pipeline.reporting.pictures import Pictures
from pipeline.reporting.report_settings import ReportInput
from pipeline.reporting.tree_page import tree_page
from pipeline.reporting.tree_plots import Map, cycles_figure, maps_figure, sites_figure, waves_figure
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.runtime.command_line import run_stage
from solver.runtime.provenance import Job

MOST_WAVES = 3
"""Sites whose waves are shown, the first of the list."""


def maps(summary: Mapping[str, Any], found: Waveforms) -> list[Map]:
    """What the drawing is coloured by: pulse pressure at five places, share of the flow, and wave speed."""
    rows = {row["segment"]: row for row in summary["segments"]}
    pulse = found.pressure_pa.max(axis=0) - found.pressure_pa.min(axis=0)
    by_place = {name: (pulse[found.of_segment(name)] / PASCAL_PER_MMHG).tolist() for name in rows}
    places = len(next(iter(by_place.values())))

    def constant(key: str, factor: float = 1.0) -> dict[str, list[float]]:
        return {name: [factor * (row[key] or 0.0)] * places for name, row in rows.items()}

    return [
        Map("pulse pressure (mmHg)", by_place, "inferno"),
        Map(
            "share of the inflow (%)",
            {k: [abs(x) for x in v] for k, v in constant("flow_share", 100).items()},
            "viridis",
            True,
        ),
        Map("wave speed (m/s)", constant("wave_speed_m_s"), "plasma"),
    ]


def site_waves(summary: Mapping[str, Any], found: Waveforms) -> dict[str, tuple[int, Waves]]:
    """Waves of the first sites that pulsate, by name, with the number of the site."""
    shown: dict[str, tuple[int, Waves]] = {}
    for k, site in enumerate(summary["sites"]):
        if site["reflection_magnitude"] is not None and len(shown) < MOST_WAVES:
            flow = site["away"] * found.flow_m3_s[:, k]
            waves = separated(found.pressure_pa[:, k], flow, site["impedance_pa_s_m3"], site["area_m2"], found.period_s)
            shown[site["name"]] = (k, waves)
    return shown


def _compute(job: Job) -> None:
    inputs = parse(ReportInput, job.settings, "--settings")
    summary, found = read_json(job.inputs["summary"]), read_waveforms(job.inputs["waveforms"])
    sites, pictures = found[SITES], Pictures()
    drawn = maps_figure(summary, maps(summary, found[SEGMENTS]), summary["sites"])
    pictures.add("tree-maps", "the tree, by pulse pressure, flow and wave speed", to_png(drawn))
    names = [site["name"] for site in summary["sites"]]
    pictures.add("tree-sites", "waveforms at chosen sites", to_png(sites_figure(sites, names)))
    if waves := site_waves(summary, sites):
        pictures.add("tree-waves", "forward and backward waves", to_png(waves_figure(sites, waves)))
    if summary["changes"]:
        picture = cycles_figure(summary["changes"], summary["tolerance"])
        pictures.add("tree-cycles", "change from cycle to cycle", to_png(picture))
    record = job.inputs["summary"].with_name("tree.provenance.json")
    more = {
        "title": inputs.title or inputs.case,
        "description": inputs.description or summary["network"]["description"],
        "figures": pictures.for_page(),
        "records": {"tree": read_json(record)} if record.is_file() else {},
    }
    pictures.write(job.outputs["figures"])
    job.outputs["report"].write_text(tree_page(summary, more), encoding="utf-8")


if __name__ == "__main__":
    run_stage(
        "tree_report",
        __doc__,
        inputs={
            "summary": "outcome, indices and checks, from tree (tree.json)",
            "waveforms": "waveforms of segments and sites, from tree (tree.h5)",
        },
        outputs={"report": "the page (.html)", "figures": "folder for the pictures (PNG)"},
        compute=_compute,
    )
