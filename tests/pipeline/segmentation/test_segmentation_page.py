# SPDX-License-Identifier: Apache-2.0
"""The page to check a mask and to pick seeds: what it says, and what it shows, in a browser."""

import base64
import io
import json
import logging
import re
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from matplotlib.image import imread

from pipeline.case.settings.images import SegmentSettings
from pipeline.files.volume import Volume
from pipeline.segmentation import page
from pipeline.stages.pick import _compute as pick
from solver.runtime.provenance import Job
from tests.support import chromium
from tests.support.variants import some

SIZE = (20, 17, 14)
"""Voxels along x, y, z: 4760, so that each has an intensity of its own in steps of 1."""

TURN = np.array([[0.936293, -0.275096, 0.218351], [0.289629, 0.956425, -0.036957], [-0.198669, 0.097843, 0.975170]])
"""A rotation by about 20 degrees, to six digits."""

DIRECTIONS = {
    "aligned": np.diag([-1.0, -1.0, 1.0]),
    "oblique": np.linalg.svd(TURN)[0] @ np.linalg.svd(TURN)[2] @ np.array([[0, 0, -1.0], [1, 0, 0], [0, -1, 0]]),
}
"""The second is a sagittal acquisition with turned head: array x goes to the back, y to the feet, z to the right."""

VIEWS = {"axial": (0, 1, "RLAP"), "coronal": (0, 2, "RLHF"), "sagittal": (1, 2, "APHF")}
"""Patient axes (LPS) that grow to the right and along the page's height, and the letters left, right, top, bottom."""


def coded(direction) -> Volume:
    """A volume whose intensities, all different, tell the voxel."""
    codes = np.random.default_rng(5).permutation(np.prod(SIZE)).astype(np.float32)
    return Volume(codes.reshape(SIZE[::-1]), (0.7, 0.7, 0.7), (11.25, -42.5, 603.125), direction)


def loaded_grid(filtered: Volume) -> Volume:
    """A grid with thicker slices that holds the filtered volume."""
    corner = tuple(filtered.to_mm([-9.1, -6.2, -3.3]).tolist())
    return Volume(np.zeros((9, 64, 64), np.int16), (0.45, 0.45, 2.5), corner, filtered.direction)


def ball(volume: Volume) -> Volume:
    """A mask that is no mirror image of itself."""
    z, y, x = np.indices(volume.voxels.shape)
    inside = ((x - 8) ** 2 + (y - 9) ** 2 + (z - 6) ** 2 <= 22) | ((x >= 8) & (x < 17) & (y == 9) & (z == 6))
    return volume.with_voxels(inside.astype(np.uint8))


RECORD = {
    "method": "threshold",
    "lower": 2000.0,
    "upper": None,
    "seeds_are_automatic": False,
    "lower_is_automatic": True,
    "lower_found_as": "half way <up>",
    "volume_ml": 0.0345,
    "mean_radius_mm": 1.234,
    "contrast": 1500.0,
    "surroundings_level": 1000.0,
    "contrast_to_noise": 12.5,
    "holes_filled": 2,
    "controlled_by": "segment.lower",
    "volume_change_per_percent_of_contrast": 0.0123,
    "radius_change_per_percent_of_contrast": 0.0045,
    "border_contact": {"left": 0.0, "head": 0.0312},
    "warnings": ["the vessel is <thin> & long"],
    "seeds": [{"setting": "segment.seeds_mm[0]", "mm": [5.65, -48.8, 607.325]}],
    "background": [{"setting": "segment.background_voxel[0]", "mm": [0.05, -51.6, 608.025]}],
    "volume_by_threshold": [
        {"lower": 1900.0, "volume_ml": 0.036, "mean_radius_mm": 1.25},
        {"lower": 2000.0, "volume_ml": 0.0345, "mean_radius_mm": 1.234},
        {"lower": 2100.0, "volume_ml": 0.033, "mean_radius_mm": 1.2},
    ],
}


def made(volume: Volume, mask: bool = True) -> str:
    grids = {"loaded image": loaded_grid(volume), "filtered image": volume}
    return page.render(volume, grids, ball(volume) if mask else None, RECORD if mask else None)


def embedded(text: str, name: str) -> bytes:
    return re.search(rf'<script type="application/[\w-]+" id="{name}">(.*?)</script>', text, re.DOTALL)[1].encode()


# ---- the browser ----


class Views(chromium.Browser):
    """The browser with what the views of this page need."""

    def open(self, page: str | Path, folder: Path, before: str = "") -> None:
        super().open(page, folder, before)
        self.run(
            "window.slicesShown = () => Object.fromEntries(views.map(({ name, figure }) => "
            "[name, figure.querySelector('.slice').textContent]))"
        )

    def canvas(self, name: str) -> dict:
        """Box of a view's canvas on the page."""
        return self.run(f"document.querySelector('#{name} canvas').getBoundingClientRect().toJSON()")

    def mouse(self, name: str, kind: str, x: float, y: float, **more) -> None:
        """A true event of the mouse at a place of a view's canvas."""
        box = self.canvas(name)
        self.call("Input.dispatchMouseEvent", type=kind, x=box["x"] + x, y=box["y"] + y, **more)

    def click(self, name: str, x: float, y: float, button: str = "left", to: tuple[float, float] | None = None) -> None:
        """Press, drag to another place where one is given, and let go."""
        held = {"left": 1, "right": 2}[button]
        self.mouse(name, "mousePressed", x, y, button=button, buttons=held, clickCount=1)
        if to:
            self.mouse(name, "mouseMoved", *to, button=button, buttons=held)
        self.mouse(name, "mouseReleased", *(to or (x, y)), button=button, buttons=0, clickCount=1)
        self.settle()

    def touch(self, name: str, *path: tuple[float, float]) -> None:
        """A finger that is put down, led along and lifted."""
        box = self.canvas(name)
        for n, (x, y) in enumerate(path):
            place = [{"x": box["x"] + x, "y": box["y"] + y}]
            self.call("Input.dispatchTouchEvent", type="touchMove" if n else "touchStart", touchPoints=place)
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.settle()

    def key(self, name: str, key: str) -> None:
        """A key, pressed while a view has the focus."""
        self.run(f"document.getElementById('{name}').focus()")
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def press(self, selector: str) -> None:
        """Press a button of the page."""
        self.run(f"document.querySelector({json.dumps(selector)}).click()")
        self.settle()

    def text(self, name: str) -> str:
        return self.run(f"document.getElementById('{name}').textContent")

    def slices(self) -> dict[str, str]:
        return self.run("slicesShown()")

    def picture(self, name: str) -> np.ndarray:
        """What a view's canvas shows, (height, width, 3) 0 to 255."""
        self.settle()
        png = self.run(f"document.querySelector('#{name} canvas').toDataURL()")
        image = imread(io.BytesIO(base64.b64decode(png.split(",")[1])))[..., :3]
        box = self.canvas(name)
        assert np.abs(np.array(image.shape[:2]) - (box["height"], box["width"])).max() <= 0.5
        return np.rint(image * 255).astype(int)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = chromium.start(tmp_path_factory.mktemp("profile"), Views)
    yield browser
    browser.close()


@pytest.fixture
def aligned(browser, tmp_path) -> Views:
    """The page of a volume along the patient's axes; its index x is SIZE[0] - 1 less the array's, y alike."""
    browser.open(made(coded(DIRECTIONS["aligned"])), tmp_path)
    yield browser
    assert browser.faults == []


READ = """(() => {
  const numbers = (id) => $(id).textContent.trim().split(/\\s+/).map(Number);
  return { where: $("where").textContent, lps: numbers("lps"), ras: numbers("ras"), loaded: numbers("voxel0"),
    filtered: numbers("voxel1"), intensity: Number($("intensity").textContent), inside: $("inside").textContent };
})()"""


@pytest.mark.parametrize("orientation", some(DIRECTIONS, "oblique"))
def test_under_each_pixel_stands_the_voxel_that_it_shows(browser, tmp_path, orientation):
    """The intensity tells the voxel, whatever the page says of it: so place, indices, mask and grey can be checked."""
    volume = coded(DIRECTIONS[orientation])
    loaded, mask = loaded_grid(volume), ball(volume).voxels
    browser.open(made(volume), tmp_path)
    for selector in (
        "#smooth",
        '[data-mask="off"]',
        '[data-window="2"]',
    ):  # grey of the single voxels, all of the range
        browser.press(selector)
    browser.key("axial", "x")  # no crosshair
    seen = set()
    for name, (across, up, letters) in VIEWS.items():
        image = browser.picture(name)
        height, width, _ = image.shape
        box = browser.canvas(name)
        figure = f"document.getElementById('{name}').querySelector"
        for side, letter in zip(("left", "right", "top", "bottom"), letters, strict=True):
            assert browser.run(f"{figure}('.letter.{side}').textContent") == letter
        scale = browser.run(
            f"{figure}('.bar i').getBoundingClientRect().width / parseFloat({figure}('.bar').textContent)"
        )
        places, pixels = [], []
        for n in range(25):
            x, y = int(width * (0.312 + n * 0.618 % 0.37)), int(height * (0.15 + n * 0.028))
            pixel = (x + 0.5) * box["width"] / width, (y + 0.5) * box["height"] / height
            browser.mouse(name, "mouseMoved", *pixel)
            browser.settle()
            read = browser.run(READ)
            assert read["where"] == "pointer"
            index = np.argwhere(volume.voxels == read["intensity"])[0][::-1]
            place = volume.to_mm(index)
            np.testing.assert_allclose(read["lps"], place, atol=0.005 + 1e-9)  # two decimals are shown
            np.testing.assert_allclose(read["ras"], place * [-1, -1, 1], atol=0.005 + 1e-9)
            assert read["filtered"] == index.tolist()
            assert np.all(np.abs(read["loaded"] - loaded.to_index(place)) <= 0.5 + 1e-6)
            assert read["inside"] == ("inside" if mask[tuple(index[::-1])] else "outside")
            assert image[y, x].tolist() == [round(255 * read["intensity"] / volume.voxels.max())] * 3
            seen.add(tuple(index.tolist()))
            places.append(place)
            pixels.append(pixel)
        axes = volume.direction[:, [np.argmax(np.abs(volume.direction[k])) for k in (across, up)]]
        axes = axes * np.sign(axes[(across, up), (0, 1)])  # towards the left, the back or the head
        offsets = (np.array(places) - places[0]) @ axes * [1, -1 if up == 2 else 1] * scale
        # each pointer is at most half a voxel (0.35 mm) from its voxel's centre, and the bar is drawn to a pixel
        assert np.abs(offsets - (np.array(pixels) - pixels[0])).max() <= 0.7 * scale * 1.02 + 1
    assert len(seen) > 60
    assert browser.faults == []


def test_the_mean_is_that_of_a_sphere(aligned):
    aligned.run("goTo([9, 8, 7])")
    aligned.settle()
    centre = np.array([SIZE[0] - 1 - 9, SIZE[1] - 1 - 8, 7])
    grid = np.indices(SIZE).transpose(1, 2, 3, 0)
    near = np.linalg.norm((grid - centre) * 0.7, axis=-1) <= 1.05  # a voxel and a half
    values = coded(DIRECTIONS["aligned"]).voxels.transpose(2, 1, 0)[near]
    assert aligned.text("reach") == "1.05"
    assert aligned.text("mean") == f"{values.mean():.0f} ± {values.std():.0f}"


def shows(axial: int, coronal: int, sagittal: int) -> dict[str, str]:
    return {
        "axial": f"slice {axial} of {SIZE[2]}",
        "coronal": f"slice {coronal} of {SIZE[1]}",
        "sagittal": f"slice {sagittal} of {SIZE[0]}",
    }


def position(image: np.ndarray, size: tuple[int, int], u: float, v: float) -> tuple[float, float]:
    """Where a place of a slice, in voxels, stands on its canvas before any zoom; v grows downwards."""
    height, width, _ = image.shape
    scale = min(width / size[0], height / size[1])
    x, y = (n - (count - 1) / 2 for n, count in zip((u, v), size, strict=True))
    return width / 2 + x * scale, height / 2 + y * scale


def test_wheel_keys_slider_click_and_touch_choose_the_slices(aligned):
    aligned.run("goTo([9, 8, 7])")
    image = aligned.picture("axial")
    middle = image.shape[1] / 2, image.shape[0] / 2
    assert aligned.slices() == shows(8, 9, 10)
    aligned.mouse("axial", "mouseWheel", *middle, deltaX=0, deltaY=-200)
    aligned.settle()
    assert aligned.slices() == shows(10, 9, 10)
    assert np.mean(aligned.picture("axial") != image) > 0.3
    aligned.key("axial", "ArrowDown")
    aligned.key("coronal", "ArrowUp")
    aligned.key("sagittal", "PageDown")
    assert aligned.slices() == shows(9, 10, 1)  # ten back, as far as there are any
    aligned.run("(() => { const { slider } = views[1]; slider.value = 3; slider.dispatchEvent(new Event('input')) })()")
    aligned.settle()
    assert aligned.slices() == shows(9, 4, 1)
    aligned.click("axial", *position(image, SIZE[:2], 4, 12))
    assert aligned.slices() == shows(9, 13, 5)
    aligned.touch("axial", middle, (middle[0], middle[1] - 20), (middle[0], middle[1] - 32))
    assert aligned.slices() == shows(14, 13, 5)
    aligned.touch("axial", position(image, SIZE[:2], 5, 5))
    assert aligned.slices() == shows(14, 6, 6)


def test_a_right_drag_sets_the_window_and_the_wheel_zooms_about_the_pointer(aligned):
    def window():
        return aligned.run("[(state.black + state.white) / 2, state.white - state.black]")

    level, width = window()
    aligned.click("axial", 100, 100, button="right", to=(140, 80))
    assert window()[1] > width
    assert window()[0] - level == pytest.approx((window()[1] - width) / 2)  # half as far
    box = aligned.canvas("axial")
    x, y = 150 - box["x"] % 1, 90 - box["y"] % 1  # the wheel tells whole pixels of the page
    held, scale = aligned.run(f"[views[0].toVolume({x}, {y}), views[0].scale]")
    aligned.mouse("axial", "mouseWheel", x, y, deltaX=0, deltaY=-100, modifiers=2)
    aligned.settle()
    np.testing.assert_allclose(aligned.run(f"views[0].toVolume({x}, {y})"), held, atol=1e-9)
    assert aligned.run("views[0].scale") == pytest.approx(1.25 * scale)
    aligned.press('[data-zoom="0"]')
    assert aligned.run("views[0].scale") == pytest.approx(scale)


@pytest.mark.parametrize("orientation", DIRECTIONS)
def test_picked_points_are_settings_of_the_case(browser, tmp_path, orientation):
    volume = coded(DIRECTIONS[orientation])
    browser.open(made(volume), tmp_path)
    browser.run("""
      window.copied = [];
      Object.defineProperty(navigator, "clipboard", { value: { writeText: async (words) => copied.push(words) } })""")
    places = []
    picked = (
        ((6, 7, 8), "axial", None),
        ((11, 3, 2), "axial", "s"),
        ((1, 2, 3), "coronal", "b"),
        ((10, 11, 12), "sagittal", "c"),
    )
    for voxel, view, key in picked:
        browser.run(f"goTo({list(voxel)}); $('radius').value = 4.5")
        browser.settle()
        places.append(volume.to_mm(np.argwhere(volume.voxels == float(browser.text("intensity")))[0][::-1]))
        browser.key(view, key) if key else browser.press('[data-add="seed"]')
    written = browser.text("yaml")
    settings = SegmentSettings.model_validate(yaml.safe_load(written)["segment"])
    (disc,) = settings.cut_planes
    given = [*settings.seeds_mm, *settings.background_mm, disc.point_mm]
    np.testing.assert_allclose(given, places, atol=0.005 + 1e-9)  # two decimals
    across = volume.direction[:, np.argmax(np.abs(volume.direction[0]))]  # a sagittal slice
    np.testing.assert_allclose(np.abs(disc.normal @ across), 1, atol=1e-4)
    assert disc.radius_mm == 4.5
    browser.press("#copy")
    browser.press("#points tr:nth-child(2) button:nth-of-type(2)")
    browser.press("#points tr:nth-child(4) button:nth-of-type(2)")
    whole, seed, cut = browser.run("copied")
    assert whole == written
    assert SegmentSettings.model_validate(yaml.safe_load(seed)).seeds_mm == settings.seeds_mm[1:]
    assert SegmentSettings.model_validate(yaml.safe_load(cut)).cut_planes == (disc,)
    browser.press("#points tr:nth-child(1) button:nth-of-type(3)")  # remove
    rest = SegmentSettings.model_validate(yaml.safe_load(browser.text("yaml"))["segment"])
    assert rest.seeds_mm == settings.seeds_mm[1:]
    browser.press("#points tr:nth-child(1) button:nth-of-type(1)")  # show
    browser.settle()
    np.testing.assert_allclose([float(x) for x in browser.text("lps").split()], places[1], atol=0.005 + 1e-9)
    assert browser.faults == []


def test_voxels_from_the_threshold_upwards_are_coloured(aligned):
    aligned.press('[data-mask="off"]')
    aligned.press("#smooth")
    volume = coded(DIRECTIONS["aligned"])
    threshold = float(np.median(volume.voxels[5, 3:-3, 3:-2]))  # the intensity of a voxel
    aligned.run(f"""(() => {{ const field = $("threshold-value"); field.value = {threshold};
      field.dispatchEvent(new Event("change")); goTo([0, 0, 5]) }})()""")
    image = aligned.picture("axial")
    for u in range(2, SIZE[0]):  # the crosshair stands at 0
        for v in range(2, SIZE[1]):
            x, y = position(image, SIZE[:2], u, v)
            red, green, blue = image[int(y), int(x)]
            above = volume.voxels[5, SIZE[1] - 1 - v, SIZE[0] - 1 - u] >= threshold
            assert (green > red and blue > red) == above
    assert yaml.safe_load(aligned.text("yaml")) == {"segment": {"lower": threshold}}


def test_the_outline_runs_between_the_voxels_inside_and_outside(aligned):
    aligned.press("#smooth")
    aligned.run("goTo([0, 8, 5])")
    image = aligned.picture("coronal")
    mask = np.flip(ball(coded(np.eye(3))).voxels, (1, 2))[:, 8, :] > 0  # [z, x] of the slice, as the page has them
    found = 0
    for z in range(SIZE[2]):
        if z == 5:
            continue  # the crosshair
        for u in range(2, SIZE[0]):
            x, y = position(image, (SIZE[0], SIZE[2]), u - 0.5, SIZE[2] - 1 - z)  # the head is on top
            red, green, blue = image[int(y), int(x) - 1 : int(x) + 2].T
            orange = bool(np.any((red > green + 40) & (green > blue + 40)))
            assert orange == (mask[z, u] != mask[z, u - 1])
            found += orange
    assert found > 8


def test_a_browser_that_cannot_unpack_is_reported(browser, tmp_path):
    browser.open(made(coded(np.eye(3))), tmp_path, before="delete window.DecompressionStream")
    assert "too old to unpack" in browser.text("failure")
    assert not browser.run("$('failure').hidden")


# ---- the file ----


@given(arrays.arrays(np.uint16, st.tuples(*[st.integers(1, 6)] * 3)))
def test_packed_levels_come_back(levels):
    data = zlib.decompress(page.pack(levels))
    half = len(data) // 2
    low, high = (np.frombuffer(part, np.uint8).astype(np.uint16) for part in (data[:half], data[half:]))
    assert np.array_equal((low | high << 8).reshape(levels.shape), levels)


@given(st.floats(-5000, 5000), st.floats(1e-3, 60000).map(lambda width: round(width, 3)), st.integers(0, 2**32 - 1))
def test_intensities_are_kept_to_half_the_step_that_is_stated(low, width, seed):
    voxels = np.random.default_rng(seed).uniform(low, low + width, (3, 4, 5))
    lowest, step = page.scale(voxels)
    levels = np.rint((voxels - lowest) / step)
    assert levels.min() >= 0
    assert levels.max() <= page.MOST_LEVELS + 1
    assert step <= 2.5 * np.ptp(voxels) / page.MOST_LEVELS * (1 + 1e-9)
    assert np.abs(lowest + levels * step - voxels).max() <= step / 2 * (1 + 1e-6)


def test_a_step_of_ct_is_one_unit():
    assert page.scale(np.array([-1024.0, 3071.0])) == (-1024.0, 1.0)


@pytest.mark.parametrize("room", [400_000, 60_000, 4_000])
def test_a_page_holds_what_fits_and_every_voxel_keeps_its_place(room):
    rng = np.random.default_rng(0)
    voxels = rng.normal(300, 50, (60, 50, 40)).astype(np.float32)
    volume = Volume(voxels, (1.5, 1.5, 1.5), (3.0, -20.0, 400.0), DIRECTIONS["oblique"])
    mask = np.zeros(voxels.shape, np.uint8)
    mask[24:28, 15:19, 16:21] = 1
    shown = page.choose(volume, volume.with_voxels(mask), page.TEXT_BYTES + room)
    assert len(base64.b64encode(shown.packed)) <= room
    assert len(shown.notes) == {400_000: 0, 60_000: 1, 4_000: 2}[room]
    index = np.argwhere(np.ones(shown.volume.voxels.shape, bool))
    places = shown.volume.to_mm(index[:, ::-1])
    source = volume.to_index(places)
    np.testing.assert_allclose(source, np.rint(source), atol=1e-9)
    z, y, x = np.rint(source).astype(int).T[::-1]
    assert np.array_equal(shown.volume.voxels[tuple(index.T)], voxels[z, y, x])
    assert np.array_equal(shown.mask[tuple(index.T)], mask[z, y, x] > 0)
    assert shown.mask.any()


def test_without_a_mask_a_large_volume_is_thinned_along_its_finest_axis_first():
    voxels = np.random.default_rng(0).normal(0, 50, (30, 40, 40)).astype(np.float32)
    shown = page.choose(Volume(voxels, (0.4, 0.5, 1.5), (0, 0, 0), np.eye(3)), None, page.TEXT_BYTES + 60_000)
    assert shown.volume.spacing_mm == (0.8, 0.5, 1.5)
    assert np.array_equal(shown.volume.voxels, voxels[:, :, ::2])
    assert "one voxel in 2" in shown.notes[0]


def test_the_same_input_makes_the_same_bytes_and_the_page_needs_nothing_else():
    volume = coded(DIRECTIONS["oblique"])
    text = made(volume)
    assert text == made(volume)
    assert len(text) - len(embedded(text, "voxels")) - len(embedded(text, "mask")) < page.TEXT_BYTES
    words = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"\b(src|href)\s*=|@import|url\(|https?:", words)
    assert "default-src 'none'" in words
    assert not re.search(r"\b(fetch|XMLHttpRequest|import|WebSocket|sendBeacon)\b|https?:", text)


def test_nothing_of_the_record_is_reported_but_what_is_known_to_be_no_name():
    volume = coded(DIRECTIONS["aligned"])
    planted = {"source": "DOE^JOHN", "uid": "1.2.840.113619.2.404", "path": "/home/doe/scans"}
    text = page.render(volume, {"loaded image": volume}, ball(volume), RECORD | planted)
    assert not [word for word in planted.values() if word in text]
    assert text == page.render(volume, {"loaded image": volume}, ball(volume), RECORD)


def test_the_page_tells_figures_warnings_and_obliqueness():
    words = re.sub(r"<script.*?</script>|<style.*?</style>", "", made(coded(DIRECTIONS["oblique"])), flags=re.DOTALL)
    assert "the vessel is &lt;thin&gt; &amp; long" in words
    turned = np.degrees(np.arccos(np.abs(DIRECTIONS["oblique"]).max(axis=0).min()))
    assert f"up to {turned:.1f}° from the patient" in words
    rows = dict(re.findall(r"<tr><th>([^<]*)</th><td>([^<]*)</td></tr>", words))
    assert rows["volume (mL)"] == "0.0345"
    assert rows["mean radius (mm)"] == "1.234"
    assert rows["volume for 1 % of contrast less"] == "+1.2 %"
    assert rows["mean radius for 1 % of contrast less"] == "+0.45 %"
    assert rows["covers of the region&#39;s faces"] == "head 3.1 %"
    assert (rows["seeds"], rows["threshold"]) == ("given", "automatic")
    assert "Threshold, automatic: half way &lt;up&gt;." in words
    assert "upper threshold" not in rows
    assert "segment.lower</text>" in words
    assert words.count("<polyline") == 2
    plain = replace(coded(DIRECTIONS["aligned"]))
    assert "oblique" not in re.sub(r"<script.*?</script>", "", made(plain), flags=re.DOTALL)


def test_the_curve_shows_the_volumes_to_scale():
    table = [{"lower": float(t), "volume_ml": v} for t, v in ((100, 4.0), (120, 3.0), (140, 1.0))]
    (points,) = re.findall(r'points="([^"]*)"', page.threshold_curve({"lower": 120.0, "volume_by_threshold": table}))
    x, y = np.array([pair.split(",") for pair in points.split()], float).T
    np.testing.assert_allclose(np.diff(x), np.diff(x)[0], atol=0.11)  # one decimal
    bottom = y[2] + (y[2] - y[0]) / 3
    np.testing.assert_allclose((bottom - y) / (bottom - y[0]), [1, 0.75, 0.25], atol=0.002)


def test_a_page_to_pick_on_shows_the_loaded_image_within_the_region(tmp_path):
    volume = replace(coded(DIRECTIONS["aligned"]), spacing_mm=(0.7, 0.7, 2.5))
    volume.write(tmp_path / "volume.nrrd")
    (tmp_path / "series.json").write_text('{"modality": null}')
    region = {"region_voxels": {"low": [2, 3, 4], "high": [12, 17, 9]}}
    job = Job(
        "pick",
        {"volume": tmp_path / "volume.nrrd", "series": tmp_path / "series.json"},
        {"page": tmp_path / "pick.html"},
        {"filter": region, "segment": {}, "case": {"filter": region}},
        logging.getLogger("test"),
    )
    pick(job)
    text = (tmp_path / "pick.html").read_text(encoding="utf-8")
    facts = json.loads(embedded(text, "facts"))
    assert facts["size"] == [10, 14, 5]
    corner = np.array(facts["origin_mm"])
    index = np.array(facts["grids"][0]["matrix"]) @ (corner - facts["grids"][0]["origin_mm"])
    np.testing.assert_allclose(index, [11, 16, 4], atol=1e-9)  # the corner to the right and front: the last of x and y
    assert str(tmp_path) not in text
    assert 'id="mask"' not in text


def test_a_real_volume_keeps_its_intensities(real_cases):
    volume = Volume.read(real_cases / "aorta-iliac-mra/aorta.mha")
    text = page.render(volume, {"loaded image": volume})
    assert len(text) < page.LIMIT_BYTES
    facts = json.loads(embedded(text, "facts"))
    data = np.frombuffer(zlib.decompress(base64.b64decode(embedded(text, "voxels"))), np.uint8)
    low, high = data.reshape(2, *facts["size"][::-1]).astype(int)
    intensity = facts["lowest"] + facts["step"] * (low + 256 * high)
    upright = volume.voxels[:, ::-1, ::-1]  # this image's x and y run to the right and front
    assert np.abs(intensity - upright).max() <= facts["step"] / 2 * (1 + 1e-6)
    assert "oblique" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
