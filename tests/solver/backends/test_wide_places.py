# SPDX-License-Identifier: Apache-2.0
"""Wide places, whose flow is observed apart: sums over their nodes, whoever drives them."""

from dataclasses import replace

import numpy as np

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.driver import Driver
from solver.backends.lattice import Lattice, build_lattice
from solver.backends.observation import Observation
from solver.backends.subdomains import SubdomainsDriver
from solver.kernels.collision import relaxation_rates
from tests.support.geometries import random_cavern
from tests.support.simulator import simulated

NODES = random_cavern((5, 4, 4), 3)


def laid_out() -> Lattice:
    """A cavern, of which half of the nodes lie in wide places."""
    lattice = build_lattice(NODES, "trt", relaxation_rates(0.8, 3 / 16), precision="fp64")
    return replace(lattice, wide=np.random.default_rng(1).random(lattice.count) < 0.5)


def rows(lattice: Lattice) -> np.ndarray:
    """Boundary values of a pair of steps."""
    return np.tile(1e-3 * np.arange(1, lattice.columns + 1), (2, 1))


def observed(driver: Driver, lattice: Lattice) -> Observation:
    """What changes in the last two of four steps; another driver goes on half-way."""
    driver.advance(rows(lattice))
    driver.observe(True)
    driver.observation()
    driver.restore(driver.state())
    driver.advance(rows(lattice))
    driver.observe(False)
    return driver.observation()


def parts(lattice: Lattice, make=CpuDriver) -> SubdomainsDriver:
    """In two parts, whose nodes lie among each other."""
    return SubdomainsDriver(lattice, np.arange(lattice.count) % 2, make)


def test_sums_are_those_of_the_fields_of_the_nodes_there():
    """To round-off; and without such places they are none."""
    lattice = laid_out()
    driver = CpuDriver(lattice)
    driver.advance(rows(lattice))
    before = driver.fields().velocity[:, lattice.wide]
    driver.advance(rows(lattice))
    after = driver.fields().velocity[:, lattice.wide]
    seen = observed(CpuDriver(lattice), lattice)
    relative = ((after - before) ** 2).sum(axis=0) / (after**2).sum(axis=0)
    assert (relative < 1).any()
    np.testing.assert_allclose(seen.wide_change, np.sqrt(np.minimum(relative, 1).mean()), rtol=1e-9)
    nowhere = replace(lattice, wide=np.zeros(0, np.bool_))
    assert observed(CpuDriver(nowhere), nowhere).wide_change == 0


def test_parts_of_a_domain_add_up_to_the_same_bits():
    lattice = laid_out()
    one, two = (observed(driver, lattice) for driver in (CpuDriver(lattice), parts(lattice)))
    assert one.wide_change == two.wide_change > 0


ON_DEVICE = """
import numpy as np
from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.cuda.cuda_driver import CudaDriver
from tests.solver.backends.test_wide_places import laid_out, observed, parts
from tests.support.geometries import numbers

lattice = laid_out()
cpu, cuda, divided = (
    observed(driver, lattice) for driver in (CpuDriver(lattice), CudaDriver(lattice), parts(lattice, CudaDriver))
)
assert cpu.wide_change > 0
np.testing.assert_allclose(cuda.wide_change, cpu.wide_change, rtol=1e-9)
np.testing.assert_array_equal(numbers(cuda), numbers(divided))
"""


def test_a_device_adds_up_the_same():
    """On the simulator of CUDA."""
    simulated(ON_DEVICE)
