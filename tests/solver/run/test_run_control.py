# SPDX-License-Identifier: Apache-2.0
"""What a run decides by itself: when it has repeated, what it keeps of which cycle, and the time step it takes."""

import json
import logging
from types import SimpleNamespace

import numpy as np
import pytest

from solver.domain.sections import find_sections
from solver.run.flow_file import FlowStatistics, read_flow, steady_statistics
from solver.run.plan import make_plan
from solver.run.settings import BloodSettings, InletSettings
from solver.run.solve import solve
from solver.run.summary import measured_drop_error, measured_notes, that_hold
from solver.run.units import EXPECTED_DRHO, MAX_DRHO
from tests.solver.run.test_simulation import DENSITY, VISCOSITY, pipe_case, settings
from tests.support.geometries import bifurcation, pipe, stenosis
from tests.support.waveforms import write_waveform

LOG = logging.getLogger("test_run_control")


def pulsatile(folder, **changes):
    """A short pipe under a wave of 0.5 s, run; summary, flow and the monitor's columns."""
    times = np.linspace(0, 0.5, 41)
    flow = 0.06 + 0.03 * np.sin(4 * np.pi * times)
    wave = write_waveform(folder / "wave.csv", times, flow)
    wanted = settings(inlets={"*": InletSettings(None, wave, "parabolic")}, cycles=6, **changes)
    summary = solve(pipe((0, 0, 1), 4.2, 10, spacing_mm=0.3), wanted, folder / "f.vtkhdf", folder / "m.csv", LOG)
    header, *rows = (folder / "m.csv").read_text().splitlines()
    columns = dict(zip(header.split(","), np.array([row.split(",") for row in rows], float).T, strict=True))
    return summary, read_flow(folder / "f.vtkhdf"), columns


@pytest.fixture(scope="module")
def repeated(tmp_path_factory):
    return pulsatile(tmp_path_factory.mktemp("wave"), phases=[0.25, 0.75, 1.0])


def test_periodic_run_stops_when_it_has_repeated(repeated):
    summary, _, columns = repeated
    json.dumps(summary, allow_nan=False)
    assert summary["converged"]
    assert summary["cycles"] == 3  # as many as asked for at least: the ramp is over in the first
    assert max(summary["periodicity"].values()) < 0.01
    compared = np.isfinite(columns["change"])
    np.testing.assert_allclose(columns["time_s"][compared], [0.625, 1.125], atol=0.0026)  # where most flows in
    last = len(columns["time_s"]) - 200
    assert last == 400
    span = np.ptp(columns["pressure_pa:in"][last:])
    worst = np.abs(columns["pressure_pa:in"][last:] - columns["pressure_pa:in"][last - 200 : last]).max() / span
    assert summary["periodicity"]["pressure"] == pytest.approx(worst, abs=1e-7)  # the file holds nine digits


def test_snapshots_and_means_belong_to_the_last_cycle(repeated):
    """The mean over a cycle, of 100 states, is that of the monitor's 200 rows: 1e-4 is single precision's share. The
    latter is that on the cap, Poiseuille's gradient times the depth of the nodes above theirs.
    """
    _, flow, columns = repeated
    np.testing.assert_allclose(flow.times_s, [1.125, 1.375, 1.5], atol=1e-3)
    nodes = pipe((0, 0, 1), 4.2, 10, spacing_mm=0.3)
    at_inlet = nodes.opening == 1
    mean_pa = columns["pressure_pa:in"][-200:].mean()
    gradient_pa_m = 8 * VISCOSITY * 0.06e-6 / (np.pi * (4.2 * 0.3e-3) ** 4)
    to_cap_pa = mean_pa - flow.pressure_mean_pa()[at_inlet].mean()
    inlet = nodes.openings[0]
    depth_mm = float(((np.array(inlet.centre_mm) - nodes.points_mm()[at_inlet]) @ inlet.normal).mean())
    assert to_cap_pa == pytest.approx(gradient_pa_m * depth_mm * 1e-3, rel=0.03, abs=1e-4 * mean_pa)
    middle = nodes.position[:, 2] == nodes.position[:, 2].max() // 2
    through = flow.velocity_mean_m_s()[middle, 2].sum() * 0.3e-3**2 * 1e6
    assert through == pytest.approx(0.06, rel=0.015)  # the rest flows between the last nodes and the wall
    oscillatory = [flow.velocity_m_s(k)[middle, 2].sum() / flow.velocity_mean_m_s()[middle, 2].sum() for k in range(3)]
    np.testing.assert_allclose(oscillatory, [1.0 + 0.5, 1.0 - 0.5, 1.0], atol=0.02)


def test_phase_averages_are_those_of_the_cycles_after_the_first(repeated, tmp_path):
    """A flow that repeats has phases equal to its snapshots: as near as its cycles are to each other."""
    summary, flow, _ = pulsatile(tmp_path, phases=[0.25, 0.75, 1.0], phase_averages=True)
    assert summary["cycles"] == 3
    speed = np.abs(repeated[1].velocity_mean_m_s()).max()
    for k in range(3):
        np.testing.assert_allclose(flow.velocity_m_s(k), repeated[1].velocity_m_s(k), rtol=0, atol=0.01 * speed)
    np.testing.assert_allclose(flow.times_s, repeated[1].times_s)
    np.testing.assert_allclose(flow.velocity_mean_m_s(), repeated[1].velocity_mean_m_s(), rtol=0, atol=0.01 * speed)


def of_snapshot(flow, step):
    viscosity = flow.viscosity_pa_s(step)
    viscosity = VISCOSITY if viscosity is None else viscosity
    return steady_statistics(flow.velocity_m_s(step), flow.viscous_stress_pa(step), viscosity, DENSITY)


def test_statistics_are_those_of_the_states_of_the_last_cycle(tmp_path):
    """Of 100 states, each of which is a snapshot here, to single precision: 100 roundings of 6e-8 of the largest."""
    _, flow, _ = pulsatile(tmp_path, phases=[k / 100 for k in range(1, 101)])
    assert len(flow.times_s) == 100
    each = [of_snapshot(flow, k) for k in range(100)]
    peaks = np.max([found.speed_peak_m_s for found in each], axis=0)
    np.testing.assert_allclose(flow.speed_peak_m_s(), peaks, rtol=1e-6)
    for name in FlowStatistics._fields[1:]:
        values = np.array([getattr(found, name) for found in each], float)
        np.testing.assert_allclose(getattr(flow, name)(), values.mean(axis=0), rtol=0, atol=1e-5 * values.max())


@pytest.mark.slow
def test_statistics_of_a_steady_run_take_the_viscosity_of_each_node(tmp_path):
    """Those of the last state where no mean was begun; with mu of the file, to single precision."""
    nodes, wanted, _ = pipe_case((0, 0, 1), 20, 4.2, 12, max_steps=60, blood=BloodSettings("carreau-yasuda"))
    solve(nodes, wanted, tmp_path / "flow.vtkhdf", tmp_path / "monitor.csv", LOG)
    flow = read_flow(tmp_path / "flow.vtkhdf")
    assert np.ptp(flow.viscosity_mean_pa_s()) > 0.1 * flow.viscosity_mean_pa_s().min()
    for found, wanted in zip(FlowStatistics._fields, of_snapshot(flow, -1), strict=True):
        np.testing.assert_allclose(getattr(flow, found)(), wanted, rtol=0, atol=1e-6 * wanted.max())


@pytest.mark.slow
def test_run_that_repeats_less_well_than_asked_is_a_mean_over_cycles(tmp_path):
    """Cycles of single precision always differ by more than 1e-9 of the velocity: five or six show it, as
    rounding has it, and six give the mean.
    """
    summary, _, _ = pulsatile(tmp_path, periodic_tolerance=1e-9)
    assert summary["converged"]
    assert summary["cycles"] in (11, 12)
    assert "no cycle is like the one before; phases are means over 6 cycles" in summary["unsteady"]
    assert summary["fluctuation"]["velocity_rms"] < 1e-3


def test_steady_run_that_does_not_settle_leaves_a_mean(tmp_path):
    nodes, wanted, _ = pipe_case((0, 0, 1), 20, 4.2, 12, max_steps=2000, steady_tolerance=1e-12)
    summary = solve(nodes, wanted, tmp_path / "flow.vtkhdf", tmp_path / "monitor.csv", LOG)
    flow = read_flow(tmp_path / "flow.vtkhdf")
    assert not summary["converged"]
    away = np.abs(flow.velocity_mean_m_s() - flow.velocity_m_s(-1)).max() / np.abs(flow.velocity_m_s(-1)).max()
    assert 0 < away < 0.01  # the last tenth of the run, not its last state
    settled = of_snapshot(flow, -1)
    for name in FlowStatistics._fields:
        far = np.abs(getattr(flow, name)() - getattr(settled, name)).max() / getattr(settled, name).max()
        assert 0 < far < 0.02  # as of the mean, of squares twice as much


@pytest.mark.parametrize("direction", [(0, 0, 1), (1, 1, 0), (1, 2, 3)])
def test_sections_of_a_pipe_are_its_own(direction):
    """Area, of 55 nodes, within 6 %; the wall that its nodes see is 5 % too small, which friction shows twice."""
    nodes = pipe(direction, 4.2, 40, spacing_mm=0.2)
    sections, flow = find_sections(nodes), 1e-6
    radius, length, out = 4.2 * 0.2e-3, 40 * 0.2e-3, {0: -flow, 1: flow}
    area = np.pi * radius**2
    assert sections.speed_m_s(out) == pytest.approx(flow / area, rel=0.06)
    friction = 8 * VISCOSITY * flow * length / (area * radius**2)
    assert sections.friction_pa(out, VISCOSITY) == pytest.approx(friction, rel=0.25)
    assert sections.inertia_pa(out, DENSITY) == pytest.approx(DENSITY * flow * length / area, rel=0.15)
    np.testing.assert_allclose(sections.through[sections.whole], [[0, 1]] * sections.whole.sum(), atol=1e-12)


def test_time_step_knows_a_stenosis():
    """A quarter of the area means four times the speed; planes of two spacings blur the throat by 10 % at most."""
    nodes = stenosis((1, 2, 3), 8.4, 20, 16, 24, spacing_mm=0.2)
    flow = 1e-6
    mean_m_s = flow / (nodes.openings[0].area_mm2 * 1e-6)
    assert find_sections(nodes).speed_m_s({0: -flow, 1: flow}) == pytest.approx(4 * mean_m_s, rel=0.1)
    plan = make_plan(nodes, settings(inlets={"in": InletSettings(1e6 * flow, None, "parabolic")}))
    assert plan.numbers["expected_peak_speed_m_s"] == pytest.approx(8 * mean_m_s, rel=0.1)
    assert plan.numbers["nodes_across_narrowest_section"] == pytest.approx(8.4, rel=0.05)


def test_flow_in_the_branches_of_a_fork_is_known():
    nodes = bifurcation(6.0, ((5.0, 35.0), (4.0, -45.0)), 7.0, np.eye(3), 0.2)
    sections = find_sections(nodes)
    both = np.array([1.0, 0.3, 0.7])[None, :] * sections.through[sections.whole]
    carried = both[:, 1:].sum(axis=1)
    for wanted in (1.0, 0.3, 0.7):
        assert np.isclose(carried, wanted).sum() > 3  # sections of the parent and of each daughter
    assert np.isclose(carried[:, None], (0.0, 0.3, 0.7, 1.0)).any(axis=1).all()


@pytest.mark.parametrize(
    ("reynolds", "message"),
    [(30, None), (200, "grid Reynolds number 48, 8 nodes across: pressure drops by friction may be up to about 23%")],
)
def test_fast_flow_is_reported_how_far_off_its_pressure_drop_may_be(reynolds, message):
    """Peak speed over 8.4 nodes across: the grid Reynolds number is 2 Re/8.4."""
    nodes, wanted, _ = pipe_case((0, 0, 1), reynolds, 4.2, 40)
    notes = [note for note in make_plan(nodes, wanted).notes if note.startswith("grid Reynolds number")]
    assert [note.startswith(message or "") for note in notes] == ([True] if message else [])


@pytest.mark.parametrize(("part", "message"), [(0.1, None), (0.5, "grid Reynolds number 24"), (4.0, "number 190")])
def test_what_was_foreseen_gives_way_to_what_the_run_measured(part, message):
    """Speeds of a part of those expected: notes and warnings name the number that was reached, or are gone."""
    nodes, wanted, _ = pipe_case((0, 0, 1), 200, 4.2, 40, max_steps=100)
    plan = make_plan(nodes, wanted)
    foreseen = [text for text in plan.notes + plan.warnings if "grid Reynolds number 48" in text]
    foreseen += [text for text in plan.warnings if "steps are expected" in text]
    assert len(foreseen) == 2
    assert not set(foreseen) & {*that_hold(plan.notes, plan), *that_hold(plan.warnings, plan)}
    row = SimpleNamespace(max_speed_m_s=part * plan.numbers["expected_peak_speed_m_s"])
    ended = SimpleNamespace(plan=plan, counted_rows=[row])
    assert [message in note for note in measured_notes(ended)] == ([True] if message else [])
    error = pytest.approx(48 * part * 0.002 * (13 / 8.4) ** 2, rel=0.04)
    assert measured_drop_error(ended) == (error if message else None)


@pytest.mark.parametrize(("reynolds", "diameters"), [(1, 15), (2, 10), (5, 15)])
def test_long_slow_pipe_gets_a_time_step_that_its_pressure_lets_run(reynolds, diameters):
    nodes, wanted, mean_m_s = pipe_case((0, 0, 1), reynolds, 4.2, 8.4 * diameters)
    plan = make_plan(nodes, wanted)
    radius_m = 4.2 * 0.2e-3
    along_pa = 8 * VISCOSITY * mean_m_s * 2 * radius_m * diameters / radius_m**2
    assert along_pa / plan.units.pressure_pa < MAX_DRHO
    assert plan.numbers["expected_drho"] == pytest.approx(EXPECTED_DRHO)
    assert any(f"change the density by at most {EXPECTED_DRHO}" in note for note in plan.notes)
    assert not plan.warnings


@pytest.mark.slow
@pytest.mark.parametrize(("reynolds", "diameters"), [(1, 6), (1, 15), (5, 15)])
def test_long_slow_pipe_runs(reynolds, diameters, tmp_path):
    nodes, wanted, _ = pipe_case((1, 2, 3), reynolds, 4.2, 8.4 * diameters)
    summary = solve(nodes, wanted, tmp_path / "flow.vtkhdf", tmp_path / "monitor.csv", LOG)
    assert summary["converged"]
    assert summary["max_drho"] < MAX_DRHO
    assert not summary["warnings"]
