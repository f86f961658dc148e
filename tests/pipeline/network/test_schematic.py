# SPDX-License-Identifier: Apache-2.0
"""The schematic drawing of networks: lengths, sides, few crossings; ways and sites."""

import numpy as np
import pytest

from pipeline.case.settings.tree import TreeSettings
from pipeline.network.case_network import chosen_sites, waveform_files
from pipeline.network.network_file import Network, find
from pipeline.network.reading import sound_network
from pipeline.network.schematic import crossing_lines, schematic, side_of
from pipeline.network.ways import distance_mm, ways_from

SHIPPED = ("common-carotid", "thoracic-aorta", "in-vitro-37", "adan56")


@pytest.mark.parametrize("name", SHIPPED)
def test_segments_are_as_long_as_they_are_and_few_lines_cross(name):
    network = sound_network(find(name))
    places = schematic(network)
    for segment in network.segments.values():
        start, stop = (np.array(places[node]) for node in segment.nodes)
        assert np.linalg.norm(stop - start) == pytest.approx(segment.length_mm)
    assert crossing_lines(places, [segment.nodes for segment in network.segments.values()]) <= 2


def test_the_right_side_lies_left_the_head_up_and_the_legs_down():
    network = sound_network(find("adan56"))
    places = schematic(network)

    def end(name):
        return places[network.segments[name].nodes[1]]

    for name in ("radial", "posterior_tibial", "internal_carotid"):
        assert end(f"{name}_R")[0] < 0 < end(f"{name}_L")[0]
    assert end("internal_carotid_R")[1] > 0 > end("posterior_tibial_R")[1]
    assert places == schematic(network)


def long_star(arms):
    """Many branches from one node, of which the layout with angles crosses nothing but overlaps; and a loop."""
    segments = {f"s{k}": {"nodes": ("hub", f"e{k}"), "length_mm": 50, "radius_mm": 2} for k in range(arms)}
    segments["trunk"] = {"nodes": ("heart", "hub"), "length_mm": 50, "radius_mm": 4}
    segments["loop"] = {"nodes": ("hub", "heart2"), "length_mm": 70, "radius_mm": 2}
    segments["back"] = {"nodes": ("heart2", "hub"), "length_mm": 30, "radius_mm": 2}
    return Network.model_validate({"segments": segments, "inlets": {"heart": {"flow_ml_s": 1}}})


@pytest.mark.parametrize("arms", [3, 12, 700])
def test_every_node_has_a_place_of_its_own_in_stars_and_loops(arms):
    places = schematic(long_star(arms))
    assert len(places) == arms + 3
    assert len({(round(x, 6), round(y, 6)) for x, y in places.values()}) == arms + 3


def test_ways_are_the_shortest():
    network = long_star(3)
    ways = ways_from(network, "heart")
    assert ways.distance_mm["heart2"] == 80
    assert distance_mm(network, ways, "loop", 0.5) == 85
    assert distance_mm(network, ways, "loop", 0.9) == pytest.approx(87)


@pytest.mark.parametrize(
    ("name", "side"), [("femoral_R_II", "R"), ("radial_L", "L"), ("femoral_R_I.stenosis", "R"), ("aorta_Left", "")]
)
def test_names_tell_the_side(name, side):
    assert side_of(name) == side


def test_sites_are_those_of_the_case_or_the_landmarks_of_one_side():
    network = sound_network(find("adan56"))
    given = TreeSettings.model_validate({"sites": ["radial_L"]})
    assert [site.segment for site in chosen_sites(network, given)] == ["radial_L"]
    chosen = [site.segment for site in chosen_sites(network, TreeSettings())]
    assert chosen == ["aortic_arch_I", "common_carotid_R", "brachial_R", "femoral_R_I", "posterior_tibial_R"]
    assert [file.rsplit("/", 1)[-1] for file in waveform_files(network)] == ["adan56.csv"]
