"""Collision of one node."""

import naive
import numpy as np
import pytest

from solver.collision import COLLISIONS, make_collision, relaxation_rates
from solver.d3q19 import VELOCITIES
from solver.stage import StageError

FORCE = np.array((1e-3, -2e-3, 3e-3))
RATES = relaxation_rates(0.7, 0.1)


@pytest.fixture(scope="module")
def populations():
    return 0.02 * np.random.default_rng(1).standard_normal(19)


@pytest.mark.parametrize("name", COLLISIONS)
def test_collision_is_its_textbook_formula(name, populations):
    collided = make_collision(name, np.float64)(tuple(populations), RATES, tuple(FORCE))
    wanted = naive.COLLISIONS[name](populations[:, None], *RATES, FORCE)[:, 0]
    # round-off of about a hundred operations on numbers of size 0.1
    np.testing.assert_allclose(collided, wanted, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", COLLISIONS)
def test_collision_conserves_mass_and_adds_the_force_to_momentum(name, populations):
    collided = np.array(make_collision(name, np.float64)(tuple(populations), RATES, tuple(FORCE)))
    assert collided.sum() == pytest.approx(populations.sum(), abs=1e-15)
    np.testing.assert_allclose((collided - populations) @ VELOCITIES, FORCE, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", COLLISIONS)
def test_equilibrium_without_force_stays(name):
    g = naive.equilibrium(np.array([0.01]), np.array([[0.02], [-0.01], [0.03]]))[:, 0]
    collided = make_collision(name, np.float64)(tuple(g), RATES, (0.0, 0.0, 0.0))
    # the recursive model adds the third-order equilibrium, of size u^3
    np.testing.assert_allclose(collided, g, rtol=0, atol=1e-15 if name != "recursive" else 3e-5)


def test_single_precision_stays_single(populations):
    single = np.float32
    g, rates, force = (tuple(single(v) for v in values) for values in (populations, RATES, FORCE))
    collide = make_collision("trt", single)
    collide(g, rates, force)
    # a constant of double precision would make all that follows double, at half the speed
    assert all(str(kind) == "float32" for kind in collide.nopython_signatures[0].return_type)


def test_unknown_collision_is_told_the_known_ones():
    with pytest.raises(StageError, match="'mrt': unknown; known are bgk, trt, projected, recursive"):
        make_collision("mrt", np.float64)
