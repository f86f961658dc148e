# SPDX-License-Identifier: Apache-2.0
"""A network keeps its numbers from the file to the solver, and what is none is refused with one line a mistake."""

from math import pi
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings

from pipeline.case.settings.base import parse
from pipeline.case.settings.yaml_file import read_yaml
from pipeline.network.checks import loops, mistakes
from pipeline.network.for_solver import for_solver
from pipeline.network.network_file import Network, read_network
from pipeline.network.reading import sound_network
from pipeline.network.summary import summary
from pipeline.network.walls import wave_speed_m_s
from pipeline.network.writing import network_text, with_common_defaults
from solver.network import arterial_walls, network_ends
from solver.runtime.errors import StageError
from tests.support.random_networks import networks

MMHG = 133.322387415

FORK: dict[str, Any] = {
    "defaults": {"youngs_modulus_kpa": 400, "thickness_mm": 0.5},
    "segments": {
        "trunk": {"nodes": ["heart", "fork"], "length_mm": 100, "radius_mm": [5, 4]},
        "left": {"nodes": ["fork", "l"], "length_mm": 50, "radius_mm": 3},
        "right": {"nodes": ["fork", "r"], "length_mm": 60, "radius_mm": 2.5},
    },
    "inlets": {"heart": {"flow_ml_s": 10}},
    "terminals": {"*": {"type": "resistance", "resistance_mmhg_s_ml": 10}},
}


def changed(**at: Any) -> dict[str, Any]:
    """The fork with other values, by dotted keys with __ for the dots; None takes a key out."""
    sections = yaml.safe_load(yaml.safe_dump(FORK, sort_keys=False))
    for key, value in at.items():
        *path, last = key.replace("star", "*").split("__")
        node = sections
        for part in path:
            node = node.setdefault(part, {})
        if value is None:
            del node[last]
        else:
            node[last] = value
    return sections


def fork(**at: Any) -> Network:
    return parse(Network, changed(**at), "fork")


def refusal(tmp_path, text: str) -> list[str]:
    """Lines in which a file is refused."""
    file = tmp_path / "net.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(StageError) as caught:
        sound_network(file)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(str(file)) for line in lines), lines
    return [line.removeprefix(str(file)) for line in lines]


@settings(max_examples=25, deadline=None)
@given(networks())
def test_a_network_written_and_read_is_the_same(tmp_path_factory, sections):
    network = parse(Network, sections, "drawn")
    file = tmp_path_factory.mktemp("net") / "net.yaml"
    for written in (network, with_common_defaults(network)):
        file.write_text(network_text(written, "a comment"), encoding="utf-8")
        read = read_network(file)
        assert read == written
        assert [read.walled(name) for name in read.segments] == [network.walled(name) for name in network.segments]


@settings(max_examples=25, deadline=None)
@given(networks())
def test_the_solver_gets_each_number_of_the_file_in_si(sections):
    """To round-off, 1e-12, of numbers that are multiplied by a power of ten or by mmHg, and where the wall is one by
    its speed squared.
    """
    network = parse(Network, sections, "drawn")
    assert list(mistakes(network)) == []
    stated = for_solver(network)
    near = pytest.approx
    assert [each.name for each in stated.segments] == list(sections["segments"])
    for segment in stated.segments:
        given = sections["segments"][segment.name]
        assert [segment.start, segment.end] == given["nodes"]
        assert segment.length_m == near(given["length_mm"] / 1000, rel=1e-12)
        np.testing.assert_allclose(segment.radius_m, np.array(given["radius_mm"]) / 1000, rtol=1e-12)
        assert segment.offset_pa == near(given["external_pressure_kpa"] * 1000, rel=1e-12)
        gamma, alpha = given["profile_exponent"], given.get("momentum_correction", 1.0)
        assert segment.profile_exponent == gamma
        assert segment.momentum == near((gamma + 2) / (gamma + 1) if alpha == "profile" else alpha, rel=1e-12)
        require_same_wall(segment.wall, given, stated.blood.density_kg_m3)
    for node, given in sections["terminals"].items():
        require_same_terminal(stated.terminals[node], given)
    assert stated.inlets["n0"].flow_m3_s.mean == near(sections["inlets"]["n0"]["flow_ml_s"] * 1e-6, rel=1e-12)


def require_same_wall(wall: Any, given: dict[str, Any], density: float) -> None:
    near = pytest.approx
    thickness = given.get("thickness_mm")
    if "wave_speed_m_s" in given:
        beta = np.atleast_1d(wall.beta_pa)[[0, -1]]
        np.testing.assert_allclose(beta, 2 * density * np.atleast_1d(given["wave_speed_m_s"])[[0, -1]] ** 2, rtol=1e-12)
    elif given["wall"] == "olufsen":
        k = [given[f"olufsen_{key}"] for key in ("k1_kpa", "k2_1_mm", "k3_kpa")]
        assert (wall.k1_pa, wall.k2_per_m, wall.k3_pa) == near((k[0] * 1e3, k[1] * 1e3, k[2] * 1e3), rel=1e-12)
    else:
        young = wall.elastin_pa if given["wall"] == "elastin-collagen" else wall.young_pa
        assert young == near(given["youngs_modulus_kpa"] * 1e3, rel=1e-12)
        if thickness == "empirical-law":
            assert wall.thickness_m is None
        else:
            np.testing.assert_allclose(wall.thickness_m, np.array(thickness) / 1e3, rtol=1e-12)
    if given["wall"] == "elastin-collagen":
        assert wall.collagen_pa == near(given["collagen_modulus_kpa"] * 1e3, rel=1e-12)
        assert (wall.recruited_at, wall.recruited_over) == (given["collagen_strain"], given["collagen_strain_range"])
    if given["wall"] == "kelvin-voigt" and thickness != "empirical-law":
        gamma = 2 / 3 * np.sqrt(pi) * np.array(given["viscosity_kpa_s"]) * np.array(thickness)  # kPa s times mm
        ends = np.atleast_1d(wall.viscous_pa_s_m)[[0, -1]]
        np.testing.assert_allclose(ends, np.broadcast_to(gamma, 2), rtol=1e-12, atol=0)


def require_same_terminal(found: Any, given: dict[str, Any]) -> None:
    near = pytest.approx
    if given["type"] == "reflection":
        assert found == network_ends.Reflection(given["part"])
        return
    assert found.back_pa == near(given.get("distal_pressure_mmhg", 0) * MMHG, rel=1e-12)
    if given["type"] == "resistance":
        assert found.resistance_pa_s_m3 == near(given["resistance_mmhg_s_ml"] * MMHG * 1e6, rel=1e-12)
        return
    assert found.compliance_m3_pa == near(given["compliance_ml_mmhg"] * 1e-6 / MMHG, rel=1e-12)
    if "total_mmhg_s_ml" in given:
        assert found.total_pa_s_m3 == near(given["total_mmhg_s_ml"] * MMHG * 1e6, rel=1e-12)
    else:
        assert found.distal_pa_s_m3 == near(given["distal_mmhg_s_ml"] * MMHG * 1e6, rel=1e-12)
    if isinstance(given.get("proximal_mmhg_s_ml"), float):
        assert found.proximal_pa_s_m3 == near(given["proximal_mmhg_s_ml"] * MMHG * 1e6, rel=1e-12)


def test_a_matched_proximal_resistance_is_rho_c_by_the_area_of_the_end():
    """Of the left daughter: beta = 4/3 E h / R, c^2 = beta / (2 rho); round-off."""
    terminal = {"type": "rcr", "distal_mmhg_s_ml": 10, "compliance_ml_mmhg": 0.1}
    stated = for_solver(fork(terminals={"l": terminal, "r": terminal}))
    beta = 4 / 3 * 400e3 * 0.5 / 3
    expected = 1060 * np.sqrt(beta / 2 / 1060) / (pi * 0.003**2)
    assert stated.terminals["l"].proximal_pa_s_m3 == pytest.approx(expected, rel=1e-12)


def test_resistance_and_compliance_by_area_are_those_of_all_terminals_together():
    """Resistances in parallel; each as its area, 9 to 6.25, to the power; round-off."""
    shared = {"type": "by-area", "resistance_mmhg_s_ml": 2, "compliance_ml_mmhg": 0.5, "power": 1.5}
    network = fork(terminals={"*": shared})
    found = summary(network)
    assert found.terminal_resistance_mmhg_s_ml == pytest.approx(2, rel=1e-12)
    assert found.terminal_compliance_ml_mmhg == pytest.approx(0.5, rel=1e-12)
    behind = for_solver(network).terminals
    ratio = behind["r"].total_pa_s_m3 / behind["l"].total_pa_s_m3
    assert ratio == pytest.approx((9 / 6.25) ** 1.5, rel=1e-12)


def test_a_heart_and_its_period_reach_the_solver():
    heart = {"period_s": 0.8, "valve_area_mm2": 400}
    stated = for_solver(fork(inlets={"heart": {"heart": heart}}))
    assert stated.period_s == 0.8
    inlet = stated.inlets["heart"]
    assert inlet.valve_pa_s2_m6 == pytest.approx(1060 / (2 * 4e-4**2), rel=1e-12)
    assert inlet.elastance_pa_m3.extremes[1] == pytest.approx(2.31 * MMHG * 1e6, rel=1e-3)  # of 400 samples


def test_a_waveform_is_found_beside_the_file_and_scaled_to_a_mean(tmp_path):
    (tmp_path / "in.csv").write_text("time_s,flow_ml_s\n0,0\n0.25,4\n0.5,0\n0.75,0\n1,0\n")
    inlet = {"flow_waveform": "in.csv", "flow_ml_s": 3, "interpolation": "linear"}
    (tmp_path / "net.yaml").write_text(yaml.safe_dump(changed(inlets={"heart": inlet})))
    stated = for_solver(sound_network(tmp_path / "net.yaml"))
    assert stated.period_s == 1
    assert stated.inlets["heart"].flow_m3_s.mean == pytest.approx(3e-6, rel=1e-12)
    assert stated.inlets["heart"].flow_m3_s.extremes[1] == pytest.approx(12e-6, rel=1e-12)


def test_a_waveform_that_is_not_there_is_refused_with_its_place(tmp_path):
    lines = refusal(tmp_path, yaml.safe_dump(changed(inlets={"heart": {"flow_waveform": "no.csv"}})))
    assert lines[0].startswith(": inlets.heart.flow_waveform = 'no.csv': no such file, neither beside the network's")


def test_different_periods_are_refused(tmp_path):
    (tmp_path / "in.csv").write_text("time_s,flow_ml_s\n0,0\n0.5,4\n1,0\n")
    sections = changed(inlets={"heart": {"flow_waveform": "in.csv"}}, period_s=0.9)
    (tmp_path / "net.yaml").write_text(yaml.safe_dump(sections))
    with pytest.raises(StageError, match=r"network: periods differ \(heart 1 s, period_s 0.9 s\)"):
        for_solver(sound_network(tmp_path / "net.yaml"))


def test_defaults_give_way_to_what_a_segment_has_of_its_own():
    network = fork(segments__left__wave_speed_m_s=8, segments__right__wall="olufsen")
    left, right = network.walled("left"), network.walled("right")
    assert (left.youngs_modulus_kpa, left.wave_speed_m_s) == (None, 8)
    assert right.youngs_modulus_kpa is None
    assert any("olufsen_k1_kpa" in line for line in mistakes(network))


def test_a_number_without_a_sign_in_its_exponent_is_a_number(tmp_path):
    """PyYAML alone would read a text."""
    file = tmp_path / "net.yaml"
    file.write_text("a: 700.0e3\n")
    assert yaml.safe_load(file.read_text()) == {"a": "700.0e3"}
    assert read_yaml(file) == {"a": 700000.0}


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no such node": ({"terminals__knee": {"type": "matched"}}, "terminals.knee: no segment has a node of this name"),
    "near node": (
        {"inlets": {"hart": {"flow_ml_s": 1}}},
        "inlets.hart: no segment has a node of this name (did you mean heart?); correct it",
    ),
    "terminal at a fork": (
        {"terminals__fork": {"type": "resistance", "resistance_mmhg_s_ml": 1}},
        "terminals.fork: 3 segments meet here (trunk, left, right); give it a node where one ends",
    ),
    "open end": (
        {"terminals": {"l": {"type": "resistance", "resistance_mmhg_s_ml": 1}}},
        "segments.right.nodes: ends alone at node r, which has neither inlet nor terminal; give terminals.r",
    ),
    "no inlet": ({"inlets": None}, "inlets: missing; give it"),
    "inlet that drives nothing": (
        {"inlets__heart": {}},
        "inlets.heart: none given; give one of flow_waveform, flow_ml_s, pressure_waveform, pressure_mmhg, heart",
    ),
    "flow and pressure": ({"inlets__heart__pressure_mmhg": 80}, "inlets.heart: flow_ml_s, pressure_mmhg given;"),
    "apart": (
        {
            "segments__far": {"nodes": ["x", "y"], "length_mm": 10, "radius_mm": 1},
            "terminals__star": {"type": "resistance", "resistance_mmhg_s_ml": 1},
        },
        "segments: far is connected with the rest of the network nowhere",
    ),
    "one node": (
        {"segments__left__nodes": ["fork", "fork"]},
        "segments.left.nodes = ['fork', 'fork']: begins and ends at one node; give it two",
    ),
    "blank in a key": (
        {"segments__left__profile exponent": 9},
        "segments.left.profile exponent: unknown key (value 9); did you mean profile_exponent?",
    ),
    "metres": ({"segments__left__radius_mm": 0.003}, "segments.left.radius_mm: radius of 0.003 mm is outside of"),
    "pascals": (
        {"segments__left__youngs_modulus_kpa": 400e3},
        "segments.left, of its wall: wave speed of 204.8 m/s is outside of 1 to 40",
    ),
    "millipascal seconds": ({"blood": {"viscosity_pa_s": 4}}, "blood.viscosity_pa_s = 4: viscosity of 4 Pa s is"),
    "thick": ({"segments__left__thickness_mm": 3}, "segments.left.thickness_mm: thickness over radius of 1 "),
    "no radius": ({"segments__left__radius_mm": 0}, "segments.left.radius_mm = 0: input should be greater than 0"),
    "a word": ({"segments__left__length_mm": "5 cm"}, "segments.left.length_mm = '5 cm': input should be a valid"),
    "no wall": ({"defaults": {}}, "segments.trunk: youngs_modulus_kpa, thickness_mm: missing; the law elastic needs"),
    "key of another law": (
        {"segments__left__viscosity_kpa_s": 2.0},
        "segments.left: viscosity_kpa_s = 2.0: the law elastic takes no such key; take it out, or choose another wall",
    ),
    "unknown law": ({"segments__left__wall": "rubber"}, "segments.left.wall = 'rubber': input should be 'elastic'"),
    "both stiffnesses": (
        {"segments__left__wave_speed_m_s": 5, "segments__left__youngs_modulus_kpa": 400},
        "segments.left: wave_speed_m_s and youngs_modulus_kpa: both given; give one of them",
    ),
    "group of nobody": (
        {"groups": {"legs": ["lft"]}},
        "groups.legs = 'lft': no segment has this name (did you mean left?); correct it",
    ),
    "no kind of terminal": (
        {"terminals__star": {"type": "rc"}},
        "terminals.* = {'type': 'rc'}: its key type is 'rc'; give one of",
    ),
    "rcr with one resistance too many": (
        {
            "terminals__star": {
                "type": "rcr",
                "distal_mmhg_s_ml": 1,
                "total_mmhg_s_ml": 2,
                "compliance_ml_mmhg": 1,
            }
        },
        "terminals.*: distal_mmhg_s_ml and total_mmhg_s_ml: both given; give one of them",
    ),
    "matched above the total": (
        {"terminals__star": {"type": "rcr", "total_mmhg_s_ml": 0.1, "compliance_ml_mmhg": 1}},
        "terminals.l: total_mmhg_s_ml = 0.1 is not above the matched proximal resistance of",
    ),
    "nothing holds the pressure": ({"terminals__star": {"type": "matched"}}, "terminals: none of the ends holds"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_in_one_line_with_its_place_and_remedy(tmp_path, name):
    change, expected = MISTAKES[name]
    lines = refusal(tmp_path, yaml.safe_dump(changed(**change), sort_keys=False))
    assert any(line.removeprefix(": ").startswith(expected) for line in lines), lines
    assert all(";" in line for line in lines if "input should be" not in line), lines


def test_a_segment_twice_is_refused(tmp_path):
    text = yaml.safe_dump(FORK, sort_keys=False).replace("  right:", "  left:")
    assert "the key 'left' stands twice" in refusal(tmp_path, text)[0]


def test_accepted_quantities_may_have_any_value():
    network = fork(segments__left__radius_mm=0.05, accept=["radius", "thickness", "wave_speed"])
    assert list(mistakes(network)) == []
    assert len(list(mistakes(fork(segments__left__radius_mm=0.05, accept=["radius"])))) == 2


def test_ways_round_are_counted():
    assert loops(fork()) == 0
    around = {"nodes": ["fork", "join"], "length_mm": 40, "radius_mm": 2}
    out = {"nodes": ["join", "r"], "length_mm": 40, "radius_mm": 2}
    ring = fork(segments__right=out, segments__one=around, segments__two=around)
    assert loops(ring) == 1
    assert list(mistakes(ring)) == []


def test_summary_of_a_cone():
    """Volume of a frustum, pi L (a^2 + a b + b^2) / 3; 64 trapezoids of a parabola are within 1e-5 of it."""
    segments = {"trunk": FORK["segments"]["trunk"]}
    found = summary(fork(segments=segments))
    assert found.volume_ml == pytest.approx(pi * 100 * (25 + 20 + 16) / 3 / 1000, rel=1e-5)
    assert (found.segments, found.nodes, found.terminals, found.length_mm) == (1, 2, 1, pytest.approx(100))
    assert found.terminal_resistance_mmhg_s_ml == pytest.approx(10)


def test_wave_speed_of_each_law_is_the_slope_of_its_pressure():
    """c^2 = A / rho dp/dA by a difference over 1e-5 of the area, to 1e-6."""
    fibre = arterial_walls.FibreWall(500e3, 3000e3, 0.03, 0.02, 0.3e-3)
    olufsen = arterial_walls.OlufsenWall(2e6, -2253, 86.5e3)
    elastic = arterial_walls.ElasticWall(400e3, 0.3e-3)
    for wall in (fibre, olufsen, elastic):
        radius = 3e-3
        rows = wall.coefficients(np.array([0.0]), np.array([radius]))[:, 0]
        area, step = pi * radius**2, 1e-5
        low, high = (pressure_of(rows, area, area * (1 + sign * step)) for sign in (-1, 1))
        expected = np.sqrt((high - low) / (2 * step) / 1060)
        assert wave_speed_m_s(wall, radius, 1060, 0.0) == pytest.approx(expected, rel=1e-6)


def pressure_of(rows, area, now):
    """The bracket of walls.py, written out once more."""
    stretch = np.sqrt(now / area)
    b0, b1, b2, b3, e0, er = rows

    def fibres(at):
        return (b2 * (at - 1) + b3 * er * np.log1p(np.exp((at - 1 - e0) / er))) / at**2

    return b0 * (stretch - 1) + b1 * (1 - 1 / stretch) + fibres(stretch) - fibres(1.0)
