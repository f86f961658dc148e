# SPDX-License-Identifier: Apache-2.0
"""Laws of the wall: their numbers, their inverses, and the speed of a pulse that they make."""

from dataclasses import replace

import numpy as np
import pytest
from numba import njit

from solver.network.arterial_walls import ElasticWall, FibreWall, OlufsenWall, StiffWall, empirical_thickness_m
from solver.network.laws import make_law, table_of
from solver.network.network import Blood
from solver.network.network_ends import Reflection
from solver.network.run import Numerics
from tests.support.networks import one_cycle, pulse, single, tube, wave_number

PLACE, RADIUS = np.array([0.0, 0.5]), np.array([0.004, 0.003])
WALLS = {
    "elastic": ElasticWall(4e5, (6e-4, 2e-4)),
    "stiff": StiffWall(5e4),
    "olufsen": OlufsenWall(2e6, -2253.0, 8.65e4),
    "fibres": FibreWall(3e5, 2e6, 0.2, 0.04, 5e-4),
}
STRETCH = np.linspace(0.8, 1.5, 15)


def formula(name: str, stretch: np.ndarray) -> np.ndarray:
    """The laws as they are published, at the second place."""
    strain, radius = stretch - 1.0, RADIUS[1]
    if name == "elastic":
        return 4.0 / 3.0 * 4e5 * 4e-4 / radius * strain
    if name == "stiff":
        return 5e4 * strain
    if name == "olufsen":
        return 4.0 / 3.0 * (2e6 * np.exp(-2253.0 * radius) + 8.65e4) * (1.0 - 1.0 / stretch)

    def stress(e: np.ndarray) -> np.ndarray:
        return 3e5 * e + 2e6 * 0.04 * np.log(1.0 + np.exp((e - 0.2) / 0.04))

    return 5e-4 / radius * (stress(strain) / stretch**2 - stress(np.array(0.0)))


@pytest.mark.parametrize(("name", "linear"), [("elastic", True), ("stiff", True), *((name, False) for name in WALLS)])
def test_law_is_the_published_one_and_its_inverse_and_slope_belong_to_it(name, linear):
    law, table = make_law(linear), table_of(WALLS[name].coefficients(PLACE, RADIUS))
    pressure, slope, stretch = law

    @njit
    def evaluate(x, table):
        p = pressure(x, table, 1)
        return p, slope(x, table, 1), stretch(p, 1.0, table, 1)

    found = np.array([evaluate(x, table) for x in STRETCH])
    np.testing.assert_allclose(found[:, 0], formula(name, STRETCH), rtol=1e-9, atol=1e-7)
    step = 1e-6
    rise = (formula(name, STRETCH + step) - formula(name, STRETCH - step)) / (2 * step)
    np.testing.assert_allclose(found[:, 1], rise, rtol=1e-5)
    np.testing.assert_allclose(found[:, 2], STRETCH, rtol=1e-12)


def test_collagen_is_recruited():
    """The stretch that a pressure adds falls where collagen is recruited, by (E_E + E_C)/E_E far beyond."""
    table = table_of(WALLS["fibres"].coefficients(PLACE, RADIUS))
    slope = make_law(False).slope.py_func
    with_collagen = slope(1.35, table, 1)
    table[3] = table[6] = 0.0
    assert with_collagen > 3.0 * slope(1.35, table, 1)


def test_thickness_of_arteries_lies_between_a_tenth_and_a_third_of_the_radius():
    ratio = empirical_thickness_m(np.array([0.0005, 0.004, 0.012])) / np.array([0.0005, 0.004, 0.012])
    assert ratio[0] > ratio[1] > ratio[2] > 0.1
    assert ratio[0] < 0.36


@pytest.mark.slow
@pytest.mark.parametrize("name", ["olufsen", "fibres"])
@pytest.mark.parametrize("initial_pa", [0.0, 12000.0])
def test_pulse_runs_as_fast_as_the_wall_at_its_pressure_makes_it(name, initial_pa):
    """c^2 = lambda/(2 rho) dp/dlambda of the published law, found from a pulse over 1 m to 0.3 %."""
    stretch = np.linspace(0.9, 1.8, 200001)
    law = formula(name, stretch)
    k = np.abs(law - initial_pa).argmin()
    celerity = np.sqrt(stretch[k] / 2000.0 * (law[k + 1] - law[k - 1]) / (stretch[k + 1] - stretch[k - 1]))
    segment = replace(tube(1.6, float(RADIUS[1])), wall=WALLS[name])
    network = single(segment, pulse(0.4, 1e-10), Reflection(), 0.4, initial_pa=initial_pa, blood=Blood(1000.0, 1e-12))
    run = one_cycle(network, Numerics(4e-3, samples=400))
    first = run.grid.first[0]
    early, late = (run.record.pressure[:, first + n] - initial_pa for n in (25, 275))
    time = np.arange(400) / 1000.0
    delay = np.average(time, weights=late**2) - np.average(time, weights=early**2)
    np.testing.assert_allclose(1.0 / delay, celerity, rtol=3e-3)


def test_viscosity_belongs_to_any_wall():
    """A pulse of 10 Hz is damped along a viscous wall and not along an elastic one."""
    damped, elastic = (wave_number(10.0, gamma, 0.01).imag for gamma in (1.0, 0.0))
    assert damped < -0.5
    assert abs(elastic) < 1e-2
