# SPDX-License-Identifier: Apache-2.0
"""The age of blood as a field: against a formula in a pipe, and against particles that diffuse as much as it does.

Particles without diffusion and the field tell different ages of the same place: old blood of walls and sacs gets into
the rest by diffusion, which on a lattice is more than in blood. With one diffusivity both have to agree.
"""

import logging
from pathlib import Path

import numpy as np
import pytest

import hemolattice as hl
from pipeline.case.settings.flow import SolveSettings
from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.members.in_process import solved_in
from pipeline.stages.surface import extract_surface
from pipeline.stages.transport import flows_ml_s
from solver.backends.scalar_lattice import scalar_lattice
from solver.transport.carried_flow import CarriedFlow
from solver.transport.carrier import Carrier
from solver.transport.scalar_plan import make_plan
from solver.transport.scalar_run import TransportRun
from solver.transport.scalar_settings import TransportSettings
from tests.pipeline.haemodynamics.test_particles import measured
from tests.support.analytic_pipe import Pipe
from tests.support.drawn_flows import DENSITY, VISCOSITY, drawn_flow
from validation.random_walk import ages_by_walkers, by_age, compared

LOG = logging.getLogger("age of blood")
PIPE = Pipe(length_mm=14.0)
RADIUS_M, LENGTH_M, MEAN_M_S = 2e-3, 14e-3, 0.1
DIFFUSIVITY = MEAN_M_S * RADIUS_M / 20


def age_of(nodes, velocity, out_ml_s, **settings):
    """The field, and the plan of its run."""
    chosen = TransportSettings(backend="cpu", precision="fp64", settled=0.002, **settings)
    dx_m = nodes.spacing_mm * 1e-3
    carrier = Carrier.of(nodes, scalar_lattice(nodes))
    flow = CarriedFlow(carrier, lambda _: velocity, np.zeros(1), np.array(out_ml_s) * 1e-6 / dx_m**2, None)
    plan = make_plan(flow, chosen, dx_m, 1e-3 * min(opening.radius_mm for opening in nodes.openings))
    return TransportRun(flow, plan, chosen, LOG).age(), plan


@pytest.fixture(scope="module")
def in_pipe():
    nodes = measured(PIPE.nodes(0.3), PIPE)
    velocity, flow = PIPE.velocity(nodes.points_mm()), PIPE.flow_ml_s
    age, plan = age_of(nodes, velocity, [[-flow, flow]], diffusivity_m2_s=DIFFUSIVITY)
    assert not plan.numbers["diffusivity_raised"]
    return nodes, velocity, age, plan


def test_the_age_of_developed_flow_in_a_pipe_is_that_of_the_formula(in_pipe):
    """Where the profile of the age is developed, a = z/U + D/U^2 + (R^2/D) (s^2/4 - s^4/8 - 1/16) at the part s of the
    radius: u da/dz = D lap a + 1 has it with no flux at the wall, and its mean weighted by flow is what diffusion along
    the axis leaves of z/U. What an inlet does has decayed to exp(-12.8 z D/(U R^2)), 3 % of it, 11 mm behind.

    Nodes are 6.7 in the radius, whose stairs are off by some hundredths of what the age varies across, R^2/(8 D).
    """
    nodes, _, age, _ = in_pipe
    first, second, axis = PIPE.frame()
    points = nodes.points_mm()
    along = points @ axis * 1e-3 + LENGTH_M / 2
    part = np.hypot(points @ first, points @ second) * 1e-3 / RADIUS_M
    across = RADIUS_M**2 / DIFFUSIVITY * (part**2 / 4 - part**4 / 8 - 1 / 16)
    off = age.field - along / MEAN_M_S - DIFFUSIVITY / MEAN_M_S**2 - across
    late = (along > 10e-3) & (along < 12e-3)
    varies = RADIUS_M**2 / (8 * DIFFUSIVITY)
    assert late.sum() > 500
    assert abs(off[late].mean()) < 0.02 * varies
    for ring in ((part < 0.3), (part > 0.3) & (part < 0.7), part > 0.7):
        assert abs(off[late & ring].mean()) < 0.04 * varies


def test_particles_that_diffuse_as_much_have_the_ages_of_the_field_in_a_pipe(in_pipe):
    """Within three standard errors of the walkers and the 3 % that a field of so few nodes is off by."""
    nodes, velocity, age, plan = in_pipe
    rows = np.random.default_rng(5).integers(0, nodes.count, 3000)
    walkers = ages_by_walkers(nodes, velocity, DIFFUSIVITY, rows, 20 * plan.transit_s)
    assert walkers.lost.mean() < 0.002
    assert (walkers.through == 2).sum() == 0
    field = age.field[rows].astype(np.float64)
    for group in compared(field, walkers, [np.ones(len(rows), bool), *by_age(field, 3)]):
        assert abs(group.field_s - group.walkers_s) < 3 * group.error_s + 0.03 * group.walkers_s


def test_without_diffusion_walkers_take_the_way_over_the_speed(in_pipe):
    """Between nodes the velocity is linear, which is below a parabola by up to h^2/8 lap u = U h^2/R^2."""
    nodes, velocity, _, plan = in_pipe
    axis = PIPE.frame()[2]
    along = nodes.points_mm() @ axis * 1e-3 + LENGTH_M / 2
    speed = velocity @ axis
    rows = np.flatnonzero((speed > MEAN_M_S) & (along > 2e-3))[::20]
    walkers = ages_by_walkers(nodes, velocity, 0.0, rows, 20 * plan.transit_s)
    np.testing.assert_allclose(walkers.time_s, along[rows] / speed[rows], rtol=(0.3 / PIPE.radius_mm) ** 2)


@pytest.fixture(scope="module")
def in_sac(tmp_path_factory):
    """A drawn vessel with a sac, and the flow in it."""
    made = drawn_flow("sac", 72)
    limb = made.vessel.branches[0]
    ends = {"inlet": limb.points_mm[0], "outlet": limb.points_mm[-1]}
    openings = [{"name": name, "role": name, "near_mm": point} for name, point in ends.items()]
    surface = extract_surface(made.occupancy(), SurfaceSettings.model_validate({"openings": openings}), LOG)
    nodes = hl.decompose(hl.voxelize(surface, spacing_mm=made.narrowest_mm / 12), surface)
    stated = {"inlets": {"*": {"flow_ml_s": made.flow_ml_s}}, "viscosity_pa_s": VISCOSITY, "density_kg_m3": DENSITY}
    settings = SolveSettings.model_validate(stated | {"backend": "cpu"})
    solved = solved_in(Path(tmp_path_factory.mktemp("sac")), nodes, settings, LOG)
    sac = made.vessel.sacs[0]
    away = (nodes.points_mm() - np.array(sac.centre_mm)) / np.array(sac.radii_mm)
    out_ml_s = flows_ml_s(nodes, solved.record, solved.flow.times_s, None)
    return nodes, solved.flow.velocity_mean_m_s(), out_ml_s, np.linalg.norm(away, axis=1) < 1


def test_in_an_aneurysm_field_and_particles_agree_where_they_mix_alike_and_mixing_is_what_they_differ_by(in_sac):
    """Of the vessel and of its sac to three standard errors and 5 %; without diffusion the sac's blood is older."""
    nodes, velocity, out_ml_s, ball = in_sac
    age, plan = age_of(nodes, velocity, out_ml_s)
    assert plan.numbers["diffusivity_raised"]
    rows = np.random.default_rng(6).choice(np.flatnonzero(np.isfinite(age.field)), 3000)
    field, limit_s = age.field[rows].astype(np.float64), 30 * plan.transit_s
    groups = [np.ones(len(rows), bool), ball[rows]]
    mixing = compared(field, ages_by_walkers(nodes, velocity, plan.diffusivity_m2_s, rows, limit_s), groups)
    for group in mixing:
        assert abs(group.field_s - group.walkers_s) < 3 * group.error_s + 0.05 * group.walkers_s
    few = np.flatnonzero(groups[1])[:80]  # which tell four times the age in the sac to 0.15 of it, and walk for long
    walkers = ages_by_walkers(nodes, velocity, 0.0, rows[few], 12 * plan.transit_s)  # none counts as older than that
    (alone,) = compared(field[few], walkers, [np.ones(len(few), bool)])
    assert alone.walkers_s - 3 * alone.error_s > 1.3 * mixing[1].walkers_s
