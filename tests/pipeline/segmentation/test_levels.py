# SPDX-License-Identifier: Apache-2.0
"""Levels of a mask and of what lies around it."""

import numpy as np
import pytest

from pipeline.segmentation.levels import levels


@pytest.mark.parametrize(("seed", "bright"), [((3, 3, 3), 40.0), ((37, 37, 37), 40.0), ((37, 37, 37), 900.0)])
def test_a_mask_far_from_its_seed_has_levels_all_the_same(seed, bright):
    """As what is left of a vessel that a seed beside it gave: an index beyond its box ended in a traceback."""
    z, y, x = np.indices((40, 40, 40))
    mask = np.hypot(x - 20, y - 20) < 4
    mask &= np.abs(z - 20) < 8
    voxels = np.where(mask, 300.0, 40.0) + np.random.default_rng(1).normal(0, 5, mask.shape)
    voxels[seed[::-1]] = bright
    found = levels(voxels, mask, [seed], 170.0)
    assert found.lumen == pytest.approx(300, abs=2)
    assert found.surroundings == pytest.approx(40, abs=2)
