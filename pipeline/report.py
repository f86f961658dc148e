"""Stage 9, report: everything that was found, on one page that opens without a network.

Still pictures need a library that draws without a screen (:mod:`render`); where there is none, the page is made without
them and says so.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from pydantic import Field

from pipeline.centreline import read_lines
from pipeline.haemodynamics.indices import read_json, read_monitor, shown_step
from pipeline.mesh import read_openings
from pipeline.reporting.figures import opening_colours
from pipeline.reporting.page import fill
from pipeline.reporting.pictures import (
    Pictures,
    draw_centreline,
    draw_flow,
    plot_record,
    plot_triangles,
    plot_waveforms,
    read_shear,
)
from pipeline.reporting.render import REMEDY, window_class
from pipeline.segmentation.page import LABELS, PER_PERCENT, threshold_curve
from pipeline.segmentation.page import figures as mask_figures
from pipeline.settings.base import Name, parse
from pipeline.settings.flow import ReportSettings
from solver import nodes as node_files
from solver.flow import read_flow
from solver.nodes import Opening
from solver.stage import Job, StageError, run_stage
from solver.units import words

STAGES = (
    "phantom", "load", "filter", "segment", "import_mask", "surface", "import_surface", "canonical", "centreline",
    "voxelize", "decompose", "solve", "postprocess",
)  # fmt: skip
"""In the order in which they run; a case that enters with a mask or a surface has no stages before that."""

GIVEN = {
    "mask": "This case enters with a given mask: the image that it was made from is not known here, nor how far the"
    " lumen hangs on a threshold.",
    "geometry": "This case enters with a canonical geometry: no image, no patient.",
    "surface": "This case enters with a given surface: the image and the mask that it was made from are not known here,"
    " nor how far the lumen hangs on a threshold.",
}
"""What must be said where no image leads to the lumen."""

TIMES = "\N{MULTIPLICATION SIGN}"


class ReportInput(ReportSettings):
    """What the command line takes: the report's section of the case, and what the page says of the case."""

    case: Name = Field(description="name of the case")
    description: str = Field("", description="what this case is; no name of a patient")


def number(value: float, digits: int = 3) -> str:
    """A number for reading: so many significant digits, and a power of ten only where it must be."""
    if not np.isfinite(value):
        return "not finite"
    if float(value).is_integer() and abs(value) < 1e6:
        return f"{value:.0f}"
    power = int(np.floor(np.log10(abs(value))))
    if -4 <= power < 6:
        return f"{value:.{max(digits - 1 - power, 0)}f}"
    exponent = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{value / 10.0**power:.{digits - 1}f} {TIMES} 10{exponent}"


def column(values: Sequence[float | None]) -> list[str]:
    """Numbers of a column with as many decimals as give the largest three significant digits; none as a dash."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    decimals = int(np.clip(2 - np.floor(np.log10(largest)), 0, 6)) if largest else 0
    return ["\N{EN DASH}" if value is None else f"{value:z.{decimals}f}" for value in values]


def facts(values: Mapping[str, Any], leave_out: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Rows of a table from the plain values of an object: numbers, words, yes or no, and short lists of these."""
    left_out = set(leave_out)
    rows = []
    for key, value in values.items():
        text = _text(value)
        if text is not None and key not in left_out:
            rows.append((words(key), text))
    return rows


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:.4g}" if 1e-4 <= abs(value) < 1e4 else number(value)
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(each, int | float | str) for each in value):
        return f" {TIMES} ".join(_text(each) or "" for each in value) if len(value) <= 4 else None
    return None


def context(
    inputs: ReportInput,
    indices: Mapping[str, Any],
    summary: Mapping[str, Any],
    openings: tuple[Opening, ...],
    image: Mapping[str, Any] | None,
    segmentation: Mapping[str, Any] | None,
    geometry: Mapping[str, Any],
    tree: Mapping[str, Any] | None,
    records: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Texts and tables of the page.

    Parameters
    ----------
    inputs : settings.
    indices, summary, image, segmentation : ``indices.json``, ``solve.json``, ``series.json``, ``segmentation.json``;
        none of the image or the segmentation where the case enters with a mask or a surface.
    geometry : how the surface was made, from ``openings.json``.
    tree : ``centreline.json``; none where the vessel has no centreline.
    openings : of the vessel.
    records : provenance by stage.
    """
    mask = segmentation or {}
    warnings = [*mask.get("warnings", []), *indices["warnings"]]
    return {
        "title": inputs.title or inputs.case,
        "description": inputs.description,
        "warnings": warnings,
        "trusted": not warnings and all(check["passed"] for check in indices["checks"]),
        "checks": [_check(check) for check in indices["checks"]],
        "tiles": _tiles(indices),
        "openings": _opening_rows(indices, openings),
        "drops": _drop_rows(indices["pressure_drops"]),
        "wall": _wall_rows(indices["wall"]),
        "notes": summary.get("notes", []),
        "expected": facts(summary["numbers"]),
        "outcome": _outcome(summary),
        "models": facts(summary["models"]) + facts({"device": summary["device"]}),
        "given": None if image else GIVEN[_entry(segmentation, geometry)],
        "image": facts(image or {}, leave_out=("origin_mm", "series", "dtype")),
        "segmented": segmentation is not None,
        "mask": mask_figures(mask),
        "curve": threshold_curve(mask),
        "segmentation": facts(mask, leave_out=LABELS.keys() | PER_PERCENT.keys()),
        "geometry": [] if segmentation else facts(geometry),
        "branches": _branch_rows(tree["branches"]) if tree else [],
        "forks": _fork_rows(tree["bifurcations"]) if tree else [],
        "narrowest": _narrowest(tree) if tree else None,
        "doubts": tree["warnings"] if tree else [],
        "triangles": _triangle_rows(geometry),
        "stages": [
            (stage, number(record["seconds"]), number(record["peak_memory_mb"])) for stage, record in records.items()
        ],
        "versions": list(records["postprocess"]["versions"].items()) if "postprocess" in records else [],
        "settings": [
            (stage, json.dumps(record["settings"], indent=2)) for stage, record in records.items() if record["settings"]
        ],
    }


def _entry(segmentation: Mapping[str, Any] | None, geometry: Mapping[str, Any]) -> str:
    """With what a case without an image enters."""
    if segmentation:
        return "mask"
    return "geometry" if geometry.get("source") == "canonical geometry" else "surface"


def _outcome(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the run came to, and how far the last two cycles differ where there were any."""
    differ = {f"difference of the last two cycles in {key}": v for key, v in (summary.get("periodicity") or {}).items()}
    return facts(summary, leave_out=("converged", "device")) + [(name, f"{v:.2%}") for name, v in differ.items()]


def _check(check: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(check["value"], bool):
        return {
            "name": check["name"],
            "passed": check["passed"],
            "value": "yes" if check["value"] else "no",
            "limit": "",
        }
    percent = check["unit"] == "%"
    value = f"{100 * check['value']:z.2f} %" if percent else number(check["value"])
    limit = f"{100 * check['limit']:g} %" if percent else f"{check['limit']:g}"
    bound = "at least" if check["name"].startswith("nodes across") else "at most"
    return {"name": check["name"], "passed": check["passed"], "value": value, "limit": f"({bound} {limit})"}


def _tiles(indices: Mapping[str, Any]) -> list[dict[str, str]]:
    inlets = [opening for opening in indices["openings"] if opening["role"] == "inlet"]
    drop = max(indices["pressure_drops"], key=lambda each: abs(each["drop_pa"]), default=None)
    wall = indices["wall"]
    averaged = "time-averaged " if indices["times"] > 1 else ""
    tiles = [
        ("peak speed", number(indices["peak_speed_m_s"]), "m/s"),
        (f"mean {averaged}wall shear stress", number(wall["shear_mean_pa"]), "Pa"),
        ("99th percentile of the wall shear stress", number(wall["shear_p99_pa"]), "Pa"),
        ("of the wall below 0.4 Pa", f"{100 * wall['low_shear_fraction']['0.4 Pa']:.1f}", "%"),
    ]
    if inlets:
        tiles.insert(0, ("inflow", number(sum(opening["flow_ml_s"] for opening in inlets)), "mL/s"))
    if drop:
        name = f"pressure drop, {drop['inlet']} to {drop['outlet']} ({number(drop['drop_pa'])} Pa)"
        tiles.insert(2, (name, number(drop["drop_mmhg"]), "mmHg"))
    return [{"name": name, "value": value, "unit": unit} for name, value, unit in tiles]


def _opening_rows(indices: Mapping[str, Any], openings: tuple[Opening, ...]) -> list[dict[str, Any]]:
    keys = (
        "radius_mm", "flow_ml_s", "imposed_flow_ml_s", "mean_speed_m_s", "peak_speed_m_s", "pressure_pa",
        "pressure_mmhg", "reynolds",
    )  # fmt: skip
    colours, rows = opening_colours(openings), indices["openings"]
    numbers = zip(*(column([row[key] for row in rows]) for key in keys), strict=True)
    return [
        {"name": row["name"], "role": row["role"], "colour": colours[row["id"]], "numbers": shown}
        for row, shown in zip(rows, numbers, strict=True)
    ]


def _branch_rows(branches: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    keys = ("length_mm", "tortuosity", "min_radius_mm", "mean_radius_mm", "max_radius_mm")
    shown = zip(*(column([branch[key] for branch in branches]) for key in keys), strict=True)
    places = [(str(branch["branch"]), branch["from"], branch["to"]) for branch in branches]
    return [(*place, *numbers) for place, numbers in zip(places, shown, strict=True)]


def _fork_rows(forks: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    return [
        (
            fork["name"],
            ", ".join(f"{x:.1f}" for x in fork["place_mm"]),
            "; ".join(f"{a['branches'][0]} and {a['branches'][1]}: {a['angle_deg']:.0f}°" for a in fork["angles"]),
            number(fork["radius_mm"]),
        )
        for fork in forks
    ]


def _narrowest(tree: Mapping[str, Any]) -> str:
    branch = next(each for each in tree["branches"] if each["branch"] == tree["narrowest_branch"])
    radius, way = number(tree["narrowest_radius_mm"]), number(branch["min_at_mm"])
    return f"radius {radius} mm, in branch {branch['branch']}, {way} mm from {branch['from']}"


SURFACES = {"before": "as first made", "after": "as used"}
"""Surfaces whose triangles are counted, by their keys in the quality of the surface."""


def _triangle_rows(geometry: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Triangles, needles and tiny ones of the surface as first made and as used; none where they were not counted."""
    keys = ("triangles", "needles", "tiny", "smallest_angle_deg", "median_angle_deg")
    counted = {name: geometry[key] for key, name in SURFACES.items() if key in geometry}
    return [(name, *(number(quality[key]) for key in keys)) for name, quality in counted.items()]


def _angle_histograms(geometry: Mapping[str, Any]) -> dict[str, list[int]]:
    found = {name: geometry.get(key, {}).get("angle_histogram") for key, name in SURFACES.items()}
    return {name: counts for name, counts in found.items() if counts}


def _drop_rows(drops: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    names = [(drop["inlet"], drop["outlet"]) for drop in drops]
    shown = zip(*(column([drop[key] for drop in drops]) for key in ("drop_pa", "drop_mmhg")), strict=True)
    return [(*pair, *numbers) for pair, numbers in zip(names, shown, strict=True)]


def _wall_rows(wall: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = [
        ("mean", f"{number(wall['shear_mean_pa'])} Pa"),
        ("median", f"{number(wall['shear_median_pa'])} Pa"),
        ("1st to 99th percentile", f"{number(wall['shear_p01_pa'])} to {number(wall['shear_p99_pa'])} Pa"),
        ("lowest and highest", f"{number(wall['shear_min_pa'])} and {number(wall['shear_max_pa'])} Pa"),
    ]
    rows += [(f"area below {limit}", f"{100 * share:.1f} %") for limit, share in wall["low_shear_fraction"].items()]
    if "osi_mean" in wall:
        rows.append(("oscillatory shear index (0: one direction, 0.5: to and fro), mean", number(wall["osi_mean"])))
    counted = wall["counted_area_mm2"] / wall["area_mm2"]
    return [*rows, ("area of the wall", f"{number(wall['area_mm2'])} mm², of which {100 * counted:.0f} % counted")]


def read_records(folder: Path) -> dict[str, dict[str, Any]]:
    """Provenance of the stages that left one in a folder, in the order in which they ran."""
    paths = {stage: folder / f"{stage}.provenance.json" for stage in STAGES}
    return {stage: read_json(path) for stage, path in paths.items() if path.is_file()}


def _compute(job: Job) -> None:
    inputs = parse(ReportInput, job.settings, "--settings")
    nodes, openings = node_files.load(job.inputs["nodes"]), read_openings(job.inputs["openings"])
    if openings != nodes.openings:
        raise StageError("openings and nodes do not belong together; run decompose again")
    indices, summary, geometry = (read_json(job.inputs[role]) for role in ("indices", "summary", "openings"))
    image, segmentation, tree = (
        read_json(job.inputs[role]) if role in job.inputs else None for role in ("series", "segmentation", "branches")
    )
    quality = geometry.get("quality", {})
    monitor, flow = read_monitor(job.inputs["monitor"]), read_flow(job.inputs["flow"])
    step = shown_step(flow.times_s, monitor, openings)
    pictures = Pictures()
    if "picture" in job.inputs:
        caption = "The lumen in the image." if image else "The given mask."
        pictures.add("segmentation", "segmentation", caption, job.inputs["picture"].read_bytes())
    if not window_class():
        job.log.warning("warning: no three-dimensional still pictures: nothing to draw with; %s", REMEDY)
    shear = read_shear(job.inputs["wall"])
    if "centreline" in job.inputs:
        draw_centreline(pictures, shear.wall.mesh, openings, read_lines(job.inputs["centreline"]))
    plot_triangles(pictures, _angle_histograms(quality))
    view = draw_flow(pictures, nodes, flow.velocity_m_s(step), shear, inputs.streamlines)
    plot_waveforms(pictures, summary.get("waveforms", {}))
    plot_record(pictures, monitor, openings, summary["numbers"].get("period_s"))
    records = read_records(job.inputs["indices"].parent)
    page = context(inputs, indices, summary, openings, image, segmentation, quality, tree, records)
    page |= {"figures": pictures.for_page(), "interactive": Markup(view), "moment": _moment(flow.times_s, step)}
    page["remedy"] = None if window_class() else REMEDY
    pictures.write(job.outputs["figures"])
    job.outputs["report"].write_text(fill(page), encoding="utf-8")
    job.facts["drawn_by"] = window_class()


def _moment(times_s: NDArray[np.float64], step: int) -> str:
    if len(times_s) == 1:
        return "The steady flow."
    return f"The flow at {number(float(times_s[step]))} s, when the inflow is largest."


if __name__ == "__main__":
    run_stage(
        "report",
        __doc__,
        inputs={
            "series": "what was loaded, from load (series.json)",
            "segmentation": "how the lumen was found, from segment (segmentation.json)",
            "picture": "picture of the lumen in the image, from segment (segmentation.png)",
            "openings": "the openings, from surface (openings.json)",
            "centreline": "lines of the branches, from centreline (centreline.vtp)",
            "branches": "the branches and the narrowest place, from centreline (centreline.json)",
            "nodes": "node arrays, from decompose (nodes.h5)",
            "flow": "velocity, pressure and stress, from solve (flow.vtkhdf)",
            "monitor": "flow and pressure against time, from solve (monitor.csv)",
            "summary": "choices and outcome, from solve (solve.json)",
            "wall": "the wall with its stresses, from postprocess (wall.vtp)",
            "indices": "numbers, checks and warnings, from postprocess (indices.json)",
        },
        outputs={"report": "the page (.html)", "figures": "folder for the pictures (PNG)"},
        compute=_compute,
        optional=("series", "segmentation", "picture", "centreline", "branches"),
    )
