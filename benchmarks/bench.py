# SPDX-License-Identifier: Apache-2.0
"""Speed of the solver beside that of the memory: a box, a pipe and a vessel tree of many sizes, on all that is here.

    python benchmarks/bench.py
    python benchmarks/bench.py --quick --backends cpu
    python benchmarks/bench.py --draw results.json --figures docs/figures

Measures the CPU and, where a CUDA device answers, the device. Sizes vary with one model in single precision; at the
largest size precisions vary on each shape, and collisions on the tree. Prints a table as it goes, keeps it as JSON in
benchmarks/results, and draws it where matplotlib is installed; NumPy, Numba and h5py suffice to measure.

- rate: updates of fluid nodes a second, the median of repeats after a warm-up, walls and openings on.
- of copy: part of the speed at which the same memory is copied (or updated in place, where that is faster), in the same
  run; an update reads and writes 19 populations at least.
- memory: bytes a fluid node that the driver takes where it runs.
- passes: seconds of each pass by itself, and its part of a step.
- start: seconds from node arrays on disk to the end of the first two steps, nothing being compiled.
"""

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib import metadata, util
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from vessel_tree import vessel_tree  # noqa: E402

from solver.backends.cost import (  # noqa: E402
    STORED_BYTES,
    Size,
    update_bytes,
)
from solver.backends.cuda.device import device_answers  # noqa: E402
from solver.backends.lattice import Lattice, build_lattice  # noqa: E402
from solver.domain import nodes as node_file  # noqa: E402
from solver.domain.nodes import Nodes  # noqa: E402
from solver.kernels.collision import ON_D3Q19, relaxation_rates  # noqa: E402
from solver.kernels.rheology import make_rheology  # noqa: E402
from solver.run.setup import find_device, make_driver  # noqa: E402
from solver.runtime.errors import StageError  # noqa: E402
from tests.support.geometries import closed_box, observe, pipe  # noqa: E402
from validation.timing import cpu_bandwidth, cuda_bandwidth, hardware, passes, steps, stirred  # noqa: E402

TAU, LAMBDA_TRT, PEAK = 0.55, 3 / 16, 0.02
"""Relaxation time, TRT's Lambda, peak speed at the inlet in lattice units."""
THINNING = "carreau-yasuda"
BLOOD = (0.3, (TAU - 0.5) / 3, 200.0, 0.64, 0.2)
"""Name and parameters, in lattice units, of blood that thins with the shear rate; it is collided as by TRT."""
MODEL, PRECISION = "trt", "fp32"
"""What sizes vary with."""


def cube(count: float) -> Nodes:
    """A closed box, dense."""
    side = round(count ** (1 / 3))
    return closed_box((side, side, side))


def tilted_pipe(count: float) -> Nodes:
    """A straight pipe, askew to the lattice and 8 radii long."""
    radius = (count / (8 * np.pi)) ** (1 / 3)
    return pipe((2, 3, 6), radius, 8 * radius)


SHAPES: dict[str, Callable[[float], Nodes]] = {"tree": vessel_tree, "pipe": tilted_pipe, "cavity": cube}
SIZES = {
    "cpu": {"tree": (0.1, 0.5, 1, 2, 4), "pipe": (0.5, 2), "cavity": (0.1, 1, 4)},
    "cuda": {"tree": (0.1, 0.2, 0.5, 1, 2, 5, 10, 20), "pipe": (0.2, 1, 5), "cavity": (0.1, 1, 8, 32.768)},
}
QUICK = {"cpu": {"tree": (0.1, 1)}, "cuda": {"tree": (0.2, 2)}}
"""Millions of fluid nodes."""


@dataclass(frozen=True)
class Case:
    """What is measured: a shape of so many million nodes, with what it is run, and whether its passes are timed."""

    shape: str
    size: float
    backend: str
    collision: str = MODEL
    precision: str = PRECISION
    detailed: bool = False

    @property
    def effort(self) -> float:
        """About how long it takes: compilation, and what grows with the nodes."""
        return 1 + self.size / (20 if self.backend == "cuda" else 1) * (3 if self.detailed else 1)


def choose(options: argparse.Namespace) -> list[Case]:
    """Cases in an order in which each geometry is made once."""
    cases = []
    for backend in options.backends:
        for shape in options.shapes:
            sizes = options.sizes or (QUICK if options.quick else SIZES)[backend].get(shape, ())
            cases += [Case(shape, size, backend, detailed=size == max(sizes)) for size in sizes]
            if sizes:
                models = [(MODEL, precision) for precision in options.precisions]
                models += [(model, PRECISION) for model in options.collisions if shape == options.shapes[0]]
                cases += [Case(shape, max(sizes), backend, *model) for model in models if model != (MODEL, PRECISION)]
    return sorted(cases, key=lambda case: (options.shapes.index(case.shape), case.size))


def boundary_values(nodes: Nodes) -> np.ndarray:
    """Conditions of a step: each inlet's flow, for about the same peak speed in all; outlets at rest pressure."""
    return np.array([PEAK / 2 * cap.area_mm2 / nodes.spacing_mm**2 * (cap.role == "inlet") for cap in nodes.openings])


def layouts(nodes: Nodes) -> Callable[[Case], Lattice]:
    """Lattices of one geometry, which share their addresses."""

    @cache
    def base(precision: str) -> Lattice:
        return build_lattice(nodes, MODEL, relaxation_rates(TAU, LAMBDA_TRT), "bouzidi", precision)

    def lattice(case: Case) -> Lattice:
        if case.collision == THINNING:
            return replace(base(case.precision), rheology=make_rheology(THINNING, BLOOD, TAU, LAMBDA_TRT))
        return replace(base(case.precision), collision=case.collision)

    return lattice


def measure(case: Case, nodes: Nodes, lattice: Lattice, roof: float, options: argparse.Namespace) -> dict[str, Any]:
    """All that is measured of one case; a StageError tells why it cannot be."""
    needed = Size.of_nodes(nodes).device_bytes(case.precision, 1, case.collision == THINNING)
    if needed > find_device(case.backend, case.precision).free_bytes:
        raise StageError(f"{case.shape}, {nodes.count:,} nodes, {case.precision}: needs {needed / 1e9:.1f} GB")
    driver, row = stirred(make_driver(case.backend, lattice)), boundary_values(nodes)
    count, step = steps(driver, row, options.seconds, options.repeats)
    updates = nodes.count / step.seconds
    if not np.isfinite(observe(driver, False).max_speed):
        raise StageError(f"{case}: the flow diverged, and its rate means nothing")
    moved = update_bytes(case.precision)
    found = {
        **asdict(case),
        "device": driver.device,
        "nodes": nodes.count,
        "wall_links": len(lattice.walls.slot),
        "opening_links": len(nodes.opening_link_node),
        "steps": count,
        "step_s": step.seconds,
        "processor_s": step.processor,
        "updates_s": updates,
        "update_bytes": moved,
        "of_copy": updates * moved / roof,
        "memory_bytes": driver.memory_bytes() / nodes.count,
    }
    if case.detailed:
        found["passes_s"] = passes(driver, row, options.repeats)
        del driver
        found["start_s"] = start(case.backend, nodes, row)
    return found


def start(backend: str, nodes: Nodes, row: np.ndarray) -> dict[str, float]:
    """Seconds from node arrays on disk to the end of the first steps, by what is done."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nodes.h5"
        node_file.save(nodes, file)
        times = [time.perf_counter()]
        nodes = node_file.load(file)
        times.append(time.perf_counter())
        lattice = build_lattice(nodes, MODEL, relaxation_rates(TAU, LAMBDA_TRT))
        times.append(time.perf_counter())
        driver = make_driver(backend, lattice)
        driver.advance(np.tile(row, (2, 1)))
        observe(driver, False)  # waits for the device
        times.append(time.perf_counter())
    return dict(zip(("load", "addresses", "first steps"), np.diff(times).tolist(), strict=True))


def run(cases: list[Case], bandwidth: dict[str, dict[str, float]], options: argparse.Namespace) -> Iterator[dict]:
    """What is found, case by case, which is told as a line of the table."""
    begin, done, effort = time.monotonic(), 0.0, sum(case.effort for case in cases)
    for (shape, size), group in groupby(cases, lambda case: (case.shape, case.size)):
        nodes = SHAPES[shape](size * 1e6)
        lattice = layouts(nodes)
        for case in group:
            done += case.effort
            try:
                found = measure(case, nodes, lattice(case), max(bandwidth[case.backend].values()), options)
            except StageError as reason:
                print(f"{case.backend:5} left out: {reason}", flush=True)
                continue
            left = (time.monotonic() - begin) / done * (effort - done)
            print(line(found), f"  {left / 60:4.1f} min left", flush=True)
            yield found


def line(found: dict[str, Any]) -> str:
    """A case in the table, above it its passes where they were timed."""
    above = ""
    if passes_s := found.get("passes_s"):
        parts = (f"{name} {100 * seconds / found['step_s']:.1f} %" for name, seconds in passes_s.items())
        above = f"{'':6}{', '.join(parts)}; start {sum(found['start_s'].values()):.1f} s\n"
    return above + (
        f"{found['backend']:5} {found['shape']:7} {found['nodes']:>11,}  {found['collision']:15} {found['precision']:5}"
        f"{found['updates_s'] / 1e6:10,.1f} {1e6 * found['step_s']:12,.1f} {100 * found['of_copy']:7.1f} %"
        f"{found['memory_bytes']:8.1f}"
    )


def provenance(options: argparse.Namespace) -> dict[str, Any]:
    """When, on what and with what this is measured."""
    wanted = ("numpy", "numba", "numba-cuda", "h5py", "mpi4py")
    packages = [name for name in wanted if util.find_spec(name.replace("-", "_"))]
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": options.commit or git.stdout.strip(),
        "options": {name: value for name, value in vars(options).items() if not isinstance(value, Path)},
        "hardware": hardware(),
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}},
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = ["cpu", "cuda"] if device_answers() else ["cpu"]
    parser.add_argument("--backends", nargs="+", default=here, choices=("cpu", "cuda"))
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--sizes", nargs="+", type=float, help="millions of fluid nodes, for all shapes")
    parser.add_argument("--collisions", nargs="*", default=[*ON_D3Q19, THINNING], choices=[*ON_D3Q19, THINNING])
    parser.add_argument("--precisions", nargs="*", default=list(STORED_BYTES), choices=list(STORED_BYTES))
    parser.add_argument("--quick", action="store_true", help="two sizes of the tree, few repeats")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="of one timing, about")
    parser.add_argument(
        "--copied",
        type=float,
        help="GiB that the memory's speed is measured on: 1 on a CPU, 8 on a device, whose full speed needs them",
    )
    parser.add_argument("--commit", help="of what is measured, where git cannot tell it")
    parser.add_argument("--json", type=Path, help="file for the results; default: in benchmarks/results by the date")
    parser.add_argument("--figures", type=Path, help="folder for the figures; default: beside the results")
    parser.add_argument("--draw", type=Path, help="draw these results, and measure nothing")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.seconds = min(options.repeats, 3), min(options.seconds, 0.1)
    return options


def add_settings(parser: argparse.ArgumentParser) -> None:
    """An option that may be given several times: settings of the solver, as pairs of key and value in `set`."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        type=lambda each: each.split("=", 1),
        help="setting",
    )


def add_results(parser: argparse.ArgumentParser) -> None:
    """Options of a script that keeps what it found by :func:`write_results`."""
    parser.add_argument("--json", type=Path, help="file for the results; default: in benchmarks/results by the date")
    parser.add_argument("--commit", help="of what was run, where git cannot tell it")


def write_results(options: argparse.Namespace, what: str, records: Any) -> Path:
    """Write records with when, on what and with what they were made; the file."""
    results = {**provenance(options), "records": records}
    file: Path = options.json or default_file(what, results["hardware"])
    file.write_text(json.dumps(results, indent=1, default=str) + "\n", encoding="utf-8")
    return file


def default_file(what: str, hardware: dict[str, Any]) -> Path:
    """Results are named by the date, what they are of, and the device."""
    device = hardware.get("gpu") or f"{hardware['cpu']} {hardware['threads']} threads"
    name = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    return ROOT / "benchmarks" / "results" / f"{datetime.now(UTC):%Y-%m-%d}-{what}-{name}.json"


def measure_all(options: argparse.Namespace) -> Path:
    """Measure, and keep after each case what is found so far; the file."""
    begin, reported = time.monotonic(), provenance(options)
    file: Path = options.json or default_file("bench", reported["hardware"])
    speeds = {"cpu": (cpu_bandwidth, 1.0), "cuda": (cuda_bandwidth, 8.0)}
    bandwidth = {}
    for backend in options.backends:
        speed, gibibytes = speeds[backend]
        bandwidth[backend] = speed(int((options.copied or gibibytes) * 2**30), options.repeats)
    for backend, found in bandwidth.items():
        print(backend, *(f"{name}: {speed / 1e9:,.0f} GB/s" for name, speed in found.items()), sep="  ", flush=True)
    print(f"{'':13} {'nodes':>11}  {'collision':20} {'MLUPS':>10} {'us/step':>12} {'of copy':>9} {'B/node':>7}")
    results: dict[str, Any] = {**reported, "bandwidth": bandwidth, "cases": []}
    for case in run(choose(options), bandwidth, options):
        results["cases"].append(case)
        results["seconds"] = round(time.monotonic() - begin, 1)
        file.write_text(json.dumps(results, indent=1) + "\n")
    return file


def main() -> None:
    options = parse()
    file = options.draw or measure_all(options)
    print(file)
    try:
        from drawing import draw
    except ImportError as missing:
        print(f"not drawn, do that elsewhere with --draw: {missing}")
        return
    draw(json.loads(file.read_text()), options.figures / "bench" if options.figures else file.with_suffix(""))


if __name__ == "__main__":
    main()
