# SPDX-License-Identifier: Apache-2.0
"""Where a vessel meets a network: places by the vessel's own branches, the piece between them, and refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.case.settings.base import parse
from pipeline.case.settings.coupling import CouplingSettings
from pipeline.network.checks import mistakes
from pipeline.network.edits import apply
from pipeline.network.network_file import Network
from pipeline.network.vessel_piece import Piece, piece_of
from solver.runtime.errors import StageError
from tests.pipeline.network.test_edits import TREE


def tree(**sections) -> Network:
    network = parse(Network, {**TREE, **sections}, "tree")
    assert list(mistakes(network)) == []
    return network


def cut(lengths=None, network=None, **keys) -> Piece:
    wanted = {"network": "data/networks/adan56.yaml", **keys}
    return piece_of(network or tree(), parse(CouplingSettings, wanted, "case"), lengths or {})


def between(**ways) -> dict[frozenset[str], float]:
    """Ways between openings, by names joined by an underline."""
    return {frozenset(pair.split("_")): way for pair, way in ways.items()}


def test_vessel_replaces_the_middle_of_a_segment_as_long_as_itself():
    piece = cut(between(i_o=30), replaces="trunk", at=0.4, inlets={"i": "proximal"}, outlets={"o": "distal"})
    assert [(each.opening, each.way_mm) for each in piece.meetings] == [
        ("i", pytest.approx(25)),
        ("o", pytest.approx(55)),
    ]
    assert piece.inside == {"trunk.2"}
    assert piece.length_mm == pytest.approx(30)
    segments = piece.network.segments
    assert segments["trunk.2"].nodes == ("cap.i", "cap.o")
    assert segments["trunk.1"].radii_mm == pytest.approx((6, 5.75))
    assert segments["trunk.3"].radii_mm == pytest.approx((5.45, 5))


def test_default_that_tapers_tapers_once_over_the_pieces():
    """A wave speed that all segments have, from 5 to 7 m/s over their lengths, is cut as their own would be."""
    segments = {
        name: {k: v for k, v in keys.items() if k != "wave_speed_m_s"} for name, keys in TREE["segments"].items()
    }
    network = tree(segments=segments, defaults={"wave_speed_m_s": [5, 7]})
    keys = {"replaces": "trunk", "at": 0.4, "inlets": {"i": "proximal"}, "outlets": {"o": "distal"}}
    cut_up = cut(between(i_o=30), network, **keys).network
    found = [cut_up.walled(f"trunk.{k}").wave_speed_m_s for k in (1, 2, 3)]
    assert found == [pytest.approx((5, 5.5)), pytest.approx((5.5, 6.1)), pytest.approx((6.1, 7))]


def test_vessel_that_forks_lies_about_the_fork_by_its_own_branches():
    """Branches of 20, 11 and 7 mm from its fork."""
    lengths = between(i_l=31, i_r=27, l_r=18)
    piece = cut(lengths, inlets={"i": "trunk"}, outlets={"l": "left", "r": "right"})
    assert {each.opening: each.way_mm for each in piece.meetings} == pytest.approx({"i": 80, "l": 11, "r": 7})
    assert piece.inside == {"trunk.2", "left.1", "right.1"}
    assert piece.length_mm == pytest.approx(38)


def test_places_that_are_given_are_taken():
    piece = cut(
        inlets={"i": {"segment": "trunk", "from_end_mm": 15}},
        outlets={
            "a": {"segment": "left_a", "from_start_mm": 9},
            "b": {"segment": "left_b", "from_start_mm": 5},
            "r": {"segment": "right", "from_end_mm": 12.5},
        },
    )
    assert {each.opening: each.way_mm for each in piece.meetings} == pytest.approx({"i": 85, "a": 9, "b": 5, "r": 47.5})
    assert piece.inside == {"trunk.2", "left", "left_a.1", "left_b.1", "right.1"}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_cut_network_is_the_whole_one_with_more_nodes(data):
    """Any two places of the trunk, or about its fork: lengths, volumes and groups stay, and the piece lies between."""
    share = st.floats(0.06, 0.94)
    if data.draw(st.booleans()):
        one, other = sorted(data.draw(st.tuples(share, share)))
        if other - one < 0.01:
            return
        keys = {
            "inlets": {"i": {"segment": "trunk", "from_start_mm": 100 * one}},
            "outlets": {"o": {"segment": "trunk", "from_start_mm": 100 * other}},
        }
        inside = {"trunk.2"}
    else:
        i, a, r = (data.draw(share) for _ in range(3))
        keys = {
            "inlets": {"i": {"segment": "trunk", "from_start_mm": 100 * i}},
            "outlets": {
                "l": {"segment": "left", "from_start_mm": 80 * a},
                "r": {"segment": "right", "from_start_mm": 60 * r},
            },
        }
        inside = {"trunk.2", "left.1", "right.1"}
    before, piece = tree(), cut(**keys, spacing_mm=3)
    after = piece.network
    assert list(mistakes(after)) == []
    assert piece.inside == inside
    assert sum(s.length_mm for s in after.segments.values()) == pytest.approx(340)
    assert volume(after) == pytest.approx(volume(before))
    assert set(after.groups["left_side"]) >= {"left_?"}


def volume(network: Network) -> float:
    return sum(
        s.length_mm * np.pi * (s.radii_mm[0] ** 2 + s.radii_mm[0] * s.radii_mm[-1] + s.radii_mm[-1] ** 2) / 3
        for s in network.segments.values()
    )


NARROWED = {"narrow": "trunk", "area_percent": 60, "length_mm": 20}
REFUSED = {
    "unknown segment": (
        {"inlets": {"i": "trunc"}, "outlets": {"o": "left"}},
        between(i_o=9),
        "coupling: the network has no segment 'trunc' after its edits.*trunk",
    ),
    "vessel longer than the segment": (
        {"replaces": "trunk", "inlets": {"i": "proximal"}, "outlets": {"o": "distal"}},
        between(i_o=120),
        "coupling.replaces = 'trunk': the vessel is 120 mm long between its openings, which does not lie within",
    ),
    "too near to an end": (
        {"replaces": "trunk", "inlets": {"i": "proximal"}, "outlets": {"o": "distal"}},
        between(i_o=96),
        "coupling: opening i is 2 mm from the start of trunk, which is 100 mm long; it must be 4 mm",
    ),
    "before the start": (
        {"inlets": {"i": "trunk"}, "outlets": {"l": "left", "r": "right"}},
        between(i_l=221, i_r=217, l_r=18),
        "coupling: opening i is 110 mm before the start of trunk, which is 100 mm long",
    ),
    "behind the end": (
        {"inlets": {"i": "trunk"}, "outlets": {"l": "left", "r": "right"}},
        between(i_l=31, i_r=27, l_r=218),
        "coupling: opening i is 80 mm behind the end of trunk, which is 100 mm long",
    ),
    "no common fork": (
        {"inlets": {"i": "trunk"}, "outlets": {"l": "left_a", "r": "right"}},
        between(i_l=31, i_r=27, l_r=18),
        r"coupling: i \(trunk\), l \(left_a\), r \(right\) do not meet at one node of the network",
    ),
    "more than a fork": (
        {"inlets": {"i": "trunk"}, "outlets": {"a": "left_a", "b": "left_b", "r": "right"}},
        between(i_a=9, i_b=9, i_r=9, a_b=9, a_r=9, b_r=9),
        "coupling: 4 openings have a segment without a place of it",
    ),
    "a branch goes on": (
        {
            "inlets": {"i": {"segment": "trunk", "from_end_mm": 20}},
            "outlets": {"l": {"segment": "left_a", "from_start_mm": 20}, "r": {"segment": "right", "from_end_mm": 20}},
        },
        None,
        "coupling: the piece between the openings .* holds b, where the network has an inlet or a terminal",
    ),
    "an opening that is no end": (
        {
            "inlets": {"i": {"segment": "trunk", "from_start_mm": 20}},
            "outlets": {
                "m": {"segment": "trunk", "from_start_mm": 50},
                "o": {"segment": "trunk", "from_start_mm": 80},
            },
        },
        None,
        "cut no piece out of the network, of which each is an end",
    ),
    "one place twice": (
        {
            "inlets": {"i": {"segment": "trunk", "from_start_mm": 20}},
            "outlets": {"o": {"segment": "trunk", "from_end_mm": 80}},
        },
        None,
        "coupling: openings i and o are at one place of trunk",
    ),
}


def test_stenosis_is_not_cut_in_parts():
    narrow, _ = apply(tree(), parse(Network, TREE | {"edits": [NARROWED]}, "tree").edits, "tree")
    beside = {"inlets": {"i": {"segment": "trunk.proximal", "from_end_mm": 9}}}
    keys = beside | {"outlets": {"o": {"segment": "trunk.stenosis", "from_start_mm": 9}}}
    with pytest.raises(StageError, match=r"coupling: trunk\.stenosis is a stenosis, whose loss cannot be cut in parts"):
        cut(network=narrow, **keys)
    whole = beside | {"outlets": {"o": {"segment": "trunk.distal", "from_start_mm": 9}}}
    assert "trunk.stenosis" in cut(network=narrow, **whole).inside


@pytest.mark.parametrize(("keys", "lengths", "message"), REFUSED.values(), ids=REFUSED)
def test_impossible_pieces_are_refused(keys, lengths, message):
    with pytest.raises(StageError, match=message):
        cut(lengths, **keys)
