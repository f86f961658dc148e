# SPDX-License-Identifier: Apache-2.0
"""The ladder of validation says what was measured, and says so where it was not."""

import json

import pytest

from solver.runtime.sources import ROOT
from validation.evidence import FOLDER, PAGES, SUMMARY, Evidence, documents, read, write
from validation.goals import Goal, number, order
from validation.record_pages import Place, missed, results, written

SUMMARY_PAGE = (
    "# Summary\n\n<!-- ladder missed -->\nold\n<!-- /ladder -->\n\n<!-- ladder results -->\nold\n<!-- /ladder -->\n"
)
PAGE = (
    "# Page\n\nBy hand.\n\n<!-- ladder -->\nold\n<!-- /ladder -->\n\n## A\n\n<!-- ladder:a -->\nold\n<!-- /ladder -->\n"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    (tmp_path / "validation").mkdir()
    (tmp_path / "validation.md").write_text(SUMMARY_PAGE)
    (tmp_path / "validation/page.md").write_text(PAGE)
    return tmp_path


def measure(error: float, **how) -> None:
    with Evidence("a", "Case A", "theory") as case:
        case.table(("nodes", "error"), [(8, 0.25), (16, error)], "Errors.")
        case.draw(lambda figure: figure.subplots().plot((8, 16), (0.25, error)), "Error against nodes")
        case.reach("error", error, at_most=0.1, **how)


def test_order_is_the_slope_of_the_errors():
    assert order((10, 20, 40), (8e-2, 2e-2, 5e-3)) == pytest.approx(2)


def test_what_was_measured_stands_on_the_page(folder):
    measure(0.05)
    write(folder)
    page = (folder / "validation/page.md").read_text()
    assert page.startswith("# Page\n\nBy hand.\n")
    assert "old" not in page
    assert "| Case A | theory | error | ≤ 0.1 | 0.05 | reached |" in page
    assert "| 16 | 0.05 |" in page
    assert "![Error against nodes](../figures/ladder-a.png)" in page
    assert (folder / "figures/ladder-a.png").stat().st_size < 120_000
    summary = (folder / "validation.md").read_text()
    assert "<!-- ladder missed -->\n\nNone.\n" in summary
    assert "| [A](validation/page.md#a) | 1 |  |" in summary
    write(folder)
    assert (folder / "validation/page.md").read_text() == page
    assert (folder / "validation.md").read_text() == summary


def test_a_case_that_fails_leaves_no_figure_of_before(folder):
    measure(0.05)
    with pytest.raises(AssertionError, match=r"Case A: error: 0\.2, where ≤ 0\.1 is held"):
        measure(0.2)
    assert not (folder / "figures/ladder-a.png").exists()
    write(folder)
    page = (folder / "validation/page.md").read_text()
    assert "| error | ≤ 0.1 | 0.2 | **failed** |" in page
    assert "**Failed**: error: 0.2" in page
    with pytest.raises(ZeroDivisionError), Evidence("a", "Case A", "theory") as case:
        case.reach("error", 1 / 0, at_most=0.1)
    write(folder)
    assert "**failed**: ZeroDivisionError" in (folder / "validation/page.md").read_text()


def test_a_case_that_did_not_run_says_so(folder):
    write(folder)
    page = (folder / "validation/page.md").read_text()
    assert "| a |  |  |  |  | **not measured** |" in page
    assert "**Not measured.**" in page


def test_a_case_without_a_place_on_the_page_is_refused(folder):
    measure(0.05)
    record = json.loads((folder / "evidence/a.json").read_text())
    with pytest.raises(ValueError, match="no page of docs/ has a marker <!-- ladder:b -->"):
        written({"validation/page.md": PAGE}, {"b": record})


def test_the_summary_names_the_goal_that_was_missed_by_most(folder):
    goals = [Goal(f"{run}: error", error, 0.1, 1, 1.0, "why") for run, error in (("8", 0.3), ("16", 0.2), ("32", 0.1))]
    goals.append(Goal("32: order", 1.5, 1.8, -1, 1.0, "why"))
    record = {"goals": [vars(goal) for goal in goals], "failure": ""}
    at = {"a": Place("validation/page.md", "Case A, b"), "not-run": Place("validation.md", "B")}
    rows = missed("validation.md", at, {"a": record}).splitlines()[2:]
    link = "[Case A, b](validation/page.md#case-a-b)"
    assert rows == [f"| {link} | 8: error | 0.3 | ≤ 0.1 | 2 of 3 |", f"| {link} | 32: order | 1.5 | ≥ 1.8 | 1 of 1 |"]
    assert results("validation.md", at, {"a": record}).splitlines()[2:] == [
        f"| {link} | 1 | 3 |",
        "| [B](validation.md#b) | not measured |  |",
    ]


def test_a_goal_out_of_reach_needs_its_reason_and_is_dropped_once_reached(folder):
    measure(0.2, held=0.3, why="too coarse")
    write(folder)
    assert "| 0.2 | **not reached**: too coarse |" in (folder / "validation/page.md").read_text()
    with pytest.raises(AssertionError, match="ask no less of it"):
        measure(0.05, held=0.3, why="too coarse")
    with pytest.raises(AssertionError, match=r"where ≤ 0\.3 is held"):
        measure(0.4, held=0.3, why="too coarse")
    with pytest.raises(ValueError, match="needs its reason"):
        measure(0.2, held=0.3)


def test_nothing_measured_is_no_success(monkeypatch):
    monkeypatch.delenv(FOLDER, raising=False)
    with pytest.raises(AssertionError, match="nothing was to be reached"), Evidence("a", "Case A", "theory"):
        pass
    assert Goal("error", float("nan"), 1.0, 1, 1.0).fault
    assert Goal("order", float("nan"), 1.0, -1, 1.0).fault


def test_numbers_are_short():
    assert [number(value) for value in (3, 0.5, 1e-12, 2.0, 123456.0)] == ["3", "0.5", "1.00e-12", "2", "1.23e5"]


def test_the_page_is_what_the_records_say():
    """A number of the ladder edited by hand, or kept without writing the page, shows here."""
    pages = documents(ROOT / "docs" / SUMMARY, ROOT / "docs" / PAGES)
    assert written(pages, read(ROOT / "docs/evidence")) == pages
    figures = {figure["file"] for record in read(ROOT / "docs/evidence").values() for figure in record["figures"]}
    assert {f"figures/{file.name}" for file in (ROOT / "docs/figures").glob("ladder-*.png")} == figures
