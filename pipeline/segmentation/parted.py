# SPDX-License-Identifier: Apache-2.0
"""What the levels near each place leave out of a lumen though it is as bright, and one threshold joins it to the mask.

Where brightness changes along the vessel that is a brighter neighbour. But where signal is lost in a part of it, as in
a jet, the levels near that place are those of the tissue, the mask ends there, and no threshold is asked for what lies
behind. And where an artery opens into a vein that is far wider, the vein is taken for a leak, and not followed.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.segmentation.levels import Levels
from pipeline.segmentation.pieces_beyond import LEAST_SHARE, RIM, Place
from pipeline.segmentation.point_text import text_mm
from pipeline.segmentation.problem import Lumen, Problem
from pipeline.segmentation.region_growing import Mask
from pipeline.segmentation.seed_advice import IF_VESSEL

AS_BRIGHT = 0.75
"""Brightness in the middle of what is left out over that of the lumen, at least, above the surroundings: about that of
the dimmest parts that one threshold holds well within a wall (0.5 at the wall itself)."""

WITHIN = 1.5
"""Depth, voxels, from which on a place lies in its middle."""

LEFT_AT_WALL = 0.02
"""Part of the mask that one piece beside its wall has at least, as bright as the wall by the levels near each place. In
a real fistula it is 0.06 to 0.14 where the vein is missing, 0.011 at most where it is not; in drawn vessels 0.001."""

NOWHERE: Place = (-1, -1, -1)


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
    total, place = max(_by_one_threshold(problem, mask, found), _at_the_wall(problem, lumen, mask, found))
    if not total:
        return None
    where = problem.filtered.to_mm(place[::-1])
    share_of_mask, ml = total / int(mask.sum()), total * float(np.prod(problem.filtered.spacing_mm)) / 1000
    words = (
        f"the levels near each place leave out {ml:.3g} mL, a share of {share_of_mask:.1%} of"
        f" the mask, most about {text_mm(where)} mm, which are as bright as the lumen and joined to it: a wider vessel"
        " that the lumen opens into, vessel beyond a place where its signal is lost, or a neighbour as bright. Look at"
        f" segmentation.html there: {IF_VESSEL}correct lumen.nrrd and give it as input.mask"
    )
    return {"share": round(share_of_mask, 4), "mm": [round(float(x), 2) for x in where], "words": words}


def _by_one_threshold(problem: Problem, mask: Mask, found: Levels) -> tuple[int, Place]:
    """Voxels of what is as bright as the lumen and joined to the mask, beyond its rim, and the middle of the largest
    part.
    """
    voxels = problem.filtered.voxels
    rest = _joined(problem, voxels, (found.lumen + found.surroundings) / 2, mask)
    rest, count = ndimage.label(rest & ~ndimage.binary_dilation(mask, iterations=RIM))
    sizes = np.bincount(rest.ravel(), minlength=count + 1)
    sizes[0] = 0
    middle = rest * (_depth(rest > 0) > WITHIN)
    total, place = 0, NOWHERE
    for number in np.argsort(sizes)[::-1]:
        if sizes[number] < LEAST_SHARE * mask.sum():
            break
        inner = np.argwhere(middle == number)
        share = (voxels[tuple(inner.T)] - found.surroundings) / found.contrast
        if len(inner) and np.median(share) >= AS_BRIGHT:
            total += int(sizes[number])
            place = _middle(inner) if place == NOWHERE else place
    return total, place


def _at_the_wall(problem: Problem, lumen: Lumen, mask: Mask, found: Levels) -> tuple[int, Place]:
    """Voxels of the largest part beside the mask whose wall is as bright as that of the mask and its middle as the
    lumen, by the levels near each place; and the middle of it.

    What is asked to leave out narrow places or what lies behind a sheet leaves such parts out on purpose.
    """
    asked, even = problem.settings, lumen.even
    if even is None or asked.least_radius_mm is not None or asked.dark_sheets == "part":
        return 0, NOWHERE
    rest, count = ndimage.label(_joined(problem, even, lumen.level, mask) & ~mask)
    if not count:
        return 0, NOWHERE
    sizes = np.bincount(rest.ravel())
    sizes[0] = 0
    number = int(sizes.argmax())
    if sizes[number] < LEFT_AT_WALL * mask.sum():
        return 0, NOWHERE
    part = rest == number
    depth = _depth(part | mask) * part
    share = (even[depth > WITHIN] - found.surroundings) / found.contrast
    if not share.size or np.median(share) < AS_BRIGHT:
        return 0, NOWHERE
    return int(sizes[number]), _middle(np.argwhere(depth > max(WITHIN, depth.max() / 2)))


def _joined(problem: Problem, voxels: NDArray[np.floating], least: float, mask: Mask) -> Mask:
    """What is at least so bright and joined to a mask, with it, (Z, Y, X) bool."""
    bright = (voxels >= least) & (problem.filtered.voxels <= problem.upper)
    bright &= True if problem.barrier is None else ~problem.barrier
    label, count = ndimage.label(bright)
    own = np.bincount(label[mask], minlength=count + 1) > 0
    own[0] = False
    return np.asarray(own[label])


def _depth(part: Mask) -> NDArray[np.floating]:
    """Distance to the wall within a part, voxels; behind the border of the image it goes on."""
    return np.asarray(ndimage.distance_transform_edt(np.pad(part, 1, mode="edge"))[1:-1, 1:-1, 1:-1])


def _middle(places: NDArray[np.int64]) -> Place:
    """The one of some voxels z, y, x that is nearest to their mean."""
    z, y, x = (int(n) for n in places[np.linalg.norm(places - places.mean(axis=0), axis=1).argmin()])
    return z, y, x
