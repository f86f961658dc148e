# SPDX-License-Identifier: Apache-2.0
"""Merging: sections of a case from several files, and what tells which of them a value comes from."""

from collections.abc import Callable, Iterator
from typing import Any

from pipeline.case.cohort_table import TableRow


def place_of(file: str, row: TableRow | None, scenario: str, over: list[str]) -> Callable[[str], str]:
    """What tells where a key's value comes from: the scenario, the row of the table, or the case file; or all of these,
    of a mistake in how values go together.

    Parameters
    ----------
    file : the case file.
    row : of the cohort table; none: the case has none.
    scenario : its name; empty: there is none.
    over : dotted keys that the scenario sets.
    """

    def below(path: str, keys: list[str]) -> str | None:
        return next((key for key in keys if path == key or path.startswith(f"{key}.")), None)

    def place(path: str) -> str:
        columns = list(row.values) if row else []
        if below(path, over):
            return f"config/config.yaml, scenario {scenario}: {path}"
        if row and (column := below(path, columns)):
            return f"{row.place}, column {column}"
        files = [file]
        if any(key.startswith(f"{path}." if path else "") for key in (*columns, *over)):
            files += [row.place] if row else []
            files += [f"scenario {scenario}"] if scenario else []
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
