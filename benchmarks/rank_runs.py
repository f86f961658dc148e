# SPDX-License-Identifier: Apache-2.0
"""Whole runs of one lattice on 1, 2, 4, ... ranks leave the same files, also where a rank was lost on the way.

    make mpi
    python benchmarks/rank_runs.py --nodes 2e6 --steps 120000 --ranks 2 4 --json results.json

A tree of vessels with a steady inflow is solved, as a case is, by the stage's own command. Then, once a state
is kept, one rank of the most is killed, one is stopped, and the whole is asked to end: told are the seconds until the
command ended and its last words; each run goes on with another number of ranks. Ends with status 1 where files differ.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from itertools import cycle
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from bench import default_file, provenance  # noqa: E402
from rank_memory import settings  # noqa: E402
from vessel_tree import vessel_tree  # noqa: E402

from solver.domain.nodes import save  # noqa: E402
from solver.domain.partition import partition  # noqa: E402
from solver.ranks import rank  # noqa: E402

COMPARED = ("flow.vtkhdf", "monitor.csv")
FAULTS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP, "asked to end": signal.SIGTERM}
"""What happens to a rank, or, in the last, to the command itself."""
LOOK_S = 0.05


def command(folder: Path, nodes: Path, ranks: int, arguments: argparse.Namespace) -> list[str]:
    """The stage's, with its outputs in a folder."""
    wanted = settings(ranks, arguments.steps, arguments.precision, arguments.velocity_set, arguments.start)
    wanted = replace(wanted, backend=arguments.backend)
    outputs = {"flow": "flow.vtkhdf", "monitor": "monitor.csv", "summary": "solve.json", "checkpoint": "checkpoint"}
    outputs["provenance"] = "provenance.json"
    paths = [text for name, file in outputs.items() for text in (f"--{name}", str(folder / file))]
    minutes = ["--checkpoint-minutes", str(arguments.checkpoint_seconds / 60)]
    given = ["--nodes", str(nodes), "--settings", json.dumps(asdict(wanted))]
    return [sys.executable, "-m", "solver", *given, *paths, *minutes]


def digests(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in COMPARED}


def whole(folder: Path, nodes: Path, ranks: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """A run from its start, or from what is kept, to its end."""
    folder.mkdir(exist_ok=True)
    begin = time.monotonic()
    done = subprocess.run(
        command(folder, nodes, ranks, arguments), cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr[-4000:])
    found = {"ranks": ranks, "seconds": round(time.monotonic() - begin, 1), "files": digests(folder)}
    return found | {"said": [line for line in done.stderr.splitlines() if "device to device" in line or "host" in line]}


def ranks_of(process: int) -> list[int]:
    """Numbers of the processes that are ranks of a command, in their order."""
    parents, found = {}, []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if (
                rank.__name__ in (entry / "cmdline").read_text().split("\0")
                and "mpirun" not in (entry / "comm").read_text()
            ):
                found.append(int(entry.name))
        except OSError:  # it has ended
            continue

    def descends(number: int) -> bool:
        while number and number != process:
            number = parents.get(number, 0)
        return number == process

    return sorted(filter(descends, found))


def broken_off(folder: Path, nodes: Path, ranks: int, fault: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """A run that loses a rank, or is asked to end, once it has kept a state; how long it took to say so, and how."""
    folder.mkdir()
    given = command(folder, nodes, ranks, arguments)
    with (folder / "log").open("w+") as log, subprocess.Popen(given, cwd=ROOT, stderr=log) as process:
        while process.poll() is None and not list(folder.glob("checkpoint/*.h5")):
            time.sleep(LOOK_S)
        hit = process.pid if fault == "asked to end" else ranks_of(process.pid)[-1]
        begin = time.monotonic()
        os.kill(hit, FAULTS[fault])
        status = process.wait()
        took = time.monotonic() - begin
        log.seek(0)
        words = log.read().splitlines()[-1:]
    return {"fault": fault, "ranks": ranks, "seconds": round(took, 1), "status": status, "words": words}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Whole runs, then such that are broken off and go on."""
    found: dict[str, Any] = {"runs": [], "broken off": []}
    most = max(arguments.ranks)
    with tempfile.TemporaryDirectory() as name:
        folder, tree = Path(name), vessel_tree(arguments.nodes)
        found["nodes"] = tree.count
        for ranks in (1, *arguments.ranks):
            nodes = folder / f"nodes-{ranks}.h5"
            save(replace(tree, part=partition(tree, ranks)), nodes)
            row = whole(folder / f"{ranks}", nodes, ranks, arguments)
            found["runs"].append(row | {"same": row["files"] == digests(folder / "1")})
            print(json.dumps(found["runs"][-1]), flush=True)
        nodes = folder / f"nodes-{most}.h5"
        for fault, then in zip(FAULTS, cycle(sorted(arguments.ranks)), strict=False):
            row = broken_off(folder / fault, nodes, most, fault, arguments)
            row |= {"went on": whole(folder / fault, nodes, then, arguments)}
            found["broken off"].append(row | {"same": row["went on"]["files"] == digests(folder / "1")})
            print(json.dumps(found["broken off"][-1]), flush=True)
    return {**provenance(arguments), **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=float, default=2e6)
    parser.add_argument("--steps", type=int, default=120_000, help="of each run, even")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--backend", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--velocity-set", default="D3Q19")
    parser.add_argument("--start", default="rest", choices=("rest", "coarse"), help="of the flow")
    parser.add_argument("--checkpoint-seconds", type=float, default=3.0, help="between two states that are kept")
    parser.add_argument("--json", type=Path, help="file for the results; default: in benchmarks/results by the date")
    parser.add_argument("--commit", help="of what is measured, where git cannot tell it")
    arguments = parser.parse_args()
    results = measure(arguments)
    file = arguments.json or default_file("rank-runs", results["hardware"])
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(file)
    if not all(row["same"] for row in results["runs"] + results["broken off"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
