# SPDX-License-Identifier: Apache-2.0
"""Fall-back: a run climbs to safer models on its own, where it is or from rest, and says so."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.domain.nodes import Nodes
from solver.run.divergence import FASTER
from solver.run.fallback import FIRST, Attempt
from solver.run.plan import make_plan
from solver.run.settings import SolveSettings
from tests.solver.run.test_checkpoint import KilledError, files, kept, killed_at, run
from tests.solver.run.test_simulation import pipe_case
from tests.support.variants import some


def underrated() -> tuple[Nodes, SolveSettings]:
    """A flow of eight times the speed that is expected: rung 1 of D3Q19 and its time step fit neither."""
    nodes, wanted, mean_m_s = pipe_case((1, 2, 3), 600, 5.2, 30, max_steps=4000)
    return nodes, replace(wanted, peak_speed_m_s=mean_m_s / 4, start="rest", velocity_set="D3Q19")


CASE = underrated()


def diverged(reached_m_s: float, drho: float | None) -> SimpleNamespace:
    """What the fall-back reads of a divergence."""
    return SimpleNamespace(happened="the flow diverged", reached_m_s=reached_m_s, drho=drho)


@pytest.fixture(scope="module")
def fallen(tmp_path_factory):
    nodes, wanted = underrated()
    folder = tmp_path_factory.mktemp("fallen")
    return nodes, wanted, run(nodes, wanted, folder / "whole"), folder


def test_a_run_goes_on_with_safer_models_and_begins_again_with_a_shorter_step(fallen):
    nodes, _, summary, _ = fallen
    climbed, began = summary["models"]["fallbacks"]
    assert climbed.startswith("from step ")
    assert "the grid Reynolds number had reached" in climbed
    assert began.startswith("begun again with an expected peak speed of ")
    assert "the flow diverged at step " in began
    assert [note for note in summary["notes"] if note in (climbed, began)] == [climbed, began]
    assert summary["models"]["collision"] == "projected"
    area_m2 = np.pi * (nodes.openings[0].radius_mm * 1e-3) ** 2
    speed_m_s = 2 * summary["openings"]["in"]["imposed_flow_ml_s"] * 1e-6 / area_m2
    # the flow itself is right: its peak is that of developed flow, within the error of 10 nodes across at Re 600
    assert summary["max_speed_m_s"] == pytest.approx(speed_m_s, rel=0.1)
    assert summary["mach"] < 0.25


@pytest.mark.parametrize(
    "step", some((600, 900, 1500, 3000), 900)
)  # on the second models, before the divergence, and after it
def test_a_run_that_was_stopped_after_it_fell_back_leaves_the_same_bits(fallen, step, tmp_path):
    nodes, wanted, summary, folder = fallen
    with pytest.raises(KilledError), killed_at(step):
        run(nodes, wanted, tmp_path, kept(tmp_path))
    assert [*(tmp_path / "checkpoint").glob("step-*.h5")]
    found = run(nodes, wanted, tmp_path, kept(tmp_path, every_s=3600))
    assert files(tmp_path) == files(folder / "whole")
    assert found["models"] == summary["models"]


def test_a_run_whose_checkpoint_is_of_no_use_begins_with_the_first_models(fallen, tmp_path):
    """A lower limit of steps than the state's: it is not used, nor what that run had fallen back to."""
    nodes, wanted, _, _ = fallen
    with pytest.raises(KilledError), killed_at(3000):
        run(nodes, wanted, tmp_path, kept(tmp_path))
    short = replace(wanted, max_steps=800)
    found, fresh = run(nodes, short, tmp_path, kept(tmp_path, every_s=3600)), run(nodes, short, tmp_path / "fresh")
    assert files(tmp_path) == files(tmp_path / "fresh")
    assert found["models"] == fresh["models"]
    assert found["forecast"] == fresh["forecast"]


def test_a_model_that_is_named_stays_alone():
    nodes, wanted = underrated()
    plan = make_plan(nodes, replace(wanted, collision="projected"))
    assert plan.safer == ()
    assert FIRST.after(replace(wanted, collision="projected"), plan, diverged(0.0, None)) is None


@settings(deadline=None, max_examples=20)
@given(
    reached=st.lists(st.floats(0, 5), min_size=12, max_size=12),
    drho=st.lists(st.none() | st.floats(0.3, 2), min_size=12, max_size=12),
)
def test_a_run_is_tried_a_few_times_at_most_and_never_twice_in_the_same_way(reached, drho):
    """Four rungs, one change of the peak speed, one of the lattice speed."""
    nodes, wanted = CASE
    attempt, seen = FIRST, []
    for speed, density in zip(reached, drho, strict=True):
        plan = attempt.plan(nodes, wanted)
        faster = speed > FASTER * plan.numbers["expected_peak_speed_m_s"]
        seen.append((attempt.rung, attempt.peak_speed_m_s, attempt.lattice_speed))
        following = attempt.after(wanted, plan, diverged(speed, density))
        if following is None:
            break
        assert following.peak_speed_m_s is not None or not faster or attempt.peak_speed_m_s is not None
        attempt = following
    assert following is None
    assert len(set(seen)) == len(seen) <= 6


@given(
    rung=st.integers(0, 3),
    since=st.integers(0, 10**6),
    peak=st.none() | st.floats(0.01, 10),
    lattice=st.none() | st.floats(0.001, 0.17),
    past=st.lists(st.text(max_size=30), max_size=3),
)
def test_an_attempt_comes_back_from_a_checkpoint(rung, since, peak, lattice, past):
    attempt = Attempt(rung, since, peak, lattice, tuple(past))
    assert Attempt.unpacked(attempt.packed()) == attempt
    assert Attempt.unpacked(None) == FIRST
