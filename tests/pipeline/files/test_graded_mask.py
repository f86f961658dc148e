# SPDX-License-Identifier: Apache-2.0
"""Masks that pass to the lumen by degrees are told from labels and images, and give the volume that was drawn."""

from functools import cache

import numpy as np
import pytest
from scipy import ndimage

from pipeline.files.graded_mask import graded
from tests.support.strange_images import scene
from tests.support.variants import some

SPACING = (0.5, 0.5, 0.5)


@cache
def vessel(seed: int) -> tuple[np.ndarray, tuple[float, float, float]]:
    """How much of each voxel a drawn vessel fills, and the voxels' size."""
    made = scene(np.random.default_rng([77, seed]))
    return made.lumen, made.spacing_mm


def as_program(kind: str, lumen: np.ndarray, spacing_mm: tuple[float, float, float]) -> np.ndarray:
    hard = lumen >= 0.5
    if kind == "8 bits":
        return np.rint(255 * lumen).astype(np.uint8)
    if kind == "percent":
        return (100 * lumen).astype(np.float32)
    if kind == "splines":  # in its own place, of a grid twice as fine
        return ndimage.shift(hard.astype(float), (0.3, -0.4, 0.2), order=3, mode="nearest").astype(np.float32)
    steps = spacing_mm[::-1]
    away = ndimage.distance_transform_edt(hard, steps) - ndimage.distance_transform_edt(~hard, steps)
    sign = {"below 0 within": -1, "above 0 within": 1, "clipped": -1}[kind]
    return np.clip(sign * away, -2, 2 if kind == "clipped" else np.inf).astype(np.float32)


@pytest.mark.parametrize("kind", ["8 bits", "percent", "splines", "below 0 within", "above 0 within", "clipped"])
@pytest.mark.parametrize("seed", some(range(3), 1))
def test_values_by_degrees_give_the_volume_that_was_drawn(kind, seed):
    """Within the 3 % that count as right; what lies beyond the border is lost where an image is shifted."""
    lumen, spacing_mm = vessel(seed)
    found = graded(as_program(kind, lumen, spacing_mm), spacing_mm)
    assert found is not None
    wanted = (lumen >= 0.5).sum() if kind not in ("8 bits", "percent") else lumen.sum()
    assert found.part.sum() == pytest.approx(wanted, rel=0.03)
    assert found.kind == (
        "map of fractions, 255 where it is full"
        if kind == "8 bits"
        else "map of fractions, 100 where it is full"
        if kind == "percent"
        else "map of fractions, 1 where it is full"
        if kind == "splines"
        else "signed distances to the wall"
    )


def labels_of_an_atlas(lumen: np.ndarray) -> np.ndarray:
    """A label for each of 40 slices, and 255 around."""
    numbers = 1 + 5 * (np.arange(len(lumen)) * 40 // len(lumen))
    around = ndimage.binary_dilation(lumen >= 0.5, iterations=2)
    return np.where(lumen >= 0.5, numbers[:, None, None], np.where(around, 255, 0)).astype(np.int16)


@pytest.mark.parametrize("kind", ["labels", "8-bit image", "CT", "masked image", "subtracted image"])
def test_labels_and_images_are_neither(kind):
    rng = np.random.default_rng(3)
    lumen, spacing_mm = vessel(0)
    noisy = ndimage.gaussian_filter(lumen, 0.7) + rng.normal(0, 0.05, lumen.shape)
    voxels = {
        "labels": labels_of_an_atlas(lumen),
        "8-bit image": np.clip(60 + 150 * noisy, 0, 255).astype(np.uint8),
        "CT": (40 + 300 * noisy).astype(np.float32),
        "masked image": np.where(ndimage.binary_dilation(lumen > 0, iterations=4), 60 + 150 * noisy, 0).astype(
            np.float32
        ),
        "subtracted image": (500 * noisy).astype(np.float32),
    }[kind]
    assert graded(voxels, spacing_mm) is None
