# SPDX-License-Identifier: Apache-2.0
"""The printed report: lines that fit on the page and lose no word, pages that fill up, and what the page says."""

import io
import json
import re
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath
from PIL import Image

from pipeline.reporting import printed
from pipeline.reporting.paper import EDGE_PT, HEIGHT_PT, LEAST_PART, SIZE_PT, TEXT_PT, Paper, _wrapped
from pipeline.reporting.printed import printed_report
from pipeline.reporting.tables import number
from tests.support.reported import enrich, leave, make

LETTERS = st.text(st.sampled_from("abcWMi.,:µ²Δ0123456789"), min_size=1, max_size=60)


@given(st.lists(LETTERS, max_size=20), st.floats(20, 500))
def test_lines_fit_and_lose_no_letter(words, width_pt):
    lines = _wrapped(" ".join(words), SIZE_PT, width_pt)
    assert "".join(lines).replace(" ", "") == "".join(words)
    font = FontProperties(size=SIZE_PT)
    for line in lines:
        assert len(line) == 1 or TextToPath().get_text_width_height_descent(line, font, False)[0] <= width_pt


def pages(paper: Paper) -> int:
    return len(re.findall(rb"/Type /Page\b", paper.pdf("title")))


def test_text_goes_on_on_the_next_page():
    paper = Paper("foot")
    lines = int((HEIGHT_PT - 2 * EDGE_PT) / (1.35 * SIZE_PT))
    paper.table([("a", "b")] * lines, (1, 1))
    assert pages(paper) == 1
    paper.table([("a", "b")], (1, 1))
    assert pages(paper) == 2


def test_a_heading_does_not_stand_alone_at_the_foot_of_a_page():
    paper = Paper("foot")
    lines = int((HEIGHT_PT - 2 * EDGE_PT) / (1.35 * SIZE_PT))
    paper.table([("a", "b")] * (lines - 4), (1, 1))
    paper.heading("heading")
    assert len(paper._pages) == 2
    assert [text.get_text() for text in paper._pages[1].texts] == ["heading"]


def test_a_picture_keeps_its_shape_and_shrinks_where_that_saves_a_page(tmp_path):
    Image.new("RGB", (300, 150), "red").save(tmp_path / "red.png")
    paper = Paper("foot")
    heights = []
    for _ in range(4):
        paper.picture(tmp_path / "red.png", "a red field")
        box = paper._pages[-1].axes[-1].get_position()
        width, height = box.width * 595, box.height * HEIGHT_PT
        assert width / height == pytest.approx(2)
        heights.append(height)
    full = TEXT_PT / 2
    assert heights[0] == pytest.approx(full)
    assert all(LEAST_PART * full <= height <= full + 1e-9 for height in heights)


def test_names_stand_two_beside_each_other_and_long_values_below():
    """Half of the lines, so that a pulsatile case with a sac has less than eight pages."""
    paper, rows = Paper("foot"), [(f"name {k}", f"{k} Pa") for k in range(9)]
    paper.pairs([*rows[:4], ("notes", "much to say " * 20), *rows[4:]], "of the sac")
    texts = {text.get_text(): text.get_position() for text in paper._pages[0].texts}
    assert {word for row in rows for word in row} | {"notes", "of the sac"} <= texts.keys()
    for left, right in zip(rows[:8:2], rows[1:8:2], strict=True):
        assert texts[left[0]][1] == texts[right[0]][1]
        assert texts[left[0]][0] < texts[left[1]][0] < texts[right[0]][0] < texts[right[1]][0]
    assert texts["notes"][1] < texts["name 8"][1]


def test_columns_are_as_wide_as_their_words():
    paper = Paper("foot")
    head = ("opening", "role", "imposed (mL/s)", "share of the flow (%)", "largest flow (mL/s)")
    head += (*["mean speed (m/s)"] * 5, "Reynolds number", "Reynolds number at peak flow", "Womersley number")
    printed._table(paper, head, [("inlet", "inlet", *["1.23"] * 11)])
    words = {word for text in paper._pages[0].texts for word in text.get_text().split()}
    assert words == {word for cell in (*head, "inlet", "1.23") for word in cell.split()}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    place = tmp_path_factory.mktemp("printed")
    folder = enrich(leave(place / "left"), place / "results")
    make(folder, folder, still=False, blank=True)
    return folder


class Recorder(Paper):
    """What is set, in words."""

    made: "Recorder"

    def __init__(self, foot: str) -> None:
        super().__init__(foot)
        self.headings, self.words = list[str](), list[str]()
        Recorder.made = self

    def heading(self, text: str, size_pt: float = 13.0) -> None:
        self.headings.append(text)
        super().heading(text, size_pt)

    def _lines(self, lines, *more, **others) -> None:
        self.words += lines
        super()._lines(lines, *more, **others)


def recorded(monkeypatch, folder) -> Recorder:
    monkeypatch.setattr(printed, "Paper", Recorder)
    assert printed_report(folder, "my vessel", "an artery", "1.2.3").startswith(b"%PDF-")
    return Recorder.made


def test_it_says_what_the_page_says(results, monkeypatch):
    paper = recorded(monkeypatch, results)
    assert paper.headings[:3] == ["my vessel", "Read this before the numbers", "At a glance"]
    assert paper.headings[3:] == [
        *("Vessel", "Wall shear stress", "Velocity", "Flow through the openings", "Pressure", "Narrow places", "Sacs"),
        *("How it was computed", "Stages"),
    ]
    text = " ".join(paper.words)
    indices = json.loads((results / "indices.json").read_text())
    for warning in indices["warnings"]:
        assert " ".join(warning.split()) in text
    passed = sum(check["passed"] for check in indices["checks"])
    assert f"{passed} of {len(indices['checks'])} checks passed." in text
    assert f"{number(indices['wall']['shear_mean_pa'])} Pa" in text


def test_sections_that_a_vessel_does_not_have_are_left_out(results, tmp_path, monkeypatch):
    folder = shutil.copytree(results, tmp_path / "case")
    for name in ("series", "segmentation", "centreline", "particles", "grid_convergence"):
        (folder / f"{name}.json").unlink()
    indices = json.loads((folder / "indices.json").read_text())
    indices |= {"openings": [], "pressure_drops": [], "sacs": [], "stenoses": []}
    (folder / "indices.json").write_text(json.dumps(indices))
    for picture in (folder / "figures").iterdir():
        picture.unlink()
    headings = recorded(monkeypatch, folder).headings
    assert not {"Vessel", "Flow through the openings", "Sacs", "Narrow places"} & set(headings)
    assert {"Wall shear stress", "How it was computed"} <= set(headings)


def test_the_same_results_make_the_same_document(results):
    first, again = (io.BytesIO(printed_report(results, "a", "b", "1")).getvalue() for _ in range(2))
    assert first == again
