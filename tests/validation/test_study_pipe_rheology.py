# SPDX-License-Identifier: Apache-2.0
"""Blood and other fluids in a pipe: closed forms against quadrature and each other, and what is measured of them."""

from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.case.case_file import Case
from pipeline.case.settings.base import parse
from solver.run.blood import bingham, casson, choose_blood, power_law
from solver.runtime.errors import StageError
from tests.pipeline.stages.test_canonical import nodes_of, surface
from validation.evidence import Evidence
from validation.studies import pipe_rheology
from validation.studies.pipe_rheology import PipeProfile
from validation.studies.run import Run
from validation.studies.viscoplastic_fluids import Casson, Fluid, pipe_flow_by_quadrature, shear_rate_of

RADIUS, STRESS = 1.5e-3, 0.1
FORCE = STRESS / RADIUS
"""Half of that on a pipe's fluid."""

FLUIDS = {
    "thinning": Fluid(0.0, 0.03, 0.5),
    "newtonian": Fluid(0.0, 0.01, 1.0),
    "thickening": Fluid(0.0, 3e-3, 1.5),
    "bingham": Fluid(0.03, 7e-3, 1.0),
    "herschel-bulkley": Fluid(0.03, 0.014, 0.7),
    "casson": Casson(0.0375, 3e-3),
}


@pytest.mark.parametrize("fluid", FLUIDS.values(), ids=FLUIDS)
def test_flow_is_the_integral_of_the_velocity(fluid):
    """Of 2 pi r u by the midpoint rule with 20,000 rings, right to 1e-8 of a smooth profile."""
    r = (np.arange(20_000) + 0.5) / 20_000 * RADIUS
    rings = 2 * np.pi * (r * fluid.velocity(r, RADIUS, FORCE)).sum() * RADIUS / 20_000
    assert fluid.pipe_flow(RADIUS, STRESS) == pytest.approx(rings, rel=1e-7)


LAWS = {
    "thinning": partial(power_law, k_pa_s_n=0.03, n=0.5),
    "thickening": partial(power_law, k_pa_s_n=3e-3, n=1.5),
    "bingham": partial(bingham, yield_stress_pa=0.03, mu_p_pa_s=7e-3),
    "casson": partial(casson, yield_stress_pa=0.0375, mu_c_pa_s=3e-3, mu_max_pa_s=np.inf),
}


@pytest.mark.parametrize("name", LAWS)
def test_flow_by_quadrature_is_the_closed_form(name):
    """Where the fluid yields the integrand has a kink, which costs the rule some digits."""
    fluid = FLUIDS[name]
    found = pipe_flow_by_quadrature(RADIUS, STRESS, LAWS[name], fluid.yield_stress)
    assert found == pytest.approx(fluid.pipe_flow(RADIUS, STRESS), rel=1e-5 if fluid.yield_stress else 1e-10)


def test_flow_of_binghams_fluid_is_that_of_buckingham_and_reiner():
    for part in (0.0, 0.3, 0.9):
        poiseuille = np.pi * RADIUS**3 * STRESS / (4 * 7e-3)
        wanted = poiseuille * (1 - 4 / 3 * part + part**4 / 3)
        assert Fluid(part * STRESS, 7e-3, 1.0).pipe_flow(RADIUS, STRESS) == pytest.approx(wanted, rel=1e-12)


def test_nothing_flows_below_the_yield_stress():
    for name in ("bingham", "casson"):
        fluid = FLUIDS[name]
        assert abs(fluid.pipe_flow(RADIUS, 0.9 * fluid.yield_stress)) < 1e-15 * fluid.pipe_flow(RADIUS, STRESS)


def test_cassons_velocity_has_the_shear_rate_of_its_stress():
    """Its slope by central differences is the shear rate at the stress, which the law at that rate gives back."""
    fluid, r, step = FLUIDS["casson"], np.linspace(0.4, 0.95, 7) * RADIUS, 1e-5 * RADIUS
    rate = (fluid.velocity(r - step, RADIUS, FORCE) - fluid.velocity(r + step, RADIUS, FORCE)) / (2 * step)
    np.testing.assert_allclose(rate, [fluid.shear_rate(FORCE * each) for each in r], rtol=1e-6)
    np.testing.assert_allclose(rate, shear_rate_of(FORCE * r, LAWS["casson"], fluid.yield_stress), rtol=1e-6)
    assert np.ptp(fluid.velocity(np.linspace(0, 0.37, 5) * RADIUS, RADIUS, FORCE)) == 0


# ---- the measure, of runs that are made up ---------------------------------------------------------------------------

MODELS = {
    "newtonian": {},
    "bingham": {"model": "bingham", "parameters": {"yield_stress_pa": 0.03, "mu_p_pa_s": 0.007}},
    "carreau-yasuda": {"model": "carreau-yasuda"},
}


@cache
def made(nodes: int, ends: str, length_mm: float):
    geometry = {"shape": "pipe", "diameter_mm": 3, "length_mm": length_mm, "ends": ends}
    return geometry, nodes_of(geometry, nodes), surface(geometry, nodes)[0].mesh


def made_up(name: str, blood: dict, error: float = 0.0, ends: str = "periodic", wall_error: float = 0.0) -> Run:
    """A run in which theory's velocity is everywhere too large by a part `error`, the stress by `wall_error`."""
    across = int(name.rpartition("-")[2])
    geometry, nodes, mesh = made(across, ends, 0.3 if ends == "periodic" else 12)
    solve = {"force_n_m3": [2 * FORCE, 0, 0]} if ends == "periodic" else {"inlets": {"inlet": {"flow_ml_s": 0.02}}}
    case = parse(Case, {"input": {"geometry": geometry}, "solve": solve | ({"blood": blood} if blood else {})}, name)
    model = choose_blood(blood.get("model", "newtonian"), None, blood.get("parameters", {}), 0.01)
    run = Run(name, case, Path())
    reported = {"model": model.model, "parameters": model.parameters, "source": ""}
    run.__dict__.update(
        nodes=nodes,
        surface=mesh,
        summary={
            "models": {"blood": reported},
            "steps": 10,
            "nodes_at_bounds": {"thick": 0},
            "numbers": {"tau": 0.8, "time_step_s": 1e-3},
            "openings": {"inlet": {"imposed_flow_ml_s": 0.02}},
        },
        flow=SimpleNamespace(viscosity_pa_s=lambda at: None),
    )
    profile, points = PipeProfile(run), 1e-3 * nodes.points_mm()
    stress = np.zeros((nodes.count, 6))
    stress[:, [3, 5]] = -(1 + wall_error) * profile.force * points[:, 1:]
    u = profile.solved_at(np.linalg.norm(points[:, 1:], axis=1)) * (1 + error)
    pressure = -(1 + wall_error) * 2 * profile.force * points[:, 0]
    run.__dict__.update(velocity_m_s=np.outer(u, (1, 0, 0)), viscous_stress_pa=stress, pressure_pa=pressure)
    return run


def measured(*runs: Run, **options) -> Evidence:
    evidence = Evidence("made-up", "made up", "formulas")
    pipe_rheology.measure(evidence, {run.name: run for run in runs}, pipe_rheology.Options(**options))
    return evidence


def reached(evidence: Evidence) -> dict[str, float]:
    return {goal.what: goal.reached for goal in evidence.goals}


def test_what_was_put_into_flows_is_what_is_measured():
    runs = [made_up(f"bingham-{n}", MODELS["bingham"], 1 / n**2, wall_error=0.01) for n in (10, 20)]
    evidence = measured(*runs, made_up("carreau-yasuda-20", MODELS["carreau-yasuda"], 0.01))
    found = reached(evidence)
    assert found["carreau-yasuda, 20 nodes: L2 of the velocity"] == pytest.approx(0.01, rel=1e-6)
    assert not any("carreau-yasuda" in what and "plug" in what for what in found)
    assert found["bingham: order of convergence"] == pytest.approx(2, rel=1e-6)  # radii are rounded to 1e-9
    assert found["bingham, 20 nodes: L2 of the velocity"] == pytest.approx(1 / 400, rel=1e-6)
    # the sum over nodes is Pi R^2 times the mean to 1e-3 at 20 nodes across
    assert found["bingham, 20 nodes: relative error of the flow"] == pytest.approx(1 / 400, abs=1e-3)
    # the fit is exact for a stress linear in y and z, the wall's triangles lie within 1e-3 of its radius
    assert found["bingham, 20 nodes: wall shear stress, rms of its relative error"] == pytest.approx(0.01, abs=1e-3)
    # differences are exact where the profile is a parabola; those across the plug's edge are left out or small
    assert found["bingham, 20 nodes: error of the plug's width in spacings"] < 0.1
    by_size, row = (table["rows"][0] for table in evidence.tables)
    assert by_size[:3] == ["bingham", pytest.approx(0.01), pytest.approx(1 / 400)]
    assert row[:3] == ["bingham", 0.8, 0.8]
    assert row[-1] == pytest.approx(0.3)


def test_pressure_between_openings_is_compared_with_that_which_the_flow_needs():
    run = made_up("carreau-yasuda-open-10", MODELS["carreau-yasuda"], ends="openings", wall_error=-0.02)
    found = reached(measured(run))
    assert found["carreau-yasuda-open-10 nodes: relative error of the pressure gradient"] == pytest.approx(0.02)
    assert found["carreau-yasuda-open-10 nodes: L2 of the velocity"] < 1e-8
    profile = PipeProfile(run)
    assert profile.theory(profile.wall_stress) == pytest.approx(0.02e-6, rel=1e-8)
    x = run.nodes.points_mm()[profile.rows, 0]
    assert 5.25 <= x.min() < x.max() <= 6.75  # 3.5 radii from the caps of 12 mm


def test_pressure_and_wall_stress_of_one_flow_are_reported_by_blood():
    """Of the same force, so that pressure at the same flow is as the flows are, and the stress the same."""
    runs = [made_up(f"{name}-10", MODELS[name]) for name in ("newtonian", "bingham")]
    evidence = measured(*runs, nodes=10, compared={"slow": ("newtonian-10", "bingham-10"), "fast": ("newtonian-20",)})
    first, second = evidence.tables[-1]["rows"]
    assert first[:2] == ["slow", "newtonian"]
    wanted = FLUIDS["newtonian"].pipe_flow(RADIUS, STRESS) / FLUIDS["bingham"].pipe_flow(RADIUS, STRESS)
    assert first[5:] == [1, 1, 1]
    assert second[5] == pytest.approx(wanted, rel=0.01)  # the sum over 10 nodes across
    assert second[6:] == pytest.approx([1, 1], rel=1e-9)
    assert len(evidence.figures) == 2


def test_pipe_without_a_middle_is_refused():
    run = made_up("newtonian-open-10", {}, ends="openings")
    short = {"geometry": run.case.input.geometry.model_copy(update={"length_mm": 10.0})}
    run.__dict__["case"] = SimpleNamespace(input=SimpleNamespace(**short))
    with pytest.raises(StageError, match=r"length_mm 10 leaves no node 3\.5 radii from both openings; .* above 10\.8"):
        measured(run)


def test_run_that_is_no_pipe_along_x_is_refused():
    run = made_up("newtonian-10", {})
    run.__dict__["case"] = SimpleNamespace(input=SimpleNamespace(geometry=None))
    with pytest.raises(StageError, match=r"run newtonian-10: input\.geometry is no pipe along x"):
        measured(run)
