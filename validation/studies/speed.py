# SPDX-License-Identifier: Apache-2.0
"""Speed: what ``validation.baseline_benchmark`` found on lattices of several sizes, beside published times and those
of another machine.

Speeds are reported, not checked: they are the machine's. What is checked are numbers of nodes, and that all programs
agree.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.case.settings.base import NonNegative, Positive, Section
from solver.runtime.sources import ROOT
from validation.evidence import Evidence
from validation.studies.pictures import draw_flow
from validation.studies.reference import read_reference
from validation.studies.run import Run

FILES = ("speed.json", "surface.vtp")
FLOATS = 2.0**-24
"""Relative round-off of a number in single precision."""
PUBLISHED = {"q9450": "Q9450, one core (2012)", "gtx_460_opt": "GTX 460 (2012)"}
"""Columns of the published times that are shown, in words."""

Benchmark = Mapping[str, Any]


class Options(Section):
    """What the work published, and what is to be reached."""

    reference: str = Field(description="table with columns mesh, wall, fluid, and seconds of each processor")
    meshes: dict[str, int] = Field(default_factory=dict, description="row of each run, by `mesh`; none: its name")
    nodes: NonNegative = Field(0.0, description="relative difference of the numbers of nodes, at most")
    walls: Positive = Field(
        description="root of the mean square difference of two wall schemes, relative, over the part of wall nodes"
    )
    recorded: str | None = Field(
        None, description="file in benchmarks/results, without .json, with benchmarks on a machine that has a GPU"
    )


def round_off(steps: int) -> float:
    """Bound for differences by round-off: each step leaves some ten of 19 terms, of random sign, in every velocity."""
    return 10 * FLOATS * steps**0.5


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Numbers of nodes, times, speed-ups, shares of the passes, agreement; plots of them, and the flow.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    published = read_reference(options.reference)
    rows = [
        np.flatnonzero(published["mesh"] == options.meshes.get(name, name.isdigit() and int(name))) for name in runs
    ]
    theirs = {key: values[np.concatenate(rows)] for key, values in published.items()}
    here = {name: run.speed for name, run in runs.items()}
    elsewhere = recorded(evidence.name, options.recorded) if not any(map(on_gpu, here.values())) else {}
    benchmarks = [with_recorded(benchmark, elsewhere.get(name)) for name, benchmark in here.items()]
    _nodes(evidence, list(runs), list(here.values()), theirs, options.nodes)
    _times(evidence, list(runs), benchmarks, theirs)
    _passes(evidence, list(runs), benchmarks)
    _agreement(evidence, list(here.values()), options.walls)
    evidence.draw(lambda figure: _plots(figure, benchmarks, theirs), "Updates of fluid nodes a second; speed-up")
    draw_flow(evidence, list(runs.values())[-1])


def on_gpu(benchmark: Benchmark) -> bool:
    """Whether a device took part."""
    return any(not entry["threads"] for entry in benchmark["entries"])


def recorded(study: str, name: str | None) -> dict[str, Benchmark]:
    """Benchmarks on another machine by the names of the study's runs; none where nothing was recorded."""
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    if name is None or not path.is_file():
        return {}
    kept = json.loads(path.read_text(encoding="utf-8"))["races"]
    return {key.removeprefix(f"{study}."): benchmark for key, benchmark in kept.items() if key.startswith(f"{study}.")}


def with_recorded(benchmark: Benchmark, other: Benchmark | None) -> list[dict[str, Any]]:
    """All that took part here and elsewhere: their times by where it was, with the speed-up over the slowest there."""
    found = []
    for each, where in ((benchmark, "here"), *(((other, other["hardware"].get("gpu", "elsewhere")),) if other else ())):
        slowest = each["entries"][0]["seconds"]
        for entry in each["entries"]:
            if where == "here" or not entry["threads"]:
                name = entry["name"] if where == "here" else f"{entry['program']}, {where}"
                found.append(entry | {"name": name, "gain": slowest / entry["seconds"]})
    return found


def _nodes(
    evidence: Evidence,
    names: Sequence[str],
    benchmarks: Sequence[Benchmark],
    theirs: Mapping[str, NDArray[np.float64]],
    most: float,
) -> None:
    """Numbers of nodes beside the published ones."""
    counts = np.array([(benchmark["wall_nodes"], benchmark["fluid_nodes"]) for benchmark in benchmarks])
    wanted = np.column_stack((theirs["wall"], theirs["fluid"])).astype(int)
    rows = [
        (name, *found.tolist(), *work.tolist(), 100 * float(found[0] / found.sum()))
        for name, found, work in zip(names, counts, wanted, strict=True)
    ]
    evidence.table(("mesh", "wall nodes", "fluid nodes", "published wall", "published fluid", "of walls, %"), rows)
    off = np.abs(counts / wanted - 1).max()
    evidence.reach("numbers of wall and fluid nodes: largest relative difference", float(off), at_most=most)


def _times(
    evidence: Evidence,
    names: Sequence[str],
    benchmarks: Sequence[list[dict[str, Any]]],
    theirs: Mapping[str, NDArray[np.float64]],
) -> None:
    """Seconds for all steps, and speed-ups."""
    columns = ("mesh", *PUBLISHED.values(), *(entry["name"] for entry in benchmarks[0]))
    seconds = np.column_stack([theirs[key] for key in PUBLISHED])
    note = (
        "Seconds for 3,000 steps: the work's are means of 5 runs; of ours, fewer steps were timed 5 times after a "
        "warm-up, and this is their mean for as many."
    )
    rows = [
        (name, *work, *(entry["seconds"] for entry in benchmark))
        for name, work, benchmark in zip(names, seconds, benchmarks, strict=True)
    ]
    evidence.table(columns, rows, note)
    gains = seconds[:, :1] / seconds
    rows = [
        (name, *gain, *(entry["gain"] for entry in benchmark))
        for name, gain, benchmark in zip(names, gains, benchmarks, strict=True)
    ]
    evidence.table(columns, rows, "Speed-up over the four passes on one thread of the same machine.")


def _passes(evidence: Evidence, names: Sequence[str], benchmarks: Sequence[list[dict[str, Any]]]) -> None:
    """Shares of the four passes."""
    shares: dict[str, list[NDArray[np.float64]]] = {}
    for benchmark in benchmarks:
        for entry in (each for each in benchmark if "passes_s" in each):
            seconds = np.array([*entry["passes_s"].values()])
            shares.setdefault(entry["name"], []).append(100 * seconds / seconds.sum())
    columns = ("mesh", "on", *benchmarks[0][0]["passes_s"])
    rows = [(name, on, *parts) for on, of in shares.items() for name, parts in zip(names, of, strict=True)]
    note = "Shares of the four passes, %, each timed by itself. The work's collision took 64 to 74 % on one core."
    evidence.table(columns, rows, note)
    evidence.draw(lambda figure: _bars(figure, names, shares, columns[2:]), "Shares of the four passes")


def _bars(
    figure: Any, names: Sequence[str], shares: Mapping[str, Sequence[NDArray[np.float64]]], passes: Sequence[str]
) -> None:
    """Shares on top of each other, a panel for each that takes part."""
    panels = figure.subplots(1, len(shares), squeeze=False, sharey=True)[0]
    for axes, (on, parts) in zip(panels, shares.items(), strict=True):
        bottom = np.zeros(len(names))
        for label, part in zip(passes, np.array(parts).T, strict=True):
            axes.bar(names, part, bottom=bottom, label=label)
            bottom = bottom + part
        axes.set_axisbelow(True)
        axes.set_title(on, fontsize=9)
    panels[0].set(ylabel="% of a step")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", fontsize=7)


def _agreement(evidence: Evidence, benchmarks: Sequence[Benchmark], walls: float) -> None:
    """Differences of the velocity between programs and between wall schemes."""
    found = [benchmark["agreement"] for benchmark in benchmarks]
    off = max((value for each in found for value in each["round_off"].values()), default=0.0)
    steps = found[0]["steps"]
    evidence.reach(
        f"velocities after {steps} steps: largest difference between programs with the same walls",
        off,
        at_most=round_off(steps),
    )
    parts = [benchmark["wall_nodes"] / (benchmark["wall_nodes"] + benchmark["fluid_nodes"]) for benchmark in benchmarks]
    apart = max(each["walls"] / part for each, part in zip(found, parts, strict=True))
    evidence.reach(
        f"velocities after {steps} steps: the work's walls against ours, over the part of wall nodes",
        apart,
        at_most=walls,
    )


def _plots(figure: Any, benchmarks: Sequence[list[dict[str, Any]]], theirs: Mapping[str, NDArray[np.float64]]) -> None:
    """Rates and speed-ups against the number of fluid nodes."""
    rate, gain = figure.subplots(1, 2)
    nodes = theirs["fluid"]
    for number, entry in enumerate(benchmarks[0]):
        colour = f"C{number}" if number < 5 else "tab:red"  # the style has five
        style = {"marker": "o", "markersize": 3, "color": colour, "label": entry["name"]}
        rate.loglog(nodes, [benchmark[number]["updates_s"] for benchmark in benchmarks], **style)
        gain.loglog(nodes, [benchmark[number]["gain"] for benchmark in benchmarks], **style)
    for key, dashes in zip(PUBLISHED, (":", "--"), strict=True):
        rate.loglog(nodes, 3000 * nodes / theirs[key], dashes, color="grey", label=PUBLISHED[key])
        gain.loglog(nodes, theirs["q9450"] / theirs[key], dashes, color="grey")
    rate.set(ylabel="updates a second")
    gain.set(ylabel="speed-up over one thread")
    for axes in (rate, gain):
        axes.minorticks_off()
        axes.set(xlabel="fluid nodes, thousands", xticks=nodes, xticklabels=[f"{each / 1e3:.0f}" for each in nodes])
    figure.legend(*rate.get_legend_handles_labels(), loc="outside right upper", fontsize=7)
