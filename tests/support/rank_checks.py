# SPDX-License-Identifier: Apache-2.0
"""Lattices divided among ranks against the whole, ``mpirun -n K python -m tests.support.rank_checks [BACKEND]``: the
first rank prints a line of JSON for each. On CUDA, the simulator or a device, the whole is one driver there.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable

import numpy as np
from numba import config

from solver.backends.communicator import Communicator, world
from solver.backends.distributed import DistributedDriver
from solver.backends.driver import Driver, LatticeDriver
from solver.backends.fields import MEAN
from solver.backends.lattice import Lattice, build_lattice
from solver.boundary.walls import WALLS
from solver.kernels.collision import relaxation_rates
from solver.run.setup import make_driver
from tests.solver.boundary.test_moving_walls import patched
from tests.solver.boundary.test_windkessel import cavern as with_windkessel
from tests.solver.coupling.test_coupling import cavern as coupled
from tests.solver.kernels.test_isotropy import laid_out
from tests.support.geometries import closed_box, numbers, observe, random_cavern
from tests.support.simulator import make_fast

RATES = relaxation_rates(0.7, 0.1)
Case = tuple[Lattice, np.ndarray]


def walled(walls: str, precision: str = "fp64") -> Case:
    """Openings and walls of any shape, which lie on all ranks."""
    lattice = build_lattice(random_cavern((7, 6, 5), 3), "trt", RATES, walls, precision, force=(1e-5, 2e-5, -1e-5))
    return lattice, 1e-3 * np.random.default_rng(1).random((8, 3)) * (10, 1, -1)


def moving() -> Case:
    nodes = patched(closed_box((4, 3, 4)), low=lambda p: p[:, 2] < 1, lid=lambda p: p[:, 2] > 4)
    velocity = {"lid": (0.02, 0.01, 0.0)}
    lattice = build_lattice(nodes, "trt", (1 / 0.7, 1.2), "bouzidi", "fp64", moving=velocity, slip=("low",))
    return lattice, np.linspace(0.1, 1, 8)[:, None]


def corrected() -> Case:
    """D3Q27 with the force along the axes, and walls that meet a parabola: found again twice."""
    lattice = laid_out(random_cavern((6, 5, 4), 5, openings=False), True, parabolic=True)
    return lattice, np.zeros((4 * lattice.corrected_pairs, 0))


CASES: dict[str, Callable[[], Case]] = {
    **{f"walls {name}": lambda name=name: walled(name) for name in WALLS},
    "fp16": lambda: walled("bouzidi", "fp16"),
    "moving walls": moving,
    "outlets with feedback": lambda: with_windkessel()[1:],
    "inlets with feedback": lambda: coupled()[1:],
    "corrected": corrected,
}


class Counting(Communicator):
    """Counts what is said."""

    def __init__(self, ranks: Communicator) -> None:
        vars(self).update(vars(ranks))
        self.counted: Counter[str] = Counter()

    def swap(self, sent, received):
        self.counted["messages"] += 1  # at most one to each neighbour
        return super().swap(sent, received)

    def begin_sum(self, values):
        self.counted["sums"] += 1
        return super().begin_sum(values)


def read(driver: Driver, lattice: Lattice) -> dict[str, list[np.ndarray]]:
    """All that can be read of a driver, but for padding."""
    driver.ask_volume()
    state = driver.state()
    state["populations"] = state["populations"].reshape(lattice.q, lattice.stride)[:, : lattice.count]
    state["omega"] = state["omega"][: lattice.count]
    return {
        "observation": [numbers(observe(driver, True))],
        "fields": driver.fields().arrays(),
        "statistics": driver.statistics().arrays(),
        "volume": [driver.volume()],
        "at bounds": [driver.at_bounds()],
        **{f"state, {name}": [state[name]] for name in sorted(state)},
    }


def check(
    lattice: Lattice, boundary_values: np.ndarray, ranks: Counting, make: Callable[[Lattice], LatticeDriver]
) -> dict[str, object]:
    """What differs after some steps from the first rank alone, and from one process that goes on half-way; whether
    anything moved; and what was said in a step.
    """
    part = np.random.default_rng(1).integers(0, ranks.size, lattice.count)
    divided = DistributedDriver(lattice, part, make, ranks)
    noise = 1e-3 * np.random.default_rng(0).standard_normal(lattice.slots)
    state = divided.state()
    kind = state["populations"].dtype
    state["populations"] = noise.astype(np.float16).view(kind) if lattice.fp16 else noise.astype(kind)
    alone = [make(lattice)] if ranks.rank == 0 else []
    first, second = np.split(boundary_values, 2)
    for driver in (*alone, divided):
        driver.restore(state)
        ranks.counted.clear()
        driver.advance(first)
    said = {name: count / len(first) for name, count in ranks.counted.items()}
    for driver in (*alone, divided):
        driver.average(MEAN, True)
    half_way = divided.state()
    if alone:
        alone.append(make(lattice))
        alone[1].restore(half_way)
    for driver in (*alone, divided):
        observe(driver, True)
        driver.advance(second)
        driver.average(MEAN, False)
    found, *others = (read(driver, lattice) for driver in (divided, *alone))
    differ = [
        name
        for other in others
        for name in found.keys() | other.keys()
        if not all(map(np.array_equal, found.get(name, [None]), other.get(name, [None])))
    ]
    velocity = found["fields"][1]
    moved = bool(np.isfinite(velocity).all() and np.abs(velocity).max() > 1e-6)
    return {"differ": differ, "moved": moved, "said": said}


def main(backend: str = "cpu") -> None:
    if backend == "cuda" and config.ENABLE_CUDASIM:
        make_fast()
    ranks = Counting(world())
    for name, case in CASES.items():
        lattice, boundary_values = case()
        rows = boundary_values[: len(boundary_values) // 4 * 4]
        found = check(lattice, rows, ranks, lambda lattice: make_driver(backend, lattice))
        if ranks.rank == 0:
            print(json.dumps({"case": name, **found}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
