# SPDX-License-Identifier: Apache-2.0
"""A lumen that passes the leak guard, and its record, which takes as long to make as the lumen to find and judge."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.files.enclosed import enclosed_voxels
from pipeline.files.volume import Volume
from pipeline.segmentation.beyond_region import keeps_whole, record_of_beyond_region
from pipeline.segmentation.greys import record_of_greys
from pipeline.segmentation.leak import Row
from pipeline.segmentation.left_vessel import Doubt
from pipeline.segmentation.levels import Levels
from pipeline.segmentation.limits import WRONG
from pipeline.segmentation.lumen_record import may_have_left, record_of
from pipeline.segmentation.problem import Lumen, Problem
from pipeline.segmentation.region_growing import Mask


@dataclass(frozen=True)
class Judged:
    """A lumen that is not refused.

    Attributes
    ----------
    problem : what was to be found.
    loaded : the volume before the filter, whose voxels seeds are told in.
    modality : as of the series; None: unknown.
    facts : what was found instead of given, and joined.
    found : the lumen of the method.
    mask : (Z, Y, X) bool, with its cavities filled, and with what cut planes took from it.
    filled : (Z, Y, X) float32, the part of each voxel that it fills.
    holes : number of the cavities.
    given_back : voxels that cut planes had taken from it.
    contact : part of each face of the region that it covers.
    table : the lumen at neighbouring levels.
    intensity : levels in and around it.
    radii : along its centre line, voxels.
    doubts : places where it may have left the vessel.
    """

    problem: Problem
    loaded: Volume
    modality: str | None
    facts: dict[str, Any]
    found: Lumen
    mask: Mask
    filled: NDArray[np.float32]
    holes: int
    given_back: int
    contact: dict[str, float]
    table: list[Row]
    intensity: Levels
    radii: NDArray[np.floating]
    doubts: list[Doubt]

    def record(self) -> dict[str, Any]:
        """What ``segmentation.json`` holds of it."""
        problem, found, mask, intensity = self.problem, self.found, self.mask, self.intensity
        of_lumen = record_of(problem, found, mask, self.holes, self.table, intensity, self.radii, self.loaded)
        record = found.record | of_lumen
        voxel_ml = float(np.prod(problem.filtered.spacing_mm)) / 1000
        record["volume_ml"] = round(enclosed_voxels(self.filled) * voxel_ml, 5)
        record["doubts"] = [doubt.record for doubt in self.doubts]
        record["warnings"] += may_have_left(self.doubts)
        beyond = record_of_beyond_region(problem, found.wall, mask, intensity, self.radii, self.loaded)
        record["beyond_region"] = beyond
        record["warnings"] += [beyond["words"]] if beyond and not keeps_whole(beyond) else []
        change = record["volume_change_per_percent_of_contrast"]
        record["greys"] = greys = None if self.modality else record_of_greys(self.loaded, intensity, change)
        record["warnings"] += [greys["words"]] if greys and greys["share"] > WRONG else []
        record["voxels_given_back"] = self.given_back
        record["voxels_filled"] -= self.given_back
        return record | self.facts | {"border_contact": {face: round(part, 5) for face, part in self.contact.items()}}
