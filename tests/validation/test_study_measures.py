# SPDX-License-Identifier: Apache-2.0
"""What the studies of velocity sets and collision models measure with the textbook solver, where the answer is
known.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from validation.studies.collisions import Model, shear_layer, wave
from validation.studies.momentum_balance import Plates
from validation.studies.velocity_sets import PipeFlow
from validation.textbook_links import EndlessPipe


def test_a_parabola_has_no_currents_and_no_error_and_a_lean_is_uneven():
    pipe = EndlessPipe((1, 2, 3), 6.5)
    r = np.linalg.norm(pipe.offset(pipe.nodes()), axis=1) / pipe.radius
    exact = PipeFlow(pipe, np.outer(pipe.unit, 2 * (1 - r**2)))
    assert max(exact.currents, abs(exact.flow_error), exact.uneven) < 1e-13
    across = np.cross(pipe.unit, (0, 0, 1))
    lean = pipe.offset(pipe.nodes()) @ across / np.linalg.norm(across) / pipe.radius
    leaning = PipeFlow(pipe, exact.velocity + 0.02 * np.outer(pipe.unit, lean) + 0.01 * across[:, None])
    assert leaning.uneven == pytest.approx(0.02 * np.sqrt(np.mean(lean**2)), rel=0.02)  # nodes lie unevenly, too
    assert leaning.currents == pytest.approx(0.01 * np.linalg.norm(across), rel=1e-12)


def test_a_wave_at_rest_nearly_shows_the_right_viscosity_and_speed():
    """At tau 0.8, carried slowly: off by the lattice's second order alone, k^2 times numbers below 0.1."""
    tolerance = 0.1 * (2 * np.pi / 32) ** 2
    for collision in ("bgk", "trt", "projected", "recursive"):
        assert wave(Model(collision, collision), 32, 0.8, 0.01) == pytest.approx((1, 1), abs=tolerance)


def test_regularisation_and_eddies_outlive_a_layer_that_one_relaxation_time_does_not():
    reached = {
        model.name: shear_layer(model, 32, 30000, times=1.0)[0]
        for model in (Model("bgk", "bgk"), Model("projected", "projected"), Model("eddies", "trt", smagorinsky=0.17))
    }
    assert reached["bgk"] < 1
    assert reached["projected"] == reached["eddies"] == 1


@pytest.mark.parametrize("slip", ["", "top", "bottom"])
@pytest.mark.parametrize("smagorinsky", [None, 0.2])
def test_balance_of_momentum_holds(slip, smagorinsky):
    """Viscosity times the slope of the velocity is the stress, which vanishes where fluid slips or half-way."""
    height, spacing = 40, 1e-3
    position = np.column_stack((np.zeros((height, 2), int), np.arange(height)))
    solve = SimpleNamespace(
        force_n_m3=(30.0, 0, 0),
        viscosity_pa_s=1e-3,
        density_kg_m3=1000.0,
        smagorinsky=smagorinsky,
        patches={slip: SimpleNamespace(slip=True)} if slip else {},
    )
    run = SimpleNamespace(
        nodes=SimpleNamespace(position=position), spacing_m=spacing, case=SimpleNamespace(solve=solve)
    )
    plates, size = Plates(run), {"": 20, "top": 40, "bottom": 40}[slip]
    assert plates.reach == pytest.approx(size * spacing, rel=1e-12)
    assert plates.velocity(np.array([plates.reach]))[0] == 0
    s = np.linspace(0.1, 0.9, 9) * plates.reach
    slope = (plates.velocity(s + 1e-8) - plates.velocity(s - 1e-8)) / 2e-8
    np.testing.assert_allclose(plates.viscosity(s) * slope, plates.stress(s), rtol=1e-5)
