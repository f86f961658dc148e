# SPDX-License-Identifier: Apache-2.0
"""Steady flow through a round pipe of fluids whose viscosity follows the shear rate, beside what theory says.

The theory is that of :mod:`validation.studies.viscoplastic` with half the force: at the radius r the stress is G r/2.
Runs are named by their fluid and the nodes across, ``casson-20``. In most a force drives the fluid through a pipe
without ends. A flow is given at the inlet of a pipe that has openings; its middle is compared with the profile, and the
gradient of the pressure with that which this flow needs. Runs of :data:`FAST` flow are compared with each other alone.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.optimize import brentq

from pipeline.case.settings.base import Positive, Section
from pipeline.case.shapes import Pipe
from pipeline.haemodynamics.wall_shear_stress import Wall, fit_nodes_to_wall, wall_shear_stress, within_period
from solver.runtime.errors import StageError
from validation.evidence import Evidence
from validation.goals import order
from validation.studies.run import Run
from validation.studies.viscoplastic import Array, Profile
from validation.studies.viscoplastic_fluids import CLOSED, pipe_flow_by_quadrature

FILES = ("surface.vtp",)
FIT_NODES = 3.0
"""Radius in spacings of the fit that carries the stress to the wall, the default of cases."""
AWAY = 3.5
"""Radii from the caps on, where a parabola has become the profile, which takes the longest where a plug does so."""
FAST = "fast"
"""End of names of flows at a relaxation time near 1/2, as blood's are where it is fast: it costs accuracy."""
MOST_STRESS = 1e3
"""Pa, at the wall, at which more flows than in any run."""
PA_PER_MM = 1e-3
"""One Pa/m."""


class Options(Section):
    """What is compared, and what is to be reached."""

    nodes: int = Field(20, description="across, where the errors are to be reached")
    l2: Positive = Field(0.01, description="of the velocity against the law that is solved, at most")
    flow: Positive = Field(0.01, description="relative error of the flow, at most")
    plug: Positive = Field(0.2, description="error of the plug's width in spacings, at most")
    wall: Positive = Field(0.017, description="rms over the wall of the relative error of its shear stress, at most")
    gradient: Positive = Field(0.01, description="relative error of the pressure gradient between openings, at most")
    ratio: Positive = Field(0.01, description="relative error of pressure and wall stress over the first's, at most")
    order: Positive = Field(1.8, description="of convergence of the velocity, at least")
    compared: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="runs of one flow by its shear rate at the wall, the first of them Newtonian"
    )


class PipeProfile(Profile):
    """What a run shows across its pipe, in SI."""

    @property
    def shape(self) -> Pipe:
        """The run's geometry.

        Raises
        ------
        StageError
            If it is no pipe along x.
        """
        shape = self.run.case.input.geometry
        if not isinstance(shape, Pipe) or shape.direction[1:] != (0, 0):
            raise StageError(
                f"run {self.run.name}: input.geometry is no pipe along x, which pipe_rheology measures; let it be one"
            )
        return shape

    @property
    def half(self) -> float:
        """Radius, m."""
        return 1e-3 * self.shape.radius_mm

    @property
    def nodes(self) -> int:
        """Across the pipe."""
        return round(self.shape.diameter_mm / self.run.nodes.spacing_mm)

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """Nodes that are compared: of one section of an endless pipe, of the middle between openings.

        Raises
        ------
        StageError
            If a pipe with openings is too short to have a middle.
        """
        x, length, ends = self.run.nodes.points_mm()[:, 0], self.shape.length_mm, AWAY * self.shape.radius_mm
        if not self.open:
            return np.flatnonzero(x == x.min())
        found = np.flatnonzero((x > ends) & (x < length - ends))
        if not len(found):
            raise StageError(
                f"run {self.run.name}: input.geometry.length_mm {length:g} leaves no node {AWAY:g} radii from both"
                f" openings; let it be above {2 * ends + self.run.nodes.spacing_mm:g}"
            )
        return found

    @property
    def open(self) -> bool:
        """Whether the pipe has openings."""
        return bool(self.run.nodes.openings)

    @property
    def y(self) -> Array:
        """Distance of the nodes from the axis, (N,), m."""
        return 1e-3 * np.linalg.norm(self.run.nodes.points_mm()[self.rows, 1:], axis=1)

    @cached_property
    def velocity(self) -> Array:
        """Along the pipe, (N,), m/s."""
        return self.run.velocity_m_s[self.rows, 0]

    @cached_property
    def solved(self) -> Array:
        """Velocity of the fluid as it is solved, (N,); many nodes are as far from the axis as others."""
        place, of = np.unique((self.y / self.half).round(9), return_inverse=True)
        return self.solved_at(place * self.half)[of]

    @cached_property
    def wall_stress(self) -> float:
        """G R/2 of the force; or, between openings, what theory says of the flow that is given; Pa."""
        if not self.open:
            return self.run.case.solve.force_n_m3[0] * self.half / 2
        wanted = 1e-6 * self.run.summary["openings"]["inlet"]["imposed_flow_ml_s"]
        least = self.blood.parameters.get("yield_stress_pa", 0.0) or 1e-9
        return float(brentq(lambda stress: self.theory(stress) - wanted, least, MOST_STRESS, rtol=1e-10))

    @property
    def force(self) -> float:
        """Half of G, N/m3."""
        return self.wall_stress / self.half

    def theory(self, stress: float) -> float:
        """Flow at a stress at the wall, of the fluid as it is solved, m3/s."""
        if self.creeps:
            return pipe_flow_by_quadrature(self.half, stress, self.blood.viscosity_pa_s)
        return self.fluid.pipe_flow(self.half, stress)

    @property
    def flow(self) -> float:
        """Through the section, m3/s."""
        return float(self.velocity.sum()) * self.run.spacing_m**2

    @property
    def mean_speed(self) -> float:
        """Of the flow that theory says, m/s."""
        return self.theory(self.wall_stress) / (np.pi * self.half**2)

    @property
    def resistance(self) -> float:
        """Gradient of the pressure over the flow, Pa s/m4."""
        return 2 * self.force / self.flow

    @property
    def flow_error(self) -> float:
        """Relative."""
        return self.flow / self.theory(self.wall_stress) - 1

    @property
    def sheared(self) -> tuple[Array, Array]:
        """Distance of nodes from the axis, m, and shear rates there by central differences, 1/s, (M,) each."""
        spacing = self.run.spacing_m
        image = np.pad(self.run.layer(self.run.velocity_m_s[:, 0], across=0), 1, constant_values=np.nan)
        y, z = (np.pad(self.run.layer(points, across=0), 1) for points in self.run.nodes.points_mm()[:, 1:].T)
        rate = np.hypot(*np.gradient(image, spacing))
        known = np.isfinite(rate)
        return 1e-3 * np.hypot(y, z)[known], rate[known]

    @property
    def plug_wanted(self) -> float:
        """Width of the plug over the diameter by theory; 0 without a yield stress."""
        return super().plug_wanted if self.blood.model in CLOSED else 0.0

    @cached_property
    def shear_at_wall(self) -> Array:
        """Shear stress as fitted to the wall, (V,), Pa."""
        nodes = self.run.nodes
        wall = Wall.of(within_period(self.run.surface, nodes))
        fit = fit_nodes_to_wall(nodes, wall, FIT_NODES)
        return np.linalg.norm(wall_shear_stress(fit, wall.normals, self.run.viscous_stress_pa), axis=1)

    @property
    def wall_error(self) -> float:
        """Rms over the wall of the relative error of the shear stress."""
        return float(np.sqrt(np.mean((self.shear_at_wall / self.wall_stress - 1) ** 2)))

    @property
    def gradient_error(self) -> float:
        """Relative, of the pressure between openings: G is 2/R of the stress at the wall."""
        x = 1e-3 * self.run.nodes.points_mm()[self.rows, 0]
        slope = np.polyfit(x, self.run.pressure_pa[self.rows], 1)[0]
        return float(-slope / (2 * self.force) - 1)


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Errors of profiles, flow, plugs and wall stress and their order; pipes with openings; the same flow by law.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    profiles = {name: PipeProfile(run) for name, run in runs.items()}
    fluids: dict[str, list[PipeProfile]] = {}
    for each in sorted(profiles.values(), key=lambda each: each.nodes):
        if not (each.open or each.name.endswith(FAST)):
            fluids.setdefault(each.name, []).append(each)
    several = {name: found for name, found in fluids.items() if len(found) > 1}
    shown = {name: each for name, found in fluids.items() for each in found if each.nodes == options.nodes}
    _convergence(evidence, several, options)
    _errors(evidence, shown, options)
    _openings(evidence, [each for each in profiles.values() if each.open], options)
    caption = f"Velocity from the axis to the wall, {options.nodes} nodes across and theory; error against the nodes"
    evidence.draw(lambda figure: _profiles(figure, fluids, options.nodes), caption)
    same = {what: [profiles[name] for name in names if name in profiles] for what, names in options.compared.items()}
    _compared(evidence, {what: found for what, found in same.items() if len(found) > 1}, options)


def _convergence(evidence: Evidence, fluids: Mapping[str, Sequence[PipeProfile]], options: Options) -> None:
    """L2 against the law that is solved, by fluid and nodes across."""
    sizes = sorted({each.nodes for profiles in fluids.values() for each in profiles})
    rows = []
    for name, profiles in fluids.items():
        errors = {each.nodes: each.error(each.solved) for each in profiles}
        slope = order(errors, errors.values())
        rows.append((name, *(errors.get(size, "") for size in sizes), slope))
        evidence.reach(f"{name}: order of convergence", slope, at_least=options.order)
    if rows:
        note = "Relative L2 error of the velocity, against the law as it is solved, by nodes across."
        evidence.table(("fluid", *(f"{size} nodes" for size in sizes), "order"), rows, note)


def _errors(evidence: Evidence, shown: Mapping[str, PipeProfile], options: Options) -> None:
    """What one resolution tells of each fluid."""
    rows = []
    for name, each in shown.items():
        what, l2, plug = f"{name}, {each.nodes} nodes", each.error(each.solved), each.plug_wanted
        evidence.reach(f"{what}: L2 of the velocity", l2, at_most=options.l2)
        evidence.reach(f"{what}: relative error of the flow", abs(each.flow_error), at_most=options.flow)
        evidence.reach(f"{what}: wall shear stress, rms of its relative error", each.wall_error, at_most=options.wall)
        if plug:
            off = abs(each.plug - plug) * each.nodes
            evidence.reach(f"{what}: error of the plug's width in spacings", off, at_most=options.plug)
        mean = 100 * float(each.shear_at_wall.mean() / each.wall_stress - 1)
        at_once, *widths = (each.error(each.ideal), each.plug, plug) if plug else ("", "", "")
        rows.append((name, *each.tau, l2, at_once, 100 * each.flow_error, mean, 100 * each.wall_error, *widths))
    columns = (
        "fluid",
        "least tau",
        "largest tau",
        "L2",
        "L2, yielding at once",
        "error of the flow, %",
        "of the wall shear stress, mean, %",
        "its rms, %",
        "width of the plug",
        "theory",
    )
    note = (
        f"{options.nodes} nodes across, against the law as it is solved; the second L2, against the fluid that yields"
        " at once, has what creeps in the plug, too. Widths in parts of the diameter."
    )
    evidence.table(columns, rows, note)


def _openings(evidence: Evidence, profiles: Sequence[PipeProfile], options: Options) -> None:
    """Profile and gradient of the pressure in the middle of pipes with openings."""
    rows = []
    for each in profiles:
        what, l2, gradient = f"{each.run.name} nodes", each.error(each.solved), each.gradient_error
        evidence.reach(f"{what}: L2 of the velocity", l2, at_most=options.l2)
        evidence.reach(f"{what}: relative error of the pressure gradient", abs(gradient), at_most=options.gradient)
        rows.append((each.name, each.nodes, l2, 2 * each.force * PA_PER_MM, 100 * gradient))
    if rows:
        columns = ("fluid", "nodes across", "L2", "theory's pressure gradient, Pa/mm", "error of the gradient, %")
        note = "Between inlet and outlet, where a flow with the parabola of a Newtonian fluid enters; its middle."
        evidence.table(columns, rows, note)


def _compared(evidence: Evidence, same: Mapping[str, Sequence[PipeProfile]], options: Options) -> None:
    """Pressure and wall stress of the same flow by model, and over those of the first."""
    if not same:
        return
    rows = []
    for what, (first, *others) in same.items():
        for each in (first, *others):
            theory = each.wall_stress / first.wall_stress
            pressure = each.resistance / first.resistance
            wall = float(each.shear_at_wall.mean() / first.shear_at_wall.mean())
            flow, gradient, stress = 1e6 * each.flow, 2 * each.force * PA_PER_MM, float(each.shear_at_wall.mean())
            rows.append((what, each.blood.model, flow, gradient, stress, pressure, wall, theory))
            if each is first:
                continue
            over = f"{what}, {each.blood.model}: relative error, over the first, of"
            evidence.reach(f"{over} the pressure at one flow", abs(pressure / theory - 1), at_most=options.ratio)
            evidence.reach(f"{over} the wall shear stress", abs(wall / theory - 1), at_most=options.ratio)
    columns = (
        "Newtonian fluid's shear rate at the wall",
        "blood",
        "flow, mL/s",
        "pressure gradient, Pa/mm",
        "wall shear stress, Pa",
        "pressure at one flow, over the first's",
        "wall shear stress, likewise",
        "theory of both",
    )
    note = "The same flow with each blood: forces are those that it needs by theory."
    evidence.table(columns, rows, note)
    caption = "The same flow with each blood, theory and nodes, by a Newtonian fluid's shear rate at the wall"
    evidence.draw(lambda figure: _shapes(figure, same), caption)


def _profiles(figure: Any, fluids: Mapping[str, Sequence[PipeProfile]], nodes: int) -> None:
    """Shapes of the profiles, from flat to pointed, and errors against the nodes."""
    figure.set_size_inches(7.5, 3.4)
    profile, convergence = figure.subplots(1, 2)
    pointed = sorted(fluids.items(), key=lambda item: item[1][-1].solved.max() / item[1][-1].mean_speed)
    for (name, profiles), colour in zip(pointed, _colours(len(fluids)), strict=True):
        for each in (each for each in profiles if each.nodes == nodes):
            _drawn(profile, each, colour, name)
        errors = [each.error(each.solved) for each in profiles]
        convergence.loglog([each.nodes for each in profiles], errors, "o-", color=colour, markersize=4)
    sizes = sorted({each.nodes for profiles in fluids.values() for each in profiles})
    convergence.set(xlabel="nodes across", ylabel="relative L2 error", xticks=sizes, xticklabels=sizes)
    convergence.minorticks_off()
    profile.set(xlabel="velocity, of the mean", ylabel="r / R")
    profile.legend(fontsize=7)


def _shapes(figure: Any, same: Mapping[str, Sequence[PipeProfile]]) -> None:
    """Profiles of the same flow, a panel for each flow."""
    figure.set_size_inches(3.5 * len(same), 3)
    models = sorted({each.blood.model for profiles in same.values() for each in profiles})
    colours = dict(zip(models, _colours(len(models)), strict=True))
    for axes, (what, profiles) in zip(figure.subplots(1, len(same), squeeze=False)[0], same.items(), strict=True):
        for each in profiles:
            _drawn(axes, each, colours[each.blood.model], each.blood.model)
        axes.set(xlabel="velocity, of the mean", ylabel="r / R", title=what)
        axes.legend(fontsize=7)


def _colours(count: int) -> Any:
    from matplotlib import colormaps

    return colormaps["viridis"](np.linspace(0, 0.9, count))


def _drawn(axes: Any, each: PipeProfile, colour: Any, label: str) -> None:
    """Theory as a line, nodes as dots."""
    place = np.linspace(0, each.half, 101)
    axes.plot(each.solved_at(place) / each.mean_speed, place / each.half, color=colour, linewidth=0.8, label=label)
    axes.plot(each.velocity / each.mean_speed, each.y / each.half, ".", color=colour, markersize=4)
