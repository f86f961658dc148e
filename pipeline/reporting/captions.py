# SPDX-License-Identifier: Apache-2.0
"""What is said below each picture: ``captions.rst``, which Snakemake's own report reads, too.

The file is a template in Jinja's language that chooses the text by ``snakemake.wildcards.name``, the picture's file
name without ``.png``, because Snakemake fills in one template for all pictures of a folder.
"""

from functools import cache
from pathlib import Path

from jinja2 import Environment, StrictUndefined, Template


@cache
def _template() -> Template:
    text = Path(__file__).with_suffix(".rst").read_text(encoding="utf-8")
    return Environment(undefined=StrictUndefined).from_string(text)


def caption(name: str) -> str:
    """The caption of a picture.

    Raises
    ------
    KeyError
        If the file says nothing of it.
    """
    text = " ".join(_template().render(snakemake={"wildcards": {"name": name}}).split())
    if not text:
        raise KeyError(f"{name}: no caption in captions.rst")
    return text
