# SPDX-License-Identifier: Apache-2.0
"""Cases as a table: every mistake is told with its row, column, value and remedy before anything runs."""

import json

import pytest
import yaml

from pipeline.case.beside import SECTIONS
from pipeline.case.case_file import Case, read_cohort
from pipeline.case.cohort_table import read_table
from pipeline.case.settings.base import dotted_keys
from pipeline.case.stages import ENTERED, SHARED
from pipeline.workflow.sharing import owners
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT

PHANTOM = str(ROOT / "data/phantoms/tiny.yaml")
BASE = {
    "input": {"phantom": PHANTOM},
    "segment": {"seeds_mm": [[1, 2, 3]], "lower": 180},
    "voxelize": {"nodes_across": 8},
    "surface": {"openings": [{"name": "in", "role": "inlet", "near_mm": [0, 0, 0]}]},
    "solve": {"inlets": {"in": {"flow_ml_s": 2}}},
}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write the table; the folder has a case file `base`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config/cases").mkdir(parents=True)
    (tmp_path / "config/cases/base.yaml").write_text(yaml.safe_dump(BASE))

    def table(text: str, encoding: str = "utf-8") -> dict:
        (tmp_path / "config/cohort.csv").write_bytes(text.encode(encoding))
        return {"cohort": "config/cohort.csv"}

    return table


def test_cells_go_over_the_case_file_and_empty_ones_leave_it_as_it_is(write):
    config = write(
        "case,file,segment.lower,solve.inlets.in.flow_ml_s,segment.seeds_mm,report.title,solve.peak_speed_m_s\n"
        "p1,base,200,3.5,\"[[4, 5, 6], [7, 8, 9]]\",'2: right',\n"
        "p2,base,,,,,1e-1\n"
        ",,,,,,\n"
    )
    cases = read_cohort(config)
    assert list(cases) == ["p1", "p2"]
    first, second = cases.values()
    assert (first.segment.lower, second.segment.lower) == (200, 180)
    assert (first.solve.inlets["in"].flow_ml_s, second.solve.inlets["in"].flow_ml_s) == (3.5, 2)
    assert first.segment.seeds_mm == ((4, 5, 6), (7, 8, 9))
    assert first.report.title == "2: right"
    assert (first.solve.peak_speed_m_s, second.solve.peak_speed_m_s) == (None, 0.1)
    assert second.input.phantom == PHANTOM


@pytest.mark.parametrize("word", ["no", "on", "1:30", "2026-02-30", "0x1F", "1_000"])
def test_words_are_the_same_in_a_cell_as_in_a_case_file(write, tmp_path, word):
    (tmp_path / "config/cases/titled.yaml").write_text(yaml.safe_dump(BASE) + f"report: {{title: {word}}}\n")
    cases = read_cohort(write(f"case,file,report.title\np1,base,{word}\np2,titled,\n"))
    assert [case.report.title for case in cases.values()] == [word, word]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_tables_of_any_spreadsheet_are_read(write, separator, encoding):
    rows = ["case,file,segment.lower", "p1,base, 190 ", ""]
    config = write("\r\n".join(rows).replace(",", separator), encoding)
    assert read_cohort(config)["p1"].segment.lower == 190


def test_scenarios_go_over_the_row_and_every_case_runs_in_each(write):
    config = write("case,file,solve.viscosity_pa_s\np1,base,0.004\np2,base,\n")
    low = {"solve": {"inlets": {"in": {"flow_ml_s": 1}}, "viscosity_pa_s": 0.003}}
    config |= {"scenarios": {"rest": None, "low": low}, "defaults": {"solve": {"viscosity_pa_s": 0.0045}}}
    cases = read_cohort(config)
    assert list(cases) == ["p1@rest", "p1@low", "p2@rest", "p2@low"]
    viscosities = [case.solve.viscosity_pa_s for case in cases.values()]
    assert viscosities == [0.004, 0.003, 0.0045, 0.003]
    assert [case.solve.inlets["in"].flow_ml_s for case in cases.values()] == [2, 1, 2, 1]


def test_rows_and_files_are_chosen_by_name(write, caplog):
    config = write("case,file,segment.lower\np1,base,190\np2,base,\n")
    assert list(read_cohort(config | {"cases": "p2,base"})) == ["p2", "base"]
    assert list(read_cohort(config | {"cases": ["base"]})) == ["base"]
    assert "leave the key cases out to run all 2 rows" in caplog.text


HEAD = "case,file,segment.lower\n"
MISTAKES = {
    "twice": (HEAD + "p1,base,\nP1,base,\n", ["row 3, column case = 'P1'", "also in row 2", "names must differ"]),
    "unsafe": (HEAD + "../p,base,\n", ["row 2, column case = '../p'", "not safe", "letters"]),
    "at": (HEAD + "p@rest,base,\n", ["row 2, column case = 'p@rest'", "not safe"]),
    "no name": (HEAD + ",base,3\n", ["row 2, column case = ''", "missing"]),
    "no file": (HEAD + "p1,bass,\n", ["row 2 (p1), column file: 'bass'", "did you mean base?"]),
    "key": ("case,file,segment.lowr\np1,base,1\n", ["row 1, column 'segment.lowr'", "did you mean segment.lower?"]),
    "short key": ("case,file,density_kg_m3\np1,base,1\n", ["did you mean solve.density_kg_m3?"]),
    "opening": ("case,file,solve.inlet.in.flow_ml_s\np1,base,1\n", ["did you mean solve.inlets.in.flow_ml_s?"]),
    "section": ("case,file,solve.inlets\np1,base,1\n", ["'solve.inlets'", "a section", "solve.inlets.*.flow_ml_s"]),
    "list": ("case,file,surface.openings\np1,base,1\n", ["surface.openings", "a list of sections", "in the case file"]),
    "heading": ("case,file,\np1,base,1\n", ["row 1, column ''", "without a heading"]),
    "same heading": ("case,file,case\np1,base,p2\n", ["row 1, column 'case'", "more than once"]),
    "no column": ("name,file\np1,base\n", ["row 1: no column case"]),
    "type": (HEAD + "p0,base,\np1,base,high\n", ["row 3 (p1), column segment.lower = 'high'", "valid number"]),
    "unit": (
        "case,file,solve.viscosity_pa_s\np1,base,'3,5'\np2,base,4 mPa s\n".replace("'", '"'),
        ["row 2 (p1), column solve.viscosity_pa_s = '3,5'", "row 3 (p2)", "plain number in Pa s"],
    ),
    "together": ("case,file,segment.upper\np1,base,90\n", ["base.yaml with ", "row 2 (p1)", "segment", "upper 90"]),
    "input": ("case,file,input.volume\np1,base,config\n", ["row 2 (p1)", "exactly one"]),
    "path": ("case,file,input.volume\np1,base,no.nii\n", ["(p1), column input.volume = 'no.nii'", "no such file"]),
    "mapping": (HEAD + "p1,base,a: b\n", ["row 2, column segment.lower = 'a: b'", "single quotes"]),
    "yaml": (HEAD + 'p1,base,"[1"\n', ["row 2, column segment.lower = '[1'", "not readable as YAML"]),
    "tag": (HEAD + "p1,base,!!int 3\n", ["row 2, column segment.lower = '!!int 3'", "is not followed"]),
    "long": (HEAD + "p1,base,1,2\n", ["row 2: 4 cells below 3 headings", "quotes"]),
    "empty": ("", ["is empty"]),
    "none": (HEAD, ["holds no case"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_table_names_row_column_value_and_remedy(write, name):
    text, said = MISTAKES[name]
    with pytest.raises(StageError) as caught:
        read_cohort(write(text))
    for part in ["config/cohort.csv", *said]:
        assert part in str(caught.value)


def test_what_is_no_text_is_refused(write):
    with pytest.raises(StageError, match="CSV UTF-8"):
        read_cohort(write("case,file\np1é,base\n", "latin-1"))


def test_all_mistakes_are_reported_at_once_and_those_of_the_file_or_the_scenario_only_once(write, tmp_path):
    config = write("case,file,segment.lower\np1,base,x\np2,base,\np3,base,y\n")
    wrong = BASE | {"decompose": {"part": 2}}
    (tmp_path / "config/cases/base.yaml").write_text(yaml.safe_dump(wrong))
    config["scenarios"] = {"rest": {}, "thin": {"solve": {"viscosity_pas": 0.003}}}
    with pytest.raises(StageError) as caught:
        read_cohort(config)
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    assert sum("column segment.lower" in line for line in lines) == 2
    assert sum(line.startswith("config/cases/base.yaml: decompose.part: unknown key") for line in lines) == 1
    (scenario,) = [line for line in lines if line.startswith("config/config.yaml: scenarios.thin.solve.")]
    assert "did you mean viscosity_pa_s?" in scenario


@pytest.mark.parametrize("scenarios", [{"a b": {}}, {"a@b": {}}, ["rest"], {"rest": 3}, "rest"])
def test_scenarios_that_are_none_are_refused(write, scenarios):
    with pytest.raises(StageError, match=r"config/config\.yaml: scenarios"):
        read_cohort(write("case,file\np1,base\n") | {"scenarios": scenarios})


def test_neither_cases_nor_a_table_is_a_mistake():
    with pytest.raises(StageError, match="neither cases nor cohort"):
        read_cohort({})


def test_every_key_of_one_value_may_be_a_heading():
    keys = dotted_keys(Case)
    assert {"input.dicom", "filter.region_grown.lower", "solve.outlets.*.windkessel.elements"} <= {*keys}
    lists = {key for key in keys if key.startswith(("surface.openings", "segment.cut_planes", "postprocess.sacs"))}
    assert lists == {"surface.openings[]", "segment.cut_planes[]", "postprocess.sacs[]"}
    assert all(key.count(".") for key in keys if key not in ("description", "vessel", "accept"))


def test_a_heading_with_a_star_stands_for_all_openings(write, tmp_path):
    star = BASE | {"surface": {}, "solve": {"inlets": {"*": {"flow_ml_s": 2}}}}
    (tmp_path / "config/cases/base.yaml").write_text(yaml.safe_dump(star))
    assert read_cohort(write("case,file,solve.inlets.*.flow_ml_s\np1,base,5\n"))["p1"].solve.inlets["*"].flow_ml_s == 5


def test_the_row_is_counted_as_a_spreadsheet_does(write):
    write('case,file,description\np1,base,"of two\nlines"\np2,base,\n')
    rows = read_table(ROOT.joinpath("config/cohort.csv").relative_to(ROOT), dotted_keys(Case))
    assert rows["p2"].place == "config/cohort.csv, row 3 (p2)"


def runs(write, **scenarios):
    return read_cohort(write("case,file\np1,base\np2,base\n") | {"scenarios": scenarios})


def test_scenarios_share_what_does_not_depend_on_what_they_change(write):
    flow = {"solve": {"inlets": {"in": {"flow_ml_s": 1}}}}
    found = owners(
        runs(write, rest={}, flow=flow, low={"segment": {"lower": 150}}, fine={"voxelize": {"nodes_across": 9}})
    )
    of_p2 = {
        scenario: [stage for stage in SHARED if found.get((stage, f"p2@{scenario}")) == "p2@rest"]
        for scenario in ("rest", "flow", "low", "fine")
    }
    chain = [*ENTERED["phantom"]]
    before_mask, before_lattice = (chain[: chain.index(stage)] for stage in ("segment", "voxelize"))
    assert of_p2 == {"rest": chain, "flow": chain, "low": before_mask, "fine": before_lattice}
    assert {"load", "filter"} <= {*before_mask}
    assert {"segment", "surface", "centreline"} <= {*before_lattice}
    assert {run: owner for (stage, run), owner in found.items() if stage == "segment"} == {
        f"p{k}@{scenario}": f"p{k}@{'low' if scenario == 'low' else 'rest'}"
        for k in (1, 2)
        for scenario in ("rest", "flow", "low", "fine")
    }


def test_a_spacing_that_follows_from_the_flow_is_not_shared(write):
    """Without spacing_mm and nodes_across the lattice depends on the flow."""
    flow = {"solve": {"inlets": {"in": {"flow_ml_s": 1}}}}
    chosen = {"voxelize": {"nodes_across": None}}
    found = owners(runs(write, rest=chosen, flow=flow | chosen))
    assert found["centreline", "p1@flow"] == "p1@rest"
    assert found["voxelize", "p1@flow"] == found["decompose", "p1@flow"] == "p1@flow"


def test_coarser_lattices_are_shared_only_if_both_have_them(write):
    found = owners(runs(write, rest={}, grid={"convergence": {"spacings": 3}}))
    assert found["centreline", "p1@grid"] == "p1@rest"
    assert found["voxelize", "p1@grid"] == "p1@grid"


def test_runs_beside_are_shared_by_scenarios_with_the_same_lattice_flow_and_bands(write):
    more = {"uncertainty": "quick"}
    scenarios = {
        "rest": more,
        "carried": more | {"transport": {}, "convergence": {"spacings": 2}, "trace": {"particles": 100}},
        "fast": more | {"solve": {"inlets": {"in": {"flow_ml_s": 1}}}},
        "low": more | {"segment": {"lower": 150}},
        "full": {"uncertainty": "full"},
        "more": {"uncertainty": "full", "reduced": {"flows": [0.5, 2]}},
    }
    found = owners(runs(write, **scenarios))
    of = {kind: {name: found[kind, f"p1@{name}"].partition("@")[2] for name in scenarios} for kind in SECTIONS}
    own = {"fast": "fast", "low": "low"}
    assert of["member"] == {"rest": "rest", "carried": "rest", "full": "full", "more": "full"} | own
    assert of["other_flow"] == dict.fromkeys(("rest", "carried", "full"), "rest") | {"more": "more"} | own


def test_settings_are_those_of_the_run(write):
    case = runs(write, rest={}, low={"segment": {"lower": 150}})["p2@low"]
    assert json.loads(case.settings("segment"))["lower"] == 150
