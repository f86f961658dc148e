# SPDX-License-Identifier: Apache-2.0
"""Section transport of a case: what the stage gets, when it is a part of the case, and mistakes in it."""

import json

import pytest

from pipeline.case.case_file import Case
from pipeline.case.settings.base import parse
from pipeline.case.settings.transport import TransportInput
from pipeline.case.stages import stages_of
from solver.runtime.errors import StageError
from solver.transport.scalar_settings import Bolus, TransportSettings


def case(**sections):
    solve = {"inlets": {"*": {"flow_ml_s": 1.0}}, "precision": "fp16"}
    return parse(Case, {"input": {"phantom": "data/phantoms/tiny.yaml"}, "solve": solve} | sections, "case")


def test_a_case_carries_nothing_unless_it_has_the_section():
    assert "transport" not in stages_of(case(), False)
    assert "transport" in stages_of(case(transport={}), False)


def test_the_solver_gets_the_section_with_what_it_takes_of_solve():
    stated = case(transport={"bolus": {"duration_s": 0.5}, "wall_flux_m_s": 1e-6}).settings("transport")
    found = parse(TransportInput, json.loads(stated), "--settings").for_solver()
    assert found == TransportSettings(bolus=Bolus(duration_s=0.5), wall_flux_m_s=1e-6, precision="fp32")


def test_the_defaults_are_those_of_the_solver_with_a_bolus():
    found = parse(TransportInput, json.loads(case(transport={}).settings("transport")), "--settings").for_solver()
    assert found == TransportSettings(bolus=Bolus())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"age": False, "bolus": None}, "nothing is carried"),
        ({"grid_peclet": 0.1}, "grid_peclet"),
        ({"bolus": {"duration_s": -1}}, "duration_s"),
    ],
)
def test_mistakes_end_in_one_line(given, words):
    with pytest.raises(StageError, match=words) as mistake:
        case(transport=given)
    assert "\n" not in str(mistake.value)
