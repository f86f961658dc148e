# SPDX-License-Identifier: Apache-2.0
"""What a network around a vessel changes against Windkessels of the same resistance and compliance.

    snakemake --cores all --config cases=coupled,coupled-windkessel
    python benchmarks/coupled_windkessel.py --json results.json --figures docs/figures

Reads the results of both cases, whose vessel is the same. The figures show flow and pressure at the openings over the
last cycle, and shear stress and its oscillation on the wall with the same colours.
"""

import argparse
import csv
import json
import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from pipeline.files.json_file import read_json  # noqa: E402
from pipeline.haemodynamics.percentiles import weighted_percentiles  # noqa: E402
from pipeline.reporting import figures, render, scene  # noqa: E402
from pipeline.reporting.quantities import read_wall  # noqa: E402
from solver.boundary.windkessel import PASCAL_PER_MMHG  # noqa: E402
from solver.runtime.provenance import versions  # noqa: E402

Reals = NDArray[np.float64]
CASES = {"in the network": "coupled", "with Windkessels": "coupled-windkessel"}
SHOWN = ("TAWSS (Pa)", "OSI")


def waveforms(folder: Path) -> dict[str, dict[str, Reals]]:
    """Flow (mL/s) and pressure (mmHg) of each opening over the last cycle, by time (s)."""
    period = read_json(folder / "solve.json")["numbers"]["period_s"]
    with (folder / "monitor.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    table = {key: np.array([float(row[key]) for row in rows]) for key in rows[0]}
    last = table["time_s"] > table["time_s"][-1] - period * (1 - 1e-9)
    time = table["time_s"][last] - (table["time_s"][-1] - period)
    names = [key.split(":")[1] for key in table if key.startswith("flow_ml_s:")]
    return {
        name: {
            "time_s": time,
            "flow_ml_s": table[f"flow_ml_s:{name}"][last],
            "pressure_mmhg": table[f"pressure_pa:{name}"][last] / PASCAL_PER_MMHG,
        }
        for name in names
    }


def of_case(folder: Path) -> dict[str, Any]:
    """Figures of a case: openings, wall and sac."""
    summary, indices = (read_json(folder / name) for name in ("solve.json", "indices.json"))
    found: dict[str, Any] = {"seconds": summary["seconds"], "cycles": summary["cycles"], "steps": summary["steps"]}
    for name, waveform in waveforms(folder).items():
        flow, pressure = waveform["flow_ml_s"], waveform["pressure_mmhg"]
        found[name] = {
            "mean_flow_ml_s": float(flow.mean()),
            "peak_flow_ml_s": float(flow.max()),
            "least_flow_ml_s": float(flow.min()),
            "mean_pressure_mmhg": float(pressure.mean()),
            "systolic_mmhg": float(pressure.max()),
            "diastolic_mmhg": float(pressure.min()),
        }
    wall, quantities = read_wall(folder / "wall.vtp")
    for each in quantities:
        if each.kind.key in ("wall", "wall-osi", "wall-peak"):
            median, high = weighted_percentiles(each.values, wall.areas_mm2, (50, 99))
            mean = float(each.values @ wall.areas_mm2 / wall.areas_mm2.sum())
            found[each.label] = {"mean": mean, "median": float(median), "99th percentile": float(high)}
    (sac,) = indices["sacs"]
    keys = ("inflow_ml_s", "shear_mean_pa", "shear_ratio", "osi_mean", "low_shear_area_fraction")
    found["sac"] = {key: sac[key] for key in keys if key in sac}
    return found


def flow_figure(results: Path) -> bytes:
    """Flow and pressure of the openings, of the network alone, and of both cases."""
    alone = read_json(results / "coupled/solve.json")["coupling"]["caps"]
    both = {words: waveforms(results / name) for words, name in CASES.items()}
    lines = {"in the network": "-", "with Windkessels": "--"}
    with mpl.rc_context(figures.STYLE):
        figure = mpl.figure.Figure(figsize=(9.0, 5.0), layout="constrained")
        panels = figure.subplots(2, len(alone), sharex=True)
        for k, name in enumerate(alone):
            for axes, key, title in zip(
                panels[:, k], ("flow_ml_s", "pressure_mmhg"), ("flow (mL/s)", "pressure (mmHg)"), strict=True
            ):
                axes.plot(
                    alone[name]["alone"]["time_s"],
                    alone[name]["alone"][key],
                    ":",
                    color=figures.FAINT,
                    label="network alone",
                )
                for words, style in lines.items():
                    waveform = both[words][name]
                    axes.plot(waveform["time_s"], waveform[key], style, color=figures.INK, label=words)
                axes.set_title(f"{name}: {title}", loc="left", fontsize=9.5)
            panels[1, k].set_xlabel("time (s)")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figures.to_png(figure)


def wall_figures(results: Path) -> dict[str, bytes]:
    """Each quantity of both cases from the side of the sac, with the colours of the first."""
    drawn = {}
    walls = {words: read_wall(results / name / "wall.vtp") for words, name in CASES.items()}
    for label in SHOWN:
        key = {"TAWSS (Pa)": "wall", "OSI": "wall-osi"}[label]
        shown = {words: next(q for q in found if q.kind.key == key) for words, (_, found) in walls.items()}
        limits = next(iter(shown.values())).limits
        points = next(iter(walls.values()))[0].mesh.points_mm
        (view,) = scene.around(points, scene.front_view(points), [0], margin=0.1)
        images = [
            render.draw([render.coloured_actor(walls[words][0].mesh, each.values, limits, each.colours)], [view], 900)[
                0
            ]
            for words, each in shown.items()
        ]
        figure = figures.wall_figure(images, [view] * len(images), replace(next(iter(shown.values())), limits=limits))
        for axes, words in zip(figure.axes, shown, strict=False):
            axes.set_title(words, fontsize=9.5)
        drawn[key] = figures.to_png(figure)
    return drawn


def main() -> None:
    """Write figures and the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--figures", type=Path)
    arguments = parser.parse_args()
    record: dict[str, Any] = {words: of_case(arguments.results / name) for words, name in CASES.items()}
    record |= {"machine": platform.machine(), "versions": versions()}
    text = json.dumps(record, indent=1)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")
    if arguments.figures:
        (arguments.figures / "coupled-flow.png").write_bytes(flow_figure(arguments.results))
        for key, png in wall_figures(arguments.results).items():
            (arguments.figures / f"coupled-{key}.png").write_bytes(png)


if __name__ == "__main__":
    main()
