# SPDX-License-Identifier: Apache-2.0
"""Collision models where the viscosity is low: what they cost in accuracy, how they damp waves, what they survive.

The runs are flows along a pipe. The textbook solver adds what has no walls: a shear wave that is carried across itself,
and the doubly periodic shear layer of Minion and Brown (1997, doi:10.1006/jcph.1997.5843), with eddies, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.case.settings.base import Positive, Section
from solver.kernels.velocity_sets import D3Q19
from validation.evidence import Evidence
from validation.studies.run import Run
from validation.studies.velocity_sets import of_run
from validation.textbook import TextbookSolver, Thickening, relaxation
from validation.textbook_links import find_links

LAMBDA_TRT = 3 / 16


class Options(Section):
    """Waves, the shear layer, and what is to be reached."""

    tau: Positive = Field(description="of the waves")
    carried: Positive = Field(description="speed of the fluid that carries them, lattice units")
    wave_nodes: tuple[int, ...] = Field(description="nodes on the length of each wave")
    layer_nodes: int = Field(description="nodes on a side of the shear layer's square")
    layer_reynolds: Positive = Field(description="its speed times side over viscosity")
    smagorinsky: Positive = Field(description="constant of the eddies in it")
    l2: Positive = Field(description="relative L2 of the velocity in the runs, at most")
    damping: Positive = Field(
        description="relative error of the viscosity, recursive, of a wave of the most nodes, at most"
    )


@dataclass(frozen=True)
class Model:
    """A collision with its Lambda, and the constant of eddies."""

    name: str
    collision: str
    lambda_trt: float = LAMBDA_TRT
    smagorinsky: float = 0.0

    def solver(self, size: tuple[int, int, int], velocity: NDArray[np.float64], tau: float) -> TextbookSolver:
        """Of a box without walls, in whose nodes, (N, 3) in C order, a velocity (3, N) stands.

        Parameters
        ----------
        size : nodes along x, y and z.
        velocity : (3, N) at the start, lattice units.
        tau : relaxation time.
        """
        position = np.argwhere(np.ones(size))
        links = find_links(D3Q19, position, lambda place: place % size, lambda place, _: np.zeros(len(place)))
        eddies = Thickening(
            "newtonian", ((tau - 0.5) / 3,), np.full(len(position), 1 / tau), self.lambda_trt, self.smagorinsky
        )
        rates = relaxation(tau, self.lambda_trt)
        solver = TextbookSolver(D3Q19, links, self.collision, rates, rheology=eddies if self.smagorinsky else None)
        solver.start(velocity)
        return solver


def models(tau: float) -> list[Model]:
    """Without eddies; TRT with the Lambda that is exact for half-way walls, and with the drivers' default."""
    low = min(LAMBDA_TRT, 2 * (tau - 0.5))
    trt = [Model("trt, Λ = 3/16", "trt"), Model(f"trt, Λ = {low:.2g}", "trt", low)]
    return [Model("bgk", "bgk"), *trt, Model("projected", "projected"), Model("recursive", "recursive")]


def wave(model: Model, nodes: int, tau: float, carried: float) -> tuple[float, float]:
    """Viscosity and speed that a carried shear wave shows, over those that it should have.

    u = (U, a sin k(x - U t) exp(-nu k^2 t), 0): from how the wave's amplitude changes over half a
    decay time. NaN where it diverges.

    Parameters
    ----------
    model : collision.
    nodes : in a wave's length.
    tau : relaxation time.
    carried : U, lattice units.
    """
    k, viscosity = 2 * np.pi / nodes, (tau - 0.5) / 3
    x = np.arange(nodes)
    u = np.array([np.full(nodes, carried), 1e-3 * np.sin(k * x), np.zeros(nodes)])
    solver = model.solver((nodes, 1, 1), u, tau)
    steps, amplitudes = min(round(0.5 / (viscosity * k**2)), 1500), []
    with np.errstate(all="ignore"):  # what diverges overflows
        for _ in range(2):
            for _ in range(steps):
                solver.step()
            amplitudes.append(solver.velocity()[1] @ np.exp(-1j * k * x))
        grown = np.log(amplitudes[1] / amplitudes[0] * np.exp(1j * k * carried * steps)) / steps
    return float(-grown.real / (viscosity * k**2)), float(1 - grown.imag / (k * carried))


def shear_layer(model: Model, nodes: int, reynolds: float, times: float = 1.5) -> tuple[float, float, TextbookSolver]:
    """Time until the flow diverges or all `times`, in sides over speed, its energy over that at the start, the flow.

    u = U tanh(80 (1/4 - |y - 1/2|)), v = U/20 sin(2 pi (x + 1/4)).

    Parameters
    ----------
    model : collision.
    nodes : along a side.
    reynolds : side times U over the viscosity.
    times : after which the run ends, in sides over U.
    """
    speed = 0.1
    x, y, _ = (np.argwhere(np.ones((nodes, nodes, 1))).T + 0.5) / nodes
    across = speed / 20 * np.sin(2 * np.pi * (x + 0.25))
    u = np.array([speed * np.tanh(80 * (0.25 - np.abs(y - 0.5))), across, np.zeros(len(x))])
    solver = model.solver((nodes, nodes, 1), u, 0.5 + 3 * speed * nodes / reynolds)
    steps, energy = round(times * nodes / speed), np.nan
    with np.errstate(all="ignore"):  # what diverges overflows
        for step in range(steps):
            solver.step()
            if step % 20 == 0 or step == steps - 1:
                energy = float((solver.velocity() ** 2).sum() / (u**2).sum())
                if not energy < 1.1:
                    return step * speed / nodes, np.nan, solver
    return times, energy, solver


def measure(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    """Errors of the runs, damping and speed of waves, survival in the shear layer.

    See :meth:`validation.studies.study_file.Measure.measure`.
    """
    _runs(evidence, runs, options)
    _waves(evidence, options)
    _layers(evidence, options)


def _runs(evidence: Evidence, runs: Mapping[str, Run], options: Options) -> None:
    rows = []
    for name, run in runs.items():
        flow = of_run(run)
        wanted = 2 * (1 - flow.r**2)
        l2 = float(np.linalg.norm(flow.along - wanted) / np.linalg.norm(wanted))
        rows.append((run.case.solve.collision, run.summary["models"]["lambda_trt"] or "", l2, 100 * flow.flow_error))
        evidence.reach(f"pipe, {name}: L2 of the velocity", l2, at_most=options.l2)
    grid = next(iter(runs.values())).summary["numbers"]["grid_reynolds"]
    note = f"Endless pipe along x, driven by a force, at a grid Reynolds number of {grid:.0f}."
    evidence.table(("collision", "Λ of trt", "L2 of the velocity", "error of the flow, %"), rows, note)


def _waves(evidence: Evidence, options: Options) -> None:
    found = {
        model.name: [wave(model, nodes, options.tau, options.carried) for nodes in options.wave_nodes]
        for model in models(options.tau)
    }
    columns = [f"{what}, {n} nodes" for what in ("viscosity", "speed") for n in options.wave_nodes]
    rows = [
        (name, *(value if np.isfinite(value) else "diverged" for value in np.array(waves).T.ravel().tolist()))
        for name, waves in found.items()
    ]
    note = f"Shear waves carried at {options.carried:g}, τ = {options.tau:g}: viscosity and speed over the right ones."
    evidence.table(("collision", *columns), rows, note)
    off = abs(found["recursive"][-1][0] - 1)
    evidence.reach("longest carried wave, recursive: error of the viscosity", off, at_most=options.damping)

    def draw(figure: Any) -> None:
        for axes, what in zip(figure.subplots(1, 2), ("viscosity", "speed"), strict=True):
            for name, waves in found.items():
                axes.plot(
                    options.wave_nodes, [one[("viscosity", "speed").index(what)] for one in waves], "o-", label=name
                )
            axes.axhline(1, color="grey", linewidth=0.8)
            axes.set(xlabel="nodes on a wave's length", ylabel=f"{what}, over the right one")
        axes.legend()

    evidence.draw(draw, "Viscosity and speed of shear waves that are carried along")


def _layers(evidence: Evidence, options: Options) -> None:
    low = 0.5 + 0.3 * options.layer_nodes / options.layer_reynolds
    eddies = Model(f"trt, Λ = 3/16, eddies {options.smagorinsky:g}", "trt", smagorinsky=options.smagorinsky)
    found = {
        model.name: shear_layer(model, options.layer_nodes, options.layer_reynolds) for model in [*models(low), eddies]
    }
    rows = [(name, time, energy if np.isfinite(energy) else "diverged") for name, (time, energy, _) in found.items()]
    note = f"Shear layer on {options.layer_nodes}² nodes, Reynolds number {options.layer_reynolds:g}, to time 1.5."
    evidence.table(("collision", "time reached, of side over speed", "energy, of that at the start"), rows, note)
    for name in ("projected", "recursive", eddies.name):
        evidence.reach(f"shear layer: time that {name} reaches", found[name][0], at_least=1.5)
    evidence.reach("shear layer: time at which trt without eddies diverges", found["trt, Λ = 3/16"][0], at_most=1.4)

    def draw(figure: Any) -> None:
        shown = ("projected", "recursive", eddies.name)
        for axes, name in zip(figure.subplots(1, 3), shown, strict=True):
            n = options.layer_nodes
            u, v, _ = found[name][2].velocity().reshape(3, n, n) * n / 0.1
            vorticity = np.gradient(v, axis=0) - np.gradient(u, axis=1)
            axes.imshow(vorticity.T, origin="lower", cmap="RdBu", vmin=-40, vmax=40)
            axes.set(xticks=(), yticks=(), title=name)

    evidence.draw(draw, "Vorticity of the shear layer at the end, where it did not diverge")
