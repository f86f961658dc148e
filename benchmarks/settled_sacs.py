# SPDX-License-Identifier: Apache-2.0
"""How settled the flow in a sac is where a steady run ends: saccular aneurysms of random size, neck and direction.

    python benchmarks/settled_sacs.py 5 --seed 1 [--pulse [sac|widening]] [--json FILE]

A straight vessel, 7 nodes across, has a round sac 1.5 to 3.5 times as wide, on a neck of 0.6 to 1.3 times the vessel's
radius; the Reynolds number of the vessel is 10 to 150. Each is run with the default tolerance, with what that was
before the viscous time was that of the sac, and until its residual is a hundredth of it, from which the others are
told apart: over all nodes, those of the sac, and those of the half of it that is farther from the neck, over the mean
speed there. With ``--pulse`` each vessel is 4 to 5.5 mm wide, its sac 8 to 18 mm, and it has the waveform of a carotid
artery, a period of 0.7 to 1 s and a mean Reynolds number of 100 to 300. With ``--pulse widening`` a vessel of a radius
of 7 to 11 mm widens to 15 to 25 mm, under the waveform of an aorta or a carotid, at Reynolds numbers of 150 to 1200.
Each is run until it counts as periodic, with what differs in wide places and without, and for 14 cycles, or 30; means
over a cycle are told apart.
"""

import argparse
import logging
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
from bench import add_results, write_results
from comparison import table
from drawn_outlets import write_wave
from numpy.typing import NDArray

from solver.domain.nodes import Nodes
from solver.domain.widths import widest_radius_mm
from solver.run import setup
from solver.run.duration import wide_places
from solver.run.flow_file import read_flow
from solver.run.plan import make_plan
from solver.run.settings import InletSettings, SolveSettings
from solver.run.solve import solve
from tests.support.sacs import drawn_sac, vessel_with_sac, widened_vessel
from tests.support.solve_settings import DENSITY, VISCOSITY, settings
from tests.support.stability_matrix import of_case

RADIUS, SPACING_MM = 3.5, 0.5
"""Of the vessel, in spacings."""
TOLERANCE, REFERENCE, CYCLES, MOST = 1e-3, 1e-5, {"sac": 14, "widening": 30}, 30
LOG = logging.getLogger("settled_sacs")

Reals = NDArray[np.float64]


def drawn(
    rng: np.random.Generator, least: float, most: float, spacing_mm: float = SPACING_MM
) -> tuple[Nodes, dict[str, Any], dict[str, NDArray[np.bool_]]]:
    """A vessel with its sac, its numbers with a Reynolds number, and its nodes by where they lie."""
    nodes, sizes, places = drawn_sac(rng, RADIUS, spacing_mm)
    reynolds = float(np.exp(rng.uniform(np.log(least), np.log(most))))
    return nodes, {"nodes": nodes.count, **sizes, "reynolds": reynolds}, places


def velocities(nodes: Nodes, wanted: SolveSettings) -> tuple[dict[str, Any], Reals]:
    """How a run ended, and its mean velocities."""
    with tempfile.TemporaryDirectory() as folder:
        flow = Path(folder) / "flow.vtkhdf"
        summary = solve(nodes, wanted, flow, Path(folder) / "monitor.csv", LOG)
        ended: dict[str, Any] = {"state": summary["state"], "steps": summary["steps"]}
        ended["forecast_steps"] = summary["forecast"]["steps"]
        return ended, np.asarray(read_flow(flow).velocity_mean_m_s(), np.float64)


def measured(seed: int) -> dict[str, Any]:
    """How far a sac's flow is from rest where its runs end."""
    nodes, numbers, places = drawn(np.random.default_rng(seed), 10, 150)
    radius_mm = max(opening.radius_mm for opening in nodes.openings)
    inlet = InletSettings(flow_of(numbers["reynolds"], radius_mm), None, "developed")
    wanted = settings(inlets={"in": inlet}, precision="fp64")
    before = TOLERANCE * (widest_radius_mm(nodes) / radius_mm) ** 2
    _, truth = velocities(nodes, replace(wanted, steady_tolerance=REFERENCE))
    found: dict[str, Any] = {"seed": seed, **numbers}
    for name, tolerance in (("before", before), ("now", TOLERANCE)):
        ended, velocity = velocities(nodes, replace(wanted, steady_tolerance=tolerance))
        found[name] = ended | {"off": off(velocity, truth, places)}
    return found


def pulsing(seed: int, kind: str) -> dict[str, Any]:
    """How far it is from repeating where a pulse counts as periodic."""
    rng = np.random.default_rng(seed)
    nodes, numbers, places, name = pulsing_sac(rng) if kind == "sac" else widening(rng)
    period_s = float(rng.uniform(0.7, 1.0))
    flow_ml_s = flow_of(numbers["reynolds"], max(opening.radius_mm for opening in nodes.openings))
    found: dict[str, Any] = {"seed": seed, **numbers, "waveform": name, "period_s": period_s}
    with tempfile.TemporaryDirectory() as folder:
        wave = write_wave(name, period_s, flow_ml_s, Path(folder) / "wave.csv")
        wanted = of_case({"inlets": {"in": {"waveform": wave}}, "cycles": MOST})
        cycle = make_plan(nodes, wanted).schedule.cycle or 1
        _, truth = velocities(nodes, replace(wanted, cycles=CYCLES[kind], min_cycles=CYCLES[kind]))
        for run in ("before", "now"):
            setup.wide_places = nowhere if run == "before" else wide_places
            ended, velocity = velocities(nodes, wanted)
            numbers_of_cycles = {"cycles": ended["steps"] / cycle, "forecast_cycles": ended["forecast_steps"] / cycle}
            found[run] = ended | numbers_of_cycles | {"off": off(velocity, truth, places)}
    return found


def nowhere(nodes: Nodes) -> NDArray[np.bool_]:
    """No place that is wide."""
    return np.zeros(nodes.count, np.bool_)


def pulsing_sac(
    rng: np.random.Generator,
) -> tuple[Nodes, dict[str, Any], dict[str, NDArray[np.bool_]], str]:
    """A vessel with a wide sac, its numbers, places and waveform."""
    diameter_mm, sac_mm = float(rng.uniform(4, 5.5)), float(rng.uniform(8, 18))
    spacing_mm, neck, turn = diameter_mm / (2 * RADIUS), rng.uniform(0.6, 1.3) * RADIUS, rng.uniform(0, 2 * np.pi)
    nodes, places = vessel_with_sac(RADIUS, sac_mm / 2 / spacing_mm, neck, turn, spacing_mm)
    reynolds = float(np.exp(rng.uniform(np.log(100), np.log(300))))
    numbers = {"nodes": nodes.count, "wide": sac_mm / diameter_mm, "neck": neck / RADIUS, "reynolds": reynolds}
    return nodes, numbers | {"diameter_mm": diameter_mm, "sac_mm": sac_mm}, places, "common-carotid"


def widening(rng: np.random.Generator) -> tuple[Nodes, dict[str, Any], dict[str, NDArray[np.bool_]], str]:
    """A vessel that widens, its numbers, places and waveform."""
    radius_mm, wide_mm = float(rng.uniform(7, 11)), float(rng.uniform(15, 25))
    length_mm, spacing_mm = float(rng.uniform(1.5, 3.5)) * wide_mm, radius_mm / RADIUS
    wide, length = wide_mm / spacing_mm, length_mm / spacing_mm
    nodes, places = widened_vessel(RADIUS, wide, length, float(rng.uniform(0, 1.5)), spacing_mm)
    reynolds = float(np.exp(rng.uniform(np.log(150), np.log(1200))))
    numbers = {"nodes": nodes.count, "wide": wide_mm / radius_mm, "reynolds": reynolds, "diameter_mm": 2 * radius_mm}
    name = str(rng.choice(["thoracic-aorta", "common-carotid"]))
    return nodes, numbers | {"sac_mm": 2 * wide_mm, "length_mm": length_mm}, places, name


def flow_of(reynolds: float, radius_mm: float) -> float:
    """Flow through a vessel, mL/s."""
    return float(reynolds * VISCOSITY / DENSITY * np.pi * radius_mm / 2 * 1e3)


def off(velocity: Reals, truth: Reals, places: dict[str, NDArray[np.bool_]]) -> dict[str, float]:
    """By place."""
    return {place: _apart(velocity[there], truth[there]) for place, there in places.items()}


def _apart(velocity: Reals, truth: Reals) -> float:
    """Root mean square difference over the mean speed."""
    return float(np.sqrt(((velocity - truth) ** 2).sum(axis=1).mean()) / np.linalg.norm(truth, axis=1).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, required=True, help="of the first; the others follow")
    add_results(parser)
    parser.add_argument("--pulse", choices=("sac", "widening"), nargs="?", const="sac", help="pulses, not steady flows")
    options = parser.parse_args()
    found = []
    for seed in range(options.seed, options.seed + options.count):
        found.append(pulsing(seed, options.pulse) if options.pulse else measured(seed))
        print(found[-1], flush=True)
    runs = ("before", "now")
    columns = ["sac", "wide", "Re", *(f"{name}: {what}" for name in runs for what in ("steps", "sac", "far half"))]
    cells = [_numbers(each) + [text for run in runs for text in _row(each[run])] for each in found]
    what = f"pulsing-{options.pulse}s" if options.pulse else "settled-sacs"
    print(table(columns, cells), write_results(options, what, found), sep="\n\n")


def _numbers(each: dict[str, Any]) -> list[str]:
    return [str(each["seed"]), f"{each['wide']:.2g}", f"{each['reynolds']:.3g}"]


def _row(run: dict[str, Any]) -> list[str]:
    return [f"{run['steps']:,}", f"{run['off']['sac']:.2%}", f"{run['off']['far half']:.2%}"]


if __name__ == "__main__":
    main()
