# SPDX-License-Identifier: Apache-2.0
"""Viscous walls: damping and dispersion of a wave against linear theory."""

import numpy as np
import pytest

from solver.boundary.curves import Series
from solver.network.network import Blood
from solver.network.openings import FlowInlet, Reflection
from solver.network.run import Numerics
from tests.support.networks import DENSITY, cycles, single, tube

CELERITY, RADIUS = 5.0, 0.01
LENGTH = 4.0


def wave_number(frequency_hz: float, gamma_pa_s_m: float, spacing_m: float, viscosity_pa_s: float = 1e-12):
    """Real and imaginary part of k in exp(i (w t - k x)) of a small wave, 1/m, over a reach that no end disturbs."""
    inlet = FlowInlet(Series(1 / frequency_hz, np.array([0.0, -1e-8j])))
    blood = Blood(DENSITY, viscosity_pa_s)
    network = single(tube(LENGTH, gamma=gamma_pa_s_m), inlet, Reflection(), 1 / frequency_hz, blood=blood)
    count = int(LENGTH / CELERITY * frequency_hz) + 3
    run = cycles(network, Numerics(spacing_m, samples=64), count)
    wave = np.fft.rfft(run.record.pressure[:, run.grid.first[0] : run.grid.last[0] + 1], axis=0)[1]
    place = (np.arange(len(wave)) + 0.5) * LENGTH / len(wave)
    reach = (place > 0.3) & (place < 1.8)
    phase = np.polyfit(place[reach], np.unwrap(np.angle(wave))[reach], 1)[0]
    return -phase, np.polyfit(place[reach], np.log(np.abs(wave[reach])), 1)[0]


def theory(frequency_hz: float, gamma_pa_s_m: float, viscosity_pa_s: float = 0.0) -> complex:
    """k = sqrt(w^2 - i w f)/(c sqrt(1 + i w Gamma/(sqrt(A0) rho c^2))), f = 8 pi nu/A0."""
    omega, area = 2 * np.pi * frequency_hz, np.pi * RADIUS**2
    square = CELERITY**2 + 1j * omega * gamma_pa_s_m / (np.sqrt(area) * DENSITY)
    friction = 8 * np.pi * viscosity_pa_s / DENSITY / area
    return complex(np.sqrt((omega**2 - 1j * omega * friction) / square))


@pytest.mark.parametrize(("frequency_hz", "gamma_pa_s_m"), [(5.0, 1.0), (10.0, 1.0), (10.0, 4.0)])
def test_damping_and_dispersion_follow_linear_theory(frequency_hz, gamma_pa_s_m):
    """To 1 %; at 10 Hz and 4 Pa s m the wave is 7 % faster than along an elastic wall, and falls by e within 0.3 m."""
    expected = theory(frequency_hz, gamma_pa_s_m)
    found = wave_number(frequency_hz, gamma_pa_s_m, 0.005)
    np.testing.assert_allclose(found[0], expected.real, rtol=2e-3)
    np.testing.assert_allclose(found[1], expected.imag, rtol=1e-2)


def test_dispersion_is_more_than_the_tolerance():
    assert theory(10.0, 4.0).real < 0.95 * theory(10.0, 0.0).real


def test_friction_of_blood_damps_as_linear_theory_says():
    """At 5 Hz in blood ten times as viscous as it is, to 1 %."""
    expected = theory(5.0, 0.0, 0.04)
    np.testing.assert_allclose(wave_number(5.0, 0.0, 0.01, 0.04)[1], expected.imag, rtol=1e-2)
