# SPDX-License-Identifier: Apache-2.0
"""Answers of a fork, by hand; where a model does not hold, it says so; pulses against what circuits do."""

import numpy as np
import pytest

from pipeline.reduced.answer import What, answered
from pipeline.reduced.model import Behind, Held, Loss, Share
from pipeline.reduced.pulsatile_model import STEPS, pulsed
from solver.boundary.curves import Series
from solver.runtime.errors import StageError
from tests.support.reduced_forks import KINETIC, LOSSES, WAYS, fork

NONE = Loss(resistance_mmhg_s_ml=0.0, square_mmhg_s2_ml2=0.0)
TRUNK, LEFT, RIGHT = (way.name for way in WAYS)


def balanced(found, inflow):
    """Mass at the fork, and the same total pressure in it from both outlets."""
    left, right = found.flow_ml_s[LEFT], found.flow_ml_s[RIGHT]
    assert left + right == pytest.approx(inflow)
    heads = []
    for name, flow in (("left", left), ("right", right)):
        linear, square = LOSSES[name]
        heads.append(found.pressure_mmhg[name] + KINETIC[name] * flow**2 + linear * flow + square * flow**2)
    assert heads[0] == pytest.approx(heads[1], rel=1e-9)
    linear, square = LOSSES["trunk"]
    inlet = heads[0] + linear * inflow + square * inflow**2 - KINETIC["inlet"] * inflow**2
    assert found.pressure_mmhg["inlet"] == pytest.approx(inlet, rel=1e-9)


def test_flows_and_pressures_of_a_fork_are_those_by_hand():
    """Held at 80 mmHg: 1.2 q + 0.11 q^2 = 2 (Q - q) + 0.03 (Q - q)^2 with Q = 3 has one root between 0 and Q."""
    found = answered(fork(), What())
    q = max(np.roots([0.11 - 0.03, 1.2 + 2 + 6 * 0.03, -(6 + 9 * 0.03)]))
    assert found.flow_ml_s[LEFT] == pytest.approx(q, rel=1e-9)
    assert found.pressure_mmhg["left"] == pytest.approx(80)
    balanced(found, 3.0)
    assert found.reservations == ()
    assert found.arterial


def test_parts_and_resistances_hold_at_outlets():
    part = answered(fork(), What(2.0, {"left": Share(part=0.6)}))
    assert part.opening_flow_ml_s["left"] == pytest.approx(3.6)
    balanced(part, 6.0)
    behind = Behind(proximal_mmhg_s_ml=5.0, distal_mmhg_s_ml=25.0, compliance_ml_mmhg=0.1, distal_pressure_mmhg=4.0)
    resisted = answered(fork(left=behind, right=behind), What(0.5))
    for name in ("left", "right"):
        expected = 4.0 + 30.0 * resisted.opening_flow_ml_s[name]
        assert resisted.pressure_mmhg[name] == pytest.approx(expected, rel=1e-9)
    balanced(resisted, 1.5)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (What(2.5), r"2.5 times .* from 0.5 to 2 times it \(1.5 to 6 mL/s\) and says nothing beyond"),
        (What(0.4), "says nothing beyond"),
        (What(1.0, {"middle": Held(pressure_mmhg=1)}), "no outlet is called middle; there are left, right"),
        (What(1.0, {"left": Share(part=0.4), "right": Share(part=0.6)}), "none a pressure"),
    ],
)
def test_what_a_model_cannot_know_is_refused(what, message):
    with pytest.raises(StageError, match=message):
        answered(fork(), what)


def test_reservations_name_what_no_run_had():
    def said(what, **changes):
        return " ".join(answered(fork(**changes), what).reservations)

    assert "39% of the inflow passes, in the runs 60%" in said(What(1.0, {"left": Share(part=0.39)}))
    assert "outlet left: blood enters there" in said(What(1.0, {"left": Held(pressure_mmhg=120)}))
    assert "the flow turns round" in said(What(1.0, {"left": Held(pressure_mmhg=120)}))
    assert "Reynolds number of 2892; the flow is not laminar" in said(What(2.0), inflow=15.0)
    assert "as the runs say" in said(What(), reservations=("as the runs say",))
    assert "outside of that of the runs" in answered(fork(), What(3.0), beyond=True).reservations[0]


def test_a_lumen_whose_pressure_falls_below_that_around_it_is_said():
    """The lowest static pressure is 100 Q below the start: -218 mmHg where 3 mL/s come in at 82 mmHg."""
    found = fork()
    lowest = Loss(resistance_mmhg_s_ml=100.0, square_mmhg_s2_ml2=0.0)
    branches = (found.branches[0].model_copy(update={"lowest": lowest}), *found.branches[1:])
    said = answered(found.model_copy(update={"branches": branches}), What()).reservations
    assert "would collapse" in said[0]


def test_a_pulse_without_change_is_the_steady_flow():
    steady = answered(fork(), What())
    found = pulsed(fork(), Series(1.0, np.array([3.0 + 0j, 0j])), {})
    for name in ("inlet", "left", "right"):
        np.testing.assert_allclose(found.pressure_mmhg[name], steady.pressure_mmhg[name], rtol=1e-9)
    assert found.periods == 2


def test_a_pulse_through_a_windkessel_is_that_of_its_circuit():
    """A harmonic through R1, then R2 beside C, without losses before them: p = q (R1 + R2/(1 + i w R2 C)). Steps of
    first order: w dt/2 of the part that is stored, 0.6 % here.
    """
    period, proximal, distal, compliance = 0.8, 1.0, 10.0, 0.05
    law = Behind(proximal_mmhg_s_ml=proximal, distal_mmhg_s_ml=distal, compliance_ml_mmhg=compliance)
    found = fork(left=law, right=Share(part=0.4))
    free = tuple(
        branch.model_copy(update={"resistance_mmhg_s_ml": 1e-6, "square_mmhg_s2_ml2": 0.0, "inertance_mmhg_s2_ml": 0.0})
        for branch in found.branches
    )
    still = tuple(each.model_copy(update={"head": NONE}) for each in found.openings)
    found = found.model_copy(update={"branches": free, "openings": still})
    pulse = pulsed(found, Series(period, np.array([3.0 + 0j, 1.0 + 0j])), {})
    assert len(pulse.time_s) == STEPS
    turning = 2j * np.pi / period
    impedance = proximal + distal / (1 + turning * distal * compliance)
    expected = 0.6 * (3.0 * (proximal + distal) + np.real(impedance * np.exp(turning * pulse.time_s)))
    np.testing.assert_allclose(pulse.pressure_mmhg["left"], expected, atol=0.01 * 0.6 * abs(impedance) * 2)
    np.testing.assert_allclose(pulse.flow_ml_s["left"], 0.6 * pulse.flow_ml_s["inlet"], rtol=1e-9)


def test_inertia_of_a_pulse_leads_its_pressure():
    """Between held outlets without losses, p = (L1 + L2/2) dq/dt: both branches behind the trunk are alike."""
    found, inertance = fork(), 0.01
    branches = tuple(
        branch.model_copy(update={"resistance_mmhg_s_ml": 1e-6, "square_mmhg_s2_ml2": 0.0}) for branch in found.branches
    )
    still = tuple(each.model_copy(update={"head": NONE}) for each in found.openings)
    pulse = pulsed(
        found.model_copy(update={"branches": branches, "openings": still}),
        Series(1.0, np.array([3.0 + 0j, 1.0 + 0j])),
        {},
    )
    expected = 80 - 1.5 * inertance * 2 * np.pi * np.sin(2 * np.pi * pulse.time_s)
    np.testing.assert_allclose(pulse.pressure_mmhg["inlet"], expected, atol=0.01 * 1.5 * inertance * 2 * np.pi)


def test_a_pulse_outside_of_the_runs_is_said():
    said = " ".join(pulsed(fork(), Series(1.0, np.array([3.0 + 0j, 5.0 + 0j])), {}).reservations)
    assert "the inflow goes from -2 to 8 mL/s, and the runs had 1.5 to 6 mL/s" in said
    assert "turns back" in said
    with pytest.raises(StageError, match="needs one inlet and a period"):
        pulsed(fork(), Series(None, np.array([3.0 + 0j])), {})
