# SPDX-License-Identifier: Apache-2.0
"""The design of the members, and the bands that follow from what they give."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from pipeline.uncertainty.banded_figures import Figure, with_blur
from pipeline.uncertainty.bands import COVERED, Members, Response, bands, better
from pipeline.uncertainty.coarse_spacing import LEAST_RATIO, MOST_RATIO, ratio_of, spacing_deviation
from pipeline.uncertainty.design import design
from pipeline.uncertainty.sources import Variable

INFLOW, WALL = Variable("inflow", "inlet"), Variable("wall")


@settings(deadline=None, max_examples=10)  # a design takes a tenth of a second, and more
@given(half=st.integers(4, 40), variables=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_half_of_the_members_are_a_latin_hypercube_and_the_others_mirror_it(half, variables, seed):
    drawn = design(2 * half, variables, seed)
    assert np.array_equal(drawn[half:], -drawn[:half])
    parts = np.floor(ndtr(drawn[:half]) * half).astype(int)
    assert all(sorted(column) == list(range(half)) for column in parts.T)
    assert np.array_equal(drawn, design(2 * half, variables, seed))


def test_a_design_of_nothing_has_a_row_for_each_member():
    assert design(12, 0, 1).shape == (12, 0)


@pytest.mark.parametrize(
    ("across", "wanted", "least", "ratio"),
    [
        (40, 8, 8, MOST_RATIO),
        (12, 8, 8, 1.5),
        (9, 8, 8, 1),
        (4, 8, 8, 1),
        (18, 10, 8, 1.8),
        (12, 10, 8, LEAST_RATIO),  # 9.6 nodes in place of 10
        (12, 10, None, 1),
        (9.9, 10, 8, 1),
        (11, 6, 8, 11 / 6),
    ],
)
def test_members_run_on_a_lattice_as_coarse_as_the_narrowest_place_allows(across, wanted, least, ratio):
    assert ratio_of(across, wanted, least) == pytest.approx(ratio)
    assert ratio == 1 or ratio >= LEAST_RATIO


one_of_three = cache(design)


def members_of(slopes, rest, rng, count=12, ratio=1.0, unchanged=2.0, rough=True) -> Members:
    """Members whose figure ``x`` is the unchanged one times exp(slopes . z + e), e of a standard deviation."""
    drawn = one_of_three(count, len(slopes), int(rng.integers(3)))  # a design takes half a second
    values = unchanged * np.exp(drawn @ slopes + rest * rng.standard_normal(count))
    variables = (WALL, INFLOW, Variable("viscosity"))[: len(slopes)]
    return Members(variables, drawn, [{"x": value} for value in values], {"x": unchanged}, ratio, rough)


def test_bands_hold_the_true_value_as_often_as_they_say():
    """Truths are drawn as the members are. Of 2,000 the number in the band is binomial; less than one test in 10^4
    leaves these limits by chance, widened by 2 % for slopes of few members.
    """
    from scipy.stats import binom

    rng, inside, tries = np.random.default_rng(5), 0, 2000
    for _ in range(tries):
        slopes, rest = rng.uniform(-0.2, 0.2, 3), rng.uniform(0, 0.1)
        (band,) = bands([Figure("x", "x", "Pa", 3.0)], members_of(slopes, rest, rng))
        truth = 3.0 * np.exp(slopes @ rng.standard_normal(3) + rest * rng.standard_normal())
        inside += band["low"] <= truth <= band["high"]
    low, high = binom.ppf((5e-5, 1 - 5e-5), tries, COVERED) / tries
    assert low - 0.02 < inside / tries < high + 0.02


def test_a_positive_figure_is_carried_by_its_ratio_and_a_part_by_its_difference():
    rng = np.random.default_rng(1)
    members = members_of([0.1, 0.2], 0.0, rng)
    (band,) = bands([Figure("x", "x", "Pa", 5.0)], members)
    half = 1.6449 * np.hypot(0.1, 0.2)
    assert (band["low"], band["high"]) == pytest.approx((5 * np.exp(-half), 5 * np.exp(half)), rel=1e-4)
    assert band["deviations"] == pytest.approx({"wall": 0.1, "inflow": 0.2}, abs=1e-9)
    drawn = members.drawn
    parts = Members((WALL, INFLOW), drawn, [{"x": 0.5 + 0.1 * z[0]} for z in drawn], {"x": 0.5}, 1.0, False)
    (band,) = bands([Figure("x", "x", "", 0.05, limit=0.1, part=True)], parts)
    assert (band["low"], band["high"]) == pytest.approx((0.0, 0.05 + 0.16449), rel=1e-4)  # a part is not negative
    assert band["crosses"] == 0.1


@pytest.mark.parametrize(("order", "error"), [(1.0, 0.1), (1.5, 0.1 / (2 * np.sqrt(2) - 1)), (2.0, 0.1 / 3)])
def test_what_the_spacing_is_due_to_widens_the_band(order, error):
    """An error C h^p that is e at h and e + 0.1 at 2 h: e = 0.1 / (2^p - 1)."""
    rng = np.random.default_rng(2)
    members = members_of([0.0], 0.0, rng, ratio=2.0, unchanged=float(np.exp(0.1)), rough=False)
    (band,) = bands([Figure("x", "x", "Pa", 1.0, order=order)], members)
    assert band["deviations"] == pytest.approx({"wall": 0.0, "spacing": error}, abs=1e-12)
    assert band["high"] == pytest.approx(np.exp(1.6449 * error), rel=1e-4)
    assert spacing_deviation(0.3, 1.0) == 0.0


@given(scale=st.floats(0.1, 10), radius=st.floats(0.5, 5), seed=st.integers(0, 2))
@settings(deadline=None, max_examples=10)
def test_blur_moves_the_bands_of_sacs_by_the_edge_over_the_radius_and_no_others(scale, radius, seed):
    """By all that is foretold, 0.6 w/R of the logarithm; its width stays."""
    members = members_of([0.1, 0.2], 0.0, np.random.default_rng(seed))
    both = Members(
        members.variables,
        members.drawn,
        [each | {"shear dome": each["x"]} for each in members.figures],
        {"x": 2.0, "shear dome": 2.0},
        1.0,
        True,
    )
    given_figures = [Figure("x", "x", "Pa", 3.0), Figure("shear dome", "dome", "Pa", 3.0)]
    plain, sac = bands(with_blur(given_figures, {"dome": scale * radius}, 0.5 * scale * radius), both)
    assert plain == bands(given_figures, both)[0]
    assert sac["deviations"] == plain["deviations"]
    assert sac["value"] == 3
    for end in ("low", "high"):
        assert sac[end] == pytest.approx(plain[end] * np.exp(-0.3), rel=1e-12)
    assert [band["low"] for band in bands(with_blur(given_figures, {"dome": radius}, 0.0), both)] == [plain["low"]] * 2


def test_few_members_leave_no_bands_and_figures_that_one_lacks_get_none():
    rng = np.random.default_rng(3)
    full = members_of([0.1, 0.1, 0.1], 0.01, rng)
    few = Members(full.variables, full.drawn[:5], full.figures[:5], full.unchanged, 1.0, True)
    assert full.enough
    assert not few.enough
    assert bands([Figure("y", "y", "", 1.0)], full) == []


def test_advice_is_of_the_source_that_most_of_the_variance_is_due_to():
    found = [{"deviations": {"wall": 0.1, "inflow": 0.3}}, {"deviations": {"wall": 0.2, "inflow": 0.25}}]
    assert "inflow" in better(found)
    assert "threshold" in better([{"deviations": {"wall": 0.2, "inflow": 0.1}}])
    assert better([]) is None


def test_many_figures_are_fitted_at_once():
    rng = np.random.default_rng(4)
    drawn, slopes = design(40, 3, 1), rng.normal(size=(3, 7))
    found = Response.of(drawn, drawn @ slopes)
    assert np.allclose(found.slopes, slopes)
    assert np.allclose(found.deviation, np.linalg.norm(slopes, axis=0))
