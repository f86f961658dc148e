# SPDX-License-Identifier: Apache-2.0
"""The project's own networks are sound, and have the figures of their publications."""

import numpy as np
import pytest

from pipeline.network.checks import loops, members
from pipeline.network.convert import convert
from pipeline.network.for_solver import for_solver
from pipeline.network.network_file import find, read_network
from pipeline.network.reading import sound_network
from pipeline.network.summary import summary
from pipeline.network.walls import wave_speed_m_s
from solver.boundary.waveform import read_samples
from solver.runtime.sources import ROOT
from tests.support.networks import SHIPPED
from tests.support.reference_networks import reference_network

FILES = sorted(SHIPPED.glob("*.yaml"))

SILICONE_M_S = {
    "ascending_aorta": (5.21, 5.49), "innominate": (4.89, 6.01), "carotid_R": (6.35, 7.49),
    "subclavian_R_I": (6.87, 7.84), "subclavian_R_II": (6.00, 6.58), "radial_R": (7.43, 7.43),
    "ulnar_R": (8.81, 8.81), "aortic_arch_I": (5.41, 5.52), "carotid_L": (6.55, 8.00), "aortic_arch_II": (4.98, 5.12),
    "subclavian_L_I": (6.21, 7.10), "subclavian_L_II": (6.26, 6.84), "radial_L": (8.84, 8.84), "ulnar_L": (7.77, 7.77),
    "thoracic_aorta_I": (5.29, 5.48), "intercostals": (7.07, 7.99), "thoracic_aorta_II": (4.84, 5.26),
    "celiac_I": (6.20, 6.20), "celiac_II": (14.9, 14.9), "splenic": (7.24, 7.24), "gastric": (6.73, 6.73),
    "hepatic": (6.95, 7.44), "abdominal_aorta_I": (5.19, 5.59), "renal_L": (7.39, 7.39),
    "abdominal_aorta_II": (5.83, 5.83), "renal_R": (6.95, 6.95), "abdominal_aorta_III": (5.41, 6.24),
    "iliac_femoral_R_I": (6.47, 6.94), "iliac_femoral_R_II": (5.89, 7.13), "iliac_femoral_R_III": (8.04, 8.44),
    "iliac_femoral_L_I": (6.19, 6.79), "iliac_femoral_L_II": (6.11, 7.44), "iliac_femoral_L_III": (6.67, 6.89),
    "anterior_tibial_R": (8.47, 8.47), "posterior_tibial_R": (7.73, 7.73), "posterior_tibial_L": (7.23, 7.23),
    "anterior_tibial_L": (7.01, 7.01),
}  # fmt: skip
"""Speeds in the silicone tubes at both ends, m/s: Alastruey et al. 2011, doi:10.1016/j.jbiomech.2011.05.041."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_is_sound_tells_its_sources_and_has_no_loop(file, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # its waveform is found from anywhere
    network = sound_network(file)
    assert "doi:" in " ".join(network.sources.values())
    assert loops(network) == 0
    assert for_solver(network).inlets


def test_a_network_is_found_by_its_name(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert find("adan56") == ROOT / "data/networks/adan56.yaml"
    assert len(FILES) == 4


@pytest.mark.parametrize(
    ("name", "segments", "terminals", "resistance_pa_s_m3"),
    [
        ("common-carotid", 1, 1, 2.4875e8 + 1.8697e9),
        ("thoracic-aorta", 1, 1, 1.1752e7 + 1.1167e8),
        ("in-vitro-37", 37, 16, 2.2484e8),
        ("adan56", 77, 31, 1.1891e8),
    ],
)
def test_numbers_and_total_resistance_are_those_published(name, segments, terminals, resistance_pa_s_m3):
    """The resistance to the digits given: five of those of one tube, or of the sum of conductances over all ends."""
    found = summary(sound_network(find(name)))
    assert (found.segments, found.terminals, found.nodes) == (segments, terminals, segments + 1)
    assert found.terminal_resistance_mmhg_s_ml * 133.322387415e6 == pytest.approx(resistance_pa_s_m3, rel=1e-4)


def test_mean_pressures_are_those_of_people():
    """Mean flow times resistance, plus the 3.2 mmHg behind the silicone tubes: 70 to 110 mmHg."""
    for file in FILES:
        network = sound_network(file)
        (inlet,) = for_solver(network).inlets.values()
        back = max(each.distal_pressure_mmhg for each in network.terminals.values())
        mean = inlet.flow_m3_s.mean * 1e6 * summary(network).terminal_resistance_mmhg_s_ml + back
        assert 70 < mean < 110, file.stem


def test_waves_in_the_silicone_tubes_are_as_fast_as_published():
    """From E = 1.2 MPa and a thickness of two digits, 0.1 mm among them: a hundredth of the speed, two at the worst."""
    stated = for_solver(sound_network(find("in-vitro-37")))
    found = np.array(
        [[wave_speed_m_s(each.wall, each.radius_m, 1050, part) for part in (0, 1)] for each in stated.segments]
    )
    expected = np.array([SILICONE_M_S[each.name] for each in stated.segments])
    off = np.abs(found / expected - 1)
    assert off.max() < 0.03
    assert np.median(off) < 0.01


def test_groups_of_adan56_name_each_segment_of_limbs_once():
    network = read_network(find("adan56"))
    limbs = [
        members(network.groups[f"{side}_{limb}"], network) for side in ("left", "right") for limb in ("arm", "leg")
    ]
    assert [len(each) for each in limbs] == [9, 11, 9, 11]
    assert len({name for each in limbs for name in each}) == 40
    assert len(members(network.groups["aorta"], network)) == 15


@pytest.mark.parametrize(
    ("file", "name", "rounding_ml_s"),
    [("cca", "common-carotid", 1e-3), ("uta", "thoracic-aorta", 1e-2), ("adan56", "adan56", 1e-3)],
)
def test_the_converted_file_of_openbf_is_the_shipped_network(file, name, rounding_ml_s, tmp_path):
    """The waveform as it is rounded in its file; all else is the same figures."""
    converted = convert(reference_network(f"openbf/{file}.yaml"), tmp_path / "out.yaml")
    shipped = read_network(find(name))
    for key in ("blood", "segments", "terminals", "defaults"):
        assert getattr(converted, key) == getattr(shipped, key)
    times, flow = read_samples(tmp_path / "out-inlet.csv", "flow_ml_s")
    (inlet,) = shipped.inlets.values()
    shipped_times, shipped_flow = read_samples(ROOT / inlet.flow_waveform, "flow_ml_s")
    np.testing.assert_allclose(times, shipped_times, atol=1e-5)
    np.testing.assert_allclose(flow, shipped_flow, atol=0.51 * rounding_ml_s)


def test_openbf_has_the_same_tubes_in_vitro_but_other_walls(tmp_path, caplog):
    """Its moduli and the thickness of arteries: waves a third faster in the ascending aorta. Its key with a blank is
    told, and ignored as openBF ignores it.
    """
    converted = convert(reference_network("openbf/invitro_model.yaml"), tmp_path / "out.yaml")
    shipped = read_network(find("in-vitro-37"))
    for ours, theirs in zip(shipped.segments.values(), converted.segments.values(), strict=True):
        assert (ours.nodes, ours.length_mm, ours.radius_mm) == (theirs.nodes, theirs.length_mm, theirs.radius_mm)
    read = sound_network(tmp_path / "out.yaml")
    ours, theirs = summary(shipped), summary(read)
    assert ours.terminal_resistance_mmhg_s_ml == pytest.approx(theirs.terminal_resistance_mmhg_s_ml, rel=1e-9)
    speeds = [
        wave_speed_m_s(each.wall, each.radius_m, 1050, 0.0)
        for each in (for_solver(network).segments[0] for network in (shipped, read))
    ]
    assert speeds[1] / speeds[0] == pytest.approx(1.35, abs=0.01)
    assert "the key 'gamma profile' of 37 vessels is none of openBF's" in caplog.text
    assert {converted.walled(name).profile_exponent for name in converted.segments} == {2.0}
