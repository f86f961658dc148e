# SPDX-License-Identifier: Apache-2.0
"""This solver against the algorithm that it grew from, and against lbmpy where that is installed.

    python benchmarks/comparison.py
    python benchmarks/comparison.py --tell results.json
    python benchmarks/comparison.py --sides --no-boxes --benchmarks results/collares-* --json 2026-11-22-race-h200.json

Driven cavities of Collares (2012), raced by validation/baseline_benchmark.py: BGK, single precision, seconds for 3,000
steps, and the speed-up over the work's four passes on one thread of the same machine. The work's own times, of its
sequential version and of its best one on a GPU, are beside them; `four passes, n threads` shares its passes out to
threads, which the work did not, and `four passes, GPU` launches one after the other, as it did. And a dense box of
128^3 nodes with a lid, TRT, beside lbmpy's scenario of the same, on all threads. With --benchmarks the same for cases
that were solved elsewhere, of which `nodes.h5` and `solve.provenance.json` are wanted: what studies show of a machine
that has a GPU. Prints tables in Markdown and keeps them as JSON in benchmarks/results.
"""

import argparse
import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bench import LAMBDA_TRT, TAU, default_file, provenance
from numba import get_num_threads

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from solver.backends.cuda.device import device_answers  # noqa: E402
from solver.backends.lattice import build_lattice  # noqa: E402
from solver.domain.nodes import Nodes, load  # noqa: E402
from solver.kernels.collision import relaxation_rates  # noqa: E402
from solver.run.settings import parse  # noqa: E402
from solver.run.setup import make_driver  # noqa: E402
from tests.support.geometries import nodes_from  # noqa: E402
from validation.baseline_benchmark import STEPS, entries, run_benchmark, timed  # noqa: E402
from validation.timing import steps, stirred  # noqa: E402

LID = {"lid": (0.05, 0.0, 0.0)}
PUBLISHED = {12: (14.00, 0.85), 22: (99.92, 1.65), 32: (336.28, 3.96), 42: (789.05, 8.60), 52: (1528.20, 15.86)}
"""Seconds of the work by the side of the cavity, walls included: one core of an Intel Q9450, a GeForce GTX 460."""
PUBLISHED_NAMES = "Q9450, 1 core (2012)", "GTX 460 (2012)"
SLOW = "four passes, 1 thread"
"""What speed-ups are over."""
LARGER, BOX = 102, 128
"""Sides of a cavity beyond the work's, and of the dense box."""


def cavity(side: int, distance: float) -> Nodes:
    """A closed cube of `side` nodes, its wall at this part of the last links, the upper one a lid."""
    nodes = nodes_from(
        np.ones((side, side, side), bool), lambda p, c: (np.full(len(p), distance), np.zeros(len(p), int))
    )
    x, y, z = nodes.wall_position[nodes.wall_link_wall].T
    inside = (x > 0) & (x <= side) & (y > 0) & (y <= side)
    return replace(nodes, wall_link_patch=((z > side) & inside).astype(np.int8), patches=tuple(LID))


def compare_cavities(sides: list[int]) -> Iterator[dict[str, Any]]:
    """Seconds for 3,000 steps of each program on each cavity."""
    for side in sides:
        nodes, rates = cavity(side - 2, 1.0), relaxation_rates(TAU, LAMBDA_TRT)
        plain, lattice = (
            build_lattice(nodes, "bgk", rates, walls, "fp32", moving=LID) for walls in ("half-way", "bouzidi")
        )
        seconds = dict(zip(PUBLISHED_NAMES, PUBLISHED[side], strict=True)) if side in PUBLISHED else {}
        for entry in entries(nodes, plain, lattice, LID):
            seconds[entry.name] = timed(entry, np.zeros(0))["seconds"]
        yield {"side": side, "nodes": nodes.count, "seconds": seconds}


def benchmark_cases(folders: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Benchmarks of cases that were solved, out of their folders in results/, by the names of these."""
    log = logging.getLogger("benchmark")
    for folder in map(Path, folders):
        settings = json.loads((folder / "solve.provenance.json").read_text())["settings"]
        yield folder.name, run_benchmark(load(folder / "nodes.h5"), parse(settings), log)


def compare_boxes(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Updates a second of a dense box with a lid, half-way walls, by each program."""
    nodes = cavity(BOX, 0.5)
    for precision in ("fp32", "fp64"):
        lattice = build_lattice(nodes, "trt", relaxation_rates(TAU, LAMBDA_TRT), "half-way", precision, moving=LID)
        for backend in ("cpu", "cuda") if device_answers() else ("cpu",):
            driver = stirred(make_driver(backend, lattice))
            _, step = steps(driver, np.zeros(0), options.seconds, options.repeats)
            program = f"HemoLattice, {driver.device}"
            yield {"program": program, "precision": precision, "updates_s": nodes.count / step.seconds}
        try:
            updates = lbmpy_updates(precision, options)
        except ImportError as reason:
            yield {"program": "lbmpy, CPU", "precision": precision, "absent": str(reason)}
        else:
            yield {"program": "lbmpy, CPU", "precision": precision, "updates_s": updates}


def lbmpy_updates(precision: str, options: argparse.Namespace) -> float:
    """Updates a second of lbmpy's own driven cavity: two lattices, pull, vectorised C on all threads."""
    from lbmpy import LBMConfig, LBStencil, Method, Stencil
    from lbmpy.scenarios import create_lid_driven_cavity
    from pystencils import CreateKernelConfig, Target

    target = Target.auto_cpu()
    config = CreateKernelConfig(target=target)
    config.default_dtype = {"fp32": "float32", "fp64": "float64"}[precision]
    config.cpu.openmp.enable, config.cpu.openmp.num_threads = True, get_num_threads()
    if target.is_vector_cpu():
        config.cpu.vectorize.enable = config.cpu.vectorize.assume_inner_stride_one = True
    method = LBMConfig(stencil=LBStencil(Stencil.D3Q19), method=Method.TRT, relaxation_rate=1 / TAU, compressible=False)
    scenario = create_lid_driven_cavity((BOX,) * 3, lid_velocity=LID["lid"][0], lbm_config=method, config=config)
    rates = [scenario.benchmark(max(options.seconds, 0.2)) for _ in range(options.repeats + 1)]
    return 1e6 * float(np.median(rates[1:]))


def table(columns: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (columns, ["---"] * len(columns), *rows))


def tell(results: dict[str, Any]) -> str:
    """All tables."""
    names = list(dict.fromkeys(name for row in results["cavities"] for name in row["seconds"]))
    size = [[f"{row['side']}³", f"{row['nodes']:,}"] for row in results["cavities"]]
    seconds = [
        [f"{row['seconds'][name]:.3g}" if name in row["seconds"] else "" for name in names]
        for row in results["cavities"]
    ]
    gains = [
        [f"{row['seconds'][SLOW] / row['seconds'][name]:.1f}" if name in row["seconds"] else "" for name in names]
        for row in results["cavities"]
    ]
    columns = ["cavity", "fluid nodes", *names]
    boxes = [
        [row["program"], row["precision"], f"{row['updates_s'] / 1e6:,.0f}" if "updates_s" in row else row["absent"]]
        for row in results["boxes"]
    ]
    return "\n\n".join(
        (
            f"Seconds for {STEPS:,} steps:",
            table(columns, [a + b for a, b in zip(size, seconds, strict=True)]),
            f"Speed-up over {SLOW}:",
            table(columns, [a + b for a, b in zip(size, gains, strict=True)]),
            f"Dense box of {BOX}³ nodes, million updates a second:",
            table(["program", "precision", "MLUPS"], boxes),
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", nargs="*", type=int, default=[*PUBLISHED, LARGER], help="of the cavities, in nodes")
    parser.add_argument("--no-boxes", action="store_true", help="leave the dense boxes out")
    parser.add_argument("--benchmarks", nargs="*", default=[], help="folders of cases that were solved")
    parser.add_argument("--repeats", type=int, default=5, help="of the boxes")
    parser.add_argument("--seconds", type=float, default=0.3, help="of one timing of a box, about")
    parser.add_argument("--commit", help="of what is measured, where git cannot tell it")
    parser.add_argument("--json", type=Path, help="file for the results; default: in benchmarks/results by the date")
    parser.add_argument("--tell", type=Path, help="print the tables of these results, and measure nothing")
    options = parser.parse_args()
    if options.tell:
        print(tell(json.loads(options.tell.read_text())))
        return
    results: dict[str, Any] = {**provenance(options), "cavities": [], "boxes": [], "races": {}}
    file = options.json or default_file("comparison", results["hardware"])
    for row in compare_cavities(options.sides):
        results["cavities"].append(row)
        print(json.dumps(row), flush=True)
    for row in () if options.no_boxes else compare_boxes(options):
        results["boxes"].append(row)
        print(json.dumps(row), flush=True)
    for name, found in benchmark_cases(options.benchmarks):
        results["races"][name] = found
        print(name, {entry["name"]: round(entry["seconds"], 3) for entry in found["entries"]}, flush=True)
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(tell(results), file, sep="\n\n")


if __name__ == "__main__":
    main()
