# SPDX-License-Identifier: Apache-2.0
"""The file of a run at another flow: what it left of the openings, the sections and the branches, or why it failed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.files.json_file import read_json
from pipeline.haemodynamics.centreline_profile import Row
from pipeline.reduced.runs import Way
from solver.runtime.errors import StageError

FORMAT = "hemolattice run at another flow 1"
KEPT = ("branch", "way_mm", "area_mm2", "flow_ml_s", "pressure_pa", "total_pressure_pa")
"""What is kept of a section."""


@dataclass(frozen=True)
class OtherFlow:
    """A run at another flow.

    Attributes
    ----------
    factor : of the inflow, by that of the case.
    spacing_ratio : spacing of its lattice over that of the case.
    division : part by which outlets were given more and less of the flow than in the case; 0: as it comes.
    ways : the branches through which flow passes.
    openings : entries of ``indices.json``.
    sections : rows along the branches.
    unsteady : whether it fluctuates, and what was taken is its mean.
    failed : why there is nothing of it; none where there is.
    """

    factor: float
    spacing_ratio: float
    division: float = 0.0
    ways: tuple[Way, ...] = ()
    openings: tuple[Mapping[str, Any], ...] = ()
    sections: tuple[Row, ...] = ()
    unsteady: bool = False
    failed: str | None = None

    def write(self, path: Path) -> None:
        """Write the file."""
        values = {"format": FORMAT, **asdict(self), "sections": kept(self.sections)}
        path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def read(path: Path) -> "OtherFlow":
        """Read a file of :meth:`write`.

        Raises
        ------
        StageError
            If it is of another kind.
        """
        values = read_json(path)
        if values.pop("format", None) != FORMAT:
            raise StageError(f"{path}: not the file of a run at another flow; run the stage that makes it again")
        ways = tuple(Way(**each) for each in values.pop("ways"))
        sections = tuple(values.pop("sections"))
        return OtherFlow(**values | {"ways": ways, "sections": sections, "openings": tuple(values["openings"])})


def kept(rows: Sequence[Row]) -> list[Row]:
    """Rows of the sections of one vessel alone, with what is kept of them."""
    return [{key: row[key] for key in KEPT} for row in rows if np.isfinite(row["total_pressure_pa"])]
