# SPDX-License-Identifier: Apache-2.0
"""Stage couple: a network around a vessel from files to a file, what it says of it, and refusals."""

import json
import re

import numpy as np
import pytest

from pipeline.files.mesh import write_openings
from pipeline.stages.couple import lengths_mm
from solver.boundary.waveform import read_samples
from solver.coupling.around import read_around
from solver.domain.nodes import Opening
from solver.runtime.sources import ROOT
from tests.support.command_lines import run_here

BLOOD = {"density_kg_m3": 1050.0, "viscosity_pa_s": 3.5e-3}
FORK = {
    "network": "data/networks/adan56.yaml",
    "inlets": {"inlet": "common_carotid_R"},
    "outlets": {"large": "internal_carotid_R", "small": "external_carotid_R"},
    "spacing_mm": 8,
    "samples": 100,
    "tolerance": 0.01,
    "blood": BLOOD,
}
BRANCHES = [
    {"branch": 1, "from": "inlet", "to": "bifurcation_1", "length_mm": 25.0},
    {"branch": 2, "from": "bifurcation_1", "to": "large", "length_mm": 14.0},
    {"branch": 3, "from": "bifurcation_1", "to": "small", "length_mm": 12.0},
    {"branch": 4, "from": "bifurcation_1", "to": "end_1", "length_mm": 3.0},
]


def opening(number: int, name: str, role: str, radius_mm: float, centre_mm=(0.0, 0.0, 0.0)) -> Opening:
    return Opening(number, name, role, centre_mm, (0.0, 0.0, 1.0), np.pi * radius_mm**2, radius_mm)


OPENINGS = (
    opening(1, "inlet", "inlet", 4.0),
    opening(2, "large", "outlet", 2.8, (0.0, 3.0, 4.0)),
    opening(3, "small", "outlet", 1.2, (0.0, 0.0, 12.0)),
)


def couple(folder, settings, openings=OPENINGS, branches=BRANCHES):
    write_openings(openings, folder / "openings.json")
    (folder / "centreline.json").write_text(json.dumps({"branches": branches}))
    files = {
        "network": ROOT / settings["network"],
        "openings": folder / "openings.json",
        "centreline": folder / "centreline.json",
        "coupling": folder / "coupling.h5",
        "caps": folder / "caps",
        "summary": folder / "coupling.json",
        "provenance": folder / "couple.provenance.json",
    }
    options = [each for role, path in files.items() for each in (f"--{role}", str(path))]
    return run_here("pipeline.stages.couple", *options, "--settings", json.dumps(settings))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("couple")
    answer = couple(folder, FORK)
    assert answer.returncode == 0, answer.stderr
    return folder


def test_summary_says_where_the_openings_are_and_how_wide(made):
    found = json.loads((made / "coupling.json").read_text())
    assert found["network"] == "adan56"
    assert found["segments"] == 77
    assert found["replaced_mm"] == pytest.approx(51)
    caps = found["caps"]
    assert {name: cap["segment"] for name, cap in caps.items()} == FORK["inlets"] | FORK["outlets"]
    assert caps["inlet"]["from_start_mm"] == pytest.approx(81.2193581 - 25)
    assert caps["large"]["from_start_mm"] == pytest.approx(14)
    assert caps["small"]["from_start_mm"] == pytest.approx(12)
    for cap, radius in zip(caps.values(), (4.0, 2.8, 1.2), strict=True):
        assert cap["vessel_radius_mm"] == pytest.approx(radius)
        assert cap["radius_difference"] == pytest.approx(radius / cap["network_radius_mm"] - 1)
    assert caps["large"]["network_radius_mm"] == pytest.approx(2.76538, rel=0.1)  # wider under pressure


def test_flow_is_conserved_and_files_of_openings_are_waveforms(made):
    caps = json.loads((made / "coupling.json").read_text())["caps"]
    assert caps["inlet"]["flow_ml_s"] == pytest.approx(
        caps["large"]["flow_ml_s"] + caps["small"]["flow_ml_s"], rel=1e-3
    )
    around = read_around(made / "coupling.h5")
    for cap in around.caps:
        for column, curve, unit in (("flow_ml_s", cap.flow_m3_s, 1e-6), ("pressure_mmhg", cap.pressure_pa, 133.322)):
            time, values = read_samples(made / "caps" / f"{cap.opening}.csv", column)
            assert time[-1] == around.network.period_s
            np.testing.assert_allclose(values * unit, curve.at(time), rtol=1e-5, atol=1e-12)


def test_network_has_the_blood_of_the_vessel_and_none_of_the_piece(made):
    around = read_around(made / "coupling.h5")
    assert around.network.blood.density_kg_m3 == BLOOD["density_kg_m3"]
    assert around.network.blood.viscosity_pa_s == BLOOD["viscosity_pa_s"]
    names = {segment.name for segment in around.network.segments}
    assert {"common_carotid_R.1", "internal_carotid_R.2", "external_carotid_R.2"} <= names
    assert not {"common_carotid_R", "common_carotid_R.2", "internal_carotid_R.1", "external_carotid_R.1"} & names


def test_ways_go_along_branches_or_straight_where_there_are_none():
    along = lengths_mm(OPENINGS, BRANCHES)
    assert along == {
        frozenset(("inlet", "large")): 39,
        frozenset(("inlet", "small")): 37,
        frozenset(("large", "small")): 26,
    }
    assert lengths_mm(OPENINGS, [])[frozenset(("inlet", "large"))] == pytest.approx(5)


@pytest.mark.parametrize(
    ("settings", "openings", "message"),
    [
        (
            FORK,
            OPENINGS[:2],
            r"coupling\.outlets: small is not both here and among the outlets of the vessel \(large\)",
        ),
        (
            FORK | {"inlets": {"inlet": "common_carotid"}},
            OPENINGS,
            "the network has no segment 'common_carotid' after its edits",
        ),
        (
            FORK
            | {"inlets": {"inlet": "internal_carotid_R"}, "outlets": FORK["outlets"] | {"large": "common_carotid_R"}},
            OPENINGS,
            r"coupling\.inlets\.inlet: on average -\S+ mL/s of the network pass internal_carotid_R there",
        ),
    ],
    ids=["openings", "segment", "direction"],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing(settings, openings, message, tmp_path):
    answer = couple(tmp_path, settings, openings)
    assert answer.returncode == 1
    (line,) = [line for line in answer.stderr.splitlines() if "error:" in line]
    assert re.search(message, line), line
    assert not (tmp_path / "coupling.h5").exists()
    assert not (tmp_path / "caps").exists()
