# SPDX-License-Identifier: Apache-2.0
"""Runs of a straight pipe at other flows, and the reduced model that follows from them: Hagen and Poiseuille's."""

import logging
from dataclasses import replace

import numpy as np
import pytest

from pipeline.case.settings.flow import OutletSettings, SolveSettings, WindkesselSettings
from pipeline.case.settings.reduced import ReducedSettings
from pipeline.geometry.branches.vessel_tree import Branch
from pipeline.members.other_flow import OtherFlowInput, Vessel, at_flow, computed
from pipeline.stages.reduced import reduced
from solver.runtime.errors import StageError
from tests.support.swept import swept

LOG = logging.getLogger("other flow")
RADIUS, LENGTH, FLOW = 1.0, 4.0, 0.2


@pytest.fixture(scope="module")
def vessel() -> Vessel:
    """A pipe with 8 nodes across, on which the runs are as fine as the case."""
    line = np.linspace(0, 1, 13)[:, None] * [0.0, 0.0, LENGTH]
    surface, openings = swept(line, RADIUS, segments=32)
    branch = Branch(1, openings[0].name, openings[1].name, 0, line, np.full(13, RADIUS), np.ones(13, bool), True)
    return Vessel(surface, openings, (branch,), 0.25, 8.0, {openings[1].name: 1.0})


def given(factor: float, **changes) -> OtherFlowInput:
    solve = SolveSettings.model_validate({"inlets": {"*": {"flow_ml_s": FLOW}}, "backend": "cpu"} | changes)
    return OtherFlowInput(factor=factor, reduced=ReducedSettings(flows=(0.5, 2.0)), solve=solve)


def test_runs_of_a_pipe_make_a_model_with_its_resistance(vessel):
    """R = 8 mu L/(pi r^4) within the 6 % that 8 nodes across are off, and next to no square loss: what the developed
    inflow lacks of a parabola dies away along the way.
    """
    runs = [computed(vessel, given(factor), LOG) for factor in (0.5, 1.0, 2.0)]
    assert [run.openings[0]["monitored_flow_ml_s"] / FLOW for run in runs] == pytest.approx([0.5, 1, 2], rel=0.01)
    summary = {
        "numbers": {"density_kg_m3": 1060.0, "viscosity_m2_s": 3.5e-3 / 1060},
        "openings": {vessel.openings[1].name: {"pressure_mmhg": 0.0}},
    }
    indices = {"openings": list(runs[1].openings), "times": 1, "unsettled": None}
    model = reduced(runs, indices, runs[1].sections, summary)
    exact = 8 * 3.5e-3 * LENGTH * 1e-3 / (np.pi * (RADIUS * 1e-3) ** 4) * 1e-6 / 133.322
    branch = model.branches[0]
    assert branch.poiseuille_mmhg_s_ml == pytest.approx(exact, rel=0.03)  # a polygon of 32 sides has 0.6 % less area
    assert branch.resistance_mmhg_s_ml == pytest.approx(exact, rel=0.06)
    assert abs(branch.square_mmhg_s2_ml2) * FLOW < 0.03 * exact
    assert model.coarse_error == 0
    assert model.reservations == ()


def test_a_run_that_fails_says_why(vessel):
    failed = computed(vessel, given(2.0, max_steps=5), LOG)
    assert failed.factor == 2.0
    assert failed.failed
    assert failed.openings == ()


def test_windkessels_become_the_parts_that_they_gave_and_waveforms_their_mean(vessel):
    more = OutletSettings(pressure_mmhg=90, windkessel=WindkesselSettings())
    solve = SolveSettings.model_validate({"inlets": {"*": {"flow_ml_s": FLOW, "profile": "womersley"}}})
    solve = solve.model_copy(update={"outlets": {"*": more}, "peak_speed_m_s": 0.3, "ranks": 4})
    third = replace(vessel.openings[1], id=3, name="third")
    found = at_flow(solve, (*vessel.openings, third), 2.0, {vessel.openings[1].name: 0.7, "third": 0.3})
    assert found.inlets[vessel.openings[0].name].flow_ml_s == pytest.approx(2 * FLOW)
    assert found.inlets[vessel.openings[0].name].profile == "developed"
    assert found.outlets["third"].flow_fraction == 0.3
    assert found.outlets["third"].windkessel is None
    assert found.outlets["third"].pressure_mmhg == 90
    assert (found.peak_speed_m_s, found.ranks) == (0.6, 1)
    with pytest.raises(StageError, match=r"outlet .*: 110.0% of the inflow left there"):
        at_flow(solve, (*vessel.openings, third), 2.0, {vessel.openings[1].name: 1.1, "third": -0.1})
    alone = at_flow(solve, vessel.openings, 0.5, {vessel.openings[1].name: 1.0})
    assert alone.outlets[vessel.openings[1].name].flow_fraction is None
