# SPDX-License-Identifier: Apache-2.0
"""What is said of coarser lattices before a long run: against plans of these lattices, and the report's judgement."""

from dataclasses import replace

import hypothesis
import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipeline.haemodynamics.trust import FIGURES, check, judge
from solver.backends.cost import Device
from solver.run.coarser import LEAST_TIMES, LONG_S, MOST_SHOWN, choices, said
from solver.run.plan import make_plan
from solver.run.resolution import STABLE_GRID_REYNOLDS, Resolution
from solver.run.settings import InletSettings
from solver.run.setup import foresee
from tests.solver.run.test_simulation import settings
from tests.support.geometries import pipe
from tests.support.waveforms import write_waveform

SLOW = Device("CPU", 1e12, 1e4, 0.0, 0.0)
"""On which every run is long."""
RADIUS_MM, LENGTH_MM = 2.5, 30.0


def planned(spacing_mm: float, waveform: str, flow_ml_s: float, times: float = 1.0):
    """A pulse through a pipe on a lattice: plan, settings, forecast, nodes."""
    nodes = pipe((1, 2, 3), RADIUS_MM / (times * spacing_mm), LENGTH_MM / (times * spacing_mm), times * spacing_mm)
    wanted = settings(inlets={"in": InletSettings(flow_ml_s, waveform, "parabolic")}, max_steps=None, cycles=6)
    plan = make_plan(nodes, wanted)
    return plan, wanted, foresee(nodes, wanted, plan, SLOW), nodes


@pytest.fixture
def waveform(tmp_path):
    phase = np.linspace(0, 1, 41)
    return write_waveform(tmp_path / "wave.csv", 0.8 * phase, 2 + np.sin(2 * np.pi * phase))


@pytest.mark.parametrize("flow_ml_s", [2.0, 8.0])
def test_a_coarser_lattice_takes_what_its_own_plan_says(waveform, flow_ml_s):
    """Time and node updates within 12 %: nodes of a pipe at 6 to 20 across are within 3 % of its volume, and a cycle
    is a whole number of moments; nodes across and pressure drops as near.
    """
    plan, wanted, expected, _ = planned(0.25, waveform, flow_ml_s)
    own, *coarser = choices(plan, wanted, expected, SLOW)
    assert own.seconds == pytest.approx(expected.seconds, rel=1e-3)
    assert 1 <= len(coarser) <= MOST_SHOWN
    for choice in coarser:
        there, _, forecast, nodes = planned(0.25, waveform, flow_ml_s, choice.spacing_mm / 0.25)
        assert choice.node_updates == pytest.approx(forecast.steps * nodes.count, rel=0.12)
        assert choice.seconds == pytest.approx(forecast.seconds, rel=0.12)
        assert there.q in (19, 27)
        assert own.node_updates / choice.node_updates == pytest.approx((choice.spacing_mm / 0.25) ** 4, rel=1e-3)


def test_lattices_go_down_to_10_nodes_across_or_if_there_are_hardly_more_to_6_and_none_is_too_fast(waveform):
    """Pipes of 40, 20, 11 and 7 nodes across, and a grid Reynolds number of at most 300."""
    for spacing_mm, count, least in ((0.125, 3, 10), (0.25, 3, 10), (5 / 11, 1, 6), (5 / 7, 0, 7)):
        plan, wanted, expected, _ = planned(spacing_mm, waveform, 2.0)
        found = choices(plan, wanted, expected, SLOW)
        assert len(found) == 1 + count
        across = [each.resolution.across for each in found]
        assert across == sorted(across, reverse=True)
        assert across[-1] >= 0.99 * least
        assert all(each.spacing_mm > 0.99 * LEAST_TIMES * spacing_mm for each in found[1:])
    fast = replace(plan, numbers=plan.numbers | {"grid_reynolds": STABLE_GRID_REYNOLDS / 1.1})
    assert len(choices(fast, wanted, expected, SLOW)) == 1
    assert "no coarser one carries this flow" in said(choices(fast, wanted, expected, SLOW))[1]


def test_only_a_long_run_has_these_lines_and_each_is_a_setting(waveform):
    plan, wanted, expected, _ = planned(0.25, waveform, 2.0)
    quick = replace(SLOW, updates_s=1e12)
    assert said(choices(plan, wanted, foresee_on(quick, expected, plan), quick)) == []
    first, *rest = said(choices(plan, wanted, expected, SLOW))
    assert first.startswith("this lattice, 0.25 mm, takes ")
    assert expected.seconds > LONG_S
    for line in rest:
        section = yaml.safe_load(line.partition(" takes ")[0])["voxelize"]
        assert section["nodes_across"] is None
        assert section["spacing_mm"] > 0.25
        assert "nodes across the narrowest place" in line


def foresee_on(device, expected, plan):
    return replace(expected, seconds=device.seconds(expected.steps, plan.numbers["fluid_nodes"], plan.q))


@hypothesis.settings(deadline=None, max_examples=100)
@given(across=st.floats(2, 40), error=st.none() | st.floats(0.01, 0.6))
def test_figures_are_worth_what_the_report_makes_of_them(across, error):
    checks = [check("nodes across the narrowest place", "", across, "finer")]
    if error is not None:
        checks.append(check("pressure drop too large", "%", error, "finer"))
    by_key = {group.key: judge(group, checks)["state"] for group in FIGURES}
    found = Resolution(across, error).states
    assert found == {
        "wall shear stress": by_key["wall"],
        "pressures": by_key["pressure"],
        "speeds": by_key["speed"],
    }
