# SPDX-License-Identifier: Apache-2.0
"""The volume within the wall of parts of voxels is that of the shape, wherever it lies in the grid; counts are not."""

import numpy as np
import pytest
from scipy import ndimage, special

from pipeline.files import enclosed
from pipeline.files.enclosed import both_sides, enclosed_voxels, filled

SIZE = (50, 44, 44)


def tube(rng: np.random.Generator, radius: float, blur: float, along_an_axis: bool) -> tuple[np.ndarray, float]:
    """Parts of voxels of a tube with flat ends, and its volume: across its wall they fall as a step blurred so."""
    axis = np.array([1.0, 0.0, 0.0]) if along_an_axis else rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    half = rng.uniform(9, 13)
    places = np.moveaxis(np.indices(SIZE), 0, -1) - (np.array(SIZE) - 1) / 2 - rng.uniform(-0.5, 0.5, 3)
    along = places @ axis
    across = np.linalg.norm(places - along[..., None] * axis, axis=-1)
    outside = np.maximum(across - radius, np.abs(along) - half)
    return special.erfc(outside / blur / np.sqrt(2)) / 2, np.pi * radius**2 * 2 * half


@pytest.mark.parametrize("along_an_axis", [True, False])
def test_the_volume_of_a_tube_in_any_place_is_found(along_an_axis):
    """Of 2.5 to 8 voxels in radius, blurred by 0.5 to 1.2: within 1 %, its ends among it. Counts are not."""
    rng = np.random.default_rng(57 + along_an_axis)
    errors, counted = [], []
    for _ in range(12):
        part, volume = tube(rng, rng.uniform(2.5, 8), rng.uniform(0.5, 1.2), along_an_axis)
        errors.append(enclosed_voxels(part) / volume - 1)
        counted.append(np.count_nonzero(part >= 0.5) / volume - 1)
    assert np.abs(errors).max() < 0.01
    if along_an_axis:
        assert np.abs(counted).max() > 0.03


def test_a_vessel_goes_on_beyond_the_border():
    """Cut by two faces of the array, it has what lies between them."""
    rng = np.random.default_rng(59)
    y, x = np.indices((40, 40)) - 19.5 - rng.uniform(-0.5, 0.5, (2, 1, 1))
    section = special.erfc((np.hypot(y, x) - 5.2) / 0.8 / np.sqrt(2)) / 2
    part = np.repeat(section[None], 20, axis=0)
    assert enclosed_voxels(part) == pytest.approx(20 * np.pi * 5.2**2, rel=0.003)


def test_of_a_mask_voxels_are_counted():
    mask = np.zeros((9, 8, 7))
    mask[2:6, 1:5, 3:5] = 1
    assert enclosed_voxels(mask) == 32
    np.testing.assert_array_equal(filled(mask), mask)
    assert enclosed_voxels(np.zeros((4, 4, 4))) == 0


@pytest.mark.parametrize("seed", range(8))
def test_the_wall_and_splines_in_its_voxels_are_those_of_scipy_to_the_bit(seed):
    rng = np.random.default_rng([seed, 91])
    shape = tuple(rng.integers(1 if seed else 5, 30, 3))
    field = ndimage.gaussian_filter(rng.standard_normal(shape), rng.uniform(0.5, 3)).astype(np.float32)
    inside, around = field > 0, np.ones((3, 3, 3), bool)
    grown, shrunk = ndimage.binary_dilation(inside, around), ndimage.binary_erosion(inside, around, border_value=1)
    np.testing.assert_array_equal(both_sides(inside), grown & ~shrunk)
    places = np.argwhere(np.ones(shape, bool))
    found = enclosed._in_eighths(field, places, enclosed._WEIGHTS)
    for eighth, values in zip(np.ndindex(2, 2, 2), found, strict=True):
        at = (places + (np.array(eighth) - 0.5) / 2).T
        wanted = ndimage.map_coordinates(field, at, order=3, prefilter=False, mode="nearest")
        np.testing.assert_array_equal(values, wanted)
