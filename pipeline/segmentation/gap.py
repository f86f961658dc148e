# SPDX-License-Identifier: Apache-2.0
"""A vessel that goes on beyond an end of the mask, behind a place too narrow to be as bright as a lumen.

Where a stenosis is less than about a voxel in radius, or closed, nothing there passes the threshold: the mask ends, and
its end would be opened as an outlet. Beyond it, in line, lies what is as bright as the lumen and about as wide, and
begins with an end of its own. A vein or a bone that passes beyond an end turns its side to it.
"""

from typing import Any

import numpy as np

from pipeline.segmentation.pieces_beyond import LEAST_SHARE, Gap, Search
from pipeline.segmentation.point_text import text_mm
from pipeline.segmentation.problem import Problem
from pipeline.segmentation.region_growing import Mask

SEEN = 0.08
"""Least brightness on the way, in the contrast, from which blood shows in the gap; not below three times the noise."""


def gaps(search: Search | None) -> list[Gap]:
    """Gaps at the ends of a mask, that with the most beyond it first; one for each piece beyond.

    Parameters
    ----------
    search : of :func:`searched`.
    """
    if search is None:
        return []
    nearest: dict[int, Gap] = {}
    for end in search.ends():
        for number, other in search.across(end):
            if search.share_of(number) < LEAST_SHARE:
                continue
            gap = search.gap(end.place, end.radius, other, number)
            if not search.is_cut(gap) and (number not in nearest or gap.length < nearest[number].length):
                nearest[number] = gap
    return sorted(nearest.values(), key=lambda gap: -gap.size)


def summary_of(gap: Gap, problem: Problem) -> dict[str, Any]:
    """Where a gap is, how long, and how bright."""
    volume = problem.filtered
    return {
        "mm": [round(float(x), 1) for x in volume.to_mm(gap.place)],
        "length_mm": round(gap.length * volume.spacing_mm[0], 3),
        "least_brightness": round(gap.least, 3),
        "beyond_ml": round(gap.size * float(np.prod(volume.spacing_mm)) / 1000, 5),
    }


def record_of_gaps(found: list[Gap], mask: Mask, problem: Problem, noise: float) -> dict[str, Any] | None:
    """What ``segmentation.json`` holds of gaps, with the words of the check.

    Parameters
    ----------
    found : as found.
    mask : (Z, Y, X) bool.
    problem : as posed.
    noise : over the contrast.
    """
    if not found:
        return None
    volume, summaries = problem.filtered, [summary_of(gap, problem) for gap in found]
    share = sum(gap.size for gap in found) / int(mask.sum())
    ends = [[round(float(x), 1) for x in volume.to_mm(gap.end)] for gap in found]
    places = "; ".join(
        f"{each['beyond_ml']:.3g} mL beyond a gap of {each['length_mm']:.2g} mm at {text_mm(each['mm'])} mm,"
        f" {_shows(gap.least, noise)}"
        for gap, each in zip(found, summaries, strict=True)
    )
    words = (
        f"the mask ends inside the image, and in line with its end a vessel as bright goes on: {places}. It may be a"
        " stenosis thinner than the image resolves, and the end is taken for an outlet. Look at segmentation.html"
        " there: if blood flows through, set segment.gaps: bridge, which joins both by a lumen one to two voxels"
        f" across; if the vessel is closed there, set surface.closed_mm: {ends}"
    )
    return {"share": round(share, 4), "gaps": summaries, "words": words}


def _shows(least: float, noise: float) -> str:
    if least > max(SEEN, 3 * noise):
        return f"where the darkest place has {least:.0%} of the lumen's brightness"
    return "where no blood shows"
