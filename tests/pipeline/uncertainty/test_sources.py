# SPDX-License-Identifier: Apache-2.0
"""What varies between members, and the flow that each of them is given."""

from statistics import NormalDist

import numpy as np
import pytest

from pipeline.case.settings.flow import SolveSettings
from pipeline.case.settings.uncertainty import UncertaintySettings
from pipeline.uncertainty.sources import Variable, variables_of, with_variation
from pipeline.uncertainty.wall_precision import WallPrecision
from solver.boundary.waveform import read_inflow
from solver.domain.nodes import Opening
from tests.support.waveforms import write_waveform

KNOWN, UNKNOWN = WallPrecision(0.0, 0.0, 1.0), WallPrecision(0.1, 0.0, 1.0)


def opening(number, name, radius=1.0) -> Opening:
    role = "inlet" if name.startswith("in") else "outlet"
    return Opening(number, name, role, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), float(np.pi * radius**2), radius)


TWO_INTO_THREE = tuple(opening(k + 1, name, 1 + k / 5) for k, name in enumerate(("in_a", "in_b", "x", "y", "z")))


def flow(**settings) -> SolveSettings:
    inlets = {name: {"flow_ml_s": 2.0} for name in ("in_a", "in_b")}
    return SolveSettings.model_validate({"inlets": inlets, **settings})


def test_variables_are_of_what_the_case_has():
    settings, shared = UncertaintySettings(level="quick"), {"*": {"flow_fraction": "murray"}}
    found = variables_of(settings, UNKNOWN, TWO_INTO_THREE, flow(outlets=shared))
    groups = [each.group for each in found]
    assert groups == ["wall", "inflow", "inflow", "viscosity", "outlets", "outlets"]
    assert [each.name for each in found if each.group == "inflow"] == ["in_a", "in_b"]
    as_it_comes = variables_of(settings, KNOWN, TWO_INTO_THREE, flow())
    assert [each.group for each in as_it_comes] == ["inflow", "inflow", "viscosity"]
    none = UncertaintySettings(level="quick", inflow_cv=0, waveform_cv=0, viscosity_cv=0, outlets_cv=0)
    assert variables_of(none, KNOWN, TWO_INTO_THREE, flow(outlets=shared)) == ()


def test_flows_and_viscosity_vary_as_they_are_asked_to_and_stay_positive():
    """4,000 draws: a standard deviation of so many is known to 1.1 %."""
    settings = UncertaintySettings(level="quick", inflow_cv=0.3, viscosity_cv=0.2)
    variables = (Variable("inflow", "in_a"), Variable("viscosity"))
    drawn = np.random.default_rng(1).standard_normal((4000, 2))
    cases = [with_variation(flow(), settings, TWO_INTO_THREE, variables, z) for z in drawn]
    inflow = np.array([case.inlets["in_a"].flow_ml_s for case in cases])
    viscosity = np.array([case.viscosity_pa_s for case in cases])
    for values, cv in ((inflow, 0.3), (viscosity, 0.2)):
        assert values.min() > 0
        assert values.std() / values.mean() == pytest.approx(cv, rel=0.06)
    assert np.median(inflow) == pytest.approx(2.0, rel=0.02)
    assert {case.inlets["in_b"].flow_ml_s for case in cases} == {2.0}


def test_waveforms_of_all_inlets_pulsate_by_one_factor_about_their_means(tmp_path):
    """Of 400 equally likely draws; those left out beyond the last are 1 % of the deviation. The pulsatility index is
    (largest - least)/mean.
    """
    times = np.linspace(0, 0.8, 41)
    wave = write_waveform(tmp_path / "wave.csv", times, 3 + np.sin(2 * np.pi * times / 0.8))
    inlets = {
        "in_a": {"waveform": wave, "flow_ml_s": 2.0},
        "in_b": {"waveform": wave, "pulsatility": 1.5, "profile": "womersley"},
    }
    given, settings = flow(inlets=inlets, peak_speed_m_s=0.5), UncertaintySettings(level="quick", waveform_cv=0.25)
    variables = variables_of(settings, KNOWN, TWO_INTO_THREE, given)
    assert [each.group for each in variables] == ["inflow", "inflow", "waveform", "viscosity"]
    alone, drawn = (Variable("waveform"),), np.array([[NormalDist().inv_cdf((k + 0.5) / 400)] for k in range(400)])
    factors = np.array(
        [with_variation(given, settings, TWO_INTO_THREE, alone, z).inlets["in_a"].pulsatility for z in drawn]
    )
    assert factors.min() > 0
    assert factors.std() / factors.mean() == pytest.approx(0.25, rel=0.02)
    assert np.median(factors) == pytest.approx(1, rel=0.001)
    varied = with_variation(given, settings, TWO_INTO_THREE, alone, np.array([1.3]))
    for name, mean in {"in_a": 2.0, "in_b": 3.0}.items():
        before, after = read_inflow(given.inlets[name]), read_inflow(varied.inlets[name])
        assert after.mean_ml_s == pytest.approx(mean)
        more = (after.peak_ml_s - after.minimum_ml_s) / (before.peak_ml_s - before.minimum_ml_s)
        assert more == pytest.approx(np.exp(1.3 * np.sqrt(np.log(1 + 0.25**2))))
    assert varied.peak_speed_m_s == pytest.approx(
        0.5 * read_inflow(varied.inlets["in_b"]).peak_ml_s / read_inflow(given.inlets["in_b"]).peak_ml_s
    )


def test_a_steady_flow_has_no_waveform_to_vary():
    settings = UncertaintySettings(level="quick", waveform_cv=0.5)
    assert Variable("waveform") not in variables_of(settings, UNKNOWN, TWO_INTO_THREE, flow())
    varied = with_variation(flow(), settings, TWO_INTO_THREE, (Variable("inflow", "in_a"),), np.array([1.0]))
    assert {each.pulsatility for each in varied.inlets.values()} == {1.0}


def test_parts_of_the_flow_vary_about_murrays_law_and_add_up():
    settings = UncertaintySettings(level="quick", outlets_cv=0.1)
    case = flow(outlets={"*": {"flow_fraction": "murray"}})
    variables = (Variable("outlets", "1"), Variable("outlets", "2"))
    drawn = np.random.default_rng(2).standard_normal((3000, 2))
    cases = [with_variation(case, settings, TWO_INTO_THREE, variables, z) for z in drawn]
    parts = np.array([[each.flow_fraction for each in varied.outlets.values()] for varied in cases])
    assert parts.sum(axis=1) == pytest.approx(1)
    murray = np.array([o.radius_mm**3 for o in TWO_INTO_THREE[2:]])
    assert np.median(parts, axis=0) == pytest.approx(murray / murray.sum(), rel=0.02)
    ratios = np.log(parts[:, 0] / parts[:, 1])  # of two independent factors, each of 0.1
    assert ratios.std() == pytest.approx(0.1 * np.sqrt(2), rel=0.05)
    unchanged = with_variation(case, settings, TWO_INTO_THREE, variables, np.zeros(2))
    assert {each.flow_fraction for each in unchanged.outlets.values()} == {"murray"}


def test_given_resistances_vary_and_given_pressures_do_not():
    settings = UncertaintySettings(level="quick", outlets_cv=0.2)
    vessels = {"*": {"windkessel": {"distal_mmhg_s_ml": 30.0}}}
    variables = (Variable("outlets", "1"), Variable("outlets", "2"))
    varied = with_variation(flow(outlets=vessels), settings, TWO_INTO_THREE, variables, np.array([1.0, -0.5]))
    found = [each.windkessel.distal_mmhg_s_ml for each in varied.outlets.values()]
    assert len(set(found)) == 3
    assert np.prod(found) == pytest.approx(30.0**3)  # what all have in common does not vary
    pressures = flow(outlets={"*": {"pressure_mmhg": 80.0}})
    assert variables_of(settings, KNOWN, TWO_INTO_THREE, pressures)[-1] == Variable("viscosity")


def test_the_expected_peak_speed_grows_with_the_inflow():
    settings, variables = UncertaintySettings(level="quick", inflow_cv=0.2), (Variable("inflow", "in_a"),)
    given = flow(peak_speed_m_s=0.5)
    faster = with_variation(given, settings, TWO_INTO_THREE, variables, np.array([2.0]))
    assert faster.peak_speed_m_s == pytest.approx(0.5 * faster.inlets["in_a"].flow_ml_s / 2)
    assert with_variation(given, settings, TWO_INTO_THREE, variables, np.array([-2.0])).peak_speed_m_s == 0.5
