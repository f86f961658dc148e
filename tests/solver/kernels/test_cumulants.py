# SPDX-License-Identifier: Apache-2.0
"""The cumulant collision: fluid in motion is as fluid at rest, and walls hold it back whatever the viscosity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from solver.backends.lattice import build_lattice
from solver.kernels.collision import make_collision, relaxation_rates
from solver.kernels.velocity_sets import D3Q27
from solver.run.models import CUMULANT_LAMBDA, choose_velocity_set
from tests.solver.kernels.test_velocity_sets import driven
from tests.support.geometries import periodic_pipe, pipe
from tests.support.simulator import interpreted
from validation.textbook import TextbookSolver
from validation.textbook_links import find_links

SPEEDS = st.tuples(*[st.floats(-0.2, 0.2)] * 3)


def at_equilibrium(drho: float, u: tuple[float, ...], compressible: bool) -> NDArray:
    """Populations whose central moments are those of fluid at rest: products of the axes' parts 1 - 1/3 - u^2 and
    (1/3 + u^2 +- u)/2.
    """
    parts = np.array([[(1 / 3 + v * v - v) / 2, 2 / 3 - v * v, (1 / 3 + v * v + v) / 2] for v in u])
    place = D3Q27.velocities.astype(int) + 1
    product = np.prod([parts[axis][place[:, axis]] for axis in range(3)], axis=0)
    return (1 + drho) * product - D3Q27.weights if compressible else product + (drho - 1) * D3Q27.weights


@settings(deadline=None)
@given(
    drho=st.floats(-0.1, 0.1),
    u=SPEEDS,
    tau=st.floats(0.5005, 2),
    equilibrium=st.sampled_from(("incompressible", "compressible")),
)
def require_rest_in_motion(drho, u, tau, equilibrium):
    g = at_equilibrium(drho, u, equilibrium == "compressible")
    collide = make_collision("cumulant", np.float64, equilibrium, 27)
    found = collide(tuple(g), relaxation_rates(tau, CUMULANT_LAMBDA), (0.0, 0.0, 0.0))
    np.testing.assert_allclose(found, g, rtol=0, atol=1e-15)  # round-off of populations of up to 0.3


def test_fluid_in_uniform_motion_stays_as_it_is():
    """Interpreted, since each equilibrium takes two seconds to compile; test_collision.py has compiled cumulants."""
    interpreted("from tests.solver.kernels.test_cumulants import require_rest_in_motion; require_rest_in_motion()")


def viscosity_of_a_moving_wave(collision: str, speed: float) -> float:
    """Viscosity by which a transverse wave decays that a uniform flow carries along, over 3/(tau - 1/2)."""
    count, tau, steps, height = 32, 0.6, 200, 1e-3
    position = np.column_stack((np.arange(count), np.zeros((count, 2), int)))
    links = find_links(D3Q27, position, lambda at: at * (1, 0, 0) % count, lambda at, velocity: np.zeros(len(at)))
    solver = TextbookSolver(D3Q27, links, collision, relaxation_rates(tau, CUMULANT_LAMBDA))
    wave = np.exp(2j * np.pi * np.arange(count) / count)
    solver.start(np.stack((np.full(count, speed), height * wave.real, np.zeros(count))))
    sizes = []
    for _ in range(2):
        for _ in range(steps):
            solver.step()
        sizes.append(abs(solver.velocity()[1] @ wave.conj()))
    return float(np.log(sizes[0] / sizes[1]) / steps / (2 * np.pi / count) ** 2 / ((tau - 0.5) / 3))


def test_the_viscosity_does_not_depend_on_the_motion():
    """Without the moment c_x^2 c_y of the motion a wave that moves at 0.15 is 3 u^2 = 7 % less viscous."""
    still, moving = (viscosity_of_a_moving_wave("cumulant", speed) for speed in (0.0, 0.15))
    assert still == pytest.approx(1, abs=0.005)  # of second order in the wave number, 0.2
    assert moving == pytest.approx(still, abs=0.005)
    assert viscosity_of_a_moving_wave("projected", 0.15) < still - 0.05


@pytest.mark.slow
def test_friction_of_curved_walls_hardly_depends_on_the_viscosity():
    """Slow flow through an oblique pipe 7 nodes across, at the tau of Re_g 10 and 60 at a speed of 0.08."""
    radius, direction, speed = 3.6, (1, 1, 0), 0.004
    nodes = periodic_pipe(direction, radius)

    def share(collision: str, grid_reynolds: float) -> float:
        tau = 0.5 + 3 * 0.08 / grid_reynolds
        along, r = driven(nodes, direction, 27, tau, radius, speed, 0.25, collision, CUMULANT_LAMBDA)
        return float(along.mean() / (speed * (1 - r**2)).mean())

    lost = {name: share(name, 10) - share(name, 60) for name in ("cumulant", "projected")}
    assert abs(lost["cumulant"]) < 0.03 < lost["projected"] / 2


def test_cumulants_need_d3q27():
    assert choose_velocity_set("auto", "cumulant", 1.0, "incompressible", ()) == 27
    with pytest.raises(ValueError, match="with 19 velocities: it is for 27"):
        make_collision("cumulant", np.float64, "incompressible", 19)
    assert build_lattice(pipe((0, 0, 1), 3.2, 6).with_corners(), "cumulant", (1.0, 1.0), "bouzidi").q == 27
