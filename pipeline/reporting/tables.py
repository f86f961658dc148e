# SPDX-License-Identifier: Apache-2.0
"""Numbers and tables for reading: how figures are rounded and named, and rows made of what other stages wrote."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from solver.run.units import words

TIMES, DASH = "\N{MULTIPLICATION SIGN}", "\N{EN DASH}"

Rows = list[tuple[str, ...]]

PLACES = ("place_mm", "_at_mm", "centre_mm", "origin_mm")
"""Keys that end so hold points, whose coordinates are set apart by commas."""

SHARES = ("_fraction", "_share")
"""Keys that end so hold parts of 1, shown in per cent."""


def _signed(text: str) -> str:
    """A number with a true minus sign."""
    return text.replace("-", "\N{MINUS SIGN}")


def number(value: float, digits: int = 3) -> str:
    """A number for reading: so many significant digits, and a power of ten only where it must be."""
    if not np.isfinite(value):
        return "not finite"
    if float(value).is_integer() and abs(value) < 1e6:
        return _signed(f"{value:.0f}")
    power = int(np.floor(np.log10(abs(value))))
    if -4 <= power < 6:
        return _signed(f"{value:.{max(digits - 1 - power, 0)}f}")
    exponent = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return _signed(f"{value / 10.0**power:.{digits - 1}f} {TIMES} 10{exponent}")


def column(values: Sequence[float | None]) -> list[str]:
    """Numbers of a column with as many decimals as give the largest three significant digits; none as a dash.

    Where six decimals are too few for that, each number is written by itself.
    """
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    if 0 < largest < 1e-4:
        return [DASH if value is None else number(value) for value in values]
    decimals = int(np.clip(2 - np.floor(np.log10(largest)), 0, 6)) if largest else 0
    return [DASH if value is None else _signed(f"{value:z.{decimals}f}") for value in values]


def percent(fraction: float) -> str:
    """A part of 1 in per cent, with two decimals."""
    return _signed(f"{100 * fraction:z.2f} %")


def facts(values: Mapping[str, Any], leave_out: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Rows of a table from the plain values of an object: numbers, words, yes or no, and short lists of these."""
    left_out = set(leave_out)
    rows = []
    for key, value in values.items():
        text = plain(value, key)
        if text is not None and key not in left_out:
            rows.append((words(key), text))
    return rows


def plain(value: Any, key: str = "") -> str | None:
    """A plain value for reading, or none where it is something else; the key tells points and parts of 1."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if key.endswith(SHARES):
            return percent(value)
        return _signed(f"{value:.4g}") if 1e-4 <= abs(value) < 1e4 else number(value)
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(each, int | float | str) for each in value):
        if key.endswith(PLACES) and all(isinstance(each, int | float) for each in value):
            return ", ".join(_signed(f"{each:z.1f}") for each in value)
        return f" {TIMES} ".join(plain(each) or "" for each in value) if len(value) <= 4 else None
    return None
