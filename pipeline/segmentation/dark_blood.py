# SPDX-License-Identifier: Apache-2.0
"""Blood that is darker than the tissue around it, as where MR nulls the signal of what flows: read inverted."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation.automatic import seed_level
from pipeline.segmentation.levels import looks_like_ct
from pipeline.segmentation.point_text import BY_HAND
from pipeline.segmentation.problem import Problem

REACH_MM = 30.0
"""How far around the seeds brightness tells that they are dark."""

BY_ITSELF = {"lower": None, "upper": None}
"""Thresholds that were given hold in the image as it is."""

Tries = Callable[[Volume, SegmentSettings, Volume], bool]
"""Whether the stage takes the lumen of a filtered volume, by settings, with the volume as loaded."""


def read_inverted(problem: Problem, loaded: Volume, modality: str | None, tries: Tries) -> str:
    """That blood is dark at the seeds, with the setting that reads it, tried; empty where it is not or does not pass.

    Parameters
    ----------
    problem : as posed, with seeds.
    loaded : the volume before the filter.
    modality : in CT blood is no darker than tissue; None: unknown.
    tries : the stage.
    """
    if modality == "CT" or looks_like_ct(problem.filtered.voxels):
        return ""
    level, around = seed_level(problem, problem.places), _around(problem)
    if level >= around:
        return ""
    settings = problem.settings.model_copy(update=BY_ITSELF)
    if not tries(inverted(problem.filtered), settings, inverted(loaded)):
        return ""
    given = [key for key in BY_ITSELF if getattr(problem.settings, key) is not None]
    words = " and ".join(["load.invert: true", *(f"segment.{key}: null" for key in given)])
    return (
        f"the seed is dark, {level:.4g} in {around:.4g} around it, as blood is where MR nulls the signal of what flows."
        f" If it lies in the lumen, read the image inverted, which was tried and passes: {words}"
    )


def record_of_inverted() -> dict[str, Any]:
    """What ``segmentation.json`` holds of a lumen that was read from an inverted image, with the words of the check."""
    words = (
        "the image was read inverted (load.invert), since blood is dark in it. Where the vessel's wall is brighter than"
        " the tissue behind it, half way between lumen and tissue lies within the lumen: drawn ones came out 2 to 14 %"
        f" too small, and no setting is known that finds the wall there. {BY_HAND}"
    )
    return {"share": 1.0, "words": words}


def inverted(volume: Volume) -> Volume:
    """A volume in which what was dark is bright, and the brightest 0.

    Parameters
    ----------
    volume : its voxels may be NaN where nothing was measured.
    """
    voxels = volume.voxels.astype(np.float32)
    return volume.with_voxels(np.nanmax(voxels) - voxels)


def _around(problem: Problem) -> float:
    """Median intensity around the seeds."""
    volume = problem.filtered
    reach = np.ceil(REACH_MM / np.array(volume.spacing_mm)).astype(int)
    places = np.array(problem.places)
    low, high = np.maximum(places.min(axis=0) - reach, 0), places.max(axis=0) + reach + 1
    x, y, z = (slice(int(a), int(b)) for a, b in zip(low, high, strict=True))
    return float(np.median(volume.voxels[z, y, x]))
