# SPDX-License-Identifier: Apache-2.0
"""The level at which a blurred vessel has its volume follows from its shape and how steep its wall is, if thin, too."""

import numpy as np
import pytest
from scipy import ndimage

from pipeline.case.settings.images import FilterSettings, SegmentSettings
from pipeline.files.enclosed import enclosed_voxels, filled
from pipeline.files.volume import Volume
from pipeline.segmentation.blur import unbiased_share
from pipeline.segmentation.following import Near, NearMean, length_of
from pipeline.segmentation.local_edge import DIMMEST, HALF_WAY, _edge
from pipeline.stages.filter import filter_volume
from pipeline.stages.segment import segment
from solver.runtime.errors import StageError
from tests.support import strangers
from tests.support.variants import some


def tube(radius: float, seed: int) -> np.ndarray:
    """What of each voxel a tube aslant fills, at a random place."""
    rng = np.random.default_rng(seed)
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    fine = np.moveaxis(np.indices((120, 120, 120)), 0, -1) / 3 - 20 - rng.uniform(-0.5, 0.5, 3)
    across = np.linalg.norm(fine - (fine @ axis)[..., None] * axis, axis=-1)
    return (across < radius).reshape(40, 3, 40, 3, 40, 3).mean((1, 3, 5))


@pytest.mark.parametrize(("radius", "blur"), [(1.6, 0.7), (2.2, 0.9), (2.5, 0.7), (3.5, 1.1), (5.0, 0.7), (5.0, 1.1)])
def test_at_the_share_found_a_blurred_tube_has_its_volume(radius, blur):
    """Its level is that of a mean over it, up to a third too dim; half way it is 2 to 19 % too thin.

    What is blurred again is the tube half way of that level, and in thin ones the tube at the share found so far.
    """
    lumen = tube(radius, round(10 * radius + blur))
    share = ndimage.gaussian_filter(lumen, blur, mode="nearest")
    depth = ndimage.distance_transform_edt(np.pad(share >= 0.5, 1, mode="edge"))[1:-1, 1:-1, 1:-1]
    level, length = 0.5, length_of(radius)
    near = NearMean(depth**3, length)
    left = near(share)
    seen = share / left
    for _ in range(1 if radius > 3 else 3):
        found = unbiased_share(seen, filled(np.clip(seen - level + 0.5, 0, 1)), near)
        level = found.level
    volume, middle = lumen.sum(), (20, 20, 20)
    assert found.seen[middle] == pytest.approx(left[middle], rel=0.05)
    assert found.blur == pytest.approx(blur, rel=0.2)
    limit = 0.02 if radius > 2.4 else 0.06
    assert enclosed_voxels(np.clip(seen - level + 0.5, 0, 1)) == pytest.approx(volume, rel=limit)
    assert enclosed_voxels(share) < (1 - 0.8 * blur**2 / radius**2) * volume  # to first order, without 0.8


def test_of_a_thread_the_wall_stays_within_what_is_seen():
    """A thread of one voxel keeps a tenth of its contrast, whatever the blur: at the share that follows is no voxel."""
    thread = np.zeros((21, 21, 21))
    thread[:, 10, 10] = 1
    share = ndimage.gaussian_filter(thread, 1.2) / 0.11
    mean = NearMean(thread, 3.0)
    found = unbiased_share(share, thread, mean)
    assert found.seen[thread > 0].max() < DIMMEST
    near = Near(share, share, thread, 1 - thread, mean)
    level, _ = _edge(share, thread > 0, np.ones(thread.shape, bool), near)
    assert HALF_WAY <= level.min() <= level.max() < share.max()


def pipes(radii: tuple[float, ...], blur: float) -> tuple[list[np.ndarray], np.ndarray]:
    """Tubes along x, 16 voxels apart, what of each voxel they fill; and all of them, blurred."""
    z, y = np.indices((16 * 3, 16 * 3 * len(radii))) / 3
    parts = [
        np.broadcast_to((np.hypot(z - 7.9, y - 16 * n - 7.8) < radius)[..., None], (*z.shape, 120))
        for n, radius in enumerate(radii)
    ]
    parts = [part.reshape(16, 3, 16 * len(radii), 3, 40, 3).mean((1, 3, 5)) for part in parts]
    return parts, ndimage.gaussian_filter(sum(parts), blur, mode="nearest")


def test_a_vessel_half_as_thick_has_its_own_level():
    """One level and one dimness for all made thin branches of forks too thick, whole forks by up to 17 %."""
    (thick, thin), share = pipes((3.6, 1.8), 0.8)
    depth = ndimage.distance_transform_edt(np.pad(share >= 0.4, 1, mode="edge"))[1:-1, 1:-1, 1:-1]
    near = NearMean(depth**3, 4.0)
    measured = share / near(share)
    found = unbiased_share(measured, filled(np.clip(share + 0.1, 0, 1)), near)
    inside = np.clip(measured - found.level + 0.5, 0, 1)
    one = np.clip(measured - np.mean(found.level[share > 0.4]) + 0.5, 0, 1)
    errors = [enclosed_voxels(each[:, 16:]) / thin.sum() - 1 for each in (inside, one)]
    assert abs(errors[0]) < 0.03 < errors[1]
    assert enclosed_voxels(inside[:, :16]) == pytest.approx(thick.sum(), rel=0.01)


@pytest.mark.parametrize("seed", some([39502, 39504, 39505, 39506], 39505))
def test_a_vessel_of_two_voxels_that_is_too_thin_half_way_is_foretold_to_be_larger(seed):
    """By blur a vessel of 1.3 to 2.7 voxels in radius loses 6 to 40 % half way between the true levels.

    It was foretold to be smaller by up to 36 %, as the blur and how dim it leaves the vessel were found in turn.
    """
    drawn = strangers.image("hair", seed)
    settings = SegmentSettings(seeds_voxel=(drawn.seed,), lower=drawn.half_way, method="threshold")
    record = segment(filter_volume(drawn.image, FilterSettings()), settings, drawn.image).record
    off, change = record["volume_ml"] / drawn.volume_ml - 1, record["local_edge"]["change"]
    assert off < -0.05
    assert (1 + off) * (1 + change) == pytest.approx(1, abs=0.15)


def test_a_vessel_of_a_voxel_is_refused():
    """A tube of a voxel in radius, whose middle is nowhere inside its wall at that threshold: a traceback before."""
    z, y, x = np.moveaxis(np.indices((180, 90, 75)), 0, -1).reshape(-1, 3).T / 3 - [[30], [15], [12.5]]
    axis = np.array([1, 0.35, 0.2]) / np.linalg.norm([1, 0.35, 0.2])
    across = np.sqrt(z**2 + y**2 + x**2 - (axis @ [z, y, x]) ** 2)
    filled_part = (across < 1).reshape(60, 3, 30, 3, 25, 3).mean((1, 3, 5))
    blurred = 40 + 300 * ndimage.gaussian_filter(filled_part, 0.5)
    voxels = np.random.default_rng(1).normal(blurred, 3).astype(np.float32)
    volume = Volume(voxels, (0.5,) * 3, (0.0, 0.0, 0.0), np.eye(3))
    seed = [int(n) for n in np.unravel_index(blurred[20:40].argmax(), (20, 30, 25))]
    settings = SegmentSettings(seeds_voxel=((seed[2], seed[1], seed[0] + 20),), lower=160)
    with pytest.raises(StageError, match=r"hardly a voxel of 0\.5 mm wide"):
        segment(volume, settings, volume)
