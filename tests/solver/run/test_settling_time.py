# SPDX-License-Identifier: Apache-2.0
"""Rates at which a flow settles, against their limits, and the time that follows from them, against the residual."""

import numpy as np
import pytest

from solver.run.settling_time import Settling, profile, standing_wave

NU, R = 3.3e-6, 2e-3


def rate(**changes) -> float:
    """Of a profile, in nu/R^2."""
    values = {"length_m": 0.05, "radius_m": R, "viscosity_m2_s": NU, "flow_m3_s": 1e-6, "viscous_s": 1.0}
    return profile(**values | changes).rate_1_s * R**2 / NU


def test_profile_is_worn_off_or_carried_out():
    """By a layer at the wall of Leveque's thickness: eight times the flow carries it out four times as fast."""
    assert rate(flow_m3_s=0.0) == pytest.approx(10)
    assert rate() > rate(length_m=0.1) > rate(flow_m3_s=0.0)
    assert rate(flow_m3_s=8e-6) - 10 == pytest.approx(4 * (rate() - 10))
    assert rate() == pytest.approx(4 * rate(radius_m=2 * R))
    assert rate(faster=2.0) - 10 == pytest.approx(2**0.75 * (rate() - 10))
    assert rate(faster=0.5) == rate()


def test_an_eddy_behind_a_narrowing_settles_by_its_height():
    """Of four times the mean speed the stream has half of the radius, and the eddy the other half; the slower rate
    counts, so that a slight narrowing changes nothing.
    """
    fast = 1e-4
    assert rate(flow_m3_s=fast, narrowing=4.0) == pytest.approx(14 / 0.5)
    assert rate(flow_m3_s=fast, narrowing=16.0) == pytest.approx(14 / 0.75)
    assert rate(flow_m3_s=fast, narrow_inlet=True) == pytest.approx(14)
    assert rate(narrowing=1.02) == rate(narrowing=1.0) == rate(narrowing=0.9) == rate()
    assert rate(flow_m3_s=0.0, narrowing=4.0) == pytest.approx(10)


def test_what_a_fast_stream_drives_in_a_sac_settles_in_proportion_to_its_speed():
    """The time after the ramp does; what the ramp leaves, and a slow stream, are as elsewhere."""
    settling = profile(0.05, R, NU, 1e-6, 1.0)
    slow, fast = (settling.in_sac(reynolds) for reynolds in (250.0, 900.0))
    assert slow.rate_1_s == settling.rate_1_s
    assert (slow.slowed, fast.slowed) == (1.0, pytest.approx(3.0))
    assert fast.raised_s(0.02, 1e-3) == pytest.approx(3 * slow.raised_s(0.02, 1e-3))


@pytest.mark.parametrize("seed", range(5))
def test_time_is_when_the_residual_has_fallen(seed):
    """The residual of a part p of a motion is omega T p exp(-s t)."""
    random = np.random.default_rng(seed)
    settling = Settling(*random.uniform(1, 50, 3).tolist())
    part, tolerance = random.uniform(0.1, 1), 10 ** random.uniform(-5, -2)
    time_s = settling.time_s(part, tolerance)
    residual = settling.motion_1_s * settling.viscous_s * part * np.exp(-settling.rate_1_s * time_s)
    assert residual == pytest.approx(tolerance, rel=1e-9)
    assert settling.time_s(part, 1e9) == 0


def test_ramp_leaves_the_part_that_a_motion_lags_behind():
    """A ramp much longer than the motion leaves (pi/(omega t_r))^2/2 of it, a short one all."""
    settling = Settling(3.0, 20.0, 1.0)
    assert settling.raised_s(5.0, 1e-3) == pytest.approx(settling.time_s(np.pi**2 / (2 * 100**2), 1e-3))
    assert settling.raised_s(0.0, 1e-3) == settling.raised_s(0.01, 1e-3) == settling.time_s(1.0, 1e-3)


def test_finer_coarse_lattices_are_closer_to_the_flow():
    """By the square of the nodes across: log(4)/s sooner with twice as many; never later than from rest."""
    settling = Settling.creeping(3.0, 10.0)
    sooner = settling.from_coarse_s(8, 1e-3) - settling.from_coarse_s(16, 1e-3)
    assert sooner == pytest.approx(np.log(4) / 3)
    assert settling.from_coarse_s(1, 1e-3) == settling.raised_s(0.0, 1e-3)


def test_waves_settle_later_without_ramp_stream_or_tolerance():
    def seconds(ramp_s=0.4, tolerance=1e-3, **changes):
        values = {"length_m": 0.05, "radius_m": R, "viscosity_m2_s": NU, "sound_m_s": 2.0, "speed_m_s": 0.1}
        return standing_wave(**values | changes, viscous_s=R**2 / NU).raised_s(ramp_s, tolerance)

    assert seconds(ramp_s=1.0) < seconds() < seconds(ramp_s=0.1) < seconds(ramp_s=0.0)
    assert seconds(tolerance=1e-2) < seconds() < seconds(tolerance=1e-4)
    assert seconds(speed_m_s=0.2) < seconds() < seconds(speed_m_s=0.0)
    assert seconds(tolerance=1e6) == 0
