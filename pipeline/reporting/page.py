"""The page of the report: one HTML file that carries its pictures, its style and its scripts."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup


def embed(picture: bytes, kind: str = "png") -> str:
    """A picture as the address of an image."""
    return f"data:image/{kind};base64," + base64.b64encode(picture).decode()


def fill(module: Path, context: Mapping[str, Any]) -> str:
    """A page from the template, style and script that stand beside a module; every text is escaped but those marked
    as markup.

    Parameters
    ----------
    module : path of the module's file, ``page.py`` for ``page.html.j2``, ``page.css`` and ``page.js``.
    context : what the template asks for.

    Raises
    ------
    jinja2.UndefinedError
        If the context lacks a part.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    parts = {
        role: Markup(module.with_suffix(ending).read_text(encoding="utf-8"))
        for role, ending in (("style", ".css"), ("script", ".js"))
    }
    template = module.with_suffix(".html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render({**context, **parts})


def report_page(context: Mapping[str, Any]) -> str:
    """The page of a case."""
    return fill(Path(__file__), context)
