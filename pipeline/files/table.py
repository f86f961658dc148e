# SPDX-License-Identifier: Apache-2.0
"""Tables of results for statistics: CSV with a header, as R and pandas read it."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.runtime.errors import StageError


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table, one row a line; the header alone where there are no rows.

    Parameters
    ----------
    path : file to write, UTF-8.
    columns : keys of the rows, in their order.
    rows : values by column; numbers are written to six digits, truths in lower case, none and NaN as nothing.
    """
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({column: _shown(row[column]) for column in columns} for row in rows)


def read_columns(path: Path) -> dict[str, NDArray[np.float64]]:
    """Columns of a table of numbers by name, each (rows,); what is empty is no number.

    Raises
    ------
    StageError
        If something else in it is no number.
    """
    with path.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        rows = list(reader)
    try:
        return {
            name: np.array([float(row[name] or "nan") for row in rows], np.float64) for name in reader.fieldnames or ()
        }
    except (TypeError, ValueError) as error:
        raise StageError(f"{path}: a value is no number ({error}); run its stage again") from None


def _shown(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return value
