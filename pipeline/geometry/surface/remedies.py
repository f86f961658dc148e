# SPDX-License-Identifier: Apache-2.0
"""What helps where a lumen is too coarse or too thin for its surface: in the case file, or, of a given mask, elsewhere.

The setting that resamples an image does nothing to a mask that was given, nor do cut planes.
"""

import re

FINER = "resample finer with filter.spacing_mm"
THIN = f"{FINER}, or cut the thin part off with segment.cut_planes"
"""Where a place is too thin for the smoothing."""

FINER_MASK = "give the mask with finer voxels by the program that made it"
THIN_MASK = "widen or cut that place in the program that made the mask"


def finer(spacing_mm: float) -> str:
    """The advice to resample an image, with the spacing."""
    return f"filter.spacing_mm: {spacing_mm:.2g} resamples finer"


def of_a_mask(said: str) -> str:
    """A refusal whose advice is for an image, with what helps where the lumen is a mask that was given."""
    return re.sub(r"filter\.spacing_mm: \S+ resamples finer", FINER_MASK, said.replace(THIN, THIN_MASK)).replace(
        FINER, FINER_MASK
    )
