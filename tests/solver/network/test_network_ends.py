# SPDX-License-Identifier: Apache-2.0
"""What holds where a network ends, against what its equations say."""

import numpy as np
import pytest

from solver.boundary.curves import Series, constant
from solver.network.network import Blood, Network
from solver.network.network_ends import (
    FlowInlet,
    Heart,
    MatchedWindkessel,
    PressureOpening,
    Reflection,
    Resistance,
    Windkessel,
    double_hill,
    shared_by_area,
)
from solver.network.run import NetworkRun, Numerics
from solver.runtime.errors import StageError
from tests.support.networks import DENSITY, cycles, one_cycle, pulse, single, tube

IMPEDANCE = DENSITY * 5.0 / (np.pi * 0.01**2)


def reflected(terminal) -> float:
    """Reflected pressure by incoming pressure of a small pulse, in the middle of a tube."""
    run = one_cycle(single(tube(2.0), pulse(0.9, 1e-8, 0.1, 0.02), terminal, 0.9), Numerics(5e-3, samples=900))
    middle = run.record.pressure[:, run.grid.first[0] + 200]
    return float(middle[500:][np.abs(middle[500:]).argmax()] / middle[:450].max())


@pytest.mark.parametrize("part", [-0.6, 0.0, 0.5])
def test_reflection_sends_back_its_part(part):
    np.testing.assert_allclose(reflected(Reflection(part)), part, atol=2e-3)


@pytest.mark.parametrize("ratio", [0.25, 1.0, 4.0])
def test_resistance_reflects_by_its_impedance(ratio):
    np.testing.assert_allclose(reflected(Resistance(ratio * IMPEDANCE)), (ratio - 1) / (ratio + 1), atol=2e-3)


def test_matched_end_takes_a_large_wave():
    """A pulse of 6 kPa, which stretches the tube by 12 %, leaves less than 0.5 % behind."""
    run = one_cycle(
        single(tube(2.0), pulse(0.7, 8000.0 / IMPEDANCE, 0.06, 0.015), Reflection(), 0.7), Numerics(5e-3, samples=700)
    )
    middle = run.record.pressure[:, run.grid.first[0] + 200]
    assert middle.max() > 6000.0
    assert np.abs(middle[450:]).max() < 5e-3 * middle.max()


def test_windkessel_answers_each_harmonic_by_its_impedance():
    """p_n = (R1 + R2/(1 + i n w C R2)) Q_n of a cycle that repeats, at the end of a tapered tube."""
    what = Windkessel(2e7, 1.5e8, 1e-9, back_pa=500.0)
    flow = FlowInlet(Series(0.8, np.array([5e-5, 4e-5 - 2e-5j, -1e-5j])))
    run = cycles(single(tube(0.3, (0.01, 0.008)), flow, what, 0.8, blood=Blood(1060.0, 4e-3)), Numerics(0.01), 8)
    pressure, out = np.fft.rfft(run.record.end_pressure[:, 1]) / 200, np.fft.rfft(run.record.end_flow[:, 1]) / 200
    pressure[0] -= what.back_pa
    omega = 2 * np.pi * np.arange(5) / 0.8
    impedance = what.proximal_pa_s_m3 + what.distal_pa_s_m3 / (
        1 + 1j * omega * what.compliance_m3_pa * what.distal_pa_s_m3
    )
    np.testing.assert_allclose(pressure[:5], impedance * out[:5], rtol=0, atol=1e-3 * abs(pressure[1]))


def test_windkessel_that_stores_next_to_nothing_is_a_resistance():
    """A time constant of 3e-6 s, a thousandth of a step, behind a distal resistance of 20 times the impedance."""
    stiff = reflected(Windkessel(0.0, 20 * IMPEDANCE, 1e-14))
    np.testing.assert_allclose(stiff, reflected(Resistance(20 * IMPEDANCE)), atol=1e-3)


def test_matched_windkessel_takes_the_impedance_from_its_resistance():
    total = 10 * IMPEDANCE
    matched = one_cycle(single(tube(), pulse(0.5), MatchedWindkessel(total, 1e-9), 0.5), Numerics(0.01))
    given = one_cycle(single(tube(), pulse(0.5), Windkessel(IMPEDANCE, total - IMPEDANCE, 1e-9), 0.5), Numerics(0.01))
    np.testing.assert_allclose(matched.record.end_pressure, given.record.end_pressure, rtol=1e-9, atol=1e-9)
    with pytest.raises(StageError, match="below the impedance"):
        NetworkRun(single(tube(), pulse(0.5), MatchedWindkessel(0.5 * IMPEDANCE, 1e-9), 0.5))


def test_pressure_inlet_drives_the_flow_that_friction_allows():
    """Steady Poiseuille flow between two pressures, in a stiff tube (deck `tube_pressure_wave` in other numbers)."""
    blood = Blood(DENSITY, 4e-3)
    network = single(
        tube(0.2, 0.002, 30.0),
        PressureOpening(constant(3000.0)),
        PressureOpening(constant(1000.0)),
        3.0,
        blood=blood,
        initial_pa=2000.0,
    )
    run = one_cycle(network, Numerics(0.02, samples=30))
    area = np.pi * 0.002**2 * (1 + 2000.0 / (2 * DENSITY * 900.0)) ** 2
    expected = 2000.0 * area**2 / (8 * np.pi * 4e-3 * 0.2)
    np.testing.assert_allclose(run.record.end_flow[-1], expected, rtol=2e-3)


def test_ventricle_empties_through_a_resistance():
    """V - V0 falls as exp(-E t/(R + R_v)) where nothing fills it and its valve loses no kinetic energy."""
    heart = Heart(constant(1e8), 1e-5, -1e9, 1e18, 1e7, 0.0, 1.1e-4)
    network = single(tube(0.02, 0.01, 60.0), heart, Resistance(9e7), 1.0)
    run = one_cycle(network, Numerics(0.005, samples=100))
    expected = 1e-5 + 1e-4 * np.exp(-1e8 * 1.0 / 1e8)
    np.testing.assert_allclose(run.state.stored[0], expected, rtol=2e-3)  # the tube holds 1e-3 of the stroke


def test_heart_beats():
    """A ventricle of a human's elastance fills, ejects and shuts its valve; what it ejects is what has come in."""
    elastance = double_hill(6.7e6, 3.3e8, 0.8)
    np.testing.assert_allclose(elastance.extremes, (6.7e6, 3.3e8), rtol=0.02)
    heart = Heart(elastance, 1e-5, 1100.0, 7e5, 1e6, 1060.0 / (2 * 4e-4**2), 1.2e-4)
    aorta = tube(0.4, (0.014, 0.01), 5.0)
    network = single(aorta, heart, Windkessel(1e7, 1.3e8, 1.2e-8, start_pa=1.2e4), 0.8, initial_pa=1.1e4)
    run = cycles(network, Numerics(0.02), 8)
    flow = run.record.end_flow[:, 0]
    assert flow.min() == 0.0
    assert (flow == 0.0).mean() > 0.4
    np.testing.assert_allclose(-run.state.volume_out[0], run.state.volume_out[1], rtol=0.02)
    assert 4e-5 < -run.state.volume_out[0] < 1.2e-4
    assert 6e3 < run.record.end_pressure[:, 1].min() < run.record.end_pressure[:, 1].max() < 2.5e4


def test_terminals_share_by_area():
    shared = shared_by_area({"one": 0.002, "other": 0.004}, 1e8, 1e-9, exponent=1.5)
    conductance = sum(1 / each.total_pa_s_m3 for each in shared.values())
    np.testing.assert_allclose(conductance, 1e-8, rtol=1e-12)
    np.testing.assert_allclose(shared["one"].total_pa_s_m3 / shared["other"].total_pa_s_m3, 8.0, rtol=1e-12)
    np.testing.assert_allclose(sum(each.compliance_m3_pa for each in shared.values()), 1e-9, rtol=1e-12)


def test_waveform_of_another_period_is_refused():
    with pytest.raises(StageError, match=r"period of 0\.5 s"):
        NetworkRun(Network((tube(),), {"a": pulse(0.5)}, {"b": Resistance(1e8)}, 0.6))
