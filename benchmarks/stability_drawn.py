# SPDX-License-Identifier: Apache-2.0
"""Stability of the defaults in flows drawn at random, from a seed, and run with nothing but the flow.

    PYTHONPATH=.:benchmarks python benchmarks/stability_drawn.py 40 --seed 1 [--steps 20000] [--finer 1.5]
        [--set start=coarse] [--set backend=cuda]

Each is a pipe, bend, fork, stenosis, nozzle or step along any direction, with its proportions, the nodes across its
narrowest section (8 to 16), the grid Reynolds number (12 to 300, logarithmic) and the flow, steady or one in three
reversing, all drawn. What must hold is what tests/solver/run/test_stability.py demands of the matrix; beside it stands
how many steps were forecast.
"""

import argparse
import os
from collections import Counter
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
from bench import add_results, add_settings, write_results
from comparison import table

from tests.solver.run.test_stability import require_stable
from tests.support.stability_matrix import VESSELS, Entry, Vessel, of_shape, run

DIAMETER_MM = 4.0
SHAPES = ("pipe", "bend", "bifurcation", "stenosis", "nozzle", "step")


def geometry(shape: str, rng: np.random.Generator) -> tuple[dict[str, Any], float]:
    """A canonical shape whose narrowest opening or section is 4 mm wide, along any direction, and that section, mm2."""
    d, length = DIAMETER_MM, rng.uniform(1, 3, 4) * DIAMETER_MM
    area = np.pi * d**2 / 4
    direction = {"direction": rng.standard_normal(3).tolist()}
    if shape == "step":
        height = d / 2
        return {
            "shape": "step",
            "step_mm": height * rng.uniform(0.5, 1.5),
            "expansion_ratio": rng.uniform(1.5, 2.5),
            "inlet_mm": length[0],
            "outlet_mm": 2 * length[1] + 3 * d,
            "width_mm": d,
            "sides": "walls",
        }, 0.0
    more: dict[str, Any] = {}
    if shape == "pipe":
        more = {"diameter_mm": d, "length_mm": 2 * length[0] + d}
    elif shape == "bend":
        more = {"diameter_mm": d, "bend_radius_mm": d / 2 + length[0], "inlet_mm": length[1], "outlet_mm": length[2]}
    elif shape == "bifurcation":
        daughters = [
            {"name": name, "length_mm": d + length[n], "angle_deg": rng.uniform(20, 60)}
            for n, name in enumerate(("left", "right"))
        ]
        more = {"diameter_mm": d, "length_mm": d + length[2], "daughters": daughters}
    elif shape == "stenosis":
        reduction = rng.uniform(0.3, 0.85)
        wide = d / np.sqrt(1 - reduction)
        more = {
            "diameter_mm": wide,
            "length_mm": wide * rng.uniform(6, 9),
            "throat_mm": wide * rng.uniform(1, 2.5),
            "area_reduction": reduction,
        }
    else:
        inlet, outlet = rng.uniform(1.5, 3, 2) * d
        more = {
            "diameter_mm": d,
            "inlet_diameter_mm": inlet,
            "outlet_diameter_mm": outlet,
            "inlet_mm": length[0],
            "cone_mm": d + length[1],
            "throat_mm": length[2],
            "outlet_mm": 3 * d + 2 * length[3],
        }
    return {"shape": shape, **more, **direction}, float(area)


def drawn(number: int, rng: np.random.Generator) -> Entry:
    """An entry, whose vessel is added to those of the matrix."""
    shape = str(rng.choice(SHAPES))
    given, area = geometry(shape, rng)
    narrowest = given["step_mm"] / (given["expansion_ratio"] - 1) if shape == "step" else DIAMETER_MM
    name = f"drawn-{number}-{shape}"
    VESSELS[name] = Vessel(of_shape(given), narrowest / rng.uniform(8, 16), area or narrowest * given["width_mm"])
    flow = "reversing" if rng.random() < 1 / 3 else "steady"
    return Entry(name, flow, round(float(np.exp(rng.uniform(np.log(12), np.log(300)))), 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--steps", type=int, default=20_000, help="of steady flows, at most")
    parser.add_argument("--finer", type=float, default=1.0, help="times as many nodes across")
    add_settings(parser)
    parser.add_argument("--every", type=int, default=1, help="run only each of so many, to share the work")
    parser.add_argument("--offset", type=int, default=0, help="the first of them")
    add_results(parser)
    options = parser.parse_args()
    found, rng = [], np.random.default_rng(options.seed)
    for number in range(options.count):
        entry = drawn(number, rng)
        if number % options.every != options.offset:
            continue
        steady = {"max_steps": options.steps} if entry.flow == "steady" else {}
        spacing_mm = VESSELS[entry.vessel].spacing_mm / options.finer
        record = run(entry, spacing_mm=spacing_mm, **steady | dict(options.set))
        try:
            require_stable(entry, record)
            record["stable"] = True
        except AssertionError as error:
            record |= {"stable": False, "why": str(error)}
        found.append(record)
        print(entry.name, record["outcome"], record.get("steps"), record.get("fallbacks"), record["stable"], flush=True)
    file = write_results(options, "stability-drawn", found)
    rows = [
        [
            each["name"],
            str(each["nodes"]),
            each["outcome"],
            f"{each.get('steps', 0):,}",
            f"{each.get('forecast_steps', 0):,}",
            f"{each.get('peak_over_expected') or 0:.2f}",
            "yes" if each["stable"] else "no",
        ]
        for each in found
    ]
    print(table(["flow", "nodes", "ends", "steps", "forecast", "peak over expected", "stable"], rows))
    print(Counter(each["outcome"] for each in found), file)


if __name__ == "__main__":
    main()
