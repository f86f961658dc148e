# SPDX-License-Identifier: Apache-2.0
"""Laws that every method of segmentation holds."""

import numpy as np
import pytest
import SimpleITK as sitk
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from pipeline.case.settings.images import CutPlane, FilterSettings, SegmentSettings, VoxelBox
from pipeline.files.volume import Volume
from pipeline.segmentation.barrier import barrier
from pipeline.segmentation.leak import plain_growing
from pipeline.segmentation.levels import Levels
from pipeline.segmentation.methods import METHODS
from pipeline.segmentation.problem import Lumen
from pipeline.stages.filter import filter_volume
from pipeline.stages.segment import segment
from solver.runtime.errors import StageError
from tests.support.variants import some
from tests.support.vessels import HALF_WAY, oblique, true_lumen, tube_volume

component = st.floats(-1, 1).map(lambda x: round(x, 3))


@pytest.fixture(scope="module")
def tube() -> Volume:
    """The bent tube of 350 in 40, radius 2 mm, in an oblique image."""
    return filter_volume(tube_volume(direction=oblique()), FilterSettings())


def at(own_mm: tuple[float, float, float]) -> tuple[float, float, float]:
    """A place of the tube's own frame in the patient."""
    return tuple((oblique() @ own_mm).tolist())


@given(normal=st.tuples(component, component, component).filter(any), shift=component, seed=st.integers(0, 100))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_no_six_connected_path_crosses_a_cut_plane_and_it_is_one_voxel_thin(normal, shift, seed):
    turn = oblique(tuple(np.random.default_rng(seed).uniform(-180, 180, 3)))
    volume = Volume(np.zeros((15, 16, 17), np.uint8), (0.5, 0.7, 1.1), (3.0, -8.0, 40.0), turn)
    # no voxel lies just half a step away on both sides
    point = volume.to_mm(np.array([8.013, 7.507, 7.029]) + shift)
    cut = barrier([CutPlane(point_mm=tuple(point), normal=normal)], volume)
    labels, _ = ndimage.label(~cut)
    z, y, x = np.indices(cut.shape)
    above = (volume.to_mm(np.stack([x, y, z], axis=-1)) - point) @ normal > 0
    assert not set(np.unique(labels[above & ~cut])) & set(np.unique(labels[~above & ~cut]))
    # each line of voxels along the axis nearest to the normal meets the layer at most once, since steps are as long
    axis = int(np.argmax(np.abs(np.array(normal) / np.linalg.norm(normal) @ turn) * volume.spacing_mm))
    assert cut.sum(axis=2 - axis).max() <= 1


@pytest.mark.parametrize("method", some(METHODS, "random-walker"))
def test_a_cut_plane_ends_the_lumen(tube, method):
    """The bent tube is cut across at y = 15 of its own frame: what lies beyond is left out, nothing else changes."""
    keys = {"method": method, "seeds_mm": (at((8.0, 9.0, 6.9)),), "lower": 195.0}
    whole = segment(tube, SegmentSettings(**keys), tube)
    plane = CutPlane(point_mm=at((9.0, 15.0, 4.0)), normal=at((0.0, 1.0, 0.0)), radius_mm=5.0)
    part = segment(tube, SegmentSettings(**keys, cut_planes=(plane,)), tube)
    z, y, x = np.indices(tube.voxels.shape)
    own = tube.to_mm(np.stack([x, y, z], axis=-1)) @ tube.direction
    beyond = own[..., 1] - 15
    kept, everything = part.lumen.voxels > 0, whole.lumen.voxels > 0
    assert not (kept & (beyond > -0.2)).any()  # half the layer of one voxel, 0.4 mm
    before = beyond < -2
    differ = (kept ^ everything)[before].sum() / everything[before].sum()
    assert differ < 0.01
    assert np.array_equal(part.occupancy.voxels >= 0.5, kept)
    assert not any("cut_planes" in warning for warning in part.record["warnings"])


def test_cut_planes_that_do_nothing_are_warned_of(tube):
    small = CutPlane(point_mm=at((9.0, 15.0, 4.0)), normal=at((0.0, 1.0, 0.0)), radius_mm=0.8)
    away = CutPlane(point_mm=at((1.0, 1.0, 1.0)), normal=(1, 0, 0), radius_mm=0.8)
    keys = {"seeds_mm": (at((8.0, 9.0, 6.9)),), "lower": 195.0}
    warnings = segment(tube, SegmentSettings(**keys, cut_planes=(small, away)), tube).record["warnings"]
    assert any("cut_planes[0] parts nothing" in warning for warning in warnings)
    assert any("cut_planes[1] does not touch" in warning for warning in warnings)


def test_a_seed_on_a_cut_plane_is_refused(tube):
    plane = CutPlane(point_mm=at((8.0, 9.0, 6.9)), normal=(0, 0, 1))
    given_ = SegmentSettings(seeds_mm=(at((8.0, 9.0, 6.9)),), lower=195, cut_planes=(plane,))
    with pytest.raises(StageError, match=r"seeds_mm\[0\] lies on a cut plane"):
        segment(tube, given_, tube)


@pytest.mark.parametrize("method", some(METHODS, "random-walker"))
def test_a_background_seed_in_the_lumen_is_refused(tube, method):
    given_ = SegmentSettings(
        method=method, seeds_mm=(at((6.0, 4.0, 9.0)),), background_mm=(at((8.0, 9.0, 6.9)),), lower=195
    )
    with pytest.raises(StageError, match=r"background_mm\[0\].*said to lie outside"):
        segment(tube, given_, tube)


@pytest.mark.parametrize("method", METHODS)
def test_a_blurred_noisy_tube_has_its_shape_whatever_the_method(tube, method):
    """The half-way wall of this tube is 4 % too small in volume by its blur; a wall on the ridge of the gradient, and
    voxels that are in or out as a whole, take as much again from a tube ten voxels across. Without 8 % of a volume Dice
    is 0.958; one in a hundred of the voxels may be in the wrong place besides."""
    given_ = SegmentSettings(method=method, seeds_mm=(at((8.0, 9.0, 6.9)),), lower=HALF_WAY)
    found = segment(tube, given_, tube)
    lumen, truth = found.lumen.voxels > 0, true_lumen(tube)
    assert 2 * (lumen & truth).sum() / (lumen.sum() + truth.sum()) > 0.948
    expected = 1.02 if method == "local" else 0.99  # that one takes back what blur and coarse voxels take
    assert found.occupancy.voxels.sum() / truth.sum() == pytest.approx(expected, abs=0.035)
    assert found.record["mean_radius_mm"] == pytest.approx(1.9, abs=0.1)  # inscribed in a rough wall
    assert ndimage.label(lumen)[1] == 1
    assert np.array_equal(found.occupancy.voxels >= 0.5, lumen)


@pytest.mark.parametrize(
    ("radius_mm", "blur_mm", "noise", "lower"),
    [
        (2.0, 0.4, 2, 250.0),
        pytest.param(2.5, 0.6, 60, 195.0, marks=pytest.mark.slow),
        pytest.param(2.0, 0.4, 2, 150.0, marks=pytest.mark.slow),
        pytest.param(2.0, 0.4, 25, 195.0, marks=pytest.mark.slow),
        pytest.param(1.2, 0.3, 10, 195.0, marks=pytest.mark.slow),
    ],
)
def test_the_level_set_has_the_true_volume_whatever_the_threshold(radius_mm, blur_mm, noise, lower):
    """6 to 12 voxels across; the corrected wall leaves (s/r)^2 of an error s^2/r^2, below 1 % here, and the curvature's
    pull and the voxels of the mask another."""
    filtered = filter_volume(tube_volume(radius_mm, blur_mm, noise), FilterSettings())
    given_ = SegmentSettings(method="level-set", seeds_mm=((7.96, 9.0, 6.86),), lower=lower)
    found = segment(filtered, given_, filtered)
    assert found.lumen.voxels.sum() == pytest.approx(true_lumen(filtered, radius_mm).sum(), rel=0.02)
    assert found.record["warnings"] == [] or radius_mm < 1.6  # below 4 voxels the middle is warned of


@pytest.mark.slow
def test_a_branch_that_a_method_leaves_out_is_warned_of_with_both_volumes(real_cases):
    """From a seed in the bright part of the fistula the random walk never enters its dim one."""
    loaded = Volume.read(real_cases / "av-fistula-mra/avf_float_32.nii.gz")
    filtered, keys = filter_volume(loaded, FilterSettings()), {"seeds_voxel": ((18, 46, 11),), "lower": 800.0}
    whole = segment(filtered, SegmentSettings(**keys), loaded).record
    part = segment(filtered, SegmentSettings(method="random-walker", **keys), loaded).record
    part_ml, whole_ml = (each["voxels"] * each["spacing_mm"] ** 3 / 1000 for each in (part, whole))
    assert part_ml < 0.5 * whole_ml
    reported = f"the lumen has {part_ml:.3g} ml, what grows between the thresholds alone at 800 has"
    assert sum(f"{reported} {whole_ml:.3g} ml" in warning for warning in part["warnings"]) == 1
    assert whole_ml == pytest.approx(3.05, rel=0.01)  # as the threshold was checked slice by slice
    assert not any("leaves out" in warning for warning in whole["warnings"])
    assert part["plain_growing"] == {"lower": 800.0, "volume_ml": round(whole_ml, 5), "leaks": False}


@pytest.fixture(scope="module")
def carotid(real_cases) -> tuple[Volume, Volume]:
    """Loaded and filtered: the right internal carotid artery of the head."""
    reader = sitk.ImageSeriesReader()
    reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(real_cases / "head-arteries-mr/dicom")))
    loaded = Volume.from_sitk(reader.Execute())
    return loaded, filter_volume(
        loaded, FilterSettings(region_voxels=VoxelBox(low=(150, 190, 18), high=(250, 300, 60)))
    )


@pytest.mark.slow
@pytest.mark.parametrize(("method", "lower"), [("vesselness", 700), ("watershed", 680), ("level-set", 700)])
def test_a_real_leak_that_a_method_follows_in_part_is_refused(carotid, method, lower):
    """At 700 the artery of 1.3 ml runs out into dura and sinuses; within tubes this is 2.5 ml, and grows evenly. The
    watershed keeps to the artery there, and leaks a little below.
    """
    loaded, filtered = carotid
    with pytest.raises(StageError, match="leaks"):
        segment(filtered, SegmentSettings(method=method, seeds_voxel=((192, 244, 25),), lower=lower), loaded)


@pytest.mark.slow
def test_a_method_that_keeps_out_of_a_real_leak_is_trusted(carotid):
    """At 700 plain growing leaks, between markers it does not: 1.2 to 1.4 ml are true."""
    loaded, filtered = carotid
    given_ = SegmentSettings(method="random-walker", seeds_voxel=((192, 244, 25),), lower=700)
    record = segment(filtered, given_, loaded).record
    assert record["plain_growing"]["leaks"]
    assert record["volume_ml"] == pytest.approx(1.3, rel=0.1)


def test_a_threshold_that_leaks_at_every_level_is_no_measure():
    """Volumes that fall by half a step, up to the lumen's level."""
    whole = np.ones((16, 16, 16), bool)
    box = (slice(0, 16),) * 3
    part = Lumen(whole, 100.0, "segment.lower", 100.0, lambda _: iter(()), {})

    def family(chosen):
        yield from ((box, np.arange(whole.size).reshape(whole.shape) < whole.size >> n) for n in range(len(chosen)))

    plain = Lumen(whole, 100.0, "segment.lower", 100.0, family, {})
    found = Levels(lumen=200, mask=200, surroundings=0, bright_surroundings=0, noise=5, spread=5)
    assert plain_growing(part, plain, np.zeros(whole.shape), found, SegmentSettings(method="vesselness")) is None


def test_the_level_set_follows_a_signal_that_fades():
    """From 350 to 245 along the tube, as where coils of MR end: the threshold loses the wall, the contour does not."""
    filtered = filter_volume(tube_volume(2.0, 0.4, 5), FilterSettings())
    y = np.arange(filtered.voxels.shape[1]) * filtered.spacing_mm[1]
    fade = np.interp(y, [0, y[-1]], [1.0, 0.66])[None, :, None]
    faded = filtered.with_voxels((40 + (filtered.voxels - 40) * fade).astype(np.float32))
    truth = true_lumen(filtered)[:, -20:-4].sum()
    keys = {"seeds_mm": ((7.96, 9.0, 6.86),), "lower": 195.0}
    errors = {
        method: segment(faded, SegmentSettings(method=method, **keys), faded).lumen.voxels[:, -20:-4].sum() / truth - 1
        for method in ("threshold", "level-set")
    }
    assert errors["threshold"] < -0.15
    assert abs(errors["level-set"]) < 0.04
