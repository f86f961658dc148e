# SPDX-License-Identifier: Apache-2.0
"""Round ends: openings that may be sacs, as the vessel widens to a dome there or stands out too little.

Blood leaves a vessel where the image, its border or a plane ends it. A round end within the image is the tip of a
vessel that fades, which narrows, or a sac, which does not.
"""

import numpy as np

from pipeline.geometry.branches.centreline_graph import Branch, Centreline
from pipeline.geometry.branches.flat_faces import FLAT_SHARE, FlatFace
from pipeline.geometry.branches.openings import Cut

DOME_SHARE = 0.15
"""Within 25 degrees of its axis a dome looks on a fifth of its section; a frayed lumen has no such face, or less."""
WIDER = 1.1
"""A sac is so many times as wide as the vessel behind it. Of vessels that end in a sac of 1 to 1.9 radii, or beside
one (seeds 700 to 715), all that were open there have 1.11 at least, but where other checks failed."""
STUB_RADII = 5.0
"""What stands out by less, in its own radii, may be a sac on a stalk; the round ends of six real vessels that do not
narrow stand out by 14 at least."""
NARROWS = 0.95
"""A vessel that fades is narrower than that at its tip, by the vessel behind."""
BEHIND_RADII = (1.5, 6.0)
"""The vessel behind is what lies so many radii of the largest ball near the tip from that ball."""
TIP_RADII = 2.0
"""That ball lies within so many of its radii of the tip."""


def may_be_sac(face: FlatFace | None, centreline: Centreline, end: Branch, cut: Cut) -> str:
    """Why an open end may be a sac; empty where nothing speaks for one.

    Parameters
    ----------
    face : the flattest at the tip, if one fills `DOME_SHARE` of the section at least.
    centreline, end, cut : an open end within the image, and where it is cut.
    """
    if face is None or face.share >= FLAT_SHARE:
        return ""
    aside_mm = float(np.linalg.norm(centreline.points_mm[list(end.rows)] - cut.centre_mm, axis=1).min())
    if aside_mm > end.end_radius_mm:
        return f"it is cut {aside_mm:.2f} mm beside the vessel's centreline"
    ball = end.largest(TIP_RADII)
    radius, way = float(end.radius_mm[ball]), end.way_mm - end.way_mm[ball]
    near, far = (radii * radius for radii in BEHIND_RADII)
    behind = (way >= near) & (way <= far)
    if end.forked:
        behind &= end.way_mm <= end.own_length_mm
    wider = radius / float(np.median(end.radius_mm[behind])) if behind.any() else 1.0
    if wider >= WIDER:
        return f"radius {radius:.2f} mm, {wider:.2f} times that of the vessel behind it"
    if end.forked and end.own_length_mm < STUB_RADII * radius and wider >= NARROWS:
        return f"it stands out by {end.own_length_mm:.2f} mm only, its radius is {radius:.2f} mm"
    return ""
