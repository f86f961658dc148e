# SPDX-License-Identifier: Apache-2.0
"""Flow over a backward-facing step in a plane: where it reattaches, profiles behind the step, speed of the solver.

Runs are named by their channel and a number, ``work-64``; the runs of a channel differ in their grids. Lengths are in
heights of the step, x from the step on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from pipeline.case.shapes import Step
from validation.evidence import Evidence
from validation.studies.reference import read_reference
from validation.studies.run import Run, shape_of

Array = NDArray[np.float64]


class Options(Section):
    """What the work did and published, and what is to be reached."""

    sections: tuple[Positive, ...] = Field(description="x of the profiles")
    lengths: str = Field(description="table of the reattachment length against the Reynolds number 2 h U/nu")
    measured: str = Field(description="the same of an experiment")
    speeds: str = Field(description="table of the work's speeds with columns across, gpu_ms, gpu_mlups, cpu_ms")
    channel: str = Field(description="the channel of the work, whose contours and speeds are shown")
    compared: tuple[str, ...] = Field(description="channels long enough to be compared with the table of lengths")
    change: Positive = Field(0.02, description="between the two finest grids, at most")
    deviation: Positive = Field(0.02, description="from the table of lengths, at most")


def reattachment(velocity: Array, rise: int) -> float:
    """Where the stress on the floor behind the step turns from negative to positive; NaN where it does not.

    The slope of the velocity on the floor is that of the parabola through 0 there and the two nodes above.

    Parameters
    ----------
    velocity : (Z, X), along x, of the whole channel, whose floor is half a spacing below the first row; NaN where no
        fluid is.
    rise : nodes on the height of the step.
    """
    low, above = velocity[:2, np.isfinite(velocity[0])]
    slope = 9 * low - above
    turns = np.flatnonzero((slope[:-1] < 0) & (slope[1:] >= 0))
    if not turns.size:
        return float("nan")
    turn = turns[-1]
    return float((turn + 0.5 + slope[turn] / (slope[turn] - slope[turn + 1])) / rise)


@dataclass(frozen=True)
class Channel:
    """What a run shows of its channel."""

    run: Run

    @property
    def name(self) -> str:
        """Name of the run up to its number."""
        return self.run.name.rpartition("-")[0]

    @property
    def rise(self) -> int:
        """Nodes on the height of the step."""
        return round(1e-3 * shape_of(self.run, Step).step_mm / self.run.spacing_m)

    @cached_property
    def velocity(self) -> Array:
        """Along x over the mean speed of the inflow, (Z, X), NaN in the step."""
        return self.run.layer(self.run.velocity_m_s[:, 0]) / self.mean_speed_m_s

    @property
    def mean_speed_m_s(self) -> float:
        """Of the inflow."""
        (inlet,) = (opening for opening in self.run.nodes.openings if opening.role == "inlet")
        return float(self.run.summary["openings"][inlet.name]["imposed_flow_ml_s"]) / inlet.area_mm2

    @property
    def grid(self) -> str:
        """Nodes along the channel and across it behind the step."""
        across, along = self.velocity.shape
        return f"{along} x {across}"

    @property
    def reynolds(self) -> float:
        """Reynolds number of the mean speed of the inflow and its height, h U/nu."""
        height_m = (self.velocity.shape[0] - self.rise) * self.run.spacing_m
        return self.mean_speed_m_s * height_m / float(self.run.summary["numbers"]["viscosity_m2_s"])

    @property
    def x(self) -> Array:
        """Places of the columns, (X,)."""
        columns = np.arange(self.velocity.shape[1]) + 0.5
        return (columns - np.count_nonzero(np.isnan(self.velocity[0]))) / self.rise

    @property
    def z(self) -> Array:
        """Places of the rows, (Z,)."""
        return (np.arange(self.velocity.shape[0]) + 0.5) / self.rise

    @property
    def length(self) -> float:
        """Where the flow reattaches."""
        return reattachment(self.velocity, self.rise)

    def profile(self, x: float) -> Array:
        """Velocity in a section, (Z,), between columns by lines."""
        right = int(np.searchsorted(self.x, x))
        share = (x - self.x[right - 1]) / (self.x[right] - self.x[right - 1])
        return (1 - share) * self.velocity[:, right - 1] + share * self.velocity[:, right]

    def difference(self, finer: "Channel", sections: Sequence[float]) -> float:
        """Relative L2 difference of the profiles in the sections to those on a finer grid."""
        mine = np.concatenate([self.profile(x) for x in sections])
        theirs = np.concatenate([np.interp(self.z, finer.z, finer.profile(x)) for x in sections])
        return float(np.linalg.norm(mine - theirs) / np.linalg.norm(theirs))


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Reattachment, how it and the profiles change with the grid, contours and speed.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    channels: dict[str, list[Channel]] = {}
    for each in sorted(map(Channel, runs.values()), key=lambda each: each.rise):
        channels.setdefault(each.name, []).append(each)
    _lengths(evidence, channels, options)
    _changes(evidence, channels, options)
    if not (work := channels.get(options.channel)):
        return
    _speeds(evidence, work, read_reference(options.speeds))
    caption = "Velocity along x over the mean speed of the inflow"
    nodes = f"{work[-1].grid} nodes; white: no velocity along x, and the sections"
    evidence.draw(lambda figure: _contours(figure, work[-1], options.sections), f"{caption}, {nodes}")
    evidence.draw(lambda figure: _profiles(figure, work, options.sections), f"{caption} in the sections, by grid")


def _published(name: str, reynolds: float) -> float:
    """Reattachment of a table at a Reynolds number 2 h U/nu, between its rows by lines; NaN outside."""
    table = read_reference(name)
    return float(np.interp(reynolds, table["reynolds"], table["reattachment"], left=np.nan, right=np.nan))


def _lengths(evidence: Evidence, channels: Mapping[str, Sequence[Channel]], options: Options) -> None:
    rows: list[tuple[str | float, ...]] = []
    for name, grids in channels.items():
        for each in grids:
            reynolds, end = 2 * each.reynolds, each.x[-1] + 0.5 / each.rise
            computed, measured = (_published(table, reynolds) for table in (options.lengths, options.measured))
            off = each.length / computed - 1
            rows.append((name, each.grid, each.reynolds, reynolds, end, each.length, computed, off, measured))
        if name in options.compared:
            what = f"{name}, {grids[-1].grid} nodes: deviation of the reattachment"
            evidence.reach(what, abs(off), at_most=options.deviation)
    note = "U: mean speed of the inflow, h: height of inlet and step, the unit of length."
    columns = (
        "channel",
        "nodes",
        "h U/nu",
        "2 h U/nu",
        "length behind the step",
        "reattachment",
        "computed elsewhere",
        "deviation",
        "measured",
    )
    evidence.table(columns, rows, note)


def _changes(evidence: Evidence, channels: Mapping[str, Sequence[Channel]], options: Options) -> None:
    """From each grid to the next finer one."""
    rows = []
    for name, grids in channels.items():
        for coarse, fine in pairwise(grids):
            change, profiles = abs(coarse.length / fine.length - 1), coarse.difference(fine, options.sections)
            rows.append((name, f"{coarse.grid} to {fine.grid}", change, profiles))
        if len(grids) > 1:
            step = f"{name}, {coarse.grid} to {fine.grid} nodes"
            evidence.reach(f"{step}: change of the reattachment", change, at_most=options.change)
            evidence.reach(f"{step}: change of the profiles", profiles, at_most=options.change)
    if rows:
        places = " and ".join(f"{x:g}" for x in options.sections)
        note = f"Relative change with the grid; of the profiles at {places} step heights behind the step, L2."
        evidence.table(("channel", "nodes", "reattachment", "profiles"), rows, note)


def _speeds(evidence: Evidence, work: Sequence[Channel], published: Mapping[str, Array]) -> None:
    rows = []
    for each in work:
        summary, row = each.run.summary, np.flatnonzero(published["across"] == each.velocity.shape[0])
        theirs = [float(published[name][row[0]]) if row.size else "" for name in THEIRS]
        took_ms = 1e3 * summary["seconds"] / summary["steps"]
        rows.append((each.grid, summary["device"], summary["steps"], took_ms, summary["mlups"], *theirs))
    note = (
        "Until the flow was steady, looks at it and compilation included, which is most of it on the coarsest grids. "
        "Nodes have 19 populations, those of the work 9."
    )
    evidence.table(("nodes", "device", "steps", "ms a step", "MLUPS", *THEIRS.values()), rows, note)


THEIRS = {"gpu_ms": "work: ms a step", "gpu_mlups": "work: MLUPS", "cpu_ms": "work: ms a step on a CPU"}
"""Columns of the table of the work's speeds, and how the page calls them."""


def _contours(figure: Any, channel: Channel, sections: Sequence[float]) -> None:
    axes = figure.subplots()
    drawn = axes.contourf(channel.x, channel.z, channel.velocity, levels=np.linspace(-0.2, 1.6, 19), extend="both")
    axes.contour(channel.x, channel.z, channel.velocity, levels=[0.0], colors="white", linewidths=0.8)
    for x in sections:
        axes.axvline(x, color="white", linewidth=0.8, linestyle=":")
    axes.set(xlabel="x / h", ylabel="z / h", aspect="equal")
    axes.grid(visible=False)
    figure.colorbar(drawn, ax=axes, orientation="horizontal", label="u / U", aspect=50)


def _profiles(figure: Any, work: Sequence[Channel], sections: Sequence[float]) -> None:
    """The finest grid as lines, coarser ones as dots."""
    for axes, x in zip(figure.subplots(1, len(sections), sharey=True, squeeze=False)[0], sections, strict=True):
        for each in work[:-1]:
            every = slice(None, None, max(1, each.velocity.shape[0] // 16))
            axes.plot(each.profile(x)[every], each.z[every], ".", label=each.grid)
        axes.plot(work[-1].profile(x), work[-1].z, color="grey", linewidth=0.8, label=work[-1].grid)
        axes.set(xlabel="u / U", title=f"x = {x:g} h")
    axes.figure.axes[0].set(ylabel="z / h")
    axes.legend()
