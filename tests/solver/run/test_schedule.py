# SPDX-License-Identifier: Apache-2.0
"""When a run is looked at, averaged, written and may stop."""

from dataclasses import replace

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.run.schedule import CHECK_STEPS, SAMPLES, Schedule, make_schedule, moments_per_cycle, rows_per_cycle
from solver.runtime.errors import StageError
from tests.solver.run.test_simulation import settings


def periodic(pairs: int = 3, **changes) -> Schedule:
    """Of cycles of 1 s, with the inflow largest at 0.3 s."""
    wanted = settings(**changes)
    rows = rows_per_cycle(wanted, 1.0)
    inflow = -np.abs(np.arange(1, rows + 1) / rows - 0.3)
    return make_schedule(wanted, 1 / (2 * pairs * moments_per_cycle(rows)), 1e4, 1.0, inflow)


def stops(schedule: Schedule) -> list[int]:
    found = [0]
    while found[-1] < schedule.last:
        found.append(schedule.next_stop(found[-1]))
    return found[1:]


@hypothesis.settings(deadline=None, max_examples=30)
@given(
    rows=st.integers(1, 500),
    pairs=st.integers(1, 5),
    cycles=st.integers(1, 4),
    least=st.integers(1, 5),
    phases=st.lists(st.floats(0.01, 1), min_size=1, max_size=5),
)
def test_every_cycle_is_observed_in_the_same_phases(rows, pairs, cycles, least, phases):
    schedule = periodic(pairs, monitor_s=1 / rows, cycles=cycles, min_cycles=least, phases=phases, max_steps=10**7)
    cycle, places = schedule.cycle, stops(schedule)
    assert all(step % 2 == 0 for step in places)
    assert schedule.last == cycles * cycle == places[-1]
    rows_at = [step for step in places if schedule.row_due(step)]
    assert rows_at == [schedule.interval * (k + 1) for k in range(rows * cycles)]
    observations = [0] + [step for step in places if schedule.observed_at(step)]
    assert max(np.diff(observations)) <= CHECK_STEPS <= 50  # what is seen is taken in one look later
    sampled = [step for step in places if schedule.sampled(step)]
    kept = cycles - min(least, cycles) + 1
    assert len(sampled) % kept == 0
    assert SAMPLES <= len(sampled) / kept <= max(2 * SAMPLES, rows)
    assert len(set(np.diff(sampled))) == 1  # evenly spaced, also from one cycle to the next
    assert sum(schedule.begins_mean(step) for step in sampled) == kept
    taken = [schedule.snapshot(step) for step in places]
    assert [each for each in taken if each is not None] == kept * list(range(len(schedule.snapshots)))
    assert sum(schedule.compares(step) for step in places) == cycles


def test_velocity_is_compared_where_the_inflow_is_largest():
    schedule = periodic()
    assert schedule.compared / schedule.cycle == pytest.approx(0.3)
    assert schedule.row_due(schedule.compared)


def test_snapshots_are_at_the_phases_that_are_asked_for():
    schedule = periodic(phases=[0.5, 0.125, 1.0])
    assert [step / schedule.cycle for step in schedule.snapshots] == pytest.approx([0.125, 0.5, 1.0], abs=1e-3)
    assert len(periodic(snapshots=7).snapshots) == 7


def test_phase_averages_leave_the_first_cycle_out_and_begin_once():
    schedule = periodic(cycles=4, phase_averages=True)
    sampled = [step for step in stops(schedule) if schedule.sampled(step)]
    assert min(sampled) > schedule.cycle
    assert [schedule.begins_mean(step) for step in sampled].count(True) == 1
    assert schedule.begins_mean(sampled[0])
    with pytest.raises(StageError, match=r"all cycles but the first, and solve.cycles is 1"):
        periodic(cycles=1, phase_averages=True)


def test_steady_flow_is_averaged_over_the_last_tenth_and_never_beyond_its_steps():
    for most in (2, 3, 118, 120, 10_000, 99_999):
        schedule = make_schedule(settings(max_steps=most), 1e-5, 5e4, None, np.zeros(0))
        assert schedule.last % schedule.interval == 0
        assert 0 <= max(2, most // 2 * 2) - schedule.last < schedule.interval
        sampled = [step for step in stops(schedule) if schedule.sampled(step)]
        assert all(step > 0.9 * schedule.last for step in sampled)
        assert [schedule.begins_mean(step) for step in sampled] == [k == 0 for k in range(len(sampled))]
    assert schedule.interval == 500  # a hundredth of the viscous time
    asked = replace(settings(), monitor_s=0.02)
    assert make_schedule(asked, 1e-5, 5e4, None, np.zeros(0)).interval == 2000


def test_cycles_that_are_too_many_steps_are_refused():
    with pytest.raises(StageError, match=r"solve.cycles 3 of 1 s need 3600 steps, above solve.max_steps 100; raise"):
        periodic(max_steps=100)
