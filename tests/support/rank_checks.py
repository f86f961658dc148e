# SPDX-License-Identifier: Apache-2.0
"""Lattices divided among ranks against the whole: the first rank prints a line of JSON for each.

    mpirun -n K python -m tests.support.rank_checks [BACKEND [CASE ...]]

On CUDA, the simulator or a device, the whole is one driver there. With the backend `peers` it is CUDA, and messages do
not pass through the host.
"""

import json
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
from numba import config

from solver.backends.communicator import world
from solver.backends.distributed import DistributedDriver
from solver.backends.lattice import Lattice, build_lattice
from solver.boundary.walls import WALLS
from solver.kernels.collision import ON_D3Q19, relaxation_rates
from solver.run.setup import make_driver
from tests.solver.boundary.test_moving_walls import patched
from tests.solver.boundary.test_windkessel import cavern as with_windkessel
from tests.solver.coupling.test_coupling import cavern as coupled
from tests.solver.kernels.test_isotropy import laid_out
from tests.support import garbage
from tests.support.geometries import closed_box, nodes_from, random_cavern
from tests.support.rank_agreement import Counting, check, random_parts
from tests.support.simulator import make_fast

RATES = relaxation_rates(0.7, 0.1)
Case = tuple[Lattice, np.ndarray] | tuple[Lattice, np.ndarray, np.ndarray]
"""A lattice, boundary values, and numbers by which its nodes are divided; at random if there are none."""


def walled(walls: str, precision: str = "fp64", collision: str = "trt") -> Case:
    """Openings and walls of any shape, which lie on all ranks."""
    lattice = build_lattice(random_cavern((7, 6, 5), 3), collision, RATES, walls, precision, force=(1e-5, 2e-5, -1e-5))
    return lattice, 1e-3 * np.random.default_rng(1).random((8, 3)) * (10, 1, -1)


def cut_outlet() -> Case:
    """Walls, and an outlet of which some nodes are at a border and some are not, in parts that follow each other."""
    nodes = random_cavern((8, 12, 5), 3)
    lattice = build_lattice(nodes, "trt", RATES, "bouzidi", "fp64")
    return lattice, 1e-3 * np.random.default_rng(1).random((8, 3)) * (10, 1, -1), nodes.position[:, 1]


def wide() -> Case:
    """A box so wide that in slabs of it some nodes are far from all that passes over links touch, which come last."""

    def crossing(position: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.full(len(position), 0.3), np.zeros(len(position), np.int64)

    nodes = nodes_from(np.ones((30, 10, 10), bool), crossing)
    lattice = build_lattice(nodes, "trt", RATES, "bouzidi", "fp32", force=(1e-5, 2e-5, -1e-5))
    return lattice, np.ones((4, 1)), nodes.position[:, 2]


def moving() -> Case:
    nodes = patched(closed_box((4, 3, 4)), low=lambda p: p[:, 2] < 1, lid=lambda p: p[:, 2] > 4)
    velocity = {"lid": (0.02, 0.01, 0.0)}
    lattice = build_lattice(nodes, "trt", (1 / 0.7, 1.2), "bouzidi", "fp64", moving=velocity, slip=("low",))
    return lattice, np.linspace(0.1, 1, 8)[:, None]


def corrected(size: tuple[int, int, int] = (6, 5, 4)) -> Case:
    """D3Q27 with the force along the axes, and walls that meet a parabola, found again twice.

    It has an inlet and outlets, whose links a device treats before others.
    """
    lattice = laid_out(random_cavern(size, 5), True, parabolic=True)
    return lattice, 1e-3 * np.random.default_rng(1).random((4 * lattice.corrected_pairs, 3)) * (10, 1, -1)


CASES: dict[str, Callable[[], Case]] = {
    **{f"walls {name}": partial(walled, name) for name in WALLS},
    **{f"collision {name}": partial(walled, "bouzidi", "fp32", name) for name in ON_D3Q19},
    "fp16": lambda: walled("bouzidi", "fp16"),
    "a cut through an outlet": cut_outlet,
    "nodes that come last": wide,
    "moving walls": moving,
    "outlets with feedback": lambda: with_windkessel()[1:],
    "inlets with feedback": lambda: coupled()[1:],
    "corrected": corrected,
    "corrected, of few nodes": lambda: corrected((4, 2, 2)),
}


def main(backend: str = "cpu", *names: str) -> None:
    if backend != "cpu" and config.ENABLE_CUDASIM:
        make_fast()
    divide: Callable[..., DistributedDriver] = DistributedDriver
    if backend == "peers":
        from solver.backends.cuda.peer_driver import PeerDriver as divide

        backend = "cuda"
    garbage.freeze()
    ranks = Counting(world())
    for name in names or CASES:
        lattice, boundary_values, *along = CASES[name]()
        rows, part = boundary_values[: len(boundary_values) // 4 * 4], random_parts(lattice, ranks)
        if along:
            part = along[0].argsort(kind="stable").argsort() * ranks.size // lattice.count
        found = check(lattice, rows, part, ranks, lambda lattice: make_driver(backend, lattice), divide)
        if ranks.rank == 0:
            print(json.dumps({"case": name, **found}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
