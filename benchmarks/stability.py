# SPDX-License-Identifier: Apache-2.0
"""Stability of the solver: what each flow of tests/support/stability_matrix.py ends in, and what it is worth.

    python benchmarks/stability.py make --folder matrix
    python benchmarks/stability.py run --folder matrix --lines matrix/runs.jsonl --workers 8
    python benchmarks/stability.py tell --lines matrix/runs.jsonl

The first builds the lattices and the settings, for which it needs all packages; the second runs them, for which NumPy,
Numba and h5py suffice, leaving out what its file of lines holds, so that a stopped run goes on; the third keeps the
results in benchmarks/results and prints them as a table. Some flows, by default the steady ones through small shapes,
are also run at half the spacing, up to the same time, to tell what the others are worth.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]
os.environ.setdefault("NUMBA_NUM_THREADS", "1")  # flows are small: several at once, each on a core, are best

from bench import default_file, provenance  # noqa: E402
from comparison import table  # noqa: E402

from solver.domain import nodes as node_file  # noqa: E402
from solver.run.settings import parse  # noqa: E402
from solver.run.units import words  # noqa: E402
from tests.support.stability_runs import record_of  # noqa: E402

FINER = "(pipe|bend|fork|stenosis|step|slab|cavity-24)-steady-.*"
"""Flows that are run at half the spacing, too."""
Job = dict[str, Any]


def make(options: argparse.Namespace) -> None:
    """Write lattices, waveforms, and the list of jobs with their settings."""
    from tests.support.stability_matrix import VESSELS, flows, nodes_of, settings_of

    options.folder.mkdir(parents=True, exist_ok=True)
    os.environ["HEMO_MATRIX"] = str(options.folder)
    jobs = []
    for entry in flows():
        vessel = VESSELS[entry.vessel]
        if vessel.absent:
            print(f"{entry.name}: left out, {vessel.absent}")
            continue
        for times in (1, 2) if re.fullmatch(options.finer, entry.name) else (1,):
            spacing_mm = vessel.spacing_mm / times
            nodes, wave = nodes_of(entry.vessel, spacing_mm), options.folder / f"{entry.name}.csv"
            settings = settings_of(entry, nodes, wave)
            given = asdict(settings)
            for inlet in given["inlets"].values():
                inlet["waveform"] = inlet["waveform"] and wave.name
            name = f"{entry.name}-finer" if times > 1 else entry.name
            lattice = f"{entry.vessel}-{spacing_mm:.5g}.h5"
            jobs.append({"name": name, **asdict(entry), "times": times, "nodes": lattice, "settings": given})
    (options.folder / "jobs.json").write_text(json.dumps(jobs, indent=1))
    print(f"{len(jobs)} jobs in {options.folder}")


def work(folder: Path, job: Job, overrides: dict[str, Any]) -> dict[str, Any]:
    """Record of a job."""
    nodes, settings = node_file.load(folder / job["nodes"]), parse(job["settings"])
    inlets = {
        name: replace(inlet, waveform=inlet.waveform and str(folder / inlet.waveform))
        for name, inlet in settings.inlets.items()
    }
    settings = replace(settings, inlets=inlets, **overrides)
    if settings.max_steps is not None:
        settings = replace(settings, max_steps=job["times"] * settings.max_steps)  # up to the same time
    with tempfile.TemporaryDirectory() as temporary:
        found = record_of(nodes, settings, Path(temporary))
    return {key: job[key] for key in ("name", "vessel", "flow", "grid_reynolds")} | {"overrides": overrides} | found


def run(options: argparse.Namespace) -> None:
    """Run the jobs that are not among the lines yet."""
    jobs = json.loads((options.folder / "jobs.json").read_text())
    done = {line["name"] for line in read(options.lines)} if options.lines.exists() else set()
    left = [job for job in jobs if job["name"] not in done and re.fullmatch(options.only, job["name"])]
    overrides = {"backend": options.backend} | dict(options.set)
    with ProcessPoolExecutor(options.workers) as workers, options.lines.open("a", encoding="utf-8") as lines:
        for finished in as_completed([workers.submit(work, options.folder, job, overrides) for job in left]):
            record = finished.result()
            lines.write(json.dumps(record) + "\n")
            lines.flush()
            print(f"{record['name']}: {record['outcome']} after {record.get('steps')} steps", flush=True)


def read(lines: Path) -> list[dict[str, Any]]:
    """Records of a file of lines."""
    return [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]


def lost(record: dict[str, Any], finer: dict[str, Any] | None) -> dict[str, float]:
    """Relative difference of each mean from that of the run at half the spacing, as far as both came to their end."""
    if finer is None or not {"mean"} <= record.keys() & finer.keys():
        return {}
    return {key: value / finer["mean"][key] - 1 for key, value in record["mean"].items()}


def tell(options: argparse.Namespace) -> None:
    """Keep the records with what they are worth, and print them as a table."""
    found = {record["name"]: record for record in read(options.lines)}
    records = [
        record | {"lost": lost(record, found.get(f"{name}-finer"))}
        for name, record in found.items()
        if not name.endswith("-finer")
    ]
    results = {
        **provenance(argparse.Namespace(commit=options.commit)),
        "records": records,
        "finer": [found[n] for n in found if n.endswith("-finer")],
    }
    file = options.json or default_file("stability", results["hardware"])
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(*tables(records), file, sep="\n\n")


def tables(records: list[dict[str, Any]]) -> list[str]:
    """In Markdown, vessels by grid Reynolds numbers: how flows end, and by how much they differ from finer ones."""
    numbers = sorted({record["grid_reynolds"] for record in records})
    cells: dict[str, dict[float, dict[str, Any]]] = {}
    for record in records:
        cells.setdefault(f"{record['vessel']}, {record['flow']}", {})[record["grid_reynolds"]] = record
    columns = ["flow", *(f"{number:.3g}" for number in numbers)]
    reported = ["How each ends, and after how many steps:", matrix(columns, cells, numbers, ending)]
    for key in dict.fromkeys(key for record in records for key in record["lost"]):
        known = {name: row for name, row in cells.items() if any(key in record["lost"] for record in row.values())}
        reported += [
            f"{words(key)}, against that at half the spacing:",
            matrix(columns, known, numbers, partial(loss, key)),
        ]
    return reported


def matrix(
    columns: list[str],
    cells: dict[str, dict[float, dict[str, Any]]],
    numbers: list[float],
    word: Callable[[dict[str, Any]], str],
) -> str:
    """A table with a word on each record."""
    return table(columns, [[name, *(word(row[n]) if n in row else "" for n in numbers)] for name, row in cells.items()])


def ending(record: dict[str, Any]) -> str:
    """Of a run."""
    return f"{record['outcome']}, {record['steps']:,}" if "steps" in record else record["outcome"]


def loss(key: str, record: dict[str, Any]) -> str:
    """Of a mean."""
    return f"{record['lost'][key]:+.1%}" if key in record["lost"] else ""


def setting(given: str) -> tuple[str, Any]:
    """Key and value of ``key=value``, the value as JSON where it is some."""
    key, _, value = given.partition("=")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for command in (make, run, tell):
        added = commands.add_parser(command.__name__, help=command.__doc__)
        added.set_defaults(command=command)
        if command is not tell:
            added.add_argument("--folder", type=Path, required=True, help="of lattices, waveforms and the list of jobs")
        if command is make:
            added.add_argument("--finer", default=FINER, help="regular expression: flows run at half the spacing, too")
        else:
            added.add_argument("--lines", type=Path, required=True, help="file of JSON, a line a run")
        if command is run:
            added.add_argument("--only", default=".*", help="regular expression that names of jobs fit as a whole")
            added.add_argument(
                "--set", type=setting, action="append", default=[], help="key=value of solve, repeatable"
            )
            added.add_argument("--backend", default="cpu", choices=("cpu", "cuda"))
            added.add_argument("--workers", type=int, default=1, help="processes")
        if command is tell:
            added.add_argument("--json", type=Path, help="file for the results; default: in benchmarks/results by date")
            added.add_argument("--commit", help="of what was run, where git cannot tell it")
    options = parser.parse_args()
    options.command(options)


if __name__ == "__main__":
    main()
