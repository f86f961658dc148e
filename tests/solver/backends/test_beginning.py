# SPDX-License-Identifier: Apache-2.0
"""A run begins with the flow that it is given, however its populations are kept."""

import numpy as np
import pytest

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.fields import Fields
from solver.backends.initial_populations import populations
from solver.backends.lattice import build_lattice
from solver.backends.subdomains import SubdomainsDriver
from solver.kernels.storage import SCALE
from solver.kernels.velocity_sets import velocity_set
from tests.support.geometries import pipe, random_cavern
from tests.support.simulator import interpreted
from validation import textbook

RATES = (1 / 0.7, 1.2)


def random_fields(count, seed=0, size=0.05):
    rng = np.random.default_rng(seed)
    return Fields(*(size * rng.standard_normal((*rows, count)) for rows in ((), (3,), (6,))))


def assert_fields(found, wanted, tolerance):
    for name in ("drho", "velocity", "stress"):
        one, other = getattr(found, name), getattr(wanted, name)
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * np.abs(other).max(), err_msg=name)


FORMULAS = [
    (19, "incompressible", (0.0, 0.0, 0.0), "fp64", 1e-14),
    (19, "compressible-standard", (1e-4, 2e-4, -1e-4), "fp64", 1e-14),
    (27, "compressible", (1e-4, 2e-4, -1e-4), "fp64", 1e-14),
    (19, "incompressible", (0.0, 0.0, 0.0), "fp16", 2**-11),
]


@pytest.mark.slow
@pytest.mark.parametrize(("q", "equilibrium", "force", "precision", "tolerance"), FORMULAS)
def test_populations_are_equilibrium_and_stress_by_plain_formulas(q, equilibrium, force, precision, tolerance):
    """w_i [drho + rho (3 c.u + B(u, u)) + 4.5 (cc:Pi - tr Pi/3) - 1.5 c.F - 4.5 (c.u)(c.F) + 1.5 u.F]."""
    nodes, stencil = random_cavern((7, 6, 5), 3), velocity_set(q)
    nodes = nodes.with_corners() if q == 27 else nodes
    lattice = build_lattice(nodes, "trt", RATES, precision=precision, force=force, equilibrium=equilibrium)
    fields, c, w = random_fields(nodes.count), stencil.velocities, stencil.weights[:, None]
    xx, yy, zz, xy, xz, yz = fields.stress
    pi = np.array(((xx, xy, xz), (xy, yy, yz), (xz, yz, zz)))
    force = np.array(force)[:, None]
    wanted = textbook.equilibrium(stencil, fields.drho, fields.velocity, equilibrium)
    wanted += 4.5 * w * (np.einsum("qa,qb,abn->qn", c, c, pi) - (xx + yy + zz) / 3)
    slots = populations(lattice, fields.drho, fields.velocity, fields.stress).astype(np.float64)
    found = slots.reshape(q, -1)[:, : nodes.count] / (SCALE if precision == "fp16" else 1)
    # where the force adds to the moments of a flow at u, half of it has still to come
    wanted -= w * (1.5 * c @ force + 4.5 * (c @ fields.velocity) * (c @ force) - 1.5 * (force * fields.velocity).sum(0))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * np.abs(wanted).max())


def test_fields_are_those_that_were_given_and_shifted_to():
    nodes = random_cavern((7, 6, 5), 3)
    lattice = build_lattice(nodes, "trt", RATES)
    driver, first, second = CpuDriver(lattice), random_fields(nodes.count), random_fields(nodes.count, 1)
    driver.begin_with(first, np.zeros((0, 2)))
    assert_fields(driver.fields(), first, 1e-5)
    driver.advance(np.zeros((2, 3)))
    before, kept = driver.fields(), driver.populations.copy()
    driver.shift(before, before)
    np.testing.assert_array_equal(driver.populations, kept)  # nothing but what fields differ in changes
    after = Fields(*(old + new for old, new in zip(before.arrays(), second.arrays(), strict=True)))
    driver.shift(before, after)
    assert_fields(driver.fields(), after, 1e-5)


INTERPRETED = """
from tests.solver.backends import test_beginning as tests
for each in tests.FORMULAS:
    tests.test_populations_are_equilibrium_and_stress_by_plain_formulas(*each)
tests.require_parts_of_the_whole()
"""


def test_interpreted_populations_are_those_of_formulas_and_parts_begin_as_the_whole_does_and_go_on_so():
    """With links along corners, of which every kind of links has some."""
    interpreted(INTERPRETED)


@pytest.mark.slow
def test_compiled_parts_begin_as_the_whole_does_and_go_on_so():
    require_parts_of_the_whole()


def require_parts_of_the_whole():
    nodes = pipe((1, 2, 3), 3.2, 12).with_corners()
    part = (nodes.position[:, 2] > np.median(nodes.position[:, 2])).astype(np.int16)
    lattice = build_lattice(nodes, "trt", RATES)
    whole, parts, fields = CpuDriver(lattice), SubdomainsDriver(lattice, part, CpuDriver), random_fields(nodes.count)
    for driver in (whole, parts):
        driver.begin_with(fields, np.zeros((0, 2)))
        driver.advance(np.full((4, 2), 1e-3))
    for one, other in zip(parts.fields().arrays(), whole.fields().arrays(), strict=True):
        np.testing.assert_array_equal(one, other)
