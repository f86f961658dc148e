# SPDX-License-Identifier: Apache-2.0
"""Files of the project that a module is made of."""

import ast
from collections.abc import Iterator
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


@cache
def imports(file: Path) -> tuple[str, ...]:
    """Dotted names that a Python file imports, with ``from a import b`` given as ``a`` and ``a.b``."""
    names: list[str] = []
    for node in statements(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(names)


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements below a node, without visiting expressions, of which there are twenty times as many."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, block, ()):
            if isinstance(inner, ast.stmt):
                yield inner
            yield from statements(inner)


@cache
def _file_of(module: str) -> Path | None:
    path = Path(*module.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in candidates if path.parts[0] in ROOMS and (ROOT / file).is_file()), None)
