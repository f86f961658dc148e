# SPDX-License-Identifier: Apache-2.0
"""Tables of a flow or pressure over time, as spreadsheets and programs write them: units stand in the heads of columns.

``time_s`` and ``flow_ml_s`` are such heads, ``Time [ms]`` and ``Flow (L/min)`` are others. No unit is guessed.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from solver.runtime.errors import StageError

Reals = NDArray[np.float64]

PASCAL_PER_MMHG = 133.322387415

TIME: Mapping[str, float] = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "msec": 1e-3}
FLOW: Mapping[str, float] = {
    "ml_s": 1.0,
    "cm3_s": 1.0,
    "cc_s": 1.0,
    "ml_min": 1 / 60,
    "cc_min": 1 / 60,
    "l_min": 1000 / 60,
    "l_s": 1000.0,
    "m3_s": 1e6,
    "mm3_s": 1e-3,
}
PRESSURE: Mapping[str, float] = {"mmhg": 1.0, "pa": 1 / PASCAL_PER_MMHG, "kpa": 1000 / PASCAL_PER_MMHG}
UNITS: Mapping[str, Mapping[str, float]] = {"time_s": TIME, "flow_ml_s": FLOW, "pressure_mmhg": PRESSURE}
"""Units by the head of the column that has the first of them, and what one is of that."""
OF_TIME = re.compile(r"(?:.*_)?(?:t|time)")
"""What stands before the unit of a time: a head that ends in ``_s`` may be a speed."""
SHOWN = 8
"""Heads of columns in a message."""


@dataclass(frozen=True)
class Table:
    """Times and values of a table.

    Attributes
    ----------
    time_s, value : (S,) s, and mL/s or mmHg.
    heads : of their columns in the file.
    factors : what one is in the file of s, and of mL/s or mmHg.
    """

    time_s: Reals
    value: Reals
    heads: tuple[str, str]
    factors: tuple[float, float]

    def entries(self, time_s: float | None, value: float) -> str:
        """What stands in the file for a time and a value, or a value, by the heads of its columns."""
        wanted = zip((time_s, value), self.heads, self.factors, strict=True)
        return " and ".join(f"{x / factor:.6g} for {head}" for x, head, factor in wanted if x is not None)


def read_table(path: Path, column: str) -> Table:
    """Times and values of a table, in the units of the heads ``time_s`` and `column`.

    Columns are parted by semicolons, tabs or commas; where it is not by commas, these may stand before decimals.
    # begins a line of comment.

    Raises
    ------
    StageError
        If the file is not such a table.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            lines = [line for line in stream if line.strip() and not line.startswith("#")]
        head = lines[0] if lines else ""
        sign = next((each for each in ";\t" if each in head), ",")
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=sign)]
    except (OSError, ValueError, csv.Error) as error:
        raise StageError(f"waveform {path.name}: {_unread(column)} ({error})") from None
    heads = rows[0] if rows else []
    found = [_of(heads, name, path, column) for name in ("time_s", column)]
    try:
        table = np.array([[_number(row[k], sign) * factor for k, factor in found] for row in rows[1:]]).reshape(-1, 2)
    except (IndexError, ValueError) as error:
        raise StageError(f"waveform {path.name}: {_unread(column)} ({error})") from None
    if not np.isfinite(table).all():
        raise StageError(f"waveform {path.name}: holds a value that is not a finite number")
    (at, time_unit), (of, unit) = found
    return Table(table[:, 0], table[:, 1], (heads[at], heads[of]), (time_unit, unit))


def _unread(column: str) -> str:
    return f"not a CSV table with the columns time_s and {column}"


def _number(text: str, sign: str) -> float:
    return float(text if sign == "," else text.replace(",", "."))


def _of(heads: Sequence[str], name: str, path: Path, column: str) -> tuple[int, float]:
    """Place of the column that holds a quantity, and what its unit is of the one wanted."""
    if name in heads:
        return heads.index(name), 1.0
    found = [(k, UNITS[name][unit]) for k, head in enumerate(heads) if (unit := _unit(head)) in UNITS[name]]
    if len(found) == 1:
        return found[0]
    shown = ", ".join(f"'{head}'" for head in heads[:SHOWN]) or "none"
    what = f"{len(found)} columns could be {name}" if found else f"no column is {name}, or tells another unit of it"
    raise StageError(
        f"waveform {path.name}: {_unread(column)}: {what}; its columns are {shown}. Write {name} over the column that"
        f" is meant, or its unit behind its name ({', '.join(UNITS[name])})"
    )


def _unit(head: str) -> str:
    """The unit that the head of a column ends with; empty where it tells none."""
    words = head.lower().replace("³", "3").replace("^", "").replace(" per ", "/")
    words = re.sub(r"[^a-z0-9]+", "_", words).strip("_").replace("mm_hg", "mmhg")
    known = sorted((unit for units in UNITS.values() for unit in units), key=len, reverse=True)
    unit = next((each for each in known if words == each or words.endswith(f"_{each}")), "")
    if unit in TIME and not OF_TIME.fullmatch(words[: -len(unit) - 1]):
        return ""
    return unit
