# SPDX-License-Identifier: Apache-2.0
"""The section reduced of a case, and the runs that the workflow makes of it."""

import json
from types import SimpleNamespace

import pytest

from pipeline.case.case_file import Case
from pipeline.case.settings.base import parse
from pipeline.case.settings.reduced import ReducedSettings
from pipeline.case.stages import stages_of
from pipeline.workflow.runs_beside import Beside
from solver.runtime.errors import StageError

PIPE = {"shape": "pipe", "diameter_mm": 2, "length_mm": 5, "direction": [1, 0, 0]}


def case(given, **more) -> Case:
    values = {"input": {"phantom": "data/phantoms/tiny.yaml"}, "solve": {"inlets": {"*": {"flow_ml_s": 1}}}}
    return parse(Case, values | {"reduced": given} | more, "case")


def test_there_is_a_run_for_each_flow_one_at_the_cases_and_one_that_divides_it_otherwise():
    assert ReducedSettings().runs == ()
    assert ReducedSettings(flows=(2.0, 0.5)).runs == ((0.5, 0.0), (1.0, 0.0), (2.0, 0.0), (1.0, 0.2))
    assert ReducedSettings(flows=(2.0,), division=0.0).runs == ((1.0, 0.0), (2.0, 0.0))
    assert "reduced" in stages_of(case({"flows": [0.5, 2]}), True)
    assert "reduced" not in stages_of(case({}), True)


def test_a_run_takes_its_flow_and_the_sections_of_the_flow():
    found = Beside()
    found._all = {"one": case({"flows": [0.5, 2]}), "none": case({})}
    found.section = lambda name, stage: found._all[name].settings(stage)
    assert found.other_flows("{case}/{number}")(SimpleNamespace(case="one")) == [f"one/{n}" for n in range(4)]
    taken = json.loads(found.settings_of_other_flow(SimpleNamespace(case="one", number="3")))
    assert (taken["factor"], taken["division"]) == (1.0, 0.2)
    assert taken.keys() == {"factor", "division", "reduced", "solve", "surface", "decompose", "postprocess"}


@pytest.mark.parametrize(
    ("given", "more", "words"),
    [
        ({"flows": [0.9, 1.2]}, {}, "too near to each other"),
        ({"flows": [0.01]}, {}, "reduced.flows"),
        ({"flows": [2]}, {"input": {"geometry": PIPE | {"ends": "periodic"}}}, "without an inlet and an outlet"),
    ],
)
def test_mistakes_end_in_one_line(given, more, words):
    if more:
        more = more | {"solve": {"force_n_m3": [1, 0, 0]}}
    with pytest.raises(StageError) as refusal:
        case(given, **more)
    assert words in str(refusal.value)


def test_a_shape_with_openings_can_have_a_reduced_model():
    assert case({"flows": [2]}, input={"geometry": PIPE | {"ends": "openings"}}).reduced.factors == (1.0, 2.0)
