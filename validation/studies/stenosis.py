# SPDX-License-Identifier: Apache-2.0
"""A stenosis: flow through its sections, balance of momentum, pressure drop beside estimates, and reattachment.

Runs are named by their Reynolds number and the nodes across, ``re-100-20``; those of a Reynolds number differ in their
grids. Places are in diameters from the throat, along the flow.
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
from pipeline.case.shapes import Stenosis
from pipeline.haemodynamics.extrapolation import estimate
from validation.evidence import Evidence
from validation.studies.balance import MOMENTUM_NOTE, Vessel, reach_momentum
from validation.studies.pictures import draw_plane
from validation.studies.run import Run, shape_of

Array = NDArray[np.float64]

FILES = ("surface.vtp",)
LOSS = 1.52
"""K_t: part of the kinetic energy of the difference of speeds that the widening takes. Source: Young and Tsai (1973),
doi:10.1016/0021-9290(73)90099-7; Seeley and Young (1976), doi:10.1016/0021-9290(76)90086-5."""
BLUNT_LENGTH, BLUNT_END = 0.83, 1.64
"""Of a plug with blunt ends: its length and its diameter add so much to the length that friction counts. Source: Seeley
and Young (1976)."""
EVERY, BESIDE_CAPS = 0.25, 0.75
"""Distance of the sections that are drawn, and how far they keep from the openings, in diameters."""

IN_THE_THROAT = (
    "interpolated walls add mass in the throat, which is taken off at all walls, and the flow there is a sum over few"
    " nodes: what enters leaves"
)


class Options(Section):
    """Where is looked, and what is to be reached."""

    sections: tuple[float, ...] = Field(description="whose flow is held, in diameters from the throat")
    drop: tuple[float, float] = Field(description="between which places the pressure drop is given")
    nodes: int = Field(20, description="across the vessel, from which on flow, momentum and changes are asked for")
    lost: Positive = Field(0.001, description="part of the flow that does not leave, at most")
    flow: Positive = Field(0.01, description="relative deviation of the flow through a section")
    momentum: Positive = Field(0.01, description="momentum missing over the force on the wall")
    change: Positive = Field(0.02, description="of the pressure drop between the two finest grids, relative")


def friction_coefficient(shape: Stenosis) -> float:
    """K_v of friction as in a pipe of the radius that each section has: 32 times the integral of (R/r)^4 dx/D."""
    x = np.linspace(-shape.throat_mm / 2, shape.throat_mm / 2, 2001)
    return 32 * float(np.trapezoid((shape.radius_mm / shape.radius_at(x)) ** 4, x)) / shape.diameter_mm


def blunt_coefficient(shape: Stenosis) -> float:
    """K_v = 32 (0.83 L + 1.64 d)/D (D/d)^4 of a plug with blunt ends, as long and as narrow as the narrowing."""
    narrow = 2 * float(shape.radius_at(np.zeros(1))[0])
    length = BLUNT_LENGTH * shape.throat_mm + BLUNT_END * narrow
    return 32 * length / shape.diameter_mm * (shape.diameter_mm / narrow) ** 4


def widening_coefficient(shape: Stenosis) -> float:
    """K_t (A/A_throat - 1)^2, in units of rho U^2/2."""
    return LOSS * (1 / (1 - shape.area_reduction) - 1) ** 2


@dataclass(frozen=True)
class Narrowing(Vessel):
    """A run of a stenosis."""

    @property
    def kind(self) -> str:
        """Name of the run up to its nodes."""
        return self.run.name.rpartition("-")[0]

    @property
    def shape(self) -> Stenosis:
        """The run's geometry.

        Raises
        ------
        StageError
            If it is no stenosis.
        """
        return shape_of(self.run, Stenosis)

    @property
    def nodes_across_throat(self) -> float:
        """Across the narrowest place."""
        return 2 * float(self.shape.radius_at(np.zeros(1))[0]) / self.run.nodes.spacing_mm

    @property
    def end(self) -> float:
        """Place of the outlet."""
        return self.shape.length_mm / self.shape.diameter_mm / 2

    @property
    def places(self) -> Array:
        """Of sections all along the vessel, the throat among them."""
        count = int((self.end - BESIDE_CAPS) / EVERY)
        return np.arange(-count, count + 1).astype(np.float64) * EVERY

    def centre_mm(self, place: float) -> Array:
        """Middle of the section at a place of the straight axis."""
        return (self.shape.length_mm / 2 + place * self.shape.diameter_mm) * self.shape.unit

    def flow_error(self, place: float) -> float:
        """Relative deviation of the flow through a section, by the field of velocity."""
        flow = self.run.through_ml_s(self.centre_mm(place), self.shape.unit, self.shape.radius_mm)
        return flow / self.flow_ml_s - 1

    def pressure_pa(self, place: float) -> float:
        """Mean over a section."""
        return self.mean_pressure_pa(self.centre_mm(place), self.shape.unit, self.shape.radius_mm)

    @property
    def friction_pa(self) -> float:
        """Scale mu U/D of what friction takes."""
        return self.run.case.solve.viscosity_pa_s * self.mean_speed_m_s / (1e-3 * self.shape.diameter_mm)

    @property
    def dynamic_pa(self) -> float:
        """Scale rho U^2/2."""
        return self.run.case.solve.density_kg_m3 * self.mean_speed_m_s**2 / 2

    def drop_pa(self, before: float, behind: float) -> float:
        """Pressure drop that the narrowing makes: between two places, without what a pipe takes beside the narrowing.

        A pipe takes 32 mu U/D for each diameter of its length.
        """
        straight = behind - before - self.shape.throat_mm / self.shape.diameter_mm
        return self.pressure_pa(before) - self.pressure_pa(behind) - 32 * self.friction_pa * straight

    @property
    def estimates_pa(self) -> tuple[float, float, float]:
        """Pressure drop of steady flow in one dimension, K_v mu U/D + K_t rho U^2/2 (A/A_throat - 1)^2.

        Its form, and K_t, are of Young and Tsai (1973). K_v depends on the shape: by friction as in a pipe of each
        section's radius, and by what Seeley and Young (1976) found for plugs with blunt ends. The last: the drop of
        friction in the first of them alone, to which both tend at small Reynolds numbers.
        """
        shape = self.shape
        widening, friction = (
            widening_coefficient(shape) * self.dynamic_pa,
            friction_coefficient(shape) * self.friction_pa,
        )
        return friction + widening, blunt_coefficient(shape) * self.friction_pa + widening, friction

    @cached_property
    def shear_along(self) -> tuple[Array, Array]:
        """Places, a spacing apart, and the mean stress along the axis around the vessel there, Pa."""
        step = self.run.nodes.spacing_mm / self.shape.diameter_mm
        place = self.wall.mesh.points_mm @ self.shape.unit / self.shape.diameter_mm - self.end
        number = ((place + self.end) / step).astype(int)
        areas = np.bincount(number, self.wall.areas_mm2).astype(np.float64)
        sums = np.bincount(number, self.wall.areas_mm2 * (self.shear_pa @ self.shape.unit))
        some = areas > 0
        middles = (np.flatnonzero(some).astype(np.float64) + 0.5) * step
        return middles - self.end, np.asarray(sums[some] / areas[some])

    @property
    def reattachment(self) -> float:
        """Place where the flow comes back to the wall."""
        return last_turn(*self.shear_along)


def last_turn(place: Array, shear: Array) -> float:
    """Last place behind 0 at which the stress turns from negative to positive, between places by lines; NaN if none."""
    turns = np.flatnonzero((shear[:-1] < 0) & (shear[1:] >= 0) & (place[:-1] > 0))
    if not turns.size:
        return float("nan")
    k = turns[-1]
    return float(place[k] + (place[k + 1] - place[k]) * shear[k] / (shear[k] - shear[k + 1]))


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Balances, pressure drop and reattachment with their changes from grid to grid; the flow along the axis.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    kinds: dict[str, list[Narrowing]] = {}
    for each in sorted(map(Narrowing, runs.values()), key=lambda each: (each.reynolds, each.nodes_across)):
        kinds.setdefault(each.kind, []).append(each)
    _balances(evidence, [each for grids in kinds.values() for each in grids], options)
    _drops(evidence, kinds, options)
    fastest = list(kinds.values())[-1]
    caption = "speed in a plane through the axis, white: no velocity along it; pressure and flow through sections"
    evidence.draw(lambda figure: _along(figure, fastest), f"{fastest[-1].run.name}: {caption}")


def _balances(evidence: Evidence, narrowings: Sequence[Narrowing], options: Options) -> None:
    rows = []
    for each in narrowings:
        name, throat = each.run.name, each.flow_error(0.0)
        others = max(abs(each.flow_error(place)) for place in options.sections)
        rows.append(
            (name, each.run.nodes.count, each.reynolds, each.run.tau, each.lost, throat, others, each.momentum_missing)
        )
        evidence.reach(f"{name}: flow lost", abs(each.lost), at_most=options.lost)
        if each.nodes_across < options.nodes:
            continue
        evidence.reach(f"{name}: flow through sections, deviation", others, at_most=options.flow)
        what = f"{name}: flow through the throat, deviation"
        evidence.reach(what, abs(throat), at_most=options.flow, held=2 * options.flow, why=IN_THE_THROAT)
        reach_momentum(evidence, each, each.nodes_across_throat, options.momentum)
    columns = (
        "run",
        "fluid nodes",
        "Reynolds number",
        "tau",
        "flow lost",
        "flow through the throat",
        "through other sections",
        "momentum missing",
    )
    note = f"Flows through sections: relative deviation, by the field of velocity. {MOMENTUM_NOTE}"
    evidence.table(columns, rows, note)


def _drops(evidence: Evidence, kinds: Mapping[str, Sequence[Narrowing]], options: Options) -> None:
    rows, changes = [], []
    for kind, grids in kinds.items():
        drops = [each.drop_pa(*options.drop) for each in grids]
        for each, drop in zip(grids, drops, strict=True):
            rows.append((each.run.name, drop, drop / each.dynamic_pa, *each.estimates_pa, each.reattachment))
        for k, (coarse, fine) in enumerate(pairwise(grids), 1):
            nodes, length = f"{coarse.nodes_across} to {fine.nodes_across}", coarse.reattachment / fine.reattachment
            last = slice(max(k - 2, 0), k + 1)
            limits = [_limit(values[last], grids[last]) for values in (drops, [each.reattachment for each in grids])]
            changes.append((kind, nodes, abs(drops[k - 1] / drops[k] - 1), limits[0], abs(length - 1), limits[1]))
        if len(grids) > 1 and grids[-2].nodes_across >= options.nodes:
            what = f"{kind}, {changes[-1][1]} nodes: change of the pressure drop"
            evidence.reach(what, changes[-1][2], at_most=options.change)
    columns = (
        "run",
        "pressure drop, Pa",
        "of rho U^2/2",
        "estimate, friction along the wave",
        "estimate, blunt plug",
        "friction along the wave alone",
        "reattachment, diameters",
    )
    before, behind = options.drop
    note = (
        f"Pressure drop from {-before:g} diameters before to {behind:g} behind the throat, without that of a straight"
        " pipe beside the narrowing. Estimates of one dimension, K_v mu U/D + K_t (A/A_throat - 1)^2 rho U^2/2 after"
        f" Young and Tsai (1973) with K_t = {LOSS:g}, are no references; K_v by friction as in a pipe along the wave,"
        " or of blunt plugs by Seeley and Young (1976)."
    )
    evidence.table(columns, rows, note)
    if changes:
        heads = ("flow", "nodes", "pressure drop", "extrapolated, Pa", "reattachment", "extrapolated, diameters")
        note = (
            "Relative change with the grid; by Richardson's extrapolation of three grids, the values without spacing."
        )
        evidence.table(heads, changes, note)


def _limit(values: Sequence[float], grids: Sequence[Narrowing]) -> float | str:
    """Estimate of a number at a vanishing spacing, from three grids that grow finer; empty where they tell none."""
    if len(grids) < 3 or not np.isfinite(values).all():
        return ""
    found = estimate(values[::-1], [each.run.nodes.spacing_mm for each in grids[::-1]]).extrapolated
    return "" if found is None else found


def _along(figure: Any, grids: Sequence[Narrowing]) -> None:
    """The plane of the finest grid, and lines of all along the axis."""
    figure.set_size_inches(7, 5)
    finest = grids[-1]
    plane, pressure, flow = figure.subplots(3, 1, height_ratios=(1.2, 2, 1.5))
    drawn = draw_plane(plane, finest.run, finest.shape, finest.shape.diameter_mm)
    backward = np.where(drawn.inside, drawn.in_plane_m_s[..., 0], np.nan)
    x, z = (places / finest.shape.diameter_mm for places in (drawn.right_mm, drawn.up_mm))
    plane.contour(x, z, backward, levels=[0.0], colors="white", linewidths=0.8)
    for each, style in zip(grids, (":", "--", "-.", "-"), strict=False):
        label = f"{each.nodes_across} nodes"
        pressures = np.array([each.pressure_pa(place) for place in each.places])
        pressure.plot(each.places, pressures / each.dynamic_pa, style, label=label)
        flow.plot(each.places, [100 * each.flow_error(place) for place in each.places], style, label=label)
    pressure.axvline(finest.reattachment, color="grey", linewidth=0.8)
    pressure.text(finest.reattachment, pressure.get_ylim()[1], "reattachment", va="top", fontsize=8)
    pressure.set(ylabel="pressure, of rho U²/2")
    flow.set(ylabel="flow off by, %", xlabel="diameters from the throat")
    pressure.legend()
    for axes in (plane, pressure, flow):
        axes.set_xlim(-finest.end, finest.end)
