# SPDX-License-Identifier: Apache-2.0
"""Error of figures that the spacing is due to, beside what two lattices tell of it.

    python benchmarks/band_spacing.py --seeds 300 324 --workers 8
    python benchmarks/band_spacing.py --table benchmarks/results/FILE.json

Vessels with a sac are drawn at random as for `band_coverage.py`; the surface of each image runs on lattices of several
spacings and, as member 0 of its bands does, on theirs. The figures at the finest two, extrapolated at second order, are
the truth.
"""

import argparse
import json
import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
from band_coverage import FINE, KEYS, LOG, Case, MemberInput, computed, solved, stated, true_figures
from bench import default_file, provenance
from comparison import table

import hemolattice as hl
from pipeline.case.settings.uncertainty import UncertaintySettings
from pipeline.uncertainty.coarse_spacing import ORDER, ORDER_OF_PEAKS, ratio_of, spacing_deviation
from pipeline.uncertainty.wall_field import rows_on_wall
from pipeline.uncertainty.wall_precision import WallPrecision
from solver.runtime.errors import StageError
from tests.support.drawn_sacs import drawn
from validation.timing import hardware

NOISE = "middle"
"""Level of noise of all images."""


def tried(seed: int, across: tuple[float, ...]) -> dict[str, Any]:
    """Figures of one vessel on each lattice, by nodes across the inlet."""
    found: dict[str, Any] = {"seed": seed}
    try:
        return found | _computed(seed, across)
    except StageError as error:
        return found | {"refused": str(error)}


def _computed(seed: int, across: tuple[float, ...]) -> dict[str, Any]:
    phantom, settings = drawn(seed, NOISE).imaged(), UncertaintySettings(level="quick")
    segmented = hl.segment(hl.filter_image(phantom.image), phantom.image, "CT", seeds_mm=phantom.truth["seeds_mm"][:1])
    named = [
        {"name": each["name"], "role": each["name"], "near_mm": each["centre_mm"]} for each in phantom.truth["openings"]
    ]
    surface = hl.surface(segmented, openings=named)
    solve = stated(drawn(seed, NOISE), np.random.default_rng(seed))
    results, flow = solved(surface, solve, FINE)
    sacs = results.indices["sacs"]
    rows = rows_on_wall(surface.mesh, results.wall.mesh)
    labels = results.arrays.get("sac", np.zeros(len(rows), np.int8))
    numbers = flow.summary["numbers"]
    narrow = min(numbers["nodes_across_smallest_opening"], numbers["nodes_across_narrowest_section"])
    of_sacs = {sac["name"]: rows[labels == k + 1] for k, sac in enumerate(sacs)}
    wall = WallPrecision.of(settings, segmented.record, surface.openings)
    case = Case(surface.mesh, surface.openings, flow.nodes.spacing_mm, narrow, of_sacs, wall)
    member = computed(case, MemberInput(member=0, uncertainty=settings, solve=solve), LOG)
    figures = {FINE: true_figures(results, surface.mesh)}
    necks = [{"name": sac["name"], "neck_mm": sac["neck_mm"], "normal": sac["neck_normal"]} for sac in sacs]
    for other in across:
        figures[other] = true_figures(solved(surface, solve, other, sacs=necks, find_sacs=False)[0], surface.mesh)
    return {
        "narrowest_across": narrow,
        "ratio": ratio_of(narrow),
        "member": member.figures,
        "figures": {f"{each:g}": of for each, of in sorted(figures.items())},
    }


def shown(tries: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Of each figure: mean and root mean square of its error on each lattice; what the members' lattice changes; the
    error on the case's lattice over the deviation that the bands take for it.
    """
    lattices = next(list(each["figures"]) for each in tries if "figures" in each)
    head = [
        "figure",
        "vessels",
        *(f"{across} across" for across in lattices),
        "members' change",
        "error over deviation",
    ]
    rows = []
    for key in KEYS[1:]:
        having = [t for t in tries if key in t.get("member", {}) and all(key in of for of in t["figures"].values())]
        errors = np.array([_errors(each["figures"], key) for each in having])
        fine = errors[:, lattices.index(f"{FINE:g}")]
        changes = np.array([each["member"][key] / each["figures"][f"{FINE:g}"][key] - 1 for each in having])
        order = ORDER_OF_PEAKS if key == "shear_p99" else ORDER
        deviations = [spacing_deviation(c, each["ratio"], order) for c, each in zip(changes, having, strict=True)]
        cells = [f"{np.mean(of):+.1%}, {_rms(of):.1%}" for of in errors.T]
        rows.append([key, f"{len(having)}", *cells, f"{_rms(changes):.1%}", f"{_rms(fine) / _rms(deviations):.2f}"])
    return head, rows


def _errors(figures: dict[str, dict[str, float]], key: str) -> list[float]:
    """Error of a figure on each lattice, by that at the finest two, extrapolated at second order."""
    values = [of[key] for of in figures.values()]
    before, finest = (float(across) for across in list(figures)[-2:])
    truth = values[-1] + (values[-1] - values[-2]) / ((finest / before) ** 2 - 1)
    return [value / truth - 1 for value in values]


def _rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def main() -> None:
    """Try the vessels, print the table, keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs=2, type=int, default=(300, 324))
    parser.add_argument("--across", nargs="+", type=float, default=(8.0, 12.0, 24.0, 32.0))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="default: a file in benchmarks/results")
    parser.add_argument("--table", type=Path, help="print the table of a record and run nothing")
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    if options.table:
        print(table(*shown(json.loads(options.table.read_text(encoding="utf-8"))["tries"])))
        return
    tries = []
    with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=4) as pool:
        jobs = [pool.apply_async(tried, (seed, tuple(options.across))) for seed in range(*options.seeds)]
        for job in jobs:
            tries.append(job.get())
            print(json.dumps(tries[-1]), flush=True)
    path = options.json or default_file("band-spacing", hardware())
    path.write_text(json.dumps(provenance(options) | {"tries": tries}, indent=1) + "\n", encoding="utf-8")
    print(table(*shown(tries)))
    print(path)


if __name__ == "__main__":
    main()
