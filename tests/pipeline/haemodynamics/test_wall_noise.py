# SPDX-License-Identifier: Apache-2.0
"""Noise of the wall shear stress: it goes, and what is no noise stays."""

import numpy as np
import pytest

from pipeline.files.mesh import Mesh
from pipeline.haemodynamics.wall_noise import LARGEST_CHANGE, WallFilter
from pipeline.haemodynamics.wall_shear_stress import Wall
from tests.support.analytic_pipe import Pipe

SPACING_MM = 4.0 / 12
"""12 nodes across the pipe of 2 mm radius."""


@pytest.fixture(scope="module")
def wall():
    return Wall.of(Pipe(length_mm=30.0).surface(0.4))


def blotchy(wall, part, seed=0):
    """Noise without correlation beyond a spacing and a half, of so large a part, as (V,)."""
    drawn = np.random.default_rng(seed).standard_normal(len(wall.normals))
    points = wall.mesh.points_mm
    near = np.linalg.norm(points[:, None] - points, axis=2)
    drawn = np.exp(-0.5 * (near / (0.75 * SPACING_MM)) ** 2) @ drawn
    return part * drawn / drawn.std()


def rms(values, wall):
    return float(np.sqrt(wall.areas_mm2 @ values**2 / wall.areas_mm2.sum()))


@pytest.mark.parametrize("part", [0.003, 0.01, 0.02])
def test_noise_of_a_smooth_pipe_falls_by_a_third_and_is_measured(wall, part):
    noise = blotchy(wall, part)
    found, measured = WallFilter(wall, SPACING_MM)(1 + noise)
    assert rms(found - 1, wall) < 2 / 3 * rms(noise, wall)
    assert measured.found == pytest.approx(part, rel=0.5)  # what is longer than the diffusion's length is not in it
    assert measured.left < 2 / 3 * measured.found


def test_no_value_changes_by_more_than_is_said(wall):
    values = np.abs(1 + blotchy(wall, 0.5))
    found, measured = WallFilter(wall, SPACING_MM)(values)
    assert np.abs(found / values - 1).max() == pytest.approx(LARGEST_CHANGE, rel=1e-6)
    assert measured.left < measured.found


def test_noise_is_measured_in_proportion_and_whatever_the_unit(wall):
    noise = blotchy(wall, 0.02)
    small, large = (WallFilter(wall, SPACING_MM)(size * (1 + noise)) for size in (1.0, 1000.0))
    np.testing.assert_allclose(large[0], 1000 * small[0], rtol=1e-4)  # of the solution, 1e-6
    assert large[1].found == pytest.approx(small[1].found, rel=1e-3)


def test_what_is_constant_stays_and_has_no_noise(wall):
    found, measured = WallFilter(wall, SPACING_MM)(np.full(len(wall.normals), 2.5))
    np.testing.assert_allclose(found, 2.5, rtol=1e-5)  # of the solution, 1e-6
    assert measured.found < 1e-5


@pytest.mark.parametrize("width_radii", [0.15, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("height", [0.5, 3.0])
def test_a_peak_on_a_noisy_wall_stays_within_two_percent_of_what_it_was(wall, width_radii, height):
    """Narrower than an apex of a bifurcation, to as wide as the vessel."""
    middle = wall.mesh.points_mm[np.argmin(np.abs(wall.mesh.points_mm @ Pipe().frame()[2]))]
    away = np.linalg.norm(wall.mesh.points_mm - middle, axis=1)
    values = (1 + height * np.exp(-0.5 * (away / (2.0 * width_radii)) ** 2)) * (1 + blotchy(wall, 0.01))
    found, _ = WallFilter(wall, SPACING_MM)(values)
    top = values.argmax()
    assert found[top] / values[top] == pytest.approx(1, abs=0.02)
    assert np.percentile(found, 99) / np.percentile(values, 99) == pytest.approx(1, abs=0.02)


def test_a_finer_lattice_changes_less_of_what_is_smooth(wall):
    """As the square of the spacing at least: waves around the pipe are no noise, and what they lose goes away."""
    first, second, _ = Pipe().frame()
    points = wall.mesh.points_mm
    around = np.arctan2(points @ second, points @ first)
    values = 1 + 0.5 * np.cos(2 * around)
    inner = np.abs(points @ Pipe().frame()[2]) < 12
    change = [np.abs(WallFilter(wall, spacing)(values)[0] - values)[inner].max() for spacing in (0.2, 0.1)]
    assert change[1] < change[0] / 4


def test_two_vessels_side_by_side_do_not_mix(wall):
    other = Mesh(wall.mesh.points_mm + np.array([4.05, 0, 0]), wall.mesh.triangles, wall.mesh.opening)
    count = len(wall.mesh.points_mm)
    both = Mesh(
        np.concatenate((wall.mesh.points_mm, other.points_mm)),
        np.concatenate((wall.mesh.triangles, other.triangles + count)),
        np.concatenate((wall.mesh.opening, other.opening)),
    )
    found, _ = WallFilter(Wall.of(both), SPACING_MM)(np.repeat([1.0, 9.0], count))
    np.testing.assert_allclose(found, np.repeat([1.0, 9.0], count), rtol=1e-5)


def test_triangles_of_no_area_and_negative_values(wall):
    flat = np.array([[0, 0, 1]])
    mesh = Mesh(wall.mesh.points_mm, np.concatenate((wall.mesh.triangles, flat)), np.zeros(len(wall.mesh.opening) + 1))
    found, _ = WallFilter(Wall.of(mesh), SPACING_MM)(np.ones(len(wall.normals)))
    np.testing.assert_allclose(found, 1, rtol=1e-5)
    with pytest.raises(ValueError, match="negative"):
        WallFilter(wall, SPACING_MM)(-np.ones(len(wall.normals)))
