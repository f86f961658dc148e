# SPDX-License-Identifier: Apache-2.0
"""A page to write the case file on, before there is a mask: the loaded image, cut to the region of interest.

No part of the chain: it helps to choose region, seeds, threshold, cut planes and openings, and shows what would grow.
It shows the image as loaded, since smoothing a whole volume takes minutes and changes neither places nor levels, and
since a region around the seeds needs them first.
"""

import json
from collections.abc import Mapping
from typing import Any

from pipeline.case.settings.base import parse
from pipeline.case.settings.images import FilterSettings, SegmentSettings
from pipeline.files.volume import Volume
from pipeline.filtering.region import crop, region_box
from pipeline.segmentation.case_shown import shown
from pipeline.segmentation.page import render
from pipeline.segmentation.seeds import background_places, seed_places
from solver.runtime.command_line import run_stage
from solver.runtime.provenance import Job


def make_page(loaded: Volume, modality: str | None, settings: Mapping[str, Any]) -> str:
    """The page.

    Parameters
    ----------
    loaded : voxels (Z, Y, X) as loaded, in any orientation.
    modality : ``CT``: intensities are HU; None: unknown.
    settings : the sections ``filter`` and ``segment`` of the case with their defaults, and ``case``: what was given.

    Raises
    ------
    StageError
        If the region and the volume do not overlap.
    """
    filtering = parse(FilterSettings, settings["filter"], "--settings filter")
    segment = parse(SegmentSettings, settings["segment"], "--settings segment")
    case = shown(settings["case"])
    points = {
        "seeds_mm": [place.point_mm for place in seed_places(segment, loaded)],
        "background_mm": [place.point_mm for place in background_places(segment, loaded)],
    }
    given = case.get("segment", {})
    case["segment"] = {key: given[key] for key in given if key not in ("seeds_voxel", "background_voxel")} | points
    region = crop(loaded, *region_box(loaded, filtering))
    return render(region, {"loaded image": loaded}, modality=modality, case=case, segment=segment)


def _compute(job: Job) -> None:
    loaded = Volume.read(job.inputs["volume"])
    modality = json.loads(job.inputs["series"].read_text(encoding="utf-8"))["modality"]
    page = make_page(loaded, modality, job.settings)
    job.settings = {"filter": job.settings["filter"]}  # all that the voxels follow from
    job.outputs["page"].write_text(page, encoding="utf-8")
    job.log.info("a page of %.1f MB: open it in a browser", len(page) / 1e6)


if __name__ == "__main__":
    run_stage(
        "pick",
        __doc__,
        {
            "volume": "volume.nrrd of the load stage",
            "series": "series.json of the load stage: its modality tells what intensities mean",
        },
        {"page": "the page (.html)"},
        _compute,
    )
