# SPDX-License-Identifier: Apache-2.0
"""The lid-driven cavity against published velocities on its centrelines.

The lid, z = 1, slides along x. Lengths are in sides of the cavity, velocities in speeds of the lid: u along x, v along
z. The stream function psi(x, z) = int_0^z u dz' has its extremum in the middle of the primary vortex.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.interpolate import CubicSpline, RectBivariateSpline

from pipeline.case.settings.base import Name, Positive, Section
from validation.evidence import Evidence
from validation.studies.reference import read_reference
from validation.studies.run import Run

Reals = NDArray[np.float64]

VORTEX = (-0.11, -0.09, -0.06, -0.03, -0.01)
CORNERS = (1e-5, 1e-3)
"""Levels of the stream function whose lines are drawn."""


class Held(Section):
    """What is held in place of a bound that is out of reach, for a reason."""

    u: Positive | None = None
    v: Positive | None = None
    why: str


class Options(Section):
    """What is compared with, and what is to be reached."""

    reference: Literal["ghia1982", "botella1998"] = Field(description="tables of the velocity on both centrelines")
    norm: Literal["largest", "l2"] = Field(description="largest difference, of the lid's speed, or relative L2")
    bounds: dict[Name, tuple[Positive, Positive]] = Field(description="on u and v at most, by name of the run")
    held: dict[Name, Held] = Field(default_factory=dict, description="in place of bounds out of reach, by name")
    tau: dict[Name, Positive] = Field(default_factory=dict, description="relaxation times of the work, by name")


def lid_speed_m_s(run: Run) -> float:
    """Speed of the lid."""
    velocity = run.case.solve.patches["lid"].velocity_m_s
    return float(np.linalg.norm(velocity or (0.0,)))


def reynolds(run: Run) -> int:
    """Of the lid's speed and the cavity's side."""
    solve = run.case.solve
    return round(lid_speed_m_s(run) * across(run) * run.spacing_m * solve.density_kg_m3 / solve.viscosity_pa_s)


def across(run: Run) -> int:
    """Nodes across the cavity."""
    return int(np.ptp(run.nodes.position[:, 0])) + 1


def section(run: Run) -> Reals:
    """Velocity (x, y, z), of the lid's, (3, Z, X)."""
    return np.stack([run.layer(component) for component in run.velocity_m_s.T]) / lid_speed_m_s(run)


def middles(size: int) -> Reals:
    """Places of the nodes along a side, half a spacing from the walls."""
    return (np.arange(size) + 0.5) / size


def centrelines(velocity: Reals) -> tuple[CubicSpline, CubicSpline]:
    """Of a velocity (3, Z, X) and its values at the walls: u over z on x = 1/2, v over x on z = 1/2."""
    size = velocity.shape[1]
    places = with_walls(size)
    middle = slice((size - 1) // 2, size // 2 + 1)
    u, v = velocity[0][:, middle].mean(axis=1), velocity[2][middle].mean(axis=0)
    return CubicSpline(places, [0, *u, 1]), CubicSpline(places, [0, *v, 0])


def published(reference: str, number: int) -> tuple[tuple[Reals, Reals], tuple[Reals, Reals]]:
    """Places and values of u and of v at a Reynolds number, without points that are held to be misprints."""
    found = []
    for line, column in (("u_vertical", f"u_Re{number}"), ("v_horizontal", f"v_Re{number}")):
        table = read_reference(f"{reference}_{line}_centreline")
        place, values = next(iter(table.values())), table[column]
        trusted = table.get(f"suspect_Re{number}", np.zeros(len(place))) == 0
        found.append((place[trusted], values[trusted]))
    return found[0], found[1]


def differences(velocity: Reals, reference: str, number: int, norm: str) -> tuple[float, float]:
    """Of u and v from the published values: the largest one, or relative L2.

    Parameters
    ----------
    velocity : (3, Z, X), of the speed of the lid.
    reference : name of the published work.
    number : Reynolds number.
    norm : ``largest``, else L2.
    """
    found = []
    for line, (place, values) in zip(centrelines(velocity), published(reference, number), strict=True):
        off = np.abs(line(place) - values)
        found.append(off.max() if norm == "largest" else np.linalg.norm(off) / np.linalg.norm(values))
    return float(found[0]), float(found[1])


def stream_function(velocity: Reals) -> Reals:
    """The stream function half-way between nodes along z, at the nodes along x, and at the walls, (Z + 1, X + 2)."""
    return np.pad(np.cumsum(velocity[0], axis=0) / velocity.shape[1], ((1, 0), (1, 1)))


def with_walls(size: int) -> Reals:
    """Places of the nodes along a side, and of the walls."""
    return np.array([0, *middles(size), 1])


def extrema(velocity: Reals) -> list[float]:
    """Least u with its z, largest and least v with their x, least psi with its x and z."""
    fine = np.linspace(0, 1, 2001)
    u, v = (line(fine) for line in centrelines(velocity))
    size = velocity.shape[1]
    psi = RectBivariateSpline(np.arange(size + 1) / size, with_walls(size), stream_function(velocity))(fine, fine)
    z, x = np.unravel_index(psi.argmin(), psi.shape)
    found = [(u.min(), fine[u.argmin()]), (v.max(), fine[v.argmax()]), (v.min(), fine[v.argmin()])]
    return [float(value) for pair in found for value in pair] + [float(psi[z, x]), float(fine[x]), float(fine[z])]


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Differences from the published velocities, extrema, profiles and streamlines.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    chosen = {name: section(run) for name, run in runs.items()}
    _settings(evidence, runs, options)
    _differences(evidence, runs, chosen, options)
    _extrema(evidence, runs, chosen)
    finest = {reynolds(run): chosen[name] for name, run in runs.items()}
    caption = "Velocity on the centrelines: lines; published: dots"
    evidence.draw(lambda figure: draw_profiles(figure, finest, options.reference), caption)
    evidence.draw(lambda figure: draw_streamlines(figure, finest), "Streamlines")


def _differences(evidence: Evidence, runs: Mapping[str, Run], chosen: Mapping[str, Reals], options: Options) -> None:
    """From the published velocities, each against its bound; and of these from a spectral solution."""
    words = "largest difference" if options.norm == "largest" else "L2"
    rows: list[Sequence[str | float]] = []
    for name, run in runs.items():
        found = differences(chosen[name], options.reference, reynolds(run), options.norm)
        rows.append((reynolds(run), f"{across(run)} nodes", *found))
        for component, value, most in zip("uv", found, options.bounds[name], strict=True):
            held = options.held.get(name)
            instead = getattr(held, component) if held else None
            evidence.reach(
                f"Re {reynolds(run)}, {across(run)} nodes: {words} of {component}",
                value,
                at_most=most,
                held=instead,
                why=held.why if held and instead else "",
            )
    if options.reference == "ghia1982" and 1000 in [row[0] for row in rows]:
        pairs = zip(published("botella1998", 1000), published("ghia1982", 1000), strict=True)
        rows.append((1000, "Botella and Peyret 1998", *(float(np.abs(a[1] - b[1]).max()) for a, b in pairs)))
    evidence.table(("Re", "", f"{words} of u", "of v"), rows)


def _settings(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """How the runs were made, and which lid speed the work's relaxation times would need on these nodes."""
    columns, rows = ["Re", "nodes across", "tau", "lid speed on the lattice", "steps"], []
    if options.tau:
        columns += ["tau of the work", "its lid speed on the lattice"]
    for name, run in runs.items():
        row: list[float | str] = [reynolds(run), across(run), run.tau, lid_speed_m_s(run) / run.speed_m_s]
        row.append(int(run.summary["steps"]))
        if options.tau:
            tau = options.tau.get(name)
            row += [tau, reynolds(run) * (tau - 0.5) / 3 / across(run)] if tau else ["", ""]
        rows.append(row)
    evidence.table(columns, rows)


def _extrema(evidence: Evidence, runs: Mapping[str, Run], chosen: Mapping[str, Reals]) -> None:
    """Extrema on the centrelines and the middle of the vortex, with those of a spectral solution."""
    columns = ("", "Re", "least u", "at z", "largest v", "at x", "least v", "at x", "least psi", "at x", "at z")
    rows: list[Sequence[str | float]] = []
    rows += [(f"{across(run)} nodes", reynolds(run), *extrema(chosen[name])) for name, run in runs.items()]
    spectral = read_reference("botella1998_extrema")
    if 1000 in [row[1] for row in rows]:
        rows.append(
            (
                "Botella and Peyret 1998",
                1000,
                *("" if np.isnan(column[0]) else float(column[0]) for column in spectral.values()),
            )
        )
    evidence.table(columns, rows)


def draw_profiles(figure: Any, flows: Mapping[int, Reals], reference: str) -> None:
    """Velocities on both centrelines by Reynolds number, as lines, and the published ones as dots.

    Parameters
    ----------
    figure : of Matplotlib.
    flows : velocities, (3, Z, X), of the speed of the lid, by Reynolds number.
    reference : name of the published work.
    """
    left, right = figure.subplots(1, 2)
    place = np.linspace(0, 1, 201)
    for number, velocity in flows.items():
        u, v = centrelines(velocity)
        colour = left.plot(u(place), place, label=f"Re {number}, {velocity.shape[1]} nodes")[0].get_color()
        right.plot(place, v(place), color=colour)
        (height, of_u), (along, of_v) = published(reference, number)
        left.plot(of_u, height, ".", color=colour)
        right.plot(along, of_v, ".", color=colour)
    left.set(xlabel="u, of the lid's speed", ylabel="z, of the side")
    right.set(xlabel="x, of the side", ylabel="v, of the lid's speed")
    left.legend()


def draw_streamlines(figure: Any, flows: Mapping[int, Reals]) -> None:
    """Lines of the stream function by Reynolds number: of the primary vortex, and of those in the corners."""
    for axes, (number, velocity) in zip(figure.subplots(1, len(flows), squeeze=False)[0], flows.items(), strict=True):
        size = velocity.shape[1]
        places = with_walls(size), np.arange(size + 1) / size
        for levels, colour in ((VORTEX, "C0"), (CORNERS, "C3")):
            axes.contour(*places, stream_function(velocity), levels, colors=colour, linewidths=0.6, linestyles="solid")
        axes.set(title=f"Re {number}", aspect="equal", xlim=(0, 1), ylim=(0, 1), xticks=(0, 1), yticks=(0, 1))
