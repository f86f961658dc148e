# SPDX-License-Identifier: Apache-2.0
"""Figures of what benchmarks/bench.py measured, from its JSON: speed against the memory's, shares of the passes."""

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from pipeline.reporting.figures import FAINT, OUTLET_COLOURS, STYLE, to_png

Cases = list[dict[str, Any]]
MARKERS = {"tree": "o", "pipe": "s", "cavity": "^"}
COLOURS = dict(zip(MARKERS, OUTLET_COLOURS[:1] + OUTLET_COLOURS[2:], strict=False))
UNITS = {"cpu": (1e6, "MLUPS"), "cuda": (1e9, "GLUPS")}
SIZES = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
"""Ticks, million nodes."""


def draw(results: dict[str, Any], stem: Path) -> None:
    """Leave the figures, as far as there is what they show, under names that begin with `stem`."""
    pictures: dict[str, Callable[[dict[str, Any]], Figure]] = {"roofline": roofline, "passes": passes}
    for name, picture in pictures.items():
        with mpl.rc_context(STYLE):
            file = stem.with_name(f"{stem.name}-{name}.png")
            file.write_bytes(to_png(picture(results)))
            print(file)


def roofline(results: dict[str, Any]) -> Figure:
    """A row of two panels for each device: rate against traffic of an update, and against the number of nodes."""
    bandwidth = results["bandwidth"]
    figure = Figure(figsize=(8.6, 3.3 * len(bandwidth)), layout="constrained")
    rows = figure.subplots(len(bandwidth), 2, squeeze=False)
    for (backend, speeds), (left, right) in zip(bandwidth.items(), rows, strict=True):
        cases = [case for case in results["cases"] if case["backend"] == backend]
        unit, name = UNITS[backend]
        against_traffic(left, cases, max(speeds.values()), unit)
        against_size(right, cases, max(speeds.values()), unit)
        left.set_ylabel(name)
        right.set_ylabel(name)
        left.set_title(cases[0]["device"] if cases else backend)
    return figure


def against_traffic(axes: Axes, cases: Cases, speed: float, unit: float) -> None:
    """The largest case of each shape with each model, under the roof of the memory's speed."""
    traffic = np.geomspace(50, 450)
    axes.loglog(traffic, speed / traffic / unit, color=FAINT, label=f"{speed / 1e9:,.0f} GB/s")
    for shape, of_shape in by_shape(cases):
        largest = [case for case in of_shape if case["size"] == max(other["size"] for other in of_shape)]
        axes.plot(
            [case["update_bytes"] for case in largest],
            [case["updates_s"] / unit for case in largest],
            MARKERS[shape],
            color=COLOURS[shape],
            fillstyle="none",
            label=shape,
        )
    axes.set(xlabel="bytes an update moves at least")
    axes.set_xticks(known := sorted({case["update_bytes"] for case in cases}), [str(value) for value in known])
    axes.minorticks_off()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.legend()


def against_size(axes: Axes, cases: Cases, speed: float, unit: float) -> None:
    """The base model on all sizes; the roof is at the top of the right-hand scale."""
    base = [case for case in cases if (case["collision"], case["precision"]) == ("trt", "fp32")]
    for shape, of_shape in by_shape(base):
        axes.semilogx(
            [case["nodes"] / 1e6 for case in of_shape],
            [case["updates_s"] / unit for case in of_shape],
            MARKERS[shape] + "-",
            color=COLOURS[shape],
            label=shape,
        )
    axes.set_xticks(SIZES, [f"{size:g}" for size in SIZES])
    axes.minorticks_off()
    axes.set(xlabel="million fluid nodes", ylim=(0, None))
    if base:
        sizes = [case["nodes"] / 1e6 for case in base]
        axes.set_xlim(0.7 * min(sizes), 1.4 * max(sizes))
        percent = 100 * base[0]["update_bytes"] / speed * unit
        scale = axes.secondary_yaxis("right", functions=(lambda rate: percent * rate, lambda part: part / percent))
        scale.set_ylabel("% of the memory's speed")
        axes.legend()


def by_shape(cases: Cases) -> list[tuple[str, Cases]]:
    """Cases of each shape, by their size."""
    ordered = sorted(cases, key=lambda case: (case["shape"], case["size"]))
    return [(shape, list(group)) for shape, group in groupby(ordered, lambda case: case["shape"])]


def passes(results: dict[str, Any]) -> Figure:
    """Each pass by itself, a look and a mean, in percent of a step: a bar for each shape and device."""
    cases = [case for case in results["cases"] if "passes_s" in case]
    names = list(dict.fromkeys(name for case in cases for name in case["passes_s"]))
    figure = Figure(figsize=(8.6, 1 + 0.14 * len(names) * max(1, len(cases))), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / max(1, len(cases))
    for number, case in enumerate(cases):
        places = np.arange(len(names)) + height * number
        parts = [100 * case["passes_s"].get(name, 0) / case["step_s"] for name in names]
        label = f"{case['shape']}, {case['nodes'] / 1e6:.3g} M nodes, {case['device']}"
        bars = axes.barh(
            places,
            parts,
            height,
            label=label,
            color=COLOURS[case["shape"]],
            alpha=1 if case["backend"] == "cuda" else 0.6,
        )
        axes.bar_label(bars, [f"{part:.1f}" if part else "" for part in parts], padding=2, fontsize=7)
    axes.set_yticks(np.arange(len(names)) + 0.4 - height / 2, names)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_axisbelow(True)
    axes.set(xlabel="% of a step (a look and a mean: if done once a step)")
    figure.legend(loc="outside upper center", ncols=2)
    return figure
