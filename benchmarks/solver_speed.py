"""Speed of the solver on a straight pipe, and agreement of its backends in single precision.

    python benchmarks/solver_speed.py --radius 40 --backends cpu cuda --json results.json

Needs NumPy, Numba and h5py alone. Prints a table; every figure is the median over repeats after a warm-up.
"""

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from geometries import pipe  # noqa: E402

from solver.collision import relaxation_rates  # noqa: E402
from solver.driver import Driver  # noqa: E402
from solver.lattice import Lattice, build_lattice  # noqa: E402
from solver.simulation import make_driver  # noqa: E402

TAU, PEAK = 0.55, 0.08


def conditions(lattice: Lattice, radius: float, steps: int, begin: int = 0, ramp: int = 200) -> np.ndarray:
    """Flow for a peak speed of PEAK, raised over the first steps; the outlet at rest pressure."""
    flow = PEAK / 2 * np.pi * radius**2
    return np.stack((flow * np.minimum(1, np.arange(begin + 1, begin + steps + 1) / ramp), np.zeros(steps)), axis=1)


def seconds_per_step(driver: Driver, lattice: Lattice, radius: float, steps: int, repeats: int) -> float:
    """Median time of a step; reading a sum at the end waits for the device."""
    times = []
    for repeat in range(repeats + 1):
        start = time.perf_counter()
        driver.advance(conditions(lattice, radius, steps, begin=200))
        driver.at_bounds()
        if repeat:
            times.append((time.perf_counter() - start) / steps)
    return float(np.median(times))


def agreement(drivers: dict[str, Driver], lattice: Lattice, radius: float, steps: int) -> dict[str, float]:
    """Largest difference of velocity and of drho to the first backend's, over PEAK, after some steps from rest."""
    fields = {}
    for name, driver in drivers.items():
        driver.advance(conditions(lattice, radius, steps))
        fields[name] = driver.fields()
    first, *others = fields.values()
    return {
        name: float(max(np.abs(first.velocity - other.velocity).max(), np.abs(first.drho - other.drho).max()) / PEAK)
        for name, other in zip(list(fields)[1:], others, strict=True)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--radius", type=float, default=20, help="radius of the pipe in nodes; it is 8 radii long")
    parser.add_argument("--big-radius", type=float, help="radius of a second pipe that CUDA alone is timed on")
    parser.add_argument("--backends", nargs="+", default=["cpu"], choices=["cpu", "cuda"])
    parser.add_argument("--collisions", nargs="+", default=["trt", "recursive"])
    parser.add_argument("--precisions", nargs="+", default=["fp32", "fp64"])
    parser.add_argument("--steps", type=int, default=100, help="steps of one timing, even")
    parser.add_argument("--agree-steps", type=int, default=1000, help="steps before backends are compared, even")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="file for the results")
    arguments = parser.parse_args()
    results: dict[str, object] = {
        "machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version(), "speed": [],
        "agreement": {},
    }  # fmt: skip
    speed: list[dict[str, object]] = []
    sizes = [(arguments.radius, arguments.backends)]
    if arguments.big_radius:
        sizes.append((arguments.big_radius, ["cuda"]))
    for radius, backends in sizes:
        start = time.perf_counter()
        nodes = pipe((2, 3, 6), radius, 8 * radius)
        print(
            f"pipe of radius {radius:g}: {nodes.count:,} nodes, made in {time.perf_counter() - start:.1f} s", flush=True
        )
        for precision in arguments.precisions:
            for collision in arguments.collisions:
                rates = relaxation_rates(TAU, (TAU - 0.5) / 2)
                lattice = build_lattice(nodes, collision, rates, "bouzidi", precision)
                drivers = {name: make_driver(name, lattice) for name in backends}
                if len(drivers) > 1:
                    for name, difference in agreement(drivers, lattice, radius, arguments.agree_steps).items():
                        results["agreement"][f"{name} {collision} {precision}"] = difference  # type: ignore[index]
                        print(f"{collision} {precision}: {name} - cpu = {difference:.2e} of the peak", flush=True)
                for name, driver in drivers.items():
                    duration = seconds_per_step(driver, lattice, radius, arguments.steps, arguments.repeats)
                    entry = {
                        "backend": name, "device": driver.device, "precision": precision, "collision": collision,
                        "nodes": nodes.count, "wall_links": len(lattice.walls.slot),
                        "mlups": round(nodes.count / duration / 1e6, 1),
                        "microseconds_per_step": round(duration * 1e6, 1),
                    }  # fmt: skip
                    speed.append(entry)
                    print("  ".join(f"{value}" for value in entry.values()), flush=True)
    results["speed"] = speed
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
