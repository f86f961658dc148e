# SPDX-License-Identifier: Apache-2.0
"""Memory of each rank against its share of that of one process.

    make mpi
    python benchmarks/rank_memory.py --nodes 1e6 --ranks 1 2 4 --json results.json

A tree of vessels with a steady inflow is solved for some steps by one process and by ranks, as a case is: node arrays,
divided for so many, are read, a state is kept on the way, the flow file is written. The most that each process held at
a time, less what it holds for a tree of few nodes, which is that of its libraries, is its memory for the nodes; its
share is that of one process over the number of ranks.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import numpy as np  # noqa: E402
from bench import provenance  # noqa: E402
from vessel_tree import vessel_tree  # noqa: E402

from solver.domain.nodes import save  # noqa: E402
from solver.domain.partition import partition  # noqa: E402
from solver.ranks import rank  # noqa: E402
from solver.ranks.launch import command_line, environment  # noqa: E402
from solver.ranks.versions import versions  # noqa: E402
from solver.run.settings import InletSettings, OutletSettings, SolveSettings  # noqa: E402
from solver.runtime.memory import peak_memory_mb  # noqa: E402

FEW = 3e4
"""Nodes of the tree that tells what libraries take: little beside them, but with all that is done."""


def settings(ranks: int, steps: int, precision: str, velocity_set: str, begins: str = "rest") -> SolveSettings:
    """Of a steady flow whose state is kept between its rows, so many steps long."""
    return SolveSettings(
        density_kg_m3=1060.0,
        viscosity_pa_s=3.5e-3,
        inlets={"*": InletSettings(10.0, None, "parabolic")},
        outlets={"*": OutletSettings(0.0)},
        backend="cpu",
        precision=precision,
        collision="auto",
        walls="bouzidi",
        lattice_speed=0.05,
        peak_speed_m_s=None,
        ramp_s=None,
        steady_tolerance=1e-9,
        cycles=3,
        max_steps=steps,
        snapshots=5,
        unsettled="report",
        start=begins,
        velocity_set=velocity_set,
        ranks=ranks,
    )


def peaks_mb(folder: Path, nodes: Path, ranks: int, arguments: argparse.Namespace) -> list[float]:
    """The most that each of so many ranks held at a time."""
    wanted = asdict(settings(ranks, arguments.steps, arguments.precision, arguments.velocity_set, arguments.start))
    flow, monitor, summary = (str(folder / name) for name in ("flow.vtkhdf", "monitor.csv", "solve.json"))
    kept = str(folder / "checkpoint")
    task = rank.Task(versions(), wanted, str(nodes), None, flow, monitor, summary, kept, "", 0.0)
    command = [*command_line(ranks, None), sys.executable, __file__, "--task", task.text(), "--folder", str(folder)]
    shutil.rmtree(kept, ignore_errors=True)  # or it would go on from the state that the run before has kept
    done = subprocess.run(command, env=environment(ranks), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout[-4000:])
    return [json.loads((folder / f"{number}.json").read_text()) for number in range(ranks)]


def work(task: dict[str, Any], folder: Path) -> None:
    """What each rank does."""
    rank.run(task)
    number = rank.world().rank
    (folder / f"{number}.json").write_text(json.dumps(peak_memory_mb()["peak_memory_mb"]))


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Peaks of each number of ranks, and what they are beyond their share: an even one, and that of their own nodes."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corners = arguments.velocity_set == "D3Q27"
        made = {count: vessel_tree(count, corners=corners) for count in (FEW, arguments.nodes)}
        nodes = made[arguments.nodes].count
        own_mb: list[list[float]] = []
        for ranks in dict.fromkeys([1, *arguments.ranks]):
            parts = {count: partition(each, ranks) for count, each in made.items()}  # as decompose divides it
            files = {count: folder / f"{count:.0f}.h5" for count in made}
            for count, each in made.items():
                save(replace(each, part=parts[count]), files[count])
            # what runs first may compile, which takes up to a hundred megabytes: more ranks have the loops of two
            first = [*files.values()] if len(own_mb) < 2 else [files[FEW]]
            for file in first:
                peaks_mb(folder, file, ranks, arguments)
            libraries, peaks = (peaks_mb(folder, file, ranks, arguments) for file in files.values())
            own_mb.append([peak - base for peak, base in zip(peaks, libraries, strict=True)])
            own_nodes = np.bincount(parts[arguments.nodes]).tolist()
            found[f"{ranks} ranks"] = {
                "nodes": own_nodes,
                "libraries_mb": libraries,
                "peaks_mb": peaks,
                "bytes_a_node_of_all": [round(2**20 * each / nodes, 1) for each in own_mb[-1]],
                "over_share": [round(each * ranks / own_mb[0][0], 3) for each in own_mb[-1]],
                "over_that_of_own_nodes": [
                    round(each / own_mb[0][0] * nodes / count, 3)
                    for each, count in zip(own_mb[-1], own_nodes, strict=True)
                ],
            }
            print(ranks, json.dumps(found[f"{ranks} ranks"]), flush=True)
    return {**provenance(arguments), "nodes": nodes, "steps": arguments.steps, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=float, default=1e6)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--steps", type=int, default=40, help="of each run, even")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--velocity-set", default="D3Q19")
    parser.add_argument("--start", default="rest", choices=("rest", "coarse"), help="of the flow")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--commit", help="of what is measured, where git cannot tell it")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        work(json.loads(arguments.task), arguments.folder)
        return
    results = measure(arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
