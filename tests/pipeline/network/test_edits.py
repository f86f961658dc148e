# SPDX-License-Identifier: Apache-2.0
"""Edits change what they name, by as much as they say, leave all else, and say it; what they cannot be is refused."""

import logging
from math import pi, sqrt

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.case.settings.base import parse
from pipeline.network.checks import loops, mistakes
from pipeline.network.edits import apply
from pipeline.network.for_solver import for_solver
from pipeline.network.network_file import Network, find, read_network
from pipeline.network.reading import sound_network
from pipeline.network.summary import summary
from pipeline.network.walls import wave_speed_m_s
from pipeline.network.writing import network_text
from solver.runtime.errors import StageError

TREE = {
    "defaults": {"youngs_modulus_kpa": 400, "thickness_mm": "empirical-law"},
    "segments": {
        "trunk": {"nodes": ["heart", "fork"], "length_mm": 100, "radius_mm": [6, 5]},
        "left": {"nodes": ["fork", "knee"], "length_mm": 80, "radius_mm": [4, 3]},
        "left_a": {"nodes": ["knee", "a"], "length_mm": 50, "radius_mm": 2},
        "left_b": {"nodes": ["knee", "b"], "length_mm": 50, "radius_mm": 1.5, "wave_speed_m_s": 9},
        "right": {"nodes": ["fork", "r"], "length_mm": 60, "radius_mm": 3},
    },
    "inlets": {"heart": {"flow_ml_s": 10}},
    "terminals": {
        "a": {"type": "rcr", "proximal_mmhg_s_ml": 2, "distal_mmhg_s_ml": 18, "compliance_ml_mmhg": 0.01},
        "b": {"type": "rcr", "total_mmhg_s_ml": 30, "compliance_ml_mmhg": 0.02, "distal_pressure_mmhg": 5},
        "r": {"type": "resistance", "resistance_mmhg_s_ml": 15},
    },
    "groups": {"left_side": ["left", "left_?"]},
}


def edited(*edits, **sections) -> tuple[Network, list[str]]:
    network = parse(Network, {**TREE, **sections, "edits": list(edits)}, "tree")
    assert list(mistakes(network)) == []
    found, lines = apply(network, network.edits, "tree")
    assert list(mistakes(found)) == []
    return found, lines


def plain() -> Network:
    return parse(Network, TREE, "tree")


def speeds(network: Network, part: float = 0.5) -> dict[str, float]:
    stated = for_solver(network)
    return {
        each.name: wave_speed_m_s(each.wall, each.radius_m, stated.blood.density_kg_m3, part)
        for each in stated.segments
    }


def resistance(network: Network) -> float:
    found = summary(network).terminal_resistance_mmhg_s_ml
    assert found
    return found


def parallel(*values: float) -> float:
    return 1 / sum(1 / value for value in values)


def test_stiffening_raises_the_speed_of_waves_by_the_root_and_leaves_the_rest():
    network, (line,) = edited({"stiffen": "left_side", "factor": 2})
    before, after = speeds(plain()), speeds(network)
    for name in before:
        factor = sqrt(2) if name.startswith("left") else 1
        assert after[name] == pytest.approx(factor * before[name], rel=1e-12)
    assert line.startswith("left_side: stiffness of 3 segments times 2, waves run with ")


@pytest.mark.parametrize(
    "wall",
    [
        {"wall": "olufsen", "olufsen_k1_kpa": 2000, "olufsen_k2_1_mm": -2.25, "olufsen_k3_kpa": 86.5},
        {
            "wall": "elastin-collagen", "youngs_modulus_kpa": 500, "thickness_mm": 0.5, "collagen_modulus_kpa": 3000,
            "collagen_strain": 0.1, "collagen_strain_range": 0.05,
        },
    ],
)  # fmt: skip
def test_stiffening_works_on_each_law(wall):
    segments = {**TREE["segments"], "right": {**TREE["segments"]["right"], **wall}}
    network, _ = edited({"stiffen": "right", "factor": 3}, segments=segments)
    before = speeds(parse(Network, {**TREE, "segments": segments}, "tree"))
    assert speeds(network)["right"] == pytest.approx(sqrt(3) * before["right"], rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.floats(1, 99), st.floats(1, 40), st.floats(0.3, 0.7), st.sampled_from(["left", "left_a", "left_b"]))
def test_a_stenosis_lies_where_it_is_said_to_be_and_loses_what_young_and_tsai_say(percent, length, at, name):
    """Round-off, 1e-9 of lengths that are added up."""
    try:
        network, _ = edited({"narrow": name, "area_percent": percent, "length_mm": length, "at": at})
    except StageError as error:
        half = length / 2 / TREE["segments"][name]["length_mm"]
        assert half >= at or at + half >= 1
        assert "does not lie within" in str(error)
        return
    except AssertionError:  # narrower or shorter than any artery, which is refused
        assert any("outside of" in each for each in unsound(name, percent, length, at))
        return
    before, part, after = (network.segments[f"{name}.{piece}"] for piece in ("proximal", "stenosis", "distal"))
    whole = plain().segments[name]
    assert before.length_mm + part.length_mm + after.length_mm == pytest.approx(whole.length_mm, rel=1e-9)
    assert before.length_mm + part.length_mm / 2 == pytest.approx(at * whole.length_mm, rel=1e-9)
    assert before.nodes[0] == whole.nodes[0]
    assert (before.nodes[1], part.nodes[1]) == (part.nodes[0], after.nodes[0])
    assert after.nodes[1] == whole.nodes[1]
    beside = (before.radii_mm[-1] + after.radii_mm[0]) / 2
    middle = sum(part.radii_mm) / len(part.radii_mm)
    assert (middle / beside) ** 2 == pytest.approx(1 - percent / 100, rel=1e-9)
    require_loss(network, f"{name}.stenosis", beside, part)


def unsound(name, percent, length, at) -> list[str]:
    network = parse(Network, TREE, "tree")
    edit = {"narrow": name, "area_percent": percent, "length_mm": length, "at": at}
    edits = parse(Network, {**TREE, "edits": [edit]}, "tree").edits
    return list(mistakes(apply(network, edits, "tree")[0]))


def require_loss(network, name, normal_mm, part) -> None:
    """At 5 mL/s: rho (K_v / Re + K_t / 2 (S0 / S1 - 1)^2) U0^2 (Young and Tsai 1973), S1 the least section."""
    stated = for_solver(network)
    stenosis = stated.segment(name).stenosis
    flow, rho, mu = 5e-6, 1060, 4e-3
    d0, d1, length = 2e-3 * normal_mm, 2e-3 * min(part.radii_mm), part.length_mm / 1e3
    speed, ratio = flow / (pi * d0**2 / 4), (d0 / d1) ** 2
    viscous = 32 * (0.83 * length + 1.64 * d1) / d0 * ratio**2 / (rho * d0 * speed / mu)
    expected = rho * (viscous + 1.52 / 2 * (ratio - 1) ** 2) * speed**2
    blood = stated.blood
    found = stenosis.linear_pa_s_m3(blood, length) * flow + stenosis.square_pa_s2_m6(blood) * flow**2
    assert found == pytest.approx(expected, rel=1e-9)


def test_pieces_belong_to_the_groups_of_the_whole():
    network, lines = edited(
        {"narrow": "left", "area_percent": 50, "length_mm": 10}, {"stiffen": "left_side", "factor": 4}
    )
    before, after = speeds(plain(), 0.0), speeds(network, 0.0)
    assert after["left.proximal"] == pytest.approx(2 * before["left"], rel=1e-12)
    assert after["left_a"] == pytest.approx(2 * before["left_a"], rel=1e-12)
    assert lines[1].startswith("left_side: stiffness of 5 segments")


def test_an_aneurysm_swells_smoothly_from_the_vessel_and_keeps_its_wall():
    network, _ = edited({"widen": "trunk", "radius_factor": 2, "length_mm": 40})
    sac = network.segments["trunk.aneurysm"]
    assert sac.radii_mm[0] == pytest.approx(network.segments["trunk.proximal"].radii_mm[-1], rel=1e-12)
    assert sac.radii_mm[-1] == pytest.approx(network.segments["trunk.distal"].radii_mm[0], rel=1e-12)
    assert sac.radii_mm[len(sac.radii_mm) // 2] == pytest.approx(2 * 5.5, rel=1e-12)
    slopes = np.diff(sac.radii_mm)
    assert abs(slopes[0]) < 0.1 * slopes.max()
    thickness = np.array(sac.thickness_mm)
    radius = np.array([5.7, 5.3])
    law = radius * (0.2802 * np.exp(-0.5053 * radius) + 0.1324 * np.exp(-0.01114 * radius))
    np.testing.assert_allclose(thickness, law, rtol=1e-9)


def test_widening_all_along_multiplies_each_radius():
    network, (line,) = edited({"widen": "left_side", "radius_factor": 1.2})
    assert network.segments["left"].radii_mm == pytest.approx((4.8, 3.6))
    assert network.segments["trunk"].radii_mm == (6, 5)
    assert "at most 4.8 mm" in line


def test_removal_takes_what_lies_behind_along_and_the_resistance_rises():
    network, (line,) = edited({"remove": "left"})
    assert list(network.segments) == ["trunk", "right"]
    assert set(network.terminals) == {"r"}
    assert network.groups == {}
    assert resistance(network) == pytest.approx(15)
    assert "with left_a, left_b, which nothing else reaches; terminals a, b went" in line


def test_an_end_that_is_left_open_gets_what_was_behind_it():
    """In parallel: resistance, compliance, and the pressure behind by conductance; round-off."""
    network, (line,) = edited({"remove": "left_?"})
    assert list(network.segments) == ["trunk", "left", "right"]
    assert resistance(network) == pytest.approx(resistance(plain()), rel=1e-12)
    terminal = network.terminals["knee"]
    assert terminal.total_mmhg_s_ml == pytest.approx(parallel(20, 30), rel=1e-12)
    assert terminal.compliance_ml_mmhg == pytest.approx(0.03, rel=1e-12)
    assert terminal.distal_pressure_mmhg == pytest.approx((0 / 20 + 5 / 30) * parallel(20, 30), rel=1e-12)
    assert "what was behind a, b is now behind knee" in line


def test_ends_left_open_by_one_removal_share_by_area():
    """The bridge from knee to the right hangs at both; what goes with it is shared as the areas of both ends."""
    segments = {
        **TREE["segments"],
        "bridge_1": {"nodes": ["b", "r"], "length_mm": 20, "radius_mm": 1},
        "bridge_2": {"nodes": ["r", "x"], "length_mm": 20, "radius_mm": 1},
    }
    end = {"type": "resistance", "resistance_mmhg_s_ml": 15}
    terminals = {"a": TREE["terminals"]["a"], "x": end}
    network, _ = edited({"remove": "bridge_?"}, segments=segments, terminals=terminals)
    found = {node: network.terminals[node].resistance_mmhg_s_ml for node in ("b", "r")}
    assert parallel(*found.values()) == pytest.approx(15, rel=1e-12)
    assert found["b"] / found["r"] == pytest.approx(3**2 / 1.5**2, rel=1e-12)


def test_a_graft_is_a_way_round():
    graft = {
        "graft": "bypass", "nodes": ["fork", "knee"], "length_mm": 90, "radius_mm": 3,
        "youngs_modulus_kpa": 2000, "thickness_mm": 0.5,
    }  # fmt: skip
    network, (line,) = edited(graft)
    assert loops(network) == 1
    speed = sqrt(2 / 3 * 2000e3 * 0.5 / 3 / 1060)
    assert speeds(network)["bypass"] == pytest.approx(speed, rel=1e-12)
    assert line == f"bypass: a graft of 90 mm from fork to knee, in which waves run with {speed:.3g} m/s"


def test_terminals_change_by_node_segment_or_group():
    edit = {"resistance_factor": 2, "compliance_factor": 3, "distal_pressure_mmhg": 7}
    for name, nodes in (("a", "a"), ("left_b", "b"), ("left_side", "ab")):
        network, _ = edited({"terminal": name, **edit})
        for node in "ab":
            before, after = plain().terminals[node], network.terminals[node]
            factor = 2 if node in nodes else 1
            assert behind(after) == pytest.approx(factor * behind(before), rel=1e-12)
            assert after.compliance_ml_mmhg == (3 if node in nodes else 1) * before.compliance_ml_mmhg
            assert after.distal_pressure_mmhg == (7 if node in nodes else before.distal_pressure_mmhg)


def behind(terminal) -> float:
    return terminal.total_mmhg_s_ml or terminal.proximal_mmhg_s_ml + terminal.distal_mmhg_s_ml


def test_terminals_that_share_by_area_can_be_changed_one_by_one():
    shared = {"type": "by-area", "resistance_mmhg_s_ml": 2, "compliance_ml_mmhg": 0.5}
    all_of_them = parse(Network, {**TREE, "terminals": {"*": shared}}, "tree")
    share = {n: each.total_pa_s_m3 for n, each in for_solver(all_of_them).terminals.items()}
    network, _ = edited({"terminal": "r", "resistance_factor": 3}, terminals={"*": shared})
    changed = {n: each.total_pa_s_m3 for n, each in for_solver(network).terminals.items()}
    assert changed == pytest.approx({n: value * (3 if n == "r" else 1) for n, value in share.items()}, rel=1e-12)


REFUSALS = {
    "near": ({"stiffen": "lfet", "factor": 2}, "edits.0.stiffen = 'lfet': no segment or group has this name"),
    "suggestion": ({"stiffen": "left_sid", "factor": 2}, "(did you mean left_side"),
    "too long": (
        {"narrow": "left", "area_percent": 50, "length_mm": 90},
        "edits.0.narrow = 'left': length_mm = 90 around 0.5 of the length does not lie within its 80 mm; shorten it",
    ),
    "inlet": ({"remove": "trunk"}, "edits.0.remove = 'trunk': leaves an inlet with no segment"),
    "graft's name": (
        {"graft": "left", "nodes": ["fork", "knee"], "length_mm": 9, "radius_mm": 1},
        "edits.0.graft = 'left': a segment or group has this name",
    ),
    "graft's node": (
        {"graft": "new", "nodes": ["fork", "kne"], "length_mm": 9, "radius_mm": 1},
        "there is no node kne (did you mean knee?)",
    ),
    "graft to an end": (
        {"graft": "new", "nodes": ["fork", "a"], "length_mm": 9, "radius_mm": 1},
        "a is an end of the network, of left_a; give a node where vessels meet",
    ),
    "terminal at a fork": ({"terminal": "fork", "resistance_factor": 2}, "edits.0.terminal = 'fork': this node has"),
    "terminal of none": ({"terminal": "trunk", "resistance_factor": 2}, "none of 1 segment ends in a terminal"),
    "no compliance": ({"terminal": "r", "compliance_factor": 2}, "that of r has no compliance"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_an_edit_cannot_be_is_refused(name):
    edit, expected = REFUSALS[name]
    with pytest.raises(StageError) as caught:
        edited(edit)
    assert str(caught.value).startswith("tree: edits.0.")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ({"stifen": "left", "factor": 2}, "with one of the keys stiffen, age, narrow, widen, remove, graft, terminal"),
        ({"stiffen": "left", "facter": 2}, "edits.0.facter: unknown key (value 2); did you mean factor?"),
        ({"narrow": "left", "area_percent": 170, "length_mm": 5}, "edits.0.area_percent = 170: input should be less"),
        ({"widen": "left"}, "edits.0.radius_factor: missing; give it"),
    ],
)
def test_a_mistake_in_an_edit_is_refused_with_its_place(edit, expected):
    with pytest.raises(StageError, match=r"^tree: edits\.0") as caught:
        parse(Network, {**TREE, "edits": [edit]}, "tree")
    assert expected in str(caught.value)


def test_an_edit_that_leaves_no_artery_is_refused_as_such(tmp_path):
    file = tmp_path / "net.yaml"
    file.write_text(yaml.safe_dump({**TREE, "edits": [{"stiffen": "right", "factor": 100}]}, sort_keys=False))
    with pytest.raises(StageError, match=r"net.yaml, edited: segments.right, of its wall: wave speed of"):
        sound_network(file)


def test_edits_leave_the_network_that_they_are_of(caplog):
    network = read_network(find("adan56"))
    text = network_text(network)
    edits = parse(Network, {**TREE, "edits": [{"narrow": "left", "area_percent": 70, "length_mm": 10}]}, "x").edits
    with pytest.raises(StageError):
        apply(network, edits, "adan56")
    assert network_text(network) == text


def test_a_case_edits_after_the_file_and_each_edit_has_a_line_in_the_log(caplog):
    file = find("adan56")
    of_case = parse(
        Network, {**TREE, "edits": [{"stiffen": "aorta", "factor": 2}, {"remove": "left_leg"}]}, "case"
    ).edits
    with caplog.at_level(logging.INFO):
        network = sound_network(file, of_case, "case demo: network")
    assert len(network.segments) == 66
    assert [record.message.split(": ")[1] for record in caplog.records] == ["aorta", "left_leg"]


def test_an_edited_network_written_and_read_is_the_same(tmp_path):
    network, _ = edited(
        {"narrow": "left", "area_percent": 50, "length_mm": 10},
        {"widen": "trunk", "radius_factor": 1.5, "length_mm": 20},
        {"remove": "left_?"},
    )
    (tmp_path / "net.yaml").write_text(network_text(network))
    read = read_network(tmp_path / "net.yaml")
    assert for_solver(read) == for_solver(network)
