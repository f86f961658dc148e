# SPDX-License-Identifier: Apache-2.0
"""Vectors of nodes give the bits of one node after the other."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from solver.backends.cpu import simd, steps
from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.lattice import build_lattice
from solver.domain.addresses import address_runs
from solver.kernels.collision import relaxation_rates
from solver.kernels.rheology import make_rheology, one_number
from solver.kernels.storage import FP16_BITS, NATIVE, fp32_to_fp16
from tests.support.geometries import pipe

REALS = [np.float32, np.float64]
COUNT = 64
"""Of the numbers that are worked on: a multiple of every width."""


def numbers(real, low, high, seed=0):
    return np.random.default_rng(seed).uniform(low, high, COUNT).astype(real)


def in_vectors(function, real, *arrays):
    """What a compiled function of vectors makes of arrays, and of plain numbers among them."""
    several = simd.make_simd(NATIVE, real)
    take, put, width = several.load_slot, several.store_slot, several.width
    two = len(arrays) == 2

    @njit(error_model="numpy")
    def each(result, a, b):
        for k in range(0, len(result), width):
            put(result, k, function(take(a, k), take(b, k)) if two else function(take(a, k)))

    result = np.zeros(COUNT, real)
    each(result, arrays[0], arrays[-1])
    assert width == simd.BYTES // result.itemsize
    return result


@pytest.mark.parametrize("real", REALS)
def test_arithmetic_is_that_of_numbers(real):
    a, b, c = numbers(real, -2, 2), numbers(real, 0.5, 2, 1), real(0.3)
    function = njit(lambda x, y: c * x + x / y - (y - c) * (c / y) + x * c)
    # not the least difference: in each lane stand the same operations in the same order
    wanted = c * a + a / b - (b - c) * (c / b) + a * c
    assert np.array_equal(in_vectors(function, real, a, b), wanted)


@pytest.mark.parametrize("real", REALS)
def test_bounds_roots_and_exponentials_are_those_of_numbers(real):
    a, b, c = numbers(real, -2, 2), numbers(real, -2, 2, 1), real(0.3)
    bounded = njit(lambda x, y: max(min(x, y), min(max(x, c), max(c, y))))
    assert np.array_equal(
        in_vectors(bounded, real, a, b), np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, c), np.maximum(c, b)))
    )
    assert np.array_equal(in_vectors(njit(lambda x: math.sqrt(x)), real, abs(a)), np.sqrt(abs(a)))
    alone = njit(lambda x: math.expm1(x))
    assert np.array_equal(in_vectors(alone, real, a), np.array([alone(x) for x in a], real))


def test_a_number_of_another_type_is_refused():
    """It would turn single precision into double precision unseen."""
    with pytest.raises(TypingError):
        in_vectors(njit(lambda x: x * np.float64(0.5)), np.float32, numbers(np.float32, 0, 1))


@pytest.mark.parametrize("real", REALS)
def test_powers_are_those_of_numbers(real):
    """Both to the last bit alike, and to the digits that the product e log2 x has of x^e."""
    base, exponent = np.exp(numbers(np.float64, -30, 20)).astype(real), numbers(real, -1.5, 1.5, 1)
    of_one = one_number(real).power
    found = in_vectors(simd.make_simd(NATIVE, real).numbers.power, real, base, exponent)
    assert np.array_equal(found, np.array([of_one(*pair) for pair in zip(base, exponent, strict=True)], real))
    wanted = base.astype(np.longdouble) ** exponent.astype(np.longdouble)
    size = np.maximum(1, abs(exponent * np.log2(base.astype(np.float64))))
    assert (abs(found / wanted - 1) < 2 * np.finfo(real).eps * size).all()


def test_powers_stay_within_normal_numbers():
    power = one_number(np.float32).power
    assert power(np.float32(1e-20), np.float32(4)) == 2.0**-126
    assert power(np.float32(1e20), np.float32(4)) == 2.0**127
    assert power(np.float32(3), np.float32(0)) == 1


@pytest.mark.skipif(not simd.CONVERTS_FP16, reason="the processor converts no halves itself")
def test_fp16_numbers_are_those_that_numbers_are_read_and_written_as():
    several, one = simd.make_simd(FP16_BITS, np.float32), simd.make_access(FP16_BITS, np.float32)

    @njit
    def read(take, width, stored):
        result = np.zeros(len(stored), np.float32)
        for k in range(0, len(stored), width):
            several.numbers.write(result, k, take(stored, k))
        return result

    @njit
    def copy(stored, numbers):
        for k in range(0, len(stored), several.width):
            several.store_slot(stored, k, several.numbers.read(numbers, k))

    bits = np.arange(2**16, dtype=np.uint16)
    found = read(several.load_slot, several.width, bits)
    wanted = np.array([one.load_slot(bits, k) for k in range(len(bits))], np.float32)
    assert np.array_equal(found, wanted, equal_nan=True)
    numbers = (np.random.default_rng(0).standard_normal(2**12) * np.logspace(-12, 1, 2**12)).astype(np.float32)
    stored = np.zeros(len(numbers), np.uint16)
    copy(stored, numbers)
    scaled = numbers * np.float32(2**15)
    assert np.array_equal(stored, np.array([fp32_to_fp16(each) for each in scaled], np.uint16))


# Each compiles two models, of vectors and of single nodes; that vectors of doubles and of halves compute as numbers do,
# and so do their powers, which the viscosity of blood takes, is tested above.
@pytest.mark.parametrize(
    ("precision", "blood"),
    [
        ("fp32", False),
        pytest.param("fp32", True, marks=pytest.mark.slow),
        pytest.param("fp64", False, marks=pytest.mark.slow),
        pytest.param("fp16", False, marks=pytest.mark.slow),
    ],
)
def test_steps_in_vectors_are_those_of_one_node_at_a_time(precision, blood, monkeypatch):
    """Runs longer and shorter than vectors, more rests of them than the buffer holds, and a last vector of padding."""
    nodes = pipe((7, 1, 1), 6.4, 60)
    lattice = build_lattice(nodes, "trt", relaxation_rates(0.7, 0.1), "bouzidi", precision, force=(1e-5, 2e-5, -1e-5))
    if blood:
        shares = np.random.default_rng(2).random(nodes.count)
        rheology = make_rheology("carreau-yasuda", (0.4, 0.02, 40.0, 0.7, 0.3), 0.7, 0.1, blend=shares)
        lattice = replace(lattice, rheology=rheology)
    length = np.diff(address_runs(lattice.addresses, lattice.stride).first)
    width = simd.make_simd(NATIVE, lattice.real).width
    assert (length > 2 * width).any()
    assert (length < width).sum() > 2 * steps.REST
    assert nodes.count % width

    together = CpuDriver(lattice)
    one = simd.make_access(FP16_BITS if precision == "fp16" else NATIVE, lattice.real)
    stored = simd.make_access(NATIVE, lattice.real)
    alone = simd.Several(
        1, one.load_slot, one.store_slot, stored.load_slot, stored.store_slot, one_number(lattice.real)
    )
    monkeypatch.setattr(steps, "make_simd", lambda storage, real, part=1: alone)
    steps.make_steps.cache_clear()
    one_by_one = CpuDriver(lattice)
    steps.make_steps.cache_clear()

    start = (1e-2 * np.random.default_rng(1).standard_normal(lattice.slots)).astype(np.float32)
    start = start.astype(np.float16).view(np.uint16) if precision == "fp16" else start.astype(lattice.real)
    for driver in (together, one_by_one):
        driver.write(slice(None), start)
        driver.advance(np.full((6, lattice.columns), 1e-3))
    assert np.array_equal(together.populations, one_by_one.populations)
    assert np.array_equal(together._omega, one_by_one._omega)
