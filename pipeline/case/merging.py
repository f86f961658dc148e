# SPDX-License-Identifier: Apache-2.0
"""Merging: sections of a case from several files, and what tells which of them a value comes from."""

from collections.abc import Callable, Iterator
from typing import Any

from pipeline.case.cohort_table import TableRow
from pipeline.case.settings.base import Source, placed


def place_of(
    file: str, row: TableRow | None, scenario: str, over: list[str], under: list[str], source: Source
) -> Callable[[str], str]:
    """What tells where a key's value comes from: the scenario, the row of the table, the case file or the defaults of
    all cases; or all of these but the last, of a mistake in how values go together.

    Parameters
    ----------
    file : the case file.
    row : of the cohort table; none: the case has none.
    scenario : its name; empty: there is none.
    over : dotted keys that the scenario sets.
    under : dotted keys that the defaults set and the case file does not.
    source : where the configuration came from, which states scenarios and defaults.
    """

    def below(path: str, keys: list[str]) -> str | None:
        return next((key for key in keys if path == key or path.startswith(f"{key}.")), None)

    def place(path: str) -> str:
        columns = list(row.values) if row else []
        if below(path, over):
            return placed(source, f"scenarios.{scenario}.{path}")
        if row and (column := below(path, columns)):
            return f"{row.place}, column {column}"
        if below(path, under):
            return placed(source, f"defaults.{path}")
        files = [file]
        if any(key.startswith(f"{path}." if path else "") for key in (*columns, *over)):
            files += [row.place] if row else []
            files += [placed(source, f"scenarios.{scenario}")] if scenario else []
        return f"{' with '.join(files)}: {path or 'case'}"

    return place


def dotted(sections: dict[str, Any], path: str = "") -> Iterator[str]:
    """Keys of what is no section, with those of the sections that they lie in."""
    for key, value in sections.items():
        if isinstance(value, dict) and value:
            yield from dotted(value, f"{path}{key}.")
        else:
            yield f"{path}{key}"


def merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Sections with those of another file in place of theirs, key by key."""
    both = dict(under)
    for key, value in over.items():
        sections = isinstance(value, dict) and isinstance(both.get(key), dict)
        both[key] = merged(both[key], value) if sections else value
    return both
