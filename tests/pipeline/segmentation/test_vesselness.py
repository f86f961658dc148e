# SPDX-License-Identifier: Apache-2.0
"""Laws of the vesselness."""

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import erfc

from pipeline.segmentation.vesselness import EVEN, eigenvalues, vesselness
from tests.support.tubes import rotation

LOG = logging.getLogger("test")
CONTRAST, TISSUE, SPACING_MM, BLUR_MM = 310.0, 40.0, 0.5, 0.25
RADII_MM = (1.0, 1.5, 2.25, 3.4)


def places(size=48):
    """Places (Z, Y, X, 3), mm, about the middle of a cube."""
    axis = (np.arange(size) - size // 2) * SPACING_MM
    return np.stack(np.meshgrid(axis, axis, axis, indexing="ij")[::-1], axis=-1)


def filled(distance_mm, contrast=CONTRAST):
    """Intensities of a shape with a blurred wall from the distance to it, negative inside."""
    return (TISSUE + contrast / 2 * erfc(distance_mm / (BLUR_MM * np.sqrt(2)))).astype(np.float32)


def from_axis(points, axis, through=(0.0, 0.0, 0.0)):
    away = points - through
    return np.linalg.norm(away - (away @ axis)[..., None] * axis, axis=-1)


def tube(radius_mm, seed=0, contrast=CONTRAST):
    return filled(from_axis(places(), rotation(seed)[:, 0]) - radius_mm, contrast)


def response(voxels, radii_mm=RADII_MM):
    return vesselness(voxels, SPACING_MM, radii_mm, LOG)


def middle(values):
    return float(values[tuple(n // 2 for n in values.shape)])


@given(st.lists(st.floats(-1e3, 1e3), min_size=6, max_size=6))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_eigenvalues_are_those_of_the_matrix(entries):
    """To 1e-6 of the largest entry: the arc cosine halves the digits where two of them meet."""
    xx, yy, zz, xy, xz, yz = entries
    wanted = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    np.testing.assert_allclose(eigenvalues(*entries), wanted, atol=1e-6 * max(1e-3, *np.abs(entries)))


@pytest.mark.parametrize("radius_mm", RADII_MM)
def test_the_response_is_largest_on_the_centre_line_and_full_there(radius_mm):
    """The brightest tube answers with 1 - exp(-2) for its shape (l2 = l3, l1 = 0) times 1 - exp(-8) for its contrast,
    whatever its radius; across it the response falls, to a tenth a radius beyond the wall."""
    axis = rotation(1)[:, 0]
    values, away = response(tube(radius_mm, seed=1)), from_axis(places(), axis)
    inner = (slice(10, -10),) * 3  # beside the ends, where the cube cuts the tube
    assert middle(values) == pytest.approx(1 - np.exp(-2), abs=0.02)
    rings = [values[inner][np.abs(away[inner] - d) < 0.25].mean() for d in np.arange(0, radius_mm + 0.1, 0.5)]
    assert np.all(np.diff(rings) < 0)
    assert values[inner][away[inner] > 2 * radius_mm + 1].max(initial=0) < 0.1


@pytest.mark.parametrize("radius_mm", RADII_MM)
def test_a_tube_answers_at_the_scale_of_its_own_radius(radius_mm):
    """Beside a brighter tube of 2.25 mm that is looked for too and sets the full scale, a pale tube answers most
    where its own radius is looked for; the next radii of the list answer less."""
    points, axis = places(64), np.array([0.0, 0.0, 1.0])
    pale = filled(from_axis(points, axis, (-6.0, 0.0, 0.0)) - radius_mm, CONTRAST / 5)
    voxels = pale + filled(from_axis(points, axis, (8.0, 4.0, 0.0)) - 2.25) - TISSUE
    answers = {r: response(voxels, sorted({r, 2.25}))[32, 32, 20] for r in (1.0, 1.5, 2.25, 3.4)}
    own = answers.pop(radius_mm)
    assert own == pytest.approx(0.22, abs=0.04)  # 0.86 (1 - exp(-(1/5)^2/(2 EVEN^2))) = 0.24, less the blur's part
    assert all(answer < 0.85 * own for r, answer in answers.items() if radius_mm != 2.25)


def test_thin_wide_pale_and_bright_tubes_answer_alike():
    """A tube of half the contrast and 0.4 times the radius keeps 0.86 of the response, or 0.82 where the wall's blur b
    takes 1 - s^2/(s^2 + b^2) = 8 % off its curvature; another 0.03 for the grid."""
    points, axis = places(64), np.array([0.0, 0.0, 1.0])
    voxels = filled(from_axis(points, axis, (8.0, 0.0, 0.0)) - 3.0)
    voxels += filled(from_axis(points, axis, (-8.0, 0.0, 0.0)) - 1.2, CONTRAST / 2) - TISSUE
    values = response(voxels, (1.2, 1.8, 3.0))
    thin, wide = values[32, 32, 16], values[32, 32, 48]
    assert thin / wide == pytest.approx(1 - np.exp(-((0.92 / 2 / EVEN) ** 2) / 2), abs=0.03)


def test_plates_are_suppressed_and_balls_lowered_but_kept():
    """A plate twice as bright as the tube answers nowhere; a ball, as an aneurysm, with exp(-1/2) of a tube."""
    points = places(64)
    voxels = filled(from_axis(points, np.array([0.0, 0.0, 1.0]), (-9.0, -9.0, 0.0)) - 2.0)
    voxels += filled(np.linalg.norm(points - (8.0, -8.0, 0.0), axis=-1) - 2.5) - TISSUE
    normal = np.array([0.1, 1.0, 0.05]) / np.linalg.norm([0.1, 1.0, 0.05])
    to_plate = np.abs(points @ normal - 8.0)
    voxels += filled(to_plate - 1.0, 2 * CONTRAST) - TISSUE
    values = response(voxels)
    whole_tube, ball = values[32, 14, 14], values[32, 16, 48]
    assert values[4:-4, 4:-4, 4:-4][to_plate[4:-4, 4:-4, 4:-4] < 1.5].max() < 0.03
    assert ball / whole_tube == pytest.approx(np.exp(-0.5), abs=0.05)


def test_the_response_does_not_depend_on_the_direction():
    """Tubes of 2 voxels radius in ten directions: the grid shows by less than 3 % of the response."""
    answers = [middle(response(tube(1.0, seed=seed))) for seed in range(10)]
    assert np.ptp(answers) < 0.03 * np.mean(answers)


def test_noise_answers_little_beside_a_vessel():
    noise = np.random.default_rng(2).normal(0, CONTRAST / 10, (48, 48, 48)).astype(np.float32)
    values, away = response(tube(2.0) + noise, (1.5, 2.25)), from_axis(places(), rotation(0)[:, 0])
    assert np.percentile(values[away < 0.5], 5) > 0.6
    assert np.percentile(values[away > 5.0], 99) < 0.1


def test_intensity_may_be_shifted_and_scaled():
    """The response knows neither the level of the tissue nor the unit; float32 holds HU to 1e-4."""
    voxels = tube(1.5)
    np.testing.assert_allclose(response(voxels), response(3 * voxels + 1000), atol=2e-3)


def test_the_same_voxels_give_the_same_bits_and_no_structure_nothing():
    voxels = tube(1.5)
    np.testing.assert_array_equal(response(voxels), response(voxels))
    assert not response(np.full((9, 9, 9), 7, np.float32)).any()


@pytest.mark.parametrize("radii_mm", [(), (1.0, 0.0)])
def test_radii_must_be_given_and_positive(radii_mm):
    with pytest.raises(ValueError, match="radii_mm"):
        response(tube(1.0), radii_mm)
