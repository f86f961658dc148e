# SPDX-License-Identifier: Apache-2.0
"""Richardson's extrapolation and the grid-convergence index, on sequences whose order and limit are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.haemodynamics.extrapolation import (
    ASSUMED_ORDER,
    LARGEST_ORDER,
    LEAST_ORDER,
    SAFETY,
    TRUSTED_ORDER,
    WIDE_SAFETY,
    estimate,
)

RATIOS = st.floats(1.2, 3.0)
LIMITS = st.floats(-50.0, 50.0)
ERRORS = st.floats(0.01, 10.0) | st.floats(-10.0, -0.01)


def sequence(limit: float, error: float, order: float, first: float, second: float) -> tuple[list[float], list[float]]:
    """Values with the error `error` on the finest of three spacings, growing with the spacing to the power `order`."""
    spacings = 0.1 * np.cumprod([1.0, first, second])
    return (limit + error * (spacings / spacings[0]) ** order).tolist(), spacings.tolist()


@given(LIMITS, ERRORS, st.floats(LEAST_ORDER, LARGEST_ORDER), RATIOS, RATIOS)
def test_order_limit_and_error_of_a_power_are_recovered_for_any_ratios(limit, error, order, first, second):
    """Round-off of the values, 1e-14 of 50, over changes of at least 0.01 (1.2^0.5 - 1) = 1e-3: 1e-9 and less."""
    values, spacings = sequence(limit, error, order, first, second)
    found = estimate(values, spacings)
    assert found.behaviour == "monotonic"
    assert found.order == pytest.approx(order, abs=1e-6)
    assert found.extrapolated == pytest.approx(limit, abs=1e-6 * abs(error))
    bounds = {SAFETY, WIDE_SAFETY} if order < LEAST_ORDER + 1e-6 else {SAFETY}  # at the end of the range by round-off
    assert found.safety in bounds
    assert found.uncertainty == pytest.approx(found.safety * abs(error), rel=1e-6)


@given(LIMITS, ERRORS, st.floats(LARGEST_ORDER, 6.0), RATIOS, RATIOS)
def test_an_order_beyond_that_of_the_scheme_is_not_trusted_and_the_index_still_bounds_the_error(
    limit, error, order, first, second
):
    values, spacings = sequence(limit, error, order, first, second)
    found = estimate(values, spacings)
    assert found.order_used == pytest.approx(LARGEST_ORDER, abs=1e-6)
    assert found.order == pytest.approx(order, rel=1e-6)
    assert found.uncertainty >= SAFETY * abs(error) * (1 - 1e-6)
    if order > TRUSTED_ORDER + 1e-6:
        assert found.safety == WIDE_SAFETY


@given(LIMITS, ERRORS, st.floats(0.05, LEAST_ORDER - 0.01), RATIOS, RATIOS)
def test_an_order_too_low_to_be_one_gets_the_wide_factor(limit, error, order, first, second):
    values, spacings = sequence(limit, error, order, first, second)
    found = estimate(values, spacings)
    assert found.order == pytest.approx(order, abs=1e-5)
    assert (found.order_used, found.safety) == (LEAST_ORDER, WIDE_SAFETY)
    change = abs(values[1] - values[0])
    assert found.uncertainty == pytest.approx(WIDE_SAFETY * change / (first**LEAST_ORDER - 1), rel=1e-9)


@given(LIMITS, ERRORS, st.floats(0.0, 1.0), st.floats(1.2, 1.5))
def test_first_and_second_order_together_are_bounded_by_the_index_up_to_the_usual_ratio(limit, error, part, ratio):
    """As walls and fluid have them. By hand, with a ratio of 1.5 and parts of 0.7 and 0.3 (the worst): changes of 0.725
    and 1.369, apparent order 1.57, index 1.02 of the error; coarser ratios, further from the limit, do not bound it."""
    scaled = ratio ** np.arange(3)
    values = (limit + error * (part * scaled + (1 - part) * scaled**2)).tolist()
    found = estimate(values, (0.1 * scaled).tolist())
    assert 1 - 1e-6 <= found.order <= 2 + 1e-6
    assert found.uncertainty >= abs(error)


def test_published_example():
    """Table 1 of Celik et al. (2008): reattachment length on 18000, 8000 and 4500 cells of a plane, order 1.53,
    extrapolated 6.1685, index 2.2 %; printed to as many digits."""
    cells = np.array([18000, 8000, 4500])
    values = [6.063, 5.972, 5.863]
    found = estimate(values, (1 / np.sqrt(cells)).tolist())
    assert found.order == pytest.approx(1.53, abs=0.01)
    assert found.extrapolated == pytest.approx(6.1685, abs=5e-4)
    assert found.uncertainty / values[0] == pytest.approx(0.022, abs=5e-4)


@given(LIMITS, ERRORS, st.floats(0.05, 0.95), RATIOS, RATIOS)
def test_to_and_fro_has_no_order_and_thrice_its_range(limit, change, part, first, second):
    values = [limit, limit + part * change, limit + (part - 1) * change]
    found = estimate(values, [0.1, 0.1 * first, 0.1 * first * second])
    assert found.behaviour == "oscillatory"
    assert (found.order, found.extrapolated, found.safety) == (None, None, WIDE_SAFETY)
    assert found.uncertainty == pytest.approx(3 * (max(values) - min(values)), rel=1e-12)


@given(LIMITS, ERRORS, st.floats(0.05, 0.95), RATIOS, st.sampled_from([1, -1]))
def test_changes_that_grow_with_refinement_diverge(limit, change, part, ratio, sign):
    values = [limit, limit + change, limit + change + sign * part * change]
    found = estimate(values, [0.1, 0.1 * ratio, 0.1 * ratio**2])
    assert found.behaviour == "diverging"
    assert (found.order, found.order_used, found.extrapolated) == (None, None, None)
    assert found.uncertainty == pytest.approx(3 * (max(values) - min(values)), rel=1e-12)


@given(LIMITS, ERRORS, st.floats(ASSUMED_ORDER, 2.0), RATIOS)
def test_two_spacings_bound_the_error_of_the_assumed_order_and_of_any_above(limit, error, order, ratio):
    values, spacings = sequence(limit, error, order, ratio, ratio)
    found = estimate(values[:2], spacings[:2])
    assert (found.behaviour, found.order, found.extrapolated) == ("two spacings", None, None)
    assert found.uncertainty == pytest.approx(3 * abs(values[1] - values[0]) / (ratio - 1), rel=1e-9)
    assert found.uncertainty >= 3 * abs(error) * (1 - 1e-6)


@pytest.mark.parametrize("values", [[2.0, 2.0, 2.0], [2.0, 2.0, 2.1], [0.0, 0.0, 0.0], [2.0, 2.0]])
def test_spacings_that_agree_leave_no_error(values):
    found = estimate(values, [0.1, 0.15, 0.225][: len(values)])
    assert (found.uncertainty, found.order) == (0.0, None)


def test_the_factor_of_safety_can_be_given():
    values, spacings = sequence(1.0, 0.1, 1.5, 1.5, 1.5)
    assert estimate(values, spacings, 2.0).uncertainty == pytest.approx(0.2, rel=1e-9)
    assert estimate(values[:2], spacings[:2], 1.0).uncertainty == pytest.approx(abs(values[1] - values[0]) / 0.5)
