# SPDX-License-Identifier: Apache-2.0
"""Distances within masks are SciPy's, to the bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from pipeline.files.depth import distance_within


@given(st.tuples(*[st.integers(1, 12)] * 3), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_distances_have_the_bits_of_scipys(shape, share, seed):
    mask = np.random.default_rng(seed).random(shape) < share
    np.testing.assert_array_equal(distance_within(mask), ndimage.distance_transform_edt(mask))


@pytest.mark.parametrize("inside", [True, False])
def test_distances_far_from_few_places_have_the_bits_of_scipys(inside):
    mask = np.full((31, 47, 40), inside)
    mask[tuple(np.random.default_rng(3).integers(0, 31, (3, 5)))] = not inside
    np.testing.assert_array_equal(distance_within(mask), ndimage.distance_transform_edt(mask))
    turned = mask[::2].transpose(2, 0, 1)
    np.testing.assert_array_equal(distance_within(turned), ndimage.distance_transform_edt(turned))
