# SPDX-License-Identifier: Apache-2.0
"""Collision of one node.

To compile each form takes a second or three, and nothing else takes any time: quick tests compile a few of them, and
look at all of them interpreted.
"""

from itertools import product

import numba
import numpy as np
import pytest

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.lattice import build_lattice
from solver.kernels.collision import COLLISIONS, ON_D3Q19, make_collision, relaxation_rates
from solver.kernels.d3q19 import WEIGHTS
from solver.kernels.node_physics import EQUILIBRIA, make_macroscopic
from solver.kernels.velocity_sets import velocity_set
from tests.support import naive
from tests.support.geometries import plates
from tests.support.simulator import interpreted
from validation import textbook

FORCE = np.array((1e-3, -2e-3, 3e-3))
RATES = relaxation_rates(0.7, 0.1)
FORMS = [
    *((19, *form) for form in product(EQUILIBRIA, ON_D3Q19)),
    *((27, *form) for form in product(("incompressible", "compressible"), COLLISIONS)),
]
QUICK = {(19, "incompressible", "trt"), (27, "incompressible", "cumulant")}
COMPILED = [pytest.param(*form, marks=() if form in QUICK else pytest.mark.slow) for form in FORMS]
ON_19 = [form for form in COMPILED if form.values[0] == 19]
DENSITY = {name: 1.05 if name.startswith("compressible") else 1.0 for name in EQUILIBRIA}


def populations(q: int) -> np.ndarray:
    return 0.02 * np.random.default_rng(q).standard_normal(q)


@pytest.mark.parametrize(("q", "equilibrium", "name"), COMPILED)
def test_collision_is_its_textbook_formula(q, equilibrium, name):
    g = populations(q)
    collided = make_collision(name, np.float64, equilibrium, q)(tuple(g), RATES, tuple(FORCE))
    wanted = textbook.COLLISIONS[name](velocity_set(q), g[:, None], *RATES, FORCE, equilibrium)[:, 0]
    # round-off of about a hundred operations on numbers of size 0.1
    np.testing.assert_allclose(collided, wanted, rtol=0, atol=1e-15)


@pytest.mark.parametrize(("q", "equilibrium", "name"), COMPILED)
def test_collision_conserves_mass_and_adds_the_force_to_momentum(q, equilibrium, name):
    g = populations(q)
    collided = np.array(make_collision(name, np.float64, equilibrium, q)(tuple(g), RATES, tuple(FORCE)))
    assert collided.sum() == pytest.approx(g.sum(), abs=1e-15)
    np.testing.assert_allclose((collided - g) @ velocity_set(q).velocities, FORCE, rtol=0, atol=1e-15)


@pytest.mark.parametrize(("q", "equilibrium", "name"), ON_19)
def test_equilibrium_without_force_stays(q, equilibrium, name):
    g = naive.equilibrium(np.array([0.01]), np.array([[0.02], [-0.01], [0.03]]), equilibrium)[:, 0]
    collided = make_collision(name, np.float64, equilibrium, q)(tuple(g), RATES, (0.0, 0.0, 0.0))
    # the recursive model adds the third-order equilibrium, of size u^3
    np.testing.assert_allclose(collided, g, rtol=0, atol=1e-15 if name != "recursive" else 3e-5)


@pytest.mark.parametrize(("q", "equilibrium", "name"), ON_19)
def test_a_force_accelerates_the_density_of_the_equilibrium(q, equilibrium, name):
    """Uniform fluid with drho = 0.05 gains n F of momentum in n steps; u = (n + 1/2) F/rho, with 1 or 1 + drho."""
    collide, g, force = make_collision(name, np.float64, equilibrium, q), tuple(0.05 * WEIGHTS), tuple(1e-2 * FORCE)
    for _ in range(10):
        g = collide(g, RATES, force)
    drho, *velocity = make_macroscopic(np.float64, equilibrium)(g, force)
    assert drho == pytest.approx(0.05, rel=1e-13)
    np.testing.assert_allclose(velocity, 10.5e-2 * FORCE / DENSITY[equilibrium], rtol=1e-12)


def require_all() -> None:
    """Of every form, what is tested above."""
    for form in FORMS:
        test_collision_is_its_textbook_formula(*form)
        test_collision_conserves_mass_and_adds_the_force_to_momentum(*form)
        if form[0] == 19:
            test_equilibrium_without_force_stays(*form)
            test_a_force_accelerates_the_density_of_the_equilibrium(*form)


def test_every_form_is_its_formula_interpreted():
    interpreted("from tests.solver.kernels.test_collision import require_all\nrequire_all()")


@pytest.mark.slow
@pytest.mark.parametrize("equilibrium", EQUILIBRIA)
@pytest.mark.parametrize("name", ON_D3Q19)
def test_a_force_drives_flow_between_plates_to_second_order(name, equilibrium):
    """Half-way plates at tau = 1: TRT is exact with Lambda 3/16, BGK's Lambda 1/4 makes it slip by 1/(3 H^2)."""
    viscosity, heights, errors = 1 / 6, (8, 16), []
    for height in heights:
        lattice = build_lattice(
            plates(height),
            name,
            relaxation_rates(1.0, 3 / 16),
            "half-way",
            "fp64",
            None,
            (8 * viscosity * 0.01 / height**2, 0.0, 0.0),
            equilibrium=equilibrium,
        )
        driver = CpuDriver(lattice)
        driver.advance(np.zeros((60 * height**2, 0)))
        z = np.arange(height) - (height - 1) / 2
        errors.append(np.abs(driver.fields().velocity[0] / 0.01 - (1 - (2 * z / height) ** 2)).max())
    if name == "trt":
        assert max(errors) < 1e-12
    elif name == "bgk":
        np.testing.assert_allclose(errors, [1 / (3 * height**2) for height in heights], rtol=1e-9)
    else:
        assert np.log2(errors[0] / errors[1]) > 1.95


def test_single_precision_stays_single():
    single = np.float32
    g, rates, force = (tuple(single(v) for v in values) for values in (populations(19), RATES, FORCE))
    collide = make_collision("trt", single)
    collide.compile(tuple(numba.typeof(values) for values in (g, rates, force)))  # as a loop does that calls it
    # a constant of double precision would make all that follows double, at half the speed
    assert all(str(kind) == "float32" for kind in collide.nopython_signatures[0].return_type)


def test_unknown_equilibrium_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'thermal': unknown; known are incompressible, compressible"):
        make_collision("trt", np.float64, "thermal")


def test_unknown_collision_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=f"'mrt': unknown; known are {', '.join(COLLISIONS)}"):
        make_collision("mrt", np.float64)
