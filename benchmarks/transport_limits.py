# SPDX-License-Identifier: Apache-2.0
"""Up to which grid Peclet number a passive scalar keeps its bounds, in pipes that are drawn at random.

    python benchmarks/transport_limits.py --pipes 12 --seed 5 --json results.json

Needs NumPy, Numba and h5py alone. Each pipe has a direction, a radius of 4 to 9 nodes and a length of 3 to 6 radii of
its own, and developed flow. At each grid Peclet number (largest speed times spacing over diffusivity) are given:

- bolus: by how much the concentration goes below 0 and above what came in, where this rises at once, over a tenth, and
  over half of the transit time, and stays then;
- age: the least and the largest, over the mean transit time, once it has settled, and its mean at the outlet;
- uniform: between what a concentration of 1 comes to lie that comes in everywhere, in the flow without divergence, and
  in the one from which it was not taken.
"""

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from solver.backends.cpu.transport_driver import CpuTransport  # noqa: E402
from solver.backends.scalar_lattice import scalar_lattice  # noqa: E402
from solver.transport import carrier as carriers  # noqa: E402
from solver.transport.carrier import Carrier  # noqa: E402
from tests.support.geometries import pipe  # noqa: E402

PECLETS = (5.0, 10.0, 20.0, 30.0, 50.0, 100.0, 1000.0)
RISES = (0.0, 0.1, 0.5)
COURANT = 0.1
TRANSITS = 12
"""Mean transit times that the age has to settle."""


class Drawn:
    """A pipe with its flow."""

    def __init__(self, rng: np.random.Generator) -> None:
        axis = np.abs(rng.normal(size=3))
        axis /= np.linalg.norm(axis)
        self.radius = rng.uniform(4, 9)
        self.length = self.radius * rng.uniform(3, 6)
        nodes = pipe(tuple(axis), self.radius, self.length)
        self.nodes, self.mean = nodes, COURANT / 2
        away = nodes.points_mm() - np.array(nodes.openings[0].centre_mm)
        away -= np.outer(away @ axis, axis)
        speed = 2 * self.mean * np.clip(1 - (away**2).sum(axis=1) / self.radius**2, 0, None)
        self.velocity = axis[:, None] * speed
        flow = self.mean * np.pi * self.radius**2
        self.lattice = scalar_lattice(nodes)
        carrier = Carrier.of(nodes, self.lattice)
        self.faces = carrier.faces(self.velocity, np.array([-flow, flow]))
        self.divergent = carriers.between_nodes(carrier.beside, self.velocity)
        ports = self.lattice.direction - 1, self.lattice.port_node
        self.divergent[ports] = self.faces[ports]
        self.transit = nodes.count / flow

    def driver(self, peclet: float, source: float = 0.0) -> CpuTransport:
        return CpuTransport(self.lattice, np.float64, 2 * self.mean / peclet, source)

    def bolus(self, peclet: float, rise: float) -> dict[str, float]:
        """How far the concentration goes below 0 and above 1."""
        driver, steps, below, above = self.driver(peclet), 2 * round(0.06 * self.transit), 0.0, 0.0
        driver.begin(np.zeros(self.nodes.count), self.faces, np.zeros(2))
        for stretch in range(10):
            part = (stretch * steps + np.arange(steps)) / self.transit
            rows = (1 - np.cos(np.pi * np.minimum(part / rise, 1))) / 2 if rise else np.ones(steps)
            driver.advance(np.repeat(rows[:, None], 2, axis=1))
            found = driver.concentration()
            below, above = max(below, -float(found.min())), max(above, float(found.max()) - 1)
        return {"below": below, "above": above}

    def age(self, peclet: float) -> dict[str, float]:
        """Least and largest age, and that at the outlet, over the mean transit time."""
        driver, steps = self.driver(peclet, 1 / self.transit), 2 * round(self.transit / 2)
        driver.begin(np.zeros(self.nodes.count), self.faces, np.zeros(2))
        for _ in range(TRANSITS):
            before = driver.left()
            driver.advance(np.zeros((steps, 2)))
        scalar, fluid = (now - then for now, then in zip(driver.left(), before, strict=True))
        found = driver.concentration()
        return {"least": float(found.min()), "most": float(found.max()), "outlet": float(scalar[1] / fluid[1])}

    def uniform(self, peclet: float, faces: np.ndarray) -> dict[str, float]:
        """Between what a concentration of 1 comes to lie after three transit times."""
        driver = self.driver(peclet)
        driver.begin(np.ones(self.nodes.count), faces, np.ones(2))
        driver.advance(np.ones((2 * round(1.5 * self.transit), 2)))
        found = driver.concentration()
        return {"least": float(found.min()), "most": float(found.max())}


def worst(rows: list[dict[str, float]]) -> dict[str, float]:
    """Over pipes: the least of what is least, the largest of all else."""
    return {key: (min if key == "least" else max)(row[key] for row in rows) for key in rows[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipes", type=int, default=12)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    pipes = [Drawn(rng) for _ in range(options.pipes)]
    rows: list[dict[str, Any]] = []
    print(
        "grid Pe   bolus below/above, by its rise                     age least/most/outlet     1 everywhere, without"
    )
    for peclet in PECLETS:
        row: dict[str, Any] = {"grid_peclet": peclet}
        row["bolus"] = {str(rise): worst([each.bolus(peclet, rise) for each in pipes]) for rise in RISES}
        row["age"] = worst([each.age(peclet) for each in pipes])
        row["uniform"] = worst([each.uniform(peclet, each.faces) for each in pipes])
        row["divergent"] = worst([each.uniform(peclet, each.divergent) for each in pipes])
        rows.append(row)
        shown = "  ".join(f"{each['below']:.3f}/{each['above']:.3f}" for each in row["bolus"].values())
        age, uniform, divergent = row["age"], row["uniform"], row["divergent"]
        print(
            f"{peclet:7g}   {shown:45}   {age['least']:.4f}/{age['most']:.2f}/{age['outlet']:.4f}"
            f"   {uniform['least']:.5f} to {uniform['most']:.5f}, {divergent['least']:.2f} to {divergent['most']:.2f}",
            flush=True,
        )
    if options.json:
        machine = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
        drawn = {"seed": options.seed, "nodes": [each.nodes.count for each in pipes]}
        options.json.write_text(json.dumps(machine | drawn | {"rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
