# SPDX-License-Identifier: Apache-2.0
"""A public function of three or more parameters says what they are, or where that stands."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.test_sizes import files, named, parameters

MANY = 3
SAID = re.compile(
    r"^Parameters$|\bparameters (are|as|of|for)\b|\bSee :(meth|class|func):", re.MULTILINE | re.IGNORECASE
)
"""A section of them, or a reference to where the same ones are said."""


def unsaid(node: ast.AST) -> Iterator[str]:
    """Names of such functions of a module and of its public classes that do not say it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from unsaid(child)
        elif isinstance(child, ast.FunctionDef) and not child.name.startswith("_"):
            first = [each.arg for each in child.args.args[:1]]
            count = parameters(child) - (first in (["self"], ["cls"]))
            if count >= MANY and not SAID.search(re.sub(r"\s*\n\s*(?=[a-z])", " ", ast.get_docstring(child) or "")):
                yield child.name


@pytest.mark.parametrize("room", ["hemolattice", "solver", "pipeline", "validation"])
def test_public_functions_say_what_their_parameters_are(room):
    within = [file for file in files() if named(file).startswith(f"{room}/")]
    found = {named(file): [*unsaid(ast.parse(file.read_text(encoding="utf-8")))] for file in within}
    assert {name: functions for name, functions in found.items() if functions} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('def f(a, b, c):\n    """Adds."""', ["f"]),
        ("def f(a, b, *c): ...", ["f"]),
        ('def f(a, b):\n    """Adds."""', []),
        ('def _f(a, b, c):\n    """Adds."""', []),
        ('class A:\n    def f(self, a, b):\n        """Adds."""', []),
        ('class A:\n    def f(self, a, b, c):\n        """Adds."""', ["f"]),
        ('def f(a, b, c):\n    """Adds.\n\n    Parameters\n    ----------\n    a, b, c : numbers.\n    """', []),
        ('def f(a, b, c):\n    """Adds; the\n    parameters are those of :func:`g`."""', []),
    ],
)
def test_what_says_nothing_of_them_is_found(text, found):
    assert [*unsaid(ast.parse(text))] == found
