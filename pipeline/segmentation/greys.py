# SPDX-License-Identifier: Apache-2.0
"""An image of 256 greys, whose greys may follow what was measured by a curve.

Programs write pictures for the eye: what was measured goes through a window, and often through the curve of a display.
Half way between two greys is then not half way in what was measured, and the wall there is as sharp, and looks as even,
as any other. How far it is off follows from how bright lumen and tissue are among the greys.
"""

from typing import Any

from pipeline.files.volume import Volume
from pipeline.segmentation.levels import Levels

MOST = 255
"""The brightest of 256 greys."""

GAMMA = 2.2
"""Power of the curve of displays (sRGB), by which pictures are made brighter or darker."""


def record_of_greys(loaded: Volume, found: Levels, growth_per_percent: float) -> dict[str, Any] | None:
    """What ``segmentation.json`` holds of an image of 256 greys, with the words of the check; None of another.

    Not asked for series of a scanner, whose numbers are those that it measured.

    Parameters
    ----------
    loaded : the image as it was given.
    found : levels in and around the mask.
    growth_per_percent : of the volume with a threshold that is lower by 1 % of the contrast.
    """
    voxels = loaded.voxels
    if voxels.min() < 0 or voxels.max() > MOST or (voxels % 1).any():
        return None
    low, high = (max(level, 0.0) / MOST for level in (found.surroundings, found.lumen))
    off = max(
        (
            abs(((low ** (1 / power) + high ** (1 / power)) / 2) ** power - (low + high) / 2)
            for power in (GAMMA, 1 / GAMMA)
        ),
    )
    share = 100 * growth_per_percent * off * MOST / found.contrast
    words = (
        f"the image has no more than 256 greys, as pictures for the eye have. If a curve lies between what was measured"
        f" and these, as that of displays does, half way between lumen and tissue is another grey, and the volume up to"
        f" {share:.1%} off. Export the image again with its own numbers, as the DICOM series has them"
    )
    return {"share": round(share, 4), "words": words}
