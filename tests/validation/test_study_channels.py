# SPDX-License-Identifier: Apache-2.0
"""What the studies of channels measure, of profiles that are known."""

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.case.block_shapes import Step
from solver.run.blood import choose_blood, herschel_bulkley
from solver.runtime.errors import StageError
from validation.evidence import Evidence
from validation.studies import step, viscoplastic
from validation.studies.step import reattachment
from validation.studies.viscoplastic_fluids import Fluid, plug_width, shear_between, velocity_by_quadrature

HALF, FORCE = 1e-3, 20.0
BINGHAM, THINNING = Fluid(6e-3, 3.5e-3, 1.0), Fluid(6e-3, 5.3e-3, 0.7)


def places(nodes: int) -> np.ndarray:
    return ((np.arange(nodes) + 0.5) / nodes * 2 - 1) * HALF


@pytest.mark.parametrize("fluid", [BINGHAM, THINNING])
def test_stress_of_the_closed_form_balances_the_force(fluid):
    """tau_y + k g^n = G y where it is sheared, and one speed over the plug of 2 tau_y/G, here 0.6 mm."""
    y = np.linspace(0.35, 0.95, 7) * HALF
    step = 1e-5 * HALF
    rate = (fluid.velocity(y - step, HALF, FORCE) - fluid.velocity(y + step, HALF, FORCE)) / (2 * step)
    stress = fluid.yield_stress + fluid.consistency * rate**fluid.index
    np.testing.assert_allclose(stress, FORCE * y, rtol=1e-8)  # central differences of a smooth profile
    assert np.ptp(fluid.velocity(np.linspace(-0.3, 0.3, 9) * HALF, HALF, FORCE)) == 0
    assert fluid.velocity(np.array([HALF]), HALF, FORCE) == 0
    assert fluid.plug_width(FORCE) == pytest.approx(6e-4)


def test_regularised_fluid_nears_the_one_that_yields_as_its_exponent_grows():
    """What Papanastasiou's law lets creep below the yield stress falls as 1/m."""
    y = places(32)
    ideal = THINNING.velocity(y, HALF, FORCE)
    errors = []
    for m in (50.0, 500.0):
        law = partial(herschel_bulkley, yield_stress_pa=6e-3, k_pa_s_n=5.3e-3, n=0.7, m_s=m)
        errors.append(np.linalg.norm(velocity_by_quadrature(y, HALF, FORCE, law) / ideal - 1))
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize("fluid", [BINGHAM, THINNING])
def test_plug_width_is_measured_from_the_profile(fluid):
    """Differences over a spacing are exact where the profile is a parabola, and of second order else."""
    y = places(64)
    found = plug_width(*shear_between(y, fluid.velocity(y, HALF, FORCE)), fluid.straight)
    assert found == pytest.approx(fluid.plug_width(FORCE), rel=1e-9 if fluid.index == 1 else 1e-3)


def test_fluid_without_a_yield_stress_has_no_plug():
    """But for what differences over a spacing make of it: a thousandth of the channel."""
    y = places(64)
    for fluid in (Fluid(0.0, 5e-3, index) for index in (0.5, 1.0, 1.5)):
        assert plug_width(*shear_between(y, fluid.velocity(y, HALF, FORCE)), fluid.straight) < 2e-3 * HALF


def test_flow_reattaches_where_the_slope_on_the_floor_turns():
    """A parabola in z whose slope on the floor is linear in x, in a channel whose first 7 columns stand on the step."""
    rise, before = 4, 7
    x, z = np.arange(30) + 0.5 - before, np.arange(8)[:, None] + 0.5
    velocity = (x - 10.3) * z + 0.2 * z**2
    velocity[:rise, :before] = np.nan
    assert reattachment(velocity, rise) == pytest.approx(10.3 / rise, rel=1e-12)
    assert np.isnan(reattachment(np.abs(velocity), rise))


# ---- measures, of runs that are made up ------------------------------------------------------------------------------


@dataclass
class MadeUp:
    """What a measure asks of a run, whose plane holds given velocities."""

    name: str
    plane: np.ndarray
    spacing_m: float
    case: SimpleNamespace
    summary: dict
    nodes: SimpleNamespace
    flow: SimpleNamespace
    time_step_s: float = 1.0
    velocity_m_s = np.zeros((1, 3))

    def layer(self, values: np.ndarray) -> np.ndarray:
        return self.plane


def measured(module, runs: list[MadeUp], **options) -> Evidence:
    evidence = Evidence("made-up", "made up", "formulas")
    module.measure(evidence, {run.name: run for run in runs}, module.Options(**options))
    return evidence


def reached(evidence: Evidence) -> dict[str, float]:
    return {goal.what: goal.reached for goal in evidence.goals}


def plates(name: str, nodes: int, model: str, parameters: dict[str, float], error: float) -> MadeUp:
    """A profile that is everywhere too fast by a part `error`."""
    fluid = Fluid(parameters.get("yield_stress_pa", 0.0), parameters.get("mu_p_pa_s", 3.5e-3), 1.0)
    return MadeUp(
        name,
        (1 + error) * fluid.velocity(places(nodes), HALF, FORCE)[:, None],
        2 * HALF / nodes,
        case=SimpleNamespace(solve=SimpleNamespace(force_n_m3=(FORCE, 0, 0), density_kg_m3=1000.0)),
        summary={
            "models": {"blood": {"model": model, "parameters": parameters, "source": ""}},
            "steps": 10,
            "nodes_at_bounds": {"thick": 3},
        },
        nodes=SimpleNamespace(count=nodes),
        flow=SimpleNamespace(viscosity_pa_s=lambda at: np.array([5e-3, 1e-2])),
    )


BLOOD = {"yield_stress_pa": 6e-3, "mu_p_pa_s": 3.5e-3}
LAW = {"yield_stress_pa": 6e-3, "k_pa_s_n": 3.5e-3, "n": 1.0}


def test_errors_of_yielding_fluids_and_their_order_are_what_was_put_in():
    runs = [plates(f"bingham-{n}", n, "bingham", BLOOD, 1 / n**2) for n in (16, 32, 64)]
    runs += [plates(f"regularised-{m:g}", 64, "herschel-bulkley", LAW | {"m_s": m}, 0.0) for m in (1e4, 25.0)]
    evidence = measured(viscoplastic, runs)
    found = reached(evidence)
    assert found["bingham: order of convergence"] == pytest.approx(2, rel=1e-12)
    assert found["bingham, 64 nodes: L2 against the closed form"] == pytest.approx(1 / 64**2, rel=1e-9)
    assert found["bingham, 64 nodes: relative error of the plug's width"] < 1e-9
    (by_size,), (plug,), exponents = (table["rows"] for table in evidence.tables)
    assert by_size[1:4] == pytest.approx([1 / n**2 for n in (16, 32, 64)], rel=1e-9)
    assert plug[3] == "3 of 64"
    assert plug[1:3] == pytest.approx([0.5 + 3 * nu * 64**2 / 4e-6 for nu in (5e-6, 1e-5)], rel=1e-12)
    assert [row[0] for row in exponents] == pytest.approx([100, 4e4])  # m times the 4 1/s at the plates, ascending
    lattice, ideal = (float(exponents[0][column]) for column in (1, 5))
    assert ideal < 1e-12 < lattice  # the profile is that of the fluid that yields at once, which this law is not


def test_fluid_without_a_closed_form_is_refused():
    run = plates("blood-64", 64, "carreau-yasuda", choose_blood("carreau-yasuda", None, {}, 1.0).parameters, 0.0)
    with pytest.raises(StageError, match="carreau-yasuda blood has no closed form here; known are newtonian, power"):
        measured(viscoplastic, [run])


def over_a_step(name: str, rise: int, length: float, reynolds: float = 50.0) -> MadeUp:
    """A floor on which the slope of the velocity turns at `length`; h U/nu is `reynolds`."""
    x, z = (np.arange(6 * rise) + 0.5) / rise - 1, (np.arange(2 * rise)[:, None] + 0.5) / rise
    plane = (x - length) * z
    plane[:rise, :rise] = np.nan
    spacing_m = 0.5e-3 / rise
    inlet = SimpleNamespace(role="inlet", name="in", area_mm2=0.25)
    return MadeUp(
        f"{name}-{2 * rise}",
        plane,
        spacing_m,
        case=SimpleNamespace(input=SimpleNamespace(geometry=Step(shape="step", step_mm=0.5, inlet_mm=1, outlet_mm=5))),
        summary={
            "openings": {"in": {"imposed_flow_ml_s": 0.025}},
            "device": "CPU",
            "steps": 100,
            "seconds": 2.0,
            "mlups": 7.0,
            "numbers": {"viscosity_m2_s": 0.1 * 0.5e-3 / reynolds},
        },
        nodes=SimpleNamespace(openings=(inlet,)),
        flow=SimpleNamespace(),
    )


TABLES = {"lengths": "erturk2008_reattachment", "measured": "armaly1983_reattachment", "speeds": "rinaldi_step_speed"}


def test_reattachment_is_compared_with_the_table_and_with_the_next_grid():
    runs = [over_a_step("work", 32, 2.9), over_a_step("work", 16, 2.8), over_a_step("cut", 16, 4.0, reynolds=150.0)]
    evidence = measured(step, runs, sections=(1, 3), channel="work", compared=["work"], **TABLES)
    found = reached(evidence)
    assert found["work, 192 x 64 nodes: deviation of the reattachment"] == pytest.approx(1 - 2.9 / 2.922, rel=1e-9)
    change = "work, 96 x 32 to 192 x 64 nodes: change of the"
    assert found[f"{change} reattachment"] == pytest.approx(0.1 / 2.9, rel=1e-9)
    # profiles are (x - length) z: their difference 0.1 z is to be seen against (-1.9 z, 0.1 z)
    assert found[f"{change} profiles"] == pytest.approx(np.sqrt(2 * 0.1**2 / (1.9**2 + 0.1**2)), rel=1e-2)
    lengths, _, speeds = (table["rows"] for table in evidence.tables)
    assert [row[1] for row in lengths] == ["96 x 32", "192 x 64", "96 x 32"]
    assert lengths[2][2:7] == pytest.approx([150, 300, 5, 4.0, (4.982 + 8.237) / 2])
    assert speeds[0] == ["96 x 32", "CPU", 100, 20.0, 7.0, 0.041, 75.0, 0.59]


def test_run_that_is_no_step_is_refused():
    run = over_a_step("work", 16, 2.8)
    run.case.input.geometry = None
    with pytest.raises(StageError, match="run work-32: its geometry is no step"):
        measured(step, [run], sections=(1,), channel="work", compared=[], **TABLES)
