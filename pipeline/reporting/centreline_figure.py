# SPDX-License-Identifier: Apache-2.0
"""Flow along the centreline: the file of postprocess as lines over the way from the inlet, a line a branch."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from solver.runtime.errors import StageError

SHOWN = {
    "pressure_pa": "pressure (Pa)",
    "area_mm2": "area of the section (mm²)",
    "shear_mean_pa": "mean wall shear stress (Pa)",
}
"""Columns that are drawn, from top to bottom, with their labels."""


@dataclass(frozen=True)
class BranchLine:
    """Values along a branch.

    Attributes
    ----------
    branch : its number.
    start, stop : names of the places between which it lies.
    way_mm : (n,), way from the inlet.
    values : by column of :data:`SHOWN`, each (n,); not a number where the file has none.
    """

    branch: str
    start: str
    stop: str
    way_mm: NDArray[np.float64]
    values: dict[str, NDArray[np.float64]]


def read_centreline_profile(path: Path) -> list[BranchLine]:
    """Read ``centreline_flow.csv``.

    The file counts the way of each branch from its own start. Here a branch begins where the branch that leads to its
    start ends: way of a place = way of the start of the branch that leads there + the length of that branch. A branch
    whose start no other one leads to begins at 0; of several branches that lead to a place the first counts.

    Parameters
    ----------
    path : CSV with the columns branch, from, to, way_mm and others; values may be empty.

    Raises
    ------
    StageError
        If it is not such a file.
    """
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    try:
        groups: dict[str, list[dict[str, str]]] = {}
        for row in rows:
            groups.setdefault(row["branch"], []).append(row)
        ways = {branch: np.array([float(row["way_mm"]) for row in group]) for branch, group in groups.items()}
        columns = [key for key in SHOWN if rows and key in rows[0]]
        values = {
            branch: {key: np.array([float(row[key]) if row[key] else np.nan for row in group]) for key in columns}
            for branch, group in groups.items()
        }
        ends = {branch: (group[0]["from"], group[0]["to"]) for branch, group in groups.items()}
    except (KeyError, TypeError, ValueError) as error:
        raise StageError(
            f"{path}: cannot be read as values along the centreline ({error}); run postprocess again"
        ) from None
    begins = _begins(ends, {branch: float(way.max()) for branch, way in ways.items()})
    return [BranchLine(branch, *ends[branch], begins[branch] + ways[branch], values[branch]) for branch in groups]


def _begins(ends: dict[str, tuple[str, str]], lengths: dict[str, float]) -> dict[str, float]:
    """Way from the inlet to the start of each branch; in a loop, the way round that is found first."""
    leading = {stop: branch for branch, (_, stop) in reversed(ends.items())}
    found: dict[str, float] = {}

    def begin(branch: str, visited: frozenset[str]) -> float:
        if branch not in found:
            before = leading.get(ends[branch][0])
            found[branch] = (
                0.0 if before is None or before in visited else begin(before, visited | {before}) + lengths[before]
            )
        return found[branch]

    for branch in ends:
        begin(branch, frozenset((branch,)))
    return found
