# SPDX-License-Identifier: Apache-2.0
"""Balance of momentum, estimates of pressure drops and reattachment, on made-up flows with known answers."""

import numpy as np
import pytest

from pipeline.case.shapes import Pipe, Stenosis
from pipeline.haemodynamics.accumulator import SLAB_HALF_WIDTH, hann
from pipeline.haemodynamics.wall_shear_stress import Wall
from solver.runtime.errors import StageError
from tests.support.made_up_vessels import DENSITY, FLOW_ML_S, VISCOSITY, made_up, poiseuille, straight
from validation.evidence import Evidence
from validation.studies import stenosis
from validation.studies.balance import Vessel, gathered, smooth_step, times_normal
from validation.studies.stenosis import (
    Narrowing,
    blunt_coefficient,
    friction_coefficient,
    last_turn,
    widening_coefficient,
)

DIRECTION, RADIUS, SPACING_MM = (1, 2, 3), 6.0, 0.3
LENGTH = 9 * 2 * RADIUS
DIAMETER_MM = 2 * RADIUS * SPACING_MM


def shape(reduction: float = 0.75, throat: float = 2.0) -> Stenosis:
    """Nine diameters long."""
    return Stenosis(
        shape="stenosis",
        diameter_mm=DIAMETER_MM,
        length_mm=9 * DIAMETER_MM,
        throat_mm=throat * DIAMETER_MM,
        area_reduction=reduction,
        direction=DIRECTION,
    )


@pytest.fixture(scope="module")
def vessel():
    return straight(DIRECTION, RADIUS, LENGTH, SPACING_MM)


def run_of(vessel, name: str = "re-9-20", drop_pa: float = 0.0, gradient: float = 1.0, geometry=None):
    """Developed flow through a straight pipe; the pressure falls by `gradient` times what friction takes, and by a drop
    in the middle.
    """
    nodes, surface = vessel
    axis, points = np.array(nodes.openings[1].normal), nodes.points_mm()
    velocity, slope, stress = poiseuille(points, axis, RADIUS * SPACING_MM, FLOW_ML_S)
    along = points @ axis
    pressure = gradient * slope * 1e-3 * along - drop_pa * (along > LENGTH * SPACING_MM / 2)
    return made_up(
        name,
        nodes,
        surface,
        geometry or shape(),
        {"in": FLOW_ML_S, "out": FLOW_ML_S},
        velocity_m_s=velocity,
        pressure_pa=pressure,
        viscous_stress_pa=stress,
    )


# ---- balance ---------------------------------------------------------------------------------------------------------


def test_smooth_step_is_the_integral_of_the_window_of_sections():
    """Of Hann's window, by differences."""
    s = np.linspace(-3, 3, 61)
    slope = (smooth_step(s + 1e-6) - smooth_step(s - 1e-6)) / 2e-6
    wanted = np.where(np.abs(s) < SLAB_HALF_WIDTH, hann(s, SLAB_HALF_WIDTH), 0)
    np.testing.assert_allclose(slope, wanted, atol=1e-8)
    np.testing.assert_allclose(smooth_step(np.array([-9.0, 0.0, 9.0])), (0, 0.5, 1), atol=1e-15)


def test_traction_takes_the_components_in_their_order():
    xx, yy, zz, xy, yz, xz = 1.0, 2.0, 3.0, 4.0, 5.0, 6.0
    wanted = np.array(((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))) @ (0.5, -1.0, 2.0)
    np.testing.assert_array_equal(
        times_normal(np.array([(xx, yy, zz, xy, yz, xz)]), np.array((0.5, -1.0, 2.0))), [wanted]
    )


@pytest.mark.parametrize("gradient", [1.0, 1.1])
def test_momentum_of_a_developed_flow_is_balanced_and_what_is_added_is_missing(vessel, gradient):
    """All of the force on a straight wall is friction; a tenth more of the pressure's fall is a tenth of it missing.

    Sums over the nodes of a section count its area to half a per cent here.
    """
    assert Vessel(run_of(vessel, gradient=gradient)).momentum_missing == pytest.approx(gradient - 1, abs=5e-3)


def test_a_wall_of_fewer_points_keeps_its_area_and_normals(vessel):
    wall = Wall.of(vessel[1])
    fewer = gathered(wall, SPACING_MM)
    assert len(fewer.areas_mm2) < len(wall.areas_mm2)
    assert fewer.areas_mm2.sum() == pytest.approx(wall.areas_mm2.sum(), rel=1e-12)
    axis = np.array(vessel[0].openings[1].normal)
    away = fewer.mesh.points_mm - np.outer(fewer.mesh.points_mm @ axis, axis)
    np.testing.assert_allclose(np.linalg.norm(fewer.normals, axis=1), 1)
    # the mean place of a piece of the circle, as wide as a cube's diagonal at most, lies inside by its sagitta at most
    inside = 1 - np.linalg.norm(away, axis=1) / (RADIUS * SPACING_MM)
    assert 0 <= inside.max() < 3 / (8 * RADIUS**2)
    cosine = np.einsum("ij,ij->i", fewer.normals, away) / np.linalg.norm(away, axis=1)
    assert cosine.min() > 0.995


# ---- pressure drop ---------------------------------------------------------------------------------------------------


def test_friction_along_the_wave_is_that_of_the_closed_form():
    """The mean of (a - b cos)^-4 is a (2 a^2 + 3 b^2)/(2 (a^2 - b^2)^(7/2)); here r/R = 3/4 - cos/4."""
    a, b = 0.75, 0.25
    mean = a * (2 * a**2 + 3 * b**2) / (2 * (a**2 - b**2) ** 3.5)
    assert friction_coefficient(shape()) == pytest.approx(32 * 2 * mean, rel=1e-9)
    assert friction_coefficient(shape(1e-9)) == pytest.approx(32 * 2, rel=1e-8)  # Hagen and Poiseuille


def test_coefficients_are_those_of_the_sources():
    """32 (0.83 x 2 + 1.64/2) 2^4, and 1.52 (4 - 1)^2."""
    assert blunt_coefficient(shape()) == pytest.approx(32 * 2.48 * 16, rel=1e-12)
    assert widening_coefficient(shape()) == pytest.approx(13.68, rel=1e-12)


def test_drop_of_the_narrowing_is_reported_without_that_of_the_pipe_beside_it(vessel):
    """A pipe has all of its friction, of which that of the narrowing's own length is left, and the drop put in."""
    narrowing = Narrowing(run_of(vessel, drop_pa=7.0))
    mean = FLOW_ML_S / (np.pi * (RADIUS * SPACING_MM) ** 2)
    over_length = 32 * VISCOSITY * mean / (1e-3 * DIAMETER_MM) * 2
    assert narrowing.drop_pa(-1.5, 3.5) == pytest.approx(7.0 + over_length, rel=1e-2)  # means over some nodes
    friction, blunt, alone = narrowing.estimates_pa
    assert friction - alone == pytest.approx(13.68 * DENSITY * mean**2 / 2)
    assert (friction - alone) / (blunt - alone) < 1
    assert narrowing.reynolds == pytest.approx(mean * 1e-3 * DIAMETER_MM * DENSITY / VISCOSITY)


def test_flow_through_sections_is_that_of_the_field(vessel):
    narrowing = Narrowing(run_of(vessel))
    assert max(abs(narrowing.flow_error(place)) for place in (-3.5, 0.0, 2.25)) < 5e-3  # by the sums over nodes
    assert narrowing.places[[0, -1]] == pytest.approx([-3.75, 3.75])


# ---- reattachment ----------------------------------------------------------------------------------------------------


def test_flow_reattaches_at_the_last_turn_of_the_stress_behind_the_throat():
    place = np.linspace(-2, 4, 61)
    shear = (place + 1) * (place - 0.33) * (place - 2.47)  # linear between places to 0.1^2 times the curvature
    assert last_turn(place, shear) == pytest.approx(2.47, abs=5e-3)
    assert np.isnan(last_turn(place, np.abs(shear) + 1))
    assert np.isnan(last_turn(place, (place + 1) * 1.0))  # before the throat


def test_stress_along_a_pipe_is_even(vessel):
    """Stress is linear in place, which the fit carries exactly; but for the mean normals of the pieces of the wall."""
    narrowing = Narrowing(run_of(vessel))
    place, shear = narrowing.shear_along
    mean = FLOW_ML_S / (np.pi * (RADIUS * SPACING_MM) ** 2)
    middle = np.abs(place) < 3.5
    np.testing.assert_allclose(shear[middle], 4 * VISCOSITY * mean / (1e-3 * RADIUS * SPACING_MM), rtol=2e-2)
    assert np.isnan(narrowing.reattachment)


# ---- the measure -----------------------------------------------------------------------------------------------------


def test_measure_asks_for_what_was_put_in(vessel, tmp_path):
    runs = {name: run_of(vessel, name) for name in ("re-9-12",)}
    evidence = Evidence("made-up", "made up", "formulas")
    options = {"sections": (-2.0, 2.0), "drop": (-1.5, 3.5)}
    stenosis.measure(evidence, runs, stenosis.Options(nodes=12, **options))
    found = {goal.what: goal for goal in evidence.goals}
    assert found["re-9-12: flow lost"].reached == 0
    assert found["re-9-12: flow through sections, deviation"].reached < 5e-3
    missing = found["re-9-12: momentum missing, over the force on the wall"]
    assert missing.wanted == 0.01
    assert missing.held == pytest.approx(0.022 * 21 / 6)  # six nodes across the throat
    balances, drops = (table["rows"] for table in evidence.tables)
    assert balances[0][:2] == ["re-9-12", vessel[0].count]
    assert drops[0][3:6] == pytest.approx(Narrowing(runs["re-9-12"]).estimates_pa)
    evidence.keep(tmp_path / "record.json", tmp_path / "stenosis", "studies", made={})
    assert (tmp_path / "stenosis.png").is_file()
    coarse = Evidence("made-up", "made up", "formulas")
    stenosis.measure(coarse, runs, stenosis.Options(nodes=13, **options))
    assert [goal.what for goal in coarse.goals] == ["re-9-12: flow lost"]


def test_change_of_the_drop_is_asked_for_between_grids_that_are_fine_enough(vessel):
    """Both have the same nodes here, but drops of 10 and of 8 Pa beside friction."""
    runs = {name: run_of(vessel, name, drop) for name, drop in (("re-9-12", 10.0), ("re-9-13", 8.0))}
    evidence = Evidence("made-up", "made up", "formulas")
    stenosis.measure(evidence, runs, stenosis.Options(nodes=12, sections=(2.0,), drop=(-1.5, 3.5)))
    change = next(goal for goal in evidence.goals if "change" in goal.what)
    before, after = (Narrowing(run).drop_pa(-1.5, 3.5) for run in runs.values())
    assert change.reached == pytest.approx(before / after - 1)
    assert before - after == pytest.approx(2.0, rel=1e-9)


def test_run_that_is_no_stenosis_is_refused(vessel):
    run = run_of(vessel, geometry=Pipe(shape="pipe", diameter_mm=1, length_mm=1))
    with pytest.raises(StageError, match="run re-9-20: its geometry is no stenosis"):
        _ = Narrowing(run).shape
