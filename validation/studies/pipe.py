"""Steady flow from inlet to outlet through straight round pipes in any direction, beside that of Hagen and Poiseuille.

With the mean speed U, the radius R and the distance r from the axis

    u = 2 U (1 - r^2/R^2),   -dp/ds = 8 mu U/R^2,   tau_w = 4 mu U/R.

Velocity, pressure gradient and wall shear stress are compared in the middle of the pipe, `MIDDLE` of its length, far
from the inlet and not at the outlet; the flow all along it. The stress is carried from the nodes to the wall of the
surface that the lattice was cut from, as `postprocess` does. Runs whose Lambda is given tell the order of convergence:
where it is chosen, it changes with the relaxation time, and so with the spacing. The others tell what a case has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from pipeline.case.settings.flow import PostprocessSettings
from pipeline.case.shapes import Pipe
from pipeline.geometry.surface.clip import axes_of_plane
from pipeline.haemodynamics.wall_shear_stress import Wall, fit_nodes_to_wall, wall_shear_stress
from solver.domain.nodes import Nodes
from solver.runtime.errors import StageError
from validation.evidence import Evidence, order
from validation.studies.run import Run

Array = NDArray[np.float64]

FILES = ("surface.vtp",)
MIDDLE = (0.4, 0.9)
SECTIONS = 9
"""Through which the flow is counted, from half a radius behind the inlet to as far before the outlet."""
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


class Held(Bounds):
    """What is held in place of bounds that are out of reach, for a reason."""

    why: str


class Options(Bounds):
    """What is to be reached, and by which runs."""

    nodes: Positive = Field(20, description="across, of the runs that have to keep the bounds")
    reynolds: Positive = Field(30, description="number of diameter and mean speed, of the same runs")
    held: dict[str, Held] = Field(default_factory=dict, description="in place of bounds out of reach, by direction")
    velocity_order: Positive | None = Field(None, description="at which L2 of the velocity falls, at least")
    shear_order: Positive | None = Field(None, description="the same of the rms of the wall shear stress")
    spread: Positive | None = Field(
        None, description="largest less smallest mean wall shear stress of all directions over their mean, at most"
    )


@dataclass(frozen=True)
class Poiseuille:
    """The exact flow.

    Attributes
    ----------
    start_mm, axis : centre of the inlet, and the unit vector from there to the outlet, (3,).
    radius_mm, length_mm : of the pipe.
    flow_ml_s, viscosity_pa_s : of the blood.
    """

    start_mm: Array
    axis: Array
    radius_mm: float
    length_mm: float
    flow_ml_s: float
    viscosity_pa_s: float

    @staticmethod
    def between(nodes: Nodes, flow_ml_s: float, viscosity_pa_s: float) -> "Poiseuille":
        """From the inlet to the outlet of nodes that have one of each."""
        ends = {opening.role: opening for opening in nodes.openings}
        start, end = (np.array(ends[role].centre_mm) for role in ("inlet", "outlet"))
        length = float(np.linalg.norm(end - start))
        return Poiseuille(start, (end - start) / length, ends["inlet"].radius_mm, length, flow_ml_s, viscosity_pa_s)

    @property
    def mean_m_s(self) -> float:
        """Mean speed U: a mL is 1000 mm^3, a m/s is 1000 mm/s."""
        return self.flow_ml_s / (np.pi * self.radius_mm**2)

    @property
    def gradient_pa_mm(self) -> float:
        """Pressure lost a length, 8 mu U/R^2."""
        return 1e3 * 8 * self.viscosity_pa_s * self.mean_m_s / self.radius_mm**2

    @property
    def shear_pa(self) -> float:
        """Wall shear stress, 4 mu U/R."""
        return 1e3 * 4 * self.viscosity_pa_s * self.mean_m_s / self.radius_mm

    def speed_m_s(self, away_mm: Array) -> Array:
        """Along the axis, at distances from it, of their shape."""
        return 2 * self.mean_m_s * (1 - (away_mm / self.radius_mm) ** 2)

    def place(self, points_mm: Array) -> tuple[Array, Array]:
        """Where points, (N, 3), lie: distance along the axis from the inlet, and from the axis, (N,) each; mm."""
        offset = points_mm - self.start_mm
        along = offset @ self.axis
        return along, np.linalg.norm(offset - along[:, None] * self.axis, axis=1)

    def middle(self, along_mm: Array) -> NDArray[np.bool_]:
        """Which places along the axis are compared, of their shape."""
        return (along_mm > MIDDLE[0] * self.length_mm) & (along_mm < MIDDLE[1] * self.length_mm)


@dataclass(frozen=True)
class PipeFigures:
    """What a pipe deviates by from Hagen and Poiseuille, relative.

    Attributes
    ----------
    flow : through nine sections, the largest deviation from what is wanted.
    gradient : of the pressure in the middle.
    outlet : by how many spacings of the pipe's length the pressure on the outlet's cap is off.
    velocity : L2 of the velocity in the middle.
    shear_mean, shear_rms, shear_95 : wall shear stress in the middle, carried to the wall: mean deviation, root mean
        square of the deviation, 95th percentile of its size.
    """

    flow: float
    gradient: float
    outlet: float
    velocity: float
    shear_mean: float
    shear_rms: float
    shear_95: float


@dataclass(frozen=True)
class WallShear:
    """Wall shear stress at the vertices of the wall's middle.

    Attributes
    ----------
    angle : around the axis, (V,), from -pi to pi.
    off : relative deviation of its size from the exact one, (V,).
    """

    angle: Array
    off: Array

    def around(self, parts: int) -> tuple[Array, Array]:
        """Middles of so many equal parts of the circumference and the mean deviation in each, (parts,)."""
        part = np.minimum(((self.angle + np.pi) / (2 * np.pi) * parts).astype(int), parts - 1)
        middles = 2 * np.pi * (np.arange(parts) + 0.5) / parts - np.pi
        return middles, np.bincount(part, self.off, parts) / np.bincount(part, minlength=parts)


def wall_shear(run: Run, exact: Poiseuille, wall: Wall) -> WallShear:
    """What the fit of `postprocess` carries to the wall."""
    stress = wall_shear_stress(
        fit_nodes_to_wall(run.nodes, wall, PostprocessSettings().fit_nodes), wall.normals, run.viscous_stress_pa
    )
    points = wall.mesh.points_mm
    inner = exact.middle(exact.place(points)[0])
    x, y = ((points[inner] - exact.start_mm) @ axes_of_plane(exact.axis)).T
    return WallShear(np.arctan2(y, x), np.linalg.norm(stress[inner], axis=1) / exact.shear_pa - 1)


def pipe_figures(run: Run, exact: Poiseuille, shear: WallShear) -> PipeFigures:
    """Deviations of a run whose outlet has the pressure 0."""
    along, away = exact.place(run.nodes.points_mm())
    inner = exact.middle(along)
    slope, at_start = np.polyfit(along[inner], run.pressure_pa[inner], 1)
    wanted = exact.speed_m_s(away[inner])[:, None] * exact.axis
    return PipeFigures(
        flow=float(np.abs(flows_ml_s(run, exact) / exact.flow_ml_s - 1).max()),
        gradient=float(-slope / exact.gradient_pa_mm - 1),
        outlet=float((slope * exact.length_mm + at_start) / exact.gradient_pa_mm / run.nodes.spacing_mm),
        velocity=float(np.linalg.norm(run.velocity_m_s[inner] - wanted) / np.linalg.norm(wanted)),
        shear_mean=float(shear.off.mean()),
        shear_rms=float(np.sqrt((shear.off**2).mean())),
        shear_95=float(np.percentile(np.abs(shear.off), 95)),
    )


def flows_ml_s(run: Run, exact: Poiseuille) -> Array:
    """Flow through sections all along the pipe, (SECTIONS,)."""
    places = np.linspace(exact.radius_mm / 2, exact.length_mm - exact.radius_mm / 2, SECTIONS)
    centres = exact.start_mm + places[:, None] * exact.axis
    return np.array([run.through_ml_s(centre, exact.axis, exact.radius_mm) for centre in centres])


def label(direction: Sequence[float]) -> str:
    """A direction as tables show it, (1,2,3)."""
    return "(" + ",".join(f"{component:g}" for component in direction) + ")"


@dataclass(frozen=True)
class PipeRun:
    """A run of a pipe with openings."""

    run: Run

    @property
    def shape(self) -> Pipe:
        """Its geometry.

        Raises
        ------
        StageError
            If it is no pipe with inlet and outlet.
        """
        shape = self.run.case.input.geometry
        if not isinstance(shape, Pipe) or not shape.roles:
            raise StageError(f"run {self.run.name}: input.geometry is no pipe with openings; let it be one")
        return shape

    @cached_property
    def exact(self) -> Poiseuille:
        """The flow as it should be.

        Raises
        ------
        StageError
            If the inflow is not steady.
        """
        solve = self.run.case.solve
        name, inlet = next(iter(solve.inlets.items()))
        if inlet.waveform or inlet.flow_ml_s is None:
            raise StageError(f"run {self.run.name}: solve.inlets.{name} is a waveform; give a steady flow_ml_s alone")
        return Poiseuille.between(self.run.nodes, inlet.flow_ml_s, solve.viscosity_pa_s)

    @property
    def direction(self) -> str:
        """Of the flow."""
        return label(self.shape.direction)

    @property
    def across(self) -> float:
        """Nodes across, a tenth at most."""
        return round(self.shape.diameter_mm / self.run.nodes.spacing_mm, 1)

    @property
    def reynolds(self) -> int:
        """Number of diameter and mean speed."""
        solve = self.run.case.solve
        diameter_m = 1e-3 * self.shape.diameter_mm
        return round(solve.density_kg_m3 * self.exact.mean_m_s * diameter_m / solve.viscosity_pa_s)

    @cached_property
    def shear(self) -> WallShear:
        """On the wall of the surface that the lattice was cut from."""
        return wall_shear(self.run, self.exact, Wall.of(self.run.surface))

    @cached_property
    def figures(self) -> PipeFigures:
        """Deviations."""
        return pipe_figures(self.run, self.exact, self.shear)


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
    """Deviations by direction, their spread, and the orders of convergence."""
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
        held = options.held.get(pipe.direction)
        for key in get_args(Figure):
            if most := getattr(options, key):
                what, instead = f"{pipe.direction}, {pipe.across:g} nodes: {WORDS[key]}", getattr(held, key, None)
                evidence.reach(
                    what,
                    abs(getattr(pipe.figures, key)),
                    at_most=most,
                    held=instead,
                    why=held.why if held and instead else "",
                )


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
