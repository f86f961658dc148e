"""From image to surface: volume, area and radius of known shapes. `benchmarks/surface_accuracy.py` makes the tables."""

import sys

import numpy as np
import pytest

from pipeline.settings.geometry import SurfaceSettings
from solver.stage import ROOT

sys.path[:0] = [str(ROOT / "benchmarks")]

from surface_accuracy import order, rms  # noqa: E402

KEYS = "volume", "area", "radius"


@pytest.mark.parametrize("solid", ["pipe", "sphere", "torus"])
def test_surface_converges_at_second_order_with_the_voxels(solid):
    """The volume is that of the mask, whose count of voxels scatters: only its bound falls as the square. Area and
    radius scatter with the places of the voxels by about half an order over two doublings."""
    voxels = [4.0, 8.0]
    errors = [rms(solid, n, False, SurfaceSettings(edges_per_radius=n, cut_radii=2.0), 2) for n in voxels]
    for key in ("area", "radius"):
        assert order(voxels, [error[key] for error in errors]) > 1.3
    for n, error in zip(voxels, errors, strict=True):
        assert max(error[key] for key in KEYS) < 40 / n**2  # per cent


@pytest.mark.parametrize("solid", ["pipe", "sphere", "torus"])
@pytest.mark.parametrize("mask", [False, True])
def test_surface_is_right_to_one_per_cent_at_twenty_voxels_across(solid, mask):
    errors = rms(solid, 10.0, mask, SurfaceSettings(cut_radii=2.0), 1)
    assert max(errors[key] for key in KEYS) < 1
    assert errors["caps"] < 1


@pytest.mark.slow
@pytest.mark.parametrize("smoother", ["windowed-sinc", "taubin"])
def test_smoothers_of_the_triangles_keep_volume_and_radius(smoother):
    """The area they miss by up to 2 %: from a mask they leave some of the voxels' steps."""
    for solid, voxels in (("pipe", 4.0), ("torus", 6.0)):
        errors = rms(solid, voxels, True, SurfaceSettings(smoother=smoother, cut_radii=2.0), 1)
        assert errors["volume"] < 1
        assert errors["radius"] < 1
        assert errors["area"] < 2
        rough = rms(solid, voxels, True, SurfaceSettings(smoother="none", cut_radii=2.0), 1)
        assert errors["normal_deg"] < 0.7 * rough["normal_deg"]
        assert np.isfinite(list(errors.values())).all()
