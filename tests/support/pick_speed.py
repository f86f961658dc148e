# SPDX-License-Identifier: Apache-2.0
"""How long the page to write the case file on takes to grow in an image of 512 x 512 x 300 voxels.

    python tests/support/pick_speed.py

No test: it prints seconds of the machine that it runs on. The image is a CT angiography of a bent vessel 12 mm wide in
a body of 40 HU with noise of 20 HU, beside bone; the box around the vessel measures 100 mm.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pipeline.files.volume import Volume
from tests.pipeline.segmentation.test_pick_page import GIVEN, Picker, made
from tests.support import chromium

SIZE, SPACING_MM = (512, 512, 300), (0.5, 0.5, 0.8)
BOX_MM = 100.0


def image() -> Volume:
    """Voxels (Z, Y, X) int16; the vessel runs along z through the middle and swings by 20 mm."""
    x, y = ((np.arange(n, dtype=np.float32) - n / 2) * h for n, h in zip(SIZE[:2], SPACING_MM[:2], strict=True))
    body = np.where(np.hypot(x / 115, y[:, None] / 95) < 1, 40, -1000).astype(np.int16)
    bone = np.where(np.hypot(x, y[:, None] - 45) < 18, 700, 0).astype(np.int16)
    rng = np.random.default_rng(1)
    voxels = np.empty(SIZE[::-1], np.int16)
    for k in range(SIZE[2]):
        across = np.hypot(x - 20 * np.sin(k / 40), y[:, None] + 10 * np.cos(k / 60))
        lumen = 310 / (1 + np.exp((across - 6) / 0.3))
        voxels[k] = np.maximum(body, bone) + lumen * (body > 0) + rng.normal(0, 20, body.shape)
    return Volume(voxels, SPACING_MM, (0.0, 0.0, 0.0), np.eye(3))


def measure(browser: Picker, loaded: Volume, case: dict, folder: Path) -> None:
    """Print how long the page takes to open, to grow in the box after a seed, and after a lower threshold."""
    text = made(loaded, case, modality="CT")
    started = time.perf_counter()
    browser.open(text, folder)
    seconds = time.perf_counter() - started
    print(f"page of {len(text) / 1e6:.1f} MB, {browser.run('facts.size')} voxels, open in {seconds:.1f} s")
    middle = loaded.to_mm([256 + 40 * np.sin(150 / 40), 256 - 20 * np.cos(150 / 60), 150])
    browser.run(f"goTo(toVoxel({middle.tolist()}))")
    browser.run(f"$('box-width').value = {BOX_MM}; $('box-here').click()")
    steps = {
        "a seed": "document.querySelector('[data-add=seed]').click()",
        "a threshold of 150": "setThreshold(150)",
        "a threshold of 120": "setThreshold(120)",
        "another box": "setBox(box.low.map((n) => n + 2), box.high)",
    }
    for name, script in steps.items():
        started = time.perf_counter()
        browser.run(script)
        reported = browser.grown()
        print(
            f"  {name}: {time.perf_counter() - started:.2f} s to the picture, worker {reported['ms'] / 1000:.2f} s,"
            f" {reported['count']} voxels, {browser.text('volume')}, box {browser.run('box')}"
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        folder, loaded = Path(name), image()
        browser = chromium.start(folder / "profile", Picker)
        print("all of the image:")
        measure(browser, loaded, GIVEN, folder)
        print("the box of the case file, with all voxels:")
        region = {"region_voxels": {"low": [116, 136, 67], "high": [396, 376, 233]}}
        measure(browser, loaded, GIVEN | {"filter": region}, folder)
        browser.close()
