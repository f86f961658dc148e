# SPDX-License-Identifier: Apache-2.0
"""A wrong setting ends with one line that names the key, the value and what would be right."""

import copy
import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.case.case_file import Case, read_cohort, schema
from pipeline.case.settings.base import parse
from pipeline.case.settings.reference import FURTHER, with_further_keys
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT

GOOD = {
    "input": {"phantom": str(ROOT / "data/phantoms/tiny.yaml")},
    "segment": {"seeds_mm": [[1, 2, 3]], "lower": 180},
    "surface": {"openings": [{"name": "in", "role": "inlet", "near_mm": [0, 0, 0]}]},
    "solve": {"inlets": {"*": {"flow_ml_s": 2}}},
}


def changed(path: str, value: object) -> dict:
    """The good settings with one key set (or, with `value` None, removed)."""
    values = copy.deepcopy(GOOD)
    *parents, key = path.split("/")
    node = values
    for parent in parents:
        node = node.setdefault(parent, {})
    if value is None:
        node.pop(key)
    else:
        node[key] = value
    return values


def test_good_settings_pass_and_defaults_are_filled_in():
    case = parse(Case, GOOD, "good.yaml")
    assert case.solve.density_kg_m3 == 1060
    assert '"flow_ml_s": 2.0' in case.settings("solve")


MISTAKES = [
    ("segmnt", 1, ["segmnt", "unknown key", "did you mean segment?"]),
    ("solve/inlets/*/flow_l_min", 0.2, ["solve.inlets.*.flow_l_min", "0.2", "did you mean flow_ml_s?"]),
    ("solve/viscosity_pa_s", "3.5 mPa s", ["solve.viscosity_pa_s", "'3.5 mPa s'", "a plain number in Pa s"]),
    ("solve/viscosity_pa_s", -1, ["solve.viscosity_pa_s", "-1", "greater than 0"]),
    ("solve/density_kg_m3", float("nan"), ["solve.density_kg_m3", "nan"]),
    ("solve/collision", "mrt", ["solve.collision", "'mrt'", "'trt'"]),
    ("solve/inlets/left", {"flow_ml_s": 1}, ["solve.inlets.left", "no inlet of this name", "in"]),
    ("solve/inlets/*/waveform", "no.csv", ["waveform", "'no.csv'", "no such file"]),
    ("solve/inlets/*", {}, ["solve.inlets.*", "flow_ml_s", "waveform"]),
    ("segment/upper", 100, ["lower 180", "upper 100"]),
    ("segment/seeds_file", "no.mrk.json", ["segment.seeds_file", "'no.mrk.json'", "no such file"]),
    ("segment/method", "magic", ["segment.method", "'magic'", "'level-set'"]),
    ("segment/cut_planes", [{"point_mm": [0, 0, 0], "normal": [0, 0, 0]}], ["segment.cut_planes.0", "direction"]),
    ("input", {"dicom": []}, ["input.dicom", "empty list"]),
    ("input", {"surface": "Snakefile"}, ["input", "surface_unit is missing", "mm"]),
    ("input", {"volume": "Snakefile", "mask_segment": 2}, ["input", "mask_segment", "mask", "volume"]),
    ("filter/region_grown", {"reach_mm": 0}, ["filter.region_grown.reach_mm", "greater than 0"]),
    ("input/dicom", "somewhere", ["input.dicom", "'somewhere'", "no such file"]),
    ("input/volume", "Snakefile", ["input", "dicom, volume, mask, surface, phantom", "exactly one"]),
    ("input/dicom", "${HEMO_NOT_SET}/a", ["input.dicom", "HEMO_NOT_SET", "not set"]),
    ("voxelize", {"spacing_mm": 0.1, "nodes_across": 20}, ["voxelize", "spacing_mm and nodes_across"]),
    ("filter", {"region_mm": {"low_mm": [0, 0, 0], "high_mm": [1, 1, -1]}}, ["filter.region_mm", "low_mm", "below"]),
    ("surface/openings", GOOD["surface"]["openings"] * 2, ["surface", "in", "more than once"]),
]


@pytest.mark.parametrize(("path", "value", "said"), MISTAKES, ids=[f"{m[0]}={m[1]}"[:40] for m in MISTAKES])
def test_a_mistake_ends_with_one_line_that_names_key_value_and_remedy(path, value, said, monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(StageError) as caught:
        parse(Case, changed(path, value), "patient.yaml")
    message = str(caught.value)
    assert "\n" not in message
    for part in ["patient.yaml", *said]:
        assert part in message


def test_mistakes_of_all_cases_are_reported_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "config" / "cases"
    folder.mkdir(parents=True)
    (folder / "a.yaml").write_text(yaml.safe_dump(changed("segment/lower", "x")))
    (folder / "b.yaml").write_text("input: [")
    with pytest.raises(StageError) as caught:
        read_cohort({"cases": "a,b,c"})
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert "a.yaml: segment.lower = 'x'" in lines[0]
    assert "b.yaml, line 1" in lines[1]
    assert "'c'" in lines[2]


def test_cohort_defaults_lie_under_the_case(tmp_path):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(GOOD))
    defaults = {"solve": {"viscosity_pa_s": 0.004, "inlets": {"*": {"flow_ml_s": 9}}}}
    case = read_cohort({"cases": ["a"], "defaults": defaults}, tmp_path)["a"]
    assert case.solve.viscosity_pa_s == 0.004
    assert case.solve.inlets["*"].flow_ml_s == 2


def test_the_grown_region_takes_seeds_and_threshold_from_the_segmentation_unless_it_has_its_own():
    region = json.loads(parse(Case, GOOD | {"filter": {"region_grown": {}}}, "a").settings("filter"))["region_grown"]
    assert region["seeds_mm"] == [[1, 2, 3]]
    assert region["lower"] == 180
    own = {"region_grown": {"seeds_voxel": [[7, 8, 9]], "lower": 90}}
    region = json.loads(parse(Case, GOOD | {"filter": own}, "a").settings("filter"))["region_grown"]
    assert region["seeds_mm"] == []
    assert region["seeds_voxel"] == [[7, 8, 9]]
    assert region["lower"] == 90


def test_markups_files_are_inputs_of_the_stages_that_read_them(tmp_path):
    marks = tmp_path / "points.mrk.json"
    marks.touch()
    values = GOOD | {"segment": {"seeds_file": str(marks), "background_file": str(marks)}}
    assert parse(Case, values, "a").point_files("segment") == [str(marks)] * 2
    assert parse(Case, values, "a").point_files("filter") == []
    grown = parse(Case, values | {"filter": {"region_grown": {}}}, "a")
    assert grown.point_files("filter") == [str(marks)]


@pytest.mark.parametrize("name", ["../etc", "-rf", "a b", "a/b", "a;b", "", "x" * 65])
def test_unsafe_case_names_are_refused(name):
    with pytest.raises(StageError, match="cases"):
        read_cohort({"cases": [name]})


@settings(max_examples=40, deadline=None)  # the first example pays for building the schema
@given(
    st.sampled_from(sorted(Case.model_fields)),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=6,
    ),
)
def test_any_value_of_a_section_is_parsed_or_refused_in_words(section, value):
    try:
        case = parse(Case, GOOD | {section: value}, "patient.yaml")
    except StageError as error:
        assert str(error).startswith("patient.yaml: ")
    else:
        assert case.settings("solve").startswith("{")


@pytest.mark.parametrize("file", sorted((ROOT / "config/cases").glob("*.yaml")), ids=lambda file: file.stem)
def test_shipped_cases_are_valid(file, monkeypatch, request):
    monkeypatch.chdir(ROOT)
    if "HEMO_CASES" in file.read_text():
        head = request.getfixturevalue("real_cases") / "head-arteries-mr/dicom"
        monkeypatch.setenv("HEMO_CASES", str(head.parents[1]))
    case = read_cohort({"cases": [file.stem]})[file.stem]
    assert case.input.geometry or case.input.network or case.segment.lower > 0


def test_demo_case_names_every_key():
    """The demo's file is the commented list of all settings; of those that exclude each other, in a comment. New ones
    that it does not show stand at its end.
    """
    text = (ROOT / "config/cases/demo.yaml").read_text()
    properties = [key for model in json.loads(schema())["$defs"].values() for key in model.get("properties", {})]
    assert [key for key in properties if key not in text] == [], "run `make schema`"
    assert with_further_keys(text, json.loads(schema())) == text, "run `make schema`"
    shortened = text.replace("leak_growth", "").replace("most_cycles", "")
    listed = with_further_keys(shortened, json.loads(schema()))
    assert listed == shortened + f"{FURTHER}most_cycles, leak_growth\n"
    assert yaml.safe_load(f"{text}{FURTHER}a, b\n") == yaml.safe_load(text)
    assert with_further_keys(listed, json.loads(schema())) == listed
