# SPDX-License-Identifier: Apache-2.0
"""Pulses that settle over many cycles, and pulses that never repeat: how well are they told apart?

    PYTHONPATH=.:benchmarks python benchmarks/slow_cycles.py 24 --seed 1 [--first 0] [--cycles 16]
        [--kinds settling] [--updates 1e8]

Every second flow is a pipe, a taper or a fork whose cycle is short for the time in which it settles, R^2/nu; the others
are jets out of a narrow throat into a wide tube, whose flow varies if it is fast. All are run for so many cycles,
however they differ, and the differences between successive cycles are kept. From these follows how a run of
`FEW` cycles ends, for a range of `EVENLY` (`solver/run/cycle_variation.py`) and of `SHORT` (`solver/run/schedule.py`):

    periodic    it repeats
    averaged    it was taken to vary from cycle to cycle: wrong of one that settles
    refused     neither, and told to raise the cycles: wrong of one that never repeats

Of flows that repeat stand the numbers of cycles beside (`advised`) that a run is told which ends before.

A flow settles if what its cycles differ by in velocity falls to `SETTLES` of what it was after `FEW` of them, or below
the tolerance.
"""

import argparse
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
from bench import add_results, write_results
from drawn_outlets import Values, write_wave
from strange_flows import Draw, askew, even_log, settings_of, steady

from solver.domain.nodes import Nodes
from solver.run import cycle_variation, simulation
from solver.run import schedule as run_schedule
from solver.run.convergence import MARGIN, is_periodic
from solver.run.monitor import COMPARED, Monitor
from solver.run.plan import make_plan
from solver.run.schedule import Schedule
from solver.run.solve import solve
from solver.runtime.errors import StageError
from tests.support.stability_matrix import of_shape

LOG = logging.getLogger("slow-cycles")
FEW, SETTLES = 6, 0.3
"""Cycles of a run by default; and see the module."""
EVENLY, SHORT = (1.25, 1.5, 2.0, 3.0, 5.0, np.inf), (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
"""Values that are tried."""
MOST_UPDATES, MOST_DRAWS = 3.2e8, 16
"""Of nodes, that all cycles take at most unless it is said; and draws until one takes no more."""
WAVES = ("common-carotid", "thoracic-aorta", "cosine")


def settling(rng: Draw, folder: Path) -> tuple[Nodes, Values]:
    """A vessel, and a pulse whose cycle is short."""
    d, across, kind = even_log(rng, 2, 12), rng.uniform(8, 10), str(rng.choice(["pipe", "taper", "fork"]))
    shape: Values = {"shape": "pipe", "diameter_mm": d, "length_mm": d * rng.uniform(1.5, 4)}
    if kind == "taper":
        ends = {"inlet_mm": 0.5 * d, "cone_mm": d * rng.uniform(1.5, 3), "throat_mm": 0.5 * d, "outlet_mm": 0.5 * d}
        shape = {"shape": "nozzle", "diameter_mm": d, "outlet_diameter_mm": d, **ends}
        shape["inlet_diameter_mm"] = d * rng.uniform(1.1, 1.6)
    if kind == "fork":
        ends = {"length_mm": d * rng.uniform(1.5, 2.5), "diameter_mm": 0.8 * d}
        daughters = [{"name": "left", "angle_deg": 40.0, **ends}, {"name": "right", "angle_deg": 30.0, **ends}]
        shape = {"shape": "bifurcation", "diameter_mm": d, "length_mm": d, "daughters": daughters}
    nodes = of_shape({**shape, "direction": askew(rng)})(d / across)
    viscosity = rng.uniform(2.5e-3, 5e-3)
    period_s = (5e-4 * d) ** 2 / (viscosity / 1060) * even_log(rng, 0.001, 0.1)
    return nodes, with_pulse(rng, nodes, even_log(rng, 5, 150), viscosity, period_s, folder)


def varying(rng: Draw, folder: Path) -> tuple[Nodes, Values]:
    """A jet out of a narrow throat, and a pulse in which it crosses the vessel some times."""
    d, across = even_log(rng, 2, 8), rng.uniform(7, 8)
    shape = {
        "shape": "nozzle",
        "diameter_mm": d,
        "inlet_diameter_mm": d * rng.uniform(1.2, 1.5),
        "outlet_diameter_mm": d * rng.uniform(1.5, 1.8),
        "inlet_mm": 0.5 * d,
        "throat_mm": d * rng.uniform(0.5, 1),
        "outlet_mm": d * rng.uniform(3, 4.5),
        "direction": askew(rng),
    }
    nodes, reynolds, viscosity = of_shape(shape)(d / across), even_log(rng, 400, 2000), 3.5e-3
    speed_m_s = reynolds * viscosity / 1060 / (1e-3 * d)
    return nodes, with_pulse(rng, nodes, reynolds, viscosity, 1e-3 * d / speed_m_s * rng.uniform(4, 12), folder)


# many parameters because each is another fact of the flow
def with_pulse(
    rng: Draw, nodes: Nodes, reynolds: float, viscosity_pa_s: float, period_s: float, folder: Path
) -> Values:
    """Section ``solve`` of a case."""
    given = steady(nodes, reynolds, viscosity_pa_s)
    ((inlet, entry),) = given["inlets"].items()
    path = write_wave(str(rng.choice(WAVES)), period_s, entry["flow_ml_s"], folder / "wave.csv")
    return given | {"inlets": {inlet: {"waveform": path}}}


def watched(kept: list[dict[str, float]], means: list[list[float]]) -> Callable[..., bool]:
    """An `is_periodic` that keeps differences, and means of speed and energy, at the end of each cycle, and never finds
    that a flow is periodic.
    """

    def tell(monitor: Monitor, schedule: Schedule, step: int, *_: Any) -> bool:
        if schedule.place(step)[1] == schedule.cycle:
            values = [[row.mean_speed_m_s, row.kinetic_energy_j] for row in monitor.rows[-monitor.per_cycle :]]
            means.append(np.mean(values, axis=0).tolist())
            if found := monitor.periodicity():
                kept.append(found)
        return False

    return tell


def differences_of(
    rng: Draw, draw: Callable[[Draw, Path], tuple[Nodes, Values]], cycles: int, updates: float
) -> Values:
    """Draw a flow, and run it for so many cycles."""
    kept, means = list[dict[str, float]](), list[list[float]]()
    with tempfile.TemporaryDirectory() as name:
        for _ in range(MOST_DRAWS):
            try:
                nodes, given = draw(rng, Path(name))
                wanted = replace(settings_of(given), cycles=cycles)
                plan = make_plan(nodes, wanted)
            except StageError:
                continue
            if plan.schedule.last * nodes.count <= updates:
                break
        else:
            return {"outcome": "left out"}
        simulation.is_periodic, simulation.only_varies = watched(kept, means), lambda *_: False
        try:
            summary = solve(nodes, wanted, Path(name) / "flow.vtkhdf", Path(name) / "monitor.csv", LOG)
        except StageError as error:
            return {"outcome": "failed", "message": str(error)}
        finally:
            simulation.is_periodic, simulation.only_varies = is_periodic, cycle_variation.only_varies
    found: Values = {"nodes": nodes.count, "outcome": "ran", "steps": summary["steps"], "ramp_s": plan.ramp_s}
    found |= {
        "period_s": plan.period_s,
        "expected_cycles": plan.schedule.expected_cycles,
        "differences": kept,
        "means": means,
    }
    before, after = (each["velocity"] for each in (kept[FEW - 2], kept[-1]))
    return found | {"settles": after < max(SETTLES * before, wanted.periodic_tolerance)}


class Cycles(Monitor):
    """A monitor that knows nothing but by what its first cycles differ, and their means: a row of each.

    Parameters
    ----------
    plan : of the run.
    record : of the flow.
    cycles : so many.
    """

    per_cycle = 1

    def __init__(self, plan: Any, record: Values, cycles: int) -> None:
        self.plan, self._found = plan, record["differences"][: cycles - 1]
        rows = [SimpleNamespace(mean_speed_m_s=s, kinetic_energy_j=e) for s, e in record["means"][:cycles]]
        self.rows: Any = rows

    def periodicity(self, back: int = 0) -> dict[str, float] | None:
        """Difference of the last two cycles, or of those so many before."""
        return self._found[-1 - back] if back < len(self._found) else None


def repeats_after(record: Values) -> int | None:
    """The cycle after which a flow is found to repeat; none if it is not."""
    steps, count = 1000, len(record["differences"]) + 1
    schedule = Schedule(100, 100, count * steps, cycle=steps, cycles=count, least_cycles=3)
    plan, raised_s = SimpleNamespace(schedule=schedule, period_s=1.0), record["ramp_s"] / record["period_s"]
    tolerance = settings_of({}).periodic_tolerance
    for cycle in range(3, count + 1):
        if is_periodic(Cycles(plan, record, cycle), schedule, cycle * steps, raised_s, tolerance):
            return cycle
    return None


def advised(record: Values) -> list[int | None]:
    """The number of cycles that a run is told that ends after 4, 5, ... of them; none where it cannot be foretold."""
    found, numbers, tolerance = record["differences"], list[int | None](), settings_of({}).periodic_tolerance
    for cycles in range(4, record["repeats_after"]):
        later = found[: cycles - 1][-max(COMPARED, cycles // 2) :]
        more = MARGIN * cycle_variation.cycles_to_repeat(later, tolerance)
        numbers.append(cycles + max(1, ceil(more)) if np.isfinite(more) else None)
    return numbers


def ended(record: Values, evenly: float, short: float) -> str:
    """How a run of `FEW` cycles ends whose cycles differ as in a record."""
    cycle_variation.EVENLY, run_schedule.SHORT = evenly, short
    steps = 1000
    schedule = Schedule(100, 100, FEW * steps, cycle=steps, cycles=FEW, least_cycles=3)
    schedule = replace(schedule, expected_cycles=record["expected_cycles"])
    plan: Any = SimpleNamespace(schedule=schedule, period_s=1.0)
    wanted, raised_s = settings_of({}), record["ramp_s"] / record["period_s"]
    for cycle in range(3, FEW + 1):
        monitor = Cycles(plan, record, cycle)
        if is_periodic(monitor, schedule, cycle * steps, raised_s, wanted.periodic_tolerance):
            return "periodic"
        if cycle_variation.only_varies(monitor, wanted, cycle * steps, raised_s):
            return "averaged"
    return "refused"


def swept(found: list[Values]) -> list[Values]:
    """How runs end by the values tried, of flows that settle and of those that do not, where that differs."""
    ran, rows = [each for each in found if each["outcome"] == "ran"], list[Values]()
    kept = cycle_variation.EVENLY, run_schedule.SHORT
    for evenly in EVENLY:
        for short in SHORT:
            ends = {
                kind: Counter(ended(r, evenly, short) for r in ran if r["settles"] == kind) for kind in (True, False)
            }
            row = {"settling": dict(ends[True]), "varying": dict(ends[False])}
            rows.append({"evenly": evenly, "short": short, **row})
    cycle_variation.EVENLY, run_schedule.SHORT = kept
    return rows


def warned(found: list[Values]) -> list[Values]:
    """Flows that are told beforehand that `FEW` cycles are few and repeat in them, and those that are not and do not,
    by the values of `SHORT`.
    """
    rows = []
    for short in SHORT:
        pairs = [(each["expected_cycles"] > short * FEW, (each["repeats_after"] or np.inf) > FEW) for each in found]
        rows.append({"short": short, "in_vain": pairs.count((True, False)), "not_told": pairs.count((False, True))})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--kinds", nargs="+", default=["settling", "varying"], help="that follow one another")
    parser.add_argument("--updates", type=float, default=MOST_UPDATES, help="that all cycles take at most")
    parser.add_argument("--cycles", type=int, default=16, help="that all are run for")
    add_results(parser)
    options = parser.parse_args()
    found, draws = list[Values](), [{"settling": settling, "varying": varying}[kind] for kind in options.kinds]
    for number in range(options.first, options.first + options.count):
        draw = draws[number % len(draws)]
        rng = np.random.default_rng([options.seed, number])
        record: Values = {"name": f"{options.seed}-{number}", "kind": draw.__name__}
        found.append(record := record | differences_of(rng, draw, options.cycles, options.updates))
        record["repeats_after"] = repeats_after(record) if record["outcome"] == "ran" else None
        record["advised"] = advised(record) if record["repeats_after"] else None
        velocity = [f"{each['velocity']:.3g}" for each in record.get("differences", [])]
        print(record["name"], record["kind"], record["outcome"], record.get("settles"), *velocity, flush=True)
        known = warned([each for each in found if each.get("settles")])
        write_results(options, "slow-cycles", {"flows": found, "sweep": swept(found), "warned": known})


if __name__ == "__main__":
    main()
