# SPDX-License-Identifier: Apache-2.0
"""Steady flow from inlet to outlet through straight round pipes in any direction, beside that of Hagen and Poiseuille.

What is compared is in :mod:`validation.studies.pipe_run`. Runs whose Lambda is given tell the order of convergence:
where it is chosen, it changes with the relaxation time, and so with the spacing. The others tell what a case has.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from validation.evidence import Evidence
from validation.goals import order
from validation.studies.pipe_run import MIDDLE, SECTIONS, PipeRun
from validation.studies.run import Run

Array = NDArray[np.float64]

FILES = ("surface.vtp",)
AROUND = 48
"""Parts of the circumference in which a picture shows the wall shear stress."""
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
"""Of errors in percent in a picture."""
FEWEST_SIZES = 3
"""Numbers of nodes across from which on an order is asked for: with two a single lucky lattice can make it."""

Figure = Literal["flow", "gradient", "outlet", "shear_rms", "shear_95"]


class Bounds(Section):
    """On the deviations of a pipe from Hagen and Poiseuille, at most; those that are not given are not asked for."""

    flow: Positive | None = Field(None, description="flow through any section, relative")
    gradient: Positive | None = Field(None, description="pressure gradient, relative")
    outlet: Positive | None = Field(None, description="pressure on the outlet's cap, in spacings of the pipe's length")
    shear_rms: Positive | None = Field(None, description="wall shear stress, relative, root mean square")
    shear_95: Positive | None = Field(None, description="the same, 95th percentile")


class Options(Bounds):
    """What is to be reached, and by which runs."""

    nodes: Positive = Field(20, description="across, of the runs that have to keep the bounds")
    reynolds: Positive = Field(30, description="number of diameter and mean speed, of the same runs")
    velocity_order: Positive | None = Field(None, description="at which L2 of the velocity falls, at least")
    shear_order: Positive | None = Field(None, description="the same of the rms of the wall shear stress")
    spread: Positive | None = Field(
        None, description="largest less smallest mean wall shear stress of all directions over their mean, at most"
    )


WORDS: dict[Figure, str] = {
    "flow": "flow through sections",
    "gradient": "pressure gradient",
    "outlet": "outlet's pressure off by, spacings",
    "shear_rms": "wall shear stress, rms",
    "shear_95": "wall shear stress, 95th percentile",
}
COLUMNS = (
    "Reynolds number",
    "direction",
    "nodes across",
    "flow through sections",
    "pressure gradient",
    "outlet off by, spacings",
    "velocity, L2",
    "stress, mean",
    "rms",
    "95th percentile",
)
NOTE = (
    f"Deviations in the middle of the pipe, from {MIDDLE[0]:g} to {MIDDLE[1]:g} of its length, of the flow through"
    f" {SECTIONS} sections all along it. Stress: wall shear stress, mean and root mean square of its deviation and the"
    " 95th percentile of its size."
)


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Deviations by direction, their spread, and the orders of convergence.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    pipes = [PipeRun(run) for run in runs.values()]
    usual = [pipe for pipe in pipes if pipe.run.case.solve.lambda_trt is None]
    asked = [pipe for pipe in usual if (pipe.across, pipe.reynolds) == (options.nodes, options.reynolds)]
    if usual:
        _deviations(evidence, usual, asked, options)
    if options.spread:
        _spread(evidence, usual, options.spread)
    for same in _alike([pipe for pipe in pipes if pipe.run.case.solve.lambda_trt is not None]):
        _orders(evidence, same, options)
    if len(asked) > 1:
        caption = (
            f"Deviations by direction and, of the wall shear stress, around the pipe in the same colours;"
            f" {options.nodes:g} nodes across, Reynolds number {options.reynolds:g}"
        )
        evidence.draw(lambda figure: _by_direction(figure, asked), caption)


def _deviations(evidence: Evidence, usual: Sequence[PipeRun], asked: Sequence[PipeRun], options: Options) -> None:
    rows = []
    for pipe in usual:
        found = pipe.figures
        shear = found.shear_mean, found.shear_rms, found.shear_95
        flow = found.flow, found.gradient, found.outlet, found.velocity
        rows.append((pipe.reynolds, pipe.direction, pipe.across, *flow, *shear))
    evidence.table(COLUMNS, rows, NOTE)
    for pipe in asked:
        for key in get_args(Figure):
            if most := getattr(options, key):
                what = f"{pipe.direction}, {pipe.across:g} nodes: {WORDS[key]}"
                evidence.reach(what, abs(getattr(pipe.figures, key)), at_most=most)


def _spread(evidence: Evidence, usual: Sequence[PipeRun], most: float) -> None:
    means: dict[tuple[float, int], list[float]] = {}
    for pipe in usual:
        means.setdefault((pipe.across, pipe.reynolds), []).append(1 + pipe.figures.shear_mean)
    for (across, reynolds), found in means.items():
        if len(found) > 1:
            what = f"{across:g} nodes across, Re {reynolds}: spread of the mean wall shear stress"
            evidence.reach(what, np.ptp(found) / np.mean(found), at_most=most)


def _alike(pipes: Sequence[PipeRun]) -> list[list[PipeRun]]:
    """Pipes that differ in their spacing alone, the coarsest first."""
    groups: dict[tuple[str, int, float | None], list[PipeRun]] = {}
    for pipe in sorted(pipes, key=lambda each: each.across):
        groups.setdefault((pipe.direction, pipe.reynolds, pipe.run.case.solve.lambda_trt), []).append(pipe)
    return list(groups.values())


def _orders(evidence: Evidence, same: Sequence[PipeRun], options: Options) -> None:
    head, sizes = same[0], [pipe.across for pipe in same]
    found = [(pipe.across, pipe.figures.velocity, pipe.figures.shear_rms) for pipe in same]
    where = f"along {head.direction} at Reynolds number {head.reynolds} with Λ = {head.run.case.solve.lambda_trt:g}"
    note = f"The same {where} at all sizes, for the order."
    evidence.table(("nodes across", "velocity, L2", "stress, rms"), found, note)
    if len(same) >= FEWEST_SIZES:
        bounds = ("velocity", options.velocity_order), ("wall shear stress, rms", options.shear_order)
        for column, (words, least) in enumerate(bounds, 1):
            if least:
                slope = order(sizes, [row[column] for row in found])
                evidence.reach(f"{head.direction}: order of the {words}", slope, at_least=least)
    evidence.draw(lambda figure: _convergence(figure, same), f"Velocity, its error, and errors by size, {where}")


def _convergence(figure: Any, same: Sequence[PipeRun]) -> None:
    """Profiles on the coarsest and the finest lattice, and errors of all."""
    figure.set_size_inches(8, 2.8)
    profile, deviation, errors = figure.subplots(1, 3)
    for pipe in (same[-1], same[0])[: len(same)]:
        exact = pipe.exact
        along, away = exact.place(pipe.run.nodes.points_mm())
        rows = np.abs(along - np.mean(MIDDLE) * exact.length_mm) < pipe.run.nodes.spacing_mm / 2
        r, speed = away[rows] / exact.radius_mm, pipe.run.velocity_m_s[rows] @ exact.axis / exact.mean_m_s
        (dots,) = profile.plot(r, speed, ".", ms=3, label=f"{pipe.across:g} nodes")
        off = 100 * (speed - exact.speed_m_s(away[rows]) / exact.mean_m_s)
        deviation.plot(r, off, ".", ms=3, color=dots.get_color())
    place = np.linspace(0, 1)
    profile.plot(place, 2 * (1 - place**2), color="grey", lw=0.8, label="exact")
    profile.set(xlabel="r / R", ylabel="velocity / mean")
    profile.legend()
    deviation.axhline(0, color="grey", lw=0.8)
    deviation.set(xlabel="r / R", ylabel="its error, % of the mean")
    across = np.array([pipe.across for pipe in same])
    velocity = 100 * np.array([pipe.figures.velocity for pipe in same])
    shear = 100 * np.array([pipe.figures.shear_rms for pipe in same])
    for words, values, slope in (("stress, rms", shear, 1), ("velocity, L2", velocity, 2)):
        (line,) = errors.loglog(across, values, "o-", label=words)
        falling = values[0] * (across[0] / across) ** slope
        errors.loglog(across, falling, ":", lw=1, color=line.get_color(), label=f"order {slope}")
    errors.set(xlabel="nodes across", ylabel="error, %")
    errors.set_xticks(across, [f"{n:g}" for n in across])
    errors.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
    errors.set_ylim(velocity.min() / 1.5, 4 * shear.max())
    errors.minorticks_off()
    errors.legend(fontsize=7, ncols=2)


def _by_direction(figure: Any, pipes: Sequence[PipeRun]) -> None:
    """Deviations of each direction, and those of the stress around the pipe, in percent."""
    from matplotlib import colormaps

    figure.set_size_inches(8, 3.4)
    colours = colormaps["viridis"](np.linspace(0, 0.9, len(pipes)))
    each, around = figure.subplots(1, 2)
    for words, marker, key in (
        ("stress, 95th percentile", "^", "shear_95"),
        ("stress, rms", "s", "shear_rms"),
        ("velocity, L2", "v", "velocity"),
        ("pressure gradient", "D", "gradient"),
        ("stress, mean", "o", "shear_mean"),
    ):
        values = [100 * getattr(pipe.figures, key) for pipe in pipes]
        each.scatter(range(len(pipes)), values, s=20, c=colours, marker=marker, label=words, zorder=3)
    each.axhline(0, color="grey", lw=0.8)
    each.set(ylabel="deviation, %", xlim=(-0.5, len(pipes) - 0.5))
    each.set_xticks(range(len(pipes)), [pipe.direction for pipe in pipes], rotation=40, ha="right", fontsize=7)
    each.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)
    for pipe, colour in zip(pipes, colours, strict=True):
        angle, off = pipe.shear.around(AROUND)
        around.plot(np.degrees(angle), 100 * off, color=colour, lw=1)
    around.axhline(0, color="grey", lw=0.8)
    around.set(xlabel="around the pipe, degrees", ylabel="deviation of the stress, %", xticks=range(-180, 181, 90))
