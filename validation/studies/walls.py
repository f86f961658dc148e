# SPDX-License-Identifier: Apache-2.0
"""Flow through a pipe askew to the lattice, from inlet to outlet, with walls by several schemes.

Hagen and Poiseuille: u = 2 U (1 - r^2/R^2) along the pipe and a pressure that falls by 8 mu U/R^2 a length. Compared in
its middle, away from the caps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from validation.evidence import Evidence
from validation.goals import order
from validation.studies.pipe_run import PipeRun
from validation.studies.run import Run

AWAY = 1.5
"""Radii from the caps on, where what they disturb has faded away."""
INTERPOLATED = ("bouzidi", "yu", "cli")


class Options(Section):
    """What is to be reached."""

    l2: Positive = Field(description="relative L2 of the velocity with interpolated walls at 20 nodes across, at most")
    order: Positive = Field(description="at which it falls with bouzidi's and yu's walls, at least")
    ratio: Positive = Field(description="of the error of half-way walls to that of bouzidi's on the coarsest lattice")


@dataclass(frozen=True)
class PipeErrors:
    """How far a run is from the exact flow."""

    nodes: int
    velocity: float
    gradient: float


def errors(run: Run) -> PipeErrors:
    """Relative L2 of the velocity, and relative error of the pressure gradient."""
    pipe = PipeRun(run)
    exact = pipe.exact
    along, away = exact.place(run.nodes.points_mm())
    middle = np.abs(along - exact.length_mm / 2) < exact.length_mm / 2 - AWAY * exact.radius_mm
    wanted = exact.speed_m_s(away[middle])[:, None] * exact.axis
    slope = np.polyfit(along[middle], run.pressure_pa[middle], 1)[0]
    l2 = np.linalg.norm(run.velocity_m_s[middle] - wanted) / np.linalg.norm(wanted)
    return PipeErrors(round(pipe.across), float(l2), float(-slope / exact.gradient_pa_mm - 1))


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Errors of velocity and pressure gradient by scheme and spacing.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    found: dict[str, list[PipeErrors]] = {}
    for run in runs.values():
        found.setdefault(run.case.solve.walls, []).append(errors(run))
    rows = [(walls, one.nodes, one.velocity, 100 * one.gradient) for walls, ones in found.items() for one in ones]
    evidence.table(("walls", "nodes across", "L2 of the velocity", "error of the pressure gradient, %"), rows)
    for walls, ones in found.items():
        for one in ones:
            if walls in INTERPOLATED and one.nodes >= 20:
                evidence.reach(f"{walls}, {one.nodes} nodes: L2 of the velocity", one.velocity, at_most=options.l2)
        if walls in ("bouzidi", "yu") and len(ones) > 1:
            slope = order([one.nodes for one in ones], [one.velocity for one in ones])
            evidence.reach(f"{walls}: order of convergence", slope, at_least=options.order)
    ratio = found["half-way"][0].velocity / found["bouzidi"][0].velocity
    evidence.reach("coarsest lattice: error of half-way walls over bouzidi's", ratio, at_least=options.ratio)
    evidence.draw(lambda figure: _errors(figure, found), "Errors of velocity and pressure gradient")


def _errors(figure: Any, found: Mapping[str, list[PipeErrors]]) -> None:
    velocity, gradient = figure.subplots(1, 2)
    for (walls, ones), marker in zip(found.items(), "os^d", strict=False):
        sizes = [one.nodes for one in ones]
        velocity.loglog(sizes, [one.velocity for one in ones], f"{marker}-", label=walls)
        gradient.loglog(sizes, [100 * abs(one.gradient) for one in ones], f"{marker}-")
    ends = [found["bouzidi"][0].nodes, found["bouzidi"][-1].nodes]
    second = [found["bouzidi"][0].velocity * (ends[0] / end) ** 2 for end in ends]
    velocity.loglog(ends, second, ":", color="grey", label="second order")
    velocity.set(xlabel="nodes across", ylabel="L2 of the velocity")
    gradient.set(xlabel="nodes across", ylabel="error of the pressure gradient, %")
    velocity.legend()
