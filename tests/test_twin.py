"""The drivers are the textbook algorithm: two lattices, formulas over arrays, whatever the models.

Each cavern has it all in one: an inlet with several rows of weights, outlets whose pressure is given, that of a
Windkessel, or found for a given flow; walls that hold, move and slip; a force. Models of a node meet every wall scheme.

Compiling the drivers for each model takes longer than all else. The quick test runs them interpreted, in a process of
its own; the slow ones run them as they are used.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from itertools import product

import numpy as np
import pytest
from geometries import pipe, random_cavern
from naive import Naive, moments, stress

from solver.collision import COLLISIONS, relaxation_rates
from solver.cpu.driver import CpuDriver
from solver.d3q19 import VELOCITIES, WEIGHTS
from solver.four_pass import FourPass
from solver.lattice import Lattice, build_lattice
from solver.nodes import Nodes
from solver.openings import Control
from solver.profiles import Profile
from solver.stage import ROOT
from solver.walls import WALLS

FORCE = (1e-4, 2e-4, -1e-4)
RATES = relaxation_rates(0.7, 0.1)
STEPS = 6
TOLERANCE = 1e-13
"""Of a population, over the largest: round-off of six steps of some hundred operations each."""


@dataclass(frozen=True)
class Models:
    """A combination."""

    collision: str
    walls: str

    def __str__(self) -> str:
        return "-".join(str(value) for value in astuple(self))


EVERY = [Models(*names) for names in product(COLLISIONS, WALLS)]


def cavern_with_everything(seed: int) -> Nodes:
    """A random cavern with an inlet and three outlets, a patch that is to move and one that is to slip."""
    nodes, rng = random_cavern((4, 5, 4), seed), np.random.default_rng(seed)
    opening = nodes.opening_link_opening.copy()
    opening[(opening == 2) & (nodes.position[nodes.opening_link_node, 2] < 3)] = 4
    patch = rng.choice(3, len(nodes.wall_link_q), p=(0.4, 0.3, 0.3)).astype(np.int8)
    return replace(
        nodes,
        openings=(*nodes.openings, replace(nodes.openings[1], id=4, name="o4")),
        opening_link_opening=opening,
        wall_link_q=np.where(patch == 1, 0.5, nodes.wall_link_q).astype(np.float32),
        wall_link_patch=patch,
        patches=("some", "lid"),
    )


def cavern(models: Models, seed: int) -> tuple[Lattice, Naive, np.ndarray]:
    """A cavern with everything, its lattice and its twin, and conditions."""
    nodes, rng = cavern_with_everything(seed), np.random.default_rng(seed)
    columns = np.array([0, 3, 4, 6, 8], np.int32)
    control = Control(  # a Windkessel, and an outlet of which a flow is demanded
        opening=np.array([2, 3], np.int32),
        column=np.array([4, 6], np.int32),
        rule=np.array([(0.7, 0.9, 0.3, 0.2), (0.3, 1.0, 0.05, 0.0)]),
        start=np.array([(0.01, 0.02), (0.0, 0.0)]),
    )
    through = (WEIGHTS * VELOCITIES.T)[:, nodes.wall_link_direction[nodes.wall_link_patch == 2]].sum(axis=1)
    x, y, z = 0.02 * np.cross(through, (1.0, 2.0, 3.0)) / np.linalg.norm(through)
    moving, slip = {"lid": (x, y, z)}, ("some",)
    lattice = build_lattice(
        nodes, models.collision, RATES, models.walls, "fp64", force=FORCE, moving=moving, slip=slip, columns=columns,
        profiles={"o1": Profile("womersley", 1, 3.0)}, control=control,
    )  # fmt: skip
    weight = lattice.inlets.weight
    naive = Naive(nodes, models.collision, RATES, models.walls, weight, np.array(FORCE), moving, slip, columns, control)
    conditions = rng.random((STEPS, 8)) * (0.2, 0.1, -0.1, 0.01, -0.01, 0.1, 0.01, -0.1)
    return lattice, naive, conditions


def tilted_pipe(models: Models) -> tuple[Lattice, Naive, np.ndarray]:
    """A short tilted pipe, its lattice and its twin, and conditions."""
    nodes = pipe((1, 2, 3), 2.6, 6)
    lattice = build_lattice(nodes, models.collision, RATES, models.walls, "fp64", force=FORCE)
    naive = Naive(nodes, models.collision, RATES, models.walls, lattice.inlets.weight, np.array(FORCE))
    return lattice, naive, np.tile((0.5, 0.01), (STEPS, 1))


def compare(lattice: Lattice, naive: Naive, conditions: np.ndarray, drivers=(CpuDriver, FourPass)) -> None:
    """All that is read of a run, from a random state."""
    start = 1e-2 * np.random.default_rng(0).standard_normal(naive.g.shape)
    naive.g[:] = start
    for row in conditions:
        naive.step(row)
    largest = np.abs(naive.g).max()
    (drho, u), force = moments(naive.g, naive.force), naive.force
    for make in drivers:
        driver = make(lattice)
        g = driver.populations[: 19 * lattice.stride].reshape(19, -1)[:, : lattice.count]
        g[:] = start
        driver.advance(conditions)
        fields = driver.fields()
        for name, found, wanted in (
            ("populations", g, naive.g),
            ("drho", fields.drho, drho),
            ("velocity", fields.velocity, u),
            ("stress", fields.stress, stress(naive.g, force)[(0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)]),
            ("inflow", driver.inflow(), naive.entered),
        ):
            np.testing.assert_allclose(
                found, wanted, rtol=0, atol=TOLERANCE * largest, err_msg=f"{name} of {make.__name__}"
            )


def cases() -> Iterator[tuple[str, tuple[Lattice, Naive, np.ndarray]]]:
    """All combinations, each in another cavern, and some in a pipe."""
    for seed, models in enumerate(EVERY):
        yield f"{models} in cavern {seed}", cavern(models, seed)
    for models in EVERY[:: len(WALLS) + 1]:
        yield f"{models} in a pipe", tilted_pipe(models)


def test_every_combination_is_two_lattice_streaming():
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    answer = subprocess.run(
        [sys.executable, "-c", "import test_twin; test_twin.compare_all()"],
        check=False, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr[-4000:]
    assert f"{len(EVERY)} combinations" in answer.stdout


def compare_all() -> None:
    for told, case in cases():
        print(told, flush=True)
        compare(*case)
    print(f"{len(EVERY)} combinations")


@pytest.mark.slow
@pytest.mark.parametrize("models", EVERY, ids=str)
def test_compiled_combination_is_two_lattice_streaming(models):
    compare(*cavern(models, 7))
    compare(*tilted_pipe(models))
