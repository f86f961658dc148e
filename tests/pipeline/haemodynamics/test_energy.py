# SPDX-License-Identifier: Apache-2.0
"""The balance of mechanical energy, and the openings' figures that follow from a period: against flows in pipes."""

import csv
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.case.settings.flow import PostprocessSettings
from pipeline.files.table import write_table
from pipeline.haemodynamics.accumulator import Fields
from pipeline.haemodynamics.energy import dissipation_w_m3, kinetic_change_w
from pipeline.haemodynamics.flow_checks import centreline_checks
from pipeline.haemodynamics.index_table import LONG_COLUMNS, OPENING_COLUMNS, long_rows
from pipeline.stages.postprocess import postprocess, write_centreline_profile
from tests.pipeline.haemodynamics.test_sections import branch, straight
from tests.support.analytic_pipe import Pipe
from tests.support.variants import some

DIRECTIONS = [(1, 0, 0), (1, 1, 0), (2, 3, 6), (0.3, -0.8, 0.5)]


def summary(pipe, **numbers):
    density = pipe.density_kg_m3
    return {
        "numbers": {"density_kg_m3": density, "viscosity_m2_s": pipe.viscosity_pa_s / density} | numbers,
        "openings": {"inlet": {"imposed_flow_ml_s": pipe.flow_ml_s}, "outlet": {}},
        "mach": 0.1,
        "converged": True,
        "warnings": [],
    }


def flow_of(pipe, nodes, factor=1.0, level_pa=0.0):
    points = nodes.points_mm()
    return Fields(
        factor * pipe.velocity(points), factor * pipe.pressure(points) + level_pa, factor * pipe.stress(points)
    )


def found(pipe, spacing_mm, factors=(1.0,), level_pa=0.0, edge_mm=0.1, branches=(), record=None, **numbers):
    """Indices and rows of Poiseuille flow, times a factor each time."""
    nodes = pipe.nodes(spacing_mm)
    monitored = {"inlet": pipe.flow_ml_s, "outlet": pipe.flow_ml_s}
    times = [flow_of(pipe, nodes, factor, level_pa) for factor in factors]
    said = summary(pipe, **numbers)
    results = postprocess(nodes, pipe.surface(edge_mm), times, said, monitored, PostprocessSettings(), branches, record)
    return results.indices, results.profile


def friction_w(pipe, spacing_mm):
    """Q dp over the length between the slabs, 3.5 spacings inside both caps."""
    return pipe.flow_ml_s * 1e-6 * pipe.gradient_pa_mm * (pipe.length_mm - 7 * spacing_mm)


@pytest.mark.parametrize(
    "direction", [DIRECTIONS[0], *(pytest.param(each, marks=pytest.mark.slow) for each in DIRECTIONS[1:])]
)
def test_dissipation_in_a_pipe_is_flow_times_pressure_drop(direction):
    """The sum over nodes misses, or doubles, up to half a box along the wall, where friction is twice its mean: 8 % at
    10 nodes across in the worst case, nodes in planes along the wall. With the volume's difference it is within 1 % and
    0.3 % at 10 and at 40; of the latter 0.08 % are the surface's, whose sections are 0.04 % smaller than circles.
    """
    for spacing, tolerance in ((0.4, 1e-2), (0.1, 3e-3)):
        pipe = Pipe(axis=direction)
        energy = found(pipe, spacing)[0]["energy"]
        assert energy["dissipation_w"] == pytest.approx(friction_w(pipe, spacing), rel=tolerance)
        assert abs(energy["unaccounted_fraction"]) < tolerance
        supplied = energy["power_in_w"] - energy["power_out_w"]
        assert supplied == pytest.approx(friction_w(pipe, spacing), rel=tolerance)


@pytest.mark.slow
def test_error_of_the_dissipation_falls_with_the_spacing():
    """Over all directions, faster than the spacing. The pipe's surface lacks 0.17 % of its volume, at the wall, where
    friction is twice its mean: that is no error of the lattice."""
    errors = []
    for spacing in (0.4, 0.1):
        each = []
        for direction in DIRECTIONS:
            pipe = Pipe(axis=direction)
            lacking = 1 - pipe.surface(0.2).volume_mm3() / (np.pi * pipe.radius_mm**2 * pipe.length_mm)
            dissipation = found(pipe, spacing, edge_mm=0.2)[0]["energy"]["dissipation_w"]
            each.append(abs(dissipation / friction_w(pipe, spacing) - (1 - 2 * lacking)))
        errors.append(np.mean(each))
    assert errors[1] < errors[0] / 4


def test_power_through_an_opening_is_that_of_pressure_and_of_motion():
    """Over a parabola int rho u^2/2 u dA = rho U^2 Q: the total pressure is p + rho U^2. The inlet's cap has the whole
    drop before it, and what is counted enters 3.5 spacings further on."""
    pipe, spacing = Pipe(), 0.2
    indices = found(pipe, spacing)[0]
    motion = pipe.density_kg_m3 * pipe.mean_speed_m_s**2
    drop = pipe.gradient_pa_mm * pipe.length_mm
    totals = [opening["total_pressure_pa"] for opening in indices["openings"]]
    # the slab's nodes miss 0.1 % of the flow, and so may miss thrice of its cube
    assert totals == pytest.approx([drop + motion, motion], rel=3e-3)
    inner = pipe.gradient_pa_mm * (pipe.length_mm - 7 * spacing)
    assert indices["energy"]["power_in_w"] == pytest.approx((inner + motion) * pipe.flow_ml_s * 1e-6, rel=3e-3)
    assert indices["energy"]["power_out_w"] == pytest.approx(motion * pipe.flow_ml_s * 1e-6, rel=3e-3)


def test_the_level_of_the_pressure_is_no_power():
    """At 100 mmHg, 2000 times the drop, the flow's imbalance of 1e-4 would be a fifth of the power."""
    pipe = Pipe()
    low, high = (found(pipe, 0.2, level_pa=level)[0]["energy"] for level in (0.0, 13_332.2))
    assert high["pressure_level_pa"] - low["pressure_level_pa"] == pytest.approx(13_332.2)
    for key in ("power_in_w", "power_out_w", "dissipation_w"):
        assert high[key] == pytest.approx(low[key], rel=1e-6)
    assert high["unaccounted_fraction"] == pytest.approx(low["unaccounted_fraction"], abs=1e-6)


def test_means_over_times_are_those_of_powers():
    """Dissipation grows with the square of the flow, and so does the power of the pressure; those of the kinetic energy
    grow with the cube, which is odd."""
    pipe, factors = Pipe(), np.array([0.5, 2.0, -1.0])
    one, several = (found(pipe, 0.4, each)[0]["energy"] for each in ((1.0,), factors))
    assert several["dissipation_w"] == pytest.approx(np.mean(factors**2) * one["dissipation_w"], rel=1e-9)
    assert several["unaccounted_w"] == pytest.approx(
        several["power_in_w"] - several["power_out_w"] - several["dissipation_w"]
    )


def test_what_drives_the_flow_beside_the_openings_leaves_nothing_to_tell():
    pipe = Pipe()
    nodes = pipe.nodes(0.4)
    said = summary(pipe) | {"models": {"patches": {"lid": "moves"}}}
    monitored = {"inlet": 1.0, "outlet": 1.0}
    indices = postprocess(
        nodes, pipe.surface(0.2), [flow_of(pipe, nodes)], said, monitored, PostprocessSettings()
    ).indices
    assert indices["energy"]["unaccounted_w"] is None
    assert indices["energy"]["unaccounted_fraction"] is None


def test_dissipation_of_simple_shear():
    """sigma_xy = mu g: Phi = mu g^2; pure strain, sigma = 2 mu diag(e, -e, 0): Phi = 4 mu e^2."""
    shear, strain = [0, 0, 0, 3.5e-3 * 100, 0, 0], [2 * 3.5e-3 * 10, -2 * 3.5e-3 * 10, 0, 0, 0, 0]
    power = dissipation_w_m3(np.array([shear, strain]), 3.5e-3)
    np.testing.assert_allclose(power, [3.5e-3 * 100**2, 4 * 3.5e-3 * 10**2])
    twice = dissipation_w_m3(np.array([shear, shear]), np.array([3.5e-3, 7e-3]))
    assert twice[1] == pytest.approx(twice[0] / 2)


def test_kinetic_energy_changes_from_period_to_period_or_row_to_row():
    time = np.arange(1, 41) / 20
    record = {"time_s": time, "kinetic_energy_j": np.sin(2 * np.pi * time) + 0.3 * time}
    assert kinetic_change_w(record, 1.0) == pytest.approx(0.3)
    rise = np.sin(2 * np.pi * 0.05) * 20 + 0.3
    assert kinetic_change_w(record, None) == pytest.approx(rise)
    assert kinetic_change_w({}, 1.0) == 0.0
    assert kinetic_change_w({key: values[:1] for key, values in record.items()}, None) == 0.0


PERIOD_S = 0.8


def record_of(pipe):
    """Two periods of the solver's record: in the last the flow is 1 +- 2, in the one before 1 +- 5."""
    time = np.arange(1, 81) / 40 * PERIOD_S
    oscillatory = np.where(time > PERIOD_S, 2.0, 5.0) * np.sin(2 * np.pi * time / PERIOD_S)
    flow, pressure = pipe.flow_ml_s * (1 + oscillatory), 100 + 10 * oscillatory
    return {
        "time_s": time,
        "mach": np.linspace(0.02, 0.12, 80),
        "kinetic_energy_j": 1 + 0 * time,
        "flow_ml_s:inlet": flow,
        "flow_ml_s:outlet": flow,
        "pressure_pa:inlet": pressure,
        "pressure_pa:outlet": pressure - 10,
    }


def test_a_period_gives_womersley_number_ranges_and_peak_reynolds_number():
    pipe = Pipe()
    indices = found(pipe, 0.4, (0.5, 1.5), record=record_of(pipe), period_s=PERIOD_S)[0]
    inlet, outlet = indices["openings"]
    alpha = 2e-3 * np.sqrt(2 * np.pi / PERIOD_S * pipe.density_kg_m3 / pipe.viscosity_pa_s)
    assert inlet["womersley"] == pytest.approx(alpha, rel=1e-9)
    assert (inlet["flow_min_ml_s"], inlet["flow_max_ml_s"]) == pytest.approx((-pipe.flow_ml_s, 3 * pipe.flow_ml_s))
    assert (outlet["pressure_min_pa"], outlet["pressure_max_pa"]) == pytest.approx((70.0, 110.0))
    reynolds = 4e-3 * pipe.mean_speed_m_s * pipe.density_kg_m3 / pipe.viscosity_pa_s
    assert inlet["reynolds_peak"] == pytest.approx(3 * reynolds)
    assert inlet["reynolds"] == pytest.approx(reynolds, rel=5e-3)  # of the mean, as the nodes have it
    assert indices["mach_max"] == 0.12
    assert indices["energy"]["kinetic_energy_change_w"] == 0.0


def test_a_steady_flow_has_no_womersley_number_and_no_range():
    pipe = Pipe()
    indices = found(pipe, 0.4, record=record_of(pipe))[0]
    for opening in indices["openings"]:
        assert opening["womersley"] is None
        assert opening["flow_min_ml_s"] == opening["flow_max_ml_s"] == opening["flow_ml_s"]
        assert opening["pressure_min_pa"] == opening["pressure_max_pa"] == opening["pressure_pa"]
        assert opening["reynolds_peak"] == pytest.approx(opening["reynolds"])
        assert opening["flow_share"] == 1.0


def test_blood_that_is_thicker_at_the_openings_lowers_their_numbers():
    """Four times the viscosity there: a quarter of the Reynolds number, half of the Womersley number."""
    pipe = Pipe()
    nodes = pipe.nodes(0.4)
    monitored, said = {"inlet": 1.0, "outlet": 1.0}, summary(pipe, period_s=PERIOD_S)
    thin, thick = (
        postprocess(
            nodes,
            pipe.surface(0.2),
            [replace(flow_of(pipe, nodes), viscosity_pa_s=viscosity)],
            said,
            monitored,
            PostprocessSettings(),
            record=record_of(pipe),
        ).indices["openings"][0]
        for viscosity in (None, np.full(nodes.count, 4 * pipe.viscosity_pa_s))
    )
    for key, factor in (("reynolds", 4), ("reynolds_peak", 4), ("womersley", 2), ("flow_ml_s", 1)):
        assert factor * thick[key] == pytest.approx(thin[key], rel=1e-9)


LEVELS = [(0.0, False), (19.9, False), (20.1, True), (90.0, True)]


@pytest.mark.parametrize(
    ("level_mmhg", "reported"),
    some(LEVELS, (19.9, False), (20.1, True)),
)
def test_a_ratio_of_pressures_is_reported_at_pressures_of_arteries_only(level_mmhg, reported):
    """The level is the outlet's; at 0, the default, the ratio would be 0 whatever the vessel."""
    pipe = Pipe()
    indices = found(pipe, 0.4, level_pa=level_mmhg * 133.322387415)[0]
    ratio, note = indices["pressure_drops"][0]["pressure_ratio"], indices["pressure_ratio_note"]
    if reported:
        level = level_mmhg * 133.322387415
        assert ratio == pytest.approx(level / (level + pipe.gradient_pa_mm * pipe.length_mm), rel=1e-6)
        assert "not a measured fractional flow reserve" in note
    else:
        assert ratio is None
        assert "less than the 20 mmHg" in note


def test_the_narrowest_place_of_the_centreline_needs_nodes_and_a_leak_along_it_is_a_warning():
    pipe = Pipe()
    thin = straight(pipe)
    thin.radius_mm[20] = 1.8  # 9 nodes across, where the openings have 10
    checks = {check["name"]: check for check in found(pipe, 0.4, branches=(thin,))[0]["checks"]}
    assert checks["nodes across"]["state"] == "reservation"
    assert checks["nodes across the narrowest place"]["value"] == pytest.approx(9)
    assert checks["nodes across the narrowest place"]["state"] == "unusable"
    assert checks["flow along the centreline"]["passed"]
    nodes = pipe.nodes(0.4)
    fields = flow_of(pipe, nodes)
    leaking = replace(
        fields, velocity_m_s=fields.velocity_m_s * (1 - 0.01 * (nodes.points_mm() @ pipe.frame()[2]))[:, None]
    )
    monitored = {"inlet": pipe.flow_ml_s, "outlet": pipe.flow_ml_s}
    indices = postprocess(
        nodes, pipe.surface(0.2), [leaking], summary(pipe), monitored, PostprocessSettings(), (straight(pipe),)
    ).indices
    checks = {check["name"]: check for check in indices["checks"]}
    assert not checks["flow along the centreline"]["passed"]
    assert checks["flow along the centreline"]["value"] == pytest.approx(0.04, abs=0.008)  # 1 %/mm, 4 mm to both sides
    assert "along branch 1" in " ".join(indices["warnings"])


def test_without_a_centreline_there_is_nothing_along_it_and_its_checks_are_left_out():
    indices, rows = found(Pipe(), 0.4)
    assert (indices["centreline"], indices["stenoses"], rows) == ([], [], [])
    assert not [check for check in indices["checks"] if "centreline" in check["name"] or "narrowest" in check["name"]]


def read(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_tables_say_what_the_indices_say(tmp_path):
    """Numbers to six digits; what has no value is empty; every number of indices.json but places is in the long one."""
    pipe = Pipe()
    blind = branch(2, straight(pipe).points_mm[:5], 2.0, own=np.zeros(5, bool), leads=False)
    indices, rows = found(pipe, 0.4, branches=(straight(pipe), blind))
    assert [tuple(opening) for opening in indices["openings"]] == [OPENING_COLUMNS] * 2
    write_table(tmp_path / "openings.csv", OPENING_COLUMNS, indices["openings"])
    for reported, opening in zip(read(tmp_path / "openings.csv"), indices["openings"], strict=True):
        assert reported.keys() == opening.keys()
        for key, value in opening.items():
            if isinstance(value, float):
                assert float(reported[key]) == pytest.approx(value, rel=1e-5)
            else:
                assert reported[key] == ("" if value is None else str(value))
    write_table(tmp_path / "indices.csv", LONG_COLUMNS, long_rows(indices))
    long = {(row["quantity"], row["name"]): row for row in read(tmp_path / "indices.csv")}
    assert len(long) == len(long_rows(indices))  # no two of a name
    for quantity, name, value, unit in (
        ("openings.flow_ml_s", "outlet", indices["openings"][1]["flow_ml_s"], "mL/s"),
        ("wall.shear_mean_pa", "", indices["wall"]["shear_mean_pa"], "Pa"),
        ("energy.dissipation_w", "", indices["energy"]["dissipation_w"], "W"),
        ("centreline.min_area_mm2", "branch 1", indices["centreline"][0]["min_area_mm2"], "mm2"),
        ("pressure_drops.drop_mmhg", "inlet to outlet", indices["pressure_drops"][0]["drop_mmhg"], "mmHg"),
        ("checks.passed", "converged", 1.0, ""),
        ("peak_speed_m_s", "", indices["peak_speed_m_s"], "m/s"),
    ):
        assert float(long[quantity, name]["value"]) == pytest.approx(value, rel=1e-5)
        assert long[quantity, name]["unit"] == unit
    assert ("openings.womersley", "inlet") not in long
    write_table(tmp_path / "along.csv", tuple(rows[0]), rows)
    reported = read(tmp_path / "along.csv")
    assert len(reported) == len(rows)
    assert {row["osi_mean"] for row in reported} == {""}  # of a steady flow


def test_an_empty_table_is_a_header_and_empty_lines_a_file(tmp_path):
    write_table(tmp_path / "none.csv", ("a", "b"), [])
    assert (tmp_path / "none.csv").read_text() == "a,b\n"
    write_table(tmp_path / "one.csv", ("a", "b", "c", "d"), [{"a": np.nan, "b": None, "c": True, "d": "x,y"}])
    assert (tmp_path / "one.csv").read_text() == 'a,b,c,d\n,,true,"x,y"\n'
    write_centreline_profile([], tmp_path / "none.vtp")
    assert b'NumberOfPoints="0"' in (tmp_path / "none.vtp").read_bytes()


@pytest.mark.parametrize(("flow_ml_s", "judged"), [(0.019, False), (-0.021, True)])
def test_a_branch_that_carries_next_to_nothing_is_not_judged(flow_ml_s, judged):
    """2 % of the largest flow decide."""

    def with_radius(number: int, radius_mm: float) -> SimpleNamespace:
        return SimpleNamespace(id=number, leads=True, radius_mm=np.array([radius_mm]), narrowest=0)

    rows = [
        {"branch": number, "flow_ml_s": flow, "flow_deviation": deviation, "sections": 9}
        for number, flow, deviation in ((1, 1.0, 0.001), (2, flow_ml_s, 0.3))
    ]
    along = SimpleNamespace(branches=[with_radius(1, 1.0), with_radius(2, 0.3)])
    checks = {c["name"]: c for c in centreline_checks(SimpleNamespace(spacing_mm=0.1), along, rows)}
    assert checks["nodes across the narrowest place"]["value"] == pytest.approx(6 if judged else 20)
    assert checks["flow along the centreline"]["passed"] != judged
