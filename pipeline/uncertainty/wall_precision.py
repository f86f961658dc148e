# SPDX-License-Identifier: Apache-2.0
"""How well the place of the wall is known from the image.

An edge of an image rises by the contrast over a width w, contrast over slope. 60 vessels of four kinds were drawn (3 to
6 voxels on the radius, blur 0.45 to 0.8 voxels, contrast 7 to 40 times the noise; `benchmarks/wall_place.py`) and
segmented by the method that is chosen. Their whole wall lay from 0.011 w within its true place to 0.033 w outside of
it, 0.013 w in the root mean square. By these and 189 other volumes, nine of ten lie in their bands with a deviation of
0.011 w. Where the levels of each place say that the threshold misses more than that, theirs counts; less of it says
nothing, since a method that follows them has been tried. Single places are known to 0.05 w more, alike over 1.35
voxels. Noise of these levels hardly mattered. That holds for a lumen of one brightness with nothing beside it: calcium,
stents or streaks of metal do worse, and checks look for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.case.settings.uncertainty import UncertaintySettings
from pipeline.haemodynamics.sac_blur import edge_width_mm
from solver.domain.nodes import Opening

WHOLE, ROUGH = 0.011, 0.05
"""Standard deviations of the whole wall's place and of its roughness, in widths of the edge."""

ROUGH_VOXELS = 1.35
"""Length over which the roughness is alike, in voxels of the segmented image."""


@dataclass(frozen=True)
class WallPrecision:
    """How well the place of the wall is known, mm.

    Attributes
    ----------
    whole_mm, rough_mm : standard deviations of the whole wall's place, and of what varies along it.
    length_mm : over which the latter is alike.
    edge_mm : width of the edge in the image; 0 where there is none, or where the wall is said to be known.
    """

    whole_mm: float
    rough_mm: float
    length_mm: float
    edge_mm: float = 0.0

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
        whole, rough, width_mm, length = 0.0, 0.0, 0.0, 2 * min(each.radius_mm for each in openings)
        if segmentation and (width_mm := edge_width_mm(segmentation)):
            whole, rough = width_mm * max(WHOLE, _off(segmentation, width_mm)), width_mm * ROUGH
            length = ROUGH_VOXELS * float(segmentation["spacing_mm"])
        whole = whole if settings.wall_sd_mm is None else settings.wall_sd_mm
        rough = rough if settings.roughness_mm is None else settings.roughness_mm
        along = length if settings.roughness_length_mm is None else settings.roughness_length_mm
        return WallPrecision(float(whole), float(rough), along, width_mm if whole or rough else 0.0)


def _off(segmentation: Mapping[str, Any], width_mm: float) -> float:
    """How far the wall seems to be off, in widths of the edge: the larger of two figures of ``segmentation.json``.

    One is how far the threshold is from that at which a blurred vessel has its true volume, over the contrast; the
    other what the levels of each place say that it misses of the volume, as a shift of the wall of a tube.
    """
    found, lower, unbiased = 0.0, segmentation.get("lower"), segmentation.get("lower_without_blur_bias")
    if lower is not None and unbiased is not None and segmentation.get("controlled_by") == "segment.lower":
        found = abs(float(lower - unbiased)) / float(segmentation["contrast"])
    if edge := segmentation.get("local_edge"):
        found = max(found, abs(float(edge["change"])) * float(segmentation["mean_radius_mm"]) / 2 / width_mm)
    return found
