# SPDX-License-Identifier: Apache-2.0
"""A lumen that is cut off at the brightest value of the image, as where it was exported through a window.

What is brighter than the window's upper end is written as that end. Then half way between lumen and tissue, as the
image shows them, is too low, and the vessel comes out too wide: by 5 to 20 % in drawn ones.
"""

from typing import Any

import numpy as np
from scipy import ndimage

from pipeline.files.volume import Volume
from pipeline.segmentation.levels import Levels
from pipeline.segmentation.limits import CUT_OFF
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.region_growing import Mask, bounding_box

CORE = 0.5
"""Part of the largest depth from which voxels are the middle of the vessel, where blur of the wall does not reach."""

TOP = 0.005
"""What is so near to the brightest value, in parts of the image's range, is cut off: compression changes it as much."""

NOISE = 0.005
"""Least noise of tissue, over the contrast: where there is none, as in a drawing, an even lumen is not cut off."""

MOST = 100_000
"""Voxels that are looked at."""


def record_of_cut_off(problem: Problem, mask: Mask, found: Levels, loaded: Volume) -> dict[str, Any] | None:
    """What ``segmentation.json`` holds of it, with the words of the check; None where nothing is cut off.

    Parameters
    ----------
    problem : with the filtered image.
    mask : (Z, Y, X) bool.
    found : levels in and around it.
    loaded : the volume before the filter, which smooths and resamples.
    """
    if found.noise < NOISE * found.contrast:
        return None
    box = bounding_box(mask, margin=1)
    depth = ndimage.distance_transform_edt(mask[box])
    places = np.argwhere(depth > CORE * depth.max())[:, ::-1] + [side.start for side in box[::-1]]
    places = places[:: len(places) // MOST + 1]
    index = np.rint(loaded.to_index(problem.filtered.to_mm(places))).astype(int)
    index = np.clip(index, 0, np.array(loaded.voxels.shape[::-1]) - 1)
    x, y, z = index.T
    low, high = float(loaded.voxels.min()), float(loaded.voxels.max())
    share = float((loaded.voxels[z, y, x] >= high - TOP * (high - low)).mean())
    if share <= CUT_OFF:
        return None
    words = (
        f"{share:.0%} of the middle of the vessel have the brightest value of the image, {high:g}: it was written"
        " through a window that cuts the blood off, so that the wall by half way lies too far out (5 to 20 % of the"
        " volume in drawn ones). Export the image again with all its values, as the DICOM series has them"
    )
    return {"share": round(share, 4), "top": high, "words": words}
