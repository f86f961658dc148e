# SPDX-License-Identifier: Apache-2.0
"""Sweeps: what ``validation.thread_sweep`` found on lattices of several sizes, and whether what a run does by itself
is the best.

Speeds are reported, not checked: they are the machine's. What is checked are parts of the best that was found in the
same run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from validation.evidence import Evidence
from validation.studies.run import Run

FILES = ("sweep.json",)
COLOURS, MARKERS = ("C0", "C2", "C4", "tab:red"), "osv^"


class Timing(Section):
    """How ``validation.thread_sweep`` times."""

    seconds: Positive = Field(description="of one timing, about")
    repeats: Annotated[int, Field(ge=3)] = Field(description="of each")
    longest_s: Positive = Field(description="between two snapshots; longer intervals are left out")


class Options(Section):
    """How it is timed, and what is to be reached."""

    timing: Timing
    block: Positive = Field(0.05, description="of the best rate, that the usual block of a GPU lacks, at most")
    block_nodes: int = Field(200_000, description="of a lattice from which on that is asked: smaller ones leave room")
    cores: Positive = Field(0.1, description="of the best rate, that all threads of a CPU lack, at most")
    cores_nodes: int = Field(10_000, description="for each thread, from which on that is asked")
    had: Positive = Field(0.9, description="part of the time that threads must have had a core for a timing to count")
    snapshots: Positive = Field(0.05, description="of the time of a cycle whose snapshots are written, at most")


@dataclass(frozen=True)
class Swept:
    """What was found on one lattice.

    Attributes
    ----------
    name : of the run.
    found : ``sweep.json``.
    """

    name: str
    found: Mapping[str, Any]

    @property
    def on_gpu(self) -> bool:
        """Whether it ran on a CUDA device."""
        return bool(self.found["backend"] == "cuda")

    @property
    def nodes(self) -> int:
        """Of fluid."""
        return int(self.found["fluid_nodes"])

    @property
    def kind(self) -> str:
        """Shape, as the run's name begins, and precision."""
        return f"{self.name.split('-')[0]}, {self.found['precision']}"

    @property
    def usual(self) -> int:
        """Threads that a run takes by itself."""
        return int(self.found["threads"]["usual"])

    @property
    def threads(self) -> list[int]:
        """Numbers of threads that were tried."""
        return [each["threads"] for each in self.found["threads"]["found"]]

    @cached_property
    def step_s(self) -> NDArray[np.float64]:
        """Seconds of a step, (numbers of threads, repeats)."""
        return np.array([each["step_s"] for each in self.found["threads"]["found"]])

    @property
    def rates(self) -> NDArray[np.float64]:
        """Updates of nodes a second by numbers of threads, medians."""
        rates: NDArray[np.float64] = self.nodes / np.median(self.step_s, axis=1)
        return rates

    @property
    def rate(self) -> float:
        """Updates of nodes a second with the usual number of threads."""
        return float(self.rates[self.threads.index(self.usual)])

    def compared(self, had: float) -> NDArray[np.float64]:
        """Rates by numbers of threads over that of the usual one, medians of what was timed in turn; NaN where nothing
        counts.

        Parameters
        ----------
        had : part of the time that each number of threads must have had a core for a repeat to count.
        """
        cores = np.array([each["had"] for each in self.found["threads"]["found"]])
        counts = (cores >= had).all(axis=0) if cores.size else np.ones(self.step_s.shape[1], bool)
        if not counts.any():
            return np.full(len(self.threads), np.nan)
        gains = self.step_s[self.threads.index(self.usual)] / self.step_s
        medians: NDArray[np.float64] = np.median(gains[:, counts], axis=1)
        return medians

    def lacks(self, had: float) -> float:
        """Part of the best rate that the usual number of threads lacks."""
        return float(1 - 1 / self.compared(had).max())

    @property
    def every(self) -> NDArray[np.intp]:
        """Steps between snapshots."""
        return np.array([each["every"] for each in self.found["snapshots"]])

    def taken(self, part: str) -> NDArray[np.float64]:
        """Seconds of a part of a snapshot, ``steps``, ``fetch`` or ``write``, by the steps before it."""
        return np.array([each[f"{part}_s"] for each in self.found["snapshots"]])

    @property
    def usual_every(self) -> float:
        """Steps between the snapshots that a cycle has by itself."""
        return float(self.found["cycle"]["steps"] / self.found["cycle"]["snapshots"])

    @property
    def stepping_s(self) -> float:
        """Seconds of a step beside the snapshots: of the longest way between two."""
        return float(self.taken("steps")[-1] / self.every[-1])

    def in_steps(self, part: str) -> float:
        """Steps that could be made while a part of a snapshot, ``fetch`` or ``write``, is made, with the usual number
        of steps between two. What is written meanwhile takes less of the time the longer that is.
        """
        return float(np.interp(np.log(self.usual_every), np.log(self.every), self.taken(part)) / self.stepping_s)

    @property
    def snapshot_steps(self) -> float:
        """Steps that could be made while a snapshot is brought to the host and written."""
        return self.in_steps("fetch") + self.in_steps("write")

    @property
    def of_a_cycle(self) -> float:
        """Part of the time of a cycle that its snapshots take."""
        return self.snapshot_steps / (self.snapshot_steps + self.usual_every)

    @property
    def of_a_run(self) -> float:
        """The same of a run of the fewest cycles, of which the last is written."""
        return self.snapshot_steps / (self.snapshot_steps + self.found["cycle"]["least"] * self.usual_every)


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Rates by threads, by steps between snapshots and by size, and what the usual choices lack of the best.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    swept = sorted((Swept(name, run.sweeps) for name, run in runs.items()), key=lambda each: (each.kind, each.nodes))
    _threads(evidence, swept, options)
    _snapshots(evidence, swept, options)
    caption = f"Speed against {_unit(swept)}, the least and the largest lattice of each kind; filled: what a run takes"
    evidence.draw(lambda figure: _draw_threads(figure, swept), caption)
    caption = (
        f"Left: speed against steps between snapshots, {_largest(swept).name}; right: cost of the snapshots of a cycle"
    )
    evidence.draw(lambda figure: _draw_snapshots(figure, swept, _largest(swept)), caption)
    evidence.draw(lambda figure: _draw_sizes(figure, swept), "Speed, and time of a step, against fluid nodes")


def _largest(swept: Sequence[Swept]) -> Swept:
    """The largest lattice with openings, where there is any."""
    return max(swept, key=lambda each: (each.found["openings"] > 0, each.nodes))


def _kinds(swept: Sequence[Swept]) -> dict[str, list[Swept]]:
    """What is of the same shape and precision, by size."""
    return {kind: list(group) for kind, group in groupby(swept, lambda each: each.kind)}


def _whole(value: float) -> float:
    """A number without its fraction where it has four digits before it."""
    return round(value) if value >= 1000 else value


def _unit(swept: Sequence[Swept]) -> str:
    """What threads are those of."""
    return "threads of a block" if swept[0].on_gpu else "threads"


def _threads(evidence: Evidence, swept: Sequence[Swept], options: Options) -> None:
    """Rates, and what the usual number of threads lacks of the best."""
    rows: list[tuple[str | float, ...]] = []
    for each in swept:
        best, lacks = each.threads[int(np.argmax(each.rates))], each.lacks(options.had)
        speed = 1e6 * each.nodes / each.rate, _whole(each.rate / 1e6)
        shown = "not reported" if np.isnan(lacks) else 100 * lacks
        rows.append((each.name, each.nodes, each.found["precision"], *speed, each.usual, best, shown))
    unit, device = _unit(swept), swept[0].found["device"]
    note = (
        f"On {device}: medians of {options.timing.repeats} timings of some {options.timing.seconds:g} s, in which the "
        "numbers of threads take turns. What is lacked is the median of comparisons in the same turn."
    )
    if not swept[0].on_gpu:
        note += (
            f" Turns in which threads waited for a core for more than {1 - options.had:.0%} of the time do not count."
        )
    columns = ("lattice", "fluid nodes", "precision", "us a step", "MLUPS", unit, "best", "lacks of the best, %")
    evidence.table(columns, rows, note)
    bound, least, what = options.cores, options.cores_nodes * swept[0].usual, "all threads lack"
    where = f"{options.cores_nodes} nodes a thread"
    if swept[0].on_gpu:
        bound, least, what = options.block, options.block_nodes, "the usual block lacks"
        where = f"{options.block_nodes} nodes"
    lacking = [each.lacks(options.had) for each in swept if each.nodes >= least]
    if counted := [value for value in lacking if np.isfinite(value)]:
        evidence.reach(f"part of the best rate that {what}, {where} and more", max(counted), at_most=bound)


def _snapshots(evidence: Evidence, swept: Sequence[Swept], options: Options) -> None:
    """What snapshots cost."""
    rows = [
        (
            each.name,
            each.nodes,
            each.found["precision"],
            each.in_steps("fetch"),
            each.in_steps("write"),
            each.usual_every,
            100 * each.of_a_cycle,
            100 * each.of_a_run,
        )
        for each in swept
    ]
    cycle = swept[0].found["cycle"]
    note = (
        "A snapshot in steps that could be made meanwhile: to bring all fields to the host, and to write them, as far "
        "as a run waits for it. Then "
        f"the steps between the {cycle['snapshots']} snapshots of a short cycle, the part of this cycle's time that "
        f"they take, and of a run of {cycle['least']} cycles, of which the last is written."
    )
    columns = (
        "lattice",
        "fluid nodes",
        "precision",
        "brought, steps",
        "written, steps",
        "steps between them",
        "of the cycle, %",
        "of the run, %",
    )
    evidence.table(columns, rows, note)
    largest = _largest(swept)
    where = "GPU" if largest.on_gpu else "CPU"
    evidence.reach(
        f"{where}: part of a cycle's time that its snapshots take, largest lattice with openings",
        largest.of_a_cycle,
        at_most=options.snapshots,
    )


def _draw_threads(figure: Any, swept: Sequence[Swept]) -> None:
    """Rates, and the same over the best, of the least and the largest lattice of each kind."""
    rate, part = figure.subplots(1, 2)
    kinds = _kinds(swept).values()
    for number, of in enumerate(kinds):
        for each, marker in zip(of[:: max(1, len(of) - 1)], MARKERS, strict=False):
            style = {"marker": marker, "color": COLOURS[number % 4]}
            at = each.threads.index(each.usual)
            for axes, values in ((rate, each.rates / 1e6), (part, 100 * each.rates / each.rates.max())):
                axes.plot(each.threads, values, markersize=4, mfc="white", label=each.name, **style)
                axes.plot(each.usual, values[at], markersize=6, **style)
    ticks = swept[0].threads if len(swept[0].threads) < 8 else swept[0].threads[::2]
    for axes in (rate, part):
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set(xlabel=_unit(swept))
    rate.set(ylabel="MLUPS", yscale="log")
    part.set(ylabel="% of the best")
    figure.legend(*rate.get_legend_handles_labels(), loc="outside right upper", fontsize=7)


def _style(number: int, label: str) -> dict[str, Any]:
    """Of a kind's line."""
    return {"marker": MARKERS[number % 4], "color": COLOURS[number % 4], "markersize": 4, "label": label}


def _draw_snapshots(figure: Any, swept: Sequence[Swept], largest: Swept) -> None:
    """Rates of one lattice by steps between snapshots, dots as measured; cost of a cycle's snapshots by size."""
    rate, cost = figure.subplots(1, 2)
    alone = largest.nodes / largest.stepping_s / 1e6
    rate.axhline(alone, color="grey", linewidth=1, label="no snapshots")
    for number, (label, parts) in enumerate({"brought": ("fetch",), "written": ("fetch", "write")}.items()):
        taken = largest.taken("steps") + sum(largest.taken(part) for part in parts)
        rate.semilogx(
            largest.every,
            largest.every * largest.nodes / taken / 1e6,
            "os"[number] + "-",
            color=f"C{2 * number}",
            markersize=4,
            linewidth=1,
            label=label,
        )
    rate.axvline(
        largest.usual_every, color="grey", linestyle=":", label=f"{largest.found['cycle']['snapshots']} a cycle"
    )
    rate.set(xlabel="steps between snapshots", ylabel="MLUPS", ylim=(0, None))
    rate.legend(fontsize=7)
    for number, (kind, of) in enumerate(_kinds(swept).items()):
        cost.semilogx([each.nodes for each in of], [100 * each.of_a_cycle for each in of], **_style(number, kind))
    cost.set(xlabel="fluid nodes", ylabel="% of a cycle's time", ylim=(0, None))
    cost.legend(fontsize=7)


def _draw_sizes(figure: Any, swept: Sequence[Swept]) -> None:
    """Rates and times of a step by size."""
    rate, step = figure.subplots(1, 2)
    for number, (kind, of) in enumerate(_kinds(swept).items()):
        style = _style(number, kind)
        rate.semilogx([each.nodes for each in of], [each.rate / 1e6 for each in of], **style)
        step.loglog([each.nodes for each in of], [1e6 * each.nodes / each.rate for each in of], **style)
    rate.set(xlabel="fluid nodes", ylabel="MLUPS", ylim=(0, None))
    step.set(xlabel="fluid nodes", ylabel="us a step")
    rate.legend(fontsize=7)
