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
from band_coverage import FINE, KEYS, LOG, MemberInput, computed, order_of, solved, stated, taken, true_figures
from bench import default_file, provenance
from comparison import table

from pipeline.case.settings.uncertainty import UncertaintySettings
from pipeline.uncertainty.coarse_spacing import LEAST_ACROSS, ratio_of, spacing_deviation
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
    vessel, settings = drawn(seed, NOISE), UncertaintySettings(level="quick")
    solve = stated(vessel, np.random.default_rng(seed))
    image = taken(vessel, solve, settings)
    member = computed(image.case, MemberInput(member=0, uncertainty=settings, solve=solve), LOG)
    figures = {FINE: true_figures(image.results, image.surface.mesh)}
    for other in across:
        figures[other] = true_figures(solved(image.surface, solve, other, **image.settled)[0], image.surface.mesh)
    return {
        "narrowest_across": image.case.across,
        "ratio": ratio_of(image.case.across, settings.across, LEAST_ACROSS),
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
        deviations = [
            spacing_deviation(c, each["ratio"], order_of(key)) for c, each in zip(changes, having, strict=True)
        ]
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
