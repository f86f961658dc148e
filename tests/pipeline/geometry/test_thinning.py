# SPDX-License-Identifier: Apache-2.0
"""The skeleton is thin, runs from tip to tip, and is connected as the solid is."""

import numpy as np
import pytest
from scipy import ndimage
from skimage.measure import euler_number

from pipeline.geometry.branches.thinning import thin, tips
from tests.support.tubes import arc, fork, line, tube

ALL = np.ones((3, 3, 3))


def pieces(solid):
    return ndimage.label(solid, ALL)[1]


def neighbours(skeleton):
    """Number of the 26-neighbours of each voxel of a skeleton."""
    return (ndimage.convolve(skeleton.astype(int), ALL.astype(int), mode="constant") - 1)[skeleton]


@pytest.mark.parametrize("width", range(1, 7))
@pytest.mark.parametrize("height", range(1, 5))
def test_a_bar_becomes_one_line_of_its_length(width, height):
    """Symmetric bars are what parallel thinning loses."""
    bar = np.zeros((40, 12, 12), bool)
    bar[5:35, 3 : 3 + width, 3 : 3 + height] = True
    skeleton = thin(bar)
    assert pieces(skeleton) == 1
    assert np.ptp(np.argwhere(skeleton)[:, 0]) == 29
    assert skeleton.sum() < 30 + 2 * (width + height)  # forks to corners at both ends, and no second line


@pytest.mark.parametrize("radius", [1.4, 2.0, 3.0, 4.5])
def test_a_round_bar_anywhere_on_the_grid_becomes_one_line(radius):
    z, y, x = np.mgrid[:40, :18, :18]
    for shift in np.random.default_rng(0).uniform(0, 1, (8, 2)):
        bar = (np.hypot(y - 8 - shift[0], x - 8 - shift[1]) < radius) & (np.abs(z - 20) < 15)
        skeleton = thin(bar)
        assert pieces(skeleton) == 1
        assert np.ptp(np.argwhere(skeleton)[:, 0]) >= 27
        assert skeleton.sum() < 29 + 6 * radius


def ring():
    return tube(arc(14, 2 * np.pi, seed=3), 4.0, seed=1).voxels > 0


@pytest.mark.parametrize(
    ("solid", "loops"),
    [
        (lambda: tube(line(40, seed=1), 4.0, seed=2).voxels > 0, 0),
        (lambda: fork(seed=1, sac=True).voxels > 0, 0),
        (ring, 1),
    ],
    ids=["line", "fork", "ring"],
)
def test_topology_is_kept(solid, loops):
    solid = solid()
    skeleton = thin(solid)
    assert pieces(skeleton) == pieces(solid) == 1
    assert euler_number(skeleton, connectivity=3) == euler_number(solid, connectivity=3) == 1 - loops
    assert not (skeleton & ~solid).any()


def test_skeleton_is_one_voxel_wide():
    skeleton = thin(tube(arc(20, 2.5, seed=2), 5.0, seed=4).voxels > 0)
    assert np.median(neighbours(skeleton)) == 2
    assert (neighbours(skeleton) <= 3).mean() > 0.95


def test_skeleton_runs_in_the_middle():
    points = line(40, seed=1)
    lumen = tube(points, 5.0, seed=2)
    places = lumen.to_mm(np.argwhere(thin(lumen.voxels > 0))[:, ::-1])
    axis = points[-1] / np.linalg.norm(points[-1])
    along = places @ axis
    off = np.linalg.norm(places - along[:, None] * axis, axis=1)
    assert off[(along > 5) & (along < 35)].max() < 1.3  # a voxel and a bit; the ends go to the tips
    assert along.min() < -4  # the round ends reach from -5 to 45
    assert along.max() > 44


def test_curves_run_to_the_given_ends_and_nowhere_else():
    """To the middle of a flat end; the tips that are found there lie on its rim."""
    z, y, x = np.mgrid[:60, :24, :24]
    bar = (np.hypot(y - 11.3, x - 11.6) < 7.2) & (np.abs(z - 30) < 25)
    ends = np.array([[6, 11, 12], [54, 11, 12]])
    skeleton = thin(bar, ends)
    count = neighbours(skeleton)
    np.testing.assert_array_equal(np.argwhere(skeleton)[count == 1], ends)
    assert skeleton.sum() == 49
    rims = tips(bar)
    assert {6, 54} == set(rims[:, 0].tolist())
    assert (np.hypot(rims[:, 1] - 11.3, rims[:, 2] - 11.6) > 5).any()


def test_thinning_is_the_same_for_the_same_solid():
    solid = fork(seed=3).voxels > 0
    np.testing.assert_array_equal(thin(solid), thin(solid))
