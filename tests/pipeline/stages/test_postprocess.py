# SPDX-License-Identifier: Apache-2.0
"""Wall shear stress, flow and pressure at the openings, and the checks: against flows that are known in closed form."""

import json
import subprocess
import sys

import numpy as np
import pytest

from pipeline.case.settings.flow import PostprocessSettings
from pipeline.files.mesh import Mesh, write_openings
from pipeline.haemodynamics.accumulator import Fields, WallAccumulator, slab_inside
from pipeline.haemodynamics.flow_checks import imbalance
from pipeline.haemodynamics.indices import monitored_flows_ml_s, read_monitor
from pipeline.haemodynamics.percentiles import weighted_percentiles
from pipeline.haemodynamics.wall_shear_stress import (
    Wall,
    fit_to_wall,
    near_openings,
    surface_gradient,
    wall_shear_stress,
)
from pipeline.stages.postprocess import postprocess
from solver.domain import nodes as node_files
from solver.run.flow_file import FlowWriter
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.support.analytic_pipe import Pipe
from tests.support.command_lines import run_here
from tests.support.postprocess_files import INPUTS

DIRECTIONS = [(1, 0, 0), (1, 1, 0), (2, 3, 6), (0.3, -0.8, 0.5)]


def summary(**changes):
    pipe = Pipe()
    return {
        "numbers": {"density_kg_m3": pipe.density_kg_m3, "viscosity_m2_s": pipe.viscosity_pa_s / pipe.density_kg_m3},
        "openings": {"inlet": {"imposed_flow_ml_s": pipe.flow_ml_s}, "outlet": {}},
        "mach": 0.1,
        "converged": True,
        "warnings": [],
    } | changes


def flow_of(pipe, nodes, factor=1.0):
    points = nodes.points_mm()
    return Fields(factor * pipe.velocity(points), factor * pipe.pressure(points), factor * pipe.stress(points))


def run(pipe, spacing_mm, times=None, **changes):
    nodes = pipe.nodes(spacing_mm)
    monitored = {"inlet": pipe.flow_ml_s, "outlet": pipe.flow_ml_s}
    times = times(nodes) if times else [flow_of(pipe, nodes)]
    results = postprocess(nodes, pipe.surface(0.2), times, summary(**changes), monitored, PostprocessSettings())
    return results.wall, results.arrays, results.indices


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_poiseuille_wall_shear_is_exact_for_exact_stress(direction):
    """Poiseuille's stress is linear in space, so that the fit adds nothing; the normals of the surface are left."""
    pipe = Pipe(axis=direction)
    wall, arrays, found = run(pipe, 0.2)
    shear = arrays["WSS magnitude (Pa)"] / pipe.shear_stress_pa
    np.testing.assert_allclose(shear, 1, atol=2e-4)  # rims: normals of half a ring of flat triangles
    along = arrays["WSS (Pa)"] @ pipe.frame()[2]
    np.testing.assert_allclose(along, pipe.shear_stress_pa, rtol=2e-4)  # along the flow, not against it
    assert found["wall"]["shear_mean_pa"] == pytest.approx(pipe.shear_stress_pa, rel=1e-6)
    assert found["wall"]["area_mm2"] == pytest.approx(2 * np.pi * pipe.radius_mm * pipe.length_mm, rel=2e-3)
    assert not np.isin(wall.mesh.triangles, np.flatnonzero(np.isnan(shear))).any()


def test_poiseuille_wall_shear_converges_on_a_surface_that_is_not_quite_right():
    """The surface of a segmented vessel is off by parts of a voxel; a noisy stress must not be amplified either."""
    pipe, errors = Pipe(), []
    random = np.random.default_rng(1)
    for spacing in (0.4, 0.2, 0.1):
        nodes, surface = pipe.nodes(spacing), pipe.surface(0.2)
        rough = surface.points_mm + random.normal(scale=0.02 * spacing, size=surface.points_mm.shape)
        wall = Wall.of(Mesh(rough, surface.triangles, surface.opening))
        fit = fit_to_wall(nodes.points_mm(), spacing, wall, 3.0)
        stress = pipe.stress(nodes.points_mm())
        stress = stress + random.normal(scale=0.05 * pipe.shear_stress_pa * spacing / 0.2, size=stress.shape)
        shear = np.linalg.norm(wall_shear_stress(fit, wall.normals, stress), axis=1)
        inner = ~near_openings(wall, nodes.openings, 3 * spacing)
        errors.append(np.abs(shear[inner] / pipe.shear_stress_pa - 1))
    mean, high = [error.mean() for error in errors], [np.percentile(error, 95) for error in errors]
    assert mean[1] < 0.02
    assert high[1] < 0.05  # 20 nodes across, 5 % noise in every component of the stress
    assert mean[0] / mean[2] > 3.5  # first order, like the noise


def test_fit_reproduces_linear_fields_to_round_off():
    pipe = Pipe(axis=(0.3, -0.8, 0.5))
    nodes, wall = pipe.nodes(0.25), Wall.of(pipe.surface(0.15))
    fit = fit_to_wall(nodes.points_mm(), nodes.spacing_mm, wall, 3.0)
    slope = np.array([3.0, -2.0, 0.7])
    expected = 5 + wall.mesh.points_mm @ slope
    np.testing.assert_allclose(fit.weights @ (5 + nodes.points_mm() @ slope), expected, atol=1e-11)
    assert fit.nearest == 0


def test_fit_of_a_curved_field_converges_at_second_order():
    pipe, errors = Pipe(), []
    for spacing in (0.4, 0.2, 0.1):
        nodes, wall = pipe.nodes(spacing), Wall.of(pipe.surface(0.3))
        fit = fit_to_wall(nodes.points_mm(), spacing, wall, 3.0)
        field, exact = (np.sin(points @ pipe.frame()[2]) for points in (nodes.points_mm(), wall.mesh.points_mm))
        errors.append(np.sqrt(np.mean((fit.weights @ field - exact) ** 2)))
    assert np.log2(errors[1] / errors[2]) > 1.8


def test_fit_falls_back_where_nodes_are_few_and_counts_it():
    """A tube two nodes wide with nodes at one end: at the other there is nothing to extrapolate from."""
    wall = Wall.of(Pipe(radius_mm=1.0, length_mm=4.0, axis=(0, 0, 1)).surface(0.4))
    x, y = np.meshgrid([-0.5, 0.5], [-0.5, 0.5])
    layer = np.column_stack((x.ravel(), y.ravel(), np.full(4, -1.5)))
    fit = fit_to_wall(layer, 1.0, wall, 2.0)
    assert fit.nearest == len(wall.normals)  # a plane of nodes says nothing about the direction across it
    np.testing.assert_array_equal(fit.weights @ np.full(4, 7.0), 7.0)
    two = np.concatenate((layer, layer + np.array([0, 0, 1])))
    fit = fit_to_wall(two, 1.0, wall, 2.0)
    assert 0 < fit.nearest < len(wall.normals)
    assert fit.widened > 0
    np.testing.assert_allclose(fit.weights @ np.full(8, 7.0), 7.0, rtol=1e-12)


def test_fit_ignores_a_neighbouring_lumen():
    """Two pipes side by side, one spacing of wall between them: the other's stress must not leak in."""
    pipe = Pipe(axis=(0, 0, 1), length_mm=6.0)
    nodes, wall = pipe.nodes(0.2), Wall.of(pipe.surface(0.2))
    own = nodes.points_mm()
    other = own + np.array([2 * pipe.radius_mm + 0.2, 0, 0])
    fit = fit_to_wall(np.concatenate((own, other)), 0.2, wall, 3.0)
    np.testing.assert_allclose(fit.weights @ np.repeat([0.0, 1.0], len(own)), 0, atol=1e-12)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_flow_and_pressure_at_the_openings_match_the_pipe(direction):
    pipe = Pipe(axis=direction)
    for spacing, tolerance in ((0.4, 5e-3), (0.2, 1e-3)):
        _, _, found = run(pipe, spacing)
        for opening in found["openings"]:
            assert opening["flow_ml_s"] == pytest.approx(pipe.flow_ml_s, rel=tolerance)
            assert opening["reynolds"] == pytest.approx(
                2e-3 * pipe.radius_mm * pipe.mean_speed_m_s * 1060 / 3.5e-3, rel=tolerance
            )
        drop = pipe.gradient_pa_mm * pipe.length_mm
        assert found["pressure_drops"][0]["drop_pa"] == pytest.approx(drop, rel=1e-9)  # linear: exact
        assert found["pressure_drops"][0]["drop_mmhg"] == pytest.approx(drop / 133.322, rel=1e-5)
        assert found["peak_speed_m_s"] == pytest.approx(2 * pipe.mean_speed_m_s, rel=0.03)  # a node near the axis
        across = np.array(found["peak_speed_at_mm"]) @ np.column_stack(pipe.frame()[:2])
        assert np.hypot(*across) < spacing


def test_kinetic_energy_is_that_of_a_parabola():
    """Integral of rho u^2/2 = rho (2 U)^2/2 pi R^2 L/3."""
    pipe = Pipe()
    _, _, found = run(pipe, 0.2)
    volume = np.pi * pipe.radius_mm**2 * pipe.length_mm * 1e-9
    assert found["kinetic_energy_j"] == pytest.approx(1060 / 2 * (2 * pipe.mean_speed_m_s) ** 2 / 3 * volume, rel=5e-3)


def test_oscillating_flow_has_the_indices_of_its_formula():
    """Shear stress tau (a + cos wt): mean a tau; mean magnitude and OSI by quadrature of the same period."""
    pipe, offset = Pipe(), 0.4
    factors = offset + np.cos(2 * np.pi * np.arange(40) / 40)
    _, arrays, found = run(pipe, 0.4, lambda nodes: [flow_of(pipe, nodes, factor) for factor in factors])
    magnitude = np.abs(factors).mean()
    index = (1 - offset / magnitude) / 2
    tau = pipe.shear_stress_pa
    for name, expected in {
        "TAWSS (Pa)": magnitude * tau,
        "peak WSS (Pa)": (1 + offset) * tau,
        "OSI": index,
        "RRT (1/Pa)": 1 / (offset * tau),
        "ECAP (1/Pa)": index / (magnitude * tau),
    }.items():
        np.testing.assert_allclose(arrays[name], expected, rtol=2e-4, err_msg=name)
    assert arrays["TAWSS gradient (Pa mm-1)"].max() < 1e-3 * tau  # the same everywhere, but for rounding over an edge
    assert found["wall"]["osi_mean"] == pytest.approx(index, rel=1e-6)
    assert found["openings"][0]["flow_ml_s"] == pytest.approx(offset * pipe.flow_ml_s, rel=5e-3)


def test_purely_reversing_flow_has_index_one_half_and_still_fluid_no_nan():
    pipe = Pipe()
    _, arrays, _ = run(pipe, 0.4, lambda nodes: [flow_of(pipe, nodes, factor) for factor in (1.0, -1.0)])
    np.testing.assert_allclose(arrays["OSI"], 0.5, atol=1e-6)
    _, arrays, found = run(pipe, 0.4, lambda nodes: [flow_of(pipe, nodes, 0.0)] * 2)
    assert all(np.isfinite(values).all() for values in arrays.values())
    assert found["wall"]["low_shear_fraction"]["0.4 Pa"] == 1.0


def test_transverse_shear_is_what_oscillates_across_the_mean_direction():
    """An axial stress with a swirl that swings to and fro: mean |b cos wt| across, 2 b/pi (with 40 times 0.1 % off).

    The swirl's stress, b (e_r e_t + e_t e_r) r^2/R^2, is a quadratic field, which the linear fit overshoots by some
    per cent at this spacing.
    """
    pipe, swirl = Pipe(), 0.5 * Pipe().shear_stress_pa
    first, second, axis = pipe.frame()
    nodes = pipe.nodes(0.1)
    x, y = nodes.points_mm() @ first / pipe.radius_mm, nodes.points_mm() @ second / pipe.radius_mm
    turned = -2 * x * y, 2 * x * y, x**2 - y**2  # xx, yy, xy in the frame of the section
    tensor = (
        np.einsum("n,i,j->nij", turned[0], first, first)
        + np.einsum("n,i,j->nij", turned[1], second, second)
        + np.einsum("n,i,j->nij", turned[2], first, second)
        + np.einsum("n,i,j->nij", turned[2], second, first)
    )
    across = -swirl * tensor[:, [0, 1, 2, 0, 1, 0], [0, 1, 2, 1, 2, 2]]
    still = flow_of(pipe, nodes)
    times = [
        Fields(still.velocity_m_s, still.pressure_pa, still.stress_pa + np.cos(phase) * across)
        for phase in 2 * np.pi * np.arange(40) / 40
    ]
    monitored = {"inlet": pipe.flow_ml_s, "outlet": pipe.flow_ml_s}
    results = postprocess(nodes, pipe.surface(0.2), times, summary(), monitored, PostprocessSettings())
    arrays = results.arrays
    np.testing.assert_allclose(arrays["transverse WSS (Pa)"], 2 / np.pi * swirl, rtol=0.03)
    np.testing.assert_allclose(arrays["WSS (Pa)"] @ axis, pipe.shear_stress_pa, rtol=1e-3)


def test_shear_along_the_mean_direction_alone_has_no_transverse_part():
    pipe = Pipe()
    _, arrays, _ = run(pipe, 0.4, lambda nodes: [flow_of(pipe, nodes, factor) for factor in (1.0, -0.4, 0.2)])
    assert arrays["transverse WSS (Pa)"].max() < 1e-5 * pipe.shear_stress_pa  # single precision


def test_gradient_along_the_wall_of_a_linear_and_of_a_round_function():
    """x.d changes by d less its part along the normal; cos(angle) by 1/R around the pipe: both at second order."""
    pipe, errors = Pipe(), []
    first, second, axis = pipe.frame()
    for edge in (0.4, 0.2):
        wall = Wall.of(pipe.surface(edge))
        points = wall.mesh.points_mm
        inner = np.abs(points @ axis) < pipe.length_mm / 2 - 0.5
        slope = np.array([3.0, -2.0, 0.7])
        expected = slope - (wall.normals @ slope)[:, None] * wall.normals
        straight = np.abs(surface_gradient(wall, points @ slope) - expected)[inner].max()
        assert straight < 0.25 * (edge / pipe.radius_mm) ** 2 * np.linalg.norm(slope)  # facets are inclined to the wall
        angle = np.arctan2(points @ second, points @ first)
        around = np.cross(axis, wall.normals)
        expected = -np.sin(angle)[:, None] / pipe.radius_mm * around
        errors.append(np.abs(surface_gradient(wall, np.cos(angle)) - expected)[inner].max())
    assert np.log2(errors[0] / errors[1]) > 1.5
    assert errors[1] < 0.01 / pipe.radius_mm


def test_low_shear_area_is_a_fraction_of_the_counted_wall():
    _, _, found = run(Pipe(), 0.2)  # 0.7 Pa everywhere
    assert found["wall"]["low_shear_fraction"] == {"0.4 Pa": 0.0, "1 Pa": 1.0, "1.5 Pa": 1.0}
    assert found["wall"]["counted_area_mm2"] < found["wall"]["area_mm2"]


def test_percentiles_are_weighted_by_area():
    assert weighted_percentiles(np.array([3.0, 1.0, 2.0]), np.array([1.0, 8.0, 1.0]), (50, 85, 99)) == (1.0, 2.0, 3.0)


def test_good_flow_passes_all_checks():
    _, _, found = run(Pipe(), 0.2)
    assert [check["name"] for check in found["checks"] if not check["passed"]] == []
    assert found["warnings"] == []


@pytest.mark.parametrize(
    ("broken", "changes"),
    [
        ("converged", {"converged": False}),
        ("Mach number", {"mach": 0.25}),
        (
            "inflow against imposed",
            {"openings": {"inlet": {"imposed_flow_ml_s": 1.02 * Pipe().flow_ml_s}, "outlet": {}}},
        ),
    ],
)
def test_what_breaks_trust_becomes_a_warning(broken, changes):
    _, _, found = run(Pipe(), 0.2, **changes)
    assert [check["name"] for check in found["checks"] if not check["passed"]] == [broken]
    assert len(found["warnings"]) == 1


@pytest.mark.parametrize(("imposed", "than"), [(1.02, "less"), (0.98, "more")])
def test_a_field_with_more_or_less_flow_than_imposed_says_which(imposed, than):
    openings = {"inlet": {"imposed_flow_ml_s": imposed * Pipe().flow_ml_s}, "outlet": {}}
    _, _, found = run(Pipe(), 0.2, openings=openings)
    assert f"% {than} than the flow that is imposed" in found["warnings"][0]


def test_solver_warnings_come_first_and_a_coarse_lattice_is_named():
    _, _, found = run(Pipe(), 0.5, warnings=["tau is low"])
    assert found["warnings"][0] == "tau is low"
    assert "8.0 nodes across" in found["warnings"][1]


def test_imbalance_counts_all_openings():
    flows = [{"role": "inlet", "q": 2.0}, {"role": "outlet", "q": 1.5}, {"role": "outlet", "q": 0.4}]
    assert imbalance(flows, "q") == pytest.approx(0.05)


def test_flow_that_is_not_finite_is_refused():
    pipe = Pipe()
    nodes = pipe.nodes(0.4)
    wall = Wall.of(pipe.surface(0.4))
    accumulator = WallAccumulator(nodes, wall, fit_to_wall(nodes.points_mm(), 0.4, wall, 3.0), 1060.0)
    with pytest.raises(StageError, match="not finite"):
        accumulator.add(flow_of(pipe, nodes, np.nan))


def test_openings_that_do_not_belong_to_the_nodes_are_refused():
    nodes = Pipe().nodes(0.4)
    with pytest.raises(StageError, match="opening outlet: no fluid node"):
        slab_inside(nodes, Pipe(length_mm=40.0).openings()[1])


def test_monitor_is_averaged_over_the_times_of_the_flow(tmp_path):
    record = tmp_path / "monitor.csv"
    record.write_text("time_s,flow_ml_s:inlet,flow_ml_s:outlet\n0.0,9,9\n0.5,1,2\n1.0,3,4\n")
    monitor, openings = read_monitor(record), Pipe().openings()
    assert monitored_flows_ml_s(monitor, openings, 0.5) == {"inlet": 2.0, "outlet": 3.0}
    assert monitored_flows_ml_s(monitor, openings, 2.0) == {"inlet": 3.0, "outlet": 4.0}
    record.write_text("time_s\n0.0\nx\n")
    with pytest.raises(StageError, match="no number"):
        read_monitor(record)


def test_command_line_writes_the_same_bytes_twice(tmp_path):
    pipe = Pipe()
    nodes = pipe.nodes(0.4)
    node_files.save(nodes, tmp_path / "nodes.h5")
    pipe.surface(0.2).write(tmp_path / "surface.vtp")
    with FlowWriter(tmp_path / "flow.vtkhdf", nodes) as writer:
        points = nodes.points_mm()
        fields = pipe.velocity(points), pipe.pressure(points), pipe.stress(points)
        writer.append(1.0, *fields)
        writer.average(*fields, statistics=pipe.statistics(points))
    write_openings(nodes.openings, tmp_path / "openings.json")
    (tmp_path / "solve.json").write_text(json.dumps(summary()))
    flow = pipe.flow_ml_s
    (tmp_path / "monitor.csv").write_text(f"time_s,flow_ml_s:inlet,flow_ml_s:outlet\n1.0,{flow},{flow}\n")
    written = []
    for run_name in ("first", "second"):
        outputs = {
            "wall": f"{run_name}.vtp",
            "indices": f"{run_name}.json",
            "provenance": f"{run_name}.p.json",
            "indices-table": f"{run_name}.i.csv",
            "openings-table": f"{run_name}.o.csv",
            "along": f"{run_name}.a.vtp",
            "along-table": f"{run_name}.a.csv",
            "wall-over-time": f"{run_name}.w.vtkhdf",
            "statistics": f"{run_name}.s.vtkhdf",
        }
        options = [part for role, name in (INPUTS | outputs).items() for part in (f"--{role}", str(tmp_path / name))]
        if run_name == "first":
            subprocess.run([sys.executable, "-m", "pipeline.stages.postprocess", *options], cwd=ROOT, check=True)
        else:
            assert run_here("pipeline.stages.postprocess", *options).returncode == 0
        written.append([(tmp_path / name).read_bytes() for role, name in outputs.items() if role != "provenance"])
    assert written[0] == written[1]
    found = json.loads(written[0][1])
    assert found["openings"][1]["flow_ml_s"] == pytest.approx(flow, rel=5e-3)
    assert len(Mesh.read(tmp_path / "first.vtp").triangles) == int((pipe.surface(0.2).opening == 0).sum())
