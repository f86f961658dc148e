# SPDX-License-Identifier: Apache-2.0
"""The section uncertainty of a case."""

import json

import pytest

from pipeline.case.case_file import Case
from pipeline.case.settings.base import parse
from pipeline.case.stages import stages_of
from solver.runtime.errors import StageError

PIPE = {"shape": "pipe", "diameter_mm": 2, "length_mm": 5}
VARYING = ("inflow_cv", "waveform_cv", "viscosity_cv", "outlets_cv", "wall_sd_mm", "roughness_mm")
DUCT = {"shape": "duct", "height_mm": 2, "width_mm": 2, "length_mm": 5}


def case(given, **more) -> Case:
    values = {"input": {"phantom": "data/phantoms/tiny.yaml"}, "solve": {"inlets": {"*": {"flow_ml_s": 1}}}}
    return parse(Case, values | {"uncertainty": given} | more, "case")


@pytest.mark.parametrize(
    ("given", "members"),
    [
        ("quick", 12),
        ("full", 60),
        ({"level": "quick", "members": 20}, 20),
        ("off", 0),
        ({"members": 20}, 0),
    ],
)
def test_members_follow_from_the_level_in_short_and_in_full(given, members):
    found = case(given)
    assert found.uncertainty.count == members
    assert ("uncertainty" in stages_of(found, True)) == bool(members)


@pytest.mark.parametrize(
    ("given", "more", "words"),
    [
        ("much", {}, "should be 'off', 'quick' or 'full'"),
        (True, {}, "should be a mapping"),
        ({"level": "quick", "members": 9}, {}, "uncertainty.members"),
        (
            {"level": "quick", **dict.fromkeys(VARYING, 0)},
            {},
            "nothing varies",
        ),
        ("quick", {"input": {"geometry": DUCT}}, "a canonical duct has no bands"),
        (
            "quick",
            {"input": {"geometry": PIPE | {"ends": "periodic"}}, "solve": {}},
            "a canonical pipe without openings has no bands",
        ),
        (
            "quick",
            {"coupling": {"network": "adan56", "inlets": {"a": "aorta"}, "outlets": {"b": "aorta"}}, "solve": {}},
            "members run the vessel alone",
        ),
    ],
)
def test_mistakes_end_in_one_line(given, more, words):
    with pytest.raises(StageError) as refusal:
        case(given, **more)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    "geometry",
    [
        PIPE,
        PIPE | {"shape": "stenosis", "throat_mm": 3},
        {"shape": "nozzle", "diameter_mm": 2, "outlet_diameter_mm": 4},
        {"shape": "bend", "diameter_mm": 2, "bend_radius_mm": 5},
    ],
)
def test_round_canonical_vessels_with_openings_get_bands(geometry):
    assert "uncertainty" in stages_of(case("quick", input={"geometry": geometry}), True)


def test_a_member_takes_the_sections_of_the_flow():
    taken = json.loads(case("quick").settings("member"))
    assert taken.keys() == {"uncertainty", "solve", "decompose", "postprocess"}
    assert taken["uncertainty"]["level"] == "quick"
