# SPDX-License-Identifier: Apache-2.0
"""What a vessel goes on with beyond the region (filter) that ends it, in the image as it was loaded.

A user may end a vessel by the region on purpose. But a refusal that names a smaller region as a way around a leak has
not asked where the vessel is to end: ``segment.beyond_region: tell`` goes with it.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.files.volume import Volume
from pipeline.segmentation.following import BROAD, followed
from pipeline.segmentation.levels import Levels
from pipeline.segmentation.limits import WRONG
from pipeline.segmentation.point_text import text_mm
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.region_growing import Mask, bounding_box

FAR = 10.0
"""How far beyond the region is looked, in radii of the vessel: more than its length matters for no decision."""

LEAST_VOXELS = 12
"""The same, voxels, at least: thin vessels are followed in steps of six."""


def record_of_beyond_region(
    problem: Problem, wall: float, mask: Mask, found: Levels, radii: NDArray[np.floating], loaded: Volume
) -> dict[str, Any] | None:
    """What ``segmentation.json`` holds of it, with the words of the check; None where nothing goes on.

    Parameters
    ----------
    problem : with the image in the region, and whether it is asked for.
    wall : intensity at the mask's wall.
    mask : (Z, Y, X) bool.
    found : levels in and around it.
    radii : along its centre line, voxels.
    loaded : the volume before the filter; it has the same directions.
    """
    if problem.settings.beyond_region != "tell" or not len(radii):
        return None
    reach = max(int(np.ceil(FAR * np.percentile(radii, BROAD))), LEAST_VOXELS)
    if (box := _looked_at(problem.filtered, mask, loaded, reach)) is None:
        return None
    low, high = box
    around = _as_loaded(problem.filtered, loaded, low, high)
    of_region = tuple(slice(max(first, 0), last) for first, last in zip(low, high, strict=True))
    here = tuple(slice(max(-first, 0), n - first) for first, n in zip(low, mask.shape, strict=True))
    around.voxels[here] = problem.filtered.voxels[of_region]
    whole, barred = np.zeros_like(around.voxels, bool), np.zeros_like(around.voxels, bool)
    whole[here], barred[here] = mask[of_region], ~mask[of_region]
    on = followed(replace(problem, filtered=around, barrier=barred), whole, found, wall, radii)
    if on.place is None:
        return None
    volume_ml = on.added * float(np.prod(around.spacing_mm)) / 1000
    share, place = on.added / int(mask.sum()), [round(float(x), 1) for x in around.to_mm(on.place)]
    words = (
        f"the region (filter) ends the vessel: about {text_mm(place)} mm it goes on beyond, in all by at least"
        f" {volume_ml:.3g} mL, a share of {share:.1%} of the mask. Widen the region, or give a mask (input.mask) of the"
        " whole vessel; if it is meant to end there, set segment.beyond_region: accept"
    )
    return {"share": round(share, 4), "volume_ml": round(volume_ml, 5), "mm": place, "words": words}


def keeps_whole(record: dict[str, Any] | None) -> bool:
    """Whether no more than may be lost untold goes on beyond a region.

    Parameters
    ----------
    record : of :func:`record_of_beyond_region`.
    """
    return record is None or record["share"] <= WRONG


def _looked_at(
    filtered: Volume, mask: Mask, loaded: Volume, reach: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """First and last, excluded, indices z, y, x on the region's grid of the box that is looked at, within the loaded
    volume; None where the mask touches no face of the region beyond which there is an image.
    """
    ends = np.array([[-0.5] * 3, [n - 0.5 for n in loaded.voxels.shape[::-1]]])
    first, last = np.sort(filtered.to_index(loaded.to_mm(ends)), axis=0)[:, ::-1]
    box = bounding_box(mask)
    starts, stops = np.array([side.start for side in box]), np.array([side.stop for side in box])
    shape = np.array(mask.shape)
    if not np.any((starts == 0) & (first <= -1) | (stops == shape) & (last >= shape)):
        return None
    low = np.maximum(starts - reach, np.minimum(np.ceil(first), 0)).astype(np.int64)
    high = np.minimum(stops + reach, np.maximum(np.floor(last) + 1, shape)).astype(np.int64)
    return low, high


def _as_loaded(filtered: Volume, loaded: Volume, low: NDArray[np.int64], high: NDArray[np.int64]) -> Volume:
    """The loaded image between indices of the region's grid, on that grid."""
    step = np.divide(filtered.spacing_mm, loaded.spacing_mm)[::-1]
    start = loaded.to_index(filtered.to_mm(low[::-1]))[::-1]
    size = np.array(loaded.voxels.shape)
    begin = np.clip(np.floor(start), 0, size - 1).astype(int)
    end = np.clip(np.ceil(start + step * (high - low)) + 1, begin + 1, size).astype(int)
    part = loaded.voxels[tuple(slice(a, b) for a, b in zip(begin, end, strict=True))].astype(np.float32)
    voxels = ndimage.affine_transform(part, step, start - begin, tuple(high - low), np.float32, order=1, mode="nearest")
    x, y, z = (float(n) for n in filtered.to_mm(low[::-1]))
    return Volume(voxels, filtered.spacing_mm, (x, y, z), filtered.direction)
