"""Speed against threads, steps between snapshots, and size of the lattice: solver/sweeps.py on a vessel tree and a box.

    python benchmarks/sweeps.py
    python benchmarks/sweeps.py --draw results.json --figures docs/figures

On a CUDA device where one answers, and threads are those of a block; else on this machine's cores, and threads are all
that are used. TRT, interpolated walls. NumPy, Numba and h5py suffice to measure; prints a table as it goes, and keeps
it as JSON in benchmarks/results, and draws it where matplotlib is installed. On an H200 it takes three minutes.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import MAGIC, SHAPES, TAU, conditions, default_file, provenance

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from solver.collision import relaxation_rates  # noqa: E402
from solver.cuda.device import device_answers  # noqa: E402
from solver.lattice import Lattice, build_lattice  # noqa: E402
from solver.nodes import Nodes  # noqa: E402
from solver.simulation import make_driver  # noqa: E402
from solver.sweeps import sweep_snapshots, sweep_threads  # noqa: E402
from solver.timing import mean_step, stirred  # noqa: E402

SIZES = {
    "cpu": (0.001, 0.01, 0.1, 0.5, 1, 2, 4),
    "cuda": (0.001, 0.004, 0.016, 0.064, 0.25, 1, 4, 16, 32.768),
}
"""Millions of fluid nodes of the box; of the tree, those from its least up to its most."""
TREES = {"cpu": (0.01, 2), "cuda": (0.064, 16)}
THREADS_AT = {"cpu": (0.1, 1), "cuda": (0.25, 4)}
"""Millions of nodes of the trees whose threads vary; of the larger one snapshots vary, too."""
PRECISIONS = ("fp32", "fp64")


@dataclass(frozen=True)
class Sweep:
    """How it is measured: on what, how long a timing takes, how often, and the longest one between two snapshots."""

    backend: str
    seconds: float
    repeats: int
    most_s: float

    def lattice(self, nodes: Nodes, precision: str = "fp32") -> Lattice:
        """The geometry with the models of all sweeps."""
        return build_lattice(nodes, "trt", relaxation_rates(TAU, MAGIC), "bouzidi", precision)

    def threads(self, size: float) -> Iterator[dict[str, Any]]:
        """Rate by threads, on a tree of so many million nodes."""
        nodes = SHAPES["tree"](size * 1e6)
        for precision in PRECISIONS:
            lattice = self.lattice(nodes, precision)
            for row in sweep_threads(self.backend, lattice, conditions(nodes), self.seconds, self.repeats):
                yield {"shape": "tree", "nodes": nodes.count, "precision": precision, **row}

    def snapshots(self, size: float) -> Iterator[dict[str, Any]]:
        """Rate by steps between snapshots, on such a tree."""
        nodes = SHAPES["tree"](size * 1e6)
        driver: Any = make_driver(self.backend, self.lattice(nodes))
        for row in sweep_snapshots(driver, nodes, conditions(nodes), self.seconds, self.most_s):
            yield {"shape": "tree", "nodes": nodes.count, "precision": "fp32", **row}

    def sizes(self) -> Iterator[dict[str, Any]]:
        """Rate by size, of boxes and trees."""
        least, most = TREES[self.backend]
        for size in SIZES[self.backend]:
            for shape in ("cavity", "tree") if least <= size <= most else ("cavity",):
                nodes = SHAPES[shape](size * 1e6)
                driver: Any = stirred(make_driver(self.backend, self.lattice(nodes)))  # type: ignore[type-var]
                _, step_s = mean_step(driver, conditions(nodes), self.seconds, self.repeats)
                yield {"shape": shape, "nodes": nodes.count, "precision": "fp32", "updates_s": nodes.count / step_s}


def line(row: dict[str, Any]) -> str:
    """A measured row, rates in MLUPS."""
    told = (f"{value / 1e6:10,.1f}" if key.endswith("updates_s") else f"{value!s:>10}" for key, value in row.items())
    return "  ".join(told)


def measure(sweep: Sweep, options: argparse.Namespace) -> Path:
    """Measure all, and keep after each row what is found so far; the file."""
    begin, told = time.monotonic(), provenance(options)
    file: Path = options.json or default_file("sweeps", told["hardware"])
    results: dict[str, Any] = {**told, "backend": sweep.backend, "threads": [], "snapshots": [], "sizes": []}
    small, large = THREADS_AT[sweep.backend]
    works = {"threads": [sweep.threads(small), sweep.threads(large)], "snapshots": [sweep.snapshots(large)],
             "sizes": [sweep.sizes()]}  # fmt: skip
    for name, parts in works.items():
        print(f"\n{name}", flush=True)
        for row in (row for part in parts for row in part):
            results[name].append(row)
            results["seconds"] = round(time.monotonic() - begin, 1)
            print(line(row), f"  after {results['seconds']:.0f} s", flush=True)
            file.write_text(json.dumps(results, indent=1) + "\n")
    return file


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="of one timing, about")
    parser.add_argument("--longest", type=float, default=2.0, help="seconds between two snapshots, at most")
    parser.add_argument("--commit", help="of what is measured, where git cannot tell it")
    parser.add_argument("--json", type=Path, help="file for the results; default: in benchmarks/results by the date")
    parser.add_argument("--figures", type=Path, help="folder for the figures; default: beside the results")
    parser.add_argument("--draw", type=Path, help="draw these results, and measure nothing")
    return parser.parse_args()


def main() -> None:
    options = parse()
    sweep = Sweep("cuda" if device_answers() else "cpu", options.seconds, options.repeats, options.longest)
    file = options.draw or measure(sweep, options)
    print(file)
    try:
        from drawing import draw_sweeps
    except ImportError as missing:
        print(f"not drawn, do that elsewhere with --draw: {missing}")
        return
    results = json.loads(file.read_text())
    name = f"sweeps-{results['backend']}.png"
    draw_sweeps(results, options.figures / name if options.figures else file.with_suffix(".png"))


if __name__ == "__main__":
    main()
