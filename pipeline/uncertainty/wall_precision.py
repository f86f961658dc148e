# SPDX-License-Identifier: Apache-2.0
"""How well the place of the wall is known from the image.

An edge of an image rises by the contrast over a width w, contrast over slope. 39 vessels with a sac were drawn (3 to 6
voxels on the radius, blur 0.45 to 0.8 voxels, contrast 7 to 40 times the noise; `benchmarks/band_coverage.py`) and
segmented at the threshold that is found: their whole wall lay beside its true place by 0.016 w rms, and single places
of it by 0.06 w beside that, alike over 1.1 voxels. Noise of these levels hardly mattered. That holds for a lumen of one
brightness with nothing beside it: calcium, stents or streaks of metal do worse, and checks look for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.case.settings.uncertainty import UncertaintySettings
from solver.domain.nodes import Opening

WHOLE, ROUGH = 0.016, 0.06
"""Standard deviations of the whole wall's place and of its roughness, in widths of the edge."""

ROUGH_VOXELS = 1.1
"""Length over which the roughness is alike, in voxels of the segmented image."""


@dataclass(frozen=True)
class WallPrecision:
    """How well the place of the wall is known, mm.

    Attributes
    ----------
    whole_mm, rough_mm : standard deviations of the whole wall's place, and of what varies along it.
    length_mm : over which the latter is alike.
    """

    whole_mm: float
    rough_mm: float
    length_mm: float

    @staticmethod
    def of(
        settings: UncertaintySettings, segmentation: Mapping[str, Any] | None, openings: tuple[Opening, ...]
    ) -> "WallPrecision":
        """As the settings say, else by the image.

        Parameters
        ----------
        settings : of the bands.
        segmentation : ``segmentation.json``; none without an image, as of a mask or a given surface.
        openings : of the vessel.
        """
        whole, rough, length = 0.0, 0.0, 2 * min(each.radius_mm for each in openings)
        if segmentation and segmentation.get("wall_slope_per_mm"):
            width_mm = float(segmentation["contrast"]) / float(segmentation["wall_slope_per_mm"])
            whole, rough = width_mm * np.hypot(WHOLE, _off(segmentation)), width_mm * ROUGH
            length = ROUGH_VOXELS * float(segmentation["spacing_mm"])
        return WallPrecision(
            float(whole if settings.wall_sd_mm is None else settings.wall_sd_mm),
            float(rough if settings.roughness_mm is None else settings.roughness_mm),
            length if settings.roughness_length_mm is None else settings.roughness_length_mm,
        )


def _off(segmentation: Mapping[str, Any]) -> float:
    """How far the threshold is from that at which a blurred vessel has its true volume, over the contrast."""
    lower, unbiased = segmentation.get("lower"), segmentation.get("lower_without_blur_bias")
    if lower is None or unbiased is None or segmentation.get("controlled_by") != "segment.lower":
        return 0.0
    return float(lower - unbiased) / float(segmentation["contrast"])
