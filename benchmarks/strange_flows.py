# SPDX-License-Identifier: Apache-2.0
"""Flows that nobody tuned to, drawn at random from a seed, on defaults: do they end by themselves, and as forecast?

    PYTHONPATH=.:benchmarks python benchmarks/strange_flows.py 14 --seed 1 [--first 0] [--minutes 3] [--finer 2]
        [--kinds box] [--set start=coarse]

Kinds follow one another: ducts, sacs at a side wall, forks behind Windkessels, eccentric stenoses with a flow that
turns back, sudden expansions, U-bends, boxes under a lid that slides askew, arches of an aorta with the mean flow of
rest or exercise, the three real surfaces of the folder that ``HEMO_CASES`` names, pipes of blood that shear thins,
endless ducts that a force drives, and balls in a stream. Sizes, direction, nodes across, Reynolds number, waveform and
viscosity are drawn. Beside how each ended stand the steps that were forecast, the processor's time of a step over that
of steps 200 to 400, and the largest rise of the steps that were said to be left from one row of the monitor to the
next, as a part of the run.
"""

import argparse
import os
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
from bench import add_results, add_settings, write_results

from pipeline.case.settings.base import parse
from pipeline.case.settings.flow import SolveSettings as CaseSettings
from solver.domain.nodes import Nodes
from solver.run import run_state, time_left
from solver.run.settings import SolveSettings
from solver.run.settings import parse as parse_solve
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.support.random_sacs import with_side_wall_sac
from tests.support.stability_matrix import VESSELS, of_shape, on_lattice, write_reversing
from tests.support.stability_runs import record_of

MOST_NODES = 16_000
"""Fluid nodes that a drawn flow has at most: its spacing follows."""
DENSITY = 1060.0

Draw = np.random.Generator
Build = Callable[[float], Nodes]


class Flow:
    """What is drawn of a flow.

    Attributes
    ----------
    build : node arrays at a spacing, mm.
    spacing_mm : of its lattice.
    solve : section of a case, from the nodes and a folder for its waveform.
    """

    def __init__(self, build: Build, spacing_mm: float, solve: Callable[[Nodes, Path], dict[str, Any]]) -> None:
        self.build, self.spacing_mm, self.solve = build, spacing_mm, solve


def even_log(rng: Draw, low: float, high: float) -> float:
    """Drawn evenly in the logarithm."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def askew(rng: Draw) -> list[float]:
    """A direction."""
    return [float(each) for each in rng.standard_normal(3)]


def steady(nodes: Nodes, reynolds: float, viscosity_pa_s: float = 3.5e-3, **more: Any) -> dict[str, Any]:
    """Inflow of a Reynolds number of the inlet's mean speed and diameter."""
    inlet = next(opening for opening in nodes.openings if opening.role == "inlet")
    speed_m_s = reynolds * viscosity_pa_s / DENSITY / (2e-3 * inlet.radius_mm)
    fluid = {"viscosity_pa_s": viscosity_pa_s, "density_kg_m3": DENSITY}
    return {**fluid, "inlets": {inlet.name: {"flow_ml_s": speed_m_s * inlet.area_mm2}}, **more}


def pulsing(nodes: Nodes, reynolds: float, name: str, folder: Path, **more: Any) -> dict[str, Any]:
    """The same, mean, with a waveform of the project; ``reversing``: one whose flow turns back."""
    given = steady(nodes, reynolds, **more)
    ((inlet, each),) = given["inlets"].items()
    if name == "reversing":
        write_reversing(folder / "waveform.csv", 3 * each["flow_ml_s"], 0.8)
        return {**given, "inlets": {inlet: {"waveform": str(folder / "waveform.csv")}}}
    waveform = str(ROOT / "data/waveforms" / f"{name}.csv")
    return {**given, "inlets": {inlet: {**each, "waveform": waveform}}}


def duct(rng: Draw) -> Flow:
    height, across, reynolds, mu = 4.0, rng.uniform(9, 14), even_log(rng, 20, 800), rng.uniform(2.5e-3, 6e-3)
    shape = {
        "shape": "duct",
        "height_mm": height,
        "width_mm": height * rng.uniform(1, 3),
        "length_mm": height * rng.uniform(3, 8),
    }
    return Flow(of_shape(shape), height / across, lambda nodes, _: steady(nodes, reynolds, mu))


def sac(rng: Draw) -> Flow:
    drawn, across, reynolds = with_side_wall_sac(int(rng.integers(10**6))), rng.uniform(9, 13), even_log(rng, 30, 400)
    return Flow(
        lambda spacing: on_lattice(drawn.mesh, drawn.openings, spacing),
        2 * drawn.radius_mm / across,
        lambda nodes, _: steady(nodes, reynolds),
    )


def fork(rng: Draw) -> Flow:
    d, across, reynolds = rng.uniform(3, 8), rng.uniform(10, 14), even_log(rng, 50, 500)
    daughters = [
        {"name": name, "length_mm": d * rng.uniform(2, 4), "angle_deg": rng.uniform(20, 70)}
        for name in ("left", "right")
    ]
    daughters[0]["diameter_mm"] = d * rng.uniform(0.6, 0.85)
    shape = {
        "shape": "bifurcation",
        "diameter_mm": d,
        "length_mm": d * rng.uniform(1.5, 3),
        "daughters": daughters,
        "direction": askew(rng),
    }
    pressure, waveform = rng.uniform(70, 110), str(rng.choice(["common-carotid", "internal-carotid-synthetic"]))
    outlets = {"*": {"pressure_mmhg": pressure, "windkessel": {}, "flow_fraction": "murray"}}
    return Flow(of_shape(shape), d / across, lambda nodes, to: pulsing(nodes, reynolds, waveform, to, outlets=outlets))


def stenosis(rng: Draw) -> Flow:
    d, across, reynolds = rng.uniform(3, 6), rng.uniform(12, 16), even_log(rng, 60, 300)
    shape = {
        "shape": "stenosis",
        "diameter_mm": d,
        "length_mm": d * rng.uniform(6, 9),
        "throat_mm": d * rng.uniform(1, 2.5),
        "area_reduction": rng.uniform(0.3, 0.7),
        "eccentricity": rng.uniform(0, 1),
        "direction": askew(rng),
    }
    return Flow(of_shape(shape), d / across, lambda nodes, to: pulsing(nodes, reynolds, "reversing", to))


def expansion(rng: Draw) -> Flow:
    d, across, reynolds = rng.uniform(2, 6), rng.uniform(8, 11), even_log(rng, 30, 500)
    shape = {
        "shape": "nozzle",
        "diameter_mm": d,
        "inlet_diameter_mm": d * rng.uniform(1.2, 2),
        "outlet_diameter_mm": d * rng.uniform(1.5, 2.2),
        "inlet_mm": d * rng.uniform(1, 2),
        "throat_mm": d * rng.uniform(0.5, 3),
        "outlet_mm": d * rng.uniform(5, 9),
        "direction": askew(rng),
    }
    return Flow(of_shape(shape), d / across, lambda nodes, _: steady(nodes, reynolds))


def u_bend(rng: Draw) -> Flow:
    d, across, reynolds = rng.uniform(2, 6), rng.uniform(9, 13), even_log(rng, 50, 1000)
    shape = {
        "shape": "bend",
        "diameter_mm": d,
        "bend_radius_mm": d * rng.uniform(0.8, 2),
        "angle_deg": rng.uniform(120, 180),
        "inlet_mm": d * rng.uniform(0.5, 2),
        "outlet_mm": d * rng.uniform(1, 3),
        "direction": askew(rng),
    }
    return Flow(of_shape(shape), d / across, lambda nodes, _: steady(nodes, reynolds))


def box(rng: Draw) -> Flow:
    height, across, reynolds = 10.0, rng.uniform(16, 28), even_log(rng, 20, 1500)
    sides = {"length_mm": height * rng.uniform(0.6, 1.6), "width_mm": height * rng.uniform(0.6, 1.6)}
    turn = rng.uniform(0, np.pi / 2)

    def solve(nodes: Nodes, _: Path) -> dict[str, Any]:
        speed = reynolds * 3.5e-3 / DENSITY / (1e-3 * height)
        return {"patches": {"lid": {"velocity_m_s": (speed * np.cos(turn), speed * np.sin(turn), 0.0)}}}

    return Flow(of_shape({"shape": "cavity", "height_mm": height, **sides}), height / across, solve)


def aorta(rng: Draw) -> Flow:
    d, across, exercise = rng.uniform(20, 30), rng.uniform(12, 15), rng.random() < 0.5
    mean_ml_s = rng.uniform(150, 300) if exercise else rng.uniform(60, 100)
    shape = {
        "shape": "bend",
        "diameter_mm": d,
        "bend_radius_mm": d * rng.uniform(1.1, 1.8),
        "angle_deg": rng.uniform(150, 180),
        "inlet_mm": d * rng.uniform(0.5, 1.5),
        "outlet_mm": d * rng.uniform(1, 3),
        "direction": askew(rng),
    }
    return Flow(of_shape(shape), d / across, lambda nodes, _: {"inlets": {"inlet": {"flow_ml_s": mean_ml_s}}})


def surface(name: str, spacing_mm: float, reynolds: tuple[float, float], pulses: bool) -> Callable[[Draw], Flow]:
    """A real vessel, a little coarser or finer than in the matrix."""

    def draw(rng: Draw) -> Flow:
        number, murray = even_log(rng, *reynolds), rng.random() < 0.5
        outlets = {"*": {"pressure_mmhg": 90.0, "flow_fraction": "murray"}} if murray else {"*": {"pressure_mmhg": 0.0}}

        def solve(nodes: Nodes, to: Path) -> dict[str, Any]:
            if pulses:
                return pulsing(nodes, number, "common-carotid", to, outlets=outlets)
            return steady(nodes, number, outlets=outlets)

        return Flow(VESSELS[name].build, spacing_mm * rng.uniform(0.9, 1.1), solve)

    return draw


def thick_blood(rng: Draw) -> Flow:
    d, across, reynolds = rng.uniform(1, 5), rng.uniform(10, 14), even_log(rng, 1, 300)
    shape = {"shape": "pipe", "diameter_mm": d, "length_mm": d * rng.uniform(3, 6), "direction": askew(rng)}
    model = str(rng.choice(["carreau-yasuda", "casson"]))
    return Flow(of_shape(shape), d / across, lambda nodes, _: steady(nodes, reynolds, blood={"model": model}))


def endless_duct(rng: Draw) -> Flow:
    height, across, reynolds = rng.uniform(2, 6), int(rng.integers(10, 20)), even_log(rng, 1, 300)
    shape = {
        "shape": "duct",
        "height_mm": height,
        "width_mm": height * rng.uniform(1, 3),
        "length_mm": height,
        "ends": "periodic",
    }

    def solve(nodes: Nodes, _: Path) -> dict[str, Any]:
        speed = reynolds * 3.5e-3 / DENSITY / (1e-3 * height)
        return {"force_n_m3": (12 * 3.5e-3 * speed / (1e-3 * height) ** 2, 0.0, 0.0)}

    return Flow(of_shape(shape), height / across, solve)


def body(rng: Draw) -> Flow:
    d, across, reynolds = 2.0, rng.uniform(7, 10), even_log(rng, 5, 250)
    sides = [d * rng.uniform(3, 4), d * rng.uniform(2.5, 3), d * rng.uniform(2.5, 3)]
    shape = {"shape": "sphere", "diameter_mm": d, "box_mm": sides, "ends": "openings", "sides": "walls"}

    def solve(nodes: Nodes, _: Path) -> dict[str, Any]:
        speed = reynolds * 3.5e-3 / DENSITY / (1e-3 * d)
        return {"inlets": {"inlet": {"flow_ml_s": speed * sides[1] * sides[2]}}}

    return Flow(of_shape(shape), d / across, solve)


KINDS: dict[str, Callable[[Draw], Flow]] = {
    "duct": duct,
    "sac": sac,
    "fork": fork,
    "stenosis": stenosis,
    "expansion": expansion,
    "u-bend": u_bend,
    "box": box,
    "aorta": aorta,
    "alster": surface("alster", 0.35, (50.0, 500.0), False),
    "palabos": surface("palabos", 1.4, (50.0, 500.0), True),
    "iliac": surface("iliac", 1.5, (100.0, 900.0), False),
    "thick-blood": thick_blood,
    "endless-duct": endless_duct,
    "body": body,
}
"""How a flow of each kind is drawn, by name."""


def settings_of(given: dict[str, Any]) -> SolveSettings:
    """The solver's settings of a section ``solve``: all others are defaults but for the device."""
    case = parse(CaseSettings, given | {"backend": "cpu", "unsettled": "report"}, "drawn")
    return parse_solve(case.model_dump())


Moment = tuple[int, float, float]
"""A step, the processor's time there, and the steps that were said to be left."""


def watched(rows: list[Moment]) -> Callable[..., tuple[str, float]]:
    """`time_left.steps_left` that keeps what it says, and when."""
    tell = time_left.steps_left

    def steps_left(step: int, *others: Any) -> tuple[str, float]:
        words, left = tell(step, *others)
        rows.append((step, time.process_time(), left))
        return words, left

    return steps_left


def of_time(rows: list[Moment]) -> dict[str, float]:
    """What is told of the time, in numbers; nothing of runs of a few rows. A coarser run that helps comes first."""
    own = 1 + max((k for k in range(len(rows) - 1) if rows[k + 1][0] <= rows[k][0]), default=-1)
    step, seconds, left = np.array(rows[own:]).reshape(-1, 3).T
    first, second = np.searchsorted(step, (200, 400))
    if second + 1 >= len(step):
        return {}
    early = (seconds[second] - seconds[first]) / (step[second] - step[first])
    late = (seconds[-1] - seconds[second]) / (step[-1] - step[second])
    return {"pace": float(late / early), "largest_rise_of_time_left": float(np.diff(left).max() / step[-1])}


def out_of_time(number: int, frame: Any) -> None:
    """End a run that takes too long."""
    raise TimeoutError


def run(name: str, flow: Flow, finer: float, minutes: float, given: dict[str, Any]) -> dict[str, Any]:
    """Run a flow, with these settings where any are given, and tell how it ended."""
    spacing = flow.spacing_mm
    nodes = flow.build(spacing)
    if nodes.count > MOST_NODES:
        coarser = spacing * (nodes.count / MOST_NODES) ** (1 / 3)
        with suppress(StageError):  # too few nodes across a branch
            nodes = flow.build(coarser)
            spacing = coarser
    if finer != 1:
        nodes = flow.build(spacing / finer)
    rows: list[Moment] = []
    kept, run_state.LOG_EVERY_S = time_left.steps_left, 0.0
    time_left.steps_left = watched(rows)
    signal.signal(signal.SIGPROF, out_of_time)
    signal.setitimer(signal.ITIMER_PROF, 60 * minutes)  # of the processor, which others may share
    with tempfile.TemporaryDirectory() as folder:
        try:
            wanted = replace(settings_of(flow.solve(nodes, Path(folder))), **given)
            record = record_of(nodes, wanted, Path(folder))
        except TimeoutError:
            record = {"nodes": nodes.count, "outcome": "out of time", "steps": rows[-1][0] if rows else 0}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            time_left.steps_left = kept
    return {"name": name, "spacing_mm": spacing / finer, **record, **of_time(rows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--kinds", nargs="*", default=[], help="only these")
    parser.add_argument("--minutes", type=float, default=6.0, help="of each run, at most")
    parser.add_argument("--finer", type=float, default=1.0, help="times as many nodes across")
    add_settings(parser)
    add_results(parser)
    options = parser.parse_args()
    found = []
    for number in range(options.first, options.first + options.count):
        kind = [*KINDS][number % len(KINDS)]
        if options.kinds and kind not in options.kinds:
            continue
        name, flow = f"{kind}-{options.seed}-{number}", KINDS[kind](np.random.default_rng([options.seed, number]))
        found.append(run(name, flow, options.finer, options.minutes, dict(options.set)))
        shown = ("nodes", "outcome", "steps", "forecast_steps", "likely_steps", "message")
        print(name, *(found[-1].get(key) for key in shown), flush=True)
        write_results(options, "strange-flows", found)


if __name__ == "__main__":
    main()
