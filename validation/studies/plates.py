# SPDX-License-Identifier: Apache-2.0
"""Flow between two plates that a force drives, against the parabola.

u(z) = G/(2 mu) z (H - z), force per volume G, height H, viscosity mu.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from solver.runtime.errors import StageError
from validation.evidence import Evidence
from validation.goals import number, order
from validation.studies.reference import read_reference
from validation.studies.run import Run

ROUNDING = 2e-4
"""Relative, of what is printed with four digits."""

EXACT = 1e-6
"""Of walls that are exactly half-way, with 3/16 as TRT's Lambda: what is left of the start, 1e-7 of the flow, and the
single precision of the flow file, 6e-8."""


class Options(Section):
    """What the work published, and what is to be reached."""

    reference: str = Field(description="table with a column nodes, and of force, steps, l2 those that were published")
    wall_nodes: int = Field(0, description="how many of those nodes lie in the plates")
    change: Positive | None = Field(
        None, description="relative change of the velocity in a step at which the work ended"
    )
    l2: Positive | None = Field(None, description="at most, on all lattices")
    order: Positive = Field(1.95, description="of convergence, at least")


def heights(run: Run) -> NDArray[np.float64]:
    """Height of each node above the lower plate over the distance of the plates, which lie half-way, (N,)."""
    z = run.nodes.position[:, 2].astype(np.float64)
    return (z - z.min() + 0.5) / (np.ptp(z) + 1)


def parabola(run: Run, height: NDArray[np.float64]) -> NDArray[np.float64]:
    """The speed at relative heights, m/s, (N,)."""
    solve, distance_m = run.case.solve, across(run) * run.spacing_m
    return solve.force_n_m3[0] * distance_m**2 / (2 * solve.viscosity_pa_s) * height * (1 - height)


def across(run: Run) -> int:
    """Nodes between the plates."""
    return int(np.ptp(run.nodes.position[:, 2])) + 1


def l2(run: Run) -> float:
    """Relative L2 error of the velocity."""
    wanted = parabola(run, heights(run))
    found = run.velocity_m_s - np.outer(wanted, (1, 0, 0))
    return float(np.linalg.norm(found) / np.linalg.norm(wanted))


def lattice_force(run: Run) -> float:
    """Force per volume in lattice units, F dt^2/(rho dx)."""
    solve = run.case.solve
    return solve.force_n_m3[0] * run.time_step_s**2 / (solve.density_kg_m3 * run.spacing_m)


def change_per_step(run: Run) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Steps, half-way between the rows of the monitor, and the relative change of the velocity in a step there."""
    steps = np.concatenate([[0.0], run.monitor["step"]])
    return (steps[1:] + steps[:-1]) / 2, run.monitor["change"] / np.diff(steps)


def steps_until(run: Run, change: float) -> float:
    """Step at which the change in a step falls to a value; it falls exponentially. NaN if it does not."""
    steps, changes = change_per_step(run)
    below = np.flatnonzero(changes <= change)
    if not below.size or not below[0]:
        return np.nan
    pair = slice(below[0] - 1, below[0] + 1)
    return float(np.interp(-np.log(change), -np.log(changes[pair]), steps[pair]))


def lacking(run: Run, step: float) -> float:
    """Part of the flow at the end of the run that it did not have at a step."""
    speed = run.monitor["mean_speed_m_s"]
    return float(1 - np.interp(step, run.monitor["step"], speed) / speed[-1])


def slip(run: Run) -> float:
    """Relative L2 error of walls half-way between nodes, u_slip/u_max = (16 Lambda - 3)/(3 N^2), N nodes between them.

    With one relaxation time Lambda = (tau - 1/2)^2. Source: Ginzburg and d'Humières (2003),
    doi:10.1103/PhysRevE.68.066614.
    """
    height = heights(run)
    shape = 4 * height * (1 - height)
    law = (16 * float(run.summary["models"]["lambda_trt"]) - 3) / (3 * across(run) ** 2)
    return abs(law) / float(np.sqrt(np.mean(shape**2)))


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Errors and their order, the force, steps until the change was small, profiles; runs with TRT apart.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    exact = [run for run in runs.values() if run.case.solve.collision == "trt"]
    chosen = [run for run in runs.values() if run not in exact]
    published = _published(chosen, options)
    _errors(evidence, chosen, published, options)
    for run in exact:
        evidence.reach(f"{run.name}: L2 against the parabola", l2(run), at_most=EXACT)
    if "force" in published:
        _force(evidence, chosen, published)
    if options.change:
        _steady(evidence, chosen, published["steps"], options.change)
    evidence.draw(
        lambda figure: _profiles(figure, chosen, published.get("l2")),
        "Profiles; error against nodes between the plates",
    )


def _published(runs: Sequence[Run], options: Options) -> dict[str, NDArray[np.float64]]:
    """What the table says of each run, by column.

    Raises
    ------
    StageError
        If it has no row of a run.
    """
    table = read_reference(options.reference)
    nodes = [across(run) + options.wall_nodes for run in runs]
    if missing := sorted({*nodes} - {*table["nodes"]}):
        raise StageError(
            f"data/reference/{options.reference}.csv: no row of {missing[0]} nodes; change the run's nodes_across, or"
            " options.wall_nodes"
        )
    rows = [int(np.flatnonzero(table["nodes"] == each)[0]) for each in nodes]
    return {name: values[rows] for name, values in table.items()}


def _errors(
    evidence: Evidence, runs: Sequence[Run], published: Mapping[str, NDArray[np.float64]], options: Options
) -> None:
    """L2 errors, each against its bound, and their order."""
    sizes, errors = [across(run) for run in runs], [l2(run) for run in runs]
    bounds = published.get("l2", np.full(len(runs), options.l2))
    rows = [
        (size, run.tau, run.summary["steps"], error, slip(run), most)
        for size, run, error, most in zip(sizes, runs, errors, bounds, strict=True)
    ]
    columns = ("nodes between the plates", "tau", "steps", "L2", "L2 of the slip alone", "to reach")
    note = (
        "The error is all but that of the slip at half-way walls, u_slip/u_max = (16 Λ - 3)/(3 N²) with Λ = (τ - 1/2)²"
        " (Ginzburg and d'Humières 2003)."
    )
    evidence.table(columns, rows, note)
    for run, error, most in zip(runs, errors, bounds, strict=True):
        evidence.reach(f"{run.name} nodes: L2 against the parabola", error, at_most=float(most))
    evidence.reach("order of convergence", order(sizes, errors), at_least=options.order)


def _force(evidence: Evidence, runs: Sequence[Run], published: Mapping[str, NDArray[np.float64]]) -> None:
    """The force in lattice units beside the published one."""
    force, theirs = np.array([lattice_force(run) for run in runs]), published["force"]
    off = np.abs(force / theirs - 1)
    rows = zip(map(across, runs), force, theirs, 100 * off, strict=True)
    evidence.table(("nodes between the plates", "force in lattice units", "published", "difference, %"), rows)
    evidence.reach("force in lattice units: largest relative difference", off.max(), at_most=ROUNDING)


def _steady(evidence: Evidence, runs: Sequence[Run], published: NDArray[np.float64], change: float) -> None:
    """When the flow changed little in a step, and how far from steady it was then."""
    steps = np.array([steps_until(run, change) for run in runs])
    lacks = [100 * lacking(run, at) for run, at in zip(runs, steps, strict=True)]
    rows = [
        (across(run), round(at), int(work) if np.isfinite(work) else "", lack)
        for run, at, work, lack in zip(runs, steps, published, lacks, strict=True)
    ]
    note = f"Steps until the velocity changes by {number(change)} of its mean in a step, and what the flow then lacks."
    evidence.table(("nodes between the plates", "steps", "published", "lacking of the flow, %"), rows, note)
    if np.isfinite(published).any():
        off = np.nanmax(np.abs(steps / published - 1))
        evidence.reach("steps until the change is small: largest relative difference", off, at_most=0.01)
    caption = "Change of the velocity in a step, of its mean; crosses: where the work stopped"
    evidence.draw(lambda figure: _changes(figure, runs, published, change), caption)


def _changes(figure: Any, runs: Sequence[Run], published: NDArray[np.float64], change: float) -> None:
    axes = figure.subplots()
    for run in runs:
        axes.loglog(*change_per_step(run), label=f"{across(run)} nodes")
    axes.loglog(published, np.full(len(published), change), "x", color="black")
    axes.set(xlabel="step", ylabel="relative change in a step")
    axes.legend()


def _profiles(figure: Any, runs: Sequence[Run], published: NDArray[np.float64] | None) -> None:
    profile, convergence = figure.subplots(1, 2)
    fine = np.linspace(0, 1, 101)
    mean = 2 / 3 * float(parabola(runs[0], np.array(0.5)))
    profile.plot(parabola(runs[0], fine) / mean, fine, color="grey", linewidth=0.8, label="parabola")
    for run, sign in zip(runs, ("o", "x"), strict=False):
        profile.plot(run.velocity_m_s[:, 0] / mean, heights(run), sign, markersize=4, label=f"{across(run)} nodes")
    profile.set(xlabel="speed, of its mean", ylabel="height, of the distance")
    profile.legend()
    sizes, errors = np.array([across(run) for run in runs]), [l2(run) for run in runs]
    convergence.loglog(sizes, errors, "o-", label="L2")
    convergence.loglog(sizes, errors[0] * (sizes[0] / sizes) ** 2, ":", color="grey", label="second order")
    if published is not None:
        convergence.loglog(sizes, published, "x", color="black", label="published")
    convergence.set(xlabel="nodes between the plates", ylabel="relative L2 error")
    convergence.set_xticks(sizes, sizes)
    convergence.set_xticks([], minor=True)
    convergence.legend()
