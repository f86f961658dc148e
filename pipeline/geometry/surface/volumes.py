# SPDX-License-Identifier: Apache-2.0
"""Volumes: how much of the mask the surface holds, and what it lost that nobody asked for.

The settings ask for side branches that are taken out, for extensions, and for the piece of each end between the tip
of the vessel and the cut. What goes beyond that is a loss, as of a vessel whose end is nowhere round enough to be cut.
"""

from collections.abc import Mapping
from typing import Any

from pipeline.files.mesh import words_mm

MOST_LOST = 0.02
"""Part of the mask's volume that may be lost unasked for."""


def share_lost(quality: Mapping[str, Any]) -> float:
    """Part of the mask's volume that was lost unasked for.

    Parameters
    ----------
    quality : of a surface from a mask: ``mask_volume_mm3``; for each end that was cut ``volume_mm3``, ``asked_mm3``.
    """
    lost = sum(max(0.0, end["volume_mm3"] - end["asked_mm3"]) for end in quality["cut_ends"])
    return float(lost / quality["mask_volume_mm3"])


def loss_in_words(quality: Mapping[str, Any], share: float) -> str:
    """What was lost, where most of it, and what helps."""
    worst = max(quality["cut_ends"], key=lambda end: end["volume_mm3"] - end["asked_mm3"])
    return (
        f"surface: cuts took off {100 * share:.1f} % of the mask's {quality['mask_volume_mm3'] / 1000:.2f} mL beyond"
        f" the tips of the vessel (at most {100 * MOST_LOST:g} %), most at {words_mm(worst['place_mm'])},"
        f" {worst['volume_mm3'] / 1000:.2f} mL: up to there the vessel is not round, or thinner than"
        " surface.min_radius_mm. Repair the mask there (segment.lower, segment.cut_planes), lower"
        " surface.cut_roundness,"
        " or close the end with surface.closed_mm"
    )
