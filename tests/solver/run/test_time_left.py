# SPDX-License-Identifier: Apache-2.0
"""The time left of a run: plain functions of rows, on rows that were made up and on those of a run."""

import csv
import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.run.convergence import Watch
from solver.run.forecast import Forecast
from solver.run.schedule import Schedule
from solver.run.solve import solve
from solver.run.time_left import NOTHING_LATER, Later, TimeLeft, by_residual, settling, steps_left
from tests.solver.run.test_forecast import CASES
from tests.solver.run.test_settling import (
    INTERVAL,
    SETTINGS,
    THROUGH,
    TOLERANCE,
    long_memory,
    quasi_periodic,
    rows_of,
    times,
    two_time_scales,
)
from tests.solver.run.test_simulation import pipe_case

LOG = logging.getLogger("test_time_left")
RAMP = 1000.0


def falling(residual):
    """Rows whose residuals are these."""
    rows = rows_of(np.ones(len(residual)), np.ones(len(residual)))
    for row, value in zip(rows, residual, strict=True):
        object.__setattr__(row, "residual", float(value))
    return rows


def shown(rows, expected):
    """Steps left after each row up to the one at which the flow has settled."""
    return np.array([settling(rows[: k + 1], expected, RAMP, TOLERANCE) for k in range(len(rows))])


@SETTINGS
@given(
    constant=st.floats(500, 3000), wrong=st.floats(1 / 1.5, 1.5), noise=st.floats(0, 0.05), seed=st.integers(0, 10**6)
)
def test_steps_left_fall_and_meet_the_end(constant, wrong, noise, seed):
    """Of a residual that falls at one rate after the ramp, under a forecast that is off by up to 1.5.

    What is left never rises by more than a tenth of the whole; and from the middle on it is right within 30 %.
    """
    end = RAMP + constant * np.log(1e3)
    steps = np.arange(1, int(end / INTERVAL) + 1) * INTERVAL
    kick = np.exp(noise * np.random.default_rng(seed).standard_normal(len(steps)))
    residual = np.exp(-(np.maximum(steps, RAMP) - RAMP) / constant) * kick
    left = shown(falling(residual), wrong * end)
    truth = end - steps
    assert (np.diff(left) < 0.1 * end).all()
    half = steps > end / 2
    assert (np.abs(left - truth)[half] < 0.3 * end).all()
    assert left[-1] < 0.1 * end


@SETTINGS
@given(
    early=st.floats(1.0, 2.5),
    constant=st.floats(500, 3000),
    wrong=st.floats(1 / 1.5, 1.5),
    noise=st.floats(0, 0.05),
    seed=st.integers(0, 10**6),
)
def test_a_fall_that_is_fast_at_first_is_not_taken_for_the_end(early, constant, wrong, noise, seed):
    """A residual that falls by three decades, up to 2.5 times as fast in the first third of them as afterwards, under a
    forecast that is off by up to 1.5, of a flow that began with another.

    At a fifth of the steps what is told is 0.5 to 1.7 of what is left, and where the fall is fast at first it is more
    than a line through what was seen would say, down to 0.45. From the middle on it is off by at most half of what is
    left, or of five rows. Bounds are those of 2,000 such flows, 0.53 to 1.53 and 0.45, and a tenth.
    """
    fall, third = np.log(1e3), np.log(1e3) / 3
    turn = third * constant / early
    end = turn + (fall - third) * constant
    steps = np.arange(1, int(np.ceil(end / INTERVAL)) + 1) * INTERVAL
    kick = noise * np.random.default_rng(seed).standard_normal(len(steps))
    fallen = np.where(steps < turn, steps * early, turn * early + steps - turn) / constant
    rows = falling(TOLERANCE * 1e3 * np.exp(kick - fallen))
    left = np.array([settling(rows[: k + 1], wrong * end, 0.0, TOLERANCE) for k in range(len(rows))])
    truth, fifth = end - steps, int(np.searchsorted(steps, end / 5))
    assert 0.5 < left[fifth] / truth[fifth] < 1.7
    if early > 2:
        by_line = (fall - fallen[fifth]) * steps[fifth] / fallen[fifth]
        assert left[fifth] > by_line
    later = steps > end / 2
    assert (np.abs(left - truth)[later] < 0.5 * np.maximum(truth[later], 5 * INTERVAL)).all()


@SETTINGS
@given(
    part=st.floats(0.2, 0.5),
    fall=st.floats(5.0, 12.0),
    noise=st.floats(0.0, 0.1),
    seed=st.integers(0, 10**6),
)
def test_a_forecast_that_is_overrun_by_half_says_no_more_of_the_rate(part, fall, noise, seed):
    """A flow that began with another takes 2 to 5 times its forecast: from 1.5 times on what was seen alone counts.

    Its noise makes an error of the line of less than a fifth. With the rate of the forecast 0.5 to 0.74 of the steps
    left would be expected.
    """
    count = 200
    kick = noise * np.random.default_rng(seed).standard_normal(count)
    rows = falling(TOLERANCE * np.exp(fall * (1 - np.arange(1, count + 1) / count) + kick))
    end, now = rows[-1].step, int(0.8 * count)
    left = settling(rows[:now], part * end, 0.0, TOLERANCE)
    assert left == pytest.approx(end - rows[now - 1].step, rel=0.3)


@SETTINGS
@given(
    level=st.floats(1e2, 1e6),
    noise=st.floats(0, 0.4),
    over=st.floats(0.5, 1.2),
    raised=st.sampled_from([0.0, RAMP]),
    seed=st.integers(0, 10**6),
)
def test_a_residual_that_does_not_fall_leaves_no_end_in_sight(level, noise, over, raised, seed):
    """Far above the tolerance, after half of the forecast or more and before the flow can be judged.

    At least a third of the forecast is left, also where scatter looks like a slow fall; of a level one at least as much
    as that, and at most what a mean takes.
    """
    count = 200
    scatter = noise * np.random.default_rng(seed).standard_normal(count)
    rows = falling(level * TOLERANCE * np.exp(scatter - scatter.mean()))
    end = rows[-1].step
    expected, through = end / over, 0.9 * (end - raised)
    watch = Watch(INTERVAL, through, raised, TOLERANCE, 0.01, 50.0)
    schedule = Schedule(INTERVAL, INTERVAL, 100 * through)
    words, left = steps_left(end, rows, schedule, watch, expected, TOLERANCE, raised)
    assert left > (expected - raised) / 3
    if not noise:
        assert words == "at least"
        assert left <= max(watch.least_steps_left(rows), expected - end)
    assert by_residual(falling(np.ones(100)), raised, TOLERANCE) == np.inf


@pytest.mark.parametrize("below", [0, 7, 20])
def test_a_flow_ends_once_it_has_been_settled_for_as_long_as_is_asked(below):
    """A residual that has come to the tolerance so many rows ago, of twenty: those that are missing are left, or one
    more where the row is not there yet. The rate of its fall is the forecast's.
    """
    quiet, fall = 20, np.log(1e3)
    count = 100 + below
    residual = TOLERANCE * 1e3 * np.exp(-fall * np.arange(1, count + 1) / 100.5)
    left = settling(falling(residual), 100 * INTERVAL + RAMP, 0.0, TOLERANCE, 0, quiet)
    assert left == pytest.approx(max(quiet - below, 0.5) * INTERVAL, abs=INTERVAL)


def test_what_falls_fast_after_an_extrapolation_is_not_taken_for_the_end():
    """It falls by e in twenty rows until row 100, jumps back, and loses that and more within ten; then by e in forty.

    Half of what is left is told at least. A line through what was before, too, tells of 245 steps of 5000 at row 140.
    """
    k = np.arange(1, 181)
    above = np.where(k <= 100, 10 - k / 20, 2 - (k - 110) / 40)
    above[100:110] = np.linspace(8, 2, 10)
    rows, expected = falling(TOLERANCE * np.exp(above)), 160.0 * INTERVAL
    for count in (110, 120, 130, 140, 160):
        left = settling(rows[:count], expected, 0.0, TOLERANCE, 100 * INTERVAL)
        assert 0.5 < left / ((190 - count) * INTERVAL) < 1.3


@SETTINGS
@given(
    level=st.floats(1e2, 1e6),
    fall=st.floats(0, 0.3),
    noise=st.floats(0.05, 0.4),
    used_up=st.floats(0.2, 0.8),
    seed=st.integers(0, 10**6),
)
def test_a_forecast_that_is_used_up_never_says_that_the_end_has_come(level, fall, noise, used_up, seed):
    """Of a residual far above the tolerance that scatters more than it falls, after 1.25 to 5 times the forecast.

    What is left is as long as the run is late, less a half for the line through the scatter, or not known.
    """
    count = 200
    kick = noise * np.random.default_rng(seed).standard_normal(count)
    rows = falling(level * TOLERANCE * np.exp(kick - fall * np.arange(count) / count))
    expected = used_up * rows[-1].step
    assert settling(rows, expected, RAMP, TOLERANCE) > (rows[-1].step - expected) / 2


@pytest.mark.parametrize(
    "kind",
    [
        quasi_periodic,
        pytest.param(two_time_scales, marks=pytest.mark.slow),
        pytest.param(long_memory, marks=pytest.mark.slow),
    ],
)
def test_the_time_left_of_a_flow_that_fluctuates_is_that_of_its_mean(kind):
    """Under a forecast of six flow-through times, which is when such a flow is taken to settle.

    Of 10 flows drawn at random: once it is seen not to settle the rest is a least one, and a mean at least; over the
    second half of what is foreseen of the mean the end is met within 1.5 times for four of five moments.
    """
    t, close = times(130), []
    for seed in range(10):
        energy, change, _ = kind(np.random.default_rng([seed, 5]), t)
        rows, watch = rows_of(energy, change), Watch(INTERVAL, THROUGH, 0.0, TOLERANCE, 0.01, 50.0)
        schedule, foreseen = Schedule(INTERVAL, INTERVAL, 130 * THROUGH), []
        for count, row in enumerate(rows, 1):
            ended = watch.update(rows[:count])
            words, left = steps_left(row.step, rows[:count], schedule, watch, 6.0 * THROUGH, TOLERANCE, RAMP)
            if watch.begun is not None:
                foreseen.append((words, row.step + left))
            elif row.step > 4 * THROUGH:
                assert words == "at least" or watch.outcome == "settles"
                assert left >= 10 * THROUGH or watch.outcome == "settles"
            if ended:
                break
        later = [end for words, end in foreseen if words == "about"]
        close += [1 / 1.5 < end / row.step < 1.5 for end in later[len(later) // 2 :]]
    assert np.mean(close) > 0.8


def ran(marks, later=NOTHING_LATER):
    left = TimeLeft(later)
    for step, seconds in marks:
        left.mark(step, seconds)
    return left


def test_the_speed_of_a_run_leaves_its_compilation_out():
    marks, forecast = [(50, 21.0), (100, 22.0), (2100, 24.0)], Forecast(10_000, 40.0, 0, 20.0)
    assert ran(marks).step_s(forecast) == pytest.approx(1e-3)
    assert [ran(marks[:n]).step_s(forecast) for n in range(3)] == [2e-3] * 3


@given(slow_s=st.floats(0.0, 20.0), step_s=st.floats(1e-4, 1.0), count=st.integers(10, 200))
def test_the_speed_is_that_of_the_later_half_of_the_steps(slow_s, step_s, count):
    """Whatever the first third took beside its steps."""
    marks = [(100 * k, 30.0 + 100 * k * step_s + slow_s * min(1.0, 3 * k / count)) for k in range(1, count + 1)]
    assert ran(marks).step_s(Forecast(1, 1e6, 0)) == pytest.approx(step_s, rel=1e-6)


@given(step_s=st.floats(1e-4, 1e-2), longest=st.integers(1, 99))
def test_one_long_stretch_among_others_does_not_count(step_s, longest):
    """As when what corrects the flow is compiled."""
    marks = [(100 * k, 30.0 + 100 * k * step_s + (20.0 if k > longest else 0.0)) for k in range(1, 101)]
    assert ran(marks).step_s(Forecast(1, 1e6, 0)) == pytest.approx(step_s, rel=1e-6)


@given(compiled_s=st.sampled_from([0.0, 11.0]), step_s=st.floats(1e-4, 1e-2), rest=st.integers(0, 5000))
def test_a_run_that_is_but_a_start_tells_what_comes_after_it_too(compiled_s, step_s, rest):
    """Compilation of the finer lattice's loops, too, unless its own were found."""
    forecast = Forecast(1000, 26.0, 0, 25.0)
    left = ran([(100 * k, compiled_s + 100 * k * step_s) for k in range(1, 6)], Later(50.0, 2.3))
    assert left.seconds(rest, forecast) == pytest.approx(rest * step_s + 50.0 + 2.3 * compiled_s)
    assert left.compiled_s == pytest.approx(compiled_s, abs=1e-9)


def test_a_forecast_of_fewer_steps_compiles_as_long():
    assert Forecast(1000, 45.0, 7, 25.0).scaled(0.25) == Forecast(250, 30.0, 7, 25.0)


def test_more_time_left_than_before_is_said_with_its_reason():
    left, forecast = ran([(100, 1.0), (200, 2.0)]), Forecast(10_000, 100.0, 0)
    assert left.said("about", 9000, forecast) == "about 1 min 30 s left"
    left.mark(300, 3.0)
    assert left.said("about", 9100, forecast) == "about 1 min 31 s left"  # which nobody notices
    left.mark(400, 4.0)
    said = left.said("about", 12_000, forecast)
    assert said == "about 2 min 00 s left, more than before, since the flow needs more steps than it seemed to"
    left.mark(500, 7.0)
    said = left.said("at least", 11_900, forecast)
    assert said == "at least 3 min 58 s left, more than before, since a step takes 0.02 s in place of 0.01 s"
    left.mark(600, 9.0)
    assert left.said("about", 5000, forecast) == "about 2 min 05 s left"


def test_steps_left_of_a_run_fall_as_it_goes(tmp_path):
    """On rows that a run left: each shows at most a tenth more than the one before less its steps, apart from that."""
    radius, length, reynolds = CASES[0]
    nodes, wanted, _ = pipe_case((1, 2, 3), reynolds, radius, length)
    summary = solve(nodes, wanted, tmp_path / "flow.vtkhdf", tmp_path / "monitor.csv", LOG)
    with (tmp_path / "monitor.csv").open() as stream:
        residual = [float(row["residual"]) for row in csv.DictReader(stream)]
    ramp = summary["numbers"]["ramp_s"] / summary["numbers"]["time_step_s"]
    rows = falling(residual)
    left = np.array([settling(rows[: k + 1], summary["forecast"]["steps"], ramp, TOLERANCE) for k in range(len(rows))])
    assert (np.diff(left) < 0.1 * summary["steps"]).all()
    truth = summary["steps"] - np.array([row.step for row in rows])
    assert (np.abs(left - truth) <= max(0.5 * summary["steps"], INTERVAL)).all()
