# SPDX-License-Identifier: Apache-2.0
"""The page to write the case file on: it shows what the stage would grow, and what is copied is a case that runs."""

import json
import logging
import re
import time
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import yaml

from pipeline.case.case_file import Case, read_cohort
from pipeline.case.settings.base import Name, parse
from pipeline.case.settings.images import FilterSettings, LoadSettings, SegmentSettings
from pipeline.files.volume import Volume
from pipeline.filtering.region import crop, region_box
from pipeline.segmentation import page
from pipeline.segmentation.barrier import barrier
from pipeline.segmentation.beyond import departures
from pipeline.segmentation.case_shown import PLACEHOLDER
from pipeline.segmentation.refusals import MINIMUM_VOXELS
from pipeline.segmentation.region_growing import fill_holes, grow
from pipeline.stages.filter import MINIMUM_SIZE, filter_volume
from pipeline.stages.load import load
from pipeline.stages.pick import make_page
from pipeline.stages.segment import segment
from pipeline.stages.surface import extract_surface
from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT
from tests.pipeline.segmentation.test_left_vessel import ventricle
from tests.pipeline.segmentation.test_segmentation_page import Views, embedded
from tests.support import chromium
from tests.support.left_vessels import LEFT, VESSELS
from tests.support.real_cases import RealCases
from tests.support.variants import some
from tests.support.vessels import HALF_WAY, LUMEN, TISSUE, centre_line_mm, oblique, tube_volume

LOG = logging.getLogger("test")

GIVEN = {"input": {"volume": "image.nrrd"}, "solve": {"inlets": {"*": {"flow_ml_s": 4.0}}}}
"""A case file to begin with."""


def made(loaded: Volume, case: dict = GIVEN, modality: str | None = None) -> str:
    """The page that the stage makes for a case file."""
    sections = {
        "filter": FilterSettings.model_validate(case.get("filter", {})).model_dump(mode="json"),
        "segment": SegmentSettings.model_validate(case.get("segment", {})).model_dump(mode="json"),
    }
    return make_page(loaded, modality, sections | {"case": case})


class Picker(Views):
    """The browser with what a user of this page does."""

    def grown(self) -> dict:
        """What the worker tells of the region, once it has answered."""
        deadline = time.monotonic() + 60
        while self.run("asked !== answered"):
            assert time.monotonic() < deadline, self.faults
            time.sleep(0.01)
        self.settle()
        return self.run("grown && grown.told")

    def seed(self, place_mm) -> None:
        """Put the crosshair at a place and press Seed."""
        self.run(f"goTo(toVoxel({list(map(float, place_mm))}))")
        self.press('[data-add="seed"]')

    def type(self, selector: str, text: str) -> None:
        """Type into a field, over what it holds."""
        self.run(
            f"(() => {{ const each = document.querySelector({json.dumps(selector)}); each.focus(); each.select() }})()"
        )
        self.call("Input.insertText", text=text)
        self.settle()

    def threshold(self, value: float) -> None:
        self.run(f"setThreshold({value})")
        self.grown()

    def click_surface(self, mode: str, place_mm) -> None:
        """Choose what a click does, turn the surface until the place is in front, and click there."""
        self.press(f'[data-mode="{mode}"]')
        self.run("$('solid').scrollIntoView({ block: 'center' })")
        where = """(place) => { for (let n = 0; n < 24; n++) {
          solid.yaw = n * Math.PI / 12; paintSolid();
          const [x, y] = lens().project(toPlaces(toVoxel(place))), face = faceUnder(x, y);
          const found = face < 0 ? [1e9] : fromPlaces(triple3(grown.parts.centres, face)).map((c, k) => c - place[k]);
          const box = $("solid").getBoundingClientRect();
          if (Math.hypot(...found) < 4) return [box.x + x, box.y + y];
        } }"""
        x, y = self.run(f"({where})({list(map(float, place_mm))})")
        for kind, held in (("mousePressed", 1), ("mouseReleased", 0)):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=held, clickCount=1)
        self.settle()
        self.run("scrollTo(0, 0)")

    def doubts(self) -> list[str]:
        self.grown()
        return self.run("[...document.querySelectorAll('#doubts p')].map((line) => line.textContent)")

    def case(self) -> dict:
        """The case file as it stands on the page."""
        self.settle()
        return yaml.safe_load(self.text("yaml"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = chromium.start(tmp_path_factory.mktemp("profile"), Picker)
    browser.screen(1280, 900)
    yield browser
    browser.close()


def whole(volume: Volume) -> Volume:
    """The volume in whole intensities, which the page keeps exactly."""
    return volume.with_voxels(np.rint(volume.voxels).astype(np.int16))


def as_filtered(loaded: Volume) -> Volume:
    """The volume as the filter stage leaves it without smoothing, where its voxels are cubes."""
    return loaded.with_voxels(loaded.voxels.astype(np.float32))


# ---- what grows ----


@pytest.mark.parametrize("number", some(range(6), 1, 2))
def test_the_page_grows_the_voxels_that_the_stage_grows(browser, tmp_path, number):
    """Random fields, orientations, boxes, seeds and cut planes; thresholds in any order, since each goes on from the
    last.
    """
    rng = np.random.default_rng(100 + number)
    size = rng.integers(14, 30, 3)
    field = np.add.accumulate(rng.normal(0, 100, size[::-1]), axis=number % 3)  # neighbours are alike along an axis
    place = tuple(rng.uniform(0.4, 2, 3)), tuple(rng.normal(0, 50, 3)), oblique(rng.uniform(-180, 180, 3))
    loaded = whole(Volume(500 + field, *place))
    browser.open(made(loaded), tmp_path)
    ends = np.sort(rng.integers(0, browser.run("facts.size"), (2, 3)), axis=0)
    browser.run(f"setBox({ends[0].tolist()}, {(ends[1] + 4).tolist()})")
    part = crop(loaded, *region_box(loaded, FilterSettings.model_validate(browser.case()["filter"])))
    seeds = [rng.integers(0, part.voxels.shape[::-1]) for _ in range(2)]
    for seed in seeds:
        browser.seed(part.to_mm(seed))
    if number % 2:
        browser.run(f"goTo(toVoxel({part.to_mm(seeds[0] + 2).tolist()})); $('radius').value = 6")
        browser.press('[data-add="cut"]')
    chosen = SegmentSettings.model_validate(browser.case()["segment"])
    cut = barrier(chosen.cut_planes, part)
    voxels = part.voxels if cut is None else np.where(cut, -np.inf, part.voxels)
    in_the_field = [voxels[tuple(seed[::-1])] for seed in seeds if np.isfinite(voxels[tuple(seed[::-1])])]
    for threshold in rng.permutation(np.percentile(in_the_field, [0, 40, 90]) - 1).round():
        browser.threshold(threshold)
        reported = browser.grown()
        usable = [tuple(seed) for seed in seeds if voxels[tuple(seed[::-1])] >= threshold]
        mask = grow(voxels, usable, threshold)
        assert reported["count"] == mask.sum()
        first = grow(voxels, [tuple(seeds[0])], threshold)
        if tuple(seeds[0]) in usable:
            assert reported["first"] == first.sum()
            assert reported["filled"] == fill_holes(mask)[0].sum() - mask.sum()
    assert browser.faults == []


def test_the_volume_is_that_of_the_stage_within_what_its_filter_changes(browser, tmp_path):
    """The page grows before smoothing and resampling. Noise of a tenth of the contrast moves the wall of a tube four
    voxels wide by less than a tenth of a voxel on average: 8 % of its volume.
    """
    loaded = whole(tube_volume(radius_mm=2.2, noise=30))
    middle = centre_line_mm()[1000]
    browser.open(made(loaded), tmp_path)
    browser.seed(middle)
    browser.threshold(HALF_WAY)
    reported = browser.grown()
    page_ml = (reported["count"] + reported["filled"]) * np.prod(loaded.spacing_mm) / 1000
    found = segment(
        filter_volume(loaded, FilterSettings()), SegmentSettings(seeds_mm=(middle,), lower=HALF_WAY), loaded
    )
    assert page_ml == pytest.approx(found.record["volume_ml"], rel=0.08)
    assert browser.text("volume") == f"{page_ml:.3g} mL"
    assert browser.doubts() == []
    assert not browser.run("$('fine').hidden")


@pytest.mark.parametrize("number", some(range(4), 3))
def test_a_first_seed_brings_a_threshold_between_tissue_and_lumen(browser, tmp_path, number):
    """Air, a bone as large as the tube, and noise do not count; a quarter of the contrast is left on both sides."""
    rng = np.random.default_rng(40 + number)
    shape = {"radius_mm": rng.uniform(1.2, 3), "noise": rng.uniform(0, 40), "bone": bool(number % 2)}
    loaded = tube_volume(**shape, spacing_mm=(0.6, 0.6, 0.6))
    voxels = loaded.voxels * rng.uniform(0.5, 3)
    scale = voxels.max() / loaded.voxels.max()
    voxels[:, :, : 3 * (number // 2)] = -1000  # air beside the body
    browser.open(made(whole(loaded.with_voxels(voxels)), modality="CT"), tmp_path)
    browser.seed(centre_line_mm()[rng.integers(600, 1400)])
    lower = browser.case()["segment"]["lower"] / scale
    assert TISSUE + 0.25 * (LUMEN - TISSUE) < lower < LUMEN - 0.25 * (LUMEN - TISSUE)


@pytest.mark.parametrize("number", some(range(4), 1))
def test_a_given_seed_without_a_threshold_shows_what_the_run_would_grow(browser, tmp_path, number):
    """The preview is there at once, at a threshold within a tenth of the contrast of the one that the stage finds; the
    case file stays without one until the user sets it."""
    rng = np.random.default_rng(60 + number)
    shape = {"radius_mm": rng.uniform(1.2, 3), "noise": rng.uniform(0, 40), "bone": bool(number % 2)}
    loaded = whole(tube_volume(**shape, spacing_mm=(0.6, 0.6, 0.6)))
    seed = centre_line_mm()[rng.integers(600, 1400)].tolist()
    browser.open(made(loaded, GIVEN | {"segment": {"seeds_mm": [seed]}}, "CT"), tmp_path)
    assert browser.grown()["count"] > 100
    found = segment(filter_volume(loaded, FilterSettings()), SegmentSettings(seeds_mm=(seed,)), loaded, "CT")
    shown = browser.run("state.threshold")
    assert shown == pytest.approx(found.record["lower"], abs=0.1 * (LUMEN - TISSUE))
    assert "by itself" in browser.text("volume-note")
    assert "lower" not in browser.case()["segment"]
    browser.threshold(HALF_WAY)
    assert "by itself" not in browser.text("volume-note")
    assert browser.case()["segment"]["lower"] == HALF_WAY


def test_nothing_is_coloured_but_what_hangs_on_a_seed(browser, tmp_path):
    voxels = np.zeros((12, 12, 12), np.int16)
    voxels[6, 2:10, 2:4] = voxels[6, 2:10, 8:10] = 500  # two vessels, one of which gets the seed
    voxels[0, 0, 0] = 1000
    loaded = Volume(voxels, (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3))
    browser.open(made(loaded), tmp_path)
    browser.press("#smooth")
    browser.key("axial", "x")
    browser.run("goTo([2, 5, 6])")

    def orange(x: float, y: float) -> bool:
        image, (u, v) = browser.picture("axial"), browser.run(f"views[0].toPage([{x}, {y}, 6])")
        red, _, blue = image[int(v), int(u)]
        return bool(red > blue + 40)

    assert not orange(2, 5)
    browser.press('[data-add="seed"]')
    browser.threshold(250)
    assert orange(3, 8)
    assert not orange(9, 8)
    browser.run("setBox([0, 0, 0], [12, 7, 12])")
    browser.grown()
    assert orange(3, 5)
    assert not orange(3, 8)


# ---- leaks, in the words of the stage ----


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.?\d*", text)]


def words(text: str) -> str:
    return re.sub(r"-?\d+\.?\d*", "#", text)


REFUSED = {
    "nearly into bone": ({"radius_mm": 2.9, "noise": 4, "bone": True}, {"lower": 75.0, "border_fraction": 1.0}),
    "into bone": ({"radius_mm": 2.9, "noise": 4, "bone": True}, {"lower": 60.0, "border_fraction": 1.0}),
    "over a face": ({"radius_mm": 2.0, "noise": 0, "blur_mm": 1.2}, {"lower": 40.5}),
    "much noise": ({"radius_mm": 2.0, "noise": 80}, {"lower": 195.0}),
    "uneven": ({"radius_mm": 2.0, "noise": 60}, {"lower": 150.0}),
    "dark seed": ({"radius_mm": 2.0, "noise": 4}, {"lower": 420.0}),
}
"""A tube, and settings of the segmentation by which the stage refuses it."""


@pytest.mark.parametrize("fault", some(REFUSED, "over a face", "dark seed"))
def test_what_the_stage_refuses_the_page_tells_in_the_same_words(browser, tmp_path, fault):
    shape, settings = REFUSED[fault]
    loaded = whole(tube_volume(**shape, spacing_mm=(0.5, 0.5, 0.5)))
    middle = loaded.to_mm(np.rint(loaded.to_index(centre_line_mm()[1000]))).tolist()
    given = settings | {"seeds_mm": [middle]}
    with pytest.raises(StageError) as refusal:
        segment(as_filtered(loaded), SegmentSettings.model_validate(given), loaded)
    browser.open(made(loaded, GIVEN | {"segment": given}), tmp_path)
    said, reported = str(refusal.value), browser.doubts()
    assert browser.run("$('fine').hidden")
    if fault == "dark seed":  # the page has no filter, and looks for no better seed
        said = said.replace("filtered ", "").split(";")[0] + ": change the threshold or move the seed"
    if fault.endswith("into bone"):  # the stage has tried what it advises; the page has the least that is clear of it
        assert re.search(r"\): raise segment\.lower to \d+, narrow", reported[0])
        said = said.rpartition("As it is: ")[2]  # the stage has tried to leave bone out, too
        said, reported = said.split("): ")[0], [text.split("): ")[0] for text in reported]
    if fault == "over a face":  # the page has the widest face, the stage the first that is no vessel, and why
        said, reported = (
            [re.sub("anterior|posterior", "one", each).split(". The run")[0] for each in texts]
            for texts in ([said.replace(", and around", ". The run")], reported)
        )
        (said,) = said
    (same,) = [text for text in reported if words(said).startswith(words(text))]  # the stage adds what to set
    first = numbers(said)[: len(numbers(same))]
    np.testing.assert_allclose(numbers(same), first, rtol=0.02, atol=0.11)  # levels are whole, and shown so


def test_a_flood_of_a_whole_page_is_reported_as_a_leak_and_shows_no_green(browser, tmp_path):
    """More voxels than the worker looks at closely, all of which grow."""
    loaded = Volume(np.full((110, 100, 100), 7, np.int16), (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), np.eye(3))
    browser.open(made(loaded), tmp_path)
    browser.seed((50.0, 50.0, 50.0))
    browser.threshold(7)
    assert browser.grown()["count"] == loaded.voxels.size
    (doubt,) = browser.doubts()
    assert "the mask covers 100% of the" in doubt
    assert browser.run("$('fine').hidden")
    assert browser.text("volume") == "1100 mL"


# ---- what has left the vessel ----


def in_whole_numbers(mask: np.ndarray, voxel_mm: float) -> Volume:
    return Volume(np.where(mask, 300, 0).astype(np.int16), (voxel_mm,) * 3, (10.0, -20.0, 30.0), np.eye(3))


def of_a_mask(mask: np.ndarray, voxel_mm: float, seed: tuple[int, int, int], **settings) -> tuple[Volume, dict]:
    """An image of a mask, and a case that grows from a seed."""
    loaded = in_whole_numbers(mask, voxel_mm)
    chosen = {"seeds_mm": [loaded.to_mm(seed).tolist()], "lower": 150.0, "border_fraction": 1.0} | settings
    return loaded, GIVEN | {"segment": chosen}


@pytest.mark.parametrize(
    ("kind", "seeds"),
    some(
        product(LEFT | VESSELS, (range(4300, 4301), range(4301, 4320))),
        ("heart", range(4300, 4301)),
        ("narrow", range(4300, 4301)),
    ),
)
def test_what_has_left_the_vessel_is_what_the_stage_finds(browser, tmp_path, kind, seeds):
    """Chambers of hearts, by place; true vessels have none. Touches, which the stage only doubts, it has alone. A box
    of too many voxels is looked at on coarser cubes, where the place is right to two of them.
    """
    for seed in seeds:
        phantom = (LEFT | VESSELS)[kind](seed)
        browser.open(made(*of_a_mask(phantom.mask, phantom.voxel_mm, phantom.seed)), tmp_path)
        found = departures(phantom.mask, [phantom.seed], phantom.voxel_mm)
        expected = [each for each in found if "pass each other" not in each.what]
        left = browser.grown()["left"]
        assert [each["clear"] for each in left] == [each.clear for each in expected], phantom.words
        for each, other in zip(left, expected, strict=True):
            if each["pitch"] == phantom.voxel_mm:
                assert (each["what"], each["voxel"]) == (other.what, list(other.place[::-1])), phantom.words
            else:
                apart_mm = phantom.voxel_mm * np.linalg.norm(np.subtract(each["voxel"], other.place[::-1]))
                assert apart_mm < 2 * each["pitch"], phantom.words
        assert browser.faults == []


def test_a_chamber_behind_a_valve_is_reported_with_place_and_setting(browser, tmp_path):
    """The stage refuses it, and takes the setting that the page names; the page, with it, says what the run does."""
    phantom = ventricle(4.0)
    loaded, case = of_a_mask(phantom.mask, 1.0, phantom.seed)
    browser.open(made(loaded, case), tmp_path)
    (doubt,) = browser.doubts()
    assert browser.run("$('fine').hidden")
    settings = SegmentSettings.model_validate(case["segment"])
    with pytest.raises(StageError, match="the mask has left the vessel") as refusal:
        segment(as_filtered(loaded), settings, loaded)
    assert doubt.split(": the run refuses it")[0] == str(refusal.value).split(";")[0]
    least_mm = float(re.search(r"segment\.least_radius_mm: ([\d.]+)", doubt)[1])
    assert f"segment.least_radius_mm: {least_mm:g}," in str(refusal.value)
    browser.open(made(loaded, GIVEN | {"segment": case["segment"] | {"least_radius_mm": least_mm}}), tmp_path)
    assert browser.doubts() == []
    assert f"narrower than segment.least_radius_mm = {least_mm:g}" in browser.text("volume-note")
    at_one = {"least_radius_mm": least_mm, "method": "threshold"}  # by which alone it is refused or not
    segment(as_filtered(loaded), settings.model_copy(update=at_one), loaded)
    browser.open(made(loaded, GIVEN | {"segment": case["segment"] | {"beyond": "accept"}}), tmp_path)
    (doubt,) = browser.doubts()
    assert "may have left the vessel" in doubt


@pytest.mark.parametrize(("across", "along", "most"), some([(4, 3, 1.2e6), (2, 1, 2e5)], (2, 1, 2e5)))
def test_a_heart_of_many_voxels_is_judged_on_coarser_cubes(browser, tmp_path, across, along, most):
    """Slices thicker than pixels, and a box of more cubes than are looked at: the same chamber, within two of these. Of
    millions of voxels, and of fewer on a page that looks at fewer.
    """
    phantom = ventricle(6.0)
    fine = np.repeat(np.repeat(np.repeat(phantom.mask, along, axis=0), across, axis=1), across, axis=2)
    loaded, case = of_a_mask(fine, 1 / across, (0, 0, 0))
    loaded = Volume(loaded.voxels, (1 / across, 1 / across, 1 / along), loaded.origin_mm, loaded.direction)
    x, y, z = phantom.seed
    case["segment"]["seeds_mm"] = [loaded.to_mm((across * x + 1, across * y + 1, along * z + along // 2)).tolist()]
    limit = "MOST_CUBES = 1.2e6"
    text = made(loaded, case)
    assert limit in text
    browser.open(text.replace(limit, f"MOST_CUBES = {most}"), tmp_path)
    (left,) = browser.grown()["left"]
    (expected,) = departures(phantom.mask, [phantom.seed], 1.0)
    assert left["clear"]
    assert re.match(r"it ends there in a closed body of up to 1[56] mm", left["what"])
    assert browser.run(f"toMm({left['voxel']})")[2] == pytest.approx(30 + expected.place[0], abs=2 * left["pitch"] + 1)


# ---- windows ----


def test_the_opening_window_shows_the_vessel_of_a_ct_angiography():
    """Lumens of 150 to 600 HU in a body with fat, muscle, lung, bone and much air: the lumen stands out from muscle,
    which is in the lower half of the grey scale, and fat is dark, but not black.
    """
    for number in range(12):
        rng = np.random.default_rng(number)
        lumen = rng.uniform(150, 600)
        shares = rng.dirichlet([6, 2, 3, 3, 0.7]) * 0.99
        levels = [(-1000, 10), (-800, 80), (-100, 20), (50, 20), (rng.uniform(500, 900), 200)]
        voxels = np.concatenate(
            [
                rng.normal(mean, spread, int(40_000 * share))
                for (mean, spread), share in zip(levels, shares, strict=True)
            ]
            + [rng.normal(lumen, 20, 400)]
        )
        (name, black, white), *others = page.windows(voxels, {}, ct=True)
        assert name == "image"
        shade = {
            key: (level - black) / (white - black) for key, level in (("lumen", lumen), ("muscle", 50), ("fat", -100))
        }
        assert shade["lumen"] > shade["muscle"] + 0.1
        assert shade["muscle"] < 0.5
        assert 0 <= shade["fat"] < 0.3
        assert [key for key, *_ in others] == ["CT angiography", "soft tissue", "bone", "lung", "full range"]


def test_presets_in_hounsfield_units_belong_to_ct_alone(browser, tmp_path):
    loaded = whole(tube_volume())
    for modality, expected in (("CT", True), ("MR", False), (None, False)):
        facts = json.loads(embedded(made(loaded, modality=modality), "facts"))
        assert ("lung" in [name for name, *_ in facts["windows"]]) == expected


# ---- the box ----


def test_the_box_is_dragged_in_every_view_and_becomes_the_region_of_the_filter(browser, tmp_path):
    loaded = whole(tube_volume(spacing_mm=(0.5, 0.5, 0.8), direction=oblique((170.0, 30.0, -60.0))))
    browser.open(made(loaded), tmp_path)
    size = browser.run("facts.size")
    browser.run("goTo(facts.size.map((n) => n >> 1))")
    assert "filter" not in browser.case()
    wanted = {"low": [2, 3, 4], "high": [size[0] - 3, size[1] - 4, size[2] - 2]}
    for view, across, down in (("axial", 0, 1), ("coronal", 0, 2), ("sagittal", 1, 2)):
        number = ["axial", "coronal", "sagittal"].index(view)
        for end in ("low", "high"):
            corner = "[0, 1, 2].map((axis) => box.{0}[axis] - 0.5)"
            start = browser.run(f"views[{number}].toPage({corner.format(end)})")
            index = browser.run("[...state.cursor]")
            index[across], index[down] = wanted[end][across] - 0.5, wanted[end][down] - 0.5
            target = browser.run(f"views[{number}].toPage({index})")
            inward = [1 if t > s else -1 for s, t in zip(start, target, strict=True)]
            browser.click(view, start[0] + inward[0], start[1] + inward[1], to=tuple(target))
    assert browser.run("box") == wanted
    corner = browser.run("views[0].toPage([box.low[0] - 0.5, box.low[1] - 0.5, box.low[2]])")
    browser.touch("axial", corner, browser.run("views[0].toPage([4.5, 5.5, 0])"))
    assert browser.run("[...box.low]") == [5, 6, 4]
    wanted["low"] = [5, 6, 4]
    region = FilterSettings.model_validate(browser.case()["filter"])
    part = crop(loaded, *region_box(loaded, region))
    corners = np.array([browser.run(f"toMm({index})") for index in (wanted["low"], [n - 1 for n in wanted["high"]])])
    found = np.sort(part.to_index(corners), axis=0)
    np.testing.assert_allclose(found, [[0, 0, 0], np.array(part.voxels.shape[::-1]) - 1], atol=1e-6)
    again = json.loads(embedded(made(loaded, GIVEN | {"filter": browser.case()["filter"]}), "facts"))
    assert again["size"] == (np.array(wanted["high"]) - wanted["low"]).tolist()
    assert browser.faults == []


def test_a_box_on_a_thinned_page_covers_the_voxels_that_stand_for_it(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "MOST_VOXELS", 4000)
    loaded = whole(tube_volume())
    browser.open(made(loaded), tmp_path)
    assert np.prod(browser.run("facts.size")) <= 4000
    assert "make this page again" in browser.run("document.querySelector('aside').textContent")
    browser.run("setBox([2, 2, 2], facts.size)")
    region = browser.case()["filter"]["region_voxels"]
    stride = np.rint(np.array(browser.run("SPACING")) / loaded.spacing_mm)
    np.testing.assert_array_equal(region["low"], 2 * stride)
    np.testing.assert_array_equal(region["high"], loaded.voxels.shape[::-1])


# ---- the case file ----


def run_case(folder: Path, text: str, monkeypatch) -> tuple[Case, list[str]]:
    """Validate a copied case file in its project, and run load, filter, segment and surface on its image."""
    (folder / "config/cases").mkdir(parents=True)
    (folder / "config/cases/case1.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(folder)
    case = read_cohort({"cases": ["case1"]})["case1"]
    loaded, facts = load(Path(case.input.volume), case.load, LOG)
    found = segment(filter_volume(loaded, case.filter), case.segment, loaded, facts.modality)
    return case, list(extract_surface(found.occupancy, case.surface, LOG).openings)


@pytest.mark.parametrize("orientation", some(["aligned", "oblique"], "oblique"))
def test_what_is_copied_is_a_case_that_runs_with_the_marked_openings(browser, tmp_path, monkeypatch, orientation):
    turn = {"aligned": np.diag([-1.0, -1.0, 1.0]), "oblique": oblique((20.0, -160.0, 75.0))}[orientation]
    loaded = whole(tube_volume(radius_mm=2.5, noise=10, spacing_mm=(0.6, 0.6, 0.6), direction=turn))
    loaded.write(tmp_path / "image.nrrd")
    line = centre_line_mm() @ turn.T
    ends = [line[np.abs(centre_line_mm()[:, 1] - y).argmin()] for y in (1.0, 24.5)]
    browser.open(made(loaded), tmp_path)
    browser.run("""window.copied = [];
      Object.defineProperty(navigator, "clipboard", { value: { writeText: async (words) => copied.push(words) } })""")
    browser.seed(line[1000])
    browser.threshold(HALF_WAY)
    browser.press("#box-around")
    browser.grown()
    for place in ends:
        browser.click_surface("opening", place)
    browser.type("#openings tr:nth-child(1) .name", "vein")
    browser.type("#openings tr:nth-child(2) .name", "artery")
    browser.run("""(() => { const [first, second] = document.querySelectorAll("#openings select");
      second.value = "inlet"; second.dispatchEvent(new Event("change")); })()""")
    browser.run("""(() => { const first = document.querySelector("#openings select");
      first.value = "outlet"; first.dispatchEvent(new Event("change")); })()""")
    browser.type("#openings tr:nth-child(2) input[type=number]", "2.5")
    assert browser.text("missing") == ""
    browser.press("#copy")
    (text,) = browser.run("copied")
    case, found = run_case(tmp_path, text, monkeypatch)
    assert {key: inlet.flow_ml_s for key, inlet in case.solve.inlets.items()} == {"artery": 2.5}
    assert {(each.name, each.role) for each in found} == {("vein", "outlet"), ("artery", "inlet")}
    for each in found:
        place = ends[1] if each.name == "artery" else ends[0]
        assert np.linalg.norm(np.array(each.centre_mm) - place) < 2.5  # a radius
    again = made(loaded, yaml.safe_load(text))
    browser.open(again, tmp_path)
    browser.grown()
    assert yaml.safe_load(browser.text("yaml")) == yaml.safe_load(text)
    assert browser.faults == []


@pytest.mark.parametrize("number", some(range(3), 1))
def test_a_cut_plane_marked_on_the_surface_parts_the_vessel(browser, tmp_path, number):
    """Across the vessel within 25 degrees, in tubes from three voxels of radius on, and wide enough to part it."""
    rng = np.random.default_rng(60 + number)
    loaded = whole(tube_volume(radius_mm=rng.uniform(1.4, 2.8), noise=5, direction=oblique(rng.uniform(-180, 180, 3))))
    line = centre_line_mm() @ loaded.direction.T
    seed, cut = (400, 1400, 400)[number], int(rng.integers(800, 1100))
    browser.open(made(loaded), tmp_path)
    browser.seed(line[seed])
    browser.threshold(HALF_WAY)
    before = browser.grown()["count"]
    browser.click_surface("cut", line[cut])
    after = browser.grown()["count"]
    assert 0.2 * before < after < 0.8 * before
    (plane,) = SegmentSettings.model_validate(browser.case()["segment"]).cut_planes
    along = line[cut + 20] - line[cut - 20]
    assert abs(np.dot(plane.normal, along)) > 0.9 * np.linalg.norm(plane.normal) * np.linalg.norm(along)
    settings = SegmentSettings(seeds_mm=(line[seed],), method="threshold", lower=HALF_WAY, cut_planes=(plane,))
    found = segment(as_filtered(loaded), settings, loaded)
    assert not [warning for warning in found.record["warnings"] if "cut_planes" in warning]
    assert found.record["voxels"] == pytest.approx(after, rel=0.01)  # a seed is rounded to the nearest voxel, not more
    browser.press("#cuts button:nth-of-type(3)")
    assert browser.grown()["count"] == before
    assert browser.faults == []


def test_settings_that_the_page_does_not_touch_stay_in_the_case_file(browser, tmp_path):
    given = GIVEN | {
        "vessel": "carotid",
        "load": {"phase": 2},
        "filter": {"smoothing": "nonlocal"},
        "segment": {"method": "confidence", "seeds_voxel": [[12, 12, 9]], "upper": 900.0, "lower": 100.0},
        "surface": {
            "extend_radii": 2.0,
            "openings": [{"name": "a.1", "role": "inlet", "near_mm": [1.0, 2.0, 3.0], "within_mm": 9.0}],
        },
        "solve": {"inlets": {"a.1": {"flow_ml_s": 3.0, "profile": "plug"}}, "blood": {"model": "casson"}},
    }
    loaded = whole(tube_volume(spacing_mm=(0.6, 0.6, 0.6)))
    browser.open(made(loaded, given), tmp_path)
    copied = browser.case()
    seeds = copied["segment"].pop("seeds_mm")
    np.testing.assert_allclose(seeds, [loaded.to_mm([12, 12, 9])], atol=0.005)
    del given["segment"]["seeds_voxel"]
    assert copied == given


def test_the_page_is_made_from_the_settings_that_a_case_hands_over(tmp_path, monkeypatch):
    loaded = whole(tube_volume(spacing_mm=(0.8, 0.8, 0.8)))
    loaded.write(tmp_path / "image.nrrd")
    monkeypatch.chdir(tmp_path)
    given = GIVEN | {"segment": {"seeds_voxel": [[9, 9, 7]], "leak_growth": 1.7}, "filter": {"spacing_mm": 0.5}}
    settings = json.loads(parse(Case, given, "case1.yaml").settings("pick"))
    facts = json.loads(embedded(make_page(loaded, None, settings), "facts"))
    assert facts["grow"]["leak_growth"] == 1.7
    np.testing.assert_allclose(facts["case"]["segment"].pop("seeds_mm"), [loaded.to_mm([9, 9, 7])])
    assert facts["case"] == given | {"segment": {"leak_growth": 1.7, "background_mm": []}}


@pytest.mark.parametrize("path", ["/archive/DOE_JOHN", "~/DOE_JOHN", "C:\\scans\\DOE_JOHN", "//vault/share/DOE_JOHN"])
def test_a_path_that_may_lead_to_the_patient_is_left_out_and_its_placeholder_refused(browser, tmp_path, path):
    given = GIVEN | {
        "input": {"dicom": [path, "data/patients/case1"]},
        "description": "of DOE^JOHN",
        "report": {"title": "DOE"},
        "load": {"series": "1.2.840.113619.2.404"},
    }
    text = made(whole(tube_volume(spacing_mm=(0.8, 0.8, 0.8))), given)
    assert not re.search(r"DOE|archive|scans|vault|1\.2\.840", text)
    browser.open(text, tmp_path)
    copied = browser.case()
    assert copied["input"]["dicom"] == [PLACEHOLDER, "data/patients/case1"]
    assert PLACEHOLDER in browser.text("missing")
    with pytest.raises(StageError, match=rf"case1.yaml: input.dicom.* = .*{PLACEHOLDER}.*: no such file or folder"):
        parse(Case, copied, "case1.yaml")


def test_an_inlet_without_a_flow_is_missed_on_the_page_and_refused(browser, tmp_path):
    given = {"input": {"geometry": {"shape": "cavity", "length_mm": 10}}, "solve": {}}
    browser.open(made(whole(tube_volume(spacing_mm=(0.8, 0.8, 0.8))), given), tmp_path)
    browser.settle()
    assert "the flow through each inlet" in browser.text("missing")
    with pytest.raises(StageError, match=r"flow_ml_s.*a valid number.*mL/s"):
        parse(Case, browser.case(), "case1.yaml")


def test_the_page_needs_no_network_and_its_worker_is_its_own(browser, tmp_path):
    text = made(whole(tube_volume()))
    browser.open(text, tmp_path)
    browser.seed(centre_line_mm()[1000])
    browser.grown()
    assert all(url.startswith(("file:", "blob:")) for url in browser.requests)
    plain = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert "default-src 'none'" in plain
    assert not re.search(r"\b(src|href)\s*=|@import|url\(|https?:", plain)
    assert not re.search(r"\b(fetch|XMLHttpRequest|import|importScripts|WebSocket|sendBeacon)\b|https?:", text)


# ---- real images ----


def real(cases: RealCases) -> tuple[Volume, str | None]:
    loaded, facts = load(cases / "av-fistula-mra/avf_float_32.nii.gz", LoadSettings(), LOG)
    return loaded, facts.modality


@pytest.mark.slow
def test_on_a_real_image_the_page_grows_the_volume_of_the_stage(browser, tmp_path, real_cases):
    """Its fistula has 3.0 mL (README.txt there); slices of 1 mm become 0.72 mm in the filter, which changes 1 %."""
    loaded, modality = real(real_cases)
    browser.open(made(loaded, modality=modality), tmp_path)
    browser.seed(loaded.to_mm([18, 46, 11]))
    assert 0.3 < browser.grown()["count"] / 5840 < 1.5  # at the threshold that is proposed
    browser.threshold(800)
    reported = browser.grown()
    assert reported["count"] == 5840
    settings = SegmentSettings.model_validate(browser.case()["segment"])
    found = segment(filter_volume(loaded, FilterSettings(smoothing="none")), settings, loaded, modality)
    assert reported["count"] * np.prod(loaded.spacing_mm) / 1000 == pytest.approx(found.record["volume_ml"], rel=0.02)
    assert browser.doubts() == []


def test_the_opening_window_shows_the_aorta_of_a_real_ct_angiography(real_cases):
    loaded, _ = load(real_cases / "chest-cta-dissection/ct_cropped.nii.gz", LoadSettings(), LOG)
    aorta = Volume.read(real_cases / "chest-cta-dissection/aorta_true_lumen.nii.gz").voxels > 0
    _, black, white = page.windows(loaded.voxels, {}, ct=True)[0]
    assert 0.5 < (np.median(loaded.voxels[aorta]) - black) / (white - black) < 1


@pytest.mark.slow
def test_a_thinned_page_leads_to_one_with_all_voxels_of_its_box(browser, tmp_path, real_cases):
    """The right carotid of a real MR: seed and threshold of its README.txt, a box of 50 mm. Slices of 1.5 mm become
    0.41 mm in the filter, by a spline that rounds the vessel's edges: 10 % of a volume of five voxels across.
    """
    loaded, facts = load(real_cases / "head-arteries-mr/dicom", LoadSettings(), LOG)
    browser.open(made(loaded, modality=facts.modality), tmp_path)
    assert np.prod(browser.run("facts.size")) < loaded.voxels.size
    browser.seed(loaded.to_mm([192, 244, 25]))
    browser.threshold(950)
    browser.run("$('box-width').value = 50")
    browser.press("#box-here")
    coarse, case = browser.grown(), browser.case()
    coarse_mm3 = np.prod(browser.run("SPACING"))
    browser.open(made(loaded, case, facts.modality), tmp_path)
    np.testing.assert_allclose(browser.run("SPACING"), loaded.spacing_mm)
    fine = browser.grown()
    fine_ml = fine["count"] * np.prod(loaded.spacing_mm) / 1000
    assert coarse["count"] * coarse_mm3 / 1000 == pytest.approx(fine_ml, rel=0.05)  # every second voxel
    settings = FilterSettings.model_validate(case["filter"] | {"smoothing": "none"})
    found = segment(
        filter_volume(loaded, settings), SegmentSettings.model_validate(case["segment"]), loaded, facts.modality
    )
    assert fine_ml == pytest.approx(found.record["volume_ml"], rel=0.1)


@pytest.mark.slow
def test_on_a_real_image_the_copied_case_runs_to_a_surface(browser, tmp_path, real_cases, monkeypatch):
    loaded, modality = real(real_cases)
    loaded.write(tmp_path / "image.nrrd")
    browser.open(made(loaded, modality=modality), tmp_path)
    browser.seed(loaded.to_mm([18, 46, 11]))
    browser.threshold(800)
    ends = {"feeder": [18.4, 3.5, 6.7], "drain": [69.5, 12.4, 5.2]}  # voxels: two of the four ends
    for place in ends.values():
        browser.click_surface("opening", loaded.to_mm(place))
    for row, name in enumerate(ends, 1):
        browser.type(f"#openings tr:nth-child({row}) .name", name)
    case, found = run_case(tmp_path, browser.text("yaml"), monkeypatch)
    assert case.solve.inlets["feeder"].flow_ml_s == 4.0
    places = {each.name: loaded.to_index(each.centre_mm) for each in found}
    for name, place in ends.items():
        assert np.linalg.norm((places[name] - place) * loaded.spacing_mm) < 4


def test_limits_of_the_page_are_those_of_the_stages():
    script = (ROOT / "pipeline/segmentation/page.pick.js").read_text(encoding="utf-8")
    assert f"LEAST_VOXELS = {MINIMUM_VOXELS};" in script
    assert f"LEAST_BOX = {MINIMUM_SIZE};" in script
    (pattern,) = [each.pattern for each in get_args(Name)[1].metadata if getattr(each, "pattern", None)]
    assert f"NAME = /{pattern}/;" in script
