"""CUDA against the CPU, parts of a domain against the whole, and sums against the number of threads, on a real device.

    python benchmarks/backend_agreement.py --json results.json

Needs NumPy, Numba and h5py alone. Prints a table and ends with status 1 where anything disagrees: parts and thread
counts must give the same bits, backends the same numbers to within what rounding grows to.
"""

import argparse
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from geometries import periodic_pipe, pipe, random_cavern  # noqa: E402

from solver.collision import COLLISIONS, relaxation_rates  # noqa: E402
from solver.cpu.driver import CpuDriver  # noqa: E402
from solver.cuda import device as cuda  # noqa: E402
from solver.cuda.driver import CudaDriver  # noqa: E402
from solver.driver import Driver  # noqa: E402
from solver.lattice import Lattice, build_lattice  # noqa: E402
from solver.nodes import Nodes  # noqa: E402
from solver.partition import partition  # noqa: E402
from solver.parts import PartsDriver  # noqa: E402
from solver.walls import WALLS  # noqa: E402

TOLERANCE = {"fp32": 2e-5, "fp64": 1e-12}
"""Of a field, over its largest size: backends round differently, by fused multiplication and addition."""
STEPS = 60
FORCE = (1e-5, 2e-5, -1e-5)


def geometries() -> dict[str, Nodes]:
    """A sparse cavern with openings, a tilted pipe with openings, an endless pipe."""
    return {
        "cavern": random_cavern((14, 13, 12), 3), "pipe": pipe((1, 2, 3), 10.4, 60),
        "endless pipe": periodic_pipe((1, 1, 1), 8.6),
    }  # fmt: skip


def state(driver: Driver, conditions: np.ndarray) -> dict[str, np.ndarray]:
    """Everything that is read of a run, after two stretches of it."""
    for rows in np.split(conditions, 2):
        driver.advance(rows)
        seen = driver.observe(True)
    fields = driver.fields()
    return {
        "drho": fields.drho, "velocity": fields.velocity, "stress": fields.stress, "inflow": driver.inflow(),
        "opening drho": driver.opening_drho(),
        "observation": np.array(list(vars(seen).values())),
    }  # fmt: skip


def same_bits(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)


def difference(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    """Largest difference of a field over its largest size."""
    names = ("drho", "velocity", "stress")
    return max(float(np.abs(one[name] - other[name]).max() / np.abs(one[name]).max()) for name in names)


def with_fewer_threads(run: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """A run in which sums are shared out among other numbers of threads."""
    kept = cuda.THREADS, cuda.MOST_PARTS
    cuda.THREADS, cuda.MOST_PARTS = 64, 192
    try:
        return run()
    finally:
        cuda.THREADS, cuda.MOST_PARTS = kept


def compare(lattice: Lattice, nodes: Nodes, precision: str) -> dict[str, object]:
    """One row of the table."""
    rng = np.random.default_rng(0)
    size = np.array([0.02 if opening.role == "inlet" else 1e-3 for opening in nodes.openings])
    conditions = rng.random((STEPS, len(size))) * size
    on_cuda = state(CudaDriver(lattice), conditions)
    parts: dict[str, np.ndarray] = {
        "3 parts": partition(nodes, 3), "8 parts": partition(nodes, 8), "5 random": rng.integers(0, 5, nodes.count)
    }  # fmt: skip
    row: dict[str, object] = {"cuda - cpu": difference(state(CpuDriver(lattice), conditions), on_cuda)}
    for name, part in parts.items():
        row[name] = same_bits(on_cuda, state(PartsDriver(lattice, part, CudaDriver), conditions))
    row["threads"] = same_bits(on_cuda, with_fewer_threads(lambda: state(CudaDriver(lattice), conditions)))
    row["cpu 8 parts"] = same_bits(
        state(CpuDriver(lattice), conditions), state(PartsDriver(lattice, parts["8 parts"], CpuDriver), conditions)
    )
    row["good"] = all(value for value in row.values() if isinstance(value, bool))
    row["good"] = bool(row["good"]) and float(str(row["cuda - cpu"])) < TOLERANCE[precision]
    return row


def mass_drift(precision: str, steps: int) -> float:
    """Change of the mass of a closed, stirred cavern on the device, over its number of nodes."""
    nodes = random_cavern((14, 13, 12), 5, openings=False)
    driver = CudaDriver(build_lattice(nodes, "trt", relaxation_rates(0.6, 0.05), "bouzidi", precision))
    start = 1e-3 * np.random.default_rng(0).standard_normal((19, nodes.count))
    rows = np.zeros((19, driver.lattice.stride), driver.lattice.real)
    rows[:, : nodes.count] = start - start.mean()
    driver.write(slice(0, rows.size), rows.ravel())
    before = rows.sum(dtype=np.float64)
    driver.advance(np.zeros((steps, 0)))
    after = driver.read(slice(0, rows.size)).sum(dtype=np.float64)
    return float(abs(after - before)) / nodes.count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collisions", nargs="+", default=list(COLLISIONS), choices=list(COLLISIONS))
    parser.add_argument("--mass-steps", type=int, default=100_000, help="steps of the closed cavern, even; 0: none")
    parser.add_argument("--json", type=Path, help="file for the results")
    arguments = parser.parse_args()
    device = cuda.require_device()
    results, good = [], True
    for name, nodes in geometries().items():
        for precision in ("fp32", "fp64"):
            for collision in arguments.collisions:
                for walls in WALLS:
                    lattice = build_lattice(nodes, collision, relaxation_rates(0.7, 0.1), walls, precision, force=FORCE)
                    row = compare(lattice, nodes, precision)
                    results.append(
                        {"geometry": name, "precision": precision, "collision": collision, "walls": walls} | row
                    )
                    good = good and bool(row["good"])
                    if len(results) == 1:
                        print("  ".join(results[0]), flush=True)
                    print("  ".join(f"{v:.1e}" if isinstance(v, float) else f"{v}" for v in results[-1].values()),
                          flush=True)  # fmt: skip
    drift = {}
    if arguments.mass_steps:
        drift = {precision: mass_drift(precision, arguments.mass_steps) for precision in ("fp32", "fp64")}
        print(f"mass of a closed cavern over {arguments.mass_steps} steps, a node: {drift}", flush=True)
        good = good and drift["fp64"] < 1e-10
    print(f"{device}: {'all agree' if good else 'DISAGREEMENT'}")
    if arguments.json:
        report = {"device": device, "python": platform.python_version(), "rows": results, "mass_drift": drift}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    sys.exit(not good)


if __name__ == "__main__":
    main()
