# SPDX-License-Identifier: Apache-2.0
"""Pulsatile flow through a straight round pipe into a Windkessel, beside the solutions of both.

The solutions are in :mod:`validation.studies.womersley_solution`, what a run shows in
:mod:`validation.studies.womersley_cycle`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib import colormaps
from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from pipeline.haemodynamics.wall_shear_stress import Wall
from validation.evidence import Evidence
from validation.goals import number
from validation.studies.held_order import HeldOrder, reach_order
from validation.studies.run import Run
from validation.studies.womersley_cycle import Cycle, PulseFigures, ShearFigures, pulse_figures, shear_figures
from validation.studies.womersley_solution import Reals

FILES = ("surface.vtp",)
PHASES = 8
"""Times of the cycle at which profiles are drawn."""


class Options(Section):
    """What is to be reached on a lattice so fine; on a coarser one, what the orders of convergence leave of it."""

    nodes: Positive = Field(description="across, for which the following are asked")
    velocity: Positive = Field(description="relative L2 of the velocity over the cycle, at most")
    gradient: Positive = Field(description="relative error of the pressure gradient's amplitude, at most")
    gradient_deg: Positive = Field(description="of its phase, degrees")
    impedance: Positive = Field(description="relative error of the outlet's impedance, at most")
    impedance_deg: Positive = Field(description="of its phase, degrees")
    lost: Positive = Field(description="part of the oscillatory flow that neither leaves nor is stored, at most")
    layer: Positive = Field(description="spacings in Stokes' layer sqrt(2 nu/w), for which the following are asked")
    tawss: Positive = Field(description="mean size of the relative error of TAWSS over the wall, at most")
    osi: Positive = Field(description="mean size of the error of OSI over the wall, at most")
    order: Positive = Field(description="of the velocity with three sizes or more, at least")
    held: dict[str, HeldOrder] = Field(default_factory=dict, description="in place of the order, by Womersley number")


@dataclass(frozen=True)
class Shown:
    """A run with what was measured on it."""

    cycle: Cycle
    pulse: PulseFigures
    shear: ShearFigures

    @property
    def number(self) -> str:
        """Its Womersley number."""
        return f"{self.cycle.pipe.alpha:.3g}"

    @property
    def nodes(self) -> int:
        """Across."""
        return self.cycle.nodes_across


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Errors by Womersley number and spacing, their order, what the finest lattice of each has to reach; profiles.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    cycles = {name: Cycle.of(run) for name, run in runs.items()}
    shown = [
        Shown(cycle, pulse_figures(cycle), shear_figures(cycle, Wall.of(runs[name].surface)))
        for name, cycle in cycles.items()
    ]
    shown.sort(key=lambda each: (each.cycle.pipe.alpha, each.nodes))
    by_number = {key: list(group) for key, group in groupby(shown, key=lambda each: each.number)}
    _flow(evidence, shown)
    _wall(evidence, shown)
    for group in by_number.values():
        _reach(evidence, group, options)
    finest = [group[-1] for group in by_number.values()]
    caption = (
        f"Velocity at {PHASES} times of the cycle, from that of most flow (dark) on: Womersley's solution, and means"
        " over rings of nodes (dots)"
    )
    evidence.draw(lambda figure: _profiles(figure, finest), caption)
    caption = (
        "Flow, pressure at the outlet and its gradient in the middle over the cycle; dashed: what both solutions give"
        " for the flow at the inlet"
    )
    evidence.draw(lambda figure: _cycles(figure, finest), caption)


def _flow(evidence: Evidence, shown: Sequence[Shown]) -> None:
    columns = (
        "Womersley number",
        "nodes across",
        "velocity, L2",
        "gradient",
        "degrees",
        "impedance",
        "degrees",
        "outflow",
        "degrees",
        "lost",
    )
    reynolds = ", ".join(dict.fromkeys(number(each.cycle.pipe.reynolds) for each in shown))
    note = (
        f"Mean Reynolds number {reynolds}. Deviations of the first harmonic, amplitude and phase: velocity and pressure"
        " gradient in the middle of the pipe, for the flow there; impedance of the outlet from its Windkessel's;"
        " outflow from inflow, of which the fluid, compressible, stores a part; lost: what it does not store either."
    )
    rows = [(each.number, each.nodes, *vars(each.pulse).values()) for each in shown]
    evidence.table(columns, rows, note)


def _wall(evidence: Evidence, shown: Sequence[Shown]) -> None:
    columns = (
        "Womersley number",
        "nodes across",
        "spacings in Stokes' layer",
        "stress",
        "degrees",
        "TAWSS",
        "OSI",
        "exact OSI",
    )
    note = (
        "Stress on the wall in the middle of the pipe: deviations of amplitude and phase of its mean; mean size of the"
        " deviation of TAWSS, relative, and of OSI, absolute."
    )
    rows = [(each.number, each.nodes, each.cycle.layer_nodes, *vars(each.shear).values()) for each in shown]
    evidence.table(columns, rows, note)


def _reach(evidence: Evidence, group: Sequence[Shown], options: Options) -> None:
    """What the finest run of a Womersley number has to reach, and the order of its runs.

    Flow and pressure converge at second order, the stress that is carried to the wall at first.
    """
    finest = group[-1]
    flow, wall, name = finest.pulse, finest.shear, f"Womersley number {finest.number}, {finest.nodes} nodes"
    second = max(1.0, options.nodes / finest.nodes) ** 2
    first = max(1.0, options.layer / finest.cycle.layer_nodes)
    for what, reached, wanted in (
        ("velocity, L2", flow.velocity, second * options.velocity),
        ("amplitude of the pressure gradient, deviation", flow.gradient, second * options.gradient),
        ("phase of the pressure gradient, degrees", flow.gradient_deg, second * options.gradient_deg),
        ("amplitude of the impedance, deviation", flow.impedance, second * options.impedance),
        ("phase of the impedance, degrees", flow.impedance_deg, second * options.impedance_deg),
        ("flow that is neither stored nor leaves", flow.lost, options.lost),
        ("TAWSS, mean size of the deviation", wall.tawss, first * options.tawss),
        ("OSI, mean size of the deviation", wall.osi, first * options.osi),
    ):
        evidence.reach(f"{name}: {what}", abs(reached), at_most=wanted)
    if len(group) > 2:
        sizes = [(each.nodes, each.pulse.velocity) for each in group]
        what = f"Womersley number {finest.number}: order of the velocity"
        reach_order(evidence, what, sizes, options.order, options.held.get(finest.number))


def _profiles(figure: Any, shown: Sequence[Shown]) -> None:
    fine, phases = np.linspace(0, 1, 101), np.arange(PHASES) / PHASES
    for axes, each in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        cycle, (r, velocity) = each.cycle, each.cycle.profiles()
        mean = cycle.pipe.speed(cycle.pipe.flow_ml_s).real
        away = np.abs(cycle.pipe.turning(cycle.times_s) - np.exp(2j * np.pi * phases[:, None]))
        for phase, k in zip(phases, away.argmin(axis=1), strict=True):
            colour = colormaps["viridis"](phase)
            axes.plot(cycle.exact_velocity_m_s(fine, cycle.times_s[k]) / mean, fine, color=colour, lw=0.9)
            axes.plot(velocity[k] / mean, r, ".", color=colour, markersize=5)
        axes.set(xlabel="velocity, of the mean", ylabel="distance from the axis, radii", title=_title(each))


def _cycles(figure: Any, shown: Sequence[Shown]) -> None:
    figure.set_size_inches(7, 2.4 * len(shown))
    for (left, right), each in zip(figure.subplots(len(shown), 2, sharex=True, squeeze=False), shown, strict=True):
        cycle, pipe, monitored = each.cycle, each.cycle.pipe, each.cycle.monitored
        phase, into = np.linspace(0, 1, 101), cycle.oscillatory("into") * np.exp(2j * np.pi * np.linspace(0, 1, 101))
        pressure = cycle.behind.impedance_pa_s_ml(0).real * pipe.flow_ml_s
        oscillatory = cycle.behind.impedance_pa_s_ml(pipe.omega) * into
        for label, values, colour in (
            ("flow in", monitored["into"] / pipe.flow_ml_s, "C0"),
            ("flow out", monitored["out"] / pipe.flow_ml_s, "C2"),
            ("pressure", monitored["pressure"] / pressure, "C4"),
        ):
            left.plot(*_by_phase(monitored["time"] / pipe.period_s, values), color=colour, label=label)
        left.plot(phase, 1 + oscillatory.real / pressure, "k--", lw=0.8)
        steady = pipe.steady_gradient()
        right.plot(*_by_phase(cycle.times_s / pipe.period_s, cycle.pressures[0] / steady), ".", color="C2")
        right.plot(phase, 1 + (pipe.gradient(1) * into).real / steady, "k--", lw=0.8)
        left.set(ylabel="of the mean", title=_title(each))
        right.set(ylabel="gradient, of the steady")
    left.set(xlabel="time, periods")
    right.set(xlabel="time, periods")
    figure.axes[0].legend(loc="lower right", fontsize="small")


def _by_phase(time: Reals, values: Reals) -> tuple[Reals, Reals]:
    """Values over the part of the cycle, by times in periods."""
    phase = np.mod(time + 1e-9, 1)  # a whole number of periods is 0, whatever its round-off
    turn = np.argsort(phase)
    return phase[turn], values[turn]


def _title(each: Shown) -> str:
    return f"Womersley number {each.number}, {each.nodes} nodes"
