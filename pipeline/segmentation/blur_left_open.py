# SPDX-License-Identifier: Apache-2.0
"""How much of a vessel's volume its blur leaves open.

Where the wall stands in a vessel that is a few of its blurs wide depends on that blur: it darkens the middle, by which
contrast is measured, and moves half way inwards. Both follow from how steep the wall is, which is not that of a
Gaussian alone: smoothing keeps edges and flattens what is thin, and the blur of slices is another one. In a wide vessel
it hardly matters.
"""

from typing import Any

import numpy as np
from scipy import ndimage

from pipeline.files.enclosed import enclosed_voxels, filled
from pipeline.segmentation.blur import of_blur
from pipeline.segmentation.following import REACH_VOXELS, NearMean, length_of
from pipeline.segmentation.local_edge import LocalEdge
from pipeline.segmentation.point_text import BY_HAND
from pipeline.segmentation.region_growing import occupancy

KNOWN = 0.2
"""Part of the blur to which it is known: in 33 drawn vessels of 1.3 to 2.9 voxels in radius it came out 0.87 to 1.19
times as large as it was drawn, but for two of 1.3 voxels, 1.3 times."""

ROUNDS = 2
"""How often the wall is moved by another blur: a vessel that is thinner is dimmed more, which moves it again."""


def record_of_open_volume(edge: LocalEdge, radius: float) -> dict[str, Any] | None:
    """What ``segmentation.json`` holds of a volume that the blur leaves open, with the words of the check.

    Parameters
    ----------
    edge : where the wall is by the levels near each place.
    radius : mean of the vessel's, voxels.

    Returns
    -------
    The change of the volume with a blur that is larger by `KNOWN`; None where no blur is known.
    """
    if not edge.blurred or not edge.inside.any():
        return None
    depth = ndimage.distance_transform_edt(np.pad(edge.inside, 1, mode="edge"))[1:-1, 1:-1, 1:-1]
    near = NearMean(depth**3, length_of(radius))
    share, room = edge.share + edge.edge, ndimage.binary_dilation(edge.inside, iterations=REACH_VOXELS)
    volumes = []
    for blurred in (edge.blurred, (1 + KNOWN) * edge.blurred):
        part, above = edge.inside, edge.share
        for _ in range(ROUNDS):
            lumen = filled(occupancy(above, part, 0.0, 1.0))
            above = share - of_blur(lumen, near, blurred).level
            part = room & (above >= 0)
        volumes.append(enclosed_voxels(occupancy(above, part, 0.0, 1.0)) if part.any() else 0.0)
    change = volumes[1] / volumes[0] - 1
    words = (
        f"the vessel is {2 * radius / edge.blurred:.2g} times as wide as the standard deviation of its blur, which is"
        f" known to about {KNOWN:.0%}: with so much more the volume would be {change:+.1%} off. No setting tells more."
        f" Give a finer image, or smooth less (filter.smoothing: none). {BY_HAND}"
    )
    return {"share": round(abs(change), 4), "words": words}
