# SPDX-License-Identifier: Apache-2.0
"""Vessels behind Windkessels, resistances, demanded flows and pressures, drawn at random: is what they end with right?

    PYTHONPATH=.:benchmarks python benchmarks/drawn_outlets.py 40 --seed 1 [--first 0] [--minutes 1.5] [--follow 2]

Pipes, tapering vessels, aneurysms, forks and stars of three or four branches, 8 to 10 nodes across, with flows that
are steady or pulse (carotid, internal carotid, turning back, aortic, a cosine), cycles of 0.05 to 2 s. Resistances are
those of 0.1 to 90 mmHg, their proximal part spans four decades, time constants 0.01 to 30 cycles. Of each run stand
beside how it ended:

    mean_error   largest difference of an outlet's mean pressure from what its vessels make of its mean flow, and of a
                 demanded flow from what was asked for, as a part of the larger of the pressure's or flow's scales
    wave_error   largest difference of its pressure over the last cycle, less its mean, from what its vessels make of
                 its flow in that cycle, as a part of the widest range of a pressure at an opening
    followed     how it ended with what its messages advise, one advice after another

Runs that are expected to take more than `MOST_UPDATES` are left out, and told.
"""

import argparse
import csv
import json
import logging
import os
import re
import signal
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
from bench import add_results, add_settings, write_results
from numpy.typing import NDArray
from strange_flows import Draw, askew, even_log, out_of_time, settings_of, steady

from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.domain.nodes import Nodes
from solver.run.divergence import DivergenceError
from solver.run.plan import make_plan
from solver.run.settings import SolveSettings
from solver.run.solve import solve
from solver.run.units import ROWS_PER_CYCLE
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.support.random_sacs import with_side_wall_sac
from tests.support.stability_matrix import of_shape, on_lattice
from tests.support.stability_runs import diverged, ended
from tests.support.swept import forked

LOG = logging.getLogger("drawn-outlets")
Values = dict[str, Any]
Reals = NDArray[np.float64]

MOST_UPDATES = 2e8
"""Of nodes, that a run is expected to take at most."""
WAVES = ("common-carotid", "internal-carotid-synthetic", "thoracic-aorta", "reversing", "cosine")
OUTLETS = ("windkessels", "derived", "two", "resistances", "mixed", "shares", "pressures")
PRESSURES_MMHG = (0.3, 30.0)
"""Between which a mean pressure is drawn: resistances that belong to low ones ask for no short time steps."""


# ---- vessels ---------------------------------------------------------------------------------------------------------


def vessel(rng: Draw, kind: str) -> Callable[[], Nodes]:
    """What builds a vessel."""
    d, across = even_log(rng, 2, 12), rng.uniform(8, 10)
    if kind == "pipe":
        shape = {"shape": "pipe", "diameter_mm": d, "length_mm": d * rng.uniform(1.5, 6), "direction": askew(rng)}
        return partial(of_shape(shape), d / across)
    if kind == "taper":
        shape = {
            "shape": "nozzle",
            "inlet_diameter_mm": d * rng.uniform(1.1, 1.8),
            "diameter_mm": d,
            "outlet_diameter_mm": d,
            "inlet_mm": 0.5 * d,
            "cone_mm": d * rng.uniform(2, 5),
            "throat_mm": 0.5 * d,
            "outlet_mm": 0.5 * d,
            "direction": askew(rng),
        }
        return partial(of_shape(shape), d / across)
    if kind == "sac":
        return partial(with_sac, int(rng.integers(10**6)), across)
    if kind == "fork":
        daughters = [
            {"name": name, "length_mm": d * rng.uniform(1.2, 4), "angle_deg": rng.uniform(20, 70)}
            for name in ("left", "right")
        ]
        daughters[0]["diameter_mm"] = d * rng.uniform(0.6, 0.85)
        shape = {"shape": "bifurcation", "diameter_mm": d, "length_mm": 1.5 * d, "daughters": daughters}
        return partial(of_shape({**shape, "direction": askew(rng)}), 0.8 * d / across)
    count = int(rng.integers(3, 5))
    turn = rng.uniform(0, 2 * np.pi)
    tubes = [("inlet", "inlet", np.array([0.0, 0.0, -1.6 * d]), d / 2)]
    for k in range(count):
        angle, at = np.radians(rng.uniform(45, 70)), turn + 2 * np.pi * k / count
        way = np.array([np.sin(angle) * np.cos(at), np.sin(angle) * np.sin(at), np.cos(angle)])
        tubes.append((f"branch_{k + 1}", "outlet", d * rng.uniform(1.4, 2.6) * way, d * rng.uniform(0.3, 0.4)))
    return partial(of_tubes, tubes, d / 18, 0.7 * d / across)


def of_tubes(tubes: list[Any], grid_mm: float, spacing_mm: float) -> Nodes:
    """A vessel of straight tubes that meet."""
    mesh, openings = forked(tubes, grid_mm)
    return on_lattice(mesh, openings, spacing_mm)


def with_sac(seed: int, across: float) -> Nodes:
    """A vessel with a sac at its side, so many nodes across."""
    drawn = with_side_wall_sac(seed)
    return on_lattice(drawn.mesh, drawn.openings, 2 * drawn.radius_mm / across)


# ---- flows and what is behind outlets --------------------------------------------------------------------------------


def write_wave(name: str, period_s: float, mean_ml_s: float, path: Path) -> str:
    """A waveform of the project with another period and mean; the path of its file."""
    source = "common-carotid" if name == "reversing" else name
    with (ROOT / "data/waveforms" / f"{source}.csv").open(encoding="utf-8") as stream:
        rows = [row for row in csv.reader(stream) if row and not row[0].startswith("#")][1:]
    time_s, flow = np.array(rows, float).T
    if name == "reversing":
        flow = flow - 0.7 * np.trapezoid(flow, time_s) / np.ptp(time_s)
    flow = flow / (np.trapezoid(flow, time_s) / np.ptp(time_s)) * mean_ml_s
    flow[-1] = flow[0]
    table = np.column_stack((time_s / time_s[-1] * period_s, flow))
    np.savetxt(path, table, fmt="%.9g", delimiter=",", header="time_s,flow_ml_s", comments="")
    return str(path)


def behind(rng: Draw, kind: str, total: float, period_s: float) -> Values:
    """What is behind one outlet, whose resistance is to be about this, mmHg s/mL."""
    if kind == "derived":
        vessels = {"time_constant_s": period_s * even_log(rng, 0.01, 30)}
        return {"pressure_mmhg": even_log(rng, *PRESSURES_MMHG), "windkessel": vessels, "flow_fraction": "murray"}
    total *= even_log(rng, 0.3, 3)
    if kind == "resistances":
        return {"windkessel": {"elements": 2, "distal_mmhg_s_ml": total, "compliance_ml_mmhg": 0.0}}
    proximal = 0.0 if kind == "two" else total * even_log(rng, 1e-4, 0.8)
    vessels = {"elements": 2} if kind == "two" else {"proximal_mmhg_s_ml": proximal}
    distal, constant = total - proximal, period_s * even_log(rng, 0.01, 30)
    vessels |= {"distal_mmhg_s_ml": distal, "compliance_ml_mmhg": constant / distal}
    if rng.random() < 0.3:
        vessels["distal_pressure_mmhg"] = rng.uniform(0, 3)
    return {"windkessel": vessels}


def outlets_of(rng: Draw, kind: str, names: list[str], flow_ml_s: float, period_s: float) -> Values:
    """Section ``outlets`` of a case."""
    mmhg = even_log(rng, *PRESSURES_MMHG)
    each_mmhg_s_ml = mmhg / flow_ml_s * len(names)
    if kind == "pressures":
        return {name: {"pressure_mmhg": mmhg + rng.uniform(0, 0.3)} for name in names}
    if kind == "shares":
        parts = rng.dirichlet(np.full(len(names), 6.0))
        return {name: {"flow_fraction": float(each)} for name, each in zip(names, parts, strict=True)}
    if kind == "mixed":
        first = "two" if rng.random() < 0.5 else "windkessels"
        found = {names[0]: behind(rng, first, each_mmhg_s_ml, period_s)}
        for name in names[1:]:
            other = str(rng.choice(["pressure", "share", "resistances"]))
            if other == "pressure":
                found[name] = {"pressure_mmhg": mmhg * rng.uniform(0.9, 1.1)}
            elif other == "share":
                found[name] = {"flow_fraction": rng.uniform(0.5, 0.9) / len(names)}
            else:
                found[name] = behind(rng, "resistances", each_mmhg_s_ml, period_s)
        return found
    return {name: behind(rng, kind, each_mmhg_s_ml, period_s) for name in names}


def drawn(rng: Draw, kind: str, only: str | None, folder: Path) -> tuple[Nodes, Values] | None:
    """Nodes and section ``solve`` of a case; none of a flow that is not asked for."""
    build, reynolds = vessel(rng, kind), even_log(rng, 5, 400)
    wave = "steady" if rng.random() < 0.35 else str(rng.choice(WAVES))
    if only and only != ("steady" if wave == "steady" else "pulsing"):
        return None
    nodes, period_s = build(), 1.0 if wave == "steady" else even_log(rng, 0.05, 2)
    given = steady(nodes, reynolds, rng.uniform(2.5e-3, 5e-3))
    ((inlet, entry),) = given["inlets"].items()
    names = [opening.name for opening in nodes.openings if opening.role == "outlet"]
    choice = [each for each in OUTLETS if len(names) > 1 or each not in ("mixed", "shares", "pressures")]
    outlets = outlets_of(rng, str(rng.choice(choice)), names, entry["flow_ml_s"], period_s)
    if wave != "steady":
        given["inlets"] = {inlet: {"waveform": write_wave(wave, period_s, entry["flow_ml_s"], folder / "wave.csv")}}
    elif rng.random() < 0.5:
        given["start"] = str(rng.choice(["rest", "coarse"]))
    return nodes, given | {"outlets": outlets}


# ---- what is right ---------------------------------------------------------------------------------------------------


def impedance(imposed: Values, omega: Reals) -> NDArray[np.complex128]:
    """Z = Rp + Rd/(1 + i omega Rd C), mmHg s/mL."""
    lag = 1j * omega * imposed["time_constant_s"]
    return np.asarray(imposed["proximal_mmhg_s_ml"] + imposed["distal_mmhg_s_ml"] / (1 + lag))


def errors(summary: Values, folder: Path) -> Values:
    """``mean_error`` and ``wave_error`` of a run, see the module, and where they are largest."""
    period_s = summary["numbers"].get("period_s")
    found: Values = {"mean_error": 0.0, "where": "", "wave_error": 0.0, "wave_where": ""}
    with (folder / "monitor.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))[-ROWS_PER_CYCLE:]
    openings = summary["openings"]
    inflow = sum(each["flow_ml_s"] for each in openings.values() if each["role"] == "inlet")
    mmhg, flow = (
        {name: scale * np.array([float(row[f"{key}:{name}"]) for row in rows]) for name in openings}
        for key, scale in (("pressure_pa", 1 / PASCAL_PER_MMHG), ("flow_ml_s", 1.0))
    )
    widest = max(map(np.ptp, mmhg.values()))
    for name, each in openings.items():
        if each["role"] == "inlet":
            continue
        imposed, pressure = each["imposed"], each["pressure_pa"] / PASCAL_PER_MMHG
        if behind := "distal_mmhg_s_ml" in imposed:
            resistance = imposed["proximal_mmhg_s_ml"] + imposed["distal_mmhg_s_ml"]
            wanted = imposed["distal_pressure_mmhg"] + resistance * each["flow_ml_s"]
            error = abs(pressure - wanted) / max(abs(wanted), abs(pressure))
        elif imposed.get("demanded"):
            error = abs(each["flow_ml_s"] - imposed["flow_fraction"] * inflow) / inflow
        else:
            error = abs(pressure - imposed["pressure_mmhg"]) / max(abs(imposed["pressure_mmhg"]), 1.0)
        if error > found["mean_error"]:
            found |= {"mean_error": error, "where": name}
        if period_s and behind:
            waves = np.fft.rfft(flow[name])
            waves *= impedance(imposed, 2 * np.pi / period_s * np.arange(len(waves)))
            apart = mmhg[name] - np.fft.irfft(waves, len(rows))
            error = float(np.abs(apart - apart.mean()).max() / widest)
            if error > found["wave_error"]:
                found |= {"wave_error": error, "wave_where": name}
    return found


def once(nodes: Nodes, wanted: SolveSettings, folder: Path, minutes: float) -> Values:
    """How a run ended, and whether it is right."""
    signal.signal(signal.SIGPROF, out_of_time)
    signal.setitimer(signal.ITIMER_PROF, 60 * minutes)  # of the processor, which others may share
    record: Values = {"nodes": nodes.count}
    try:
        summary = solve(nodes, wanted, folder / "flow.vtkhdf", folder / "monitor.csv", LOG)
        record |= ended(summary, folder, nodes) | errors(summary, folder)
        record |= {"state": summary["state"], "cycles": summary["cycles"], "start": summary["start"]["kind"]}
        record |= {"varying_steps": summary["forecast"]["varying_steps"], "openings": summary["openings"]}
        record |= {"unsettled": summary["unsettled"], "warnings": summary["warnings"]}
    except TimeoutError:
        record["outcome"] = "out of time"
    except DivergenceError as error:
        record |= diverged(error, nodes)
    except StageError as error:
        record |= {"outcome": "refused", "message": str(error)}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return record


ADVICE: tuple[tuple[str, str, Callable[[str], Any]], ...] = (
    (r"raise solve\.cycles to (\d+)", "cycles", int),
    (r"about (\d+) cycles of .*; raise it", "cycles", int),
    (r"raise solve\.max_steps to (\d+)", "max_steps", int),
    (r"solve\.lattice_speed ([\d.e-]+) \(now", "lattice_speed", float),
    (r"peak speed ([\d.e-]+) m/s is well above", "peak_speed_m_s", float),
)
"""What messages advise: their words, the setting, and its type."""


def advised(texts: list[str], wanted: SolveSettings) -> Values:
    """The first setting that is advised and is not set yet."""
    for text in texts:
        for words, key, kind in ADVICE:
            if (said := re.search(words, text)) and getattr(wanted, key) != kind(said[1]):
                return {key: kind(said[1])}
    return {}


def run(number: int, options: argparse.Namespace) -> Values | None:
    """Draw a flow, run it, and follow what is advised; none of a flow that is not asked for."""
    kind = ("pipe", "fork", "taper", "star", "sac")[number % 5]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            found = drawn(np.random.default_rng([options.seed, number]), kind, options.only, folder)
            if not found:
                return None
            nodes, given = found
            wanted = replace(settings_of(given), **dict(options.set))
            plan = make_plan(nodes, wanted)
        except StageError as error:
            return {"outcome": "refused", "message": str(error)}
        named = json.loads(json.dumps(given).replace(f"{folder}/", ""))
        known: Values = {"solve": named, "planned_steps": plan.expected_steps, "spacing_mm": nodes.spacing_mm}
        if (updates := plan.expected_steps * nodes.count) > MOST_UPDATES:
            return known | {"nodes": nodes.count, "outcome": "left out", "updates": updates}
        record = known | once(nodes, wanted, folder, options.minutes)
        record["followed"] = followed(
            record, wanted, options.follow, lambda changed: once(nodes, changed, folder, 3 * options.minutes)
        )
        return record


def followed(
    record: Values, wanted: SolveSettings, most: int, again: Callable[[SolveSettings], Values]
) -> list[Values]:
    """What each piece of advice in turn leads to.

    Parameters
    ----------
    record : of the first run.
    wanted : its settings.
    most : pieces of advice that are followed.
    again : runs with other settings.
    """
    found = list[Values]()
    for _ in range(most):
        texts = [text for text in [record.get("unsettled"), *record.get("warnings", [])] if text]
        if not (change := advised(texts, wanted)):
            break
        wanted = replace(wanted, **change)
        record = again(wanted)
        found.append({"advice": change, **record})
    return found


def shown(record: Values) -> str:
    """A record in a line."""
    keys = ("state", "steps", "forecast_steps", "likely_steps", "cycles", "mean_error", "where", "wave_error", "start")
    found = [f"{record[key]:.3g}" if isinstance(record.get(key), float) else str(record.get(key)) for key in keys]
    texts = (record.get("fallbacks"), str(record.get("message", ""))[:700])
    return " ".join([str(record["outcome"]), *found, *(str(each) for each in texts)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--only", choices=("steady", "pulsing"), help="flows of this kind")
    parser.add_argument("--minutes", type=float, default=1.5, help="of each run, at most")
    parser.add_argument("--follow", type=int, default=2, help="most pieces of advice that are followed")
    add_settings(parser)
    add_results(parser)
    options = parser.parse_args()
    found = []
    for number in range(options.first, options.first + options.count):
        if not (ran := run(number, options)):
            continue
        found.append(record := {"name": f"{options.seed}-{number}", **ran})
        print(record["name"], shown(record), flush=True)
        for each in record.get("followed", []):
            print("   ", each["advice"], shown(each), flush=True)
        write_results(options, "drawn-outlets", found)


if __name__ == "__main__":
    main()
