# SPDX-License-Identifier: Apache-2.0
"""Real image data, in a folder that may hold only some of it: what a test lacks skips it, and is named."""

import os
from pathlib import Path

import pytest

from solver.runtime.sources import ROOT


def place() -> Path:
    """Where real image data lies, if there is any."""
    return Path(os.environ.get("HEMO_CASES", ROOT.parent / "shared" / "cases"))


class RealCases:
    """The folder of real image data; ``cases / "head-arteries-mr/dicom"`` skips the test where that is absent.

    Parameters
    ----------
    root : the folder.
    """

    def __init__(self, root: Path):
        self.root = root

    def __truediv__(self, name: str) -> Path:
        path = self.root / name
        if not path.exists():
            pytest.skip(f"no {name} in {self.root} (set HEMO_CASES)")
        return path
