# SPDX-License-Identifier: Apache-2.0
"""Twenty slips that are easily made in a case file: each is understood, or answered in one sentence that says what to
write.
"""

import pytest

from pipeline.case.case_file import Case
from pipeline.case.settings.base import parse
from pipeline.case.settings.yaml_file import read_yaml
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT

CASE = """\
input: {phantom: data/phantoms/tiny.yaml}
segment: {seeds_mm: [[4.82, 13.27, -35.22]], lower: 185}
solve: {inlets: {"*": {flow_ml_s: 1.0}}}
"""
SEED = "[[4.82, 13.27, -35.22]]"
UNDERSTOOD = {
    "one seed without the brackets of a list": (SEED, "[4.82, 13.27, -35.22]"),
    "a number in quotes": ("flow_ml_s: 1.0", "flow_ml_s: '1.0'"),
    "yes for true": ("lower: 185", "lower: 185, fill_holes: yes"),
}
ANSWERED = {
    "a decimal comma": ("flow_ml_s: 1.0", "flow_ml_s: '1,0'", "solve.inlets.*.flow_ml_s = '1,0'", "number in mL/s"),
    "a unit behind the number": ("1.0", "1.0 mL/s", "solve.inlets.*.flow_ml_s", "a plain number in mL/s"),
    "another unit": ("flow_ml_s: 1.0", "flow_l_min: 0.06", "flow_l_min", "did you mean flow_ml_s?"),
    "a singular": ("inlets:", "inlet:", "solve.inlet", "did you mean inlets?"),
    "no name of the inlet": (
        '{"*": {flow_ml_s: 1.0}}',
        "{flow_ml_s: 1.0}",
        "solve.inlets.flow_ml_s",
        "{'*': {flow_ml_s: 1.0}}",
    ),
    "no inlets at all": (
        'inlets: {"*": {flow_ml_s: 1.0}}',
        "flow_ml_s: 1.0",
        "solve.flow_ml_s",
        "it stands in solve.inlets.*.flow_ml_s",
    ),
    "an inlet that is a number": (
        '{"*": {flow_ml_s: 1.0}}',
        '{"*": 1.0}',
        "solve.inlets.*",
        "keys to values (flow_ml_s,",
    ),
    "a tab": ("solve: {", "solve:\n\t{", "line 4, column 1", "correct it there"),
    "no space behind a colon": ("lower: 185", "lower:185", "segment.lower:185", "did you mean lower?"),
    "a capital in a key": ("segment:", "Segment:", "Segment", "did you mean segment?"),
    "dashes in a key": ("flow_ml_s", "flow-ml-s", "solve.inlets.*.flow-ml-s", "did you mean flow_ml_s?"),
    "a seed of two numbers": (SEED, "[[4.82, 13.27]]", "segment.seeds_mm.0", "its number 3 is missing"),
    "a seed as a text": (SEED, "4.82 13.27 -35.22", "segment.seeds_mm = '4.82", "a point is [x, y, z]"),
    "None for null": ("lower: 185", "lower: 185, upper: None", "segment.upper = 'None'", "null where nothing is meant"),
    "limits that are swapped": ("lower: 185", "lower: 185, upper: 100", "segment", "lower 185 is not below upper 100"),
    "a capital in a choice": ("lower: 185", "method: Threshold", "segment.method = 'Threshold'", "'threshold'"),
    "a key that stands twice": ("solve: {", "segment: {}\nsolve: {", "line 3, column 1", "keep one of them"),
}


def read(slip, tmp_path, monkeypatch):
    right, wrong, *_ = slip
    assert CASE.count(right) == 1
    monkeypatch.chdir(ROOT)
    (tmp_path / "case.yaml").write_text(CASE.replace(right, wrong))
    return parse(Case, read_yaml(tmp_path / "case.yaml"), "case.yaml")


@pytest.mark.parametrize("name", UNDERSTOOD)
def test_a_slip_that_has_one_meaning_is_understood(name, tmp_path, monkeypatch):
    assert read(UNDERSTOOD[name], tmp_path, monkeypatch) == read((SEED, SEED), tmp_path, monkeypatch)


@pytest.mark.parametrize("name", ANSWERED)
def test_a_slip_is_answered_in_one_sentence(name, tmp_path, monkeypatch):
    with pytest.raises(StageError) as caught:
        read(ANSWERED[name], tmp_path, monkeypatch)
    message = str(caught.value)
    assert "\n" not in message
    for part in ANSWERED[name][2:]:
        assert part in message


def test_one_voxel_and_one_end_are_understood_as_one_seed_is(monkeypatch):
    monkeypatch.chdir(ROOT)
    own = {"input": {"phantom": "data/phantoms/tiny.yaml"}, "solve": {"inlets": {"*": {"flow_ml_s": 1}}}}
    case = parse(Case, own | {"segment": {"seeds_voxel": [1, 2, 3]}, "surface": {"closed_mm": [1.5, 2, 3]}}, "c")
    assert case.segment.seeds_voxel == ((1, 2, 3),)
    assert case.surface.closed_mm == ((1.5, 2.0, 3.0),)
    with pytest.raises(StageError, match=r"closed_mm\.0\.1 = True: input should be no true or false"):
        parse(Case, own | {"surface": {"closed_mm": [1, True, 3]}}, "c")
