# SPDX-License-Identifier: Apache-2.0
"""Paper: a PDF of headings, paragraphs, tables and pictures, set one below the other on pages.

Made by matplotlib alone, so that it is the same on every machine and needs no browser.
"""

import io
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from matplotlib import rc_context
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath
from PIL import Image

from pipeline.reporting.figures import FAINT, INK

WIDTH_PT, HEIGHT_PT, EDGE_PT = 595.0, 842.0, 48.0
"""Of a page (A4) and its margin, points of 1/72 inch."""
TEXT_PT = WIDTH_PT - 2 * EDGE_PT
LINE = 1.35
"""Distance of lines over the size of letters."""
GAP_PT, SIZE_PT, SMALL_PT, SMALLEST_PT = 6.0, 9.0, 7.5, 6.5
FEW, MANY = 3, 9
"""Columns of a table up to which letters are as in text, and from which on they are the smallest."""
LONG = 60
"""Letters of a value that is too long to stand beside another."""
LEAST_PART = 0.65
"""Of its height, to which a picture may shrink so that it fits on the page."""
SPARE = 1.03
"""Letters are set a little wider than they are measured, by their hints and the bearings at both ends."""
DOTS_PER_INCH = 170
"""Of pictures, at most: what a printer shows."""


class Paper:
    """Pages that fill up from the top.

    Parameters
    ----------
    foot : stands below each page, before its number.
    """

    def __init__(self, foot: str) -> None:
        self._foot, self._pages, self._down = foot, list[Figure](), HEIGHT_PT

    def heading(self, text: str, size_pt: float = 13.0) -> None:
        """A heading, with room for some lines below it on the same page."""
        self._need(LINE * size_pt + 6 * LINE * SIZE_PT)
        self._down += GAP_PT if self._down > EDGE_PT else 0
        self._text(text, size_pt, weight="bold")

    def paragraph(self, text: str, size_pt: float = SIZE_PT, colour: str = INK) -> None:
        """Lines of text.

        Parameters
        ----------
        text : of any length, broken into lines.
        size_pt : of the letters.
        colour : of the letters, as Matplotlib takes it.
        """
        self._text(text, size_pt, colour=colour)
        self._down += GAP_PT / 2

    def table(self, rows: Sequence[Sequence[str]], shares: Sequence[float], head: Sequence[str] = ()) -> None:
        """Rows of cells that wrap; a row is never parted.

        Parameters
        ----------
        rows : cells of each.
        shares : of the page's width, of each column.
        head : above the columns.
        """
        widths = [TEXT_PT * share / sum(shares) for share in shares]
        for k, row in enumerate([head, *rows] if head else rows):
            size, weight = _size_pt(len(widths)), "bold" if head and not k else "normal"
            cells = [_wrapped(cell, size, width - GAP_PT, weight) for cell, width in zip(row, widths, strict=True)]
            self._need(LINE * size * max(map(len, cells)))
            start, left, deepest = self._down, EDGE_PT, self._down
            for lines, width in zip(cells, widths, strict=True):
                self._down = start
                self._lines(lines, size, left, weight=weight)
                left, deepest = left + width, max(deepest, self._down)
            self._down = deepest
        self._down += GAP_PT

    def pairs(self, rows: Sequence[tuple[str, str]], title: str = "") -> None:
        """Names with values, two beside each other, in the order of lines; long values below, over the whole width.

        Parameters
        ----------
        rows : names and values.
        title : above them.
        """
        short = [row for row in rows if len(row[1]) <= LONG]
        lines = [(*short[k], *(short[k + 1] if k + 1 < len(short) else ("", ""))) for k in range(0, len(short), 2)]
        if lines:
            self.table(lines, (3, 2, 3, 2), (title, "", "", "") if title else ())
        if long := [row for row in rows if len(row[1]) > LONG]:
            self.table(long, (1, 4))

    def picture(self, png: Path, caption: str, highest_pt: float = 300.0) -> None:
        """A picture over the width of the page, or lower, with its caption; somewhat smaller where that saves a page.

        Parameters
        ----------
        png : file of the picture.
        caption : below it.
        highest_pt : it is not higher.
        """
        with Image.open(png) as image:
            shown = image.convert("RGB")
        lines = _wrapped(caption, SMALL_PT, TEXT_PT)
        below = LINE * SMALL_PT * len(lines) + 1.5 * GAP_PT
        height = min(shown.height * TEXT_PT / shown.width, highest_pt)
        left = HEIGHT_PT - EDGE_PT - self._down - below
        height = left if LEAST_PART * height < left < height else height
        width = height * shown.width / shown.height
        pixels = DOTS_PER_INCH / 72
        shown.thumbnail((round(width * pixels), round(height * pixels)))
        self._need(height + below)
        place = EDGE_PT / WIDTH_PT, 1 - (self._down + height) / HEIGHT_PT, width / WIDTH_PT, height / HEIGHT_PT
        axes = self._pages[-1].add_axes(place)
        axes.imshow(shown, aspect="auto", interpolation="none")
        axes.set_axis_off()
        self._down += height + GAP_PT / 2
        self._lines(lines, SMALL_PT, EDGE_PT, colour=FAINT)
        self._down += GAP_PT

    def pdf(self, title: str) -> bytes:
        """The document; letters are embedded, and nothing in it tells when and where it was made.

        Parameters
        ----------
        title : of the document.
        """
        stream = io.BytesIO()
        metadata = {"Title": title, "Creator": "HemoLattice", "CreationDate": None}
        with rc_context({"pdf.fonttype": 42}), PdfPages(stream, metadata=metadata) as pages:
            for number, page in enumerate(self._pages, start=1):
                foot = f"{self._foot} · page {number} of {len(self._pages)}"
                page.text(0.5, 0.5 * EDGE_PT / HEIGHT_PT, foot, size=SMALL_PT, color=FAINT, ha="center")
                pages.savefig(page)
        return stream.getvalue()

    def _text(self, text: str, size_pt: float, colour: str = INK, weight: str = "normal") -> None:
        self._lines(_wrapped(text, size_pt, TEXT_PT, weight), size_pt, EDGE_PT, colour, weight)

    def _lines(
        self, lines: Sequence[str], size_pt: float, left_pt: float, colour: str = INK, weight: str = "normal"
    ) -> None:
        for line in lines:
            self._need(LINE * size_pt)
            self._down += LINE * size_pt
            x, y = left_pt / WIDTH_PT, 1 - (self._down - 0.3 * size_pt) / HEIGHT_PT
            self._pages[-1].text(x, y, line, size=size_pt, color=colour, weight=weight, parse_math=False)

    def _need(self, height_pt: float) -> None:
        """A new page where this much is not left."""
        if self._down + height_pt > HEIGHT_PT - EDGE_PT:
            self._pages.append(Figure(figsize=(WIDTH_PT / 72, HEIGHT_PT / 72)))
            self._down = EDGE_PT


def _size_pt(columns: int) -> float:
    """Of letters in a table."""
    return SIZE_PT if columns <= FEW else SMALL_PT if columns <= MANY else SMALLEST_PT


def by_words(rows: Sequence[Sequence[str]]) -> list[float]:
    """Shares of the columns of a table in which no word is parted, if that can be."""
    size = _size_pt(len(rows[0]))
    return [
        GAP_PT + max((_advance(word, "bold") * size for cell in column for word in cell.split()), default=0.0)
        for column in zip(*rows, strict=True)
    ]


def _wrapped(text: str, size_pt: float, width_pt: float, weight: str = "normal") -> list[str]:
    """Lines no wider than that; a word that is wider is parted."""
    return list(_broken(text.split(), size_pt, width_pt, weight))


def _broken(words: list[str], size_pt: float, width_pt: float, weight: str) -> Iterator[str]:
    line = ""
    space = _advance(" ", weight) * size_pt
    used = 0.0
    for word in words:
        wide = _advance(word, weight) * size_pt
        if line and used + space + wide <= width_pt:
            line, used = f"{line} {word}", used + space + wide
            continue
        if line:
            yield line
        while wide > width_pt and len(word) > 1:
            fits = next((n for n in range(len(word) - 1, 1, -1) if _advance(word[:n], weight) * size_pt <= width_pt), 1)
            yield word[:fits]
            word = word[fits:]
            wide = _advance(word, weight) * size_pt
        line, used = word, wide
    yield line


@cache
def _advance(word: str, weight: str) -> float:
    """Width of a word over the size of its letters."""
    font = FontProperties(size=100, weight=weight)
    if word == " ":  # which has no outline
        return _advance("n n", weight) - _advance("nn", weight)
    return SPARE * float(TextToPath().get_text_width_height_descent(word, font, ismath=False)[0]) / 100
