# SPDX-License-Identifier: Apache-2.0
"""How the order of the nodes bears on locality and on the speed of the solver.

    python benchmarks/node_order.py --json benchmarks/results/node-order.json
    python benchmarks/node_order.py --backend cuda --nodes 5 --steps 200 --json node-order-cuda.json

Orders: x, y or z running fastest, the others by length of their runs, as the stage decompose does; and, as experiments,
bricks of 4^3 and 8^3 nodes and Morton's curve. Shapes: a vessel along each axis and a tree that branches three times.

- run: mean number of consecutive rows whose nodes follow each other along the axis that runs fastest.
- bandwidth: mean and 99th percentile of |row(neighbour) - row| over the links between fluid nodes.
- speed: node updates a second, single precision, half-way walls, on the CPU of the processor time of one thread; orders
  take turns, the median of the repeats.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

os.environ["NUMBA_NUM_THREADS"] = "1"

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from pipeline.geometry.lattice.frame import mean_runs  # noqa: E402
from solver.backends.driver import Driver  # noqa: E402
from solver.backends.lattice import build_lattice  # noqa: E402
from solver.domain.nodes import Neighbours, Nodes  # noqa: E402
from solver.kernels.collision import relaxation_rates  # noqa: E402
from solver.run.setup import make_driver  # noqa: E402
from tests.support.geometries import half_way_walls, nodes_from, observe  # noqa: E402

BRANCHES, DECAY, OPENING = 3, 0.8, 0.6
"""Generations of the tree after its trunk; radius of a branch over its parent's; half the angle of a fork."""


def vessel(axis: int, nodes: float) -> np.ndarray:
    """Mask [z, y, x] of a straight vessel, ten radii long, along an axis."""
    radius = (nodes / (10 * np.pi)) ** (1 / 3)
    across = np.arange(-np.ceil(radius), np.ceil(radius) + 1) + 0.3
    disc = across[:, None] ** 2 + (across + 0.4) ** 2 < radius**2
    return np.moveaxis(np.repeat(disc[None], round(10 * radius), axis=0), 0, 2 - axis)


def tree(nodes: float) -> np.ndarray:
    """Mask [z, y, x] of a tree in space: each branch ends in two, in a plane across that of the fork before."""
    pieces, ends = [], [(np.zeros(3), np.array((0.2, 0.3, 1.0)), np.array((1.0, 0.0, 0.0)), 1.0)]
    for _ in range(BRANCHES + 1):
        grown = []
        for start, along, side, radius in ends:
            along = along / np.linalg.norm(along)
            side = side - (side @ along) * along
            side /= np.linalg.norm(side)
            stop = start + 7 * radius * along
            pieces.append((start, stop, radius))
            turns = [np.cos(OPENING) * along + sign * np.sin(OPENING) * side for sign in (-1, 1)]
            grown += [(stop, turn, np.cross(along, side), DECAY * radius) for turn in turns]
        ends = grown
    volume = sum(7 * np.pi * radius**3 for *_, radius in pieces)
    scale = (nodes / volume) ** (1 / 3)
    corners = np.array([point for start, stop, _ in pieces for point in (start, stop)]) * scale
    low, high = corners.min(axis=0) - scale, corners.max(axis=0) + scale
    mask = np.zeros(np.ceil(high - low).astype(int)[::-1], bool)
    for start, stop, radius in pieces:
        a, b, r = start * scale - low, stop * scale - low, radius * scale
        first = np.maximum(np.floor(np.minimum(a, b) - r), 0).astype(int)
        last = np.minimum(np.ceil(np.maximum(a, b) + r) + 1, mask.shape[::-1]).astype(int)
        box = tuple(slice(*ends) for ends in zip(first[::-1], last[::-1], strict=True))
        z, y, x = (np.arange(s.start, s.stop) for s in box)
        away = np.stack(np.broadcast_arrays(x, y[:, None], z[:, None, None]), axis=-1) - a
        part = np.clip(away @ (b - a) / ((b - a) @ (b - a)), 0, 1)
        mask[box] |= ((away - part[..., None] * (b - a)) ** 2).sum(axis=-1) < r**2
    return mask


def spread(values: np.ndarray) -> np.ndarray:
    """Bits of numbers below 2^20 with two zeros between them."""
    values = values.astype(np.int64)
    return sum((((values >> bit) & 1) << (3 * bit) for bit in range(20)), np.zeros_like(values))


def orders(nodes: Nodes, mask: np.ndarray) -> dict[str, np.ndarray]:
    """Rows of the nodes in each order."""
    x, y, z = nodes.position.T
    runs = mean_runs(mask)
    found = {}
    for axis, name in enumerate("xyz"):
        axes = [axis, *sorted({0, 1, 2} - {axis}, key=lambda other: (-runs[other], other))]
        found[name] = np.lexsort([nodes.position[:, other] for other in axes])
    for side in (4, 8):
        found[f"bricks {side}^3"] = np.lexsort((x % side, y % side, z % side, x // side, y // side, z // side))
    found["Morton"] = np.argsort(spread(x) | spread(y) << 1 | spread(z) << 2)
    return found


def reordered(nodes: Nodes, order: np.ndarray) -> Nodes:
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return replace(nodes, position=nodes.position[order], wall_link_node=rank[nodes.wall_link_node])


def locality(nodes: Nodes, fastest: int) -> dict[str, float]:
    step = np.diff(nodes.position, axis=0)
    follows = (step == np.eye(3, dtype=int)[fastest]).all(axis=1)
    neighbours, rows = Neighbours(nodes), np.arange(nodes.count)
    jumps = []
    for direction in range(1, 19, 2):
        ends = neighbours.along(direction)
        jumps.append(np.abs(ends - rows)[ends >= 0])
    jump = np.concatenate(jumps)
    return {
        "run": round(nodes.count / (nodes.count - int(follows.sum())), 2),
        "bandwidth_mean": round(float(jump.mean())),
        "bandwidth_99": round(float(np.percentile(jump, 99))),
    }


def seconds_of(driver: Driver, steps: int, backend: str) -> float:
    """Time of some steps: of the processor on a CPU, which others may share; else until the device has done them."""
    clock = time.process_time if backend == "cpu" else time.perf_counter
    start = clock()
    driver.advance(np.zeros((steps, 0)))
    if backend == "cuda":
        observe(driver, False)  # waits for the device, about a step more
    return clock() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=float, default=1, help="fluid nodes, millions")
    parser.add_argument("--backend", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--steps", type=int, default=20, help="steps of one timing, even")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path, help="file for the results; default: by the date")
    arguments = parser.parse_args()
    path = arguments.json or ROOT / "benchmarks" / "results" / f"{datetime.now(UTC):%Y-%m-%d}-node-order.json"
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    shapes = {f"vessel along {'xyz'[axis]}": vessel(axis, arguments.nodes * 1e6) for axis in range(3)}
    shapes["tree"] = tree(arguments.nodes * 1e6)
    table: list[dict[str, object]] = []
    for shape, mask in shapes.items():
        nodes = nodes_from(mask, half_way_walls)
        drivers, figures = {}, {}
        for name, order in orders(nodes, mask).items():
            turned = reordered(nodes, order)
            figures[name] = locality(turned, max("xyz".find(name), 0))
            lattice = build_lattice(turned, "trt", relaxation_rates(0.55, 0.025), "half-way", force=(1e-6, 2e-6, 3e-6))
            drivers[name] = make_driver(arguments.backend, lattice)
        seconds: dict[str, list[float]] = {name: [] for name in drivers}
        for repeat in range(arguments.repeats + 1):
            for name, driver in drivers.items():
                taken = seconds_of(driver, arguments.steps, arguments.backend)
                if repeat:
                    seconds[name].append(taken)
        for name in drivers:
            speed = nodes.count * arguments.steps / float(np.median(seconds[name])) / 1e6
            entry = {"shape": shape, "nodes": nodes.count, "order": name, **figures[name], "mlups": round(speed, 2)}
            table.append(entry)
            print("  ".join(f"{value}" for value in entry.values()), flush=True)
    results = {
        "machine": platform.machine(),
        "load_before": os.getloadavg()[0],
        "device": driver.device if arguments.backend == "cuda" else "one thread of the CPU",
        "python": platform.python_version(),
        "commit": commit.stdout.strip(),
        "table": table,
    }
    path.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
