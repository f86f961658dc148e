# SPDX-License-Identifier: Apache-2.0
"""Pictures of docs/tutorials/dicom.md: the pages and figures of its case as a reader sees them.

    python benchmarks/tutorial_pictures.py THRESHOLD/results/basilar FIRST/results/basilar LAST/results/basilar

The three folders hold the case in its three states: with one threshold, with 10 nodes across, and with the automatic
spacing. Chromium shows the pages. Slices show the region of the case alone, so that no face is seen.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from tests.support.chromium import Browser, start  # noqa: E402

WIDTH, COLOURS = 900, 192
"""Of a picture, pixels and colours at most."""
SHEET_MM = (-2.1, -25.5, -37.9)
"""Where the last check that fails says to look."""


def keep(picture: Image.Image, name: str) -> None:
    """Leave a picture among the documentation's figures, no wider and with no more colours than a page needs."""
    height = round(picture.height * min(1, WIDTH / picture.width))
    small = picture.convert("RGB").resize((min(picture.width, WIDTH), height), Image.Resampling.LANCZOS)
    file = ROOT / f"docs/figures/tutorial-dicom-{name}.png"
    small.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
    print(file)


def shot(browser: Browser, selector: str, most: int | None = None) -> Image.Image:
    """What an element shows, its upper part where it is higher than that."""
    browser.run("for (const bar of document.querySelectorAll('header')) bar.style.position = 'static'")
    shown = Image.fromarray(browser.shot(selector).astype(np.uint8))
    return shown.crop((0, 0, shown.width, min(shown.height, most or shown.height)))


def of_pick(browser: Browser, page: Path, folder: Path) -> None:
    """The page of the region with its seed, and what grows."""
    browser.screen(1280, 900)
    browser.open(page, folder)
    browser.run("setThreshold(proposedThreshold(limit(toVoxel(ofKind('seed')[0].mm))))")  # as a click on Seed does
    deadline = time.monotonic() + 60
    while browser.run("asked !== answered || !grown"):
        assert time.monotonic() < deadline, "nothing has grown"
        time.sleep(0.1)
    browser.settle()
    keep(shot(browser, "main", 900), "pick")
    keep(shot(browser, "#solid"), "grown")


def of_slice(browser: Browser, page: Path, folder: Path) -> None:
    """A slice through the trunk where the dark sheet is told of."""
    browser.screen(1000, 900)
    browser.open(page, folder)
    browser.run(f"goTo(toVoxel({list(SHEET_MM)}))")
    browser.settle()
    keep(shot(browser, "#axial"), "slice")


def of_report(browser: Browser, page: Path, folder: Path, name: str) -> None:
    """What the figures of a report are worth, and its view to turn."""
    browser.screen(1000, 900)
    browser.open(page, folder)
    keep(shot(browser, "#trust", 900), f"{name}-trust")
    if name == "last":
        keep(shot(browser, "#turn", 1100), "wall")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("threshold", "first", "last"):
        parser.add_argument(name, type=Path, help="folder of results")
    chosen = parser.parse_args()
    for folder, name in ((chosen.threshold, "threshold"), (chosen.last, "local")):
        keep(Image.open(folder / "segmentation.png"), name)
    for name in ("along", "cross"):
        keep(Image.open(chosen.last / f"figures/{name}.png"), name)
    with tempfile.TemporaryDirectory() as profile:
        browser = start(Path(profile) / "profile")
        of_pick(browser, chosen.threshold / "pick.html", Path(profile))
        of_slice(browser, chosen.last / "segmentation.html", Path(profile))
        of_report(browser, chosen.first / "report.html", Path(profile), "first")
        of_report(browser, chosen.last / "report.html", Path(profile), "last")
        browser.close()


if __name__ == "__main__":
    main()
