# SPDX-License-Identifier: Apache-2.0
"""Networks of other programs, which the project does not hold: a test that needs one is skipped where it is absent."""

import os
from pathlib import Path

import pytest

from solver.runtime.sources import ROOT


def reference_network(name: str) -> Path:
    """A file of the folder, such as ``openbf/cca.yaml``."""
    folder = Path(os.environ.get("HEMO_NETWORKS", ROOT.parent / "shared" / "networks"))
    if not (folder / name).exists():
        pytest.skip(f"no {name} in {folder} (set HEMO_NETWORKS)")
    return folder / name
