# SPDX-License-Identifier: Apache-2.0
"""Waves, feet and augmentation of pulses whose answer is known."""

import numpy as np
import pytest

from pipeline.haemodynamics.pulse import FINE, augmentation, ejection_s, foot_s, later_s, separated, smooth

SAMPLES, PERIOD = 200, 1.0
TIME = np.arange(SAMPLES) * PERIOD / SAMPLES


def bump(middle, width, height=1.0):
    """A raised cosine, which is 0 beyond half a width from its middle."""
    away = TIME - middle
    return np.where(np.abs(away) < width / 2, height * (1 + np.cos(2 * np.pi * away / width)) / 2, 0.0)


FORWARD, BACKWARD = bump(0.30, 0.4, 4000.0), bump(0.45, 0.5, 1500.0)
IMPEDANCE, AREA = 2.0e7, 3.0e-5


def pulse():
    """Pressure and flow of a forward and a backward wave over diastole, in which blood flows, too."""
    return 11_000.0 + FORWARD + BACKWARD, 5e-6 + (FORWARD - BACKWARD) / IMPEDANCE


def test_waves_are_those_that_a_pulse_was_made_of():
    waves = separated(*pulse(), IMPEDANCE, AREA, PERIOD)
    np.testing.assert_allclose(waves.forward_pa, FORWARD, atol=1e-8)
    np.testing.assert_allclose(waves.backward_pa, BACKWARD, atol=1e-8)
    assert waves.reflection_magnitude == pytest.approx(np.ptp(BACKWARD) / np.ptp(FORWARD))


def test_intensities_are_those_of_their_waves_and_add_up_to_that_of_pressure_and_velocity():
    pressure, flow = pulse()
    waves = separated(pressure, flow, IMPEDANCE, AREA, PERIOD)

    def rate(values):
        return (np.roll(values, -1) - np.roll(values, 1)) * SAMPLES / (2 * PERIOD)

    net = rate(pressure) * rate(flow) / AREA
    np.testing.assert_allclose(waves.intensity_forward + waves.intensity_backward, net, atol=1e-9 * np.abs(net).max())
    np.testing.assert_allclose(
        waves.intensity_backward, -(rate(BACKWARD) ** 2) / (IMPEDANCE * AREA), atol=1e-9 * np.abs(net).max()
    )


def test_flow_in_step_with_pressure_has_no_wave_that_comes_back():
    waves = separated(11_000.0 + FORWARD, 5e-6 + FORWARD / IMPEDANCE, IMPEDANCE, AREA, PERIOD)
    assert waves.reflection_magnitude < 1e-12


def test_a_smooth_waveform_has_the_derivatives_of_its_harmonics():
    value, slope, bend = smooth(np.sin(6 * np.pi * TIME), PERIOD)
    fine = np.arange(FINE) / FINE
    np.testing.assert_allclose(value, np.sin(6 * np.pi * fine), atol=1e-10)
    np.testing.assert_allclose(slope, 6 * np.pi * np.cos(6 * np.pi * fine), atol=1e-8)
    np.testing.assert_allclose(bend, -36 * np.pi**2 * np.sin(6 * np.pi * fine), atol=1e-6)


def test_the_foot_lies_where_the_steepest_tangent_meets_diastole():
    """Of a raised cosine of the width w, w/4 - w/(2 pi) after it begins."""
    width, begin = 0.4, 0.2
    exact = begin + width / 4 - width / (2 * np.pi)
    assert foot_s(bump(begin + width / 2, width, 40.0) + 80.0, PERIOD) == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize("samples", [7, 60, 150])
def test_a_pulse_that_comes_later_has_its_foot_later(samples):
    first, second = pulse()[0], np.roll(pulse()[0], samples)
    found = later_s(foot_s(first, PERIOD), foot_s(second, PERIOD), PERIOD)
    assert found == pytest.approx((samples / SAMPLES + 0.5) % 1 - 0.5, abs=1e-9)


def test_what_does_not_pulsate_has_neither_foot_nor_augmentation():
    still = np.full(SAMPLES, 12_000.0)
    assert foot_s(still, PERIOD) is None
    assert augmentation(still, PERIOD, 0.3) is None


@pytest.mark.parametrize(("first", "second", "index"), [(30, 40, 0.25), (40, 30, -0.25), (20, 40, 0.5)])
def test_augmentation_of_two_peaks(first, second, index):
    made = 80.0 + bump(0.15, 0.24, first) + bump(0.30, 0.24, second)
    found = augmentation(made, PERIOD, 0.35)
    assert found.index == pytest.approx(index, abs=0.01)
    assert (found.first_pa, found.second_pa) == pytest.approx((80 + first, 80 + second), abs=0.3)


def test_augmentation_of_a_shoulder_in_the_rise():
    """The pressure rises to 30, stays nearly so, and rises to 40: the shoulder is where it rises least."""
    slope = bump(0.15, 0.16, 30 / 0.08) + bump(0.35, 0.16, 10 / 0.08) - bump(0.65, 0.4, 40 / 0.2)
    made = 80.0 + np.cumsum(slope) * PERIOD / SAMPLES
    found = augmentation(made, PERIOD, 0.4)
    assert found.index == pytest.approx(0.25, abs=0.02)


def test_a_dicrotic_wave_after_ejection_is_no_second_peak():
    made = 80.0 + bump(0.2, 0.3, 40.0) + bump(0.55, 0.2, 20.0)
    assert augmentation(made, PERIOD, 0.25) is None
    assert augmentation(made, PERIOD, 0.6).index == pytest.approx(-20 / 40, abs=0.01)


def test_ejection_lasts_from_the_rise_to_the_first_flow_that_is_not_forward():
    flow = np.where(TIME < 0.3, np.sin(np.pi * TIME / 0.3), 0.0) - 0.01
    assert ejection_s(flow, PERIOD) == pytest.approx(0.3, abs=0.02)
    assert ejection_s(flow + 1.0, PERIOD) == pytest.approx(PERIOD / 3)
