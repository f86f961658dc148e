# SPDX-License-Identifier: Apache-2.0
"""What the studies of straight pipes measure, of flows that are known."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.case.shapes import Pipe, Sphere
from pipeline.haemodynamics.wall_shear_stress import Wall
from solver.runtime.errors import StageError
from tests.support.analytic_pipe import Pipe as Analytic
from validation.evidence import Evidence
from validation.studies import pipe
from validation.studies.pipe_run import PipeRun, Poiseuille, WallShear, flows_ml_s, label, wall_shear
from validation.studies.run import Run

DIRECTION = (0.3, -0.8, 0.5)
RADIUS_MM = 2.0


def made_up(
    name: str,
    across: float = 12.0,
    direction: tuple[float, float, float] = DIRECTION,
    *,
    speed: float = 0.0,
    pressure: float = 0.0,
    stress: float = 0.0,
    lambda_trt: float | None = None,
) -> Run:
    """A run of a pipe at Re 30 whose velocity, pressure and stress are too large by given parts."""
    axis = np.array(direction) / np.linalg.norm(direction)
    exact = Analytic(RADIUS_MM, 8 * RADIUS_MM, tuple(axis), mean_speed_m_s=30 * 3.5e-3 / 1060 / 4e-3)
    nodes = exact.nodes(2 * RADIUS_MM / across)
    points = nodes.points_mm()
    inlet = SimpleNamespace(flow_ml_s=exact.flow_ml_s, waveform=None)
    solve = SimpleNamespace(inlets={"inlet": inlet}, viscosity_pa_s=3.5e-3, density_kg_m3=1060.0, lambda_trt=lambda_trt)
    geometry = Pipe(shape="pipe", diameter_mm=2 * RADIUS_MM, length_mm=8 * RADIUS_MM, direction=direction)
    run = Run(name, SimpleNamespace(input=SimpleNamespace(geometry=geometry), solve=solve), Path())
    run.__dict__.update(  # what the properties would read from files
        nodes=nodes,
        surface=exact.surface(0.25),
        velocity_m_s=(1 + speed) * exact.velocity(points),
        pressure_pa=(1 + pressure) * exact.pressure(points),
        viscous_stress_pa=(1 + stress) * exact.stress(points),
    )
    return run


def measured(*runs: Run, **options) -> Evidence:
    evidence = Evidence("made-up", "made up", "formulas")
    pipe.measure(evidence, {run.name: run for run in runs}, pipe.Options(nodes=12, **options))
    return evidence


def reached(evidence: Evidence) -> dict[str, float]:
    return {goal.what: goal.reached for goal in evidence.goals}


def test_forces_and_flow_of_the_closed_form_balance():
    """Pressure on the ends against friction on the wall; friction from the slope there; flow by quadrature."""
    exact = PipeRun(made_up("exact")).exact
    lost = exact.gradient_pa_mm * exact.length_mm * np.pi * exact.radius_mm**2
    assert lost == pytest.approx(exact.shear_pa * 2 * np.pi * exact.radius_mm * exact.length_mm, rel=1e-12)
    step_mm = 1e-6 * exact.radius_mm
    slope = exact.speed_m_s(np.array([exact.radius_mm - step_mm]))[0] / (1e-3 * step_mm)
    assert exact.viscosity_pa_s * slope == pytest.approx(exact.shear_pa, rel=1e-5)  # one-sided, of first order
    r, weight = np.polynomial.legendre.leggauss(4)  # exact for the cubic r u(r)
    r = (r + 1) / 2 * exact.radius_mm
    flow = 2 * np.pi * (weight / 2 * exact.radius_mm) @ (r * exact.speed_m_s(r))
    assert flow == pytest.approx(exact.flow_ml_s, rel=1e-12)


def test_the_exact_flow_deviates_by_nothing_along_an_irrational_direction():
    """The stress is linear in space, so that the fit carries it exactly; sections sum over nodes that lie anywhere."""
    found = PipeRun(made_up("exact")).figures
    assert found.flow < 5e-3
    assert max(abs(found.gradient), abs(found.outlet), found.velocity, found.shear_rms, found.shear_95) < 1e-9


def test_deviations_are_those_that_were_put_in():
    exact, wrong = PipeRun(made_up("exact")), PipeRun(made_up("wrong", speed=0.02, pressure=-0.05, stress=-0.03))
    found = wrong.figures
    assert found.velocity == pytest.approx(0.02, rel=1e-9)
    assert found.gradient == pytest.approx(-0.05, rel=1e-9)
    assert found.outlet == pytest.approx(0, abs=1e-9)
    assert found.shear_mean == pytest.approx(-0.03, rel=1e-9)
    assert (found.shear_rms, found.shear_95) == pytest.approx((0.03, 0.03), rel=1e-9)
    flows = [flows_ml_s(each.run, each.exact) for each in (exact, wrong)]
    np.testing.assert_allclose(flows[1], 1.02 * flows[0], rtol=1e-12)
    lifted = made_up("lifted")
    lifted.__dict__["pressure_pa"] = lifted.pressure_pa + 3 * exact.exact.gradient_pa_mm * lifted.nodes.spacing_mm
    assert PipeRun(lifted).figures.outlet == pytest.approx(3, rel=1e-9)


def test_only_the_wall_in_the_middle_counts():
    """A stress that is wrong up to 4 tenths of the length behind the inlet and from 1 tenth before the outlet on."""
    run = made_up("exact")
    exact = PipeRun(run).exact
    wall = Wall.of(run.surface)
    along, _ = exact.place(run.nodes.points_mm())
    reach = 3.5 * run.nodes.spacing_mm  # of the fit
    ends = (along < 0.4 * exact.length_mm - reach) | (along > 0.9 * exact.length_mm + reach)
    assert ends.any()
    run.__dict__["viscous_stress_pa"] = np.where(ends[:, None], 2.0, 1.0) * run.viscous_stress_pa
    assert np.abs(wall_shear(run, exact, wall).off).max() < 1e-9
    half = replace(exact, flow_ml_s=exact.flow_ml_s / 2)
    np.testing.assert_allclose(wall_shear(run, half, wall).off, 1, rtol=1e-9)


def test_stress_around_the_pipe_is_a_mean_over_its_length():
    """A flow that leans to one side and, by places of one angle, ripples along the pipe."""
    angle = np.repeat((np.arange(400) + 0.5) / 400 * 2 * np.pi - np.pi, 2)
    ripple = np.tile((0.01, -0.01), 400)
    found, off = WallShear(angle, 0.02 * np.cos(angle) + ripple).around(40)
    np.testing.assert_allclose(off, 0.02 * np.cos(found), rtol=2e-3)  # a mean over w: less by w^2/24, w = 2 pi/40


def test_bounds_are_asked_of_the_runs_with_the_nodes_and_the_reynolds_number():
    runs = made_up("a", stress=0.02), made_up("b", direction=(1, 2, 3), stress=0.03), made_up("c", 8.0, stress=0.5)
    evidence = measured(*runs, shear_95=0.025)
    first, second = evidence.goals
    assert first.what == "(0.3,-0.8,0.5), 12 nodes: wall shear stress, 95th percentile"
    assert (first.met, second.met) == (True, False)
    assert [row[:3] for row in evidence.tables[0]["rows"]] == [
        [30, "(0.3,-0.8,0.5)", 12.0],
        [30, "(1,2,3)", 12.0],
        [30, "(0.3,-0.8,0.5)", 8.0],
    ]
    assert not measured(*runs, shear_95=0.025, reynolds=100).goals


def test_spread_is_that_of_the_mean_stress_of_pipes_of_one_size():
    runs = made_up("a", stress=0.02), made_up("b", direction=(1, 2, 3), stress=-0.02), made_up("c", 8.0, stress=0.5)
    found = reached(measured(*runs, spread=0.03))
    assert found == {"12 nodes across, Re 30: spread of the mean wall shear stress": pytest.approx(0.04, rel=1e-9)}


def test_order_is_that_of_runs_with_one_lambda():
    """Errors that fall with the square of the spacing and with the spacing; a run of no given Lambda beside them."""
    runs = [made_up(str(n), n, speed=1 / n**2, stress=0.3 / n, lambda_trt=3 / 16) for n in (12.0, 8.0, 16.0)]
    evidence = measured(*runs, made_up("other"), velocity_order=1.8, shear_order=0.9)
    assert reached(evidence) == {
        "(0.3,-0.8,0.5): order of the velocity": pytest.approx(2, rel=1e-9),
        "(0.3,-0.8,0.5): order of the wall shear stress, rms": pytest.approx(1, rel=1e-9),
    }
    assert [row[0] for row in evidence.tables[1]["rows"]] == [8, 12, 16]
    assert not measured(*runs[:2], velocity_order=1.8).goals  # two sizes are too few


@pytest.mark.parametrize("runs", [[12.0], pytest.param([8.0, 12.0, 16.0], marks=pytest.mark.slow)])
def test_pictures_can_be_drawn_of_any_set(tmp_path, runs):
    made = [made_up(f"same-{n:g}", n, speed=1 / n**2, stress=0.3 / n, lambda_trt=3 / 16) for n in runs]
    evidence = measured(*made, made_up("a", stress=0.1), made_up("b", direction=(1, 2, 3), stress=0.1))
    evidence.keep(tmp_path / "pipe.json", tmp_path / "pipe", "studies", made={})
    assert {file.name for file in tmp_path.glob("*.png")} == {"pipe.png", "pipe-2.png"}


def test_run_that_is_no_pipe_with_a_steady_inflow_is_refused():
    run = made_up("pulse")
    run.case.solve.inlets["inlet"].waveform = "heart.csv"
    with pytest.raises(StageError, match=r"run pulse: solve\.inlets\.inlet is a waveform; give a steady flow_ml_s"):
        measured(run)
    for geometry in (
        Sphere(shape="sphere", diameter_mm=4, box_mm=(20, 20, 20)),
        Pipe(shape="pipe", diameter_mm=4, length_mm=16, ends="periodic"),
    ):
        run.case.input.geometry = geometry
        with pytest.raises(StageError, match=r"run pulse: input\.geometry is no pipe with openings"):
            measured(run)


def test_directions_are_reported_shortly():
    assert label((1.0, 2.0, 3.0)) == "(1,2,3)"
    assert label(DIRECTION) == "(0.3,-0.8,0.5)"


def test_exact_flow_goes_from_inlet_to_outlet_whatever_their_order():
    run = made_up("exact")
    given = Poiseuille.between(run.nodes, 1.0, 1.0)
    turned = Poiseuille.between(replace(run.nodes, openings=run.nodes.openings[::-1]), 1.0, 1.0)
    np.testing.assert_array_equal(given.axis, turned.axis)
    np.testing.assert_allclose(given.axis, np.array(DIRECTION) / np.linalg.norm(DIRECTION), rtol=1e-12)
