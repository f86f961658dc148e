# SPDX-License-Identifier: Apache-2.0
"""Laws of the filter stage."""

import itertools
import json
import logging
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import map_coordinates
from scipy.special import erf

from pipeline.case.settings.images import Box, FilterSettings, GrownRegion, VoxelBox
from pipeline.files.cubes import MOST_STRETCH
from pipeline.files.volume import Volume
from pipeline.filtering.region import Region, find_region, region_box
from pipeline.filtering.smoothing import EQUAL_PATCHES, noise_level, smooth
from pipeline.stages.filter import filter_volume, isotropic_grid
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.support.vessels import (
    BONE,
    HALF_WAY,
    LUMEN,
    TISSUE,
    centre_line_mm,
    distance_mm,
    oblique,
    true_lumen,
    tube_volume,
)

THICK = (0.41, 0.41, 1.5)
"""Spacing, mm, of thick slices, as of the head in the real cases."""

KINDS = ("gaussian", "median", "curvature", "nonlocal")


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
@settings(max_examples=8, deadline=None, derandomize=True)
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
    """12 slices of 1.5 mm are 43.9 voxels of 0.41 mm thick; 44 that fit are 0.2 % thinner."""
    filtered = filter_volume(noise((12, 40, 40), THICK), FilterSettings(smoothing="none"))
    assert filtered.spacing_mm == pytest.approx((0.41, 0.41, 18 / 44))
    assert filtered.voxels.dtype == np.float32
    assert filtered.voxels.shape == (44, 40, 40)


SPACINGS = st.tuples(*[st.floats(0.3, 3.0)] * 3)
ANGLES = st.tuples(*[st.floats(-180, 180)] * 3)


def edges(volume: Volume) -> np.ndarray:
    """The outer corners of the first and the last voxel, LPS, (2, 3)."""
    return volume.to_mm([[-0.5] * 3, np.array(volume.voxels.shape[::-1]) - 0.5])


@given(spacing_mm=SPACINGS, angles=ANGLES, new_mm=st.floats(0.3, 3.0), data=st.data())
@settings(max_examples=30, deadline=None, derandomize=True)
def test_the_new_voxels_reach_as_far_as_the_old_ones(spacing_mm, angles, new_mm, data):
    """Of the whole volume or a region: each end exactly where voxels 1 % longer or shorter fit, else to a quarter of
    one; the middle exactly, no voxel outside."""
    shape = data.draw(st.tuples(*[st.integers(8, 20)] * 3))
    volume = Volume(np.zeros(shape, np.float32), spacing_mm, (5.0, -30.0, 600.0), oblique(angles))
    low = np.array(data.draw(st.tuples(*[st.integers(0, 3)] * 3)))
    high = np.array(shape[::-1]) - data.draw(st.tuples(*[st.integers(0, 3)] * 3))
    origin_mm, size, lengths_mm = isotropic_grid(volume, Region(low, high), new_mm)
    assert np.all(np.abs(lengths_mm / new_mm - 1) <= MOST_STRETCH + 1e-9)
    new = Volume(np.zeros(size[::-1]), tuple(lengths_mm), tuple(origin_mm), volume.direction)
    wanted = volume.to_mm([low - 0.5, high - 0.5])
    off_mm = (edges(new) - wanted) @ volume.direction
    fits = new_mm < 2 * (high - low) * spacing_mm  # else one voxel is all
    limits = np.where(size * MOST_STRETCH > 0.5 + MOST_STRETCH, 0.0, new_mm / 4)
    assert np.all(np.abs(off_mm[:, fits]) <= limits[fits] + 1e-5)
    np.testing.assert_allclose(edges(new).mean(axis=0), wanted.mean(axis=0), atol=1e-9)
    centres = volume.to_index(new.to_mm([[0, 0, 0], size - 1]))
    assert np.all((centres > low - 0.5 - 1e-6) & (centres < high - 0.5 + 1e-6))


@given(angles=ANGLES, spacing_mm=SPACINGS, given_mm=st.booleans())
@settings(max_examples=10, deadline=None, derandomize=True)
def test_where_no_spacing_changes_every_bit_stays(angles, spacing_mm, given_mm):
    volume = noise((9, 10, 11), (spacing_mm[0],) * 3)
    volume = Volume(volume.voxels, volume.spacing_mm, volume.origin_mm, oblique(angles))
    wanted = spacing_mm[0] * (1 + 5e-7) if given_mm else None  # as a header's decimals may have it
    filtered = filter_volume(volume, FilterSettings(smoothing="none", spacing_mm=wanted))
    np.testing.assert_array_equal(filtered.voxels, volume.voxels)
    np.testing.assert_array_equal(filtered.origin_mm, volume.origin_mm)
    np.testing.assert_allclose(filtered.direction, volume.direction, atol=1e-12)


@given(
    thickness_mm=st.floats(1.8, 4.0),
    angles=ANGLES,
    axis=st.integers(0, 2),
    interpolation=st.sampled_from(["spline", "linear"]),
)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_beyond_the_middle_of_the_outer_slices_their_values_hold(thickness_mm, angles, axis, interpolation):
    """Slices along any axis: what lies beyond the middle of the first and the last is as they are, to the last voxel
    before their edge, and a ramp between them is the ramp."""
    spacing, shape = np.full(3, 0.9), np.full(3, 8)
    spacing[axis], shape[2 - axis] = thickness_mm, 20
    level = 100 * np.moveaxis(np.broadcast_to(np.arange(20.0)[:, None, None], (20, 8, 8)), 0, 2 - axis)
    volume = Volume(level.astype(np.float32), tuple(spacing), (5.0, -30.0, 600.0), oblique(angles))
    filtered = filter_volume(volume, FilterSettings(smoothing="none", interpolation=interpolation, spacing_mm=0.8))
    place = volume.to_index(grid(filtered))[..., axis]
    outer = (place < 0) | (place > 19)
    assert outer.any()
    np.testing.assert_allclose(filtered.voxels[outer], 100 * np.clip(place, 0, 19)[outer], atol=0.05)
    inner = (place > 8) & (place < 11)
    np.testing.assert_allclose(filtered.voxels[inner], 100 * place[inner], atol=0.05)


@given(
    slices=st.integers(8, 30),
    thickness_mm=st.floats(1.5, 4.0),
    pixel_mm=st.floats(0.7, 1.0),
    radius_mm=st.floats(8.0, 12.0),
    angles=ANGLES,
    tilt=st.tuples(*[st.floats(-0.3, 0.3)] * 2),
)
@settings(max_examples=10, deadline=None, derandomize=True)
def test_a_slab_keeps_its_volume(slices, thickness_mm, pixel_mm, radius_mm, angles, tilt):
    """A tube that leaves through both ends of a stack, to what whole voxels let a volume be known.

    Along the stack that is half a voxel. Across it, the pixel centres in a disc of R pixels scatter about its area with
    a standard deviation of 0.676 sqrt(R) (Kendall, Quarterly Journal of Mathematics, 1948), four of which one disc in a
    thousand passes. The middle lies askew between pixels: in the midst of four, where their centres come in rings
    of eight, they scatter more than twice as much. In an upright tube all slices have the same disc.
    """
    shape = (slices, 56, 56)
    empty = Volume(
        np.zeros(shape, np.float32), (pixel_mm, pixel_mm, thickness_mm), (9.0, -80.0, 300.0), oblique(angles)
    )
    z, y, x = ((np.arange(n) - (n - 1) / 2) * s for n, s in zip(shape, empty.spacing_mm[::-1], strict=True))
    z, y, x = z[:, None, None], y[:, None], x
    bend = 4.0 / max(np.abs(z).max(), 1.0)  # the tube stays in the image
    askew = 0.31 * pixel_mm, 0.17 * pixel_mm
    away_mm = np.hypot(x - askew[0] - bend * tilt[0] * z, y - askew[1] - bend * tilt[1] * z)
    slope = np.hypot(1, bend * np.hypot(*tilt))
    part = np.clip(0.5 + (radius_mm - away_mm) / pixel_mm / slope, 0, 1)
    volume = empty.with_voxels((40 + 300 * part).astype(np.float32))
    filtered = filter_volume(volume, FilterSettings(smoothing="none"))
    found = np.count_nonzero(filtered.voxels >= 190) * pixel_mm**3
    truth = np.pi * radius_mm**2 * slices * thickness_mm
    rounding = pixel_mm / 2 / (slices * thickness_mm)
    pixels = radius_mm / pixel_mm
    scatter = 4 * 0.676 * np.sqrt(pixels) / (np.pi * pixels**2)
    assert found == pytest.approx(truth, rel=scatter + rounding)


def test_resampling_makes_no_new_extremes():
    """A sharp step, as bone against air, does not ring."""
    voxels = np.full((20, 30, 30), -1000, np.float32)
    voxels[8:, 10:] = 1500
    filtered = filter_volume(Volume(voxels, THICK, (0, 0, 0), np.eye(3)), FilterSettings(smoothing="none"))
    assert filtered.voxels.min() == -1000
    assert filtered.voxels.max() == 1500


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spacing_mm", [pytest.param((0.4, 0.4, 0.4), marks=pytest.mark.slow), THICK])
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


@pytest.mark.parametrize(
    ("kind", "tolerance"), [("gaussian", 1e-3), ("median", 1e-3), ("curvature", 2.0), ("nonlocal", 2.0)]
)
def test_the_edge_of_the_region_is_not_seen_where_the_volume_goes_on(kind, tolerance):
    """The margin holds the reach of the filters; the diffusion's scale and the noise of the patches, medians over
    the region, may differ a little (2 of a noise of 25)."""
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
    wanted = volume.to_mm([np.array(region.low) - 0.5, np.array(region.high) - 0.5])
    off_mm = (edges(filtered) - wanted) @ volume.direction
    np.testing.assert_allclose(off_mm[:, :2], 0, atol=1e-9)
    assert np.all(np.abs(off_mm[:, 2]) <= 0.5 / 4)
    np.testing.assert_allclose(filtered.direction, volume.direction, atol=1e-12)


@pytest.mark.parametrize(
    ("region", "message"),
    [
        (
            {"region_mm": {"low_mm": [100, 0, 0], "high_mm": [120, 9, 9]}},
            r"region_mm \[100.0, 0.0, 0.0\].*reaches from",
        ),
        ({"region_voxels": {"low": [10, 10, 40], "high": [20, 20, 50]}}, r"region_voxels.*volume of \[20, 20, 20\]"),
    ],
)
def test_a_region_beside_the_volume_is_refused_with_both_extents(region, message):
    volume = Volume(np.zeros((20, 20, 20), np.float32), (1, 1, 1), (0, 0, 0), np.eye(3))
    with pytest.raises(StageError, match=message):
        filter_volume(volume, FilterSettings.model_validate(region))


def test_a_volume_of_two_slices_is_refused():
    with pytest.raises(StageError, match="2 along z"):
        filter_volume(noise((2, 20, 20), THICK), FilterSettings())


@pytest.mark.parametrize("kind", ["median", "nonlocal"])
def test_a_radius_below_half_a_voxel_is_refused(kind):
    with pytest.raises(StageError, match="changes nothing"):
        filter_volume(noise((10, 20, 20), THICK), FilterSettings(smoothing=kind, smoothing_mm=0.2))


def test_the_same_volume_gives_the_same_bits():
    volume = noise((16, 40, 40), THICK)
    for kind in ("curvature", "nonlocal"):
        first, second = (filter_volume(volume, FilterSettings(smoothing=kind)).voxels for _ in range(2))
        np.testing.assert_array_equal(first, second)


def test_linear_interpolation_is_linear():
    volume = noise((12, 20, 24), THICK)
    filtered = filter_volume(volume, FilterSettings(smoothing="none", interpolation="linear", spacing_mm=0.6))
    index = np.moveaxis(volume.to_index(grid(filtered))[..., ::-1], -1, 0)
    index = np.clip(index, 0, np.array(volume.voxels.shape)[:, None, None, None] - 1)
    wanted = map_coordinates(volume.voxels.astype(float), index, order=1, mode="nearest")
    np.testing.assert_allclose(filtered.voxels, wanted, atol=1e-3)  # float32 of 100, places to 1e-6 of a voxel
    assert (
        np.abs(filtered.voxels - filter_volume(volume, FilterSettings(smoothing="none", spacing_mm=0.6)).voxels).max()
        > 1
    )


def naive_nonlocal_means(voxels: np.ndarray, patch: tuple, search: tuple, level: float) -> np.ndarray:
    """Weighted means of the docstring, shift by shift and voxel of the patch by voxel."""
    pad = np.add(patch, search)
    padded = np.pad(voxels.astype(float), [(r, r) for r in pad], mode="symmetric")
    width = EQUAL_PATCHES * 2 * level**2 * np.sqrt(2 / np.prod(2 * np.array(patch) + 1))

    def moved(*shifts):
        start = pad + np.sum(shifts, axis=0)
        return padded[tuple(slice(a, a + n) for a, n in zip(start, voxels.shape, strict=True))]

    def offsets(radii):
        return list(itertools.product(*(range(-r, r + 1) for r in radii)))

    total, weights = np.zeros(voxels.shape), np.zeros(voxels.shape)
    for shift in offsets(search):
        difference = np.mean([(moved(k) - moved(k, shift)) ** 2 for k in offsets(patch)], axis=0)
        weight = np.maximum(1 - (np.maximum(difference - 2 * level**2, 0) / width) ** 2, 0) ** 2
        total, weights = total + weight * moved(shift), weights + weight
    return total / weights


def test_nonlocal_means_are_those_of_the_definition():
    """Thick slices, so that radii differ between the axes, and more than one slab and tile of rows; float32 of sums of
    squares up to 1e5 tells the weights to 1e-4."""
    volume = noise((9, 18, 15), (0.4, 0.5, 1.0))
    edge = volume.with_voxels((volume.voxels + 80 * (np.arange(15) > 7)).astype(np.float32))
    smoothed = Volume.from_sitk(smooth(edge.to_sitk(), "nonlocal", 0.5, logging.getLogger())).voxels
    wanted = naive_nonlocal_means(edge.voxels, (0, 1, 1), (1, 2, 2), noise_level(edge))
    np.testing.assert_allclose(smoothed, wanted, atol=0.01)
    assert np.std(smoothed[:, :, :5]) < 0.6 * np.std(edge.voxels[:, :, :5])


def test_nonlocal_means_lower_the_noise_more_and_blur_the_wall_less_than_a_gaussian():
    """A tube of 2 mm at a contrast of 6 times the noise: in the lumen a third of the noise is left, and the error at
    the wall, noise and blur together, is half of the noise; a Gaussian leaves more than the noise itself."""
    clean, noisy = tube_volume(noise=0), tube_volume(noise=50)
    wanted = filter_volume(clean, FilterSettings(smoothing="none"))
    inside, wall = distance_mm(wanted) < 1.2, np.abs(distance_mm(wanted) - 2) < 0.5
    nonlocal_, gaussian = (
        filter_volume(noisy, FilterSettings(smoothing=kind)).voxels - wanted.voxels for kind in ("nonlocal", "gaussian")
    )
    assert nonlocal_[inside].std() < 50 / 3
    assert abs(nonlocal_[inside].mean()) < 0.02 * (LUMEN - TISSUE)
    assert np.sqrt(np.mean(nonlocal_[wall] ** 2)) < 25
    assert np.sqrt(np.mean(gaussian[wall] ** 2)) > 25


@pytest.mark.parametrize("level", [2.0, 25.0, 100.0])
def test_noise_is_measured_beside_a_vessel_bone_and_padding(level):
    """A vessel alone adds 5 %; where vessel, bone and the edge of the field of view fill half of a small image, walls
    count as up to 15 % of a usual noise, or as 1 HU."""
    volume, crowded = tube_volume(noise=level), tube_volume(noise=level, bone=True)
    crowded.voxels[:, :20] = -1000
    assert noise_level(volume) == pytest.approx(level, rel=0.05)
    assert noise_level(crowded) == pytest.approx(level, rel=0.15, abs=1)
    assert noise_level(volume.with_voxels(np.full_like(volume.voxels, 7))) == 0


def place_on_line(volume: Volume, fraction: float) -> tuple[float, float, float]:
    """A point of the tube's centre line, LPS."""
    line = centre_line_mm()
    x, y, z = line[int(fraction * (len(line) - 1))] @ volume.direction.T
    return x, y, z


def grown(volume: Volume, **keys) -> Region:
    return find_region(volume, FilterSettings(region_grown=GrownRegion(**keys)), logging.getLogger())


def holds(region: Region, mask: np.ndarray) -> bool:
    index = np.argwhere(mask)[:, ::-1]
    return bool(np.all(index >= region.low) and np.all(index < region.high))


@pytest.mark.parametrize("noise_", [25, 103])
@pytest.mark.parametrize("spacing_mm", [pytest.param((0.4, 0.4, 0.5), marks=pytest.mark.slow), (0.4, 0.45, 1.5)])
@pytest.mark.parametrize("lower", [HALF_WAY, None])
def test_a_grown_region_holds_the_whole_vessel_within_reach(noise_, spacing_mm, lower):
    """Down to a contrast of 3 times the noise, in thin and thick slices, with a threshold given or estimated."""
    volume = tube_volume(1.5, noise=noise_, spacing_mm=spacing_mm, direction=oblique())
    seed = place_on_line(volume, 0.5)
    for reach_mm in (6.0, 40.0):
        region = grown(volume, seeds_mm=(seed,), lower=lower, reach_mm=reach_mm, margin_mm=0.5)
        near = np.linalg.norm(grid(volume) - seed, axis=-1) <= reach_mm
        assert holds(region, true_lumen(volume, 1.5) & near)
        beyond = np.linalg.norm(grid(volume) - seed, axis=-1) > np.sqrt(3) * (reach_mm + 3)
        assert not holds(region, beyond) or not beyond.any()
    assert region.record["lower_estimated"] == (lower is None)


def test_a_grown_region_is_tight_around_the_vessel_and_its_margin():
    """The box of the true lumen, wider by the margin, the wall's blur, and a voxel; bone beside it stays out."""
    volume = tube_volume(1.5, bone=True)
    region = grown(volume, seeds_mm=(place_on_line(volume, 0.5),), lower=HALF_WAY, margin_mm=2.0)
    index = np.argwhere(true_lumen(volume, 1.5))[:, ::-1]
    margin = 2.0 / np.array(volume.spacing_mm) + 2
    size = volume.voxels.shape[::-1]
    assert np.all(region.low >= np.maximum(index.min(axis=0) - margin, 0))
    assert np.all(region.high - 1 <= np.minimum(index.max(axis=0) + margin, size))
    assert volume.voxels.max() > BONE - 100


def test_vessels_apart_are_in_one_region_when_each_has_a_seed(tmp_path):
    volume = tube_volume(1.5)
    mirrored = np.concatenate([volume.voxels, volume.voxels[:, :, ::-1]], axis=2)
    both = Volume(mirrored, volume.spacing_mm, volume.origin_mm, volume.direction)
    first = np.rint(both.to_index(place_on_line(volume, 0.5))).astype(int)
    second = np.array([mirrored.shape[2] - 1 - first[0], first[1], first[2]])
    lumen = np.concatenate([true_lumen(volume, 1.5), true_lumen(volume, 1.5)[:, :, ::-1]], axis=2)
    seeds = {
        "voxel": {"seeds_voxel": (tuple(first.tolist()), tuple(second.tolist()))},
        "mm": {"seeds_mm": tuple(tuple(both.to_mm(place).tolist()) for place in (first, second))},
    }
    points = [{"position": list(place), "positionStatus": "defined"} for place in seeds["mm"]["seeds_mm"]]
    file = tmp_path / "seeds.mrk.json"
    file.write_text(json.dumps({"markups": [{"type": "Fiducial", "coordinateSystem": "LPS", "controlPoints": points}]}))
    seeds["file"] = {"seeds_file": str(file)}
    regions = [grown(both, lower=HALF_WAY, **each) for each in seeds.values()]
    assert holds(regions[0], lumen)
    assert not holds(grown(both, lower=HALF_WAY, seeds_voxel=(tuple(first.tolist()),)), lumen)
    for region in regions[1:]:
        np.testing.assert_array_equal([region.low, region.high], [regions[0].low, regions[0].high])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "nothing to grow from"),
        ({"seeds_voxel": ((500, 3, 3),)}, r"region_grown.seeds_voxel\[0\].*outside the loaded volume"),
        ({"seeds_voxel": ((2, 2, 2),), "lower": 195.0}, r"seeds_voxel\[0\].*below.*lower = 195"),
        ({"seeds_voxel": ((2, 2, 2),)}, "none can be estimated"),
    ],
)
def test_a_region_that_cannot_grow_is_refused_with_the_remedy(keys, message):
    with pytest.raises(StageError, match=message):
        grown(tube_volume(1.5), **keys)


def test_a_leak_of_the_grown_region_is_said(caplog):
    volume = tube_volume(1.5)
    with caplog.at_level(logging.WARNING):
        region = grown(volume, seeds_mm=(place_on_line(volume, 0.5),), lower=TISSUE - 100)
    assert "fills 100 %" in caplog.text
    assert region.record["fraction_of_reach"] == 1


def test_the_command_line_keeps_the_region_in_its_provenance(tmp_path):
    volume = tube_volume(1.5)
    volume.write(tmp_path / "volume.nrrd")
    region = {"seeds_mm": [place_on_line(volume, 0.5)], "lower": HALF_WAY, "margin_mm": 1, "reach_mm": 8}
    settings_ = json.dumps({"region_grown": region, "smoothing": "nonlocal"})
    options = {"volume": "volume.nrrd", "filtered": "filtered.nrrd", "provenance": "provenance.json"}
    command = [part for key, name in options.items() for part in (f"--{key}", str(tmp_path / name))]
    answer = subprocess.run(
        [sys.executable, "-m", "pipeline.stages.filter", *command, "--settings", settings_],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    kept = json.loads((tmp_path / "provenance.json").read_text())
    size = np.subtract(kept["region"]["high"], kept["region"]["low"])
    assert kept["region"]["lower"] == HALF_WAY
    assert kept["voxels"] == [size[0], size[1], int(size[2] * 0.5 / 0.4 + 0.5 + 1e-6)]
    assert "planes/s" in answer.stderr
