# SPDX-License-Identifier: Apache-2.0
"""The drivers are the textbook algorithm: two lattices, formulas over arrays, whatever the models.

Each cavern has it all in one: an inlet with several rows of weights, outlets whose pressure is given, that of a
Windkessel, or found for a given flow; walls that hold, move and slip; a force. Models of a node meet every wall scheme.

Compiling the drivers for each model takes longer than all else. The quick test runs them interpreted, in a process of
its own; the slow ones run them as they are used.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle, product

import numpy as np
import pytest

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.lattice import Lattice, build_lattice
from solver.boundary.openings import OutletFeedback
from solver.boundary.profiles import Profile
from solver.boundary.walls import WALLS
from solver.domain.nodes import Nodes
from solver.kernels.collision import COLLISIONS, ON_D3Q19, relaxation_rates
from solver.kernels.node_physics import EQUILIBRIA
from solver.kernels.rheology import Rheology, make_rheology
from solver.kernels.velocity_sets import velocity_set
from tests.support.geometries import observe, pipe, random_cavern
from tests.support.naive import Naive
from tests.support.simulator import interpreted
from validation.four_pass import FourPass
from validation.textbook import Thickening, density, moments, stress

FORCE = (1e-4, 2e-4, -1e-4)
TAU, LAMBDA_TRT = 0.7, 0.1
RATES = relaxation_rates(TAU, LAMBDA_TRT)
STEPS = 4
TOLERANCE = 1e-13
"""Of a population, over the largest: round-off of four steps of some hundred operations each."""


BLOOD = {
    "newtonian": (0.1,),
    "carreau-yasuda": (0.4, 0.02, 40.0, 0.7, 0.3),
    "casson": (2e-3, 0.02, 0.5),
    "power-law": (0.02, 0.6),
    "bingham": (3e-3, 0.05),
    "herschel-bulkley": (1e-4, 0.02, 0.7, 300.0),
}
"""Parameters of each model in lattice units, at which tau varies over the shear rates of a random state."""


ONSET = 0.02
"""Shear rate from which on there are eddies, beside a blend: about the median of a random state."""


@dataclass(frozen=True)
class Models:
    """A combination; `blood` none: a viscosity that is the same everywhere; `eddies`: with those of Smagorinsky."""

    collision: str
    walls: str
    equilibrium: str = "incompressible"
    blood: str | None = None
    eddies: bool = False
    blended: bool = False
    q: int = 19

    def __str__(self) -> str:
        extras = (self.blood, "eddies" if self.eddies else None, "blend" if self.blended else None, f"D3Q{self.q}")
        return " ".join((self.collision, self.walls, self.equilibrium, *filter(None, extras)))

    def rheology(self, nodes: Nodes) -> tuple[Rheology | None, Thickening | None]:
        """For the drivers and for the reference."""
        if not self.blood:
            return None, None
        blend = np.random.default_rng(5).random(nodes.count) if self.blended else None
        eddies, parameters = 1.0 if self.eddies else 0.0, BLOOD[self.blood]
        onset = ONSET if self.blended else 0.0
        thickening = Thickening(
            self.blood,
            parameters,
            np.full(nodes.count, RATES[0]),
            LAMBDA_TRT,
            eddies,
            0.0 if blend is None else blend,
            onset,
        )
        return make_rheology(self.blood, parameters, TAU, LAMBDA_TRT, eddies, blend, onset), thickening


NEWTONIAN = [Models(*names) for names in product(ON_D3Q19, WALLS, EQUILIBRIA)]
PAIRWISE = [
    Models(collision, walls, equilibrium)
    for (i, collision), (j, walls), (k, equilibrium) in product(*map(enumerate, (ON_D3Q19, WALLS, EQUILIBRIA)))
    if (i + j + k) % len(EQUILIBRIA) == 0
]
"""Of these a quarter, with each two of a collision, a wall and an equilibrium together: there are four of each kind."""
BLOODS = [
    Models(collision, walls, equilibrium, *blood)
    for blood, walls, (collision, equilibrium) in zip(
        [
            *((name, False, False) for name in BLOOD if name != "newtonian"),
            ("newtonian", True, False),
            ("newtonian", False, True),
            *((name, True, True) for name in BLOOD),
        ],
        cycle(WALLS),
        cycle(product(ON_D3Q19, EQUILIBRIA)),
        strict=False,
    )
]
"""Every model of blood, alone and with eddies and a blend, each with another collision, wall and equilibrium."""
CORNERS = [
    Models(collision, walls, equilibrium, *blood, q=27)
    for blood, walls, (equilibrium, collision) in zip(
        [
            (),
            (),
            (),
            (),
            (),
            ("newtonian", True, True),
            ("casson", False, False),
            ("bingham", True, True),
            (),
            ("casson", True, True),
        ],
        cycle(WALLS),
        product(("incompressible", "compressible"), COLLISIONS),
        strict=False,
    )
]
"""D3Q27: every collision with both densities, and viscosities that vary."""
EVERY = NEWTONIAN + BLOODS + CORNERS
QUICK = PAIRWISE + BLOODS + CORNERS


def cavern_with_everything(seed: int, q: int = 19) -> Nodes:
    """A random cavern with an inlet and three outlets, a patch that is to move and, on D3Q19, one that is to slip."""
    nodes, rng = random_cavern((4, 5, 4), seed), np.random.default_rng(seed)
    opening = nodes.opening_link_opening.copy()
    opening[(opening == 2) & (nodes.position[nodes.opening_link_node, 2] < 3)] = 4
    patch = rng.choice(3, len(nodes.wall_link_q), p=(0.4, 0.3, 0.3)).astype(np.int8)
    corner = np.where(nodes.corner_link_opening == 0, 2 * rng.choice(2, len(nodes.corner_link_q)), 0).astype(np.int8)
    made = replace(
        nodes,
        corner_link_patch=corner,
        openings=(*nodes.openings, replace(nodes.openings[1], id=4, name="o4")),
        opening_link_opening=opening,
        wall_link_q=np.where(patch == 1, 0.5, nodes.wall_link_q).astype(np.float32),
        wall_link_patch=patch,
        patches=("some", "lid"),
    )
    return made.with_corners() if q == 27 else made


def cavern(models: Models, seed: int, precision: str = "fp64") -> tuple[Lattice, Naive, np.ndarray]:
    """A cavern with everything, its lattice and its reference, and conditions."""
    nodes, rng = cavern_with_everything(seed, models.q), np.random.default_rng(seed)
    columns = np.array([0, 3, 4, 6, 8], np.int32)
    outlet_feedback = (
        OutletFeedback(  # a Windkessel, and an outlet whose pressure follows from half of its flow and half of all
            opening=np.array([2, 3], np.int32),
            column=np.array([4, 6], np.int32),
            rule=np.array([(0.7, 0.9, 0.3, 0.2, 0.0, 0.01, 0.7), (0.3, 1.0, 0.05, 0.0, 0.5, 0.03, 0.0)]),
            start=np.array([(0.01, 0.02), (0.0, 0.0)]),
        )
    )
    stencil = velocity_set(nodes.q)
    weighted = stencil.weights * stencil.velocities.T
    through = weighted[:, nodes.wall_link_direction[nodes.wall_link_patch == 2]].sum(axis=1)
    x, y, z = 0.02 * np.cross(through, (1.0, 2.0, 3.0)) / np.linalg.norm(through)
    moving, slip = {"lid": (x, y, z)}, ("some",) if models.q == 19 else ()
    rheology, thickening = models.rheology(nodes)
    lattice = build_lattice(
        nodes,
        models.collision,
        RATES,
        models.walls,
        precision,
        force=FORCE,
        moving=moving,
        slip=slip,
        columns=columns,
        profiles={"o1": Profile("womersley", 1, 3.0)},
        outlet_feedback=outlet_feedback,
        equilibrium=models.equilibrium,
        rheology=rheology,
    )
    naive = Naive(
        nodes,
        models.collision,
        RATES,
        models.walls,
        lattice.inlets.weight,
        np.array(FORCE),
        moving,
        slip,
        columns,
        outlet_feedback,
        models.equilibrium,
        thickening,
    )
    boundary_values = rng.random((STEPS, 8)) * (0.2, 0.1, -0.1, 0.01, -0.01, 0.1, 0.01, -0.1)
    return lattice, naive, boundary_values


def tilted_pipe(models: Models) -> tuple[Lattice, Naive, np.ndarray]:
    """A short tilted pipe, its lattice and its reference, and conditions."""
    nodes = pipe((1, 2, 3), 2.6, 6)
    nodes = nodes.with_corners() if models.q == 27 else nodes
    rheology, thickening = models.rheology(nodes)
    lattice = build_lattice(
        nodes,
        models.collision,
        RATES,
        models.walls,
        "fp64",
        force=FORCE,
        equilibrium=models.equilibrium,
        rheology=rheology,
    )
    naive = Naive(
        nodes,
        models.collision,
        RATES,
        models.walls,
        lattice.inlets.weight,
        np.array(FORCE),
        form=models.equilibrium,
        rheology=thickening,
    )
    return lattice, naive, np.tile((0.5, 0.01), (STEPS, 1))


def compare(lattice: Lattice, naive: Naive, boundary_values: np.ndarray, drivers=(CpuDriver, FourPass)) -> None:
    """All that is read of a run, from a random state."""
    start = 1e-2 * np.random.default_rng(0).standard_normal(naive.g.shape)
    naive.g[:] = start
    for row in boundary_values:
        naive.step(row)
    largest = np.abs(naive.g).max()
    assert not naive.rheology or np.ptp(naive.rheology.omega) > 0.02  # the viscosity does vary
    drho, u = moments(naive.stencil, naive.g, naive.force, naive.form)
    pi = stress(naive.stencil, naive.g, naive.force, naive.form)
    if naive.rheology:  # its part that is viscous, over what that is at the viscosity that units are chosen by
        omega, _ = naive.rheology.rates(pi, density(drho, naive.form))
        pi *= (1 - omega / 2) / (1 - RATES[0] / 2)
    for make in drivers:
        driver = make(lattice)
        rows, slots = np.zeros((lattice.q, lattice.stride)), slice(0, lattice.q * lattice.stride)
        rows[:, : lattice.count] = start
        driver.write(slots, rows.ravel())
        driver.advance(boundary_values)
        fields, g = driver.fields(), driver.read(slots).reshape(lattice.q, -1)[:, : lattice.count]
        for name, found, wanted in (
            ("populations", g, naive.g),
            ("drho", fields.drho, drho),
            ("velocity", fields.velocity, u),
            ("stress", fields.stress, pi[(0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)]),
            ("inflow", observe(driver, False).inflow, naive.entered),
        ):
            # a sum over links, as the inflow, is rounded as it is large
            scale = max(largest, np.abs(wanted).max(initial=0)) if name == "inflow" else largest
            np.testing.assert_allclose(
                found, wanted, rtol=0, atol=TOLERANCE * scale, err_msg=f"{name} of {make.__name__}"
            )


def compare_fp16(lattice: Lattice, naive: Naive, boundary_values: np.ndarray) -> None:
    """Populations are rounded in the same places whether streaming is in place or by swap: the bits are the same."""
    drivers = CpuDriver(lattice), FourPass(lattice)
    for driver in drivers:
        driver.advance(boundary_values)
    one, other = (driver.populations.reshape(lattice.q, -1)[:, : lattice.count] for driver in drivers)
    assert one.dtype == np.uint16
    assert np.count_nonzero(one) > one.size / 2
    np.testing.assert_array_equal(one, other)


def cases(combinations: list[Models]) -> Iterator[tuple[str, tuple[Lattice, Naive, np.ndarray]]]:
    """Combinations, each in another cavern, and some in a pipe."""
    for seed, models in enumerate(combinations):
        yield f"{models} in cavern {seed}", cavern(models, seed)
    for models in combinations[:: len(WALLS) * 2 + 3]:
        yield f"{models} in a pipe", tilted_pipe(models)


def compare_all(combinations: list[Models]) -> None:
    """On the CPU, by the reference four-pass solver, too."""
    for reported, case in cases(combinations):
        print(reported, flush=True)
        compare(*case)
    for seed, models in enumerate(combinations[::7]):
        print(f"{models} in halves", flush=True)
        compare_fp16(*cavern(models, seed, "fp16"))
    print(f"{len(combinations)} combinations")


def compare_on_cuda() -> None:
    """On the simulator of CUDA."""
    from solver.backends.cuda.cuda_driver import CudaDriver

    for reported, (lattice, naive, boundary_values) in cases(EVERY):
        print(reported, flush=True)
        compare(lattice, naive, boundary_values[:2], (CudaDriver,))
    print(f"{len(EVERY)} combinations")


@pytest.mark.parametrize("name", ["QUICK", pytest.param("EVERY", marks=pytest.mark.slow)])
def test_combinations_are_two_lattice_streaming(name):
    """Each two models of a node and of a wall together, or all with all."""
    said = interpreted(f"from tests.solver.backends import test_drivers as t; t.compare_all(t.{name})")
    assert f"{len(globals()[name])} combinations" in said


@pytest.mark.slow
def test_every_combination_on_simulated_cuda_is_two_lattice_streaming():
    program = "from tests.solver.backends import test_drivers as t; t.compare_on_cuda()"
    assert f"{len(EVERY)} combinations" in interpreted(program, NUMBA_ENABLE_CUDASIM="1")


@pytest.mark.slow
@pytest.mark.parametrize("models", EVERY, ids=str)
def test_compiled_combination_is_two_lattice_streaming(models):
    compare(*cavern(models, 7))
    compare(*tilted_pipe(models))
