# SPDX-License-Identifier: Apache-2.0
"""Profiles of inlets: shares of the flow, Womersley's solution, and flow that is developed from the inlet on."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import jve

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.lattice import build_lattice
from solver.boundary.curves import Series
from solver.boundary.profiles import PROFILES, Profile, inlet_profile, link_weights, scaled_j0, womersley
from solver.boundary.waveform import Inflow, steady
from solver.domain.nodes import Opening
from solver.kernels.collision import relaxation_rates
from solver.kernels.d3q19 import VELOCITIES, WEIGHTS
from solver.runtime.errors import StageError
from tests.support.geometries import nodes_from, observe, pipe, random_cavern


def bessel(alpha, r):
    """1 - J0(l r)/J0(l), l = i^(3/2) alpha, from SciPy's functions scaled by exp(-|Im z|)."""
    root = np.exp(0.75j * np.pi) * alpha
    decay = np.exp(-np.abs(root.imag) * (1 - r))
    return 1 - jve(0, root * r) / jve(0, root) * decay


def inlet_rows(nodes):
    return np.flatnonzero(nodes.opening_link_opening == 1)


def test_bessel_function_is_that_of_scipy():
    x = np.concatenate((np.linspace(0, 60, 1201), (24.999999, 25.0, 25.000001, 1e3, 1e5)))
    oscillating = scaled_j0(x) * np.exp(1j * x / 2**0.5)  # SciPy scales by the growth alone
    # terms of the series cancel by 1e3 at most; phases of 1e5 are known to 1e-11
    np.testing.assert_allclose(oscillating, jve(0, np.exp(0.75j * np.pi) * x), rtol=2e-11)


@given(alpha=st.floats(0.01, 300), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_womersley_profile_solves_its_equation(alpha, seed):
    r = np.random.default_rng(seed).random(50)
    # at small alpha 1 is subtracted from what is nearly 1
    np.testing.assert_allclose(womersley(alpha, r), bessel(alpha, r), atol=1e-11)
    assert abs(womersley(alpha, np.ones(1))[0]) < 1e-12  # at rest at the wall


def test_womersley_profile_goes_from_a_parabola_to_a_plug():
    r = np.linspace(0, 1, 50)
    slow, fast = womersley(0.02, r), womersley(500.0, r)
    np.testing.assert_allclose(slow / slow[0], 1 - r**2, atol=1e-4)
    np.testing.assert_allclose(fast[r < 0.9], 1, atol=1e-12)


@pytest.mark.parametrize("profile", [Profile(name) for name in PROFILES] + [Profile("womersley", 7, 5.0)])
@pytest.mark.parametrize("make", [lambda: pipe((1, 2, 3), 5.2, 8), lambda: random_cavern((9, 8, 7), 3)])
def test_shares_of_the_flow_add_up_to_one_and_turning_parts_to_nothing(make, profile):
    nodes = make()
    rows = inlet_rows(nodes)
    weight = link_weights(nodes, nodes.openings[0], rows, profile)
    assert weight.shape == (profile.rows, len(rows))
    wanted = np.ones(profile.rows)
    wanted[2::2] = 0
    np.testing.assert_allclose(weight.sum(axis=1), wanted, atol=1e-13)


def test_shares_follow_profile_and_directions():
    nodes = pipe((1, 2, 3), 5.2, 8)
    opening, rows = nodes.openings[0], inlet_rows(nodes)
    direction = nodes.opening_link_direction[rows]
    seen = WEIGHTS[direction] * np.abs(VELOCITIES[direction] @ opening.normal)
    phi = nodes.opening_link_profile[rows].astype(float)
    shares = {
        "plug": seen,
        "developed": seen * phi,
        "parabolic": seen * phi,
        "womersley": seen * phi,
    }
    for name, share in shares.items():
        weight = link_weights(nodes, opening, rows, Profile(name))[0]
        # the parabola is computed from the places of links, the developed profile is kept in single precision
        np.testing.assert_allclose(weight, share / share.sum(), atol=2e-9)
    mode = seen * bessel(4 * 3**0.5, np.sqrt(1 - phi))
    third = link_weights(nodes, opening, rows, Profile("womersley", 3, 4.0))[5:]
    np.testing.assert_allclose(third[0] + 1j * third[1], mode / mode.sum(), atol=1e-12)


def test_profile_follows_from_flow_radius_and_viscosity():
    flow = Inflow(Series(0.8, np.array((3, 1 - 1j, 0.2))), 0.0)
    profile = inlet_profile("womersley", flow, 3.0, 3.3e-6)
    assert (profile.harmonics, profile.rows) == (2, 6)
    assert profile.womersley == pytest.approx(3e-3 * np.sqrt(2 * np.pi / 0.8 / 3.3e-6))
    assert inlet_profile("womersley", steady(1.0), 3.0, 3.3e-6) == Profile("womersley", corrected=True)
    assert inlet_profile("womersley", flow, 3.0, 1.0) == Profile(
        "womersley", corrected=True
    )  # alpha 0.008: quasi-steady
    assert inlet_profile("plug", flow, 3.0, 3.3e-6) == Profile("plug", corrected=True)
    for wrong in (lambda: inlet_profile("flat", flow, 3.0, 3.3e-6), lambda: weights_of(Profile("flat"))):
        with pytest.raises(
            StageError, match="profile 'flat': unknown; known are developed, parabolic, plug, womersley"
        ):
            wrong()


def weights_of(profile):
    nodes = pipe((1, 0, 0), 3.2, 4)
    return link_weights(nodes, nodes.openings[0], inlet_rows(nodes), profile)


def test_inlet_without_links_that_carry_flow_is_refused():
    nodes = pipe((1, 0, 0), 3.2, 4)
    still = replace(nodes, opening_link_profile=np.zeros_like(nodes.opening_link_profile))
    with pytest.raises(StageError, match="inlet in: none of its 159 links carries flow"):
        link_weights(still, still.openings[0], inlet_rows(still), Profile())


def series(y, z, a, b, terms=60):
    """Velocity over mean velocity in a duct -a < y < a, -b < z < b, and G a^2/(mu U) (White, Viscous Fluid Flow)."""
    n = np.arange(1, 2 * terms, 2)[:, None]
    k = n * np.pi / 2
    shape = (-1.0) ** ((n - 1) // 2) * (1 - np.cosh(k * z / a) / np.cosh(k * b / a)) * np.cos(k * y / a) / n**3
    mean = (1 - 192 * a / (np.pi**5 * b) * (np.tanh(k * b / a) / n**5).sum()) / 3  # of G a^2/mu
    return 16 / np.pi**3 * shape.sum(axis=0) / mean, 1 / mean


@cache
def duct(width, height, length):
    """A duct along x, walls half-way, an inlet "in" and an outlet "out" at its ends; at its links the series."""
    size = np.array((length, width, height))

    def crossing(position, velocity):
        end = position + velocity
        with np.errstate(divide="ignore", invalid="ignore"):
            far = np.where(velocity > 0, (size - 0.5 - position) / velocity, (-0.5 - position) / velocity)
        q = np.where(velocity == 0, np.inf, far)
        first = q.argmin(axis=1)
        return q.min(axis=1), np.where(first == 0, np.where(end[:, 0] < 0, 1, 2), 0)

    middle = size / 2 - 0.5
    caps = tuple(
        Opening(
            i, name, role, (x, *middle[1:]), (sign, 0.0, 0.0), width * height, float(np.sqrt(width * height / np.pi))
        )
        for i, name, role, x, sign in ((1, "in", "inlet", -0.5, -1.0), (2, "out", "outlet", length - 0.5, 1.0))
    )
    nodes = nodes_from(np.ones(size[::-1], bool), crossing, caps)
    half = 0.5 * VELOCITIES[nodes.opening_link_direction]
    y, z = (nodes.points_mm()[nodes.opening_link_node] + half - middle)[:, 1:].T
    phi, _ = series(np.append(y, 0), np.append(z, 0), width / 2, height / 2)
    return replace(nodes, opening_link_profile=np.clip(phi[:-1] / phi[-1], 0, 1).astype(np.float32))


def test_flow_through_a_rectangular_duct_is_developed_from_the_inlet_on():
    width, height, length, mean = 16, 10, 30, 0.01
    nodes, nu = duct(width, height, length), 0.1
    driver = CpuDriver(
        build_lattice(
            nodes, "trt", relaxation_rates(0.5 + 3 * nu, 3 / 16), "bouzidi", "fp64", {"in": Profile("developed")}
        )
    )
    driver.advance(np.tile((mean * width * height, 0.0), (2500, 1)))
    fields, at = driver.fields(), nodes.position - 1
    y, z = at[:, 1] - (width - 1) / 2, at[:, 2] - (height - 1) / 2
    wanted, resistance = series(y, z, width / 2, height / 2)
    gradient = nu * mean * resistance / (width / 2) ** 2
    pressure = np.array([fields.drho[at[:, 0] == x].mean() / 3 for x in range(length)])
    # 10 nodes across alone give 0.7 %; an even pressure at the outlet bends the flow in front of it. A plug's gradient
    # is twice too large in the first layer and its velocity 46 % off, a round parabola's velocity 29 %
    np.testing.assert_allclose(-np.diff(pressure)[2:-7], gradient, rtol=0.015)
    np.testing.assert_allclose((pressure[2] - pressure[-7]) / (length - 9), gradient, rtol=0.01)
    for x in (0, 1, length // 2):
        here = at[:, 0] == x
        u = fields.velocity[0, here] / mean
        assert np.linalg.norm(u - wanted[here]) < 0.01 * np.linalg.norm(wanted[here])


def pulse(radius, alpha, nu, cycles):
    """Flow of two harmonics through a tilted pipe: driver after whole cycles, its nodes, the flow, the next conditions.

    The mean velocity is 0.01 on average, and a cycle has 80 steps a node of the pipe's length, for sound to be fast.
    """
    nodes = pipe((1, 2, 3), radius, 4 * radius)
    period = int(2 * np.pi * radius**2 / (alpha**2 * nu))
    mean = 0.01 * np.pi * radius**2
    flow = Inflow(Series(float(period), mean * np.array((1, 0.6 - 0.4j, 0.2j))), 0.0)
    profile = Profile("womersley", 2, alpha)
    columns = np.array((0, profile.rows, profile.rows + 1), np.int32)
    rates = relaxation_rates(0.5 + 3 * nu, min(3 / 16, 1.5 * nu))
    driver = CpuDriver(build_lattice(nodes, "trt", rates, "bouzidi", "fp64", {"in": profile}, columns=columns))
    amplitudes = flow.amplitudes(np.arange(1, period + 1, dtype=float), 2)
    boundary_values = np.concatenate((amplitudes, np.zeros((period, 1))), axis=1)
    for _ in range(cycles):
        driver.advance(boundary_values)
    return driver, nodes, flow, boundary_values


def squares(driver, nodes, flow, alpha, time, low, high):
    """Sums over nodes between two parts of the length: of squared differences from Womersley's solution, and of its."""
    start, end = nodes.openings
    axis = np.array(end.normal)
    offset = nodes.points_mm() - start.centre_mm
    along = offset @ axis
    radius = start.radius_mm
    here = (along > low * 4 * radius) & (along < high * 4 * radius)
    r = np.linalg.norm(offset - along[:, None] * axis, axis=1)[here] / radius
    modes = flow.curve.modes(np.array([float(time)]))[0] / (np.pi * radius**2)
    wanted = modes[0].real * 2 * (1 - r**2)
    fine = np.linspace(0, 1, 4001)
    for n in (1, 2):
        mean = np.trapezoid(2 * fine * bessel(alpha * n**0.5, fine), fine)
        wanted = wanted + (modes[n] * bessel(alpha * n**0.5, r) / mean).real
    velocity = driver.fields().velocity[:, here]
    return ((velocity - wanted * axis[:, None]) ** 2).sum(), (wanted**2).sum()


def test_pulsatile_flow_through_an_inlet_is_exact_in_every_step():
    driver, _, flow, boundary_values = pulse(4.2, 8.0, 0.05, 1)
    largest = np.abs(boundary_values).sum(axis=1).max()
    for step, row in enumerate(boundary_values[:8], 1):
        driver.advance(row[None])
        driver_flow, wanted = observe(driver, False).inflow[0], flow.at(np.array([float(step)]))[0]
        assert abs(driver_flow - wanted) < 1e-14 * largest * len(driver.lattice.inlets.slot)  # round-off of each link


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [4.0, 8.0])
def test_pulsatile_flow_is_womersleys_from_the_inlet_on(alpha):
    errors = []
    for radius in (5.2, 10.4):
        # a cycle of 80 steps a node of length: flow and sound are then apart by 0.4 % (PHYSICS, section 6)
        nu = 2 * np.pi * radius / (alpha**2 * 4 * 80)
        driver, nodes, flow, boundary_values = pulse(radius, alpha, nu, 2 if alpha < 6 else 4)
        sums, done = np.zeros((2, 2)), 0
        for phase in (0.1, 0.3, 0.5, 0.7, 0.9):
            step = 2 * round(phase * len(boundary_values) / 2)
            driver.advance(boundary_values[done:step])
            done = step
            # in the middle, and right behind the inlet
            sums += [squares(driver, nodes, flow, alpha, step, *part) for part in ((0.4, 0.6), (0.05, 0.2))]
        errors.append(np.sqrt(sums[:, 0] / sums[:, 1]))
    # found with 21 nodes across, in the middle and behind the inlet: 8.4e-3 and 1.4e-2 at alpha 4, 1.8e-2 and 2.4e-2 at
    # alpha 8; with half the nodes 2.9e-2, 3.9e-2, 6.2e-2 and 7.8e-2. The 0.4 % of sound do not fall with the spacing
    assert (errors[1] < 3e-2).all()
    assert (errors[0] > 2.5 * errors[1]).all()
