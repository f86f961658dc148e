# SPDX-License-Identifier: Apache-2.0
"""Files of openBF and decks of svOneDSolver become the networks that they mean, or are refused with the line."""

import subprocess
import sys
from math import exp, pi, sqrt
from pathlib import Path

import pytest

from pipeline.network.checks import mistakes
from pipeline.network.convert import convert
from pipeline.network.for_solver import for_solver
from pipeline.network.network_file import read_network
from pipeline.network.reading import sound_network
from solver.network import arterial_walls as si_walls
from solver.network import network_ends
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.support.reference_networks import reference_network

MMHG = 133.322387415
OPENBF = """project_name: made_up
inlet_file: made_up.dat
blood: {rho: 1050.0, mu: 4.0e-3}
network:
  - {label: trunk, sn: 1, tn: 2, L: 0.1, E: 400.0e3, Rp: 5.0e-3, Rd: 4.0e-3, Pext: 1.0e4}
  - {label: left, sn: 2, tn: 3, L: 0.05, E: 400.0e3, R0: 3.0e-3, h0: 0.5e-3, Pext: 1.0e4, R1: 1.0e9, Cc: 1.0e-10}
  - {label: right, sn: 2, tn: 4, L: 0.05, E: 400.0e3, R0: 3.0e-3, Pext: 1.0e4, R1: 1.0e8, R2: 9.0e8, Cc: 1.0e-10}
"""
DECK = """MODEL made_up_
NODE 0 0.0 0.0 0.0
NODE 1 0.0 0.0 10.0
SEGMENT seg0 0 10.0 50 0 1 2.0 1.0 0.0 MAT1 NONE 0.0 0 0 RESISTANCE OUT   # a cone
DATATABLE IN LIST
0.0 100.0
1.0 100.0
ENDDATATABLE
DATATABLE OUT LIST
0.0 100.0
ENDDATATABLE
SOLVEROPTIONS 0.001 1000 1000 2 IN FLOW 1.0e-8 1 1
MATERIAL MAT1 OLUFSEN 1.06 0.04 100000 2.0 2e7 -22.5267 8.65e5
OUTPUT TEXT
"""


def openbf(folder: Path, text: str = OPENBF) -> Path:
    (folder / "made_up.dat").write_text("0.0 1.0e-6\n0.5 3.0e-6\n1.0 1.0e-6\n")
    (folder / "in.yaml").write_text(text)
    return folder / "in.yaml"


def deck(folder: Path, text: str = DECK) -> Path:
    (folder / "tube.in").write_text(text)
    return folder / "tube.in"


def test_openbf_in_si(tmp_path):
    """Each figure to the ten digits that are kept."""
    convert(openbf(tmp_path), tmp_path / "out.yaml")
    network = for_solver(sound_network(tmp_path / "out.yaml"))
    trunk, left, right = network.segments
    assert (trunk.length_m, left.length_m) == pytest.approx((0.1, 0.05), rel=1e-9)
    assert trunk.radius_m == pytest.approx((5e-3, 4e-3), rel=1e-9)
    assert (trunk.wall.thickness_m, left.wall.thickness_m) == (None, pytest.approx(0.5e-3, rel=1e-9))
    assert {each.external_pa for each in network.segments} == {1e4}
    assert network.blood.density_kg_m3 == 1050
    assert network.terminals["n3"] == network_ends.MatchedWindkessel(
        pytest.approx(1e9, rel=1e-9), pytest.approx(1e-10, rel=1e-9)
    )
    assert network.terminals["n4"].proximal_pa_s_m3 == pytest.approx(1e8, rel=1e-9)
    assert network.terminals["n4"].distal_pa_s_m3 == pytest.approx(9e8, rel=1e-9)
    assert network.inlets["n1"].flow_m3_s.extremes == pytest.approx((1e-6, 3e-6), rel=1e-9)
    assert right.wall.young_pa == pytest.approx(400e3)


def test_a_wall_without_thickness_has_that_of_the_law(tmp_path):
    convert(openbf(tmp_path), tmp_path / "out.yaml")
    trunk = for_solver(sound_network(tmp_path / "out.yaml")).segments[0]
    place = si_walls.np.array([0.5])
    beta = trunk.wall.coefficients(place, si_walls.along(trunk.radius_m, place))[0, 0]
    thickness = 4.5e-3 * (0.2802 * exp(-505.3 * 4.5e-3) + 0.1324 * exp(-11.14 * 4.5e-3))
    assert beta == pytest.approx(4 / 3 * 400e3 * thickness / 4.5e-3, rel=1e-9)


def test_untapered_vessels_have_their_proximal_radius_all_along(tmp_path):
    assert convert(openbf(tmp_path), tmp_path / "out.yaml").segments["trunk"].radius_mm == (5, 4)
    assert convert(openbf(tmp_path), tmp_path / "out.yaml", untapered=True).segments["trunk"].radius_mm == 5
    assert read_network(tmp_path / "out.yaml").segments["trunk"].radius_mm == 5


def test_a_matched_impedance_stays_one(tmp_path):
    text = OPENBF.replace("R2: 9.0e8", "R2: 9.0e8, inlet_impedance_matching: true")
    terminal = convert(openbf(tmp_path, text), tmp_path / "out.yaml").terminals["n4"]
    assert terminal.proximal_mmhg_s_ml == "matched"
    assert terminal.total_mmhg_s_ml == pytest.approx(1e9 / MMHG / 1e6, rel=1e-9)


@pytest.mark.parametrize("thickness", ["", ", h0: 0.6e-3"])
@pytest.mark.parametrize("untapered", [False, True])
def test_viscous_walls_have_the_coefficient_of_openbf(tmp_path, thickness, untapered):
    """Gamma = 0.6 + 0.0015/(2 R0) Pa s m, as openBF's source has it: at both ends to the ten digits that are kept, and
    between them within 1 %, where the viscosity of the material goes along a straight line.
    """
    text = OPENBF.replace("Pext: 1.0e4}", f"Pext: 1.0e4, visco-elastic: true{thickness}}}", 1)
    convert(openbf(tmp_path, text), tmp_path / "out.yaml", untapered)
    trunk, left, _ = for_solver(sound_network(tmp_path / "out.yaml")).segments
    assert left.wall.viscous_pa_s_m == 0
    for part, tolerance in ((0.0, 1e-9), (0.5, 1e-2), (1.0, 1e-9)):
        place = si_walls.np.array([part])
        radius = si_walls.along(trunk.radius_m, place)
        assert radius == pytest.approx(5e-3 if untapered else 5e-3 - part * 1e-3, rel=1e-9)
        found = si_walls.along(trunk.wall.viscous_pa_s_m, place)
        assert found == pytest.approx(0.6 + 0.0015 / 2 / radius, rel=tolerance)
    assert trunk.wall.young_pa == pytest.approx(400e3)


def test_walls_that_are_not_to_be_viscous_are_elastic(tmp_path):
    text = OPENBF.replace("Pext: 1.0e4}", "Pext: 1.0e4, visco-elastic: false}", 1)
    assert convert(openbf(tmp_path, text), tmp_path / "out.yaml").segments["trunk"].wall is None


def test_the_pressure_behind_a_windkessel_is_kept(tmp_path):
    text = OPENBF.replace("Cc: 1.0e-10}", "Cc: 1.0e-10, Pout: 2.0e3}")
    convert(openbf(tmp_path, text), tmp_path / "out.yaml")
    terminals = for_solver(sound_network(tmp_path / "out.yaml")).terminals
    assert [terminals[node].back_pa for node in ("n3", "n4")] == pytest.approx([2e3, 2e3], rel=1e-9)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("Rp: 5.0e-3, Rd: 4.0e-3, ", "", "trunk: neither R0 nor Rp is given; give the radius"),
        ("label: right", "label: left", "network: left is the label of more than one vessel"),
        ("L: 0.1", "L: long", "network.0.L = 'long': input should be a valid number"),
        ("sn: 2, tn: 3", "sn: 7, tn: 3", "network: inflow at 2 nodes ([1, 7]); openBF has it at one"),
        ("inlet_file: made_up.dat", "inlet_file: no.dat", "no.dat: no table of time (s) and flow (m3/s)"),
        ("rho: 1050.0, ", "", "blood.density_kg_m3 = None: input should be a valid number"),
        ("Pext: 1.0e4}", "visco-elastic: maybe}", "network.0.visco-elastic = 'maybe': input should be a valid boolean"),
        (
            "Pext: 1.0e4}",
            "phi: 2.0e3}",
            "network.0.phi: a key of openBF 1; openBF 2 has no viscosity of a vessel's own",
        ),
        ("Pext: 1.0e4}", "inlet: P}", "network.0.inlet: a key of openBF 1; openBF 2 takes a flow into node 1; take it"),
        (
            "Pext: 1.0e4}",
            "inlet file: a.dat}",
            "network.0.inlet file: a key of openBF 1; openBF 2 has one for the netw",
        ),
        ("project_name", "project name", "'project name': a file of openBF 1, whose vessels have other defaults"),
        ("network:", "vessels:", "network: no network of openBF"),
    ],
)
def test_what_is_no_file_of_openbf_is_refused(tmp_path, old, new, expected):
    assert old in OPENBF
    with pytest.raises(StageError) as caught:
        convert(openbf(tmp_path, OPENBF.replace(old, new, 1)), tmp_path / "out.yaml")
    assert expected in str(caught.value)
    assert not (tmp_path / "out.yaml").exists()


def test_a_deck_in_si(tmp_path):
    """CGS: dyn/cm2 is 0.1 Pa, dyn s/cm5 is 1e5 Pa s/m3; radii of areas; the ten digits that are kept."""
    convert(deck(tmp_path), tmp_path / "out.yaml")
    network = for_solver(sound_network(tmp_path / "out.yaml"))
    (segment,) = network.segments
    assert segment.radius_m == pytest.approx((sqrt(2 / pi) / 100, sqrt(1 / pi) / 100), rel=1e-9)
    assert segment.length_m == pytest.approx(0.1)
    wall = segment.wall
    assert (wall.k1_pa, wall.k2_per_m, wall.k3_pa) == pytest.approx((2e6, -2252.67, 8.65e4), rel=1e-9)
    assert segment.external_pa == pytest.approx(1e4, rel=1e-9)
    assert network.blood.viscosity_pa_s == pytest.approx(4e-3)
    assert network.terminals["n1"].resistance_pa_s_m3 == pytest.approx(1e7, rel=1e-9)
    assert network.inlets["n0"].flow_m3_s.mean == pytest.approx(1e-4, rel=1e-9)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("OLUFSEN", "LINEAR", "line 13: the material LINEAR is not understood; known is OLUFSEN"),
        ("RESISTANCE OUT", "CORONARY OUT", "line 4: the boundary condition CORONARY is not understood"),
        ("RESISTANCE OUT", "RESISTANCE OUTSIDE", "line 4: names DATATABLE OUTSIDE, which the deck does not have"),
        ("RESISTANCE OUT", "RCR OUT", "line 4: DATATABLE OUT has 1 values, which RCR does not take"),
        ("MAT1 NONE", "MAT1 BRANCH_THROUGH_DIVIDING", "line 4: the loss BRANCH_THROUGH_DIVIDING is not understood"),
        ("MAT1 NONE", "MAT2 NONE", "line 4: names MATERIAL MAT2, which the deck does not have"),
        ("IN FLOW", "IN BCT_FLOW", "line 12: the inlet BCT_FLOW is not understood"),
        ("OUTPUT TEXT", "COUPLING ON DIR 1", "line 14: the card COUPLING is not understood"),
        ("10.0 50 0 1", "ten 50 0 1", "line 4: 'ten' is no number; correct it"),
        ("RESISTANCE OUT ", "RESISTANCE ", "line 4: has 15 words, of which number 16 is wanted"),
        ("SEGMENT", "# SEGMENT", "tube.in: has no card SEGMENT"),
    ],
)
def test_what_a_deck_asks_for_beyond_a_network_is_refused(tmp_path, old, new, expected):
    assert old in DECK
    with pytest.raises(StageError) as caught:
        convert(deck(tmp_path, DECK.replace(old, new, 1)), tmp_path / "out.yaml")
    assert expected in str(caught.value)


@pytest.mark.parametrize("name", ["tube_r", "tube_rcr", "tube_pressure_wave", "tube_stenosis_r", "bifurcation_RCR"])
def test_the_decks_of_svonedsolver_become_sound_networks(name, tmp_path):
    network = convert(reference_network(f"svonedsolver/{name}.in"), tmp_path / "out.yaml")
    assert list(mistakes(network)) == []
    assert (network.accept == ()) == (name == "bifurcation_RCR")  # the tubes are rigid, which is told


def test_resistances_of_the_decks_give_their_expected_pressures(tmp_path):
    """By Poiseuille and the loss of the stenosis of the converted network, at their flow of 100 mL/s: 11005.30965 in
    front of the tube and 10150.68211 in front of the stenosis (dyn/cm2), to 1e-6 as the latter is given.
    """
    for name, expected in (("tube_r", 11005.30965), ("tube_stenosis_r", 10150.68211)):
        convert(reference_network(f"svonedsolver/{name}.in"), tmp_path / f"{name}.yaml")
        network = for_solver(sound_network(tmp_path / f"{name}.yaml"))
        flow = network.inlets["n0"].flow_m3_s.mean
        (terminal,) = network.terminals.values()
        pressure = terminal.resistance_pa_s_m3 * flow
        for each in network.segments:
            if each.stenosis:
                pressure += each.stenosis.linear_pa_s_m3(network.blood, each.length_m) * flow
                pressure += each.stenosis.square_pa_s2_m6(network.blood) * flow**2
            else:
                pressure += 8 * network.blood.viscosity_pa_s * each.length_m / (pi * each.radius_m**4) * flow
        assert pressure * 10 == pytest.approx(expected, rel=1e-6)


def test_the_command_writes_the_network_and_refuses_in_one_line(tmp_path):
    command = [sys.executable, "-m", "pipeline.network.convert"]
    done = subprocess.run(
        [*command, deck(tmp_path), tmp_path / "out.yaml"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert read_network(tmp_path / "out.yaml").segments["seg0"].length_mm == 100
    done = subprocess.run(
        [*command, tmp_path / "no.in", tmp_path / "no.yaml"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "no.in: cannot be read" in done.stderr
    assert len(done.stderr.splitlines()) == 1
