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
    queue = [module]
    while queue:
        file = _file_of(queue.pop())
        if file and str(file) not in found:
            found.update(_beside(file))
            queue += imports(ROOT / file)
    return sorted(found)


@cache
def _beside(file: Path) -> tuple[str, ...]:
    return tuple(str(part.relative_to(ROOT)) for part in (ROOT / file.parent).glob(f"{file.stem}.*"))


IMPORT = re.compile(r"^[ \t]*((?:from[ \t]+[\w.]+[ \t]+)?import\b(?:[ \t]*\([^)]*\)|[^\n(]*))", re.MULTILINE)
"""A statement that imports, at the beginning of a line; a line of a text may look like one."""


@cache
def imports(file: Path) -> tuple[str, ...]:
    """Dotted names that a Python file imports, with ``from a import b`` given as ``a`` and ``a.b``.

    Of its statements only those are parsed that import: all of a stage's modules take half a second, at each start.
    """
    names: list[str] = []
    for statement in IMPORT.findall(file.read_text(encoding="utf-8")):
        with suppress(SyntaxError):  # of a line in a text
            names += _imported(ast.parse(statement).body[0])
    return tuple(names)


def _imported(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    if isinstance(statement, ast.ImportFrom) and statement.module:
        return [statement.module, *(f"{statement.module}.{alias.name}" for alias in statement.names)]
    return []


@cache
def _file_of(module: str) -> Path | None:
    path = Path(*module.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in candidates if path.parts[0] in ROOMS and (ROOT / file).is_file()), None)
