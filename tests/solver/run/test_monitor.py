# SPDX-License-Identifier: Apache-2.0
"""The monitor of a steady flow: how far apart it compares velocities, so that noise is not taken for a residual."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as trials
from hypothesis import strategies as st

from solver.backends.observation import Observation
from solver.run.monitor import Monitor, still_to_change
from solver.run.plan import make_plan
from solver.run.schedule import LEAST_COUNTED
from tests.solver.run.test_simulation import settings
from tests.support.geometries import pipe

NODES = pipe((0, 0, 1), 5.2, 20, 0.2)
VISCOUS = 200_000.0
TOLERANCE = 1e-3


@cache
def steady_plan():
    """Not before a test asks for it: to collect the tests compiles nothing."""
    return make_plan(NODES, settings())


def settled(rate: float, noise: float, precision: str = "fp64") -> tuple[float, float]:
    """When the residual stays below the tolerance, of a flow whose velocity is 1 - exp(-rate t) and noise, the time in
    viscous times; and when it does without the noise by itself.
    """
    planned = steady_plan()
    schedule = replace(planned.schedule, interval=100, counted=200, most_counted=round(VISCOUS / LEAST_COUNTED))
    plan = replace(planned, schedule=replace(schedule, last=10**9), viscous_steps=VISCOUS)
    monitor, quiet, step = Monitor(NODES, plan, TOLERANCE, precision), 0, 0
    while quiet < schedule.interval * 20 and step < 4 * VISCOUS:
        since, step = monitor.kept, step + schedule.interval
        drift = np.exp(-rate * since / VISCOUS) - np.exp(-rate * step / VISCOUS)
        row = monitor.record(step, observation(float(np.hypot(drift, noise))))
        quiet = quiet + schedule.interval if row.residual < TOLERANCE else 0
    return step / VISCOUS, np.log(rate / TOLERANCE) / rate


def observation(change: float) -> Observation:
    """Of a flow whose velocity has changed by so much, and that is otherwise the same."""
    none = np.zeros(len(NODES.openings))
    return Observation(change, 0.05, 0.1, 0.003, 0, 0, 0.0, 0.0, none, none, none)


@trials(max_examples=20, deadline=None)
@given(rate=st.floats(5, 50), noise=st.floats(1e-9, 4e-5))
def test_noise_delays_the_end_by_little(rate, noise):
    """Noise up to 0.4 of what the tolerance allows within a tenth of the viscous time, a residual of up to 40 times the
    tolerance between states as far apart as at first. The end is delayed by the tenth in which the residual does not
    fall, by the states that are ever farther apart, and by a tenth for rows that lie between them: 0.35 at most.
    """
    end, alone = settled(rate, noise)
    assert alone - 0.01 < end < alone + 0.35


@trials(max_examples=20, deadline=None)
@given(rate=st.floats(15, 60), noise=st.floats(8, 16))
def test_round_off_of_single_precision_delays_the_end_by_less(rate, noise):
    """Of 8 to 16 spacings of its numbers, a residual of up to 1.9 times the tolerance. States are compared two to four
    times as far apart at once. It would take a tenth of the viscous time to tell by the residual, which does not fall;
    a flow that is brought to rest by advection long before would count as one that fluctuates.
    """
    end, alone = settled(rate, noise * 2.0**-23, "fp32")
    assert alone - 0.01 < end < alone + 0.03


@pytest.mark.parametrize("rate", [6.0, 20.0, 60.0])
def test_a_flow_that_settles_is_compared_as_often_to_its_end(rate):
    end, alone = settled(rate, 0.0)
    assert end == pytest.approx(alone, abs=0.02)


def test_noise_that_is_too_large_is_no_settled_flow():
    assert settled(20.0, 2e-4)[0] > 3.9


@given(part=st.floats(0.01, 0.99), slow=st.floats(0.0, 0.5), first=st.floats(1e-3, 1.0))
def test_what_is_still_to_change_is_the_sum_of_the_differences_to_come(part, slow, first):
    """Of one motion exactly; beside one that falls faster more than that by no more than what is left of it."""
    cycles = np.arange(200)
    one, two = first * part**cycles, first * (slow * part) ** cycles
    left = still_to_change(list(one[:3]))
    assert left == pytest.approx(first * part**3 / (1 - part), rel=1e-6)
    both = still_to_change(list((one + two)[:3]))
    assert both <= left * (1 + 1e-6) + two[2] / (1 - part)
    assert still_to_change(list(one[2::-1])) == 0.0  # grows
    assert still_to_change([first]) == 0.0


def test_what_varies_is_not_taken_for_what_creeps():
    """Its changes do not add up: of a hundred flows that vary, few differences fall twice in a row."""
    rng = np.random.default_rng(3)
    found = [still_to_change(list(rng.lognormal(-5, 0.3, 3))) for _ in range(1000)]
    assert np.mean(np.array(found) > 0) < 0.2
