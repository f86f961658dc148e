# SPDX-License-Identifier: Apache-2.0
"""What a browser prints, page by page: where headings and what follows them stand on paper.

Chromium's PDF keeps links as rectangles on their pages. So every block of a page is put into a link before it is
printed, and the rectangles tell on which page it came to stand, and how far down.
"""

import base64
import re
from dataclasses import dataclass

from tests.support.chromium import Browser

MARK = """
(() => {
  const kinds = "h1, h2, h3, p, li, th, td, figcaption, summary, dt, dd, pre, .tile > *, figure img, svg.curve";
  let number = 0;
  for (const block of document.querySelectorAll(kinds)) {
    if (!block.getClientRects().length && !block.closest(".printed")) continue;  // which is shown on paper alone
    const link = document.createElement("a");
    link.href = `http://mark/${number++}-${block.tagName.toLowerCase()}`;
    link.style.cssText = "color: inherit; text-decoration: none";
    if (["IMG", "SVG"].includes(block.tagName.toUpperCase())) { block.replaceWith(link); link.append(block); }
    else { link.append(...block.childNodes); block.append(link); }
  }
})()
"""
HEADINGS = ("h1", "h2", "h3")


@dataclass(frozen=True)
class Block:
    """A block on paper: its place in the page's text, its element, and where it stands, in points from below."""

    number: int
    kind: str
    low_pt: float
    high_pt: float


@dataclass(frozen=True)
class Sheet:
    """A printed page.

    Attributes
    ----------
    height_pt : of the paper.
    margin_pt : from above to its first block.
    blocks : on it, in the order of the text.
    """

    height_pt: float
    margin_pt: float
    blocks: tuple[Block, ...]

    @property
    def filled(self) -> float:
        """Part of the page between its margins down to its last block."""
        room = self.height_pt - 2 * self.margin_pt
        return (self.height_pt - self.margin_pt - min(block.low_pt for block in self.blocks)) / room

    @property
    def orphans(self) -> list[Block]:
        """Headings behind which only headings stand on the page."""
        last = max((block.number for block in self.blocks if block.kind not in HEADINGS), default=-1)
        return [block for block in self.blocks if block.kind in HEADINGS and block.number > last]


def printed(browser: Browser, margin_mm: float) -> list[Sheet]:
    """Print what a browser shows; its blocks are links afterwards.

    Parameters
    ----------
    browser : which has opened the page.
    margin_mm : above and below, as the style sheet has it.
    """
    browser.run(MARK)
    pdf = base64.b64decode(browser.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])
    objects = {int(number): body for number, body in re.findall(rb"(?ms)^(\d+) 0 obj\s(.*?)^endobj", pdf)}
    root = next(body for body in objects.values() if b"/Type /Pages" in body and b"/Parent" not in body)
    return [_sheet(page, objects, 72 / 25.4 * margin_mm) for page in _leaves(root, objects)]


def _leaves(node: bytes, objects: dict[int, bytes]) -> list[bytes]:
    """The pages below a node of their tree."""
    kids = re.search(rb"/Kids \[(.*?)\]", node, re.DOTALL)
    if not kids:
        return [node]
    return [leaf for kid in _numbers(kids[1]) for leaf in _leaves(objects[kid], objects)]


def _numbers(references: bytes) -> list[int]:
    return [int(number) for number in re.findall(rb"(\d+) 0 R", references)]


def _sheet(page: bytes, objects: dict[int, bytes], margin_pt: float) -> Sheet:
    box = re.search(rb"/MediaBox \[([^\]]*)\]", page)
    links = re.search(rb"/Annots \[(.*?)\]", page, re.DOTALL)
    assert box is not None
    blocks = []
    for number in _numbers(links[1]) if links else []:
        link = objects[number]
        place = re.search(rb"/Rect \[([^\]]*)\]", link)
        mark = re.search(rb"http://mark/(\d+)-(\w+)", link)
        if place and mark:
            _, low, _, high = map(float, place[1].split())
            blocks.append(Block(int(mark[1]), mark[2].decode(), low, high))
    ordered = sorted(blocks, key=lambda block: block.number)
    return Sheet(float(box[1].split()[3]), margin_pt, tuple(ordered))
