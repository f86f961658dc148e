# SPDX-License-Identifier: Apache-2.0
"""Pulses drawn at random: does what is called periodic repeat, and is what is advised right?

    PYTHONPATH=.:benchmarks python benchmarks/drawn_pulses.py 40 --seed 1 [--first 0] [--minutes 1.5] [--follow 3]
        [--kinds short] [--once]

Vessels and outlets are those of `drawn_outlets.py`, with pipes shorter than they are wide, ducts whose top slides along
under a pulse, and outlets whose pressure pulses so that blood comes in through them for a part of the cycle. Time
constants are 0.01 to 30 cycles, in each of which the mean flow goes 0.3 to 8 diameters. A flow that ends as periodic is
run on, for five cycles, as many as it had, and three time constants, 40 cycles at most, and beside the errors of
`drawn_outlets.py` stand

    conserved   what came in less what went out over the last cycle, over the mean size of the larger flow
    farther     how far it was from the last cycle of the longer run: ``flow`` and ``pressure`` at the openings in all
                phases, over their widest range; ``mean``, of the mean pressures, over that range or their size; and
                ``velocity``, root mean square over nodes and snapshots, over the mean speed

A flow that is expected to take more than `MOST_UPDATES` is drawn again.
"""

import argparse
import csv
import json
import os
import tempfile
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
from bench import add_results, add_settings, write_results
from drawn_outlets import OUTLETS, Values, behind, followed, once, outlets_of, shown, vessel, write_wave
from numpy.typing import NDArray
from strange_flows import Draw, askew, even_log, settings_of, steady

from solver.domain.nodes import Nodes
from solver.run.flow_file import read_flow
from solver.run.plan import make_plan
from solver.run.settings import SolveSettings
from solver.run.units import ROWS_PER_CYCLE
from solver.runtime.errors import StageError
from tests.support.stability_matrix import of_shape

MOST_UPDATES, MOST_DRAWS = 8e7, 8
"""Of nodes, that a run is expected to take at most; and draws until one takes no more."""
MORE_CYCLES, MORE_CONSTANTS, MOST_MORE = 5, 3.0, 40
"""Cycles and time constants for which what is periodic is run on, and most cycles."""
CROSSED = (0.3, 8.0)
"""Diameters of the inlet that its mean flow goes in a cycle."""
KINDS = ("pipe", "short", "fork", "taper", "star", "breathing", "sliding")
WAVES = ("common-carotid", "internal-carotid-synthetic", "thoracic-aorta", "reversing", "cosine")
Reals = NDArray[np.float64]


def build_of(rng: Draw, kind: str) -> partial[Nodes]:
    """What builds a vessel."""
    d, across = even_log(rng, 2, 12), rng.uniform(7, 8)
    if kind == "short":
        shape = {"shape": "pipe", "diameter_mm": d, "length_mm": d * rng.uniform(0.4, 0.95), "direction": askew(rng)}
        return partial(of_shape(shape), d / across)
    if kind == "sliding":
        sides = {"width_mm": d * rng.uniform(1, 1.6), "length_mm": d * rng.uniform(1.5, 4)}
        return partial(of_shape({"shape": "duct", "height_mm": d, **sides}), d / across)
    return vessel(rng, "fork" if kind == "breathing" else kind)  # type: ignore[return-value]


def pressure_wave(rng: Draw, period_s: float, mmhg: float, path: Path) -> str:
    """A pressure that swings by so much about zero, late in the cycle; the path of its file."""
    times, late = np.linspace(0, period_s, 41), rng.uniform(0, 1)
    oscillation = mmhg * np.cos(2 * np.pi * (times / period_s - late))
    np.savetxt(
        path,
        np.column_stack((times, oscillation)),
        fmt="%.9g",
        delimiter=",",
        header="time_s,pressure_mmhg",
        comments="",
    )
    return str(path)


def breathing(rng: Draw, names: list[str], flow_ml_s: float, period_s: float, folder: Path) -> Values:
    """Outlets of which the first has a pressure that swings by half of what drives the flow up to four times."""
    mmhg = even_log(rng, 0.02, 1.0)
    found: Values = {
        names[0]: {"pressure_mmhg": mmhg, "waveform": pressure_wave(rng, period_s, mmhg, folder / "p.csv")}
    }
    for name in names[1:]:
        kind = str(rng.choice(["windkessels", "two", "resistances", "pressure"]))
        size = mmhg / flow_ml_s * len(names)
        found[name] = {"pressure_mmhg": mmhg} if kind == "pressure" else behind(rng, kind, size, period_s)
    return found


def drawn(rng: Draw, kind: str, folder: Path) -> tuple[Nodes, Values]:
    """Nodes and section ``solve`` of a case."""
    nodes, reynolds, wave = build_of(rng, kind)(), even_log(rng, 5, 400), str(rng.choice(WAVES))
    given = steady(nodes, reynolds, rng.uniform(2.5e-3, 5e-3))
    ((inlet, entry),) = given["inlets"].items()
    at_inlet = next(opening for opening in nodes.openings if opening.name == inlet)
    period_s = 2e-3 * at_inlet.radius_mm / (entry["flow_ml_s"] / at_inlet.area_mm2) * even_log(rng, *CROSSED)
    names = [opening.name for opening in nodes.openings if opening.role == "outlet"]
    choice = [each for each in OUTLETS if len(names) > 1 or each not in ("mixed", "shares", "pressures")]
    if kind == "breathing":
        outlets = breathing(rng, names, entry["flow_ml_s"], period_s, folder)
    else:
        outlets = outlets_of(rng, str(rng.choice(choice)), names, entry["flow_ml_s"], period_s)
    mean = entry["flow_ml_s"]
    given["inlets"] = {inlet: {"waveform": write_wave(wave, period_s, mean, folder / "wave.csv")}}
    if kind == "sliding":
        angle = rng.uniform(0, 2 * np.pi)
        speed = mean / at_inlet.area_mm2 * rng.uniform(0.3, 3)
        given["patches"] = {"top": {"velocity_m_s": (speed * np.cos(angle), speed * np.sin(angle), 0.0)}}
    return nodes, given | {"outlets": outlets}


class Cycle:
    """The last cycle of a run: its rows, and its snapshots.

    Attributes
    ----------
    flow_ml_s, pressure_pa : (rows, openings).
    inlets : of them, which are inlets.
    velocity_m_s : (snapshots, N, 3).
    """

    def __init__(self, folder: Path, nodes: Nodes) -> None:
        with (folder / "monitor.csv").open(encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))[-ROWS_PER_CYCLE:]
        self.flow_ml_s, self.pressure_pa = (
            np.array([[float(row[f"{key}:{each.name}"]) for each in nodes.openings] for row in rows])
            for key in ("flow_ml_s", "pressure_pa")
        )
        self.inlets = np.array([opening.role == "inlet" for opening in nodes.openings])
        flow = read_flow(folder / "flow.vtkhdf")
        self.velocity_m_s = np.array([flow.velocity_m_s(k) for k in range(len(flow.times_s))])

    def conserved(self) -> float:
        """What came in less what went out over a cycle, over the mean size of the largest flow."""
        into, out = self.flow_ml_s[:, self.inlets].sum(axis=1), self.flow_ml_s[:, ~self.inlets].sum(axis=1)
        return float((into - out).mean() / np.abs(self.flow_ml_s).mean(axis=0).max())

    def away(self, other: "Cycle") -> Values:
        """How far it is from another: see the module."""
        apart = {}
        for name, here, there in (
            ("flow", self.flow_ml_s, other.flow_ml_s),
            ("pressure", self.pressure_pa, other.pressure_pa),
        ):
            span = max(float(np.ptp(there, axis=0).max()), 1e-12)
            apart[name] = float(np.abs(here - there).max() / span)
        mean = other.pressure_pa.mean(axis=0)
        apart["mean"] = float((np.abs(self.pressure_pa.mean(axis=0) - mean) / np.maximum(span, np.abs(mean))).max())
        speed = np.linalg.norm(other.velocity_m_s, axis=2).mean()
        difference = np.linalg.norm(self.velocity_m_s - other.velocity_m_s, axis=2)
        return apart | {"velocity": float(np.sqrt((difference**2).mean()) / speed)}


def constants(record: Values, period_s: float) -> float:
    """The longest time constant behind an outlet, in cycles."""
    found = [each["imposed"].get("time_constant_s", 0.0) for each in record["openings"].values()]
    return max(found, default=0.0) / period_s


def run_on(nodes: Nodes, wanted: SolveSettings, record: Values, folder: Path, minutes: float) -> Values:
    """What stands beside a flow that ended as periodic."""
    first, period_s = Cycle(folder, nodes), record["period_s"]
    found: Values = {"conserved": first.conserved()}
    before, of_constants = round(record["cycles"]), ceil(MORE_CONSTANTS * constants(record, period_s))
    cycles = before + (more := min(MOST_MORE, max(MORE_CYCLES, before, of_constants)))
    longer = once(nodes, replace(wanted, cycles=cycles, min_cycles=cycles), folder, minutes)
    if longer["outcome"] != "settled":
        return found | {"longer": longer["outcome"], "cycles_more": more}
    return found | {"cycles_more": more, "farther": first.away(Cycle(folder, nodes))}


def ran(nodes: Nodes, wanted: SolveSettings, folder: Path, minutes: float, on: bool) -> Values:
    """How a run ended, with what stands beside one that is periodic, which may be run on for that."""
    record = once(nodes, wanted, folder, minutes)
    if record["outcome"] == "settled" and on:
        record["period_s"] = make_plan(nodes, wanted).period_s
        record |= run_on(nodes, wanted, record, folder, 6 * minutes)
    elif record["outcome"] in ("unsteady", "unsettled"):
        record["conserved"] = Cycle(folder, nodes).conserved()
    return record


def run(number: int, options: argparse.Namespace) -> Values:
    """Draw a flow, run it, and follow what is advised."""
    kind = options.kinds[number % len(options.kinds)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rng, updates, draws = np.random.default_rng([options.seed, number]), np.inf, 0
        refused = list[str]()
        while updates > MOST_UPDATES and draws < MOST_DRAWS:
            draws += 1
            try:
                nodes, given = drawn(rng, kind, folder)
                wanted = replace(settings_of(given), **dict(options.set))
                plan = make_plan(nodes, wanted)
                updates = plan.expected_steps * nodes.count
            except StageError as error:
                refused.append(str(error))
        known: Values = {"kind": kind, "draws": draws, "refused": refused}
        if updates > MOST_UPDATES:
            return known | {"outcome": "left out"}
        named = json.loads(json.dumps(given).replace(f"{folder}/", ""))
        known |= {"solve": named, "planned_steps": plan.expected_steps, "nodes": nodes.count}
        record = known | ran(nodes, wanted, folder, options.minutes, not options.once)
        record["followed"] = followed(
            record,
            wanted,
            options.follow,
            lambda changed: ran(nodes, changed, folder, 4 * options.minutes, not options.once),
        )
        return record


def in_a_line(record: Values) -> str:
    """A record in a line."""
    beside = {name: f"{value:.2%}" for name, value in record.get("farther", {}).items()}
    conserved = record.get("conserved", float("nan"))
    return f"{shown(record)} conserved {conserved:.2%} farther {beside or record.get('longer')}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS, help="that follow one another")
    parser.add_argument("--minutes", type=float, default=1.5, help="of each run, at most")
    parser.add_argument("--once", action="store_true", help="run on nothing that is periodic")
    parser.add_argument("--follow", type=int, default=3, help="most pieces of advice that are followed")
    add_settings(parser)
    add_results(parser)
    options = parser.parse_args()
    found = []
    for number in range(options.first, options.first + options.count):
        found.append(record := {"name": f"{options.seed}-{number}", **run(number, options)})
        print(record["name"], record["kind"], in_a_line(record), flush=True)
        for each in record.get("followed", []):
            print("   ", each["advice"], in_a_line(each), flush=True)
        write_results(options, "drawn-pulses", found)


if __name__ == "__main__":
    main()
