# SPDX-License-Identifier: Apache-2.0
"""Files of the project that a module is made of."""

import ast
import re
from contextlib import suppress
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""Folder of the project."""

ROOMS = ("pipeline", "solver", "validation")
"""Folders of the project's own programs."""

SOURCES = (".py", ".smk", ".j2", ".css", ".js", ".txt", ".rst")
"""Files that the project's own programs and pages are made of."""


def sources(module: str) -> list[str]:
    """Files of the project that a module is made of: its own, and those of all project modules that it imports, with
    what bears a module's name beside it (``page.py`` and its ``page.css``).

    Parameters
    ----------
    module : dotted name, such as ``pipeline.stages.segment``.

    Returns
    -------
    Paths relative to the project's folder, sorted.
    """
    found: set[str] = set()
    queue = [first] if (first := _file_of(module)) else []
    while queue:
        file = queue.pop()
        if file not in found:
            found.update(_beside(file))
            queue += _imported_files(file)
    return sorted(found)


@cache
def _beside(file: str) -> tuple[str, ...]:
    folder, _, name = file.rpartition("/")
    stem = name.removesuffix("py")
    return tuple(f"{folder}/{other}" for other in _names(folder) if other.startswith(stem))


@cache
def _imported_files(file: str) -> tuple[str, ...]:
    return tuple({found: None for name in imports(ROOT / file) if (found := _file_of(name))})


@cache  # a start of the workflow asks for some thousand files
def _names(folder: str) -> frozenset[str]:
    path = ROOT / folder
    return frozenset(each.name for each in path.iterdir()) if path.is_dir() else frozenset()


IMPORT = re.compile(r"\n[ \t]*((?:from[ \t]+[\w.]+[ \t]+)?import\b(?:[ \t]*\([^)]*\)|[^\n(]*))")
"""A statement that imports, after a line break, by which it is found in a third of the time that ``^`` takes; a line of
a text may look like one.
"""


@cache
def imports(file: Path) -> tuple[str, ...]:
    """Dotted names that a Python file imports, with ``from a import b`` given as ``a`` and ``a.b``.

    Of its statements only those are parsed that import: all of a stage's modules take half a second, at each start.
    """
    found = IMPORT.findall("\n" + file.read_text(encoding="utf-8"))
    try:
        statements = ast.parse("\n".join(found)).body
    except SyntaxError:  # of a line in a text
        statements = [each for statement in found for each in _parsed(statement)]
    return tuple(name for statement in statements for name in _imported(statement))


def _parsed(statement: str) -> list[ast.stmt]:
    with suppress(SyntaxError):
        return ast.parse(statement).body
    return []


def _imported(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    if isinstance(statement, ast.ImportFrom) and statement.module:
        return [statement.module, *(f"{statement.module}.{alias.name}" for alias in statement.names)]
    return []


@cache
def _file_of(module: str) -> str | None:
    if module.partition(".")[0] not in ROOMS:
        return None
    path = module.replace(".", "/")
    folder, _, name = path.rpartition("/")
    names = _names(folder)
    if f"{name}.py" in names:
        return f"{path}.py"
    return f"{path}/__init__.py" if name in names and "__init__.py" in _names(path) else None
