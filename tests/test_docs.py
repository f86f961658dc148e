# SPDX-License-Identifier: Apache-2.0
"""The documentation: links lead somewhere, pages are short enough to be read, and comments name pages that exist."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from pipeline.case.settings.reference import anchor
from solver.runtime.sources import ROOT

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]

LIMITS = {
    ("README.md", "docs/user-guide.md"): 6_000,
    ("docs/theory.md", "docs/quantities.md", "docs/reliability.md", "docs/performance.md"): 8_400,
    (
        "docs/theory.md",
        "docs/quantities.md",
        "docs/architecture.md",
        "docs/reliability.md",
        "docs/performance.md",
    ): 10_000,
    ("docs/validation.md",): 1_500,
}
"""Words of pages that people read from end to end; generated tables and records on pages of their own do not count."""

CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^()\s]+)\)|src=\"([^\"]+)\"")
GENERATED = re.compile(r"<!-- (ladder|study)[^>]*-->.*?<!-- /\1 -->", re.DOTALL)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """Anchors of a page as GitHub makes them: a number follows where a heading is repeated."""
    found: list[str] = []
    prose = re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL)
    for heading in re.findall(r"^#{1,6} (.+)$", prose, re.MULTILINE):
        plain = anchor(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading))
        found.append(plain)
    return {f"{name}-{found[:at].count(name)}" if name in found[:at] else name for at, name in enumerate(found)}


def words(page: Path) -> int:
    """Words outside of generated tables: what stands between spaces and has a letter or digit."""
    return len(re.findall(r"\S*\w\S*", GENERATED.sub("", text_of(page))))


def broken_links(page: Path) -> list[str]:
    broken = []
    for target in ("".join(found) for found in LINK.findall(CODE.sub("", text_of(page)))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, name = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (name and name not in anchors(file)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_to_a_file_and_a_heading(page):
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A, b\n\n[a](#a-b) [b](#a) [c](none.md) ![d](page.md) [e](page.md#x)\n\n`[f](code.md)`\n")
    assert broken_links(page) == ["#a", "none.md", "page.md#x"]


@pytest.mark.parametrize(("pages", "limit"), LIMITS.items(), ids=lambda value: str(value))
def test_pages_that_are_read_are_short(pages, limit):
    counts = {page: words(ROOT / page) for page in pages}
    assert sum(counts.values()) <= limit, counts


ROOMS = ("solver", "pipeline", "tests", "benchmarks", "config")


def texts_of_code() -> list[str]:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*") if file.suffix in (".py", ".yaml", ".j2")]
    return [text_of(file) for file in [*files, ROOT / "Snakefile", ROOT / "Makefile"]]


def test_pages_and_sections_named_in_code_exist():
    """Comments, messages, templates and case files name pages, some with the beginning of a heading behind a comma."""
    found = [
        each for text in texts_of_code() for each in re.findall(r"\b(docs/[\w/-]+\.md)(?:, ([A-Za-z][\w ]+))?", text)
    ]
    assert [page for page, _ in found if not (ROOT / page).exists()] == []
    named = [(page, section.strip()) for page, section in found if section]
    headings = {page: re.findall(r"^#+ (.+)$", text_of(ROOT / page).lower(), re.MULTILINE) for page, _ in named}
    lost = [(page, name) for page, name in named if not any(h.startswith(name.lower()) for h in headings[page])]
    assert lost == []
    assert ("docs/user-guide.md", "On a cluster") in named


def test_one_version_in_package_citation_and_changelog():
    version = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]["version"]
    citation = yaml.safe_load(text_of(ROOT / "CITATION.cff"))
    released = re.findall(r"^## (\d\S+) - (\S+)$", text_of(ROOT / "CHANGELOG.md"), re.MULTILINE)
    assert (version, citation["version"]) == (released[0][0],) * 2
    assert str(citation["date-released"]) == released[0][1]
