# SPDX-License-Identifier: Apache-2.0
"""Walls: where they are, at which order, and what they conserve."""

import numpy as np
import pytest

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.lattice import build_lattice
from solver.kernels.collision import relaxation_rates
from solver.kernels.d3q19 import VELOCITIES, WEIGHTS
from solver.runtime.errors import StageError
from tests.support.geometries import closed_box, periodic_pipe, random_cavern


def run(driver, steps):
    driver.advance(np.zeros((steps, driver.lattice.openings)))


def test_walls_take_up_the_force_on_the_fluid():
    force = 1e-6 * np.ones(3)
    nodes = periodic_pipe((1, 1, 1), 4.6)  # sides are odd: even ones would keep a momentum that alternates in time
    lattice = build_lattice(nodes, "trt", relaxation_rates(0.9, 3 / 16), "half-way", "fp64", None, tuple(force))
    driver = CpuDriver(lattice)
    run(driver, 2000)
    g = driver.populations.reshape(19, -1)
    direction, node = nodes.wall_link_direction, nodes.wall_link_node
    returned = g[direction + np.where(direction % 2, 1, -1), node]
    # a population that is turned round gives twice its momentum to the wall
    taken = 2 * returned @ VELOCITIES[direction]
    np.testing.assert_allclose(taken, nodes.count * force, rtol=1e-9)


def stirred(nodes, walls, precision):
    driver = CpuDriver(build_lattice(nodes, "trt", relaxation_rates(0.6, 0.05), walls, precision))
    g = driver.populations.reshape(19, -1)[:, : nodes.count]
    z = nodes.position[:, 2]
    u = 0.05 * np.sin(2 * np.pi * z / z.max())
    g[:] = 3 * WEIGHTS[:, None] * VELOCITIES[:, :1] * u
    return driver, g


@pytest.mark.parametrize("walls", ["half-way", "bouzidi"])
def test_closed_domain_keeps_its_mass_in_single_precision(walls):
    nodes = random_cavern((10, 9, 8), 5, openings=False)
    driver, g = stirred(nodes, walls, "fp32")
    before = g.sum(dtype=np.float64)
    run(driver, 500)
    # shifted mass is zero in the mean: the tolerance is round-off of some 1e2 nodes of size 1e-2 over 500 steps
    assert g.sum(dtype=np.float64) == pytest.approx(before, abs=1e-3)


def test_fluid_at_rest_in_a_box_stays_at_rest():
    driver = CpuDriver(build_lattice(closed_box((5, 4, 3)), "trt", relaxation_rates(0.7, 3 / 16), "bouzidi", "fp32"))
    run(driver, 20)
    assert not driver.populations.any()


def test_unknown_scheme_is_refused_with_the_known_ones():
    with pytest.raises(StageError, match="'guo': unknown; known are bouzidi, half-way, yu, cli"):
        build_lattice(closed_box((3, 3, 3)), "trt", (1.0, 1.0), "guo")
