# SPDX-License-Identifier: Apache-2.0
"""Gaussians of volumes are SciPy's, to the bit where both round each product, as processors of this kind do."""

import platform

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from pipeline.segmentation.gaussian import TOGETHER, gaussian

ROUNDED = 0.0 if platform.machine() in ("x86_64", "AMD64") else 1e-6
"""Elsewhere compilers may round a product and a sum once."""


@given(
    st.tuples(*[st.integers(1, 12)] * 3),
    st.floats(0.05, 6.0),
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 2**32 - 1),
)
def test_gaussians_have_the_bits_of_scipys(shape, deviation, kind, seed):
    values = np.random.default_rng(seed).normal(size=shape).astype(kind)
    found, known = gaussian(values, deviation), ndimage.gaussian_filter(values, deviation, mode="nearest")
    assert found.dtype == kind
    np.testing.assert_allclose(found, known, rtol=0, atol=ROUNDED)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_lines_longer_than_those_summed_together_have_the_bits_of_scipys(kind):
    values = np.random.default_rng(5).normal(size=(9, 21, TOGETHER // 8)).astype(kind)
    known = ndimage.gaussian_filter(values, 2.5, mode="nearest")
    np.testing.assert_allclose(gaussian(values, 2.5), known, rtol=0, atol=ROUNDED)
    turned = values.transpose(2, 0, 1)
    known = ndimage.gaussian_filter(turned, 2.5, mode="nearest")
    np.testing.assert_allclose(gaussian(turned, 2.5), known, rtol=0, atol=ROUNDED)
