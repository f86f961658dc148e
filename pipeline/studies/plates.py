"""Flow between two plates that a force drives, against the parabola.

u(z) = G/(2 mu) z (H - z), force per volume G, height H, viscosity mu.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.evidence import Evidence, order
from pipeline.settings.base import Positive, Section
from pipeline.studies.reference import read_reference
from pipeline.studies.run import Run

ROUNDING = 2e-4
"""Relative, of what is printed with four digits."""


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


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Errors and their order, the force, the steps until the change was small, profiles."""
    chosen = list(runs.values())
    sizes, errors = [across(run) for run in chosen], [l2(run) for run in chosen]
    published = read_reference(options.reference)
    rows = [np.flatnonzero(published["nodes"] == size + options.wall_nodes)[0] for size in sizes]
    theirs = {name: values[rows] for name, values in published.items()}
    _errors(evidence, chosen, errors, theirs, options)
    if "force" in theirs:
        _force(evidence, chosen, theirs)
    if options.change:
        _steady(evidence, chosen, theirs["steps"], options.change)
    evidence.draw(lambda figure: _profiles(figure, chosen, errors), "Profiles; error against nodes between the plates")


def _errors(
    evidence: Evidence, runs: Sequence[Run], errors: list[float], theirs: dict[str, NDArray[np.float64]], to: Options
) -> None:
    """L2 errors, each against its bound, and their order."""
    sizes = [across(run) for run in runs]
    bounds = theirs["l2"] if "l2" in theirs else np.full(len(runs), to.l2)
    rows = [
        (int(nodes), size, run.tau, run.summary["steps"], error)
        for nodes, size, run, error in zip(theirs["nodes"], sizes, runs, errors, strict=True)
    ]
    evidence.table(("nodes of the work", "nodes between the plates", "tau", "steps", "L2"), rows)
    for nodes, error, most in zip(theirs["nodes"], errors, bounds, strict=True):
        evidence.reach(f"{nodes:.0f} nodes: L2 against the parabola", error, at_most=float(most))
    evidence.reach("order of convergence", order(sizes, errors), at_least=to.order)


def _force(evidence: Evidence, runs: Sequence[Run], theirs: dict[str, NDArray[np.float64]]) -> None:
    """The force in lattice units beside the published one."""
    force = np.array([lattice_force(run) for run in runs])
    off = np.abs(force / theirs["force"] - 1)
    rows = [(int(row[0]), *row[1:]) for row in zip(theirs["nodes"], force, theirs["force"], 100 * off, strict=True)]
    evidence.table(("nodes of the work", "force in lattice units", "published", "difference, %"), rows)
    evidence.reach("force in lattice units: largest relative difference", off.max(), at_most=ROUNDING)


def _steady(evidence: Evidence, runs: Sequence[Run], published: NDArray[np.float64], change: float) -> None:
    """When the flow changed little in a step, and how far from steady it was then."""
    steps = np.array([steps_until(run, change) for run in runs])
    lacks = [100 * lacking(run, at) for run, at in zip(runs, steps, strict=True)]
    rows = [
        (across(run), round(at), int(work) if np.isfinite(work) else "", lack)
        for run, at, work, lack in zip(runs, steps, published, lacks, strict=True)
    ]
    note = f"Steps until the velocity changes by {change:g} of its mean in a step, and what the flow then lacks."
    evidence.table(("nodes between the plates", "steps", "published", "lacking of the flow, %"), rows, note)
    if np.isfinite(published).any():
        off = np.nanmax(np.abs(steps / published - 1))
        evidence.reach("steps until the change is small: largest relative difference", off, at_most=0.01)
    evidence.draw(lambda figure: _changes(figure, runs, change), "Change of the velocity in a step, of its mean")


def _changes(figure: Any, runs: Sequence[Run], change: float) -> None:
    axes = figure.subplots()
    for run in runs:
        axes.loglog(*change_per_step(run), label=f"{across(run)} nodes")
    axes.axhline(change, color="grey", linewidth=0.8)
    axes.set(xlabel="step", ylabel="relative change in a step")
    axes.legend()


def _profiles(figure: Any, runs: Sequence[Run], errors: list[float]) -> None:
    profile, convergence = figure.subplots(1, 2)
    fine = np.linspace(0, 1, 101)
    mean = parabola(runs[0], fine).mean()
    profile.plot(parabola(runs[0], fine) / mean, fine, color="grey", linewidth=0.8, label="parabola")
    for run in runs[:2]:
        profile.plot(run.velocity_m_s[:, 0] / mean, heights(run), ".", label=f"{across(run)} nodes")
    profile.set(xlabel="speed, of its mean", ylabel="height, of the distance")
    profile.legend()
    sizes = np.array([across(run) for run in runs])
    convergence.loglog(sizes, errors, "o-", label="L2")
    convergence.loglog(sizes, errors[0] * (sizes[0] / sizes) ** 2, ":", color="grey", label="second order")
    convergence.set(xlabel="nodes between the plates", ylabel="relative L2 error")
    convergence.legend()
