"""Laws of the filter stage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import erf
from vessels import oblique, tube_volume

from pipeline.case import Box, FilterSettings, VoxelBox
from pipeline.filter import filter_volume, region_box
from pipeline.volume import Volume
from solver.stage import StageError

THICK = (0.41, 0.41, 1.5)
"""Spacing, mm, of thick slices, as of the head in the real cases."""

KINDS = ("gaussian", "median", "curvature")


def grid(volume: Volume) -> np.ndarray:
    """Places of all voxels, (Z, Y, X, 3)."""
    z, y, x = np.indices(volume.voxels.shape)
    return volume.to_mm(np.stack([x, y, z], axis=-1))


def ramp(places_mm: np.ndarray) -> np.ndarray:
    return places_mm @ [3.0, -2.0, 5.0] + 100


def noise(shape: tuple[int, int, int], spacing_mm: tuple[float, float, float]) -> Volume:
    voxels = np.random.default_rng(1).normal(40, 25, shape).astype(np.float32)
    return Volume(voxels, spacing_mm, (3.0, -20.0, 7.0), oblique())


@given(
    spacing_mm=st.tuples(*[st.floats(0.3, 1.5)] * 3),
    angles=st.tuples(*[st.floats(-180, 180)] * 3),
    new_mm=st.floats(0.3, 1.2),
)
@settings(max_examples=15, deadline=None, derandomize=True)
def test_resampling_reproduces_a_linear_function_of_the_place(spacing_mm, angles, new_mm):
    """Whatever the direction: a cubic spline and its limits hold linear functions, away from its mirrored ends."""
    empty = Volume(np.zeros((24, 26, 28), np.float32), spacing_mm, (5.0, -30.0, 600.0), oblique(angles))
    volume = empty.with_voxels(ramp(grid(empty)).astype(np.float32))
    filtered = filter_volume(volume, FilterSettings(smoothing="none", spacing_mm=new_mm))
    wanted = ramp(grid(filtered))
    index = volume.to_index(grid(filtered))
    inside = np.all((index > 8) & (index < np.array(volume.voxels.shape[::-1]) - 9), axis=-1)
    assert inside.sum() > 10
    # the spline remembers its mirrored end by 0.27^8 = 3e-5 of the slope, and float32 holds 1e-7 of 3500
    np.testing.assert_allclose(filtered.voxels[inside], wanted[inside], atol=0.02)


def test_the_new_voxels_are_isotropic_and_as_fine_as_the_finest():
    filtered = filter_volume(noise((12, 40, 40), THICK), FilterSettings(smoothing="none"))
    assert filtered.spacing_mm == (0.41, 0.41, 0.41)
    assert filtered.voxels.dtype == np.float32
    # 11 steps of 1.5 mm hold 40 steps of 0.41 mm
    assert filtered.voxels.shape == (41, 40, 40)


def test_resampling_makes_no_new_extremes():
    """A sharp step, as bone against air, does not ring."""
    voxels = np.full((20, 30, 30), -1000, np.float32)
    voxels[8:, 10:] = 1500
    filtered = filter_volume(Volume(voxels, THICK, (0, 0, 0), np.eye(3)), FilterSettings(smoothing="none"))
    assert filtered.voxels.min() == -1000
    assert filtered.voxels.max() == 1500


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spacing_mm", [(0.4, 0.4, 0.4), THICK])
def test_smoothing_keeps_the_mean_and_lowers_the_noise(kind, spacing_mm):
    volume = noise((24, 60, 60), spacing_mm)
    filtered = filter_volume(volume, FilterSettings(smoothing=kind, spacing_mm=0.4))
    inside = filtered.voxels[8:-8, 8:-8, 8:-8]
    # the mean of about 40 000 voxels of noise 25 that share their neighbours is known to about 0.5
    assert inside.mean() == pytest.approx(volume.voxels.mean(), abs=1.0)
    assert inside.std() < 0.7 * filter_volume(volume, FilterSettings(smoothing="none")).voxels.std()


@pytest.mark.parametrize("kind", KINDS)
def test_smoothing_does_not_shift_a_plane_edge(kind):
    """Half way between the levels the wall stays where it was: 0.05 mm is an eighth of a voxel."""
    empty = noise((30, 50, 50), (0.4, 0.4, 0.5))
    normal, middle = np.array([0.48, 0.6, 0.64]), empty.to_mm([25, 25, 15])
    wall = 195 + 155 * erf((grid(empty) - middle) @ normal / (0.4 * np.sqrt(2))) + 0.4 * (empty.voxels - 40)
    filtered = filter_volume(empty.with_voxels(wall.astype(np.float32)), FilterSettings(smoothing=kind))
    distance = (grid(filtered) - middle) @ normal
    near = np.zeros(distance.shape, bool)
    near[3:-3, 3:-3, 3:-3] = np.abs(distance[3:-3, 3:-3, 3:-3]) < 0.3
    slope, level = np.polyfit(distance[near], filtered.voxels[near], 1)
    assert abs((195 - level) / slope) < 0.05


def test_curvature_smoothing_does_not_narrow_a_vessel_but_a_gaussian_does():
    """Diffusion that stops at the wall leaves the half-way volume of a 4 mm tube as it is; a Gaussian as long takes the
    analytic s^2/r^2 = 6 % off it, and the bone beside it makes no difference."""
    volume = tube_volume(bone=True)
    count = {
        kind: np.sum(filter_volume(volume, FilterSettings(smoothing=kind)).voxels[:, :, :30] >= 195)
        for kind in ("none", "curvature", "gaussian")
    }
    assert count["curvature"] == pytest.approx(count["none"], rel=0.01)
    assert count["gaussian"] == pytest.approx(0.94 * count["none"], rel=0.02)


def test_lengths_are_in_mm_not_voxels():
    """A Gaussian of 0.6 mm widens a point by 0.6 mm along thin and thick axes."""
    voxels = np.zeros((21, 61, 61), np.float32)
    voxels[10, 30, 30] = 1e4
    volume = Volume(voxels, (0.4, 0.4, 0.8), (0.0, 0.0, 0.0), np.eye(3))
    filtered = filter_volume(volume, FilterSettings(smoothing="gaussian", smoothing_mm=0.6, spacing_mm=0.4))
    places, weight = grid(filtered) - volume.to_mm([30, 30, 10]), filtered.voxels[..., None]
    variance = (places**2 * weight).sum((0, 1, 2)) / weight.sum()
    # the limits of the spline widen thick slices by less than a twelfth of a voxel squared
    np.testing.assert_allclose(variance, 0.36, atol=0.8**2 / 12)


@pytest.mark.parametrize(("kind", "tolerance"), [("gaussian", 1e-3), ("median", 1e-3), ("curvature", 2.0)])
def test_the_edge_of_the_region_is_not_seen_where_the_volume_goes_on(kind, tolerance):
    """The margin holds the reach of the filters; the diffusion's scale, a median over the region, may differ a little
    (2 of a noise of 25)."""
    volume = noise((40, 60, 60), (0.4, 0.4, 0.5))
    whole = filter_volume(volume, FilterSettings(smoothing=kind))
    part = filter_volume(
        volume, FilterSettings(smoothing=kind, region_voxels=VoxelBox(low=(20, 20, 0), high=(40, 41, 40)))
    )
    start = np.rint(whole.to_index(part.origin_mm)).astype(int)
    z, y, x = (slice(a, a + n) for a, n in zip(start[::-1], part.voxels.shape, strict=True))
    assert np.abs(whole.voxels[z, y, x] - part.voxels).max() < tolerance


@given(
    angles=st.tuples(*[st.floats(-180, 180)] * 3),
    centre=st.tuples(*[st.floats(8, 20)] * 3),
    half_mm=st.tuples(*[st.floats(0.5, 4.0)] * 3),
)
@settings(max_examples=30, deadline=None, derandomize=True)
def test_a_region_in_mm_of_an_oblique_volume_covers_the_box(angles, centre, half_mm):
    """Every corner of the box lies between the outer voxels, and one voxel less would not do."""
    volume = Volume(np.zeros((40, 60, 60), np.float32), (0.5, 0.5, 0.8), (5.0, 6.0, 7.0), oblique(angles))
    middle = volume.to_mm(centre)
    box = Box(low_mm=tuple(middle - half_mm), high_mm=tuple(middle + half_mm))
    low, high = region_box(volume, FilterSettings(region_mm=box))
    corners = np.stack(np.meshgrid(*zip(box.low_mm, box.high_mm, strict=True)), axis=-1).reshape(-1, 3)
    index = volume.to_index(corners)
    low_wanted, high_wanted = np.maximum(index.min(0), 0), np.minimum(index.max(0), [59, 59, 39])
    assert np.all(low <= low_wanted + 1e-5)
    assert np.all(high - 1 >= high_wanted - 1e-5)
    assert np.all(low_wanted - low < 1)
    assert np.all(high - 1 - high_wanted < 1)


def test_the_filtered_region_covers_the_box_where_it_was():
    volume = noise((30, 40, 40), (0.5, 0.5, 0.8))
    region = VoxelBox(low=(10, 12, 5), high=(22, 30, 14))
    filtered = filter_volume(volume, FilterSettings(region_voxels=region, smoothing="none"))
    np.testing.assert_allclose(filtered.origin_mm, volume.to_mm(region.low), atol=1e-9)
    last = volume.to_index(filtered.to_mm(np.array(filtered.voxels.shape[::-1]) - 1))
    assert np.all(last >= np.array(region.high) - 1 - 1e-6)
    np.testing.assert_allclose(filtered.direction, volume.direction, atol=1e-12)


@pytest.mark.parametrize(
    ("region", "told"),
    [
        (
            {"region_mm": {"low_mm": [100, 0, 0], "high_mm": [120, 9, 9]}},
            r"region_mm \[100.0, 0.0, 0.0\].*reaches from",
        ),
        ({"region_voxels": {"low": [10, 10, 40], "high": [20, 20, 50]}}, r"region_voxels.*volume of \[20, 20, 20\]"),
    ],
)
def test_a_region_beside_the_volume_is_refused_with_both_extents(region, told):
    volume = Volume(np.zeros((20, 20, 20), np.float32), (1, 1, 1), (0, 0, 0), np.eye(3))
    with pytest.raises(StageError, match=told):
        filter_volume(volume, FilterSettings.model_validate(region))


def test_a_volume_of_two_slices_is_refused():
    with pytest.raises(StageError, match="2 along z"):
        filter_volume(noise((2, 20, 20), THICK), FilterSettings())


def test_a_median_below_half_a_voxel_is_refused():
    with pytest.raises(StageError, match="changes nothing"):
        filter_volume(noise((10, 20, 20), THICK), FilterSettings(smoothing="median", smoothing_mm=0.2))


def test_the_same_volume_gives_the_same_bits():
    volume = noise((16, 40, 40), THICK)
    first, second = (filter_volume(volume, FilterSettings()).voxels for _ in range(2))
    np.testing.assert_array_equal(first, second)
