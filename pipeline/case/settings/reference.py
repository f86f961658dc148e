# SPDX-License-Identifier: Apache-2.0
"""The page of all settings (docs/settings.md), made from the JSON schema of a case file, and the list at the end of a
case file of the keys that it does not show.

``python -m pipeline.case.settings.reference config/case.schema.json`` prints the page, and with a case file behind it
that file with its list; ``make schema`` writes all of them.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Schema = Mapping[str, Any]

HEAD = """# Settings

All keys of a case file, section by section. `make schema` writes this page from the settings' models; do not edit it.
The [user guide](user-guide.md) says what to choose; `config/cases/demo.yaml` shows most keys in place. A key whose
default is *required* must be given; `null` takes a setting out.
"""

FURTHER = "# Further keys (docs/settings.md): "
"""Beginning of the list at the end of a case file."""

BOUNDS = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}


def settings_page(schema: Schema, head: str = HEAD) -> str:
    """The page, in Markdown: a table of the sections, then one for each of them and for those that lie in them.

    Parameters
    ----------
    schema : of the file whose keys the page is of.
    head : what stands before the tables.
    """
    titles = _titles(schema, schema["$defs"])
    parts = [head, _table(schema, schema["$defs"], titles)]
    for name, title in titles.items():
        section = schema["$defs"][name]
        parts.append(f"## {title}\n\n{_one_line(section.get('description', ''))}\n")
        parts.append(_table(section, schema["$defs"], titles))
    return "\n".join(parts)


def with_further_keys(text: str, schema: Schema) -> str:
    """A case file that ends with the keys, in a comment, which nothing else in it names."""
    own = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(FURTHER))
    keys = dict.fromkeys(key for section in schema["$defs"].values() for key in section.get("properties", {}))
    further = ", ".join(key for key in keys if key not in own)
    return own + (f"{FURTHER}{further}\n" if further else "")


def _titles(section: Schema, definitions: Mapping[str, Schema], path: str = "") -> dict[str, str]:
    """Title of each section below one, by the name of its model: where it stands in a case file."""
    titles: dict[str, str] = {}
    for key, field in section["properties"].items():
        names = [*dict.fromkeys(_references(field))]
        place = f"{path}.{key}".strip(".") + (".*" if _by_name(field) else "")
        for name in names:
            title = place if len(names) == 1 else f"{place}, {name.lower()}"
            below = {name: title} | _titles(definitions[name], definitions, place)
            titles |= {each: below[each] for each in below if each not in titles}
    return titles


def _by_name(field: Schema) -> Any:
    """What a mapping holds by names that are free, or of a pattern; none if it is no such mapping."""
    return field.get("additionalProperties") or next(iter(field.get("patternProperties", {}).values()), None)


def _references(value: Any) -> Iterator[str]:
    """Names of the models that a field refers to."""
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"].rsplit("/", 1)[-1]
        for key, below in value.items():
            if key not in ("default", "discriminator"):
                yield from _references(below)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def _table(section: Schema, definitions: Mapping[str, Schema], titles: Mapping[str, str]) -> str:
    required = section.get("required", ())
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, field in section["properties"].items():
        names = [*_references(field)]
        default = "*required*" if key in required else _default(field, bool(names))
        meaning = field.get("description") or (definitions[names[0]].get("description", "") if names else "")
        cells = (f"`{key}`", _values(field, titles), default, _one_line(meaning))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _default(field: Schema, is_section: bool) -> str:
    """The default; none of a section, whose own table has it."""
    default = field.get("default")
    if "default" not in field or (is_section and isinstance(default, dict)):
        return ""
    return f"`{json.dumps(default, ensure_ascii=False)}`"


def _values(field: Schema, titles: Mapping[str, str]) -> str:
    """The values that a key takes, in words."""
    if "$ref" in field:
        title = titles[field["$ref"].rsplit("/", 1)[-1]]
        return f"[{title.rsplit(', ', 1)[-1]}](#{anchor(title)})"
    for several in ("anyOf", "oneOf", "allOf"):
        if several in field:
            return " or ".join(_values(each, titles) for each in field[several])
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    if "prefixItems" in field:
        kinds = [_values(each, titles) for each in field["prefixItems"]]
        return f"[{', '.join(kinds)}]"
    if field.get("type") == "array":
        return f"list of {_values(field['items'], titles)}"
    if field.get("type") == "object":
        below = _by_name(field)
        return f"by name: {_values(below, titles)}" if isinstance(below, dict) else "section"
    kind = field.get("type", "any")
    return " ".join(
        [f"`{kind}`" if kind == "null" else kind, *(f"{BOUNDS[k]} {field[k]}" for k in BOUNDS if k in field)]
    )


def anchor(title: str) -> str:
    """The anchor that GitHub gives a heading, the first of its name on a page."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def _one_line(text: str) -> str:
    """Text of one line, double backquotes of docstrings as those of Markdown."""
    return " ".join(text.split()).replace("``", "`")


if __name__ == "__main__":
    read, *case = (Path(name).read_text(encoding="utf-8") for name in sys.argv[1:])
    print(with_further_keys(case[0], json.loads(read)) if case else settings_page(json.loads(read)), end="")
