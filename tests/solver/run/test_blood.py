# SPDX-License-Identifier: Apache-2.0
"""Blood by name: published figures, the scales of parameters, what settings may say, what units are chosen by."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.case.case_file import Case
from pipeline.case.settings.base import parse
from solver.kernels.rheology import one_number
from solver.kernels.viscosity_models import VISCOSITIES
from solver.run.blood import MODELS, choose_blood
from solver.run.plan import make_plan
from solver.run.settings import BloodSettings, InletSettings
from solver.runtime.errors import StageError
from tests.solver.run.test_simulation import settings
from tests.support.geometries import pipe

PUBLISHED = [(model, name) for model in MODELS for name in MODELS[model].sets]


@pytest.mark.parametrize(("model", "name"), PUBLISHED)
def test_published_blood_is_thick_at_rest_and_thin_in_arteries(model, name):
    """A wrong unit or digit of any set would fall out of these ranges, which measured blood of mammals stays within."""
    blood = choose_blood(model, name, {}, 3.5e-3)
    slow, fast = blood.viscosity_pa_s([0.1, 1000.0])
    assert 8e-3 < slow < 0.25
    assert 2e-3 < fast < 5e-3
    assert "doi:10." in blood.source
    assert tuple(blood.parameters) == MODELS[model].parameters


@pytest.mark.parametrize(
    ("model", "rate", "mpa_s"),
    [
        ("carreau-yasuda", 0.0, 160.0),
        ("carreau-yasuda", 100.0, 4.2826),
        ("casson", 1.0, 61.85),  # (0.1937 + 0.055)^2
        ("casson", 0.0, 160.0),
        ("power-law", 1.0, 17.0),
        ("bingham", 1.0, 7.5),
        ("herschel-bulkley", 1.0, 26.47),
    ],
)
def test_viscosity_at_a_shear_rate(model, rate, mpa_s):
    assert 1e3 * float(choose_blood(model, None, {}, 1.0).viscosity_pa_s(rate)) == pytest.approx(mpa_s, rel=2e-3)


@pytest.mark.parametrize("model", VISCOSITIES)
def test_parameters_in_lattice_units_give_the_same_viscosity(model):
    blood, stress_pa, dt_s = choose_blood(model, None, {}, 3.5e-3), 70.0, 2e-5
    lattice = VISCOSITIES[model](np.float64, one_number(np.float64).power)
    scaled = blood.scaled(stress_pa, dt_s)
    for rate in (0.3, 20.0, 900.0):
        viscosity = lattice(rate * dt_s, scaled) * stress_pa * dt_s
        assert viscosity == pytest.approx(float(blood.viscosity_pa_s(rate)), rel=1e-12)


@pytest.mark.parametrize("model", ["casson", "herschel-bulkley", "power-law"])
def test_shear_rate_at_a_stress_is_the_inverse(model):
    blood = choose_blood(model, None, {}, 3.5e-3)
    rate = blood.shear_rate_1_s(0.5)
    assert float(blood.viscosity_pa_s(rate)) * rate == pytest.approx(0.5, rel=1e-9)


def test_stress_below_the_yield_stress_shears_nothing():
    assert choose_blood("bingham", None, {}, 1.0).shear_rate_1_s(3.9e-3) == 0


@pytest.mark.parametrize(
    ("blood", "message"),
    [
        ({"model": "casson", "set": "hemo"}, "set 'hemo': casson has no such set; known are boyd-2007"),
        (
            {"model": "casson", "parameters": {"n": 0.5}},
            "casson has no n; known are yield_stress_pa, mu_c_pa_s, mu_max",
        ),
        ({"set": "boyd-2007"}, "newtonian blood has none; set solve.viscosity_pa_s"),
        ({"model": "oldroyd"}, "newtonian.*carreau-yasuda"),
        ({"model": "casson", "parameters": {"mu_c_pa_s": 0}}, "greater than 0"),
    ],
)
def test_case_with_unknown_blood_is_refused_with_what_is_known(blood, message):
    with pytest.raises(StageError, match=message):
        parse(Case, {"solve": {"inlets": {"*": {"flow_ml_s": 2}}, "blood": blood}}, "case.yaml")


def test_given_parameters_stand_in_place_of_the_sets():
    blood = choose_blood("casson", None, {"mu_c_pa_s": 4e-3}, 1.0)
    assert blood.parameters == {"yield_stress_pa": 0.1937**2, "mu_c_pa_s": 4e-3, "mu_max_pa_s": 0.16}
    assert blood.source.endswith("but for mu_c_pa_s")


def test_units_are_chosen_by_the_viscosity_at_the_walls_shear_rate(tmp_path: Path):
    nodes = pipe((0, 0, 1), 8.2, 40, spacing_mm=0.2)
    wanted = settings(inlets={"in": InletSettings(0.5, None, "parabolic")}, blood=BloodSettings("carreau-yasuda"))
    plan = make_plan(nodes, wanted)
    rate = 2 * plan.numbers["expected_peak_speed_m_s"] / (8.2 * 0.2e-3)
    viscosity = float(choose_blood("carreau-yasuda", None, {}, 1.0).viscosity_pa_s(rate))
    assert plan.units.viscosity_m2_s == pytest.approx(viscosity / 1060)
    assert viscosity > 4e-3
    assert any(f"{viscosity:.4g} Pa s, at the shear rate 2 U/R = {rate:.4g} 1/s" in note for note in plan.notes)
    assert plan.rheology is not None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"equilibrium": "thermal"}, "solve.equilibrium 'thermal': unknown; known are incompressible, compressible"),
        ({"lambda_trt": 0.1, "collision": "recursive"}, "solve.lambda_trt 0.1: recursive has no such parameter"),
        ({"blood": BloodSettings("casson", "fung")}, "solve.blood.set 'fung'"),
    ],
)
def test_plan_refuses_models_that_do_not_exist(changes, message):
    with pytest.raises(StageError, match=message):
        make_plan(pipe((0, 0, 1), 4.2, 12), settings(**changes))
