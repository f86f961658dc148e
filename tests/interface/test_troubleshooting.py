# SPDX-License-Identifier: Apache-2.0
"""The page of refusals quotes messages that the code has, and settings that there are."""

import ast
import re
from functools import cache

import pytest

from pipeline.case.case_file import Case
from pipeline.case.settings.base import dotted_keys
from solver.runtime.sources import ROOT

PAGE = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (`.+`) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
HOLE = "…"


@cache
def messages() -> str:
    """Every text of the modules that fill any in, one a line, with a mark in place of what is filled in."""
    found = []
    texts = [
        file.read_text(encoding="utf-8") for room in ("pipeline", "solver") for file in (ROOT / room).rglob("*.py")
    ]
    for node in (node for text in texts if 'f"' in text for node in ast.walk(ast.parse(text))):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else HOLE for part in node.values]
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return "\n".join(found)


def is_quoted_rightly(message: str) -> bool:
    return message in messages()


def test_the_page_has_rows_and_no_message_twice():
    quoted = [message for message, *_ in ROWS]
    assert len(quoted) == len(set(quoted)) >= 40


@pytest.mark.parametrize("quoted", [message for message, *_ in ROWS], ids=range(len(ROWS)))
def test_a_message_that_the_page_quotes_is_one_of_the_code(quoted):
    assert is_quoted_rightly(quoted.strip("`"))


def test_a_message_that_is_none_would_be_found():
    assert not is_quoted_rightly("input.mask: … different values, …: no mask, but an image")


def test_settings_that_the_page_names_are_those_of_a_case():
    paths = [key.replace("[]", "").split(".") for key in dotted_keys(Case)]
    known = {".".join(path[:count]) for path in paths for count in range(1, len(path) + 1)}
    named = {word for _, why, what in ROWS for word in re.findall(r"`([a-z]+\.[a-z_.]+)(?:: [^`]*)?`", why + what)}
    assert len(named) > 20
    assert named - known == set()
