# SPDX-License-Identifier: Apache-2.0
"""Pulses in real vessels, drawn at random: what becomes periodic, what only varies, and whether the advice holds.

    python benchmarks/pulses_in_vessels.py 77 --settings solve.json \\
        --nodes aneurysm=a/nodes.h5 carotid=c/nodes.h5 --flows 2.5-10 1.5-5

Takes node arrays of vessels (`nodes.h5` of the workflow). Flow, waveform, time constant of the Windkessels, or
pressures in their place, and the cycles that a flow may have are drawn. A flow that is refused with a number of cycles
is run again with that. Keeps, of each, differences between successive cycles, mean speeds of the cycles, and what was
said. Needs NumPy, Numba and h5py alone.
"""

import argparse
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from bench import ROOT, add_results, write_results

WAVEFORMS = ("common-carotid-of-2-mm", "internal-carotid-synthetic", "common-carotid", "adan56-carotid")
ADVICE = re.compile(r"not periodic: .* raise solve\.cycles to (\d+)")
SHOWN = ("cycles", "advised cycles", "unsteady")
MOST_CYCLES = 40
"""With more the advice is not followed."""


def draw(rng: random.Random, given: dict[str, Any], least_ml_s: float, most_ml_s: float) -> dict[str, Any]:
    """Settings of a flow; what is not drawn is as in those given, which have one inlet and Windkessels."""
    inlet, outlet = given["inlets"]["*"], given["outlets"]["*"] | {"windkessel": None}
    if rng.random() < 0.7:
        outlet["windkessel"] = given["outlets"]["*"]["windkessel"] | {
            "time_constant_s": round(rng.uniform(0.2, 1.5), 2)
        }
    flow: dict[str, Any] = {"flow_ml_s": round(rng.uniform(least_ml_s, most_ml_s), 2)}
    flow["waveform"] = f"data/waveforms/{rng.choice(WAVEFORMS)}.csv"
    few = {"cycles": rng.choice([5, 6, 8]), "snapshots": 4, "unsettled": "report"}
    return given | {"inlets": {"*": inlet | flow}, "outlets": {"*": outlet}} | few


def run(nodes: Path, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Solve a flow; what is kept of it."""
    outputs = {"flow": "flow.vtkhdf", "monitor": "monitor.csv", "summary": "solve.json", "provenance": "solve.p.json"}
    files = [word for name, file in outputs.items() for word in (f"--{name}", str(folder / file))]
    command = [sys.executable, "-m", "solver", "--nodes", str(nodes), *files, "--settings", json.dumps(settings)]
    subprocess.run([*command, "--log", str(folder / "solve.log")], cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
    return of_run(folder)


def of_run(folder: Path) -> dict[str, Any]:
    """What is kept of a flow whose outputs lie in a folder."""
    summary = json.loads((folder / "solve.json").read_text())
    rows = np.genfromtxt(folder / "monitor.csv", delimiter=",", names=True)
    cycles = round(summary["cycles"])
    speed, change = (rows[name].reshape(cycles, -1) for name in ("mean_speed_m_s", "change"))
    apart = np.where(np.isfinite(change), change * speed, 0).sum(axis=1) / speed.mean(axis=1)
    log = (folder / "solve.log").read_text()
    advised = ADVICE.search(log)
    return {
        "cycles": cycles,
        "unsteady": summary["unsteady"],
        "advised cycles": int(advised[1]) if advised else None,
        "not periodic": "not periodic" in log,
        "differences between cycles": np.round(apart[1:], 4).tolist(),
        "mean speed of cycles, of the last": np.round(speed.mean(axis=1) / speed[-1].mean(), 4).tolist(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("--nodes", nargs="+", required=True, help="name=file of the node arrays of a vessel")
    parser.add_argument("--flows", nargs="+", required=True, help="least-most of the mean flow in each, mL/s")
    parser.add_argument("--settings", type=Path, required=True, help="section solve of a case, as its stage has it")
    parser.add_argument("--count", type=int, default=12)
    add_results(parser)
    options = parser.parse_args()
    rng, records = random.Random(options.seed), []
    given = json.loads(options.settings.read_text())
    vessels = list(zip((each.split("=") for each in options.nodes), options.flows, strict=True))
    for number in range(options.count):
        (name, file), flows = vessels[number % len(vessels)]
        settings = draw(rng, given, *map(float, flows.split("-")))
        record = {"vessel": name, "settings": settings, "found": []}
        for _ in range(2):
            with TemporaryDirectory() as folder:
                found = run(Path(file).resolve(), settings, Path(folder))
            record["found"].append(found)
            print(
                name, settings["inlets"]["*"], found["cycles"], found["unsteady"] or "", found["advised cycles"] or ""
            )
            if not found["advised cycles"] or found["advised cycles"] > MOST_CYCLES:
                break
            settings = settings | {"cycles": found["advised cycles"]}
        records.append(record)
    print(write_results(options, "pulses-in-vessels", records))


if __name__ == "__main__":
    main()
