# SPDX-License-Identifier: Apache-2.0
"""The whole solver: in place against two lattices, a pipe against Hagen-Poiseuille, waveforms, stops and refusals."""

import json
import logging
import os
import subprocess
import sys
from dataclasses import fields, replace

import numba
import numpy as np
import pytest

from solver.backends.cpu.cpu_driver import CpuDriver
from solver.backends.lattice import build_lattice
from solver.boundary.walls import WALLS
from solver.domain import nodes as node_arrays
from solver.kernels.collision import ON_D3Q19, relaxation_rates
from solver.run.flow_file import read_flow
from solver.run.plan import make_plan
from solver.run.settings import (
    BloodSettings,
    InletSettings,
    OutletSettings,
    PatchSettings,
    SolveSettings,
    WindkesselSettings,
    parse,
)
from solver.run.solve import solve
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.support.command_lines import run_here
from tests.support.geometries import numbers, observe, pipe, random_cavern
from tests.support.naive import Naive
from tests.support.solve_settings import DENSITY, VISCOSITY, settings

LOG = logging.getLogger("test")


# Each collision is compiled; test_drivers.py has all of them against the textbook, interpreted.
@pytest.mark.parametrize("walls", WALLS)
@pytest.mark.parametrize(
    "collision", [pytest.param(name, marks=() if name == "trt" else pytest.mark.slow) for name in ON_D3Q19]
)
def test_in_place_streaming_is_two_lattice_streaming(collision, walls):
    nodes, rng = random_cavern((7, 6, 5), 3), np.random.default_rng(0)
    force, rates, steps = (1e-5, 2e-5, -1e-5), relaxation_rates(0.7, 0.1), 30
    lattice = build_lattice(nodes, collision, rates, walls, "fp64", force=force)
    driver, naive = CpuDriver(lattice), Naive(nodes, collision, rates, walls, lattice.inlets.weight, np.array(force))
    naive.g[:] = 1e-3 * rng.standard_normal(naive.g.shape)
    g = driver.populations.reshape(19, -1)[:, : nodes.count]
    g[:] = naive.g
    boundary_values = (
        1e-3 * rng.random((steps, 3)) * (10, 1, -1)
    )  # outlets that draw and push: both sides of the backflow rule
    driver.advance(boundary_values)
    for row in boundary_values:
        naive.step(row)
    np.testing.assert_allclose(g, naive.g, rtol=0, atol=1e-13 * np.abs(naive.g).max())


def test_result_does_not_depend_on_the_number_of_threads():
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("one core")
    nodes = pipe((1, 2, 3), 8.2, 60)  # several chunks
    states = []
    for threads in (1, 2):
        numba.set_num_threads(threads)
        driver = CpuDriver(build_lattice(nodes, "trt", relaxation_rates(0.7, 0.1)))
        driver.advance(np.tile((0.5, 0.0), (40, 1)))
        states.append((driver.populations.copy(), numbers(observe(driver, False))))
    assert np.array_equal(states[0][0], states[1][0])
    assert np.array_equal(states[0][1], states[1][1])


def pipe_case(direction, reynolds, radius, length, **changes):
    """A pipe of 0.2 mm spacing, settings for a Reynolds number, and the mean speed."""
    nodes = pipe(direction, radius, length, spacing_mm=0.2)
    radius_m = radius * 0.2e-3
    mean_m_s = reynolds * VISCOSITY / DENSITY / (2 * radius_m)
    flow_ml_s = mean_m_s * np.pi * radius_m**2 * 1e6
    return nodes, settings(inlets={"in": InletSettings(flow_ml_s, None, "parabolic")}, **changes), mean_m_s


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    return solve_pipe((1, 2, 3), tmp_path_factory.mktemp("pipe"))


def solve_pipe(direction, folder):
    nodes, wanted, mean_m_s = pipe_case(direction, 30, 10.4, 83.2)
    summary = solve(nodes, wanted, folder / "flow.vtkhdf", folder / "monitor.csv", LOG)
    return nodes, wanted, mean_m_s, summary, folder


def places(nodes, points_mm):
    """Of points in a pipe, mm along it, vectors from its axis, and which of them lie in its middle."""
    axis = np.array(nodes.openings[1].normal)
    offset = points_mm - np.array(nodes.openings[0].centre_mm)
    along = offset @ axis
    return along, offset - np.outer(along, axis), (along > 0.4 * along.max()) & (along < 0.9 * along.max())


def check_pipe(nodes, wanted, mean_m_s, summary, folder):
    """Flow within 0.3 %, pressure gradient within 1 %, velocity and shear stress near Hagen-Poiseuille's."""
    assert summary["converged"]
    assert not summary["warnings"]
    for entry in summary["openings"].values():
        assert entry["flow_ml_s"] == pytest.approx(wanted.inlets["in"].flow_ml_s, rel=3e-3)
    assert abs(summary["mass_balance"]) < 1e-3
    flow = read_flow(folder / "flow.vtkhdf")
    axis, radius = np.array(nodes.openings[1].normal), nodes.openings[0].radius_mm
    along, across, middle = places(nodes, flow.points_mm)
    r = np.linalg.norm(across, axis=1) / radius
    gradient = np.polyfit(along[middle] * 1e-3, flow.pressure_pa(-1)[middle], 1)[0]
    assert -gradient == pytest.approx(8 * VISCOSITY * mean_m_s / (radius * 1e-3) ** 2, rel=1e-2)
    speed = flow.velocity_m_s(-1) @ axis
    np.testing.assert_allclose(speed[middle], 2 * mean_m_s * (1 - r[middle] ** 2), atol=0.02 * mean_m_s)
    xx, yy, zz, xy, yz, xz = flow.viscous_stress_pa(-1).T
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    on_wall = -np.einsum("abn,nb,a->n", tensor, across / (r * radius)[:, None], axis)
    shear = 4 * VISCOSITY * mean_m_s / (radius * 1e-3) * r
    error = np.linalg.norm((on_wall - shear)[middle]) / np.linalg.norm(shear[middle])
    assert error < 0.02  # the drag on the wall is along the flow: the sign counts


def test_pipe_with_inlet_and_outlet_is_hagen_poiseuille(solved):
    check_pipe(*solved)


@pytest.mark.slow
@pytest.mark.parametrize("direction", [(1, 0, 0), (1, 1, 0), (2, 3, 6)])
def test_pipe_in_other_directions_is_hagen_poiseuille(direction, tmp_path):
    check_pipe(*solve_pipe(direction, tmp_path))


def test_pipe_dissipates_what_its_pressure_drop_puts_in(solved):
    """Shear rate 4 U r/R^2, and G Q of dissipation in each length: within 2 %, as the stress and as the gradient."""
    nodes, _, mean_m_s, _, folder = solved
    flow, radius_m = read_flow(folder / "flow.vtkhdf"), nodes.openings[0].radius_mm * 1e-3
    along, across, middle = places(nodes, flow.points_mm)
    shear_rate = 4 * mean_m_s * np.linalg.norm(across[middle], axis=1) * 1e-3 / radius_m**2
    error = np.linalg.norm(flow.shear_rate_mean_1_s()[middle] - shear_rate) / np.linalg.norm(shear_rate)
    assert error < 0.02
    dissipated_w = flow.dissipation_mean_w_m3()[middle].sum() * 0.2e-3**3
    gradient, flow_m3_s = 8 * VISCOSITY * mean_m_s / radius_m**2, mean_m_s * np.pi * radius_m**2
    assert dissipated_w == pytest.approx(gradient * flow_m3_s * 0.5 * along.max() * 1e-3, rel=0.02)
    square = (flow.velocity_m_s(-1).astype(float) ** 2).sum(axis=1)  # it has settled
    np.testing.assert_allclose(flow.speed_peak_m_s(), np.sqrt(square), rtol=1e-6)
    np.testing.assert_allclose(flow.kinetic_energy_mean_j_m3(), DENSITY / 2 * square, rtol=1e-6)


def test_monitor_and_summary_tell_the_run(solved):
    nodes, _, mean_m_s, summary, folder = solved
    json.dumps(summary, allow_nan=False)
    header, *rows = (folder / "monitor.csv").read_text().splitlines()
    each = [f"{name}:{opening}" for name in ("flow_ml_s", "pressure_pa", "backflow_ml_s") for opening in ("in", "out")]
    assert header.endswith(",".join(each))
    last = dict(zip(header.split(","), map(float, rows[-1].split(",")), strict=True))
    assert last["step"] == summary["steps"]
    assert last["residual"] < 1e-3
    assert last["backflow_ml_s:out"] == summary["openings"]["out"]["largest_backflow_ml_s"] == 0
    # of a parabola, <u^2> = (4/3) U^2, all along the pipe; its nodes fill 1 % less than its volume
    volume_m3 = nodes.count * 0.2e-3**3
    assert last["kinetic_energy_j"] == pytest.approx(DENSITY * volume_m3 * 2 / 3 * mean_m_s**2, rel=0.03)
    assert last["mean_speed_m_s"] == pytest.approx(mean_m_s, rel=0.02)
    flow = read_flow(folder / "flow.vtkhdf")
    np.testing.assert_array_equal(flow.velocity_mean_m_s(), flow.velocity_m_s(-1))  # it has settled
    assert summary["numbers"]["reynolds"] == pytest.approx(30)
    assert summary["numbers"]["nodes_across_inlet"] == pytest.approx(20.8)
    # Mach of the centre line, u_lat * sqrt 3, with 2 % for the entrance
    assert summary["mach"] == pytest.approx(0.08 * 3**0.5, rel=0.02)
    assert summary["openings"]["in"]["pressure_pa"] > summary["openings"]["out"]["pressure_pa"]
    assert len(read_flow(folder / "flow.vtkhdf").points_mm) == nodes.count


def test_waveform_is_realised_and_periodic(tmp_path):
    wave = tmp_path / "wave.csv"
    wave.write_text("time_s,flow_ml_s\n0,0.05\n0.2,0.2\n0.5,0.1\n1,0.05\n")
    nodes = pipe((1, 2, 3), 5.2, 30, spacing_mm=0.3)
    wanted = settings(inlets={"*": InletSettings(None, str(wave), "plug", "linear")}, ramp_s=0.5)
    summary = solve(nodes, wanted, tmp_path / "flow.vtkhdf", tmp_path / "monitor.csv", LOG)
    flow = read_flow(tmp_path / "flow.vtkhdf")
    # five snapshots over the last of three periods of 1 s, to within a pair of steps
    np.testing.assert_allclose(flow.times_s, 2 + np.arange(1, 6) / 5, atol=2 * summary["numbers"]["time_step_s"])
    header, *rows = (tmp_path / "monitor.csv").read_text().splitlines()
    table = dict(zip(header.split(","), np.array([row.split(",") for row in rows], float).T, strict=True))
    imposed = np.interp(table["time_s"] % 1, (0, 0.2, 0.5, 1), (0.05, 0.2, 0.1, 0.05))
    after = table["time_s"] > 0.5
    np.testing.assert_allclose(table["flow_ml_s:in"][after], imposed[after], rtol=1e-5)
    assert summary["converged"]
    assert max(summary["periodicity"].values()) < 0.01
    assert summary["periodicity"].keys() == {"velocity", "flow", "pressure"}
    assert summary["openings"]["in"]["flow_ml_s"] == pytest.approx(0.1075, rel=1e-5)
    json.dumps(summary, allow_nan=False)


def test_flow_that_diverges_is_caught_and_named(tmp_path):
    nodes, wanted, mean_m_s = pipe_case((1, 2, 3), 600, 5.2, 30)
    wanted = replace(wanted, peak_speed_m_s=mean_m_s / 4, collision="trt", velocity_set="D3Q19")
    place = r"diverged at step \d+, time .* s, at \(.*\) mm LPS, .* mm from opening (in|out): .*\. "
    advised = r"Set solve.collision to auto .*, and set solve.peak_speed_m_s to \d"
    with pytest.raises(StageError, match=place + advised):
        solve(nodes, wanted, tmp_path / "flow.vtkhdf", tmp_path / "monitor.csv", LOG)


def test_run_that_is_cut_short_is_marked_as_not_converged(tmp_path):
    nodes, wanted, _ = pipe_case((1, 2, 3), 20, 5.2, 20, max_steps=200)
    summary = solve(nodes, wanted, tmp_path / "flow.vtkhdf", tmp_path / "monitor.csv", LOG)
    assert not summary["converged"]
    assert "not converged: after 200 steps" in summary["warnings"][-1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inlets": {"neck": InletSettings(1.0, None, "plug")}}, "no inlet is called neck; there are in"),
        ({"outlets": {"other": OutletSettings(0.0)}}, "no outlet is called other; there are out"),
        ({"collision": "mrt"}, "unknown; known are auto, bgk"),
        ({"inlets": {"in": InletSettings(None, "no.csv", "plug")}}, "no.csv: not a CSV table"),
        ({"inlets": {"in": InletSettings(None, None, "plug")}}, "neither flow_ml_s nor waveform"),
    ],
)
def test_conditions_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(StageError, match=message):
        make_plan(pipe((0, 0, 1), 4.2, 12), settings(**changes))


def test_star_does_not_give_several_inlets_one_flow():
    nodes = random_cavern((6, 6, 6), 1)
    inlets = tuple(replace(opening, role="inlet" if opening.id < 3 else "outlet") for opening in nodes.openings)
    with pytest.raises(StageError, match=r"'\*' would give each of o1, o2 the same flow; name each"):
        make_plan(replace(nodes, openings=inlets), settings(inlets={"*": InletSettings(1.0, None, "plug")}))


def test_settings_are_those_of_the_case_file():
    flow = pytest.importorskip("pipeline.case.settings.flow")
    for ours, theirs in (
        (SolveSettings, flow.SolveSettings),
        (InletSettings, flow.InletSettings),
        (OutletSettings, flow.OutletSettings),
        (WindkesselSettings, flow.WindkesselSettings),
        (BloodSettings, flow.BloodSettings),
        (PatchSettings, flow.PatchSettings),
    ):
        assert {field.name for field in fields(ours)} == theirs.model_fields.keys()
    values = flow.SolveSettings(inlets={"in": {"flow_ml_s": 1}}).model_dump(mode="json")
    assert parse(values).inlets["in"] == InletSettings(1.0, None, "developed")
    with pytest.raises(StageError, match=r"unknown inlets\.in\.flow"):
        parse(values | {"inlets": {"in": {"flow": 1}}})
    with pytest.raises(StageError, match="missing cycles"):
        parse({key: value for key, value in values.items() if key != "cycles"})


def test_command_line_writes_all_outputs_or_none(tmp_path):
    nodes, wanted, _ = pipe_case((0, 0, 1), 10, 4.2, 12, max_steps=200)
    node_arrays.save(nodes, tmp_path / "nodes.h5")
    values = json.dumps(wanted, default=vars)
    files = {"flow": "flow.vtkhdf", "monitor": "monitor.csv", "summary": "solve.json", "provenance": "p.json"}
    outputs = {role: tmp_path / name for role, name in files.items()}
    given = ["--nodes", str(tmp_path / "nodes.h5"), "--settings"]
    options = [part for role, path in outputs.items() for part in (f"--{role}", str(path))]
    command = [sys.executable, "-m", "solver", *given, values, *options]
    subprocess.run(command, check=True, cwd=ROOT, env=os.environ, capture_output=True)
    assert all(path.is_file() for path in outputs.values())
    assert json.loads(outputs["provenance"].read_text())["device"] == "CPU"
    for path in outputs.values():
        path.unlink()
    bad = values.replace('"precision": "fp32"', '"precision": "fp8"')
    answer = run_here("solver", *given, bad, *options)
    assert answer.returncode == 1
    assert "precision 'fp8': unknown; known are fp32, fp64" in answer.stderr
    assert not any(path.exists() for path in outputs.values())
