# SPDX-License-Identifier: Apache-2.0
"""What the levels near each place leave out of a lumen though it is as bright, and one threshold joins it to the mask.

Where brightness changes along the vessel that is a brighter neighbour. But where signal is lost in a part of it, as in
a jet, the levels near that place are those of the tissue, the mask ends there, and no threshold is asked for what lies
behind.
"""

from typing import Any

import numpy as np
from scipy import ndimage

from pipeline.segmentation.gap import LEAST_SHARE, RIM
from pipeline.segmentation.levels import Levels
from pipeline.segmentation.point_text import text_mm
from pipeline.segmentation.problem import Lumen, Problem
from pipeline.segmentation.region_growing import Mask

AS_BRIGHT = 0.75
"""Brightness in the middle of what is left out over that of the lumen, at least, above the surroundings: about that of
the dimmest parts that one threshold holds well within a wall (0.5 at the wall itself)."""

WITHIN = 1.5
"""Depth, voxels, from which on a place lies in its middle."""


def record_of_parted(problem: Problem, lumen: Lumen, mask: Mask, found: Levels) -> dict[str, Any] | None:
    """What ``segmentation.json`` holds of it, with the words of the check; None where nothing is left out so.

    Parameters
    ----------
    problem : with the image.
    lumen : as found; one that one threshold gives leaves nothing out.
    mask : (Z, Y, X) bool, the same with its cavities filled.
    found : levels in and around the mask.
    """
    if lumen.even is None:
        return None
    voxels = problem.filtered.voxels
    bright = (voxels >= (found.lumen + found.surroundings) / 2) & (voxels <= problem.upper)
    bright &= True if problem.barrier is None else ~problem.barrier
    label, count = ndimage.label(bright)
    own = np.bincount(label[mask], minlength=count + 1) > 0
    own[0] = False
    rest, count = ndimage.label(own[label] & ~ndimage.binary_dilation(mask, iterations=RIM))
    sizes = np.bincount(rest.ravel(), minlength=count + 1)
    sizes[0] = 0
    middle = rest * (ndimage.distance_transform_edt(np.pad(rest > 0, 1, mode="edge"))[1:-1, 1:-1, 1:-1] > WITHIN)
    total, place = 0, None
    for number in np.argsort(sizes)[::-1]:
        if sizes[number] < LEAST_SHARE * mask.sum():
            break
        inner = np.argwhere(middle == number)
        share = (voxels[tuple(inner.T)] - found.surroundings) / found.contrast
        if len(inner) and np.median(share) >= AS_BRIGHT:
            total += int(sizes[number])
            place = inner[np.linalg.norm(inner - inner.mean(axis=0), axis=1).argmin()] if place is None else place
    if place is None:
        return None
    where = problem.filtered.to_mm(place[::-1])
    share_of_mask, ml = total / int(mask.sum()), total * float(np.prod(problem.filtered.spacing_mm)) / 1000
    words = (
        f"the levels near each place (segment.method: local) leave out {ml:.3g} mL, a share of {share_of_mask:.1%} of"
        f" the mask, most about {text_mm(where)} mm, which are as bright as the lumen and joined to it: vessel beyond a"
        " place where its signal is lost, or a neighbour as bright. Look at segmentation.html there: if it is the"
        " vessel, correct lumen.nrrd and give it as input.mask"
    )
    return {"share": round(share_of_mask, 4), "mm": [round(float(x), 1) for x in where], "words": words}
