"""A page to pick seeds on, before there are any: three views of the loaded image, cut to the region of interest.

No part of the chain: it helps to write the case file. It shows the image as loaded, since smoothing a whole volume
takes minutes and changes neither places nor levels, and since a region around the seeds needs them first.
"""

from pipeline.filtering.region import crop, region_box
from pipeline.segmentation.page import render
from pipeline.settings.base import parse
from pipeline.settings.images import FilterSettings
from pipeline.volume import Volume
from solver.stage import Job, run_stage


def _compute(job: Job) -> None:
    settings = parse(FilterSettings, job.settings, "--settings")
    loaded = Volume.read(job.inputs["volume"])
    page = render(crop(loaded, *region_box(loaded, settings)), {"loaded image": loaded})
    job.outputs["page"].write_text(page, encoding="utf-8")
    job.log.info("a page of %.1f MB: open it in a browser", len(page) / 1e6)


if __name__ == "__main__":
    run_stage(
        "pick",
        __doc__,
        {"volume": "volume.nrrd of the load stage"},
        {"page": "the page (.html)"},
        _compute,
    )
