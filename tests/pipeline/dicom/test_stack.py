# SPDX-License-Identifier: Apache-2.0
"""Slices become the regular grid on which they lie, are resampled to one, or are refused: never a wrong place."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.case.settings.images import LoadSettings
from pipeline.dicom.deviations import POSITION_FLOOR_MM, POSITION_TOLERANCE, SHEAR_TOLERANCE
from pipeline.dicom.regrid import regrid
from pipeline.dicom.stack import stack
from pipeline.files.regular_grid import Grid
from pipeline.files.volume import Volume
from solver.runtime.errors import StageError
from tests.support.linear_field import (
    GRADIENT,
    Slice,
    geometry,
    intensities,
    intensity_range,
    measured,
    places_mm,
    slices,
    tilted,
    value,
    worst_error,
)

REFUSE = LoadSettings()
RESAMPLE = LoadSettings(
    irregular_spacing="resample", missing_slices="resample", gantry_tilt="resample", anisotropic_pixels="resample"
)
EXACT = 2e-6
"""Of the range of intensities: float32 arithmetic, no rounding of intensities or header values."""
LOG = logging.getLogger("test")


def grid(series: list[Slice], settings: LoadSettings = RESAMPLE) -> Grid:
    return stack(*geometry(series), "series", settings)


def volume(series: list[Slice], settings: LoadSettings = RESAMPLE) -> tuple[Volume, int]:
    place = grid(series, settings)
    return regrid(intensities(series, place), place, LOG)


def without(series: list[Slice], *numbers: int) -> list[Slice]:
    return [each for k, each in enumerate(series) if k not in numbers]


def test_a_regular_stack_is_taken_as_it_is_whatever_the_policies():
    series = slices(pixel_mm=(0.4, 0.4))
    assert grid(series).measured is None
    place = grid(series)
    voxels = intensities(series, place)
    assert regrid(voxels, place, LOG)[0].voxels is voxels
    assert {key: found["needed"] for key, found in place.policies.items()} == {
        "anisotropic_pixels": False,
        "gantry_tilt": False,
        "irregular_spacing": False,
        "missing_slices": False,
    }


def test_missing_slices_come_back_at_their_places_and_measured_ones_stay():
    complete = slices()
    series = without(complete, 2, 5, 6)
    resampled, outside = volume(series)
    assert outside == 0
    np.testing.assert_allclose(resampled.spacing_mm, (0.4, 0.4, 0.8), atol=1e-9)
    assert worst_error(resampled, series) < EXACT
    kept = [0, 1, 3, 4, 7, 8]
    np.testing.assert_array_equal(resampled.voxels[kept], intensities(series, grid(series)))
    assert grid(series).policies["missing_slices"] == {
        "policy": "resample",
        "needed": True,
        "missing": 3,
        "worst_gap_mm": pytest.approx(2.4),
        "slices_measured": 6,
        "gaps": [{"after_slice": 2, "missing": 1}, {"after_slice": 4, "missing": 2}],
        "slices": 9,
        "spacing_mm": pytest.approx(0.8),
    }


def test_uneven_slices_are_brought_to_no_more_than_their_finest_step_between_the_same_ends():
    series = slices(along_mm=[0, 1, 2.3, 3.1, 4.5, 6.1])
    resampled, outside = volume(series)
    found = grid(series).policies["irregular_spacing"]
    assert outside == 0
    assert (found["smallest_step_mm"], found["largest_step_mm"]) == pytest.approx((0.8, 1.6))
    assert found["slices"] == len(resampled.voxels) == 9  # 6.1 mm in steps of at most 0.8 mm
    assert resampled.spacing_mm[2] == pytest.approx(6.1 / 8)
    assert worst_error(resampled, series) < EXACT
    for k, corner in ((0, series[0]), (-1, series[-1])):
        np.testing.assert_allclose(
            resampled.to_mm([0, 0, range(len(resampled.voxels))[k]]), corner.position_mm, atol=1e-9
        )


@pytest.mark.parametrize(("x_deg", "y_deg"), [(14, 0), (-14, 0), (0, 25), (0, -25), (14, -20), (-30, 30)])
def test_a_tilt_about_either_axis_is_sheared_back_and_nothing_measured_is_cut_off(x_deg, y_deg):
    series = tilted(slices(), x_deg, y_deg)
    resampled, outside = volume(series)
    assert worst_error(resampled, series) < EXACT
    inside = measured(resampled, series)
    np.testing.assert_array_equal(np.isfinite(resampled.voxels), inside)
    assert outside == (~inside).sum()
    corners = np.array([resampled.to_index(each.points_mm[y, x]) for each in series for y in (0, -1) for x in (0, -1)])
    assert corners.min() > -1e-3
    assert (corners.max(axis=0) < np.array(resampled.voxels.shape[::-1]) - 1 + 2e-3).all()
    found = grid(series).policies["gantry_tilt"]
    assert (found["tilt_along_rows_deg"], found["tilt_along_columns_deg"]) == pytest.approx((x_deg, y_deg), abs=1e-6)


@pytest.mark.parametrize("pixel_mm", [(0.4, 0.7), (0.7, 0.4), (0.4, 0.8)])
def test_oblong_pixels_are_kept_unless_the_case_asks_for_square_ones(pixel_mm):
    series = slices(pixel_mm=pixel_mm)
    kept, _ = volume(series, REFUSE)
    np.testing.assert_allclose(kept.spacing_mm[:2], pixel_mm)
    square, _ = volume(series)
    np.testing.assert_allclose(square.spacing_mm[:2], 0.4)
    for each in (kept, square):
        assert worst_error(each, series) < EXACT
    with pytest.raises(StageError, match=r"rows are .* apart .*load\.anisotropic_pixels: resample"):
        grid(series, LoadSettings(anisotropic_pixels="refuse"))


def test_padding_mixes_into_no_measured_voxel():
    series = tilted(slices(), 0, 20)
    place = grid(series)
    voxels = intensities(series, place)
    voxels[:, :4, :5] = np.nan
    resampled, outside = regrid(voxels, place, LOG)
    whole, _ = volume(series)
    left = np.isfinite(resampled.voxels)
    np.testing.assert_array_equal(resampled.voxels[left], whole.voxels[left])
    lost = np.isfinite(whole.voxels).sum() - left.sum()
    assert 9 * 3 * 5 <= lost <= 9 * 5 * 5  # a shift along the columns touches at most one row more
    assert outside == np.isnan(whole.voxels).sum()


DOUBTFUL = {
    "three missing in a row": (without(slices(), 3, 4, 5), r"3 missing in a row are too many to be interpolated over"),
    "steps too unlike": (slices(along_mm=[0, 1, 2, 3.5, 7]), r"step 1 to 3\.5 mm.* differ by more than a factor of 3"),
    "leaning too far": (tilted(slices(), 0, 50), r"tilted by 50\.0 degrees, which no gantry is \(limit 45 degrees\)"),
    "bent": (
        [each.moved(x=0.1 * k**2) for k, each in enumerate(slices())],
        r"not along a straight line \(up to .* mm off it\)",
    ),
    "one moved": ([*slices()[:4], slices()[4].moved(y=1), *slices()[5:]], r"not along a straight line"),
    "two at one place": ([*slices(), slices()[4]], r"10 slices lie at 9 places along the normal"),
    "two phases": ([*slices(), *slices()], r"18 slices lie at 9 places along the normal \(2 at each"),
    "two slices": (slices(along_mm=[0, 1]), r"only 2 slices; at least 3 are needed"),
    "another orientation": ([*slices(), *slices(rotation_deg=(90, 0, 0))], r"2 orientations in one series"),
    "far away": ([each.moved(z=3e5 * (k > 4)) for k, each in enumerate(slices())], r"lies .* mm from the origin"),
    "gulf": ([each.moved(z=300.0 * (k > 4)) for k, each in enumerate(slices())], r"are 300\.8 mm apart \(limit 100"),
    "metres": ([replace(each, pixel_mm=(4e-4, 4e-4)) for each in slices()], r"pixel spacing 0\.0004 mm; it must lie"),
    "long and thin": (tilted(slices(along_mm=range(99), matrix=(4, 4)), 0, 44), r"not.*|more than 8 times as many"),
}


@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_would_be_a_guess_is_refused_even_where_resampling_is_asked_for(name):
    series, expected = DOUBTFUL[name]
    for policies in (REFUSE, RESAMPLE):
        with pytest.raises(StageError, match=expected if policies is RESAMPLE else None):
            volume(series, policies)


def test_a_refusal_names_every_policy_that_would_help():
    series = tilted(without(slices(pixel_mm=(0.4, 0.7)), 3), 0, 10)
    with pytest.raises(StageError) as refusal:
        grid(series, LoadSettings(anisotropic_pixels="refuse"))
    for key in (
        "gantry_tilt: resample shears",
        "missing_slices: resample inter",
        "anisotropic_pixels: resample brings",
    ):
        assert f"load.{key}" in str(refusal.value)
    with pytest.raises(StageError, match=r"load\.irregular_spacing: resample interpolates"):
        grid(slices(along_mm=[0, 1, 2.5, 4]), REFUSE)


@st.composite
def scans(draw: st.DrawFn) -> list[Slice]:
    """Any series: rotated, tilted, with drops, jitter, growing steps, doubled and shifted slices, in any order."""
    number = st.floats(-1, 1)
    count, step = draw(st.integers(3, 9)), draw(st.floats(0.3, 4))
    along = np.arange(count) * step
    kind = draw(st.sampled_from(["even", "jitter", "growing", "dropped"]))
    if kind == "jitter":
        along = along + step * draw(st.sampled_from([0.002, 0.05, 0.3])) * np.array([draw(number) for _ in along])
    if kind == "growing":
        along = along + step * draw(st.floats(0.001, 0.4)) * np.arange(count) ** 2
    if kind == "dropped":
        along = along[[0, *sorted(draw(st.sets(st.integers(1, count - 1), min_size=2)))]]
    rotation = tuple(180 * draw(number) for _ in range(3))
    pixel = draw(st.tuples(st.floats(0.2, 2), st.floats(0.2, 2)))
    series = slices(along, rotation, pixel, draw(st.tuples(st.integers(2, 9), st.integers(2, 9))))
    if draw(st.booleans()):
        series = tilted(series, 60 * draw(number), 60 * draw(number))
    if draw(st.integers(0, 4)) == 0:
        k = draw(st.integers(0, len(series) - 1))
        series[k] = series[k].moved(x=draw(number), y=draw(number), z=draw(number))
    if draw(st.integers(0, 9)) == 0:
        series.append(draw(st.sampled_from(series)))
    return draw(st.permutations(series))


@settings(max_examples=150, deadline=None)
@given(series=scans(), policies=st.sampled_from([REFUSE, RESAMPLE]))
@example(  # uneven, with a voxel a hundredth of a step off a slice: it lies between two, and outside of the other one
    series=tilted(slices([0, 1.05, 2.55, 4.05, 5.55, 7.275], (0, 0, 0), (0.5, 1.0), (3, 2)), 0, 30), policies=RESAMPLE
)
def test_any_geometry_is_refused_or_right(series, policies):
    """Right: the field at the place of each voxel, but for the deviations that are taken as none: a tenth of a pixel
    within the plane, a hundredth of the slice spacing (and 0.01 mm) across it.
    """
    try:
        result, _ = volume(series, policies)
    except StageError:
        return
    finite = np.isfinite(result.voxels)
    uneven = grid(series, policies).policies["irregular_spacing"]["needed"]
    assert finite[measured(result, series, slack=-0.1, near=0.001 if uneven else 0.02)].all()
    off = SHEAR_TOLERANCE * min(series[0].pixel_mm) + max(POSITION_FLOOR_MM, POSITION_TOLERANCE * result.spacing_mm[2])
    error = np.abs(result.voxels - value(places_mm(result)))[finite].max()
    assert error <= off * np.linalg.norm(GRADIENT) + EXACT * intensity_range(series)
