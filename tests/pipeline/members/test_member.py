# SPDX-License-Identifier: Apache-2.0
"""Members of a straight pipe, whose figures Hagen-Poiseuille's law tells; their files; bands of them."""

import logging
from dataclasses import replace

import h5py
import numpy as np
import pytest

from pipeline.case.settings.flow import SolveSettings
from pipeline.case.settings.uncertainty import UncertaintySettings
from pipeline.members.member import Case, MemberInput, computed
from pipeline.stages.uncertainty import maps, uncertainty
from pipeline.uncertainty.coarse_spacing import too_coarse
from pipeline.uncertainty.design import design
from pipeline.uncertainty.member_file import Member
from pipeline.uncertainty.wall_precision import WallPrecision
from solver.runtime.errors import StageError
from tests.support.swept import swept
from tests.support.waveforms import write_waveform

LOG = logging.getLogger("member")
RADIUS, LENGTH, FLOW = 1.0, 3.0, 0.4
SETTINGS = UncertaintySettings(level="quick", members=8, inflow_cv=0.1, viscosity_cv=0.13)


@pytest.fixture(scope="module")
def case() -> Case:
    """A pipe whose members have 10 nodes across, as fine as the case; a third of its wall is taken for a sac."""
    line = np.linspace(0, 1, 13)[:, None] * [0.0, 0.0, LENGTH]
    surface, openings = swept(line, RADIUS, segments=32)
    along = surface.points_mm[np.unique(surface.triangles[surface.opening == 0]), 2]
    sac = np.flatnonzero((along > 1) & (along < 2))
    return Case(surface, openings, 0.2, 9.0, {"bulge": sac}, WallPrecision(0.05, 0.0, 1.0))


def given(**changes) -> MemberInput:
    solve = SolveSettings.model_validate({"inlets": {"inlet": {"flow_ml_s": FLOW}}, "backend": "cpu"})
    return MemberInput(**{"member": 0, "uncertainty": SETTINGS, "solve": solve} | changes)


@pytest.fixture(scope="module")
def members(case) -> list[Member]:
    return [computed(case, given(member=k), LOG) for k in range(9)]


def test_members_change_as_poiseuilles_law_says(case, members):
    """The stress is 4 mu Q / (pi R^3): slopes of its logarithm are -3 sd/R, ln(1 + cv^2)^0.5. On 10 nodes across the
    law of a moving wall holds to a few per cent of itself, so that slopes are compared within 0.03.
    """
    unchanged = members[0]
    exact = 4 * 3.5e-3 * FLOW * 1e-6 / (np.pi * (RADIUS * 1e-3) ** 3)
    assert unchanged.figures["shear_mean"] == pytest.approx(exact, rel=0.1)
    assert unchanged.figures["shear bulge"] == pytest.approx(exact, rel=0.1)
    assert unchanged.figures["volume"] == pytest.approx(case.surface.volume_mm3() / 1000)
    drawn = np.array([each.drawn for each in members[1:]])
    assert [variable["group"] for variable in unchanged.design["variables"]] == ["wall", "inflow", "viscosity"]
    flow, viscosity = (np.sqrt(np.log(1 + cv**2)) for cv in (0.1, 0.13))
    for key, slopes in {
        "volume": (2 * 0.05, 0, 0),
        "flow inlet": (0, flow, 0),
        "shear_mean": (-3 * 0.05, flow, viscosity),
        "shear bulge": (-3 * 0.05, flow, viscosity),
        "drop inlet to outlet": (-4 * 0.05, flow, viscosity),
    }.items():
        changes = np.log([each.figures[key] / unchanged.figures[key] for each in members[1:]])
        assert np.linalg.lstsq(drawn, changes, rcond=None)[0] == pytest.approx(slopes, abs=0.03), key


def test_bands_and_maps_follow_from_the_members(case, members):
    indices = {
        "times": 1,
        "openings": [],
        "peak_speed_m_s": 0.25,
        "pressure_drops": [],
        "wall": {"shear_mean_pa": 0.4, "shear_p99_pa": 0.5, "low_shear_fraction": {"0.4 Pa": 0.5}},
        "sacs": [],
    }
    found = uncertainty(SETTINGS, members, indices, case.surface.volume_mm3())
    assert found["no_bands"] is None
    assert found["sources"] == ["wall", "inflow", "viscosity"]
    bands = {band["key"]: band for band in found["bands"]}
    assert bands["shear_mean"]["crosses"] == 0.4
    assert found["nodes_across"] == 9.0
    assert "members had 9 nodes across" in too_coarse(found["nodes_across"])
    assert too_coarse(9.8) is None
    expected = np.sqrt(0.15**2 + np.log(1.01) + np.log(1 + 0.13**2))
    assert bands["shear_mean"]["deviation"] == pytest.approx(expected, abs=0.04)
    wall = case.surface
    of_wall = np.unique(wall.triangles[wall.opening == 0])
    stress = members[0].arrays["WSS magnitude (Pa)"].astype(float)
    moved = maps(
        wall,
        type(wall)(wall.points_mm[of_wall], wall.triangles[:0], wall.opening[:0]),
        {"WSS magnitude (Pa)": stress},
        members,
    )
    ((name, values),) = moved.items()
    assert name == "WSS magnitude standard deviation (Pa)"
    assert np.median(values / stress) == pytest.approx(expected, abs=0.06)


def test_a_figure_that_nothing_changes_has_no_band(members):
    """The volume of members whose walls stay where they are; the others keep theirs."""
    still = [replace(each, figures=each.figures | {"volume": 0.009}) for each in members]
    found = uncertainty(SETTINGS, still, {"times": 1, **_few()}, 9.0)
    assert {"shear_mean", "peak_speed"} <= {band["key"] for band in found["bands"]}
    assert "volume" not in {band["key"] for band in found["bands"]}


def test_a_member_that_fails_says_why_and_too_few_leave_no_bands(case, members):
    impossible = given(member=1, solve=given().solve.model_copy(update={"max_steps": 5}))
    failed = computed(case, impossible, LOG)
    assert failed.failed
    assert not failed.figures
    found = uncertainty(SETTINGS, [members[0], failed, *members[2:]], {"times": 1, **_few()}, 9.0)
    assert found["failed"] == [{"number": 1, "why": failed.failed}]
    assert found["bands"]
    none = uncertainty(SETTINGS, [members[0], *[failed] * 6, *members[7:]], {"times": 1, **_few()}, 9.0)
    assert "2 of 8 members ended, and 6 are wanted" in none["no_bands"]
    assert none["bands"] == []
    alone = uncertainty(SETTINGS, [failed, *members[1:]], {"times": 1, **_few()}, 9.0)
    assert "could not be computed" in alone["no_bands"]


def test_a_reader_learns_of_what_nothing_is_known(members):
    """Of a wall without an image, and of outlets that hold a pressure; not of what was varied or set to 0."""
    outlets = [{"name": name, "role": role} for name, role in (("a", "inlet"), ("b", "outlet"), ("c", "outlet"))]
    still = replace(
        members[0], design=members[0].design | {"wall": {"whole_mm": 0.0, "rough_mm": 0.0}, "variables": []}
    )

    def missing(first, settings, openings):
        none = replace(first, failed="so that no bands are made")
        return uncertainty(settings, [none], {"times": 1, **_few(), "openings": openings}, 9.0)["not_varied"]

    wall, division = missing(still, SETTINGS, outlets)
    assert "the place of the wall did not vary" in wall
    assert "how the flow divides did not vary by itself" in division
    assert missing(members[0], SETTINGS, outlets) == [division]
    assert missing(still, SETTINGS, outlets[:2]) == [wall]
    known = SETTINGS.model_copy(update={"wall_sd_mm": 0.0, "outlets_cv": 0.0})
    assert missing(still, known, outlets) == []
    shared = [{"group": "outlets", "name": "1"}]
    assert missing(replace(still, design=still.design | {"variables": shared}), SETTINGS, outlets) == [wall]


def test_a_wall_that_would_close_the_narrowest_place_fails_that_member(case):
    """The radius is 0.9 mm by the nodes across; one of eight members lies 0.935 mm further in."""
    wide = replace(case, wall=WallPrecision(1.0, 0.0, 1.0))
    drawn = design(8, 3, SETTINGS.seed)[:, 0]
    failed = computed(wide, given(member=int(np.argmin(drawn)) + 1), LOG)
    assert f"{-drawn.min():.3g} mm further in, and the narrowest place has a radius of 0.9 mm" in failed.failed


def test_the_band_of_a_sac_from_an_image_knows_of_blur(members):
    """An edge of half the parent's radius: blur makes the logarithm of its stress 0.6 times 0.5 too large."""
    sac = {"name": "bulge", "shear_mean_pa": 0.4, "parent_diameter_mm": 2 * RADIUS}
    indices = {"times": 1, **_few(), "sacs": [sac]}
    wall = members[0].design["wall"]
    blurred = replace(members[0], design=members[0].design | {"wall": wall | {"edge_mm": 0.5 * RADIUS}})
    one_of = [
        {band["key"]: band for band in uncertainty(SETTINGS, [first, *members[1:]], indices, 9.0)["bands"]}
        for first in (members[0], blurred)
    ]
    plain, moved = (bands["shear bulge"] for bands in one_of)
    assert (moved["low"], moved["high"]) == pytest.approx((plain["low"] * np.exp(-0.3), plain["high"] * np.exp(-0.3)))
    assert one_of[0]["shear_mean"] == one_of[1]["shear_mean"]


def _few():
    wall = {"shear_mean_pa": 0.4, "shear_p99_pa": 0.5, "low_shear_fraction": {"0.4 Pa": 0.5}}
    return {"openings": [], "peak_speed_m_s": 0.25, "pressure_drops": [], "wall": wall, "sacs": []}


def test_the_file_of_a_member_keeps_all_and_other_files_are_refused(tmp_path, members):
    path = tmp_path / "member.h5"
    members[3].write(path)
    again = Member.read(path)
    assert again.figures == members[3].figures
    assert again.design == members[3].design
    assert np.array_equal(again.drawn, members[3].drawn)
    assert all(np.array_equal(again.arrays[name], values) for name, values in members[3].arrays.items())
    with h5py.File(path, "a") as file:
        file.attrs["format"] = "another"
    with pytest.raises(StageError, match="not the file of a member"):
        Member.read(path)
    path.write_text("no")
    with pytest.raises(StageError, match="not the file of a member"):
        Member.read(path)


@pytest.mark.parametrize("members", [(0, 1), pytest.param((0, 1, 5), marks=pytest.mark.slow)])
def test_a_member_of_a_pulsating_flow_has_its_factor(members, tmp_path):
    """A developed flow is linear: the largest speed, on the axis, is that of the mean, twice the mean speed, and the
    factor times what the pulse adds, which each member beside the first tells. The mean flow stays.
    """
    line = np.linspace(0, 1, 13)[:, None] * [0.0, 0.0, LENGTH]
    pipe = Case(*swept(line, RADIUS, segments=32), 0.2, 9.0, {}, WallPrecision(0.0, 0.0, 1.0))
    times = np.linspace(0, 0.06, 21)
    wave = write_waveform(tmp_path / "wave.csv", times, 1 + 0.4 * np.sin(2 * np.pi * times / 0.06))
    inlet = {"flow_ml_s": FLOW, "waveform": wave}
    solve = SolveSettings.model_validate({"inlets": {"inlet": inlet}, "backend": "cpu", "snapshots": 20})
    alone = UncertaintySettings(level="quick", members=8, inflow_cv=0, viscosity_cv=0, waveform_cv=0.3)
    found = [computed(pipe, given(member=k, uncertainty=alone, solve=solve), LOG) for k in members]
    assert [each.failed for each in found] == [None] * len(members)
    assert [variable["group"] for variable in found[0].design["variables"]] == ["waveform"]
    assert found[1].drawn[0] != 0
    assert all(each.drawn[0] == -found[1].drawn[0] for each in found[2:])
    factors = np.exp(np.sqrt(np.log(1 + 0.3**2)) * np.array([each.drawn[0] for each in found]))
    peaks = np.array([each.figures["peak_speed"] for each in found])
    steady = 2 * FLOW * 1e-6 / (np.pi * (RADIUS * 1e-3) ** 2)
    assert (peaks - steady) / (peaks[0] - steady) == pytest.approx(factors, rel=0.03)  # on 10 nodes across
    flows = [each.figures["flow inlet"] for each in found]
    assert flows == pytest.approx([flows[0]] * len(members), rel=0.01)
