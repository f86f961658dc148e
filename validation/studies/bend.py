# SPDX-License-Identifier: Apache-2.0
"""Steady flow through a bend of a round pipe, where it no longer changes along the bend, beside that in a torus.

Runs are named by their flow and the nodes across the pipe, ``de25-20``; the runs of a flow differ in their grids. As in
:mod:`validation.studies.torus_flow`, lengths in a section are in radii of the pipe and speeds in mean speeds; x points
away from the centre of the bend, y across its plane. Angles are along the bend.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from pipeline.case.shapes import Bend
from solver.domain.nodes import Nodes
from solver.runtime.errors import StageError
from validation.evidence import Evidence
from validation.studies.bend_section import ACROSS, AXIAL, Part, Velocity, raster
from validation.studies.held_order import HeldOrder, reach_order
from validation.studies.run import Run, shape_of
from validation.studies.torus_flow import TorusFlow, mishra_gupta, torus_flow, white

COARSE = 20
"""Nodes across at which errors are to be as small as the options say."""


class Options(Section):
    """Where the flow is looked at, and what is to be reached by the finest grid of a flow.

    Bounds of profile, friction and across are for 20 nodes across, and in proportion to the spacing on other grids.
    """

    settled: tuple[str, ...] = Field(description="flows that have settled before the second section, to be compared")
    sections_deg: tuple[Positive, Positive] = Field((105.0, 135.0), description="the second is compared")
    half_width_deg: Positive = Field(15.0, description="of the part of the bend that stands for a section")
    flow_deg: tuple[Positive, ...] = Field((30.0, 60.0, 90.0, 120.0, 150.0), description="where the flow is counted")
    profile: Positive = Field(0.02, description="L2 error of the axial velocity, of its L2 norm, at most")
    friction: Positive = Field(0.02, description="relative error of the gradient of the pressure, at most")
    across: Positive = Field(0.05, description="relative error of the largest speed in the section, at most")
    flow: Positive = Field(0.003, description="flow through sections less what enters, of that, at most")
    change: Positive = Field(0.01, description="L2 change of the axial velocity between the sections, at most")
    symmetry: Positive = Field(1e-3, description="difference of mirrored velocities, of the mean speed, at most")
    order: Positive = Field(1.8, description="of convergence of the axial velocity with three grids, at least")
    held: dict[str, HeldOrder] = Field(default_factory=dict, description="in place of the order, by flow")


def asymmetry(nodes: Nodes, velocity: NDArray[np.floating]) -> float:
    """Largest difference of the velocity, (N, 3), to the mirrored one on the other side of the middle plane across y.

    Raises
    ------
    StageError
        If nodes have no mirror images.
    """
    mirrored = nodes.position * (1, -1, 1)
    mirrored[:, 1] += nodes.position[:, 1].min() + nodes.position[:, 1].max()
    here, there = np.lexsort(nodes.position.T), np.lexsort(mirrored.T)
    if not np.array_equal(nodes.position[here], mirrored[there]):
        raise StageError(f"{nodes.count} nodes: not symmetric about the plane of the bend; let the bend lie in it")
    return float(np.linalg.norm(velocity[here] - velocity[there] * (1, -1, 1), axis=1).max())


@dataclass(frozen=True)
class Flow:
    """What a run shows of the flow."""

    run: Run

    @property
    def name(self) -> str:
        """Name of the run up to its number."""
        return self.run.name.rpartition("-")[0]

    @property
    def shape(self) -> Bend:
        """The geometry.

        Raises
        ------
        StageError
            If it is no bend.
        """
        return shape_of(self.run, Bend)

    @property
    def nodes(self) -> int:
        """Across the pipe."""
        return round(1e-3 * self.shape.diameter_mm / self.run.spacing_m)

    @property
    def what(self) -> str:
        """Flow and nodes in words."""
        return f"{self.name}, {self.nodes} nodes"

    @property
    def inflow_ml_s(self) -> float:
        """What enters."""
        return float(self.run.summary["openings"]["inlet"]["imposed_flow_ml_s"])

    @property
    def mean_speed_m_s(self) -> float:
        """Of what enters over the section."""
        return self.inflow_ml_s / (np.pi * self.shape.radius_mm**2)

    @property
    def viscosity_m2_s(self) -> float:
        """Kinematic."""
        return float(self.run.summary["numbers"]["viscosity_m2_s"])

    @property
    def curvature(self) -> float:
        """Radius of the pipe over that of the centreline."""
        return self.shape.radius_mm / self.shape.bend_radius_mm

    @property
    def reynolds(self) -> float:
        """Of the mean speed and the diameter."""
        return 1e-3 * self.shape.diameter_mm * self.mean_speed_m_s / self.viscosity_m2_s

    @property
    def dean(self) -> float:
        """Reynolds number times the root of the curvature."""
        return self.reynolds * self.curvature**0.5

    @cached_property
    def wanted(self) -> TorusFlow:
        """The flow in a torus."""
        return torus_flow(self.curvature, self.reynolds)

    def part(self, angle_deg: float, half_width_deg: float) -> Part:
        """Nodes about an angle."""
        radius, bend_radius = self.shape.radius_mm, self.shape.bend_radius_mm
        from_centre = self.run.nodes.points_mm() - (0, 0, bend_radius)
        angle = np.arctan2(from_centre[:, 0], -from_centre[:, 2])
        away = np.hypot(from_centre[:, 0], from_centre[:, 2]) - bend_radius
        x, y, along = away / radius, from_centre[:, 1] / radius, angle - np.radians(angle_deg)
        rows = np.flatnonzero((np.abs(along) < np.radians(half_width_deg)) & (x**2 + y**2 < 1))
        velocity = self.run.velocity_m_s[rows] / self.mean_speed_m_s
        sin, cos = np.sin(angle[rows]), np.cos(angle[rows])
        outwards = velocity[:, 0] * sin - velocity[:, 2] * cos
        onwards = velocity[:, 0] * cos + velocity[:, 2] * sin
        turned = np.stack((outwards, velocity[:, 1], onwards))
        return Part(x[rows], y[rows], along[rows] / self.curvature, turned, self.run.pressure_pa[rows])

    def friction_ratio(self, part: Part) -> float:
        """Gradient of the pressure over that in a straight pipe, 8 mu W/a^2."""
        straight = 8 * self.run.case.solve.density_kg_m3 * self.viscosity_m2_s * self.mean_speed_m_s
        return part.gradient_pa() / (straight / (1e-3 * self.shape.radius_mm))

    def excess(self, angle_deg: float) -> float:
        """Flow through a section less what enters, over that."""
        turned, bend_radius = np.radians(angle_deg), self.shape.bend_radius_mm
        centre = bend_radius * np.array((np.sin(turned), 0, 1 - np.cos(turned)))
        along = np.array((np.cos(turned), 0, np.sin(turned)))
        return self.run.through_ml_s(centre, along, self.shape.radius_mm) / self.inflow_ml_s - 1


@dataclass(frozen=True)
class Found:
    """What was found in the sections of a flow."""

    flow: Flow
    before: Part
    part: Part
    through: float

    @staticmethod
    def of(flow: Flow, options: Options) -> "Found":
        """By the options."""
        before, part = (flow.part(angle, options.half_width_deg) for angle in options.sections_deg)
        return Found(flow, before, part, max((flow.excess(angle) for angle in options.flow_deg), key=abs))

    @cached_property
    def velocity(self) -> Velocity:
        """In the section that is compared."""
        return self.part.fit()

    @cached_property
    def profile_error(self) -> float:
        """Of the axial velocity at the nodes."""
        return self.part.error(self.flow.wanted.at, AXIAL)

    @cached_property
    def friction(self) -> tuple[float, float]:
        """Ratios in both sections."""
        return self.flow.friction_ratio(self.before), self.flow.friction_ratio(self.part)

    @property
    def friction_error(self) -> float:
        """Of the second, relative."""
        return self.friction[1] / self.flow.wanted.friction_ratio - 1

    @cached_property
    def change(self) -> float:
        """L2 change of the axial velocity from the first section to the second, of its norm."""
        x, y = raster()
        before, behind = self.before.fit()(x, y)[AXIAL], self.velocity(x, y)[AXIAL]
        return float(np.linalg.norm(behind - before) / np.linalg.norm(behind))

    @cached_property
    def peaks(self) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """Largest axial velocity, its x, and the largest speed across, here and in the torus."""
        return _peaks(self.velocity), _peaks(self.flow.wanted.at)

    @property
    def across_error(self) -> float:
        """Of the largest speed across, relative."""
        return self.peaks[0][2] / self.peaks[1][2] - 1


def _peaks(velocity: Velocity) -> tuple[float, float, float]:
    x, y = raster()
    u, v, w = velocity(x, y)
    top = int(w.argmax())
    return float(w[top]), float(x[top]), float(np.hypot(u, v).max())


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Errors in a section against the flow in a torus, their order, friction, symmetry and flow.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    flows: dict[str, list[Found]] = {}
    for flow in sorted(map(Flow, runs.values()), key=lambda each: (each.dean, each.nodes)):
        flows.setdefault(flow.name, []).append(Found.of(flow, options))
    for name, grids in flows.items():
        if name in options.settled:
            _reach(evidence, grids, options)
    found = [each for grids in flows.values() for each in grids]
    uneven = [asymmetry(each.flow.run.nodes, each.flow.run.velocity_m_s) / each.flow.mean_speed_m_s for each in found]
    what = "velocities mirrored at the plane of the bend: largest difference, of the mean speed"
    evidence.reach(what, max(uneven), at_most=options.symmetry)
    _errors(evidence, found, uneven, options)
    finest = [grids[-1] for grids in flows.values()]
    _sections(evidence, finest, options)
    last = options.sections_deg[1]
    caption = (
        f"Velocity w along the bend on two diameters at {last:g}°, W its mean, a the radius: in a torus (lines), of the"
        " finest grids (dots: polynomials through the nodes, a spacing apart); error against nodes across"
    )
    evidence.draw(lambda figure: _profiles(figure, flows), caption)
    shown = finest[-1]
    caption = (
        f"{shown.flow.what}: velocity along the bend (colours) and across it (arrows), at {last:g}°, and in a torus"
    )
    evidence.draw(lambda figure: _contours(figure, shown), caption)


def _reach(evidence: Evidence, grids: Sequence[Found], options: Options) -> None:
    """Of the finest grid of a flow, and of all."""
    finest, (first, last) = grids[-1], options.sections_deg
    errors = (
        ("L2 error of the velocity along the bend", finest.profile_error, options.profile),
        ("error of the friction", finest.friction_error, options.friction),
        ("error of the largest speed across", finest.across_error, options.across),
    )
    for what, error, bound in errors:
        evidence.reach(f"{finest.flow.what}: {what}", abs(error), at_most=bound * COARSE / finest.flow.nodes)
    what = f"{finest.flow.what}: flow through sections less what enters"
    evidence.reach(what, abs(finest.through), at_most=options.flow)
    what = f"{finest.flow.what}: change of the velocity from {first:g}° to {last:g}°"
    evidence.reach(what, finest.change, at_most=options.change)
    if len(grids) > 2:
        sizes = [(each.flow.nodes, each.profile_error) for each in grids]
        what = f"{finest.flow.name}: order of convergence of the velocity along the bend"
        reach_order(evidence, what, sizes, options.order, options.held.get(finest.flow.name))


def _errors(evidence: Evidence, found: Sequence[Found], uneven: Sequence[float], options: Options) -> None:
    rows = []
    for each, mirrored in zip(found, uneven, strict=True):
        flow, across = each.flow, each.part.error(each.flow.wanted.at, ACROSS)
        errors = each.profile_error, across, each.friction_error, each.across_error, each.through, mirrored
        rows.append((flow.name, flow.nodes, flow.run.tau, flow.run.summary["steps"], *errors))
    first, last = (options.sections_deg[1] + side * options.half_width_deg for side in (-1, 1))
    note = (
        f"Errors against the flow in a torus, relative, from {first:g}° to {last:g}° of the bend. Flow: what goes"
        " through a section less what enters, where that is most. Asymmetry: of velocities mirrored at the plane of"
        " the bend."
    )
    columns = (
        "flow",
        "nodes across",
        "tau",
        "steps",
        "L2 along the bend",
        "L2 across",
        "friction",
        "largest speed across",
        "flow",
        "asymmetry",
    )
    evidence.table(columns, rows, note)


def _sections(evidence: Evidence, found: Sequence[Found], options: Options) -> None:
    first, last = (f"{angle:g}°" for angle in options.sections_deg)
    rows = []
    for each in found:
        flow = each.flow
        friction = (*each.friction, flow.wanted.friction_ratio, white(flow.dean), mishra_gupta(flow.dean))
        rows.append((flow.what, flow.curvature, flow.reynolds, flow.dean, *friction))
    columns = ("flow", "a/R", "Re", "De", first, last, "torus", "White 1929", "Mishra and Gupta 1979")
    evidence.table(columns, rows, "Friction: gradient of the pressure over that in a straight pipe.")
    peaks = [(each.flow.what, *np.transpose(each.peaks).ravel(), each.change) for each in found]
    note = (
        f"Peaks at {last} and in a torus: speeds over the mean speed, x over the radius, away from the centre of the"
        f" bend. Change: L2, of the velocity along the bend, from {first} to {last}."
    )
    pairs = ("along the bend", "torus", "its x", "torus", "across", "torus")
    evidence.table(("flow", *pairs, "change"), peaks, note)


ARROWS = 0.2
"""Distance of the arrows in a picture."""


def _profiles(figure: Any, flows: Mapping[str, Sequence[Found]]) -> None:
    figure.set_size_inches(9, 3)
    in_plane, across, errors = figure.subplots(1, 3)
    line = np.linspace(-1, 1, 101)
    for name, grids in flows.items():
        each = grids[-1]
        dots = (np.arange(each.flow.nodes) + 0.5) * 2 / each.flow.nodes - 1
        for plot, (x, y) in ((in_plane, (1, 0)), (across, (0, 1))):
            (drawn,) = plot.plot(line, each.flow.wanted.at(x * line, y * line)[2], label=f"De {each.flow.dean:.0f}")
            plot.plot(dots, each.velocity(x * dots, y * dots)[2], ".", color=drawn.get_color())
        errors.loglog([each.flow.nodes for each in grids], [each.profile_error for each in grids], "o-", label=name)
    in_plane.set(xlabel="x / a, away from the centre of the bend", ylabel="w / W")
    in_plane.legend()
    across.set(xlabel="y / a, across the plane of the bend")
    sizes = sorted({each.flow.nodes for grids in flows.values() for each in grids})
    errors.set(xlabel="nodes across", ylabel="relative L2 error of w", xticks=sizes, xticklabels=sizes)
    errors.minorticks_off()


def _contours(figure: Any, found: Found) -> None:
    r, angle = np.meshgrid(np.linspace(0, 1, 41), np.linspace(0, 2 * np.pi, 121))
    x, y = r * np.cos(angle), r * np.sin(angle)
    arrows = np.stack(np.meshgrid(*[np.arange(ARROWS / 2 - 1, 1, ARROWS)] * 2)).reshape(2, -1)
    arrows = arrows[:, (arrows**2).sum(axis=0) < 0.9]
    levels = np.linspace(0, 2, 21)
    plots = figure.subplots(1, 2, sharey=True)
    both = (("here", found.velocity), ("in a torus", found.flow.wanted.at))
    for plot, (title, velocity) in zip(plots, both, strict=True):
        w = velocity(x.ravel(), y.ravel())[2].reshape(x.shape)
        drawn = plot.contourf(x, y, w, levels=levels)
        u, v, _ = velocity(*arrows)
        plot.quiver(*arrows, u, v, color="white", scale=12 * found.peaks[1][2], width=0.006)
        plot.set(title=title, xlabel="x / a", aspect="equal")
        plot.grid(visible=False)
    plots[0].set(ylabel="y / a")
    figure.colorbar(drawn, ax=list(plots), label="w / W")
