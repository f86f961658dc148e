"""What a refusal advises, followed to the letter, ends in a result or in another refusal: never in the same one.

What is advised is read out of the message itself (advice.py); each kind of input that is refused is made small here, and
run by the stages of the workflow.
"""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from advice import Deeds, Refusal, Step, Values, Workflow, advised, follow
from dicom_files import files
from linear_field import slices, write
from scipy import ndimage
from shapes import capped_cylinder
from test_automatic_seeds import cylinder_in_body
from test_import_surface import write as write_given

from pipeline.phantom import SeriesHeader, write_series
from pipeline.volume import Volume
from solver.stage import StageError

FLOW: Values = {"solve": {"inlets": {"*": {"flow_ml_s": 2.0}}}}
TUBE = capped_cylinder((1, -2, 3), 2.0, 20.0, (12.0, -34.0, 250.0), segments=24)[0]


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch):
    """Pages and pictures take longer than the stages, and refuse nothing."""
    for module in ("segment", "import_mask"):
        monkeypatch.setattr(f"pipeline.{module}.draw", lambda *_: None)
        monkeypatch.setattr(f"pipeline.{module}.render", lambda *_, **__: "")


def ways_out(run: Workflow, values: Values) -> int:
    refusal = run.run(values)
    assert refusal
    return len(advised(refusal.said, values))


def passed(steps: list[Step]) -> bool:
    return bool(steps) and steps[-1].taken is not None


# ---- units -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def surface(tmp_path_factory) -> Callable[[str], Path]:
    """The tube in a file, by the unit that it is written in."""
    folder = tmp_path_factory.mktemp("surface")
    return lambda unit: write_given(TUBE, folder / unit, "stl", unit, "LPS", said=False)


SLIPS: dict[str, tuple[str, Values]] = {
    "viscosity in mPa s": ("mm", {"solve": {"viscosity_pa_s": 3.5}}),
    "density in g/cm3": ("mm", {"solve": {"density_kg_m3": 1.06}}),
    "flow in mL/min": ("mm", {"solve": {"inlets": {"*": {"flow_ml_s": 120.0}}}}),
    "flow in m3/s": ("mm", {"solve": {"inlets": {"*": {"flow_ml_s": 2e-6}}}}),
    "lengths in m": ("m", {}),
    "lengths in um": ("um", {}),
}


@pytest.mark.parametrize("way", range(2))
@pytest.mark.parametrize("slip", SLIPS)
def test_slips_of_units(slip, way, surface, tmp_path):
    unit, wrong = SLIPS[slip]
    values = {"input": {"surface": str(surface(unit)), "surface_unit": "mm"}} | FLOW
    steps = follow(Workflow(tmp_path, "plausibility").run, values | {"solve": FLOW["solve"] | wrong.get("solve", {})},
                   first=way)  # fmt: skip
    assert steps
    assert passed(steps) or way  # not every slip has a second way
