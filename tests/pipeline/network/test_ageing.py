# SPDX-License-Identifier: Apache-2.0
"""Arteries of another age have the pulse wave velocity and the width that were measured at that age."""

import logging
from functools import cache

import numpy as np
import pytest

from pipeline.case.settings.base import parse
from pipeline.case.settings.tree import TreeSettings
from pipeline.haemodynamics.arterial_tree import Tree, tree_indices
from pipeline.haemodynamics.tree_waveforms import waveforms
from pipeline.network.ageing import faster, wider
from pipeline.network.case_network import network_of_case
from pipeline.network.edits import apply
from pipeline.network.for_solver import for_solver
from pipeline.network.network_file import Network, find
from solver.network.cycles import Until, solve_network
from solver.network.last_cycle import SITES
from solver.network.run import Numerics
from solver.runtime.errors import StageError
from tests.pipeline.network.test_edits import TREE, edited, plain, speeds

LAWS = [
    {"youngs_modulus_kpa": 400, "thickness_mm": 0.8},
    {"wave_speed_m_s": [6, 7]},
    {"wall": "olufsen", "olufsen_k1_kpa": 2000, "olufsen_k2_1_mm": -2.25, "olufsen_k3_kpa": 86.5},
    {
        "wall": "elastin-collagen", "youngs_modulus_kpa": 500, "thickness_mm": 0.5, "collagen_modulus_kpa": 3000,
        "collagen_strain": 0.1, "collagen_strain_range": 0.05,
    },
]  # fmt: skip


def aged(to_years: float, name: str = "*", from_years: float = 25, **more) -> dict:
    return {"age": name, "from_years": from_years, "to_years": to_years, **more}


def test_pulses_are_as_much_faster_as_was_measured():
    """The regressions of Avolio et al. (1985) for people of Beijing, cm/s: aorta 9.2 x + 615, arm 4.8 x + 998, leg
    5.6 x + 791; muscular arteries lie between both limbs.
    """
    for young, old in ((25, 65), (20, 80), (70, 30)):
        assert faster(True, young, old) == pytest.approx((9.2 * old + 615) / (9.2 * young + 615), rel=1e-12)
        arm, leg = (4.8 * old + 998) / (4.8 * young + 998), (5.6 * old + 791) / (5.6 * young + 791)
        assert min(arm, leg) < faster(False, young, old) < max(arm, leg)
        assert faster(False, young, old) == pytest.approx((arm + leg) / 2, rel=0.01)


def test_elastic_arteries_widen_as_was_measured():
    """Diameters, mm, by age, of ascending, thoracic, abdominal aorta (Hickson et al. 2010) and common carotid artery
    (Hansen et al. 1995), as Charlton et al. (2019) read them: the mean of straight lines, each over its value at 25
    years. 0.001: WIDER_A_YEAR has three digits.
    """
    ages = [24, 34, 45, 57, 63, 73]
    given = [
        (ages, 10 + 25 / 47 * np.array([35.5, 38.5, 41.75, 42.0, 44.0, 44.5])),
        (ages, 10 + 25 / 108 * np.array([48, 53.5, 58.5, 58, 65, 64.5])),
        (ages, 10 + 25 / 108 * np.array([29.5, 35, 38, 37, 42.5, 44])),
        ([14, 25, 46, 60, 71], np.array([6.9, 7.7, 8.3, 8.2, 9.0])),
    ]
    lines = [np.polyfit(*each, 1) for each in given]
    for age in (35, 55, 75):
        expected = np.mean([np.polyval(line, age) / np.polyval(line, 25) for line in lines])
        assert wider(25, age) == pytest.approx(expected, abs=1e-3)
    assert wider(25, 50) * wider(50, 75) == pytest.approx(wider(25, 75), rel=1e-12)


@pytest.mark.parametrize("wall", LAWS)
def test_each_law_of_the_wall_gets_the_speed_of_the_age(wall):
    """In the middle of each segment, to round-off; those named alone."""
    segments = {
        name: {**segment, **wall} if name in ("trunk", "right") else segment
        for name, segment in TREE["segments"].items()
    }
    before = parse(Network, {**TREE, "segments": segments}, "tree")
    network, (line,) = edited(aged(65), segments=segments)
    elastic = {"trunk", "left"}  # mean radii 5.5 and 3.5 mm; the others have 3 mm at most
    was = speeds(before)
    for name, found in speeds(network).items():
        assert found == pytest.approx(faster(name in elastic, 25, 65) * was[name], rel=1e-9)
    assert line.startswith(
        "*: from 25 to 65 years, 2 elastic segments (pulses 1.44 times as fast, radius times 1.15), 3"
    )


def test_a_cone_has_the_speed_of_the_age_at_its_ends_nearly():
    """Its thickness by the empirical law follows the radius: within 1 %."""
    network, _ = edited(aged(65, "trunk"))
    for part in (0.0, 1.0):
        was, found = speeds(plain(), part)["trunk"], speeds(network, part)["trunk"]
        assert found == pytest.approx(faster(True, 25, 65) * was, rel=0.01)


def test_what_goes_on_from_an_elastic_artery_begins_as_wide():
    growth = wider(25, 65)
    network, _ = edited(aged(65))
    radii = {name: segment.radii_mm for name, segment in network.segments.items()}
    assert radii["trunk"] == pytest.approx((6 * growth, 5 * growth))
    assert radii["left"] == pytest.approx((4 * growth, 3 * growth))
    assert radii["left_a"] == pytest.approx((2 * growth, 2))
    assert radii["right"] == pytest.approx((3 * growth, 3))
    alone, _ = edited(aged(65, "right"))
    assert alone.segments["right"].radii_mm == (3,)
    assert alone.segments["trunk"] == plain().segments["trunk"]


def test_there_and_back_is_the_network_as_it_was():
    """Muscular arteries aside, of which the first begins wider."""
    network, _ = edited(aged(65, "trunk"), aged(25, "trunk", from_years=65))
    assert network.segments["trunk"].radii_mm == pytest.approx(plain().segments["trunk"].radii_mm, rel=1e-12)
    assert speeds(network)["trunk"] == pytest.approx(speeds(plain())["trunk"], rel=1e-9)


def test_what_counts_as_elastic_can_be_chosen():
    network, (line,) = edited(aged(65, elastic_from_mm=5))
    assert line.startswith("*: from 25 to 65 years, 1 elastic segment (")
    assert speeds(network)["left"] == pytest.approx(faster(False, 25, 65) * speeds(plain())["left"], rel=1e-9)


def test_a_stenosis_of_an_elastic_artery_stays_as_narrow_against_it():
    network, _ = edited({"narrow": "trunk", "area_percent": 70, "length_mm": 10}, aged(65))
    part = network.segments["trunk.stenosis"]
    middle = sum(part.radii_mm) / len(part.radii_mm)
    assert (middle / part.stenosis.normal_radius_mm) ** 2 == pytest.approx(0.3, rel=1e-9)


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (aged(95), "edits.0.to_years = 95: input should be less than or equal to 80"),
        (aged(-5), "edits.0.to_years = -5: input should be greater than or equal to 20"),
        (aged(65, from_years=3), "edits.0.from_years = 3: input should be greater than or equal to 20"),
        ({"age": "*", "to_years": 65}, "edits.0.from_years: missing; give it"),
        (aged(65, elastic_from_mm=-1), "edits.0.elastic_from_mm = -1: input should be greater than 0"),
    ],
)
def test_ages_that_were_not_measured_are_refused(edit, expected):
    with pytest.raises(StageError) as caught:
        parse(Network, {**TREE, "edits": [edit]}, "tree")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_that_there_is_not_is_refused():
    edits = parse(Network, {**TREE, "edits": [aged(65, "lft")]}, "tree").edits
    with pytest.raises(StageError, match=r"^tree: edits\.0\.age = 'lft': no segment or group has this name \(did you"):
        apply(plain(), edits, "tree")


@cache
def body(years: int, name: str = "*") -> dict:
    """Indices of ADAN56 at an age, by one line of a case, on 8 mm (a hundredth off those on 4 mm, see docs)."""
    edits = [aged(years, name)] if years != 25 else []
    settings = parse(TreeSettings, {"edits": edits}, "case")
    network, _ = network_of_case(find("adan56"), settings, "case")
    result = solve_network(for_solver(network), Numerics(8e-3, samples=200), Until(3e-3), logging.getLogger(), None)
    found = waveforms(result, [(segment, part) for segment in network.segments for part in SITES])
    return tree_indices(Tree(network, result.network, found), settings.landmarks, 1.0)


def test_central_pulse_pressure_and_augmentation_rise_with_age():
    """From 25 to 65 years, with the same heart: by tenths, far beyond the hundredth by which the spacing matters."""
    ages = [body(years) for years in (25, 45, 65)]
    for key, rise in (("inlet_pulse_mmhg", 5.0), ("augmentation_index_aortic", 0.02), ("pulse_wave_velocity_m_s", 0.5)):
        values = [each[key] for each in ages]
        assert np.diff(values).min() > rise, (key, values)
    assert ages[2]["inlet_mean_mmhg"] == pytest.approx(ages[0]["inlet_mean_mmhg"], rel=0.005)  # resistances stay


def test_the_carotid_femoral_velocity_follows_the_relation():
    """6 %: the way to the groin has 13 cm of muscular arteries, the carotid's own delay is taken off, and the foot of a
    pulse lies at a diastolic pressure that falls with age.
    """
    ratio = body(65)["pulse_wave_velocity_m_s"] / body(25)["pulse_wave_velocity_m_s"]
    assert ratio == pytest.approx(faster(True, 25, 65), rel=0.06)
