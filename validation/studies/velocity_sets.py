# SPDX-License-Identifier: Apache-2.0
"""D3Q19 beside D3Q27: the flow that a force drives through an endless pipe, along x and askew to the lattice.

A run is the flow along x on the drivers' D3Q19; the textbook solver adds D3Q27, D3Q19 with its standard equilibrium,
and all of them along other directions, at the run's relaxation times, speed and radius. Nothing but the lattice tells
directions apart.
"""

import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from pipeline.case.shapes import Pipe
from solver.boundary.parabolic_walls import SHARE
from solver.kernels.velocity_sets import D3Q19, D3Q27, VelocitySet
from solver.run.models import WITH_LAMBDA
from solver.runtime.errors import StageError
from validation.evidence import Evidence
from validation.goals import order
from validation.studies.run import Run
from validation.textbook import TextbookSolver, relaxation
from validation.textbook_links import EndlessPipe

Direction = tuple[int, int, int]
X: Direction = (1, 0, 0)
STANDARD = "D3Q19 standard"
LATTICES: dict[str, tuple[VelocitySet, str]] = {
    "D3Q19": (D3Q19, "incompressible"),
    STANDARD: (D3Q19, "incompressible-standard"),
    "D3Q27": (D3Q27, "incompressible"),
}
"""Velocity sets and equilibria that are compared, by name."""


class Options(Section):
    """Where the flow goes, and what is to be reached."""

    directions: tuple[Direction, ...] = Field(description="beside x, whole numbers, the first of them 1")
    viscous_times: Positive = Field(0.5, description="R^2/nu for which a flow runs from the parabola on")
    agreement: Positive = Field(description="relative L2 of the textbook solver's velocity against the first run's")
    currents: Positive = Field(description="of D3Q19 along x, at 20 nodes across and more, over the mean speed")
    uneven: dict[str, Positive] = Field(
        description="rms of what depends on the angle over the mean speed, in any direction, by velocity set; the same"
    )


@dataclass(frozen=True)
class PipeFlow:
    """A flow: its velocity over the wanted mean speed at the pipe's nodes, (3, N)."""

    pipe: EndlessPipe
    velocity: NDArray[np.float64]

    @property
    def r(self) -> NDArray[np.float64]:
        """Distance of the nodes from the axis, of the radius, (N,)."""
        return np.linalg.norm(self.pipe.offset(self.pipe.nodes()), axis=1) / self.pipe.radius

    @property
    def along(self) -> NDArray[np.float64]:
        """Speed along the pipe, (N,)."""
        return self.pipe.unit @ self.velocity

    @property
    def across(self) -> NDArray[np.float64]:
        """Velocity of the currents across the pipe, (3, N)."""
        return self.velocity - np.outer(self.pipe.unit, self.along)

    @property
    def currents(self) -> float:
        """Rms of the currents across the pipe."""
        return float(np.sqrt((self.across**2).sum(axis=0).mean()))

    @property
    def flow_error(self) -> float:
        """Of the flow against that of the parabola at the same nodes."""
        return float(self.along.sum() / (2 * (1 - self.r**2)).sum() - 1)

    @property
    def depends(self) -> NDArray[np.float64]:
        """What depends on the angle: the speed along the pipe without its fit by a polynomial in r^2, (N,)."""
        fit = np.polynomial.Polynomial.fit(self.r**2, self.along, 4)
        return self.along - np.asarray(fit(self.r**2))

    @property
    def uneven(self) -> float:
        """Its rms."""
        return float(np.sqrt(np.mean(self.depends**2)))


def shape_of(run: Run) -> Pipe:
    """The run's geometry.

    Raises
    ------
    StageError
        If it is no pipe along x.
    """
    shape = run.case.input.geometry
    if not isinstance(shape, Pipe) or shape.direction[1:] != (0, 0):
        raise StageError(
            f"run {run.name}: input.geometry is no pipe along x, which velocity_sets measures; let it be one"
        )
    return shape


def pipe_of(run: Run, direction: Direction = X) -> EndlessPipe:
    """The run's pipe in spacings, or one as wide along another direction; its axis lies to the nodes as the run's."""
    _, y, z = -np.array(run.nodes.origin_mm) / run.nodes.spacing_mm
    return EndlessPipe(direction, shape_of(run).radius_mm / run.nodes.spacing_mm, (0.0, y, z))


def mean_speed(run: Run) -> float:
    """Of the parabola that the force keeps up, F R^2/(8 mu), in lattice units."""
    solve, radius_m = run.case.solve, 1e-3 * shape_of(run).radius_mm
    return solve.force_n_m3[0] * radius_m**2 / (8 * solve.viscosity_pa_s) / run.speed_m_s


def reynolds(run: Run) -> float:
    """Of mean speed and diameter."""
    return 2 * mean_speed(run) * pipe_of(run).radius / ((run.tau - 0.5) / 3)


def of_run(run: Run) -> PipeFlow:
    """What the run found in its first layer of nodes across x."""
    pipe, position = pipe_of(run), run.nodes.position
    layer = np.flatnonzero(position[:, 0] == position[:, 0].min())
    ordered = layer[np.lexsort((position[layer, 2], position[layer, 1]))]
    return PipeFlow(pipe, run.velocity_m_s[ordered].T / (mean_speed(run) * run.speed_m_s))


@dataclass(frozen=True)
class Task:
    """A flow for the textbook solver, which another process can compute.

    Attributes
    ----------
    lattice : name of one of `LATTICES`.
    pipe : that it flows through.
    tau, lambda_trt, collision, walls : models of the run.
    mean : speed that the force keeps up, in lattice units.
    steps : from the parabola on.
    """

    lattice: str
    pipe: EndlessPipe
    tau: float
    lambda_trt: float
    collision: str
    walls: str
    mean: float
    steps: int

    @property
    def updates(self) -> int:
        """Of nodes, as far as it runs."""
        return self.steps * len(self.pipe.nodes())


def task_of(run: Run, lattice: str, direction: Direction, viscous_times: float) -> Task:
    """The run's pipe and models on one of `LATTICES`, along a direction, for so many R^2/nu.

    Parameters
    ----------
    run : of the study.
    lattice : its name in `LATTICES`.
    direction : of the pipe.
    viscous_times : length of the run, in R^2/nu.
    """
    pipe, models = pipe_of(run, direction), run.summary["models"]
    steps = round(viscous_times * pipe.radius**2 / ((run.tau - 0.5) / 3))
    given = run.tau, models["lambda_trt"] or 3 / 16, models["collision"], run.case.solve.walls
    return Task(lattice, pipe, *given, mean_speed(run), steps)


def computed(task: Task) -> PipeFlow:
    """The flow that the textbook solver finds."""
    stencil, form = LATTICES[task.lattice]
    pipe, mean = task.pipe, task.mean
    rates = relaxation(task.tau, task.lambda_trt)  # regularised models take the first of them alone
    force = 8 * (task.tau - 0.5) / 3 * mean / pipe.radius**2 * pipe.unit
    share = SHARE if task.collision in WITH_LAMBDA else 0
    solver = TextbookSolver(
        stencil, pipe.links(stencil), task.collision, rates, task.walls, force, form, parabola=share
    )
    r = np.linalg.norm(pipe.offset(pipe.nodes()), axis=1) / pipe.radius
    solver.start(np.outer(pipe.unit, 2 * mean * (1 - r**2)))
    for _ in range(task.steps):
        solver.step()
    return PipeFlow(pipe, solver.velocity() / mean)


Flows = dict[tuple[Direction, str], PipeFlow]
"""By direction and lattice."""


def flows_of(runs: Mapping[str, Run], options: Options) -> tuple[dict[str, Flows], PipeFlow]:
    """Those of all runs by their names, and that of the textbook solver which repeats the first run.

    Processes compute them side by side, the longest first: threads wait for each other, as a step on so few nodes is
    mostly Python's own work.
    """
    first = next(iter(runs))
    every = [(direction, lattice) for direction in (X, *options.directions) for lattice in LATTICES]
    asked = [(name, *each) for name in runs for each in every if each != (X, "D3Q19")] + [(first, X, "D3Q19")]
    tasks = {
        (name, way, lattice): task_of(runs[name], lattice, way, options.viscous_times) for name, way, lattice in asked
    }
    ordered = sorted(tasks, key=lambda each: -tasks[each].updates)
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as workers:
        flows = dict(zip(ordered, workers.map(computed, [tasks[each] for each in ordered]), strict=True))
    plain = flows.pop((first, X, "D3Q19"))
    found: dict[str, Flows] = {name: {(X, "D3Q19"): of_run(run)} for name, run in runs.items()}
    for name, direction, lattice in asked[:-1]:
        found[name][direction, lattice] = flows[name, direction, lattice]
    return found, plain


def most_uneven(flows: Flows, lattice: str) -> float:
    """Over all directions."""
    return max(flow.uneven for (_, name), flow in flows.items() if name == lattice)


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Currents across the pipe, the flow and its unevenness, by set, direction, Reynolds number and resolution.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    found, plain = flows_of(runs, options)
    _tables(evidence, runs, found)
    driver = found[next(iter(runs))][X, "D3Q19"]
    off = np.linalg.norm(plain.velocity - driver.velocity) / np.linalg.norm(driver.velocity)
    evidence.reach("plain solver on D3Q19 against the run along x: L2", float(off), at_most=options.agreement)
    for name, flows in found.items():
        evidence.reach(f"{name}: currents along x on D3Q27", flows[X, "D3Q27"].currents, at_most=1e-12)
        if 2 * pipe_of(runs[name]).radius >= 20:
            evidence.reach(f"{name}: currents along x on D3Q19", flows[X, "D3Q19"].currents, at_most=options.currents)
            for lattice, most in options.uneven.items():
                evidence.reach(
                    f"{name}: unevenness in any direction on {lattice}", most_uneven(flows, lattice), at_most=most
                )
    evidence.draw(
        lambda figure: _sections(figure, found),
        "Speed along a pipe less its mean at each radius, % of the mean speed; the largest in any direction",
    )


def _tables(evidence: Evidence, runs: Mapping[str, Run], found: Mapping[str, Flows]) -> None:
    """All numbers, a row a direction; how currents along x fall with the spacing."""
    rows = []
    for name, flows in found.items():
        run = runs[name]
        shown = round(reynolds(run)), round(2 * pipe_of(run).radius), run.summary["models"]["collision"]
        for direction in dict.fromkeys(direction for direction, _ in flows):
            each = [flows[direction, lattice] for lattice in LATTICES]
            numbers = [100 * getattr(flow, key) for key in ("currents", "uneven", "flow_error") for flow in each]
            rows.append((*shown, str(direction), *numbers))
    what = ("currents", "uneven", "error of the flow")
    columns = [f"{name}, %, {lattice}" for name in what for lattice in LATTICES]
    note = "Rms of the currents across the pipe and of what depends on the angle, of the mean speed; error of the flow."
    evidence.table(("Re", "nodes across", "collision", "direction", *columns), rows, note)
    kinds = {name: (round(reynolds(run)), run.summary["models"]["collision"]) for name, run in runs.items()}
    for kind in dict.fromkeys(kinds.values()):
        alike = [name for name in runs if kinds[name] == kind]
        if len(alike) > 1:
            sizes = [pipe_of(runs[name]).radius for name in alike]
            fall = order(sizes, [found[name][X, STANDARD].currents for name in alike])
            goal = f"Re {kind[0]}, {kind[1]}: order at which currents along x fall on {STANDARD}"
            evidence.reach(goal, fall, at_least=1.8)


def _sections(figure: Any, found: Mapping[str, Flows]) -> None:
    """The section of the last run's last direction on both sets; unevenness of all runs."""
    *sections, everywhere = figure.subplots(1, 1 + len(LATTICES))
    direction = [*[*found.values()][-1]][-1][0]
    each = {lattice: [*found.values()][-1][direction, lattice] for lattice in LATTICES}
    largest = max(100 * np.abs(flow.depends).max() for flow in each.values())
    for axes, (lattice, flow) in zip(sections, each.items(), strict=True):
        _, y, z = axes_of(flow.pipe) @ flow.pipe.offset(flow.pipe.nodes()).T / flow.pipe.radius
        drawn = axes.tricontourf(y, z, 100 * flow.depends, np.linspace(-largest, largest, 13), cmap="RdBu")
        axes.set(aspect="equal", xticks=(), yticks=(), title=f"{lattice}\n{direction}")
    figure.colorbar(drawn, ax=sections, shrink=0.7, format="%.1f")
    for lattice, marker in zip(LATTICES, ("o-", "^:", "s--"), strict=True):
        everywhere.semilogy(
            [*found], [100 * most_uneven(flows, lattice) for flows in found.values()], marker, label=lattice
        )
    everywhere.tick_params(axis="x", rotation=60)
    everywhere.set(ylabel="unevenness, %")
    everywhere.legend(loc="lower center", bbox_to_anchor=(0.5, 1))


def axes_of(pipe: EndlessPipe) -> NDArray[np.float64]:
    """Unit vectors along the pipe and across it, as rows."""
    first = np.cross(pipe.unit, (0.0, 0.0, 1.0))
    first /= np.linalg.norm(first)
    return np.array([pipe.unit, first, np.cross(pipe.unit, first)])
