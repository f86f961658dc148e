# SPDX-License-Identifier: Apache-2.0
"""Cohort table: cases as rows of a CSV file, each a case file with some of its keys changed.

The column ``case`` names the folder of results, ``file`` the file of ``config/cases/`` that the case starts from; every
other heading is a dotted key of it (``solve.inlets.inlet.flow_ml_s``). A cell is read as the value of a key in a case
file is; an empty one leaves the key as it is.
"""

import csv
import difflib
import io
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from pipeline.case.settings.base import Name
from pipeline.case.settings.yaml_file import value_of
from solver.runtime.errors import StageError

CASE, FILE = "case", "file"
"""Headings of the columns that name the case and the file that it starts from."""

NAME_REMEDY = "use up to 64 letters without accents, digits, dots, - and _, a letter or digit first"


@dataclass(frozen=True)
class TableRow:
    """A case of the table.

    Attributes
    ----------
    place : the table's path and the row's number, as a spreadsheet counts: the headings are row 1.
    case, file : name of the case, and of the file that it starts from.
    values : what the filled cells hold, by dotted key.
    """

    place: str
    case: str
    file: str
    values: dict[str, Any]

    def sections(self) -> dict[str, Any]:
        """The values as sections of a case file."""
        sections: dict[str, Any] = {}
        for heading, value in self.values.items():
            *parents, key = heading.split(".")
            node = sections
            for parent in parents:
                node = node.setdefault(parent, {})
            node[key] = value
        return sections


def read_table(path: Path, keys: Collection[str]) -> dict[str, TableRow]:
    """Read a cohort table.

    Parameters
    ----------
    path : CSV in UTF-8; with commas, semicolons or tabs, as spreadsheets write it.
    keys : dotted keys that a heading may be, as :func:`pipeline.case.settings.base.dotted_keys` gives them.

    Returns
    -------
    The rows by name of the case, in their order; rows without any text are left out.

    Raises
    ------
    StageError
        One line a mistake, over the whole table.
    """
    headings, *records = _records(path)
    keys, lists = [key for key in keys if not key.endswith("[]")], {key[:-2] for key in keys if key.endswith("[]")}
    mistakes = [f"{path}, {mistake}" for mistake in _wrong_headings(headings, keys, lists)]
    rows: dict[str, TableRow] = {}
    names: dict[str, str] = {}  # in lower case: not every disk tells p1 from P1
    for number, record in enumerate(records, 2):
        if not any(record):
            continue
        place = f"{path}, row {number}"
        cells = dict(zip(headings, record, strict=False))
        mistakes += [f"{place}{mistake}" for mistake in _wrong_cells(headings, record)]
        case, file = cells.pop(CASE, ""), cells.pop(FILE, "")
        if earlier := names.get(case.lower()):
            mistakes.append(
                f"{place}, column {CASE} = {case!r}: also in {earlier}; names must differ, not by case alone"
            )
        names[case.lower()] = f"row {number}"
        values = {}
        for heading, text in cells.items():
            try:
                if text:
                    values[heading] = _value(text)
            except ValueError as error:
                mistakes.append(f"{place}, column {heading} = {text!r}: {error}")
        rows[case] = TableRow(f"{place} ({case})", case, file, values)
    if not rows:
        mistakes.append(f"{path}: holds no case; write one row a case below the headings")
    if mistakes:
        raise StageError("\n".join(mistakes))
    return rows


def _records(path: Path) -> list[list[str]]:
    """Rows of cells without blanks around them; the headings come first."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # spreadsheets begin with a mark of the encoding
    except UnicodeDecodeError:
        raise StageError(f"{path}: not text in UTF-8; save the table as CSV UTF-8") from None
    first = text.partition("\n")[0]
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count), strict=True)
        records = [[cell.strip() for cell in record] for record in reader]
    except csv.Error as error:
        raise StageError(f"{path}: not readable as CSV ({error}); save the table as CSV UTF-8") from None
    if not records:
        raise StageError(f"{path}: is empty; begin with the headings {CASE},{FILE}")
    return records


def _wrong_headings(headings: list[str], keys: list[str], lists: set[str]) -> Iterator[str]:
    for needed in (CASE, FILE):
        if needed not in headings:
            yield f"row 1: no column {needed}; the headings are {', '.join(headings)}"
    for heading in sorted({heading for heading in headings if headings.count(heading) > 1}):
        yield f"row 1, column {heading!r}: this heading stands more than once; keep one of the columns"
    for heading in headings:
        if heading not in (CASE, FILE) and not any(_fits(heading, key) for key in keys):
            of_list = "a list of sections, which no cell can hold; write it in the case file that the row names"
            yield f"row 1, column {heading!r}: {of_list if heading in lists else _advice(heading, keys)}"


def _fits(heading: str, key: str) -> bool:
    given, wanted = heading.split("."), key.split(".")
    return len(given) == len(wanted) and all(w in ("*", g) and g for g, w in zip(given, wanted, strict=True))


def _advice(heading: str, keys: list[str]) -> str:
    """What is wrong with a heading that is no key, and which one may be meant."""
    if not heading:
        return "a column without a heading; name it, or delete it"
    parts = heading.split(".")
    if inside := [key for key in keys if _fits(heading, ".".join(key.split(".")[: len(parts)]))]:
        return f"a section; name one of its keys, such as {inside[0]}"
    same_end = [key for key in keys if key.split(".")[-1] == parts[-1]]
    near = difflib.get_close_matches(heading, same_end or keys, n=1, cutoff=0.0 if same_end else 0.6)
    if not near:
        return "unknown key; config/cases/demo.yaml lists all keys"
    meant = near[0].split(".")
    if len(meant) == len(parts):
        meant = [given if wanted == "*" else wanted for given, wanted in zip(parts, meant, strict=True)]
    return f"unknown key; did you mean {'.'.join(meant)}?"


def _wrong_cells(headings: list[str], record: list[str]) -> Iterator[str]:
    if len(record) > len(headings):
        yield f": {len(record)} cells below {len(headings)} headings; put a cell that holds a separator in quotes"
    for heading, text in zip(headings, record, strict=False):
        if heading in (CASE, FILE) and not re.fullmatch(_name_pattern(), text):
            what = "missing" if not text else "not safe as a name of a folder"
            yield f", column {heading} = {text!r}: {what}; {NAME_REMEDY}"


def _name_pattern() -> str:
    return TypeAdapter(Name).json_schema()["pattern"]


def _value(text: str) -> Any:
    """What a cell holds: a number, a truth, a text, or a list of these.

    Raises
    ------
    ValueError
        In words.
    """
    value = value_of(text)
    if _holds_sections(value):
        raise ValueError("holds a section; give its keys in columns of their own, or put a text into single quotes")
    return value


def _holds_sections(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(_holds_sections(each) for each in value))
