# SPDX-License-Identifier: Apache-2.0
"""A jet out of a nozzle beside what laboratories measured: on its axis, in its width, and around it.

Runs may differ in the direction of the nozzle, in nodes across the throat, in the length of the outlet, and in the
equilibrium. Places are in mm along the flow from the end of the throat.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from pipeline.case.shapes import Nozzle
from validation.evidence import Evidence
from validation.studies import rings
from validation.studies.reference import read_reference
from validation.studies.rings import Rings
from validation.studies.run import Run, shape_of

Array = NDArray[np.float64]

FOLDS = (1, 2, 4)
STANDARD = "-standard"
"""End of the names of equilibria whose fourth moments depend on direction."""
EVERY_MM = 2.0
"""Distance of places on the axis in the picture."""


class Options(Section):
    """Where the jet is looked at, and what is to be reached by runs of so many nodes across the throat, and more."""

    reference: str = Field(description="table of data/reference")
    stations_mm: tuple[float, ...] = Field(description="places of the table that are compared")
    round_mm: float = Field(description="where the jet is to be round")
    nodes: int = Field(description="across the throat, from which on anything is asked for")
    widened: Positive = Field(0.02, description="part by which the laboratories' range may be left")
    uneven: Positive = Field(0.01, description="two- and fourfold parts of the speed around the axis, over that on it")
    agreement: Positive = Field(0.02, description="largest relative difference between directions")
    outlet: Positive = Field(0.005, description="relative change by a longer outlet")


@dataclass(frozen=True)
class Jet:
    """A run of a nozzle."""

    run: Run

    @cached_property
    def shape(self) -> Nozzle:
        """The run's geometry.

        Raises
        ------
        StageError
            If it is no nozzle.
        """
        return shape_of(self.run, Nozzle)

    @property
    def nodes(self) -> int:
        """Across the throat."""
        return round(self.shape.diameter_mm / self.run.nodes.spacing_mm)

    @property
    def standard(self) -> bool:
        """Whether the equilibrium is one whose fourth moments depend on direction."""
        return self.run.case.solve.equilibrium.endswith(STANDARD)

    @property
    def outlet_mm(self) -> float:
        """Place of the outlet."""
        return float(self.shape.profile[-1, 0])

    def radius_mm(self, place_mm: float) -> float:
        """Of the wall; behind the step where the throat ends: of the throat there."""
        places, radii = self.shape.profile.T
        return float(np.interp(place_mm, places[:4], radii[:4]) if place_mm <= 0 else radii[-1])

    def section(self, place_mm: float) -> rings.Section:
        """Across the axis."""
        return rings.Section(
            place_mm * self.shape.unit, self.shape.unit, self.shape.turn[:, 1], self.radius_mm(place_mm)
        )

    def rings(self, place_mm: float) -> Rings:
        """The speed in a section."""
        return rings.rings(self.run, self.section(place_mm))

    def on_axis(self, places_mm: Array) -> Array:
        """Speed on the axis, m/s."""
        return rings.along(self.run, places_mm[:, None] * self.shape.unit, self.shape.unit)


@dataclass(frozen=True)
class Found:
    """What a run shows at the stations.

    Attributes
    ----------
    axis, half_width : (stations,) m/s and mm.
    folds : m-fold parts where the jet is to be round, for m in `FOLDS`, over the speed on the axis.
    """

    jet: Jet
    axis: Array
    half_width: Array
    folds: tuple[float, ...]

    @staticmethod
    def of(jet: Jet, options: Options) -> "Found":
        """By the options."""
        found = [jet.rings(place) for place in options.stations_mm]
        axis, width = np.transpose([(each.centre, each.half_width) for each in found])
        behind = jet.rings(options.round_mm)
        return Found(jet, axis, width, tuple(behind.fold(m) / behind.centre for m in FOLDS))

    @property
    def values(self) -> Array:
        """Speeds, then widths."""
        return np.concatenate((self.axis, self.half_width))

    @property
    def name(self) -> str:
        """Of the run."""
        return self.jet.run.name


def outside(values: Array, low: Array, high: Array) -> Array:
    """By which part of its nearer end a range is left; negative within it.

    Parameters
    ----------
    values : any numbers.
    low, high : ends of the range of each.
    """
    return np.maximum(1 - values / low, values / high - 1)


def spread(values: Iterable[Array]) -> float:
    """Largest difference between several sets of values, of their mean."""
    stacked = np.stack(list(values))
    return float((np.ptp(stacked, axis=0) / stacked.mean(axis=0)).max())


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Speed and width at the stations, roundness, agreement of directions, and what the equilibrium does to them.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    table = read_reference(options.reference)
    rows = [int(np.flatnonzero(table["z_mm"] == place)[0]) for place in options.stations_mm]
    ranges = {name: values[rows] for name, values in table.items()}
    found = sorted((Found.of(Jet(run), options) for run in runs.values()), key=lambda each: each.jet.nodes)
    judged = [each for each in found if each.jet.nodes >= options.nodes and not each.jet.standard]
    for each in judged:
        _reach(evidence, each, ranges, options)
    _directions(evidence, found, options)
    _outlets(evidence, judged, options)
    _stations(evidence, found, ranges, options)
    caption = (
        "Speed on the axis and half-width of the jet: laboratories (bars) and runs; four- and twofold parts of the"
        f" speed around the axis at {options.round_mm:g} mm"
    )
    evidence.draw(lambda figure: _along(figure, found, ranges), caption)


def _reach(evidence: Evidence, each: Found, ranges: Mapping[str, Array], options: Options) -> None:
    run = each.jet.run
    evidence.reach(f"{each.name}: residual", run.summary["residual"], at_most=run.case.solve.steady_tolerance)
    for what, values, key in (
        ("speed on the axis", each.axis, "axis_{}_m_s"),
        ("half-width", each.half_width, "half_width_{}_mm"),
    ):
        left = outside(values, ranges[key.format("min")], ranges[key.format("max")])
        evidence.reach(
            f"{each.name}: {what}, outside of the laboratories' range by", max(left), at_most=options.widened
        )
    for m, part in zip(FOLDS, each.folds, strict=True):
        if m > 1:
            what = f"{each.name}: {m}-fold part at {options.round_mm:g} mm, of the speed on the axis"
            evidence.reach(what, part, at_most=options.uneven)


def _directions(evidence: Evidence, found: Sequence[Found], options: Options) -> None:
    """Of runs that differ in nothing else."""
    alike: dict[tuple[int, bool, float], list[Found]] = {}
    for each in found:
        alike.setdefault((each.jet.nodes, each.jet.standard, each.jet.outlet_mm), []).append(each)
    rows: list[tuple[int | str | float, ...]] = []
    for (nodes, standard, _), several in alike.items():
        if len(several) < 2:
            continue
        names = ", ".join(each.name for each in several)
        apart = spread(each.axis for each in several), spread(each.half_width for each in several)
        rows.append((nodes, names, *apart))
        if nodes >= options.nodes and not standard:
            what = f"{nodes} nodes: difference between directions"
            evidence.reach(f"{what}, speed on the axis", apart[0], at_most=options.agreement)
            evidence.reach(f"{what}, half-width", apart[1], at_most=options.agreement)
    if rows:
        note = "Largest difference between directions over the stations, of their mean."
        evidence.table(("nodes across the throat", "runs", "speed on the axis", "half-width"), rows, note)


def _outlets(evidence: Evidence, judged: Sequence[Found], options: Options) -> None:
    """What a longer outlet changes, of runs that differ in nothing else."""
    for each in judged:
        for other in judged:
            same = each.jet.nodes == other.jet.nodes and each.jet.shape.direction == other.jet.shape.direction
            if same and other.jet.outlet_mm > each.jet.outlet_mm:
                change = float(np.abs(each.values / other.values - 1).max())
                what = f"{each.name}: change of speed and half-width by an outlet of {other.jet.outlet_mm:g} mm"
                evidence.reach(what, change, at_most=options.outlet)


def _stations(evidence: Evidence, found: Sequence[Found], ranges: Mapping[str, Array], options: Options) -> None:
    rows = []
    for each in found:
        run, numbers = each.jet.run, each.jet.run.summary["numbers"]
        models = run.summary["models"]
        lattice = each.jet.nodes, run.nodes.count, numbers["grid_reynolds"]
        chosen = models["velocity_set"], models["collision"], run.case.solve.equilibrium
        rows.append((each.name, *lattice, *chosen, run.summary["steps"], run.summary["residual"], *each.folds))
    columns = (
        "run",
        "nodes across the throat",
        "fluid nodes",
        "grid Reynolds number",
        "velocities",
        "collision",
        "equilibrium",
        "steps",
        "residual",
        *(f"{m}-fold" for m in FOLDS),
    )
    note = (
        f"m-fold parts: of the speed along the axis on rings around it at {options.round_mm:g} mm, the largest over the"
        " rings, over the speed on the axis."
    )
    evidence.table(columns, rows, note)
    heads = [f"{place:g} mm" for place in options.stations_mm]
    for what, key, pick in (
        ("Speed on the axis, m/s", "axis_{}_m_s", lambda each: each.axis),
        ("Half-width of the jet, mm", "half_width_{}_mm", lambda each: each.half_width),
    ):
        known = [
            (f"laboratories, {word}", *ranges[key.format(end)]) for end, word in (("min", "least"), ("max", "largest"))
        ]
        evidence.table(("", *heads), [*known, *((each.name, *pick(each)) for each in found)], f"{what}.")


def _along(figure: Any, found: Sequence[Found], ranges: Mapping[str, Array]) -> None:
    figure.set_size_inches(9, 3.2)
    axis, width, around = figure.subplots(1, 3, width_ratios=(2, 2, 1.2))
    places = ranges["z_mm"]
    for plot, key in ((axis, "axis_{}_m_s"), (width, "half_width_{}_mm")):
        low, high = ranges[key.format("min")], ranges[key.format("max")]
        plot.errorbar(places, (low + high) / 2, (high - low) / 2, fmt="none", color="black", capsize=3)
    for each in found:
        line = np.arange(places.min(), places.max() + EVERY_MM / 2, EVERY_MM)
        style = ":" if each.jet.standard else "-"
        axis.plot(line, each.jet.on_axis(line), style, label=each.name)
        width.plot(places, each.half_width, f"{style}.", label=each.name)
    axis.set(xlabel="mm from the end of the throat", ylabel="speed on the axis, m/s")
    axis.legend()
    width.set(xlabel="mm from the end of the throat", ylabel="half-width, mm")
    around.barh([each.name for each in found], [100 * max(each.folds[1:]) for each in found])
    around.set(xlabel="two- or fourfold, %")
