"""Inlets and outlets."""

import numpy as np
import pytest
from geometries import pipe

from solver.collision import relaxation_rates
from solver.cpu.driver import CpuDriver
from solver.lattice import build_lattice
from solver.profiles import PROFILES, Profile

RATES = relaxation_rates(0.8, 3 / 16)


@pytest.mark.parametrize("profile", PROFILES)
def test_inlet_lets_in_exactly_the_flow_that_is_asked_for(profile):
    nodes = pipe((1, 2, 3), 4.2, 12)
    driver = CpuDriver(build_lattice(nodes, "trt", RATES, "half-way", "fp64", {"in": Profile(profile)}))
    g = driver.populations.reshape(19, -1)[:, : nodes.count]
    for flow in (0.1, 0.3, 0.05):
        before = g.sum()
        driver.advance(np.array([[flow, 0.0], [flow, 0.0]]))
        assert driver.inflow()[0] == pytest.approx(flow, rel=1e-13)
        # six steps of at most 1.34 nodes along the pipe do not reach the outlet, so that mass grows by the inflow alone
        assert g.sum() - before == pytest.approx(2 * flow, rel=1e-12)


def test_steady_flow_leaves_as_much_as_it_enters_to_round_off():
    nodes = pipe((1, 2, 3), 4.2, 12)
    driver = CpuDriver(build_lattice(nodes, "trt", RATES, "bouzidi", "fp64"))
    driver.advance(np.tile((0.5, 0.01), (6000, 1)))
    into, out = driver.inflow()
    assert into == pytest.approx(0.5, rel=1e-13)
    # without the correction interpolated walls lose some tenths of a percent of the flow
    assert out == pytest.approx(-0.5, rel=1e-10)


def test_pressure_outlet_holds_its_pressure():
    nodes = pipe((0, 0, 1), 4.2, 12)
    driver = CpuDriver(build_lattice(nodes, "trt", RATES, "bouzidi", "fp64"))
    driver.advance(np.tile((0.0, 0.01), (6000, 1)))
    # nothing flows in, so that the whole pipe takes the outlet's pressure
    np.testing.assert_allclose(driver.fields().drho, 0.01, rtol=1e-6)


def test_outlet_survives_flow_that_comes_back():
    nodes = pipe((1, 2, 3), 5.2, 20)
    driver = CpuDriver(build_lattice(nodes, "trt", RATES, "bouzidi", "fp64"))
    times = np.arange(6000)
    conditions = np.stack((np.full(6000, 0.5), 0.02 * np.sin(2 * np.pi * times / 1500)), axis=1)
    driver.advance(conditions)
    assert driver.observe(keep=False).max_speed < 0.2
