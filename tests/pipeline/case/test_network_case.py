# SPDX-License-Identifier: Apache-2.0
"""A case that is a network alone: what it has, what it cannot have, and how it is handed on."""

import json

import pytest
import yaml

from pipeline.case.case_file import Case, read_cohort
from pipeline.case.settings.base import parse
from pipeline.stages.crate import case_again
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


def case(**given):
    return parse(Case, {"input": {"network": "adan56"}} | given, "a.yaml")


def refused(**given):
    with pytest.raises(StageError) as error:
        case(**given)
    (line,) = str(error.value).splitlines()
    return line


def test_a_name_is_that_of_a_shipped_network_and_a_path_one_of_the_user(tmp_path):
    assert case().input.network == "data/networks/adan56.yaml"
    mine = tmp_path / "mine.yaml"
    mine.write_text("{}")
    assert case(input={"network": str(mine)}).input.network == str(mine)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"input": {"network": "adan57"}}, "did you mean adan56?"),
        ({"input": {"network": "body"}}, "give one of adan56, common-carotid"),
        ({"input": {"network": "body.yaml"}}, "no such file"),
        ({"input": {"network": "adan56", "mask": "README.md"}}, "give exactly one"),
        ({"solve": {}, "voxelize": {}}, "voxelize, solve: of a vessel in three dimensions"),
        ({"accept": ["viscosity"]}, "accept: of a vessel in three dimensions"),
        ({"tree": {"most_cycles": 1}}, "tree.most_cycles = 1: input should be greater than or equal to 2"),
        ({"tree": {"edit": []}}, "tree.edit: unknown key (value []); did you mean edits?"),
        (
            {"input": {"geometry": {"shape": "cavity", "length_mm": 1, "height_mm": 1}}, "solve": {}, "tree": {}},
            "tree: is of a network alone",
        ),
        ({"input": {"phantom": "data/phantoms/tiny.yaml"}}, "solve: missing; give it, it has no default"),
    ],
)
def test_what_a_network_cannot_have_is_refused_in_one_line(given, said):
    line = refused(**given)
    assert line.startswith("a.yaml: ")
    assert said in line


def test_defaults_of_all_cases_leave_out_what_is_not_of_its_kind(tmp_path):
    """A cohort may have vessels and networks."""
    (tmp_path / "net.yaml").write_text(yaml.safe_dump({"input": {"network": "common-carotid"}}))
    (tmp_path / "tiny.yaml").write_text((ROOT / "config/cases/tiny.yaml").read_text())
    defaults = {"solve": {"density_kg_m3": 1050}, "tree": {"spacing_mm": 7}}
    found = read_cohort({"cases": ["net", "tiny"], "defaults": defaults}, tmp_path)
    assert found["net"].tree.spacing_mm == 7
    assert found["tiny"].solve.density_kg_m3 == 1050


def test_the_crates_case_is_the_case_again():
    given = case(tree={"spacing_mm": 3, "edits": [{"stiffen": "aorta", "factor": 2}]}, description="stiff")
    again = case_again(json.loads(given.settings("crate")), [])
    assert again["input"]["network"].startswith("sha256:")
    assert {*again} == {"description", "input", "tree", "report"}
    assert parse(Case, again, "again") == given
