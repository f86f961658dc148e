# SPDX-License-Identifier: Apache-2.0
"""Models of a run: which a run begins with, and those that it may climb to."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.boundary.layers import outlet_layers
from solver.kernels.collision import COLLISIONS, ON_D3Q27
from solver.kernels.rheology import make_local_rate, make_rheology, one_number
from solver.run.models import CUMULANT_LAMBDA, CUMULANT_LAYERS, LAYERS, choose_models
from solver.runtime.errors import StageError
from tests.support.geometries import pipe

TAU = st.floats(0.5005, 1.4)


@given(grid_reynolds=st.floats(0.1, 500), tau=TAU, q=st.sampled_from((19, 27)))
def test_the_ladder_ends_with_what_serves_any_flow(grid_reynolds, tau, q):
    ladder = choose_models("auto", grid_reynolds, tau, q=q)
    assert ladder[0].most is None or ladder[0].most >= grid_reynolds
    assert ladder[-1].most is None
    assert [rung.rung for rung in ladder] == list(range(ladder[0].rung, 4))
    assert [rung.eddies for rung in ladder] == sorted(rung.eddies for rung in ladder)
    for rung in ladder:
        assert not rung.beyond(grid_reynolds)
        assert 0 < rung.lambda_trt <= 3 / 16


def test_the_first_models_follow_the_grid_reynolds_number():
    first = {number: choose_models("auto", number, tau)[0] for number, tau in ((5, 0.55), (30, 0.508), (31, 0.508))}
    assert (first[5].collision, first[5].lambda_trt, first[5].eddies) == ("trt", pytest.approx(0.1), 0)
    assert (first[30].collision, first[30].lambda_trt, first[30].layers) == ("trt", pytest.approx(0.004), LAYERS)
    assert first[31].collision == "projected"
    assert choose_models("auto", 5, 0.9)[0].lambda_trt == 3 / 16
    for number in (11, 300):
        cumulants, *safer = choose_models("auto", number, 0.508, q=27)
        assert (cumulants.collision, cumulants.lambda_trt, cumulants.layers) == (
            "cumulant",
            CUMULANT_LAMBDA,
            CUMULANT_LAYERS,
        )
        assert [models.collision for models in safer] == ["projected"] * 2


@given(name=st.sampled_from([*COLLISIONS]), grid_reynolds=st.floats(0.1, 500), tau=TAU)
def test_models_that_are_named_stay_alone(name, grid_reynolds, tau):
    (models,) = choose_models(name, grid_reynolds, tau, q=27 if name in ON_D3Q27 else 19)
    assert (models.collision, models.eddies, models.layers, models.most) == (name, 0, 0, None)
    if name == "bgk":
        assert models.lambda_trt == pytest.approx((tau - 0.5) ** 2)


def test_given_numbers_are_taken():
    assert [(m.collision, m.lambda_trt) for m in choose_models("auto", 100, 0.51, 0.1)] == [("trt", 0.1)]
    assert {(m.eddies, m.onset) for m in choose_models("auto", 5, 0.51, smagorinsky=0.12)} == {(0.12, 0.0)}
    assert choose_models("auto", 5, 0.51, least=2)[0].rung == 2
    assert choose_models("cumulant", 100, 0.51, 0.1, q=27)[0].lambda_trt == 0.1
    assert choose_models("cumulant", 100, 0.51, q=27)[0].lambda_trt == CUMULANT_LAMBDA
    with pytest.raises(StageError, match="leave it out, or set collision to trt or cumulant"):
        choose_models("bgk", 5, 0.6, 0.1)
    with pytest.raises(StageError, match="'mrt': unknown; known are auto, bgk, trt, projected, recursive, cumulant"):
        choose_models("mrt", 5, 0.6)
    with pytest.raises(StageError, match=r"cumulant: is for D3Q27; set solve\.velocity_set to D3Q27 or auto"):
        choose_models("cumulant", 5, 0.6, q=19)


@settings(deadline=None)  # the first example compiles
@given(shear=st.floats(1e-5, 0.05), tau=st.floats(0.502, 0.7), constant=st.floats(0.05, 0.3), onset=st.floats(0, 0.05))
def test_the_limiter_thickens_what_is_sheared_faster_than_its_onset_alone(shear, tau, constant, onset):
    """In a steady shear g the fixed point of the relaxation is tau + 3 C^2 (g - g_0), or tau below g_0."""
    numbers = make_rheology("newtonian", ((tau - 0.5) / 3,), tau, 0.1, constant, None, onset).numbers
    local = make_local_rate("newtonian", False, "incompressible", np.float64, one_number(np.float64).power)
    wanted = tau + 3 * constant**2 * max(shear - onset, 0)
    omega = 1 / tau
    for _ in range(200):
        g = np.zeros(19)
        g[[7, 8]], g[[9, 10]] = -shear / omega / 12, shear / omega / 12  # Pi_xy = -g/(3 omega), as of u_x = g y
        omega, _ = local(tuple(g), (0.0, 0.0, 0.0), omega, 0.0, numbers)
    assert 1 / omega == pytest.approx(wanted, rel=1e-9)


@settings(deadline=None, max_examples=10)
@given(
    seed=st.integers(0, 2**32 - 1), tau=st.floats(0.501, 0.9), wanted=st.floats(0.51, 0.95), layers=st.integers(1, 8)
)
def test_layers_at_outlets_reach_the_wanted_relaxation_and_no_other_opening(seed, tau, wanted, layers):
    rng = np.random.default_rng(seed)
    nodes = pipe(tuple(rng.standard_normal(3)), 3.3, 24, 0.5)
    blend, _ = outlet_layers(nodes, tau, wanted, layers)
    thicker = tau + blend * (1 - tau)
    if tau >= wanted:
        assert not blend.any()
        return
    of_outlet = nodes.opening_link_node[nodes.opening_link_opening == 2]
    np.testing.assert_allclose(thicker[of_outlet], wanted, rtol=1e-12)
    start, end = (np.array(opening.centre_mm) for opening in nodes.openings)
    away = (nodes.points_mm() - end) @ (start - end) / np.linalg.norm(start - end) / nodes.spacing_mm
    falling = np.clip(1 - (away - 0.5) / layers, 0, 1) ** 2
    falling[of_outlet] = 1
    np.testing.assert_allclose(blend, blend.max() * falling, atol=1e-6)
