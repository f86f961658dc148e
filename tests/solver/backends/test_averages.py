# SPDX-License-Identifier: Apache-2.0
"""Means and statistics over time that are kept where a driver runs."""

import numpy as np
import pytest

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.driver import Driver
from solver.backends.fields import Fields, Statistics, held_bytes
from solver.backends.lattice import Lattice, build_lattice
from solver.backends.subdomains import SubdomainsDriver
from solver.kernels.collision import relaxation_rates
from solver.kernels.rheology import make_rheology
from tests.support.geometries import pipe, plates
from tests.support.simulator import simulated

RATES = relaxation_rates(0.8, 3 / 16)
BLOOD = make_rheology("carreau-yasuda", (0.3, 0.03, 200.0, 0.64, 0.3), 0.8, 3 / 16)


def oscillating(driver: Driver, steps: int, period: int, samples: int) -> list[Fields]:
    """Run a pipe under a flow that swings about a mean; fields at evenly spaced steps of the last period."""
    step, seen = 0, []
    wanted = 2 * np.round(np.arange(1, samples + 1) / samples * period / 2).astype(int) + steps - period
    for stop in wanted:
        times = np.arange(step + 1, stop + 1)
        rows = np.stack((0.5 + 0.3 * np.sin(2 * np.pi * times / period), np.zeros(len(times))), axis=1)
        driver.advance(rows)
        step = int(stop)
        driver.average(0, restart=not seen)
        driver.average(1, restart=step > wanted[-3])  # begun again with the last two
        seen.append(driver.fields())
    return seen


def statistics_of(lattice: Lattice, fields: Fields) -> Statistics:
    """Reference: statistics of one state from its fields, in double precision, by the whole tensors."""
    omega = float(lattice.rates[0])
    viscosity = (1 / omega - 0.5) / 3 if fields.viscosity is None else fields.viscosity.astype(float)
    part = 1 - omega / 2 if lattice.rheology is None else lattice.rheology.numbers[4]
    xx, yy, zz, xy, xz, yz = -part * fields.stress.astype(float)
    sigma = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    strain = sigma / (2 * viscosity)
    square = (fields.velocity.astype(float) ** 2).sum(axis=0)
    shear_rate = np.sqrt(2 * (strain * strain).sum(axis=(0, 1)))
    return Statistics(np.sqrt(square), square, shear_rate, (sigma * strain).sum(axis=(0, 1)))


@pytest.mark.parametrize(
    ("precision", "rheology"), [("fp32", None), pytest.param("fp64", BLOOD, marks=pytest.mark.slow)]
)
def test_statistics_are_those_of_the_fields_of_each_state(precision, rheology):
    """To some digits of the precision: a shear rate takes ten roundings, a running mean of 20 states 20 more. Means of
    the fields are the same bits whether there are statistics beside them or not.
    """
    lattice = build_lattice(pipe((1, 2, 3), 4.2, 12), "trt", RATES, precision=precision, rheology=rheology)
    driver = CpuDriver(lattice)
    seen = [statistics_of(lattice, fields) for fields in oscillating(driver, 120, 80, 20)]
    found, digit = driver.statistics(), float(np.finfo(lattice.real).eps)
    np.testing.assert_allclose(found.peak_speed, np.max([each.peak_speed for each in seen], axis=0), rtol=4 * digit)
    for name in ("square", "shear_rate", "dissipation"):
        values = np.array([getattr(each, name) for each in seen])
        np.testing.assert_allclose(getattr(found, name), values.mean(axis=0), rtol=0, atol=40 * digit * values.max())
    for k in range(3):
        driver.advance(np.zeros((2, 2)))
        for number in (0, 1):
            driver.average(number, restart=k == 0)
    for one, other in zip(driver.mean(0).arrays(), driver.mean(1).arrays(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_mean_restarted_restarts_statistics():
    """What was faster before is forgotten."""
    lattice = build_lattice(pipe((1, 2, 3), 4.2, 12), "trt", RATES)
    driver = CpuDriver(lattice)
    oscillating(driver, 120, 80, 4)
    peak = driver.statistics().peak_speed.max()
    driver.advance(np.zeros((400, 2)))
    driver.average(0, restart=True)
    now = statistics_of(lattice, driver.fields())
    assert driver.statistics().peak_speed.max() < 0.1 * peak
    for name, wanted in vars(now).items():
        np.testing.assert_allclose(getattr(driver.statistics(), name), wanted, rtol=0, atol=1e-6 * wanted.max())


@pytest.mark.slow
def test_plates_dissipate_what_the_force_puts_in():
    """Poiseuille between plates H apart under a force F: the shear rate is F |y|/nu from the middle, to rounding, as
    stress follows from momentum; the sums over nodes of dissipation and of F u are integrals by the midpoint rule, H^3
    F^2/nu/12 times 1 - 1/H^2 and 1 + 1/(2 H^2): they differ by 3/(2 H^2), and nothing else. The force is so small that
    normal stresses of the order of the squared shear rate, which a lattice has, do not show.
    """
    height, force, viscosity = 12, 1e-8, 0.1
    nodes = plates(height)
    lattice = build_lattice(nodes, "trt", RATES, precision="fp64", force=(force, 0.0, 0.0))
    driver = CpuDriver(lattice)
    driver.advance(np.zeros((12_000, 0)))  # 8 times H^2/nu: what is left is exp(-8 pi^2)
    for number in range(3):
        driver.average(0, restart=number == 0)
    found, velocity = driver.statistics(), driver.fields().velocity
    axis = int(np.argmax(np.ptp(nodes.position, axis=0)))
    off = nodes.position[:, axis] - nodes.position[:, axis].mean()
    np.testing.assert_allclose(found.shear_rate, force * np.abs(off) / viscosity, rtol=1e-9)
    np.testing.assert_allclose(found.peak_speed, np.linalg.norm(velocity, axis=0), rtol=1e-12)
    dissipated, work = found.dissipation.sum(), force * velocity[0].sum()
    assert dissipated / work == pytest.approx((1 - 1 / height**2) / (1 + 0.5 / height**2), rel=1e-9)


def test_mean_is_the_mean_of_the_fields_to_the_precision_of_the_run():
    """A running mean of 20 states rounds 20 times, by half a last digit of single precision each, 6e-8."""
    driver = CpuDriver(build_lattice(pipe((1, 2, 3), 4.2, 12), "trt", RATES))
    seen = oscillating(driver, 400, 200, 20)
    for name in ("drho", "velocity", "stress"):
        values = np.array([getattr(fields, name) for fields in seen], np.float64)
        tolerance = 20 * 6e-8 * np.abs(values).max()
        np.testing.assert_allclose(getattr(driver.mean(0), name), values.mean(axis=0), rtol=0, atol=tolerance)
        np.testing.assert_array_equal(getattr(driver.mean(1), name), getattr(seen[-1], name))


def test_mean_over_a_cycle_does_not_depend_on_how_often_it_is_sampled():
    """The mean of evenly spaced samples of a period is exact for all its harmonics below the number of samples: what
    flows is linear in a sine at this Reynolds number of 5, so that 10 samples and 50 differ by the stray of the start.
    """
    means = []
    for samples in (10, 50):
        driver = CpuDriver(build_lattice(pipe((0, 0, 1), 4.2, 12), "trt", RATES))
        oscillating(driver, 1600, 200, samples)
        means.append(driver.mean(0).velocity)
    assert np.abs(means[0] - means[1]).max() < 1e-4 * np.abs(means[1]).max()


def test_mean_of_many_small_oscillations_keeps_its_digits():
    """10,000 samples of a level and a swing in single precision: within 2e-6, where a sum would lose 1e-4."""
    lattice = build_lattice(plates(4), "trt", RATES)
    driver = CpuDriver(lattice)
    values = 0.05 + 0.01 * np.sin(2 * np.pi * np.arange(10_000) / 100)
    for k, value in enumerate(values):
        driver.populations[: lattice.count] = value  # at rest, with this density
        driver.average(0, restart=k == 0)
    np.testing.assert_allclose(driver.mean(0).drho, values.mean(), rtol=2e-6)
    np.testing.assert_array_equal(driver.mean(0).velocity, 0)


def test_parts_have_the_means_of_the_whole():
    nodes = pipe((1, 2, 3), 4.2, 12)
    lattice = build_lattice(nodes, "trt", RATES)
    part = (np.arange(nodes.count) >= nodes.count // 2).astype(np.int16)
    drivers = [CpuDriver(lattice), SubdomainsDriver(lattice, part, CpuDriver)]
    for driver in drivers:
        oscillating(driver, 60, 40, 4)
    kept = [(*driver.mean(0).arrays(), *driver.statistics().arrays()) for driver in drivers]
    for one, other in zip(*kept, strict=True):
        np.testing.assert_array_equal(one, other)


def test_means_are_counted_in_the_memory_with_statistics_over_time_alone():
    driver = CpuDriver(build_lattice(plates(4), "trt", RATES))
    before = driver.memory_bytes()
    for number in (0, 0, 1):
        driver.average(number, restart=False)
    assert driver.memory_bytes() == before + 2 * held_bytes(driver.fields()) + held_bytes(driver.statistics())


SIMULATED = """
import numpy as np
from tests.support.geometries import pipe
from tests.solver.backends.test_averages import BLOOD, RATES, oscillating

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.cuda.cuda_driver import CudaDriver
from solver.backends.lattice import build_lattice
from solver.backends.subdomains import SubdomainsDriver

nodes = pipe((0, 0, 1), 2.2, 4)
part = (np.arange(nodes.count) >= nodes.count // 2).astype(np.int16)
lattices = [build_lattice(nodes, "trt", RATES, rheology=rheology) for rheology in (None, BLOOD)]
others = (CudaDriver(lattices[0]), SubdomainsDriver(lattices[1], part, CudaDriver))
for lattice, other in zip(lattices, others, strict=True):
    kept = []
    for driver in CpuDriver(lattice), other:
        oscillating(driver, 6, 6, 3)
        kept.append((*driver.mean(0).arrays(), *driver.statistics().arrays()))
    for here, there in zip(*kept, strict=True):
        np.testing.assert_allclose(there, here, rtol=0, atol=1e-6 * np.abs(here).max())
"""


def test_simulated_device_and_parts_of_one_have_the_means_and_statistics_of_the_cpu():
    simulated(SIMULATED)
