# SPDX-License-Identifier: Apache-2.0
"""Openings of a real aorta, found without a hint: the table and the pictures of docs/validation/geometry.md.

    HEMO_CASES=... python benchmarks/aorta_openings.py --figures docs/figures

The image is `aorta-iliac-mra` of the real cases, segmented from the seed of its README with a threshold found from it.
"""

import argparse
import logging
import os
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pipeline.case.settings.geometry import SideBranches, SurfaceSettings  # noqa: E402
from pipeline.case.settings.images import FilterSettings, SegmentSettings  # noqa: E402
from pipeline.files.volume import Volume  # noqa: E402
from pipeline.geometry.branches.picture import Mark, Scene, draw  # noqa: E402
from pipeline.geometry.closed_surface import Surface  # noqa: E402
from pipeline.stages.filter import filter_volume  # noqa: E402
from pipeline.stages.segment import segment  # noqa: E402
from pipeline.stages.surface import extract_surface  # noqa: E402

SEED = (58, 225, 16)
SHORT = SideBranches(action="remove", shorter_than_radii=6)
PICTURES = {
    "aorta-openings": ("Openings of an aorta, as found", SideBranches()),
    "aorta-openings-removed": ("The same, side branches shorter than six radii removed", SHORT),
}
"""Names of the files, with titles and what becomes of side branches."""


def picture(surface: Surface, title: str) -> bytes:
    """Three views of a surface with its openings, as PNG."""
    marks = [
        Mark("open", np.array(opening.centre_mm), f"{opening.name}, radius {opening.radius_mm:.2f} mm")
        for opening in surface.openings
    ]
    return draw(Scene(surface.mesh, None, marks), title)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figures", type=Path, required=True, help="folder for the pictures")
    folder = parser.parse_args().figures
    log = logging.getLogger("aorta")
    aorta = Volume.read(Path(os.environ["HEMO_CASES"]) / "aorta-iliac-mra" / "aorta.mha")
    lumen = segment(filter_volume(aorta, FilterSettings()), SegmentSettings(seeds_voxel=(SEED,)), aorta, "MR").occupancy
    for name, (title, branches) in PICTURES.items():
        surface = extract_surface(lumen, SurfaceSettings(side_branches=branches), log)
        for opening in surface.openings:
            x, y, z = opening.centre_mm
            print(f"{name}  {opening.name}  ({x:.0f}, {y:.0f}, {z:.0f})  {opening.radius_mm:.2f} mm")
        (folder / f"{name}.png").write_bytes(picture(surface, title))


if __name__ == "__main__":
    main()
