# SPDX-License-Identifier: Apache-2.0
"""The report and the page of all cases as a browser shows them."""

import base64
import csv
import io
import json
import re
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from pipeline.files.mesh import Mesh
from pipeline.haemodynamics.percentiles import weighted_percentiles
from pipeline.haemodynamics.wall_shear_stress import Wall
from tests.pipeline.stages.test_cohort import indices, made
from tests.support import chromium, printed_pages
from tests.support.reported import OPTIONAL, enrich, leave, make
from tests.support.variants import some

COMPLAIN = """
window.complaints = [];
addEventListener("error", (event) => complaints.push(String(event.message)));
addEventListener("unhandledrejection", (event) => complaints.push(String(event.reason)));
for (const kind of ["error", "warn"]) console[kind] = (...texts) => complaints.push(texts.join(" "));
"""
COARSE = """
const context = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, asked) {
  return context.call(this, kind, { ...asked, antialias: false });
};
let plotly;
Object.defineProperty(window, "Plotly", {
  get: () => plotly,
  set: (library) => { plotly = library; plotly.setPlotConfig({ plotGlPixelRatio: 1 }); },
});
"""
"""Draw the view with one point for each of the screen and no smoothing: plotly draws four, of four samples each, which
without a GPU took most of the time here.
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = chromium.start(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The report of a pulsating flow with everything that later stages add; its figures are blank."""
    plain = leave(tmp_path_factory.mktemp("case"))
    folder = tmp_path_factory.mktemp("report")
    make(enrich(plain, tmp_path_factory.mktemp("rich")), folder, more=OPTIONAL, blank=True)
    return folder / "report.html"


@pytest.fixture
def report(browser, page, tmp_path):
    """The report as it opens. Where a test before has opened it, Reset, a fifth of the time of another opening."""
    if not browser.run(f"location.href === {json.dumps(page.as_uri())} && !matchMedia('(pointer: coarse)').matches"):
        browser.screen(1280, 900)
        browser.open(page, tmp_path, before=COMPLAIN + COARSE)
        assert browser.run("document.body.dataset.ready") == "yes"
        return browser
    drawn = browser.run(DRAWN)
    browser.run("scrollTo(0, 0); document.getElementById('reset').click()")
    wait_for_drawing(browser, drawn)
    browser.run("complaints = []")
    return browser


DRAWN = "Number(document.querySelector('#vessel').dataset.drawn)"


def wait_for_drawing(report, before: int) -> None:
    """Until the view has been drawn once more than so many times."""
    report.run(
        f"new Promise((next) => {{ const wait = () => {DRAWN} > {before} ? next(0) : setTimeout(wait, 20); wait(); }})"
    )
    report.run("new Promise((next) => setTimeout(next, 150))")  # plotly draws in the next frame
    report.settle()


def local(browser) -> bool:
    """Whether nothing was asked for but the page itself and what it carries."""
    return all(url.startswith(("file:", "data:", "blob:")) for url in browser.requests) and bool(browser.requests)


def test_the_report_opens_without_complaint_and_without_a_network(report):
    report.run("scrollTo(0, document.body.scrollHeight)")
    report.settle()
    assert report.run("complaints") == []
    assert local(report)
    wide = (  # that of the view comes when the page is printed
        "[...document.querySelectorAll('img[src]')].every((image) => image.complete && image.naturalWidth > 0)"
    )
    assert report.run(wide)


def test_links_of_the_navigation_lead_to_sections_and_every_section_has_one(report):
    links = report.run("[...document.querySelectorAll('nav a')].map((link) => link.getAttribute('href').slice(1))")
    sections = report.run("[...document.querySelectorAll('main > section')].map((section) => section.id)")
    assert links == sections


def coloured(image) -> float:
    """Part of a picture that is neither grey nor white."""
    return float((np.ptp(image, axis=-1) > 40).mean())


def test_the_vessel_is_drawn_and_turns_by_mouse_keys_and_menu(report):
    first = report.shot("#vessel")
    assert coloured(first) > 0.01
    camera = "JSON.stringify(document.querySelector('#vessel').layout.scene.camera.eye)"
    looked = (
        "(({ eye, center }) => ['x', 'y', 'z'].map((axis) => eye[axis] - center[axis]))"
        "(document.querySelector('#vessel').layout.scene.camera)"
    )
    eyes, pictures = [report.run(camera)], [first]
    box = report.run("document.querySelector('#vessel').getBoundingClientRect().toJSON()")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 3
    report.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", buttons=1, clickCount=1)
    for step in range(1, 6):
        report.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + 30 * step, y=y, button="left", buttons=1)
        report.settle()
    report.call("Input.dispatchMouseEvent", type="mouseReleased", x=x + 150, y=y, button="left", clickCount=1)
    look = ["", "document.getElementById('vessel').focus()", "choose('side', 'the patient\\'s left')"]
    report.run(
        "window.choose = (id, value) => { const menu = document.getElementById(id); menu.value = value;"
        " menu.dispatchEvent(new Event('change')); }"
    )
    for script in look:
        if script:
            report.run(script)
        if "focus" in script:
            report.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowUp")
        report.run("new Promise((next) => setTimeout(next, 200))")
        eyes.append(report.run(camera))
        pictures.append(report.shot("#vessel"))
    assert len(set(eyes)) == 4
    for before, after in pairwise(pictures):
        assert (np.abs(before - after).max(axis=-1) > 30).mean() > 0.003
    eye = np.array(report.run(looked))
    np.testing.assert_allclose(eye / np.linalg.norm(eye), [1, 0, 0], atol=1e-6)  # LPS: x to the patient's left
    assert report.run("complaints") == []


def choose(report, name: str, value) -> None:
    """Set a control as a reader would, and wait until the view is drawn again."""
    before = report.run(DRAWN)
    report.run(
        f"(() => {{ const control = document.getElementById('{name}'), value = {json.dumps(value)};"
        " if (control.type === 'checkbox') control.checked = value; else control.value = value;"
        " control.dispatchEvent(new Event(control.type === 'range' ? 'input' : 'change')); })()"
    )
    wait_for_drawing(report, before - 1 if name == "side" else before)  # which draws nothing


def trace(report, number: int, *keys: str) -> list:
    """Keys of a trace as plotly holds them."""
    given = f"document.querySelector('#vessel')._fullData[{number}]"
    plain = "((value) => (ArrayBuffer.isView(value) ? Array.from(value) : value))"
    return [report.run(f"{plain}({given}['{key}'])") for key in keys]


def test_every_quantity_is_explained_and_changes_colours_and_legend(report):
    options = report.run("[...document.querySelectorAll('#quantity option')].map(({ value, text }) => [value, text])")
    assert len(options) == 12  # eleven scalars and glass
    seen = set()
    for value, text in options:
        choose(report, "quantity", value)
        legend, meaning = (
            report.run(f"document.getElementById('{name}').textContent") for name in ("legend", "meaning")
        )
        picture = report.shot("#vessel")
        if value == "glass":
            assert legend == ""
        else:
            assert legend.startswith(text)
            assert meaning.lower().startswith(f"{text}. ".lower())
            assert len(meaning) > len(text) + 20
            assert coloured(picture) > 0.02  # of parts only the sac
        seen.add(picture.tobytes())
    assert len(seen) == len(options)
    assert report.run("complaints") == []


def test_numbers_of_parts_have_a_legend_of_names_and_two_colours(report):
    names = report.run("[...document.querySelectorAll('#quantity option')].map(({ text }) => text)")
    choose(report, "quantity", str(names.index("sacs")))
    assert report.run("[...document.querySelectorAll('#legend .part')].map((part) => part.textContent)") == [
        "vessel",
        "sac 1",
    ]
    assert report.run("document.querySelectorAll('#legend .band').length") == 0
    assert report.run("document.getElementById('log').disabled")
    intensity, mode = trace(report, 0, "intensity", "intensitymode")
    assert mode == "cell"
    assert set(intensity) == {0, 1}


def test_the_range_of_colours_follows_percentile_and_logarithm(report):
    """The pipe's stress grows evenly towards the head from 0.5 to 1.5 Pa."""
    x, y, z, *corners = (np.array(each) for each in trace(report, 0, *"xyzijk"))
    mesh = Mesh(np.column_stack((x, y, z)), np.column_stack(corners).astype(int), np.zeros(len(corners[0]), np.int8))
    areas = Wall.of(mesh).areas_mm2

    def expected(*percents: float) -> list[float]:
        return weighted_percentiles(0.5 + (z - z.min()) / np.ptp(z), areas, percents)

    assert trace(report, 0, "cmin", "cmax") == pytest.approx([0, *expected(99)], abs=0.01)
    choose(report, "percentile", 80)
    assert trace(report, 0, "cmin", "cmax") == pytest.approx([0, *expected(80)], abs=0.01)
    assert report.run("document.getElementById('percentile-told').textContent") == "80 % of the wall"
    choose(report, "log", True)
    found = trace(report, 0, "cmin", "cmax")
    assert found == pytest.approx(np.log10(expected(20, 80)), abs=0.01)
    ticks = report.run("[...document.querySelectorAll('#legend .ticks span')].map((tick) => tick.textContent)")
    assert ticks == ["1"]
    choose(report, "quantity", "8")  # another quantity begins as the page says
    assert report.run("document.getElementById('percentile').value") == "99"
    report.run("document.getElementById('reset').click()")
    report.run("new Promise((next) => setTimeout(next, 800))")
    assert trace(report, 0, "cmin", "cmax") == pytest.approx([0, *expected(99)], abs=0.01)
    assert report.run("complaints") == []


def test_what_is_cut_away_is_gone_exactly_up_to_the_plane(report):
    """Half of the pipe towards the head, whose wall then ends in the plane, with values mixed along the cut edges."""
    z, corners = trace(report, 0, "z", "i")
    low, high = min(z), max(z)
    choose(report, "cut", "head")
    cut_z, *corners_of = trace(report, 0, "z", "i", "j", "k")
    used = np.array(cut_z)[np.unique(np.concatenate(corners_of).astype(int))]
    assert used.max() == pytest.approx((low + high) / 2, abs=1e-4)  # float32
    assert used.min() == pytest.approx(low, abs=1e-4)
    (values,) = trace(report, 0, "intensity")
    assert len(values) == len(cut_z) > len(z)
    rim = np.isclose(cut_z, (low + high) / 2, atol=1e-4)
    np.testing.assert_allclose(np.array(values)[rim], 1.0, atol=0.01)  # half-way from 0.5 to 1.5 Pa
    assert len(corners_of[0]) < 0.7 * len(corners)
    choose(report, "cut", "")
    assert len(trace(report, 0, "i")[0]) == len(corners)


def test_streamlines_and_particles_are_layers_and_particles_move(report):
    """The wall is of glass then, and in colours again after that, or when a quantity is chosen."""

    def visible() -> list[bool]:  # wall, glass, streamlines, particles
        return [trace(report, number, "visible")[0] for number in range(4)]

    assert visible() == [True, False, False, False]
    choose(report, "lines", True)
    assert visible() == [False, True, True, False]
    assert report.run("document.getElementById('quantity').value") == "glass"
    choose(report, "lines", False)
    assert visible() == [True, False, False, False]
    choose(report, "lines", True)
    choose(report, "particles", True)
    choose(report, "quantity", "0")
    assert visible() == [True, False, True, True]
    assert report.run("document.getElementById('legend').textContent").count("speed (m/s)") == 1
    (before,) = trace(report, 3, "x")
    report.run("document.getElementById('play').click()")
    report.run("new Promise((next) => setTimeout(next, 1500))")
    report.run("document.getElementById('play').click()")
    (after,) = trace(report, 3, "x")
    assert len(before) > 0
    assert len(after) > 0
    assert before != after
    assert report.run("complaints") == []


def test_labels_do_not_overprint_and_the_vessel_fills_the_frame(report):
    boxes = (
        "[...document.querySelectorAll('#frame, #labels span:not([hidden])')].map((label) => {"
        " const { left, top, right, bottom } = label.getBoundingClientRect(); return [left, top, right, bottom]; })"
    )
    for width in (1280, 390):
        report.screen(width, 900)
        report.run("new Promise((next) => setTimeout(next, 400))")
        for side in ("front", "the patient's left", "head", "initial view"):
            choose(report, "side", side)
            report.run("new Promise((next) => setTimeout(next, 300))")
            report.run("document.getElementById('frame').scrollIntoView()")
            (frame, *found) = np.array(report.run(boxes))
            assert len(found) > 3
            for k, one in enumerate(found):
                for other in found[k + 1 :]:
                    assert (np.minimum(one[2:], other[2:]) < np.maximum(one[:2], other[:2]) + 0.5).any()
                assert (one[:2] >= frame[:2] - 1).all()
                assert (one[2:] <= frame[2:] + 1).all()
            picture = report.shot("#vessel")
            rows, columns = np.nonzero(np.ptp(picture, axis=-1) > 40)
            filled = max(np.ptp(rows) / len(picture), np.ptp(columns) / picture.shape[1])
            assert 0.85 < filled < 1.0  # 0.92 by the wall; labels have colours, too
    report.screen(1280, 900)


def test_controls_work_by_keyboard(report):
    focus = "document.getElementById('{}').focus()"

    def key(name: str, code: int = 0, text: str = "") -> None:
        more = {"windowsVirtualKeyCode": code} | ({"text": text} if text else {})
        report.call("Input.dispatchKeyEvent", type="keyDown", key=name, code=name, **more)
        report.call("Input.dispatchKeyEvent", type="keyUp", key=name, code=name, windowsVirtualKeyCode=code)
        report.run("new Promise((next) => setTimeout(next, 500))")

    report.run(focus.format("percentile"))
    key("ArrowLeft", 37)
    assert report.run("document.getElementById('percentile-told').textContent") == "98.5 % of the wall"
    report.run(focus.format("lines"))
    key(" ", 32, " ")
    assert trace(report, 2, "visible") == [True]
    report.run(focus.format("reset"))
    key("Enter", 13, "\r")
    assert trace(report, 2, "visible") == [False]
    assert report.run("document.getElementById('percentile-told').textContent") == "99 % of the wall"


def test_the_view_is_saved_with_labels_and_legend(report):
    url = report.run(
        "(() => { let url; const click = HTMLAnchorElement.prototype.click;"
        " HTMLAnchorElement.prototype.click = function () { url = this.href; };"
        " document.getElementById('save').click(); HTMLAnchorElement.prototype.click = click; return url; })()"
    )
    saved = np.asarray(Image.open(io.BytesIO(base64.b64decode(url.split(",")[1]))).convert("RGB")).astype(int)
    shown = report.run(
        "[document.getElementById('labels').clientWidth, document.getElementById('labels').clientHeight]"
    )
    assert saved.shape[1] >= shown[0]
    view, legend = np.split(saved, [round(shown[1] * saved.shape[1] / shown[0])])
    assert coloured(view) > 0.05
    assert coloured(legend) > 0.05


def test_the_wheel_scrolls_the_page_until_the_view_is_taken(report):
    report.run("document.getElementById('turn').scrollIntoView()")
    report.settle()
    box = report.run("document.querySelector('#vessel').getBoundingClientRect().toJSON()")
    place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 3}

    def wheel() -> float:
        before = report.run("scrollY")
        report.call("Input.dispatchMouseEvent", type="mouseWheel", deltaX=0, deltaY=120, **place)
        report.run("new Promise((next) => setTimeout(next, 300))")
        return report.run("scrollY") - before

    assert wheel() > 0
    report.run("document.getElementById('turn').scrollIntoView()")
    report.call("Input.dispatchMouseEvent", type="mousePressed", button="left", buttons=1, clickCount=1, **place)
    report.call("Input.dispatchMouseEvent", type="mouseReleased", button="left", clickCount=1, **place)
    assert wheel() == 0


def test_a_phone_shows_the_report_in_its_width_and_scrolls_over_the_view(browser, page, tmp_path):
    browser.screen(390, 844, touch=True)
    browser.open(page, tmp_path, before=COMPLAIN + COARSE)
    assert browser.run("document.scrollingElement.scrollWidth <= innerWidth")
    assert browser.run("innerWidth") == 390
    covers = (
        "document.elementFromPoint(...(({ x, y, width, height }) => [x + width / 2, y + height / 3])"
        "(document.querySelector('#vessel').getBoundingClientRect())).id"
    )
    browser.run("document.getElementById('frame').scrollIntoView()")
    assert browser.run(covers) == "wake"
    browser.run("document.getElementById('wake').click()")
    assert browser.run(covers) != "wake"
    browser.run("document.getElementById('rest').click()")
    assert browser.run(covers) == "wake"
    assert browser.run("complaints") == []
    browser.screen(1280, 900)


def test_on_paper_the_report_has_pages_and_nothing_to_touch(report):
    assert report.run("document.querySelector('#printed').getClientRects().length") == 0
    pdf = base64.b64decode(report.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) > 3
    report.call("Emulation.setEmulatedMedia", media="print")
    try:
        hidden = (
            "[...document.querySelectorAll('.interactive, .moving, nav, button, select')]"
            ".every((each) => each.getClientRects().length === 0)"
        )
        assert report.run(hidden)
        assert report.run("document.querySelector('#wall figure').getClientRects().length") == 1
        assert report.run("document.querySelector('#printed').naturalWidth") > 1000  # the view, taken before printing
        assert report.run("document.querySelector('#printed').getClientRects().length") == 1
    finally:
        report.call("Emulation.setEmulatedMedia", media="")


@pytest.fixture(scope="module")
def plain_page(tmp_path_factory):
    """The report of a steady flow in a pipe, without what later stages add."""
    folder = tmp_path_factory.mktemp("plain")
    make(leave(tmp_path_factory.mktemp("steady")), folder, blank=True)
    return folder / "report.html"


@pytest.mark.parametrize("which", some(["page", "plain_page"], "page"))
def test_on_paper_no_heading_is_left_alone_and_no_page_half_empty(browser, which, request, tmp_path):
    """At most 8 pages, of a pulsatile flow with a sac, bands, contrast and other flows, too.

    The last page ends where the text does. On the others at most a picture with its caption and the lines above it had
    no room: two fifths of a page.
    """
    page = request.getfixturevalue(which)
    browser.screen(1280, 900)
    browser.open(page, tmp_path, before=COMPLAIN + COARSE)
    sheets = printed_pages.printed(browser, margin_mm=12)
    browser.open("<body data-ready='yes'>", tmp_path)  # its blocks became links
    assert 2 <= len(sheets) <= 8
    kinds = [block.kind for sheet in sheets for block in sheet.blocks]
    assert kinds.count("h2") == page.read_text(encoding="utf-8").count("<h2>") - 1  # but that of the view to turn
    assert [block for sheet in sheets for block in sheet.orphans] == []
    assert min(sheet.filled for sheet in sheets[:-1]) > 0.6


# ---- all cases ----


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cohort")
    factors = np.random.default_rng(7).lognormal(0, 2, 40)  # from below 0.1 to above 10: numbers sort unlike words
    reported = {f"case-{k}": indices(float(factor), passed=k % 9 != 4) for k, factor in enumerate(factors)}
    del reported["case-3"]["wall"]["shear_mean_pa"]
    made(folder, reported)
    return folder


@pytest.fixture
def cohort(browser, cases, tmp_path):
    browser.screen(1280, 900)
    browser.open(cases / "cohort.html", tmp_path, before=COMPLAIN)
    yield browser
    assert browser.run("complaints") == []
    assert local(browser)


def column(browser, heading: str) -> tuple[int, list[str]]:
    """Number of a column and what its cells sort by, from top to bottom."""
    heads = browser.run("[...document.querySelectorAll('thead th')].map((head) => head.textContent.trim())")
    index = heads.index(heading)
    return index, browser.run(
        f"[...document.querySelectorAll('tbody tr')].map((row) => row.cells[{index}].dataset.value)"
    )


@pytest.mark.parametrize("width", [800, 390])
def test_what_is_said_of_the_table_of_cases_stays_in_sight_however_wide_it_is(cohort, width):
    cohort.screen(width, 900)
    said = "document.querySelector('caption span').getBoundingClientRect()"
    for along in (0, 300):
        cohort.run(f"document.querySelector('.scroll').scrollLeft = {along}")
        assert cohort.run("document.querySelector('.scroll').scrollWidth > innerWidth")
        assert cohort.run(f"{said}.left >= 0 && {said}.right <= innerWidth")
    cohort.screen(1280, 900)


def test_tables_sort_by_number_both_ways_by_mouse_and_keys_and_gaps_stay_last(cohort):
    index, _ = column(cohort, "mean wall shear stress (Pa)")
    head = f"document.querySelectorAll('thead th')[{index}]"
    cohort.run(f"{head}.querySelector('button').click()")
    *up, gap = column(cohort, "mean wall shear stress (Pa)")[1]
    numbers = [float(value) for value in up]
    assert gap == ""
    assert numbers == sorted(numbers)
    assert up != sorted(up)
    assert cohort.run(f"{head}.getAttribute('aria-sort')") == "ascending"
    cohort.run(f"{head}.querySelector('button').focus()")
    cohort.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", text="\r")
    cohort.call("Input.dispatchKeyEvent", type="keyUp", key="Enter")
    *down, gap = column(cohort, "mean wall shear stress (Pa)")[1]
    assert (down, gap) == (up[::-1], "")
    assert cohort.run(f"{head}.getAttribute('aria-sort')") == "descending"
    cohort.run("document.querySelector('thead button').click()")
    assert column(cohort, "case")[1] == [f"case-{k}" for k in range(40)]  # 2 before 10
    assert cohort.run("document.querySelectorAll('[aria-sort=none]').length") == cohort.run(
        "document.querySelectorAll('thead th').length - 1"
    )


def test_the_filter_shows_what_holds_all_its_words(cohort):
    def typed(text: str) -> list[str]:
        cohort.run(
            f"(() => {{ const field = document.getElementById('filter'); field.value = '{text}';"
            " field.dispatchEvent(new Event('input')); })()"
        )
        return sorted(cohort.run("[...document.querySelectorAll('tbody tr:not([hidden])')].map((row) => row.id)"))

    assert typed("CASE-3 of") == sorted(["case-case-3", *(f"case-case-3{k}" for k in range(10))])
    assert cohort.run("document.getElementById('shown').textContent") == "11 of 40 shown"
    assert typed("failed nodes") == sorted(f"case-case-{k}" for k in range(40) if k % 9 == 4)
    assert len(typed("")) == 40


def test_the_download_holds_the_numbers_of_the_table(cohort):
    link = cohort.run("document.getElementById('download').href")
    rows = list(csv.DictReader(io.StringIO(base64.b64decode(link.split(",")[1]).decode())))
    cohort.run("document.querySelector('thead button').click()")
    inflow, names = column(cohort, "inflow (mL/s)")[1], column(cohort, "case")[1]
    assert {row["case"]: row["inflow_ml_s"] for row in rows} == dict(zip(names, inflow, strict=True))


def test_a_dot_leads_to_its_row_even_where_the_filter_hid_it(cohort):
    cohort.run("document.getElementById('filter').value = 'case-7'")
    cohort.run("document.getElementById('filter').dispatchEvent(new Event('input'))")
    cohort.run("location.hash = '#case-case-12'")
    cohort.run("new Promise((next) => setTimeout(next, 100))")
    assert not cohort.run("document.getElementById('case-case-12').hidden")


def test_a_phone_shows_all_cases_in_its_width(browser, cases, tmp_path):
    browser.screen(390, 844, touch=True)
    browser.open(cases / "cohort.html", tmp_path)
    assert browser.run("document.scrollingElement.scrollWidth <= innerWidth")
    browser.screen(1280, 900)
