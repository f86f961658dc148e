# SPDX-License-Identifier: Apache-2.0
"""Published tables: ``data/reference/*.csv``, whose lines that begin with # tell the source."""

import csv

import numpy as np
from numpy.typing import NDArray

from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT


def read_reference(name: str) -> dict[str, NDArray[np.float64]]:
    """Columns of ``data/reference/<name>.csv`` by name, (rows,) each; NaN where a cell is empty.

    Raises
    ------
    StageError
        If there is no such table.
    """
    path = ROOT / "data" / "reference" / f"{name}.csv"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in path.parent.glob("*.csv")))
        raise StageError(f"reference {name!r}: no table of this name in data/reference; known: {known}")
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(line for line in stream if not line.startswith("#")))
    return {column: np.array([float(row[column] or "nan") for row in rows]) for column in rows[0]}
