# SPDX-License-Identifier: Apache-2.0
"""Momentum of a profile: steady flow through a cone, small waves on a flow, rest, and the balance of work."""

import logging
from dataclasses import replace
from math import pi, sqrt

import numpy as np
import pytest

from solver.boundary.curves import constant, linear
from solver.network.cycles import Until, solve_network
from solver.network.network_ends import FlowInlet, PressureOpening, Reflection, Resistance
from solver.network.run import NetworkRun, Numerics
from solver.runtime.errors import StageError
from tests.support.networks import DENSITY, cycles, four_tubes, one_cycle, pulse, single, tube

PARABOLA = 4 / 3


def through_cone(alpha: float, cells: int, flow: float = 3e-4) -> float:
    """Pressure at the end of a cone that widens, less that at its start, Pa, of a steady flow without friction."""
    cone = tube(0.2, (0.009, 0.011), 5.0, momentum=alpha)
    network = single(cone, FlowInlet(constant(flow)), Resistance(2e6), 0.5)
    run = cycles(network, Numerics(0.2 / cells, samples=50), 8)
    pressure, area = run.record.end_pressure[-1], run.record.end_area[-1]
    assert run.record.end_flow[-1] == pytest.approx(flow, rel=1e-5)
    gained = alpha * DENSITY / 2 * flow**2 * (1 / area[0] ** 2 - 1 / area[1] ** 2)
    return float((pressure[1] - pressure[0]) / gained)


@pytest.mark.parametrize("alpha", [1.0, 1.1, PARABOLA])
def test_a_steady_flow_keeps_pressure_and_the_momentum_of_its_profile(alpha):
    """p + alpha rho u^2/2 is the same at both ends of a cone: of second order in the cell, and 1e-4 at 40 cells."""
    coarse, fine = (abs(through_cone(alpha, cells) - 1) for cells in (10, 40))
    assert fine < 1e-4
    assert fine < coarse / 8


def on_a_flow(alpha: float, bell_m_s: float) -> NetworkRun:
    """A tube of 3 m, pulse 5 m/s, whose flow rises to 1 m/s in half a second and stays, with a bell at 1.1 s on top."""
    time = np.linspace(0, 2.0, 4001)
    speed = np.clip(time / 0.5, 0, 1) * (time < 1.9) + bell_m_s * np.exp(-0.5 * ((time - 1.1) / 0.02) ** 2)
    inflow = FlowInlet(linear(time, pi * 0.01**2 * speed))
    return one_cycle(single(tube(3.0, momentum=alpha), inflow, Reflection(), 2.0), Numerics(5e-3, samples=2000))


@pytest.mark.parametrize("alpha", [1.0, PARABOLA])
def test_small_waves_run_on_a_flow_as_the_profile_says(alpha):
    """alpha u + sqrt(c^2 + alpha (alpha - 1) u^2), of what a bell of a thousandth of the flow adds, from 0.5 to 2.5 m,
    before the end sends anything back; 0.1 %, where alpha changes the speed by 6 %.
    """
    with_bell, plain = on_a_flow(alpha, 1e-3), on_a_flow(alpha, 0.0)
    first = int(plain.grid.first[0])
    near, far = first + 100, first + 500
    window = slice(1100, 1600)  # ms
    rise = (with_bell.record.velocity - plain.record.velocity)[window]
    arrival = [
        float(np.average(np.arange(500), weights=rise[:, cell] ** 2 * (rise[:, cell] > 0))) for cell in (near, far)
    ]
    found = (far - near) * 5e-3 / (1e-3 * (arrival[1] - arrival[0]))
    passed = slice(1150, 1500), slice(near, far)
    u, a = plain.record.velocity[passed].mean(), plain.record.area[passed].mean()
    c = 5.0 * (a / (pi * 0.01**2)) ** 0.25
    assert u > 0.8
    assert found == pytest.approx(alpha * u + sqrt(c**2 + alpha * (alpha - 1) * u**2), rel=1e-3)


def test_work_that_the_profile_takes_closes_the_balance():
    """Four tubes that meet, with cones: 4 thousandths of the work, of which 1e-4 stay open, as without a profile."""
    tree = four_tubes("total")
    found = []
    for alpha in (1.0, PARABOLA):
        segments = tuple(replace(segment, momentum=alpha) for segment in tree.segments)
        wanted = replace(tree, segments=segments, inlets={"a": pulse(0.8, 8e-4, 0.2, 0.05)})
        found.append(solve_network(wanted, Numerics(5e-3, samples=200), Until(1e-3), logging.getLogger()).balance)
    flat, parabolic = found
    assert flat.profile_j == 0
    assert parabolic.profile_j > 3e-3 * -parabolic.work_out_j["a"]
    for balance in found:
        assert abs(balance.work_left) < 1e-4
        assert abs(balance.mass) < 1e-12


def test_rest_stays_rest():
    """In a cone, at pressures that strain it."""
    cone = tube(0.2, (0.012, 0.006), 5.0, momentum=PARABOLA)
    network = single(cone, PressureOpening(constant(2e3)), Reflection(), 0.2, initial_pa=2e3)
    run = one_cycle(network, Numerics(5e-3, samples=50))
    assert np.abs(run.record.area * run.record.velocity).max() < 1e-16  # of 1e-4 m3/s


def test_an_alpha_that_no_profile_has_is_refused():
    with pytest.raises(StageError, match=r"segment tube: momentum is 1\.6; profiles have 1 to 1\.5"):
        single(tube(momentum=1.6), FlowInlet(constant(1e-6)), Reflection())
