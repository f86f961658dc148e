# SPDX-License-Identifier: Apache-2.0
"""Flow in a torus against theory and balances, and what the study of a bend measures of a flow that is known."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.case.shapes import Bend, Pipe
from solver.runtime.errors import StageError
from validation.evidence import Evidence
from validation.studies import bend, torus_flow
from validation.studies.torus_flow import Grid, TorusFlow, mishra_gupta, white


def torus(curvature: float, dean: float, radii: int = 10, angles: int = 24) -> TorusFlow:
    return torus_flow.torus_flow(curvature, dean / curvature**0.5, radii, angles)


def test_derivatives_and_means_over_a_disc():
    """Of a smooth function, whose angular modes above 16 are below 1e-9, and of polynomials."""
    grid = Grid.of(12, 32)
    f = np.exp(grid.x) * np.sin(grid.y + 0.3)
    np.testing.assert_allclose(grid.d_x @ f, f, atol=1e-9)
    np.testing.assert_allclose(grid.d_y @ f, np.exp(grid.x) * np.cos(grid.y + 0.3), atol=1e-9)
    np.testing.assert_allclose(grid.laplace @ f, 0, atol=1e-7)
    assert grid.weights @ np.ones_like(f) == pytest.approx(1, rel=1e-12)
    assert grid.weights @ (grid.x**4 * grid.y**2) == pytest.approx(1 / 64, rel=1e-12)


def test_without_curvature_the_flow_is_that_of_hagen_and_poiseuille():
    flow = torus_flow.torus_flow(0.0, 100.0, 8, 16)
    assert flow.friction_ratio == pytest.approx(1, rel=1e-10)
    x, y = np.random.default_rng(0).uniform(-0.7, 0.7, (2, 20))
    wanted = np.stack((0 * x, 0 * x, 2 * (1 - x**2 - y**2)))
    np.testing.assert_allclose(flow.at(x, y), wanted, atol=1e-9)


@pytest.mark.parametrize("curvature", [0.05, 0.1])
def test_flow_without_inertia_grows_with_the_square_of_the_curvature(curvature):
    """By an expansion in the curvature, 1 + delta^2/48 + O(delta^4); Topakoglu (1967), J. Math. Mech. 16, 1321."""
    flow = torus(curvature, 1e-3)
    assert (1 / flow.friction_ratio - 1) / curvature**2 * 48 == pytest.approx(1, abs=curvature**2)


@pytest.mark.parametrize("number", [100.0, 200.0])
def test_flow_falls_as_in_the_series_of_dean(number):
    """1 - 0.0306 (K/576)^2 + 0.0120 (K/576)^4, K = 2 Re'^2 delta, Re' by the radius and the peak in a straight pipe.

    For little curvature. The next term is below 0.005 (K/576)^6; the coefficients have three digits.
    """
    curvature = 1e-6
    straight, ratio = (number / 2 / curvature) ** 0.5, 1.0
    for _ in range(6):  # the mean speed that belongs to the gradient
        ratio = 1 / torus(curvature, straight * ratio * curvature**0.5).friction_ratio
    k = (number / 576) ** 2
    assert 1 - ratio == pytest.approx(0.0306 * k - 0.0120 * k**2, rel=0.003, abs=0.005 * k**3)


@pytest.mark.parametrize(("curvature", "dean"), [(0.2, 25.0), (0.1, 50.0)])
def test_friction_on_the_wall_balances_the_pressure(curvature, dean):
    """Angular momentum about the axis of the torus: pi g = (2/Re) times the integral of -dw/dr h^2 around the wall."""
    flow = torus(curvature, dean)
    grid = flow.grid
    h = 1 + curvature * grid.x[: grid.angles]
    drag = 2 / flow.reynolds * 2 * np.pi * np.mean(-(grid.d_r @ flow.velocity[2]) * h**2)
    assert drag == pytest.approx(np.pi * flow.gradient, rel=1e-4)  # which is the error of this grid
    assert grid.weights @ flow.velocity[2] == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(flow.at(grid.x, grid.y), flow.velocity, atol=1e-12)
    assert flow.at(np.zeros(1), np.zeros(1))[0, 0] > 0  # outwards in the middle


def test_error_of_the_flow_falls_as_points_are_added():
    fine = torus(0.2, 50.0, 12, 28)
    x, y = bend.raster()
    x, y = x[::50], y[::50]
    errors = [np.abs(torus(0.2, 50.0, *points).at(x, y) - fine.at(x, y)).max() for points in ((8, 16), (10, 24))]
    assert errors[1] < errors[0] / 5
    assert errors[1] < 1e-3
    assert torus(0.2, 50.0).friction_ratio == pytest.approx(fine.friction_ratio, rel=1e-5)


@pytest.mark.parametrize("dean", [50.0, 100.0])
def test_friction_is_that_of_experiments(dean):
    """Within 3 to 4 %, as far as these are from each other; little curvature."""
    found = torus(0.05, dean, 10, 24).friction_ratio
    assert found == pytest.approx(white(dean), rel=0.03)
    assert found == pytest.approx(mishra_gupta(dean), rel=0.04)


def test_flow_that_is_not_found_is_refused(monkeypatch):
    monkeypatch.setattr(torus_flow, "NEWTON", 1)
    with pytest.raises(StageError, match=r"curvature 0\.2 at Reynolds number 50: not found in 1 steps"):
        torus_flow.torus_flow(0.2, 50.0, 4, 8)


# ---- the measure, of runs that are made up ---------------------------------------------------------------------------

SHAPE = Bend(shape="bend", diameter_mm=10, bend_radius_mm=25, angle_deg=180)
MEAN_M_S, VISCOSITY_M2_S, DENSITY = 5e-3, 1e-6, 1000.0
FLOW = torus_flow.torus_flow(0.2, 50.0, 8, 16)


@dataclass
class MadeUp:
    """What the measure asks of a run."""

    name: str
    case: SimpleNamespace
    nodes: SimpleNamespace
    spacing_m: float
    velocity_m_s: np.ndarray
    pressure_pa: np.ndarray
    summary: dict
    excess: float
    tau: float = 0.53

    def through_ml_s(self, centre_mm: np.ndarray, normal: np.ndarray, radius_mm: float) -> float:
        assert np.linalg.norm(centre_mm - (0, 0, 25)) == pytest.approx(25)
        assert normal @ (centre_mm - (0, 0, 25)) == pytest.approx(0, abs=1e-12)
        return MEAN_M_S * np.pi * radius_mm**2 * (1 + self.excess)


def run(across: int, error: float = 0.0, friction: float = 1.5, name: str = "made-up") -> MadeUp:
    """The flow in a torus, too fast by a part `error`, under a pressure that falls as `friction` says."""
    spacing = 10 / across
    low = np.array((-2, -across // 2, -across // 2))
    box = np.indices((6 * across // 2 + 4, across, 6 * across)).reshape(3, -1).T + low
    points = (box + 0.5) * spacing
    from_centre = points - (0, 0, 25)
    angle = np.arctan2(from_centre[:, 0], -from_centre[:, 2])
    x, y = (np.hypot(from_centre[:, 0], from_centre[:, 2]) - 25) / 5, points[:, 1] / 5
    inside = (x**2 + y**2 < 1) & (angle > 0)
    box, points, angle, x, y = box[inside], points[inside], angle[inside], x[inside], y[inside]
    u, v, w = (1 + error) * MEAN_M_S * FLOW.at(x, y)
    velocity = np.stack((u * np.sin(angle) + w * np.cos(angle), v, w * np.sin(angle) - u * np.cos(angle)), axis=1)
    slope = friction * 8 * DENSITY * VISCOSITY_M2_S * MEAN_M_S / 5e-3**2
    pressure = 1.0 - slope * 25e-3 * angle + 0.1 * x**3 - 0.2 * x * y**2
    return MadeUp(
        f"{name}-{across}",
        SimpleNamespace(input=SimpleNamespace(geometry=SHAPE), solve=SimpleNamespace(density_kg_m3=DENSITY)),
        SimpleNamespace(position=box.astype(np.int32), points_mm=lambda: points, count=len(box), spacing_mm=spacing),
        1e-3 * spacing,
        velocity,
        pressure,
        {
            "openings": {"inlet": {"imposed_flow_ml_s": MEAN_M_S * np.pi * 25}},
            "steps": 10,
            "numbers": {"viscosity_m2_s": VISCOSITY_M2_S},
        },
        error,
    )


@pytest.fixture
def same_torus(monkeypatch):
    """One flow to compare with, found before."""
    monkeypatch.setattr(bend, "torus_flow", lambda curvature, reynolds: FLOW)


def measured(runs: list[MadeUp], **options) -> Evidence:
    evidence = Evidence("made-up", "made up", "formulas")
    bend.measure(evidence, {each.name: each for each in runs}, bend.Options(**{"settled": ["made-up"]} | options))
    return evidence


def test_errors_and_their_order_are_what_was_put_in(same_torus):
    friction = 1.1 * FLOW.friction_ratio
    evidence = measured([run(20, 1 / 20**2, friction), run(12, 1 / 12**2), run(16, 1 / 16**2)])
    found = {goal.what: goal.reached for goal in evidence.goals}
    assert found["made-up, 20 nodes: L2 error of the velocity along the bend"] == pytest.approx(1 / 400, rel=1e-6)
    assert found["made-up: order of convergence of the velocity along the bend"] == pytest.approx(2, rel=1e-6)
    assert found["made-up, 20 nodes: error of the friction"] == pytest.approx(0.1, rel=1e-6)
    # but for what polynomials leave of the flow, which is below a thousandth of the mean speed
    assert found["made-up, 20 nodes: error of the largest speed across"] == pytest.approx(1 / 400, abs=5e-3)
    assert found["made-up, 20 nodes: change of the velocity from 105° to 135°"] < 1e-3
    assert found["made-up, 20 nodes: flow through sections less what enters"] == pytest.approx(1 / 400, rel=1e-9)
    assert found["velocities mirrored at the plane of the bend: largest difference, of the mean speed"] < 1e-12
    errors, friction_rows, peaks = (table["rows"] for table in evidence.tables)
    assert [row[1] for row in errors] == [12, 16, 20]
    assert friction_rows[0][1:4] == pytest.approx([0.2, 50, 50 * 0.2**0.5])
    assert peaks[0][1] == pytest.approx(peaks[0][2] * (1 + 1 / 400), rel=1e-3)
    assert peaks[0][3] == pytest.approx(peaks[0][4], abs=0.03)  # the peak is flat


def test_flows_that_have_not_settled_are_shown_but_not_judged(same_torus):
    evidence = measured([run(12), run(12, name="other")])
    assert [table["rows"][-1][0].split(",")[0] for table in evidence.tables] == ["other"] * 3
    assert not any(goal.what.startswith("other") for goal in evidence.goals)
    bounds = {goal.what.split(": ")[1]: goal.wanted for goal in evidence.goals}
    assert bounds["L2 error of the velocity along the bend"] == pytest.approx(0.02 * 20 / 12)


def test_asymmetry_is_the_largest_difference_of_mirrored_velocities():
    made = run(12)
    assert bend.asymmetry(made.nodes, made.velocity_m_s) < 1e-15
    made.velocity_m_s[100] += (0, 3e-4, 4e-4)
    assert bend.asymmetry(made.nodes, made.velocity_m_s) == pytest.approx(5e-4, rel=1e-9)
    made.nodes.position = made.nodes.position[1:]
    with pytest.raises(StageError, match="not symmetric about the plane of the bend"):
        bend.asymmetry(made.nodes, made.velocity_m_s[1:])


def test_run_that_is_no_bend_is_refused():
    made = run(12)
    made.case.input.geometry = Pipe(shape="pipe", diameter_mm=10, length_mm=20)
    with pytest.raises(StageError, match="run made-up-12: its geometry is no bend"):
        measured([made])
