# SPDX-License-Identifier: Apache-2.0
"""Populations in 16 bits: conversion, agreement of drivers, what is lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.lattice import build_lattice
from solver.kernels.collision import relaxation_rates
from solver.kernels.d3q19 import WEIGHTS
from solver.kernels.storage import GOOD_FP16_MARGIN, LEAST_FP16_MARGIN, SCALE, fp16_margin, fp16_to_fp32, fp32_to_fp16
from solver.run.plan import make_plan
from solver.run.settings import InletSettings
from solver.runtime.errors import StageError
from tests.solver.run.test_simulation import settings
from tests.support.geometries import periodic_pipe, pipe, pipe_radius, random_cavern


def test_all_fp16_numbers_are_read_as_numpy_reads_them():
    bits = np.arange(2**16, dtype=np.uint16)
    read = np.array([fp16_to_fp32(each) for each in bits])  # exact, and so in double precision, too
    wanted = bits.view(np.float16).astype(np.float32)
    assert np.array_equal(read, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(read), np.signbit(wanted))
    back = np.array([fp32_to_fp16(each) for each in wanted], np.uint16)
    a_number = ~np.isnan(wanted)
    assert np.array_equal(back[a_number], bits[a_number])
    assert np.isnan(back[~a_number].view(np.float16)).all()


def same_fp16(number: np.float32) -> bool:
    with np.errstate(over="ignore"):
        return np.array_equal(np.uint16(fp32_to_fp16(number)).view(np.float16), np.float16(number), equal_nan=True)


@given(st.floats(width=32))
def test_any_number_is_rounded_as_numpy_rounds_it(number):
    assert same_fp16(np.float32(number))


def test_ties_and_ends_are_rounded_as_numpy_rounds_them():
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles = (halves[1:] + halves[:-1]) / 2  # exact: single precision has 13 digits more
    for number in (middles, np.nextafter(middles, np.float32(np.inf)), np.nextafter(middles, np.float32(0))):
        rounded = np.array([fp32_to_fp16(each) for each in number])
        assert np.array_equal(rounded, number.astype(np.float16).view(np.uint16))
    for number in (65504, 65519.996, 65520, 65536, 1e30, np.inf, -np.inf, np.nan, -0.0, 2.0**-25, 2.0**-26):
        assert same_fp16(np.float32(number))


@pytest.mark.slow
def test_fp16_follows_single_precision():
    """Curved walls, an inlet and outlets, from noise: a few steps differ by a few last digits of halves."""
    nodes, rng = random_cavern((7, 6, 5), 3), np.random.default_rng(0)
    single, half = (
        CpuDriver(build_lattice(nodes, "trt", relaxation_rates(0.7, 0.1), "bouzidi", precision, force=(1e-4, 0.0, 0.0)))
        for precision in ("fp32", "fp16")
    )
    start = (1e-2 * rng.standard_normal(single.populations.shape)).astype(np.float32)
    half.populations[:] = (start * np.float32(SCALE)).astype(np.float16).view(np.uint16)
    single.populations[:] = half.populations.view(np.float16).astype(np.float32) / SCALE
    boundary_values = 1e-3 * rng.random((4, 3)) * (10, 1, -1)
    for driver in (single, half):
        driver.advance(boundary_values)
    one, other = single.fields(), half.fields()
    assert half.populations.dtype == np.uint16
    assert other.velocity.dtype == np.float32
    # 2^-12 of populations of 0.03 at each of four steps, added up over 19 of them in the moments
    np.testing.assert_allclose(other.velocity, one.velocity, rtol=0, atol=2e-4)
    np.testing.assert_allclose(other.drho, one.drho, rtol=0, atol=2e-4)
    assert np.abs(other.velocity - one.velocity).max() > 1e-6


def driven(radius: float, tau: float, speed: float, drho: float) -> tuple[float, float]:
    """Flow through a pipe of halves over what its force should drive, after two viscous times; what is kept."""
    nodes, viscosity = periodic_pipe((0, 0, 1), radius), (tau - 0.5) / 3
    force = 4 * viscosity * speed / radius**2
    lattice = build_lattice(nodes, "trt", relaxation_rates(tau, 3 / 16), "bouzidi", "fp16", None, (0.0, 0.0, force))
    driver = CpuDriver(lattice)
    g = driver.populations.reshape(19, -1)[:, : nodes.count]
    g[:] = (WEIGHTS[:, None] * drho * SCALE).astype(np.float16).view(np.uint16)
    driver.advance(np.zeros((2 * round(radius**2 / viscosity), 0)))
    wanted = speed * (1 - (pipe_radius(nodes, (0, 0, 1)) / radius) ** 2)
    return driver.fields().velocity[2].sum(dtype=float) / wanted.sum(), fp16_margin(force, drho, speed)


@pytest.mark.slow
def test_flow_that_fp16_cannot_carry_stalls_and_what_they_carry_flows():
    stalled, kept = driven(8.3, 0.6, 5e-4, 0.02)
    assert kept < LEAST_FP16_MARGIN
    assert stalled < 0.05
    flowing, kept = driven(5.2, 0.8, 0.05, 0.01)
    assert kept > GOOD_FP16_MARGIN
    assert flowing == pytest.approx(1, abs=0.02)


def test_case_that_fp16_cannot_carry_is_refused():
    nodes = pipe((0, 0, 1), 8.2, 40, spacing_mm=0.2)
    slow = settings(inlets={"in": InletSettings(2.0, None, "parabolic")}, precision="fp16")
    with pytest.raises(
        StageError, match=r"solve.precision fp16.*less than 0.5, so that it would stall; set .* to fp32"
    ):
        make_plan(nodes, slow)
    thick = settings(inlets={"in": InletSettings(0.02, None, "parabolic")}, precision="fp16")
    assert not any("fp16" in warning for warning in make_plan(nodes, thick).warnings)
