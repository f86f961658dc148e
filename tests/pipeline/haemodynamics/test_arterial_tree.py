# SPDX-License-Identifier: Apache-2.0
"""Figures and indices of networks with waveforms that were made up, whose answers are known."""

from math import pi, sqrt

import numpy as np
import pytest

from pipeline.case.settings.tree import Landmarks
from pipeline.haemodynamics.arterial_tree import Tree, segment_rows, site_rows, tree_indices
from pipeline.haemodynamics.tree_waveforms import SEGMENTS, SITES, Waveforms, read_waveforms, write_waveforms
from pipeline.network.for_solver import for_solver
from pipeline.network.network_file import Network
from solver.boundary.windkessel import PASCAL_PER_MMHG
from solver.runtime.errors import StageError
from tests.pipeline.haemodynamics.test_pulse import PERIOD, SAMPLES, bump

PARTS = (0.0, 0.25, 0.5, 0.75, 1.0)
SPEED = 5.0
"""Of waves in all vessels, m/s."""
MEAN_FLOW = 8e-5
RADIUS_MM = 4.0


def body(**given):
    """An aorta of one arm, a neck and two legs, of vessels that are all alike."""
    lengths = {"aorta": 100, "brachial_R": 300, "common_carotid_R": 100, "abdominal": 300}
    lengths |= {f"{name}_{side}": 400 for name in ("femoral", "posterior_tibial", "anterior_tibial") for side in "RL"}
    nodes = {
        "aorta": ("heart", "arch"),
        "brachial_R": ("arch", "hand"),
        "common_carotid_R": ("arch", "head"),
        "abdominal": ("arch", "fork"),
    }
    for side in "RL":
        nodes |= {f"femoral_{side}": ("fork", f"knee_{side}")}
        nodes |= {f"{name}_tibial_{side}": (f"knee_{side}", f"{name}_{side}") for name in ("posterior", "anterior")}
    segments = {
        name: {"nodes": nodes[name], "length_mm": length, "radius_mm": RADIUS_MM, "wave_speed_m_s": SPEED}
        for name, length in lengths.items()
    }
    ends = {"type": "resistance", "resistance_mmhg_s_ml": 5}
    text = {"segments": segments, "inlets": {"heart": {"flow_ml_s": 80}}, "terminals": {"*": ends}}
    return Network.model_validate(text | given)


PULSE = 80.0 + bump(0.3, 0.4, 40.0)
"""mmHg."""


def made_up(network, pressure_mmhg):
    """A tree whose pressure at a place is given by a function of the segment and its part."""
    places = [(name, part) for name in network.segments for part in PARTS]
    pressure = np.column_stack([pressure_mmhg(*place) for place in places]) * PASCAL_PER_MMHG
    area = np.full(pressure.shape, pi * (RADIUS_MM * 1e-3) ** 2)
    flow = np.full(pressure.shape, MEAN_FLOW)
    names, parts = tuple(name for name, _ in places), np.array([part for _, part in places])
    time = np.arange(SAMPLES) * PERIOD / SAMPLES
    found = Waveforms(names, parts, time, PERIOD, pressure, flow, area, flow / area)
    return Tree(network, for_solver(network), found)


def indices(network, pressure_mmhg, **landmarks):
    return tree_indices(made_up(network, pressure_mmhg), Landmarks.model_validate(landmarks), 1.5)


def test_one_pulse_everywhere_has_an_ankle_brachial_index_of_one():
    found = indices(body(), lambda *_: PULSE)
    for key in ("ankle_brachial_index", "ankle_brachial_index_right", "ankle_brachial_index_left"):
        assert found[key] == pytest.approx(1.0, abs=1e-12)


def test_the_better_artery_of_an_ankle_counts_and_the_worse_leg():
    drops = {"posterior_tibial_R": 0.5, "anterior_tibial_R": 0.9, "posterior_tibial_L": 0.6, "anterior_tibial_L": 0.7}
    found = indices(body(), lambda name, part: PULSE * drops.get(name, 1.0))
    assert found["ankle_brachial_index_right"] == pytest.approx(0.9)
    assert found["ankle_brachial_index_left"] == found["ankle_brachial_index"] == pytest.approx(0.7)


def test_shares_of_head_and_legs_are_those_of_both_sides():
    """All vessels carry the mean inflow here: one carotid artery all of it, two femoral ones twice as much."""
    found = indices(body(), lambda *_: PULSE)
    assert found["flow_share_carotids"] == pytest.approx(1.0, rel=1e-12)
    assert found["flow_share_femorals"] == pytest.approx(2.0, rel=1e-12)


def test_a_network_without_arms_or_legs_has_no_such_indices():
    tube = {"tube": {"nodes": ("a", "b"), "length_mm": 100, "radius_mm": RADIUS_MM, "wave_speed_m_s": SPEED}}
    inlets, ends = {"a": {"flow_ml_s": 80}}, {"b": {"type": "resistance", "resistance_mmhg_s_ml": 1}}
    found = indices(Network.model_validate({"segments": tube, "inlets": inlets, "terminals": ends}), lambda *_: PULSE)
    without = {key for key, value in found.items() if value is None}
    assert {"ankle_brachial_index", "pulse_wave_velocity_m_s", "cardiac_output_l_min"} <= without
    assert found["inflow_ml_s"] == pytest.approx(MEAN_FLOW * 1e6)


@pytest.mark.parametrize("speed", [5.0, 12.0])
def test_pulse_wave_velocity_is_that_of_a_pulse_that_runs_through_the_tree(speed):
    """The carotid place lies 150 mm from the heart, the femoral one 600 mm."""
    far = {"common_carotid_R": 100, "femoral_R": 400, "femoral_L": 400}
    length = {"common_carotid_R": 100, "femoral_R": 400, "femoral_L": 400}

    def arriving(name, part):
        delay = 1e-3 * (far.get(name, 0) + part * length.get(name, 0)) / speed
        harmonics = np.fft.rfft(PULSE)
        return np.fft.irfft(harmonics * np.exp(-2j * np.pi * np.arange(len(harmonics)) * delay / PERIOD), SAMPLES)

    assert indices(body(), arriving)["pulse_wave_velocity_m_s"] == pytest.approx(speed, rel=2e-3)


def test_totals_follow_from_pressure_and_flow_at_the_inlet():
    found = indices(body(), lambda *_: PULSE)
    assert found["cardiac_output_l_min"] == pytest.approx(MEAN_FLOW * 6e4)
    assert found["stroke_volume_ml"] == pytest.approx(MEAN_FLOW * PERIOD * 1e6)
    assert found["resistance_mmhg_s_ml"] == pytest.approx(PULSE.mean() / 80.0)
    assert (found["inlet_systolic_mmhg"], found["inlet_diastolic_mmhg"]) == pytest.approx((120.0, 80.0))


def test_a_steady_flow_has_a_row_for_each_segment_and_no_index_of_a_pulse():
    network = body()
    found = indices(network, lambda *_: np.full(SAMPLES, 90.0))
    assert found["reflection_magnitude"] is None
    assert found["augmentation_index_aortic"] is None
    assert found["heart_rate_1_min"] is None
    rows = segment_rows(made_up(network, lambda *_: np.full(SAMPLES, 90.0)))
    assert [row["segment"] for row in rows] == list(network.segments)
    assert {row["pulse_mmhg"] for row in rows} == {0.0}


def test_figures_of_a_segment_are_those_of_their_formulas():
    network = body()
    row = segment_rows(made_up(network, lambda *_: PULSE))[0]
    density, viscosity, radius = network.blood.density_kg_m3, network.blood.viscosity_pa_s, RADIUS_MM * 1e-3
    area = pi * radius**2
    assert row["wave_speed_m_s"] == pytest.approx(SPEED)
    impedance = density * SPEED / area / PASCAL_PER_MMHG * 1e-6
    assert row["impedance_mmhg_s_ml"] == pytest.approx(impedance)
    assert row["reynolds"] == pytest.approx(2 * radius * MEAN_FLOW / area * density / viscosity)
    assert row["womersley"] == pytest.approx(radius * sqrt(2 * pi * density / (PERIOD * viscosity)))
    assert row["flow_share"] == pytest.approx(1.0)


def test_a_vessel_whose_heart_is_at_its_end_has_its_waves_the_other_way_round():
    network = body()
    segments = dict(network.segments)
    segments["aorta"] = segments["aorta"].model_copy(update={"nodes": ("arch", "heart")})
    tree = made_up(network.changed(segments=segments), lambda *_: PULSE)
    row = site_rows(tree, [str(k) for k in range(len(tree.found.segment))], 0.3)[tree.found.number("aorta", 0.25)]
    assert row["away"] == -1
    assert row["from_heart_mm"] == pytest.approx(75.0)


def test_waveforms_come_back_from_their_file_and_a_damaged_one_is_refused(tmp_path):
    found = made_up(body(), lambda *_: PULSE).found
    path = tmp_path / "tree.h5"
    write_waveforms(path, {SEGMENTS: found, SITES: found})
    back = read_waveforms(path)[SITES]
    assert back.segment == found.segment
    np.testing.assert_array_equal(back.pressure_pa, found.pressure_pa)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(StageError, match="run tree again"):
        read_waveforms(path)
