# SPDX-License-Identifier: Apache-2.0
"""A case of a vessel that sits in a network: what it may say, and what its stages are given."""

import json

import pytest

from pipeline.case.case_file import Case
from pipeline.case.settings.base import parse
from pipeline.stages.crate import case_again
from pipeline.workflow.sharing import owners
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT

PIPE = {"shape": "pipe", "diameter_mm": 4, "length_mm": 20, "direction": [1, 0, 0], "ends": "openings"}
IN_CAROTID = {
    "network": "adan56",
    "replaces": "common_carotid_R",
    "inlets": {"inlet": "proximal"},
    "outlets": {"outlet": "distal"},
}


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


def case(**given) -> Case:
    return parse(Case, {"input": {"geometry": PIPE}, "coupling": IN_CAROTID} | given, "a.yaml")


def of(**changes):
    return {"coupling": IN_CAROTID | changes}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"solve": {"inlets": {"inlet": {"flow_ml_s": 1}}}}, "solve.inlets: given, and the vessel sits in a network"),
        (
            {"solve": {"outlets": {"outlet": {"pressure_mmhg": 9}}}},
            "solve.outlets: given, and the vessel sits in a net",
        ),
        ({"tree": {}}, "tree: is of a network alone"),
        (of(network="adan57"), "coupling.network = 'adan57': no network of this name is shipped; did you mean adan56?"),
        (of(replaces=None), "replaces: missing; inlet is proximal of it"),
        (of(outlets={"outlet": "proximal"}), "wants two openings, one proximal and one distal"),
        (of(outlets={"outlet": "distal", "more": "distal"}), "wants two openings, one proximal and one distal"),
        (of(outlets={"inlet": "distal"}), "outlets.inlet: is an inlet, too"),
        (
            of(outlets={"out": "distal"}),
            r"coupling.outlets: out is not both here and among the outlets of the vessel (",
        ),
        (of(at=1), "coupling.at = 1: input should be less than 1"),
        (
            of(replaces=None, inlets={"inlet": {"segment": "a", "from_start_mm": 1, "from_end_mm": 1}}),
            "from_start_mm and from_end_mm: both given",
        ),
        (of(inlets={}), "coupling.inlets = {}: "),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(given, said):
    with pytest.raises(StageError) as error:
        case(**given)
    (line,) = str(error.value).splitlines()
    assert line.startswith("a.yaml: ")
    assert said in line


def test_vessel_needs_no_section_solve_then():
    assert case().solve.inlets == {}
    assert case(solve={"snapshots": 9}).solve.snapshots == 9


def test_stages_are_given_what_the_network_has_at_the_openings():
    own = case().in_folder("results/a")
    for stage in ("solve", "plausibility"):
        values = json.loads(own.settings(stage))
        assert values["inlets"]["inlet"]["waveform"] == "results/a/caps/inlet.csv"
        assert values["outlets"]["outlet"]["waveform"] == "results/a/caps/outlet.csv"
        assert [*values["outlets"]] == ["outlet"]
    assert own.waveform_files("solve") == ["results/a/caps/inlet.csv", "results/a/caps/outlet.csv"]
    plain = parse(Case, {"input": {"geometry": PIPE}, "solve": {"inlets": {"inlet": {"flow_ml_s": 1}}}}, "b.yaml")
    assert plain.in_folder("results/b") is plain


def test_network_has_the_blood_of_the_vessel():
    values = json.loads(case(solve={"density_kg_m3": 1040, "viscosity_pa_s": 0.004}).settings("couple"))
    assert values["blood"] == {"density_kg_m3": 1040, "viscosity_pa_s": 0.004}
    assert values["network"] == "data/networks/adan56.yaml"


def test_crate_holds_the_case_as_it_was_written():
    again = parse(Case, case_again(json.loads(case().settings("crate")), []), "again")
    assert again == case()


def test_scenarios_with_other_networks_do_not_share_a_lattice_whose_spacing_follows_from_the_flow():
    """The surface is the same, what the network has at the openings is not."""
    runs = {
        "a@one": case(voxelize={"nodes_across": None}),
        "a@two": case(voxelize={"nodes_across": None}, **of(edits=[{"stiffen": "*", "factor": 2}])),
    }
    found = owners({name: each.in_folder(f"results/{name}") for name, each in runs.items()})
    assert found["canonical", "a@two"] == "a@one"
    assert found["voxelize", "a@two"] == "a@two"
