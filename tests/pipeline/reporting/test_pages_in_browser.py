# SPDX-License-Identifier: Apache-2.0
"""The report and the page of all cases as a browser shows them."""

import base64
import csv
import io
import re
from itertools import pairwise

import numpy as np
import pytest

from tests.pipeline.stages.test_cohort import indices, made
from tests.support import chromium
from tests.support.reported import OPTIONAL, enrich, leave, make

COMPLAIN = """
window.complaints = [];
addEventListener("error", (event) => complaints.push(String(event.message)));
addEventListener("unhandledrejection", (event) => complaints.push(String(event.reason)));
for (const kind of ["error", "warn"]) console[kind] = (...texts) => complaints.push(texts.join(" "));
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = chromium.start(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The report of a pulsating flow with everything that later stages add."""
    plain = leave(tmp_path_factory.mktemp("case"))
    folder = tmp_path_factory.mktemp("report")
    make(enrich(plain, tmp_path_factory.mktemp("rich")), folder, more=OPTIONAL)
    return folder / "report.html"


@pytest.fixture
def report(browser, page, tmp_path):
    browser.screen(1280, 900)
    browser.open(page, tmp_path, before=COMPLAIN)
    assert browser.run("document.body.dataset.ready") == "yes"
    return browser


def local(browser) -> bool:
    """Whether nothing was asked for but the page itself and what it carries."""
    return all(url.startswith(("file:", "data:", "blob:")) for url in browser.requests) and bool(browser.requests)


def test_the_report_opens_without_complaint_and_without_a_network(report):
    report.run("scrollTo(0, document.body.scrollHeight)")
    report.settle()
    assert report.run("complaints") == []
    assert local(report)
    wide = "[...document.images].every((image) => image.complete && image.naturalWidth > 0)"
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
    np.testing.assert_allclose(
        report.run("(({ x, y, z }) => [x, y, z])(document.querySelector('#vessel').layout.scene.camera.eye)"),
        [1.05, 0, 0],  # LPS: x to the patient's left
    )
    assert report.run("complaints") == []


def test_every_quantity_changes_the_colours_and_the_title_of_the_bar(report):
    options = report.run("[...document.querySelectorAll('#quantity option')].map(({ value, text }) => [value, text])")
    assert len(options) == 10  # nine scalars and the streamlines
    seen = set()
    for value, text in options:
        report.run(
            f"(() => {{ const menu = document.getElementById('quantity'); menu.value = '{value}';"
            " menu.dispatchEvent(new Event('change')); })()"
        )
        shown = f"document.querySelector('#vessel').dataset.shown === '{value}'"
        report.run(f"new Promise((next) => {{ const wait = () => {shown} ? next(0) : setTimeout(wait, 20); wait(); }})")
        report.settle()
        title = report.run(
            "[...document.querySelectorAll('#vessel .infolayer [class*=title]')]"
            ".map((each) => each.textContent).join('|')"
        )
        assert ("speed (m/s)" if value == "lines" else text) in title
        picture = report.shot("#vessel")
        assert coloured(picture[: int(0.85 * len(picture))]) > 0.005
        seen.add(picture.tobytes())
    assert len(seen) == len(options)
    assert report.run("complaints") == []


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
    browser.open(page, tmp_path, before=COMPLAIN)
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
    finally:
        report.call("Emulation.setEmulatedMedia", media="")


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
