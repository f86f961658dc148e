# SPDX-License-Identifier: Apache-2.0
"""Functions are short and take few parameters, files are no longer than can be read: or they say why not.

A function that is longer, or takes more, says so in a comment above it, ``# long because ...``,
``# many parameters because ...`` or ``# long and many parameters because ...``, which holds for those within it, too.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from solver.runtime.sources import ROOT

ROOMS = ("hemolattice", "solver", "pipeline", "validation")
MOST_LINES, MOST_PARAMETERS, MOST_LINES_OF_A_FILE = 60, 8, 400
NOT_YET: set[str] = set()
"""Functions, ``file: name``, and files that are still too large: may only shrink."""


def files() -> list[Path]:
    return [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]


def named(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def parameters(function: ast.FunctionDef) -> int:
    given = function.args
    stars = (given.vararg is not None) + (given.kwarg is not None)
    return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) + stars


def reasons(function: ast.FunctionDef, lines: list[str]) -> str:
    """What the comment above a function, or above its decorators, gives a reason for."""
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    above = lines[first - 2] if first > 1 else ""
    found = re.match(r" *# (long|many parameters|long and many parameters) because .+", above)
    return found[1] if found else ""


def too_large(node: ast.AST, lines: list[str], excused: str = "") -> Iterator[str]:
    """Names of functions within a node that are too long or take too much, and do not say why."""
    for child in ast.iter_child_nodes(node):
        excuse = excused
        if isinstance(child, ast.FunctionDef):
            excuse = f"{excused} {reasons(child, lines)}"
            long = child.end_lineno - child.lineno + 1 > MOST_LINES
            if (long and "long" not in excuse) or (
                parameters(child) > MOST_PARAMETERS and "many parameters" not in excuse
            ):
                yield child.name
        yield from too_large(child, lines, excuse)


def found_in(text: str) -> list[str]:
    return list(too_large(ast.parse(text), text.splitlines()))


def test_functions_are_short_or_say_why_not():
    found = {f"{named(file)}: {name}" for file in files() for name in found_in(file.read_text(encoding="utf-8"))}
    assert found - NOT_YET == set()
    assert {each for each in NOT_YET if ": " in each} - found == set(), "take what is done off the list"


def test_files_are_no_longer_than_can_be_read():
    found = {named(file) for file in files() if file.read_text(encoding="utf-8").count("\n") > MOST_LINES_OF_A_FILE}
    assert found - NOT_YET == set()
    assert {each for each in NOT_YET if ": " not in each} - found == set(), "take what is done off the list"


LONG = "def f():\n" + 60 * "    x = 1\n"
MANY = f"def f({', '.join('abcdefghi')}):\n    return a\n"


@pytest.mark.parametrize("text", [LONG, MANY, "class A:\n" + "".join(f"    {line}\n" for line in LONG.splitlines())])
def test_what_is_too_large_is_found(text):
    assert found_in(text) == ["f"]


@pytest.mark.parametrize(
    ("reason", "text"), [("long", LONG), ("many parameters", MANY), ("long and many parameters", LONG)]
)
def test_a_reason_excuses_it_and_those_within(reason, text):
    comment = f"# {reason} because it is a table\n"
    assert found_in(comment + text) == []
    assert found_in(f"{comment}@cache\n{text}") == []
    within = "".join(f"    {line}\n" for line in text.splitlines())
    assert found_in(f"{comment}def g():\n{within}") == []


def test_a_reason_excuses_only_what_it_names():
    assert found_in(f"# long because it is a table\n{MANY}") == ["f"]
    assert found_in(f"# many parameters because they are arrays\n{LONG}") == ["f"]
    assert found_in(f"# long because\n{LONG}") == ["f"]
