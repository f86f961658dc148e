# SPDX-License-Identifier: Apache-2.0
"""A plug-in of pytest that leaves the tests on real image data alone: ``pytest -p tests.support.only_real_cases``."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that ask for no real image data."""
    others = [item for item in items if "real_cases" not in getattr(item, "fixturenames", ())]
    items[:] = [item for item in items if "real_cases" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=others)
