# SPDX-License-Identifier: Apache-2.0
"""The page of the report: one HTML file that carries its pictures, its style and its scripts."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup


def embed(picture: bytes, kind: str = "png") -> str:
    """A picture as the address of an image."""
    return f"data:image/{kind};base64," + base64.b64encode(picture).decode()


def fill(module: Path, context: Mapping[str, Any], style_of: Path | None = None) -> str:
    """A page from the template, style and script that stand beside a module; every text is escaped but those marked
    as markup. A page may have no script.

    Parameters
    ----------
    module : path of the module's file; template, style and script bear its name, as ``report_page.css``.
    context : what the template asks for.
    style_of : a module whose style comes before the page's own.

    Raises
    ------
    jinja2.UndefinedError
        If the context lacks a part.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    styles = [each.with_suffix(".css") for each in (style_of, module) if each]
    script = module.with_suffix(".js")
    parts = {
        "style": Markup("".join(file.read_text(encoding="utf-8") for file in styles)),
        "script": Markup(script.read_text(encoding="utf-8") if script.is_file() else ""),
    }
    template = module.with_suffix(".html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render({**context, **parts})


def report_page(context: Mapping[str, Any]) -> str:
    """The page of a case, whose script has a second one for what it reckons."""
    reckoning = Path(__file__).with_name("vessel.js").read_text(encoding="utf-8")
    return fill(Path(__file__), {**context, "reckoning": Markup(reckoning)})
