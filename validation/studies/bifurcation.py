# SPDX-License-Identifier: Apache-2.0
"""Forks: how they split the flow, what is lost of mass and momentum, and the wall shear stress away from the fork.

Runs are named by what splits the flow and the nodes across the parent: ``symmetric-20`` both daughters alike,
``free-20`` unequal ones at one pressure, ``murray-20`` and ``given-20`` with a Windkessel behind each outlet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from pipeline.case.shapes import Bifurcation
from pipeline.haemodynamics.wall_shear_stress import place_at
from pipeline.reporting.figures import OUTLET_COLOURS
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.domain.nodes import Opening
from validation.evidence import Evidence
from validation.studies.balance import MOMENTUM_NOTE, SHEAR_ERROR, SHEAR_NODES, Vessel, reach_momentum, shear_error
from validation.studies.pictures import draw_plane
from validation.studies.run import Run, shape_of

Array = NDArray[np.float64]

FILES = ("surface.vtp",)
SYMMETRIC = "symmetric"
"""Name of the runs whose daughters are alike."""
FROM_FORK, FROM_CAP = 1.0, 0.5
"""So far from where the axes meet and from the caps, in diameters, a branch may be as a straight pipe is."""
BESIDE = 1.25
"""What lies farther from the axis of a branch, in its radii, belongs to another one."""
SLICE = 0.25
"""Length of the pieces of a branch over which its stress is averaged at least, in diameters."""


class Options(Section):
    """What is to be reached."""

    nodes: int = Field(20, description="across the parent, from which on symmetry, momentum and stress are asked for")
    asymmetry: Positive = Field(0.005, description="difference of the flows of equal daughters over their sum, at most")
    lost: Positive = Field(0.001, description="part of the flow that does not leave")
    momentum: Positive = Field(0.01, description="momentum missing over the force on the wall")
    split: Positive = Field(0.01, description="part of the flow that leaves by the wrong outlet")
    pressure: Positive = Field(0.01, description="relative deviation of an outlet's pressure from its Windkessel's")


@dataclass(frozen=True)
class Fork(Vessel):
    """A run of a fork."""

    @property
    def kind(self) -> str:
        """Name of the run up to its number."""
        return self.run.name.rpartition("-")[0]

    @property
    def shape(self) -> Bifurcation:
        """The run's geometry.

        Raises
        ------
        StageError
            If it is no fork.
        """
        return shape_of(self.run, Bifurcation)

    @property
    def outlets(self) -> tuple[Opening, ...]:
        """The daughters' ends."""
        return tuple(opening for opening in self.openings if opening.role == "outlet")

    @cached_property
    def parts(self) -> dict[str, float]:
        """Part of the flow that leaves by each outlet."""
        return {opening.name: self.run.leaving_ml_s(opening.name) / self.flow_ml_s for opening in self.outlets}

    @property
    def asymmetry(self) -> float:
        """Difference of both flows over their sum."""
        first, second = self.parts.values()
        return abs(first - second) / (first + second)

    @property
    def part_set(self) -> float | None:
        """Part of the flow that is to leave by the first outlet, as given or by Murray's law; none: by the pressures.

        By the law it is d_1^m/(d_1^m + d_2^m) with the exponent m.
        """
        solve, daughters = self.run.case.solve, self.shape.daughters
        given = solve.outlets[daughters[0].name].flow_fraction if daughters[0].name in solve.outlets else None
        if given != "murray":
            return given
        first, second = (d**solve.murray_exponent for d in self.shape.daughter_diameters_mm)
        return first / (first + second)

    def behind_pa(self, opening: Opening) -> float | None:
        """Pressure p_d + (R_p + R_d) Q of an outlet's Windkessel at the flow that leaves there; none where none is."""
        imposed = self.run.summary["openings"][opening.name]["imposed"]
        if "distal_mmhg_s_ml" not in imposed:
            return None
        resistance = imposed["proximal_mmhg_s_ml"] + imposed["distal_mmhg_s_ml"]
        fall_mmhg = resistance * self.run.leaving_ml_s(opening.name)
        return float(PASCAL_PER_MMHG * (imposed["distal_pressure_mmhg"] + fall_mmhg))

    @property
    def pressure_error(self) -> float:
        """Largest relative deviation of an outlet's pressure from that of its Windkessel; NaN where there is none."""
        found = [float(self.run.summary["openings"][opening.name]["pressure_pa"]) for opening in self.outlets]
        wanted = [self.behind_pa(opening) or np.nan for opening in self.outlets]
        return float(np.abs(np.array(found) / wanted - 1).max())

    def nodes_across_branch(self, opening: Opening) -> float:
        """Nodes across the branch that ends at an opening."""
        return 2 * opening.radius_mm / self.run.nodes.spacing_mm

    def flow_through_ml_s(self, opening: Opening) -> float:
        """Flow in the branch that ends at an opening."""
        return abs(self.run.leaving_ml_s(opening.name))

    def shear_wanted_pa(self, opening: Opening) -> float:
        """Wall shear stress 4 mu Q/(pi R^3) of the flow in a branch, were it developed."""
        flow = 1e-6 * self.flow_through_ml_s(opening)
        return float(4 * self.run.case.solve.viscosity_pa_s * flow / (np.pi * (1e-3 * opening.radius_mm) ** 3))

    def developed(self, opening: Opening) -> tuple[float, float]:
        """From where to where on a branch the flow should be developed, in its diameters from the fork.

        A daughter's needs the length L over which a parabola develops, L/d = [0.619^1.6 + (0.0567 Re)^1.6]^(1/1.6) with
        the Reynolds number Re of its own flow. Source: Durst et al. (2005), doi:10.1115/1.2063088.
        """
        solve, diameter = self.run.case.solve, 2 * opening.radius_mm
        end = float(np.linalg.norm(opening.centre_mm)) / diameter - FROM_CAP
        if opening is self.inlet:
            return FROM_FORK, end
        speed = self.flow_through_ml_s(opening) / opening.area_mm2
        reynolds = 1e-3 * speed * diameter * solve.density_kg_m3 / solve.viscosity_pa_s
        return FROM_FORK + float((0.619**1.6 + (0.0567 * reynolds) ** 1.6) ** (1 / 1.6)), end

    def shear_ratio(self, opening: Opening, low: float, high: float) -> float:
        """Mean wall shear stress along a branch over that of its developed flow; NaN where no wall is.

        Parameters
        ----------
        opening : at the end of the branch.
        low, high : between which distances from the fork, in the branch's diameters.
        """
        depth, beside = place_at(opening, self.wall.mesh.points_mm)
        away = (float(np.linalg.norm(opening.centre_mm)) - depth) / (2 * opening.radius_mm)
        here = (away >= low) & (away < high) & (beside < BESIDE * opening.radius_mm)
        outward = 1 if opening.role == "outlet" else -1
        area = self.wall.areas_mm2[here]
        along = self.shear_pa[here] @ np.asarray(opening.normal) * outward
        return float(area @ along / area.sum() / self.shear_wanted_pa(opening)) if area.size else float("nan")


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Splits, balances, and stresses along the branches; the speed in the plane of the fork.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    forks = [Fork(run) for run in runs.values()]
    _balances(evidence, forks, options)
    _splits(evidence, [fork for fork in forks if fork.kind != SYMMETRIC], options)
    _stresses(evidence, forks, options)
    finest = max(forks, key=lambda fork: (fork.kind == SYMMETRIC, fork.nodes_across))
    caption = f"{finest.run.name}: speed in the plane of the fork. Right: parts of the flow; lines: as set"
    evidence.draw(lambda figure: _planes(figure, finest, forks), caption)
    caption = "Mean wall shear stress along the branches over that of a developed flow as large"
    evidence.draw(lambda figure: _along(figure, finest), f"{finest.run.name}: {caption[0].lower()}{caption[1:]}")


def _balances(evidence: Evidence, forks: Sequence[Fork], options: Options) -> None:
    rows = []
    for fork in forks:
        name = fork.run.name
        even = fork.asymmetry if fork.kind == SYMMETRIC else ""
        rows.append((name, fork.run.nodes.count, fork.reynolds, fork.run.tau, even, fork.lost, fork.momentum_missing))
        evidence.reach(f"{name}: flow lost", abs(fork.lost), at_most=options.lost)
        if fork.kind == SYMMETRIC and fork.nodes_across >= options.nodes:
            evidence.reach(f"{name}: asymmetry of the flow", fork.asymmetry, at_most=options.asymmetry)
            narrowest = min(fork.nodes_across_branch(opening) for opening in fork.openings)
            reach_momentum(evidence, fork, narrowest, options.momentum)
    columns = ("run", "fluid nodes", "Reynolds number", "tau", "asymmetry", "flow lost", "momentum missing")
    note = f"Asymmetry: difference of both flows over their sum. {MOMENTUM_NOTE}"
    evidence.table(columns, rows, note)


def _splits(evidence: Evidence, forks: Sequence[Fork], options: Options) -> None:
    rows: list[tuple[str | float, ...]] = []
    for fork in forks:
        name, part, wanted = fork.run.name, next(iter(fork.parts.values())), fork.part_set
        if wanted is None:
            rows.append((name, part, "", "", "", "", ""))
            continue
        pressures = [float(fork.run.summary["openings"][opening.name]["pressure_pa"]) for opening in fork.outlets]
        rows.append((name, part, wanted, abs(part - wanted), *pressures, fork.pressure_error))
        evidence.reach(f"{name}: part of the flow that is off", abs(part - wanted), at_most=options.split)
        what = f"{name}: deviation of the outlets' pressures from their Windkessels'"
        evidence.reach(what, fork.pressure_error, at_most=options.pressure)
    if rows:
        columns = (
            "run",
            "part through the first outlet",
            "set",
            "off by",
            "pressure there, Pa",
            "at the second",
            "off by",
        )
        evidence.table(columns, rows, "Unequal daughters. Pressures are to be p_d + (R_p + R_d) Q.")


def _stresses(evidence: Evidence, forks: Sequence[Fork], options: Options) -> None:
    rows = []
    for fork in forks:
        for opening in fork.openings:
            low, high = fork.developed(opening)
            ratio = fork.shear_ratio(opening, low, high) if high - low >= SLICE else float("nan")
            where = f"{low:.1f} to {high:.1f}" if np.isfinite(ratio) else "too short"
            flow, wanted = fork.flow_through_ml_s(opening), fork.shear_wanted_pa(opening)
            off = ratio - 1 if np.isfinite(ratio) else ""
            rows.append((fork.run.name, opening.name, flow, wanted, where, off))
            if fork.kind == SYMMETRIC and fork.nodes_across >= options.nodes and np.isfinite(ratio):
                what = f"{fork.run.name}: deviation of the wall shear stress, {opening.name}"
                evidence.reach(what, abs(ratio - 1), at_most=shear_error(fork.nodes_across_branch(opening)))
    columns = ("run", "branch", "flow, mL/s", "4 mu Q/(pi R^3), Pa", "diameters from the fork", "deviation of the mean")
    note = (
        "Wall shear stress where the flow of a branch should be developed; it is to be within"
        f" {100 * SHEAR_ERROR:g} % at {SHEAR_NODES} nodes across the branch, and as much more as its nodes are fewer."
    )
    evidence.table(columns, rows, note)


def _planes(figure: Any, finest: Fork, forks: Sequence[Fork]) -> None:
    figure.set_size_inches(7, 3.2)
    plane, bars = figure.subplots(1, 2, width_ratios=(3, 2))
    draw_plane(plane, finest.run, finest.shape)
    for row, fork in enumerate(forks):
        start = 0.0
        for part, colour in zip(fork.parts.values(), OUTLET_COLOURS, strict=False):
            bars.barh(row, part, left=start, color=colour, height=0.6)
            start += part
        if fork.part_set is not None:
            bars.plot([fork.part_set] * 2, (row - 0.4, row + 0.4), color="black")
    bars.set(yticks=range(len(forks)), yticklabels=[fork.run.name for fork in forks], xlabel="part of the flow")
    bars.invert_yaxis()
    bars.grid(visible=False)


def _along(figure: Any, fork: Fork) -> None:
    axes = figure.subplots()
    for opening, style in zip(fork.openings, ("k-", "o-", "s-"), strict=True):
        _, end = fork.developed(opening)
        edges = np.arange(0.5, end + FROM_CAP + 1e-9, SLICE)
        ratios = [fork.shear_ratio(opening, low, low + SLICE) for low in edges[:-1]]
        axes.plot(edges[:-1] + SLICE / 2, ratios, style, markersize=3, label=opening.name)
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set(xlabel="diameters from the fork", ylabel="wall shear stress, of the developed")
    axes.legend()
