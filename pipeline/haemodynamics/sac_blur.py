# SPDX-License-Identifier: Apache-2.0
"""What an image's blur does to the wall shear stress of a sac."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pipeline.haemodynamics.trust import check, sac_in_words

SAC_BLUR = 0.6
"""What blur takes off the logarithm of a sac's true mean stress, per width of the edge over the radius of the parent:
it rounds the lip between both, so that the neck comes out wider and more blood flows in. Measured on 60 drawn vessels
(docs/uncertainty.md); Schneiders et al. (2013, doi:10.3174/ajnr.A3179) saw the same of necks in angiograms."""

SCATTER = 0.18
"""How far true stresses were off that law, root mean square of the logarithm: 0.17 to 0.19 in 120 drawn vessels."""


def edge_width_mm(segmentation: Mapping[str, Any]) -> float:
    """Width of the edge between lumen and tissue in the image: contrast over slope; 0 where there is no image.

    Parameters
    ----------
    segmentation : as in ``segmentation.json``.
    """
    slope = segmentation.get("wall_slope_per_mm")
    return float(segmentation["contrast"]) / float(slope) if slope else 0.0


def foretold(edge_mm: float, radius_mm: float) -> float:
    """Logarithm of what blur makes too much of a sac's mean stress, `SAC_BLUR` w/R.

    Parameters
    ----------
    edge_mm : w, width of the edge in the image.
    radius_mm : R, of the vessel that carries the sac.
    """
    return SAC_BLUR * edge_mm / radius_mm


def with_blur_checks(indices: Mapping[str, Any], segmentation: Mapping[str, Any]) -> dict[str, Any]:
    """What stands in ``indices.json`` with a check of each sac: by which part of what is found its true mean stress is
    expected to be less, 1 - exp(-x), x as :func:`foretold`.

    Parameters
    ----------
    indices : of the run.
    segmentation : as in ``segmentation.json``; without an image nothing is known, and nothing is added.
    """
    edge_mm = edge_width_mm(segmentation)
    found = [_check(sac, edge_mm) for sac in indices["sacs"]] if edge_mm else []
    warnings = [each["advice"] for each in found if not each["passed"]]
    return {**indices, "warnings": [*indices["warnings"], *warnings], "checks": [*indices["checks"], *found]}


def _check(sac: Mapping[str, Any], edge_mm: float) -> dict[str, Any]:
    radius_mm = sac["parent_diameter_mm"] / 2
    too_high = float(1 - np.exp(-foretold(edge_mm, radius_mm)))
    words = (
        f"{sac_in_words(sac['name'])}: the image's edge is {edge_mm:.2g} mm wide, {edge_mm / radius_mm:.0%} of the"
        " parent's radius; such blur widens a sac's neck, so that its true mean wall shear stress is expected to be"
        f" {too_high:.0%} less than the one found (true ones scatter by {SCATTER:.0%} about that): take a sharper"
        " image; no setting mends it"
    )
    return check("wall shear stress too high by blur", "%", too_high, words, of=sac["name"])
