# SPDX-License-Identifier: Apache-2.0
"""How much a flow depends on the lattice's directions: pipes, bends and sudden expansions, askew to the lattice.

In each, something is the same by symmetry, which only the lattice can tell apart: in a straight pipe and behind a round
step the speed along the axis at all angles around it, in a bend on both sides of its plane. Runs are named by the
shape, the direction, the grid Reynolds number and, but for the default, the equilibrium: ``bend-123-60-standard``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from pipeline.case.shapes import Bend, Nozzle, Pipe
from solver.runtime.errors import StageError
from validation.evidence import Evidence
from validation.studies import rings
from validation.studies.run import Run

STANDARD = "-standard"
"""End of the names of equilibria whose fourth moments depend on direction, and of their runs."""


class Options(Section):
    """Where is looked, in diameters of the pipe, and what is to be reached."""

    pipe: tuple[Positive, ...] = Field(description="places behind the inlet")
    bend: tuple[Positive, ...] = Field(description="places behind the end of the arc")
    nozzle: tuple[Positive, ...] = Field(description="places behind the step, in diameters of the throat")
    uneven: dict[str, Positive] = Field(description="largest deviation by shape, at the largest grid Reynolds number")


@dataclass(frozen=True)
class Flow:
    """What a run shows."""

    run: Run
    options: Options

    @property
    def shape(self) -> Pipe | Bend | Nozzle:
        """The run's geometry.

        Raises
        ------
        StageError
            If it is none of these.
        """
        shape = self.run.case.input.geometry
        if not isinstance(shape, Pipe | Bend | Nozzle):
            raise StageError(f"run {self.run.name}: its geometry is no pipe, bend or nozzle; set input.geometry.shape")
        return shape

    @property
    def kind(self) -> str:
        """``pipe``, ``bend`` or ``nozzle``."""
        return self.shape.shape

    @property
    def standard(self) -> bool:
        """Whether the equilibrium is one whose fourth moments depend on direction."""
        return self.run.case.solve.equilibrium.endswith(STANDARD)

    @property
    def grid_reynolds(self) -> int:
        """Of the peak speed that is expected."""
        return round(self.run.summary["numbers"]["grid_reynolds"])

    @property
    def sections(self) -> list[rings.Section]:
        """Where is looked; the plane of a bend is at angle 0."""
        shape, places = self.shape, getattr(self.options, self.kind)
        along, side = shape.unit, shape.turn[:, 2]
        start, radius = np.zeros(3), shape.radius_mm
        if isinstance(shape, Bend):
            angle = np.radians(shape.angle_deg)
            start = shape.bend_radius_mm * (np.sin(angle) * along + (1 - np.cos(angle)) * side)
            along, side = np.cos(angle) * along + np.sin(angle) * side, np.cos(angle) * side - np.sin(angle) * along
        elif isinstance(shape, Nozzle):
            radius = shape.outlet_diameter_mm / 2
        return [rings.Section(start + place * shape.diameter_mm * along, along, side, radius) for place in places]

    @cached_property
    def deviation(self) -> float:
        """Largest part of the speed along the axis that symmetry forbids, over the largest speed in its section."""
        found = [rings.rings(self.run, section) for section in self.sections]
        return max((each.lopsided if self.kind == "bend" else each.uneven) / float(each.speed.max()) for each in found)


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """A table of the largest deviations with both equilibria, and what the largest of each shape are.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    pairs: dict[str, dict[bool, Flow]] = {}
    for name, run in runs.items():
        pairs.setdefault(name.removesuffix(STANDARD), {})[name.endswith(STANDARD)] = Flow(run, options)
    if single := [name for name, pair in pairs.items() if len(pair) < 2]:
        raise StageError(f"runs: {single[0]} is there with one equilibrium; add the run with the other to the set")
    flows = [(pair[False], pair[True]) for pair in pairs.values()]
    _goals(evidence, flows, options)
    _table(evidence, flows)
    caption = (
        "largest deviation against the grid Reynolds number, over directions: with the equilibrium (lines), with the"
        " standard one (dotted)"
    )
    evidence.draw(lambda figure: _draw(figure, flows), caption)


Pairs = Sequence[tuple[Flow, Flow]]


def _kinds(flows: Pairs) -> list[str]:
    return list(dict.fromkeys(flow.kind for flow, _ in flows))


def _goals(evidence: Evidence, flows: Pairs, options: Options) -> None:
    for kind in _kinds(flows):
        these = [pair for pair in flows if pair[0].kind == kind]
        after, before = (max(pair[k].deviation for pair in these) for k in (0, 1))
        evidence.reach(f"{kind}: largest deviation over all runs", after, at_most=options.uneven[kind])
        evidence.reach(f"{kind}: that of the standard equilibrium over it", before / after, at_least=1.0)


def _models_and_residual(summary: Mapping[str, Any]) -> tuple[str, str, float]:
    return summary["models"]["velocity_set"], summary["models"]["collision"], summary["residual"]


def _table(evidence: Evidence, flows: Pairs) -> None:
    rows = []
    for flow, other in flows:
        direction = " ".join(f"{component:g}" for component in flow.shape.direction)
        shown = [_models_and_residual(each.run.summary) for each in (other, flow)]
        deviations = other.deviation, flow.deviation
        rows.append((flow.kind, direction, flow.grid_reynolds, flow.run.nodes.count, *shown[0], *shown[1], *deviations))
    note = (
        "Largest part of the speed along the axis that symmetry forbids, over the largest speed of the section: in a"
        " pipe and behind a step what depends on the angle, behind a bend half of the difference between both sides of"
        " its plane. Before: the standard equilibrium."
    )
    columns = (
        "shape",
        "direction",
        "grid Reynolds number",
        "fluid nodes",
        "velocities before",
        "collision before",
        "residual before",
        "velocities",
        "collision",
        "residual",
        "deviation before",
        "deviation",
    )
    evidence.table(columns, rows, note)


def _draw(figure: Any, flows: Pairs) -> None:
    kinds = _kinds(flows)
    for axes, kind in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds, strict=True):
        these = [pair for pair in flows if pair[0].kind == kind]
        for direction in dict.fromkeys(pair[0].shape.direction for pair in these):
            along = [pair for pair in these if pair[0].shape.direction == direction]
            numbers = [flow.grid_reynolds for flow, _ in along]
            (line,) = axes.plot(numbers, [100 * flow.deviation for flow, _ in along], "o-")
            line.set_label(" ".join(f"{component:g}" for component in direction))
            axes.plot(numbers, [100 * other.deviation for _, other in along], "o:", color=line.get_color())
        axes.set(title=kind, xlabel="grid Reynolds number", xscale="log", yscale="log", ylabel="deviation, %")
    axes.legend()
