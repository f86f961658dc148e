# SPDX-License-Identifier: Apache-2.0
"""A refusal of the surface names what helps: settings of images do nothing to a mask that was given."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.files.volume import Volume
from pipeline.stages import surface
from solver.runtime.errors import StageError
from solver.runtime.provenance import Job
from tests.support.advice import advised
from tests.support.tubes import line, tube

LOG = logging.getLogger("test")


def narrow() -> Volume:
    return tube(line(60, seed=2), np.interp(np.arange(50), [0, 22, 25, 28, 49], [4, 4, 1.2, 4, 4]))


@pytest.mark.parametrize(
    ("lumen", "keys"),
    [
        (lambda: tube(line(40), 1.4), {}),
        (narrow, {"smoothing_mm": 4.0}),
        (lambda: tube(line(40), 4.0), {"volume_tolerance": 1e-14}),
        (lambda: tube(line(40), 2.0), {"smoothing_mm": 12.0}),
    ],
    ids=["ends", "thin", "volume", "vanishes"],
)
def test_of_a_given_mask_a_refusal_names_the_program_that_made_it(
    lumen: Callable[[], Volume], keys: dict[str, Any], tmp_path: Path
) -> None:
    occupancy, record = tmp_path / "occupancy.nrrd", tmp_path / "segmentation.json"
    drawn = lumen()
    drawn.with_voxels(drawn.voxels.astype(np.float32)).write(occupancy)
    settings = json.loads(SurfaceSettings().model_dump_json()) | keys
    said = []
    for method in ("region growing", "given mask"):
        record.write_text(json.dumps({"method": method}))
        job = Job("surface", {"occupancy": occupancy, "segmentation": record}, {}, settings, LOG)
        with pytest.raises(StageError) as refused:
            surface._compute(job)
        said.append(str(refused.value))
    assert "filter.spacing_mm" in said[0]
    assert not any(word in said[1] for word in ("filter.", "segment.cut"))
    assert "the program that made" in said[1]


def test_too_few_ends_that_a_gap_explains_are_led_on_by_joining_it(tmp_path: Path) -> None:
    """A lumen no end of which can be cut, in line with an end of which a vessel goes on."""
    occupancy, record = tmp_path / "occupancy.nrrd", tmp_path / "segmentation.json"
    drawn = tube(line(40), 1.4)
    drawn.with_voxels(drawn.voxels.astype(np.float32)).write(occupancy)
    gap = {"beyond_ml": 1.13, "length_mm": 15.0, "mm": [41.2, -4.3, 87.5]}
    record.write_text(json.dumps({"method": "region growing", "beyond_ends": {"gaps": [gap]}}))
    settings = json.loads(SurfaceSettings().model_dump_json())
    job = Job("surface", {"occupancy": occupancy, "segmentation": record}, {}, settings, LOG)
    with pytest.raises(StageError, match=r"0 open ends found.*15 mm at \(41\.2, -4\.3, 87\.5\) mm") as refused:
        surface._compute(job)
    assert [each.settings for each in advised(str(refused.value), {})] == [{"segment": {"gaps": "bridge"}}]
