# SPDX-License-Identifier: Apache-2.0
"""The file of a member: what was drawn, its figures, and the shear stress on its wall; or why it failed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from solver.runtime.errors import StageError

Floats = NDArray[np.float64]

FORMAT = "hemolattice-member-1"


@dataclass(frozen=True)
class Member:
    """What one member gave.

    Attributes
    ----------
    number : 0 is the case without a change.
    design : what all members of a design have in common, as JSON values: variables, ratio of the spacings, whether the
        wall varies along itself.
    drawn : (variables,), values of the variables.
    figures : by key; empty where it failed.
    arrays : values at the vertices of the case's wall by name, each (V,).
    failed : why there are no figures; none where there are.
    """

    number: int
    design: Mapping[str, Any]
    drawn: Floats
    figures: Mapping[str, float]
    arrays: Mapping[str, NDArray[np.float32]]
    failed: str | None = None

    def write(self, path: Path) -> None:
        """Write as HDF5."""
        facts = {"number": self.number, "design": self.design, "figures": self.figures, "failed": self.failed}
        with h5py.File(path, "w") as file:
            file.attrs["format"] = FORMAT
            file.attrs["facts"] = json.dumps(facts)
            file["drawn"] = self.drawn
            for name, values in self.arrays.items():
                file.create_dataset(f"wall/{name}", data=values, compression="gzip")

    @staticmethod
    def read(path: Path) -> "Member":
        """Read a file written by :meth:`write`.

        Raises
        ------
        StageError
            If it is not such a file.
        """
        try:
            with h5py.File(path, "r") as file:
                if file.attrs["format"] != FORMAT:
                    raise KeyError(file.attrs["format"])
                facts = json.loads(file.attrs["facts"])
                arrays = {name: values[:] for name, values in file.get("wall", {}).items()}
                return Member(drawn=file["drawn"][:], arrays=arrays, **facts)
        except (OSError, KeyError, ValueError, TypeError) as error:
            raise StageError(f"{path}: not the file of a member ({error}); run it again") from None
