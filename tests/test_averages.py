"""Means over time that are kept where a driver runs."""

import os
import subprocess
import sys

import numpy as np
from geometries import pipe, plates

from solver.collision import relaxation_rates
from solver.cpu.driver import CpuDriver
from solver.driver import Driver, Fields, held_bytes
from solver.lattice import build_lattice
from solver.parts import PartsDriver
from solver.stage import ROOT

RATES = relaxation_rates(0.8, 3 / 16)


def oscillating(driver: Driver, steps: int, period: int, samples: int) -> list[Fields]:
    """Run a pipe under a flow that swings about a mean; fields at evenly spaced steps of the last period."""
    step, seen = 0, []
    wanted = 2 * np.round(np.arange(1, samples + 1) / samples * period / 2).astype(int) + steps - period
    for stop in wanted:
        times = np.arange(step + 1, stop + 1)
        rows = np.stack((0.5 + 0.3 * np.sin(2 * np.pi * times / period), np.zeros(len(times))), axis=1)
        driver.advance(rows)
        step = int(stop)
        driver.average(0, anew=not seen)
        driver.average(1, anew=step > wanted[-3])  # begun anew with the last two
        seen.append(driver.fields())
    return seen


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


def test_mean_of_many_small_swings_keeps_its_digits():
    """10,000 samples of a level and a swing in single precision: within 2e-6, where a sum would lose 1e-4."""
    lattice = build_lattice(plates(4), "trt", RATES)
    driver = CpuDriver(lattice)
    values = 0.05 + 0.01 * np.sin(2 * np.pi * np.arange(10_000) / 100)
    for k, value in enumerate(values):
        driver.populations[: lattice.count] = value  # at rest, with this density
        driver.average(0, anew=k == 0)
    np.testing.assert_allclose(driver.mean(0).drho, values.mean(), rtol=2e-6)
    np.testing.assert_array_equal(driver.mean(0).velocity, 0)


def test_parts_have_the_means_of_the_whole():
    nodes = pipe((1, 2, 3), 4.2, 12)
    lattice = build_lattice(nodes, "trt", RATES)
    part = (np.arange(nodes.count) >= nodes.count // 2).astype(np.int16)
    drivers = [CpuDriver(lattice), PartsDriver(lattice, part, CpuDriver)]
    for driver in drivers:
        oscillating(driver, 60, 40, 4)
    for one, other in zip(*(driver.mean(0).arrays() for driver in drivers), strict=True):
        np.testing.assert_array_equal(one, other)


def test_means_are_counted_in_the_memory():
    driver = CpuDriver(build_lattice(plates(4), "trt", RATES))
    before = driver.memory_bytes()
    for _ in range(2):
        driver.average(0, anew=False)
    assert driver.memory_bytes() == before + held_bytes(driver.fields())


SIMULATED = """
import numpy as np
from geometries import pipe
from test_averages import RATES, oscillating

from solver.cpu.driver import CpuDriver
from solver.cuda.driver import CudaDriver
from solver.lattice import build_lattice

lattice = build_lattice(pipe((0, 0, 1), 2.2, 4), "trt", RATES)
means = []
for make in (CpuDriver, CudaDriver):
    driver = make(lattice)
    oscillating(driver, 6, 6, 3)
    means.append(driver.mean(0))
for here, there in zip(*(mean.arrays() for mean in means), strict=True):
    np.testing.assert_allclose(there, here, rtol=0, atol=1e-6 * np.abs(here).max())
"""


def test_simulated_device_has_the_means_of_the_cpu():
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    environment["NUMBA_DISABLE_JIT"] = "1"  # compiling would take longer than all else
    answer = subprocess.run(
        [sys.executable, "-c", SIMULATED], check=False, env=environment, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
