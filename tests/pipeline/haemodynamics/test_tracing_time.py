# SPDX-License-Identifier: Apache-2.0
"""The time left of tracing: of particles in a pipe, whose work is known, and of what comes after them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.haemodynamics.particles import Tracer
from pipeline.haemodynamics.residence import Clock
from pipeline.haemodynamics.snapshots import Field
from pipeline.haemodynamics.tracing_time import FIRST_PICTURES, PICTURE_S, Rest, TracingTime
from tests.pipeline.haemodynamics.test_particles import plain_box


def spent(age, power):
    """Work up to an age in half transits: even up to 1, then falling with a power."""
    late = np.maximum(age, 1.0)
    return np.minimum(age, 1.0) + (1 - late ** (1 - power)) / (power - 1)


@given(
    power=st.floats(1.3, 1.8),
    transit_s=st.floats(0.01, 100.0),
    stretch=st.floats(0.2, 0.4),
    pace=st.floats(1e-3, 1e3),
    compiled_s=st.floats(0.0, 100.0),
)
def test_the_rest_of_particles_that_were_spread_over_a_vessel(power, transit_s, stretch, pace, compiled_s):
    """From 1.5 transits on within a factor of two, of exponents that are not the one assumed; exactly of that one."""
    rest, ages = Rest(0.0, transit_s, 20 * transit_s), np.arange(1, 20 / stretch) * stretch
    for age in ages:
        rest.mark(age * transit_s, compiled_s * pace + pace * spent(1 + 2 * age, power))
        left = pace * (spent(1 + 40, power) - spent(1 + 2 * age, power))
        if age > 1.5 and left > 0.05 * pace:
            assert left / 2 < rest.left_s() < 2 * left
    exact = Rest(0.0, transit_s, 20 * transit_s)
    for age in ages[:3]:
        exact.mark(age * transit_s, compiled_s * pace + pace * spent(1 + 2 * age, 1.5))
    assert exact.left_s() == pytest.approx(pace * (spent(1 + 40, 1.5) - spent(1 + 2 * ages[2], 1.5)), rel=1e-6)


@given(period_s=st.floats(0.1, 2.0), transit_s=st.floats(0.05, 5.0), pace=st.floats(1e-2, 1e2))
def test_work_is_even_while_particles_are_released(period_s, transit_s, pace):
    rest, end_s = Rest(period_s, transit_s, 6 * period_s), 6 * period_s
    assert rest.left_s() is None
    rest.mark(0.1 * period_s, 3.0)
    assert (rest.left_s(), rest.whole_s()) == (None, None)
    rest.mark(0.3 * period_s, 3.0 + 0.2 * period_s * pace)
    half = transit_s / 2
    later = half * (spent(1 + (end_s - period_s) / half, 1.5) - 1)
    assert rest.left_s() == pytest.approx(pace * (0.7 * period_s + later), rel=1e-6)
    assert rest.whole_s() == pytest.approx(pace * (period_s + later), rel=1e-6)


@pytest.mark.parametrize(("free_bytes", "reads"), [(0.0, (6.0 - 0.4 + 5.0) / 0.25), (1e12, 4.0)])
def test_the_stage_holds_what_comes_after_the_particles(monkeypatch, free_bytes, reads):
    """Particles backwards, pictures, and snapshots: of both ways, or each once where there is room for all of them."""
    now = [100.0]
    monkeypatch.setattr("pipeline.haemodynamics.particles.available_bytes", lambda: free_bytes)
    monkeypatch.setattr("pipeline.haemodynamics.tracing_time.time.monotonic", lambda: now[0])
    box = plain_box()
    tracer = Tracer(box, Field(np.arange(4) / 4, 1.0, lambda step: np.zeros((box.nodes.count, 3))), (), 0.5)
    timed = TracingTime(tracer, Clock(0.0, 0.0, 1.0, 0.01, 5.0, 0.5), 0.25, 0.5, 48)
    tracer.reads, tracer.read_s, now[0] = 2, 1.0, 101.0
    assert timed.forwards(0.2) is None
    tracer.reads, tracer.read_s, now[0] = 4, 2.0, 104.0  # 1 s for snapshots, 2 s for particles
    alone = Rest(1.0, 0.5, 6.0)
    alone.mark(0.2, 0.0)
    alone.mark(0.4, 2.0)
    pictures_s = PICTURE_S * (48 + FIRST_PICTURES)
    reads_s = reads * 0.5
    assert timed.forwards(0.4) == pytest.approx(alone.left_s() + alone.whole_s() / 2 + reads_s + pictures_s)
    assert timed.backwards(0.0) is None
    now[0] = 105.0
    assert timed.backwards(5.0) == pytest.approx(pictures_s)
