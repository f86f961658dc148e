# SPDX-License-Identifier: Apache-2.0
"""What a figure is worth: the worst of its own evidence, shown wherever it stands."""

import pytest

from pipeline.case.physiology import Given
from pipeline.case.range_checks import Found, checks
from pipeline.haemodynamics.trust import COARSE_ENOUGH, FIGURES, LIMITS, SHAPE, check, judged, trust_of
from pipeline.reporting.trust_rows import by_state


def indices(**values):
    """Numbers of every group, and checks that are all good but for those named (spaces as underscores)."""
    good = {"flow balance": 0.001, "nodes across": 24.0, "wall without a fit": 0.0, "Mach number": 0.1}
    given = good | {name.replace("_", " "): value for name, value in values.items()}
    settled = {"name": "converged", "unit": "", "value": True, "limit": True, "passed": True, "state": "good"}
    return {
        "peak_speed_m_s": 0.5,
        "openings": [{"name": "a", "flow_ml_s": 1.0, "pressure_pa": 3.0}],
        "pressure_drops": [{"drop_pa": 1.0}],
        "wall": {"shear_mean_pa": 1.0, "osi_mean": 0.1},
        "checks": [settled, *(check(name, "%", value, "repair it") for name, value in given.items())],
    }


def states(found):
    return {each["key"]: each["state"] for each in judged(found)}


def test_with_good_evidence_every_figure_is_good():
    assert set(states(indices()).values()) == {"good"}


@pytest.mark.parametrize(
    ("nodes", "wall", "speed"),
    [
        (20, "good", "good"),
        (19, "reservation", "good"),
        (10, "reservation", "good"),
        (9, "unusable", "reservation"),
        (5, "unusable", "unusable"),
    ],
)
def test_wall_shear_stress_needs_more_nodes_than_speed(nodes, wall, speed):
    found = states(indices(nodes_across=float(nodes)))
    assert (found["wall"], found["oscillation"], found["speed"], found["flow"]) == (wall, wall, speed, "good")


def test_a_flow_too_fast_at_the_narrowest_place_leaves_no_figure_good():
    """Either the mask is too thin there, or the flow is not this patient's."""
    found = indices()
    found["checks"] += checks([Found("narrowest_speed", 2.8, Given("key", 4.0, "mL/s", ()))], None)
    assert set(states(found).values()) == {"reservation"}


def test_a_failed_fit_of_the_wall_spoils_its_figures_and_no_others():
    found = states(indices(wall_without_a_fit=0.19))
    assert {key for key, state in found.items() if state != "good"} == {"wall", "oscillation"}
    assert found["wall"] == "unusable"


def test_a_sac_whose_inflow_does_not_return_is_reported_beside_its_flow_alone():
    found = indices()
    found["sacs"] = [{"name": "left"}, {"name": "right"}]
    found["checks"] += [
        check("inflow that stays in the sac", "%", error, "", of=name) for name, error in (("left", 0.03), ("right", 0))
    ]
    got = states(found)
    assert got["sac left"] == "reservation"
    assert got["sac right"] == got["sac left wall"] == got["wall"] == "good"
    assert trust_of(judged(found), "sacs.inflow_ml_s", "left") == "reservation"
    assert trust_of(judged(found), "sacs.shear_ratio", "left") == "good"


def test_what_has_not_settled_makes_every_figure_unusable():
    found = indices()
    found["checks"][0] |= {"value": False, "passed": False, "state": "unusable"}
    assert set(states(found).values()) == {"unusable"}


def test_rows_of_the_table_have_what_their_group_is_worth():
    trust = judged(indices(wall_without_a_fit=0.03))
    assert trust_of(trust, "wall.shear_mean_pa", "") == "reservation"
    assert trust_of(trust, "openings.flow_ml_s", "a") == "good"
    assert trust_of(trust, "wall.area_mm2", "") == ""  # of the surface alone


def test_the_headline_names_figures_by_what_they_are_worth_with_the_reason():
    [good, doubtful] = by_state(judged(indices(wall_without_a_fit=0.03)))
    (figures,) = good[2]  # one line, as they share the reason: none
    assert "speeds" in figures.split("; ")
    assert doubtful[1] == "with reservation"
    assert any(
        "wall shear stress" in line and line.endswith(": wall without a fit 3.00 % (good up to 1.00 %)")
        for line in doubtful[2]
    )


def test_every_limit_has_a_source_and_is_used_and_the_second_is_wider():
    used = {name for group in FIGURES for name in group.evidence} | {
        "nodes across the neck",
        "inflow that stays in the sac",
        "wall shear stress too low",
        "wall shear stress too high by blur",
        *SHAPE,
    }
    assert set(LIMITS) <= used
    for limit in (*LIMITS.values(), COARSE_ENOUGH):
        assert limit.source
        assert limit.usable < limit.good if limit.at_least else limit.good < limit.usable
