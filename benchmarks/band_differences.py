# SPDX-License-Identifier: Apache-2.0
"""How far what members of bands change depends on the nodes across the narrowest place of their lattice.

    PYTHONPATH=.:benchmarks python benchmarks/band_differences.py --seeds 500 503 --across 8 10 14

Vessels with a sac are drawn at random as for `band_coverage.py`. The surface of each image runs on lattices with so
many nodes across its narrowest place: as it is, and with one standard deviation more of each source: the wall, 2 % of
the radius further out, the inflow and the viscosity. The root of the sum of squares of what these change, of
logarithms, is the deviation of a figure; beside it stands that of the finest lattice.
"""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from band_coverage import KEYS, LOG, stated, taken
from bench import default_file, provenance
from comparison import table

from pipeline.case.settings.flow import PostprocessSettings, SolveSettings
from pipeline.case.settings.geometry import DecomposeSettings
from pipeline.case.settings.uncertainty import UncertaintySettings
from pipeline.members.in_memory import nodes_of, results_of
from pipeline.members.in_process import solved_in
from pipeline.members.member import SETTLED, kept_of
from pipeline.members.start import start_from
from pipeline.uncertainty.wall_field import moved
from solver.run.flow_file import Flow
from solver.runtime.errors import StageError
from tests.support.drawn_sacs import drawn
from validation.timing import hardware

NOISE = "middle"
SHIFT = 0.02
"""Of the wall, over the radius."""
TIMES = {"as it is": (0.0, 1.0, 1.0), "wall": (SHIFT, 1.0, 1.0), "inflow": (0, 1.1, 1.0), "viscosity": (0, 1.0, 1.13)}
"""Shift of the wall over the radius, factors of inflow and viscosity, of each run."""


def changed(solve: SolveSettings, inflow: float, viscosity: float) -> SolveSettings:
    """The section ``solve`` with other inflow and viscosity, and the tolerance of a member."""
    inlets = {
        name: entry.model_copy(update={"flow_ml_s": inflow * (entry.flow_ml_s or 0.0)})
        for name, entry in solve.inlets.items()
    }
    more = {"viscosity_pa_s": viscosity * solve.viscosity_pa_s, "steady_tolerance": SETTLED * solve.steady_tolerance}
    return solve.model_copy(update={"inlets": inlets} | more)


def tried(seed: int, across: tuple[float, ...]) -> dict[str, Any]:
    """Figures of one vessel, by nodes across its narrowest place and by what is changed."""
    try:
        return {"seed": seed} | _computed(seed, across)
    except StageError as error:
        return {"seed": seed, "refused": str(error)}


def _computed(seed: int, across: tuple[float, ...]) -> dict[str, Any]:
    vessel = drawn(seed, NOISE)
    solve = stated(vessel, np.random.default_rng(seed))
    case = taken(vessel, solve, UncertaintySettings(level="quick")).case
    narrowest_mm, figures = case.across * case.spacing_mm, {}
    with TemporaryDirectory() as folder:
        own = nodes_of(case.surface, case.openings, case.spacing_mm, DecomposeSettings())
        flow = solved_in(Path(folder), own, solve, LOG).flow
        for each in across:
            figures[f"{each:g}"] = {name: _run(name, narrowest_mm / each, case, solve, flow) for name in TIMES}
    return {"case_across": case.across, "figures": figures}


def _run(name: str, spacing_mm: float, case: Any, solve: SolveSettings, flow: Flow) -> dict[str, float]:
    shift, inflow, viscosity = TIMES[name]
    radius = max(each.radius_mm for each in case.openings)
    surface, openings = moved(case.surface, case.openings, np.full(len(case.surface.points_mm), shift * radius))
    nodes = nodes_of(surface, openings, spacing_mm, DecomposeSettings())
    begin = start_from(flow, case.spacing_mm, nodes, inflow)
    results = results_of(nodes, surface, changed(solve, inflow, viscosity), PostprocessSettings(), LOG, begin=begin)
    figures, _ = kept_of(case.sacs, surface, results)
    return {key: figures[key] for key in KEYS if figures.get(key, 0.0) > 0 and key != "volume"}


def deviations(figures: dict[str, dict[str, float]]) -> dict[str, float]:
    """Of each figure that all runs have, by those of one lattice."""
    keys = set.intersection(*({*each} for each in figures.values()))
    base = figures["as it is"]
    return {
        key: float(np.sqrt(sum(np.log(figures[name][key] / base[key]) ** 2 for name in TIMES if name != "as it is")))
        for key in keys
    }


def shown(tries: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Of each figure: mean and root mean square of the deviation on each lattice over that of the finest, less 1."""
    done = [{across: deviations(of) for across, of in each["figures"].items()} for each in tries if "figures" in each]
    lattices = list(done[0])
    rows = []
    for key in KEYS[1:]:
        having = [each for each in done if all(key in of for of in each.values())]
        if not having:
            continue
        errors = [np.array([each[a][key] / each[lattices[-1]][key] - 1 for each in having]) for a in lattices[:-1]]
        cells = [f"{of.mean():+.0%}, {np.sqrt((of**2).mean()):.0%}" for of in errors]
        rows.append([key, f"{len(having)}", *cells])
    return ["figure", "vessels", *(f"{across} across" for across in lattices[:-1])], rows


def main() -> None:
    """Try the vessels, print the table, keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs=2, type=int, default=(500, 503), metavar=("FIRST", "END"))
    parser.add_argument("--across", nargs="+", type=float, default=(8.0, 10.0, 14.0), help="the last is the finest")
    parser.add_argument("--json", type=Path, help="default: a file in benchmarks/results")
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    path, tries = options.json or default_file("band-differences", hardware()), []
    for seed in range(*options.seeds):
        tries.append(tried(seed, tuple(options.across)))
        path.write_text(json.dumps(provenance(options) | {"tries": tries}, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(tries[-1]), flush=True)
    print(table(*shown(tries)))
    print(path)


if __name__ == "__main__":
    main()
