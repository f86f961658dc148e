"""Fixtures that several test files share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_cases() -> Path:
    """Folder with real image data; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("HEMO_CASES", Path(__file__).parents[2] / "shared" / "cases"))
    if not folder.is_dir():
        pytest.skip(f"no real image data at {folder} (set HEMO_CASES)")
    return folder
