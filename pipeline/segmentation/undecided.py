# SPDX-License-Identifier: Apache-2.0
"""What a threshold takes or leaves by chance: brightness near it over several voxels, where there is no wall.

A wall passes the threshold within the blur. A false lumen with about half of the contrast, or blood that is hardly
enhanced, lies near the threshold as a whole: noise decides which voxels of it the mask holds, so that its edge is
ragged there and its volume says nothing.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.segmentation.levels import Levels
from pipeline.segmentation.local_edge import LocalEdge
from pipeline.segmentation.point_text import text_mm
from pipeline.segmentation.problem import Lumen, Problem
from pipeline.segmentation.region_growing import Mask

NEAR = 0.2
"""How far from the threshold brightness is near it, in the contrast."""

FLAT = 0.7
"""The largest gradient, over the median at the wall of the same vessel, where there is no wall."""

REACH = 3
"""Layers of voxels around the mask that are looked at."""

HELD = 0.12
"""Least part of a place that the mask holds: a neighbour of medium brightness lies beyond the wall as a whole, and so
does a thrombus."""

_ALL = np.ones((3, 3, 3), bool)


def undecided(above: NDArray[np.floating], part: Mask) -> Mask:
    """Voxels in and beside a mask whose brightness is near the threshold without a wall, (z, y, x) bool.

    Parameters
    ----------
    above : (z, y, x) brightness above that of the wall, in the contrast.
    part : (z, y, x) bool, the mask.
    """
    smooth = ndimage.gaussian_filter(above.astype(np.float32), 1.0, mode="nearest")
    squares = np.zeros_like(smooth)
    for along in np.gradient(smooth):
        squares += along**2
    wall = ndimage.binary_dilation(part) & ~ndimage.binary_erosion(part, border_value=1)
    if not wall.any():
        return np.zeros_like(part)
    flat = ndimage.binary_dilation(part, iterations=REACH) & (np.abs(smooth) < NEAR)
    flat &= squares < FLAT**2 * np.median(squares[wall])
    label, count = ndimage.label(flat, _ALL)
    held = np.bincount(label[part], minlength=count + 1) >= HELD * np.bincount(label.ravel())
    held[0] = False
    return np.asarray(held[label])


def record_of_undecided(
    edge: LocalEdge, found: Lumen, mask: Mask, problem: Problem, intensity: Levels
) -> dict[str, Any]:
    """What ``segmentation.json`` holds of it, with the words of the check.

    Parameters
    ----------
    edge : where the wall would be by local levels; what a mask at this edge is judged by.
    found : the lumen of the method.
    mask : (Z, Y, X) bool, the same with its cavities filled.
    problem : as posed.
    intensity : levels in and around the mask.
    """
    part, spacing_mm = mask[edge.box], problem.filtered.spacing_mm
    above = edge.share if found.edge_based else (problem.filtered.voxels[edge.box] - found.wall) / intensity.contrast
    there = undecided(above, part)
    share = float(there.sum() / part.sum())
    if not share:
        return {"share": 0.0, "words": ""}
    crowd = ndimage.gaussian_filter(there.astype(np.float32), 2.0)
    index = np.unravel_index(int(np.where(there, crowd, -1).argmax()), there.shape)
    z, y, x = (int(n) + side.start for n, side in zip(index, edge.box, strict=True))
    place = [round(float(each), 1) for each in problem.filtered.to_mm((x, y, z))]
    volume_ml = float(there.sum() * np.prod(spacing_mm)) / 1000
    words = (
        f"{volume_ml:.3g} mL, a share of {share:.1%} of the mask, most about {text_mm(place)} mm, are as bright as the"
        " threshold over several voxels, with no wall between: perhaps a false lumen, or blood with little contrast."
        " The mask holds a part of it by chance. Look at segmentation.html there: a higher segment.lower leaves it out"
        " and makes the vessel too thin, a lower one takes it in; to keep the vessel's wall where it is, correct"
        " lumen.nrrd there and give it as input.mask"
    )
    return {"share": round(share, 4), "volume_ml": round(volume_ml, 5), "mm": place, "words": words}
