# SPDX-License-Identifier: Apache-2.0
"""Pages of tutorials: their blocks, in the order in which a reader goes through them.

The line that opens a block says what it is: ``sh`` commands; ``sh fails`` commands of which the last is refused, with
what it prints in the next block; ``diff`` for git apply; another language and a path, a file to write. Blocks without
any of this are for reading.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """Language and what stands behind it in the opening line, and the text."""

    language: str
    about: str
    text: str

    @property
    def commands(self) -> list[str]:
        """Lines to run, without what the shell would leave out."""
        if self.language != "sh":
            return []
        lines = [re.sub(r"\s+#.*", "", line).strip() for line in self.text.replace("\\\n", " ").splitlines()]
        return [line for line in lines if line]


def blocks(page: Path, instead: Mapping[str, str] | None = None) -> list[Block]:
    """Blocks of a page, with some texts in place of others, each of which it must have."""
    text = page.read_text(encoding="utf-8")
    for old, new in (instead or {}).items():
        assert old in text, f"{page.name} has no {old!r}"
        text = text.replace(old, new)
    return [Block(*found) for found in BLOCK.findall(text)]


def write_file(block: Block, folder: Path) -> None:
    """Write the file that a block is, if it is one."""
    if block.language in ("sh", "diff", "") or not block.about:
        return
    path = folder / block.about
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text, encoding="utf-8")
