# SPDX-License-Identifier: Apache-2.0
"""What each stage of a whole case costs: time, processor time, memory; a table, and JSON in benchmarks/results.

    python benchmarks/whole_case.py [tiny] [demo] [aneurysm] [--nodes 4e5] [--cycles 1] [--repeats 3] [--cores 2]
    python benchmarks/whole_case.py demo --bands off quick full

Each case runs from DICOM to report by Snakemake, in a folder of its own. Loops that were compiled before are found
again; on a new clone the first run compiles, too. The aneurysm is that of `config/cases/pulsatile.yaml`, its spacing as
the wanted nodes ask for; it writes `--snapshots` of its last cycle. With several levels of bands each case runs with
each of them, and what that takes is told by what the run without bands took. A stage is measured from the start of its
process to the end, Python and imports included; of memory it is the most that the process held.

- start: seconds until the stage begins its own work, Python and imports.
- processor: seconds of user and system, of the process and of those that it waited for. On a machine with other work
  they say more than time does.
- Snakemake: what is left of the processor time of the whole run: shells, and what Python takes to end a stage, too.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from bench import default_file  # noqa: E402

from pipeline.case.settings.uncertainty import MEMBERS  # noqa: E402
from pipeline.case.settings.yaml_file import read_yaml  # noqa: E402
from pipeline.command.launch import snakemake  # noqa: E402
from solver.runtime.provenance import processor, versions  # noqa: E402

CASES = ROOT / "config" / "cases"
LARGE, LIKE = "aneurysm", "pulsatile"
LIKE_NODES = 272_342
"""Fluid nodes of the case that the aneurysm is like."""
MEASURES = ("seconds", "start", "processor", "memory_mb")

AT_EXIT = """
import atexit, json, os, resource, sys, time
BEGAN = time.time()
def measured():
    from solver.runtime.memory import peak_memory_mb
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    found = {"module": sys.orig_argv[sys.orig_argv.index("-m") + 1], "began": BEGAN, "seconds": time.time() - BEGAN,
             "processor": sum(u.ru_utime + u.ru_stime for u in used), "memory_mb": sum(peak_memory_mb().values())}
    with open(os.path.join(os.environ["MEASURED"], f"{os.getpid()}-{BEGAN}.json"), "w") as file:
        json.dump(found, file)
if any(word.startswith(("pipeline.stages.", "pipeline.members.")) or word == "solver" for word in sys.orig_argv[1:4]):
    atexit.register(measured)
"""
"""Each Python imports it when it starts, so that any state of the project can be measured, as it is."""


def case_file(name: str, level: str, options: argparse.Namespace) -> dict[str, Any]:
    """The case as its file says it, with bands of a level; the aneurysm with the spacing, cycles and snapshots that are
    asked for.
    """
    if name != LARGE:
        return read_yaml(CASES / f"{name}.yaml") | {"uncertainty": level}
    case = read_yaml(CASES / f"{LIKE}.yaml")
    across = case["voxelize"]["nodes_across"] * (options.nodes / LIKE_NODES) ** (1 / 3)
    solve = case["solve"] | {"snapshots": options.snapshots, "unsettled": "report"}
    solve |= {"cycles": options.cycles, "min_cycles": min(options.cycles, 3)}
    return case | {"voxelize": {"nodes_across": round(across)}, "solve": solve, "uncertainty": level}


def write_case(name: str, level: str, folder: Path, options: argparse.Namespace) -> None:
    """Write the case file that is to run in a folder."""
    cases = folder / "cases"
    cases.mkdir(parents=True)
    (cases / f"{name}.yaml").write_text(json.dumps(case_file(name, level, options)))


def run(name: str, folder: Path, cores: int, asked: Iterable[str] = ()) -> dict[str, Any]:
    """Run the case of a folder; what the run and each stage took.

    Parameters
    ----------
    name : of the case.
    folder : where its case file lies and results are to.
    cores : how many.
    asked : options and results of Snakemake; none: all of the case.
    """
    measured = folder / "measured"
    measured.mkdir()
    (measured / "sitecustomize.py").write_text(AT_EXIT)
    path = os.pathsep.join(filter(None, (str(measured), os.environ.get("PYTHONPATH"))))
    settings = {"cases": name, "case_folder": str(folder / "cases")}
    command = snakemake(["--cores", str(cores)], settings) + list(asked)
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"PYTHONPATH": path, "MEASURED": str(measured)}, capture_output=True
    )
    seconds, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{name}:\n{done.stderr.decode(errors='replace')[-4000:]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    results = folder / "results" / name
    stages = by_stage([json.loads(file.read_text()) for file in measured.glob("*.json")], results)
    shutil.rmtree(measured)
    return {
        "nodes": nodes_of(results),
        "seconds": seconds,
        "processor": used,
        "snakemake": used - sum(stage["processor"] for stage in stages.values()),
        "stages": stages,
    }


def nodes_of(results: Path) -> int:
    """Fluid nodes of a case, by what decompose noted."""
    import h5py

    with h5py.File(results / "nodes.h5") as file:
        return int(file["position"].shape[0])


def by_stage(processes: Iterable[dict[str, Any]], results: Path) -> dict[str, dict[str, float]]:
    """What stages took, in their order; of several processes, as checks before the solver or members, their sum.

    Parameters
    ----------
    processes : a record of each, by :data:`AT_EXIT`.
    results : folder of the case, where each stage left its provenance.
    """
    found: dict[str, dict[str, float]] = {}
    for process in sorted(processes, key=lambda process: process["began"]):
        stage = process["module"].rpartition(".")[2].replace("solver", "solve")
        one = found.setdefault(stage, dict.fromkeys(MEASURES, 0.0))
        for measure in ("seconds", "processor"):
            one[measure] += process[measure]
        one["memory_mb"] = max(one["memory_mb"], process["memory_mb"])
    for stage, one in found.items():
        records = [*results.glob(f"{stage}.provenance.json"), *results.glob(f"{stage}s/{stage}-*.provenance.json")]
        one["start"] = one["seconds"] - sum(json.loads(record.read_text())["seconds"] for record in records)
    return found


def middle(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of the repeats of a case, of each figure by itself."""
    stages = {
        stage: {measure: round(median(run["stages"][stage][measure] for run in runs), 2) for measure in MEASURES}
        for stage in runs[0]["stages"]
    }
    whole = {key: round(median(run[key] for run in runs), 2) for key in ("seconds", "processor", "snakemake")}
    return {"nodes": runs[0]["nodes"], **whole, "stages": stages}


def table(name: str, found: dict[str, Any]) -> str:
    """Of a case, a line a stage."""
    lines = [f"{name}, {found['nodes']:,} fluid nodes", f"{'stage':14}{'s':>9}{'start':>8}{'processor':>11}{'MB':>8}"]
    for stage, one in found["stages"].items():
        numbers = f"{one['seconds']:9.1f}{one['start']:8.1f}{one['processor']:11.1f}{one['memory_mb']:8.0f}"
        lines.append(f"{stage:14}{numbers}")
    lines.append(f"{'Snakemake':14}{'':9}{'':8}{found['snakemake']:11.1f}")
    return "\n".join([*lines, f"{'whole':14}{found['seconds']:9.1f}{'':8}{found['processor']:11.1f}", ""])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=["tiny", "demo"], help=f"of config/cases, or {LARGE}")
    parser.add_argument("--nodes", type=float, default=4e5, help="about, of the aneurysm")
    parser.add_argument("--snapshots", type=int, default=40, help="of the aneurysm")
    parser.add_argument("--cycles", type=int, default=1, help="of the aneurysm; three are usual")
    parser.add_argument("--bands", nargs="+", choices=MEMBERS, default=["off"], help="levels of bands")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, help="where results stay; else they are removed")
    parser.add_argument("--json", type=Path, help="file for the results; default: in benchmarks/results by the date")
    return parser.parse_args()


def provenance_of(options: argparse.Namespace) -> dict[str, Any]:
    """What is known before cases run, and room for them."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit.stdout.strip(),
        "hardware": {"cpu": processor(), "threads": options.cores, "system": platform.platform()},
        "versions": versions(),
        "options": {name: value for name, value in vars(options).items() if not isinstance(value, Path)},
        "cases": {},
    }


def main() -> None:
    options = parse()
    results = provenance_of(options)
    file = options.json or default_file("whole-case", results["hardware"])
    with tempfile.TemporaryDirectory() as scratch:
        where = options.folder or Path(scratch)
        for name, level in product(options.cases, options.bands):
            load, title = os.getloadavg()[0], name if level == "off" else f"{name}, {level} bands"
            folders = [where / f"{name}-{level}-{number}" for number in range(options.repeats)]
            for folder in folders:
                write_case(name, level, folder, options)
            found = middle([run(name, folder, options.cores) for folder in folders]) | {"load_before": load}
            if first := results["cases"].get(name):
                found |= {f"by_{key}": round(found[key] / first[key], 2) for key in ("seconds", "processor")}
            results["cases"][title] = found
            print(table(title, found), flush=True)
            file.write_text(json.dumps(results, indent=1) + "\n")
    print(file)


if __name__ == "__main__":
    main()
