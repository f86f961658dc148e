# SPDX-License-Identifier: Apache-2.0
"""The time left of a run: plain functions of rows, on rows that were made up and on those of a run."""

import csv
import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.run.solve import solve
from solver.run.time_left import by_residual, seconds_a_step, settling
from tests.solver.run.test_forecast import CASES
from tests.solver.run.test_settling import INTERVAL, SETTINGS, TOLERANCE, rows_of
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


def test_a_residual_that_does_not_fall_leaves_the_forecast():
    rows = falling(np.ones(100))
    assert by_residual(rows, RAMP, TOLERANCE) == (np.inf, np.inf)
    assert settling(rows, 20_000.0, RAMP, TOLERANCE) == 20_000 - rows[-1].step
    assert settling(rows, 5_000.0, RAMP, TOLERANCE) == np.inf


def test_the_speed_of_a_run_leaves_its_compilation_out():
    marks = [(50, 21.0), (100, 22.0), (2100, 24.0)]
    assert seconds_a_step(marks, 2e-3) == pytest.approx(1e-3)
    assert [seconds_a_step(marks[:n], 2e-3) for n in range(3)] == [2e-3] * 3


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
