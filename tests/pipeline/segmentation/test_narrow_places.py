# SPDX-License-Identifier: Apache-2.0
"""What of a mask is joined to seeds by wide ways, wherever the seeds lie."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.segmentation.narrow_places import parted

SHAPE = (24, 26, 60)


def two_bulbs() -> np.ndarray:
    """Two balls of radius 6 on a tube of radius 2 along x."""
    z, y, x = np.indices(SHAPE)
    ways = [np.sqrt((z - 12) ** 2 + (y - 13) ** 2 + (x - middle) ** 2) < 6 for middle in (20, 40)]
    tube = (np.hypot(z - 12, y - 13) < 2) & (x > 12) & (x < 48)
    return np.asarray(ways[0] | ways[1] | tube)


def test_a_narrow_way_parts_what_lies_beyond_it():
    mask = two_bulbs()
    found, there = parted(mask, [(20, 13, 12)], 4.0)
    assert found[12, 13, 20]
    assert not found[12, 13, 40]
    assert there == pytest.approx(6, abs=1)
    assert parted(mask, [(20, 13, 12)], 1.0)[0][12, 13, 40]


@given(st.tuples(*(st.integers(0, size - 1) for size in SHAPE[::-1])))
def test_a_seed_that_is_not_in_the_mask_changes_nothing(place):
    mask = two_bulbs()
    if not mask[place[::-1]]:
        (one, least), (other, same) = (parted(mask, seeds, 4.0) for seeds in ([(20, 13, 12)], [(20, 13, 12), place]))
        np.testing.assert_array_equal(one, other)
        assert least == same
